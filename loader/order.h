/* The order of records in an epoch. It is computed, not stored: a pure function of the data set's size, the seed and
 * the epoch, in O(1) memory.
 * full   a keyed permutation of all records
 * none   as stored
 * block  for storage that is fast only with large reads. The data set is divided into blocks of block_records
 *        consecutive records (the last block may be shorter), and a keyed permutation orders the blocks. window_blocks
 *        successive blocks in this order are a window, whose records have a permutation of their own. Windows are used
 *        one after another, so only the blocks of one window need to be in memory.
 *
 * full and none are one window as large as the data set.
 *
 * A block order may consist of G lanes, for runs of several processes that shall read each record only once between
 * them. Every batch is divided into G parts (batch_part_find), and part g has records of lane g only, in every epoch. The
 * blocks in the order of one more permutation, which depends on the seed but not on the epoch, are laid end to end: a
 * sequence of all records. With T complete batches of B records an epoch, c_g the size of part g of such a batch, and
 * l_g of the last, incomplete one, lane g is the next T * c_g + l_g records of that sequence. Its blocks, of which the
 * first and the last one may have only some of their records in the lane, are permuted and divided into windows as
 * above, and sample i of part g of batch t is place t * c_g + i of this order.
 *
 * A balanced order is a full one in which offsets are shared out to the K classes that have records: class k has
 * those from ceil(k * count / K) to ceil((k + 1) * count / K). The j-th offset of a class is record j mod n of a
 * keyed permutation, of this epoch, of its n records. So every class occurs count / K times, rounded down or up; how
 * often two records of a class occur in an epoch differs by at most 1; and of a class with more records than that,
 * every epoch uses other ones. */
#ifndef PIPETRAIN_ORDER_H
#define PIPETRAIN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "stage/random.h"

#define PERMUTATION_ROUNDS 8

/* A keyed permutation of [0, count): a Feistel network over the next power of two, with cycle walking (Black, Rogaway
 * 2002, "Ciphers with arbitrary finite domains"). Any position can be computed by itself, in both directions. */
struct permutation {
    uint64_t count;
    uint32_t low_bits;                  /* number of low bits of a position; the others are the high bits */
    uint64_t low_mask, high_mask;
    uint64_t round_keys[PERMUTATION_ROUNDS];
};

/* Initialise permutation `number` < 2^60 of the key, with `count` < 2^63 values. */
void permutation_init(struct permutation *permutation, uint64_t count, struct random_key key, uint64_t number);
/* The value at `position` < count. */
uint64_t permutation_value(const struct permutation *permutation, uint64_t position);
/* The position of `value` < count. */
uint64_t permutation_position(const struct permutation *permutation, uint64_t value);

enum shuffle { SHUFFLE_NONE, SHUFFLE_FULL, SHUFFLE_BLOCK };

/* The records by class, for an order in which all classes occur equally often. */
struct order_classes {
    uint32_t count;             /* classes that have records */
    uint64_t *firsts;           /* [count + 1]: the index in `records` at which the records of each class begin */
    uint64_t *records;          /* ids, ascending within a class */
};
/* Sort the records by their labels: labels[id] of `count` records; a record with a negative label is in no class. 0,
 * -ENOMEM, or -ENODATA if all labels are negative. order_classes_release accepts a struct of zeros. */
int order_classes_make(struct order_classes *classes_out, const int32_t *labels, uint64_t count);
void order_classes_release(struct order_classes *classes);

/* The part of an order that does not depend on the epoch. */
struct order_shape {
    enum shuffle shuffle;
    uint64_t count;             /* number of records, < 2^62 */
    uint64_t block_records, window_blocks;      /* each in [1, 2^62); only used with SHUFFLE_BLOCK */
    const struct order_classes *classes;        /* SHUFFLE_FULL: the order is balanced; lent; NULL: it is not */
    struct {
        uint32_t count;         /* SHUFFLE_BLOCK: number of lanes, at most `count`; 0 or 1: the whole set is one */
        uint32_t batch;         /* with several lanes: records of a complete batch, >= 1 */
        bool pairs;             /* with several lanes: batches are divided in pairs (batch_part_find) */
    } lanes;
};

/* The number of lanes, at least 1, and of records in lane `lane`. */
static inline uint32_t order_lanes(const struct order_shape *shape)
{
    return shape->lanes.count > 1 ? shape->lanes.count : 1;
}
uint64_t order_lane_records(const struct order_shape *shape, uint32_t lane);

