/* Hands out the records of a set, and puts the finished groups back in order. Called by all writing threads.
 *
 * There is no deadlock: threads only wait for a free group, and hold none while they wait. If no group is free, the
 * first group of every shard that has groups is being made or written by a thread, so groups become free again.
 *
 * A shard is opened only if every open one has a group that is being made or written. Each thread works on one shard at
 * a time, so `shards` needs no more elements than there are threads. */
#include "tools/convert/record_queue.h"

#include <errno.h>
#include <stdlib.h>

#include "formats/tfrecord.h"

/* For each thread, one group that is being made, and one that waits to be written. */
#define GROUPS_EACH 2u
/* Size of a group: small enough to keep some for every thread, large enough to be worth handing over. */
#define GROUP_BYTES ((uint64_t)256 << 10)
#define GROUP_RECORDS_MAX UINT64_C(64)

int record_queue_init(struct record_queue *queue, size_t threads, const struct shard_set *set,
                      const atomic_bool *interrupted)
{
    const size_t pool_count = GROUPS_EACH * threads;
    *queue = (struct record_queue){
        .shard_count = threads, .pool_count = pool_count, .stop = set->stop, .interrupted = interrupted,
        .next_file = set->files, .end_of_files = set->files + set->file_count,
        .pool = calloc(pool_count, sizeof(*queue->pool)), .shards = calloc(threads, sizeof(*queue->shards)),
        .made = calloc(threads, pool_count * sizeof(*queue->made)),
    };
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->change, NULL);
    if (queue->pool == NULL || queue->shards == NULL || queue->made == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < pool_count; i++) {
        queue->pool[i].next = queue->free;
        queue->free = &queue->pool[i];
    }
    for (size_t i = 0; i < threads; i++)
        queue->shards[i].made = queue->made + i * pool_count;
    return 0;
}

void record_queue_release(struct record_queue *queue)
{
    for (size_t i = 0; queue->pool != NULL && i < queue->pool_count; i++)
        block_release(&queue->pool[i].frames);
    free(queue->pool);
    free(queue->shards);
    free(queue->made);
    pthread_cond_destroy(&queue->change);
    pthread_mutex_destroy(&queue->lock);
}

bool record_queue_is_over(const struct record_queue *queue)
{
    return stop_failed(queue->stop) || atomic_load(queue->interrupted);
}

/* The number of records that make about GROUP_BYTES. */
static uint64_t count_group_records(const struct sample_source *source)
{
    const uint64_t each = source->bytes > 0 ? source->bytes / source->record_count : source->scratch_bytes;
    const uint64_t records = GROUP_BYTES / (each + TFRECORD_FRAME_BYTES);

    return records == 0 ? 1 : records < GROUP_RECORDS_MAX ? records : GROUP_RECORDS_MAX;
}

static void open_next_file(struct record_queue *queue, struct queued_shard *shard)
{
    shard->file = queue->next_file++;
    shard->group_records = count_group_records(shard->file->source);
    shard->group_count = (shard->file->record_count + shard->group_records - 1) / shard->group_records;
    shard->taken = shard->written = 0;
}

static bool has_groups(const struct queued_shard *shard)
{
    return shard->file != NULL && shard->taken < shard->group_count;
}

/* The open shard with the fewest groups in progress. If all open shards have some, the next file is opened instead.
 * NULL: all groups were taken. */
static struct queued_shard *choose_shard(struct record_queue *queue)
{
    struct queued_shard *shortest = NULL, *free = NULL;

    for (size_t i = 0; i < queue->shard_count; i++) {
        struct queued_shard *const shard = &queue->shards[i];
        if (shard->file == NULL)
            free = free != NULL ? free : shard;
        else if (has_groups(shard) &&
                 (shortest == NULL || shard->taken - shard->written < shortest->taken - shortest->written))
            shortest = shard;
    }
    if (free == NULL || queue->next_file == queue->end_of_files ||
        (shortest != NULL && shortest->taken == shortest->written))
        return shortest;
    open_next_file(queue, free);
    return free;
}

static struct record_group *take_locked(struct record_queue *queue, struct queued_shard *shard)
{
    struct record_group *const group = queue->free;
    const uint64_t first = shard->taken * shard->group_records, left = shard->file->record_count - first;

    queue->free = group->next;
    group->shard = shard;
    group->file = shard->file;
    group->number = shard->taken++;
    group->first = first;
    group->count = left < shard->group_records ? left : shard->group_records;
    group->is_last = shard->taken == shard->group_count;
    return group;
}

struct record_group *record_queue_take(struct record_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (!record_queue_is_over(queue) && queue->free == NULL)
        pthread_cond_wait(&queue->change, &queue->lock);
    struct queued_shard *const shard = record_queue_is_over(queue) ? NULL : choose_shard(queue);
    struct record_group *const group = shard != NULL ? take_locked(queue, shard) : NULL;
    pthread_mutex_unlock(&queue->lock);
    return group;
}

/* The next group of the shard to be written, if it is made. */
static struct record_group *next_locked(struct record_queue *queue, struct queued_shard *shard)
{
    struct record_group **const slot = &shard->made[shard->written % queue->pool_count];
    struct record_group *const group = record_queue_is_over(queue) ? NULL : *slot;

    *slot = NULL;
    shard->is_being_written = group != NULL;
    return group;
}

struct record_group *record_queue_put(struct record_queue *queue, struct record_group *group)
{
    struct queued_shard *const shard = group->shard;

    pthread_mutex_lock(&queue->lock);
    shard->made[group->number % queue->pool_count] = group;
    struct record_group *const next = shard->is_being_written ? NULL : next_locked(queue, shard);
    if (record_queue_is_over(queue))
        pthread_cond_broadcast(&queue->change);
    pthread_mutex_unlock(&queue->lock);
    return next;
}

struct record_group *record_queue_written(struct record_queue *queue, struct record_group *group)
{
    struct queued_shard *const shard = group->shard;

    pthread_mutex_lock(&queue->lock);
    shard->written++;
    struct record_group *const next = next_locked(queue, shard);
    if (group->is_last)
        shard->file = NULL;
    group->next = queue->free;
    queue->free = group;
    pthread_cond_broadcast(&queue->change);
    pthread_mutex_unlock(&queue->lock);
    return next;
}

size_t record_queue_place(const struct record_queue *queue, const struct record_group *group)
{
    return (size_t)(group->shard - queue->shards);
}
