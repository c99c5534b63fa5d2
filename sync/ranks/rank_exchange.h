/* Internals of the sums between ranks, shared by reduce_ranks.c (opening, the shares of towers), exchange_layout.c (terms,
 * parts and where they are in memory) and rank_exchange.c (messages, sums, the job of a communication thread). */
#ifndef PIPETRAIN_RANK_EXCHANGE_H
#define PIPETRAIN_RANK_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>

#include "sync/host_arena.h"
#include "sync/ranks/rank_memory.h"
#include "sync/ranks/ranks.h"
#include "sync/rendezvous.h"
#include "sync/term.h"

#define PART_ALIGN 32u          /* in floats: parts do not split a cache line of bf16 sums */

/* The part of a bucket that a rank sums, in floats from the begin of the bucket. */
struct part { size_t begin, count; };

/* With groups of ranks (ranks_reduce.group) ranks of a group first sum a slice of the bucket each, and at the end send each
 * other the sums of their slices. In between every rank exchanges its slice with the ranks that have the same position
 * in other groups. */
enum exchange_round { GROUP_SCATTER, REDUCE_SCATTER, ALL_GATHER, GROUP_GATHER, ROUNDS };

/* The ranks first, first + stride, ... that exchange something in a round. */
struct circle { uint32_t first, stride, count; };

/* Tags of messages: rank_memory_connect uses CONNECT_TAG and the one after it, each round of each bucket one of the
 * following. */
#define CONNECT_TAG RANKS_TAG_FREE
#define EXCHANGE_TAG (CONNECT_TAG + 2)

/* The messages of a round in one direction. They begin and complete in a fixed order; at most FLIGHT_MESSAGES are in
 * flight. */
enum direction { RECEIVING, SENDING, DIRECTIONS };
#define FLIGHT_MESSAGES 16u
struct flight { struct mpi_request request; uint32_t rank; size_t bytes; };
struct flow {
    uint32_t transfer;                  /* the next message is of this transfer, or one after it, */
    size_t at;                          /* and begins at this byte of its data */
    size_t longest;                     /* bytes of the longest transfer */
    uint32_t begun, completed;          /* messages; message n uses flights[n % FLIGHT_MESSAGES] */
    size_t flight_bytes;
    struct flight flights[FLIGHT_MESSAGES];
};

/* The exchange of a bucket. While it is in progress, the towers may stage the next one: a tower that does not own the
 * bucket does not wait for the end of a BUCKET_REDUCE, only for the broadcast of new weights that follows. */
struct exchange {
    struct ranks_job job;
    struct ranks_reduce *reduce;
    uint32_t bucket;
    enum exchange_round round;
    bool is_begun;                      /* the messages of the round are in flight */
    bool is_waiting;                    /* between ranks_begin_wait and ranks_end_wait */
    struct flow flows[DIRECTIONS];
    atomic_uint staged_count;           /* towers of this process whose share is staged */
    atomic_uint submitted_count;        /* exchanges that are staged and not finished */
    uint64_t number;                    /* number of the current or next exchange of the bucket, from 1 */
    uint64_t batches[2];                /* of exchange n: batches[n % 2]; set when its shares are staged */
    struct trace_track *track;          /* NULL: not recorded */
    uint64_t begun_ns;                  /* of the round, if there is a track */
    /* This rank's part of the terms of ranks that do not share their memory; with BUCKET_BROADCAST the owner's values.
     * */
    char *received;
};

/* A rank's shared memory begins with counters for each bucket: the number of the latest exchange in which the rank has
 * reached each round, so that others may read its terms, or its sums; with BUCKET_BROADCAST reached[ALL_GATHER] is the
 * latest of which the owner's values are staged, or another rank has copied them. The copies of all buckets follow. */
struct counters { atomic_uint_fast64_t reached[ROUNDS]; };

/* The terms of a rank, which are consecutive. */
struct rank_terms { uint32_t first, count; };

struct ranks_reduce {
    struct rendezvous rendezvous;       /* of the towers of this process */
    struct ranks *ranks;
    struct tower_range here;
    uint32_t run;                       /* towers of the run */
    struct host_arena *arenas;          /* [tower]; each opened by its tower before it joins */
    struct term *terms;                 /* of all ranks, in the order of additions */
    uint32_t term_count, terms_most;    /* terms_most: of one rank */
    struct rank_terms *terms_of;        /* [rank] */
    /* So many neighbouring ranks are near each other: they sum first, and send together what one rank would send. A power
     * of two; then every rank has one term, and every group is one term, too. 1: there are no groups. */
    uint32_t group;
    struct term *group_terms;           /* [group]; `rank` is the one in the position of this rank */
    bool has_bf16_grads;
    bool rounds_sums;                   /* of bf16 gradients, after every addition (reduce_rounds_sums) */
    size_t *floats_before;              /* [rank * buckets.count + bucket]: of the buckets before it in a rank's memory */
    struct rank_memory *memory;
    pthread_mutex_t connecting;         /* held by a communication thread that connects the memory */
    atomic_bool is_connected;
    struct device *pinned_by;           /* pins the memory; NULL: device memory is host memory */
    bool *is_pinned, is_received_pinned;        /* [rank]: the memory of this rank; guarded by `pinning` */
    pthread_mutex_t pinning;
    struct exchange *exchanges;         /* [bucket] */
    struct trace_track *tracks[REDUCE_TRACKS_MAX];      /* of the first exchanges; NULL: not recorded */
    char *received;                     /* the memory for `received` of all exchanges, whole pages */
    size_t received_bytes;
};

