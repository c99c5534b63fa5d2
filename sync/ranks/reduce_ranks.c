/* Sums over the towers of several processes. The towers of a process meet at a rendezvous (rendezvous.h) and store
 * their terms in host memory: their gradients, or sums over as many neighbouring towers as the order of additions
 * allows (term.h). A device with its own memory copies them there itself, and the sums back, because that memory is
 * pinned; only terms of several towers are added by the host. Then the communication thread exchanges the bucket with
 * the other ranks in two rounds. In the reduce-scatter every rank receives its part of the bucket from all others and
 * sums it in the order of the towers; in the all-gather it sends these sums to all others. The two rounds together send
 * as many bytes as a ring all-reduce. Ranks on one host read each other's memory instead (rank_memory.h); counters
 * there show how far each rank is. Every rank gets bitwise the same sums as one process with all the towers.
 *
 * A bucket with an owner needs only one of the rounds, with all of the bucket as the part of the owner's rank and
 * nothing as the parts of the others: BUCKET_REDUCE the reduce-scatter, BUCKET_BROADCAST the all-gather. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/pairwise.h"
#include "stage/trace/range.h"
#include "sync/host_arena.h"
#include "sync/ranks/rank_memory.h"
#include "sync/ranks/ranks.h"
#include "sync/rendezvous.h"
#include "sync/term.h"

#define PART_ALIGN 32u          /* in floats: parts do not split a cache line of bf16 sums */
#define PAGE_BYTES 4096u
#define BLOCK_FLOATS 1024u      /* summed at once; they fit in the L1 cache */
/* A bucket is sent in short messages, which MPI libraries send at once. A long message is sent only when its receiver
 * has agreed, and the agreement is queued behind all data on the same connection: of two ranks that send each other
 * long messages, one would send only after the other. */
#define MESSAGE_BYTES 16384u
#define CONNECT_TAG RANKS_TAG_FREE
#define FIRST_TAG (CONNECT_TAG + 2)
/* A rank has two copies of the memory in which others read a bucket, and uses them alternately. Before it writes to one
 * of them again, all others have finished the exchange that used it, and no longer read it. */
#define COPIES 2u

/* The part of a bucket that a rank sums, in floats from the begin of the bucket. */
struct part { size_t begin, count; };

enum exchange_round { REDUCE_SCATTER, ALL_GATHER, ROUNDS };

/* The exchange of a bucket. While it is in progress, the towers may stage the next one: a tower that does not own the
 * bucket does not wait for the end of a BUCKET_REDUCE, only for the broadcast of new weights that follows. */
struct exchange {
    struct ranks_job job;
    struct ranks_reduce *reduce;
    uint32_t bucket;
    enum exchange_round round;
    bool is_begun;                      /* the messages of the round are in flight */
    size_t request_count, completed_count;      /* MPI requests of the round, which are tested in order */
    atomic_uint staged_count;           /* towers of this process whose share is staged */
    atomic_uint submitted_count;        /* exchanges that are staged and not finished */
    uint64_t number;                    /* number of the current or next exchange of the bucket, from 1 */
    /* This rank's part of the terms of ranks that do not share their memory; with BUCKET_BROADCAST the owner's values.
     * */
    char *received;
};

/* A rank's shared memory begins with counters for each bucket: the numbers of the latest exchange whose terms are
 * staged, and of the latest whose sums are complete; with BUCKET_BROADCAST `summed` is the latest of which the owner's
 * values are staged, or another rank has copied them. The copies of all buckets follow. */
struct counters { atomic_uint_fast64_t staged, summed; };

/* The terms of a rank, which are consecutive. */
struct rank_terms { uint32_t first, count; };

