/* Hands out the work of a run, chunk by chunk, in the order of the schedule. Here, and
 * nowhere else, it is decided which record goes to which place of which batch. */
#ifndef PIPETRAIN_CURSOR_H
#define PIPETRAIN_CURSOR_H

#include <pthread.h>

#include "loader/order/order.h"
#include "stage/schedule.h"

/* Consecutive places of one tower's slice of one batch. */
struct chunk {
    struct span span;
    uint32_t tower;             /* among those of this process */
    uint32_t first, count;      /* places of the slice; count 0 only when the slice is empty */
    bool last_of_pass;          /* no chunk of this pass comes after it */
    struct order order;         /* of the pass and epoch, at the window that holds all these places */
    uint64_t window;            /* training: which one that is, counted from the first one this process needs */
};

/* Everything under the lock but what cursor_init sets. */
struct cursor {
    const struct schedule *schedule;
    struct order_shape shape;   /* of training */
    uint64_t seed;
    uint32_t chunk_records;     /* >= 1 */
    pthread_mutex_t lock;
    uint64_t number;            /* of the batch handed out now */
    uint32_t tower;             /* among those of this process */
    uint32_t first;
    struct order order;         /* of the pass and epoch of the chunk before */
    uint64_t windows;           /* of training, entered so far */
};

/* Training in orders of `shape`, whose count is the schedule's, evaluation in file order; from the
 * schedule's first batch on. */
void cursor_init(struct cursor *cursor, const struct schedule *schedule, const struct order_shape *shape,
                 uint64_t seed, uint32_t chunk_records);
void cursor_release(struct cursor *cursor);
/* The next chunk. 0, or -ENODATA when all are handed out. Any thread. */
int cursor_next(struct cursor *cursor, struct chunk *chunk_out);
/* Of place chunk->first + i of the slice the record's order_offset. */
static inline uint64_t chunk_offset(const struct chunk *chunk, uint32_t i)
{
    return order_offset(&chunk->order, chunk->span.first_position + chunk->first + i);
}

#endif
