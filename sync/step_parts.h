/* Parts of a step: what a tower's thread queues on the compute stream, each with its range for a profiler and its mark
 * on the clock. */
#ifndef PIPETRAIN_STEP_PARTS_H
#define PIPETRAIN_STEP_PARTS_H

#include "compute/tower.h"
#include "sync/step_clock.h"

/* tower_forward of the slot's piece. 0 or a negative errno, as all of these. */
int part_forward(struct tower *tower, struct step_clock *clock, struct slot *slot, uint32_t piece, bool training);
/* tower_accumulate, behind a piece of batch `batch`. */
int part_accumulate(struct tower *tower, struct step_clock *clock, uint64_t batch);

#endif
