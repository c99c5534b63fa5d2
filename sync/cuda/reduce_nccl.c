/* Reduction by NCCL, with one rank for each tower and device. Every NCCL call of a communicator is made by its tower's
 * thread.
 *
 * NCCL adds in an order of its own. If additions have to be in pairs, NCCL only sends numbers: every rank gets its part
 * of a bucket from all others, adds the parts, and sends the sums to all others. This sends as many bytes as a ring.
 *
 * Communicators are not blocking: a call that returns ncclInProgress is polled until it is done or the run is
 * cancelled, so no call blocks for long after a cancel (if NCCL itself hangs, stage/watchdog.h ends the run). The
 * price: NCCL starts a thread for every call, which takes memory and 30 to 80 us. A rank with an error or a cancel
 * aborts its communicator when it leaves; the others finalize theirs. */
#include "sync/reduce.h"

#include <assert.h>
#include <errno.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute/cuda/kernels.h"
#include "stage/clock.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/heartbeat.h"
#include "stage/log.h"
#include "sync/cuda/reduce_clock.h"

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

/* Returns 0 on success and for ncclInProgress; otherwise logs "NAME: CALL: TEXT (NCCL's last message)" and returns
 * -EINVAL (our mistake), -EREMOTEIO (another rank failed), or -EIO. */
static int nccl_check(ncclResult_t status, const char *name, const char *call)
{
    if (status == ncclSuccess || status == ncclInProgress)
        return 0;
    const char *const words = ncclGetLastError(NULL);
    log_message(LOG_ERROR, "%s: %s: %s (%s)", name, call, ncclGetErrorString(status),
                words != NULL && words[0] != '\0' ? words : "no more is known");
    return errno_of(status);
}

/* Make a call, note it in the thread's heartbeat, and check its result: NCCL_CALL("cuda0", ncclCommDestroy(comm)). */
#define NCCL_CALL(name, call) nccl_check(HEARTBEAT_CALL(#call, call), (name), #call)

struct nccl_rank;

/* The state that all ranks share. */
struct nccl_group {
    uint32_t towers;
    bool in_pairs;
    struct nccl_rank **ranks;           /* [tower] */
    atomic_bool cancelled;              /* all waits end; also set by a rank that aborts */
};

#define PART_ALIGN 32u                  /* in floats */
#define YIELD_NS 200000u                /* in waits longer than this the delay of a nap does not matter */
#define NAP_NS 100000

/* A collective that is queued, but may not have ended. */
struct inflight_collective {
    uint32_t bucket;
    uint64_t batch;
    struct event *queued;               /* on the compute stream: the bucket is complete */
    struct event *reduced;              /* on the communication stream: the sum is complete */
};

struct nccl_rank {
    struct nccl_group *group;
    uint32_t tower;
    struct reduce_member member;
    struct buckets buckets;
    struct reduce_clock *clock;
    ncclComm_t comm;                    /* NULL: not open */
    float *received;                    /* in_pairs: device memory for this rank's part of the buckets of all towers */
    void *registered[REGION_COUNT];     /* NCCL's handles of registered regions, NULL: not registered */
    int result;                         /* the first error, or 0 */
    struct inflight_collective *inflight;       /* collective n is inflight[n % inflight_count] */
    uint32_t inflight_count;            /* enough entries for all batches that may be queued */
    uint64_t *latest;                   /* [bucket]: its last collective */
    atomic_uint_fast64_t started;       /* count of started collectives, including the warm-up; other ranks read it */
    uint64_t finished;                  /* count of collectives that have ended */
    bool warmed_up;                     /* the warm-up has ended */
    atomic_bool leaves;                 /* this rank starts no more collectives; other ranks read it */
};

static const char *rank_name(const struct nccl_rank *rank)
{
    return cuda_name(rank->member.device);
}

static bool is_cancelled(const struct nccl_rank *rank)
{
    return atomic_load(&rank->group->cancelled);
}

