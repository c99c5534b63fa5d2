/* The modes of synchronisation, and their table; doc/sync.md compares them for users. Called by the trainer in each
 * step of a tower. */
#include "sync/sync.h"

#include "stage/trace/range.h"
#include "sync/reduce_server.h"
#include "sync/server.h"

/* The regions that are summed in modes that sum gradients; statistics, to average them before an evaluation. */
#define GRADIENTS_AND_STATISTICS \
    { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true }

/* ---- buckets and regions ---- */

/* Before an update of all weights at once: with parts of a head, exchange what it needs to know of those of other
 * towers. */
static int exchange_norms(struct sync *sync, const struct local_batch *local, const struct optimizer_step *step)
{
    struct tower *const tower = sync->spec.tower;
    if (!tower_has_parts(tower) || !tower_updates_at_once(tower))
        return 0;
    int rc = tower_put_norms(tower, step);
    if (rc == 0)
        rc = step_clock_mark(sync->clock, SPENT_UPDATE);
    return rc == 0 ? sync_exchange(sync, head_exchange_of_norms(tower_head(tower)), 1, local->number) : rc;
}

static int update(struct sync *sync, const struct local_batch *local, size_t offset, size_t count, uint32_t samples)
{
    const struct optimizer_step step = {
        .number = local->step,
        .learning_rate = (float)learning_rate_at(sync->spec.learning_rate, local->step),
        .gradient_scale = 1.0f / (float)samples,
    };
    int rc = exchange_norms(sync, local, &step);
    if (rc != 0)
        return rc;
    range_begin(TRACE_UPDATE, local->number);
    rc = tower_update(sync->spec.tower, offset, count, &step);
    range_end();
    return rc;
}

int sync_update(struct sync *sync, const struct local_batch *local, uint32_t samples)
{
    struct tower *const tower = sync->spec.tower;
    const size_t count = tower_arena(tower)->updated;
    if (samples == 0)
        return 0;
    int rc = tower_weigh(tower, 0, count, samples);
    if (rc == 0 && tower_updates_at_once(tower))
        rc = tower_check(tower, 0, count);
    return rc == 0 ? update(sync, local, 0, count, samples) : rc;
}

/* Update the weights of a bucket of gradients, which are sums over `samples` > 0 samples. Called for every bucket in
 * order. */
static int update_bucket(struct sync *sync, const struct local_batch *local, uint32_t b, uint32_t samples)
{
    struct tower *const tower = sync->spec.tower;
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    int rc = tower_weigh(tower, bucket->offset, bucket->count, samples);
    if (rc == 0 && !tower_updates_at_once(tower))
        return update(sync, local, bucket->offset, bucket->count, samples);
    if (rc == 0)
        rc = tower_check(tower, bucket->offset, bucket->count);
    if (rc != 0 || b + 1 < sync->buckets.of[REGION_GRADIENTS].count)
        return rc;
    return update(sync, local, 0, tower_arena(tower)->updated, samples);
}

/* Start the reduction of a bucket of gradients whose computation is queued; with sync.wire = bf16 of a bf16 copy. */
static int start_gradients(struct sync *sync, uint32_t b, uint64_t batch)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    const int rc = tower_grads_to_bf16(sync->spec.tower, bucket->offset, bucket->count);
    return rc == 0 ? reduce->ops->start(reduce, sync->spec.index, b, batch) : rc;
}

/* bucket_ready of modes that start each reduction as soon as possible. */
static int start_bucket(struct sync *sync, const struct local_batch *local, uint32_t b)
{
    return start_gradients(sync, b, local->number);
}

static int await_bucket(struct sync *sync, uint32_t b, uint64_t batch)
{
    struct reduce *const reduce = sync->spec.reduce;
    range_begin(TRACE_EXPOSED_REDUCTION, batch);
    const int rc = reduce->ops->wait(reduce, sync->spec.index, b);
    range_end();
    return rc;
}

/* Queue a wait for the sum of a bucket. The sum is then in this tower's gradients, in its owner's, or at the server.
 * Does nothing if sums are deferred and this one was already waited for. */