struct ranks_reduce {
    struct rendezvous rendezvous;       /* of the towers of this process */
    struct ranks *ranks;
    struct tower_range here;
    uint32_t run;                       /* towers of the run */
    struct host_arena *arenas;          /* [tower]; each opened by its tower before it joins */
    struct term *terms;                 /* of all ranks, in the order of additions */
    uint32_t term_count;
    struct rank_terms *terms_of;        /* [rank] */
    bool has_bf16_grads;
    size_t *floats_before;              /* [rank * buckets.count + bucket]: of the buckets before it in a rank's memory */
    struct rank_memory *memory;
    struct device *pinned_by;           /* pins the memory; NULL: device memory is host memory */
    bool *is_pinned, is_received_pinned;        /* [rank]: the memory of this rank; guarded by `pinning` */
    pthread_mutex_t pinning;
    struct exchange *exchanges;         /* [bucket] */
    struct mpi_request *requests;       /* [bucket * requests_max] */
    size_t requests_max;
    char *received;                     /* the memory for `received` of all exchanges, whole pages */
    size_t received_bytes;
};

static struct ranks_reduce *ranks_reduce_of(struct rendezvous *rendezvous)
{
    return (struct ranks_reduce *)rendezvous;
}

/* ---- terms and parts ---- */

static void find_all_terms(struct ranks_reduce *reduce)
{
    reduce->term_count = terms_find(reduce->run, reduce->here.count, reduce->terms);
    for (uint32_t i = 0; i < reduce->term_count; i++) {
        struct rank_terms *const of = &reduce->terms_of[reduce->terms[i].rank];
        of->first = of->count == 0 ? i : of->first;
        of->count++;
    }
}

static struct rank_terms own_terms(const struct ranks_reduce *reduce)
{
    return reduce->terms_of[ranks_rank(reduce->ranks)];
}

/* Is it the rank of the tower that owns the bucket? */
static bool is_owners(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    return bucket->owner / reduce->here.count == rank;
}

static struct part part_of(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    if (bucket->use != BUCKET_ALL_REDUCE)
        return (struct part){ 0, is_owners(reduce, bucket, rank) ? bucket->count : 0 };
    const size_t lines = (bucket->count + PART_ALIGN - 1) / PART_ALIGN, ranks = ranks_size(reduce->ranks);
    const size_t begin = lines * rank / ranks * PART_ALIGN, end = lines * (rank + 1) / ranks * PART_ALIGN;
    return (struct part){ begin, (end < bucket->count ? end : bucket->count) - begin };
}

static bool are_bf16_grads(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    return reduce->has_bf16_grads && bucket->region == REGION_GRADIENTS;
}

/* Bytes of a number in a term, and in the sums. bf16 gradients are sent unchanged. Sums of several towers are fp32, and
 * rounded to bf16 only when all towers are added. */
static size_t term_size(const struct ranks_reduce *reduce, const struct bucket *bucket, const struct term *term)
{
    return term->count == 1 && are_bf16_grads(reduce, bucket) ? sizeof(uint16_t) : sizeof(float);
}

static size_t sum_size(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    return are_bf16_grads(reduce, bucket) ? sizeof(uint16_t) : sizeof(float);
}

static const struct bucket *bucket_of(const struct exchange *exchange)
{
    return &exchange->reduce->rendezvous.buckets.bucket[exchange->bucket];
}

/* ---- buffers ---- */

/* In each copy a bucket has a buffer for each term of the rank. The sums replace the first term; except bf16 sums,
 * which are shorter than terms may be, and have a buffer of their own. A broadcast needs a buffer in its owner's rank,
 * and gradients for a server none. Does not use the members that connect_exchanges sets. */
static uint32_t buffers_with(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank, bool is_bf16)
{
    if (bucket->use == BUCKET_BROADCAST)
        return is_owners(reduce, bucket, rank);
    if (bucket->use == BUCKET_SERVE)
        return 0;
    const bool has_sums = bucket->use == BUCKET_ALL_REDUCE || is_owners(reduce, bucket, rank);
    return reduce->terms_of[rank].count + (has_sums && is_bf16);
}

static uint32_t buffers_of(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    return buffers_with(reduce, bucket, rank, are_bf16_grads(reduce, bucket));
}

static size_t counters_bytes(const struct ranks_reduce *reduce)
{
    return (reduce->rendezvous.buckets.count * sizeof(struct counters) + 63) / 64 * 64;
}

