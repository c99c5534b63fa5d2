/* Reports between two queues. Called by the trainer. */
#include "sync/report_pool.h"

#include <errno.h>
#include <stdlib.h>

#include "sync/trainer.h"

int report_pool_init(struct report_pool *pool, uint32_t depth, uint32_t ids)
{
    *pool = (struct report_pool){ .reports = calloc(depth, sizeof(*pool->reports)),
                                  .ids = calloc((size_t)depth * ids, sizeof(*pool->ids)) };
    if (pool->reports == NULL || pool->ids == NULL)
        return -ENOMEM;
    int rc = queue_open(&pool->full, depth);
    if (rc == 0)
        rc = queue_open(&pool->empty, depth);
    for (uint32_t i = 0; i < depth && rc == 0; i++) {
        pool->reports[i].ids = pool->ids + (size_t)i * ids;
        rc = queue_put(pool->empty, &pool->reports[i]);
    }
    return rc;
}

void report_pool_release(struct report_pool *pool)
{
    queue_close(pool->full);
    queue_close(pool->empty);
    free(pool->reports);
    free(pool->ids);
}

void report_pool_cancel(struct report_pool *pool)
{
    queue_cancel(pool->full);
    queue_cancel(pool->empty);
}
