/* A bounded queue of pointers, many putters and many getters, first in first out. */
#ifndef PIPETRAIN_QUEUE_H
#define PIPETRAIN_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue_counts {
    uint64_t put, got;          /* items so far */
    uint64_t put_waited_ns;     /* summed over putters: waiting for room */
    uint64_t get_waited_ns;     /* summed over getters: waiting for an item */
    size_t depth_max;
};

/* A queue of `capacity` >= 1 items. Allocates all it will ever need. 0 or -ENOMEM. */
int queue_open(struct queue **queue_out, size_t capacity);
/* No thread is inside. What is still queued is not released. Accepts NULL. */
void queue_close(struct queue *queue);

/* Put an item, waiting for room. 0, or -ECANCELED after queue_finish or
 * queue_cancel: the caller then still owns the item. */
int queue_put(struct queue *queue, void *item);
/* Take the next item, waiting until there is one. 0, -ENODATA when the queue is
 * finished and empty, -ECANCELED after queue_cancel. The caller owns the item. */
int queue_get(struct queue *queue, void **item_out);
/* As queue_get without waiting: -EAGAIN when the queue is empty. */
int queue_try_get(struct queue *queue, void **item_out);

/* No more items come: getters drain what is there, then get -ENODATA. */
void queue_finish(struct queue *queue);
/* The run is over: every wait ends now. Fits stop_on_failure. */
void queue_cancel(void *queue);
/* A snapshot. Any thread. */
void queue_count(struct queue *queue, struct queue_counts *counts_out);

#endif
