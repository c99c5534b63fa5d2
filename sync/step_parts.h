/* Parts of a step: what a tower's thread queues on the compute stream, each with its range for a profiler and its mark
 * on the clock. */
#ifndef PIPETRAIN_STEP_PARTS_H
#define PIPETRAIN_STEP_PARTS_H

#include "compute/tower.h"
#include "stage/slots.h"
#include "sync/gate.h"
#include "sync/step_clock.h"

/* The next slot the gate lets through, its pixels readable by what is queued on the compute stream from here on. 0,
 * -ENODATA at the end, or another negative errno. */
int part_slot(struct slots *slots, struct gate *gate, struct stream *compute, struct step_clock *clock,
              struct slot **slot_out);
/* tower_forward of the slot's piece. 0 or a negative errno, as all of these. */
int part_forward(struct tower *tower, struct step_clock *clock, struct slot *slot, uint32_t piece, bool training);
/* tower_accumulate, behind a piece of batch `batch`. */
int part_accumulate(struct tower *tower, struct step_clock *clock, uint64_t batch);

#endif
