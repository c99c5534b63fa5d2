/* Fixture for tests of the order of events: one tower's pipeline (ring, feeder, slots, trainer) and a batch source. Its
 * device computes longer than it copies; timed events around every copy and step give the times. Functions are called
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
    bool holds_steps;           /* the device stays in every finished step until timeline_release */
    bool holds_batches;         /* the source keeps every batch until timeline_feed */
};

/* Device time, counted from some point before the first step. */
struct interval { uint64_t begin_ns, end_ns; };

struct timeline;

/* Open and planned, not running. One timeline at a time. */
struct timeline *timeline_open(const struct timeline_spec *spec);
void timeline_close(struct timeline *timeline);

/* Start. */
void timeline_go(struct timeline *timeline);
/* Take the next step's report and give it back. */
struct step_times timeline_next(struct timeline *timeline);
/* After the last report: waits for the feeder and the device. */
struct feeder_counts timeline_end(struct timeline *timeline);

/* Let the device end the steps before `end`; let the source fill the batches before `end`. */
void timeline_release(struct timeline *timeline, uint32_t end);
void timeline_feed(struct timeline *timeline, uint32_t end);

void timeline_sleep_ns(uint64_t ns);

/* Steps queued by the tower's thread, batches published by the feeder, and whether the device has finished step or
 * copy `number`. At any time. */
uint32_t timeline_queued(const struct timeline *timeline);
uint64_t timeline_published(const struct timeline *timeline);
bool timeline_is_done(const struct timeline *timeline, uint32_t number);
bool timeline_is_copied(const struct timeline *timeline, uint32_t number);

/* After timeline_end: the times of the copy of batch `number`, and of step `number` from the first read of the batch
 * to its result, without the stream's waits before. */
struct interval timeline_copy(const struct timeline *timeline, uint32_t number);
struct interval timeline_step(const struct timeline *timeline, uint32_t number);

#endif
