/* The order in which the records of a data set are made and written. Every writing thread takes a group of records
 * and makes it; then it writes the group, unless a preceding group of the shard is not written yet: then the thread
 * that writes that one continues with it. The number of groups is limited, so memory does not depend on the size of
 * the data set. The groups of a shard are written in order, so its bytes do not depend on which thread made them. */
#ifndef PIPETRAIN_RECORD_QUEUE_H
#define PIPETRAIN_RECORD_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tools/convert/block.h"
#include "tools/convert/shard_set.h"

struct queued_shard;

/* Consecutive records of a shard. `frames`, `bytes` and `images` belong to the thread that makes the group, and
 * later to the thread that writes it. */
struct record_group {
    struct record_group *next;          /* next in the list of free groups */
    struct queued_shard *shard;
    struct shard_file *file;
    /* number of the group in the shard; index of its first record in the shard; number of records */
    uint64_t number, first, count;
    bool is_last;                       /* the last group of the shard */
    struct block frames;                /* concatenated frames of the records */
    size_t bytes;
    struct image_summary images;
};

/* A shard with groups that are being made or written. Protected by the lock. */
struct queued_shard {
    struct shard_file *file;            /* NULL: this element is free */
    uint64_t group_records, group_count, taken, written;
    bool is_being_written;              /* a thread is writing, and will ask for the next group */
    /* groups that wait for preceding ones; the index is the group's number modulo pool_count */
    struct record_group **made;
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

/* Initialise the queue with all files of a data set, for `threads` threads. 0 or -ENOMEM; call record_queue_release
 * in both cases. */
int record_queue_init(struct record_queue *queue, size_t threads, const struct shard_set *set,
                      const atomic_bool *interrupted);
void record_queue_release(struct record_queue *queue);
/* True after the conversion has failed or was interrupted. */
bool record_queue_is_over(const struct record_queue *queue);

/* Take a group in order to make it. Waits until one is free; NULL after the last group, or if the queue is over. */
struct record_group *record_queue_take(struct record_queue *queue);
/* To be called when the group is made, or after a failure. Returns the next group of its shard, which the calling
 * thread has to write; NULL: another thread is writing the shard, the next group is not made yet, or the queue is
 * over. */
struct record_group *record_queue_put(struct record_queue *queue, struct record_group *group);
/* To be called when the group is written; frees it. Returns the same as record_queue_put. */
struct record_group *record_queue_written(struct record_queue *queue, struct record_group *group);
/* The index of a group's shard among those that are being written: less than the number of threads. */
size_t record_queue_place(const struct record_queue *queue, const struct record_group *group);

#endif
