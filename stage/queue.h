/* A bounded queue of pointers, first in first out, for many putting and many getting threads. */
#ifndef PIPETRAIN_QUEUE_H
#define PIPETRAIN_QUEUE_H

#include <stddef.h>
#include <stdint.h>

struct queue;

struct queue_counts {
    uint64_t put, got;          /* items so far */
    uint64_t put_waited_ns;     /* time spent waiting for room, summed over putting threads */
    uint64_t get_waited_ns;     /* time spent waiting for an item, summed over getting threads */
    size_t depth_max;
};

/* Open a queue of `capacity` >= 1 items. Later calls allocate nothing. 0 or -ENOMEM. */
int queue_open(struct queue **queue_out, size_t capacity);
/* No thread may be using the queue. Queued items are not released. Accepts NULL. */
void queue_close(struct queue *queue);

/* Put an item, waiting for room. 0, or -ECANCELED after queue_finish or
 * queue_cancel: the caller then still owns the item. */
int queue_put(struct queue *queue, void *item);
/* Take the next item, waiting until there is one. 0, -ENODATA when the queue is
 * finished and empty, -ECANCELED after queue_cancel. The caller owns the item. */
int queue_get(struct queue *queue, void **item_out);
/* As queue_get without waiting: -EAGAIN when the queue is empty. */
int queue_try_get(struct queue *queue, void **item_out);

/* No more items will be put: getting threads drain the queue, then get -ENODATA. */
void queue_finish(struct queue *queue);
/* The run is over: end every wait now. A closer for stop_on_failure. */
void queue_cancel(void *queue);
/* A snapshot. Any thread. */
void queue_count(struct queue *queue, struct queue_counts *counts_out);

#endif
