/* Reading report.trace_steps. */
#include "tools/config/trace_steps.h"

#include <errno.h>
#include <string.h>

#define STEP_DIGITS 18          /* what a uint64_t surely holds */

/* The whole number of `digits` digits at `text`; 0 when it is none, or too long. */
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
