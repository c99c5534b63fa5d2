/* Sums in pairs: NCCL adds in an order that depends on the connections, so it only sends numbers, and kernels add them.
 *
 * Each tower of a process owns a slice of the range, and the tower with the same number in each process owns a part of
 * that slice. In the first round the towers of a process send each other their slices, and each adds its slice of all
 * towers of the process as far as the order of additions allows (sync/term.h). In the second round towers with the same
 * number send each other their parts of these terms, and each adds the terms of its part. In two more rounds the sums
 * return the same way. So only one sum of all towers of a process is sent to another process, and not the numbers of
 * each tower. With one process, or one tower in each, there are two rounds, which send as many bytes as a ring.
 *
 * With sync.wire = bf16 numbers of a tower and complete sums are sent as bf16, and sums of several towers of a process
 * as fp32, so that sums are rounded once.
 *
 * Buckets of pieces: what is gathered goes to the towers with the same number in other processes first, and then to those
 * of the same process, so that a process gets each piece once. What is scattered goes the other way, and is added twice
 * like what is summed. */
#include "sync/cuda/nccl_rank.h"

#include <assert.h>
#include <errno.h>

#include "stage/cuda/cuda_call.h"

#define PART_ALIGN 32u                  /* in numbers: vectors of 16 bytes do not cross the bounds of a part */

/* The numbers of one bucket. */
struct nccl_range {
    const struct bucket *bucket;
    void *values;
    size_t count;
    enum value_type type;               /* fp32 or bf16 */
};

struct part { size_t begin, count; };

/* The numbers of a tower or a term, from the begin of this tower's slice on. */
struct operand { void *values; enum value_type type; };

static bool is_in_pairs(const struct nccl_group *group, const struct bucket *bucket, bool is_bf16)
{
    return bucket->use == BUCKET_REDUCE || (bucket->use == BUCKET_ALL_REDUCE && (group->in_pairs || is_bf16));
}

bool nccl_is_sent(const struct nccl_rank *rank, const struct bucket *bucket)
{
    return bucket->piece > 0 || is_in_pairs(rank->group, bucket, nccl_is_bf16(rank, bucket));
}

bool nccl_is_bf16(const struct nccl_rank *rank, const struct bucket *bucket)
{
    return rank->member.bf16_grads != NULL && bucket->region == REGION_GRADIENTS;
}

/* ---- slices and parts, in whole lines ---- */

static struct part part_of(size_t count, uint32_t parts, uint32_t number)
{
    const size_t lines = (count + PART_ALIGN - 1) / PART_ALIGN;
    const size_t begin = lines * number / parts * PART_ALIGN, end = lines * (number + 1) / parts * PART_ALIGN;
    return (struct part){ begin, (end < count ? end : count) - begin };
}

/* The length of the longest part of a range of `count` numbers. */
static size_t part_most(size_t count, uint32_t parts)
{
    const size_t lines = (count + PART_ALIGN - 1) / PART_ALIGN;
    return (lines + parts - 1) / parts * PART_ALIGN;
}

static uint32_t own_process(const struct nccl_rank *rank)
{
    return rank->tower / rank->group->here.count;
}

static uint32_t own_number(const struct nccl_rank *rank)
{
    return rank->tower - rank->group->here.first;
}

/* The slice of tower `number` of each process. */
static struct part slice_of(const struct nccl_rank *rank, size_t count, uint32_t number)
{
    return part_of(count, rank->group->here.count, number);
}

/* The part of that slice that tower `number` of process `process` sums, from the begin of the range. */
static struct part sum_part(const struct nccl_rank *rank, size_t count, uint32_t number, uint32_t process)
{
    const struct part slice = slice_of(rank, count, number);
    const struct part part = part_of(slice.count, rank->group->processes, process);
    return (struct part){ slice.begin + part.begin, part.count };
}

/* ---- memory ---- */

static void *advanced(void *values, enum value_type type, size_t count)
{
    return (char *)values + count * value_bytes(type);
}

/* Floats of the longest piece that is summed, in whole lines; 0: none is. */
static size_t longest_piece(const struct buckets *buckets)
{
    size_t most = 0;
    for (uint32_t b = 0; b < buckets->count; b++)
        if (buckets->bucket[b].use == BUCKET_REDUCE_SCATTER && buckets->bucket[b].piece > most)
            most = buckets->bucket[b].piece;
    return part_most(most, 1);
}

