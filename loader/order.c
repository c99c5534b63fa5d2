/* The order of records in an epoch. Called by the cursor once per window and by readers for every record; the keys are
 * the only state. */
#include "loader/order.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define RECORDS_MAX (UINT64_C(1) << 62)
/* The number of the permutation of blocks; windows have their own numbers. */
#define BLOCKS_NUMBER (UINT64_C(1) << 59)
/* The number of the permutation of the first class's records. */
#define CLASSES_NUMBER (UINT64_C(1) << 58)
/* With fewer bits there are too few different round functions to shuffle tiny data sets well. */
#define BITS_MIN 4u
#define MIXING_SAMPLES 4096u

/* ---- permutations ---- */

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

/* The high half of the product depends on every bit of `half` and `key`. */
static inline uint64_t round_value(uint64_t half, uint64_t key)
{
    const uint64_t product = (half ^ key) * UINT64_C(0x9e3779b97f4a7c15);
    return (product ^ product >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 32;
}

/* One permutation of [0, 2^bits): a Feistel network, in which each half is alternately changed by a function of the
 * other half. */
static inline uint64_t mix(const struct permutation *permutation, uint64_t value)
{
    uint64_t low = value & permutation->low_mask, high = value >> permutation->low_bits;
    for (uint32_t round = 0; round < PERMUTATION_ROUNDS; round += 2) {
        high ^= round_value(low, permutation->round_keys[round]) & permutation->high_mask;
        low ^= round_value(high, permutation->round_keys[round + 1]) & permutation->low_mask;
    }
    return high << permutation->low_bits | low;
}

/* The inverse of mix. */
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

/* ---- classes ---- */

/* The number of labels from 0 to the highest one. */
static uint32_t label_count(const int32_t *labels, uint64_t count)
{
    int32_t highest = -1;
    for (uint64_t i = 0; i < count; i++)
        highest = labels[i] > highest ? labels[i] : highest;
    return (uint32_t)(highest + 1);
}

/* Turn the counts of all labels into the firsts of those that have records; places[label] becomes where its next record
 * goes. */
static uint32_t find_firsts(uint64_t *firsts, uint64_t *places, uint32_t labels)
{
    uint32_t count = 0;
    uint64_t first = 0;
    for (uint32_t label = 0; label < labels; label++) {
        const uint64_t records = places[label];
        places[label] = first;
        if (records == 0)
            continue;
        firsts[count++] = first;
        first += records;
    }
    firsts[count] = first;
    return count;
}

int order_classes_make(struct order_classes *classes_out, const int32_t *labels, uint64_t count)
{
    const uint32_t label_max = label_count(labels, count);
    uint64_t *const places = calloc((size_t)label_max + 1, sizeof(*places));
    struct order_classes classes = { .firsts = calloc((size_t)label_max + 1, sizeof(*classes.firsts)),
                                     .records = calloc(count + 1, sizeof(*classes.records)) };
    const bool has_room = places != NULL && classes.firsts != NULL && classes.records != NULL;
    for (uint64_t i = 0; i < count && has_room; i++)
        if (labels[i] >= 0)
            places[labels[i]]++;
    classes.count = has_room ? find_firsts(classes.firsts, places, label_max) : 0;
    for (uint64_t i = 0; i < count && has_room; i++)
        if (labels[i] >= 0)
            classes.records[places[labels[i]]++] = i;
    free(places);
    if (classes.count == 0)
        order_classes_release(&classes);
    *classes_out = classes;
    return !has_room ? -ENOMEM : classes.count == 0 ? -ENODATA : 0;
}

void order_classes_release(struct order_classes *classes)
{
    free(classes->firsts);
    free(classes->records);
    *classes = (struct order_classes){ .count = 0 };
}

/* The first offset of class `k` in a balanced order. */
static uint64_t class_start(const struct order_shape *shape, uint64_t k)
{
    const __uint128_t product = (__uint128_t)k * shape->count;
    return (uint64_t)((product + shape->classes->count - 1) / shape->classes->count);
}

static uint64_t balanced_record(const struct order *order, uint64_t offset)
{
    const struct order_classes *const classes = order->shape.classes;
    const uint64_t k = (uint64_t)((__uint128_t)offset * classes->count / order->shape.count);
    const uint64_t first = classes->firsts[k], records = classes->firsts[k + 1] - first;
    struct permutation permutation;
    permutation_init(&permutation, records, order->key, CLASSES_NUMBER + k);
    return classes->records[first + permutation_value(&permutation, (offset - class_start(&order->shape, k)) % records)];
}

/* ---- blocks and windows ---- */

uint64_t order_shape_blocks(const struct order_shape *shape)
{
    return shape->count / shape->block_records + (shape->count % shape->block_records != 0);
}

/* The size of the data set's last block. */
static uint64_t short_records(const struct order_shape *shape)
{
    const uint64_t rest = shape->count % shape->block_records;
    return rest > 0 ? rest : shape->block_records;
}

/* The number of records before block number `place` in the permuted order of blocks. */
static uint64_t place_start(const struct order *order, uint64_t place)
{
    const struct order_shape *const shape = &order->shape;
    const uint64_t before = place * shape->block_records;
    return place > order->short_place ? before - (shape->block_records - short_records(shape)) : before;
}

/* The place, in the permuted order of blocks, of the block that contains `position`. */
static uint64_t place_find(const struct order *order, uint64_t position)
{
    const struct order_shape *const shape = &order->shape;
    const uint64_t shorter = short_records(shape);
    if (position < order->short_place * shape->block_records + shorter)
        return position / shape->block_records;
    return (position + (shape->block_records - shorter)) / shape->block_records;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void order_init(struct order *order, const struct order_shape *shape, uint64_t seed, uint32_t epoch)
{
    assert(shape->count < RECORDS_MAX && (shape->classes == NULL || shape->shuffle == SHUFFLE_FULL));
    *order = (struct order){ .shape = *shape, .key = random_key(seed, RANDOM_ORDER, epoch) };
    if (shape->shuffle != SHUFFLE_BLOCK || shape->count == 0)
        return;
    assert(shape->block_records - 1 < RECORDS_MAX && shape->window_blocks - 1 < RECORDS_MAX);
    const uint64_t blocks = order_shape_blocks(shape);
    permutation_init(&order->blocks, blocks, order->key, BLOCKS_NUMBER);
    order->short_place = permutation_position(&order->blocks, blocks - 1);
}

static void find_window(struct order *order, uint64_t position)
{
    const struct order_shape *const shape = &order->shape;
    const uint64_t blocks = order_shape_blocks(shape);
    const uint64_t number = place_find(order, position) / shape->window_blocks;
    const uint64_t place = number * shape->window_blocks;
    order->window.number = number;
    order->window.first = place_start(order, place);
    order->window.count = place_start(order, place + least(shape->window_blocks, blocks - place)) - order->window.first;
}

void order_enter(struct order *order, uint64_t position)
{
    assert(position < order->shape.count);
    order->window.count = order->shape.count;
    if (order->shape.shuffle == SHUFFLE_BLOCK)
        find_window(order, position);
    if (order->shape.shuffle != SHUFFLE_NONE)
        permutation_init(&order->window.records, order->window.count, order->key, order->window.number);
}

uint64_t order_offset(const struct order *order, uint64_t position)
{
    assert(order_holds(order, position));
    const uint64_t offset = position - order->window.first;
    return order->shape.shuffle == SHUFFLE_NONE ? offset : permutation_value(&order->window.records, offset);
}

uint64_t order_record_at(const struct order *order, uint64_t offset)
{
    if (order->shape.classes != NULL)
        return balanced_record(order, offset);
    if (order->shape.shuffle != SHUFFLE_BLOCK)
        return offset;
    const uint64_t position = order->window.first + offset;
    const uint64_t place = place_find(order, position);
    return permutation_value(&order->blocks, place) * order->shape.block_records + position - place_start(order, place);
}

uint64_t order_window_blocks(const struct order *order)
{
    const uint64_t first = order->window.number * order->shape.window_blocks;
    return least(order->shape.window_blocks, order_shape_blocks(&order->shape) - first);
}

struct order_block order_block(const struct order *order, uint64_t i)
{
    const uint64_t place = order->window.number * order->shape.window_blocks + i;
    return (struct order_block){
        .first_record = permutation_value(&order->blocks, place) * order->shape.block_records,
        .count = place_start(order, place + 1) - place_start(order, place),
        .offset = place_start(order, place) - order->window.first,
    };
}

/* ---- a measure of mixing ---- */

static uint64_t record_at(struct order *order, uint64_t position)
{
    if (!order_holds(order, position))
        order_enter(order, position);
    return order_record(order, position);
}

static double distance_at(struct order *order, uint64_t position)
{
    const uint64_t a = record_at(order, position), b = record_at(order, position + 1);
    return a > b ? (double)(a - b) : (double)(b - a);
}

double order_mixing(const struct order_shape *shape, uint64_t seed)
{
    if (shape->count < 2)
        return 1;
    struct order order;
    order_init(&order, shape, seed, 0);
    const uint64_t pairs = shape->count - 1, samples = pairs < MIXING_SAMPLES ? pairs : MIXING_SAMPLES;
    double sum = 0;
    for (uint64_t i = 0; i < samples; i++)
        sum += distance_at(&order, (uint64_t)((double)i * ((double)pairs / (double)samples)));
    return sum / (double)samples / (((double)shape->count + 1) / 3);
}
