/* Runs a trial for each variant, and computes statistics over the rounds. */
#include "tools/lib/trial/trial_round.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage/log.h"
#include "tools/lib/text/number.h"

double trial_input_wait(const struct trial_result *result)
{
    return result->values.share.input_wait + result->values.share.exposed_copy;
}

static void log_speed(const char *label, const char *name, const struct trial_result *result)
{
    char speed[128] = "no step after warm-up: the runs have to be longer";
    if (isfinite(result->values.images_per_second))
        snprintf(speed, sizeof(speed), "%s images/s, %" PRIu64 " steps, towers wait %.1f %% for input",
                 number_rate(result->values.images_per_second).text, result->values.run.steps,
                 100 * trial_input_wait(result));
    log_message(LOG_RUN, "%s%s%s: %s", label, *label != '\0' ? ", " : "", name, speed);
}

int trial_round(const struct trial_spec *spec, const char *label, const struct variant *variants, uint32_t count,
                struct trial_result *results_out, uint32_t *last_out)
{
    struct trial_spec of_variant = *spec;
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        of_variant.own = variants[i].own;
        of_variant.own_count = variants[i].own_count;
        *last_out = i;
        rc = trial_run(&of_variant, &results_out[i]);
        if (rc == 0)
            log_speed(label, variants[i].name, &results_out[i]);
    }
    return rc;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct spread spread_of(const double *values, size_t count)
{
    double finite[TRIAL_ROUNDS_MAX];
    size_t n = 0;
    assert(count <= TRIAL_ROUNDS_MAX);
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            finite[n++] = values[i];
    if (n == 0)
        return (struct spread){ NAN, NAN, NAN };
    qsort(finite, n, sizeof(*finite), compare_doubles);
    return (struct spread){ (finite[(n - 1) / 2] + finite[n / 2]) / 2, finite[0], finite[n - 1] };
}
