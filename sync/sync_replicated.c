/* Mode replicated: one model, kept equal in all towers by summing every batch's gradients. */
#include "sync/modes.h"

static int replicated_ready(struct sync *sync, const struct span *span, uint32_t bucket)
{
    struct reduce *const reduce = sync->spec.reduce;
    return reduce->ops->start(reduce, sync->spec.index, bucket, span->number);
}

/* Wait for each bucket's sum and update its range. */
static int replicated_apply(struct sync *sync, const struct span *span)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++) {
        rc = reduce->ops->wait(reduce, sync->spec.index, b);
        if (rc == 0)
            rc = step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION);
        if (rc == 0)
            rc = sync_update_bucket(sync, span, b, span->global_count);
        if (rc == 0)
            rc = step_clock_mark(sync->clock, SPENT_UPDATE);
    }
    return rc;
}

const struct sync_ops sync_replicated_ops = {
    .name = "replicated",
    .sum = "gradients",
    .is_one_model = true,
    .sums = { [REGION_GRADIENTS] = true },
    .bucket_ready = replicated_ready,
    .apply = replicated_apply,
};
