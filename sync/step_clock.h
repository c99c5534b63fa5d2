/* Where a tower's time goes: timed events on its compute stream at fixed points of every
 * step, read when the step is over. Several steps may be queued before the first of them
 * is read. Used from the tower's thread. */
#ifndef PIPETRAIN_STEP_CLOCK_H
#define PIPETRAIN_STEP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "stage/device.h"

/* Points on the compute stream of one step, in order; the time between two is accounted. */
enum mark { MARK_BEGIN, MARK_TAKEN, MARK_INPUT, MARK_FORWARD, MARK_BACKWARD, MARK_END, MARK_COUNT };
/* Points of every bucket, between MARK_BACKWARD and MARK_END. */
enum bucket_mark { BUCKET_REDUCED, BUCKET_UPDATED, BUCKET_MARK_COUNT };

/* Where a tower's time went in one step, ns; they sum to total_ns. */
struct step_times {
    uint64_t input_wait, exposed_copy, forward, backward, exposed_reduction, update, other;
    uint64_t total;
};

struct step_clock;

/* Room for `depth` >= 1 steps that are queued and not yet read, of `buckets` buckets. 0 or a
 * negative errno. */
int step_clock_open(struct step_clock **clock_out, struct stream *compute, uint32_t buckets, uint32_t depth);
void step_clock_close(struct step_clock *clock);

/* The first step begins now. Waits for what is queued on the stream. */
int step_clock_start(struct step_clock *clock);

/* Record a point of step `number` (0, 1, 2, ... of this tower) behind what is queued. */
int step_clock_mark(struct step_clock *clock, uint64_t number, enum mark mark);
int step_clock_mark_bucket(struct step_clock *clock, uint64_t number, uint32_t bucket, enum bucket_mark mark);
/* MARK_END of the step, to wait for. */
struct event *step_clock_end(struct step_clock *clock, uint64_t number);
/* What the tower's thread knows of a step that the events do not tell. Two events with
 * nothing between them are some microseconds apart on a GPU: that is no wait. */
struct step_facts {
    bool waited;                /* for a batch */
    bool copied;                /* the batch was on the device already when the step was queued */
    bool trained;               /* the step has buckets and MARK_BACKWARD */
};

/* Step `number` has ended; steps are read in order, each once. ended_ns_out: on
 * clock_now_ns's clock. 0 or a negative errno. */
int step_clock_read(struct step_clock *clock, uint64_t number, struct step_facts facts, struct step_times *times_out,
                    uint64_t *ended_ns_out);

#endif
