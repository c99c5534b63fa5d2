/* What all modes share, and the one place that knows which there are. */
#include "sync/sync.h"

#include <errno.h>
#include <time.h>

#include "stage/heartbeat.h"
#include "stage/trace/range.h"
#include "sync/cut.h"
#include "sync/mean.h"
#include "sync/modes/modes.h"
#include "sync/server/reduce_server.h"
#include "sync/server/server.h"

#define POLL_NAP_NS 20000       /* between looks at a device that computes */
/* Backward, weights from a server, update, averages, a mean before forward and one after the step. */
#define BATCH_MARKS 6u

const struct sync_ops *const sync_table[SYNC_MODE_COUNT] = {
    [SYNC_REPLICATED] = &sync_replicated_ops,
    [SYNC_RELAXED] = &sync_relaxed_ops,
    [SYNC_INDEPENDENT] = &sync_independent_ops,
    [SYNC_AVERAGING] = &sync_averaging_ops,
    [SYNC_SERVER_DEVICE] = &sync_server_device_ops,
    [SYNC_SERVER_DEVICE_RELAXED] = &sync_server_device_relaxed_ops,
    [SYNC_SERVER_HOST] = &sync_server_host_ops,
    [SYNC_SERVER_HOST_RELAXED] = &sync_server_host_relaxed_ops,
    [SYNC_ASYNC] = &sync_async_ops,
};

const struct sync_ops *sync_choose(enum sync_mode mode, uint32_t towers, uint32_t max_staleness)
{
    const struct sync_ops *const ops = sync_table[mode];
    const bool is_served = ops->has_owners || ops->serves != SERVES_NOBODY;
    if (is_served && towers == 1)
        return ops->defers ? &sync_relaxed_ops : &sync_replicated_ops;
    return ops->serves == SERVES_EACH && max_staleness == 0 ? &sync_server_host_ops : ops;
}

/* The tower may run from the end of one bucket of gradients to the end of the next as one piece. */
static int cut_tower(struct sync *sync)
{
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    size_t ends[REGION_BUCKETS_MAX] = { tower_arena(sync->spec.tower)->updated };
    for (uint32_t i = 0; i < run.count; i++) {
        const struct bucket *const bucket = &sync->buckets.bucket[run.first + i];
        ends[i] = bucket->offset + bucket->count;
    }
    return tower_set_segments(sync->spec.tower, ends, run.count > 0 ? run.count : 1);
}

int sync_init(struct sync *sync, const struct sync_spec *spec)
{
    *sync = (struct sync){ .spec = *spec };
    sync_cut(spec, &sync->buckets);
    return cut_tower(sync);
}

uint32_t sync_marks(const struct sync *sync)
{
    return BATCH_MARKS + 2 * sync->buckets.of[REGION_GRADIENTS].count;
}

int sync_join(struct sync *sync, struct step_clock *clock)
{
    const struct sync_spec *const spec = &sync->spec;
    struct reduce_member member = {
        .device = spec->device,
        .compute = spec->compute,
        .communication = spec->communication,
        .track = spec->track,
        .zeros = cut_region(spec->tower, REGION_GRADIENTS),
        .bf16_grads = tower_bf16_grads(spec->tower),
    };
    const struct server_rules rules = cut_rules(spec);
    if (spec->ops->serves != SERVES_NOBODY)
        member.rules = &rules;
    for (int region = 0; region < REGION_COUNT; region++)
        if (cut_meets(spec, region))
            member.regions[region] = cut_region(spec->tower, region);
    sync->clock = clock;
    sync->joined = true;
    return spec->reduce->ops->join(spec->reduce, spec->index, &member, &sync->buckets);
}

void sync_leave(struct sync *sync)
{
    if (sync->joined && sync->spec.reduce->ops->leave != NULL)
        sync->spec.reduce->ops->leave(sync->spec.reduce, sync->spec.index);
}

/* Called by tower_backward: the first `floats` gradients are queued. */
static void note_ready(void *arg, size_t floats)
{
    struct sync *const sync = arg;
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    if (sync->spec.ops->bucket_ready == NULL)
        return;
    while (sync->ready < run.count && sync->ready_result == 0) {
        const uint32_t b = run.first + sync->ready;
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        if (bucket->offset + bucket->count > floats)
            return;
        sync->ready_result = sync->spec.ops->bucket_ready(sync, sync->span, b);
        sync->ready++;
    }
}

