/* Sums over the towers of several processes. A process' own towers meet as usual (rendezvous.h) and leave in host memory
 * what they have for the sum over all: their gradients, or sums over as many neighbours as the order of additions
 * allows (stage/pairwise.h). Then the communication thread exchanges a bucket in two rounds, which move the bytes of a
 * ring: every rank gets its share of the bucket from all others, sums it in the order of the towers, and sends the
 * sums to all others. Every rank gets the same bits, those of one process with as many towers. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "stage/pairwise.h"
#include "stage/trace/range.h"
#include "sync/host_arena.h"
#include "sync/ranks/ranks.h"
#include "sync/rendezvous.h"

#define SHARE_ALIGN 32u         /* floats: shares do not split a line of the sums in bf16 */
#define BLOCK_FLOATS 1024u      /* summed in a buffer that stays in the first-level cache */
#define ROUNDS 2u               /* messages of a bucket have a tag for each */

/* Towers of one rank that are a subtree of the order of additions: their sum is a term of the sum over all. */
struct term { uint32_t first, count, rank; };

/* What a rank sums of a bucket, floats from the bucket's begin. */
struct part { size_t begin, count; };

struct message { struct mpi_request request; bool has_passed; };

enum stage { COLLECTS, SPREADS };

struct exchange {
    struct ranks_job job;
    struct ranks_reduce *reduce;
    uint32_t bucket;
    enum stage stage;
    bool is_begun;                      /* the messages of the stage are */
    uint32_t message_count;
    atomic_uint arrived;                /* towers of this process whose share is staged */
    uint64_t done;                      /* exchanges of this bucket so far; under the rendezvous' lock */
    char *staged;                       /* the terms of this rank, one after the other; the sums replace the first */
    char *received;                     /* this rank's part of the other ranks' terms */
};

struct ranks_reduce {
    struct rendezvous rendezvous;       /* of the towers of this process, numbered from 0 */
    struct ranks *ranks;
    struct tower_range here;
    uint32_t run;                       /* towers of the run */
    struct host_arena *arenas;          /* [tower]; each opened by its tower before it joins */
    struct term *terms;                 /* of all ranks, in the order of additions */
    uint32_t term_count, own_first, own_count;  /* those of this rank are neighbours */
    bool has_bf16_grads;
    struct exchange *exchanges;         /* [bucket] */
    struct message *messages;           /* [bucket * messages_max] */
    uint32_t messages_max;
    char *memory;                       /* of all exchanges */
    uint64_t *waited;                   /* [bucket * towers + tower]: exchanges it has waited for */
    atomic_bool is_abandoned;           /* an exchange did not end: messages may be on their way to its memory */
};

static struct ranks_reduce *ranks_reduce_of(struct rendezvous *rendezvous)
{
    return (struct ranks_reduce *)rendezvous;
}

/* ---- terms and parts ---- */

static uint32_t rank_of(const struct ranks_reduce *reduce, uint32_t tower)
{
    return tower / reduce->here.count;
}

/* Append the terms of a subtree of towers. */
static void find_terms(struct ranks_reduce *reduce, uint32_t first, uint32_t count)
{
    const uint32_t rank = rank_of(reduce, first);
    if (rank_of(reduce, first + count - 1) == rank) {
        reduce->terms[reduce->term_count++] = (struct term){ first, count, rank };
        return;
    }
    const uint32_t left = pairwise_left(count);
    find_terms(reduce, first, left);
    find_terms(reduce, first + left, count - left);
}

static void find_own_terms(struct ranks_reduce *reduce)
{
    find_terms(reduce, 0, reduce->run);
    while (reduce->terms[reduce->own_first].rank != ranks_rank(reduce->ranks))
        reduce->own_first++;
    while (reduce->own_first + reduce->own_count < reduce->term_count &&
           reduce->terms[reduce->own_first + reduce->own_count].rank == ranks_rank(reduce->ranks))
        reduce->own_count++;
}

