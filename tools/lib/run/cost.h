/* What a run costs (doc/cost.md): the time from the start of its processes to their ends, which is that of a bill, on
 * every machine; the money that follows from report.price; the energy that was measured. A rollback belongs to the
 * process in which it happens; a resumed run continues with the sums of its checkpoint. Used by main only. */
#ifndef PIPETRAIN_COST_H
#define PIPETRAIN_COST_H

#include <stdio.h>

#include "sync/ranks/ranks.h"
#include "tools/lib/config/price.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/metrics.h"
#include "tools/lib/run/run_progress.h"

struct cost {
    struct price price;         /* of a machine for an hour; amount 0: there is none */
    uint32_t machines;          /* hosts on which ranks of the run are */
    uint64_t begun_ns;          /* when this process started, on clock_now_ns's clock */
    struct run_spent earlier;       /* by earlier processes of the run */
    bool has_begun;             /* `earlier` is known */
};

/* Begin the cost of a process. `ranks` NULL: one machine. */
void cost_init(struct cost *cost, const struct settings *settings, const struct ranks *ranks, uint64_t process_start_ns);
/* A run begins, or is resumed at these sums. Only the first call has an effect: after a rollback the same process goes
 * on. The checkpoint of a version without sums of costs has at least the time of its training. */
void cost_begin(struct cost *cost, const struct run_spent *earlier, const struct account_state *sums);
/* All that the run has spent until now. */
struct run_spent cost_spent(const struct cost *cost);

/* The money for that; NAN without a price. */
double cost_money(const struct price *price, const struct run_spent *spent);
/* The values of the whole run so far, from the images that were trained on and progress->spent. Sets NEEDS_PRICE, and
 * with energy NEEDS_ENERGY. */
void cost_measure(const struct cost *cost, uint64_t images, const struct run_progress *progress,
                  struct metric_values *values);
/* The line "price" of the plan; nothing without a price. */
void cost_print_plan(const struct cost *cost, FILE *out);
/* The line "cost" of the result. */
void cost_print(const struct cost *cost, const struct metric_values *values, FILE *out);
/* "price": {"per_hour", "currency", "machines"}; nothing without a price. */
void cost_write(const struct cost *cost, struct json *json);

#endif
