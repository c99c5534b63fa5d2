/* The order of records in an epoch. Entered by the cursor once per window, asked by readers for every
 * record, so it holds no state but its keys. */
#include "loader/order/order.h"

#include <assert.h>

#define RECORDS_MAX (UINT64_C(1) << 62)
/* Among the permutations of the epoch's key: those of windows have their numbers. */
#define BLOCKS_NUMBER (UINT64_C(1) << 59)

uint64_t order_shape_blocks(const struct order_shape *shape)
{
    return shape->count / shape->block_records + (shape->count % shape->block_records != 0);
}

/* Of the last block as stored. */
static uint64_t short_records(const struct order_shape *shape)
{
    const uint64_t rest = shape->count % shape->block_records;
    return rest > 0 ? rest : shape->block_records;
}

/* Records before place `place` of the blocks as permuted. */
static uint64_t place_start(const struct order *order, uint64_t place)
{
    const struct order_shape *const shape = &order->shape;
    const uint64_t before = place * shape->block_records;
    return place > order->short_place ? before - (shape->block_records - short_records(shape)) : before;
}

/* The place of the block that holds `position` of the blocks one behind the other. */
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
    assert(shape->count < RECORDS_MAX);
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
