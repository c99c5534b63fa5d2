/* What a run costs (doc/cost.md): the time from the start of its processes to their ends, which is that of a bill, on
 * every machine; the money that follows from report.price; the energy that was measured. A rollback belongs to the
 * process in which it happens; a resumed run continues with the sums of its checkpoint. Used by main only. */
#ifndef PIPETRAIN_COST_H
#define PIPETRAIN_COST_H

#include <stdio.h>

#include "sync/ranks/ranks.h"
#include "tools/lib/config/price.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/energy.h"
#include "tools/lib/run/metrics.h"
#include "tools/lib/run/ranks/energy_share.h"
#include "tools/lib/run/run_progress.h"

#define COST_RANKS_MAX 256u             /* of a run */

/* What a rank has read so far, as a message too. */
struct cost_energy {
    uint64_t microjoules;
    bool is_partial;            /* energy_is_partial */
    bool is_last;               /* of these steps */
};

struct cost {
    struct price price;         /* of a machine for an hour; amount 0: there is none */
    uint32_t machines;          /* hosts on which ranks of the run are; in rank 0 */
    uint64_t begun_ns;          /* when this process started, on clock_now_ns's clock */
    struct run_spent earlier;   /* by earlier processes of the run */
    bool has_begun;             /* `earlier` is known */
    struct ranks *ranks;        /* borrowed; NULL: one process */
    struct energy energy;       /* what this rank reads */
    bool has_sources;           /* `sources` is known */
    struct energy_sources sources;
    uint64_t read_ns;           /* when the counters were read and sent, on clock_now_ns's clock */
    struct cost_energy others[COST_RANKS_MAX];  /* by rank, in rank 0 */
};

/* Begin the cost of a process, and to count energy. `ranks` NULL: one machine. Call cost_release afterwards. */
void cost_open(struct cost *cost, const struct settings *settings, struct ranks *ranks, uint64_t process_start_ns);
void cost_release(struct cost *cost);
/* Find the counters that this rank reads, once. Called by all ranks; waits for them. 0, or an exit code as of
 * energy_share_agree. */
int cost_find_energy(struct cost *cost, const struct run_devices *devices);
/* A run begins, or is resumed at these sums. Only the first call has an effect: after a rollback the same process goes
 * on. The checkpoint of a version without sums of costs has at least the time of its training. */
void cost_begin(struct cost *cost, const struct run_spent *earlier, const struct account_state *sums);
/* Called by all ranks after a batch: read the counters about once a second, or `now`; send the result to rank 0. */
void cost_follow(struct cost *cost, bool now);
/* Called by all ranks after the steps, unless the run has failed: rank 0 waits for the others' last readings. */
void cost_end(struct cost *cost);
/* All that the run has spent until now; of energy, until it was read. */
struct run_spent cost_spent(struct cost *cost);

/* The money for that; NAN without a price. */
double cost_money(const struct price *price, const struct run_spent *spent);
/* The values of the whole run so far, from the images that were trained on and progress->spent. Sets NEEDS_PRICE, and
 * with energy NEEDS_ENERGY. */
void cost_measure(const struct cost *cost, uint64_t images, const struct run_progress *progress,
                  struct metric_values *values);
/* The lines "price" and "energy" of the plan: the price, if there is one; whose energy is measured, or why not. */
void cost_print_plan(const struct cost *cost, FILE *out);
/* The lines "cost" and "energy" of the result, of what is known. */
void cost_print(const struct cost *cost, const struct metric_values *values, FILE *out);
/* "price": {"per_hour", "currency", "machines"}; nothing without a price. */
void cost_write(const struct cost *cost, struct json *json);

#endif
