/* The exchange of a bucket with the other ranks: its rounds, counters in shared memory, and the sum of this rank's part.
 * In a communication thread. */
#include <string.h>

#include "compute/floats.h"
#include "stage/pairwise.h"
#include "sync/ranks/rank_exchange.h"

#define BLOCK_FLOATS 1024u      /* summed at once; they fit in the L1 cache */

/* ---- rounds ---- */

/* The number of the exchange that another rank must have reached before this one can complete the round; 0: any. The
 * owner of a broadcast waits until the others have copied its values before, so that two copies are enough. */
static uint64_t wanted_of(const struct exchange *exchange, uint32_t rank)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = exchange_bucket(exchange);
    const bool is_owner = layout_is_owners(reduce, bucket, ranks_rank(reduce->ranks));
    if (bucket->use == BUCKET_REDUCE)
        return is_owner ? exchange->number : 0;
    if (bucket->use != BUCKET_BROADCAST || layout_is_owners(reduce, bucket, rank))
        return exchange->number;
    return is_owner ? exchange->number - 1 : 0;
}

/* Have the ranks that share their memory with this one reached the same round? */
static bool have_others_reached(const struct exchange *exchange)
{
    const struct circle circle = exchange_circle(exchange);
    bool have_reached = true;
    for (uint32_t i = 0; i < circle.count && have_reached; i++) {
        const uint32_t rank = circle.first + i * circle.stride;
        if (!layout_shares(exchange->reduce, rank))
            continue;
        struct counters *const counters = exchange_counters(exchange, rank);
        const uint64_t number = atomic_load_explicit(&counters->reached[exchange->round], memory_order_acquire);
        have_reached = number >= wanted_of(exchange, rank);
    }
    return have_reached;
}

/* Let the heartbeat thread see whether messages move. */
static void watch_messages(struct exchange *exchange)
{
    struct ranks *const ranks = exchange->reduce->ranks;
    const bool has_messages = exchange_has_messages(exchange);
    if (exchange->job.has_moved)
        ranks_note_move(ranks);
    if (has_messages)
        ranks_wait_for(ranks, exchange_awaited(exchange), exchange->round);
    if (has_messages && !exchange->is_waiting)
        ranks_begin_wait(ranks);
    else if (!has_messages && exchange->is_waiting)
        ranks_end_wait(ranks);
    exchange->is_waiting = has_messages;
}

/* Returns 1 when the round is complete, 0 before, or negative an error of the MPI library. */
static int test_round(struct exchange *exchange)
{
    const int rc = exchange_advance_messages(exchange);
    watch_messages(exchange);
    return rc == 1 ? have_others_reached(exchange) : rc;
}

/* ---- the sum ---- */

/* Read the numbers [at, at + count) of this rank's part of a term, as floats. */
static void read_term(const struct exchange *exchange, const struct term *term, size_t at, size_t count, float *out)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const size_t size = layout_term_size(reduce, exchange_bucket(exchange), term);
    const size_t begin = exchange_part(exchange, ranks_rank(reduce->ranks)).begin;
    const char *const from = layout_shares(reduce, term->rank)
                                 ? exchange_staged_term(exchange, term, exchange->number) + (begin + at) * size
                                 : exchange_received_term(exchange, term) + at * size;
    if (size == sizeof(uint16_t))
        floats_from_bf16((const uint16_t *)(const void *)from, out, count);
    else
        memcpy(out, from, count * sizeof(float));
}

/* Sum the next `towers` towers, which form a subtree. *term is the first term of the subtree; it is advanced to the
 * term after it. */
static void sum_subtree(const struct exchange *exchange, uint32_t towers, const struct term **term, size_t at,
                        size_t count, float *sum_out)
{
    if ((*term)->count == towers) {
        read_term(exchange, (*term)++, at, count, sum_out);
        return;
    }
    const uint32_t left = pairwise_left(towers);
    float more[BLOCK_FLOATS];
    sum_subtree(exchange, left, term, at, count, sum_out);
    sum_subtree(exchange, towers - left, term, at, count, more);
    floats_add(more, sum_out, count);
    if (exchange->reduce->rounds_sums && layout_is_bf16(exchange->reduce, exchange_bucket(exchange)))
        floats_round_bf16(sum_out, count);
}

