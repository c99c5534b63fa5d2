/* One tower's batch in host memory: a contiguous pinned block that is copied to the device as a whole, and fields that
 * only the host uses. */
#ifndef PIPETRAIN_BATCH_H
#define PIPETRAIN_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "stage/schedule.h"

/* The shape of the samples of one phase, and the layout of its batches: capacity * sample_bytes uint8 pixels (NHWC),
 * padded to 64 bytes, then capacity int32 labels, then, if samples are mixed, capacity struct mix. */
struct batch_image {
    uint32_t height, width;
    size_t sample_bytes;        /* height * width * channels */
    size_t labels_offset;       /* in the block */
    size_t mixes_offset;        /* in the block; 0: samples are not mixed, as never in evaluation */
    size_t bytes;               /* of a batch, from the start of the block */
};

/* The samples of a run and the layout of the blocks, which hold batches of either phase. */
struct batch_layout {
    uint32_t channels;
    uint32_t capacity;          /* samples per block, >= 1 */
    struct batch_image of[PHASE_COUNT];
    size_t block_bytes;         /* size of a whole block: that of the larger batch */
};

/* Set all fields, for images of the same size in both phases, without mixes. 0 or -EOVERFLOW. */
int batch_layout_init(struct batch_layout *layout, uint32_t height, uint32_t width, uint32_t channels,
                      uint32_t capacity);
/* Change the size of training images, before mixes are added. 0 or -EOVERFLOW. */
int batch_layout_resize_training(struct batch_layout *layout, uint32_t height, uint32_t width);
/* Add a struct mix for every training sample. 0 or -EOVERFLOW. */
int batch_layout_add_mixes(struct batch_layout *layout);

/* The label of a position without a sample (a damaged record in evaluation, which is not counted): its loss and
 * gradient are 0, and it is never correct. */
#define BATCH_NO_LABEL (-1)

/* How a training sample is mixed with its partner; partners are samples 2k and 2k + 1 of a batch, as they were before
 * mixing. If the box is not empty (cutmix), the pixels inside it are the partner's and those outside the sample's own.
 * If it is empty (mixup), every pixel is `share` * own + (1 - share) * partner's. Labels are always mixed by `share`;
 * with a box, `share` is the fraction of pixels outside it. Share 1: the sample is not mixed. */
struct mix {
    float share;
    uint32_t top, left, bottom, right;      /* the box: rows top <= y < bottom, columns left <= x < right */
};

/* Where a batch's fields are in a block. */
static inline int32_t *batch_image_labels(const struct batch_image *image, void *block)
{
    return (int32_t *)(void *)((uint8_t *)block + image->labels_offset);
}
static inline struct mix *batch_image_mixes(const struct batch_image *image, void *block)
{
    return image->mixes_offset > 0 ? (struct mix *)(void *)((uint8_t *)block + image->mixes_offset) : NULL;
}

/* Invariant: from ring_claim until the last of the local.count samples is written, only decoders write, each to the
 * places of its own samples; after that nobody writes until ring_give_back. */
struct batch {
    struct local_batch local;
    uint32_t full_found;        /* full batches in the ring when the feeder requested this one; 0: the feeder may have
                                 * waited */
    uint8_t *pixels;            /* in the block */
    int32_t *labels;            /* in the block */
    struct mix *mixes;          /* in the block; only in training batches; NULL: samples are not mixed */
    void *block;                /* pinned, owned by whoever opened the ring */
    uint64_t *ids;              /* record id of each sample, in the order of the local batch */
};

#endif
