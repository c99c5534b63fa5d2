/* One tower's batch in host memory: a contiguous pinned block that is copied to the device as a whole, and what only
 * the host needs. */
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
    uint32_t capacity;          /* samples of a block, >= 1 */
    size_t sample_bytes;        /* height * width * channels */
    size_t labels_offset;       /* in the block */
    size_t mixes_offset;        /* in the block; 0: samples are not mixed */
    size_t block_bytes;         /* of the whole block */
};

/* Set all fields, without mixes. 0 or -EOVERFLOW. */
int batch_layout_init(struct batch_layout *layout, uint32_t height, uint32_t width, uint32_t channels,
                      uint32_t capacity);
/* Add a struct mix for every sample. 0 or -EOVERFLOW. */
int batch_layout_add_mixes(struct batch_layout *layout);

/* The label of a place without a sample (a damaged record in evaluation, which is not counted): loss 0, gradient 0,
 * never correct. */
#define BATCH_NO_LABEL (-1)

/* How a training sample is mixed with its partner, the other of samples 2k and 2k + 1 of its batch, before that is
 * mixed itself. With a box that is not empty (cutmix), the pixels inside it are the partner's and the others the
 * sample's own. Without (mixup), every number is `share` times its own plus 1 - `share` times the partner's. Labels
 * are always mixed by `share`, with a box the share of the pixels outside. Share 1: the sample is not mixed. */
struct mix {
    float share;
    uint32_t top, left, bottom, right;      /* the box: rows top <= y < bottom, columns left <= x < right */
};

/* Invariant: between ring_claim and the moment the last of local.count places is filled, only decoders write, each
 * its own places; then nobody writes until ring_give_back. */
struct batch {
    struct local_batch local;
    uint32_t full_found;        /* full batches in the ring when the feeder asked for this one; 0: it may have waited */
    uint8_t *pixels;            /* in the block */
    int32_t *labels;            /* in the block */
    struct mix *mixes;          /* in the block, of training batches; NULL: samples are not mixed */
    void *block;                /* pinned, owned by whoever opened the ring */
    uint64_t *ids;              /* record id of every place, in the order of the local batch */
};

#endif
