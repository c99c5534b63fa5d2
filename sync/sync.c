/* The parts that modes are made of: the arenas of a tower that are reduced across towers and their buckets, reduction
 * and update of a bucket, and means. Called by modes.c, and by the trainer to open and close a tower and to sum the
 * statistics of slices (train.slices). */
#include "sync/sync.h"

#include <errno.h>

#include "stage/trace/range.h"
#include "sync/server.h"

/* Weights from a server, update, a mean before forward and one after the step. */
#define BATCH_MARKS 4u

/* ---- what is reduced ---- */

static struct reduce_region state_region(struct tower *tower, uint32_t state)
{
    const bool is_kept = state < optimizer_state_count(tower_spec(tower)->optimizer.kind);
    return (struct reduce_region){ tower_state(tower, state), is_kept ? tower_arena(tower)->updated : 0 };
}

/* The region's arena in the tower; count 0 where it has none. */
static struct reduce_region region_of(struct tower *tower, enum region region)
{
    const size_t count = tower_arena(tower)->updated, statistics = tower_statistics_count(tower);
    const bool has_average = tower_spec(tower)->average_decay > 0;
    const struct reduce_region regions[REGION_COUNT] = {
        [REGION_GRADIENTS] = { tower_applied(tower), count },
        [REGION_WEIGHTS] = { tower_weights(tower), count },
        [REGION_STATES] = state_region(tower, 0),
        [REGION_STATES + 1] = state_region(tower, 1),
        [REGION_DEFERRED] = { tower_applied(tower), tower_spec(tower)->defers ? count : 0 },
        [REGION_STATISTICS] = { tower_statistics(tower), statistics },
        [REGION_AVERAGES] = { tower_average_weights(tower), has_average ? count : 0 },
        [REGION_AVERAGED_STATISTICS] = { tower_average_statistics(tower), has_average ? statistics : 0 },
    };
    return regions[region];
}

/* One tower has nothing to sum, but its gradients are split into buckets all the same. */
static bool is_summed(const struct sync_spec *spec, enum region region)
{
    const bool is_state = region >= REGION_STATES && region < REGION_STATISTICS;
    if (!spec->ops->sums[region] || (is_state && spec->keeps_buffers))
        return false;
    return region == REGION_GRADIENTS ||
           (spec->schedule->towers > 1 && region_of(spec->tower, region).count > 0);
}

/* Do the towers sum the region, or send it to each other or to a server? */
static bool is_exchanged(const struct sync_spec *spec, enum region region)
{
    const bool is_owned = region == REGION_WEIGHTS || (region >= REGION_STATES && region < REGION_STATISTICS);
    return is_summed(spec, region) || (is_owned && (spec->ops->has_owners || spec->ops->serves != SERVES_NOBODY));
}

/* The owner of a bucket of gradients owns its weights and optimizer states, too. */
static void add_owners(const struct sync_spec *spec, struct buckets *buckets)
{
    const uint32_t owners = tower_updates_at_once(spec->tower) ? 1 : spec->schedule->towers;
    buckets_share_out(buckets, owners);
    buckets_add_broadcast(buckets, REGION_WEIGHTS);
    for (int region = REGION_STATES; region < REGION_STATISTICS; region++)
        if (region_of(spec->tower, region).count > 0)
            buckets_add_broadcast(buckets, region);
}

static struct server_rules server_rules_of(const struct sync_spec *spec)
{
    const struct tower_spec *const tower = tower_spec(spec->tower);
    return (struct server_rules){ .net = tower->net, .arena = tower_arena(spec->tower), .optimizer = &tower->optimizer,
                                  .schedule = spec->schedule, .learning_rate = spec->learning_rate,
                                  .defers = spec->ops->defers };
}

/* The buckets that towers exchange with a server. */
static void add_served(const struct sync_spec *spec, struct buckets *buckets)
{
    const size_t count = tower_arena(spec->tower)->updated;
    const struct server_rules rules = server_rules_of(spec);
    for (uint32_t b = 0; b < buckets->of[REGION_GRADIENTS].count; b++)
        buckets->bucket[b].use = BUCKET_SERVE;
    if (spec->ops->serves == SERVES_EACH)
        buckets_add_whole(buckets, REGION_WEIGHTS, count, BUCKET_FETCH);
    else if (server_updates_apart(&rules)) {
        buckets_add_whole(buckets, REGION_WEIGHTS, count, BUCKET_SQUARE);
        buckets_add_whole(buckets, REGION_WEIGHTS, count, BUCKET_UPDATE);
    }
    for (int region = REGION_STATES; region < REGION_STATISTICS; region++)
        if (region_of(spec->tower, region).count > 0)
            buckets_add_whole(buckets, region, count, BUCKET_FETCH);
}

