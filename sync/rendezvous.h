/* Synchronises towers to reduce a bucket; used by the reductions in host memory and between peers. Each tower computes
 * its share of a bucket for all towers, summing in pairs. The last tower that starts a bucket queues on every tower's
 * communication stream a wait for the buckets of all towers and then the sum of that tower's share. The streams run in
 * parallel while the towers compute. The reduction that uses the rendezvous defines how a share is summed. */
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
    enum region region;         /* the region of the bucket */
    size_t begin, end;          /* floats of the region that the tower sums, copies from the owner or a server, or sends
                                 * to the others */
    uint64_t batches[SHARE_BATCHES];    /* the latest batches for which the tower started the bucket */
    uint64_t started_count;     /* number of these batches; used by the tower's thread only */
    uint64_t summed_count;      /* number of calls of share_batch */
    struct event *queued;       /* on the tower's compute stream: its bucket is complete */
    struct event *summed;       /* on its communication stream: its share is summed */
    struct event *copied_in;    /* on its communication stream, only with ops.copy_in: its bucket can be summed */
    /* On the stream of ops.copy_out, only with it: the bucket's sum is in its arena. */
    struct event *copied_out;
    uint64_t waited;            /* generations that the tower has waited for; used by its thread only */
};

/* Functions that queue work on the communication stream of the share's tower; called by any tower's thread. */
struct rendezvous_ops {
    /* Called once when all towers have joined, before any of them leaves join. NULL: nothing to do. */
    int (*connect)(struct rendezvous *rendezvous);
    /* Copy the tower's bucket to the memory in which it is summed, and the result back to its arena, on `stream`. Both
     * NULL: arenas are summed in place. */
    int (*copy_in)(struct rendezvous *rendezvous, const struct share *share);
    int (*copy_out)(struct rendezvous *rendezvous, const struct share *share, struct stream *stream);
    /* copy_out is on the member's stream for results; false: on its communication stream. */
    bool has_results_stream;
    /* Execute the operation of the bucket's use on the range of the share. */
    int (*sum)(struct rendezvous *rendezvous, struct share *share);
    /* Make the compute stream of the share's tower, which waits for the sums of the towers here, wait for those of
     * other processes as well; called by the tower's thread. NULL: all towers are here. Only without copy_out. */
    int (*await_others)(struct rendezvous *rendezvous, const struct share *share);
    /* `sum` is only the first part of the reduction, which continues outside of the streams, and a bucket is complete
     * after rendezvous_complete. False: a bucket is complete when its sum is queued. */
    bool is_completed_later;
};

/* The state of a bucket. `arrived` counts the towers that have started it for a batch; it is reset before the bucket is
 * complete. Then `generation` is incremented, and no tower starts the bucket again before it has seen the new
 * generation. */
struct turn { atomic_uint arrived; uint64_t generation; };

/* The first member of the structs of reductions that use the rendezvous. */
struct rendezvous {
    struct reduce base;
    const struct rendezvous_ops *ops;
    uint32_t first;                     /* number in the run of the tower that is tower 0 here */
    uint32_t towers;
    /* The towers of the run that share a bucket: those here, unless the reduction adds others before any joins. */
    struct tower_range sharing;
    struct reduce_member *members;      /* complete when connect is called */
    struct buckets buckets;
    struct share *shares;               /* [bucket * towers + tower] */
    struct turn *turns;                 /* [bucket] */
    pthread_mutex_t lock;               /* guards the members below, and every generation */
    pthread_cond_t changed;
    uint32_t joined;
    bool connected, cancelled;
    struct rendezvous *next_kept;       /* after rendezvous_close */
};

/* Initialize the rendezvous of these towers of the run, which are numbered from 0 in shares and members. 0 or
 * -ENOMEM. */
int rendezvous_init(struct rendezvous *rendezvous, const struct reduce_ops *ops, struct tower_range towers);
/* Release the rendezvous, after the communication streams are closed. True: the struct that contains it can be freed.
 * False: it must not be freed until the process ends, because a stream that was abandoned may call functions with its
 * shares, or because of `is_used`: something else uses it. It then stays reachable. */
bool rendezvous_close(struct rendezvous *rendezvous, bool is_used);
bool rendezvous_is_cancelled(struct rendezvous *rendezvous);
/* The range that tower `tower` of the run, one of `sharing`, sums of the bucket, copies from the owner or a server, or
 * sends to the others. */
struct share_range { size_t begin, end; };
struct share_range rendezvous_range(const struct rendezvous *rendezvous, const struct bucket *bucket, uint32_t tower);
/* For functions that streams call: was a stream abandoned, so that data that they use, such as traces, may already be
 * freed? After a mere cancel they do their work, because others wait for it. */
bool rendezvous_is_abandoned(void);
/* With ops.is_completed_later: announce that the sum of the bucket that all towers have started is in the memory from
 * which copy_out copies, or in their arenas. Any thread. */
void rendezvous_complete(struct rendezvous *rendezvous, uint32_t bucket);
/* reduce_ops.join; `tower` is the number in the run, and `ops` are the same for all towers. */
int rendezvous_join(struct rendezvous *rendezvous, const struct rendezvous_ops *ops, uint32_t tower,
                    const struct reduce_member *member, const struct buckets *buckets);
/* The batch whose share is being summed. Called exactly once for each sum, on the communication stream, which may be
 * some steps behind the thread that queues. */
static inline uint64_t share_batch(struct share *share)
{
    return share->batches[share->summed_count++ % SHARE_BATCHES];
}
static inline const struct bucket *share_bucket(const struct share *share)
{
    return &share->rendezvous->buckets.bucket[share->bucket];
}
/* The functions of struct reduce_ops with these names. */
int rendezvous_start(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch);
int rendezvous_wait(struct reduce *base, uint32_t tower, uint32_t bucket);
void rendezvous_cancel(struct reduce *base);

#endif
