/* Reductions with a common interface: an all-reduce of a bucket over the towers, or another operation on a bucket
 * (bucket.h). A reduction is started when the bucket is queued on the compute stream. It runs on communication streams
 * while the towers compute.
 *
 * Towers need not be synchronous: one may be several batches ahead of another. Therefore `start` has the number of the
 * global batch to which a bucket belongs, and the sum is over all towers' buckets of that batch. All towers must start
 * the same buckets of the same batches; they are summed in the order in which they are started. */
#ifndef PIPETRAIN_REDUCE_H
#define PIPETRAIN_REDUCE_H

#include "stage/device.h"
#include "stage/schedule.h"
#include "stage/trace/trace.h"
#include "sync/bucket.h"

struct reduce;
struct ranks;
struct server_rules;

/* An arena of a tower, in device memory. */
struct reduce_region { float *floats; size_t count; };  /* count 0: not reduced */

/* A tower as a member of the reduction; it joins from its own thread. All towers have the same regions. */
struct reduce_member {
    struct device *device;
    struct stream *compute, *communication;
    /* For copies of sums to the device, while buckets are copied from it on `communication`. NULL: they are also on
     * that stream. */
    struct stream *results;
    struct trace_track *track;  /* the trace of the communication stream; NULL: not recorded */
    struct reduce_region regions[REGION_COUNT];
    /* A bf16 copy of the gradients in device memory, which is summed instead of the region of gradients, in fp32 and
     * rounded once. NULL: fp32 gradients. */
    uint16_t *bf16_grads;
    /* Zeros before and after join; during join a reduction may sum them repeatedly to warm up. */
    struct reduce_region zeros;
    const struct server_rules *rules;           /* of a parameter server; copied by join; NULL: there is no server */
};

/* The towers over which a reduction is to sum. */
struct reduce_towers {
    uint32_t run;               /* number of towers of the run */
    struct tower_range here;    /* those of this process */
    const struct device_ops *devices;
    const uint32_t *index;      /* [device_count]: tower here.first + i is on device index[i % device_count] */
    uint32_t device_count;
    bool has_owners;            /* there are buckets that are not BUCKET_ALL_REDUCE */
    bool has_bf16_grads;            /* gradients are summed as bf16 */
    bool in_pairs;              /* additions have to be in the order of stage/pairwise.h (train.slices) */
    bool on_one_host;           /* the launcher started all processes of the run on this host */
};

/* Must sums be in pairs (stage/pairwise.h), even if all towers are in one process? */
static inline bool reduce_is_in_pairs(const struct reduce_towers *towers)
{
    return towers->in_pairs || towers->has_owners || towers->has_bf16_grads;
}

/* Is every sum of two bf16 gradients rounded to bf16, not only the sum of all? So that with train.slices the bits do not
 * depend on which sums are sent. */
static inline bool reduce_rounds_sums(const struct reduce_towers *towers)
{
    return towers->in_pairs && towers->has_bf16_grads;
}
/* For reductions that round only the sum of all: 0, or -EINVAL with the reason. */
int reduce_check_rounding(const struct reduce_towers *towers, const char *name, struct unsupported_reason *reason);

struct reduce_spec {
    uint32_t towers;            /* of the run; their numbers begin at 0 */
    struct tower_range here;    /* the towers of this process, which join */
    bool in_pairs;              /* as in struct reduce_towers; then every sum of bf16 gradients is rounded */
    struct ranks *ranks;        /* lent; NULL: all towers are in this process */
    /* Exchanges of the host with other processes are recorded in up to REDUCE_TRACKS_MAX tracks, which are added when
     * the reduction is opened. NULL: they are not. */
    struct trace *trace;
    /* Of reduce_ranks_ops: so many neighbouring ranks are near each other. 0 or 1: none are; else a power of two that
     * divides the number of ranks, each of which has a power of two of towers. The same in all ranks. */
    uint32_t group;
};
#define REDUCE_TRACKS_MAX 16u   /* one for each of the first buckets */

