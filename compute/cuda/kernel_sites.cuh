/* Images as rows and columns of pixels, for kernels whose threads own eight channels of a pixel. */
#ifndef PIPETRAIN_KERNEL_SITES_CUH
#define PIPETRAIN_KERNEL_SITES_CUH

#include "compute/cuda/kernel_types.cuh"

/* Which eight channels of which pixel a thread owns. */
struct site { size_t sample; uint32_t row, column, channel; };

static __device__ inline site site_of(size_t i, uint32_t height, uint32_t width, uint32_t stored)
{
    uint32_t group, row, column;
    const size_t pixel = divided(i, stored / GROUP, &group), line = divided(pixel, width, &column);
    const size_t sample = divided(line, height, &row);
    return site{ sample, row, column, group * GROUP };
}

static __device__ inline size_t offset_of(size_t sample, uint32_t row, uint32_t column, uint32_t height,
                                          uint32_t width, uint32_t stored, uint32_t channel)
{
    return ((sample * height + row) * width + column) * stored + channel;
}

#endif
