/* Cutting arenas into buckets. Pure arithmetic, called by every tower. */
#include "sync/bucket.h"

#include <assert.h>

/* Start of the parameter that follows arena position `from`, or the arena's end. */
static size_t next_cut(const struct arena *arena, size_t from)
{
    size_t cut = arena->updated;
    for (uint32_t i = 0; i < arena->parameter_count; i++) {
        const size_t offset = arena->ranges[i].offset;
        if (offset > from && offset < cut)
            cut = offset;
    }
    return cut;
}

/* Where the bucket that begins at `begin` ends. */
static size_t next_end(const struct arena *arena, size_t begin, size_t floats_min)
{
    size_t end = next_cut(arena, begin);
    while (end < arena->updated && end - begin < floats_min)
        end = next_cut(arena, end);
    return end;
}

static uint32_t count_buckets(const struct arena *arena, size_t floats_min)
{
    uint32_t count = 0;
    for (size_t end = 0; end < arena->updated; end = next_end(arena, end, floats_min))
        count++;
    return count;
}

static void append(struct buckets *buckets, enum region region, size_t offset, size_t count)
{
    struct bucket_run *const run = &buckets->of[region];
    assert(run->count < REGION_BUCKETS_MAX);
    if (run->count++ == 0)
        run->first = buckets->count;
    buckets->bucket[buckets->count++] = (struct bucket){ .region = region, .offset = offset, .count = count };
}

void buckets_add(struct buckets *buckets, enum region region, const struct arena *arena, size_t bucket_bytes)
{
    size_t floats_min = bucket_bytes / sizeof(float);
    while (count_buckets(arena, floats_min) > REGION_BUCKETS_MAX)
        floats_min = floats_min == 0 ? 1024 : floats_min * 2;
    size_t begin = 0;
    do {
        const size_t end = arena->updated > 0 ? next_end(arena, begin, floats_min) : 0;
        append(buckets, region, begin, end - begin);
        begin = end;
    } while (begin < arena->updated);
}

void buckets_add_whole(struct buckets *buckets, enum region region, size_t count)
{
    append(buckets, region, 0, count);
}
