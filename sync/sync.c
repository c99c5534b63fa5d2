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

/* The tower may run from the end of one bucket to the end of the next as one piece. */
static int cut_tower(struct sync *sync)
{
    size_t ends[BUCKETS_MAX];
    for (uint32_t b = 0; b < sync->buckets.count; b++)
        ends[b] = sync->buckets.bucket[b].offset + sync->buckets.bucket[b].count;
    return tower_cut(sync->spec.tower, ends, sync->buckets.count);
}

int sync_init(struct sync *sync, const struct sync_spec *spec)
{
    *sync = (struct sync){.spec = *spec};
    buckets_init(&sync->buckets, tower_arena(spec->tower), spec->bucket_bytes);
    return cut_tower(sync);
}

uint32_t sync_marks(const struct sync *sync)
{
    return 1 + 2 * sync->buckets.count;
}

int sync_join(struct sync *sync, struct step_clock *clock)
{
    const struct sync_spec *const spec = &sync->spec;
    const struct reduce_member member = {
        .device = spec->device,
        .compute = spec->compute,
        .communication = spec->communication,
        .gradients = tower_gradients(spec->tower),
        .gradient_count = tower_arena(spec->tower)->count,
    };
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
    while (sync->ready < sync->buckets.count && sync->ready_result == 0) {
        const struct bucket *const bucket = &sync->buckets.bucket[sync->ready];
        if (bucket->offset + bucket->count > floats)
            return;
        if (sync->spec.ops->bucket_ready != NULL)
            sync->ready_result = sync->spec.ops->bucket_ready(sync, sync->span, sync->ready);
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

int sync_update_bucket(struct sync *sync, const struct span *span, uint32_t b, uint32_t samples)
{
    struct tower *const tower = sync->spec.tower;
    const struct bucket *const bucket = &sync->buckets.bucket[b];
    if (samples == 0)
        return 0;
    const float scale = 1.0f / (float)samples;
    const float rate = (float)learning_rate_at(sync->spec.learning_rate, span->step);
    if (!tower_updates_at_once(tower))
        return tower_update(tower, bucket->offset, bucket->count, scale, rate);
    const int rc = tower_check(tower, bucket->offset, bucket->count);
    if (rc != 0 || b + 1 < sync->buckets.count)
        return rc;
    return tower_update(tower, 0, tower_arena(tower)->count, scale, rate);
}
