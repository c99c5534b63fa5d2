/* Sums over the towers of several processes. The towers of a process meet at a rendezvous (rendezvous.h) and store
 * their terms in host memory: their gradients, or sums over as many neighbouring towers as the order of additions
 * allows (term.h). A device with its own memory copies them there itself, and the sums back, because that memory is
 * pinned; only terms of several towers are added by the host. Then a communication thread exchanges the bucket with
 * the other ranks in two rounds. In the reduce-scatter every rank receives its part of the bucket from all others and
 * sums it in the order of the towers; in the all-gather it sends these sums to all others. The two rounds together send
 * as many bytes as a ring all-reduce. Ranks on one host read each other's memory instead (rank_memory.h); counters
 * there show how far each rank is. Every rank gets bitwise the same sums as one process with all the towers.
 *
 * Where groups of neighbouring ranks are near each other (reduce_spec.group), such as those of one host, two more rounds
 * are inside of groups. Each rank of a group sums a slice of the bucket over the group; between groups only these sums
 * are exchanged, so that a group of K ranks sends as much as one.
 *
 * A bucket with an owner needs only one of the rounds, with all of the bucket as the part of the owner's rank and
 * nothing as the parts of the others: BUCKET_REDUCE the reduce-scatter, BUCKET_BROADCAST the all-gather. So does a
 * bucket of pieces, with the pieces of its towers as the part of a rank. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stage/trace/range.h"
#include "sync/ranks/rank_exchange.h"

#define PAGE_BYTES 4096u

static struct ranks_reduce *ranks_reduce_of(struct rendezvous *rendezvous)
{
    return (struct ranks_reduce *)rendezvous;
}

/* ---- the share of a tower; on its communication stream ---- */

/* Does the device copy this term to the memory of the exchange, without the host's help? */
static bool is_copied(const struct ranks_reduce *reduce, const struct term *term)
{
    return reduce->pinned_by != NULL && term->count == 1;
}

static void stage_term(const struct ranks_reduce *reduce, const struct share *share, const struct term *term,
                       uint64_t number)
{
    const struct bucket *const bucket = share_bucket(share);
    const struct host_arena *const arenas = &reduce->arenas[term->first - reduce->here.first];
    void *const to = exchange_staged_term(&reduce->exchanges[share->bucket], term, number);
    const size_t at = share->begin - bucket->offset;
    if (layout_term_size(reduce, bucket, term) == sizeof(float))
        host_arenas_add(arenas, term->count, share->region, share->begin, share->end, (float *)to + at);
    else if (term->count == 1)
        memcpy((uint16_t *)to + at, arenas->bf16_grads + share->begin, (share->end - share->begin) * sizeof(uint16_t));
    else
        host_arenas_add_bf16(arenas, term->count, share->begin, share->end, (uint16_t *)to + at);
}

/* Store a tower's piece, in host memory. */
static void stage_piece(const struct ranks_reduce *reduce, const struct share *share, uint64_t number)
{
    const struct exchange *const exchange = &reduce->exchanges[share->bucket];
    const float *const values = reduce->arenas[share->tower].floats[share->region] + share->begin;
    float *const to = (float *)(void *)exchange_buffer(exchange, ranks_rank(reduce->ranks), 0, number);
    memcpy(to + (share->begin - share_bucket(share)->offset), values, (share->end - share->begin) * sizeof(float));
}

/* Store the share of a tower of the owner's values, in host memory, if the owner is in this process. */
static void stage_values(const struct ranks_reduce *reduce, const struct share *share, uint64_t number)
{
    const struct bucket *const bucket = share_bucket(share);
    const struct exchange *const exchange = &reduce->exchanges[share->bucket];
    const uint32_t own = ranks_rank(reduce->ranks);
    if (!layout_is_owners(reduce, bucket, own))
        return;
    const float *const values = reduce->arenas[bucket->owner - reduce->here.first].floats[share->region];
    float *const to = (float *)(void *)exchange_buffer(exchange, own, 0, number);
    memcpy(to + (share->begin - bucket->offset), values + share->begin, (share->end - share->begin) * sizeof(float));
}