/* The tower computes with the averages of its weights, where it keeps some, or with those it trains. */
static int show_average(struct sync *sync, bool is_shown)
{
    return tower_show_average(sync->spec.tower, is_shown);
}

/* A mean is of what is trained, and of averages. */
int sync_before_forward(struct sync *sync, const struct span *span)
{
    const struct sync_ops *const ops = sync->spec.ops;
    const bool evaluates = span->pass == PASS_EVALUATE;
    int rc = evaluates && !span->first_of_pass ? 0 : show_average(sync, false);
    if (rc == 0 && ops->before_forward != NULL)
        rc = ops->before_forward(sync, span);
    return rc == 0 && evaluates ? show_average(sync, true) : rc;
}

static int step_average(struct sync *sync, const struct span *span)
{
    struct tower *const tower = sync->spec.tower;
    if (tower_spec(tower)->average_decay == 0)
        return 0;
    const int rc = tower_update_average(tower, span->step);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_UPDATE) : rc;
}

int sync_step(struct sync *sync, const struct span *span)
{
    const struct sync_ops *const ops = sync->spec.ops;
    sync->span = span;
    sync->ready = 0;
    sync->ready_result = 0;
    range_begin(TRACE_BACKWARD, span->number);
    int rc = tower_backward(sync->spec.tower, note_ready, sync);
    range_end();
    if (rc == 0)
        rc = sync->ready_result;
    if (rc == 0)
        rc = step_clock_mark(sync->clock, SPENT_BACKWARD);
    if (rc == 0)
        rc = ops->apply(sync, span);
    if (rc == 0)
        rc = step_average(sync, span);
    return rc == 0 && ops->after_step != NULL ? ops->after_step(sync, span) : rc;
}

/* Towers alone have it all. */
int sync_before_snapshot(struct sync *sync, uint64_t batch)
{
    const struct sync_ops *const ops = sync->spec.ops;
    return ops->before_snapshot != NULL ? ops->before_snapshot(sync, batch) : 0;
}

int sync_finish(struct sync *sync, uint64_t next)
{
    const struct sync_ops *const ops = sync->spec.ops;
    int rc = show_average(sync, false);
    if (rc == 0 && ops->finish != NULL)
        rc = ops->finish(sync, next);
    return rc == 0 ? show_average(sync, true) : rc;
}

uint32_t sync_gradient_samples(const struct sync *sync, const struct span *span, size_t offset)
{
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    bool is_summed = false;
    for (uint32_t b = run.first; b < run.first + run.count; b++) {
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        const bool is_here = bucket->use == BUCKET_ALL_REDUCE ||
                             (bucket->use == BUCKET_REDUCE && bucket->owner == sync->spec.index);
        is_summed = is_summed || (is_here && offset >= bucket->offset && offset - bucket->offset < bucket->count);
    }
    return is_summed && sync->spec.ops->bucket_ready != NULL ? span->global_count : span->count;
}

void sync_record(struct sync *sync)
{
    struct reduce *const reduce = sync->spec.reduce;
    if (sync->joined && reduce->ops->record != NULL)
        reduce->ops->record(reduce, sync->spec.index);
}

int sync_await_end(struct sync *sync, struct event *end, struct phases *phases)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct device_ops *const device = end->device->ops;
    const struct timespec nap = { .tv_nsec = POLL_NAP_NS };
    int rc = 0;
    heartbeat_begin_wait("waiting for its results");
    while (sync->joined && reduce->ops->poll != NULL && !device->event_passed(end) && rc == 0) {
        nanosleep(&nap, NULL);
        rc = phases_cancelled(phases) ? -ECANCELED : reduce->ops->poll(reduce, sync->spec.index);
    }
    if (rc == 0)
        rc = device->event_wait(end);
    heartbeat_end_wait();
    return rc;
}

static int update(struct sync *sync, const struct span *span, size_t offset, size_t count, uint32_t samples)
{
    const struct optimizer_step step = {
        .number = span->step,
        .learning_rate = (float)learning_rate_at(sync->spec.learning_rate, span->step),
        .gradient_scale = 1.0f / (float)samples,
    };
    range_begin(TRACE_UPDATE, span->number);
    const int rc = tower_update(sync->spec.tower, offset, count, &step);
    range_end();
    return rc;
}

int sync_update(struct sync *sync, const struct span *span, uint32_t samples)
{
    struct tower *const tower = sync->spec.tower;
    const size_t count = tower_arena(tower)->updated;
    if (samples == 0)
        return 0;
    const int rc = tower_updates_at_once(tower) ? tower_check(tower, 0, count) : 0;
    return rc == 0 ? update(sync, span, 0, count, samples) : rc;
}

