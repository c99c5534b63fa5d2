/* One rank of an NCCL communicator: a tower, its device, its collectives. Opened and closed
 * by any thread; everything between, and so every NCCL call of the communicator, is the
 * tower's thread's. No call blocks for long after the group's cancel, which the watchdog (stage/watchdog.h) sees to
 * where NCCL hangs. */
#ifndef PIPETRAIN_NCCL_RANK_H
#define PIPETRAIN_NCCL_RANK_H

#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sync/reduce.h"

struct nccl_rank;

/* What the ranks have in common. */
struct nccl_group {
    uint32_t towers;
    struct nccl_rank **ranks;           /* [tower] */
    atomic_bool cancelled;              /* every wait ends now; also set by a rank that aborts */
};

int nccl_rank_open(struct nccl_rank **rank_out, struct nccl_group *group, uint32_t tower);
/* The communication stream is closed. Accepts NULL. */
void nccl_rank_close(struct nccl_rank *rank);

/* Join the communicator named `id` and reduce zeros once, as many as every bucket has. Returns when
 * all ranks have done so: 0 or a negative errno. */
int nccl_rank_connect(struct nccl_rank *rank, const struct reduce_member *member, const struct buckets *buckets,
                      const ncclUniqueId *id);
/* reduce_ops' functions. */
int nccl_rank_start(struct nccl_rank *rank, uint32_t bucket, uint64_t batch);
int nccl_rank_wait(struct nccl_rank *rank, uint32_t bucket);
int nccl_rank_poll(struct nccl_rank *rank);
void nccl_rank_record(struct nccl_rank *rank);
void nccl_rank_leave(struct nccl_rank *rank);

#endif
