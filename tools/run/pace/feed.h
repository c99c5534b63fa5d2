/* How the feed was used: how full its queues were, how busy its threads. Told in metrics.jsonl, summary.json and at the
 * end of a run. */
#ifndef PIPETRAIN_FEED_H
#define PIPETRAIN_FEED_H

#include <stdio.h>

#include "formats/json.h"
#include "loader/loader.h"
#include "tools/config/settings.h"
#include "tools/run/pace/fill.h"
#include "tools/run/run_plan.h"

/* Shares of the threads' time that they worked; 0 where nothing is loaded. */
struct loader_busy { double readers, decoders; };

/* Between two counts of a loader, `wall_ns` apart; from its start on where all of `before` is 0. */
struct loader_busy loader_busy(const struct loader_counts *before, const struct loader_counts *after, uint64_t wall_ns,
                               const struct run_plan *plan);

/* Share of the readers' busy time that they computed, not waiting for files, and that of the decoders. Of threads that
 * have ended. */
double loader_reading_computed(const struct loader_counts *counts);
double loader_decoding_computed(const struct loader_counts *counts);

/* Adds up what the loader does while it runs, without what is of no interest between: begins as all 0. */
struct feed_meter {
    struct loader_counts sum, since;    /* busy times of the stretches that ended; counts when this one began */
    uint64_t wall_ns, since_ns;         /* the same of clock_now_ns's clock */
    bool runs;
};

/* At `now_ns` the loader has counted `now`. Starting a meter that runs does nothing, as stopping one that does not. */
void feed_meter_start(struct feed_meter *meter, const struct loader_counts *now, uint64_t now_ns);
void feed_meter_stop(struct feed_meter *meter, const struct loader_counts *now, uint64_t now_ns);
/* Of the stretches that ended. */
struct loader_busy feed_meter_busy(const struct feed_meter *meter, const struct run_plan *plan);

struct feed_use {
    const struct queue_fills *fills;    /* lent */
    struct loader_busy busy;
};

/* Objects "queues" and "loader_busy"; for synthetic input only the slots. */
void feed_write(const struct feed_use *use, const struct settings *settings, struct json *json);
/* A line for people, with room for its name in front. */
void feed_print(const struct feed_use *use, const struct settings *settings, FILE *out);

#endif