/* Do this rank and `rank` read each other's memory? They also wake each other when there is something to read. */
static bool shares(const struct ranks_reduce *reduce, uint32_t rank)
{
    return rank_memory_of(reduce->memory, rank) != NULL && ranks_can_wake(reduce->ranks, rank);
}

static struct counters *counters_of(const struct exchange *exchange, uint32_t rank)
{
    return (struct counters *)rank_memory_of(exchange->reduce->memory, rank) + exchange->bucket;
}

/* Buffer `buffer` of exchange `number` in the memory of a rank. */
static char *buffer_of(const struct exchange *exchange, uint32_t rank, uint32_t buffer, uint64_t number)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const size_t count = bucket_of(exchange)->count, buffers = buffers_of(reduce, bucket_of(exchange), rank);
    const size_t begin = reduce->floats_before[rank * reduce->rendezvous.buckets.count + exchange->bucket];
    const size_t floats = begin + number % COPIES * buffers * count + buffer * count;
    return (char *)rank_memory_of(reduce->memory, rank) + counters_bytes(reduce) + floats * sizeof(float);
}

static char *staged_term(const struct exchange *exchange, const struct term *term, uint64_t number)
{
    const uint32_t buffer = (uint32_t)(term - exchange->reduce->terms) - exchange->reduce->terms_of[term->rank].first;
    return buffer_of(exchange, term->rank, buffer, number);
}

/* The sums in the memory of a rank; with BUCKET_BROADCAST the owner's values, which other ranks have only as
 * `received`. */
static char *sums_of(const struct exchange *exchange, uint32_t rank, uint64_t number)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    if (bucket_of(exchange)->use == BUCKET_BROADCAST && !is_owners(reduce, bucket_of(exchange), rank))
        return exchange->received;
    const uint32_t buffer = are_bf16_grads(reduce, bucket_of(exchange)) ? reduce->terms_of[rank].count : 0;
    return buffer_of(exchange, rank, buffer, number);
}

/* The memory in which this process reads the part of the sums that `rank` has summed. */
static char *sums_at(const struct exchange *exchange, uint32_t rank, uint64_t number)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    return sums_of(exchange, shares(reduce, rank) ? rank : ranks_rank(reduce->ranks), number);
}

/* The address at which this rank's part of a term is received as a message. */
static char *received_term(const struct exchange *exchange, const struct term *term)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const size_t part = part_of(reduce, bucket_of(exchange), ranks_rank(reduce->ranks)).count;
    return exchange->received + (size_t)(term - reduce->terms) * part * sizeof(float);
}

/* ---- messages ---- */

static struct mpi_request *requests_of(const struct exchange *exchange)
{
    return &exchange->reduce->requests[exchange->bucket * exchange->reduce->requests_max];
}

static struct mpi_request *next_request(struct exchange *exchange)
{
    assert(exchange->request_count < exchange->reduce->requests_max);
    return &requests_of(exchange)[exchange->request_count++];
}

static int tag_of(const struct exchange *exchange)
{
    return FIRST_TAG + (int)(exchange->bucket * ROUNDS + exchange->round);
}

static int begin_send(struct exchange *exchange, const char *data, size_t bytes, uint32_t to)
{
    const struct mpi_module *const module = ranks_module(exchange->reduce->ranks);
    int rc = 0;
    for (size_t at = 0; at < bytes && rc == 0; at += MESSAGE_BYTES) {
        const size_t some = bytes - at < MESSAGE_BYTES ? bytes - at : MESSAGE_BYTES;
        rc = module->send(data + at, some, to, tag_of(exchange), next_request(exchange));
    }
    return rc;
}

static int begin_receive(struct exchange *exchange, char *data, size_t bytes, uint32_t from)
{
    const struct mpi_module *const module = ranks_module(exchange->reduce->ranks);
    int rc = 0;
    for (size_t at = 0; at < bytes && rc == 0; at += MESSAGE_BYTES) {
        const size_t some = bytes - at < MESSAGE_BYTES ? bytes - at : MESSAGE_BYTES;
        rc = module->receive(data + at, some, from, tag_of(exchange), next_request(exchange));
    }
    return rc;
}