/* The pause between two polls of a wait that began at begun_ns. */
static void poll_pause(uint64_t begun_ns)
{
    if (clock_now_ns() - begun_ns < YIELD_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

/* Keep the first error as the rank's result. Returns rc. */
static int keep_error(struct nccl_rank *rank, int rc)
{
    if (rank->result == 0)
        rank->result = rc;
    return rc;
}

static int nccl_rank_poll(struct nccl_rank *rank);
static int nccl_rank_start(struct nccl_rank *rank, uint32_t bucket, uint64_t batch);

/* ---- calls of a rank ---- */

/* Keep the heartbeat going while this rank finalizes and others still train: finalizing ends only when all ranks do it,
 * so this is no stall. */
static void beat_for_others(const struct nccl_rank *rank)
{
    const struct nccl_group *const group = rank->group;
    bool has_others = false;
    for (uint32_t d = 0; d < group->towers; d++)
        has_others = has_others || !atomic_load(&group->ranks[d]->leaves);
    if (has_others && atomic_load(&rank->leaves))
        heartbeat_beat();
}

/* Wait until the communicator has completed the call. */
static int await_call(const struct nccl_rank *rank, const char *call)
{
    const uint64_t begun_ns = clock_now_ns();
    ncclResult_t state = ncclInProgress;
    int rc = 0;
    while (rc == 0) {
        rc = NCCL_CALL(rank_name(rank), ncclCommGetAsyncError(rank->comm, &state));
        if (rc != 0 || state != ncclInProgress)
            return rc != 0 ? rc : nccl_check(state, rank_name(rank), call);
        if (is_cancelled(rank))
            return -ECANCELED;
        beat_for_others(rank);
        poll_pause(begun_ns);
    }
    return rc;
}

static int finish_call(struct nccl_rank *rank, ncclResult_t status, const char *call)
{
    int rc = nccl_check(status, rank_name(rank), call);
    if (rc == 0 && status == ncclInProgress)
        rc = await_call(rank, call);
    heartbeat_end_wait();
    return keep_error(rank, rc);
}

/* Make a call and wait until it is completed. */
#define RANK_CALL(rank, call) (heartbeat_begin_wait(#call), finish_call((rank), (call), #call))

/* ---- opening and closing a rank ---- */

static int nccl_rank_open(struct nccl_rank **rank_out, struct nccl_group *group, uint32_t tower)
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

static void nccl_rank_close(struct nccl_rank *rank)
{
    if (rank == NULL)
        return;
    assert(rank->comm == NULL);
    for (uint32_t i = 0; rank->inflight != NULL && i < rank->inflight_count; i++) {
        event_close(rank->inflight[i].queued);
        event_close(rank->inflight[i].reduced);
    }
    if (rank->received != NULL)
        rank->member.device->ops->free(rank->member.device, rank->received);
    reduce_clock_close(rank->clock);
    free(rank->inflight);
    free(rank->latest);
    free(rank);
}

static int open_inflight(struct nccl_rank *rank)
{
    struct device *const device = rank->member.device;
    rank->inflight_count = (device->ops->steps_ahead + 1) * rank->buckets.count;
    rank->inflight = calloc(rank->inflight_count, sizeof(*rank->inflight));
    rank->latest = calloc(rank->buckets.count, sizeof(*rank->latest));
    int rc = rank->inflight == NULL || rank->latest == NULL ? -ENOMEM : 0;
    for (uint32_t i = 0; i < rank->inflight_count && rc == 0; i++) {
        rc = device->ops->event_open(device, EVENT_ORDER, &rank->inflight[i].queued);
        if (rc == 0)
            rc = device->ops->event_open(device, EVENT_ORDER, &rank->inflight[i].reduced);
    }
    return rc;
}

/* ---- parts of a range: in whole lines, so that vectors of 4 floats fit ---- */

struct part { size_t begin, count; };

static struct part part_of(const struct nccl_rank *rank, size_t count, uint32_t tower)
{
    const size_t lines = (count + PART_ALIGN - 1) / PART_ALIGN, towers = rank->group->towers;
    const size_t begin = lines * tower / towers * PART_ALIGN, end = lines * (tower + 1) / towers * PART_ALIGN;
    return (struct part){ begin, (end < count ? end : count) - begin };
}

/* The length of the longest part of a range of `count` floats. */
static size_t part_most(const struct nccl_rank *rank, size_t count)
{
    const size_t lines = (count + PART_ALIGN - 1) / PART_ALIGN, towers = rank->group->towers;
    return (lines + towers - 1) / towers * PART_ALIGN;
}

static int open_received(struct nccl_rank *rank)
{
    struct device *const device = rank->member.device;
    size_t most = 0;
    void *memory = NULL;
    for (uint32_t b = 0; b < rank->buckets.count; b++) {
        const size_t part = part_most(rank, rank->buckets.bucket[b].count);
        most = part > most ? part : most;
    }
    const int rc = device->ops->alloc(device, most * rank->group->towers * sizeof(float), &memory);
    rank->received = memory;
    return rc;
}

static int open_comm(struct nccl_rank *rank, const ncclUniqueId *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return RANK_CALL(rank, ncclCommInitRankConfig(&rank->comm, (int)rank->group->towers, *id, (int)rank->tower,
                                                  &config));
}

/* Register a region, which NCCL then uses without internal copies. If registering fails, NCCL copies. */
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
    log_message(LOG_RUN, "%s: NCCL does not use what it sums in place: %s", rank_name(rank),
                ncclGetErrorString(status));
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

/* Wait until all started collectives have ended. */
static int await_collectives(struct nccl_rank *rank)
{
    const uint64_t begun_ns = clock_now_ns();
    heartbeat_begin_wait("waiting for a sum of NCCL");
    int rc = nccl_rank_poll(rank);
    while (rc == 0 && rank->finished < atomic_load(&rank->started)) {
        poll_pause(begun_ns);
        rc = nccl_rank_poll(rank);
    }
    heartbeat_end_wait();
    return rc;
}

/* Execute collectives of each size once: the first one opens connections and loads kernels, which must not happen while
 * another collective waits for its ranks. */
static int warm_up(struct nccl_rank *rank)
{
    int rc = 0;
    for (uint32_t b = 0; b < rank->buckets.count && rc == 0; b++) {
        rc = nccl_rank_start(rank, b, 0);
        if (rc == 0)
            rc = await_collectives(rank);
    }
    rank->warmed_up = true;
    return rc;
}

static int nccl_rank_connect(struct nccl_rank *rank, const struct reduce_member *member, const struct buckets *buckets,
                             const ncclUniqueId *id)
{
    rank->member = *member;
    rank->buckets = *buckets;
    int rc = open_inflight(rank);
    if (rc == 0)
        rc = cuda_enter(member->device);
    if (rc == 0 && rank->group->in_pairs)
        rc = open_received(rank);
    if (rc == 0)
        rc = open_comm(rank, id);
    if (rc == 0)
        rc = register_regions(rank);
    if (rc == 0)
        rc = warm_up(rank);
    if (rc == 0)
        rc = reduce_clock_open(&rank->clock, member, rank->tower, buckets->count);
    return keep_error(rank, rc);
}

/* ---- collectives ---- */

static struct inflight_collective *inflight_at(const struct nccl_rank *rank, uint64_t number)
{
    return &rank->inflight[number % rank->inflight_count];
}

static void note_finished(struct nccl_rank *rank)
{
    rank->finished++;
    heartbeat_beat();
}

/* The range of a bucket; during the warm-up as many zeros. */
static struct reduce_region range_of(const struct nccl_rank *rank, const struct bucket *bucket)
{
    const struct reduce_member *const member = &rank->member;
    if (rank->warmed_up)
        return (struct reduce_region){ member->regions[bucket->region].floats + bucket->offset, bucket->count };
    return (struct reduce_region){ member->zeros.floats,
                                  bucket->count < member->zeros.count ? bucket->count : member->zeros.count };
}

/* Queue a round of messages. `collects`: each rank gets its part of the ranges of all others; otherwise every rank gets
 * each rank's part of the sums. */
static int queue_messages(struct nccl_rank *rank, const struct reduce_region *range, bool collects)
{
    const cudaStream_t stream = cuda_stream_of(rank->member.communication);
    const struct part mine = part_of(rank, range->count, rank->tower);
    int rc = keep_error(rank, NCCL_CALL(rank_name(rank), ncclGroupStart()));
    if (rc != 0)
        return rc;
    for (uint32_t other = 0; other < rank->group->towers && rc == 0; other++) {
        const struct part part = part_of(rank, range->count, other);
        const struct part sent = collects ? part : mine, got = collects ? mine : part;
        float *const to = collects ? rank->received + other * part_most(rank, range->count)
                                   : range->floats + part.begin;
        if (other == rank->tower)
            continue;
        if (sent.count > 0)
            rc = NCCL_CALL(rank_name(rank), ncclSend(range->floats + sent.begin, sent.count, ncclFloat32, (int)other,
                                                     rank->comm, stream));
        if (rc == 0 && got.count > 0)
            rc = NCCL_CALL(rank_name(rank), ncclRecv(to, got.count, ncclFloat32, (int)other, rank->comm, stream));
    }
    const int ended = RANK_CALL(rank, ncclGroupEnd());
    return keep_error(rank, rc != 0 ? rc : ended);
}

/* Add this rank's part of all ranges, in place. */
static int queue_addition(struct nccl_rank *rank, const struct reduce_region *range)
{
    const struct part mine = part_of(rank, range->count, rank->tower);
    struct tower_arenas arenas = { .count = rank->group->towers };
    for (uint32_t tower = 0; tower < arenas.count; tower++)
        arenas.values[tower] = tower == rank->tower ? range->floats + mine.begin
                                                    : rank->received + tower * part_most(rank, range->count);
    if (mine.count == 0)
        return 0;
    return CUDA_CALL(rank_name(rank), kernel_sum_towers(cuda_stream_of(rank->member.communication), VALUE_FP32, &arenas,
                                                        0, mine.count, rank->tower, 1));
}

/* Queue the sum, not the mean: the update divides once, by the real number of samples, which may differ between
 * batches. The collective is in the stream only when the call has completed. */
static int queue_sum(struct nccl_rank *rank, const struct reduce_region *range)
{
    if (!rank->group->in_pairs)
        return RANK_CALL(rank, ncclAllReduce(range->floats, range->floats, range->count, ncclFloat32, ncclSum,
                                             rank->comm, cuda_stream_of(rank->member.communication)));
    int rc = queue_messages(rank, range, true);
    if (rc == 0)
        rc = keep_error(rank, queue_addition(rank, range));
    return rc == 0 ? queue_messages(rank, range, false) : rc;
}

static int queue_collective(struct nccl_rank *rank, const struct inflight_collective *entry)
{
    const struct reduce_member *const member = &rank->member;
    const struct reduce_region range = range_of(rank, &rank->buckets.bucket[entry->bucket]);
    int rc = stream_record(member->compute, entry->queued);
    if (rc == 0)
        rc = stream_wait(member->communication, entry->queued);
    if (rc == 0)
        rc = reduce_clock_begin(rank->clock, entry->bucket, entry->batch);
    if (rc == 0)
        rc = cuda_enter(member->device);
    if (rc == 0)
        rc = queue_sum(rank, &range);
    if (rc == 0)
        rc = reduce_clock_end(rank->clock);
    return rc != 0 ? rc : stream_record(member->communication, entry->reduced);
}

static int nccl_rank_start(struct nccl_rank *rank, uint32_t bucket, uint64_t batch)
{
    const uint64_t number = atomic_load(&rank->started);
    struct inflight_collective *const entry = inflight_at(rank, number);
    if (rank->result != 0)
        return rank->result;
    /* An entry may be reused only after its batch has ended. */
    if (number - rank->finished == rank->inflight_count)
        note_finished(rank);
    entry->bucket = bucket;
    entry->batch = batch;
    const int rc = queue_collective(rank, entry);
    if (rc != 0)
        return keep_error(rank, rc);
    rank->latest[bucket] = number;
    atomic_store(&rank->started, number + 1);
    return 0;
}

static int nccl_rank_wait(struct nccl_rank *rank, uint32_t bucket)
{
    if (rank->result != 0 || is_cancelled(rank))
        return rank->result != 0 ? rank->result : -ECANCELED;
    return keep_error(rank, stream_wait(rank->member.compute, inflight_at(rank, rank->latest[bucket])->reduced));
}

/* ---- waiting ---- */

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
    const int rc = NCCL_CALL(rank_name(rank), ncclCommGetAsyncError(rank->comm, &state));
    if (rc != 0 || state == ncclSuccess || state == ncclInProgress)
        return rc;
    snprintf(call, sizeof(call), "the communicator of tower %u", rank->tower);
    return nccl_check(state, rank_name(rank), call);
}

/* Count the collectives that have ended, which they do in the order of their start. Waiting for a tower that has not
 * started one, perhaps because it waits for input, is no stall. */
static void retire_finished(struct nccl_rank *rank)
{
    const uint64_t started = atomic_load(&rank->started);
    while (rank->finished < started) {
        struct event *const reduced = inflight_at(rank, rank->finished)->reduced;
        if (!reduced->device->ops->event_passed(reduced))
            break;
        note_finished(rank);
    }
    if (rank->finished < started && !is_complete(rank, rank->finished))
        heartbeat_beat();
}

static int nccl_rank_poll(struct nccl_rank *rank)
{
    if (rank->result != 0)
        return rank->result;
    if (is_cancelled(rank))
        return -ECANCELED;
    retire_finished(rank);
    return keep_error(rank, check_comm(rank));
}

static void nccl_rank_record(struct nccl_rank *rank)
{
    reduce_clock_record(rank->clock);
}

/* ---- leaving ---- */

/* End the communicator regularly. */
static int end_comm(struct nccl_rank *rank)
{
    int rc = await_collectives(rank);
    if (rc == 0)
        rc = deregister_regions(rank);
    return rc != 0 ? rc : RANK_CALL(rank, ncclCommFinalize(rank->comm));
}

static void nccl_rank_leave(struct nccl_rank *rank)
{
    atomic_store(&rank->leaves, true);
    if (rank->comm == NULL)
        return;
    int rc = keep_error(rank, cuda_enter(rank->member.device));
    if (rc == 0)
        rc = end_comm(rank);
    /* After an error of this rank the waits of the others would not end. */
    if (rc != 0)
        atomic_store(&rank->group->cancelled, true);
    if (rc == 0)
        NCCL_CALL(rank_name(rank), ncclCommDestroy(rank->comm));
    else
        NCCL_CALL(rank_name(rank), ncclCommAbort(rank->comm));
    rank->comm = NULL;
}

/* ---- the reduction: how the ranks find each other ---- */

struct nccl_reduce {
    struct reduce base;
    struct nccl_group group;
    pthread_mutex_t lock;       /* guards the fields below */
    pthread_cond_t changed;
    struct device **devices;    /* [tower], NULL until it has joined */
    uint32_t joined;
    bool has_id, is_broken;         /* has_id: id is set; is_broken: it will never be set */
    ncclUniqueId id;
};

/* ---- opening and closing ---- */

static int open_ranks(struct nccl_reduce *reduce)
{
    struct nccl_group *const group = &reduce->group;
    reduce->devices = calloc(group->towers, sizeof(*reduce->devices));
    group->ranks = calloc(group->towers, sizeof(*group->ranks));
    int rc = reduce->devices == NULL || group->ranks == NULL ? -ENOMEM : 0;
    for (uint32_t d = 0; d < group->towers && rc == 0; d++)
        rc = nccl_rank_open(&group->ranks[d], group, d);
    return rc;
}

static void nccl_close(struct reduce *base)
{
    struct nccl_reduce *const reduce = (struct nccl_reduce *)base;
    if (reduce == NULL)
        return;
    for (uint32_t d = 0; reduce->group.ranks != NULL && d < reduce->group.towers; d++)
        nccl_rank_close(reduce->group.ranks[d]);
    pthread_cond_destroy(&reduce->changed);
    pthread_mutex_destroy(&reduce->lock);
    free(reduce->group.ranks);
    free(reduce->devices);
    free(reduce);
}

static int nccl_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    struct nccl_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    reduce->base.ops = &reduce_nccl_ops;
    reduce->group.towers = spec->towers;
    reduce->group.in_pairs = spec->in_pairs;
    atomic_init(&reduce->group.cancelled, false);
    pthread_mutex_init(&reduce->lock, NULL);
    pthread_cond_init(&reduce->changed, NULL);
    const int rc = open_ranks(reduce);
    if (rc != 0) {
        nccl_close(&reduce->base);
        return rc;
    }
    *reduce_out = &reduce->base;
    return 0;
}

