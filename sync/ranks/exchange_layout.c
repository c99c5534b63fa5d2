/* Terms and parts of the sums between ranks, and where they are in the ranks' memory. Called when a reduction is opened,
 * by the towers' threads and streams, and by the communication thread. */
#include "sync/ranks/rank_exchange.h"

/* A rank has two copies of the memory in which others read a bucket, and uses them alternately. Before it writes to one
 * of them again, all others have finished the exchange that used it, and no longer read it. */
#define COPIES 2u

/* ---- terms and parts ---- */

void layout_find_terms(struct ranks_reduce *reduce)
{
    reduce->term_count = terms_find(reduce->run, reduce->here.count, reduce->terms);
    for (uint32_t i = 0; i < reduce->term_count; i++) {
        struct rank_terms *const of = &reduce->terms_of[reduce->terms[i].rank];
        of->first = of->count == 0 ? i : of->first;
        of->count++;
        reduce->terms_most = of->count > reduce->terms_most ? of->count : reduce->terms_most;
    }
    const uint32_t towers = reduce->here.count * reduce->group;
    for (uint32_t group = 0; group * towers < reduce->run; group++)
        reduce->group_terms[group] = (struct term){ group * towers, towers,
                                                    group * reduce->group + ranks_rank(reduce->ranks) % reduce->group };
}

struct rank_terms layout_own_terms(const struct ranks_reduce *reduce)
{
    return reduce->terms_of[ranks_rank(reduce->ranks)];
}

struct part part_in_both(struct part a, struct part b)
{
    const size_t begin = a.begin > b.begin ? a.begin : b.begin;
    const size_t a_end = a.begin + a.count, b_end = b.begin + b.count, end = a_end < b_end ? a_end : b_end;
    return (struct part){ begin, begin < end ? end - begin : 0 };
}

bool layout_is_owners(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    return bucket->owner / reduce->here.count == rank;
}

bool layout_is_grouped(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    return reduce->group > 1 && bucket->use == BUCKET_ALL_REDUCE;
}

/* Share `index` of `shares` of a part, in whole lines. */
static struct part share_of(struct part part, uint32_t index, uint32_t shares)
{
    const size_t lines = (part.count + PART_ALIGN - 1) / PART_ALIGN;
    const size_t begin = lines * index / shares * PART_ALIGN, end = lines * (index + 1) / shares * PART_ALIGN;
    const size_t last = end < part.count ? end : part.count;
    return (struct part){ part.begin + (begin < last ? begin : last), begin < last ? last - begin : 0 };
}

/* The part of the bucket that the ranks with the position of this rank in their groups sum. */
static struct part slice_of(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    return share_of((struct part){ 0, bucket->count }, rank % reduce->group, reduce->group);
}

struct part layout_part(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    if (bucket->piece > 0)
        return (struct part){ rank * reduce->here.count * bucket->piece, reduce->here.count * bucket->piece };
    if (bucket->use != BUCKET_ALL_REDUCE)
        return (struct part){ 0, layout_is_owners(reduce, bucket, rank) ? bucket->count : 0 };
    return share_of(slice_of(reduce, bucket, rank), rank / reduce->group, ranks_size(reduce->ranks) / reduce->group);
}

static struct circle group_of(const struct ranks_reduce *reduce)
{
    return (struct circle){ ranks_rank(reduce->ranks) / reduce->group * reduce->group, 1, reduce->group };
}

struct circle layout_result_ranks(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    return layout_is_grouped(reduce, bucket) ? group_of(reduce) : (struct circle){ 0, 1, ranks_size(reduce->ranks) };
}

struct part layout_result_part(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    return layout_is_grouped(reduce, bucket) ? slice_of(reduce, bucket, rank) : layout_part(reduce, bucket, rank);
}

bool layout_is_bf16(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    return reduce->has_bf16_grads && bucket->region == REGION_GRADIENTS;
}

size_t layout_term_size(const struct ranks_reduce *reduce, const struct bucket *bucket, const struct term *term)
{
    const bool is_rounded = term->count == 1 || reduce->rounds_sums;
    return is_rounded && layout_is_bf16(reduce, bucket) ? sizeof(uint16_t) : sizeof(float);
}

size_t layout_sum_size(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    return layout_is_bf16(reduce, bucket) ? sizeof(uint16_t) : sizeof(float);
}

