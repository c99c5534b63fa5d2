/* The ring of batches of one tower between the loader and its feeder. Batches are claimed, filled and taken in
 * ascending order of their numbers, of which at most `depth` at once have a place. A full ring makes the loader wait.
 * */
#ifndef PIPETRAIN_RING_H
#define PIPETRAIN_RING_H

#include "stage/batch.h"

struct ring;

struct ring_counts {
    uint64_t published, taken;
    uint64_t claim_waited_ns;   /* loader's time waiting for room, summed over readers */
    uint64_t take_waited_ns;    /* time waiting for a full batch, summed over those who take */
};

/* Open a ring of `depth` >= 1 batches in `blocks` (depth pointers, each to layout->block_bytes, valid until
 * ring_close). 0 or a negative errno. */
int ring_open(struct ring **ring_out, uint32_t depth, const struct batch_layout *layout, void *const *blocks);
/* No thread may be using the ring, and every taken batch has been given back, also after ring_cancel (asserted).
 * Accepts NULL. */
void ring_close(struct ring *ring);

/* For readers: claim the batch with the number in `local`, waiting until there is a place for it, that is until all but
 * depth - 1 of the batches before it were given back. Numbers may be claimed out of order, and several readers may
 * claim parts of one batch. The first call for a number copies `local` and marks the batch as being filled (missing =
 * local->count); later calls for the number return the same batch. An empty local batch is published at once. 0 or
 * -ECANCELED. */
int ring_claim(struct ring *ring, const struct local_batch *local, struct batch **batch_out);
/* For decoders: `count` more samples of this batch are written. The call that completes the batch publishes it. Never
 * blocks. Before the last call, its caller may decrease batch->local.count if places from there on were counted as
 * written: the batch ends early. */
void ring_fill(struct ring *ring, struct batch *batch, uint32_t count);

/* For the feeder: take the next batch by number, waiting until it is full. 0, -ENODATA after the last batch of
 * ring_range, or -ECANCELED. Several threads may take, each batch goes to one of them. */
int ring_take(struct ring *ring, struct batch **batch_out);
/* The same, waiting until the time until_ns of clock_now_ns at most: then -EBUSY if all batches are taken and not given
 * back, so that none can become full, else -ETIMEDOUT. A batch that is full is taken at any time. */
int ring_take_until(struct ring *ring, uint64_t until_ns, struct batch **batch_out);
/* The batch has been copied: free its place. Batches may be given back in any order. */
void ring_give_back(struct ring *ring, struct batch *batch);

/* Limit the ring to batches [first, end) of the run, as numbered by the schedule: claims and takes begin at `first`,
 * takes end before `end`. To be called before the first claim; without this call the ring begins at 0 and has no
 * end. */
void ring_range(struct ring *ring, uint64_t first, uint64_t end);
/* The last batch is number end - 1: takes from `end` on return -ENODATA. All batches before `end` were claimed. For
 * inputs whose end is not known before; called once. */
void ring_finish(struct ring *ring, uint64_t end);
/* End every wait now. A closer for stop_on_failure. */
void ring_cancel(void *ring);
void ring_count(struct ring *ring, struct ring_counts *counts_out);

#endif
