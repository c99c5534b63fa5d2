/* Medians and ratios. */
#include "tools/compare/comparison.h"

#include <math.h>

#define FIELD(name) offsetof(struct trial_result, name)

/* The field of a result; a speed-up is computed from the speed. */
static const struct { const char *name; size_t offset; } measures[MEASURE_COUNT] = {
    [MEASURE_SPEED] = { "images_per_second", FIELD(images_per_second) },
    [MEASURE_SPEED_UP] = { "speed_up", FIELD(images_per_second) },
    [MEASURE_MEAN] = { "mean", FIELD(speed.mean) },
    [MEASURE_UNCERTAINTY] = { "uncertainty", FIELD(speed.uncertainty) },
    [MEASURE_JITTER] = { "jitter", FIELD(speed.jitter) },
    [MEASURE_P50] = { "step_p50_ms", FIELD(step.p50_ms) },
    [MEASURE_P90] = { "step_p90_ms", FIELD(step.p90_ms) },
    [MEASURE_P99] = { "step_p99_ms", FIELD(step.p99_ms) },
    [MEASURE_INPUT_WAIT] = { "input_wait", FIELD(fractions.input_wait) },
    [MEASURE_EXPOSED_COPY] = { "exposed_copy", FIELD(fractions.exposed_copy) },
    [MEASURE_FORWARD] = { "forward", FIELD(fractions.forward) },
    [MEASURE_BACKWARD] = { "backward", FIELD(fractions.backward) },
    [MEASURE_EXPOSED_REDUCTION] = { "exposed_reduction", FIELD(fractions.exposed_reduction) },
    [MEASURE_UPDATE] = { "update", FIELD(fractions.update) },
    [MEASURE_OTHERS] = { "others", FIELD(others) },
    [MEASURE_STOLEN] = { "stolen", FIELD(stolen) },
    [MEASURE_LOSS] = { "loss", FIELD(loss) },
    [MEASURE_ACCURACY] = { "validation_accuracy", FIELD(validation_accuracy) },
    [MEASURE_VALIDATION_LOSS] = { "validation_loss", FIELD(validation_loss) },
};

const char *measure_name(enum measure measure)
{
    return measures[measure].name;
}

const struct trial_result *comparison_result(const struct comparison *comparison, uint32_t variant, uint32_t round)
{
    return &comparison->results[(size_t)round * comparison->variants + variant];
}

bool comparison_has_equal_samples(const struct comparison *comparison)
{
    for (uint32_t v = 0; v < comparison->variants; v++)
        for (uint32_t r = 0; r < comparison->rounds; r++)
            if (comparison_result(comparison, v, r)->images != comparison->results->images)
                return false;
    return comparison->steps > 0;
}

static double measured(const struct comparison *comparison, uint32_t variant, uint32_t round, enum measure measure)
{
    return *(const double *)((const char *)comparison_result(comparison, variant, round) + measures[measure].offset);
}

double comparison_value(const struct comparison *comparison, uint32_t variant, uint32_t round, enum measure measure)
{
    const bool is_synthetic = comparison_result(comparison, variant, round)->is_synthetic;
    const bool has_loss = comparison_has_equal_samples(comparison) && !is_synthetic;
    if (measure >= MEASURE_LOSS && !has_loss)
        return NAN;
    const double value = measured(comparison, variant, round, measure);
    return measure == MEASURE_SPEED_UP ? value / measured(comparison, 0, round, measure) : value;
}

struct spread comparison_spread(const struct comparison *comparison, uint32_t variant, enum measure measure)
{
    double values[TRIAL_ROUNDS_MAX];
    for (uint32_t r = 0; r < comparison->rounds; r++)
        values[r] = comparison_value(comparison, variant, r, measure);
    return spread_of(values, comparison->rounds);
}

double comparison_efficiency(const struct comparison *comparison, uint32_t variant)
{
    const double first = (double)comparison_result(comparison, 0, 0)->towers;
    const double towers = (double)comparison_result(comparison, variant, 0)->towers;
    return towers == first ? NAN : comparison_spread(comparison, variant, MEASURE_SPEED_UP).median * first / towers;
}

bool comparison_has_validation(const struct comparison *comparison)
{
    bool has = true;
    for (uint32_t v = 0; v < comparison->variants; v++)
        has = has && isfinite(comparison_spread(comparison, v, MEASURE_VALIDATION_LOSS).median);
    return has;
}
