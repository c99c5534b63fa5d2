/* Memory of the host that stands for towers' arenas. Opened by the towers' threads; sums run on communication
 * streams. */
#include "sync/place.h"

#include <string.h>

#define BLOCK_FLOATS 1024u      /* summed in a buffer that stays in the first-level cache */

int place_open(struct place *place, const struct reduce_member *member)
{
    struct device *const device = member->device;
    if (!device->ops->host_memory)
        place->pinned_by = device;
    int rc = 0;
    for (int region = 0; region < REGION_COUNT && rc == 0; region++) {
        const struct reduce_region *const arena = &member->regions[region];
        void *memory = arena->floats;
        if (place->pinned_by != NULL && arena->count > 0)
            rc = device->ops->alloc_pinned(device, arena->count * sizeof(float), &memory);
        if (rc == 0 && arena->count > 0)
            place->floats[region] = memory;
    }
    return rc;
}

void place_close(const struct place *place)
{
    for (int region = 0; region < REGION_COUNT && place->pinned_by != NULL; region++)
        place->pinned_by->ops->free_pinned(place->pinned_by, place->floats[region]);
}

static void add(float *restrict sum, const float *restrict floats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += floats[i];
}

void places_sum(const struct place *places, uint32_t towers, enum region region, size_t begin, size_t end,
                float *const *into, uint32_t count)
{
    float sum[BLOCK_FLOATS];
    for (size_t at = begin; at < end; at += BLOCK_FLOATS) {
        const size_t some = end - at < BLOCK_FLOATS ? end - at : BLOCK_FLOATS;
        memcpy(sum, places[0].floats[region] + at, some * sizeof(float));
        for (uint32_t d = 1; d < towers; d++)
            add(sum, places[d].floats[region] + at, some);
        for (uint32_t i = 0; i < count; i++)
            memcpy(into[i] + at, sum, some * sizeof(float));
    }
}

static int queue_copy(const struct place *place, const struct reduce_member *member, const struct bucket *bucket,
                      enum copy_direction direction)
{
    if (place->pinned_by == NULL)
        return 0;
    float *const arena = member->regions[bucket->region].floats + bucket->offset;
    float *const pinned = place->floats[bucket->region] + bucket->offset;
    const bool is_back = direction == COPY_TO_DEVICE;
    return member->device->ops->copy(member->communication, is_back ? arena : pinned, is_back ? pinned : arena,
                                     bucket->count * sizeof(float), direction);
}

int place_queue_bring(const struct place *place, const struct reduce_member *member, const struct bucket *bucket)
{
    return queue_copy(place, member, bucket, COPY_FROM_DEVICE);
}

int place_queue_take(const struct place *place, const struct reduce_member *member, const struct bucket *bucket)
{
    return queue_copy(place, member, bucket, COPY_TO_DEVICE);
}
