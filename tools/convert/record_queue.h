/* The order in which the records of a set are made and written. All writing threads do the same: take a group of
 * records, make it, and write it, or leave that to the thread that writes the group before it. There are few groups at
 * a time, so memory does not depend on the set; the groups of a shard are written in order, so its bytes do not depend
 * on which thread made what. */
#ifndef PIPETRAIN_RECORD_QUEUE_H
#define PIPETRAIN_RECORD_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tools/convert/block.h"
#include "tools/convert/shard_set.h"

struct queued_shard;

/* Consecutive records of a shard. `frames`, `bytes` and `images` belong to the thread that makes the group, and then
 * to the one that writes it. */
struct record_group {
    struct record_group *next;          /* in the list of free groups */
    struct queued_shard *shard;
    struct shard_file *file;
    uint64_t number, first, count;      /* of the group in the shard; its first record there; its records */
    bool is_last;                       /* of the shard */
    struct block frames;                /* concatenated */
    size_t bytes;
    struct image_summary images;
};

/* A shard of which groups are made or written. Under the lock. */
struct queued_shard {
    struct shard_file *file;            /* NULL: the place is free */
    uint64_t group_records, group_count, taken, written;
    bool is_being_written;              /* by a thread that will ask for the next group */
    struct record_group **made;         /* groups that wait for those before them, at their number modulo the pool */
};

struct record_queue {
    pthread_mutex_t lock;
    pthread_cond_t change;
    struct record_group *pool, *free;
    struct queued_shard *shards;        /* one per thread */
    struct record_group **made;
    size_t shard_count, pool_count;
    struct shard_file *next_file, *end_of_files;
    const struct stop *stop;
    const atomic_bool *interrupted;
};

/* Of all files of a set, for `threads` threads. 0 or -ENOMEM; record_queue_release in both cases. */
int record_queue_init(struct record_queue *queue, size_t threads, const struct shard_set *set,
                      const atomic_bool *interrupted);
void record_queue_release(struct record_queue *queue);
/* True once the set has failed or was interrupted. */
bool record_queue_is_over(const struct record_queue *queue);

/* A group to make. Waits until one is free; NULL once all were taken or the queue is over. */
struct record_group *record_queue_take(struct record_queue *queue);
/* The group is made, or the set has failed. Returns the next group of its shard, to be written by the calling thread;
 * NULL: another thread is writing the shard or making that group, or the queue is over. */
struct record_group *record_queue_put(struct record_queue *queue, struct record_group *group);
/* The group is written, and free again. Returns as record_queue_put. */
struct record_group *record_queue_written(struct record_queue *queue, struct record_group *group);
/* The place of a group's shard among those that are written at the same time: from 0 to the number of threads. */
size_t record_queue_place(const struct record_queue *queue, const struct record_group *group);

#endif
