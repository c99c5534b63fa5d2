/* The results of all variants: medians over the rounds. Pure functions. */
#ifndef PIPETRAIN_COMPARISON_H
#define PIPETRAIN_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/compare/axes.h"
#include "tools/lib/trial/trial_round.h"

enum measure {
    MEASURE_SPEED,              /* images/s over wall time, after warm-up */
    MEASURE_SPEED_UP,           /* that, divided by the first variant's in the same round */
    MEASURE_MEAN, MEASURE_UNCERTAINTY, MEASURE_JITTER,          /* tools/lib/run/step_stats.h */
    MEASURE_P50, MEASURE_P90, MEASURE_P99,                      /* of the step times, ms */
    MEASURE_INPUT_WAIT, MEASURE_EXPOSED_COPY, MEASURE_FORWARD, MEASURE_BACKWARD,        /* shares of the towers' time */
    MEASURE_EXPOSED_REDUCTION, MEASURE_UPDATE,
    MEASURE_OTHERS, MEASURE_STOLEN,     /* shares of the cores' time: other programs, the host of a virtual machine */
    /* NAN for synthetic input, and unless all trials trained on the same number of samples: */
    MEASURE_LOSS, MEASURE_ACCURACY, MEASURE_VALIDATION_LOSS,
    MEASURE_COUNT
};

struct comparison {
    const struct axes *axes;    /* lent */
    const char *config_path;
    double seconds;             /* 0 = the steps decide */
    uint64_t steps;             /* 0 = the time decides */
    uint32_t variants, rounds;
    struct trial_result *results;       /* [round][variant] */
};

/* "images_per_second", as in CSV and JSON. */
const char *measure_name(enum measure measure);
double comparison_value(const struct comparison *comparison, uint32_t variant, uint32_t round, enum measure measure);
struct spread comparison_spread(const struct comparison *comparison, uint32_t variant, enum measure measure);
const struct trial_result *comparison_result(const struct comparison *comparison, uint32_t variant, uint32_t round);
/* Speed-up / (towers / the first variant's towers); NAN if it has as many towers as the first variant. */
double comparison_efficiency(const struct comparison *comparison, uint32_t variant);
/* Do all variants have a validation loss? */
bool comparison_has_validation(const struct comparison *comparison);
/* Are the trials limited by steps, and did all train on the same number of samples? */
bool comparison_has_equal_samples(const struct comparison *comparison);

#endif