static struct part part_of(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    const size_t lines = (bucket->count + SHARE_ALIGN - 1) / SHARE_ALIGN, ranks = ranks_size(reduce->ranks);
    const size_t begin = lines * rank / ranks * SHARE_ALIGN, end = lines * (rank + 1) / ranks * SHARE_ALIGN;
    return (struct part){ begin, (end < bucket->count ? end : bucket->count) - begin };
}

static bool are_bf16_grads(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    return reduce->has_bf16_grads && bucket->region == REGION_GRADIENTS;
}

/* Of a number of a term, and of the sums. Gradients in bf16 are sent as they are; sums of several towers are rounded
 * only when all are in. */
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

/* A term of this rank where it is staged. */
static char *staged_term(const struct exchange *exchange, const struct term *term)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    char *at = exchange->staged;
    for (const struct term *own = &reduce->terms[reduce->own_first]; own < term; own++)
        at += bucket_of(exchange)->count * sizeof(float);
    return at;
}

/* This rank's part of another rank's term. */
static char *received_term(const struct exchange *exchange, const struct term *term)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const size_t place = (size_t)(term - reduce->terms) - (term->rank > ranks_rank(reduce->ranks) ? reduce->own_count : 0);
    return exchange->received + place * part_of(reduce, bucket_of(exchange), ranks_rank(reduce->ranks)).count * sizeof(float);
}

/* ---- messages ---- */

static struct message *next_message(struct exchange *exchange)
{
    struct ranks_reduce *const reduce = exchange->reduce;
    assert(exchange->message_count < reduce->messages_max);
    struct message *const message =
        &reduce->messages[(size_t)exchange->bucket * reduce->messages_max + exchange->message_count++];
    message->has_passed = false;
    return message;
}

static int tag_of(const struct exchange *exchange)
{
    return RANKS_TAG_FREE + (int)(exchange->bucket * ROUNDS + (exchange->stage == SPREADS));
}

static int begin_send(struct exchange *exchange, const void *data, size_t bytes, uint32_t to)
{
    const struct mpi_module *const module = ranks_module(exchange->reduce->ranks);
    return bytes == 0 ? 0 : module->send(data, bytes, to, tag_of(exchange), &next_message(exchange)->request);
}

static int begin_receive(struct exchange *exchange, void *data, size_t bytes, uint32_t from)
{
    const struct mpi_module *const module = ranks_module(exchange->reduce->ranks);
    return bytes == 0 ? 0 : module->receive(data, bytes, from, tag_of(exchange), &next_message(exchange)->request);
}

/* Every rank's part of this rank's terms goes to it, and this rank's part of theirs comes. */
static int begin_collecting(struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = bucket_of(exchange);
    const uint32_t own = ranks_rank(reduce->ranks);
    const struct part mine = part_of(reduce, bucket, own);
    int rc = 0;
    for (uint32_t i = 0; i < reduce->term_count && rc == 0; i++) {
        const struct term *const term = &reduce->terms[i];
        if (term->rank != own)
            rc = begin_receive(exchange, received_term(exchange, term), mine.count * term_size(reduce, bucket, term),
                               term->rank);
    }
    for (uint32_t i = 0; i < reduce->own_count; i++) {
        const struct term *const term = &reduce->terms[reduce->own_first + i];
        const size_t size = term_size(reduce, bucket, term);
        for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++) {
            const struct part part = part_of(reduce, bucket, rank);
            if (rank != own)
                rc = begin_send(exchange, staged_term(exchange, term) + part.begin * size, part.count * size, rank);
        }
    }
    return rc;
}

static int begin_spreading(struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const uint32_t own = ranks_rank(reduce->ranks);
    const size_t size = sum_size(reduce, bucket_of(exchange));
    const struct part mine = part_of(reduce, bucket_of(exchange), own);
    int rc = 0;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++) {
        const struct part part = part_of(reduce, bucket_of(exchange), rank);
        if (rank == own)
            continue;
        rc = begin_receive(exchange, exchange->staged + part.begin * size, part.count * size, rank);
        if (rc == 0)
            rc = begin_send(exchange, exchange->staged + mine.begin * size, mine.count * size, rank);
    }
    return rc;
}