/* Send to every rank its part of the terms of this rank, and receive this rank's part of theirs. */
static int begin_reduce_scatter(struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = bucket_of(exchange);
    const struct rank_terms own = own_terms(reduce);
    const struct part mine = part_of(reduce, bucket, ranks_rank(reduce->ranks));
    int rc = 0;
    for (uint32_t i = 0; i < reduce->term_count && rc == 0; i++) {
        const struct term *const term = &reduce->terms[i];
        if (!shares(reduce, term->rank))
            rc = begin_receive(exchange, received_term(exchange, term), mine.count * term_size(reduce, bucket, term),
                               term->rank);
    }
    for (uint32_t i = own.first; i < own.first + own.count; i++) {
        const char *const staged = staged_term(exchange, &reduce->terms[i], exchange->number);
        const size_t size = term_size(reduce, bucket, &reduce->terms[i]);
        for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++) {
            const struct part part = part_of(reduce, bucket, rank);
            if (!shares(reduce, rank))
                rc = begin_send(exchange, staged + part.begin * size, part.count * size, rank);
        }
    }
    return rc;
}

/* Send this rank's part of the sums to every rank, and receive the parts of the others. */
static int begin_all_gather(struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const uint32_t own = ranks_rank(reduce->ranks);
    char *const sums = sums_of(exchange, own, exchange->number);
    const size_t size = sum_size(reduce, bucket_of(exchange));
    const struct part mine = part_of(reduce, bucket_of(exchange), own);
    int rc = 0;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++) {
        const struct part part = part_of(reduce, bucket_of(exchange), rank);
        if (shares(reduce, rank))
            continue;
        rc = begin_receive(exchange, sums + part.begin * size, part.count * size, rank);
        if (rc == 0)
            rc = begin_send(exchange, sums + mine.begin * size, mine.count * size, rank);
    }
    return rc;
}

/* The number of the exchange that another rank must have reached before this one can complete the round; 0: any. The
 * owner of a broadcast waits until the others have copied its values before, so that two copies are enough. */
static uint64_t wanted_of(const struct exchange *exchange, uint32_t rank)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = bucket_of(exchange);
    const bool is_owner = is_owners(reduce, bucket, ranks_rank(reduce->ranks));
    if (bucket->use == BUCKET_REDUCE)
        return is_owner ? exchange->number : 0;
    if (bucket->use != BUCKET_BROADCAST || is_owners(reduce, bucket, rank))
        return exchange->number;
    return is_owner ? exchange->number - 1 : 0;
}

/* Have the ranks that share their memory with this one reached the same round? */
static bool have_others_reached(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    bool have_reached = true;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && have_reached; rank++) {
        if (!shares(reduce, rank))
            continue;
        struct counters *const counters = counters_of(exchange, rank);
        const uint64_t number = atomic_load_explicit(exchange->round == REDUCE_SCATTER ? &counters->staged
                                                     : &counters->summed, memory_order_acquire);
        have_reached = number >= wanted_of(exchange, rank);
    }
    return have_reached;
}

/* Returns 1 when the round is complete, 0 before, or negative an error of the MPI library. A test of one request lets
 * MPI make progress with all of them. */
static int test_round(struct exchange *exchange)
{
    const struct mpi_module *const module = ranks_module(exchange->reduce->ranks);
    while (exchange->completed_count < exchange->request_count) {
        bool has_passed = false;
        const int rc = module->test(&requests_of(exchange)[exchange->completed_count], &has_passed);
        if (rc != 0)
            return -rc;
        if (!has_passed)
            return 0;
        exchange->completed_count++;
        exchange->job.has_moved = true;
    }
    return have_others_reached(exchange);
}

/* ---- the sum ---- */

/* Read the numbers [at, at + count) of this rank's part of a term, as floats. */
static void read_term(const struct exchange *exchange, const struct term *term, size_t at, size_t count, float *out)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const size_t size = term_size(reduce, bucket_of(exchange), term);
    const size_t begin = part_of(reduce, bucket_of(exchange), ranks_rank(reduce->ranks)).begin;
    const char *const from = shares(reduce, term->rank)
                                 ? staged_term(exchange, term, exchange->number) + (begin + at) * size
                                 : received_term(exchange, term) + at * size;
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
}

