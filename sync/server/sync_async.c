/* Mode async: one copy of the parameters in host memory, which every tower updates by its own gradients as soon as it
 * has them, and fetches in front of every step. Towers run ahead of each other by a bound (stale synchronous
 * parallel, Ho et al. 2013): a tower begins step t when all towers' updates of the steps before t - max_staleness are
 * in. How many of the steps before t are not all in when it fetches is the step's staleness; the rate of its update
 * may be divided by that (Zhang et al. 2016). In front of an evaluation and of a saved state all towers meet. */
#include "sync/modes/modes.h"
#include "sync/server/reduce_server.h"

/* All updates are in, and no tower goes on before all have fetched. */
static int meet(struct sync *sync, uint64_t batch)
{
    const int rc = sync_start_region(sync, REGION_WEIGHTS, batch);
    return rc == 0 ? sync_await_region(sync, REGION_WEIGHTS) : rc;
}

static int fetch(struct sync *sync, const struct span *span)
{
    int rc = reduce_server_fetch(sync->spec.reduce, sync->spec.index, span->step, sync->spec.max_staleness,
                                 &sync->staleness);
    if (rc == 0)
        rc = tower_weights_changed(sync->spec.tower, 0, tower_arena(sync->spec.tower)->updated);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

static int async_before_forward(struct sync *sync, const struct span *span)
{
    int rc = sync_fill_server(sync, span);
    if (rc == 0 && span->pass == PASS_TRAIN)
        return fetch(sync, span);
    if (rc == 0 && span->first_of_pass)
        rc = meet(sync, span->number);
    return rc == 0 ? sync_mean_before_evaluation(sync, span, 0) : rc;
}

/* Where norms of all gradients are needed, all are pushed with the first bucket, when the last is there. */
static bool is_pushed(const struct sync *sync, uint32_t bucket)
{
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    return !sync_needs_norms(sync) || bucket == run.first + run.count - 1;
}

static int push(struct sync *sync, const struct span *span, uint32_t bucket)
{
    const uint32_t delay = sync->spec.divides_rate && sync->staleness > 1 ? sync->staleness : 1;
    return reduce_server_push(sync->spec.reduce, sync->spec.index, bucket, span->number, delay);
}

static int async_ready(struct sync *sync, const struct span *span, uint32_t bucket)
{
    const struct bucket *const range = &sync->buckets.bucket[bucket];
    const int rc = span->count > 0 ? tower_grads_to_bf16(sync->spec.tower, range->offset, range->count) : 0;
    return rc == 0 && span->count > 0 && is_pushed(sync, bucket) ? push(sync, span, bucket) : rc;
}

static int async_apply(struct sync *sync, const struct span *span)
{
    return reduce_server_pushed(sync->spec.reduce, sync->spec.index, span->step + 1);
}

static int async_before_snapshot(struct sync *sync, uint64_t batch)
{
    const int rc = meet(sync, batch);
    return rc == 0 ? sync_fetch_states(sync, batch) : rc;
}

static int async_finish(struct sync *sync, uint64_t next)
{
    const int rc = meet(sync, next);
    return rc == 0 ? sync_mean_before(sync, next, 0) : rc;
}

const struct sync_ops sync_async_ops = {
    .name = "async",
    .sum = "statistics",
    .place = "in host memory",
    .is_one_model = true,
    .serves = SERVES_EACH,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true },
    .before_forward = async_before_forward,
    .bucket_ready = async_ready,
    .apply = async_apply,
    .before_snapshot = async_before_snapshot,
    .finish = async_finish,
};
