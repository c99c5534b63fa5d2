/* Converting decimal numbers to and from text. */
#include "stage/text/decimal.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHOLE_END 1e15     /* whole numbers below it are written without exponent */

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static const char *skip_digits(const char *text)
{
    while (is_digit(*text))
        text++;
    return text;
}

static const char *skip_sign(const char *text)
{
    return *text == '-' || *text == '+' ? text + 1 : text;
}

const char *decimal_integer_end(const char *text)
{
    const char *digits = skip_sign(text);
    return is_digit(*digits) ? skip_digits(digits) : NULL;
}

const char *decimal_end(const char *text)
{
    const char *digits = skip_sign(text);
    const char *end = skip_digits(digits);
    size_t digit_count = (size_t)(end - digits);
    if (*end == '.') {
        const char *fraction = end + 1;
        end = skip_digits(fraction);
        digit_count += (size_t)(end - fraction);
    }
    if (digit_count == 0)
        return NULL;
    if (*end == 'e' || *end == 'E')
        end = decimal_integer_end(end + 1);
    return end;
}

const char *decimal_u64_start(const char *text, uint64_t *number_out)
{
    uint64_t number = 0;
    if (!is_digit(*text))
        return NULL;
    for (; is_digit(*text); text++)
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number))
            return NULL;
    *number_out = number;
    return text;
}

bool decimal_u64(const char *text, uint64_t *number_out)
{
    uint64_t number;
    const char *const end = decimal_u64_start(text, &number);
    if (end == NULL || *end != '\0')
        return false;
    *number_out = number;
    return true;
}

double decimal_read(const char *text)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return strtod(text, NULL);
    const double value = strtod_l(text, NULL, plain);
    freelocale(plain);
    return value;
}

/* Switch the thread to the C locale. Returns the previous locale; without memory for the C locale nothing changes. */
static locale_t enter_plain(locale_t *plain_out)
{
    *plain_out = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return *plain_out == (locale_t)0 ? (locale_t)0 : uselocale(*plain_out);
}

static void leave_plain(locale_t plain, locale_t before)
{
    if (plain == (locale_t)0)
        return;
    uselocale(before);
    freelocale(plain);
}

void decimal_write(double value, char *text, size_t text_size)
{
    locale_t plain;
    const locale_t before = enter_plain(&plain);
    const bool is_whole = value > -WHOLE_END && value < WHOLE_END && value == (double)(int64_t)value;
    if (is_whole)
        snprintf(text, text_size, "%.0f", value);
    for (int digits = 1; digits <= 17 && !is_whole; digits++) {
        snprintf(text, text_size, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    leave_plain(plain, before);
}

void decimal_write_float(float value, char *text, size_t text_size)
{
    locale_t plain;
    const locale_t before = enter_plain(&plain);
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, text_size, "%.*g", digits, (double)value);
        if ((float)strtod(text, NULL) == value)
            break;
    }
    leave_plain(plain, before);
}
