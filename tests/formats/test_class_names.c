/* Lists of class names: both forms, names looked up, and what is no list. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/class_names.h"
#include "tests/helpers/test.h"

/* From a block of exactly the text's size. */
static int read_bytes(struct class_names *names, const char *text, size_t bytes)
{
    char problem[128] = "", *const exact = malloc(bytes > 0 ? bytes : 1);
    memcpy(exact, text, bytes);
    const int rc = class_names_read(names, exact, bytes, problem, sizeof(problem));
    free(exact);
    assert_true((rc == -EBADMSG) == (problem[0] != '\0'));
    return rc;
}

static void expect_names(const char *text, uint32_t count, const char *const *wanted)
{
    struct class_names names;
    assert_int_equal(read_bytes(&names, text, strlen(text)), 0);
    assert_int_equal(names.count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_string_equal(names.names[i], wanted[i]);
    class_names_release(&names);
}

TEST(lines_name_classes_in_their_order)
{
    static const char *const three[] = { "roses", "a daisy", "tulips" };
    expect_names("roses\na daisy\ntulips\n", 3, three);
    expect_names("roses\r\na daisy\r\ntulips", 3, three);
    expect_names("\nroses\n\n\na daisy\n\r\ntulips\n\n", 3, three);
    static const char *const numbered[] = { "phase 1", "stage 2" };
    expect_names("0:phase 1\n1:stage 2\n", 2, numbered);
    static const char *const colons[] = { "a:b", "0:x" };
    expect_names("a:b\n0:x\n", 2, colons);
}

TEST(other_formats_are_no_lists)
{
    static const char *const others[] = { "item {\n  id: 1\n  name: 'cat'\n}\n", "item{\n", "{\"0\": \"cat\"}", "{\n\"cat\": 0\n}\n",
                                          "[\"cat\", \"dog\"]", "[\n  \"cat\"\n]\n", "[ \"cat\" ]", "names:\n  0: cat\n",
        "# two animals\ncat\ndog\n", "#animals\ncat\ndog\n", "cat\n# and\ndog\n", "## animals\ncat\n", "// animals\ncat\n",
        "path: ../data\ntrain: images\nnc: 2\nnames: ['cat', 'dog']\n", "train: a\nnc: 2\n", "---\ncat\n",
        "names: [cat, dog]\n", "# YOLO\nnames:\n  0: cat\n", "# map\nitem {\n", "['cat', 'dog']", "[\n  'cat',\n]\n",
        "- cat\n- dog\n", "\"cat\"\n\"dog\"\n", "'cat',\n'dog'\n", "0,cat\n1,dog\n", "id,name\n0,cat\n1,dog\n",
        "label\tname\n0\tcat\n1\tdog\n", "17\tcat\n203\tdog\n", "n01440764\ttench\nn01443537\tgoldfish\n", "cat\t0\ndog\t1\n",
        "cat\ndog\tbark\n", "id name\n0 cat\n1 dog\n", "id name\n1 cat\n2 dog\n3 owl\n", "0;cat\n1;dog\n", "id|name\n0|cat\n1|dog\n",
        "owl: 2\ndog: 1\ncat: 0\n", "cat 0\ndog 1\n", "dog=2\ncat=1\n", "cat : 1\r\nowl : 3\r\ndog : 2\r\n",
        "cat,0\ndog, 1\n", "cat, dog, owl\n", "<!DOCTYPE html>\n", "<?xml version=\"1.0\"?>\n",
    };
    struct class_names names;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_int_equal(read_bytes(&names, others[i], strlen(others[i])), -EBADMSG);
    static const char *const two[] = { "[UNK]", "item" };
    expect_names("[UNK]\nitem\n", 2, two);
    static const char *const kept[][2] = {
        { "#love", "#fun" }, { "A", "#" }, { "tench, Tinca tinca", "goldfish, gold fish" }, { "names", "nc" }, { "item", "7,5" },
        { "'n' sync", "it's" }, { "1,3-butadiene", "water" }, { "<unk>", "-" }, { "path: a", "b - c" }, { "nc: x", "\"a\" or b" },
        { "cat\t", "\tdog" }, { "room", "0 gravity" }, { "character 0", "character 1" },
        { "digit=2", "digit=1" }, { "cat 1", "dog 1" }, { "Boeing 737", "Airbus 1" }, { "F1", "G2" }, { "cat 0", "dog" },
    };
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++) {
        char text[64];
        snprintf(text, sizeof(text), "%s\n%s\n", kept[i][0], kept[i][1]);
        expect_names(text, 2, kept[i]);
    }
}

