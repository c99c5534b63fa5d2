/* Sides of images, in pixels: what decoding goes by. Pure functions. */
#ifndef PIPETRAIN_SIDES_H
#define PIPETRAIN_SIDES_H

#include <stdint.h>

static inline uint32_t sides_shorter(uint64_t height, uint64_t width)
{
    return (uint32_t)(height < width ? height : width);
}

/* Shards as networks are usually trained from: a seventh more than the network takes, 256 pixels for 224. 0: the stored
 * images are no larger. */
static inline uint32_t sides_smaller(uint32_t stored_side, uint32_t taken_side)
{
    const uint32_t side = (8 * taken_side + 6) / 7;
    return side < stored_side ? side : 0;
}

#endif
