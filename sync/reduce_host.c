/* Reduction in host memory. The last tower to bring a bucket queues, on every tower's
 * communication stream, a wait for all towers' gradients and the sum of that tower's
 * share; the streams then work side by side while backward goes on. */
#include "sync/reduce.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SHARE_ALIGN 16u         /* floats: shares begin on cache lines */
#define BLOCK_FLOATS 1024u      /* summed in a buffer that stays in the first-level cache */

struct host_reduce;

/* One tower's part in one bucket. */
struct share {
    struct host_reduce *reduce;
    uint32_t tower, bucket;
    struct event *queued;       /* on the tower's compute stream: its gradients are there */
    struct event *summed;       /* on its communication stream: its share is in every arena */
    uint64_t waited;            /* generations this tower has waited for; its own thread only */
};

/* A bucket between the towers: `arrived` counts the towers that brought it in this step;
 * it is reset before `generation` is raised, and no tower brings the bucket again before
 * it has seen that. */
struct meeting { atomic_uint arrived; uint64_t generation; };

struct host_reduce {
    struct reduce base;
    uint32_t towers;
    struct reduce_member *members;
    struct buckets buckets;
    struct share *shares;       /* [bucket * towers + tower] */
    struct meeting *meetings;   /* [bucket] */
    pthread_mutex_t lock;       /* guards joined, cancelled, every generation */
    pthread_cond_t changed;
    uint32_t joined;
    bool cancelled;
};

static struct share *share_at(struct host_reduce *reduce, uint32_t tower, uint32_t bucket)
{
    return &reduce->shares[(size_t)bucket * reduce->towers + tower];
}

/* Tower `tower`'s part of a bucket: equal runs of whole cache lines. */
static void share_range(const struct host_reduce *reduce, const struct share *share, size_t *begin, size_t *end)
{
    const struct bucket *const bucket = &reduce->buckets.bucket[share->bucket];
    const size_t lines = (bucket->count + SHARE_ALIGN - 1) / SHARE_ALIGN;
    const size_t first = lines * share->tower / reduce->towers * SHARE_ALIGN;
    const size_t last = lines * (share->tower + 1) / reduce->towers * SHARE_ALIGN;
    *begin = bucket->offset + first;
    *end = bucket->offset + (last < bucket->count ? last : bucket->count);
}

static void add(float *restrict sum, const float *restrict gradients, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += gradients[i];
}

/* Runs on a communication stream: sum the share over all towers, in tower order, into all arenas. */
static void share_sum(void *arg)
{
    const struct share *const share = arg;
    struct host_reduce *const reduce = share->reduce;
    size_t begin, end;
    share_range(reduce, share, &begin, &end);
    float sum[BLOCK_FLOATS];
    for (size_t at = begin; at < end; at += BLOCK_FLOATS) {
        const size_t count = end - at < BLOCK_FLOATS ? end - at : BLOCK_FLOATS;
        memcpy(sum, reduce->members[0].gradients + at, count * sizeof(float));
        for (uint32_t d = 1; d < reduce->towers; d++)
            add(sum, reduce->members[d].gradients + at, count);
        for (uint32_t d = 0; d < reduce->towers; d++)
            memcpy(reduce->members[d].gradients + at, sum, count * sizeof(float));
    }
}

static int host_open(struct reduce **reduce_out, uint32_t towers)
{
    struct host_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    reduce->members = calloc(towers, sizeof(*reduce->members));
    if (reduce->members == NULL) {
        free(reduce);
        return -ENOMEM;
    }
    reduce->base.ops = &reduce_host_ops;
    reduce->towers = towers;
    pthread_mutex_init(&reduce->lock, NULL);
    pthread_cond_init(&reduce->changed, NULL);
    *reduce_out = &reduce->base;
    return 0;
}

static void close_shares(struct host_reduce *reduce)
{
    if (reduce->shares == NULL)
        return;
    const size_t count = (size_t)reduce->buckets.count * reduce->towers;
    for (size_t i = 0; i < count; i++) {
        const struct share *const share = &reduce->shares[i];
        if (share->queued != NULL)
            share->queued->device->ops->event_close(share->queued);
        if (share->summed != NULL)
            share->summed->device->ops->event_close(share->summed);
    }
}