TEST(a_byte_order_mark_is_no_part_of_a_name)
{
    static const char *const two[] = { "roses", "a daisy" };
    expect_names("\xef\xbb\xbfroses\na daisy\n", 2, two);
    expect_names("\xef\xbb\xbf" "1:a daisy\r\n0:roses\r\n", 2, two);
    expect_names("\xef\xbb\xbf" "0 roses\n1 a daisy\n", 2, two);
    static const char *const odd[] = { "\xef\xbb", "a\xef\xbb\xbf" };
    expect_names("\xef\xbb\na\xef\xbb\xbf\n", 2, odd);
    struct class_names names;
    assert_int_equal(read_bytes(&names, "\xef\xbb\xbf", 3), -EBADMSG);
}

TEST(numbered_lines_name_the_classes_of_their_numbers)
{
    static const char *const three[] = { "roses", "a: daisy", "" };
    expect_names("0:roses\n1:a: daisy\n2:\n", 3, three);
    static const char *const gap[] = { "", "one", "", "three" };
    expect_names("3:three\n1:one\n", 4, gap);
    expect_names("1: one\n3:  three\n", 4, gap);
    static const char *const mixed[] = { " one", "two" };
    expect_names("0: one\n1:two\n", 2, mixed);
}

TEST(a_number_that_no_class_has_belongs_to_the_name)
{
    static const char *const numbers[] = { "1048576:x", "4294967296:x", "99999999999999999999:x" };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        expect_names(numbers[i], 1, &numbers[i]);
    struct class_names names;
    assert_int_equal(read_bytes(&names, "1048575:last", 12), 0);
    assert_int_equal(names.count, CLASS_NAMES_MAX);
    assert_string_equal(names.names[CLASS_NAMES_MAX - 1], "last");
    class_names_release(&names);
}

TEST(a_blank_may_be_the_colon_where_only_names_are_left)
{
    static const char *const three[] = { "roses", "a daisy", "tulips" };
    expect_names("0 roses\n1 a daisy\n2 tulips\n", 3, three);
    expect_names("0\troses\r\n\n1\t a daisy\n2  tulips", 3, three);
    expect_names("00 roses\n01 a daisy\n02 tulips", 3, three);
    expect_names("2 tulips\n0 roses\n1 a daisy\n", 3, three);
    static const char *const from_one[] = { "", "roses", "a daisy", "tulips" };
    expect_names("1 roses\n2 a daisy\n3 tulips\n", 4, from_one);
    expect_names("3\ttulips\n1\troses\n2\ta daisy", 4, from_one);
    static const struct { const char *text, *names[3]; } kept[] = {
        { "0 people\n1 people\n2 people\n", { "0 people", "1 people", "2 people" } },
        { "1 cent\n2 cents\n5 cents\n", { "1 cent", "2 cents", "5 cents" } },
        { "500 Abarth\n3 Series\n911 Carrera\n", { "500 Abarth", "3 Series", "911 Carrera" } },
        { "0 cat\n1 dog\n1 owl\n", { "0 cat", "1 dog", "1 owl" } },
        { "0 cat\n1 dog\nowl\n", { "0 cat", "1 dog", "owl" } },
        { "0 cat\n1\n2 dog\n", { "0 cat", "1", "2 dog" } },
        { "0cat\n1dog\n2owl\n", { "0cat", "1dog", "2owl" } },
    };
    for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
        expect_names(kept[i].text, 3, kept[i].names);
}

