/* Buckets: ranges of a tower's arenas that are reduced over towers, or sent to them, as a whole. Buckets of parameters
 * never split one, are in arena order (for gradients the order in which backward computes them), and cover all updated
 * parameters that every tower has; frozen parameters are equal in all towers. */
#ifndef PIPETRAIN_BUCKET_H
#define PIPETRAIN_BUCKET_H

#include "compute/arena.h"
#include "compute/optimizer.h"

/* The arenas of a tower that can be summed over towers. */
enum region {
    REGION_GRADIENTS,
    REGION_WEIGHTS,
    REGION_AVERAGES,            /* moving averages of weights (train.ema) */
    REGION_STATES,              /* the first of OPTIMIZER_STATES_MAX states of the optimizer */
    REGION_DEFERRED = REGION_STATES + OPTIMIZER_STATES_MAX,     /* sums of gradients, applied a step later */
    REGION_STATISTICS,
    REGION_AVERAGED_STATISTICS,
    REGION_OUTSIDE,             /* what the plans of a share of a net read from each other (compute/head.h) */
    REGION_COUNT
};

#define REGION_BUCKETS_MAX 256u
#define BUCKETS_MAX (REGION_COUNT * REGION_BUCKETS_MAX)

/* The operation that is executed on a bucket when all towers have started it. */
enum bucket_use {
    BUCKET_ALL_REDUCE,          /* every tower gets the sum over towers */
    BUCKET_REDUCE,              /* its owner gets the sum; the other towers' arenas do not change */
    BUCKET_BROADCAST,           /* every tower gets a copy of the owner's values */
    /* The bucket consists of as many pieces of equal length as there are towers, in their order: */
    BUCKET_ALL_GATHER,          /* every tower gets a copy of every tower's values of its own piece */
    BUCKET_REDUCE_SCATTER,      /* every tower gets the sum over towers of its own piece; the rest of its bucket does not
                                 * change */
    /* With a parameter server (server.h): */
    /* Gradients: the server gets the sum and, unless server_updates_apart, updates the weights. */
    BUCKET_SERVE,
    BUCKET_SQUARE,              /* the server computes the norms of the sums */
    BUCKET_UPDATE,              /* weights: the server updates them, and every tower gets the new weights */
    BUCKET_FETCH                /* every tower gets a copy of the server's values of the region */
};

struct bucket {
    enum region region;
    size_t offset, count;       /* floats of the region's arena */
    enum bucket_use use;
    uint32_t owner;             /* a tower, for BUCKET_REDUCE and BUCKET_BROADCAST */
    size_t piece;               /* floats of a piece, for BUCKET_ALL_GATHER and BUCKET_REDUCE_SCATTER; otherwise 0 */
};
struct bucket_run { uint32_t first, count; };
/* The buckets of gradients come first: bucket b of the gradients is bucket[b]. */
struct buckets {
    uint32_t count;
    struct bucket bucket[BUCKETS_MAX];
    struct bucket_run of[REGION_COUNT];         /* the buckets of each region, in arena order */
};

/* The pieces of `count` neighbouring towers from tower `first` on. */
static inline struct bucket bucket_pieces(const struct bucket *bucket, uint32_t first, uint32_t count)
{
    struct bucket pieces = *bucket;
    pieces.offset += first * bucket->piece;
    pieces.count = count * bucket->piece;
    return pieces;
}

#define BUCKET_AUTO ((size_t)0) /* bytes */

/* Append the buckets of a region, at least one. Each but the last has at least bucket_bytes, or more if there would be
 * more than REGION_BUCKETS_MAX. BUCKET_AUTO: one bucket for up to 2 MiB. For larger regions the minimum is 1 MiB for
 * the first bucket, so that reducing begins early, and doubles from bucket to bucket up to 16 MiB, because every
 * reduction has a fixed cost. */
void buckets_add(struct buckets *buckets, enum region region, const struct arena *arena, size_t bucket_bytes);
/* Append the bucket of an exchange between towers, with pieces of `piece` floats from `offset` of REGION_OUTSIDE on. */
void buckets_add_exchange(struct buckets *buckets, size_t offset, size_t piece, uint32_t towers, enum bucket_use use);
/* Append a region of `count` floats as one bucket. */
void buckets_add_whole(struct buckets *buckets, enum region region, size_t count, enum bucket_use use);
/* Assign owners to the buckets of gradients, for BUCKET_REDUCE: each bucket in turn to the tower that owns the least so
 * far, the first one of equals, so at most REGION_BUCKETS_MAX towers own any. The result is the same in every tower. */
void buckets_share_out(struct buckets *buckets, uint32_t towers);
/* Append buckets of `region` with the ranges and owners of the buckets of gradients, for BUCKET_BROADCAST. */
void buckets_add_broadcast(struct buckets *buckets, enum region region);

#endif
