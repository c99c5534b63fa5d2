/* The order of records in an epoch as a keyed permutation. Called by the cursor once
 * per epoch and by readers for every record, so it holds no state but its keys. */
#include "loader/order/order.h"

#include <assert.h>

#include "stage/random.h"

/* Fewer bits leave too few different round functions for good orders of tiny sets. */
#define BITS_MIN 4u

static uint32_t bits_needed(uint64_t count)
{
    uint32_t bits = BITS_MIN;
    while ((UINT64_C(1) << bits) < count)
        bits++;
    return bits;
}

void order_init(struct order *order, enum shuffle shuffle, uint64_t count, uint64_t seed, uint32_t epoch)
{
    assert(count < UINT64_C(1) << 63);
    const uint32_t bits = bits_needed(count);
    const struct random_key key = random_key(seed, RANDOM_ORDER, epoch);
    order->shuffle = shuffle;
    order->count = count;
    order->low_bits = bits / 2;
    order->low_mask = (UINT64_C(1) << order->low_bits) - 1;
    order->high_mask = (UINT64_C(1) << (bits - order->low_bits)) - 1;
    for (uint32_t round = 0; round < ORDER_ROUNDS; round++)
        order->round_keys[round] = random_u64(key, round);
}

/* The high half of the product depends on every bit of half and key. */
static inline uint64_t round_value(uint64_t half, uint64_t key)
{
    const uint64_t product = (half ^ key) * UINT64_C(0x9e3779b97f4a7c15);
    return (product ^ product >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 32;
}

/* One permutation of [0, 2^bits): the halves take turns to be changed by the other. */
static inline uint64_t permute(const struct order *order, uint64_t value)
{
    uint64_t low = value & order->low_mask, high = value >> order->low_bits;
    for (uint32_t round = 0; round < ORDER_ROUNDS; round += 2) {
        high ^= round_value(low, order->round_keys[round]) & order->high_mask;
        low ^= round_value(high, order->round_keys[round + 1]) & order->low_mask;
    }
    return high << order->low_bits | low;
}

uint64_t order_record(const struct order *order, uint64_t position)
{
    assert(position < order->count);
    if (order->shuffle == SHUFFLE_NONE)
        return position;
    uint64_t value = position;
    do
        value = permute(order, value);
    while (value >= order->count);
    return value;
}