/* ---- what NCCL would refuse, or hang at; all towers have joined ---- */

/* Fail if two ranks are on one device. */
static int check_shared_device(const struct nccl_reduce *reduce, uint32_t tower)
{
    for (uint32_t d = 0; d < tower; d++) {
        if (cuda_ordinal(reduce->devices[d]) != cuda_ordinal(reduce->devices[tower]))
            continue;
        log_message(LOG_ERROR, "sync.reduce = nccl: towers %u and %u are both on %s, and NCCL takes one tower a "
                    "device: use sync.reduce = peer", d, tower, cuda_name(reduce->devices[tower]));
        return -EINVAL;
    }
    return 0;
}

/* Fail if launches block until they end, because collectives end only together. */
static int check_blocking_launches(const struct nccl_reduce *reduce)
{
    const char *const blocking = getenv("CUDA_LAUNCH_BLOCKING");
    if (reduce->group.towers == 1 || blocking == NULL || blocking[0] == '\0' || strcmp(blocking, "0") == 0)
        return 0;
    log_message(LOG_ERROR, "sync.reduce = nccl: CUDA_LAUNCH_BLOCKING=%s can hang with several devices in one process: "
                "unset it", blocking);
    return -EINVAL;
}

static int check_towers(const struct nccl_reduce *reduce)
{
    int rc = check_blocking_launches(reduce);
    for (uint32_t d = 0; d < reduce->group.towers && rc == 0; d++)
        rc = check_shared_device(reduce, d);
    return rc;
}

