/* The layout of a batch's memory block. Called by main before the ring and the slots are opened. */
#include "stage/batch.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#define BATCH_ALIGN 64

int batch_layout_init(struct batch_layout *layout, uint32_t height, uint32_t width, uint32_t channels,
                      uint32_t capacity)
{
    assert(capacity >= 1);
    size_t sample_bytes, pixel_bytes, padded_bytes, label_bytes, block_bytes;
    const bool overflows = __builtin_mul_overflow((size_t)height, width, &sample_bytes) ||
                           __builtin_mul_overflow(sample_bytes, channels, &sample_bytes) ||
                           __builtin_mul_overflow(sample_bytes, capacity, &pixel_bytes) ||
                           __builtin_add_overflow(pixel_bytes, BATCH_ALIGN - 1, &padded_bytes) ||
                           __builtin_mul_overflow(sizeof(int32_t), (size_t)capacity, &label_bytes) ||
                           __builtin_add_overflow(padded_bytes, label_bytes, &block_bytes);
    if (overflows)
        return -EOVERFLOW;
    const size_t labels_offset = padded_bytes / BATCH_ALIGN * BATCH_ALIGN;
    *layout = (struct batch_layout){
        .height = height,
        .width = width,
        .channels = channels,
        .capacity = capacity,
        .sample_bytes = sample_bytes,
        .labels_offset = labels_offset,
        .block_bytes = labels_offset + label_bytes,
    };
    return 0;
}

int batch_layout_add_mixes(struct batch_layout *layout)
{
    size_t bytes, block_bytes;
    if (__builtin_mul_overflow(sizeof(struct mix), (size_t)layout->capacity, &bytes) ||
        __builtin_add_overflow(layout->block_bytes, bytes, &block_bytes))
        return -EOVERFLOW;
    layout->mixes_offset = layout->block_bytes;
    layout->block_bytes = block_bytes;
    return 0;
}
