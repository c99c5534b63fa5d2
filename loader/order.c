/* The order of records in an epoch. Called by the cursor once per window and by readers for every record; the keys are
 * the only state. */
#include "loader/order.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "stage/schedule.h"

#define RECORDS_MAX (UINT64_C(1) << 62)
/* The number of the permutation of the first lane's blocks; windows have their own numbers. */
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

/* ---- lanes ---- */

/* The number of records before those of lane `lane` <= lanes.count when the lanes are put one after another. */
static uint64_t lane_start(const struct order_shape *shape, uint32_t lane)
{
    const uint32_t batch = shape->lanes.batch, parts = order_lanes(shape);
    if (lane == 0 || lane == parts)
        return lane == 0 ? 0 : shape->count;
    const uint64_t rest = shape->count % batch;
    return shape->count / batch * batch_part_find(batch, shape->lanes.pairs, parts, lane).first
        + batch_part_find((uint32_t)rest, shape->lanes.pairs, parts, lane).first;
}

uint64_t order_lane_records(const struct order_shape *shape, uint32_t lane)
{
    return lane_start(shape, lane + 1) - lane_start(shape, lane);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct order_place order_place_find(const struct order_shape *shape, uint64_t position)
{
    assert(position < shape->count);
    const uint32_t parts = order_lanes(shape), batch = shape->lanes.batch;
    const bool pairs = shape->lanes.pairs;
    if (parts == 1)
        return (struct order_place){ 0, position, shape->count - position };
    const uint64_t number = position / batch;
    const uint32_t sample = (uint32_t)(position % batch);
    const uint32_t samples = (uint32_t)least(batch, shape->count - number * batch);
    const uint32_t lane = batch_part_with(samples, pairs, parts, sample);
    const struct batch_part part = batch_part_find(samples, pairs, parts, lane);
    const uint32_t in_part = sample - part.first;
    return (struct order_place){ lane, number * batch_part_find(batch, pairs, parts, lane).count + in_part,
                                 part.count - in_part };
}

/* ---- rows of blocks ---- */

/* `missing` records of the block at `place` are not in the row. */
static void row_shorten(struct order_row *row, uint64_t place, uint64_t missing)
{
    uint32_t i = row->short_count;
    while (i > 0 && row->shorts[i - 1].place > place)
        i--;
    if (missing == 0)
        return;
    if (i > 0 && row->shorts[i - 1].place == place) {
        row->shorts[i - 1].missing += missing;
        return;
    }
    assert(row->short_count < ORDER_SHORT_MAX);
    for (uint32_t j = row->short_count++; j > i; j--)
        row->shorts[j] = row->shorts[j - 1];
    row->shorts[i].place = place;
    row->shorts[i].missing = missing;
}

/* The number of records before block number `place` of the row. */
static uint64_t row_start(const struct order_row *row, uint64_t place)
{
    uint64_t start = place * row->block_records;
    for (uint32_t i = 0; i < row->short_count && row->shorts[i].place < place; i++)
        start -= row->shorts[i].missing;
    return start;
}

/* The place of the block with record number `position` of the row. */
static uint64_t row_find(const struct order_row *row, uint64_t position)
{
    uint64_t full = position;   /* the record's number if no block before it were shorter */
    for (uint32_t i = 0; i < row->short_count; i++) {
        const uint64_t end = (row->shorts[i].place + 1) * row->block_records - row->shorts[i].missing;
        if (full < end)
            break;
        full += row->shorts[i].missing;
    }
    return full / row->block_records;
}

/* ---- blocks and windows ---- */

uint64_t order_shape_blocks(const struct order_shape *shape)
{
    return shape->count / shape->block_records + (shape->count % shape->block_records != 0);
}

/* The number of records that the data set's last block has less than others. */
static uint64_t missing_records(const struct order_shape *shape)
{
    const uint64_t rest = shape->count % shape->block_records;
    return rest > 0 ? shape->block_records - rest : 0;
}

/* The number, in the data set, of block `place` in the sequence that lanes are parts of. */
static uint64_t laid_block(const struct order *order, uint64_t place)
{
    return order_lanes(&order->shape) > 1 ? permutation_value(&order->laid, place) : place;
}

/* Find the lane's blocks, and make the row of them by place in this epoch. */
static void find_blocks(struct order *order, uint64_t seed)
{
    const struct order_shape *const shape = &order->shape;
    const uint64_t blocks = order_shape_blocks(shape), start = lane_start(shape, order->lane);
    const bool has_lanes = order_lanes(shape) > 1;
    if (has_lanes)
        permutation_init(&order->laid, blocks, random_key(seed, RANDOM_LANES, 0), 0);
    const uint64_t shorter = has_lanes ? permutation_position(&order->laid, blocks - 1) : blocks - 1;
    struct order_row laid = { .block_records = shape->block_records };
    row_shorten(&laid, shorter, missing_records(shape));
    order->first_block = row_find(&laid, start);
    order->block_count = row_find(&laid, start + order->count - 1) + 1 - order->first_block;
    order->skipped = start - row_start(&laid, order->first_block);
    const uint64_t end = row_start(&laid, order->first_block + order->block_count);

    permutation_init(&order->blocks, order->block_count, order->key, BLOCKS_NUMBER + order->lane);
    order->row = (struct order_row){ .block_records = shape->block_records };
    row_shorten(&order->row, permutation_position(&order->blocks, 0), order->skipped);
    row_shorten(&order->row, permutation_position(&order->blocks, order->block_count - 1),
                end - (start + order->count));
    if (shorter - order->first_block < order->block_count)
        row_shorten(&order->row, permutation_position(&order->blocks, shorter - order->first_block),
                    missing_records(shape));
}

void order_init(struct order *order, const struct order_shape *shape, uint32_t lane, uint64_t seed, uint32_t epoch)
{
    assert(shape->count < RECORDS_MAX && (shape->classes == NULL || shape->shuffle == SHUFFLE_FULL));
    assert(lane < order_lanes(shape) && (shape->lanes.count <= 1 || shape->shuffle == SHUFFLE_BLOCK));
    *order = (struct order){ .shape = *shape, .key = random_key(seed, RANDOM_ORDER, epoch), .lane = lane,
                             .count = order_lane_records(shape, lane) };
    if (shape->shuffle != SHUFFLE_BLOCK || order->count == 0)
        return;
    assert(shape->block_records - 1 < RECORDS_MAX && shape->window_blocks - 1 < RECORDS_MAX);
    find_blocks(order, seed);
}

uint64_t order_lane_blocks_max(const struct order_shape *shape, uint64_t seed)
{
    struct order_shape any = *shape;
    uint64_t most = 1;
    any.window_blocks = 1;
    for (uint32_t lane = 0; lane < order_lanes(shape); lane++) {
        struct order order;
        order_init(&order, &any, lane, seed, 0);
        most = order.block_count > most ? order.block_count : most;
    }
    return most;
}

static void find_window(struct order *order, uint64_t place)
{
    const uint64_t blocks = order->shape.window_blocks;
    const uint64_t number = row_find(&order->row, place) / blocks, first = number * blocks;
    order->window.number = number;
    order->window.first = row_start(&order->row, first);
    order->window.count = row_start(&order->row, first + least(blocks, order->block_count - first))
        - order->window.first;
}

/* The number of the permutation of the window's records. A lane has at most as many windows as blocks, and shares at
 * most one block with the next lane, so all windows of an epoch have different numbers. */
static uint64_t window_key_number(const struct order *order)
{
    return order->first_block + order->lane + order->window.number;
}

void order_enter(struct order *order, uint64_t place)
{
    assert(place < order->count);
    order->window.count = order->count;
    if (order->shape.shuffle == SHUFFLE_BLOCK)
        find_window(order, place);
    if (order->shape.shuffle != SHUFFLE_NONE)
        permutation_init(&order->window.records, order->window.count, order->key, window_key_number(order));
}

uint64_t order_offset(const struct order *order, uint64_t place)
{
    assert(order_holds(order, place));
    const uint64_t offset = place - order->window.first;
    return order->shape.shuffle == SHUFFLE_NONE ? offset : permutation_value(&order->window.records, offset);
}

/* The first record of block `i` of the lane that is in the lane. */
static uint64_t first_record(const struct order *order, uint64_t i)
{
    const uint64_t first = laid_block(order, order->first_block + i) * order->shape.block_records;
    return i == 0 ? first + order->skipped : first;
}

/* The block at `place` of the epoch. */
static struct order_block block_at(const struct order *order, uint64_t place, uint64_t offset)
{
    return (struct order_block){
        .first_record = first_record(order, permutation_value(&order->blocks, place)),
        .count = row_start(&order->row, place + 1) - row_start(&order->row, place),
        .offset = offset,
    };
}

uint64_t order_record_at(const struct order *order, uint64_t offset)
{
    if (order->shape.classes != NULL)
        return balanced_record(order, offset);
    if (order->shape.shuffle != SHUFFLE_BLOCK)
        return offset;
    const uint64_t position = order->window.first + offset;
    const uint64_t place = row_find(&order->row, position);
    return first_record(order, permutation_value(&order->blocks, place)) + position - row_start(&order->row, place);
}

uint64_t order_window_blocks(const struct order *order)
{
    const uint64_t first = order->window.number * order->shape.window_blocks;
    return least(order->shape.window_blocks, order->block_count - first);
}

struct order_block order_block(const struct order *order, uint64_t i)
{
    const uint64_t place = order->window.number * order->shape.window_blocks + i;
    return block_at(order, place, row_start(&order->row, place) - order->window.first);
}

uint64_t order_block_with(const struct order *order, uint64_t offset)
{
    return row_find(&order->row, order->window.first + offset) - order->window.number * order->shape.window_blocks;
}

struct order_block order_lane_block(const struct order *order, uint64_t i)
{
    return block_at(order, permutation_position(&order->blocks, i), 0);
}

/* ---- a measure of mixing ---- */

uint64_t order_find(const struct order_shape *shape, uint64_t seed, uint32_t epoch, uint64_t position)
{
    const struct order_place found = order_place_find(shape, position);
    struct order order;
    order_init(&order, shape, found.lane, seed, epoch);
    order_enter(&order, found.place);
    return order_record(&order, found.place);
}

uint64_t order_neighbour(const struct order_shape *shape, uint64_t seed, uint64_t position)
{
    if (order_lanes(shape) == 1)
        return position + 1;
    const uint64_t first = position / shape->lanes.batch * shape->lanes.batch;
    const uint64_t samples = least(shape->lanes.batch, shape->count - first);
    if (samples == 1)
        return position + 1;
    const uint64_t further = 1 + random_u64(random_key(seed, RANDOM_LANES, 1), position) % (samples - 1);
    return first + (position - first + further) % samples;
}

static double distance_at(const struct order_shape *shape, uint64_t seed, uint64_t position)
{
    const uint64_t a = order_find(shape, seed, 0, position);
    const uint64_t b = order_find(shape, seed, 0, order_neighbour(shape, seed, position));
    return a > b ? (double)(a - b) : (double)(b - a);
}

double order_mixing(const struct order_shape *shape, uint64_t seed)
{
    if (shape->count < 2)
        return 1;
    const uint64_t pairs = shape->count - 1, samples = pairs < MIXING_SAMPLES ? pairs : MIXING_SAMPLES;
    double sum = 0;
    for (uint64_t i = 0; i < samples; i++)
        sum += distance_at(shape, seed, (uint64_t)((double)i * ((double)pairs / (double)samples)));
    return sum / (double)samples / (((double)shape->count + 1) / 3);
}
