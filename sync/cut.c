/* Which arenas of a tower others have to do with, in which buckets, and the host's memory for that. Arithmetic, the
 * same in every tower. */
#include "sync/cut.h"

static struct reduce_region state_region(struct tower *tower, uint32_t state)
{
    const bool is_kept = state < optimizer_state_count(tower_spec(tower)->optimizer.kind);
    return (struct reduce_region){ tower_state(tower, state), is_kept ? tower_arena(tower)->updated : 0 };
}

struct reduce_region cut_region(struct tower *tower, enum region region)
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

/* A tower that is alone has nothing to sum, but its gradients come in buckets all the same. */
static bool is_summed(const struct sync_spec *spec, enum region region)
{
    const bool is_state = region >= REGION_STATES && region < REGION_STATISTICS;
    if (!spec->ops->sums[region] || (is_state && spec->keeps_buffers))
        return false;
    return region == REGION_GRADIENTS ||
           (spec->schedule->towers > 1 && cut_region(spec->tower, region).count > 0);
}

bool cut_meets(const struct sync_spec *spec, enum region region)
{
    const bool is_owned = region == REGION_WEIGHTS || (region >= REGION_STATES && region < REGION_STATISTICS);
    return is_summed(spec, region) || (is_owned && (spec->ops->has_owners || spec->ops->serves != SERVES_NOBODY));
}

/* What the owners of gradients own of the rest, too. */
static void add_owners(const struct sync_spec *spec, struct buckets *buckets)
{
    const uint32_t owners = tower_updates_at_once(spec->tower) ? 1 : spec->schedule->towers;
    buckets_share_out(buckets, REGION_GRADIENTS, owners);
    buckets_add_broadcast(buckets, REGION_WEIGHTS, REGION_GRADIENTS);
    for (int region = REGION_STATES; region < REGION_STATISTICS; region++)
        if (cut_region(spec->tower, region).count > 0)
            buckets_add_broadcast(buckets, region, REGION_GRADIENTS);
}

struct server_rules cut_rules(const struct sync_spec *spec)
{
    const struct tower_spec *const tower = tower_spec(spec->tower);
    return (struct server_rules){ .net = tower->net, .arena = tower_arena(spec->tower), .optimizer = &tower->optimizer,
                                  .schedule = spec->schedule, .learning_rate = spec->learning_rate,
                                  .defers = spec->ops->defers };
}

/* What towers and a server have to do with each other. */
static void add_served(const struct sync_spec *spec, struct buckets *buckets)
{
    const size_t count = tower_arena(spec->tower)->updated;
    const struct server_rules rules = cut_rules(spec);
    buckets_set_use(buckets, REGION_GRADIENTS, BUCKET_SERVE);
    if (spec->ops->serves == SERVES_EACH)
        buckets_add_whole(buckets, REGION_WEIGHTS, count, BUCKET_FETCH);
    else if (server_updates_apart(&rules)) {
        buckets_add_whole(buckets, REGION_WEIGHTS, count, BUCKET_SQUARE);
        buckets_add_whole(buckets, REGION_WEIGHTS, count, BUCKET_UPDATE);
    }
    for (int region = REGION_STATES; region < REGION_STATISTICS; region++)
        if (cut_region(spec->tower, region).count > 0)
            buckets_add_whole(buckets, region, count, BUCKET_FETCH);
}

void sync_cut(const struct sync_spec *spec, struct buckets *buckets_out)
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

/* Of a region where the host has a place for it. */
static size_t place_bytes(const struct sync_spec *spec, enum region region)
{
    const bool is_halved = region == REGION_GRADIENTS && tower_spec(spec->tower)->has_bf16_grads;
    return cut_region(spec->tower, region).count * (is_halved ? sizeof(uint16_t) : sizeof(float));
}

size_t sync_pinned_bytes(const struct sync_spec *spec)
{
    size_t bytes = 0;
    for (int region = 0; region < REGION_COUNT; region++)
        if (spec->reduce->ops->pins_regions && !spec->device->ops->host_memory && cut_meets(spec, region))
            bytes += place_bytes(spec, region);
    if (spec->ops->serves != SERVES_NOBODY && spec->index == 0)
        bytes += server_bytes(&(struct server_rules[]){ cut_rules(spec) }[0]);
    if (spec->ops->serves == SERVES_EACH && tower_spec(spec->tower)->has_bf16_grads)
        bytes += cut_region(spec->tower, REGION_GRADIENTS).count * sizeof(float);
    return bytes;
}