static void stage(const struct ranks_reduce *reduce, const struct share *share, uint64_t number)
{
    const struct rank_terms own = layout_own_terms(reduce);
    const enum bucket_use use = share_bucket(share)->use;
    if (share->begin == share->end)
        return;
    if (use == BUCKET_BROADCAST || use == BUCKET_ALL_GATHER) {
        if (reduce->pinned_by == NULL)
            (use == BUCKET_BROADCAST ? stage_values : stage_piece)(reduce, share, number);
        return;
    }
    for (uint32_t i = own.first; i < own.first + own.count; i++)
        if (!is_copied(reduce, &reduce->terms[i]))
            stage_term(reduce, share, &reduce->terms[i], number);
}

/* Start the exchange, except after a cancel, when the towers may be closed soon (ranks_leave). */
static void submit(struct exchange *exchange)
{
    struct ranks_reduce *const reduce = exchange->reduce;
    ranks_add_sum(reduce->ranks);
    pthread_mutex_lock(&reduce->rendezvous.lock);
    if (!reduce->rendezvous.cancelled && atomic_fetch_add(&exchange->submitted_count, 1) == 0)
        ranks_submit(reduce->ranks, &exchange->job);
    pthread_mutex_unlock(&reduce->rendezvous.lock);
}

/* Store the share of a tower for the exchange. The last tower of this process to do so starts the exchange. */
static void stage_share(void *arg)
{
    struct share *const share = arg;
    if (rendezvous_is_abandoned())
        return;
    struct ranks_reduce *const reduce = ranks_reduce_of(share->rendezvous);
    struct exchange *const exchange = &reduce->exchanges[share->bucket];
    struct trace_track *const track = share->rendezvous->members[share->tower].track;
    const uint64_t begun_ns = trace_now(track), batch = share_batch(share), number = share->summed_count;
    range_begin(TRACE_REDUCE, batch);
    stage(reduce, share, number);
    if (atomic_fetch_add(&exchange->staged_count, 1) + 1 == reduce->here.count) {
        atomic_store(&exchange->staged_count, 0);
        exchange->batches[number % 2] = batch;
        submit(exchange);
    }
    range_end();
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ batch, reduce->here.first + share->tower }, begun_ns,
               share->bucket);
}

static int queue_stage(struct rendezvous *rendezvous, struct share *share)
{
    struct stream *const communication = rendezvous->members[share->tower].communication;
    return communication->device->ops->call(communication, stage_share, share);
}

/* ---- copies between device memory and the memory of the exchange ---- */

/* The bucket in the device memory of a member, `size` bytes a number. */
static char *device_bucket(const struct ranks_reduce *reduce, const struct reduce_member *member,
                           const struct bucket *bucket, size_t size)
{
    char *const arena = layout_is_bf16(reduce, bucket) ? (char *)member->bf16_grads
                                                       : (char *)member->regions[bucket->region].floats;
    return arena + bucket->offset * size;
}

/* Copy the tower's bucket, or a part of it, `size` bytes a number, to the memory of the exchange. */
static int queue_copy_to(struct rendezvous *rendezvous, const struct share *share, const struct bucket *bucket, void *to,
                         size_t size)
{
    const struct reduce_member *const member = &rendezvous->members[share->tower];
    return member->device->ops->copy(member->communication, to,
                                     device_bucket(ranks_reduce_of(rendezvous), member, bucket, size),
                                     bucket->count * size, COPY_FROM_DEVICE);
}