/* 1: all have passed; 0: not yet; or an error of the library, negative. */
static int test_messages(struct exchange *exchange)
{
    const struct mpi_module *const module = ranks_module(exchange->reduce->ranks);
    struct message *const messages =
        &exchange->reduce->messages[(size_t)exchange->bucket * exchange->reduce->messages_max];
    bool have_passed = true;
    for (uint32_t i = 0; i < exchange->message_count; i++) {
        const int rc = messages[i].has_passed ? 0 : module->test(&messages[i].request, &messages[i].has_passed);
        if (rc != 0)
            return -rc;
        have_passed = have_passed && messages[i].has_passed;
    }
    return have_passed;
}

/* ---- the sum ---- */

/* `count` numbers of a term, from this rank's part of it. */
static void read_term(const struct exchange *exchange, const struct term *term, size_t at, size_t count, float *out)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const bool is_own = term->rank == ranks_rank(reduce->ranks);
    const size_t size = term_size(reduce, bucket_of(exchange), term);
    const size_t begin = is_own ? part_of(reduce, bucket_of(exchange), term->rank).begin : 0;
    const char *const from = (is_own ? staged_term(exchange, term) : received_term(exchange, term)) + (begin + at) * size;
    if (size == sizeof(uint16_t))
        floats_from_bf16((const uint16_t *)(const void *)from, out, count);
    else
        memcpy(out, from, count * sizeof(float));
}

static void add(float *restrict sum, const float *restrict floats, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += floats[i];
}

/* Sum a subtree of towers, whose terms begin with *term, which moves past them. */
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
    add(sum_out, more, count);
}

/* The sums of this rank's part replace its first term, and are not longer than it. */
static void sum_part(struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct part part = part_of(reduce, bucket_of(exchange), ranks_rank(reduce->ranks));
    const bool is_bf16 = are_bf16_grads(reduce, bucket_of(exchange));
    float sum[BLOCK_FLOATS];
    for (size_t at = 0; at < part.count; at += BLOCK_FLOATS) {
        const size_t some = part.count - at < BLOCK_FLOATS ? part.count - at : BLOCK_FLOATS;
        const struct term *term = reduce->terms;
        sum_subtree(exchange, reduce->run, &term, at, some, sum);
        if (is_bf16)
            floats_to_bf16(sum, (uint16_t *)(void *)exchange->staged + part.begin + at, some);
        else
            memcpy((float *)(void *)exchange->staged + part.begin + at, sum, some * sizeof(float));
    }
}

/* To the arenas of all towers of this process. */
static void give_out(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = bucket_of(exchange);
    const size_t size = sum_size(reduce, bucket);
    for (uint32_t d = 0; d < reduce->here.count; d++) {
        const struct host_arena *const arena = &reduce->arenas[d];
        char *const to = are_bf16_grads(reduce, bucket) ? (char *)arena->bf16_grads : (char *)arena->floats[bucket->region];
        memcpy(to + bucket->offset * size, exchange->staged, bucket->count * size);
    }
}

/* ---- the job ---- */

static void finish(struct exchange *exchange)
{
    struct rendezvous *const rendezvous = &exchange->reduce->rendezvous;
    give_out(exchange);
    ranks_at_bucket(exchange->reduce->ranks, RANKS_NOWHERE);
    pthread_mutex_lock(&rendezvous->lock);
    exchange->done++;
    pthread_cond_broadcast(&rendezvous->changed);
    pthread_mutex_unlock(&rendezvous->lock);
}

static int begin_stage(struct exchange *exchange)
{
    exchange->is_begun = true;
    exchange->message_count = 0;
    ranks_at_bucket(exchange->reduce->ranks, exchange->bucket);
    return exchange->stage == COLLECTS ? begin_collecting(exchange) : begin_spreading(exchange);
}