TEST(a_list_may_begin_at_another_class)
{
    static const char *const list[] = { "background", "tench", "goldfish" };
    static const struct { int32_t shift; uint32_t count; const char *names[5]; } cases[] = {
        { 0, 3, { "background", "tench", "goldfish" } }, { -1, 2, { "tench", "goldfish" } },
        { -3, 0, { NULL } }, { -9, 0, { NULL } }, { 2, 5, { "", "", "background", "tench", "goldfish" } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct class_names names;
        uint32_t class;
        assert_int_equal(class_names_make(&names, list, 3, cases[i].shift), 0);
        assert_int_equal(names.count, cases[i].count);
        for (uint32_t c = 0; c < names.count; c++)
            assert_string_equal(names.names[c], cases[i].names[c]);
        if (names.count > 0) {
            assert_int_equal(class_names_find(&names, (const uint8_t *)"tench", 5, &class), 0);
            assert_int_equal(class, 1 + cases[i].shift);
        }
        class_names_release(&names);
    }
}

TEST(names_of_one_class_are_compared)
{
    static const struct { const char *one, *other; bool differ; } cases[] = {
        { "cat\ndog\n", "cat\ndog\n", false }, { "cat\ndog\n", "dog\ncat\n", true },
        { "cat\ndog\n", "cat\ndog\nowl\n", false }, { "cat\ndog\n", "cat\nowl\n", true },
        { "1:dog\n", "cat\ndog\n", false }, { "1:dog\n", "cat\nowl\n", true },
        { "cat\ndog\n", "Cat\ndog\n", true }, { "ant\ncat\ndog\n", "cat\ndog\n", true },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct class_names one, other;
        assert_int_equal(read_bytes(&one, cases[i].one, strlen(cases[i].one)), 0);
        assert_int_equal(read_bytes(&other, cases[i].other, strlen(cases[i].other)), 0);
        assert_int_equal(class_names_differ(&one, &other), cases[i].differ);
        assert_int_equal(class_names_differ(&other, &one), cases[i].differ);
        class_names_release(&one);
        class_names_release(&other);
    }
}

TEST(names_are_looked_up_bytewise)
{
    struct class_names names;
    char text[4096] = "";
    for (int i = 0; i < 200; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "n%d\n", i * 7919 % 1000);
    assert_int_equal(read_bytes(&names, text, strlen(text)), 0);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t class = 9999;
        assert_int_equal(class_names_find(&names, (const uint8_t *)names.names[i], strlen(names.names[i]), &class), 0);
        assert_int_equal(class, i);
    }
    uint32_t class;
    assert_int_equal(class_names_find(&names, (const uint8_t *)"n", 1, &class), -ENOENT);
    assert_int_equal(class_names_find(&names, (const uint8_t *)"N0", 2, &class), -ENOENT);
    assert_int_equal(class_names_find(&names, (const uint8_t *)"", 0, &class), -ENOENT);
    assert_int_equal(class_names_find(&names, (const uint8_t *)"n0\0", 3, &class), -ENOENT);
    class_names_release(&names);
}

TEST(a_name_of_two_classes_tells_neither)
{
    struct class_names names;
    uint32_t class;
    const char text[] = "crane\nmaillot\ncrane\n";
    assert_int_equal(read_bytes(&names, text, strlen(text)), 0);
    assert_int_equal(class_names_find(&names, (const uint8_t *)"crane", 5, &class), -ENOTUNIQ);
    assert_int_equal(class_names_find(&names, (const uint8_t *)"maillot", 7, &class), 0);
    assert_int_equal(class, 1);
    class_names_release(&names);
}

TEST(what_is_no_list_is_refused)
{
    struct class_names names;
    static const char *const bad[] = { "", "\n\n", "\r\n", "0:a\n1:b\n0:c\n" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(read_bytes(&names, bad[i], strlen(bad[i])), -EBADMSG);
    assert_int_equal(read_bytes(&names, "a\0b", 3), -EBADMSG);
    /* a number that is none of a class makes the lines names as they are */
    static const char *const line[] = { "99999999999:a" };
    expect_names("99999999999:a\n", 1, line);
}

TESTS_MAIN(NULL, NULL)