/* ---- joining ---- */

/* Count a tower that joins. True for the last one. */
static bool join_count(struct nccl_reduce *reduce, uint32_t tower, struct device *device)
{
    pthread_mutex_lock(&reduce->lock);
    reduce->devices[tower] = device;
    const bool is_last = ++reduce->joined == reduce->group.towers;
    pthread_mutex_unlock(&reduce->lock);
    return is_last;
}

/* The last tower creates the communicator's id, or ends the rendezvous. */
static int create_id(struct nccl_reduce *reduce)
{
    ncclUniqueId id;
    int rc = check_towers(reduce);
    if (rc == 0)
        rc = cuda_enter(reduce->devices[0]);
    if (rc == 0)
        rc = NCCL_CALL(cuda_name(reduce->devices[0]), ncclGetUniqueId(&id));
    pthread_mutex_lock(&reduce->lock);
    if (rc == 0)
        reduce->id = id;
    reduce->has_id = rc == 0;
    reduce->is_broken = rc != 0;
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
    return rc;
}

/* Wait for the other towers; this is no stall, because a tower that does not join hangs elsewhere or has failed. */
static int await_id(struct nccl_reduce *reduce)
{
    pthread_mutex_lock(&reduce->lock);
    while (!reduce->has_id && !reduce->is_broken && !atomic_load(&reduce->group.cancelled))
        pthread_cond_wait(&reduce->changed, &reduce->lock);
    const bool is_over = reduce->is_broken || atomic_load(&reduce->group.cancelled);
    pthread_mutex_unlock(&reduce->lock);
    return is_over ? -ECANCELED : 0;
}

