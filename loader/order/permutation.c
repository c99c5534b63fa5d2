/* Keyed permutations. Called for every record, by readers, and once for every epoch and window,
 * so they hold no state but their keys. */
#include "loader/order/permutation.h"

#include <assert.h>

/* Fewer bits leave too few different round functions for good orders of tiny sets. */
#define BITS_MIN 4u

static uint32_t bits_needed(uint64_t count)
{
    uint32_t bits = BITS_MIN;
    while ((UINT64_C(1) << bits) < count)
        bits++;
    return bits;
}

void permutation_init(struct permutation *permutation, uint64_t count, struct random_key key, uint64_t number)
{
    assert(count < UINT64_C(1) << 63);
    const uint32_t bits = bits_needed(count);
    permutation->count = count;
    permutation->low_bits = bits / 2;
    permutation->low_mask = (UINT64_C(1) << permutation->low_bits) - 1;
    permutation->high_mask = (UINT64_C(1) << (bits - permutation->low_bits)) - 1;
    for (uint32_t round = 0; round < PERMUTATION_ROUNDS; round++)
        permutation->round_keys[round] = random_u64(key, number * PERMUTATION_ROUNDS + round);
}

/* The high half of the product depends on every bit of half and key. */
static inline uint64_t round_value(uint64_t half, uint64_t key)
{
    const uint64_t product = (half ^ key) * UINT64_C(0x9e3779b97f4a7c15);
    return (product ^ product >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 32;
}

/* One permutation of [0, 2^bits): the halves take turns to be changed by the other. */
static inline uint64_t mix(const struct permutation *permutation, uint64_t value)
{
    uint64_t low = value & permutation->low_mask, high = value >> permutation->low_bits;
    for (uint32_t round = 0; round < PERMUTATION_ROUNDS; round += 2) {
        high ^= round_value(low, permutation->round_keys[round]) & permutation->high_mask;
        low ^= round_value(high, permutation->round_keys[round + 1]) & permutation->low_mask;
    }
    return high << permutation->low_bits | low;
}

/* The changes taken back, the last one first. */
static inline uint64_t unmix(const struct permutation *permutation, uint64_t value)
{
    uint64_t low = value & permutation->low_mask, high = value >> permutation->low_bits;
    for (uint32_t round = PERMUTATION_ROUNDS; round > 0; round -= 2) {
        low ^= round_value(high, permutation->round_keys[round - 1]) & permutation->low_mask;
        high ^= round_value(low, permutation->round_keys[round - 2]) & permutation->high_mask;
    }
    return high << permutation->low_bits | low;
}

uint64_t permutation_value(const struct permutation *permutation, uint64_t position)
{
    assert(position < permutation->count);
    uint64_t value = position;
    do
        value = mix(permutation, value);
    while (value >= permutation->count);
    return value;
}

uint64_t permutation_position(const struct permutation *permutation, uint64_t value)
{
    assert(value < permutation->count);
    uint64_t position = value;
    do
        position = unmix(permutation, position);
    while (position >= permutation->count);
    return position;
}
