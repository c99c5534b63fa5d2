/* Mode replicated: one model, kept equal in all towers by summing every batch's gradients. Batch
 * statistics are each tower's own while it trains, as if it were alone; their mean, weighted by the
 * samples since the one before, takes their place in front of every evaluation and at the end. */
#include "sync/modes/modes.h"

static int replicated_ready(struct sync *sync, const struct span *span, uint32_t bucket)
{
    return sync_start_gradients(sync, bucket, span->number);
}

/* Wait for each bucket's sum and update its range. */
static int replicated_apply(struct sync *sync, const struct span *span)
{
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    const bool is_alone = sync->spec.reduce->ops == &reduce_none_ops;
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++) {
        rc = sync_await_gradients(sync, b, span->number);
        if (rc == 0 && !is_alone)
            rc = step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION);
        if (rc == 0)
            rc = sync_update_bucket(sync, span, b, span->global_count);
        if (rc == 0)
            rc = step_clock_mark(sync->clock, SPENT_UPDATE);
    }
    return rc;
}

static int replicated_before_forward(struct sync *sync, const struct span *span)
{
    return sync_mean_before_evaluation(sync, span, 0);
}

static int replicated_finish(struct sync *sync, uint64_t next)
{
    return sync_mean_before(sync, next, 0);
}

const struct sync_ops sync_replicated_ops = {
    .name = "replicated",
    .sum = "gradients",
    .is_one_model = true,
    .ends_whole = true,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = replicated_before_forward,
    .bucket_ready = replicated_ready,
    .apply = replicated_apply,
    .finish = replicated_finish,
};
