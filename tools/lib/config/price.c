/* Prices. */
#include "tools/lib/config/price.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "stage/text/decimal.h"
#include "stage/text/utf8.h"

/* The end of the amount at the start of `text`. NULL: there is none. An exponent is none, because "3E" may be meant as
 * a currency. */
static const char *amount_end(const char *text)
{
    const char *at = text;
    while (isdigit((unsigned char)*at))
        at++;
    if (at == text)
        return NULL;
    if (*at != '.')
        return at;
    const char *const point = at++;
    while (isdigit((unsigned char)*at))
        at++;
    return at > point + 1 ? at : NULL;
}

/* Blanks beyond ASCII, which are invisible in a message. */
static bool is_wide_blank(uint32_t code)
{
    return code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200d) || code == 0x202f || code == 0x205f ||
           code == 0x3000 || code == 0xfeff;
}

/* The length of the character of a currency at the start of `text`; 0 if it is none. */
static size_t currency_character(const char *text)
{
    const size_t bytes = *text != '\0' ? utf8_character_bytes(text, strlen(text)) : 0;
    if (bytes == 1)
        return isalpha((unsigned char)*text) || *text == '$';
    return bytes > 1 && !utf8_is_control(text, bytes) && !is_wide_blank(utf8_code_point(text, bytes)) ? bytes : 0;
}

/* The end of the currency at the start of `text`. NULL: there is none. */
static const char *currency_end(const char *text)
{
    const char *at = text;
    size_t count = 0;
    for (size_t bytes; (bytes = currency_character(at)) > 0; at += bytes)
        count++;
    return count > 0 && count <= PRICE_CURRENCY_MAX ? at : NULL;
}

int price_read(const char *text, struct price *price_out)
{
    const char *(*const ends[2])(const char *) = { amount_end, currency_end };
    const int first = !isdigit((unsigned char)*text);
    const char *start[2], *end[2];
    struct price price = { .amount = 0 };
    if (*text == '\0') {
        *price_out = price;
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        const int part = i == 0 ? first : !first;
        start[part] = text;
        end[part] = ends[part](text);
        if (end[part] == NULL)
            return -EINVAL;
        text = end[part];
        text += i == 0 && *text == ' ';
    }
    price.amount = *text == '\0' ? decimal_read(start[0]) : 0;
    if (!(price.amount > 0 && price.amount <= PRICE_AMOUNT_MAX))
        return -EINVAL;
    memcpy(price.currency, start[1], (size_t)(end[1] - start[1]));
    *price_out = price;
    return 0;
}

struct price_text price_text(double amount, const char *currency)
{
    struct price_text out;
    if (!isfinite(amount))
        snprintf(out.text, sizeof(out.text), "-");
    else if (amount < 1)
        snprintf(out.text, sizeof(out.text), "%.3g %s", amount, currency);
    else
        snprintf(out.text, sizeof(out.text), "%.2f %s", amount, currency);
    return out;
}