/* Processes that try something together, without being ranks of a run. */
struct reduce_group {
    uint32_t rank, size;        /* this process, below size; the number of all */
    void *processes;            /* for the functions */
    /* Every process gives as many bytes and gets those of all, by rank; waits for them. 0, or -ECANCELED if one has
     * ended. */
    int (*gather)(void *processes, const void *own, size_t bytes, void *all_out);
    /* Can this process map memory of that one? NULL: of each. */
    bool (*can_map)(void *processes, uint32_t rank);
};

struct reduce_ops {
    const char *name;           /* "host", "none", "peer", "nccl", "nccl_allreduce", "ipc"; two rows are "host" */
    const struct library *libraries;    /* libraries that it uses; NULL: none */
    bool is_only_named;         /* never chosen unless it is named */
    /* If devices have their own memory: does it sum copies of this tower's regions in pinned host memory? NULL: it
     * never does. */
    bool (*pins_regions)(const struct reduce *reduce, uint32_t tower);
    bool knows_owners;          /* buckets may have any use; false: only BUCKET_ALL_REDUCE */
    /* A parameter server's values reach the towers as broadcasts of tower 0 (reduce_server_gather), not as
     * BUCKET_FETCH. */
    bool broadcasts_server;
    /* Host memory that it allocates for each tower for these buckets, in addition to copies of regions. NULL: none. */
    size_t (*host_bytes)(const struct reduce *reduce, const struct buckets *buckets, bool has_bf16_grads);
    /* Memory of its device that it allocates for each tower for these buckets. NULL: none. */
    size_t (*device_bytes)(const struct reduce *reduce, const struct buckets *buckets, bool has_bf16_grads);
    /* Called before any call of a device's library, if the reduction may later be chosen for this number of towers in
     * this process. NULL: nothing to do. */
    void (*prepare)(uint32_t towers);
    /* Can it sum over these towers? 0, or -EINVAL or -ENODEV with the reason in *reason. Main only. */
    int (*supports)(const struct reduce_towers *towers, struct unsupported_reason *reason);
    /* Called by main of all processes of the run, after `supports` was positive in all of them: try whether it works
     * between them. The same result in all: 0; -ENODEV, or -EINVAL if other settings would work, with the reason in
     * *reason; or -ECANCELED when a process failed. NULL: it does. */
    int (*agree)(const struct reduce_towers *towers, struct ranks *ranks, struct unsupported_reason *reason);
    /* The same between processes that are not in a run. The reason of -ENODEV is only what failed. NULL: it cannot be
     * tried without a run. */
    int (*try_between)(const struct reduce_towers *towers, const struct reduce_group *group,
                       struct unsupported_reason *reason);
    /* Opens a reduction, before its buckets are known: the first tower that joins has them. */
    int (*open)(struct reduce **reduce_out, const struct reduce_spec *spec);
    /* Closes it, when every tower that joined has left. */
    void (*close)(struct reduce *reduce);
    /* Called once by every tower's thread; returns when all towers have joined. 0, -ECANCELED, or another negative
     * errno, whose cause is logged (except for -ENOMEM). */
    int (*join)(struct reduce *reduce, uint32_t tower, const struct reduce_member *member,
                const struct buckets *buckets);
    /* Called once by every tower's thread before its first step, when the start of all processes has succeeded; returns
     * when the towers of all processes have called it. Results as of join. NULL: nothing to do. */
    int (*begin)(struct reduce *reduce, uint32_t tower);
    /* Reduce the bucket of global batch `batch` (local.number), which is queued on the tower's compute stream. Every
     * tower starts the same buckets of the same batches in the same order, a bucket at most once for each batch, with
     * at most steps_ahead + 1 batches of the device queued. The arena's range must not be written before a wait for
     * this bucket, or, if another tower is the owner, for the following broadcast of the owner. Never waits for other
     * towers. */
    int (*start)(struct reduce *reduce, uint32_t tower, uint32_t bucket, uint64_t batch);
    /* Make the tower's compute stream wait for the latest reduction of the bucket that this tower has started. 0 or
     * -ECANCELED. */
    int (*wait)(struct reduce *reduce, uint32_t tower, uint32_t bucket);
    /* Called repeatedly by the tower's thread while it waits for its device: 0, or a negative errno if the reduction
     * failed; the cause is logged. Keeps the thread's heartbeat going while the sum waits for another tower. NULL: the
     * reduction cannot fail asynchronously, and nothing that it queues waits for another tower's thread. */
    int (*poll)(struct reduce *reduce, uint32_t tower);
    /* Called when the tower's thread has seen the end of a batch: write the reductions that its stream has completed
     * since the last call to the trace. NULL: the host records reductions when it executes them. */
    void (*record)(struct reduce *reduce, uint32_t tower);
    /* Called once by every tower's thread that called join, when it starts no more buckets: releases the resources of
     * that thread. After a cancel it does not wait for other towers. NULL: nothing to release. */
    void (*leave)(struct reduce *reduce, uint32_t tower);
    /* End every wait. Any thread, never blocks. */
    void (*cancel)(struct reduce *reduce);
};