static int nccl_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct nccl_reduce *const reduce = (struct nccl_reduce *)base;
    int rc = 0;
    if (join_count(reduce, tower, member->device))
        rc = create_id(reduce);
    if (rc == 0)
        rc = await_id(reduce);
    return rc != 0 ? rc : nccl_rank_connect(reduce->group.ranks[tower], member, buckets, &reduce->id);
}

/* ---- steps ---- */

static struct nccl_rank *rank_of(struct reduce *base, uint32_t tower)
{
    return ((struct nccl_reduce *)base)->group.ranks[tower];
}

static int nccl_start(struct reduce *base, uint32_t tower, uint32_t bucket, uint64_t batch)
{
    return nccl_rank_start(rank_of(base, tower), bucket, batch);
}

static int nccl_wait(struct reduce *base, uint32_t tower, uint32_t bucket)
{
    return nccl_rank_wait(rank_of(base, tower), bucket);
}

static int nccl_poll(struct reduce *base, uint32_t tower)
{
    return nccl_rank_poll(rank_of(base, tower));
}

static void nccl_record(struct reduce *base, uint32_t tower)
{
    nccl_rank_record(rank_of(base, tower));
}

static void nccl_leave(struct reduce *base, uint32_t tower)
{
    nccl_rank_leave(rank_of(base, tower));
}

