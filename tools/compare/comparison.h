/* The results of all variants: medians over the rounds. Pure functions. */
#ifndef PIPETRAIN_COMPARISON_H
#define PIPETRAIN_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/compare/axes.h"
#include "tools/lib/config/price.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/trial/trial_round.h"

struct comparison {
    const struct axes *axes;    /* borrowed */
    const char *config_path;
    enum best_by best_by;       /* of the configuration */
    struct price price;         /* of the configuration */
    double seconds;             /* 0: trials are limited by `steps` */
    uint64_t steps;             /* 0: trials are limited by `seconds` */
    uint32_t variants, rounds;
    struct trial_result *results;       /* [round][variant] */
};

/* The names of the compared metrics, in the order of CSV and JSON; NULL after the last. They are those of
 * metric_table, and COMPARED_SPEED_UP. */
const char *compared_name(size_t index);
#define COMPARED_SPEED "images_per_second"
#define COMPARED_SPEED_UP "speed_up"    /* the speed divided by that of the first variant in the same round */

/* The value of a metric in one trial. Metrics of learning (loss, accuracy) are NAN for synthetic input, and unless
 * all trials trained on the same number of samples. */
double comparison_value(const struct comparison *comparison, uint32_t variant, uint32_t round, const char *name);
struct spread comparison_spread(const struct comparison *comparison, uint32_t variant, const char *name);
const struct trial_result *comparison_result(const struct comparison *comparison, uint32_t variant, uint32_t round);
/* The parallel efficiency: speed-up / (towers / towers of the first variant); NAN if the two numbers of towers are
 * equal. */
double comparison_efficiency(const struct comparison *comparison, uint32_t variant);
/* Do all variants have a validation loss? */
bool comparison_has_validation(const struct comparison *comparison);
/* The name of the metric that train.best_by names, if all variants have it; NULL if it is accuracy or loss, which are
 * printed of every comparison. */
const char *comparison_judged_by(const struct comparison *comparison);
/* Are the trials limited by steps, and did all train on the same number of samples? */
bool comparison_has_equal_samples(const struct comparison *comparison);

#endif
