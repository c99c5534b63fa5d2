/* Hands out the work of a run. Called by readers, once per chunk. */
#include "loader/order/cursor.h"

#include <errno.h>

void cursor_init(struct cursor *cursor, const struct schedule *schedule, enum shuffle shuffle, uint64_t seed,
                 uint32_t chunk_records)
{
    *cursor = (struct cursor){ .schedule = schedule, .shuffle = shuffle, .seed = seed,
                               .chunk_records = chunk_records, .number = schedule->first };
    pthread_mutex_init(&cursor->lock, NULL);
}

void cursor_release(struct cursor *cursor)
{
    pthread_mutex_destroy(&cursor->lock);
}

static void order_begin(struct cursor *cursor, const struct span *span)
{
    const enum shuffle shuffle = span->pass == PASS_TRAIN ? cursor->shuffle : SHUFFLE_NONE;
    order_init(&cursor->order, shuffle, cursor->schedule->records[span->pass], cursor->seed, span->epoch);
}

/* Move on behind `chunk`: in the slice, to the next tower, to the next batch. */
static void cursor_advance(struct cursor *cursor, const struct chunk *chunk)
{
    cursor->first += chunk->count;
    if (cursor->first < chunk->span.count)
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
    const int rc = schedule_find(cursor->schedule, cursor->number, tower, &chunk->span);
    if (rc < 0)
        return rc;
    const bool begins_batch = cursor->tower == 0 && cursor->first == 0;
    if (begins_batch && (chunk->span.first_of_pass || cursor->number == cursor->schedule->first))
        order_begin(cursor, &chunk->span);
    const uint32_t left = chunk->span.count - cursor->first;
    chunk->tower = cursor->tower;
    chunk->first = cursor->first;
    chunk->count = left < cursor->chunk_records ? left : cursor->chunk_records;
    chunk->order = cursor->order;
    cursor_advance(cursor, chunk);
    chunk->last_of_pass = chunk->span.last_of_pass && cursor->tower == 0 && cursor->first == 0;
    return 0;
}

int cursor_next(struct cursor *cursor, struct chunk *chunk_out)
{
    pthread_mutex_lock(&cursor->lock);
    const int rc = next_locked(cursor, chunk_out);
    pthread_mutex_unlock(&cursor->lock);
    return rc;
}
