/* Mode replicated, relaxed: as replicated, but every step updates with the sums of the step before, at
 * that step's rate, so that a reduction has a whole step of time. The first step of a run updates
 * nothing, and the gradients of the last one are never applied: the weights that are saved are those
 * that were evaluated. Sums that are not applied yet are part of a saved state. */
#include "sync/modes.h"

static int await_sums(struct sync *sync)
{
    if (!sync->is_deferred)
        return 0;
    const int rc = sync_await_region(sync, REGION_GRADIENTS);
    sync->is_deferred = false;
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

/* The training batch before `span`, which is not the first one. */
static int find_before(const struct sync *sync, const struct span *span, struct span *before_out)
{
    uint64_t number = span->number;
    int rc;
    do
        rc = schedule_find(sync->spec.schedule, --number, sync->spec.index, before_out);
    while (rc == 0 && before_out->pass != PASS_TRAIN);
    return rc;
}

static int update(struct sync *sync, const struct span *span)
{
    struct span before;
    int rc = span->step == 0 ? 0 : find_before(sync, span, &before);
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    for (uint32_t b = run.first; b < run.first + run.count && span->step > 0 && rc == 0; b++)
        rc = sync_update_bucket(sync, &before, b, before.global_count);
    return rc;
}

static int relaxed_apply(struct sync *sync, const struct span *span)
{
    int rc = await_sums(sync);
    if (rc == 0)
        rc = update(sync, span);
    if (rc == 0)
        rc = tower_defer(sync->spec.tower);
    if (rc == 0)
        rc = sync_start_region(sync, REGION_GRADIENTS, span->number);
    sync->is_deferred = rc == 0;
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

static int relaxed_before_forward(struct sync *sync, const struct span *span)
{
    return sync_mean_before_evaluation(sync, span, 0);
}

static int relaxed_before_snapshot(struct sync *sync, uint64_t batch)
{
    (void)batch;
    return await_sums(sync);
}

static int relaxed_finish(struct sync *sync, uint64_t next)
{
    const int rc = await_sums(sync);
    return rc == 0 ? sync_mean_before(sync, next, 0) : rc;
}

const struct sync_ops sync_relaxed_ops = {
    .name = "replicated, relaxed",
    .sum = "gradients",
    .is_one_model = true,
    .defers = true,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = relaxed_before_forward,
    .apply = relaxed_apply,
    .before_snapshot = relaxed_before_snapshot,
    .finish = relaxed_finish,
};
