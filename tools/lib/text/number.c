/* Format numbers for people. */
#include "tools/lib/text/number.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MOST 8           /* decimal places of a rate */
#define EXPONENT_DIGITS 3       /* decimal places before an exponent */

struct number number_grouped(uint64_t value)
{
    char digits[24];
    const int count = snprintf(digits, sizeof(digits), "%" PRIu64, value);
    struct number number;
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            number.text[at++] = ',';
        number.text[at++] = digits[i];
    }
    number.text[at] = '\0';
    return number;
}

int number_rate_digits(double rate)
{
    if (!(rate > 0) || rate >= 10)
        return 1;
    const int digits = 2 - (int)floor(log10(rate));
    return digits < DIGITS_MOST ? digits : DIGITS_MOST;
}

struct number number_rate(double rate)
{
    struct number number = { "-" };
    if (isfinite(rate) && rate >= 10 && rate < 1e18)
        return number_grouped((uint64_t)(rate + 0.5));
    if (isfinite(rate))
        snprintf(number.text, sizeof(number.text), rate < 10 ? "%.*f" : "%.*e", number_rate_digits(rate), rate);
    return number;
}

struct number number_cell(double value, int digits, const char *unit, int columns)
{
    struct number number = { "-" };
    int length = isfinite(value) ? INT_MAX : 0;
    for (int i = digits; i >= 0 && length > columns; i--)
        length = snprintf(number.text, sizeof(number.text), "%.*f%s", i, value, unit);
    for (int i = EXPONENT_DIGITS; i >= 0 && length > columns; i--)
        length = snprintf(number.text, sizeof(number.text), "%.*e%s", i, value, unit);
    return number;
}

struct number number_bytes(uint64_t bytes)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    struct number number;
    snprintf(number.text, sizeof(number.text), unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return number;
}

static const struct { const char *name; int64_t bytes; } size_units[] = {
    { "TiB", INT64_C(1) << 40 }, { "GiB", INT64_C(1) << 30 }, { "MiB", INT64_C(1) << 20 }, { "KiB", INT64_C(1) << 10 },
    { "", 1 },
};

struct number number_exact_bytes(int64_t bytes)
{
    struct number number;
    size_t i = 0;
    while (size_units[i].bytes > 1 && (bytes == 0 || bytes % size_units[i].bytes != 0))
        i++;
    if (size_units[i].bytes > 1)
        snprintf(number.text, sizeof(number.text), "%" PRId64 " %s", bytes / size_units[i].bytes, size_units[i].name);
    else
        snprintf(number.text, sizeof(number.text), "%" PRId64, bytes);
    return number;
}
