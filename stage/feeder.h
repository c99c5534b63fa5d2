/* The feeder thread of one tower: ring -> slot by an asynchronous copy on the copy
 * stream; the batch goes back to the loader when the copy has passed. */
#ifndef PIPETRAIN_FEEDER_H
#define PIPETRAIN_FEEDER_H

#include "stage/heartbeat.h"
#include "stage/ring.h"
#include "stage/slots.h"
#include "stage/stop.h"
#include "stage/trace/trace.h"

struct feeder_spec {
    const char *name;                   /* thread name */
    struct device *device;
    struct ring *ring;                  /* NULL: synthetic input */
    struct slots *slots;
    struct stop *stop;
    /* Synthetic input only: slots are filled once (uniform pixels, labels in
     * [0, classes)) and published again and again without a copy, ids = positions. Batch n
     * of the run holds what batch n % slots_depth holds, whichever the first one is. */
    const struct schedule *schedule;
    uint32_t tower;
    uint32_t classes;
    uint64_t seed;
    const struct batch_layout *layout;
    struct heartbeat *heartbeat;        /* of the thread, which ignores waits; NULL: none */
    struct trace_track *track, *copy_track;     /* of the thread and of its copy stream, both NULL: not recorded */
};

struct feeder;

struct feeder_counts {
    uint64_t batches;
    uint64_t copy_ns;           /* device time of the copies themselves */
    uint64_t wait_batch_ns;     /* waiting for the loader */
    uint64_t wait_slot_ns;      /* waiting for an empty slot */
};

/* Start the thread. Everything in the spec is lent until feeder_join. */
int feeder_start(struct feeder **feeder_out, const struct feeder_spec *spec);
/* The thread ends when the run's batches are fed, when the tower ended its slots, or
 * when the run failed; one that waits for a batch of a loader that ended early ends by
 * ring_cancel. Drains the copy stream, so slots and batches may be closed afterwards.
 * Accepts NULL. */
void feeder_join(struct feeder *feeder, struct feeder_counts *counts_out /* may be NULL */);

#endif
