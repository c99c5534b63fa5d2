/* Statistics of steps: how full the queues were, how fast and how even the steps were. Pure functions; allocate
 * nothing. */
#ifndef PIPETRAIN_STEP_STATS_H
#define PIPETRAIN_STEP_STATS_H

#include <stdint.h>

#include "formats/json.h"
#include "tools/lib/config/options.h"

/* ---- fill of a queue ---- */

/* How often a queue had 0, 1, ... batches when one was taken from it. A queue found empty made its consumer wait; one
 * that is always found full is deeper than necessary. */
struct fill { uint64_t takes, found[OPTIONS_DEPTH_MAX + 1]; };

/* Over all towers: the rings on the host, from which feeders take, and the slots on the devices, from which towers
 * take. */
struct queue_fills { struct fill ring, slots; };

/* All 0 without takes. */
struct fill_use {
    uint32_t least, median;     /* batches; the lower of two medians */
    double mean;
    double empty;               /* share of takes that found none */
};

/* One take, which found so many batches. */
void fill_add(struct fill *fill, uint32_t batches);
struct fill_use fill_use(const struct fill *fill);

/* ---- speed ---- */

/* Images per second, as tf_cnn_benchmarks prints them: "images/sec: MEAN +/- UNCERTAINTY (jitter = JITTER)". MEAN is
 * all images over all wall time. With t[i] the time of a step and s[i] = images / t[i] its speed, UNCERTAINTY = MEAN
 * times the standard deviation of t / mean of t / sqrt(n): about what tf_cnn_benchmarks prints, the standard deviation
 * of s / sqrt(n), but without that a very short step outweighs all others. JITTER = 1.4826 times the median of |s[i] -
 * median of s|. */
struct speeds { double mean, uncertainty, jitter; };

/* Of steps of `images` images each and their times, shortest first; `mean` is passed through. The uncertainty is NAN
 * for fewer than two steps, the jitter without a step or where one took no time. */
struct speeds speeds_of(double mean, double images, const double *sorted_ms, uint64_t count);

/* ---- histogram of step times ---- */

/* Bins of equal ratios, the same for all runs, so that histograms of several runs can be compared bin by bin: from 10
 * ns, shorter than any step, to 11 days. */
#define STEP_HISTOGRAM_PER_DECADE 100
#define STEP_HISTOGRAM_FIRST (-5 * STEP_HISTOGRAM_PER_DECADE)
#define STEP_HISTOGRAM_BINS (14 * STEP_HISTOGRAM_PER_DECADE)

/* Bin i begins at 10^(k / 100) ms with k = STEP_HISTOGRAM_FIRST + i. */
struct step_histogram { uint64_t counts[STEP_HISTOGRAM_BINS]; };

/* A step of so many milliseconds; beyond either end it counts in the last bin there. */
void step_histogram_add(struct step_histogram *histogram, double ms);
/* {"per_decade":100,"first":k,"counts":[...]}, from the first to the last count that is not 0, on one line. */
void step_histogram_write(const struct step_histogram *histogram, struct json *line);

#endif