static int queue_copy_in(struct rendezvous *rendezvous, const struct share *share)
{
    const struct ranks_reduce *const reduce = ranks_reduce_of(rendezvous);
    const struct exchange *const exchange = &reduce->exchanges[share->bucket];
    const struct bucket *const bucket = share_bucket(share);
    const uint32_t tower = reduce->here.first + share->tower;
    const struct term *const term = layout_term_with(reduce, tower);
    const uint64_t number = share->started_count;
    if (bucket->use == BUCKET_BROADCAST)
        return tower != bucket->owner
                   ? 0 : queue_copy_to(rendezvous, share, bucket, exchange_buffer(exchange, term->rank, 0, number),
                                       sizeof(float));
    if (bucket->use == BUCKET_ALL_GATHER) {
        const struct bucket piece = bucket_pieces(bucket, tower, 1);
        float *const to = (float *)(void *)exchange_buffer(exchange, term->rank, 0, number);
        return queue_copy_to(rendezvous, share, &piece, to + (piece.offset - bucket->offset), sizeof(float));
    }
    if (!is_copied(reduce, term))
        return host_arena_copy_in(&reduce->arenas[share->tower], &rendezvous->members[share->tower], bucket);
    return queue_copy_to(rendezvous, share, bucket, exchange_staged_term(exchange, term, number),
                         layout_term_size(reduce, bucket, term));
}

/* Pin memory that stays until ranks_close_reduce, once. */
static int pin(struct ranks_reduce *reduce, bool *is_pinned, void *memory, size_t bytes)
{
    const int rc = *is_pinned || bytes == 0 ? 0 : reduce->pinned_by->ops->pin(reduce->pinned_by, memory, bytes);
    *is_pinned = *is_pinned || (rc == 0 && bytes > 0);
    return rc;
}

static int pin_memory_of(struct ranks_reduce *reduce, uint32_t rank)
{
    return pin(reduce, &reduce->is_pinned[rank], rank_memory_of(reduce->memory, rank),
               rank_memory_bytes(reduce->memory, rank));
}

/* Pin the memory from which sums are copied: that of the ranks that share theirs, which are known when the first
 * exchange has ended, and for owners' values from other ranks the memory in which they are received. Called by the
 * towers' threads. */
static int pin_sources(struct ranks_reduce *reduce, const struct bucket *bucket)
{
    int rc = 0;
    pthread_mutex_lock(&reduce->pinning);
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++) {
        const bool is_source = layout_result_part(reduce, bucket, rank).count > 0;
        if (layout_shares(reduce, rank) && is_source)
            rc = pin_memory_of(reduce, rank);
        else if (is_source && bucket->use == BUCKET_BROADCAST && rank != ranks_rank(reduce->ranks))
            rc = pin(reduce, &reduce->is_received_pinned, reduce->received, reduce->received_bytes);
    }
    pthread_mutex_unlock(&reduce->pinning);
    return rc;
}

/* Copy the sums of the exchange that has just ended to the device. Parts that are next to each other in the memory of
 * one rank are copied at once. */
static int queue_copy_out(struct rendezvous *rendezvous, const struct share *share, struct stream *stream)
{
    struct ranks_reduce *const reduce = ranks_reduce_of(rendezvous);
    const struct exchange *const exchange = &reduce->exchanges[share->bucket];
    const struct bucket *const bucket = share_bucket(share);
    const size_t size = layout_sum_size(reduce, bucket);
    char *const to = device_bucket(reduce, &rendezvous->members[share->tower], bucket, size);
    const struct part wanted = layout_wanted(reduce, bucket, share->tower);
    if (wanted.count == 0)
        return 0;
    const struct circle circle = layout_result_ranks(reduce, bucket);
    const uint32_t last = circle.first + circle.count;
    int rc = pin_sources(reduce, bucket);
    for (uint32_t rank = circle.first, next = 0; rank < last && rc == 0; rank = next) {
        const char *const sums = exchange_sums_at(exchange, rank, share->waited);
        struct part part = { layout_result_part(reduce, bucket, rank).begin, 0 };
        for (next = rank; next < last && exchange_sums_at(exchange, next, share->waited) == sums; next++)
            part.count += layout_result_part(reduce, bucket, next).count;
        part = part_in_both(part, wanted);
        if (part.count > 0)
            rc = stream->device->ops->copy(stream, to + part.begin * size, sums + part.begin * size, part.count * size,
                                           COPY_TO_DEVICE);
    }
    return rc;
}