const struct bucket *exchange_bucket(const struct exchange *exchange)
{
    return &exchange->reduce->rendezvous.buckets.bucket[exchange->bucket];
}

/* ---- the current round ---- */

static bool is_in_groups(const struct exchange *exchange)
{
    return exchange->round == GROUP_SCATTER || exchange->round == GROUP_GATHER;
}

struct circle exchange_circle(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const uint32_t ranks = ranks_size(reduce->ranks);
    if (is_in_groups(exchange))
        return group_of(reduce);
    if (!layout_is_grouped(reduce, exchange_bucket(exchange)))
        return (struct circle){ 0, 1, ranks };
    return (struct circle){ ranks_rank(reduce->ranks) % reduce->group, reduce->group, ranks / reduce->group };
}

struct part exchange_part(const struct exchange *exchange, uint32_t rank)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    return is_in_groups(exchange) ? slice_of(reduce, exchange_bucket(exchange), rank)
                                  : layout_part(reduce, exchange_bucket(exchange), rank);
}

bool exchange_sends_terms(const struct exchange *exchange)
{
    return exchange->round == GROUP_SCATTER || exchange->round == REDUCE_SCATTER;
}

/* Are the terms of the current round those of groups? */
static bool has_group_terms(const struct exchange *exchange)
{
    return layout_is_grouped(exchange->reduce, exchange_bucket(exchange)) && !is_in_groups(exchange);
}

const struct term *exchange_terms(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    if (has_group_terms(exchange))
        return reduce->group_terms;
    return reduce->terms + (is_in_groups(exchange) ? group_of(reduce).first : 0);
}

struct rank_terms exchange_terms_of(const struct exchange *exchange, uint32_t rank)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    if (has_group_terms(exchange))
        return (struct rank_terms){ rank / reduce->group, 1 };
    struct rank_terms of = reduce->terms_of[rank];
    of.first -= is_in_groups(exchange) ? group_of(reduce).first : 0;
    return of;
}

uint32_t exchange_towers(const struct exchange *exchange)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    return is_in_groups(exchange) ? reduce->here.count * reduce->group : reduce->run;
}

/* ---- buffers ---- */

/* Do sums of groups need a buffer of their own? They replace the rank's term, except fp32 sums of bf16 terms. */
static bool has_group_buffer(const struct ranks_reduce *reduce, const struct bucket *bucket, bool is_bf16)
{
    return layout_is_grouped(reduce, bucket) && is_bf16 && !reduce->rounds_sums;
}

/* In each copy a bucket has a buffer for each term of the rank. The sums replace the first term; except bf16 sums,
 * which are shorter than terms may be, and have a buffer of their own; so have fp32 sums of groups of bf16 terms. A
 * broadcast needs a buffer in its owner's rank, an all-gather one in each, and gradients for a server none. Does not use
 * the members that connect_exchanges sets. */
static uint32_t buffers_with(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank, bool is_bf16)
{
    if (bucket->use == BUCKET_BROADCAST)
        return layout_is_owners(reduce, bucket, rank);
    if (bucket->use == BUCKET_SERVE)
        return 0;
    if (bucket->use == BUCKET_ALL_GATHER)
        return 1;
    const bool has_sums = bucket->use == BUCKET_ALL_REDUCE || layout_is_owners(reduce, bucket, rank);
    return reduce->terms_of[rank].count + (has_sums && is_bf16) + has_group_buffer(reduce, bucket, is_bf16);
}

static uint32_t buffers_of(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank)
{
    return buffers_with(reduce, bucket, rank, layout_is_bf16(reduce, bucket));
}

size_t layout_counters_bytes(const struct ranks_reduce *reduce)
{
    return (reduce->rendezvous.buckets.count * sizeof(struct counters) + 63) / 64 * 64;
}

bool layout_shares(const struct ranks_reduce *reduce, uint32_t rank)
{
    return rank_memory_of(reduce->memory, rank) != NULL && ranks_can_wake(reduce->ranks, rank);
}

struct counters *exchange_counters(const struct exchange *exchange, uint32_t rank)
{
    return (struct counters *)rank_memory_of(exchange->reduce->memory, rank) + exchange->bucket;
}