static void sum_part(struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct part part = part_of(reduce, bucket_of(exchange), ranks_rank(reduce->ranks));
    const bool is_bf16 = are_bf16_grads(reduce, bucket_of(exchange));
    void *const sums = sums_of(exchange, ranks_rank(reduce->ranks), exchange->number);
    float sum[BLOCK_FLOATS];
    for (size_t at = 0; at < part.count; at += BLOCK_FLOATS) {
        const size_t some = part.count - at < BLOCK_FLOATS ? part.count - at : BLOCK_FLOATS;
        const struct term *term = reduce->terms;
        sum_subtree(exchange, reduce->run, &term, at, some, sum);
        if (is_bf16)
            floats_to_bf16(sum, (uint16_t *)sums + part.begin + at, some);
        else
            memcpy((float *)sums + part.begin + at, sum, some * sizeof(float));
    }
}

/* Does the tower of this process, numbered from 0, get the result of the bucket? */
static bool gets_result(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t tower)
{
    const bool is_owner = bucket->owner == reduce->here.first + tower;
    return bucket->use == BUCKET_ALL_REDUCE || is_owner == (bucket->use == BUCKET_REDUCE);
}

/* Copy all parts of the sums to the arenas, in host memory, of the towers of this process that get them. */
static void copy_sums_out(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = bucket_of(exchange);
    const size_t size = sum_size(reduce, bucket);
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks); rank++) {
        const struct part part = part_of(reduce, bucket, rank);
        const char *const sums = sums_at(exchange, rank, exchange->number);
        for (uint32_t d = 0; d < reduce->here.count && part.count > 0; d++) {
            if (!gets_result(reduce, bucket, d))
                continue;
            const struct host_arena *const arena = &reduce->arenas[d];
            char *const to =
                are_bf16_grads(reduce, bucket) ? (char *)arena->bf16_grads : (char *)arena->floats[bucket->region];
            memcpy(to + (bucket->offset + part.begin) * size, sums + part.begin * size, part.count * size);
        }
    }
}

/* ---- the job ---- */

/* Set the counter that shows the ranks which share memory with this one that it has reached the round in exchange
 * `number`. */
static void announce_round(struct exchange *exchange, uint64_t number)
{
    struct ranks *const ranks = exchange->reduce->ranks;
    struct counters *const counters = counters_of(exchange, ranks_rank(ranks));
    atomic_store_explicit(exchange->round == REDUCE_SCATTER ? &counters->staged : &counters->summed, number,
                          memory_order_release);
    for (uint32_t rank = 0; rank < ranks_size(ranks); rank++)
        if (rank != ranks_rank(ranks) && shares(exchange->reduce, rank))
            ranks_wake(ranks, rank);
}

/* Does this rank only receive the bucket? */
static bool is_receiver(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = bucket_of(exchange);
    return bucket->use == BUCKET_BROADCAST && !is_owners(reduce, bucket, ranks_rank(reduce->ranks));
}

static int begin_round(struct exchange *exchange)
{
    exchange->is_begun = true;
    exchange->request_count = exchange->completed_count = 0;
    ranks_set_bucket(exchange->reduce->ranks, exchange->bucket);
    if (!is_receiver(exchange))
        announce_round(exchange, exchange->number);
    else if (exchange->reduce->pinned_by != NULL)
        announce_round(exchange, exchange->number - 1);     /* its copies to devices have ended */
    return exchange->round == REDUCE_SCATTER ? begin_reduce_scatter(exchange) : begin_all_gather(exchange);
}

static enum exchange_round first_round(const struct exchange *exchange)
{
    return bucket_of(exchange)->use == BUCKET_BROADCAST ? ALL_GATHER : REDUCE_SCATTER;
}

static enum exchange_round last_round(const struct exchange *exchange)
{
    return bucket_of(exchange)->use == BUCKET_REDUCE ? REDUCE_SCATTER : ALL_GATHER;
}

