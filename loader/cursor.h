/* Hands out a run's chunks in the order of the schedule. This is the only place where it is decided which record goes
 * to which place of which batch. */
#ifndef PIPETRAIN_CURSOR_H
#define PIPETRAIN_CURSOR_H

#include <pthread.h>

#include "loader/order.h"
#include "stage/schedule.h"

/* Consecutive places of a local batch. */
struct chunk {
    struct local_batch local;
    uint32_t tower;             /* index among those of this process */
    uint32_t first, count;      /* places of the local batch; 0 only when that is empty */
    bool last_of_phase;          /* the last chunk of its phase */
    struct order order;         /* of the phase and epoch; its window contains all these places */
    uint64_t window;            /* training: the window's number, counted from the first that this process needs */
};

/* The lock protects all fields that cursor_init does not set. */
struct cursor {
    const struct schedule *schedule;
    struct order_shape shape;   /* of training */
    uint64_t seed;
    uint32_t chunk_records;     /* >= 1 */
    pthread_mutex_t lock;
    uint64_t number;            /* of the current batch */
    uint32_t tower;             /* index among those of this process */
    uint32_t first;
    struct order order;         /* of the previous chunk */
    uint64_t windows;           /* windows of training entered so far */
};

/* Begin with the schedule's first batch. Training uses orders of `shape`, which has the schedule's record count;
 * evaluation uses the stored order. */
void cursor_init(struct cursor *cursor, const struct schedule *schedule, const struct order_shape *shape,
                 uint64_t seed, uint32_t chunk_records);
void cursor_release(struct cursor *cursor);
/* The next chunk. 0, or -ENODATA after the last one. Any thread. */
int cursor_next(struct cursor *cursor, struct chunk *chunk_out);
/* The order_offset of the record for place chunk->first + i of the local batch. */
static inline uint64_t chunk_offset(const struct chunk *chunk, uint32_t i)
{
    return order_offset(&chunk->order, chunk->local.first_position + chunk->first + i);
}

#endif
