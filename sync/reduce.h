/* Reductions behind one table: an all-reduce of a bucket over the towers, or another use of a bucket (bucket.h). A
 * reduction is started when the bucket is queued on the compute stream. It runs on communication streams while the
 * towers compute.
 *
 * Towers need not be in step: one may be batches ahead of another. Therefore start names the global batch that a bucket
 * belongs to, and the sum is over all towers' buckets of that batch. All towers must start the same buckets of the same
 * batches; they are summed in the order in which they are started. */
#ifndef PIPETRAIN_REDUCE_H
#define PIPETRAIN_REDUCE_H

#include "stage/device.h"
#include "stage/schedule.h"
#include "sync/bucket.h"

struct reduce;
struct ranks;
struct server_rules;

/* An arena of a tower, device memory. */
struct reduce_region { float *floats; size_t count; };  /* count 0: not reduced */

/* A tower as a member of the reduction; it joins from its own thread. All towers have the same regions. */
struct reduce_member {
    struct device *device;
    struct stream *compute, *communication;
    struct trace_track *track;  /* the trace of the communication stream; NULL: not recorded */
    struct reduce_region regions[REGION_COUNT];
    /* The gradients as bf16, device memory: these are summed, in fp32 and rounded once, instead of the region of
     * gradients. NULL: fp32. */
    uint16_t *bf16_grads;
    /* All 0 before and after join; a reduction may sum it in between to warm up, as often as it likes. */
    struct reduce_region zeros;
    const struct server_rules *rules;           /* of a parameter server, copied by join; NULL: there is none */
};

/* The towers that a reduction is asked to sum over. */
struct reduce_towers {
    uint32_t run;               /* towers of the run */
    struct tower_range here;    /* those of this process */
    const struct device_ops *devices;
    const uint32_t *index;      /* [device_count]: tower here.first + i is on device index[i % device_count] */
    uint32_t device_count;
    bool has_owners;            /* some buckets are not BUCKET_ALL_REDUCE */
    bool has_bf16_grads;            /* gradients are summed as bf16 */
    bool in_pairs;              /* the additions have to be those of stage/pairwise.h (train.slices) */
};

struct reduce_spec {
    uint32_t towers;            /* of the run; with numbers from 0 */
    struct tower_range here;    /* those that join: of this process */
    bool in_pairs;              /* as in struct reduce_towers */
    struct ranks *ranks;        /* lent; NULL: all towers are here */
};

struct reduce_ops {
    const char *name;           /* "host", "none", "peer", "nccl", "ranks" */
    const struct library *libraries;    /* that it uses; NULL: none */
    bool pins_regions;          /* sums copies in pinned host memory where devices have their own */
    bool knows_owners;          /* buckets may have any use; else only BUCKET_ALL_REDUCE */
    /* Host memory that it allocates for each tower, besides copies of regions, to sum so many floats. NULL: none. */
    size_t (*host_bytes)(const struct reduce *reduce, size_t floats, bool has_bf16_grads);
    /* Called before any call of a device's library, when the reduction may be chosen later for so many towers of this
     * process. NULL: nothing to do. */
    void (*prepare)(uint32_t towers);
    /* Can it sum over these towers? 0, or -EINVAL or -ENODEV with the reason in *reason. Main only. */
    int (*supports)(const struct reduce_towers *towers, struct unsupported_reason *reason);
    /* The buckets are known when the first tower joins. */
    int (*open)(struct reduce **reduce_out, const struct reduce_spec *spec);
    /* Every tower that joined has left. */
    void (*close)(struct reduce *reduce);
    /* Called once by every tower's thread; returns when all have joined. 0, -ECANCELED, or
     * another negative errno; its cause is logged, but for -ENOMEM. */
    int (*join)(struct reduce *reduce, uint32_t tower, const struct reduce_member *member,
                const struct buckets *buckets);
    /* The bucket of global batch `batch` (local.number) is queued on the tower's compute stream: reduce it. Every tower
     * starts the same buckets of the same batches in the same order, a bucket at most once a batch, with at most the
     * device's steps_ahead + 1 batches queued. The arena's range must not be written before a wait for this bucket, or,
     * where another tower is the owner, for the owner's broadcast that follows. Never waits for other towers. */
    int (*start)(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch);
    /* Make the tower's compute stream wait for the latest reduction of the bucket that the tower has started. 0 or
     * -ECANCELED. */
    int (*wait)(struct reduce *reduce, uint32_t tower, uint32_t bucket);
    /* Called from the tower's thread again and again while it waits for its device: 0, or a negative errno when the
     * reduction failed; the cause is logged. Keeps the thread's heartbeat going while the sum waits for another tower.
     * NULL: it cannot fail asynchronously, and nothing that it queues waits for another tower's thread. */
    int (*poll)(struct reduce *reduce, uint32_t tower);
    /* The tower's thread has seen a batch end: write the reductions that its stream has done since to the trace. NULL:
     * the host records them when it does them. */
    void (*record)(struct reduce *reduce, uint32_t tower);
    /* Called once by every tower's thread that called join, when it starts no more buckets: release what belongs to
     * that thread. After a cancel it does not wait for other towers. NULL: nothing to release. */
    void (*leave)(struct reduce *reduce, uint32_t tower);
    /* Every wait ends now. Any thread, never blocks. */
    void (*cancel)(struct reduce *reduce);
};

struct reduce { const struct reduce_ops *ops; };

/* Sums in host memory, in pairs (stage/pairwise.h): the same bits in every tower and every run. */
extern const struct reduce_ops reduce_host_ops;
/* The same sum on CUDA devices that reach each other's memory (or share one device). */
extern const struct reduce_ops reduce_peer_ops;
/* By NCCL, one rank a device. */
extern const struct reduce_ops reduce_nccl_ops;
/* In host memory between processes, the same bits as by reduce_host_ops. */
extern const struct reduce_ops reduce_ranks_ops;
/* No reduction: mode independent, and one tower. */
extern const struct reduce_ops reduce_none_ops;

/* The table named `name`, or NULL when it is not built in. */
const struct reduce_ops *reduce_find(const char *name);
/* The one named `name`, or, when that is NULL, the first of the table that supports the towers. 0, or a negative errno
 * with the reason in *reason. Where towers are in several processes that is reduce_ranks_ops, for NULL and
 * "host". */
int reduce_choose(const char *name, const struct reduce_towers *towers, const struct reduce_ops **ops_out,
                  struct unsupported_reason *reason);
/* Call prepare of those that reduce_choose may choose for `name` (NULL: all). */
void reduce_prepare(const char *name, uint32_t towers);

void reduce_cancel(void *reduce);       /* reduce_ops.cancel, for stop_on_failure */

#endif
