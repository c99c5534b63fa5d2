/* How evenly a run went, in the words of tf_cnn_benchmarks: "images/sec: MEAN +/- UNCERTAINTY (jitter = JITTER)". With
 * t[i] the time of a step and s[i] = images / t[i] its speed, MEAN = images / mean of t, UNCERTAINTY = the standard
 * deviation of s (over n, not n - 1) / sqrt(n), JITTER = 1.4826 times the median of |s[i] - median of s|. */
#ifndef PIPETRAIN_SPEEDS_H
#define PIPETRAIN_SPEEDS_H

#include <stdint.h>

struct speeds { double mean, uncertainty, jitter; };    /* images a second */

/* Of steps of `images` images each and their times, shortest first. All NAN without a step, or where one took no time.
 * Allocates nothing. */
struct speeds speeds_of(double images, const double *sorted_ms, uint64_t count);

#endif
