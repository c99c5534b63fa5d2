/* Numbers for people. */
#include "tools/config/number.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

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