struct reduce { const struct reduce_ops *ops; };

/* Sums in host memory, in pairs (stage/pairwise.h): bitwise equal in every tower and every run. */
extern const struct reduce_ops reduce_host_ops;
/* The sum of reduce_host_ops, computed by CUDA devices that access each other's memory (or by one that towers
 * share). */
extern const struct reduce_ops reduce_peer_ops;
/* Reduction by NCCL, one rank for each device, in one or several processes. Between several processes, and where
 * reduce_is_in_pairs, bitwise equal to reduce_host_ops: NCCL only sends the numbers. Otherwise as
 * reduce_nccl_allreduce_ops. */
extern const struct reduce_ops reduce_nccl_ops;
/* NCCL's own sums, whose order depends on the connections; only where it is named. */
extern const struct reduce_ops reduce_nccl_allreduce_ops;
/* The sum of reduce_host_ops over the processes of one host, computed by CUDA devices that access each other's memory.
 * */
extern const struct reduce_ops reduce_ipc_ops;
/* Reduction in host memory between processes, bitwise equal to reduce_host_ops. */
extern const struct reduce_ops reduce_ranks_ops;
/* No reduction: mode independent, and one tower. */
extern const struct reduce_ops reduce_none_ops;

/* Returns the reduction with this name, or NULL if it is not built in. */
const struct reduce_ops *reduce_find(const char *name);
/* Choose the reduction named `name`, or, if that is NULL, the first one that supports the towers. 0, or a negative
 * errno with the reason in *reason. For towers in several processes "host" is reduce_ranks_ops, and the choice is
 * preliminary: reduce_agree makes it final. */
int reduce_choose(const char *name, const struct reduce_towers *towers, const struct reduce_ops **ops_out,
                  struct unsupported_reason *reason);
/* For towers in several processes, called by main of all of them, whose reduce_choose succeeded: choose the first
 * reduction that all support and that works between them. The same result in all: 0; -ENODEV or -EINVAL with the reason
 * in *reason; -ECANCELED when a process failed. If a better reduction does not work, *reason also has the reason after
 * success; else reason->why is "". */
int reduce_agree(const char *name, const struct reduce_towers *towers, struct ranks *ranks,
                 const struct reduce_ops **ops_out, struct unsupported_reason *reason);
/* Try the reduction named `name` between processes that are not in a run, which all call it: reduce_ops.supports, then
 * reduce_ops.try_between. -EINVAL also if it is not built in or cannot be tried. */
int reduce_try(const char *name, const struct reduce_towers *towers, const struct reduce_group *group,
               struct unsupported_reason *reason);
/* Call `prepare` of all reductions that reduce_choose may choose for `name` (NULL: any). */
void reduce_prepare(const char *name, uint32_t towers);

bool reduce_pins_always(const struct reduce *reduce, uint32_t tower);  /* true, for reduce_ops.pins_regions */
void reduce_cancel(void *reduce);       /* calls reduce_ops.cancel; for stop_on_failure */

#endif