/* Returns true if the towers have already staged the next exchange of the bucket. */
static bool finish(struct exchange *exchange)
{
    if (exchange->reduce->pinned_by == NULL)
        copy_sums_out(exchange);
    if (exchange->reduce->pinned_by == NULL && is_receiver(exchange))
        announce_round(exchange, exchange->number);
    exchange->number++;
    exchange->round = first_round(exchange);
    ranks_set_bucket(exchange->reduce->ranks, RANKS_NONE);
    rendezvous_complete(&exchange->reduce->rendezvous, exchange->bucket);
    return atomic_fetch_sub(&exchange->submitted_count, 1) > 1;
}

/* Called by the communication thread (ranks_job). */
static int advance(struct ranks_job *job)
{
    struct exchange *const exchange = (struct exchange *)job;
    int rc = rank_memory_connect(exchange->reduce->memory, CONNECT_TAG, NULL);
    const bool is_connected = rc == 1;
    job->has_moved = false;
    while (rc == 1) {
        rc = exchange->is_begun ? 0 : -begin_round(exchange);
        if (rc == 0)
            rc = test_round(exchange);
        if (rc != 1)
            break;
        exchange->is_begun = false;
        if (exchange->round == REDUCE_SCATTER)
            sum_part(exchange);
        if (exchange->round++ == last_round(exchange) && !finish(exchange))
            return 1;
    }
    job->is_polled = !is_connected || exchange->completed_count < exchange->request_count;
    return rc;
}

/* ---- the share of a tower; on its communication stream ---- */

static const struct term *term_with(const struct ranks_reduce *reduce, uint32_t tower)
{
    const struct term *term = reduce->terms;
    while (tower >= term->first + term->count)
        term++;
    return term;
}

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
    char *const to = staged_term(&reduce->exchanges[share->bucket], term, number);
    if (term_size(reduce, bucket, term) == sizeof(uint16_t))
        memcpy((uint16_t *)(void *)to + (share->begin - bucket->offset), arenas->bf16_grads + share->begin,
               (share->end - share->begin) * sizeof(uint16_t));
    else
        host_arenas_add(arenas, term->count, share->region, share->begin, share->end,
                        (float *)(void *)to + (share->begin - bucket->offset));
}

/* Store the share of a tower of the owner's values, in host memory, if the owner is in this process. */
static void stage_values(const struct ranks_reduce *reduce, const struct share *share, uint64_t number)
{
    const struct bucket *const bucket = share_bucket(share);
    const struct exchange *const exchange = &reduce->exchanges[share->bucket];
    const uint32_t own = ranks_rank(reduce->ranks);
    if (!is_owners(reduce, bucket, own))
        return;
    const float *const values = reduce->arenas[bucket->owner - reduce->here.first].floats[share->region];
    float *const to = (float *)(void *)buffer_of(exchange, own, 0, number);
    memcpy(to + (share->begin - bucket->offset), values + share->begin, (share->end - share->begin) * sizeof(float));
}