static void place_exchanges(struct ranks_reduce *reduce)
{
    const struct buckets *const buckets = &reduce->rendezvous.buckets;
    char *at = reduce->received;
    layout_place_buckets(reduce);
    for (uint32_t b = 0; b < buckets->count; b++) {
        struct exchange *const exchange = &reduce->exchanges[b];
        exchange->job.advance = exchange_advance;
        exchange->job.lane = b;
        exchange->track = b < REDUCE_TRACKS_MAX ? reduce->tracks[b] : NULL;
        exchange->reduce = reduce;
        exchange->bucket = b;
        exchange->round = exchange_first_round(exchange);
        exchange->number = 1;
        exchange->received = at;
        at += layout_received_floats(reduce, &buckets->bucket[b]) * sizeof(float);
    }
}

static int open_memory(struct ranks_reduce *reduce)
{
    const size_t floats = layout_shared_floats(reduce, &reduce->rendezvous.buckets, reduce->has_bf16_grads);
    return rank_memory_open(&reduce->memory, reduce->ranks, layout_counters_bytes(reduce) + floats * sizeof(float));
}

static int connect_exchanges(struct rendezvous *rendezvous)
{
    struct ranks_reduce *const reduce = ranks_reduce_of(rendezvous);
    const struct buckets *const buckets = &rendezvous->buckets;
    size_t bytes = 1;
    for (uint32_t b = 0; b < buckets->count; b++)
        bytes += layout_received_floats(reduce, &buckets->bucket[b]) * sizeof(float);
    struct device *const device = rendezvous->members[0].device;
    reduce->has_bf16_grads = rendezvous->members[0].bf16_grads != NULL;
    reduce->pinned_by = device->ops->host_memory ? NULL : device;
    reduce->floats_before = calloc((size_t)ranks_size(reduce->ranks) * buckets->count, sizeof(*reduce->floats_before));
    reduce->received_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    reduce->received = aligned_alloc(PAGE_BYTES, reduce->received_bytes);
    reduce->exchanges = calloc(buckets->count, sizeof(*reduce->exchanges));
    if (reduce->floats_before == NULL || reduce->received == NULL || reduce->exchanges == NULL)
        return -ENOMEM;
    place_exchanges(reduce);
    const int rc = open_memory(reduce);
    return rc == 0 && reduce->pinned_by != NULL ? pin_memory_of(reduce, ranks_rank(reduce->ranks)) : rc;
}

static const struct rendezvous_ops in_place = {
    .connect = connect_exchanges,
    .sum = queue_stage,
    .is_completed_later = true,
};
static const struct rendezvous_ops in_pinned_memory = {
    .connect = connect_exchanges,
    .copy_in = queue_copy_in,
    .copy_out = queue_copy_out,
    .has_results_stream = true,
    .sum = queue_stage,
    .is_completed_later = true,
};

/* ---- the table ---- */

static void release(struct ranks_reduce *reduce)
{
    pthread_mutex_destroy(&reduce->connecting);
    pthread_mutex_destroy(&reduce->pinning);
    free(reduce->is_pinned);
    free(reduce->exchanges);
    free(reduce->received);
    free(reduce->floats_before);
    free(reduce->group_terms);
    free(reduce->terms_of);
    free(reduce->terms);
    free(reduce->arenas);
    free(reduce);
}

static int ranks_open_reduce(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    struct ranks_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    reduce->ranks = spec->ranks;
    reduce->here = spec->here;
    reduce->run = spec->towers;
    reduce->rounds_sums = spec->in_pairs;
    reduce->group = spec->group > 1 ? spec->group : 1;
    reduce->arenas = calloc(spec->here.count, sizeof(*reduce->arenas));
    reduce->terms = calloc(spec->towers, sizeof(*reduce->terms));
    reduce->terms_of = calloc(ranks_size(spec->ranks), sizeof(*reduce->terms_of));
    reduce->group_terms = calloc(ranks_size(spec->ranks), sizeof(*reduce->group_terms));
    reduce->is_pinned = calloc(ranks_size(spec->ranks), sizeof(*reduce->is_pinned));
    pthread_mutex_init(&reduce->pinning, NULL);
    pthread_mutex_init(&reduce->connecting, NULL);
    int rc = reduce->arenas == NULL || reduce->terms == NULL || reduce->terms_of == NULL || reduce->is_pinned == NULL ||
                     reduce->group_terms == NULL
                 ? -ENOMEM : 0;
    if (rc == 0)
        rc = rendezvous_init(&reduce->rendezvous, &reduce_ranks_ops, spec->here);
    if (rc != 0) {
        release(reduce);
        return rc;
    }
    layout_find_terms(reduce);
    for (uint32_t b = 0; b < REDUCE_TRACKS_MAX; b++)
        reduce->tracks[b] = trace_track_add(spec->trace, TRACE_EXCHANGE, b);
    *reduce_out = &reduce->rendezvous.base;
    return 0;
}

