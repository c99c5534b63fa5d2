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
    static const char *const colons[] = { "a:b", "0:x" };
    expect_names("a:b\n0:x\n", 2, colons);
}

TEST(numbered_lines_name_the_classes_of_their_numbers)
{
    static const char *const three[] = { "roses", "a: daisy", "" };
    expect_names("0:roses\n1:a: daisy\n2:\n", 3, three);
    static const char *const gap[] = { "", "one", "", "three" };
    expect_names("3:three\n1:one\n", 4, gap);
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
