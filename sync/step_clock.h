/* Measures the parts of a tower's step: timed events ("marks") on its compute stream, each with the kind of work since
 * the previous mark, are read when the step has ended. Several steps may be queued before the first of them is read.
 * Used by the tower's thread. */
#ifndef PIPETRAIN_STEP_CLOCK_H
#define PIPETRAIN_STEP_CLOCK_H

#include <stdint.h>

#include "stage/device.h"
#include "stage/schedule.h"
#include "stage/trace/trace.h"

enum spent {
    SPENT_OTHER,
    SPENT_INPUT_WAIT,
    SPENT_EXPOSED_COPY,
    SPENT_FORWARD,
    SPENT_BACKWARD,
    SPENT_EXPOSED_REDUCTION,
    SPENT_EXPOSED_EXCHANGE,     /* waiting for what towers exchange with model.parts */
    SPENT_UPDATE,
    SPENT_COUNT
};

/* The times of the parts of a step in ns; they sum to total. */
struct step_times {
    uint64_t input_wait, exposed_copy, forward, backward, exposed_reduction, exposed_exchange, update, other;
    uint64_t total;
};

struct step_clock;

/* Open a clock for `depth` >= 1 steps that are queued and not yet read, of at most `marks` marks each. 0 or a negative
 * errno. */
int step_clock_open(struct step_clock **clock_out, struct stream *compute, uint32_t marks, uint32_t depth);
/* Accepts NULL. */
void step_clock_close(struct step_clock *clock);

/* Start the first step now. Blocks until the work queued on the stream has ended. */
int step_clock_start(struct step_clock *clock);

/* Queue a mark: the time since the previous mark, of this step or the previous one, was spent on `spent`. */
int step_clock_mark(struct step_clock *clock, enum spent spent);
/* Queue the last mark of the current step; the next mark belongs to the next step. */
int step_clock_end(struct step_clock *clock, enum spent spent);

/* The event at the end of the oldest step that is queued and not yet read. */
struct event *step_clock_oldest(const struct step_clock *clock);
/* Read the times of that step, which must have ended, and when it ended on the clock of clock_now_ns. On a GPU two
 * events with nothing between them are a microsecond or two apart, so a wait of less than 2 us for a copy, a
 * reduction or an exchange counts as other time. 0 or a negative errno. */
int step_clock_read(struct step_clock *clock, struct step_times *times_out, uint64_t *ended_ns_out);
/* Write the step that was read last, batch `local` of tower `tower`, with all its marks to the tower's trace (track
 * NULL: does nothing). Times are those of the device's clock, counted from the first step. Called before the next
 * mark. */
void step_clock_record(const struct step_clock *clock, struct trace_track *track, const struct local_batch *local,
                       uint32_t tower);

#endif
