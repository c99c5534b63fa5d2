/* Relaxed consistency: a mode that updates with the sums of the step before, at that step's rate, so that a reduction
 * has a whole step of time. The first step of a run updates nothing, and the gradients of the last one are never
 * applied: the weights that are saved are those that were evaluated. Sums that are not applied yet are part of a saved
 * state. */
#include "sync/modes/modes.h"

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

/* What the mode does with its sums, with those of the step before. */
static int apply_before(struct sync *sync, const struct span *span)
{
    struct span before;
    const int rc = span->step == 0 ? 0 : find_before(sync, span, &before);
    return rc == 0 && span->step > 0 ? sync->spec.ops->applied->apply(sync, &before) : rc;
}

static int relaxed_apply(struct sync *sync, const struct span *span)
{
    int rc = apply_before(sync, span);
    if (rc == 0)
        rc = tower_defer(sync->spec.tower);
    if (rc == 0)
        rc = sync_start_region(sync, REGION_GRADIENTS, span->number);
    sync->is_deferred = rc == 0;
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

static int relaxed_before_forward(struct sync *sync, const struct span *span)
{
    return sync->spec.ops->applied->before_forward(sync, span);
}

/* From here on there is no sum to wait for. */
static int await_sums(struct sync *sync)
{
    const int rc = sync_await_sums(sync);
    sync->is_deferred = false;
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

static int relaxed_before_snapshot(struct sync *sync, uint64_t batch)
{
    const struct sync_ops *const applied = sync->spec.ops->applied;
    const int rc = sync->is_deferred ? await_sums(sync) : 0;
    return rc == 0 && applied->before_snapshot != NULL ? applied->before_snapshot(sync, batch) : rc;
}

static int relaxed_finish(struct sync *sync, uint64_t next)
{
    const int rc = sync->is_deferred ? await_sums(sync) : 0;
    return rc == 0 ? sync->spec.ops->applied->finish(sync, next) : rc;
}

const struct sync_ops sync_relaxed_ops = {
    .name = "replicated, relaxed",
    .sum = "gradients",
    .is_one_model = true,
    .defers = true,
    .applied = &sync_replicated_ops,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = relaxed_before_forward,
    .apply = relaxed_apply,
    .before_snapshot = relaxed_before_snapshot,
    .finish = relaxed_finish,
};

const struct sync_ops sync_server_device_relaxed_ops = {
    .name = "parameter_server, relaxed",
    .sum = "gradients",
    .place = "on the devices",
    .is_one_model = true,
    .has_owners = true,
    .defers = true,
    .applied = &sync_server_device_ops,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = relaxed_before_forward,
    .apply = relaxed_apply,
    .before_snapshot = relaxed_before_snapshot,
    .finish = relaxed_finish,
};

const struct sync_ops sync_server_host_relaxed_ops = {
    .name = "parameter_server, relaxed",
    .sum = "gradients",
    .place = "in host memory",
    .is_one_model = true,
    .serves = SERVES_ALL,
    .defers = true,
    .applied = &sync_server_host_ops,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = relaxed_before_forward,
    .apply = relaxed_apply,
    .before_snapshot = relaxed_before_snapshot,
    .finish = relaxed_finish,
};