static int await_gradients(struct sync *sync, uint32_t b, uint64_t batch)
{
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    if (sync->spec.ops->defers && !sync->is_deferred)
        return 0;
    const int rc = await_bucket(sync, b, batch);
    if (rc != 0 || bucket->use == BUCKET_SERVE)
        return rc;
    return tower_grads_from_bf16(sync->spec.tower, bucket->offset, bucket->count);
}

/* Queue waits for the sums of all buckets except those that other towers own. */
static int await_own_sums(struct sync *sync)
{
    int rc = 0;
    for (uint32_t b = 0; b < sync->buckets.of[REGION_GRADIENTS].count && rc == 0; b++) {
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        if (bucket->use != BUCKET_REDUCE || bucket->owner == sync->spec.index)
            rc = await_gradients(sync, b, RANGE_NO_BATCH);
    }
    return rc;
}

int sync_start_region(struct sync *sync, enum region region, uint64_t batch)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket_run run = sync->buckets.of[region];
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++)
        rc = region == REGION_GRADIENTS ? start_gradients(sync, b, batch)
                                        : reduce->ops->start(reduce, sync->spec.index, b, batch);
    return rc;
}

int sync_await_region(struct sync *sync, enum region region)
{
    const struct bucket_run run = sync->buckets.of[region];
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++) {
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        rc = await_bucket(sync, b, RANGE_NO_BATCH);
        if (rc == 0 && region == REGION_WEIGHTS)
            rc = tower_weights_changed(sync->spec.tower, bucket->offset, bucket->count);
    }
    return rc;
}

/* Get the optimizer's buffers from their owners or the server, for batch `batch`. */
static int fetch_states(struct sync *sync, uint64_t batch)
{
    int rc = 0;
    for (int region = REGION_STATES; region < REGION_STATISTICS && rc == 0; region++) {
        rc = sync_start_region(sync, region, batch);
        if (rc == 0)
            rc = sync_await_region(sync, region);
    }
    return rc;
}

/* ---- means ---- */

bool mean_is_due_after(const struct local_batch *local, uint64_t every)
{
    return local->phase == PHASE_EVALUATE || (every > 0 && (local->step + 1) % every == 0);
}

struct mean_share mean_share(const struct schedule *schedule, uint32_t tower, uint64_t last, uint64_t every)
{
    struct mean_share share = { 0 };
    struct local_batch local;
    for (uint64_t number = last; schedule_find(schedule, number, tower, &local) == 0; number--) {
        if (local.phase == PHASE_EVALUATE || (number < last && mean_is_due_after(&local, every)))
            break;
        share.own += local.count;
        share.all += local.global_count;
        if (number == 0)
            break;
    }
    return share;
}

/* Does every tower get the sum of this region, and is it not the gradients? */
static bool is_of_mean(const struct sync *sync, enum region region)
{
    const struct bucket_run run = sync->buckets.of[region];
    return region != REGION_GRADIENTS && run.count > 0 &&
           sync->buckets.bucket[run.first].use == BUCKET_ALL_REDUCE;
}

static bool has_mean(const struct sync *sync)
{
    bool has = false;
    for (int region = 0; region < REGION_COUNT; region++)
        has = has || is_of_mean(sync, region);
    return has;
}

static int start_mean(struct sync *sync, uint64_t batch, float factor)
{
    struct reduce *const reduce = sync->spec.reduce;
    int rc = 0;
    for (uint32_t b = 0; b < sync->buckets.count && rc == 0; b++) {
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        if (!is_of_mean(sync, bucket->region))
            continue;
        float *const floats = sync_region(sync->spec.tower, bucket->region).floats + bucket->offset;
        rc = tower_scale(sync->spec.tower, floats, bucket->count, factor);
        if (rc == 0)
            rc = reduce->ops->start(reduce, sync->spec.index, b, batch);
    }
    return rc;
}

