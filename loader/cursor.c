/* Divides a run into chunks. Called by readers, once per chunk. */
#include "loader/cursor.h"

#include <errno.h>

void cursor_init(struct cursor *cursor, const struct schedule *schedule, const struct order_shape *shape,
                 uint64_t seed, uint32_t chunk_records)
{
    *cursor = (struct cursor){ .schedule = schedule, .shape = *shape, .seed = seed,
                               .chunk_records = chunk_records, .number = schedule->first };
    pthread_mutex_init(&cursor->lock, NULL);
}

void cursor_release(struct cursor *cursor)
{
    pthread_mutex_destroy(&cursor->lock);
}

static void order_begin(struct cursor *cursor, const struct local_batch *local)
{
    const struct order_shape stored = { .shuffle = SHUFFLE_NONE, .count = cursor->schedule->records[local->phase] };
    order_init(&cursor->order, local->phase == PHASE_TRAIN ? &cursor->shape : &stored, cursor->seed, local->epoch);
}

/* Enter the window that contains `position`. */
static void order_follow(struct cursor *cursor, enum phase phase, uint64_t position)
{
    if (order_holds(&cursor->order, position))
        return;
    order_enter(&cursor->order, position);
    cursor->windows += phase == PHASE_TRAIN;
}

/* The size of the next chunk, limited by the rest of the local batch and of the window. */
static uint32_t count_places(const struct cursor *cursor, const struct local_batch *local)
{
    const uint32_t left = local->count - cursor->first;
    const uint64_t position = local->first_position + cursor->first;
    const uint64_t in_window = cursor->order.window.first + cursor->order.window.count - position;
    const uint32_t wanted = left < cursor->chunk_records ? left : cursor->chunk_records;
    return wanted < in_window ? wanted : (uint32_t)in_window;
}

/* Advance past `chunk`: in the local batch, then to the next tower, then to the next batch. */
static void cursor_advance(struct cursor *cursor, const struct chunk *chunk)
{
    cursor->first += chunk->count;
    if (cursor->first < chunk->local.count)
        return;
    cursor->first = 0;
    if (++cursor->tower < schedule_here(cursor->schedule).count)
        return;
    cursor->tower = 0;
    cursor->number++;
}

/* Set the other fields of a chunk whose local batch is set. */
static void fill_chunk(struct cursor *cursor, struct chunk *chunk)
{
    chunk->tower = cursor->tower;
    chunk->first = cursor->first;
    chunk->count = 0;
    if (chunk->local.count > 0) {
        order_follow(cursor, chunk->local.phase, chunk->local.first_position + cursor->first);
        chunk->count = count_places(cursor, &chunk->local);
    }
    chunk->order = cursor->order;
    chunk->window = cursor->windows - 1;
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
    fill_chunk(cursor, chunk);
    cursor_advance(cursor, chunk);
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
