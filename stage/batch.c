/* The layout of a batch's memory block. Called by main before the ring and the slots are opened. */
#include "stage/batch.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#define BATCH_ALIGN 64

static int image_init(struct batch_image *image, uint32_t height, uint32_t width, const struct batch_layout *layout)
{
    size_t sample_bytes, pixel_bytes, padded_bytes, label_bytes, bytes;
    const bool overflows = __builtin_mul_overflow((size_t)height, width, &sample_bytes) ||
                           __builtin_mul_overflow(sample_bytes, layout->channels, &sample_bytes) ||
                           __builtin_mul_overflow(sample_bytes, layout->capacity, &pixel_bytes) ||
                           __builtin_add_overflow(pixel_bytes, BATCH_ALIGN - 1, &padded_bytes) ||
                           __builtin_mul_overflow(sizeof(int32_t), (size_t)layout->capacity, &label_bytes) ||
                           __builtin_add_overflow(padded_bytes, label_bytes, &bytes);
    if (overflows)
        return -EOVERFLOW;
    const size_t labels_offset = padded_bytes / BATCH_ALIGN * BATCH_ALIGN;
    *image = (struct batch_image){ .height = height, .width = width, .sample_bytes = sample_bytes,
                                   .labels_offset = labels_offset, .bytes = labels_offset + label_bytes };
    return 0;
}

static void fit_block(struct batch_layout *layout)
{
    const size_t train = layout->of[PHASE_TRAIN].bytes, evaluation = layout->of[PHASE_EVALUATE].bytes;
    layout->block_bytes = train > evaluation ? train : evaluation;
}

int batch_layout_init(struct batch_layout *layout, uint32_t height, uint32_t width, uint32_t channels,
                      uint32_t capacity)
{
    assert(capacity >= 1);
    struct batch_layout made = { .channels = channels, .capacity = capacity };
    const int rc = image_init(&made.of[PHASE_TRAIN], height, width, &made);
    if (rc != 0)
        return rc;
    made.of[PHASE_EVALUATE] = made.of[PHASE_TRAIN];
    fit_block(&made);
    *layout = made;
    return 0;
}

int batch_layout_resize_training(struct batch_layout *layout, uint32_t height, uint32_t width)
{
    const int rc = image_init(&layout->of[PHASE_TRAIN], height, width, layout);
    if (rc == 0)
        fit_block(layout);
    return rc;
}

int batch_layout_add_mixes(struct batch_layout *layout)
{
    struct batch_image *const image = &layout->of[PHASE_TRAIN];
    size_t mix_bytes, bytes;
    if (__builtin_mul_overflow(sizeof(struct mix), (size_t)layout->capacity, &mix_bytes) ||
        __builtin_add_overflow(image->bytes, mix_bytes, &bytes))
        return -EOVERFLOW;
    image->mixes_offset = image->bytes;
    image->bytes = bytes;
    fit_block(layout);
    return 0;
}