static int await_mean(struct sync *sync)
{
    int rc = 0;
    for (int region = 0; region < REGION_COUNT && rc == 0; region++)
        rc = is_of_mean(sync, region) ? sync_await_region(sync, region) : 0;
    return rc;
}

/* Replace all regions that the mode sums, except gradients, by their means over the towers. A tower's weight in the
 * mean is the number of samples it has trained on since the previous mean, up to batch `last`. `batch` is the number
 * that the reduction gets. Does nothing with one tower. */
static int take_mean(struct sync *sync, uint64_t batch, uint64_t last, uint64_t every)
{
    if (!has_mean(sync))
        return 0;
    const struct mean_share share = mean_share(sync->spec.schedule, sync->spec.index, last, every);
    int rc = start_mean(sync, batch, (float)((double)share.own / (double)share.all));
    if (rc == 0)
        rc = await_mean(sync);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

/* take_mean before batch `number`, unless the towers are already one model then. */
static int mean_before(struct sync *sync, uint64_t number, uint64_t every)
{
    struct local_batch local;
    if (number == 0 || schedule_find(sync->spec.schedule, number - 1, sync->spec.index, &local) != 0 ||
        mean_is_due_after(&local, every))
        return 0;
    return take_mean(sync, number, number - 1, every);
}

/* mean_before, if `local` is the first batch of an evaluation. The mean of equal numbers may differ from them by
 * rounding, so it is not taken again when an interrupted evaluation is repeated. */
static int mean_before_evaluation(struct sync *sync, const struct local_batch *local, uint64_t every)
{
    const bool is_first = local->phase == PHASE_EVALUATE && local->first_of_phase;
    const struct schedule *const schedule = sync->spec.schedule;
    const bool has_mean = schedule->repeats_evaluation && local->number == schedule->first;
    return is_first && !has_mean ? mean_before(sync, local->number, every) : 0;
}

/* ---- what several modes do ---- */

/* Average the batch statistics, before an evaluation and at the end of the run, weighted by samples. In training every
 * tower has its own statistics, except with slices. */
static int average_statistics(struct sync *sync, const struct local_batch *local)
{
    return tower_has_slices(sync->spec.tower) ? 0 : mean_before_evaluation(sync, local, 0);
}

static int finish_statistics(struct sync *sync, uint64_t next)
{
    return tower_has_slices(sync->spec.tower) ? 0 : mean_before(sync, next, 0);
}

static int update_alone(struct sync *sync, const struct local_batch *local)
{
    const int rc = sync_update(sync, local, local->count);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

static int await_sum(struct sync *sync, const struct local_batch *local, uint32_t bucket)
{
    const int rc = await_gradients(sync, bucket, local->number);
    return rc == 0 && sync->spec.reduce->ops != &reduce_none_ops ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION)
                                                                 : rc;
}

static int update_with_sum(struct sync *sync, const struct local_batch *local, uint32_t bucket)
{
    const int rc = update_bucket(sync, local, bucket, local->global_count);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

static int await_and_update(struct sync *sync, const struct local_batch *local, uint32_t bucket)
{
    const int rc = await_sum(sync, local, bucket);
    return rc == 0 ? update_with_sum(sync, local, bucket) : rc;
}

/* ---- replicated ---- */

/* Update this tower's parts of the head, whose gradients are of all samples, or only check them if all weights are
 * updated at once later, with the last bucket, which is empty if the trunk is frozen. */
static int update_parts(struct sync *sync, const struct local_batch *local)
{
    struct tower *const tower = sync->spec.tower;
    const size_t first = tower_arena(tower)->shared, count = tower_arena(tower)->updated - first;
    if (count == 0)
        return 0;
    int rc = tower_weigh(tower, first, count, local->global_count);
    if (rc == 0)
        rc = tower_updates_at_once(tower) ? tower_check(tower, first, count)
                                          : update(sync, local, first, count, local->global_count);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

/* Gradients are summed over the towers, bucket by bucket while backward continues. Every tower updates each bucket in
 * the same way as soon as its sum is complete, so the towers stay equal. Parts of the head are updated while sums are
 * computed: before the first one is awaited or, if it contains the sum of class weights, after that. */
static int replicated_apply(struct sync *sync, const struct local_batch *local)
{
    const bool has_class_weights = tower_arena(sync->spec.tower)->lead > 0;
    int rc = has_class_weights ? 0 : update_parts(sync, local);
    for (uint32_t b = 0; b < sync->buckets.of[REGION_GRADIENTS].count && rc == 0; b++) {
        rc = await_sum(sync, local, b);
        if (rc == 0 && has_class_weights && b == 0)
            rc = update_parts(sync, local);
        if (rc == 0)
            rc = update_with_sum(sync, local, b);
    }
    return rc;
}

static const struct sync_ops replicated_ops = {
    .name = "replicated",
    .has_slices = true,
    .sum = "gradients",
    .is_one_model = true,
    .ends_whole = true,
    .sums = GRADIENTS_AND_STATISTICS,
    .before_forward = average_statistics,
    .bucket_ready = start_bucket,
    .apply = replicated_apply,
    .finish = finish_statistics,
};

/* ---- independent ---- */

/* Every tower learns from its own samples and never waits for another one: an upper limit for the speed of other
 * modes. */
static const struct sync_ops independent_ops = {
    .name = "independent",
    .differs = true,
    .apply = update_alone,
};

/* ---- averaging ---- */

/* Every tower learns from its own samples. Every sync.every steps all towers continue with the mean of their weights,
 * batch statistics and optimizer buffers, weighted by the samples that each has learned from. Buffers are averaged,
 * too, because otherwise the mean model would keep the momentum of one tower, and a tower without samples would have
 * none; and because then a mean at every step gives the same result as mode replicated, for rules that are linear in
 * the gradient (sgd, momentum, nesterov). With spec.keeps_buffers buffers are not averaged, which with momentum halves
 * the number of floats to sum. Means are also taken before every evaluation and at the end of the run. */
static int averaging_before_forward(struct sync *sync, const struct local_batch *local)
{
    return mean_before_evaluation(sync, local, sync->spec.every);
}

static int averaging_after_step(struct sync *sync, const struct local_batch *local)
{
    const uint64_t every = sync->spec.every;
    return mean_is_due_after(local, every) ? take_mean(sync, local->number, local->number, every) : 0;
}

static int averaging_finish(struct sync *sync, uint64_t next)
{
    return mean_before(sync, next, sync->spec.every);
}

static const struct sync_ops averaging_ops = {
    .name = "averaging",
    .sum = "weights",
    .has_period = true,
    .is_one_model = true,
    .differs = true,
    .sums = { [REGION_WEIGHTS] = true, [REGION_AVERAGES] = true, [REGION_STATES] = true, [REGION_STATES + 1] = true,
             [REGION_STATISTICS] = true, [REGION_AVERAGED_STATISTICS] = true },
    .before_forward = averaging_before_forward,
    .apply = update_alone,
    .after_step = averaging_after_step,
    .finish = averaging_finish,
};

/* ---- parameter server on the devices ---- */

/* Every bucket of parameters is owned by a tower; the shares of all towers are equal. Gradients are reduced to the
 * owner, which alone has the optimizer's buffers; it updates the weights and broadcasts them. An update that needs a
 * norm of all gradients is made by tower 0, which then broadcasts all weights. */
static int server_device_apply(struct sync *sync, const struct local_batch *local)
{
    struct reduce *const reduce = sync->spec.reduce;
    const uint32_t count = sync->buckets.of[REGION_GRADIENTS].count;
    const uint32_t weights = sync->buckets.of[REGION_WEIGHTS].first;
    const bool is_one_update = tower_updates_at_once(sync->spec.tower);
    int rc = 0;
    for (uint32_t b = 0; b < count && rc == 0; b++) {
        if (sync->buckets.bucket[b].owner == sync->spec.index)
            rc = await_and_update(sync, local, b);
        if (rc == 0 && !is_one_update)
            rc = reduce->ops->start(reduce, sync->spec.index, weights + b, local->number);
    }
    for (uint32_t b = 0; b < count && rc == 0 && is_one_update; b++)
        rc = reduce->ops->start(reduce, sync->spec.index, weights + b, local->number);
    if (rc == 0)
        rc = sync_await_region(sync, REGION_WEIGHTS);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

static const struct sync_ops server_device_ops = {
    .name = "parameter_server",
    .has_slices = true,
    .sum = "gradients",
    .place = "on the devices",
    .is_one_model = true,
    .has_owners = true,
    .sums = GRADIENTS_AND_STATISTICS,
    .before_forward = average_statistics,
    .bucket_ready = start_bucket,
    .apply = server_device_apply,
    .before_snapshot = fetch_states,
    .finish = finish_statistics,
};

/* ---- parameter server in host memory ---- */

/* Tower 0 fills the server before the first batch of the process. */
static int fill_server(struct sync *sync, const struct local_batch *local)
{
    const struct sync_spec *const spec = &sync->spec;
    const bool is_due = spec->index == 0 && local->number == spec->schedule->first;
    return is_due ? reduce_server_fill(spec->reduce, spec->index) : 0;
}

static int server_host_before_forward(struct sync *sync, const struct local_batch *local)
{
    const int rc = fill_server(sync, local);
    return rc == 0 ? average_statistics(sync, local) : rc;
}

/* Wait for each bucket's sum at the server. If the server updates bucket by bucket, fetch the weights of each bucket at
 * once. */
static int fetch_updates(struct sync *sync, const struct local_batch *local)
{
    struct reduce *const reduce = sync->spec.reduce;
    int rc = 0;
    for (uint32_t b = 0; b < sync->buckets.of[REGION_GRADIENTS].count && rc == 0; b++) {
        rc = await_gradients(sync, b, local->number);
        if (rc == 0 && !sync_updates_apart(sync))
            rc = reduce_server_fetch_bucket(reduce, sync->spec.index, b);
    }
    return rc;
}

/* If the server updates after all sums: let it compute the norms, then update. Otherwise there are no buckets for
 * this. */
static int update_apart(struct sync *sync, const struct local_batch *local)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket_run run = sync->buckets.of[REGION_WEIGHTS];
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++) {
        rc = reduce->ops->start(reduce, sync->spec.index, b, local->number);
        if (rc == 0)
            rc = reduce->ops->wait(reduce, sync->spec.index, b);
    }
    return rc;
}

/* The server has the parameters and the only copy of the optimizer's buffers. Gradients are sent to it bucket by bucket
 * while backward continues; it sums and applies them, and the weights are sent back. A tower's wait is for the
 * reduction and the update together. */
static int server_host_apply(struct sync *sync, const struct local_batch *local)
{
    int rc = fetch_updates(sync, local);
    if (rc == 0)
        rc = update_apart(sync, local);
    if (rc == 0)
        rc = tower_weights_changed(sync->spec.tower, 0, tower_arena(sync->spec.tower)->updated);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

static const struct sync_ops server_host_ops = {
    .name = "parameter_server",
    .has_slices = true,
    .sum = "gradients",
    .place = "in host memory",
    .is_one_model = true,
    .serves = SERVES_ALL,
    .sums = GRADIENTS_AND_STATISTICS,
    .before_forward = server_host_before_forward,
    .bucket_ready = start_bucket,
    .apply = server_host_apply,
    .before_snapshot = fetch_states,
    .finish = finish_statistics,
};

/* ---- relaxed consistency of the three above ---- */

/* A mode that updates with the sums of the previous step, at the learning rate of that step, so that a reduction may
 * take a whole step. The first step of a run updates nothing, and the gradients of the last one are never applied: the
 * saved weights are those that were evaluated. Sums that are not applied yet are part of a checkpoint. */

/* Find the training batch before `local`, which must not be the first training batch. */
static int find_before(const struct sync *sync, const struct local_batch *local, struct local_batch *before_out)
{
    uint64_t number = local->number;
    int rc;
    do
        rc = schedule_find(sync->spec.schedule, --number, sync->spec.index, before_out);
    while (rc == 0 && before_out->phase != PHASE_TRAIN);
    return rc;
}

static int apply_before(struct sync *sync, const struct local_batch *local)
{
    struct local_batch before;
    const int rc = local->step == 0 ? 0 : find_before(sync, local, &before);
    return rc == 0 && local->step > 0 ? sync->spec.ops->applied->apply(sync, &before) : rc;
}

static int relaxed_apply(struct sync *sync, const struct local_batch *local)
{
    int rc = apply_before(sync, local);
    if (rc == 0)
        rc = tower_defer(sync->spec.tower);
    if (rc == 0)
        rc = sync_start_region(sync, REGION_GRADIENTS, local->number);
    sync->is_deferred = rc == 0;
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

static int relaxed_before_forward(struct sync *sync, const struct local_batch *local)
{
    return sync->spec.ops->applied->before_forward(sync, local);
}

/* Wait for all deferred sums. */
static int await_sums(struct sync *sync)
{
    const int rc = await_own_sums(sync);
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

static const struct sync_ops relaxed_ops = {
    .name = "replicated, relaxed",
    .has_slices = true,
    .sum = "gradients",
    .is_one_model = true,
    .defers = true,
    .applied = &replicated_ops,
    .sums = GRADIENTS_AND_STATISTICS,
    .before_forward = relaxed_before_forward,
    .apply = relaxed_apply,
    .before_snapshot = relaxed_before_snapshot,
    .finish = relaxed_finish,
};

static const struct sync_ops server_device_relaxed_ops = {
    .name = "parameter_server, relaxed",
    .has_slices = true,
    .sum = "gradients",
    .place = "on the devices",
    .is_one_model = true,
    .has_owners = true,
    .defers = true,
    .applied = &server_device_ops,
    .sums = GRADIENTS_AND_STATISTICS,
    .before_forward = relaxed_before_forward,
    .apply = relaxed_apply,
    .before_snapshot = relaxed_before_snapshot,
    .finish = relaxed_finish,
};

static const struct sync_ops server_host_relaxed_ops = {
    .name = "parameter_server, relaxed",
    .has_slices = true,
    .sum = "gradients",
    .place = "in host memory",
    .is_one_model = true,
    .serves = SERVES_ALL,
    .defers = true,
    .applied = &server_host_ops,
    .sums = GRADIENTS_AND_STATISTICS,
    .before_forward = relaxed_before_forward,
    .apply = relaxed_apply,
    .before_snapshot = relaxed_before_snapshot,
    .finish = relaxed_finish,
};

/* ---- async ---- */

/* One copy of the parameters is in host memory. Every tower fetches it before every step, and updates it with its own
 * gradients as soon as they are computed. Towers run ahead of each other by a bound (stale synchronous parallel, Ho et
 * al. 2013): a tower begins step t when the server has all towers' updates of the steps before t - max_staleness. The
 * staleness of a step is the number of earlier steps of which updates are missing when it fetches; the rate of its
 * update may be divided by the staleness (Zhang et al. 2016). Before an evaluation and a checkpoint all towers
 * synchronise. */

/* Wait until the server has all updates; no tower continues before it has the weights that all get. */
static int synchronise(struct sync *sync, uint64_t batch)
{
    int rc = sync->spec.index == 0 ? reduce_server_gather(sync->spec.reduce, 0) : 0;
    if (rc == 0)
        rc = sync_start_region(sync, REGION_WEIGHTS, batch);
    return rc == 0 ? sync_await_region(sync, REGION_WEIGHTS) : rc;
}

static int async_fetch(struct sync *sync, const struct local_batch *local)
{
    int rc = reduce_server_fetch(sync->spec.reduce, sync->spec.index, local->step, sync->spec.max_staleness,
                                 &sync->staleness);
    if (rc == 0)
        rc = tower_weights_changed(sync->spec.tower, 0, tower_arena(sync->spec.tower)->updated);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

static int async_before_forward(struct sync *sync, const struct local_batch *local)
{
    int rc = fill_server(sync, local);
    if (rc == 0 && local->phase == PHASE_TRAIN)
        return async_fetch(sync, local);
    if (rc == 0 && local->first_of_phase)
        rc = synchronise(sync, local->number);
    return rc == 0 ? average_statistics(sync, local) : rc;
}

/* Is this bucket pushed? If norms of all gradients are needed, a single push after the last bucket contains all of
 * them. */
static bool is_pushed(const struct sync *sync, uint32_t bucket)
{
    return !server_needs_norms(&tower_spec(sync->spec.tower)->optimizer) ||
           bucket + 1 == sync->buckets.of[REGION_GRADIENTS].count;
}

static int async_push(struct sync *sync, const struct local_batch *local, uint32_t bucket)
{
    const uint32_t delay = sync->spec.divides_rate && sync->staleness > 1 ? sync->staleness : 1;
    return reduce_server_push(sync->spec.reduce, sync->spec.index, bucket, local->number, delay);
}

static int async_bucket_ready(struct sync *sync, const struct local_batch *local, uint32_t bucket)
{
    const struct bucket *const range = &sync->buckets.bucket[bucket];
    const int rc = local->count > 0 ? tower_grads_to_bf16(sync->spec.tower, range->offset, range->count) : 0;
    return rc == 0 && local->count > 0 && is_pushed(sync, bucket) ? async_push(sync, local, bucket) : rc;
}

static int async_apply(struct sync *sync, const struct local_batch *local)
{
    return reduce_server_pushed(sync->spec.reduce, sync->spec.index, local->step + 1);
}

static int async_before_snapshot(struct sync *sync, uint64_t batch)
{
    const int rc = synchronise(sync, batch);
    return rc == 0 ? fetch_states(sync, batch) : rc;
}

static int async_finish(struct sync *sync, uint64_t next)
{
    const int rc = synchronise(sync, next);
    return rc == 0 ? finish_statistics(sync, next) : rc;
}

static const struct sync_ops async_ops = {
    .name = "async",
    .sum = "statistics",
    .place = "in host memory",
    .is_one_model = true,
    .serves = SERVES_EACH,
    .sums = { [REGION_GRADIENTS] = true, [REGION_STATISTICS] = true },
    .before_forward = async_before_forward,
    .bucket_ready = async_bucket_ready,
    .apply = async_apply,
    .before_snapshot = async_before_snapshot,
    .finish = async_finish,
};

/* ---- the table ---- */

const struct sync_ops *const sync_table[SYNC_MODE_COUNT] = {
    [SYNC_REPLICATED] = &replicated_ops,
    [SYNC_RELAXED] = &relaxed_ops,
    [SYNC_INDEPENDENT] = &independent_ops,
    [SYNC_AVERAGING] = &averaging_ops,
    [SYNC_SERVER_DEVICE] = &server_device_ops,
    [SYNC_SERVER_DEVICE_RELAXED] = &server_device_relaxed_ops,
    [SYNC_SERVER_HOST] = &server_host_ops,
    [SYNC_SERVER_HOST_RELAXED] = &server_host_relaxed_ops,
    [SYNC_ASYNC] = &async_ops,
};

const struct sync_ops *sync_choose(enum sync_mode mode, uint32_t towers, uint32_t ranks, uint32_t max_staleness)
{
    const struct sync_ops *const ops = sync_table[mode];
    const bool is_served = ops->has_owners || ops->serves != SERVES_NOBODY;
    if (is_served && towers == 1)
        return ops->defers ? &relaxed_ops : &replicated_ops;
    const bool is_common = ops->serves == SERVES_ALL || (ops->serves == SERVES_EACH && max_staleness == 0);
    if (is_common && ranks > 1)
        return ops->defers ? &server_device_relaxed_ops : &server_device_ops;
    return is_common && !ops->defers ? &server_host_ops : ops;
}
