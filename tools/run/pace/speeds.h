/* How fast and how evenly a run went, in the words of tf_cnn_benchmarks: "images/sec: MEAN +/- UNCERTAINTY (jitter =
 * JITTER)". MEAN is all images over all wall time. With t[i] the time of a step and s[i] = images / t[i] its speed,
 * UNCERTAINTY = MEAN times the standard deviation of t / mean of t / sqrt(n): about what tf_cnn_benchmarks prints, the
 * standard deviation of s / sqrt(n), but a step that takes hardly any time does not outweigh all others.
 * JITTER = 1.4826 times the median of |s[i] - median of s|. */
#ifndef PIPETRAIN_SPEEDS_H
#define PIPETRAIN_SPEEDS_H

#include <stdint.h>

struct speeds { double mean, uncertainty, jitter; };    /* images a second */

/* Of steps of `images` images each and their times, shortest first; `mean` is taken as it is. The uncertainty is NAN
 * of fewer than two steps, the jitter without a step or where one took no time. Allocates nothing. */
struct speeds speeds_of(double mean, double images, const double *sorted_ms, uint64_t count);

#endif