/* The longest bucket that is summed in pairs; 0: none is. */
static size_t longest(const struct nccl_group *group, const struct buckets *buckets, bool has_bf16_grads)
{
    size_t most = 0;
    for (uint32_t b = 0; b < buckets->count; b++) {
        const struct bucket *const bucket = &buckets->bucket[b];
        const bool is_bf16 = has_bf16_grads && bucket->region == REGION_GRADIENTS;
        if (is_in_pairs(group, bucket, is_bf16) && bucket->count > most)
            most = bucket->count;
    }
    return most;
}

/* The lengths of a tower's memory, which is not there yet. */
static struct nccl_exchange plan_exchange(const struct nccl_group *group, const struct buckets *buckets,
                                          bool has_bf16_grads)
{
    struct nccl_exchange exchange = { .memory = NULL };
    const size_t most = longest(group, buckets, has_bf16_grads);
    const bool is_remote = group->processes > 1;
    exchange.piece_most = longest_piece(buckets);
    exchange.bytes = exchange.piece_most * sizeof(float) *
                     ((size_t)(group->here.count + group->own_count) * group->processes + group->term_count);
    if (most == 0)
        return exchange;
    exchange.slice_most = part_most(most, group->here.count);
    exchange.part_most = part_most(exchange.slice_most, group->processes);
    exchange.slices = group->here.count + (is_remote ? group->own_count : 0);
    const size_t parts = 1 + (is_remote ? group->term_count : 0);
    const size_t bytes = (exchange.slices * exchange.slice_most + parts * exchange.part_most) * sizeof(float);
    exchange.bytes = bytes > exchange.bytes ? bytes : exchange.bytes;
    return exchange;
}

size_t nccl_exchange_bytes(const struct nccl_group *group, const struct buckets *buckets, bool has_bf16_grads)
{
    return plan_exchange(group, buckets, has_bf16_grads).bytes;
}

int nccl_exchange_open(struct nccl_rank *rank)
{
    struct nccl_exchange *const exchange = &rank->exchange;
    struct device *const device = rank->member.device;
    *exchange = plan_exchange(rank->group, &rank->buckets, rank->member.bf16_grads != NULL);
    if (exchange->bytes == 0)
        return 0;
    const int rc = device->ops->alloc(device, exchange->bytes, &exchange->memory);
    if (rc != 0)
        return rc;
    exchange->local = exchange->memory;
    exchange->result = exchange->local + exchange->slices * exchange->slice_most;
    exchange->sums = exchange->local + rank->group->here.count * exchange->slice_most;
    exchange->received = exchange->result + exchange->part_most;
    return 0;
}

void nccl_exchange_close(struct nccl_rank *rank)
{
    if (rank->exchange.memory != NULL)
        rank->member.device->ops->free(rank->member.device, rank->exchange.memory);
}

/* This tower's slice of the numbers of tower `number` of this process. */
static struct operand tower_slice(const struct nccl_rank *rank, const struct nccl_range *range, uint32_t number)
{
    if (number != own_number(rank))
        return (struct operand){ rank->exchange.local + number * rank->exchange.slice_most, range->type };
    return (struct operand){ advanced(range->values, range->type, slice_of(rank, range->count, number).begin),
                             range->type };
}

/* This tower's slice of a term of this process. */
static struct operand term_slice(const struct nccl_rank *rank, const struct nccl_range *range, uint32_t term)
{
    const struct term *const of = &rank->group->terms[term];
    if (of->count == 1)
        return tower_slice(rank, range, of->first - rank->group->here.first);
    return (struct operand){ rank->exchange.sums + (term - rank->group->own_first) * rank->exchange.slice_most,
                             VALUE_FP32 };
}

/* This tower's part of a term of any process. */
static struct operand term_part(const struct nccl_rank *rank, const struct nccl_range *range, uint32_t term)
{
    const struct term *const of = &rank->group->terms[term];
    if (of->rank != own_process(rank))
        return (struct operand){ rank->exchange.received + term * rank->exchange.part_most,
                                 of->count == 1 ? range->type : VALUE_FP32 };
    const struct operand slice = term_slice(rank, range, term);
    const size_t begin = sum_part(rank, range->count, own_number(rank), own_process(rank)).begin -
                         slice_of(rank, range->count, own_number(rank)).begin;
    return (struct operand){ advanced(slice.values, slice.type, begin), slice.type };
}

/* The address at which this tower's part of the sum is written. */
static void *sum_at(const struct nccl_rank *rank, const struct nccl_range *range)
{
    const struct part part = sum_part(rank, range->count, own_number(rank), own_process(rank));
    const bool is_kept = range->bucket->use == BUCKET_ALL_REDUCE || range->bucket->owner == rank->tower;
    return is_kept ? advanced(range->values, range->type, part.begin) : rank->exchange.result;
}