/* Sum this rank's part over the terms of the round: over its group, into the group's term, or over all. */
static void sum_part(struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const uint32_t own = ranks_rank(reduce->ranks);
    const struct bucket *const bucket = exchange_bucket(exchange);
    const struct part part = exchange_part(exchange, own);
    const bool is_of_group = exchange->round == GROUP_SCATTER;
    const struct term *const into = is_of_group ? &reduce->group_terms[own / reduce->group] : NULL;
    const size_t size = is_of_group ? layout_term_size(reduce, bucket, into) : layout_sum_size(reduce, bucket);
    void *const sums = is_of_group ? exchange_staged_term(exchange, into, exchange->number)
                                   : exchange_sums(exchange, own, exchange->number);
    float sum[BLOCK_FLOATS];
    for (size_t at = 0; at < part.count; at += BLOCK_FLOATS) {
        const size_t some = part.count - at < BLOCK_FLOATS ? part.count - at : BLOCK_FLOATS;
        const struct term *term = exchange_terms(exchange);
        sum_subtree(exchange, exchange_towers(exchange), &term, at, some, sum);
        if (size == sizeof(uint16_t))
            floats_to_bf16(sum, (uint16_t *)sums + part.begin + at, some);
        else
            memcpy((float *)sums + part.begin + at, sum, some * sizeof(float));
    }
}

/* Copy all parts of the sums to the arenas, in host memory, of the towers of this process that get them. */
static void copy_sums_out(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = exchange_bucket(exchange);
    const size_t size = layout_sum_size(reduce, bucket);
    const struct circle circle = layout_result_ranks(reduce, bucket);
    for (uint32_t rank = circle.first; rank < circle.first + circle.count; rank++) {
        const char *const sums = exchange_sums_at(exchange, rank, exchange->number);
        for (uint32_t d = 0; d < reduce->here.count; d++) {
            const struct part part =
                part_in_both(layout_result_part(reduce, bucket, rank), layout_wanted(reduce, bucket, d));
            if (part.count == 0)
                continue;
            const struct host_arena *const arena = &reduce->arenas[d];
            char *const to =
                layout_is_bf16(reduce, bucket) ? (char *)arena->bf16_grads : (char *)arena->floats[bucket->region];
            memcpy(to + (bucket->offset + part.begin) * size, sums + part.begin * size, part.count * size);
        }
    }
}

/* With groups: copy the parts of the slice that ranks which share memory have summed to this rank's sums, where its
 * group finds them. Those ranks have read the terms of groups that they replace. */
static void collect_slice(struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct circle circle = exchange_circle(exchange);
    const size_t size = layout_sum_size(reduce, exchange_bucket(exchange));
    const uint32_t own = ranks_rank(reduce->ranks);
    char *const sums = exchange_sums(exchange, own, exchange->number);
    for (uint32_t i = 0; i < circle.count; i++) {
        const uint32_t rank = circle.first + i * circle.stride;
        const struct part part = exchange_part(exchange, rank);
        if (rank != own && layout_shares(reduce, rank))
            memcpy(sums + part.begin * size, exchange_sums(exchange, rank, exchange->number) + part.begin * size,
                   part.count * size);
    }
}

/* ---- the job ---- */

/* Set the counter that shows the ranks which share memory with this one that it has reached the round in exchange
 * `number`. */
static void announce_round(struct exchange *exchange, uint64_t number)
{
    struct ranks *const ranks = exchange->reduce->ranks;
    struct counters *const counters = exchange_counters(exchange, ranks_rank(ranks));
    const struct circle circle = exchange_circle(exchange);
    const uint32_t end = circle.first + circle.count * circle.stride;
    atomic_store_explicit(&counters->reached[exchange->round], number, memory_order_release);
    for (uint32_t rank = circle.first; rank < end; rank += circle.stride)
        if (rank != ranks_rank(ranks) && layout_shares(exchange->reduce, rank))
            ranks_wake(ranks, rank, exchange->job.lane);
}

