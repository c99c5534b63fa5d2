/* Divides a run into chunks. Called by readers, once per chunk. */
#include "loader/cursor.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

int cursor_init(struct cursor *cursor, const struct schedule *schedule, const struct order_shape *shape,
                struct lane_range lanes, uint64_t seed, uint32_t chunk_records)
{
    assert(order_lanes(shape) == (schedule->lanes > 1 ? schedule->lanes : 1));
    struct cursor_lane *const in_lanes = calloc(lanes.count, sizeof(*in_lanes));
    if (in_lanes == NULL)
        return -ENOMEM;
    *cursor = (struct cursor){ .schedule = schedule, .shape = *shape, .lanes = lanes, .seed = seed,
                               .chunk_records = chunk_records, .number = schedule->first, .in_lanes = in_lanes };
    pthread_mutex_init(&cursor->lock, NULL);
    return 0;
}

void cursor_release(struct cursor *cursor)
{
    if (cursor->in_lanes == NULL)
        return;
    pthread_mutex_destroy(&cursor->lock);
    free(cursor->in_lanes);
    cursor->in_lanes = NULL;
}

static void order_begin(struct cursor *cursor, const struct local_batch *local)
{
    const struct order_shape stored = { .shuffle = SHUFFLE_NONE, .count = cursor->schedule->records[local->phase] };
    if (local->phase != PHASE_TRAIN)
        order_init(&cursor->stored, &stored, 0, cursor->seed, local->epoch);
    for (uint32_t i = 0; local->phase == PHASE_TRAIN && i < cursor->lanes.count; i++)
        order_init(&cursor->in_lanes[i].order, &cursor->shape, cursor->lanes.first + i, cursor->seed, local->epoch);
}

static uint32_t clamp(uint32_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* The positions of the local batch that have records of the cursor's lanes. */
static struct batch_part find_part(const struct cursor *cursor, const struct local_batch *local)
{
    const uint32_t parts = order_lanes(&cursor->shape), end_lane = cursor->lanes.first + cursor->lanes.count;
    if (local->phase != PHASE_TRAIN || parts == 1)
        return (struct batch_part){ 0, local->count };
    const uint32_t before = (uint32_t)(local->first_position % cursor->schedule->batch), samples = local->global_count;
    const bool pairs = cursor->schedule->pairs;
    const uint32_t first = batch_part_find(samples, pairs, parts, cursor->lanes.first).first;
    const uint32_t end = batch_part_find(samples, pairs, parts, end_lane).first;
    const uint32_t from = clamp(first, before, before + local->count);
    return (struct batch_part){ from - before, clamp(end, from, before + local->count) - from };
}

/* Enter the window of the lane that contains the chunk's place. */
static void enter_window(struct cursor_lane *lane, uint64_t place)
{
    if (order_holds(&lane->order, place))
        return;
    order_enter(&lane->order, place);
    lane->windows++;
}

/* Set the order and the place of a chunk in training. Returns the number of positions that follow in the lane. */
static uint64_t find_in_lane(struct cursor *cursor, struct chunk *chunk, uint64_t position)
{
    const struct order_place found = order_place_find(&cursor->shape, position);
    struct cursor_lane *const lane = &cursor->in_lanes[found.lane - cursor->lanes.first];
    enter_window(lane, found.place);
    chunk->lane = found.lane - cursor->lanes.first;
    chunk->order = lane->order;
    chunk->place = found.place;
    chunk->window = lane->windows - 1;
    return found.left;
}

static uint64_t find_stored(struct cursor *cursor, struct chunk *chunk, uint64_t position)
{
    if (!order_holds(&cursor->stored, position))
        order_enter(&cursor->stored, position);
    chunk->order = cursor->stored;
    chunk->place = position;
    return cursor->stored.count - position;
}

static uint64_t smallest(uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* Set the other fields of a chunk whose local batch is set; it ends with the lane's part of the batch, the window, or
 * `end` of the local batch. */
static void fill_chunk(struct cursor *cursor, struct chunk *chunk, uint32_t end)
{
    chunk->tower = cursor->tower;
    chunk->count = 0;
    chunk->lane = 0;
    if (chunk->first == end)
        return;
    const uint64_t position = chunk->local.first_position + chunk->first;
    const uint64_t left = chunk->local.phase == PHASE_TRAIN ? find_in_lane(cursor, chunk, position)
                                                            : find_stored(cursor, chunk, position);
    const uint64_t in_window = chunk->order.window.first + chunk->order.window.count - chunk->place;
    const uint32_t wanted = clamp(cursor->chunk_records, 0, end - chunk->first);
    chunk->count = (uint32_t)smallest(wanted, left, in_window);
}

/* Advance past the chunk: in the local batch, then to the next tower, then to the next batch. */
static void cursor_advance(struct cursor *cursor, const struct chunk *chunk, uint32_t end)
{
    cursor->first = chunk->first + chunk->count;
    if (cursor->first < end)
        return;
    cursor->first = 0;
    if (++cursor->tower < schedule_here(cursor->schedule).count)
        return;
    cursor->tower = 0;
    cursor->number++;
}

static int next_locked(struct cursor *cursor, struct chunk *chunk)
{
    const uint32_t tower = schedule_here(cursor->schedule).first + cursor->tower;
    const int rc = schedule_find(cursor->schedule, cursor->number, tower, &chunk->local);
    if (rc < 0)
        return rc;
    const bool begins_batch = cursor->tower == 0 && cursor->first == 0;
    if (begins_batch && (chunk->local.first_of_phase || cursor->number == cursor->schedule->first))
        order_begin(cursor, &chunk->local);
    const struct batch_part part = find_part(cursor, &chunk->local);
    const uint32_t end = part.first + part.count;
    chunk->first = clamp(cursor->first, part.first, end);
    fill_chunk(cursor, chunk, end);
    cursor_advance(cursor, chunk, end);
    chunk->last_of_phase = chunk->local.last_of_phase && cursor->tower == 0 && cursor->first == 0;
    return 0;
}

int cursor_next(struct cursor *cursor, struct chunk *chunk_out)
{
    pthread_mutex_lock(&cursor->lock);
    const int rc = next_locked(cursor, chunk_out);
    pthread_mutex_unlock(&cursor->lock);
    return rc;
}