/* ---- messages ---- */

static cudaStream_t stream_of(const struct nccl_rank *rank)
{
    return cuda_stream_of(rank->member.communication);
}

static ncclDataType_t nccl_type_of(enum value_type type)
{
    return type == VALUE_BF16 ? ncclBfloat16 : ncclFloat32;
}

static int post_send(const struct nccl_rank *rank, uint32_t tower, const void *values, enum value_type type,
                     size_t count)
{
    return count == 0 ? 0 : NCCL_CALL(nccl_rank_name(rank), ncclSend(values, count, nccl_type_of(type), (int)tower,
                                                                     rank->comm, stream_of(rank)));
}

static int post_receive(const struct nccl_rank *rank, uint32_t tower, void *values, enum value_type type, size_t count)
{
    return count == 0 ? 0 : NCCL_CALL(nccl_rank_name(rank), ncclRecv(values, count, nccl_type_of(type), (int)tower,
                                                                     rank->comm, stream_of(rank)));
}

/* Send and receive parts of the range itself. */
static int exchange_parts(const struct nccl_rank *rank, const struct nccl_range *range, uint32_t tower,
                          struct part sent, struct part received)
{
    const int rc = post_send(rank, tower, advanced(range->values, range->type, sent.begin), range->type, sent.count);
    return rc != 0 ? rc : post_receive(rank, tower, advanced(range->values, range->type, received.begin), range->type,
                                       received.count);
}

/* The towers of this process send each other their slices. */
static int scatter_slices(struct nccl_rank *rank, const struct nccl_range *range)
{
    const struct tower_range here = rank->group->here;
    const size_t mine = slice_of(rank, range->count, own_number(rank)).count;
    int rc = 0;
    for (uint32_t other = 0; other < here.count && rc == 0; other++) {
        const struct part slice = slice_of(rank, range->count, other);
        if (other == own_number(rank))
            continue;
        rc = post_send(rank, here.first + other, advanced(range->values, range->type, slice.begin), range->type,
                       slice.count);
        if (rc == 0)
            rc = post_receive(rank, here.first + other, tower_slice(rank, range, other).values, range->type, mine);
    }
    return rc;
}

/* Send a tower of another process its part of a term of this process. */
static int send_term(const struct nccl_rank *rank, const struct nccl_range *range, uint32_t term, uint32_t process)
{
    const uint32_t number = own_number(rank);
    const struct operand slice = term_slice(rank, range, term);
    const struct part part = sum_part(rank, range->count, number, process);
    const size_t begin = part.begin - slice_of(rank, range->count, number).begin;
    return post_send(rank, process * rank->group->here.count + number, advanced(slice.values, slice.type, begin),
                     slice.type, part.count);
}

/* Towers with the same number in their processes send each other parts of their terms. */
static int scatter_terms(struct nccl_rank *rank, const struct nccl_range *range)
{
    const struct nccl_group *const group = rank->group;
    const uint32_t own = own_process(rank), number = own_number(rank);
    const size_t mine = sum_part(rank, range->count, number, own).count;
    int rc = 0;
    for (uint32_t term = 0; term < group->term_count && rc == 0; term++) {
        const uint32_t process = group->terms[term].rank;
        const struct operand part = term_part(rank, range, term);
        for (uint32_t other = 0; other < group->processes && process == own && rc == 0; other++)
            if (other != own)
                rc = send_term(rank, range, term, other);
        if (process != own)
            rc = post_receive(rank, process * group->here.count + number, part.values, part.type, mine);
    }
    return rc;
}

/* Towers with the same number send each other their parts of the sum. */
static int gather_parts(struct nccl_rank *rank, const struct nccl_range *range)
{
    const struct nccl_group *const group = rank->group;
    const uint32_t own = own_process(rank), number = own_number(rank);
    int rc = 0;
    for (uint32_t other = 0; other < group->processes && rc == 0; other++)
        if (other != own)
            rc = exchange_parts(rank, range, other * group->here.count + number,
                                sum_part(rank, range->count, number, own), sum_part(rank, range->count, number, other));
    return rc;
}