/* Does this rank only receive the bucket? */
static bool is_receiver(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = exchange_bucket(exchange);
    return bucket->use == BUCKET_BROADCAST && !layout_is_owners(reduce, bucket, ranks_rank(reduce->ranks));
}

static int begin_round(struct exchange *exchange)
{
    exchange->is_begun = true;
    exchange->begun_ns = trace_now(exchange->track);
    ranks_set_bucket(exchange->reduce->ranks, exchange->bucket);
    if (!is_receiver(exchange))
        announce_round(exchange, exchange->number);
    else if (exchange->reduce->pinned_by != NULL)
        announce_round(exchange, exchange->number - 1);     /* its copies to devices have ended */
    return exchange_begin_messages(exchange);
}

enum exchange_round exchange_first_round(const struct exchange *exchange)
{
    const struct bucket *const bucket = exchange_bucket(exchange);
    if (layout_is_grouped(exchange->reduce, bucket))
        return GROUP_SCATTER;
    return bucket->use == BUCKET_BROADCAST || bucket->use == BUCKET_ALL_GATHER ? ALL_GATHER : REDUCE_SCATTER;
}

static enum exchange_round last_round(const struct exchange *exchange)
{
    const struct bucket *const bucket = exchange_bucket(exchange);
    if (layout_is_grouped(exchange->reduce, bucket))
        return GROUP_GATHER;
    return bucket->use == BUCKET_REDUCE || bucket->use == BUCKET_REDUCE_SCATTER ? REDUCE_SCATTER : ALL_GATHER;
}

static void record_round(const struct exchange *exchange)
{
    const struct trace_batch batch = { .number = exchange->batches[exchange->number % 2] };
    trace_span(exchange->track, exchange_sends_terms(exchange) ? TRACE_REDUCE_SCATTER : TRACE_ALL_GATHER, batch,
               exchange->begun_ns, exchange->bucket);
}

static void end_round(struct exchange *exchange)
{
    if (exchange_sends_terms(exchange))
        sum_part(exchange);
    else if (exchange->round == ALL_GATHER && layout_is_grouped(exchange->reduce, exchange_bucket(exchange)))
        collect_slice(exchange);
    record_round(exchange);
}

/* Returns true if the towers have already staged the next exchange of the bucket. */
static bool finish(struct exchange *exchange)
{
    if (exchange->reduce->pinned_by == NULL)
        copy_sums_out(exchange);
    if (exchange->reduce->pinned_by == NULL && is_receiver(exchange))
        announce_round(exchange, exchange->number);
    exchange->number++;
    exchange->round = exchange_first_round(exchange);
    ranks_set_bucket(exchange->reduce->ranks, RANKS_NONE);
    rendezvous_complete(&exchange->reduce->rendezvous, exchange->bucket);
    return atomic_fetch_sub(&exchange->submitted_count, 1) > 1;
}

/* Connect the memory of the ranks, once. Returns 1 when it is connected, 0 before, or negative an error of the MPI
 * library. */
static int connect_memory(struct ranks_reduce *reduce)
{
    if (atomic_load_explicit(&reduce->is_connected, memory_order_acquire))
        return 1;
    pthread_mutex_lock(&reduce->connecting);
    const int rc = rank_memory_connect(reduce->memory, CONNECT_TAG, NULL);
    atomic_store_explicit(&reduce->is_connected, rc == 1, memory_order_release);
    pthread_mutex_unlock(&reduce->connecting);
    return rc;
}

int exchange_advance(struct ranks_job *job)
{
    struct exchange *const exchange = (struct exchange *)job;
    int rc = connect_memory(exchange->reduce);
    const bool is_connected = rc == 1;
    job->has_moved = false;
    while (rc == 1) {
        rc = exchange->is_begun ? 0 : -begin_round(exchange);
        if (rc == 0)
            rc = test_round(exchange);
        if (rc != 1)
            break;
        exchange->is_begun = false;
        end_round(exchange);
        if (exchange->round != last_round(exchange))
            exchange->round++;
        else if (!finish(exchange))
            return 1;
    }
    job->is_polled = !is_connected || exchange_has_messages(exchange);
    return rc;
}
