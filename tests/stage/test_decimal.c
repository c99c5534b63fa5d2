/* Tests of numbers and sizes in texts. */
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

TEST(whole_numbers_are_digits_and_nothing_else)
{
    static const struct { const char *text; uint64_t number; } good[] = {
        { "0", 0 }, { "007", 7 }, { "12345678901", 12345678901 }, { "18446744073709551615", UINT64_MAX },
    };
    static const char *const bad[] = { "", " 1", "1 ", "+1", "-1", "1.0", "0x10", "one", "18446744073709551616",
                                       "99999999999999999999999", "12,7" };
    uint64_t number = 3;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(decimal_u64(bad[i], &number));
    assert_int_equal(number, 3);
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_true(decimal_u64(good[i].text, &number));
        assert_true(number == good[i].number);
    }
}

TEST(whole_numbers_at_the_start_of_a_text_end_at_the_first_other_character)
{
    static const struct { const char *text; size_t digits; uint64_t number; } rows[] = {
        { "7", 1, 7 }, { "12 13", 2, 12 }, { "007..9", 3, 7 }, { "18446744073709551615,", 20, UINT64_MAX },
        { "", 0, 0 }, { " 1", 0, 0 }, { "+1", 0, 0 }, { "-1", 0, 0 }, { "x", 0, 0 }, { "18446744073709551616 ", 0, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t number = 0;
        const char *const end = decimal_u64_start(rows[i].text, &number);
        assert_ptr_equal(end, rows[i].digits > 0 ? rows[i].text + rows[i].digits : NULL);
        assert_true(number == rows[i].number);
    }
}

TEST(a_number_has_a_digit_and_ends_where_it_ends)
{
    static const struct { const char *text; size_t bytes; } rows[] = {
        { "7", 1 }, { "1.5", 3 }, { "1.", 2 }, { ".5", 2 }, { "-2.5e-3x", 7 }, { "+1E5 m", 4 }, { "1.2.3", 3 }, { "12,7", 2 },
        { "", 0 }, { ".", 0 }, { "+", 0 }, { "-.", 0 }, { "e5", 0 }, { ".e5", 0 }, { "1e", 0 }, { "1e+", 0 }, { " 1", 0 },
        { "x", 0 }, { "--1", 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_ptr_equal(decimal_end(rows[i].text), rows[i].bytes > 0 ? rows[i].text + rows[i].bytes : NULL);
}

/* Whole numbers aside: with one digit less it would be another number. */
static void assert_shortest(double value)
{
    char text[DECIMAL_SIZE], shorter[DECIMAL_SIZE];
    decimal_write(value, text, sizeof(text));
    assert_true(decimal_read(text) == value);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(shorter, sizeof(shorter), "%.*g", digits, value);
        if (strtod(shorter, NULL) == value)
            break;
    }
    assert_string_equal(text, shorter);
}

TEST(a_number_is_written_with_the_digits_that_it_needs)
{
    static const double values[] = { 0.1, 0.1 + 0.2, 1.0 / 3, 5e-324, DBL_MAX, DBL_MIN, -2.5, 1e15, 1e300, 123456.789 };
    const struct random_key key = random_key(5, 0, 0);
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        assert_shortest(values[i]);
    for (uint64_t i = 0; i < 1000; i++) {
        const uint64_t bits = random_u64(key, i);
        double value;
        memcpy(&value, &bits, sizeof(value));
        if (isfinite(value))
            assert_shortest(value);
    }
}

TEST(whole_numbers_below_1e15_have_all_digits)
{
    static const struct { double value; const char *text; } rows[] = {
        { 0, "0" }, { 100000, "100000" }, { 1e14, "100000000000000" }, { 999999999999999, "999999999999999" },
        { -999999999999999, "-999999999999999" }, { 1e15, "1e+15" }, { -1e15, "-1e+15" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[DECIMAL_SIZE];
        decimal_write(rows[i].value, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
    }
}

TEST(a_float_has_six_digits_or_those_that_it_needs)
{
    static const struct { float value; const char *text; } rows[] = {
        { 0.1f, "0.1" }, { 1.0f / 3, "0.33333334" }, { 16777215, "16777215" }, { FLT_MAX, "3.4028235e+38" }, { 1000000, "1e+06" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char text[DECIMAL_SIZE];
        decimal_write_float(rows[i].value, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
    }
}

TESTS_MAIN(NULL, NULL)
