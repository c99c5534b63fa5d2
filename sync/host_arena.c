/* Arenas in host memory. Opened by the towers' threads; sums run on their communication streams. */
#include "sync/host_arena.h"

#include <string.h>

#include "compute/floats.h"
#include "stage/pairwise.h"

#define BLOCK_FLOATS 1024u      /* summed in a buffer that fits in the L1 cache */

static bool is_bf16(const struct host_arena *arena, enum region region)
{
    return region == REGION_GRADIENTS && arena->bf16_grads != NULL;
}

/* If the host cannot use *memory_in_out, device memory, replace it by pinned memory of the same size. */
static int pin(const struct host_arena *arena, size_t bytes, void **memory_in_out)
{
    struct device *const device = arena->pinned_by;
    return device == NULL || bytes == 0 ? 0 : device->ops->alloc_pinned(device, bytes, memory_in_out);
}

static int open_bf16_grads(struct host_arena *arena, const struct reduce_member *member)
{
    void *memory = member->bf16_grads;
    if (memory == NULL)
        return 0;
    const int rc = pin(arena, member->regions[REGION_GRADIENTS].count * sizeof(uint16_t), &memory);
    if (rc == 0)
        arena->bf16_grads = memory;
    return rc;
}

int host_arena_open(struct host_arena *arena, const struct reduce_member *member, bool rounds_sums)
{
    arena->rounds_sums = rounds_sums && member->bf16_grads != NULL;
    if (!member->device->ops->host_memory)
        arena->pinned_by = member->device;
    int rc = open_bf16_grads(arena, member);
    for (int region = 0; region < REGION_COUNT && rc == 0; region++) {
        const struct reduce_region *const source = &member->regions[region];
        void *memory = source->floats;
        if (source->count == 0 || is_bf16(arena, region))
            continue;
        rc = pin(arena, source->count * sizeof(float), &memory);
        if (rc == 0)
            arena->floats[region] = memory;
    }
    return rc;
}

void host_arena_close(const struct host_arena *arena)
{
    struct device *const device = arena->pinned_by;
    if (device == NULL)
        return;
    device->ops->free_pinned(device, arena->bf16_grads);
    for (int region = 0; region < REGION_COUNT; region++)
        device->ops->free_pinned(device, arena->floats[region]);
}

/* Read the numbers [at, at + count) of an arena, at most BLOCK_FLOATS. */
static void read_arena(const struct host_arena *arena, enum region region, size_t at, size_t count, float *floats_out)
{
    if (is_bf16(arena, region))
        floats_from_bf16(arena->bf16_grads + at, floats_out, count);
    else
        memcpy(floats_out, arena->floats[region] + at, count * sizeof(float));
}

static void add_arena(const struct host_arena *arena, enum region region, size_t at, size_t count, float *sum)
{
    if (is_bf16(arena, region))
        floats_add_bf16(arena->bf16_grads + at, sum, count);
    else
        floats_add(arena->floats[region] + at, sum, count);
}

/* Add these numbers of several towers, in pairs. */
static void sum_arenas(const struct host_arena *arenas, uint32_t towers, enum region region, size_t at, size_t count,
                       float *sum_out)
{
    if (towers == 1) {
        read_arena(arenas, region, at, count, sum_out);
        return;
    }
    const uint32_t left = pairwise_left(towers), right = towers - left;
    float more[BLOCK_FLOATS];
    sum_arenas(arenas, left, region, at, count, sum_out);
    if (right == 1) {
        add_arena(&arenas[left], region, at, count, sum_out);
    } else {
        sum_arenas(arenas + left, right, region, at, count, more);
        floats_add(more, sum_out, count);
    }
    if (arenas->rounds_sums && is_bf16(arenas, region))
        floats_round_bf16(sum_out, count);
}

void host_arenas_sum(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                     struct tower_range into)
{
    float sum[BLOCK_FLOATS];
    uint16_t bf16[BLOCK_FLOATS];
    for (size_t at = begin; at < end; at += BLOCK_FLOATS) {
        const size_t some = end - at < BLOCK_FLOATS ? end - at : BLOCK_FLOATS;
        sum_arenas(arenas, towers, region, at, some, sum);
        if (is_bf16(arenas, region))
            floats_to_bf16(sum, bf16, some);
        for (uint32_t d = into.first; d < into.first + into.count; d++) {
            if (is_bf16(arenas, region))
                memcpy(arenas[d].bf16_grads + at, bf16, some * sizeof(uint16_t));
            else
                memcpy(arenas[d].floats[region] + at, sum, some * sizeof(float));
        }
    }
}

void host_arenas_sum_to(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                        float *sums_out)
{
    uint16_t bf16[BLOCK_FLOATS];
    for (size_t at = begin; at < end; at += BLOCK_FLOATS) {
        const size_t some = end - at < BLOCK_FLOATS ? end - at : BLOCK_FLOATS;
        sum_arenas(arenas, towers, region, at, some, sums_out + at);
        if (!is_bf16(arenas, region))
            continue;
        floats_to_bf16(sums_out + at, bf16, some);
        floats_from_bf16(bf16, sums_out + at, some);
    }
}

void host_arenas_add(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                     float *sums_out)
{
    for (size_t at = begin; at < end; at += BLOCK_FLOATS) {
        const size_t some = end - at < BLOCK_FLOATS ? end - at : BLOCK_FLOATS;
        sum_arenas(arenas, towers, region, at, some, sums_out + (at - begin));
    }
}

void host_arenas_add_bf16(const struct host_arena *arenas, uint32_t towers, size_t begin, size_t end,
                          uint16_t *sums_out)
{
    float sum[BLOCK_FLOATS];
    for (size_t at = begin; at < end; at += BLOCK_FLOATS) {
        const size_t some = end - at < BLOCK_FLOATS ? end - at : BLOCK_FLOATS;
        sum_arenas(arenas, towers, REGION_GRADIENTS, at, some, sum);
        floats_to_bf16(sum, sums_out + (at - begin), some);
    }
}

static int queue_copy(const struct host_arena *arena, const struct reduce_member *member, const struct bucket *bucket,
                      struct stream *stream, enum copy_direction direction)
{
    const bool has_bf16 = is_bf16(arena, bucket->region);
    const size_t size = has_bf16 ? sizeof(uint16_t) : sizeof(float);
    char *const device = has_bf16 ? (char *)member->bf16_grads : (char *)member->regions[bucket->region].floats;
    char *const host = has_bf16 ? (char *)arena->bf16_grads : (char *)arena->floats[bucket->region];
    const size_t offset = bucket->offset * size, bytes = bucket->count * size;
    if (arena->pinned_by == NULL)
        return 0;
    return direction == COPY_TO_DEVICE
               ? stream->device->ops->copy(stream, device + offset, host + offset, bytes, direction)
               : stream->device->ops->copy(stream, host + offset, device + offset, bytes, direction);
}

int host_arena_copy_in(const struct host_arena *arena, const struct reduce_member *member, const struct bucket *bucket)
{
    return queue_copy(arena, member, bucket, member->communication, COPY_FROM_DEVICE);
}

int host_arena_copy_out(const struct host_arena *arena, const struct reduce_member *member,
                        const struct bucket *bucket, struct stream *stream)
{
    return queue_copy(arena, member, bucket, stream, COPY_TO_DEVICE);
}
