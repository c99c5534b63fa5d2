/* Sums of pixels. Pure; called by the writing threads, each for its own files. */
#include "tools/convert/pixel_sums.h"

#include <math.h>

/* Have sums of so many channels. */
static void widen(struct pixel_sums *sums, uint32_t channels)
{
    for (uint32_t c = sums->channels; c < channels && sums->count > 0; c++) {
        sums->sum[c] = sums->sum[0];
        sums->squares[c] = sums->squares[0];
    }
    sums->channels = channels;
}

void pixel_sums_join(struct pixel_sums *sums, const struct pixel_sums *more)
{
    struct pixel_sums added = *more;

    if (added.channels < sums->channels)
        widen(&added, sums->channels);
    else
        widen(sums, added.channels);
    for (uint32_t c = 0; c < sums->channels; c++) {
        sums->sum[c] += added.sum[c];
        sums->squares[c] += added.squares[c];
    }
    sums->count += added.count;
}

void pixel_sums_add(struct pixel_sums *sums, const uint8_t *pixels, size_t bytes, uint32_t channels)
{
    struct pixel_sums more = { .count = bytes / channels, .channels = channels };

    for (uint32_t c = 0; c < channels; c++) {
        uint64_t sum = 0, squares = 0;
        for (size_t i = c; i < bytes; i += channels) {
            sum += pixels[i];
            squares += (uint32_t)pixels[i] * pixels[i];
        }
        more.sum[c] = sum;
        more.squares[c] = squares;
    }
    pixel_sums_join(sums, &more);
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
