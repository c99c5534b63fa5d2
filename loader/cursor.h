/* Divides a run into chunks, in the order of the schedule. Only here is decided which record is stored at which
 * position of which batch. */
#ifndef PIPETRAIN_CURSOR_H
#define PIPETRAIN_CURSOR_H

#include <pthread.h>

#include "loader/order.h"
#include "stage/schedule.h"

/* Consecutive positions of a local batch. */
struct chunk {
    struct local_batch local;
    uint32_t tower;             /* index of the tower in this process */
    uint32_t first, count;      /* positions in the local batch; count is 0 only if the local batch is empty */
    bool last_of_phase;          /* the last chunk of its phase */
    struct order order;         /* order of the phase and epoch; its window contains all records of the chunk */
    uint64_t window;            /* training: number of the window, counted from the first window that this process
                                 * needs */
};

/* The lock protects all fields that cursor_init does not set. */
struct cursor {
    const struct schedule *schedule;
    struct order_shape shape;   /* shape of the training order */
    uint64_t seed;
    uint32_t chunk_records;     /* >= 1 */
    pthread_mutex_t lock;
    uint64_t number;            /* number of the current batch */
    uint32_t tower;             /* index of the tower in this process */
    uint32_t first;
    struct order order;         /* order of the previous chunk */
    uint64_t windows;           /* training windows entered so far */
};

/* Begin at the schedule's first batch. Training uses orders of `shape`, whose record count is the schedule's;
 * evaluation uses the stored order. */
void cursor_init(struct cursor *cursor, const struct schedule *schedule, const struct order_shape *shape,
                 uint64_t seed, uint32_t chunk_records);
void cursor_release(struct cursor *cursor);
/* Get the next chunk. 0, or -ENODATA after the last one. Any thread. */
int cursor_next(struct cursor *cursor, struct chunk *chunk_out);
/* The order_offset of the record at position chunk->first + i of the local batch. */
static inline uint64_t chunk_offset(const struct chunk *chunk, uint32_t i)
{
    return order_offset(&chunk->order, chunk->local.first_position + chunk->first + i);
}

#endif