char *exchange_buffer(const struct exchange *exchange, uint32_t rank, uint32_t buffer, uint64_t number)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const size_t count = exchange_bucket(exchange)->count, buffers = buffers_of(reduce, exchange_bucket(exchange), rank);
    const size_t begin = reduce->floats_before[rank * reduce->rendezvous.buckets.count + exchange->bucket];
    const size_t floats = begin + number % COPIES * buffers * count + buffer * count;
    return (char *)rank_memory_of(reduce->memory, rank) + layout_counters_bytes(reduce) + floats * sizeof(float);
}

char *exchange_staged_term(const struct exchange *exchange, const struct term *term, uint64_t number)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const struct bucket *const bucket = exchange_bucket(exchange);
    const uint32_t first = reduce->terms_of[term->rank].first;
    if (term->count <= reduce->here.count)
        return exchange_buffer(exchange, term->rank, (uint32_t)(term - reduce->terms) - first, number);
    const bool has_buffer = has_group_buffer(reduce, bucket, layout_is_bf16(reduce, bucket));
    return exchange_buffer(exchange, term->rank, has_buffer ? reduce->terms_of[term->rank].count + 1 : 0, number);
}

char *exchange_sums(const struct exchange *exchange, uint32_t rank, uint64_t number)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    if (exchange_bucket(exchange)->use == BUCKET_BROADCAST && !layout_is_owners(reduce, exchange_bucket(exchange), rank))
        return exchange->received;
    const uint32_t buffer = layout_is_bf16(reduce, exchange_bucket(exchange)) ? reduce->terms_of[rank].count : 0;
    return exchange_buffer(exchange, rank, buffer, number);
}

char *exchange_sums_at(const struct exchange *exchange, uint32_t rank, uint64_t number)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    return exchange_sums(exchange, layout_shares(reduce, rank) ? rank : ranks_rank(reduce->ranks), number);
}

char *exchange_received_term(const struct exchange *exchange, const struct term *term)
{
    const struct ranks_reduce *const reduce = exchange->reduce;
    const size_t part = exchange_part(exchange, ranks_rank(reduce->ranks)).count;
    return exchange->received + (size_t)(term - exchange_terms(exchange)) * part * sizeof(float);
}

struct part layout_wanted(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t tower)
{
    const uint32_t number = reduce->here.first + tower;
    const bool is_owner = bucket->owner == number;
    const struct part all = { 0, bucket->count }, nothing = { 0, 0 };
    switch (bucket->use) {
    case BUCKET_REDUCE_SCATTER: return (struct part){ number * bucket->piece, bucket->piece };
    case BUCKET_REDUCE: return is_owner ? all : nothing;
    case BUCKET_BROADCAST: return is_owner ? nothing : all;
    default: return all;
    }
}

const struct term *layout_term_with(const struct ranks_reduce *reduce, uint32_t tower)
{
    const struct term *term = reduce->terms;
    while (tower >= term->first + term->count)
        term++;
    return term;
}

/* ---- memory: when the last tower joins ---- */

void layout_place_buckets(struct ranks_reduce *reduce)
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

size_t layout_received_floats(const struct ranks_reduce *reduce, const struct bucket *bucket)
{
    const uint32_t own = ranks_rank(reduce->ranks);
    if (bucket->use == BUCKET_BROADCAST)
        return layout_is_owners(reduce, bucket, own) ? 0 : bucket->count;
    if (bucket->use == BUCKET_SERVE || bucket->use == BUCKET_ALL_GATHER)
        return 0;
    if (!layout_is_grouped(reduce, bucket))
        return reduce->term_count * layout_part(reduce, bucket, own).count;
    const size_t near = reduce->group * slice_of(reduce, bucket, own).count;
    const size_t far = ranks_size(reduce->ranks) / reduce->group * layout_part(reduce, bucket, own).count;
    return near > far ? near : far;
}

size_t layout_shared_floats(const struct ranks_reduce *reduce, const struct buckets *buckets, bool has_bf16_grads)
{
    size_t floats = 0;
    for (uint32_t b = 0; b < buckets->count; b++) {
        const struct bucket *const bucket = &buckets->bucket[b];
        const bool is_bf16 = has_bf16_grads && bucket->region == REGION_GRADIENTS;
        floats += buffers_with(reduce, bucket, ranks_rank(reduce->ranks), is_bf16) * COPIES * bucket->count;
    }
    return floats;
}
