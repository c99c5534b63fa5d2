/* Tests of sizes and durations as people write them. */
#include "tools/lib/text/quantity.h"

#include <errno.h>
#include <stdio.h>

#include "tests/helpers/test.h"

#define KIB UINT64_C(1024)

TEST(sizes_are_bytes_or_have_a_unit_in_any_case)
{
    static const struct { const char *names; uint64_t factor; } units[] = {
        { "B", 1 }, { "b", 1 }, { "bytes", 1 }, { "KiB", KIB }, { "kib", KIB }, { "K", KIB }, { "k", KIB },
        { "MiB", KIB * KIB }, { "mib", KIB * KIB }, { "M", KIB * KIB }, { "GiB", KIB * KIB * KIB },
        { "g", KIB * KIB * KIB }, { "TiB", KIB * KIB * KIB * KIB }, { "T", KIB * KIB * KIB * KIB }, { "kB", 1000 },
        { "KB", 1000 }, { "MB", 1000000 }, { "mb", 1000000 }, { "GB", 1000000000 }, { "TB", UINT64_C(1000000000000) },
    };
    static const char *const between[] = { "", " ", "  ", "\t" };
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        for (size_t j = 0; j < sizeof(between) / sizeof(*between); j++) {
            char text[32];
            uint64_t bytes = 9;
            snprintf(text, sizeof(text), "12%s%s", between[j], units[i].names);
            assert_int_equal(quantity_bytes(text, &bytes), 0);
            assert_true(bytes == 12 * units[i].factor);
            snprintf(text, sizeof(text), "1.5%s%s", between[j], units[i].names);
            assert_int_equal(quantity_bytes(text, &bytes), units[i].factor == 1 ? -EINVAL : 0);
            assert_true(bytes == (units[i].factor == 1 ? 12 : units[i].factor * 3 / 2));
        }
}

TEST(sizes_that_are_none_or_do_not_fit_leave_the_value)
{
    static const struct { const char *text; int rc; uint64_t bytes; } rows[] = {
        { "0", 0, 0 }, { "5", 0, 5 }, { "18446744073709551615", 0, UINT64_MAX }, { "1e3", 0, 1000 },
        { "16777215TiB", 0, UINT64_C(16777215) << 40 }, { "0.5 KiB", 0, 512 }, { "1.1 KiB", 0, 1126 },
        { "16777216TiB", -ERANGE, 0 }, { "18446744073709551616", -ERANGE, 0 }, { "1e99 GB", -ERANGE, 0 },
        { "1e999", -ERANGE, 0 }, { "16777216.5 TiB", -ERANGE, 0 }, { "16777216.0 TiB", -ERANGE, 0 },
        { "", -EINVAL, 0 }, { "MiB", -EINVAL, 0 }, { "-1", -EINVAL, 0 }, { "+1", -EINVAL, 0 }, { "1,5 GB", -EINVAL, 0 },
        { "1 MiB ", -EINVAL, 0 }, { "1 ", -EINVAL, 0 }, { " 1", -EINVAL, 0 }, { "1.5", -EINVAL, 0 },
        { "0x10", -EINVAL, 0 }, { "nan", -EINVAL, 0 }, { "inf", -EINVAL, 0 }, { "1 MiB 2 KiB", -EINVAL, 0 },
        { "1 Mbit", -EINVAL, 0 }, { "1 PB", -EINVAL, 0 }, { "1s", -EINVAL, 0 }, { "1 Mi", -EINVAL, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t bytes = 9;
        assert_int_equal(quantity_bytes(rows[i].text, &bytes), rows[i].rc);
        assert_true(bytes == (rows[i].rc == 0 ? rows[i].bytes : 9));
    }
}

TEST(durations_are_seconds_or_have_units)
{
    static const struct { const char *text; double seconds; } rows[] = {
        { "0", 0 }, { "90", 90 }, { "0.5", 0.5 }, { "5s", 5 }, { "5 s", 5 }, { "5 sec", 5 }, { "5 second", 5 },
        { "5 Seconds", 5 }, { "1 second", 1 }, { "2m", 120 }, { "2 min", 120 }, { "2 minutes", 120 }, { "2MIN", 120 },
        { "1 hour", 3600 }, { "1.5 h", 5400 }, { "1.5hours", 5400 }, { "2 hrs", 7200 }, { "1 d", 86400 },
        { "2 days", 172800 }, { "250 ms", 0.25 }, { "1h30m", 5400 }, { "1h 30m", 5400 }, { "1 h 30 min", 5400 },
        { "1 hour 30 minutes", 5400 }, { "1d2h3m4s", 93784 }, { "1 min 0.5 s", 60.5 }, { "90 minutes", 5400 },
        { "1e3 s", 1000 }, { "2\th", 7200 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        double seconds = -1;
        assert_int_equal(quantity_seconds(rows[i].text, &seconds), 0);
        assert_true(seconds > rows[i].seconds - 1e-9 && seconds < rows[i].seconds + 1e-9);
    }
}

TEST(durations_that_are_none_leave_the_value)
{
    static const struct { const char *text; int rc; } rows[] = {
        { "", -EINVAL }, { "s", -EINVAL }, { "-1 s", -EINVAL }, { "+1 s", -EINVAL }, { "5 steps", -EINVAL },
        { "2 hours ", -EINVAL }, { " 2 h", -EINVAL }, { "2 ", -EINVAL }, { "two hours", -EINVAL }, { "1:30", -EINVAL },
        { "1h30", -EINVAL }, { "30m1h", -EINVAL }, { "1h1h", -EINVAL }, { "1h -5m", -EINVAL }, { "1,5 h", -EINVAL },
        { "nan", -EINVAL }, { "inf", -EINVAL }, { "0x10", -EINVAL }, { "5 s x", -EINVAL }, { "5 weeks", -EINVAL },
        { "1e13", -ERANGE }, { "1e999 s", -ERANGE }, { "99999999999999999999 h", -ERANGE },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        double seconds = -1;
        assert_int_equal(quantity_seconds(rows[i].text, &seconds), rows[i].rc);
        assert_true(seconds == -1);
    }
}

TEST(whole_seconds_are_exact)
{
    static const struct { const char *text; int rc; uint64_t seconds; } rows[] = {
        { "1.1 h", 0, 3960 }, { "0.1 min", 0, 6 }, { "2000 ms", 0, 2 }, { "1e12", 0, UINT64_C(1000000000000) },
        { "1.5", -EDOM, 0 }, { "250 ms", -EDOM, 0 }, { "0.01 min", -EDOM, 0 }, { "x", -EINVAL, 0 }, { "2e12", -ERANGE, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        uint64_t seconds = 9;
        assert_int_equal(quantity_whole_seconds(rows[i].text, &seconds), rows[i].rc);
        assert_true(seconds == (rows[i].rc == 0 ? rows[i].seconds : 9));
    }
}

TESTS_MAIN(NULL, NULL)
