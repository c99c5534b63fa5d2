/* Where a tower's arenas are for the host: the arenas themselves, or pinned memory that stands for them where the
 * device's memory is its own. */
#ifndef PIPETRAIN_PLACE_H
#define PIPETRAIN_PLACE_H

#include "sync/reduce.h"

struct place {
    float *floats[REGION_COUNT];        /* NULL: not brought */
    uint16_t *bf16_grads;               /* what is brought instead of gradients; NULL: gradients are */
    struct device *pinned_by;           /* NULL: the arenas themselves */
};

/* For what the member brings, which is lent. 0 or a negative errno; place_close after either. From the tower's
 * thread. */
int place_open(struct place *place, const struct reduce_member *member);
/* Accepts one that is all 0. */
void place_close(const struct place *place);

/* [begin, end) of a region, in the calling thread. What the towers `into` have there becomes the sums over `towers`
 * places, in their order; of halves, too, summed as floats and rounded once. */
void places_sum(const struct place *places, uint32_t towers, enum region region, size_t begin, size_t end,
                struct tower_range into);
/* sums_out[begin .. end) become the same sums, rounded as those. */
void places_sum_into(const struct place *places, uint32_t towers, enum region region, size_t begin, size_t end,
                     float *sums_out);

/* Queue a copy of the bucket's range between the member's arena and its place, on the communication stream: nothing
 * where these are one. 0 or a negative errno. */
int place_queue_bring(const struct place *place, const struct reduce_member *member, const struct bucket *bucket);
int place_queue_take(const struct place *place, const struct reduce_member *member, const struct bucket *bucket);

#endif
