/* Mode parameter_server, on the towers' devices: every bucket of parameters has an owner, the tower that has least
 * to look after. Gradients go to the owner, which alone keeps the optimizer's buffers, updates, and sends the
 * weights to all. What is done at once, because a norm of all gradients is needed, tower 0 does for all. */
#include "sync/modes/modes.h"

static int device_ready(struct sync *sync, const struct span *span, uint32_t bucket)
{
    return sync_start_gradients(sync, bucket, span->number);
}

static bool is_mine(const struct sync *sync, uint32_t bucket)
{
    return sync->buckets.bucket[bucket].owner == sync->spec.index;
}

static int update_mine(struct sync *sync, const struct span *span, uint32_t bucket)
{
    int rc = sync_await_gradients(sync, bucket, span->number);
    if (rc == 0)
        rc = step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION);
    if (rc == 0)
        rc = sync_update_bucket(sync, span, bucket, span->global_count);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

/* Where the update is one for all, no weights are sent before it. */
static int device_apply(struct sync *sync, const struct span *span)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket_run gradients = sync->buckets.of[REGION_GRADIENTS];
    const uint32_t weights = sync->buckets.of[REGION_WEIGHTS].first;
    const bool is_one_update = tower_updates_at_once(sync->spec.tower);
    int rc = 0;
    for (uint32_t i = 0; i < gradients.count && rc == 0; i++) {
        if (is_mine(sync, gradients.first + i))
            rc = update_mine(sync, span, gradients.first + i);
        if (rc == 0 && !is_one_update)
            rc = reduce->ops->start(reduce, sync->spec.index, weights + i, span->number);
    }
    for (uint32_t i = 0; i < gradients.count && rc == 0 && is_one_update; i++)
        rc = reduce->ops->start(reduce, sync->spec.index, weights + i, span->number);
    if (rc == 0)
        rc = sync_await_region(sync, REGION_WEIGHTS);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

static int device_before_forward(struct sync *sync, const struct span *span)
{
    return sync_mean_before_evaluation(sync, span, 0);
}

/* Every tower gets what the owners have of the optimizer's buffers. */
static int device_before_snapshot(struct sync *sync, uint64_t batch)
{
    return sync_fetch_states(sync, batch);
}

static int device_finish(struct sync *sync, uint64_t next)
{
    return sync_mean_before(sync, next, 0);
}

const struct sync_ops sync_server_device_ops = {
    .name = "parameter_server",
    .sum = "gradients",
    .place = "on the devices",
    .is_one_model = true,
    .has_owners = true,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = device_before_forward,
    .bucket_ready = device_ready,
    .apply = device_apply,
    .before_snapshot = device_before_snapshot,
    .finish = device_finish,
};
