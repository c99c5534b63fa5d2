/* A rank's communicator. It never blocks: a call that goes on (ncclInProgress) is asked after until it is done or the
 * run ends. That has a price: NCCL hands every call to a thread that it starts for it, which takes memory and 30 to
 * 80 us; a call that blocks could not be ended with its run. A rank that saw an error or a cancel aborts its
 * communicator when it leaves, every other one ends it in peace. */
#include "sync/cuda/nccl_rank.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stage/clock.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"
#include "sync/cuda/nccl_call.h"
#include "sync/cuda/reduce_clock.h"

#define YIELD_NS 200000u                /* longer waits do not notice a nap */
#define NAP_NS 100000

/* A collective from when it is queued until it is done. */
struct flight {
    uint32_t bucket;
    uint64_t batch;
    struct event *queued;               /* on the compute stream: the bucket is there */
    struct event *reduced;              /* on the communication stream: so is its sum */
};

struct nccl_rank {
    struct nccl_group *group;
    uint32_t tower;
    struct reduce_member member;
    struct buckets buckets;
    struct reduce_clock *clock;
    ncclComm_t comm;                    /* NULL: there is none */
    void *registered[REGION_COUNT];     /* NCCL's handles of the regions, NULL where it has none */
    int result;                         /* the first error, 0 while there is none */
    struct flight *flights;             /* collective n has flights[n % flight_count] */
    uint32_t flight_count;              /* for all batches that may be queued at a time */
    uint64_t *latest;                   /* [bucket]: the last collective of it */
    atomic_uint_fast64_t started;       /* collectives, those of the warm-up first; others read it */
    uint64_t finished;                  /* collectives seen done */
    bool warm;                          /* the warm-up is over */
    atomic_bool leaves;                 /* it starts no more; others read it */
};

static const char *name_of(const struct nccl_rank *rank)
{
    return cuda_name(rank->member.device);
}

static bool is_cancelled(const struct nccl_rank *rank)
{
    return atomic_load(&rank->group->cancelled);
}

