/* The windows of an order by blocks (loader/order/order.h) in memory: the one that records are taken
 * from, and the next one, which comes in meanwhile. Blocks are read by the readers, each block
 * in one read for each shard it lies in, once an epoch; records are verified and parsed when they
 * are used, as if they came from the file. */
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

/* Everything under the store's lock, but `used`, and what is read into bytes and frames, which one reader
 * writes for each block and which is constant once all blocks are held. */
struct window {
    struct order order;
    uint64_t block_count, begun, held;  /* of the window; with a reader or held; held */
    uint64_t records, taken, left;      /* that this process needs of it; taken so far; not given back yet */
    atomic_size_t used;                 /* of bytes */
    uint8_t *bytes;
    const uint8_t **frames;             /* by order_offset; NULL for one that could not be read */
};

/* Everything under the lock but the data set. Window `n` of the cursor is in slots[n % WINDOW_SLOTS]. */
struct window_store {
    const struct dataset *dataset;
    pthread_mutex_t lock;
    pthread_cond_t changed;     /* a window has come in, or all records of one were given back */
    bool has_lock, is_cancelled;
    uint64_t opened;            /* windows begun so far */
    struct cursor scout;        /* goes ahead of the readers': its lock is never waited for */
    struct chunk next;          /* the first one of the window to be opened next; count 0: there is none */
    struct window slots[WINDOW_SLOTS];
};

/* What taking from windows cost. */
struct window_cost {
    size_t read_bytes;
    uint64_t waited_ns;
};

/* How the first `records` records of a data set are cut: blocks of about block_bytes, windows of so many
 * blocks that none is larger than window_bytes, but one block at least. */
struct order_shape window_shape(const struct dataset *dataset, uint64_t records, size_t block_bytes,
                                size_t window_bytes);
/* Bytes a store takes; SIZE_MAX when it cannot be counted. */
size_t window_store_bytes(const struct dataset *dataset, const struct order_shape *shape);
/* For all that a cursor of this schedule, shape and seed hands out. 0 or a negative errno. */
int window_store_init(struct window_store *store, const struct dataset *dataset, const struct schedule *schedule,
                      const struct order_shape *shape, uint64_t seed);
/* Accepts a struct of zeros. */
void window_store_release(struct window_store *store);

/* Lend the window of a training chunk that is not empty: reads what is missing of it, waits for what
 * others read, and for room. 0 or -ECANCELED. Adds to *cost. Any thread; chunks may come out of order. */
int window_store_take(struct window_store *store, const struct chunk *chunk, const struct window **window_out,
                      struct window_cost *cost);
/* The records of a chunk that was taken are used no more. Never waits. */
void window_store_give_back(struct window_store *store, const struct chunk *chunk);
/* Read as much of the next window as has been taken of the one before it, as far as there is room. Adds to
 * *cost. */
void window_store_read_ahead(struct window_store *store, struct window_cost *cost);
/* Every wait ends now. */
void window_store_cancel(struct window_store *store);

#endif
