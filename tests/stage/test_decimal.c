/* Tests of numbers and sizes in texts. */
#include <errno.h>
#include <string.h>

#include "stage/text/decimal.h"
#include "tests/helpers/test.h"

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

TESTS_MAIN(NULL, NULL)