/* In the communication thread. */
static int advance(struct ranks_job *job)
{
    struct exchange *const exchange = (struct exchange *)job;
    for (;;) {
        int rc = exchange->is_begun ? 0 : -begin_stage(exchange);
        if (rc == 0)
            rc = test_messages(exchange);
        if (rc <= 0)
            return rc;
        exchange->is_begun = false;
        if (exchange->stage == SPREADS) {
            exchange->stage = COLLECTS;
            finish(exchange);
            return 1;
        }
        sum_part(exchange);
        exchange->stage = SPREADS;
    }
}

/* ---- a tower's share: on its communication stream ---- */

static void stage_term(const struct ranks_reduce *reduce, const struct share *share, const struct term *term)
{
    const struct exchange *const exchange = &reduce->exchanges[share->bucket];
    const struct bucket *const bucket = share_bucket(share);
    const struct host_arena *const arenas = &reduce->arenas[term->first - reduce->here.first];
    const size_t count = share->end - share->begin;
    char *const to = staged_term(exchange, term);
    if (term_size(reduce, bucket, term) == sizeof(uint16_t))
        memcpy((uint16_t *)(void *)to + (share->begin - bucket->offset), arenas->bf16_grads + share->begin,
               count * sizeof(uint16_t));
    else
        host_arenas_add(arenas, term->count, share->region, share->begin, share->end,
                        (float *)(void *)to + (share->begin - bucket->offset));
}

/* Unless the run has failed: then its towers may be closed soon. */
static void submit(struct exchange *exchange)
{
    struct ranks_reduce *const reduce = exchange->reduce;
    pthread_mutex_lock(&reduce->rendezvous.lock);
    if (!reduce->rendezvous.cancelled)
        ranks_submit(reduce->ranks, &exchange->job);
    pthread_mutex_unlock(&reduce->rendezvous.lock);
}

static void stage_share(void *arg)
{
    struct share *const share = arg;
    struct ranks_reduce *const reduce = ranks_reduce_of(share->rendezvous);
    struct exchange *const exchange = &reduce->exchanges[share->bucket];
    struct trace_track *const track = share->rendezvous->members[share->tower].track;
    const uint64_t begun_ns = trace_now(track), batch = share_batch(share);
    range_begin(TRACE_REDUCE, batch);
    for (uint32_t i = 0; i < reduce->own_count && share->begin < share->end; i++)
        stage_term(reduce, share, &reduce->terms[reduce->own_first + i]);
    if (atomic_fetch_add(&exchange->arrived, 1) + 1 == reduce->here.count) {
        atomic_store(&exchange->arrived, 0);
        submit(exchange);
    }
    range_end();
    trace_span(track, TRACE_REDUCE, (struct trace_batch){ batch, reduce->here.first + share->tower }, begun_ns,
               share->bucket);
}

static int queue_sum(struct rendezvous *rendezvous, struct share *share)
{
    struct stream *const communication = rendezvous->members[share->tower].communication;
    return communication->device->ops->call(communication, stage_share, share);
}

/* Wait until the exchange that this tower started last, and did not wait for yet, is done. */
static int await_exchange(struct ranks_reduce *reduce, uint32_t tower, uint32_t bucket)
{
    struct rendezvous *const rendezvous = &reduce->rendezvous;
    uint64_t *const waited = &reduce->waited[(size_t)bucket * reduce->here.count + tower];
    pthread_mutex_lock(&rendezvous->lock);
    while (reduce->exchanges[bucket].done <= *waited && !rendezvous->cancelled)
        pthread_cond_wait(&rendezvous->changed, &rendezvous->lock);
    const bool is_done = reduce->exchanges[bucket].done > *waited;
    pthread_mutex_unlock(&rendezvous->lock);
    ++*waited;
    return is_done ? 0 : -ECANCELED;
}

