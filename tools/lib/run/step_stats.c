/* Statistics of steps: fill, speed, histogram. */
#include "tools/lib/run/step_stats.h"

#include <assert.h>
#include <math.h>

/* ---- fill of a queue ---- */

void fill_add(struct fill *fill, uint32_t batches)
{
    assert(batches <= OPTIONS_DEPTH_MAX);
    fill->takes++;
    fill->found[batches]++;
}

/* The smallest n such that more than `takes` takes found n batches or fewer. */
static uint32_t quantile(const struct fill *fill, uint64_t takes)
{
    uint64_t seen = 0;
    for (uint32_t batches = 0; batches <= OPTIONS_DEPTH_MAX; batches++) {
        seen += fill->found[batches];
        if (seen > takes)
            return batches;
    }
    return 0;
}

struct fill_use fill_use(const struct fill *fill)
{
    if (fill->takes == 0)
        return (struct fill_use){ 0 };
    uint64_t sum = 0;
    for (uint32_t batches = 0; batches <= OPTIONS_DEPTH_MAX; batches++)
        sum += batches * fill->found[batches];
    return (struct fill_use){
        .least = quantile(fill, 0),
        .median = quantile(fill, (fill->takes - 1) / 2),
        .mean = (double)sum / (double)fill->takes,
        .empty = (double)fill->found[0] / (double)fill->takes,
    };
}

/* ---- speed ---- */

/* The ratio of standard deviation and median absolute deviation of a normal distribution. */
#define DEVIATIONS 1.4826

/* The speed of the i-th slowest step. */
static double speed(double images, const double *sorted_ms, uint64_t count, uint64_t i)
{
    return images * 1e3 / sorted_ms[count - 1 - i];
}

/* The median of the absolute deviations from the median. Towards both ends of the sorted steps the deviations increase,
 * so merging both sides gives them in order. */
static double median_deviation(double images, const double *sorted_ms, uint64_t count)
{
    const uint64_t upper = count / 2, lower = (count - 1) / 2;
    const double median = (speed(images, sorted_ms, count, lower) + speed(images, sorted_ms, count, upper)) / 2;
    uint64_t below = upper, above = upper;      /* the next steps are below - 1 and above */
    double last = 0, one_before = 0;
    for (uint64_t i = 0; i <= upper; i++) {
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

/* ---- histogram of step times ---- */

void step_histogram_add(struct step_histogram *histogram, double ms)
{
    const double place = ms > 0 ? floor(log10(ms) * STEP_HISTOGRAM_PER_DECADE) - STEP_HISTOGRAM_FIRST : 0;
    const double last = STEP_HISTOGRAM_BINS - 1;
    histogram->counts[(uint32_t)(place < 0 ? 0 : place > last ? last : place)]++;
}

void step_histogram_write(const struct step_histogram *histogram, struct json *line)
{
    uint32_t first = 0, end = STEP_HISTOGRAM_BINS;
    while (first < end && histogram->counts[first] == 0)
        first++;
    while (end > first && histogram->counts[end - 1] == 0)
        end--;
    json_open_object(line, NULL);
    json_u64(line, "per_decade", STEP_HISTOGRAM_PER_DECADE);
    json_double(line, "first", first < end ? STEP_HISTOGRAM_FIRST + (double)first : 0);
    json_open_array(line, "counts");
    for (uint32_t i = first; i < end; i++)
        json_u64(line, NULL, histogram->counts[i]);
    json_close_array(line);
    json_close_object(line);
}
