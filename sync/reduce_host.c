/* Reduction by the host. Where device memory is the host's, the towers' arenas are summed
 * as they are; else every tower's communication stream copies its bucket to pinned memory,
 * which takes the arena's place, and the sums back. The sums run on the communication
 * streams. */
#include "sync/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/trace/trace.h"
#include "sync/meeting.h"

#define BLOCK_FLOATS 1024u      /* summed in a buffer that stays in the first-level cache */

/* Where a tower's regions are summed: its arenas, or what stands for them in host memory. */
struct place {
    float *floats[REGION_COUNT];        /* NULL: not brought */
    struct device *pinned_by;           /* NULL: the arenas themselves */
};

struct host_reduce {
    struct meeting meeting;
    struct place *places;       /* [tower]; each set by its tower before it joins */
};

static struct host_reduce *host_reduce_of(struct meeting *meeting)
{
    return (struct host_reduce *)meeting;
}

static void add(float *restrict sum, const float *restrict floats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += floats[i];
}

/* Over all towers, in tower order, into those of [first, last). */
static void sum_places(const struct share *share, uint32_t first, uint32_t last)
{
    const struct place *const places = host_reduce_of(share->meeting)->places;
    const enum region region = share->region;
    float sum[BLOCK_FLOATS];
    for (size_t at = share->begin; at < share->end; at += BLOCK_FLOATS) {
        const size_t count = share->end - at < BLOCK_FLOATS ? share->end - at : BLOCK_FLOATS;
        memcpy(sum, places[0].floats[region] + at, count * sizeof(float));
        for (uint32_t d = 1; d < share->meeting->towers; d++)
            add(sum, places[d].floats[region] + at, count);
        for (uint32_t d = first; d < last; d++)
            memcpy(places[d].floats[region] + at, sum, count * sizeof(float));
    }
}

static void fetch_from(const struct share *share, uint32_t owner)
{
    const struct place *const places = host_reduce_of(share->meeting)->places;
    memcpy(places[share->tower].floats[share->region] + share->begin, places[owner].floats[share->region] + share->begin,
           (share->end - share->begin) * sizeof(float));
}

/* Runs on a communication stream. */
static void share_sum(void *arg)
{
    const struct share *const share = arg;
    const struct bucket *const bucket = share_bucket(share);
    struct trace_track *const track = share->meeting->members[share->tower].track;
    const uint64_t begun_ns = trace_now(track);
    if (share->begin == share->end)
        return;
    switch (bucket->use) {
    case BUCKET_ALL_REDUCE: sum_places(share, 0, share->meeting->towers); break;
    case BUCKET_REDUCE: sum_places(share, bucket->owner, bucket->owner + 1); break;
    case BUCKET_BROADCAST: fetch_from(share, bucket->owner); break;
    }
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ share->batch, share->tower }, begun_ns, share->bucket);
}

static int queue_sum(struct meeting *meeting, struct share *share)
{
    struct stream *const communication = meeting->members[share->tower].communication;
    return communication->device->ops->call(communication, share_sum, share);
}

/* Queue a copy of the share's whole bucket between the tower's arena and its place. */
static int queue_copy(struct meeting *meeting, const struct share *share, enum copy_direction direction)
{
    const struct reduce_member *const member = &meeting->members[share->tower];
    const struct bucket *const bucket = share_bucket(share);
    float *const arena = member->regions[bucket->region].floats + bucket->offset;
    float *const place = host_reduce_of(meeting)->places[share->tower].floats[bucket->region] + bucket->offset;
    const bool is_back = direction == COPY_TO_DEVICE;
    return member->device->ops->copy(member->communication, is_back ? arena : place, is_back ? place : arena,
                                     bucket->count * sizeof(float), direction);
}

static bool is_owner(const struct share *share)
{
    return share->tower == share_bucket(share)->owner;
}

static int queue_bring(struct meeting *meeting, const struct share *share)
{
    const bool is_read = share_bucket(share)->use != BUCKET_BROADCAST || is_owner(share);
    return is_read ? queue_copy(meeting, share, COPY_FROM_DEVICE) : 0;
}

static int queue_take(struct meeting *meeting, const struct share *share)
{
    const enum bucket_use use = share_bucket(share)->use;
    const bool is_written = use == BUCKET_ALL_REDUCE || is_owner(share) == (use == BUCKET_REDUCE);
    return is_written ? queue_copy(meeting, share, COPY_TO_DEVICE) : 0;
}

static const struct meeting_ops in_arenas = { .sum = queue_sum };
static const struct meeting_ops in_pinned_memory = { .bring = queue_bring, .take = queue_take, .sum = queue_sum };

static int host_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    struct host_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    reduce->places = calloc(spec->towers, sizeof(*reduce->places));
    const int rc = reduce->places == NULL ? -ENOMEM : meeting_init(&reduce->meeting, &reduce_host_ops, spec);
    if (rc != 0) {
        free(reduce->places);
        free(reduce);
        return rc;
    }
    *reduce_out = &reduce->meeting.base;
    return 0;
}

static void close_place(const struct place *place)
{
    for (int region = 0; region < REGION_COUNT && place->pinned_by != NULL; region++)
        place->pinned_by->ops->free_pinned(place->pinned_by, place->floats[region]);
}

static void host_close(struct reduce *base)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    if (reduce == NULL)
        return;
    for (uint32_t d = 0; d < reduce->meeting.towers; d++)
        close_place(&reduce->places[d]);
    meeting_release(&reduce->meeting);
    free(reduce->places);
    free(reduce);
}

static int open_place(struct place *place, const struct reduce_member *member)
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

static int host_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    const struct meeting_ops *const ops = member->device->ops->host_memory ? &in_arenas : &in_pinned_memory;
    const int rc = open_place(&reduce->places[tower], member);
    return rc != 0 ? rc : meeting_join(&reduce->meeting, ops, tower, member, buckets);
}

static int host_supports(const struct reduce_towers *towers, struct refusal *refusal)
{
    (void)towers, (void)refusal;
    return 0;
}

const struct reduce_ops reduce_host_ops = {
    .name = "host",
    .pins_regions = true,
    .knows_owners = true,
    .supports = host_supports,
    .open = host_open,
    .close = host_close,
    .join = host_join,
    .start = meeting_start,
    .wait = meeting_wait,
    .cancel = meeting_cancel,
};
