/* Speeds from step times. */
#include "tools/run/pace/speeds.h"

#include <math.h>

/* Of a normal distribution the median absolute deviation is the standard deviation divided by this. */
#define DEVIATIONS 1.4826

/* Of step i by speed, slowest first. */
static double speed(double images, const double *sorted_ms, uint64_t count, uint64_t i)
{
    return images * 1e3 / sorted_ms[count - 1 - i];
}

/* Deviations from the median grow outwards from it on both sides, so that they are met in order. */
static double median_deviation(double images, const double *sorted_ms, uint64_t count)
{
    const uint64_t upper = count / 2, lower = (count - 1) / 2;
    const double median = (speed(images, sorted_ms, count, lower) + speed(images, sorted_ms, count, upper)) / 2;
    uint64_t below = upper, above = upper;      /* the next ones: below - 1 and above */
    double last = 0, one_before = 0;
    for (uint64_t met = 0; met <= upper; met++) {
        const double down = below > 0 ? median - speed(images, sorted_ms, count, below - 1) : INFINITY;
        const double up = above < count ? speed(images, sorted_ms, count, above) - median : INFINITY;
        one_before = last;
        last = down < up ? down : up;
        if (down < up)
            below--;
        else
            above++;
    }
    return lower == upper ? last : (last + one_before) / 2;
}

struct speeds speeds_of(double mean, double images, const double *sorted_ms, uint64_t count)
{
    struct speeds speeds = { .mean = mean, .uncertainty = NAN, .jitter = NAN };
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += sorted_ms[i];
    const double n = (double)count;
    for (uint64_t i = 0; i < count; i++)
        squares += pow(sorted_ms[i] - sum / n, 2);
    if (count > 1 && sum > 0)
        speeds.uncertainty = mean * sqrt(squares / n) / (sum / n) / sqrt(n);
    if (count > 0 && sorted_ms[0] > 0)
        speeds.jitter = DEVIATIONS * median_deviation(images, sorted_ms, count);
    return speeds;
}