/* If jobs were abandoned, messages to the shared memory may be in flight, so it is not freed. */
static void ranks_close_reduce(struct reduce *base)
{
    struct ranks_reduce *const reduce = (struct ranks_reduce *)base;
    const bool is_used = ranks_abandon_jobs(reduce->ranks);
    for (uint32_t d = 0; d < reduce->here.count; d++)
        host_arena_close(&reduce->arenas[d]);
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks); rank++)
        if (reduce->is_pinned[rank])
            reduce->pinned_by->ops->unpin(reduce->pinned_by, rank_memory_of(reduce->memory, rank));
    if (reduce->is_received_pinned)
        reduce->pinned_by->ops->unpin(reduce->pinned_by, reduce->received);
    const bool is_released = rendezvous_close(&reduce->rendezvous, is_used);
    rank_memory_close(reduce->memory, !is_released);
    if (is_released)
        release(reduce);
}

/* Are the tower's regions added by the host to those of other towers of this process? */
static bool pins_regions(const struct reduce *base, uint32_t tower)
{
    return layout_term_with((const struct ranks_reduce *)base, tower)->count > 1;
}

static int ranks_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                      const struct buckets *buckets)
{
    struct ranks_reduce *const reduce = (struct ranks_reduce *)base;
    const bool is_in_place = member->device->ops->host_memory;
    const bool is_open = is_in_place || pins_regions(base, tower);
    const struct rendezvous_ops *const ops = is_in_place ? &in_place : &in_pinned_memory;
    const int rc = is_open ? host_arena_open(&reduce->arenas[tower - reduce->here.first], member, reduce->rounds_sums) : 0;
    return rc != 0 ? rc : rendezvous_join(&reduce->rendezvous, ops, tower, member, buckets);
}

/* After a cancel the tower closes its arenas soon, so no exchange may write to them any more. */
static void ranks_leave(struct reduce *base, uint32_t tower)
{
    (void)tower;
    struct ranks_reduce *const reduce = (struct ranks_reduce *)base;
    if (rendezvous_is_cancelled(&reduce->rendezvous))
        (void)ranks_abandon_jobs(reduce->ranks);
}

/* The host memory that connect_exchanges allocates for each tower of this process, without what it never writes. */
static size_t ranks_host_bytes(const struct reduce *base, const struct buckets *buckets, bool has_bf16_grads)
{
    const struct ranks_reduce *const reduce = (const struct ranks_reduce *)base;
    const uint32_t ranks = ranks_size(reduce->ranks), remote = ranks - ranks_local_size(reduce->ranks);
    size_t received = 0;
    for (uint32_t b = 0; b < buckets->count; b++)
        received += layout_received_floats(reduce, &buckets->bucket[b]) * remote / ranks;
    return (layout_shared_floats(reduce, buckets, has_bf16_grads) + received) * sizeof(float) / reduce->here.count;
}

static int ranks_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    (void)towers, (void)reason;
    return 0;
}

const struct reduce_ops reduce_ranks_ops = {
    .name = "host",
    .pins_regions = pins_regions,
    .knows_owners = true,
    .host_bytes = ranks_host_bytes,
    .supports = ranks_supports,
    .open = ranks_open_reduce,
    .close = ranks_close_reduce,
    .join = ranks_join,
    .start = rendezvous_start,
    .wait = rendezvous_wait,
    .leave = ranks_leave,
    .cancel = rendezvous_cancel,
};