static void nccl_cancel(struct reduce *base)
{
    struct nccl_reduce *const reduce = (struct nccl_reduce *)base;
    atomic_store(&reduce->group.cancelled, true);
    pthread_mutex_lock(&reduce->lock);
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
}

static void put_nccl(char *text, size_t text_size)
{
    int number;
    if (ncclGetVersion(&number) == ncclSuccess)
        snprintf(text, text_size, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
    else
        snprintf(text, text_size, "?");
}

static const struct library nccl_libraries[] = { { "NCCL", put_nccl, "libnccl.so" }, { NULL, NULL, NULL } };

/* Make CUDA load kernels at the start if the run has a device for each tower, and so may use NCCL: loading a kernel
 * later stops its device, which deadlocks with an NCCL collective that waits for a peer. Other runs do without, because
 * loading all kernels of the libraries takes seconds and memory. The first call of CUDA reads this variable. */
static void nccl_prepare(uint32_t towers)
{
    if (towers <= cuda_count_at_most("/dev"))
        setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

static int nccl_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    if (strcmp(towers->devices->kind, "cuda") != 0)
        return unsupported_reason_set(reason, -EINVAL, "reduce",
                                      "nccl is for CUDA devices, and this run computes on the CPU: "
                                      "use auto or host");
    if (towers->has_bf16_grads)
        return unsupported_reason_set(reason, -EINVAL, "reduce",
                                      "NCCL would add bf16 numbers in bf16, and sync.wire = bf16 "
                                      "sums in fp32: use auto, peer or host");
    if (towers->in_pairs && towers->here.count > KERNEL_TOWERS_MAX)
        return unsupported_reason_set(reason, -EINVAL, "reduce",
                                      "the sums in pairs of train.slices are of at most %u towers by nccl: use auto or "
                                      "host", KERNEL_TOWERS_MAX);
    if (towers->here.count > towers->device_count)
        return unsupported_reason_set(reason, -ENODEV, "reduce",
                                      "NCCL takes one tower a device, and there are more towers than "
                                      "devices: use auto, peer or host");
    return 0;
}

const struct reduce_ops reduce_nccl_ops = {
    .name = "nccl",
    .prepare = nccl_prepare,
    .supports = nccl_supports,
    .libraries = nccl_libraries,
    .open = nccl_open,
    .close = nccl_close,
    .join = nccl_join,
    .start = nccl_start,
    .wait = nccl_wait,
    .poll = nccl_poll,
    .record = nccl_record,
    .leave = nccl_leave,
    .cancel = nccl_cancel,
};
