/* The feeder thread of one tower copies batches from the ring into slots, asynchronously on the copy stream, and
 * returns each batch to the loader when its copy has finished. */
#ifndef PIPETRAIN_FEEDER_H
#define PIPETRAIN_FEEDER_H

#include "stage/heartbeat.h"
#include "stage/ring.h"
#include "stage/slots.h"
#include "stage/stop.h"
#include "stage/trace/trace.h"

struct feeder_spec {
    const char *name;                   /* name of the thread */
    struct device *device;
    struct ring *ring;                  /* NULL: synthetic input */
    struct slots *slots;
    struct stop *stop;
    /* Synthetic input only: each slot is filled once (uniform pixels, labels in [0, classes)) and published repeatedly
     * without a copy; ids are positions. Batch n of the run equals batch n % slots_depth, also in a resumed run. */
    const struct schedule *schedule;
    uint32_t tower;
    uint32_t classes;
    uint64_t seed;
    const struct batch_layout *layout;
    struct heartbeat *heartbeat;        /* the thread's heartbeat, with ignores_waits set; NULL: none */
    struct trace_track *track, *copy_track;     /* tracks of the thread and of its copy stream; both NULL: no trace */
};

struct feeder;

struct feeder_counts {
    uint64_t batches;
    uint64_t copy_ns;           /* device time of the copies */
    uint64_t wait_batch_ns;     /* time spent waiting for the loader */
    uint64_t wait_slot_ns;      /* time spent waiting for an empty slot */
};

/* Start the thread. All that the spec points to stays valid until feeder_join. */
int feeder_start(struct feeder **feeder_out, const struct feeder_spec *spec);
/* Wait for the thread. It ends when all batches of the run are fed, when the tower has ended its slots, or when the run
 * has failed; if the loader ended early, call ring_cancel first. Drains the copy stream, so slots and batches may be
 * closed afterwards. Accepts NULL. */
void feeder_join(struct feeder *feeder, struct feeder_counts *counts_out /* may be NULL */);

#endif