void sync_find_buckets(const struct sync_spec *spec, struct buckets *buckets_out)
{
    *buckets_out = (struct buckets){ .count = 0 };
    for (int region = 0; region < REGION_STATISTICS; region++)
        if (is_summed(spec, region))
            buckets_add(buckets_out, region, tower_arena(spec->tower), spec->bucket_bytes);
    if (spec->ops->has_owners)
        add_owners(spec, buckets_out);
    if (spec->ops->serves != SERVES_NOBODY)
        add_served(spec, buckets_out);
    for (int region = REGION_STATISTICS; region < REGION_COUNT; region++)
        if (is_summed(spec, region))
            buckets_add_whole(buckets_out, region, tower_statistics_count(spec->tower), BUCKET_ALL_REDUCE);
}

/* Bytes of a copy of the region in host memory. */
static size_t host_bytes(const struct sync_spec *spec, enum region region)
{
    const bool is_bf16 = region == REGION_GRADIENTS && tower_spec(spec->tower)->has_bf16_grads;
    return region_of(spec->tower, region).count * (is_bf16 ? sizeof(uint16_t) : sizeof(float));
}

size_t sync_pinned_bytes(const struct sync_spec *spec)
{
    size_t bytes = 0;
    for (int region = 0; region < REGION_COUNT; region++)
        if (spec->reduce->ops->pins_regions && !spec->device->ops->host_memory && is_exchanged(spec, region))
            bytes += host_bytes(spec, region);
    for (int region = 0; region < REGION_COUNT; region++)
        if (spec->reduce->ops->host_bytes != NULL && is_summed(spec, region))
            bytes += spec->reduce->ops->host_bytes(spec->reduce, region_of(spec->tower, region).count,
                                                   tower_spec(spec->tower)->has_bf16_grads);
    if (spec->ops->serves != SERVES_NOBODY && spec->index == 0) {
        const struct server_rules rules = server_rules_of(spec);
        bytes += server_bytes(&rules);
    }
    if (spec->ops->serves == SERVES_EACH && tower_spec(spec->tower)->has_bf16_grads)
        bytes += region_of(spec->tower, REGION_GRADIENTS).count * sizeof(float);
    return bytes;
}

/* ---- opening and closing ---- */

/* Backward may be one CUDA graph from the end of one bucket of gradients to the end of the next. */
static int cut_tower(struct sync *sync)
{
    const uint32_t count = sync->buckets.of[REGION_GRADIENTS].count;
    size_t ends[REGION_BUCKETS_MAX] = { tower_arena(sync->spec.tower)->updated };
    for (uint32_t b = 0; b < count; b++)
        ends[b] = sync->buckets.bucket[b].offset + sync->buckets.bucket[b].count;
    return tower_set_segments(sync->spec.tower, ends, count > 0 ? count : 1);
}

int sync_init(struct sync *sync, const struct sync_spec *spec)
{
    *sync = (struct sync){ .spec = *spec };
    sync_find_buckets(spec, &sync->buckets);
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
        .zeros = region_of(spec->tower, REGION_GRADIENTS),
        .bf16_grads = tower_bf16_grads(spec->tower),
    };
    const struct server_rules rules = server_rules_of(spec);
    if (spec->ops->serves != SERVES_NOBODY)
        member.rules = &rules;
    for (int region = 0; region < REGION_COUNT; region++)
        if (is_exchanged(spec, region))
            member.regions[region] = region_of(spec->tower, region);
    sync->clock = clock;
    sync->joined = true;
    return spec->reduce->ops->join(spec->reduce, spec->index, &member, &sync->buckets);
}

void sync_leave(struct sync *sync)
{
    if (sync->joined && sync->spec.reduce->ops->leave != NULL)
        sync->spec.reduce->ops->leave(sync->spec.reduce, sync->spec.index);
}

