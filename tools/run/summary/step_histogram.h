/* How often steps took how long, in bins of equal ratios: the same for all runs, so that those of several are
 * compared bin by bin. */
#ifndef PIPETRAIN_STEP_HISTOGRAM_H
#define PIPETRAIN_STEP_HISTOGRAM_H

#include <stdint.h>

#include "formats/json.h"

/* From 10 ns, which no step is faster than, to 11 days. */
#define STEP_HISTOGRAM_PER_DECADE 100
#define STEP_HISTOGRAM_FIRST (-5 * STEP_HISTOGRAM_PER_DECADE)
#define STEP_HISTOGRAM_BINS (14 * STEP_HISTOGRAM_PER_DECADE)

struct step_histogram {
    uint64_t counts[STEP_HISTOGRAM_BINS];   /* of 10^(k / 100) ms and more, k = STEP_HISTOGRAM_FIRST + place */
};

/* A step of so many milliseconds; what is over either end counts there. */
void step_histogram_add(struct step_histogram *histogram, double ms);
/* {"per_decade":100,"first":k,"counts":[...]}, from the first to the last that is not 0, as one line. */
void step_histogram_write(const struct step_histogram *histogram, struct json *line);

#endif
