/* Step times, counted. Used by main, when a run has ended. */
#include "tools/run/summary/step_histogram.h"

#include <math.h>

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
