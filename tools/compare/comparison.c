/* Medians, speed-ups and efficiencies of the variants. */
#include "tools/compare/comparison.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bool is_learned(const struct metric *metric)
{
    return (metric->places & IN_LEARNED) != 0;
}

/* Metrics of learning (loss, accuracy) come last. */
const char *compared_name(size_t index)
{
    for (int learned = 0; learned < 2; learned++)
        for (const struct metric *metric = metric_table; metric->help != NULL; metric++) {
            if (metric->compared == NULL || is_learned(metric) != learned)
                continue;
            if (index-- == 0)
                return metric->compared;
            if (strcmp(metric->compared, COMPARED_SPEED) == 0 && index-- == 0)
                return COMPARED_SPEED_UP;
        }
    return NULL;
}

/* For the speed-up, the metric from which it is computed: the speed. */
static const struct metric *find_metric(const char *name)
{
    const struct metric *metric = metric_table;
    if (strcmp(name, COMPARED_SPEED_UP) == 0)
        name = COMPARED_SPEED;
    while (metric->help != NULL && (metric->compared == NULL || strcmp(metric->compared, name) != 0))
        metric++;
    assert(metric->help != NULL);
    return metric;
}

const struct trial_result *comparison_result(const struct comparison *comparison, uint32_t variant, uint32_t round)
{
    return &comparison->results[(size_t)round * comparison->variants + variant];
}

bool comparison_has_equal_samples(const struct comparison *comparison)
{
    for (uint32_t v = 0; v < comparison->variants; v++)
        for (uint32_t r = 0; r < comparison->rounds; r++)
            if (comparison_result(comparison, v, r)->values.images != comparison->results->values.images)
                return false;
    return comparison->steps > 0;
}

double comparison_value(const struct comparison *comparison, uint32_t variant, uint32_t round, const char *name)
{
    const struct metric *const metric = find_metric(name);
    const struct trial_result *const result = comparison_result(comparison, variant, round);
    const struct trial_result *const first = comparison_result(comparison, 0, round);
    if (is_learned(metric) && (result->is_synthetic || !comparison_has_equal_samples(comparison)))
        return NAN;
    const double value = metric_get(metric, &result->values);
    return strcmp(name, COMPARED_SPEED_UP) == 0 ? value / metric_get(metric, &first->values) : value;
}

struct spread comparison_spread(const struct comparison *comparison, uint32_t variant, const char *name)
{
    double values[TRIAL_ROUNDS_MAX];
    for (uint32_t r = 0; r < comparison->rounds; r++)
        values[r] = comparison_value(comparison, variant, r, name);
    return spread_of(values, comparison->rounds);
}

double comparison_efficiency(const struct comparison *comparison, uint32_t variant)
{
    const double first = (double)comparison_result(comparison, 0, 0)->towers;
    const double towers = (double)comparison_result(comparison, variant, 0)->towers;
    return towers == first ? NAN : comparison_spread(comparison, variant, COMPARED_SPEED_UP).median * first / towers;
}

bool comparison_has_validation(const struct comparison *comparison)
{
    bool has = true;
    for (uint32_t v = 0; v < comparison->variants; v++)
        has = has && isfinite(comparison_spread(comparison, v, "validation_loss").median);
    return has;
}

const char *comparison_judged_by(const struct comparison *comparison)
{
    static const char *const names[BEST_BY_COUNT] = {
        [BEST_BY_BALANCED_ACCURACY] = "validation_balanced_accuracy",
        [BEST_BY_MACRO_PRECISION] = "validation_macro_precision",
        [BEST_BY_MACRO_RECALL] = "validation_macro_recall",
        [BEST_BY_MACRO_F1] = "validation_macro_f1",
        [BEST_BY_WEIGHTED_PRECISION] = "validation_weighted_precision",
        [BEST_BY_WEIGHTED_F1] = "validation_weighted_f1",
    };
    const char *const name = names[comparison->best_by];
    for (uint32_t v = 0; v < comparison->variants && name != NULL; v++)
        if (!isfinite(comparison_spread(comparison, v, name).median))
            return NULL;
    return name;
}
