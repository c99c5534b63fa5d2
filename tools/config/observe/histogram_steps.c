/* Reading report.histograms. */
#include "tools/config/observe/histogram_steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS_MAX 9u

int histogram_steps_read(const char *text, struct histogram_steps *steps_out)
{
    const size_t digits = strspn(text, "0123456789");
    const char *const unit = text + digits;
    struct histogram_steps steps = { .each_epoch = strcmp(text, "epoch") == 0 };
    if (digits > 0 && digits <= DIGITS_MAX && (*unit == '\0' || strcmp(unit, " steps") == 0))
        steps.every = strtoull(text, NULL, 10);
    if (!steps.each_epoch && steps.every == 0 && *text != '\0' && strcmp(text, "none") != 0)
        return -EINVAL;
    *steps_out = steps;
    return 0;
}
