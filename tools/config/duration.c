/* Durations as people write them. */
#include "tools/config/duration.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "stage/text/decimal.h"

int64_t duration_unit(const char *text)
{
    static const struct { const char *name; int64_t seconds; } units[] = {
        { "steps", 0 },   { "step", 0 },       { "seconds", 1 },  { "second", 1 }, { "sec", 1 },   { "s", 1 },
        { "minutes", 60 }, { "minute", 60 },   { "min", 60 },     { "hours", 3600 }, { "hour", 3600 }, { "h", 3600 },
    };
    const char *const name = text + (*text == ' ');
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (strcmp(units[i].name, name) == 0)
            return units[i].seconds;
    return *text == '\0' ? 0 : -1;
}

uint64_t duration_seconds(const char *text)
{
    const char *const end = decimal_integer_end(text);
    const int64_t unit = end != NULL ? duration_unit(end) : -1;
    const int64_t number = unit > 0 ? strtoll(text, NULL, 10) : 0;
    return number > 0 && number <= DURATION_MAX_NUMBER ? (uint64_t)number * (uint64_t)unit : 0;
}
