/* The staging area of one tower: `depth` batches in device memory. The feeder fills slots by asynchronous copies, and
 * the tower's thread uses them in the same order. Each slot has two events that synchronise the streams: ready
 * (recorded on the copy stream after the copy) and free (recorded on the compute stream after the last reader). */
#ifndef PIPETRAIN_SLOTS_H
#define PIPETRAIN_SLOTS_H

#include "stage/batch.h"
#include "stage/device.h"

/* Owned by the feeder between slots_empty and slots_publish, and by the tower's thread between slots_take and
 * slots_give_back. */
struct slot {
    struct local_batch local;   /* the samples in the slot */
    uint32_t batches_found;     /* full_found of the batch; 0 without a ring */
    uint32_t slots_found;       /* slots with a batch when the tower requested this one; 0: the tower may have waited */
    uint64_t *ids;              /* host copy of local.count record ids (room for `capacity`) */
    uint8_t *pixels;            /* device memory */
    int32_t *labels;            /* device memory */
    struct mix *mixes;          /* device memory, of training batches; NULL: samples are not mixed */
    void *block;                /* device memory of pixels, labels and mixes */
    struct event *ready, *free;
};

struct slots;

struct slots_counts {
    uint64_t published, taken;
    uint64_t take_waited_ns;    /* tower's time waiting for a slot with a batch: input wait */
    uint64_t empty_waited_ns;   /* feeder's time waiting for an empty slot */
};

/* Open `depth` >= 1 slots on `device`. 0 or a negative errno. */
int slots_open(struct slots **slots_out, struct device *device, uint32_t depth, const struct batch_layout *layout);
/* No thread may be using the slots and no stream may access them; every taken slot was given back (asserted unless
 * cancelled). Accepts NULL. */
void slots_close(struct slots *slots);
uint32_t slots_depth(const struct slots *slots);

/* For the feeder: the next slot that was given back, in a fixed cycle over all slots. Queue stream_wait(copy,
 * slot->free) before any write into it. 0, -ECANCELED, or -ENODATA after slots_end (the tower takes no more slots). A
 * slot that is never published does not have to be given back. */
int slots_empty(struct slots *slots, struct slot **slot_out);
/* For the feeder: publish the slot, whose `local` is set, and set its labels and mixes, which are where batches of that
 * phase have them. The copy into it is queued and slot->ready is recorded. */
void slots_publish(struct slots *slots, struct slot *slot);
/* For the feeder: no more batches will be published. */
void slots_finish(struct slots *slots);

/* For the tower: take the next published slot. 0, -ENODATA after the last one, or -ECANCELED. Queue
 * stream_wait(compute, slot->ready) before any read of the slot. */
int slots_take(struct slots *slots, struct slot **slot_out);
/* For the tower: give the slot back, after slot->free was recorded behind the last reader. */
void slots_give_back(struct slots *slots, struct slot *slot);
/* For the tower: it takes no more slots; the feeder's next slots_empty returns -ENODATA. */
void slots_end(struct slots *slots);

/* End every wait now. A closer for stop_on_failure. */
void slots_cancel(void *slots);
void slots_count(struct slots *slots, struct slots_counts *counts_out);

#endif
