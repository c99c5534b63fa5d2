/* Random numbers of one sample: blocks of four words of a counter-based generator. The key is (seed, epoch), the
 * counter (position in the epoch, use). */
#ifndef PIPETRAIN_DRAW_H
#define PIPETRAIN_DRAW_H

#include <stdint.h>

#include "loader/images/image.h"
#include "stage/random.h"

/* Each use has a block of random words; from DRAW_CROP on, each attempt of a crop has one. */
enum draw_use { DRAW_FLIP, DRAW_COLOUR, DRAW_CROP };

/* Uses of a second set of blocks, for which the last word of the counter is DRAW_OPERATIONS. From DRAW_POLICY on, each
 * operation of automatic augmentation has a block, from DRAW_BOX on each attempt of a box to erase. */
enum operation_use { DRAW_TURN, DRAW_POLICY, DRAW_ERASE = DRAW_POLICY + POLICY_OPERATIONS_MAX, DRAW_BOX };
#define DRAW_OPERATIONS 2u

struct draw { uint32_t word[4]; };

static inline struct draw draw_make(const struct augment *augment, const struct image_request *request, uint32_t use)
{
    const struct random_key key = random_key(augment->seed, RANDOM_AUGMENT, request->epoch);
    struct draw draw = { { (uint32_t)request->position, (uint32_t)(request->position >> 32), use, 0 } };
    random_mix(key, draw.word);
    return draw;
}

static inline struct draw draw_operation(const struct augment *augment, const struct image_request *request,
                                         uint32_t use)
{
    const struct random_key key = random_key(augment->seed, RANDOM_AUGMENT, request->epoch);
    struct draw draw = { { (uint32_t)request->position, (uint32_t)(request->position >> 32), use, DRAW_OPERATIONS } };
    random_mix(key, draw.word);
    return draw;
}

/* A uniform number in [low, high). */
static inline double draw_uniform(uint32_t word, double low, double high)
{
    return low + (high - low) * (word * 0x1p-32);
}

/* A uniform number of 0 ... count - 1, count >= 1. */
static inline uint32_t draw_below(uint32_t word, uint32_t count)
{
    return (uint32_t)((uint64_t)word * count >> 32);
}

#endif
