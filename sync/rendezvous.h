/* Where towers meet to reduce a bucket: common to the reductions in host memory and between peers. Each tower computes
 * its share of a bucket for all towers, summing in pairs. The last tower to start a bucket queues on every
 * tower's communication stream a wait for the bucket of all towers and then the sum of that tower's share. The streams
 * run in parallel while the towers compute. The reduction that is built on this says how a share is summed. */
#ifndef PIPETRAIN_RENDEZVOUS_H
#define PIPETRAIN_RENDEZVOUS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sync/reduce.h"

struct rendezvous;

#define SHARE_BATCHES 16u       /* more than a tower may have queued */

/* The share of one tower in one bucket. */
struct share {
    struct rendezvous *rendezvous;
    uint32_t tower, bucket;
    enum region region;         /* the bucket's */
    size_t begin, end;          /* floats of the region that the tower sums, or copies from the owner or a server */
    uint64_t batches[SHARE_BATCHES];    /* the latest batches for which the tower started the bucket */
    uint64_t started_count;     /* how many there were; its own thread only */
    uint64_t summed_count;      /* of these, calls of share_batch */
    struct event *queued;       /* on the tower's compute stream: its bucket is complete */
    struct event *summed;       /* on its communication stream: its share is summed */
    struct event *copied_in;    /* there, only with ops.copy_in: its bucket can be summed */
    struct event *copied_out;   /* there, only with ops.copy_out: the bucket's sum is in its arena */
    uint64_t waited;            /* generations the tower has waited for; its own thread only */
};

/* Each queues on the communication stream of the share's tower; called by any tower's thread. */
struct rendezvous_ops {
    /* All towers have joined; called once, before any of them leaves join. NULL: nothing to do. */
    int (*connect)(struct rendezvous *rendezvous);
    /* Copy the tower's bucket to where it is summed, and the result back to its arena. Both NULL: arenas are summed in
     * place. */
    int (*copy_in)(struct rendezvous *rendezvous, const struct share *share);
    int (*copy_out)(struct rendezvous *rendezvous, const struct share *share);
    /* Do what the bucket's use says for the range of the share. */
    int (*sum)(struct rendezvous *rendezvous, struct share *share);
    /* `sum` is only the first part of the reduction, which goes on outside of the streams: a bucket is not complete
     * before rendezvous_complete. Else it is when its sum is queued. */
    bool is_completed_later;
};

/* The state of a bucket: `arrived` counts the towers that started it for a batch. It is reset before the bucket is
 * complete, which increments `generation`, and no tower starts the bucket again before it has seen the new
 * generation. */
struct turn { atomic_uint arrived; uint64_t generation; };

/* The first member of the reductions built on it. */
struct rendezvous {
    struct reduce base;
    const struct rendezvous_ops *ops;
    uint32_t first;                     /* tower of the run that is tower 0 here */
    uint32_t towers;
    struct reduce_member *members;      /* complete when connect is called */
    struct buckets buckets;
    struct share *shares;               /* [bucket * towers + tower] */
    struct turn *turns;                 /* [bucket] */
    pthread_mutex_t lock;               /* guards what follows, and every generation */
    pthread_cond_t changed;
    uint32_t joined;
    bool connected, cancelled;
    struct rendezvous *next_kept;       /* after rendezvous_close */
};

/* For these towers of the run, which are numbered from 0 in shares and members. 0 or -ENOMEM. */
int rendezvous_init(struct rendezvous *rendezvous, const struct reduce_ops *ops, struct tower_range towers);
/* True: it is released, and what it is part of can be freed. False: nothing of that may be freed until the process
 * ends, and it stays reachable: a stream that was left behind may call functions with its shares, or `is_used`:
 * something else uses it. After the communication streams are closed. */
bool rendezvous_close(struct rendezvous *rendezvous, bool is_used);
bool rendezvous_is_cancelled(struct rendezvous *rendezvous);
/* For functions that streams call: was a stream left behind, so that what they would use may be gone, such as traces?
 * After a mere cancel they do their work, because others have waited for it. */
bool rendezvous_is_abandoned(void);
/* Where ops.is_completed_later: the sum of the bucket that all towers have started is where copy_out finds it, or in
 * their arenas. Any thread. */
void rendezvous_complete(struct rendezvous *rendezvous, uint32_t bucket);
/* reduce_ops.join; `tower` is one of the run, and `ops` are the same for all towers. */
int rendezvous_join(struct rendezvous *rendezvous, const struct rendezvous_ops *ops, uint32_t tower,
                    const struct reduce_member *member, const struct buckets *buckets);
/* The batch whose share is summed now. Called exactly once for each sum, on the communication stream, which may be some
 * steps later than the thread that queues. */
static inline uint64_t share_batch(struct share *share)
{
    return share->batches[share->summed_count++ % SHARE_BATCHES];
}
static inline const struct bucket *share_bucket(const struct share *share)
{
    return &share->rendezvous->buckets.bucket[share->bucket];
}
/* The members of these names in struct reduce_ops. */
int rendezvous_start(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch);
int rendezvous_wait(struct reduce *base, uint32_t tower, uint32_t bucket);
void rendezvous_cancel(struct reduce *base);

#endif
