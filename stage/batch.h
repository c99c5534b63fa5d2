/* One tower's batch in host memory: a contiguous pinned block that crosses to the
 * device in one copy, and beside it what only the host needs. */
#ifndef PIPETRAIN_BATCH_H
#define PIPETRAIN_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "stage/schedule.h"

/* Shape of the samples a run feeds, and the layout of a block:
 * capacity * sample_bytes uint8 pixels (NHWC), padded to 64 bytes, then capacity int32 labels. */
struct batch_layout {
    uint32_t height, width, channels;
    uint32_t capacity;          /* samples a block has room for, >= 1 */
    size_t sample_bytes;        /* height * width * channels */
    size_t labels_offset;       /* of the labels in the block */
    size_t block_bytes;         /* of the whole block */
};

/* Fill in the derived fields. 0, or -EOVERFLOW. */
int batch_layout_init(struct batch_layout *layout, uint32_t height, uint32_t width, uint32_t channels,
                      uint32_t capacity);

/* A label of a place that holds no sample (a damaged record in evaluation, which is
 * not counted): loss 0, gradient 0, never correct. */
#define BATCH_NO_LABEL (-1)

/* Invariant: between ring_claim and the moment the last of span.count places is
 * done, only decoders write, each its own places; then nobody writes until give_back. */
struct batch {
    struct span span;
    uint8_t *pixels;            /* in the block */
    int32_t *labels;            /* in the block */
    void *block;                /* pinned, owned by whoever opened the ring */
    uint64_t *ids;              /* record id of every place, order of the slice */
};

#endif
