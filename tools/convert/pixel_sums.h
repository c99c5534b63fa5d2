/* What the mean and the deviation of pixels need, of each channel: whole numbers, which are the same in whatever order
 * they are added up. */
#ifndef PIPETRAIN_PIXEL_SUMS_H
#define PIPETRAIN_PIXEL_SUMS_H

#include <stddef.h>
#include <stdint.h>

#define PIXEL_CHANNELS_MAX 4u

/* Zeros: none yet. */
struct pixel_sums {
    uint64_t count;             /* pixels, of so many channels each */
    uint32_t channels;
    uint64_t sum[PIXEL_CHANNELS_MAX], squares[PIXEL_CHANNELS_MAX];
};

/* Add an image of rows of pixels of `channels` <= PIXEL_CHANNELS_MAX channels. Grey ones among others count as pixels
 * whose channels are all equal. */
void pixel_sums_add(struct pixel_sums *sums, const uint8_t *pixels, size_t bytes, uint32_t channels);
void pixel_sums_join(struct pixel_sums *sums, const struct pixel_sums *more);
/* Mean and standard deviation (of all pixels, not estimated) of a channel, in 0 ... 255; count > 0. */
double pixel_sums_mean(const struct pixel_sums *sums, uint32_t channel);
double pixel_sums_deviation(const struct pixel_sums *sums, uint32_t channel);

#endif
