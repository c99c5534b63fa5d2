/* The use of the input pipeline: how full its queues were, and how busy its threads. For metrics, the progress line and
 * the end of a run. */
#ifndef PIPETRAIN_FEED_H
#define PIPETRAIN_FEED_H

#include <stdio.h>

#include "loader/loader.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/step_stats.h"

/* The share of time in which the threads worked; 0 if nothing is loaded. */
struct loader_busy { double readers, decoders; };

/* The shares between two counts of a loader that are `wall_ns` apart; `before` all 0: since its start. */
struct loader_busy loader_busy(const struct loader_counts *before, const struct loader_counts *after, uint64_t wall_ns,
                               const struct run_plan *plan);

/* CPU time as a share of the readers' or decoders' busy time; in the rest they waited for files. Only for threads that
 * have ended. */
double loader_reading_computed(const struct loader_counts *counts);
double loader_decoding_computed(const struct loader_counts *counts);

/* Adds up the loader's busy time over several intervals. Begins as all 0. */
struct feed_meter {
    /* Sum: busy times of completed intervals; since: counts at the begin of the current one. */
    struct loader_counts sum, since;
    /* Length of the completed intervals; begin of the current one, by clock_now_ns. */
    uint64_t wall_ns, since_ns;
    bool runs;
};

/* Begin or end an interval at `now_ns`; `now`: the loader's counts at that time. No effect if an interval is already
 * open, or if none is open. */
void feed_meter_start(struct feed_meter *meter, const struct loader_counts *now, uint64_t now_ns);
void feed_meter_stop(struct feed_meter *meter, const struct loader_counts *now, uint64_t now_ns);
/* The shares over all completed intervals. */
struct loader_busy feed_meter_busy(const struct feed_meter *meter, const struct run_plan *plan);

struct queue_use {
    uint64_t depth;             /* capacity in batches */
    struct fill_use fill;
};

/* For synthetic input only the slots are used. */
struct feed_use {
    struct queue_use ring, slots;
    struct loader_busy busy;
};

struct feed_use feed_use(const struct queue_fills *fills, const struct loader_busy *busy,
                         const struct settings *settings);
/* The line "queues" of a run's end. */
void feed_print(const struct feed_use *use, const struct settings *settings, FILE *out);

#endif
