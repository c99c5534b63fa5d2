/* Splits arenas into buckets. Pure functions, called by every tower. */
#include "sync/bucket.h"

#include <assert.h>

#define WHOLE_BYTES ((size_t)2 << 20)
#define FIRST_BYTES ((size_t)1 << 20)
#define MOST_BYTES ((size_t)16 << 20)

/* The start of the first parameter after arena position `from`, or the end of those that every tower has. */
static size_t next_parameter(const struct arena *arena, size_t from)
{
    size_t next = arena->shared;
    for (uint32_t i = 0; i < arena->parameter_count; i++) {
        const size_t offset = arena->ranges[i].offset;
        if (offset > from && offset < next)
            next = offset;
    }
    return next;
}

/* The end of the bucket that begins at `begin`. */
static size_t next_end(const struct arena *arena, size_t begin, size_t floats_min)
{
    size_t end = next_parameter(arena, begin);
    while (end < arena->shared && end - begin < floats_min)
        end = next_parameter(arena, end);
    return end;
}

/* The minimum size of a bucket in floats: `first`, then doubled from bucket to bucket up to `most`. */
struct growth { size_t first, most; };

static struct growth growth_of(const struct arena *arena, size_t bucket_bytes)
{
    if (bucket_bytes != BUCKET_AUTO)
        return (struct growth){ bucket_bytes / sizeof(float), bucket_bytes / sizeof(float) };
    if (arena->shared <= WHOLE_BYTES / sizeof(float))
        return (struct growth){ arena->shared, arena->shared };
    return (struct growth){ FIRST_BYTES / sizeof(float), MOST_BYTES / sizeof(float) };
}

static size_t grown(const struct growth *growth, size_t floats_min)
{
    return floats_min < growth->most / 2 ? floats_min * 2 : growth->most;
}

static uint32_t count_buckets(const struct arena *arena, const struct growth *growth)
{
    uint32_t count = 0;
    size_t floats_min = growth->first;
    for (size_t end = 0; end < arena->shared; floats_min = grown(growth, floats_min), count++)
        end = next_end(arena, end, floats_min);
    return count;
}

static void append(struct buckets *buckets, const struct bucket *bucket)
{
    struct bucket_run *const run = &buckets->of[bucket->region];
    assert(run->count < REGION_BUCKETS_MAX);
    if (run->count++ == 0)
        run->first = buckets->count;
    assert(bucket->region != REGION_GRADIENTS || run->first == 0);
    buckets->bucket[buckets->count++] = *bucket;
}

void buckets_add(struct buckets *buckets, enum region region, const struct arena *arena, size_t bucket_bytes)
{
    struct growth growth = growth_of(arena, bucket_bytes);
    for (; count_buckets(arena, &growth) > REGION_BUCKETS_MAX; growth.first = growth.most)
        growth.most = growth.most == 0 ? 1024 : growth.most * 2;
    size_t begin = 0, floats_min = growth.first;
    do {
        const size_t end = arena->shared > 0 ? next_end(arena, begin, floats_min) : 0;
        append(buckets, &(struct bucket){ .region = region, .offset = begin, .count = end - begin });
        begin = end;
        floats_min = grown(&growth, floats_min);
    } while (begin < arena->shared);
}

void buckets_add_whole(struct buckets *buckets, enum region region, size_t count, enum bucket_use use)
{
    append(buckets, &(struct bucket){ .region = region, .count = count, .use = use });
}

void buckets_add_exchange(struct buckets *buckets, size_t offset, size_t piece, uint32_t towers, enum bucket_use use)
{
    append(buckets, &(struct bucket){ .region = REGION_OUTSIDE, .offset = offset, .count = towers * piece, .use = use,
                                      .piece = piece });
}

void buckets_share_out(struct buckets *buckets, uint32_t towers)
{
    size_t loads[REGION_BUCKETS_MAX] = { 0 };   /* a bucket goes to a later tower only if all before own some */
    towers = towers < REGION_BUCKETS_MAX ? towers : REGION_BUCKETS_MAX;
    for (uint32_t b = 0; b < buckets->of[REGION_GRADIENTS].count; b++) {
        struct bucket *const bucket = &buckets->bucket[b];
        bucket->use = BUCKET_REDUCE;
        bucket->owner = 0;
        for (uint32_t tower = 1; tower < towers; tower++)
            if (loads[tower] < loads[bucket->owner])
                bucket->owner = tower;
        loads[bucket->owner] += bucket->count;
    }
}

void buckets_add_broadcast(struct buckets *buckets, enum region region)
{
    for (uint32_t b = 0; b < buckets->of[REGION_GRADIENTS].count; b++) {
        struct bucket bucket = buckets->bucket[b];
        bucket.region = region;
        bucket.use = BUCKET_BROADCAST;
        append(buckets, &bucket);
    }
}