/* The towers of this process send each other their slices of the sum. */
static int gather_slices(struct nccl_rank *rank, const struct nccl_range *range)
{
    const struct tower_range here = rank->group->here;
    int rc = 0;
    for (uint32_t other = 0; other < here.count && rc == 0; other++)
        if (other != own_number(rank))
            rc = exchange_parts(rank, range, here.first + other, slice_of(rank, range->count, own_number(rank)),
                                slice_of(rank, range->count, other));
    return rc;
}

/* Every tower sends its part of the sum to the owner. */
static int gather_for_owner(struct nccl_rank *rank, const struct nccl_range *range)
{
    const uint32_t own = own_process(rank), towers = rank->group->here.count, owner = range->bucket->owner;
    int rc = 0;
    if (owner != rank->tower)
        return post_send(rank, owner, sum_at(rank, range), range->type,
                         sum_part(rank, range->count, own_number(rank), own).count);
    for (uint32_t tower = 0; tower < rank->group->towers && rc == 0; tower++) {
        const struct part part = sum_part(rank, range->count, tower % towers, tower / towers);
        if (tower != owner)
            rc = post_receive(rank, tower, advanced(range->values, range->type, part.begin), range->type, part.count);
    }
    return rc;
}

typedef int (*message_round)(struct nccl_rank *rank, const struct nccl_range *range);

/* Queue the messages of a round, which NCCL sends and receives side by side. */
static int queue_round(struct nccl_rank *rank, const struct nccl_range *range, message_round post)
{
    int rc = nccl_keep_error(rank, NCCL_CALL(nccl_rank_name(rank), ncclGroupStart()));
    if (rc != 0)
        return rc;
    rc = post(rank, range);
    const int ended = RANK_CALL(rank, ncclGroupEnd());
    return nccl_keep_error(rank, rc != 0 ? rc : ended);
}

/* ---- additions ---- */

static void add_operand(struct sum_terms *terms, struct operand operand, uint32_t first, uint32_t towers)
{
    assert(terms->count < SUM_TERMS_MAX);
    terms->bf16 |= (uint64_t)(operand.type == VALUE_BF16) << terms->count;
    terms->values[terms->count] = operand.values;
    terms->first[terms->count] = (uint16_t)first;
    terms->towers[terms->count++] = (uint16_t)towers;
}

static int queue_addition(struct nccl_rank *rank, const struct sum_terms *terms, size_t count, enum value_type type,
                          void *into)
{
    return count == 0 ? 0 : nccl_keep_error(rank, CUDA_CALL(nccl_rank_name(rank),
                                                            kernel_sum_terms(stream_of(rank), terms, count, type, into)));
}

/* Add this tower's slice of the towers of a term of this process. */
static int add_towers(struct nccl_rank *rank, const struct nccl_range *range, const struct term *term,
                      enum value_type type, void *into)
{
    struct sum_terms towers = { .count = 0 };
    for (uint32_t i = 0; i < term->count; i++)
        add_operand(&towers, tower_slice(rank, range, term->first - rank->group->here.first + i), i, 1);
    return queue_addition(rank, &towers, slice_of(rank, range->count, own_number(rank)).count, type, into);
}

static int add_own_terms(struct nccl_rank *rank, const struct nccl_range *range)
{
    int rc = 0;
    for (uint32_t i = 0; i < rank->group->term_count && rc == 0; i++) {
        const struct term *const term = &rank->group->terms[i];
        if (term->rank == own_process(rank) && term->count > 1)
            rc = add_towers(rank, range, term, VALUE_FP32, term_slice(rank, range, i).values);
    }
    return rc;
}

/* Add this tower's part of the terms of all processes. */
static int add_all_terms(struct nccl_rank *rank, const struct nccl_range *range)
{
    struct sum_terms terms = { .count = 0 };
    for (uint32_t i = 0; i < rank->group->term_count; i++)
        add_operand(&terms, term_part(rank, range, i), rank->group->terms[i].first, rank->group->terms[i].count);
    return queue_addition(rank, &terms, sum_part(rank, range->count, own_number(rank), own_process(rank)).count,
                          range->type, sum_at(rank, range));
}

/* ---- pieces ---- */

static uint32_t tower_of(const struct nccl_rank *rank, uint32_t process, uint32_t number)
{
    return process * rank->group->here.count + number;
}

/* The piece of a tower of the run. */
static struct part piece_of(const struct nccl_rank *rank, const struct nccl_range *range, uint32_t tower)
{
    const size_t piece = range->count / rank->group->towers;    /* shorter while warming up */
    return (struct part){ tower * piece, piece };
}

