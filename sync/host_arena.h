/* A tower's arenas as the host can read and write them: the arenas themselves where device memory is the host's, else
 * copies in pinned memory. */
#ifndef PIPETRAIN_HOST_ARENA_H
#define PIPETRAIN_HOST_ARENA_H

#include "sync/reduce.h"

struct host_arena {
    float *floats[REGION_COUNT];        /* NULL: the member does not have the region */
    uint16_t *bf16_grads;                   /* used instead of the gradients' floats with bf16; NULL: fp32 */
    struct device *pinned_by;           /* NULL: the arenas themselves */
};

/* For the regions of the member, which is lent. 0 or a negative errno; host_arena_close after success or failure. From
 * the tower's thread. */
int host_arena_open(struct host_arena *arena, const struct reduce_member *member);
/* Accepts one that is all 0. */
void host_arena_close(const struct host_arena *arena);

/* Sum the floats [begin, end) of a region over `towers` arenas in pairs (stage/pairwise.h), and write the sums to the
 * arenas of the towers `into`. bf16 gradients are summed as fp32 and rounded once. In the calling thread. */
void host_arenas_sum(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                     struct tower_range into);
/* The same sums, rounded alike, written to sums_out[begin .. end). */
void host_arenas_sum_to(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                        float *sums_out);

/* The same sums before they are rounded, written to sums_out[0 .. end - begin). */
void host_arenas_add(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                     float *sums_out);

/* Queue, on the member's communication stream, a copy of the bucket's range from the device to the host arena, or back.
 * Does nothing where they are the same memory. 0 or a negative errno. */
int host_arena_copy_in(const struct host_arena *arena, const struct reduce_member *member, const struct bucket *bucket);
int host_arena_copy_out(const struct host_arena *arena, const struct reduce_member *member,
                        const struct bucket *bucket);

#endif
