/* A tower's part of the synchronisation that is common to all modes: the arenas that are reduced across towers, their
 * buckets, and joining and leaving the reduction. Called by the trainer; the modes' parts of a step are in modes.c. */
#include "sync/sync.h"

#include <assert.h>

#include "stage/trace/range.h"
#include "sync/server.h"

/* The most marks of a mode in a step: weights from a server, update, a mean before forward and one after the step; with
 * parts of a head their update, and the begin of an update that needs their norms. */
#define BATCH_MARKS 6u
#define EXCHANGE_MARKS 2u       /* of an exchange, and of what was computed before it */

/* ---- what is reduced ---- */

static struct reduce_region state_region(struct tower *tower, uint32_t state)
{
    const bool is_kept = state < optimizer_state_count(tower_spec(tower)->optimizer.kind);
    return (struct reduce_region){ tower_state(tower, state), is_kept ? tower_arena(tower)->shared : 0 };
}

static struct reduce_region outside_region(const struct tower *tower)
{
    struct reduce_region region = { .count = 0 };
    region.count = tower_outside(tower, &region.floats);
    return region;
}

/* Of parameters, what every tower has. */
struct reduce_region sync_region(struct tower *tower, enum region region)
{
    const size_t count = tower_arena(tower)->shared, statistics = tower_statistics_count(tower);
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
        [REGION_OUTSIDE] = outside_region(tower),
    };
    return regions[region];
}

/* Is the region summed? With one tower only formally: its gradients are split into buckets, too. */
static bool is_summed(const struct sync_spec *spec, enum region region)
{
    const bool is_state = region >= REGION_STATES && region < REGION_STATISTICS;
    if (!spec->ops->sums[region] || (is_state && spec->keeps_buffers))
        return false;
    return region == REGION_GRADIENTS ||
           (spec->schedule->towers > 1 && sync_region(spec->tower, region).count > 0);
}

/* Do the towers sum the region, or exchange it with each other or a server? */
static bool is_exchanged(const struct sync_spec *spec, enum region region)
{
    if (region == REGION_OUTSIDE)
        return spec->schedule->towers > 1 && sync_region(spec->tower, region).count > 0;
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
        if (sync_region(spec->tower, region).count > 0)
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
    const enum bucket_use fetch = spec->reduce->ops->broadcasts_server ? BUCKET_BROADCAST : BUCKET_FETCH;
    for (uint32_t b = 0; b < buckets->of[REGION_GRADIENTS].count; b++)
        buckets->bucket[b].use = BUCKET_SERVE;
    if (spec->ops->serves == SERVES_EACH)
        buckets_add_whole(buckets, REGION_WEIGHTS, count, fetch);
    else if (server_updates_apart(&rules)) {
        buckets_add_whole(buckets, REGION_WEIGHTS, count, BUCKET_SQUARE);
        buckets_add_whole(buckets, REGION_WEIGHTS, count, BUCKET_UPDATE);
    }
    for (int region = REGION_STATES; region < REGION_STATISTICS; region++)
        if (sync_region(spec->tower, region).count > 0)
            buckets_add_whole(buckets, region, count, fetch);
}

/* A bucket for each exchange of the head, in their order. */
static void add_exchanges(const struct sync_spec *spec, struct buckets *buckets)
{
    struct head_exchange exchanges[HEAD_EXCHANGES_MAX];
    const uint32_t towers = spec->schedule->towers, count = towers > 1 ? tower_exchanges(spec->tower, exchanges) : 0;
    for (uint32_t e = 0; e < count; e++)
        buckets_add_exchange(buckets, exchanges[e].offset, exchanges[e].count, towers,
                             exchanges[e].sums ? BUCKET_REDUCE_SCATTER : BUCKET_ALL_GATHER);
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
    add_exchanges(spec, buckets_out);
}

/* Bytes of a copy of the region in host memory. */
static size_t host_bytes(const struct sync_spec *spec, enum region region)
{
    const bool is_bf16 = region == REGION_GRADIENTS && tower_spec(spec->tower)->has_bf16_grads;
    return sync_region(spec->tower, region).count * (is_bf16 ? sizeof(uint16_t) : sizeof(float));
}

size_t sync_pinned_bytes(const struct sync_spec *spec)
{
    const struct reduce *const reduce = spec->reduce;
    const bool is_pinned = !spec->device->ops->host_memory && reduce->ops->pins_regions != NULL &&
                           reduce->ops->pins_regions(reduce, spec->index);
    size_t bytes = 0;
    for (int region = 0; region < REGION_COUNT; region++)
        if (is_pinned && is_exchanged(spec, region))
            bytes += host_bytes(spec, region);
    if (spec->reduce->ops->host_bytes != NULL) {
        struct buckets buckets;
        sync_find_buckets(spec, &buckets);
        bytes += spec->reduce->ops->host_bytes(spec->reduce, &buckets, tower_spec(spec->tower)->has_bf16_grads);
    }
    if (spec->ops->serves != SERVES_NOBODY && spec->index == 0) {
        const struct server_rules rules = server_rules_of(spec);
        bytes += server_bytes(&rules);
    }
    if (spec->ops->serves == SERVES_EACH && tower_spec(spec->tower)->has_bf16_grads)
        bytes += sync_region(spec->tower, REGION_GRADIENTS).count * sizeof(float);
    return bytes;
}

