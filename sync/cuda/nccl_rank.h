/* Internals of the reduction by NCCL, shared by reduce_nccl.c (towers, collectives and waits), nccl_calls.c (calls that
 * do not block), nccl_exchange.c (sums in pairs) and nccl_join.c (how the towers of all processes get one
 * communicator). Every tower is a rank of the communicator; what launchers call ranks are processes here. */
#ifndef PIPETRAIN_NCCL_RANK_H
#define PIPETRAIN_NCCL_RANK_H

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "compute/cuda/kernels.h"
#include "stage/cuda/device_cuda.h"
#include "stage/heartbeat.h"
#include "sync/cuda/reduce_clock.h"
#include "sync/ranks/ranks.h"
#include "sync/reduce.h"
#include "sync/term.h"

struct nccl_rank;

/* The state that all towers of this process share. */
struct nccl_group {
    uint32_t towers;                    /* of the run */
    struct tower_range here;            /* those of this process; every process has as many */
    uint32_t processes;
    struct ranks *ranks;                /* lent; NULL: there is one process */
    bool in_pairs;                      /* all sums are in pairs; false: only those of bf16, and those with an owner */
    struct term *terms;                 /* of all processes */
    uint32_t term_count;
    uint32_t own_first, own_count;      /* the terms of this process */
    struct nccl_rank **members;         /* [here.count] */
    uint32_t number;                    /* of the group among those of all processes (ranks_number_reduction) */
    atomic_bool cancelled;              /* all waits end; also set by a tower that aborts, and when a process fails */
    pthread_mutex_t lock;               /* guards the fields below */
    pthread_cond_t changed;
    struct device **devices;            /* [here.count], NULL until the tower has joined */
    uint32_t joined;
    bool has_id, is_broken;             /* has_id: id is set; is_broken: it will never be set */
    ncclUniqueId id;
};

/* A collective that is queued, but may not have ended. */
struct inflight_collective {
    uint32_t bucket;
    uint64_t batch;
    struct event *queued;               /* on the compute stream: the bucket is complete */
    struct event *reduced;              /* on the communication stream: the sum is complete */
};

/* Device memory for sums in pairs of ranges and pieces up to a certain length (nccl_exchange.c). */
struct nccl_exchange {
    void *memory;                       /* NULL: no sum is in pairs */
    size_t bytes;
    size_t piece_most;                  /* for pieces all of it consists of so many floats each; for ranges: */
    size_t slice_most, part_most;       /* floats of the longest slice and part */
    size_t slices;                      /* of local and sums together */
    float *local;                       /* [here.count][slice_most]: this tower's slice of the towers of this process */
    float *sums;                        /* [own_count][slice_most]: terms of this process; only with several processes */
    float *received;                    /* [term_count][part_most]: terms of other processes */
    float *result;                      /* [part_most]: a sum that this tower does not keep */
};

#define NCCL_REGISTERED_MAX (REGION_COUNT + 2u)         /* regions, bf16 gradients, exchange.memory */

/* A tower. All functions on it are called by its thread. */
struct nccl_rank {
    struct nccl_group *group;
    uint32_t tower;                     /* its number in the run: its rank in the communicator */
    struct reduce_member member;
    struct buckets buckets;
    struct reduce_clock *clock;
    ncclComm_t comm;                    /* NULL: not open */
    struct nccl_exchange exchange;
    void *registered[NCCL_REGISTERED_MAX];      /* NCCL's handles of registered memory */
    uint32_t registered_count;
    int result;                         /* the first error, or 0 */
    struct inflight_collective *inflight;       /* collective n is inflight[n % inflight_count] */
    uint32_t inflight_count;            /* enough entries for all batches that may be queued */
    uint64_t *latest;                   /* [bucket]: its last collective */
    /* Count of started collectives, including the warm-up; UINT64_MAX: this tower leaves, and starts no more. Other
     * towers read it. */
    atomic_uint_fast64_t started;
    uint64_t finished;                  /* count of collectives that have ended */
    uint64_t queued;                    /* as `started`, also after this tower has left */
    bool warmed_up;                     /* the warm-up has ended */
    uint64_t watched_ns;                /* when the other processes were last looked at */
};

static inline const char *nccl_rank_name(const struct nccl_rank *rank)
{
    return cuda_name(rank->member.device);
}

/* ---- nccl_calls.c ---- */

/* Returns 0 on success and for ncclInProgress; otherwise logs "NAME: CALL: TEXT (NCCL's last message)" and returns
 * -EINVAL (our mistake), -EREMOTEIO (another rank failed), or -EIO. */
int nccl_check(ncclResult_t status, const char *name, const char *call);
/* Make a call, note it in the thread's heartbeat, and check its result: NCCL_CALL("cuda0", ncclCommDestroy(comm)). */
#define NCCL_CALL(name, call) nccl_check((ncclResult_t)HEARTBEAT_CALL(#call, call), (name), #call)

bool nccl_is_cancelled(const struct nccl_rank *rank);
/* Keep the first error as the rank's result. Returns rc. */
int nccl_keep_error(struct nccl_rank *rank, int rc);
/* The pause between two polls of a wait that began at begun_ns. */
void nccl_pause(struct nccl_rank *rank, uint64_t begun_ns);
/* Make a call and wait until it is completed. */
#define RANK_CALL(rank, call) (heartbeat_begin_wait(#call), nccl_finish_call((rank), (call), #call))
int nccl_finish_call(struct nccl_rank *rank, ncclResult_t status, const char *call);
/* Have all towers of the run started this collective, as far as is known? About those of other processes it is known a
 * second or two later. UINT64_MAX - 1: have all of them left? */
bool nccl_have_all_started(const struct nccl_group *group, uint64_t number);

/* ---- nccl_exchange.c ---- */

/* Does NCCL only send the bucket's numbers: is it summed in pairs, or one of pieces? */
bool nccl_is_sent(const struct nccl_rank *rank, const struct bucket *bucket);
/* Are numbers of the bucket bf16? */
bool nccl_is_bf16(const struct nccl_rank *rank, const struct bucket *bucket);
/* The bytes that nccl_exchange_open allocates on the device of each tower. */
size_t nccl_exchange_bytes(const struct nccl_group *group, const struct buckets *buckets, bool has_bf16_grads);
/* Allocate the memory for the rank's buckets, if any is summed in pairs. 0 or a negative errno. */
int nccl_exchange_open(struct nccl_rank *rank);
void nccl_exchange_close(struct nccl_rank *rank);
/* Queue the operation on such a bucket, whose `count` numbers are at `values`, on the communication stream. */
int nccl_exchange_queue(struct nccl_rank *rank, const struct bucket *bucket, void *values, size_t count);

/* ---- nccl_join.c ---- */

/* reduce_ops.agree: has every tower of the run a GPU of its own? */
int nccl_agree(const struct reduce_towers *towers, struct ranks *ranks, struct unsupported_reason *reason);

/* Join as tower number `here` of this process, and wait until the towers of all processes have joined. 0 and the
 * communicator's id; -EINVAL after a message; or -ECANCELED. */
int nccl_join_all(struct nccl_group *group, uint32_t here, struct device *device, ncclUniqueId *id_out);
/* End all waits of the group, and those of the other processes. Any thread, never blocks. */
void nccl_cancel_all(struct nccl_group *group);
/* Called in waits after nccl_join_all: cancel the group if another process has failed. Looks once in a millisecond. */
void nccl_watch_processes(struct nccl_rank *rank);

#endif
