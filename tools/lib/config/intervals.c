/* Ranges and intervals of steps. */
#include "tools/lib/config/intervals.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "stage/text/decimal.h"

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
