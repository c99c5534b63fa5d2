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

#define STEP_DIGITS 18          /* always fit into a uint64_t */

/* The number of `digits` digits at `text`; 0 if it is invalid or too long. */
static uint64_t read_step(const char *text, size_t digits)
{
    uint64_t step = 0;
    for (size_t i = 0; i < digits && digits <= STEP_DIGITS; i++)
        step = step * 10 + (uint64_t)(text[i] - '0');
    return step;
}

int trace_steps_read(const char *text, struct trace_steps *steps_out)
{
    static const char digits[] = "0123456789";
    if (*text == '\0') {
        *steps_out = (struct trace_steps){ 0, 0 };
        return 0;
    }
    const size_t first_digits = strspn(text, digits);
    if (strncmp(text + first_digits, "..", 2) != 0)
        return -EINVAL;
    const char *const rest = text + first_digits + 2;
    const size_t last_digits = strspn(rest, digits);
    const struct trace_steps steps = { read_step(text, first_digits), read_step(rest, last_digits) };
    if (rest[last_digits] != '\0' || steps.first == 0 || steps.last < steps.first)
        return -EINVAL;
    *steps_out = steps;
    return 0;
}

#define DIGITS_MAX 9u

int histogram_steps_read(const char *text, struct histogram_steps *steps_out)
{
    const size_t count = strspn(text, "0123456789");
    const char *const unit = text + count;
    struct histogram_steps steps = { .each_epoch = strcmp(text, "epoch") == 0 };
    if (count > 0 && count <= DIGITS_MAX && (*unit == '\0' || strcmp(unit, " steps") == 0))
        steps.every = strtoull(text, NULL, 10);
    if (!steps.each_epoch && steps.every == 0 && *text != '\0' && strcmp(text, "none") != 0)
        return -EINVAL;
    *steps_out = steps;
    return 0;
}
