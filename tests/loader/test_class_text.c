/* What records say about their classes beside lists of names: right, wrong, or something else. */
#include <stdio.h>
#include <string.h>

#include "formats/example.h"
#include "loader/class_census.h"
#include "loader/class_text.h"
#include "tests/helpers/test.h"

static size_t write_record(const char *synset, const char *text, uint8_t *out, size_t room)
{
    struct example_value values[2];
    size_t count = 0;
    if (synset != NULL)
        values[count++] = (struct example_value){ .name = "image/class/synset", .kind = FEATURE_BYTES, .bytes = synset,
                                                  .byte_count = strlen(synset) };
    if (text != NULL)
        values[count++] = (struct example_value){ .name = "image/class/text", .kind = FEATURE_BYTES, .bytes = text,
                                                  .byte_count = strlen(text) };
    assert_true(example_size(values, count) <= room);
    return example_write(values, count, out);
}

static void open_texts(struct class_texts *texts, struct class_names *names, const char *list)
{
    char problem[64];
    assert_int_equal(class_names_read(names, list, strlen(list), problem, sizeof(problem)), 0);
    assert_int_equal(class_texts_open(texts, names), 0);
}

static const char animals[] = "ant\nSea_lion\nkit fox, Vulpes macrotis\nmaillot\nmaillot, tank suit\ncrane\ncrane2\n\n";
static const char nested[] = "female\nmale\nPNEUMONIA\nNO_PNEUMONIA\n1\n11\ncat\ncaterpillar\n";
static const char synsets[] = "n01440764\nn01443537\nn01484850\n";

TEST(only_the_name_of_another_class_is_wrong)
{
    static const struct { const char *list; int64_t class; const char *synset, *text; int verdict; } cases[] = {
        { animals, 0, NULL, "ant", 1 },
        { animals, 0, NULL, "Ant", 1 },
        { animals, 0, NULL, "ant, emmet, pismire", 1 },
        { animals, 0, NULL, "emmet", 0 },
        { animals, 0, NULL, "sea lion", -1 },
        { animals, 0, NULL, "SEA-LION, seal", -1 },
        { animals, 0, NULL, "kit fox", -1 },
        { animals, 1, NULL, "sea lion", 1 },
        { animals, 2, NULL, "kit fox, Vulpes macrotis", 1 },
        { animals, 0, NULL, "seal, sea lion", 0 },
        { animals, 3, NULL, "maillot, tank suit", 1 },
        { animals, 4, NULL, "maillot", 1 },
        { animals, 0, NULL, "maillot", 0 },             /* two classes have it */
        { animals, 6, NULL, "crane", 0 },               /* records of both classes say it */
        { animals, 5, NULL, "crane", 1 },
        { animals, 5, NULL, "crane2", -1 },
        { nested, 0, NULL, "female", 1 },
        { nested, 1, NULL, "male", 1 },
        { nested, 0, NULL, "male", -1 },
        { nested, 1, NULL, "Female", -1 },
        { nested, 1, NULL, "male adult", 1 },
        { nested, 2, NULL, "NO PNEUMONIA", -1 },
        { nested, 3, NULL, "pneumonia", -1 },
        { nested, 4, NULL, "11", -1 },
        { nested, 5, NULL, "1", -1 },
        { nested, 6, NULL, "caterpillar", -1 },
        { nested, 7, NULL, "cat, tabby", -1 },
        { animals, 0, NULL, "", 0 },
        { animals, 0, NULL, NULL, 0 },
        { animals, 7, NULL, "ant", 0 },                 /* not in the list */
        { animals, -1, NULL, "ant", 0 },
        { synsets, 0, "n01440764", "tench, Tinca tinca", 1 },
        { synsets, 0, NULL, "tench, Tinca tinca", 0 },
        { synsets, 0, "n01443537", "goldfish", -1 },
        { synsets, 2, "n01440764", "n01484850", 1 },    /* one of them is right */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct class_texts texts;
        struct class_names names;
        struct class_text_counts counts = { .wrong = 0 };
        uint8_t payload[256];
        open_texts(&texts, &names, cases[i].list);
        const size_t bytes = write_record(cases[i].synset, cases[i].text, payload, sizeof(payload));
        class_texts_compare(&texts, 7, cases[i].class, payload, bytes, &counts);
        if (counts.right != (cases[i].verdict > 0) || counts.wrong != (cases[i].verdict < 0))
            fail_msg("case %zu: right %d, wrong %d", i, (int)counts.right, (int)counts.wrong);
        class_texts_close(&texts);
        class_names_release(&names);
    }
}

TEST(counts_joined_in_any_order_have_the_first_wrong_record)
{
    struct class_texts texts;
    struct class_names names;
    struct class_text_counts counts[3] = { { .wrong = 0 }, { .wrong = 0 }, { .wrong = 0 } };
    static const char *const said[] = { "ant", "ant", "sea lion", "crane2", "ant" };
    open_texts(&texts, &names, animals);
    for (uint64_t i = 0; i < 15; i++) {
        uint8_t payload[128];
        const size_t bytes = write_record(NULL, said[i % 5], payload, sizeof(payload));
        class_texts_compare(&texts, i, 0, payload, bytes, &counts[(14 - i) % 3]);
    }
    for (size_t first = 0; first < 3; first++) {
        char text[512];
        struct class_text_counts all = { .wrong = 0 };
        for (size_t i = 0; i < 3; i++)
            class_text_counts_join(&all, &counts[(first + i) % 3]);
        assert_true(all.right == 9 && all.wrong == 6 && all.record == 2);
        assert_false(class_text_counts_contradicts(&all));
        class_text_counts_describe(&all, &texts, 0, "names.txt", "a: record 2", text, sizeof(text));
        assert_string_equal(text,
                            "label 0 is ant in names.txt, but sea lion in a: record 2 (6 of 15 records name another "
                            "class than their label)");
    }
    class_texts_close(&texts);
    class_names_release(&names);
}

