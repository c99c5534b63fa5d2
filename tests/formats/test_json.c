/* Tests of the JSON writer. What it writes is read back with jansson, a strict reader. */
#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "tests/helpers/test.h"

TEST(puts_commas_and_keys_where_they_belong)
{
    struct json json;

    json_init(&json, false);
    json_open_object(&json, NULL);
    json_quoted(&json, "name", "run");
    json_open_array(&json, "list");
    json_u64(&json, NULL, UINT64_MAX);
    json_double(&json, NULL, -1.5);
    json_open_object(&json, NULL);
    json_close_object(&json);
    json_close_array(&json);
    json_open_array(&json, "none");
    json_close_array(&json);
    json_close_object(&json);
    assert_string_equal(json_text(&json), "{\"name\":\"run\",\"list\":[18446744073709551615,-1.5,{}],"
                                          "\"none\":[]}");
    json_release(&json);
}

TEST(puts_one_member_a_line_when_indenting)
{
    struct json json;

    json_init(&json, true);
    json_open_object(&json, NULL);
    json_u64(&json, "a", 1);
    json_open_object(&json, "b");
    json_u64(&json, "c", 2);
    json_close_object(&json);
    json_open_object(&json, "d");
    json_close_object(&json);
    json_close_object(&json);
    assert_string_equal(json_text(&json), "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": 2\n  },\n  \"d\": {}\n}");
    json_release(&json);
}

static const char *one_double(struct json *json, double value)
{
    json_reset(json);
    json_double(json, NULL, value);
    return json_text(json);
}

TEST(writes_the_shortest_number_that_reads_back_equal)
{
    struct json json;
    uint64_t bits = 12345;

    json_init(&json, false);
    assert_string_equal(one_double(&json, 0.1), "0.1");
    assert_string_equal(one_double(&json, 0), "0");
    assert_string_equal(one_double(&json, -0.0), "-0");
    assert_string_equal(one_double(&json, 100), "1e+02");
    assert_string_equal(one_double(&json, 5e-324), "5e-324");
    assert_string_equal(one_double(&json, DBL_MAX), "1.7976931348623157e+308");
    assert_string_equal(one_double(&json, 1.0 / 3), "0.3333333333333333");
    for (int i = 0; i < 20000; i++) {
        double value;
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        memcpy(&value, &bits, sizeof(value));
        if (isfinite(value))
            assert_true(strtod(one_double(&json, value), NULL) == value);
    }
    json_release(&json);
}

TEST(writes_null_for_what_is_no_number)
{
    struct json json;

    json_init(&json, false);
    assert_string_equal(one_double(&json, NAN), "null");
    assert_string_equal(one_double(&json, INFINITY), "null");
    assert_string_equal(one_double(&json, -INFINITY), "null");
    json_release(&json);
}

TEST(writes_a_full_stop_in_any_locale)
{
    static const char *const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C.UTF-8" };
    struct json json;

    json_init(&json, false);
    for (size_t i = 0; i < sizeof(locales) / sizeof(locales[0]); i++) {
        if (setlocale(LC_NUMERIC, locales[i]) != NULL)
            assert_string_equal(one_double(&json, 2.5), "2.5");
    }
    setlocale(LC_NUMERIC, "C");
    json_release(&json);
}

static void expect_quoted(const char *value, const char *text)
{
    struct json json;

    json_init(&json, false);
    json_quoted(&json, NULL, value);
    assert_string_equal(json_text(&json), text);
    json_release(&json);
}

TEST(escapes_what_json_or_a_terminal_cannot_take)
{
    expect_quoted("plain /", "\"plain /\"");
    expect_quoted("a\"b\\c", "\"a\\\"b\\\\c\"");
    expect_quoted("\xe2\x80\xae\xe2\x81\xa6\xd8\x9c\xe2\x80\xa9", "\"\\u202e\\u2066\\u061c\\u2029\"");
    expect_quoted("\n\r\t\x01\x1b\x7f", "\"\\n\\r\\t\\u0001\\u001b\\u007f\"");
    expect_quoted("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    expect_quoted("\xc2\x9b", "\"\\u009b\"");
}

TEST(replaces_bytes_that_are_no_utf8)
{
    expect_quoted("a\xff" "b", "\"a\\ufffdb\"");
    expect_quoted("\xc3", "\"\\ufffd\"");
    expect_quoted("\xe2\x82", "\"\\ufffd\\ufffd\"");
    expect_quoted("\xc0\xaf", "\"\\ufffd\\ufffd\"");                    /* too long a form */
    expect_quoted("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"");         /* half a pair */
    expect_quoted("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

TEST(any_string_is_read_back_by_a_strict_reader)
{
    uint32_t word = 3;

    for (int round = 0; round < 3000; round++) {
        char value[24];
        struct json json;
        for (size_t i = 0; i < sizeof(value) - 1; i++) {
            word = word * 1664525 + 1013904223;
            value[i] = (char)((word >> 24) ? word >> 24 : 1);
        }
        value[sizeof(value) - 1] = '\0';
        json_init(&json, round % 2 == 0);
        json_open_object(&json, NULL);
        json_quoted(&json, value, value);
        json_close_object(&json);
        json_t *read = json_loads(json_text(&json), JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(read);
        assert_int_equal(json_object_size(read), 1);
        json_decref(read);
        json_release(&json);
    }
}

TEST(keeps_its_memory_from_line_to_line)
{
    struct json json;

    json_init(&json, false);
    json_quoted(&json, NULL, "a line that is long enough to need some memory of its own");
    const char *first = json_text(&json);
    json_reset(&json);
    assert_string_equal(json_text(&json), "");
    json_quoted(&json, NULL, "another");
    assert_ptr_equal(json_text(&json), first);
    json_release(&json);
    json_init(&json, false);
    assert_string_equal(json_text(&json), "");
    json_release(&json);
}

TEST(writes_floats_that_parse_to_the_same)
{
    static const float floats[] = { 0, -0.1f, 1.0f / 3, 16777216, 1.17549435e-38f, 3.40282347e38f, 1e-45f };
    for (size_t i = 0; i < sizeof(floats) / sizeof(floats[0]); i++) {
        struct json json;
        json_init(&json, false);
        json_float(&json, NULL, floats[i]);
        assert_true(strtof(json_text(&json), NULL) == floats[i]);
        json_release(&json);
    }
}

TESTS_MAIN(NULL, NULL)
