/* The reports of one tower in circulation: empty ones wait for the tower's thread, full ones for main, which gives them
 * back. Their number is fixed and their memory taken before the first step. */
#ifndef PIPETRAIN_REPORT_POOL_H
#define PIPETRAIN_REPORT_POOL_H

#include <stdint.h>

#include "stage/queue.h"

struct step_report;

struct report_pool {
    struct step_report *reports;
    uint64_t *ids;
    struct queue *full, *empty;
};

/* `depth` reports with room for `ids` ids each. 0 or -ENOMEM; report_pool_release after either. */
int report_pool_init(struct report_pool *pool, uint32_t depth, uint32_t ids);
/* Accepts a pool that is all 0. */
void report_pool_release(struct report_pool *pool);
/* Every wait for a report ends now. Any thread. */
void report_pool_cancel(struct report_pool *pool);

#endif