/* Towers with the same number send each other their pieces. */
static int gather_from_processes(struct nccl_rank *rank, const struct nccl_range *range)
{
    int rc = 0;
    for (uint32_t process = 0; process < rank->group->processes && rc == 0; process++) {
        const uint32_t other = tower_of(rank, process, own_number(rank));
        if (process != own_process(rank))
            rc = exchange_parts(rank, range, other, piece_of(rank, range, rank->tower), piece_of(rank, range, other));
    }
    return rc;
}

/* The towers of this process send each other the pieces that they have from all processes. */
static int gather_from_towers(struct nccl_rank *rank, const struct nccl_range *range)
{
    const struct tower_range here = rank->group->here;
    int rc = 0;
    for (uint32_t other = 0; other < here.count; other++)
        for (uint32_t process = 0; process < rank->group->processes && other != own_number(rank) && rc == 0; process++)
            rc = exchange_parts(rank, range, here.first + other,
                                piece_of(rank, range, tower_of(rank, process, own_number(rank))),
                                piece_of(rank, range, tower_of(rank, process, other)));
    return rc;
}

static int queue_gather_pieces(struct nccl_rank *rank, const struct nccl_range *range)
{
    const int rc = rank->group->processes > 1 ? queue_round(rank, range, gather_from_processes) : 0;
    return rc != 0 || rank->group->here.count == 1 ? rc : queue_round(rank, range, gather_from_towers);
}

/* Memory for pieces: [here.count][processes] of the towers of this process and [own_count][processes] of its terms, for
 * the towers with this tower's number in all processes; then [term_count] of the terms of all, for this tower. */
static float *pieces_at(const struct nccl_rank *rank, size_t number)
{
    return (float *)rank->exchange.memory + number * rank->exchange.piece_most;
}

static float *tower_pieces(const struct nccl_rank *rank, uint32_t number)
{
    return pieces_at(rank, (size_t)number * rank->group->processes);
}

/* Of a term of this process: those of a tower, or their sum. */
static float *term_pieces(const struct nccl_rank *rank, uint32_t term)
{
    const struct nccl_group *const group = rank->group;
    const struct term *const of = &group->terms[term];
    return of->count == 1 ? tower_pieces(rank, of->first - group->here.first)
                          : tower_pieces(rank, group->here.count + term - group->own_first);
}

static float *own_piece_of_term(const struct nccl_rank *rank, uint32_t term)
{
    const struct nccl_group *const group = rank->group;
    if (group->terms[term].rank == own_process(rank))
        return term_pieces(rank, term) + own_process(rank) * rank->exchange.piece_most;
    return pieces_at(rank, (size_t)(group->here.count + group->own_count) * group->processes + term);
}

/* The towers of this process send each other their numbers, for the towers with the other's number. */
static int scatter_to_towers(struct nccl_rank *rank, const struct nccl_range *range)
{
    const struct nccl_group *const group = rank->group;
    int rc = 0;
    for (uint32_t other = 0; other < group->here.count; other++)
        for (uint32_t process = 0; process < group->processes && other != own_number(rank) && rc == 0; process++) {
            const struct part piece = piece_of(rank, range, tower_of(rank, process, other));
            rc = post_send(rank, group->here.first + other, (const float *)range->values + piece.begin, VALUE_FP32,
                           piece.count);
            if (rc == 0)
                rc = post_receive(rank, group->here.first + other,
                                  tower_pieces(rank, other) + process * rank->exchange.piece_most, VALUE_FP32,
                                  piece.count);
        }
    return rc;
}

/* Kernels that add need aligned memory, and pieces of a bucket may begin anywhere. */
static int copy_own_pieces(struct nccl_rank *rank, const struct nccl_range *range)
{
    struct stream *const stream = rank->member.communication;
    int rc = 0;
    for (uint32_t process = 0; process < rank->group->processes && rc == 0; process++) {
        const struct part piece = piece_of(rank, range, tower_of(rank, process, own_number(rank)));
        rc = stream->device->ops->copy(stream, tower_pieces(rank, own_number(rank)) + process * rank->exchange.piece_most,
                                       (float *)range->values + piece.begin, piece.count * sizeof(float),
                                       COPY_ON_DEVICE);
    }
    return rc;
}

