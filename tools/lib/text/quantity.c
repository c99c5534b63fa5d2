/* Parses a number, an optional blank, and a unit; durations are one or more of these. */
#include "tools/lib/text/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "stage/text/decimal.h"

#define BLANKS " \t"

struct unit { const char *name; double factor; };

static const struct unit sizes[] = {
    { "", 1 },          { "B", 1 },            { "byte", 1 },           { "bytes", 1 },
    { "KiB", 1024 },    { "MiB", 1048576 },    { "GiB", 1073741824 },   { "TiB", 1099511627776 },
    { "K", 1024 },      { "M", 1048576 },      { "G", 1073741824 },     { "T", 1099511627776 },
    { "kB", 1e3 },      { "MB", 1e6 },         { "GB", 1e9 },           { "TB", 1e12 },     { NULL, 0 },
};
static const struct unit times[] = {
    { "ms", 1e-3 },     { "millisecond", 1e-3 }, { "milliseconds", 1e-3 }, { "s", 1 },     { "sec", 1 },
    { "secs", 1 },      { "second", 1 },       { "seconds", 1 },        { "m", 60 },        { "min", 60 },
    { "mins", 60 },     { "minute", 60 },      { "minutes", 60 },       { "h", 3600 },      { "hr", 3600 },
    { "hrs", 3600 },    { "hour", 3600 },      { "hours", 3600 },       { "d", 86400 },     { "day", 86400 },
    { "days", 86400 },  { NULL, 0 },
};

/* The factor of the unit with this name; 0: there is none. */
static double find_factor(const struct unit *units, const char *name, size_t bytes)
{
    while (units->name != NULL && (strlen(units->name) != bytes || strncasecmp(units->name, name, bytes) != 0))
        units++;
    return units->factor;
}

/* The end of a number without a sign; NULL if the text does not begin with one. */
static const char *number_end(const char *text)
{
    return isdigit((unsigned char)*text) ? decimal_end(text) : NULL;
}

/* Parse whole bytes without rounding, if they fit into 64 bits. */
static int whole_bytes(const char *text, uint64_t factor, uint64_t *bytes_out)
{
    uint64_t number;
    return decimal_u64_start(text, &number) == NULL || __builtin_mul_overflow(number, factor, bytes_out) ? -ERANGE : 0;
}

int quantity_bytes(const char *text, uint64_t *bytes_out)
{
    const char *const end = number_end(text);
    if (end == NULL)
        return -EINVAL;
    const char *const unit = end + strspn(end, BLANKS);
    const double factor = *unit == '\0' && unit > end ? 0 : find_factor(sizes, unit, strlen(unit));
    if (factor == 0)
        return -EINVAL;
    uint64_t bytes;
    if (decimal_integer_end(text) == end) {
        const int rc = whole_bytes(text, (uint64_t)factor, &bytes);
        *bytes_out = rc == 0 ? bytes : *bytes_out;
        return rc;
    }
    const double product = decimal_read(text) * factor;
    if (factor == 1 && product != floor(product))
        return -EINVAL;
    if (!(product < 0x1p64))
        return -ERANGE;
    *bytes_out = (uint64_t)product;
    return 0;
}

/* Add the term at *at, whose unit has to be smaller than *factor; *at and *factor become those after the term. */
static int add_term(const char **at, double *factor, double *seconds)
{
    const char *const end = number_end(*at);
    if (end == NULL)
        return -EINVAL;
    const char *const unit = end + strspn(end, BLANKS);
    size_t bytes = 0;
    while (isalpha((unsigned char)unit[bytes]))
        bytes++;
    const double found = find_factor(times, unit, bytes);
    if (found == 0 || found >= *factor)
        return -EINVAL;
    *seconds += decimal_read(*at) * found;
    *factor = found;
    *at = unit + bytes;
    return 0;
}

int quantity_seconds(const char *text, double *seconds_out)
{
    const char *const end = number_end(text), *at = text;
    const bool is_bare = end != NULL && *end == '\0';
    double seconds = is_bare ? decimal_read(text) : 0, factor = INFINITY;
    while (!is_bare && (at == text || *at != '\0')) {
        at += at == text ? 0 : strspn(at, BLANKS);
        const int rc = add_term(&at, &factor, &seconds);
        if (rc != 0)
            return rc;
    }
    if (!(seconds <= QUANTITY_SECONDS_MAX))
        return -ERANGE;
    *seconds_out = seconds;
    return 0;
}

/* Rounding of products is tolerated: 1.1 hours are 3960 seconds. */
int quantity_whole_seconds(const char *text, uint64_t *seconds_out)
{
    double seconds;
    const int rc = quantity_seconds(text, &seconds);
    if (rc != 0)
        return rc;
    if (fabs(seconds - round(seconds)) > 1e-6)
        return -EDOM;
    *seconds_out = (uint64_t)round(seconds);
    return 0;
}