static void await_share(void *arg)
{
    struct share *const share = arg;
    (void)await_exchange(ranks_reduce_of(share->rendezvous), share->tower, share->bucket);
}

static int queue_copy_in(struct rendezvous *rendezvous, const struct share *share)
{
    return host_arena_copy_in(&ranks_reduce_of(rendezvous)->arenas[share->tower], &rendezvous->members[share->tower],
                              share_bucket(share));
}

static int queue_copy_out(struct rendezvous *rendezvous, const struct share *share)
{
    const struct reduce_member *const member = &rendezvous->members[share->tower];
    struct stream *const communication = member->communication;
    const int rc = communication->device->ops->call(communication, await_share, (void *)share);
    return rc != 0 ? rc : host_arena_copy_out(&ranks_reduce_of(rendezvous)->arenas[share->tower], member,
                                              share_bucket(share));
}

/* ---- memory: when the last tower joins ---- */

static size_t staged_bytes(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    return reduce->own_count * bucket->count * sizeof(float);
}

static size_t received_bytes(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    const struct part part = part_of(reduce, bucket, ranks_rank(reduce->ranks));
    return (reduce->term_count - reduce->own_count) * part.count * sizeof(float);
}

static void place_exchanges(struct ranks_reduce *reduce)
{
    const struct buckets *const buckets = &reduce->rendezvous.buckets;
    char *at = reduce->memory;
    for (uint32_t b = 0; b < buckets->count; b++) {
        struct exchange *const exchange = &reduce->exchanges[b];
        exchange->job.advance = advance;
        exchange->reduce = reduce;
        exchange->bucket = b;
        exchange->staged = at;
        exchange->received = at + staged_bytes(reduce, &buckets->bucket[b]);
        at = exchange->received + received_bytes(reduce, &buckets->bucket[b]);
    }
}

static int connect_exchanges(struct rendezvous *rendezvous)
{
    struct ranks_reduce *const reduce = ranks_reduce_of(rendezvous);
    const struct buckets *const buckets = &rendezvous->buckets;
    const uint32_t others = ranks_size(reduce->ranks) - 1;
    size_t bytes = 0;
    for (uint32_t b = 0; b < buckets->count; b++)
        bytes += staged_bytes(reduce, &buckets->bucket[b]) + received_bytes(reduce, &buckets->bucket[b]);
    const uint32_t collecting = reduce->term_count - reduce->own_count + reduce->own_count * others;
    reduce->messages_max = collecting > 2 * others ? collecting : 2 * others;
    reduce->has_bf16_grads = reduce->arenas[0].bf16_grads != NULL;
    reduce->memory = malloc(bytes + 1);
    reduce->exchanges = calloc(buckets->count, sizeof(*reduce->exchanges));
    reduce->messages = calloc((size_t)buckets->count * reduce->messages_max, sizeof(*reduce->messages));
    reduce->waited = calloc((size_t)buckets->count * reduce->here.count, sizeof(*reduce->waited));
    if (reduce->memory == NULL || reduce->exchanges == NULL || reduce->messages == NULL || reduce->waited == NULL)
        return -ENOMEM;
    memset(reduce->memory, 0, bytes);   /* the kernel provides memory at the first write */
    place_exchanges(reduce);
    return 0;
}

static const struct rendezvous_ops in_place = { .connect = connect_exchanges, .sum = queue_sum };
static const struct rendezvous_ops in_pinned_memory = {
    .connect = connect_exchanges,
    .copy_in = queue_copy_in,
    .copy_out = queue_copy_out,
    .sum = queue_sum,
};

/* ---- the table ---- */

static void release(struct ranks_reduce *reduce)
{
    free(reduce->waited);
    free(reduce->messages);
    free(reduce->exchanges);
    free(reduce->memory);
    free(reduce->terms);
    free(reduce->arenas);
    free(reduce);
}