/* Between two questions of a wait that began at begun_ns. */
static void wait_a_little(uint64_t begun_ns)
{
    if (clock_now_ns() - begun_ns < YIELD_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

/* The first error stays the rank's result. */
static int keep(struct nccl_rank *rank, int rc)
{
    if (rank->result == 0)
        rank->result = rc;
    return rc;
}

/* Calling NCCL. */

/* Ending the communicator may take until all ranks do. Those that still train are no stall. */
static void beat_for_others(const struct nccl_rank *rank)
{
    const struct nccl_group *const group = rank->group;
    bool has_others = false;
    for (uint32_t d = 0; d < group->towers; d++)
        has_others = has_others || !atomic_load(&group->ranks[d]->leaves);
    if (has_others && atomic_load(&rank->leaves))
        heartbeat_beat();
}

/* Wait until the communicator has done what goes on. */
static int await_call(const struct nccl_rank *rank, const char *call)
{
    const uint64_t begun_ns = clock_now_ns();
    ncclResult_t state = ncclInProgress;
    int rc = 0;
    while (rc == 0) {
        rc = NCCL_CALL(name_of(rank), ncclCommGetAsyncError(rank->comm, &state));
        if (rc != 0 || state != ncclInProgress)
            return rc != 0 ? rc : nccl_check(state, name_of(rank), call);
        if (is_cancelled(rank))
            return -ECANCELED;
        beat_for_others(rank);
        wait_a_little(begun_ns);
    }
    return rc;
}

static int finish_call(struct nccl_rank *rank, ncclResult_t status, const char *call)
{
    int rc = nccl_check(status, name_of(rank), call);
    if (rc == 0 && status == ncclInProgress)
        rc = await_call(rank, call);
    heartbeat_end_wait();
    return keep(rank, rc);
}

/* Make the call and wait for its end. */
#define RANK_CALL(rank, call) (heartbeat_begin_wait(#call), finish_call((rank), (call), #call))

/* Opening and closing. */

int nccl_rank_open(struct nccl_rank **rank_out, struct nccl_group *group, uint32_t tower)
{
    struct nccl_rank *const rank = calloc(1, sizeof(*rank));
    if (rank == NULL)
        return -ENOMEM;
    rank->group = group;
    rank->tower = tower;
    atomic_init(&rank->started, 0);
    atomic_init(&rank->leaves, false);
    *rank_out = rank;
    return 0;
}

static void close_event(struct event *event)
{
    if (event != NULL)
        event->device->ops->event_close(event);
}

void nccl_rank_close(struct nccl_rank *rank)
{
    if (rank == NULL)
        return;
    assert(rank->comm == NULL);
    for (uint32_t i = 0; rank->flights != NULL && i < rank->flight_count; i++) {
        close_event(rank->flights[i].queued);
        close_event(rank->flights[i].reduced);
    }
    reduce_clock_close(rank->clock);
    free(rank->flights);
    free(rank->latest);
    free(rank);
}

static int open_flights(struct nccl_rank *rank)
{
    struct device *const device = rank->member.device;
    rank->flight_count = (device->ops->steps_ahead + 1) * rank->buckets.count;
    rank->flights = calloc(rank->flight_count, sizeof(*rank->flights));
    rank->latest = calloc(rank->buckets.count, sizeof(*rank->latest));
    int rc = rank->flights == NULL || rank->latest == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; i < rank->flight_count && rc == 0; i++) {
        rc = device->ops->event_open(device, EVENT_ORDER, &rank->flights[i].queued);
        if (rc == 0)
            rc = device->ops->event_open(device, EVENT_ORDER, &rank->flights[i].reduced);
    }
    return rc;
}

static int open_comm(struct nccl_rank *rank, const ncclUniqueId *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return RANK_CALL(rank, ncclCommInitRankConfig(&rank->comm, (int)rank->group->towers, *id, (int)rank->tower,
                                                  &config));
}

/* NCCL may then work on the region without copies of its own; where it cannot, it copies. */
static int register_region(struct nccl_rank *rank, enum region region)
{
    const struct reduce_region *const arena = &rank->member.regions[region];
    void **const handle = &rank->registered[region];
    if (arena->count == 0)
        return 0;
    heartbeat_begin_wait("ncclCommRegister");
    const ncclResult_t status = ncclCommRegister(rank->comm, arena->floats, arena->count * sizeof(float), handle);
    if (status == ncclSuccess || status == ncclInProgress)
        return finish_call(rank, status, "ncclCommRegister");
    heartbeat_end_wait();
    *handle = NULL;
    log_message(LOG_RUN, "%s: NCCL does not use what it sums in place: %s", name_of(rank), ncclGetErrorString(status));
    return 0;
}

static int register_regions(struct nccl_rank *rank)
{
    int rc = 0;
    for (int region = 0; region < REGION_COUNT && rc == 0; region++)
        rc = register_region(rank, region);
    return rc;
}

static int deregister_regions(struct nccl_rank *rank)
{
    int rc = 0;
    for (int region = 0; region < REGION_COUNT && rc == 0; region++)
        if (rank->registered[region] != NULL)
            rc = RANK_CALL(rank, ncclCommDeregister(rank->comm, rank->registered[region]));
    return rc;
}

/* Wait until every collective that was started is done. */
static int await_collectives(struct nccl_rank *rank)
{
    const uint64_t begun_ns = clock_now_ns();
    heartbeat_begin_wait("waiting for a sum of NCCL");
    int rc = nccl_rank_poll(rank);
    while (rc == 0 && rank->finished < atomic_load(&rank->started)) {
        wait_a_little(begun_ns);
        rc = nccl_rank_poll(rank);
    }
    heartbeat_end_wait();
    return rc;
}

/* The first collective of a size makes connections and loads kernels, which must not happen
 * while another one waits for its ranks. */
static int warm_up(struct nccl_rank *rank)
{
    int rc = 0;
    for (uint32_t b = 0; b < rank->buckets.count && rc == 0; b++) {
        rc = nccl_rank_start(rank, b, 0);
        if (rc == 0)
            rc = await_collectives(rank);
    }
    rank->warm = true;
    return rc;
}

int nccl_rank_connect(struct nccl_rank *rank, const struct reduce_member *member, const struct buckets *buckets,
                      const ncclUniqueId *id)
{
    rank->member = *member;
    rank->buckets = *buckets;
    int rc = open_flights(rank);
    if (rc == 0)
        rc = cuda_enter(member->device);
    if (rc == 0)
        rc = open_comm(rank, id);
    if (rc == 0)
        rc = register_regions(rank);
    if (rc == 0)
        rc = warm_up(rank);
    if (rc == 0)
        rc = reduce_clock_open(&rank->clock, member, rank->tower, buckets->count);
    return keep(rank, rc);
}

/* Collectives. */

static struct flight *flight_at(const struct nccl_rank *rank, uint64_t number)
{
    return &rank->flights[number % rank->flight_count];
}

static void note_finished(struct nccl_rank *rank)
{
    rank->finished++;
    heartbeat_beat();
}

/* What is summed for the bucket: in the warm-up zeros, as many of them. */
static struct reduce_region range_of(const struct nccl_rank *rank, const struct bucket *bucket)
{
    const struct reduce_member *const member = &rank->member;
    if (rank->warm)
        return (struct reduce_region){ member->regions[bucket->region].floats + bucket->offset, bucket->count };
    return (struct reduce_region){ member->zeros.floats,
                                  bucket->count < member->zeros.count ? bucket->count : member->zeros.count };
}

/* The sum, not the mean: as with every reduction what is summed is divided once, by the true count
 * of samples, which may differ from batch to batch. */
static int queue_collective(struct nccl_rank *rank, const struct flight *flight)
{
    const struct reduce_member *const member = &rank->member;
    const struct reduce_region range = range_of(rank, &rank->buckets.bucket[flight->bucket]);
    int rc = stream_record(member->compute, flight->queued);
    if (rc == 0)
        rc = stream_wait(member->communication, flight->queued);
    if (rc == 0)
        rc = reduce_clock_begin(rank->clock, flight->bucket, flight->batch);
    if (rc == 0)
        rc = cuda_enter(member->device);
    /* Only when the call is finished does the stream hold the collective. */
    if (rc == 0)
        rc = RANK_CALL(rank, ncclAllReduce(range.floats, range.floats, range.count, ncclFloat32, ncclSum, rank->comm,
                                           cuda_stream_of(member->communication)));
    if (rc == 0)
        rc = reduce_clock_end(rank->clock);
    return rc != 0 ? rc : stream_record(member->communication, flight->reduced);
}

int nccl_rank_start(struct nccl_rank *rank, uint32_t bucket, uint64_t batch)
{
    const uint64_t number = atomic_load(&rank->started);
    struct flight *const flight = flight_at(rank, number);
    if (rank->result != 0)
        return rank->result;
    /* A flight is used again only after its batch has ended. */
    if (number - rank->finished == rank->flight_count)
        note_finished(rank);
    flight->bucket = bucket;
    flight->batch = batch;
    const int rc = queue_collective(rank, flight);
    if (rc != 0)
        return keep(rank, rc);
    rank->latest[bucket] = number;
    atomic_store(&rank->started, number + 1);
    return 0;
}

int nccl_rank_wait(struct nccl_rank *rank, uint32_t bucket)
{
    if (rank->result != 0 || is_cancelled(rank))
        return rank->result != 0 ? rank->result : -ECANCELED;
    return keep(rank, stream_wait(rank->member.compute, flight_at(rank, rank->latest[bucket])->reduced));
}

/* Waiting. */

/* Has every tower started collective `number`? */
static bool is_complete(const struct nccl_rank *rank, uint64_t number)
{
    bool is_started = true;
    for (uint32_t d = 0; d < rank->group->towers; d++)
        is_started = is_started && atomic_load(&rank->group->ranks[d]->started) > number;
    return is_started;
}

static int check_comm(const struct nccl_rank *rank)
{
    ncclResult_t state;
    char call[64];
    const int rc = NCCL_CALL(name_of(rank), ncclCommGetAsyncError(rank->comm, &state));
    if (rc != 0 || state == ncclSuccess || state == ncclInProgress)
        return rc;
    snprintf(call, sizeof(call), "the communicator of tower %u", rank->tower);
    return nccl_check(state, name_of(rank), call);
}

/* Collectives are done in the order in which they were started. One that another tower has not started, which may be
 * waiting for its input, is no stall. */
static void look_at_oldest(struct nccl_rank *rank)
{
    const uint64_t started = atomic_load(&rank->started);
    while (rank->finished < started) {
        struct event *const reduced = flight_at(rank, rank->finished)->reduced;
        if (!reduced->device->ops->event_passed(reduced))
            break;
        note_finished(rank);
    }
    if (rank->finished < started && !is_complete(rank, rank->finished))
        heartbeat_beat();
}

int nccl_rank_poll(struct nccl_rank *rank)
{
    if (rank->result != 0)
        return rank->result;
    if (is_cancelled(rank))
        return -ECANCELED;
    look_at_oldest(rank);
    return keep(rank, check_comm(rank));
}

void nccl_rank_record(struct nccl_rank *rank)
{
    reduce_clock_record(rank->clock);
}

/* Leaving. */

/* Nothing is going on: tell NCCL. */
static int end_comm(struct nccl_rank *rank)
{
    int rc = await_collectives(rank);
    if (rc == 0)
        rc = deregister_regions(rank);
    return rc != 0 ? rc : RANK_CALL(rank, ncclCommFinalize(rank->comm));
}

void nccl_rank_leave(struct nccl_rank *rank)
{
    atomic_store(&rank->leaves, true);
    if (rank->comm == NULL)
        return;
    int rc = keep(rank, cuda_enter(rank->member.device));
    if (rc == 0)
        rc = end_comm(rank);
    /* Without this rank the others' waits cannot end well. */
    if (rc != 0)
        atomic_store(&rank->group->cancelled, true);
    if (rc == 0)
        NCCL_CALL(name_of(rank), ncclCommDestroy(rank->comm));
    else
        NCCL_CALL(name_of(rank), ncclCommAbort(rank->comm));
    rank->comm = NULL;
}