static void stage(const struct ranks_reduce *reduce, const struct share *share, uint64_t number)
{
    const struct rank_terms own = own_terms(reduce);
    if (share->begin == share->end)
        return;
    if (share_bucket(share)->use == BUCKET_BROADCAST) {
        if (reduce->pinned_by == NULL)
            stage_values(reduce, share, number);
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
    char *const arena = are_bf16_grads(reduce, bucket) ? (char *)member->bf16_grads
                                                       : (char *)member->regions[bucket->region].floats;
    return arena + bucket->offset * size;
}

/* Copy the tower's bucket, `size` bytes a number, to the memory of the exchange. */
static int queue_copy_to(struct rendezvous *rendezvous, const struct share *share, void *to, size_t size)
{
    const struct reduce_member *const member = &rendezvous->members[share->tower];
    const struct bucket *const bucket = share_bucket(share);
    return member->device->ops->copy(member->communication, to,
                                     device_bucket(ranks_reduce_of(rendezvous), member, bucket, size),
                                     bucket->count * size, COPY_FROM_DEVICE);
}

static int queue_copy_in(struct rendezvous *rendezvous, const struct share *share)
{
    const struct ranks_reduce *const reduce = ranks_reduce_of(rendezvous);
    const struct exchange *const exchange = &reduce->exchanges[share->bucket];
    const struct bucket *const bucket = share_bucket(share);
    const struct term *const term = term_with(reduce, reduce->here.first + share->tower);
    const uint64_t number = share->started_count;
    if (bucket->use == BUCKET_BROADCAST)
        return gets_result(reduce, bucket, share->tower)
                   ? 0 : queue_copy_to(rendezvous, share, buffer_of(exchange, term->rank, 0, number), sizeof(float));
    if (!is_copied(reduce, term))
        return host_arena_copy_in(&reduce->arenas[share->tower], &rendezvous->members[share->tower], bucket);
    return queue_copy_to(rendezvous, share, staged_term(exchange, term, number), term_size(reduce, bucket, term));
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
        const bool is_source = part_of(reduce, bucket, rank).count > 0;
        if (shares(reduce, rank) && is_source)
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
    const size_t size = sum_size(reduce, bucket);
    char *const to = device_bucket(reduce, &rendezvous->members[share->tower], bucket, size);
    if (!gets_result(reduce, bucket, share->tower))
        return 0;
    int rc = pin_sources(reduce, bucket);
    for (uint32_t rank = 0, next = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank = next) {
        const char *const sums = sums_at(exchange, rank, share->waited);
        const size_t begin = part_of(reduce, bucket, rank).begin;
        size_t end = begin;
        for (next = rank; next < ranks_size(reduce->ranks) && sums_at(exchange, next, share->waited) == sums; next++)
            end += part_of(reduce, bucket, next).count;
        if (end > begin)
            rc = stream->device->ops->copy(stream, to + begin * size, sums + begin * size, (end - begin) * size,
                                           COPY_TO_DEVICE);
    }
    return rc;
}

/* ---- memory: when the last tower joins ---- */

/* Find where the buckets are in the memory of all ranks. */
static void place_buckets(struct ranks_reduce *reduce)
{
    const struct buckets *const buckets = &reduce->rendezvous.buckets;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks); rank++) {
        size_t *const before = &reduce->floats_before[rank * buckets->count];
        size_t floats = 0;
        for (uint32_t b = 0; b < buckets->count; b++) {
            before[b] = floats;
            floats += buffers_of(reduce, &buckets->bucket[b], rank) * COPIES * buckets->bucket[b].count;
        }
    }
}

/* Floats that this rank receives if no rank shares its memory: pages that are not written use no memory. */
static size_t received_floats(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    const uint32_t own = ranks_rank(reduce->ranks);
    if (bucket->use == BUCKET_BROADCAST)
        return is_owners(reduce, bucket, own) ? 0 : bucket->count;
    if (bucket->use == BUCKET_SERVE)
        return 0;
    return reduce->term_count * part_of(reduce, bucket, own).count;
}

/* Floats in the buffers of this rank's memory. */
static size_t shared_floats(const struct ranks_reduce *reduce, const struct buckets *buckets, bool has_bf16_grads)
{
    size_t floats = 0;
    for (uint32_t b = 0; b < buckets->count; b++) {
        const struct bucket *const bucket = &buckets->bucket[b];
        const bool is_bf16 = has_bf16_grads && bucket->region == REGION_GRADIENTS;
        floats += buffers_with(reduce, bucket, ranks_rank(reduce->ranks), is_bf16) * COPIES * bucket->count;
    }
    return floats;
}

static void place_exchanges(struct ranks_reduce *reduce)
{
    const struct buckets *const buckets = &reduce->rendezvous.buckets;
    char *at = reduce->received;
    place_buckets(reduce);
    for (uint32_t b = 0; b < buckets->count; b++) {
        struct exchange *const exchange = &reduce->exchanges[b];
        exchange->job.advance = advance;
        exchange->reduce = reduce;
        exchange->bucket = b;
        exchange->round = first_round(exchange);
        exchange->number = 1;
        exchange->received = at;
        at += received_floats(reduce, &buckets->bucket[b]) * sizeof(float);
    }
}