/* Labels with their texts, as in "0 ant 1 bee", and how often they are repeated. */
static void take_census(struct class_census *census, const char *records, unsigned times, unsigned begin)
{
    char text[CLASS_TEXT_BYTES];
    int label, used;
    unsigned count = 0;
    for (const char *at = records; sscanf(at, "%d %63s%n", &label, text, &used) == 2; at += used)
        count++;
    for (unsigned i = 0; i < times * count; i++) {
        uint8_t payload[128];
        const unsigned wanted = (i + begin) % count;
        const char *at = records;
        for (unsigned k = 0; k <= wanted; k++, at += used)
            assert_int_equal(sscanf(at, "%d %63s%n", &label, text, &used), 2);
        const size_t bytes = write_record(NULL, text, payload, sizeof(payload));
        assert_int_equal(class_census_add(census, wanted, label, payload, bytes), 0);
    }
}

TEST(records_of_a_label_say_the_same_class)
{
    enum told { NOTHING, LINE, REFUSAL };
    static const struct { const char *records; unsigned times; enum told told; } cases[] = {
        { "0 ant 1 bee 2 cat", 1, NOTHING },
        { "0 ant 1 bee 2 cat", 9, NOTHING },
        { "0 ant 0 Ant 0 ant,emmet 1 bee 1 honey_bee", 9, NOTHING },
        { "0 ant 1 bee 2 cat 0 bee 1 cat 2 ant", 1, REFUSAL },
        { "0 ant 1 bee 2 cat 0 bee 1 cat 2 ant", 9, REFUSAL },
        { "0 ant 1 bee 2 cat 0 ant 1 bee 2 cat 0 ant 1 bee 2 cat 0 cat 1 bee 2 ant", 9, LINE },
        { "0 ant 1 bee 0 ant 1 bee 0 ant 1 bee 0 ant 1 bee 0 ant 1 bee 0 ant 1 bee 0 bee 1 bee", 3, LINE },
        { "0 ant 1 bee 2 cat 0 dog 1 elk 2 fox", 9, LINE },
        { "0 ant 1 bee 2 cat 0 dog 1 bee 2 cat", 9, LINE },
        { "134 crane 517 crane 638 maillot 639 maillot", 9, NOTHING },
        { "0 a-1 0 a-2 0 a-3 0 a-4 0 a-5 1 b-1 1 b-2 1 b-3 1 b-4 1 b-5", 1, NOTHING },
        { "-1 ant -1 bee 5 bee 5 ant", 4, REFUSAL },
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        struct class_census parts[2] = { { .count = 0 }, { .count = 0 } };
        take_census(&parts[i % 2], cases[i / 2].records, cases[i / 2].times, (unsigned)i % 5);
        assert_int_equal(class_census_join(&parts[0], &parts[1]), 0);
        const struct class_census_result result = class_census_end(&parts[0]);
        const enum told told = result.is_contradiction ? REFUSAL : result.is_doubtful ? LINE : NOTHING;
        if (told != cases[i / 2].told)
            fail_msg("%s: %d: %d right, %d wrong, %d other", cases[i / 2].records, told, (int)result.right,
                     (int)result.wrong, (int)result.other);
        for (size_t k = 0; k < 2; k++)
            class_census_release(&parts[k]);
    }
}

TEST(a_census_names_the_label_and_both_records_whatever_their_order)
{
    for (unsigned begin = 0; begin < 6; begin++) {
        struct class_census census = { .count = 0 };
        char text[256];
        take_census(&census, "3 ant 4 bee 3 ant 4 bee 3 bee 4 ant", 2, begin);
        const struct class_census_result result = class_census_end(&census);
        assert_true(result.usual->record == 0 && result.strange->record == 4);
        class_census_describe(&result, "a: record 0", "b: record 4", text, sizeof(text));
        assert_string_equal(text,
                            "label 3 is ant in a: record 0, but bee in b: record 4 (4 of 12 records name another class "
                            "than most of their label)");
        class_census_release(&census);
    }
}

TEST(a_census_of_any_number_of_texts_is_whole_or_full)
{
    struct class_census census = { .count = 0 };
    uint8_t payload[128];
    for (unsigned i = 0; i < 70000; i++) {
        char text[16];
        snprintf(text, sizeof(text), "t%u", i);
        const size_t bytes = write_record(NULL, text, payload, sizeof(payload));
        assert_int_equal(class_census_add(&census, i, i % 100, payload, bytes), 0);
        assert_int_equal(census.count, i < 65536 ? i + 1 : 65536);
    }
    assert_true(census.is_full);
    assert_null(class_census_end(&census).strange);
    class_census_release(&census);
}

TESTS_MAIN(NULL, NULL)
