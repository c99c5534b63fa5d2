/* Calls of NCCL that do not block: communicators are not blocking, so a call that returns ncclInProgress is polled
 * until it is done or the run is cancelled. If NCCL itself hangs, stage/watchdog.h ends the run. The price: NCCL starts
 * a thread for every call, which takes memory and 30 to 80 us. */
#include "sync/cuda/nccl_rank.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "stage/clock.h"
#include "stage/log.h"

#define YIELD_NS 200000u                /* in waits longer than this the delay of a nap does not matter */
#define NAP_NS 100000

static int errno_of(ncclResult_t status)
{
    switch (status) {
    case ncclInvalidArgument:
    case ncclInvalidUsage:
        return -EINVAL;
    case ncclRemoteError:
        return -EREMOTEIO;
    default:
        return -EIO;
    }
}

int nccl_check(ncclResult_t status, const char *name, const char *call)
{
    if (status == ncclSuccess || status == ncclInProgress)
        return 0;
    const char *const words = ncclGetLastError(NULL);
    log_message(LOG_ERROR, "%s: %s: %s (%s)", name, call, ncclGetErrorString(status),
                words != NULL && words[0] != '\0' ? words : "no more is known");
    return errno_of(status);
}

bool nccl_is_cancelled(const struct nccl_rank *rank)
{
    return atomic_load(&rank->group->cancelled);
}

int nccl_keep_error(struct nccl_rank *rank, int rc)
{
    if (rank->result == 0)
        rank->result = rc;
    return rc;
}

void nccl_pause(struct nccl_rank *rank, uint64_t begun_ns)
{
    if (clock_now_ns() - begun_ns < YIELD_NS) {
        sched_yield();
        return;
    }
    nccl_watch_processes(rank);
    nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

bool nccl_have_all_started(const struct nccl_group *group, uint64_t number)
{
    bool have_all = group->ranks == NULL || ranks_sums(group->ranks) > number;
    for (uint32_t d = 0; d < group->here.count && have_all; d++)
        have_all = atomic_load(&group->members[d]->started) > number;
    return have_all;
}

/* Keep the heartbeat going while this rank finalizes and others still train: finalizing ends only when all ranks do it,
 * so this is no stall. */
static void beat_for_others(const struct nccl_rank *rank)
{
    if (atomic_load(&rank->started) == UINT64_MAX && !nccl_have_all_started(rank->group, UINT64_MAX - 1))
        heartbeat_beat();
}

/* Wait until the communicator has completed the call. */
static int await_call(struct nccl_rank *rank, const char *call)
{
    const uint64_t begun_ns = clock_now_ns();
    ncclResult_t state = ncclInProgress;
    int rc = 0;
    while (rc == 0) {
        rc = NCCL_CALL(nccl_rank_name(rank), ncclCommGetAsyncError(rank->comm, &state));
        if (rc != 0 || state != ncclInProgress)
            return rc != 0 ? rc : nccl_check(state, nccl_rank_name(rank), call);
        if (nccl_is_cancelled(rank))
            return -ECANCELED;
        beat_for_others(rank);
        nccl_pause(rank, begun_ns);
    }
    return rc;
}

int nccl_finish_call(struct nccl_rank *rank, ncclResult_t status, const char *call)
{
    int rc = nccl_check(status, nccl_rank_name(rank), call);
    if (rc == 0 && status == ncclInProgress)
        rc = await_call(rank, call);
    heartbeat_end_wait();
    return nccl_keep_error(rank, rc);
}