static int ranks_open_reduce(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    struct ranks_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    const struct reduce_spec here = { .towers = spec->here.count };
    reduce->ranks = spec->ranks;
    reduce->here = spec->here;
    reduce->run = spec->towers;
    reduce->arenas = calloc(spec->here.count, sizeof(*reduce->arenas));
    reduce->terms = calloc(spec->towers, sizeof(*reduce->terms));
    int rc = reduce->arenas == NULL || reduce->terms == NULL ? -ENOMEM : 0;
    if (rc == 0)
        rc = rendezvous_init(&reduce->rendezvous, &reduce_ranks_ops, &here);
    if (rc != 0) {
        release(reduce);
        return rc;
    }
    find_own_terms(reduce);
    *reduce_out = &reduce->rendezvous.base;
    return 0;
}

/* From now on the communication thread uses neither exchanges nor arenas. */
static void abandon_exchanges(struct ranks_reduce *reduce)
{
    if (ranks_abandon_jobs(reduce->ranks))
        atomic_store(&reduce->is_abandoned, true);
}

static void ranks_close_reduce(struct reduce *base)
{
    struct ranks_reduce *const reduce = (struct ranks_reduce *)base;
    for (uint32_t d = 0; d < reduce->here.count; d++)
        host_arena_close(&reduce->arenas[d]);
    rendezvous_release(&reduce->rendezvous);
    abandon_exchanges(reduce);
    if (atomic_load(&reduce->is_abandoned))
        reduce->memory = NULL;          /* stays until the process ends, which is soon */
    release(reduce);
}

static int ranks_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                      const struct buckets *buckets)
{
    struct ranks_reduce *const reduce = (struct ranks_reduce *)base;
    const uint32_t local = tower - reduce->here.first;
    const struct rendezvous_ops *const ops = member->device->ops->host_memory ? &in_place : &in_pinned_memory;
    const int rc = host_arena_open(&reduce->arenas[local], member);
    return rc != 0 ? rc : rendezvous_join(&reduce->rendezvous, ops, local, member, buckets);
}

static int ranks_start(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch)
{
    return rendezvous_start(base, tower - ((struct ranks_reduce *)base)->here.first, bucket, batch);
}

/* In host memory the tower's thread itself waits. */
static int ranks_wait(struct reduce *base, uint32_t tower, uint32_t bucket)
{
    struct ranks_reduce *const reduce = (struct ranks_reduce *)base;
    const uint32_t local = tower - reduce->here.first;
    const int rc = rendezvous_wait(base, local, bucket);
    return rc == 0 && reduce->rendezvous.ops == &in_place ? await_exchange(reduce, local, bucket) : rc;
}

/* After a failure nothing may write to the arenas any more. */
static void ranks_leave(struct reduce *base, uint32_t tower)
{
    (void)tower;
    struct ranks_reduce *const reduce = (struct ranks_reduce *)base;
    pthread_mutex_lock(&reduce->rendezvous.lock);
    const bool is_cancelled = reduce->rendezvous.cancelled;
    pthread_mutex_unlock(&reduce->rendezvous.lock);
    if (is_cancelled)
        abandon_exchanges(reduce);
}

/* What connect_exchanges allocates, shared among the towers of this process. */
static size_t ranks_host_bytes(const struct reduce *base, size_t floats)
{
    const struct ranks_reduce *const reduce = (const struct ranks_reduce *)base;
    const size_t received = (reduce->term_count - reduce->own_count) * (floats / ranks_size(reduce->ranks) + SHARE_ALIGN);
    return (reduce->own_count * floats + received) * sizeof(float) / reduce->here.count;
}

static int ranks_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    (void)towers, (void)reason;
    return 0;
}

const struct reduce_ops reduce_ranks_ops = {
    .name = "ranks",
    .pins_regions = true,
    .host_bytes = ranks_host_bytes,
    .supports = ranks_supports,
    .open = ranks_open_reduce,
    .close = ranks_close_reduce,
    .join = ranks_join,
    .start = ranks_start,
    .wait = ranks_wait,
    .leave = ranks_leave,
    .cancel = rendezvous_cancel,
};
