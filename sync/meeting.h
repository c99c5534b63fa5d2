/* Towers that sum each other's arenas: what the reductions in host memory and between
 * peers have in common. Each tower sums its share of a bucket for all, in tower order. The
 * last tower to bring a bucket queues, on every tower's communication stream, a wait for all
 * towers' buckets and the sum of that tower's share; the streams then work side by side while the
 * towers compute on. What the sum of a share is, is the reduction's business. */
#ifndef PIPETRAIN_MEETING_H
#define PIPETRAIN_MEETING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sync/reduce.h"

struct meeting;

#define SHARE_BATCHES 16u       /* more than a tower may have queued */

/* One tower's part in one bucket. */
struct share {
    struct meeting *meeting;
    uint32_t tower, bucket;
    enum region region;         /* the bucket's */
    size_t begin, end;          /* what the tower sums, or fetches from its owner: floats of the region's arenas */
    uint64_t batches[SHARE_BATCHES];    /* that the tower brought the bucket for, the last ones */
    uint64_t brought_count;     /* how many; its own thread only */
    uint64_t summed_count;      /* of these, that share_batch was asked for */
    struct event *queued;       /* on the tower's compute stream: its bucket is there */
    struct event *summed;       /* on its communication stream: its share is summed */
    struct event *brought;      /* there too, with bring only: its bucket can be summed */
    struct event *taken;        /* there too, with take only: the bucket's sum is in its arena */
    uint64_t waited;            /* generations the tower has waited for; its own thread only */
};

/* Queue on the communication stream of the share's tower; called by any tower's thread. */
struct meeting_ops {
    /* The last tower came: before any tower leaves join. NULL: nothing to do. */
    int (*connect)(struct meeting *meeting);
    /* The tower's bucket, copied to where it is summed, and what became of it copied to its
     * arena. Both NULL: the arenas themselves are summed. */
    int (*bring)(struct meeting *meeting, const struct share *share);
    int (*take)(struct meeting *meeting, const struct share *share);
    /* What the bucket's use says, for the range of the share: the sum over all towers, in tower order, for every
     * tower or for the bucket's owner, or what the owner has for the share's tower. */
    int (*sum)(struct meeting *meeting, struct share *share);
};

/* A bucket between the towers: `arrived` counts the towers that brought it for a batch;
 * it is reset before `generation` is raised, and no tower brings the bucket again before
 * it has seen that. */
struct turn { atomic_uint arrived; uint64_t generation; };

/* Begins the reductions built on it. */
struct meeting {
    struct reduce base;
    const struct meeting_ops *ops;
    uint32_t towers;
    struct reduce_member *members;      /* complete when connect is called */
    struct buckets buckets;
    struct share *shares;               /* [bucket * towers + tower] */
    struct turn *turns;                 /* [bucket] */
    pthread_mutex_t lock;               /* guards what follows, and every generation */
    pthread_cond_t changed;
    uint32_t joined;
    bool connected, cancelled;
};

/* 0 or -ENOMEM. */
int meeting_init(struct meeting *meeting, const struct reduce_ops *ops, const struct reduce_spec *spec);
void meeting_release(struct meeting *meeting);
/* reduce_ops.join; all towers bring the same `ops`. */
int meeting_join(struct meeting *meeting, const struct meeting_ops *ops, uint32_t tower,
                 const struct reduce_member *member, const struct buckets *buckets);
/* The batch whose share is summed: once each time that happens, on the communication stream, which may be steps
 * behind the thread that queues. */
static inline uint64_t share_batch(struct share *share)
{
    return share->batches[share->summed_count++ % SHARE_BATCHES];
}
/* The bucket a share is of. */
static inline const struct bucket *share_bucket(const struct share *share)
{
    return &share->meeting->buckets.bucket[share->bucket];
}
/* The rows of these names in struct reduce_ops. */
int meeting_start(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch);
int meeting_wait(struct reduce *base, uint32_t tower, uint32_t bucket);
void meeting_cancel(struct reduce *base);

#endif
