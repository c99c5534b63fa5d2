/* Buckets: arenas of a tower cut into ranges that are summed over towers, or sent to them, as wholes. Cuts lie
 * on parameter boundaries, in arena order (of gradients the order in which backward fills it), and cover what
 * is updated: frozen parameters are the same in all towers. */
#ifndef PIPETRAIN_BUCKET_H
#define PIPETRAIN_BUCKET_H

#include "compute/arena.h"
#include "compute/optimizer.h"

/* The arenas of a tower that can be summed over towers. */
enum region {
    REGION_GRADIENTS,
    REGION_WEIGHTS,
    REGION_AVERAGES,            /* of weights */
    REGION_STATES,              /* of the optimizer: the first of OPTIMIZER_STATES_MAX */
    REGION_DEFERRED = REGION_STATES + OPTIMIZER_STATES_MAX,     /* sums of gradients that are applied a step later */
    REGION_STATISTICS,
    REGION_AVERAGED_STATISTICS,
    REGION_COUNT
};

#define REGION_BUCKETS_MAX 256u
#define BUCKET_OWNERS_MAX 256u  /* towers */
#define BUCKETS_MAX (REGION_COUNT * REGION_BUCKETS_MAX)

/* What becomes of a bucket when all towers have started it. */
enum bucket_use {
    BUCKET_ALL_REDUCE,          /* every tower has the sum over towers */
    BUCKET_REDUCE,              /* its owner has the sum; the other towers' arenas stay as they are */
    BUCKET_BROADCAST,           /* every tower has what its owner brought */
    /* Where there is a server (server/server.h), which needs norms or not: */
    BUCKET_SERVE,               /* gradients: it has the sum, and, unless it updates apart, the updated weights */
    BUCKET_SQUARE,              /* of weights: it has the norms of what it has summed */
    BUCKET_UPDATE,              /* weights: every tower has the updated ones */
    BUCKET_FETCH                /* every tower has what the server has of the region */
};

struct bucket {
    enum region region;
    size_t offset, count;       /* floats of the region's arena */
    enum bucket_use use;
    uint32_t owner;             /* a tower, where it is reduced or broadcast */
};
struct bucket_run { uint32_t first, count; };
struct buckets {
    uint32_t count;
    struct bucket bucket[BUCKETS_MAX];
    struct bucket_run of[REGION_COUNT];         /* each region's, in arena order */
};

#define BUCKET_AUTO ((size_t)0) /* bytes */

/* Append a region's buckets: of at least bucket_bytes each but for the last (a parameter is never
 * cut); larger ones when there would be more than REGION_BUCKETS_MAX. At least one. BUCKET_AUTO: one for
 * all that is no more than 2 MiB; else the first of at least 1 MiB, so that a reduction begins early, and
 * each of at least twice what the one before had to have, up to 16 MiB, because every reduction costs some
 * time that does not depend on its size. */
void buckets_add(struct buckets *buckets, enum region region, const struct arena *arena, size_t bucket_bytes);
/* Append a region of `count` floats as one bucket. */
void buckets_add_whole(struct buckets *buckets, enum region region, size_t count, enum bucket_use use);
/* A region's buckets become of that use. */
void buckets_set_use(struct buckets *buckets, enum region region, enum bucket_use use);
/* A region's buckets get owners, each the tower that has least until then (the first of equals), and are reduced for
 * them. The same for every tower. */
void buckets_share_out(struct buckets *buckets, enum region region, uint32_t towers);
/* Append buckets of `region` that lie as those of region `as` do, and are broadcast by the same owners. */
void buckets_add_broadcast(struct buckets *buckets, enum region region, enum region as);

#endif
