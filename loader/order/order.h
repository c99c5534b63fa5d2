/* The order of records in an epoch, computed, not stored: a keyed permutation of
 * [0, n) (a Feistel network over the next power of two, with cycle walking; Black,
 * Rogaway 2002, "Ciphers with arbitrary finite domains"). O(1) memory. */
#ifndef PIPETRAIN_ORDER_H
#define PIPETRAIN_ORDER_H

#include <stdint.h>

#define ORDER_ROUNDS 8

enum shuffle { SHUFFLE_NONE, SHUFFLE_FULL };

/* A value: copies are as good as the original. */
struct order {
    enum shuffle shuffle;
    uint64_t count;
    uint32_t low_bits;                  /* of a position; the rest are its high bits */
    uint64_t low_mask, high_mask;
    uint64_t round_keys[ORDER_ROUNDS];
};

/* The order of `count` < 2^63 records in `epoch`. */
void order_init(struct order *order, enum shuffle shuffle, uint64_t count, uint64_t seed, uint32_t epoch);
/* The record at `position` < count. A bijection. */
uint64_t order_record(const struct order *order, uint64_t position);

#endif
