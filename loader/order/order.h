/* The order of records in an epoch, computed, not stored: a pure function of what the set looks
 * like, the seed and the epoch. O(1) memory.
 *
 * full   one keyed permutation of all records
 * none   as stored
 * block  for what is read well only in large pieces. Records are cut into blocks, runs of
 *        block_records as they are stored (the last one may be shorter). A keyed permutation puts the
 *        blocks in an order. Every window_blocks of them in that order are a window, and the records of
 *        a window are permuted by a permutation of its own. One window after the other is used up,
 *        so that no more than the blocks of a window need to be at hand.
 *
 * The other two orders are one window as large as the set. */
#ifndef PIPETRAIN_ORDER_H
#define PIPETRAIN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "loader/order/permutation.h"

enum shuffle { SHUFFLE_NONE, SHUFFLE_FULL, SHUFFLE_BLOCK };

/* What the orders of all epochs have in common. */
struct order_shape {
    enum shuffle shuffle;
    uint64_t count;             /* of records, < 2^62 */
    uint64_t block_records, window_blocks;      /* each in [1, 2^62); of SHUFFLE_BLOCK only */
};

/* A value: copies are as good as the original. */
struct order {
    struct order_shape shape;
    struct random_key key;
    struct permutation blocks;  /* of SHUFFLE_BLOCK: which block stands at a place */
    uint64_t short_place;       /* of the last block as stored, the one that may be shorter */
    struct {
        uint64_t number;        /* in the epoch */
        uint64_t first, count;  /* positions; 0 records until one is entered */
        struct permutation records;
    } window;
};

/* A block as the window holds it: its records one behind the other from `offset` on. */
struct order_block { uint64_t first_record, count, offset; };

/* The order of `epoch`, with no window entered. */
void order_init(struct order *order, const struct order_shape *shape, uint64_t seed, uint32_t epoch);
/* From now on it gives the records of the window that holds `position` < count. */
void order_enter(struct order *order, uint64_t position);
static inline bool order_holds(const struct order *order, uint64_t position)
{
    return position - order->window.first < order->window.count;
}

/* Where in the window's blocks, laid one behind the other, the record at `position` of the window lies: a
 * bijection to [0, window.count). */
uint64_t order_offset(const struct order *order, uint64_t position);
/* The record that lies there. */
uint64_t order_record_at(const struct order *order, uint64_t offset);
/* The record at `position` of the window. Over the windows of an epoch a bijection. */
static inline uint64_t order_record(const struct order *order, uint64_t position)
{
    return order_record_at(order, order_offset(order, position));
}

/* Of SHUFFLE_BLOCK: the blocks of the set, of the window, and block `i` of the window. */
uint64_t order_shape_blocks(const struct order_shape *shape);
uint64_t order_window_blocks(const struct order *order);
struct order_block order_block(const struct order *order, uint64_t i);

#endif
