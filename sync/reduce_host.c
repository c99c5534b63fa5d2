/* Reduction by the host. Where device memory is the host's, the towers' arenas are summed
 * as they are; else every tower's communication stream copies its bucket to pinned memory,
 * which takes the arena's place, and the sums back. The sums run on the communication
 * streams. */
#include "sync/reduce.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/trace/range.h"
#include "sync/meeting.h"
#include "sync/place.h"

struct host_reduce {
    struct meeting meeting;
    struct place *places;       /* [tower]; each set by its tower before it joins */
};

static struct host_reduce *host_reduce_of(struct meeting *meeting)
{
    return (struct host_reduce *)meeting;
}

static void sum_into(const struct share *share, struct tower_range towers)
{
    const struct place *const places = host_reduce_of(share->meeting)->places;
    places_sum(places, share->meeting->towers, share->region, share->begin, share->end, towers);
}

static void fetch_from(const struct share *share, uint32_t owner)
{
    const struct place *const places = host_reduce_of(share->meeting)->places;
    const size_t begin = share->begin;
    memcpy(places[share->tower].floats[share->region] + begin, places[owner].floats[share->region] + begin,
           (share->end - begin) * sizeof(float));
}

/* Runs on a communication stream. */
static void share_sum(void *arg)
{
    struct share *const share = arg;
    const struct bucket *const bucket = share_bucket(share);
    struct trace_track *const track = share->meeting->members[share->tower].track;
    const uint64_t begun_ns = trace_now(track), batch = share_batch(share);
    if (share->begin == share->end)
        return;
    range_begin(TRACE_REDUCE, batch);
    switch (bucket->use) {
    case BUCKET_ALL_REDUCE: sum_into(share, (struct tower_range){ 0, share->meeting->towers }); break;
    case BUCKET_REDUCE: sum_into(share, (struct tower_range){ bucket->owner, 1 }); break;
    case BUCKET_BROADCAST: fetch_from(share, bucket->owner); break;
    default: assert(!"a bucket of a server");
    }
    range_end();
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ batch, share->tower }, begun_ns, share->bucket);
}

static int queue_sum(struct meeting *meeting, struct share *share)
{
    struct stream *const communication = meeting->members[share->tower].communication;
    return communication->device->ops->call(communication, share_sum, share);
}

static const struct place *place_of(struct meeting *meeting, const struct share *share)
{
    return &host_reduce_of(meeting)->places[share->tower];
}

static bool is_owner(const struct share *share)
{
    return share->tower == share_bucket(share)->owner;
}

static int queue_bring(struct meeting *meeting, const struct share *share)
{
    const struct bucket *const bucket = share_bucket(share);
    const bool is_read = bucket->use != BUCKET_BROADCAST || is_owner(share);
    return is_read ? place_queue_bring(place_of(meeting, share), &meeting->members[share->tower], bucket) : 0;
}

static int queue_take(struct meeting *meeting, const struct share *share)
{
    const struct bucket *const bucket = share_bucket(share);
    const enum bucket_use use = bucket->use;
    const bool is_written = use == BUCKET_ALL_REDUCE || is_owner(share) == (use == BUCKET_REDUCE);
    return is_written ? place_queue_take(place_of(meeting, share), &meeting->members[share->tower], bucket) : 0;
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

static void host_close(struct reduce *base)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    if (reduce == NULL)
        return;
    for (uint32_t d = 0; d < reduce->meeting.towers; d++)
        place_close(&reduce->places[d]);
    meeting_release(&reduce->meeting);
    free(reduce->places);
    free(reduce);
}

static int host_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    const struct meeting_ops *const ops = member->device->ops->host_memory ? &in_arenas : &in_pinned_memory;
    const int rc = place_open(&reduce->places[tower], member);
    return rc != 0 ? rc : meeting_join(&reduce->meeting, ops, tower, member, buckets);
}

static int host_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    (void)towers, (void)reason;
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
