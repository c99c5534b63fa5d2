/* Mode averaging: every tower learns from its own slices, and every so many steps all go on from
 * their mean, weighted by the samples each has learned from: weights, batch statistics and the
 * optimizer's buffers. The buffers go with the weights because a mean model without them would
 * keep the momentum of one tower, and a tower that had no samples would have none; and because
 * then a mean at every step is, for the rules that are linear in the gradient (sgd, momentum,
 * nesterov), what mode replicated does. With spec.keeps_buffers they stay with the towers all the same,
 * which saves half the sum with momentum. Between means towers differ, so the last one is taken
 * when the run ends, and one in front of every evaluation. */
#include "sync/mean.h"
#include "sync/modes/modes.h"

static int averaging_before_forward(struct sync *sync, const struct span *span)
{
    return sync_mean_before_evaluation(sync, span, sync->spec.every);
}

static int averaging_apply(struct sync *sync, const struct span *span)
{
    const int rc = sync_update(sync, span, span->count);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

static int averaging_after_step(struct sync *sync, const struct span *span)
{
    return mean_is_behind(span, sync->spec.every) ? sync_mean(sync, span->number, span->number, sync->spec.every) : 0;
}

static int averaging_finish(struct sync *sync, uint64_t next)
{
    return sync_mean_before(sync, next, sync->spec.every);
}

const struct sync_ops sync_averaging_ops = {
    .name = "averaging",
    .sum = "weights",
    .has_period = true,
    .is_one_model = true,
    .differs = true,
    .sums = { [REGION_WEIGHTS] = true, [REGION_AVERAGES] = true, [REGION_STATES] = true, [REGION_STATES + 1] = true,
             [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = averaging_before_forward,
    .apply = averaging_apply,
    .after_step = averaging_after_step,
    .finish = averaging_finish,
};
