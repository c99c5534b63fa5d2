/* Memory of the host that stands for towers' arenas. Opened by the towers' threads; sums run on communication
 * streams. */
#include "sync/place.h"

#include <string.h>

#include "compute/floats.h"

#define BLOCK_FLOATS 1024u      /* summed in a buffer that stays in the first-level cache */

static bool is_halved(const struct place *place, enum region region)
{
    return region == REGION_GRADIENTS && place->bf16_grads != NULL;
}

/* What stands for device memory, in *memory_in_out: that or pinned memory of as many bytes. */
static int stand_for(const struct place *place, size_t bytes, void **memory_in_out)
{
    struct device *const device = place->pinned_by;
    return device == NULL || bytes == 0 ? 0 : device->ops->alloc_pinned(device, bytes, memory_in_out);
}

static int open_bf16_grads(struct place *place, const struct reduce_member *member)
{
    void *memory = member->bf16_grads;
    if (memory == NULL)
        return 0;
    const int rc = stand_for(place, member->regions[REGION_GRADIENTS].count * sizeof(uint16_t), &memory);
    if (rc == 0)
        place->bf16_grads = memory;
    return rc;
}

int place_open(struct place *place, const struct reduce_member *member)
{
    if (!member->device->ops->host_memory)
        place->pinned_by = member->device;
    int rc = open_bf16_grads(place, member);
    for (int region = 0; region < REGION_COUNT && rc == 0; region++) {
        const struct reduce_region *const arena = &member->regions[region];
        void *memory = arena->floats;
        if (arena->count == 0 || is_halved(place, region))
            continue;
        rc = stand_for(place, arena->count * sizeof(float), &memory);
        if (rc == 0)
            place->floats[region] = memory;
    }
    return rc;
}

void place_close(const struct place *place)
{
    struct device *const device = place->pinned_by;
    if (device == NULL)
        return;
    device->ops->free_pinned(device, place->bf16_grads);
    for (int region = 0; region < REGION_COUNT; region++)
        device->ops->free_pinned(device, place->floats[region]);
}

static void add(float *restrict sum, const float *restrict floats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += floats[i];
}

/* Of `count` numbers from `at` on, at most BLOCK_FLOATS. */
static void sum_floats(const struct place *places, uint32_t towers, enum region region, size_t at, size_t count,
                       float *sum)
{
    memcpy(sum, places[0].floats[region] + at, count * sizeof(float));
    for (uint32_t d = 1; d < towers; d++)
        add(sum, places[d].floats[region] + at, count);
}

static void sum_bf16_grads(const struct place *places, uint32_t towers, size_t at, size_t count, uint16_t *halves_out)
{
    float sum[BLOCK_FLOATS];
    floats_from_bf16(places[0].bf16_grads + at, sum, count);
    for (uint32_t d = 1; d < towers; d++)
        floats_add_bf16(places[d].bf16_grads + at, sum, count);
    floats_to_bf16(sum, halves_out, count);
}

void places_sum(const struct place *places, uint32_t towers, enum region region, size_t begin, size_t end,
                struct tower_range into)
{
    float sum[BLOCK_FLOATS];
    uint16_t halves[BLOCK_FLOATS];
    for (size_t at = begin; at < end; at += BLOCK_FLOATS) {
        const size_t some = end - at < BLOCK_FLOATS ? end - at : BLOCK_FLOATS;
        if (is_halved(places, region))
            sum_bf16_grads(places, towers, at, some, halves);
        else
            sum_floats(places, towers, region, at, some, sum);
        for (uint32_t d = into.first; d < into.first + into.count; d++) {
            if (is_halved(places, region))
                memcpy(places[d].bf16_grads + at, halves, some * sizeof(uint16_t));
            else
                memcpy(places[d].floats[region] + at, sum, some * sizeof(float));
        }
    }
}

void places_sum_into(const struct place *places, uint32_t towers, enum region region, size_t begin, size_t end,
                     float *sums_out)
{
    uint16_t halves[BLOCK_FLOATS];
    for (size_t at = begin; at < end; at += BLOCK_FLOATS) {
        const size_t some = end - at < BLOCK_FLOATS ? end - at : BLOCK_FLOATS;
        if (!is_halved(places, region)) {
            sum_floats(places, towers, region, at, some, sums_out + at);
            continue;
        }
        sum_bf16_grads(places, towers, at, some, halves);
        floats_from_bf16(halves, sums_out + at, some);
    }
}

static int queue_copy(const struct place *place, const struct reduce_member *member, const struct bucket *bucket,
                      enum copy_direction direction)
{
    const bool is_bf16 = is_halved(place, bucket->region);
    const size_t size = is_bf16 ? sizeof(uint16_t) : sizeof(float);
    char *const arena = is_bf16 ? (char *)member->bf16_grads : (char *)member->regions[bucket->region].floats;
    char *const pinned = is_bf16 ? (char *)place->bf16_grads : (char *)place->floats[bucket->region];
    const size_t offset = bucket->offset * size, bytes = bucket->count * size;
    if (place->pinned_by == NULL)
        return 0;
    return direction == COPY_TO_DEVICE
               ? member->device->ops->copy(member->communication, arena + offset, pinned + offset, bytes, direction)
               : member->device->ops->copy(member->communication, pinned + offset, arena + offset, bytes, direction);
}

int place_queue_bring(const struct place *place, const struct reduce_member *member, const struct bucket *bucket)
{
    return queue_copy(place, member, bucket, COPY_FROM_DEVICE);
}

int place_queue_take(const struct place *place, const struct reduce_member *member, const struct bucket *bucket)
{
    return queue_copy(place, member, bucket, COPY_TO_DEVICE);
}
