/* What the trials of all variants came to: medians over rounds. Pure functions. */
#ifndef PIPETRAIN_COMPARISON_H
#define PIPETRAIN_COMPARISON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/compare/axes.h"
#include "tools/trial/trial.h"

#define COMPARISON_ROUNDS_MAX 20u

enum measure {
    MEASURE_SPEED,              /* images a second: over wall time, after warm-up */
    MEASURE_SPEED_UP,           /* that, divided by the first variant's in the same round */
    MEASURE_MEAN, MEASURE_UNCERTAINTY, MEASURE_JITTER,          /* tools/run/pace/speeds.h */
    MEASURE_P50, MEASURE_P90, MEASURE_P99,                      /* of a step, ms */
    MEASURE_INPUT_WAIT, MEASURE_EXPOSED_COPY, MEASURE_FORWARD, MEASURE_BACKWARD,        /* shares of the towers' time */
    MEASURE_EXPOSED_REDUCTION, MEASURE_UPDATE,
    MEASURE_OTHERS, MEASURE_STOLEN,     /* shares of the cores' time: other programs; a virtual machine's host */
    /* NAN unless all trials saw as many samples, and of made-up ones: */
    MEASURE_LOSS, MEASURE_ACCURACY, MEASURE_VALIDATION_LOSS,
    MEASURE_COUNT
};

struct comparison {
    const struct axes *axes;    /* lent */
    const char *config_path;
    double seconds;             /* 0 = the steps decide */
    uint64_t steps;             /* 0 = the time decides */
    uint32_t variants, rounds;
    struct trial_result *results;       /* of `variants` x `rounds`, those of a variant behind each other */
};

/* Over rounds. All NAN where no round tells anything; a round that tells nothing counts for nothing. */
struct spread { double median, least, most; };
struct spread spread_of(const double *values, size_t count);

/* "images_per_second", as in CSV and JSON. */
const char *measure_name(enum measure measure);
double comparison_value(const struct comparison *comparison, uint32_t variant, uint32_t round, enum measure measure);
struct spread comparison_spread(const struct comparison *comparison, uint32_t variant, enum measure measure);
/* Of the variant's first trial. */
const struct trial_result *comparison_result(const struct comparison *comparison, uint32_t variant);
/* The speed-up divided by how many times the first variant's towers it has; NAN where it has as many. */
double comparison_efficiency(const struct comparison *comparison, uint32_t variant);
/* Do all variants have a loss of validation? */
bool comparison_has_validation(const struct comparison *comparison);
/* Was every trial to do so many steps, and did all see the same number of samples? */
bool comparison_has_equal_samples(const struct comparison *comparison);

#endif
