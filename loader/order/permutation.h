/* A keyed permutation of [0, n): a Feistel network over the next power of two, with cycle
 * walking (Black, Rogaway 2002, "Ciphers with arbitrary finite domains"). O(1) memory, any
 * place at once, in both directions. */
#ifndef PIPETRAIN_PERMUTATION_H
#define PIPETRAIN_PERMUTATION_H

#include <stdint.h>

#include "stage/random.h"

#define PERMUTATION_ROUNDS 8

/* A value: copies are as good as the original. */
struct permutation {
    uint64_t count;
    uint32_t low_bits;                  /* of a position; the rest are its high bits */
    uint64_t low_mask, high_mask;
    uint64_t round_keys[PERMUTATION_ROUNDS];
};

/* Number `number` < 2^60 of the permutations of `count` < 2^63 values that a key has. */
void permutation_init(struct permutation *permutation, uint64_t count, struct random_key key, uint64_t number);
/* The value at `position` < count. A bijection. */
uint64_t permutation_value(const struct permutation *permutation, uint64_t position);
/* The position that `value` < count is at. */
uint64_t permutation_position(const struct permutation *permutation, uint64_t value);

#endif
