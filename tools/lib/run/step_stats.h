/* Statistics of steps: the fill of queues, and speed and variation of steps. Pure functions; allocate nothing. */
#ifndef PIPETRAIN_STEP_STATS_H
#define PIPETRAIN_STEP_STATS_H

#include <stdint.h>

#include "formats/json.h"
#include "tools/lib/config/options.h"

/* ---- fill of a queue ---- */

/* For each n, how often a queue had n batches when one was taken from it. An empty queue made its consumer wait; a
 * queue that is always full is deeper than necessary. */
struct fill { uint64_t takes, found[OPTIONS_DEPTH_MAX + 1]; };

/* Fills over all towers: of the rings on the host, from which feeders take batches, and of the slots on the devices,
 * from which towers take them. */
struct queue_fills { struct fill ring, slots; };

/* A summary of a fill; all 0 without takes. */
struct fill_use {
    uint32_t least, median;     /* in batches; of two medians the lower one */
    double mean;
    double empty;               /* share of takes that found an empty queue */
};

/* Add a take that found this number of batches. */
void fill_add(struct fill *fill, uint32_t batches);
struct fill_use fill_use(const struct fill *fill);

/* ---- speed ---- */

/* Images per second, as tf_cnn_benchmarks prints them: "images/sec: MEAN +/- UNCERTAINTY (jitter = JITTER)". MEAN is
 * all images over all wall time. With t[i] the time of a step and s[i] = images / t[i] its speed, UNCERTAINTY = MEAN
 * times the standard deviation of t / mean of t / sqrt(n): about what tf_cnn_benchmarks prints, the standard deviation
 * of s / sqrt(n), but without that a very short step outweighs all others. JITTER = 1.4826 times the median of |s[i] -
 * median of s|. */
struct speeds { double mean, uncertainty, jitter; };

/* The speeds of steps with `images` images each, from their times in ascending order; `mean` is copied. The uncertainty
 * is NAN for fewer than two steps, the jitter without a step or if a step took no time. */
struct speeds speeds_of(double mean, double images, const double *sorted_ms, uint64_t count);

/* ---- histogram of step times ---- */

/* The limits of bins have equal ratios and are the same in all runs, so that histograms of several runs can be compared
 * bin by bin. They range from 10 ns, shorter than any step, to 11 days. */
#define STEP_HISTOGRAM_PER_DECADE 100
#define STEP_HISTOGRAM_FIRST (-5 * STEP_HISTOGRAM_PER_DECADE)
#define STEP_HISTOGRAM_BINS (14 * STEP_HISTOGRAM_PER_DECADE)

/* Bin i begins at 10^(k / 100) ms with k = STEP_HISTOGRAM_FIRST + i. */
struct step_histogram { uint64_t counts[STEP_HISTOGRAM_BINS]; };

/* Add a step of `ms` milliseconds; outside the range it is counted in the first or last bin. */
void step_histogram_add(struct step_histogram *histogram, double ms);
/* Write {"per_decade":100,"first":k,"counts":[...]} on one line, from the first to the last count that is not 0. */
void step_histogram_write(const struct step_histogram *histogram, struct json *line);

#endif
