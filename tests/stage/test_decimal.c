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

TEST(sizes_have_a_unit_or_are_bytes)
{
    static const struct { const char *text; int rc; uint64_t bytes; } rows[] = {
        { "0", 0, 0 }, { "5", 0, 5 }, { "5B", 0, 5 }, { "5 B", 0, 5 }, { "3KiB", 0, 3072 }, { "64 MiB", 0, 64u << 20 },
        { "2\tGiB", 0, UINT64_C(2) << 30 }, { "16777215TiB", 0, UINT64_C(16777215) << 40 },
        { "16777216TiB", -ERANGE, 0 }, { "18446744073709551616", -ERANGE, 0 },
        { "", -EINVAL, 0 }, { "MiB", -EINVAL, 0 }, { "-1", -EINVAL, 0 }, { "1.5GiB", -EINVAL, 0 }, { "1 MB", -EINVAL, 0 },
        { "1 MiB ", -EINVAL, 0 }, { "1mib", -EINVAL, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t bytes = 9;
        assert_int_equal(decimal_bytes(rows[i].text, &bytes), rows[i].rc);
        assert_true(bytes == (rows[i].rc == 0 ? rows[i].bytes : 9));
    }
}

TESTS_MAIN(NULL, NULL)
