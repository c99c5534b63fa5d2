/* The slot, forward and backward. Called by the trainer. */
#include "sync/step_parts.h"

#include <errno.h>

#include "stage/trace/range.h"

int part_slot(struct slots *slots, struct gate *gate, struct stream *compute, struct step_clock *clock,
              struct slot **slot_out)
{
    struct slots_counts before, after;
    slots_count(slots, &before);
    struct slot *slot;
    int rc = step_clock_mark(clock, SPENT_OTHER);
    if (rc == 0)
        rc = slots_take(slots, &slot);
    if (rc != 0)
        return rc;
    if (!gate_pass(gate, slot->span.number)) {
        slots_give_back(slots, slot);
        return -ENODATA;
    }
    const bool copied = slot->ready->device->ops->event_passed(slot->ready);
    slots_count(slots, &after);
    rc = step_clock_mark(clock, after.take_waited_ns > before.take_waited_ns ? SPENT_INPUT_WAIT : SPENT_OTHER);
    if (rc == 0)
        rc = stream_wait(compute, slot->ready);
    if (rc == 0)
        rc = step_clock_mark(clock, copied ? SPENT_OTHER : SPENT_EXPOSED_COPY);
    *slot_out = slot;
    return rc;
}

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