/* Where a position of an epoch is in a lane. */
struct order_place {
    uint32_t lane;
    uint64_t place;             /* < order_lane_records; the position itself if there is one lane */
    uint64_t left;              /* number of positions from this one on that are at successive places of the lane */
};
/* The place of `position` < shape->count. O(1). */
struct order_place order_place_find(const struct order_shape *shape, uint64_t position);

/* A row of blocks of block_records records each, a few of which are shorter. */
#define ORDER_SHORT_MAX 3u      /* the first and the last block of a lane, and the last of the data set */
struct order_row {
    uint64_t block_records;
    struct { uint64_t place, missing; } shorts[ORDER_SHORT_MAX];        /* ascending places; 0 < missing <
                                                                         * block_records */
    uint32_t short_count;
};

/* The order of a lane in an epoch. An order may be copied. */
struct order {
    struct order_shape shape;
    struct random_key key;
    uint32_t lane;
    uint64_t count;             /* number of places: the lane's records */
    struct permutation laid;    /* several lanes: the permutation of all blocks that lanes are parts of */
    uint64_t first_block, block_count;  /* SHUFFLE_BLOCK: the lane's blocks, in the order of `laid` */
    uint64_t skipped;           /* SHUFFLE_BLOCK: number of records at the start of its first block that are not in the
                                 * lane */
    struct permutation blocks;  /* SHUFFLE_BLOCK: the permutation from place to block of the lane */
    struct order_row row;       /* SHUFFLE_BLOCK: the lane's blocks by place */
    struct {
        uint64_t number;        /* number of the window in the epoch */
        uint64_t first, count;  /* range of places; count is 0 until order_enter */
        struct permutation records;
    } window;
};

/* A block of a window, or the part of it that is in the lane. `offset` is the number of records before it when the
 * window's blocks are put one after another. */
struct order_block { uint64_t first_record, count, offset; };

/* Initialise the order of a lane < order_lanes in `epoch`. No window is entered yet. */
void order_init(struct order *order, const struct order_shape *shape, uint32_t lane, uint64_t seed, uint32_t epoch);
/* Enter the window that contains `place` < order->count. */
void order_enter(struct order *order, uint64_t place);
/* Is `place` in the window? */
static inline bool order_holds(const struct order *order, uint64_t place)
{
    return place - order->window.first < order->window.count;
}

/* The offset of the record at `place` of the window, when the window's blocks are put one after another: a bijection to
 * [0, window.count). */
uint64_t order_offset(const struct order *order, uint64_t place);
/* The record at this offset. */
uint64_t order_record_at(const struct order *order, uint64_t offset);
/* The record at `place` of the window. A bijection over the windows of an epoch, unless the order is balanced. */
static inline uint64_t order_record(const struct order *order, uint64_t place)
{
    return order_record_at(order, order_offset(order, place));
}

/* SHUFFLE_BLOCK: the number of blocks of the lane that has the most of them, at least 1. A window of more blocks would be
 * the whole lane, too. shape->window_blocks is not used. */
uint64_t order_lane_blocks_max(const struct order_shape *shape, uint64_t seed);
/* SHUFFLE_BLOCK: the number of blocks in the set and in the window, and block `i` of the window. */
uint64_t order_shape_blocks(const struct order_shape *shape);
uint64_t order_window_blocks(const struct order *order);
struct order_block order_block(const struct order *order, uint64_t i);
/* SHUFFLE_BLOCK: the block of the window that has the record at this offset. */
uint64_t order_block_with(const struct order *order, uint64_t offset);
/* SHUFFLE_BLOCK: block `i` < order->block_count of the lane, in an order that does not depend on the epoch. */
struct order_block order_lane_block(const struct order *order, uint64_t i);

/* The record at `position` < shape->count of an epoch. It finds the lane and its window again for every call. */
uint64_t order_find(const struct order_shape *shape, uint64_t seed, uint32_t epoch, uint64_t position);

/* A position whose record is trained on together with that at `position` < shape->count - 1: the next one; with several
 * lanes another one of the same batch, drawn at random, as neighbours in a batch are from one lane. */
uint64_t order_neighbour(const struct order_shape *shape, uint64_t seed, uint64_t position);
/* How well the first epoch's order with this seed is shuffled: the mean distance, in stored records, between the record
 * at a position and that at its order_neighbour, divided by its value for a random order, (count + 1) / 3. About 1 for
 * SHUFFLE_FULL, 1 - 1 / W for windows of W blocks of many, near 0 for the stored order. Estimated from a sample, to
 * within some hundredths; 1 for a single record. */
double order_mixing(const struct order_shape *shape, uint64_t seed);

#endif