static int add_pieces_of_terms(struct nccl_rank *rank)
{
    const struct nccl_group *const group = rank->group;
    int rc = 0;
    for (uint32_t i = group->own_first; i < group->own_first + group->own_count && rc == 0; i++) {
        const struct term *const term = &group->terms[i];
        struct sum_terms towers = { .count = 0 };
        for (uint32_t t = 0; t < term->count; t++) {
            float *const pieces = tower_pieces(rank, term->first - group->here.first + t);
            add_operand(&towers, (struct operand){ pieces, VALUE_FP32 }, t, 1);
        }
        if (term->count > 1)
            rc = queue_addition(rank, &towers, group->processes * rank->exchange.piece_most, VALUE_FP32,
                                term_pieces(rank, i));
    }
    return rc;
}

/* Towers with the same number send each other their pieces of the terms. */
static int scatter_to_processes(struct nccl_rank *rank, const struct nccl_range *range)
{
    const struct nccl_group *const group = rank->group;
    const size_t count = piece_of(rank, range, rank->tower).count;
    int rc = 0;
    for (uint32_t term = 0; term < group->term_count && rc == 0; term++) {
        const uint32_t process = group->terms[term].rank;
        const bool is_own = process == own_process(rank);
        for (uint32_t other = 0; other < group->processes && is_own && rc == 0; other++)
            if (other != process)
                rc = post_send(rank, tower_of(rank, other, own_number(rank)),
                               term_pieces(rank, term) + other * rank->exchange.piece_most, VALUE_FP32, count);
        if (!is_own)
            rc = post_receive(rank, tower_of(rank, process, own_number(rank)), own_piece_of_term(rank, term), VALUE_FP32,
                              count);
    }
    return rc;
}

/* Add this tower's piece of the terms of all processes. */
static int add_pieces(struct nccl_rank *rank, const struct nccl_range *range)
{
    struct stream *const stream = rank->member.communication;
    const struct nccl_group *const group = rank->group;
    const struct part piece = piece_of(rank, range, rank->tower);
    struct sum_terms terms = { .count = 0 };
    for (uint32_t i = 0; i < group->term_count; i++)
        add_operand(&terms, (struct operand){ own_piece_of_term(rank, i), VALUE_FP32 }, group->terms[i].first,
                    group->terms[i].count);
    float *const sum = own_piece_of_term(rank, 0);
    const int rc = terms.count > 1 ? queue_addition(rank, &terms, piece.count, VALUE_FP32, sum) : 0;
    return rc != 0 ? rc : stream->device->ops->copy(stream, (float *)range->values + piece.begin, sum,
                                                    piece.count * sizeof(float), COPY_ON_DEVICE);
}

static int queue_scatter_pieces(struct nccl_rank *rank, const struct nccl_range *range)
{
    if (range->count == 0)
        return 0;
    int rc = rank->group->here.count > 1 ? queue_round(rank, range, scatter_to_towers) : 0;
    if (rc == 0)
        rc = copy_own_pieces(rank, range);
    if (rc == 0)
        rc = add_pieces_of_terms(rank);
    if (rc == 0 && rank->group->processes > 1)
        rc = queue_round(rank, range, scatter_to_processes);
    return rc != 0 ? rc : add_pieces(rank, range);
}

/* ---- all together ---- */

static int queue_scatter(struct nccl_rank *rank, const struct nccl_range *range)
{
    int rc = rank->group->here.count > 1 ? queue_round(rank, range, scatter_slices) : 0;
    if (rc != 0 || rank->group->processes == 1)
        return rc != 0 ? rc : add_towers(rank, range, &rank->group->terms[0], range->type, sum_at(rank, range));
    rc = add_own_terms(rank, range);
    if (rc == 0)
        rc = queue_round(rank, range, scatter_terms);
    return rc != 0 ? rc : add_all_terms(rank, range);
}

static int queue_gather(struct nccl_rank *rank, const struct nccl_range *range)
{
    if (range->bucket->use == BUCKET_REDUCE)
        return queue_round(rank, range, gather_for_owner);
    const int rc = rank->group->processes > 1 ? queue_round(rank, range, gather_parts) : 0;
    return rc != 0 || rank->group->here.count == 1 ? rc : queue_round(rank, range, gather_slices);
}

int nccl_exchange_queue(struct nccl_rank *rank, const struct bucket *bucket, void *values, size_t count)
{
    const struct nccl_range range = { bucket, values, count, nccl_is_bf16(rank, bucket) ? VALUE_BF16 : VALUE_FP32 };
    if (bucket->use == BUCKET_ALL_GATHER)
        return queue_gather_pieces(rank, &range);
    if (bucket->use == BUCKET_REDUCE_SCATTER)
        return queue_scatter_pieces(rank, &range);
    const int rc = queue_scatter(rank, &range);
    return rc != 0 ? rc : queue_gather(rank, &range);
}
