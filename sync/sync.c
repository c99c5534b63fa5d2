/* What all modes share, and the one place that knows which there are. */
#include "sync/sync.h"

#include <string.h>

#include "sync/modes.h"

const struct sync_ops *const sync_table[SYNC_MODE_COUNT] = {
    [SYNC_REPLICATED] = &sync_replicated_ops,
    [SYNC_INDEPENDENT] = &sync_independent_ops,
};

const struct sync_ops *sync_find(const char *name)
{
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++)
        if (strcmp(sync_table[mode]->name, name) == 0)
            return sync_table[mode];
    return NULL;
}

static struct reduce_region region_of(struct tower *tower, enum region region)
{
    const size_t count = tower_arena(tower)->count;
    const struct reduce_region regions[REGION_COUNT] = {
        [REGION_GRADIENTS] = {tower_gradients(tower), count},
    };
    return regions[region];
}

/* The tower may run from the end of one bucket of gradients to the end of the next as one piece. */
static int cut_tower(struct sync *sync)
{
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    size_t ends[REGION_BUCKETS_MAX] = {tower_arena(sync->spec.tower)->count};
    for (uint32_t i = 0; i < run.count; i++) {
        const struct bucket *const bucket = &sync->buckets.bucket[run.first + i];
        ends[i] = bucket->offset + bucket->count;
    }
    return tower_cut(sync->spec.tower, ends, run.count > 0 ? run.count : 1);
}

int sync_init(struct sync *sync, const struct sync_spec *spec)
{
    *sync = (struct sync){.spec = *spec};
    for (int region = 0; region < REGION_COUNT; region++)
        if (spec->ops->sums[region])
            buckets_add(&sync->buckets, region, tower_arena(spec->tower), spec->bucket_bytes);
    return cut_tower(sync);
}

uint32_t sync_marks(const struct sync *sync)
{
    return 2 + 2 * sync->buckets.of[REGION_GRADIENTS].count;
}

int sync_join(struct sync *sync, struct step_clock *clock)
{
    const struct sync_spec *const spec = &sync->spec;
    struct reduce_member member = {
        .device = spec->device,
        .compute = spec->compute,
        .communication = spec->communication,
        .zeros = region_of(spec->tower, REGION_GRADIENTS),
    };
    for (int region = 0; region < REGION_COUNT; region++)
        if (sync->buckets.of[region].count > 0)
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

/* Called by tower_backward: the first `floats` gradients are queued. */
static void note_ready(void *arg, size_t floats)
{
    struct sync *const sync = arg;
    const struct bucket_run run = sync->buckets.of[REGION_GRADIENTS];
    while (sync->ready < run.count && sync->ready_result == 0) {
        const uint32_t b = run.first + sync->ready;
        const struct bucket *const bucket = &sync->buckets.bucket[b];
        if (bucket->offset + bucket->count > floats)
            return;
        sync->ready_result = sync->spec.ops->bucket_ready(sync, sync->span, b);
        sync->ready++;
    }
}

int sync_step(struct sync *sync, const struct span *span)
{
    sync->span = span;
    sync->ready = 0;
    sync->ready_result = 0;
    int rc = tower_backward(sync->spec.tower, note_ready, sync);
    if (rc == 0)
        rc = sync->ready_result;
    if (rc == 0)
        rc = step_clock_mark(sync->clock, SPENT_BACKWARD);
    return rc == 0 ? sync->spec.ops->apply(sync, span) : rc;
}

bool sync_needs_poll(const struct sync *sync)
{
    return sync->joined && sync->spec.reduce->ops->poll != NULL;
}

int sync_poll(struct sync *sync)
{
    return sync->spec.reduce->ops->poll(sync->spec.reduce, sync->spec.index);
}

static int update(struct sync *sync, const struct span *span, size_t offset, size_t count, uint32_t samples)
{
    const float rate = (float)learning_rate_at(sync->spec.learning_rate, span->step);
    return tower_update(sync->spec.tower, offset, count, 1.0f / (float)samples, rate);
}

int sync_update(struct sync *sync, const struct span *span, uint32_t samples)
{
    struct tower *const tower = sync->spec.tower;
    const size_t count = tower_arena(tower)->count;
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
    return update(sync, span, 0, tower_arena(tower)->count, samples);
}