/* ---- exchange_layout.c: terms, parts and buffers ---- */

/* Find the terms of all ranks, in the order of additions. */
void layout_find_terms(struct ranks_reduce *reduce);
struct rank_terms layout_own_terms(const struct ranks_reduce *reduce);
/* The term that contains a tower of the run. */
const struct term *layout_term_with(const struct ranks_reduce *reduce, uint32_t tower);
/* Is it the rank of the tower that owns the bucket? */
bool layout_is_owners(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank);
/* The part of the bucket of which the tower of this process, numbered from 0, gets the result. */
struct part layout_wanted(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t tower);
/* The numbers that are in both parts. */
struct part part_in_both(struct part a, struct part b);
/* The part of the bucket that the rank sums. */
struct part layout_part(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank);
/* Is the bucket summed by groups first? Buckets with owners are not. */
bool layout_is_grouped(const struct ranks_reduce *reduce, const struct bucket *bucket);
/* The ranks that have the result in the end, and the part of it that this process gets from each of them. */
struct circle layout_result_ranks(const struct ranks_reduce *reduce, const struct bucket *bucket);
struct part layout_result_part(const struct ranks_reduce *reduce, const struct bucket *bucket, uint32_t rank);
bool layout_is_bf16(const struct ranks_reduce *reduce, const struct bucket *bucket);
/* Bytes of a number in a term, and in the sums. bf16 gradients are sent unchanged. Sums of several towers are fp32, and
 * rounded to bf16 only when all towers are added, except with rounds_sums. */
size_t layout_term_size(const struct ranks_reduce *reduce, const struct bucket *bucket, const struct term *term);
size_t layout_sum_size(const struct ranks_reduce *reduce, const struct bucket *bucket);
/* Do this rank and `rank` read each other's memory? They also wake each other when there is something to read. */
bool layout_shares(const struct ranks_reduce *reduce, uint32_t rank);

/* Bytes of the counters at the begin of a rank's memory. */
size_t layout_counters_bytes(const struct ranks_reduce *reduce);
/* Floats in the buffers of this rank's memory. */
size_t layout_shared_floats(const struct ranks_reduce *reduce, const struct buckets *buckets, bool has_bf16_grads);
/* Floats that this rank receives if no rank shares its memory: pages that are not written use no memory. */
size_t layout_received_floats(const struct ranks_reduce *reduce, const struct bucket *bucket);
/* Find where the buckets are in the memory of all ranks. */
void layout_place_buckets(struct ranks_reduce *reduce);

const struct bucket *exchange_bucket(const struct exchange *exchange);
/* The ranks of the current round, this one included. */
struct circle exchange_circle(const struct exchange *exchange);
/* The part of the bucket that the rank sums or has summed in the current round. */
struct part exchange_part(const struct exchange *exchange, uint32_t rank);
/* Are terms sent and summed in the current round, not sums? */
bool exchange_sends_terms(const struct exchange *exchange);
/* The terms that are sent and summed in the current round, in the order of additions, those of a rank, and the towers in
 * all of them. */
const struct term *exchange_terms(const struct exchange *exchange);
struct rank_terms exchange_terms_of(const struct exchange *exchange, uint32_t rank);
uint32_t exchange_towers(const struct exchange *exchange);
/* The counters of the bucket in the memory of a rank. */
struct counters *exchange_counters(const struct exchange *exchange, uint32_t rank);
/* Buffer `buffer` of exchange `number` in the memory of a rank. */
char *exchange_buffer(const struct exchange *exchange, uint32_t rank, uint32_t buffer, uint64_t number);
char *exchange_staged_term(const struct exchange *exchange, const struct term *term, uint64_t number);
/* The address at which this rank's part of a term is received as a message. */
char *exchange_received_term(const struct exchange *exchange, const struct term *term);
/* The sums in the memory of a rank; with BUCKET_BROADCAST the owner's values, which other ranks have only as
 * `received`. */
char *exchange_sums(const struct exchange *exchange, uint32_t rank, uint64_t number);
/* The memory in which this process reads the part of the sums that `rank` has summed. */
char *exchange_sums_at(const struct exchange *exchange, uint32_t rank, uint64_t number);

/* ---- exchange_messages.c: the messages of a round ---- */

/* Begin the messages of the round with all ranks that do not share their memory with this one. 0 or an error of the MPI
 * library. */
int exchange_begin_messages(struct exchange *exchange);
/* Complete messages and begin others; sets job.has_moved. Returns 1 when all are complete, 0 before, or negative an
 * error of the MPI library. */
int exchange_advance_messages(struct exchange *exchange);
/* The rank with which the earliest message that is in flight is exchanged. */
uint32_t exchange_awaited(const struct exchange *exchange);
/* Are messages in flight? */
bool exchange_has_messages(const struct exchange *exchange);

/* ---- rank_exchange.c: the exchange of a bucket, in a communication thread ---- */

/* ranks_job.advance of an exchange. */
int exchange_advance(struct ranks_job *job);
/* The round in which an exchange begins. */
enum exchange_round exchange_first_round(const struct exchange *exchange);

#endif
