/* Reduction in host memory. If device memory is host memory, the towers' arenas are summed in place; otherwise every
 * tower's communication stream copies its bucket to pinned memory, and the sums back. The sums are computed on the
 * communication streams. */
#include "sync/reduce.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/trace/range.h"
#include "sync/host_arena.h"
#include "sync/rendezvous.h"

struct host_reduce {
    struct rendezvous rendezvous;
    struct host_arena *arenas;  /* [tower]; each opened by its tower before it joins */
    bool in_pairs;              /* as in struct reduce_spec */
};

static struct host_reduce *host_reduce_of(struct rendezvous *rendezvous)
{
    return (struct host_reduce *)rendezvous;
}

static void sum_into(const struct share *share, struct tower_range towers)
{
    const struct host_arena *const arenas = host_reduce_of(share->rendezvous)->arenas;
    host_arenas_sum(arenas, share->rendezvous->towers, share->region, share->begin, share->end, towers);
}

static void copy_from(const struct share *share, uint32_t owner)
{
    const struct host_arena *const arenas = host_reduce_of(share->rendezvous)->arenas;
    const size_t begin = share->begin;
    memcpy(arenas[share->tower].floats[share->region] + begin, arenas[owner].floats[share->region] + begin,
           (share->end - begin) * sizeof(float));
}

static void copy_to_others(const struct share *share)
{
    const struct host_arena *const arenas = host_reduce_of(share->rendezvous)->arenas;
    const float *const values = arenas[share->tower].floats[share->region] + share->begin;
    for (uint32_t d = 0; d < share->rendezvous->towers; d++)
        if (d != share->tower)
            memcpy(arenas[d].floats[share->region] + share->begin, values, (share->end - share->begin) * sizeof(float));
}

/* Sums a share; called on a communication stream. */
static void share_sum(void *arg)
{
    struct share *const share = arg;
    if (rendezvous_is_abandoned())
        return;
    const struct bucket *const bucket = share_bucket(share);
    struct trace_track *const track = share->rendezvous->members[share->tower].track;
    const uint64_t begun_ns = trace_now(track), batch = share_batch(share);
    if (share->begin == share->end)
        return;
    range_begin(TRACE_REDUCE, batch);
    switch (bucket->use) {
    case BUCKET_ALL_REDUCE: sum_into(share, (struct tower_range){ 0, share->rendezvous->towers }); break;
    case BUCKET_REDUCE: sum_into(share, (struct tower_range){ bucket->owner, 1 }); break;
    case BUCKET_BROADCAST: copy_from(share, bucket->owner); break;
    case BUCKET_ALL_GATHER: copy_to_others(share); break;
    case BUCKET_REDUCE_SCATTER: sum_into(share, (struct tower_range){ share->tower, 1 }); break;
    default: assert(!"a bucket of a parameter server");
    }
    range_end();
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ batch, share->tower }, begun_ns, share->bucket);
}

static int queue_sum(struct rendezvous *rendezvous, struct share *share)
{
    struct stream *const communication = rendezvous->members[share->tower].communication;
    return communication->device->ops->call(communication, share_sum, share);
}

static const struct host_arena *arena_of(struct rendezvous *rendezvous, const struct share *share)
{
    return &host_reduce_of(rendezvous)->arenas[share->tower];
}

static bool is_owner(const struct share *share)
{
    return share->tower == share_bucket(share)->owner;
}

/* The range of the bucket that others read of the tower's values; count 0: none. */
static struct bucket read_range(const struct share *share)
{
    struct bucket range = *share_bucket(share);
    if (range.use == BUCKET_ALL_GATHER)
        return bucket_pieces(&range, share->tower, 1);
    if (range.use == BUCKET_BROADCAST && !is_owner(share))
        range.count = 0;
    return range;
}

/* The range of the bucket that is written for the tower; count 0: none. */
static struct bucket written_range(const struct share *share)
{
    struct bucket range = *share_bucket(share);
    if (range.use == BUCKET_REDUCE_SCATTER)
        return bucket_pieces(&range, share->tower, 1);
    if ((range.use == BUCKET_REDUCE && !is_owner(share)) || (range.use == BUCKET_BROADCAST && is_owner(share)))
        range.count = 0;
    return range;
}

static int queue_copy_in(struct rendezvous *rendezvous, const struct share *share)
{
    const struct bucket range = read_range(share);
    return range.count > 0 ? host_arena_copy_in(arena_of(rendezvous, share), &rendezvous->members[share->tower], &range)
                           : 0;
}

static int queue_copy_out(struct rendezvous *rendezvous, const struct share *share, struct stream *stream)
{
    const struct bucket range = written_range(share);
    const struct reduce_member *const member = &rendezvous->members[share->tower];
    return range.count > 0 ? host_arena_copy_out(arena_of(rendezvous, share), member, &range, stream) : 0;
}

static const struct rendezvous_ops in_place = { .sum = queue_sum };
static const struct rendezvous_ops in_pinned_memory = {
    .copy_in = queue_copy_in,
    .copy_out = queue_copy_out,
    .has_results_stream = true,
    .sum = queue_sum,
};

static int host_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    struct host_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    reduce->in_pairs = spec->in_pairs;
    reduce->arenas = calloc(spec->towers, sizeof(*reduce->arenas));
    const struct tower_range all = { 0, spec->towers };
    const int rc = reduce->arenas == NULL ? -ENOMEM : rendezvous_init(&reduce->rendezvous, &reduce_host_ops, all);
    if (rc != 0) {
        free(reduce->arenas);
        free(reduce);
        return rc;
    }
    *reduce_out = &reduce->rendezvous.base;
    return 0;
}

static void host_close(struct reduce *base)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    if (reduce == NULL)
        return;
    for (uint32_t d = 0; d < reduce->rendezvous.towers; d++)
        host_arena_close(&reduce->arenas[d]);
    if (!rendezvous_close(&reduce->rendezvous, false))
        return;
    free(reduce->arenas);
    free(reduce);
}

static int host_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    const struct rendezvous_ops *const ops = member->device->ops->host_memory ? &in_place : &in_pinned_memory;
    const int rc = host_arena_open(&reduce->arenas[tower], member, reduce->in_pairs);
    return rc != 0 ? rc : rendezvous_join(&reduce->rendezvous, ops, tower, member, buckets);
}

static int host_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    (void)towers, (void)reason;
    return 0;
}

const struct reduce_ops reduce_host_ops = {
    .name = "host",
    .pins_regions = reduce_pins_always,
    .knows_owners = true,
    .supports = host_supports,
    .open = host_open,
    .close = host_close,
    .join = host_join,
    .start = rendezvous_start,
    .wait = rendezvous_wait,
    .cancel = rendezvous_cancel,
};
