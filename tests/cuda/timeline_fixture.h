/* One tower's pipeline for tests of when things happen: ring, feeder, slots, trainer, with a
 * source that fills the ring. Its device computes longer than it copies, and timed events of
 * the stand's own around every copy and every step tell when each was. Functions are called
 * from the test's main thread and assert that they succeed. */
#ifndef PIPETRAIN_TIMELINE_FIXTURE_H
#define PIPETRAIN_TIMELINE_FIXTURE_H

#include "stage/feeder.h"
#include "sync/trainer.h"

enum { TIMELINE_STEPS_MAX = 40 };

struct timeline_spec {
    uint32_t steps;             /* up to TIMELINE_STEPS_MAX, each of one full batch */
    uint32_t staging_depth, report_depth;
    enum graph_use graph;
    bool holds_steps;           /* the device stays in every step, its work done, until timeline_release */
    bool holds_batches;         /* the source keeps every batch until timeline_feed */
};

/* Device time, counted from some point before the first step. */
struct interval { uint64_t begin_ns, end_ns; };

struct timeline;

/* Everything is open and planned, and nothing runs. One timeline at a time. */
struct timeline *timeline_open(const struct timeline_spec *spec);
void timeline_close(struct timeline *timeline);

/* Batches are fed, steps begin. */
void timeline_go(struct timeline *timeline);
/* Take the next step's report and give it back. */
struct step_times timeline_next(struct timeline *timeline);
/* After the last report: wait for the feeder. The device has done all there was. */
struct feeder_counts timeline_end(struct timeline *timeline);

/* The device may end the steps before `end` / the source may fill the batches before `end`. */
void timeline_release(struct timeline *timeline, uint32_t end);
void timeline_feed(struct timeline *timeline, uint32_t end);

/* At any time: steps that the tower's thread has queued; batches that the feeder has published;
 * has the device done step `number`, which was queued? */
uint32_t timeline_queued(const struct timeline *timeline);
uint64_t timeline_published(const struct timeline *timeline);
bool timeline_is_done(const struct timeline *timeline, uint32_t number);
bool timeline_is_copied(const struct timeline *timeline, uint32_t number);

/* After timeline_end: the copy of batch `number`; step `number`, from the first work that
 * reads the batch to its result. What a stream waits for before either is not in it. */
struct interval timeline_copy(const struct timeline *timeline, uint32_t number);
struct interval timeline_step(const struct timeline *timeline, uint32_t number);

#endif