int sync_update_bucket(struct sync *sync, const struct span *span, uint32_t b, uint32_t samples)
{
    struct tower *const tower = sync->spec.tower;
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    if (!tower_updates_at_once(tower))
        return update(sync, span, bucket->offset, bucket->count, samples);
    const int rc = tower_check(tower, bucket->offset, bucket->count);
    if (rc != 0 || b + 1 < run.first + run.count)
        return rc;
    return update(sync, span, 0, tower_arena(tower)->updated, samples);
}

int sync_start_gradients(struct sync *sync, uint32_t b, uint64_t batch)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    const int rc = tower_grads_to_bf16(sync->spec.tower, bucket->offset, bucket->count);
    return rc == 0 ? reduce->ops->start(reduce, sync->spec.index, b, batch) : rc;
}

static int await_bucket(struct sync *sync, uint32_t b, uint64_t batch)
{
    struct reduce *const reduce = sync->spec.reduce;
    range_begin(TRACE_EXPOSED_REDUCTION, batch);
    const int rc = reduce->ops->wait(reduce, sync->spec.index, b);
    range_end();
    return rc;
}

int sync_await_gradients(struct sync *sync, uint32_t b, uint64_t batch)
{
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    if (sync->spec.ops->defers && !sync->is_deferred)
        return 0;
    const int rc = await_bucket(sync, b, batch);
    return rc == 0 && bucket->use != BUCKET_SERVE
               ? tower_grads_from_bf16(sync->spec.tower, bucket->offset, bucket->count)
               : rc;
}

int sync_await_sums(struct sync *sync)
{
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++) {
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        if (bucket->use != BUCKET_REDUCE || bucket->owner == sync->spec.index)
            rc = sync_await_gradients(sync, b, RANGE_NO_BATCH);
    }
    return rc;
}

int sync_start_region(struct sync *sync, enum region region, uint64_t batch)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket_run run = sync->buckets.of[region];
    int rc = 0;
    for (uint32_t b = run.first; b < run.first + run.count && rc == 0; b++)
        rc = region == REGION_GRADIENTS ? sync_start_gradients(sync, b, batch)
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

int sync_fill_server(struct sync *sync, const struct span *span)
{
    const struct sync_spec *const spec = &sync->spec;
    const bool is_due = spec->index == 0 && span->number == spec->schedule->first;
    return is_due ? reduce_server_fill(spec->reduce, spec->index) : 0;
}

int sync_fetch_states(struct sync *sync, uint64_t batch)
{
    int rc = 0;
    for (int region = REGION_STATES; region < REGION_STATISTICS && rc == 0; region++) {
        rc = sync_start_region(sync, region, batch);
        if (rc == 0)
            rc = sync_await_region(sync, region);
    }
    return rc;
}

bool sync_needs_norms(const struct sync *sync)
{
    return server_needs_norms(&tower_spec(sync->spec.tower)->optimizer);
}

bool sync_updates_apart(const struct sync *sync)
{
    const struct server_rules rules = cut_rules(&sync->spec);
    return server_updates_apart(&rules);
}

/* A mean is of all that is summed for all, but for gradients. */
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
        float *const floats = cut_region(sync->spec.tower, bucket->region).floats + bucket->offset;
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

int sync_mean(struct sync *sync, uint64_t batch, uint64_t last, uint64_t every)
{
    if (!has_mean(sync))
        return 0;
    const struct mean_share share = mean_share(sync->spec.schedule, sync->spec.index, last, every);
    int rc = start_mean(sync, batch, (float)((double)share.own / (double)share.all));
    if (rc == 0)
        rc = await_mean(sync);
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_REDUCTION) : rc;
}

int sync_mean_before_evaluation(struct sync *sync, const struct span *span, uint64_t every)
{
    const bool is_first = span->pass == PASS_EVALUATE && span->first_of_pass;
    return is_first ? sync_mean_before(sync, span->number, every) : 0;
}

int sync_mean_before(struct sync *sync, uint64_t number, uint64_t every)
{
    struct span span;
    if (number == 0 || schedule_find(sync->spec.schedule, number - 1, sync->spec.index, &span) != 0 ||
        mean_is_behind(&span, every))
        return 0;
    return sync_mean(sync, number, number - 1, every);
}
