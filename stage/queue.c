/* A bounded queue of pointers: one lock, and one condition for each side. */
#include "stage/queue.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "stage/clock.h"

/* Items are items[(first + i) % capacity], i < depth. The lock protects all fields. */
struct queue {
    pthread_mutex_t lock;
    pthread_cond_t has_item, has_room;
    size_t capacity, first, depth;
    bool finished, cancelled;
    struct queue_counts counts;
    void *items[];
};

int queue_open(struct queue **queue_out, size_t capacity)
{
    assert(capacity >= 1);
    struct queue *queue = NULL;
    if (capacity <= (SIZE_MAX - sizeof(*queue)) / sizeof(queue->items[0]))
        queue = calloc(1, sizeof(*queue) + capacity * sizeof(queue->items[0]));
    if (queue == NULL)
        return -ENOMEM;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->has_item, NULL);
    pthread_cond_init(&queue->has_room, NULL);
    queue->capacity = capacity;
    *queue_out = queue;
    return 0;
}

void queue_close(struct queue *queue)
{
    if (queue == NULL)
        return;
    pthread_cond_destroy(&queue->has_room);
    pthread_cond_destroy(&queue->has_item);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static void item_append(struct queue *queue, void *item)
{
    queue->items[(queue->first + queue->depth++) % queue->capacity] = item;
    queue->counts.put++;
    if (queue->depth > queue->counts.depth_max)
        queue->counts.depth_max = queue->depth;
}

static void *item_remove(struct queue *queue)
{
    void *item = queue->items[queue->first];
    queue->first = (queue->first + 1) % queue->capacity;
    queue->depth--;
    queue->counts.got++;
    return item;
}

int queue_put(struct queue *queue, void *item)
{
    pthread_mutex_lock(&queue->lock);
    while (queue->depth == queue->capacity && !queue->finished && !queue->cancelled)
        wait_timed(&queue->has_room, &queue->lock, &queue->counts.put_waited_ns);
    const bool ended = queue->finished || queue->cancelled;
    if (!ended)
        item_append(queue, item);
    pthread_mutex_unlock(&queue->lock);
    if (ended)
        return -ECANCELED;
    pthread_cond_signal(&queue->has_item);
    return 0;
}

static int queue_get_or(struct queue *queue, void **item_out, bool may_wait)
{
    int rc = 0;
    pthread_mutex_lock(&queue->lock);
    while (may_wait && queue->depth == 0 && !queue->finished && !queue->cancelled)
        wait_timed(&queue->has_item, &queue->lock, &queue->counts.get_waited_ns);
    if (queue->cancelled)
        rc = -ECANCELED;
    else if (queue->depth == 0)
        rc = queue->finished ? -ENODATA : -EAGAIN;
    else
        *item_out = item_remove(queue);
    pthread_mutex_unlock(&queue->lock);
    if (!rc)
        pthread_cond_signal(&queue->has_room);
    return rc;
}

int queue_get(struct queue *queue, void **item_out)
{
    return queue_get_or(queue, item_out, true);
}

int queue_try_get(struct queue *queue, void **item_out)
{
    return queue_get_or(queue, item_out, false);
}

/* Set one of the two end flags and wake all waiting threads. */
static void queue_end(struct queue *queue, bool *end)
{
    pthread_mutex_lock(&queue->lock);
    *end = true;
    pthread_cond_broadcast(&queue->has_item);
    pthread_cond_broadcast(&queue->has_room);
    pthread_mutex_unlock(&queue->lock);
}

void queue_finish(struct queue *queue)
{
    queue_end(queue, &queue->finished);
}

void queue_cancel(void *queue)
{
    struct queue *const cancelled = queue;
    queue_end(cancelled, &cancelled->cancelled);
}

void queue_count(struct queue *queue, struct queue_counts *counts_out)
{
    pthread_mutex_lock(&queue->lock);
    *counts_out = queue->counts;
    pthread_mutex_unlock(&queue->lock);
}
