/* What records say about their classes beside lists of names: right, wrong, or something else. */
#include <stdio.h>
#include <string.h>

#include "formats/example.h"
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
        struct class_text_tally tally = { .wrong = 0 };
        uint8_t payload[256];
        open_texts(&texts, &names, cases[i].list);
        const size_t bytes = write_record(cases[i].synset, cases[i].text, payload, sizeof(payload));
        class_texts_compare(&texts, 7, cases[i].class, payload, bytes, &tally);
        if (tally.right != (cases[i].verdict > 0) || tally.wrong != (cases[i].verdict < 0))
            fail_msg("case %zu: right %d, wrong %d", i, (int)tally.right, (int)tally.wrong);
        class_texts_close(&texts);
        class_names_release(&names);
    }
}

TEST(tallies_joined_in_any_order_have_the_first_wrong_record)
{
    struct class_texts texts;
    struct class_names names;
    struct class_text_tally tallies[3] = { { .wrong = 0 }, { .wrong = 0 }, { .wrong = 0 } };
    static const char *const said[] = { "ant", "ant", "sea lion", "crane2", "ant" };
    open_texts(&texts, &names, animals);
    for (uint64_t i = 0; i < 15; i++) {
        uint8_t payload[128];
        const size_t bytes = write_record(NULL, said[i % 5], payload, sizeof(payload));
        class_texts_compare(&texts, i, 0, payload, bytes, &tallies[(14 - i) % 3]);
    }
    for (size_t first = 0; first < 3; first++) {
        char text[512];
        struct class_text_tally all = { .wrong = 0 };
        for (size_t i = 0; i < 3; i++)
            class_text_tally_join(&all, &tallies[(first + i) % 3]);
        assert_true(all.right == 9 && all.wrong == 6 && all.record == 2);
        assert_false(class_text_tally_contradicts(&all));
        class_text_tally_describe(&all, &texts, 0, "names.txt", "a: record 2", text, sizeof(text));
        assert_string_equal(text, "label 0 is ant in names.txt, but sea lion in a: record 2 (6 of 15 records name another "
                                  "class than their label)");
    }
    class_texts_close(&texts);
    class_names_release(&names);
}

TESTS_MAIN(NULL, NULL)