static int open_memory(struct ranks_reduce *reduce)
{
    const size_t floats = shared_floats(reduce, &reduce->rendezvous.buckets, reduce->has_bf16_grads);
    return rank_memory_open(&reduce->memory, reduce->ranks, counters_bytes(reduce) + floats * sizeof(float));
}

/* An upper limit of the requests in a round of the bucket. */
static size_t count_requests(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    const size_t others = ranks_size(reduce->ranks) - 1, own = own_terms(reduce).count;
    const size_t collecting = reduce->term_count - own + own * others;
    const size_t parts = bucket->use == BUCKET_ALL_REDUCE ? ranks_size(reduce->ranks) : 1;
    const size_t part_bytes = (bucket->count / parts + 2 * PART_ALIGN) * sizeof(float);
    return (collecting > 2 * others ? collecting : 2 * others) * (part_bytes / MESSAGE_BYTES + 1);
}

static int connect_exchanges(struct rendezvous *rendezvous)
{
    struct ranks_reduce *const reduce = ranks_reduce_of(rendezvous);
    const struct buckets *const buckets = &rendezvous->buckets;
    size_t bytes = 1;
    for (uint32_t b = 0; b < buckets->count; b++) {
        const size_t requests = count_requests(reduce, &buckets->bucket[b]);
        reduce->requests_max = requests > reduce->requests_max ? requests : reduce->requests_max;
        bytes += received_floats(reduce, &buckets->bucket[b]) * sizeof(float);
    }
    struct device *const device = rendezvous->members[0].device;
    reduce->has_bf16_grads = rendezvous->members[0].bf16_grads != NULL;
    reduce->pinned_by = device->ops->host_memory ? NULL : device;
    reduce->floats_before = calloc((size_t)ranks_size(reduce->ranks) * buckets->count, sizeof(*reduce->floats_before));
    reduce->received_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    reduce->received = aligned_alloc(PAGE_BYTES, reduce->received_bytes);
    reduce->exchanges = calloc(buckets->count, sizeof(*reduce->exchanges));
    reduce->requests = calloc(buckets->count * reduce->requests_max, sizeof(*reduce->requests));
    if (reduce->floats_before == NULL || reduce->received == NULL || reduce->exchanges == NULL ||
        reduce->requests == NULL)
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
    pthread_mutex_destroy(&reduce->pinning);
    free(reduce->is_pinned);
    free(reduce->requests);
    free(reduce->exchanges);
    free(reduce->received);
    free(reduce->floats_before);
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
    reduce->arenas = calloc(spec->here.count, sizeof(*reduce->arenas));
    reduce->terms = calloc(spec->towers, sizeof(*reduce->terms));
    reduce->terms_of = calloc(ranks_size(spec->ranks), sizeof(*reduce->terms_of));
    reduce->is_pinned = calloc(ranks_size(spec->ranks), sizeof(*reduce->is_pinned));
    pthread_mutex_init(&reduce->pinning, NULL);
    int rc = reduce->arenas == NULL || reduce->terms == NULL || reduce->terms_of == NULL || reduce->is_pinned == NULL
                 ? -ENOMEM : 0;
    if (rc == 0)
        rc = rendezvous_init(&reduce->rendezvous, &reduce_ranks_ops, spec->here);
    if (rc != 0) {
        release(reduce);
        return rc;
    }
    find_all_terms(reduce);
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
    return term_with((const struct ranks_reduce *)base, tower)->count > 1;
}

static int ranks_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                      const struct buckets *buckets)
{
    struct ranks_reduce *const reduce = (struct ranks_reduce *)base;
    const bool is_in_place = member->device->ops->host_memory;
    const bool is_open = is_in_place || pins_regions(base, tower);
    const struct rendezvous_ops *const ops = is_in_place ? &in_place : &in_pinned_memory;
    const int rc = is_open ? host_arena_open(&reduce->arenas[tower - reduce->here.first], member) : 0;
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
        received += received_floats(reduce, &buckets->bucket[b]) * remote / ranks;
    return (shared_floats(reduce, buckets, has_bf16_grads) + received) * sizeof(float) / reduce->here.count;
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
