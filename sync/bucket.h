/* Buckets: arenas of a tower cut into ranges that are summed over towers as wholes. Cuts lie on
 * parameter boundaries, in arena order (of gradients the order in which backward fills it), and
 * cover what is updated: frozen parameters are the same in all towers. */
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
    REGION_STATISTICS = REGION_STATES + OPTIMIZER_STATES_MAX,
    REGION_AVERAGED_STATISTICS,
    REGION_COUNT
};

#define REGION_BUCKETS_MAX 256u
#define BUCKETS_MAX (REGION_COUNT * REGION_BUCKETS_MAX)

struct bucket { enum region region; size_t offset, count; };    /* floats of the region's arena */
struct bucket_run { uint32_t first, count; };
struct buckets {
    uint32_t count;
    struct bucket bucket[BUCKETS_MAX];
    struct bucket_run of[REGION_COUNT];         /* each region's, in arena order */
};

/* Append a region's buckets: of at least bucket_bytes each but for the last (a parameter is never
 * cut); larger ones when there would be more than REGION_BUCKETS_MAX. At least one. */
void buckets_add(struct buckets *buckets, enum region region, const struct arena *arena, size_t bucket_bytes);
/* Append a region of `count` floats as one bucket. */
void buckets_add_whole(struct buckets *buckets, enum region region, size_t count);

#endif
