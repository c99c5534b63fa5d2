/* Cutting the gradient arena into buckets. Pure arithmetic, called by every tower. */
#include "sync/bucket.h"

/* Start of the parameter that follows arena position `from`, or the arena's end. */
static size_t next_cut(const struct arena *arena, size_t from)
{
    size_t cut = arena->count;
    for (uint32_t i = 0; i < arena->parameter_count; i++) {
        const size_t offset = arena->ranges[i].offset;
        if (offset > from && offset < cut)
            cut = offset;
    }
    return cut;
}

static uint32_t cut_buckets(struct buckets *buckets, const struct arena *arena, size_t floats_min)
{
    uint32_t count = 0;
    size_t begin = 0;
    while (begin < arena->count) {
        size_t end = next_cut(arena, begin);
        while (end < arena->count && end - begin < floats_min)
            end = next_cut(arena, end);
        if (count < BUCKETS_MAX)
            buckets->bucket[count] = (struct bucket){.offset = begin, .count = end - begin};
        count++;
        begin = end;
    }
    return count;
}

void buckets_init(struct buckets *buckets, const struct arena *arena, size_t bucket_bytes)
{
    size_t floats_min = bucket_bytes / sizeof(float);
    uint32_t count = cut_buckets(buckets, arena, floats_min);
    while (count > BUCKETS_MAX) {
        floats_min = floats_min == 0 ? 1024 : floats_min * 2;
        count = cut_buckets(buckets, arena, floats_min);
    }
    if (count == 0)
        buckets->bucket[count++] = (struct bucket){.offset = 0, .count = 0};
    buckets->count = count;
}
