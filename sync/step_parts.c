/* Forward and backward of a piece. Called by the trainer. */
#include "sync/step_parts.h"

#include "stage/trace/range.h"

int part_forward(struct tower *tower, struct step_clock *clock, struct slot *slot, uint32_t piece, bool training)
{
    range_begin(TRACE_FORWARD, slot->span.number);
    const int rc = tower_forward(tower, slot, piece, training);
    range_end();
    return rc == 0 ? step_clock_mark(clock, SPENT_FORWARD) : rc;
}

int part_accumulate(struct tower *tower, struct step_clock *clock, uint64_t batch)
{
    range_begin(TRACE_BACKWARD, batch);
    const int rc = tower_accumulate(tower);
    range_end();
    return rc == 0 ? step_clock_mark(clock, SPENT_BACKWARD) : rc;
}
