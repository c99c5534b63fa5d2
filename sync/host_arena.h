/* A tower's arenas in memory that the host can read and write: the arenas themselves if device memory is host memory,
 * otherwise copies in pinned memory. */
#ifndef PIPETRAIN_HOST_ARENA_H
#define PIPETRAIN_HOST_ARENA_H

#include "sync/reduce.h"

struct host_arena {
    float *floats[REGION_COUNT];        /* NULL: the member does not have the region */
    uint16_t *bf16_grads;                   /* bf16 gradients, instead of floats[REGION_GRADIENTS]; NULL: fp32 */
    struct device *pinned_by;           /* NULL: these are the arenas themselves */
    bool rounds_sums;                   /* of bf16 gradients: every sum of two is rounded to bf16, not only the last one */
};

/* Open the host arenas of the member (lent). `rounds_sums` is reduce_rounds_sums. 0 or a negative errno; call host_arena_close after success or failure.
 * Called by the tower's thread. */
int host_arena_open(struct host_arena *arena, const struct reduce_member *member, bool rounds_sums);
/* Accepts a struct of zeros. */
void host_arena_close(const struct host_arena *arena);

/* Sum the floats [begin, end) of a region over `towers` arenas in pairs (stage/pairwise.h), and write the sums to the
 * arenas of the towers `into`. bf16 gradients are summed as fp32 and rounded once, or with rounds_sums after each
 * addition. In the calling thread. */
void host_arenas_sum(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                     struct tower_range into);
/* Write the sums of host_arenas_sum, rounded in the same way, to sums_out[begin .. end). */
void host_arenas_sum_to(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                        float *sums_out);

/* Write the sums of host_arenas_sum before the last rounding, unless rounds_sums, to sums_out[0 .. end - begin). */
void host_arenas_add(const struct host_arena *arenas, uint32_t towers, enum region region, size_t begin, size_t end,
                     float *sums_out);

/* The same of bf16 gradients with rounds_sums, as bf16. */
void host_arenas_add_bf16(const struct host_arena *arenas, uint32_t towers, size_t begin, size_t end,
                          uint16_t *sums_out);

/* Queue a copy of the bucket's range from the device to the host arena, on the member's communication stream, or back,
 * on `stream`. Does nothing if both are the same memory. 0 or a negative errno. */
int host_arena_copy_in(const struct host_arena *arena, const struct reduce_member *member, const struct bucket *bucket);
int host_arena_copy_out(const struct host_arena *arena, const struct reduce_member *member,
                        const struct bucket *bucket, struct stream *stream);

#endif
