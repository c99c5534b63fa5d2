/* Sums of pixels. Pure; called by the writing threads, each for its own files. */
#include "tools/convert/pixel_sums.h"

#include <math.h>

void pixel_sums_add(struct pixel_sums *sums, const uint8_t *pixels, size_t bytes, uint32_t channels)
{
    for (uint32_t c = 0; c < channels; c++) {
        uint64_t sum = 0, squares = 0;
        for (size_t i = c; i < bytes; i += channels) {
            sum += pixels[i];
            squares += (uint32_t)pixels[i] * pixels[i];
        }
        sums->sum[c] += sum;
        sums->squares[c] += squares;
    }
    sums->count += bytes / channels;
}

void pixel_sums_join(struct pixel_sums *sums, const struct pixel_sums *more)
{
    for (uint32_t c = 0; c < PIXEL_CHANNELS_MAX; c++) {
        sums->sum[c] += more->sum[c];
        sums->squares[c] += more->squares[c];
    }
    sums->count += more->count;
}

double pixel_sums_mean(const struct pixel_sums *sums, uint32_t channel)
{
    return (double)sums->sum[channel] / (double)sums->count;
}

double pixel_sums_deviation(const struct pixel_sums *sums, uint32_t channel)
{
    /* count^2 times the variance, without rounding */
    const unsigned __int128 spread = (unsigned __int128)sums->squares[channel] * sums->count -
                                     (unsigned __int128)sums->sum[channel] * sums->sum[channel];
    return sqrt((double)spread) / (double)sums->count;
}