static void host_close(struct reduce *base)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    if (reduce == NULL)
        return;
    close_shares(reduce);
    pthread_cond_destroy(&reduce->changed);
    pthread_mutex_destroy(&reduce->lock);
    free(reduce->shares);
    free(reduce->meetings);
    free(reduce->members);
    free(reduce);
}

/* The first tower to join brings the buckets; all bring the same. Lock held. */
static int make_room(struct host_reduce *reduce, const struct buckets *buckets)
{
    if (reduce->shares != NULL)
        return 0;
    reduce->buckets = *buckets;
    reduce->shares = calloc((size_t)buckets->count * reduce->towers, sizeof(*reduce->shares));
    reduce->meetings = calloc(buckets->count, sizeof(*reduce->meetings));
    return reduce->shares != NULL && reduce->meetings != NULL ? 0 : -ENOMEM;
}

static int open_shares(struct host_reduce *reduce, uint32_t tower, struct device *device)
{
    for (uint32_t b = 0; b < reduce->buckets.count; b++) {
        struct share *const share = share_at(reduce, tower, b);
        *share = (struct share){.reduce = reduce, .tower = tower, .bucket = b};
        int rc = device->ops->event_open(device, &share->queued);
        if (rc == 0)
            rc = device->ops->event_open(device, &share->summed);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int host_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    pthread_mutex_lock(&reduce->lock);
    int rc = make_room(reduce, buckets);
    pthread_mutex_unlock(&reduce->lock);
    if (rc == 0)
        rc = open_shares(reduce, tower, member->device);
    if (rc != 0)
        return rc;

    pthread_mutex_lock(&reduce->lock);
    reduce->members[tower] = *member;
    reduce->joined++;
    pthread_cond_broadcast(&reduce->changed);
    while (reduce->joined < reduce->towers && !reduce->cancelled)
        pthread_cond_wait(&reduce->changed, &reduce->lock);
    rc = reduce->cancelled ? -ECANCELED : 0;
    pthread_mutex_unlock(&reduce->lock);
    return rc;
}

/* Queue one tower's share of a bucket that all towers have brought. */
static int queue_share(struct host_reduce *reduce, uint32_t tower, uint32_t bucket)
{
    struct stream *const communication = reduce->members[tower].communication;
    for (uint32_t d = 0; d < reduce->towers; d++) {
        const int rc = stream_wait(communication, share_at(reduce, d, bucket)->queued);
        if (rc != 0)
            return rc;
    }
    struct share *const share = share_at(reduce, tower, bucket);
    const int rc = communication->device->ops->call(communication, share_sum, share);
    return rc != 0 ? rc : stream_record(communication, share->summed);
}

static int host_start(struct reduce *base, uint32_t tower, uint32_t bucket)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    struct meeting *const meeting = &reduce->meetings[bucket];
    int rc = stream_record(reduce->members[tower].compute, share_at(reduce, tower, bucket)->queued);
    if (rc != 0)
        return rc;
    if (atomic_fetch_add(&meeting->arrived, 1) + 1 < reduce->towers)
        return 0;
    atomic_store(&meeting->arrived, 0);
    for (uint32_t d = 0; d < reduce->towers && rc == 0; d++)
        rc = queue_share(reduce, d, bucket);
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&reduce->lock);
    meeting->generation++;
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
    return 0;
}

static int host_wait(struct reduce *base, uint32_t tower, uint32_t bucket)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    struct share *const share = share_at(reduce, tower, bucket);
    pthread_mutex_lock(&reduce->lock);
    while (reduce->meetings[bucket].generation <= share->waited && !reduce->cancelled)
        pthread_cond_wait(&reduce->changed, &reduce->lock);
    const bool cancelled = reduce->cancelled;
    pthread_mutex_unlock(&reduce->lock);
    if (cancelled)
        return -ECANCELED;
    share->waited++;
    for (uint32_t d = 0; d < reduce->towers; d++) {
        const int rc = stream_wait(reduce->members[tower].compute, share_at(reduce, d, bucket)->summed);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void host_cancel(struct reduce *base)
{
    struct host_reduce *const reduce = (struct host_reduce *)base;
    pthread_mutex_lock(&reduce->lock);
    reduce->cancelled = true;
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
}

const struct reduce_ops reduce_host_ops = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .join = host_join,
    .start = host_start,
    .wait = host_wait,
    .cancel = host_cancel,
};
