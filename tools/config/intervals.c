/* Durations, ranges and intervals of steps. */
#include "tools/config/intervals.h"

#include <errno.h>
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

#define STEP_MAX UINT64_C(999999999999999999)

int trace_steps_read(const char *text, struct trace_steps *steps_out)
{
    struct trace_steps steps = { 0, 0 };
    if (*text == '\0') {
        *steps_out = steps;
        return 0;
    }
    const char *end = decimal_u64_start(text, &steps.first);
    if (end == NULL || strncmp(end, "..", 2) != 0)
        return -EINVAL;
    end = decimal_u64_start(end + 2, &steps.last);
    if (end == NULL || *end != '\0' || steps.first == 0 || steps.last < steps.first || steps.last > STEP_MAX)
        return -EINVAL;
    *steps_out = steps;
    return 0;
}

#define EVERY_MAX 999999999u

int histogram_steps_read(const char *text, struct histogram_steps *steps_out)
{
    struct histogram_steps steps = { .each_epoch = strcmp(text, "epoch") == 0 };
    uint64_t every;
    const char *const unit = decimal_u64_start(text, &every);
    if (unit != NULL && every <= EVERY_MAX && (*unit == '\0' || strcmp(unit, " steps") == 0))
        steps.every = every;
    if (!steps.each_epoch && steps.every == 0 && *text != '\0' && strcmp(text, "none") != 0)
        return -EINVAL;
    *steps_out = steps;
    return 0;
}
