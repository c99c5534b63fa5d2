/* Mode parameter_server, in host memory: one copy of the parameters and of the optimizer's buffers. Gradients go there
 * bucket by bucket while backward goes on, are added and used up there, and the weights come back. */
#include "sync/modes/modes.h"
#include "sync/server/reduce_server.h"

static int host_before_forward(struct sync *sync, const struct span *span)
{
    const int rc = sync_fill_server(sync, span);
    return rc == 0 ? sync_mean_before_evaluation(sync, span, 0) : rc;
}

static int host_ready(struct sync *sync, const struct span *span, uint32_t bucket)
{
    return sync_start_gradients(sync, bucket, span->number);
}

/* Behind all sums: the norms, and behind these the update. Nothing where updates come with the sums. */
static int update_apart(struct sync *sync, const struct span *span)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket_run run = sync->buckets.of[REGION_WEIGHTS];
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++) {
        rc = reduce->ops->start(reduce, sync->spec.index, b, span->number);
        if (rc == 0)
            rc = reduce->ops->wait(reduce, sync->spec.index, b);
    }
    return rc;
}

static int take_updates(struct sync *sync, const struct span *span)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++) {
        rc = sync_await_gradients(sync, b, span->number);
        if (rc == 0 && !sync_updates_apart(sync))
            rc = reduce_server_take(reduce, sync->spec.index, b);
    }
    return rc;
}

/* What a tower waits for is the reduction and the update: they are not told apart. */
static int host_apply(struct sync *sync, const struct span *span)
{
    int rc = take_updates(sync, span);
    if (rc == 0)
        rc = update_apart(sync, span);
    if (rc == 0)
        rc = tower_weights_changed(sync->spec.tower, 0, tower_arena(sync->spec.tower)->updated);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

static int host_before_snapshot(struct sync *sync, uint64_t batch)
{
    return sync_fetch_states(sync, batch);
}

static int host_finish(struct sync *sync, uint64_t next)
{
    return sync_mean_before(sync, next, 0);
}

const struct sync_ops sync_server_host_ops = {
    .name = "parameter_server",
    .sum = "gradients",
    .place = "in host memory",
    .is_one_model = true,
    .serves = SERVES_ALL,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = host_before_forward,
    .bucket_ready = host_ready,
    .apply = host_apply,
    .before_snapshot = host_before_snapshot,
    .finish = host_finish,
};
