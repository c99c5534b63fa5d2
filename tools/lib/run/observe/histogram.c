/* Makes two passes over the numbers: one for the range, one for the counts. Called by tensorboard.c. */
#include "tools/lib/run/observe/histogram.h"

#include <float.h>
#include <math.h>

static void find_sums(struct histogram *histogram, const float *floats, size_t count, double factor)
{
    *histogram = (struct histogram){ .least = DBL_MAX, .most = -DBL_MAX };
    for (size_t i = 0; i < count; i++) {
        const double number = (double)floats[i] * factor;
        if (!isfinite(number))
            continue;
        histogram->count++;
        histogram->least = fmin(histogram->least, number);
        histogram->most = fmax(histogram->most, number);
        histogram->sum += number;
        histogram->squares += number * number;
    }
    if (histogram->count == 0)
        histogram->least = histogram->most = 0;
}

/* Set the upper ends of the buckets; the last one is exactly the maximum. */
static void set_limits(struct histogram *histogram)
{
    const double width = (histogram->most - histogram->least) / HISTOGRAM_BUCKETS;
    histogram->buckets = width > 0 ? HISTOGRAM_BUCKETS : 1;
    for (uint32_t i = 0; i < histogram->buckets; i++)
        histogram->limits[i] = histogram->least + (i + 1) * width;
    histogram->limits[histogram->buckets - 1] = histogram->most;
}

/* The bucket of a number. Rounding of the division may give a neighbouring one, so the limits decide. */
static uint32_t bucket_of(const struct histogram *histogram, double number)
{
    const double width = (histogram->most - histogram->least) / histogram->buckets;
    const double place = width > 0 ? (number - histogram->least) / width : 0;
    uint32_t bucket = place < histogram->buckets - 1 ? (uint32_t)place : histogram->buckets - 1;
    while (bucket > 0 && number <= histogram->limits[bucket - 1])
        bucket--;
    while (bucket + 1 < histogram->buckets && number > histogram->limits[bucket])
        bucket++;
    return bucket;
}

void histogram_count(struct histogram *histogram, const float *floats, size_t count, double factor)
{
    find_sums(histogram, floats, count, factor);
    set_limits(histogram);
    for (size_t i = 0; i < count; i++) {
        const double number = (double)floats[i] * factor;
        if (isfinite(number))
            histogram->counts[bucket_of(histogram, number)]++;
    }
}
