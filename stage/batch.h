/* One tower's batch in host memory: a contiguous pinned block that crosses to the
 * device in one copy, and beside it what only the host needs. */
#ifndef PIPETRAIN_BATCH_H
#define PIPETRAIN_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "stage/schedule.h"

/* Shape of the samples a run feeds, and the layout of a block:
 * capacity * sample_bytes uint8 pixels (NHWC), padded to 64 bytes, then capacity int32 labels, then, where samples
 * are mixed, capacity struct mix. */
struct batch_layout {
    uint32_t height, width, channels;
    uint32_t capacity;          /* samples a block has room for, >= 1 */
    size_t sample_bytes;        /* height * width * channels */
    size_t labels_offset;       /* of the labels in the block */
    size_t mixes_offset;        /* of how samples are mixed; 0: they are not */
    size_t block_bytes;         /* of the whole block */
};

/* Fill in the derived fields. 0, or -EOVERFLOW. */
int batch_layout_init(struct batch_layout *layout, uint32_t height, uint32_t width, uint32_t channels,
                      uint32_t capacity);
/* Room for how every sample is mixed. 0, or -EOVERFLOW. */
int batch_layout_add_mixes(struct batch_layout *layout);

/* A label of a place that holds no sample (a damaged record in evaluation, which is
 * not counted): loss 0, gradient 0, never correct. */
#define BATCH_NO_LABEL (-1)

/* How a training sample is mixed with its partner, the other one of samples 2k and 2k + 1 of its batch, as that one is
 * before it is mixed itself. Where the box holds pixels, those in it are the partner's and the others the sample's own;
 * else every number is `share` of its own and the rest of the partner's. Of the label it is the same share, so with a
 * box that of the pixels outside. Share 1: the sample is not mixed. */
struct mix {
    float share;
    uint32_t top, left, bottom, right;      /* the box: rows top <= y < bottom, columns left <= x < right */
};

/* Invariant: between ring_claim and the moment the last of slice.count places is
 * done, only decoders write, each its own places; then nobody writes until give_back. */
struct batch {
    struct batch_slice slice;
    uint32_t full_found;        /* full batches of the ring when the feeder came for this one; 0: it may have waited */
    uint8_t *pixels;            /* in the block */
    int32_t *labels;            /* in the block */
    struct mix *mixes;          /* in the block, of training batches; NULL: samples are not mixed */
    void *block;                /* pinned, owned by whoever opened the ring */
    uint64_t *ids;              /* record id of every place, order of the slice */
};

#endif
