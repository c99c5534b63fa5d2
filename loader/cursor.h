/* Divides a run into chunks, in the order of the schedule. Only here is decided which record is stored at which
 * position of which batch. */
#ifndef PIPETRAIN_CURSOR_H
#define PIPETRAIN_CURSOR_H

#include <pthread.h>

#include "loader/order.h"
#include "stage/schedule.h"

/* Consecutive positions of a local batch, with records of one lane. */
struct chunk {
    struct local_batch local;
    uint32_t tower;             /* index of the tower in this process */
    uint32_t first, count;      /* positions in the local batch; count is 0 only if the local batch has none in the
                                 * cursor's lanes */
    bool last_of_phase;          /* the last chunk of its phase */
    uint32_t lane;              /* training: index of the lane in the cursor's lanes */
    struct order order;         /* order of the lane, or of the evaluation; its window contains all records of the
                                 * chunk */
    uint64_t place;             /* place of the first record in this order */
    uint64_t window;            /* training: number of the window, counted from the lane's first window that this
                                 * process needs */
};

/* Where the chunks have come to in a lane. */
struct cursor_lane {
    struct order order;         /* order of the previous chunk */
    uint64_t windows;           /* training windows entered so far */
};

/* The lock protects all fields that cursor_init does not set. */
struct cursor {
    const struct schedule *schedule;
    struct order_shape shape;   /* shape of the training order */
    uint64_t seed;
    uint32_t chunk_records;     /* >= 1 */
    struct lane_range lanes;    /* the lanes whose records the chunks have in training */
    pthread_mutex_t lock;
    uint64_t number;            /* number of the current batch */
    uint32_t tower;             /* index of the tower in this process */
    uint32_t first;
    struct cursor_lane *in_lanes;       /* one for each of `lanes` */
    struct order stored;        /* order of the evaluation */
};

/* Begin at the schedule's first batch. Training uses orders of `shape`, whose record count and lanes are the schedule's;
 * evaluation uses the stored order. `lanes` are those of the process (schedule_lanes), or some of them: then only chunks
 * with their records have any in training. 0 or -ENOMEM. */
int cursor_init(struct cursor *cursor, const struct schedule *schedule, const struct order_shape *shape,
                struct lane_range lanes, uint64_t seed, uint32_t chunk_records);
/* Accepts a struct of zeros. */
void cursor_release(struct cursor *cursor);
/* Get the next chunk. 0, or -ENODATA after the last one. Any thread. */
int cursor_next(struct cursor *cursor, struct chunk *chunk_out);
/* The order_offset of the record at position chunk->first + i of the local batch. */
static inline uint64_t chunk_offset(const struct chunk *chunk, uint32_t i)
{
    return order_offset(&chunk->order, chunk->place + i);
}

#endif
