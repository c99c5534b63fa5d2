/* The windows of SHUFFLE_BLOCK (loader/order.h) in memory: of each lane of this process the current one, and the next
 * one, which is read at the same time. Readers read each block once per epoch, with one read for each shard that it extends over. Records are verified
 * and parsed when they are used, as if they were read from the file. */
#ifndef PIPETRAIN_WINDOW_STORE_H
#define PIPETRAIN_WINDOW_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/cursor.h"
#include "loader/dataset.h"

#define WINDOW_SLOTS 2u

/* The store's lock protects all fields except `used` and the contents of `bytes`, `frames` and `ids`. One reader writes
 * the contents of a block; they are constant once all blocks are held. */
struct window {
    struct order order;
    uint64_t block_count, begun, held;  /* numbers of blocks: in the window; being read or held; held */
    uint64_t records, taken, left;      /* numbers of records: that this process needs; taken so far; not yet given
                                         * back */
    atomic_size_t used;                 /* number of used bytes in `bytes` */
    uint8_t *bytes;
    const uint8_t **frames;             /* frames by order_offset; NULL for a record that could not be read */
    uint64_t *ids;                      /* for each block: the id of its record at offset 0, if it had one (modulo
                                         * 2^64) */
};

/* The windows of a lane. Window n is in slots[n % WINDOW_SLOTS]. */
struct window_lane {
    uint64_t opened;            /* number of windows begun so far */
    struct cursor scout;        /* a cursor in this lane, ahead of the readers' cursor */
    struct chunk next;          /* the first chunk of the next window; count 0: there is none */
    struct window slots[WINDOW_SLOTS];
};

/* The lock protects all fields except the data set and the number of lanes. */
struct window_store {
    const struct dataset *dataset;
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* signalled when a window was read completely, and when all its records were given
                                 * back */
    bool has_lock, is_cancelled;
    uint32_t lane_count;
    struct window_lane *lanes;  /* in the order of schedule_lanes */
};

/* The record at `offset` of a window all blocks of which are held: order_record_at without its permutations. */
static inline uint64_t window_record(const struct window *window, const struct order *order, uint64_t offset)
{
    return window->ids[order_block_with(order, offset)] + offset;
}

/* The cost of taking records from windows. */
struct window_cost {
    size_t read_bytes;
    uint64_t waited_ns;
};

/* Choose the shape of windows for the training records of a schedule, the first ones of the data set: blocks of about
 * block_bytes, and as many blocks in the windows of all lanes as fit into window_bytes, but at least one in each, and no
 * more than a lane has with this seed. */
struct window_sizes { size_t block_bytes, window_bytes; };
struct order_shape window_shape(const struct dataset *dataset, const struct schedule *schedule,
                                const struct window_sizes *sizes, uint64_t seed);
/* The memory of a store for `lanes` lanes; SIZE_MAX if it overflows. */
size_t window_store_bytes(const struct dataset *dataset, const struct order_shape *shape, uint32_t lanes);
/* Initialise a store for the chunks of a cursor with this schedule, shape and seed. 0 or a negative errno. */
int window_store_init(struct window_store *store, const struct dataset *dataset, const struct schedule *schedule,
                      const struct order_shape *shape, uint64_t seed);
/* Accepts a struct of zeros. */
void window_store_release(struct window_store *store);

/* Borrow the window of a training chunk that is not empty. Reads missing blocks, waits for blocks that other threads
 * are reading, and for a free slot. Adds to *cost. 0 or -ECANCELED. Any thread; chunks may come in any order. */
int window_store_take(struct window_store *store, const struct chunk *chunk, const struct window **window_out,
                      struct window_cost *cost);
/* The records of a chunk are no longer used. Never waits. */
void window_store_give_back(struct window_store *store, const struct chunk *chunk);
/* If the lane (chunk.lane) has a free slot, read its next window until the part read equals the part taken of the current
 * one. Adds to *cost. */
void window_store_read_ahead(struct window_store *store, uint32_t lane, struct window_cost *cost);
/* End all waits now. */
void window_store_cancel(struct window_store *store);

#endif