uint32_t sync_gradient_samples(const struct sync *sync, const struct local_batch *local, size_t offset)
{
    bool is_summed = false;
    for (uint32_t b = 0; b < sync->buckets.of[REGION_GRADIENTS].count; b++) {
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        const bool is_here = bucket->use == BUCKET_ALL_REDUCE ||
                             (bucket->use == BUCKET_REDUCE && bucket->owner == sync->spec.index);
        is_summed = is_summed || (is_here && offset >= bucket->offset && offset - bucket->offset < bucket->count);
    }
    return is_summed && sync->spec.ops->bucket_ready != NULL ? local->global_count : local->count;
}

void sync_record(struct sync *sync)
{
    struct reduce *const reduce = sync->spec.reduce;
    if (sync->joined && reduce->ops->record != NULL)
        reduce->ops->record(reduce, sync->spec.index);
}

bool sync_needs_polling(const struct sync *sync)
{
    return sync->joined && sync->spec.reduce->ops->poll != NULL;
}

int sync_poll(struct sync *sync)
{
    return sync->spec.reduce->ops->poll(sync->spec.reduce, sync->spec.index);
}

/* ---- the parts of a mode ---- */

static int update(struct sync *sync, const struct local_batch *local, size_t offset, size_t count, uint32_t samples)
{
    const struct optimizer_step step = {
        .number = local->step,
        .learning_rate = (float)learning_rate_at(sync->spec.learning_rate, local->step),
        .gradient_scale = 1.0f / (float)samples,
    };
    range_begin(TRACE_UPDATE, local->number);
    const int rc = tower_update(sync->spec.tower, offset, count, &step);
    range_end();
    return rc;
}

int sync_update(struct sync *sync, const struct local_batch *local, uint32_t samples)
{
    struct tower *const tower = sync->spec.tower;
    const size_t count = tower_arena(tower)->updated;
    if (samples == 0)
        return 0;
    const int rc = tower_updates_at_once(tower) ? tower_check(tower, 0, count) : 0;
    return rc == 0 ? update(sync, local, 0, count, samples) : rc;
}

int sync_update_bucket(struct sync *sync, const struct local_batch *local, uint32_t b, uint32_t samples)
{
    struct tower *const tower = sync->spec.tower;
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    if (!tower_updates_at_once(tower))
        return update(sync, local, bucket->offset, bucket->count, samples);
    const int rc = tower_check(tower, bucket->offset, bucket->count);
    if (rc != 0 || b + 1 < sync->buckets.of[REGION_GRADIENTS].count)
        return rc;
    return update(sync, local, 0, tower_arena(tower)->updated, samples);
}

static int start_gradients(struct sync *sync, uint32_t b, uint64_t batch)
{
    struct reduce *const reduce = sync->spec.reduce;
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    const int rc = tower_grads_to_bf16(sync->spec.tower, bucket->offset, bucket->count);
    return rc == 0 ? reduce->ops->start(reduce, sync->spec.index, b, batch) : rc;
}

int sync_start_gradients(struct sync *sync, const struct local_batch *local, uint32_t b)
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

int sync_await_gradients(struct sync *sync, uint32_t b, uint64_t batch)
{
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    if (sync->spec.ops->defers && !sync->is_deferred)
        return 0;
    const int rc = await_bucket(sync, b, batch);
    if (rc != 0 || bucket->use == BUCKET_SERVE)
        return rc;
    return tower_grads_from_bf16(sync->spec.tower, bucket->offset, bucket->count);
}

int sync_await_sums(struct sync *sync)
{
    int rc = 0;
    for (uint32_t b = 0; b < sync->buckets.of[REGION_GRADIENTS].count && rc == 0; b++) {
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

bool sync_updates_apart(const struct sync *sync)
{
    const struct server_rules rules = server_rules_of(&sync->spec);
    return server_updates_apart(&rules);
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

/* All that is summed for every tower, but for gradients. */
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
        float *const floats = region_of(sync->spec.tower, bucket->region).floats + bucket->offset;
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

int sync_mean_before_evaluation(struct sync *sync, const struct local_batch *local, uint64_t every)
{
    const bool is_first = local->phase == PHASE_EVALUATE && local->first_of_phase;
    return is_first ? sync_mean_before(sync, local->number, every) : 0;
}

int sync_mean_before(struct sync *sync, uint64_t number, uint64_t every)
{
    struct local_batch local;
    if (number == 0 || schedule_find(sync->spec.schedule, number - 1, sync->spec.index, &local) != 0 ||
        mean_is_due_after(&local, every))
        return 0;
    return sync_mean(sync, number, number - 1, every);
}
