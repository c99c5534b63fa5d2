/* Reductions behind one table: the sum over towers of a bucket, left in every tower's arena, or what else its use is
 * (bucket.h).
 * Started when what is to be summed is queued on the compute stream, running on communication
 * streams while the tower computes on.
 *
 * Towers need not be in step: one may be batches ahead of another. What a bucket's sum holds is
 * said, not assumed: start names the global batch a bucket belongs to, and the sum is over all
 * towers' buckets of that batch. The reductions here sum a bucket's batches in the order in which
 * they are started, and have every tower start the same ones. */
#ifndef PIPETRAIN_REDUCE_H
#define PIPETRAIN_REDUCE_H

#include "stage/device.h"
#include "stage/schedule.h"
#include "stage/unsupported_reason.h"
#include "sync/bucket.h"

struct reduce;
struct server_rules;

/* An arena of a tower, device memory. */
struct reduce_region { float *floats; size_t count; };  /* count 0: not brought */

/* What a tower brings, from its own thread. All towers bring the same regions. */
struct reduce_member {
    struct device *device;
    struct stream *compute, *communication;
    struct trace_track *track;  /* of the communication stream, for the sums on it; NULL: not recorded */
    struct reduce_region regions[REGION_COUNT];
    /* Of what is updated, as bf16, device memory: gradients are summed as those, in fp32 and rounded once, and the
     * region of gradients is left alone. NULL: that is summed. */
    uint16_t *bf16_grads;
    /* Zeros when the tower joins, zeros when it has joined; in between a reduction may sum them
     * to warm up, however many the buckets have. */
    struct reduce_region zeros;
    const struct server_rules *rules;           /* of a server, copied by join; NULL: there is none */
};

/* Whom a reduction is asked to sum over. */
struct reduce_towers {
    uint32_t run;               /* towers of the run */
    struct tower_range here;    /* those of this process */
    const struct device_ops *devices;
    const uint32_t *index;      /* [device_count]: tower here.first + i is on device index[i % device_count] */
    uint32_t device_count;
    bool has_owners;            /* some buckets are not BUCKET_ALL_REDUCE */
    bool has_bf16_grads;        /* gradients are summed as bf16 */
};

struct reduce_spec {
    uint32_t towers;            /* of the run; all of them join, with numbers from 0 */
};

struct reduce_ops {
    const char *name;           /* "host", "none", "peer", "nccl" */
    const struct library *libraries;    /* it stands on, NULL: none */
    bool pins_regions;          /* of members on devices with memory of their own: sums pinned copies */
    bool knows_owners;          /* buckets may be of any use; else all are BUCKET_ALL_REDUCE */
    /* Called before the first call of any device's library, when the reduction may be chosen
     * later for so many towers of this process. NULL: nothing to do. */
    void (*prepare)(uint32_t towers);
    /* Can it sum over these towers? 0, or -EINVAL or -ENODEV with the reason. Main only. */
    int (*supports)(const struct reduce_towers *towers, struct unsupported_reason *reason);
    /* The buckets are known when the first tower joins. */
    int (*open)(struct reduce **reduce_out, const struct reduce_spec *spec);
    /* Every tower that joined has left. */
    void (*close)(struct reduce *reduce);
    /* Called once by every tower's thread; returns when all have joined. 0, -ECANCELED, or
     * another negative errno; its cause is logged, but for -ENOMEM. */
    int (*join)(struct reduce *reduce, uint32_t tower, const struct reduce_member *member,
                const struct buckets *buckets);
    /* The bucket, as it is to be summed for the global batch `batch` (span.number), is queued on
     * the tower's compute stream. Every tower starts the same buckets of the same batches in the
     * same order, a bucket at most once a batch, and has at most the device's steps_ahead + 1
     * batches queued. The arena's range is not to be written before a wait, for this bucket or, where
     * the tower is not the owner, for the owner's broadcast behind it. Never waits for other towers. */
    int (*start)(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch);
    /* What the tower queues on its compute stream from here on comes behind the sum of the
     * bucket that it started last. 0 or -ECANCELED. */
    int (*wait)(struct reduce *reduce, uint32_t tower, uint32_t bucket);
    /* Called from the tower's thread again and again while it waits for its device: 0, or a
     * negative errno when the reduction failed; the cause is logged. The thread's heartbeat beats while the sum
     * waits for another tower. NULL: cannot fail behind the caller's back, and nothing queued waits for other towers'
     * threads. */
    int (*poll)(struct reduce *reduce, uint32_t tower);
    /* The tower's thread has seen a batch end: put the sums that its stream has done since on the tower's track. NULL:
     * they are recorded when the host does them. */
    void (*record)(struct reduce *reduce, uint32_t tower);
    /* Called once by every tower's thread that joined or tried to, when it starts no more
     * buckets: lets go of what belongs to that thread. After a cancel it does not wait for
     * other towers. NULL: there is nothing of the kind. */
    void (*leave)(struct reduce *reduce, uint32_t tower);
    /* Every wait ends now. Any thread, never blocks. */
    void (*cancel)(struct reduce *reduce);
};

struct reduce { const struct reduce_ops *ops; };

/* Sum in fixed tower order, each tower's communication stream summing its share of the
 * bucket for all: the same bits in every tower and every run. */
extern const struct reduce_ops reduce_host_ops;
/* The same sum on CUDA devices that reach each other's memory (or share one device). */
extern const struct reduce_ops reduce_peer_ops;
/* By NCCL, one rank a device. */
extern const struct reduce_ops reduce_nccl_ops;
/* No reduction: mode independent, and one tower. */
extern const struct reduce_ops reduce_none_ops;

/* The table named `name`, or NULL when it is not built in. */
const struct reduce_ops *reduce_find(const char *name);
/* The one named `name`, or, when that is NULL, the first of the table that supports the towers. 0, or
 * its reason. Says no for any that sums within one process only. */
int reduce_choose(const char *name, const struct reduce_towers *towers, const struct reduce_ops **ops_out,
                  struct unsupported_reason *reason);
/* Prepare those that reduce_choose may choose for `name` (NULL: all). */
void reduce_prepare(const char *name, uint32_t towers);

void reduce_cancel(void *reduce);       /* as a closer */

#endif
