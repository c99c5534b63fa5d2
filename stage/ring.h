/* The ring of batches of one tower between the loader and its feeder. Batches are claimed, filled and taken in
 * ascending order of their numbers; number n is in place n % depth. A full ring makes the loader wait. */
#ifndef PIPETRAIN_RING_H
#define PIPETRAIN_RING_H

#include "stage/batch.h"

struct ring;

struct ring_counts {
    uint64_t published, taken;
    uint64_t claim_waited_ns;   /* loader waiting for room, summed over readers */
    uint64_t take_waited_ns;    /* feeder waiting for a full batch */
};

/* A ring of `depth` >= 1 batches over the `blocks` given (depth pointers, each of
 * layout->block_bytes, lent until ring_close). 0 or a negative errno. */
int ring_open(struct ring **ring_out, uint32_t depth, const struct batch_layout *layout, void *const *blocks);
/* No thread is inside; every taken batch was given back, also when the ring was cancelled
 * (asserted). Accepts NULL. */
void ring_close(struct ring *ring);

/* For readers. The batch that `local` names, waiting until its place is free, that is
 * until batch number - depth was given back; numbers may be claimed out of order. The
 * first call for a number marks it as being filled (missing = local->count) and
 * copies `local`; later calls with the same number return the same batch. Several
 * readers may claim parts of one batch. An empty local batch is published at once.
 * 0 or -ECANCELED. */
int ring_claim(struct ring *ring, const struct local_batch *local, struct batch **batch_out);
/* For decoders: `count` more places of this batch are written. The call that
 * completes the batch publishes it. Never blocks. */
void ring_fill(struct ring *ring, struct batch *batch, uint32_t count);

/* For the feeder: the next batch by number, waiting until it is full. 0, -ENODATA after the last one of ring_range, or
 * -ECANCELED. */
int ring_take(struct ring *ring, struct batch **batch_out);
/* The batch has been copied; its place is free again. */
void ring_give_back(struct ring *ring, struct batch *batch);

/* The process sees batches [first, end) of the run, as the schedule numbers them: claims and takes
 * begin with `first`, takes end before `end`. Before anything is claimed; otherwise 0 and no end. */
void ring_range(struct ring *ring, uint64_t first, uint64_t end);
/* End every wait now. Fits stop_on_failure. */
void ring_cancel(void *ring);
void ring_count(struct ring *ring, struct ring_counts *counts_out);

#endif
