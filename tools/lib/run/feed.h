/* How the input pipeline was used: how full its queues were, how busy its threads. For metrics, the progress line and the
 * end of a run. */
#ifndef PIPETRAIN_FEED_H
#define PIPETRAIN_FEED_H

#include <stdio.h>

#include "loader/loader.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"
#include "tools/lib/run/step_stats.h"

/* Share of the threads' time that they worked; 0 where nothing is loaded. */
struct loader_busy { double readers, decoders; };

/* Between two counts of a loader that are `wall_ns` apart; `before` all 0: since its start. */
struct loader_busy loader_busy(const struct loader_counts *before, const struct loader_counts *after, uint64_t wall_ns,
                               const struct run_plan *plan);

/* CPU time as a share of the readers' or decoders' busy time; the rest they waited for files. For threads that have
 * ended. */
double loader_reading_computed(const struct loader_counts *counts);
double loader_decoding_computed(const struct loader_counts *counts);

/* Adds up the loader's busy time over several intervals. Begins as all 0. */
struct feed_meter {
    struct loader_counts sum, since;    /* busy times of the intervals that ended; counts when this one began */
    uint64_t wall_ns, since_ns;         /* the same for clock_now_ns's clock */
    bool runs;
};

/* Begin or end an interval at `now_ns`, when the loader has counted `now`. Starting a meter that runs does nothing, nor
 * does stopping one that does not. */
void feed_meter_start(struct feed_meter *meter, const struct loader_counts *now, uint64_t now_ns);
void feed_meter_stop(struct feed_meter *meter, const struct loader_counts *now, uint64_t now_ns);
/* Over the intervals that ended. */
struct loader_busy feed_meter_busy(const struct feed_meter *meter, const struct run_plan *plan);

struct queue_use {
    uint64_t depth;             /* batches that it has room for */
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