size_t sync_device_bytes(const struct sync_spec *spec)
{
    const struct reduce *const reduce = spec->reduce;
    struct buckets buckets;
    if (reduce->ops->device_bytes == NULL)
        return 0;
    sync_find_buckets(spec, &buckets);
    return reduce->ops->device_bytes(reduce, &buckets, tower_spec(spec->tower)->has_bf16_grads);
}

/* ---- opening and closing ---- */

/* Backward may be one CUDA graph from the end of one bucket of gradients to the end of the next. */
static int cut_tower(struct sync *sync)
{
    const uint32_t count = sync->buckets.of[REGION_GRADIENTS].count;
    size_t ends[REGION_BUCKETS_MAX] = { tower_arena(sync->spec.tower)->shared };
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
    return BATCH_MARKS + 2 * sync->buckets.of[REGION_GRADIENTS].count +
           EXCHANGE_MARKS * sync->buckets.of[REGION_OUTSIDE].count;
}

int sync_join(struct sync *sync, struct step_clock *clock)
{
    const struct sync_spec *const spec = &sync->spec;
    struct reduce_member member = {
        .device = spec->device,
        .compute = spec->compute,
        .communication = spec->communication,
        .results = spec->results,
        .track = spec->track,
        .zeros = sync_region(spec->tower, REGION_GRADIENTS),
        .bf16_grads = tower_bf16_grads(spec->tower),
    };
    const struct server_rules rules = server_rules_of(spec);
    if (spec->ops->serves != SERVES_NOBODY)
        member.rules = &rules;
    for (int region = 0; region < REGION_COUNT; region++)
        if (is_exchanged(spec, region))
            member.regions[region] = sync_region(spec->tower, region);
    sync->clock = clock;
    sync->joined = true;
    return spec->reduce->ops->join(spec->reduce, spec->index, &member, &sync->buckets);
}

int sync_begin(struct sync *sync)
{
    struct reduce *const reduce = sync->spec.reduce;
    return reduce->ops->begin != NULL ? reduce->ops->begin(reduce, sync->spec.index) : 0;
}

void sync_leave(struct sync *sync)
{
    if (sync->joined && sync->spec.reduce->ops->leave != NULL)
        sync->spec.reduce->ops->leave(sync->spec.reduce, sync->spec.index);
}

uint32_t sync_gradient_samples(const struct sync *sync, const struct local_batch *local, size_t offset)
{
    bool is_summed = offset >= tower_arena(sync->spec.tower)->shared;   /* a part of the head has all samples */
    for (uint32_t b = 0; b < sync->buckets.of[REGION_GRADIENTS].count; b++) {
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        const bool is_here = bucket->use == BUCKET_ALL_REDUCE ||
                             (bucket->use == BUCKET_REDUCE && bucket->owner == sync->spec.index);
        is_summed = is_summed || (is_here && offset >= bucket->offset && offset - bucket->offset < bucket->count);
    }
    return is_summed && sync->spec.ops->bucket_ready != NULL ? local->global_count : local->count;
}

/* Those that have numbers. */
static int start_exchanges(struct sync *sync, const struct bucket_run *exchanges, uint64_t batch)
{
    struct reduce *const reduce = sync->spec.reduce;
    int rc = 0;
    for (uint32_t b = exchanges->first; b < exchanges->first + exchanges->count && rc == 0; b++)
        rc = sync->buckets.bucket[b].count > 0 ? reduce->ops->start(reduce, sync->spec.index, b, batch) : 0;
    return rc;
}

static int await_exchanges(struct sync *sync, const struct bucket_run *exchanges)
{
    struct reduce *const reduce = sync->spec.reduce;
    int rc = 0;
    for (uint32_t b = exchanges->first; b < exchanges->first + exchanges->count && rc == 0; b++)
        rc = sync->buckets.bucket[b].count > 0 ? reduce->ops->wait(reduce, sync->spec.index, b) : 0;
    return rc;
}

int sync_exchange(struct sync *sync, uint32_t first, uint32_t count, uint64_t batch)
{
    const struct bucket_run run = sync->buckets.of[REGION_OUTSIDE];
    const struct bucket_run exchanges = { run.first + first, count };
    if (run.count == 0)
        return 0;
    assert(count > 0 && first + count <= run.count);
    range_begin(TRACE_EXPOSED_EXCHANGE, batch);
    int rc = start_exchanges(sync, &exchanges, batch);
    if (rc == 0)
        rc = await_exchanges(sync, &exchanges);
    range_end();
    return rc == 0 ? step_clock_mark(sync->clock, SPENT_EXPOSED_EXCHANGE) : rc;
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

bool sync_updates_apart(const struct sync *sync)
{
    const struct server_rules rules = server_rules_of(&sync->spec);
    return server_updates_apart(&rules);
}
