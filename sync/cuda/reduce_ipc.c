/* Reduction between the processes (ranks) of one host whose CUDA devices access each other's memory: reduce_peer.c
 * across processes. For its share of a bucket every tower's communication stream reads the arenas of all towers of the
 * run, adds them in pairs and writes the sum to all of them, or to the owner's.
 *
 * Towers of one process wait for each other at a rendezvous, by events. Ranks wait for each other by values in host
 * memory, which streams write and wait for; no thread of the host is in the way. A rank waits only for values in its
 * own memory, into which the others write: so it can end its own waits, and nobody else's, after a cancel.
 *
 * Every value counts the reductions of a bucket, from 1. A wait depends only on work that all processes queued for this
 * reduction, or for one started before it: so no order in which a device executes its streams is a deadlock.
 *
 * After a cancel a rank ends its waits only when all ranks have cancelled: what its streams then do to the arenas of
 * others is garbage, and after their cancel nobody reports or saves anything that was not complete before
 * (device_cuda.c, await_event). If a rank has died instead, the waiting streams are left behind until the process ends.
 * */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stage/clock.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/cuda_ipc.h"
#include "stage/cuda/device_cuda.h"
#include "stage/heartbeat.h"
#include "stage/log.h"
#include "sync/cuda/ipc_trial.h"
#include "sync/cuda/reduce_clock.h"
#include "sync/cuda/reduce_peer.h"
#include "sync/ranks/rank_memory.h"
#include "sync/ranks/ranks.h"

#define CONNECT_TAG RANKS_TAG_FREE
#define NAP_NS 50000
#define PATIENCE_NS 20000000000u        /* after a cancel, for ranks that are still alive */
#define FAILED_PATIENCE_NS 1000000000u  /* after a cancel, when a rank has failed */
#define RELEASED (1u << 30)             /* added to a value that ends all waits for it */

/* A region of a tower, as other ranks open it. */
struct arena_offer {
    struct cuda_export export;
    uint32_t bytes;             /* that are compared when it was opened; 0: the tower does not have the region */
    uint32_t token;             /* which they contain then */
};

/* A rank's memory, which all ranks map, begins with it. Arrays follow: the offers of its towers; and values that other
 * ranks' streams write and its own wait for. Only the rank itself writes the rest. */
struct board {
    atomic_uint reached;        /* number of the latest meeting that the rank has reached */
    atomic_bool is_cancelled;   /* nothing that completes from now on is reported by the rank */
    atomic_bool is_idle;        /* its streams use no memory of other ranks any more */
    atomic_bool has_closed;     /* it has closed all memory of other ranks */
};

/* Memory of another rank, opened for a device. */
struct mapping {
    struct device *device;
    cudaIpcMemHandle_t handle;
    void *base;
};

struct connection {
    struct ranks_job job;
    struct rank_memory *memory;
    atomic_int result;          /* 0 until the ranks' memory is connected; then 1, or an error of the MPI library */
};

enum togetherness { APART, TOGETHER, BROKEN };

struct ipc_reduce {
    struct rendezvous rendezvous;       /* of the towers of this process */
    struct ranks *ranks;
    uint32_t run;                       /* towers of the run */
    struct reduce_clock *clocks[KERNEL_TOWERS_MAX];     /* [tower here]; each is set by its tower before it joins */
    struct tower_arenas *arenas;        /* [tower here * REGION_COUNT + region]: addresses on the tower's device */
    struct connection connection;       /* its memory is open when all towers here have joined */
    _Atomic(struct board *) own;        /* NULL before */
    bool *is_pinned;                    /* [rank]: the rank's memory */
    uint32_t meeting;                   /* the latest meeting of this rank; used by one thread at a time */
    struct mapping *mappings;
    uint32_t mapping_count;
    uint32_t *released;                 /* [value]: what ipc_release last wrote, 0: nothing; the lock guards it */
    /* Guarded by the lock of the rendezvous: */
    uint32_t begun, left;               /* towers here */
    enum togetherness state;
};

static struct ipc_reduce *ipc_reduce_of(void *reduce)
{
    return reduce;
}

/* ---- the boards ---- */

static uint32_t own_rank(const struct ipc_reduce *reduce)
{
    return ranks_rank(reduce->ranks);
}

static struct board *board_of(const struct ipc_reduce *reduce, uint32_t rank)
{
    return rank_memory_of(reduce->connection.memory, rank);
}

static struct arena_offer *offer_of(struct board *board, uint32_t tower_there, enum region region)
{
    return (struct arena_offer *)(void *)(board + 1) + (size_t)tower_there * REGION_COUNT + region;
}

/* For each bucket a value of each rank: its towers' buckets are complete; and of each tower: its share is summed. */
static size_t value_count(const struct ipc_reduce *reduce)
{
    return (size_t)reduce->rendezvous.buckets.count * (ranks_size(reduce->ranks) + reduce->run);
}

static uint32_t *values_of(const struct ipc_reduce *reduce, struct board *board)
{
    return (uint32_t *)(void *)offer_of(board, reduce->rendezvous.towers, 0);
}

static size_t board_bytes(const struct ipc_reduce *reduce)
{
    return sizeof(struct board) + (size_t)reduce->rendezvous.towers * REGION_COUNT * sizeof(struct arena_offer) +
           value_count(reduce) * sizeof(uint32_t);
}

static uint32_t *ready_value(const struct ipc_reduce *reduce, struct board *board, uint32_t bucket, uint32_t rank)
{
    return values_of(reduce, board) + (size_t)bucket * (ranks_size(reduce->ranks) + reduce->run) + rank;
}

static uint32_t *summed_value(const struct ipc_reduce *reduce, struct board *board, uint32_t bucket, uint32_t tower)
{
    return ready_value(reduce, board, bucket, ranks_size(reduce->ranks)) + tower;
}

static bool is_here(const struct ipc_reduce *reduce, uint32_t tower)
{
    return tower - reduce->rendezvous.first < reduce->rendezvous.towers;
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

/* ---- joining: offers of this process, without waiting for others ---- */

/* Regions may be the same memory, of which the first one's token counts. */
static enum region first_with_same_memory(const struct reduce_member *member, enum region region)
{
    enum region first = 0;
    while (peer_region(member, first).memory != peer_region(member, region).memory)
        first++;
    return first;
}

static int offer_region(struct ipc_reduce *reduce, struct board *board, uint32_t here, enum region region)
{
    const struct reduce_member *const member = &reduce->rendezvous.members[here];
    const struct peer_region memory = peer_region(member, region);
    struct arena_offer *const offer = offer_of(board, here, region);
    const uint32_t tower = reduce->rendezvous.first + here;
    char why[CUDA_IPC_WHY] = "";
    if (memory.bytes == 0)
        return 0;
    offer->bytes = memory.bytes < sizeof(offer->token) ? (uint32_t)memory.bytes : sizeof(offer->token);
    offer->token = 1u << 30 | tower << 8 | first_with_same_memory(member, region);
    const int rc = cuda_ipc_export(member->device, memory.memory, &offer->export, why);
    if (rc != 0)
        log_message(LOG_ERROR, "sync.reduce = ipc: memory of %s cannot be used by other processes: %s: use sync.reduce = "
                    "host", cuda_name(member->device), why);
    return rc;
}

static int ipc_connect(struct rendezvous *rendezvous)
{
    struct ipc_reduce *const reduce = ipc_reduce_of(rendezvous);
    char why[CUDA_IPC_WHY] = "";
    int rc = cuda_ipc_prepare(rendezvous->members[0].device, why);
    if (rc != 0)
        log_message(LOG_ERROR, "sync.reduce = ipc: %s: use sync.reduce = host", why);
    if (rc == 0)
        rc = peer_connect(rendezvous);
    if (rc == 0)
        rc = rank_memory_open(&reduce->connection.memory, reduce->ranks, board_bytes(reduce));
    if (rc != 0)
        return rc;
    struct board *const board = board_of(reduce, own_rank(reduce));
    for (uint32_t d = 0; d < rendezvous->towers && rc == 0; d++)
        for (int region = 0; region < REGION_COUNT && rc == 0; region++)
            rc = offer_region(reduce, board, d, region);
    reduce->released = calloc(value_count(reduce), sizeof(*reduce->released));
    atomic_store(&reduce->own, board);
    return rc == 0 && reduce->released == NULL ? -ENOMEM : rc;
}

/* ---- beginning: the memory of all ranks ---- */

/* Called by the communication thread (ranks_job). */
static int advance(struct ranks_job *job)
{
    struct connection *const connection = (struct connection *)job;
    const int rc = rank_memory_connect(connection->memory, CONNECT_TAG, NULL);
    job->has_moved = false;
    job->is_polled = true;
    if (rc != 0)
        atomic_store(&connection->result, rc);
    return rc;
}

/* Map the memory of all ranks. */
static int connect_boards(struct ipc_reduce *reduce)
{
    struct rendezvous *const rendezvous = &reduce->rendezvous;
    int rc = 0;
    pthread_mutex_lock(&rendezvous->lock);
    if (rendezvous->cancelled)
        rc = -ECANCELED;
    else
        ranks_submit(reduce->ranks, &reduce->connection.job);
    pthread_mutex_unlock(&rendezvous->lock);
    while (rc == 0 && (rc = atomic_load(&reduce->connection.result)) == 0) {
        nap();
        rc = rendezvous_is_cancelled(rendezvous) ? -ECANCELED : 0;
    }
    return rc == 1 ? 0 : rc < 0 ? -ECANCELED : rc;
}

/* All ranks read and write the values, and so do the devices of this process. */
static int pin_boards(struct ipc_reduce *reduce)
{
    struct device *const device = reduce->rendezvous.members[0].device;
    int rc = 0;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++) {
        if (board_of(reduce, rank) == NULL) {
            log_message(LOG_ERROR, "sync.reduce = ipc: memory of rank %u cannot be mapped: use sync.reduce = host", rank);
            return -EIO;
        }
        rc = device->ops->pin(device, board_of(reduce, rank), board_bytes(reduce));
        reduce->is_pinned[rank] = rc == 0;
    }
    return rc;
}

/* Wait until all ranks have reached this meeting. 0 or -ECANCELED. */
static int meet(struct ipc_reduce *reduce)
{
    const uint32_t number = ++reduce->meeting;
    int rc = 0;
    atomic_store(&board_of(reduce, own_rank(reduce))->reached, number);
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks); rank++)
        while (rc == 0 && atomic_load(&board_of(reduce, rank)->reached) < number) {
            nap();
            rc = rendezvous_is_cancelled(&reduce->rendezvous) ? -ECANCELED : 0;
        }
    return rc;
}

/* What was opened for a device, or NULL. */
static struct mapping *find_mapping(const struct ipc_reduce *reduce, const struct device *device,
                                    const cudaIpcMemHandle_t *handle)
{
    for (uint32_t i = 0; i < reduce->mapping_count; i++)
        if (reduce->mappings[i].device == device &&
            memcmp(&reduce->mappings[i].handle, handle, sizeof(*handle)) == 0)
            return &reduce->mappings[i];
    return NULL;
}

/* A process opens a handle once for each device. Towers here may share one, whose first tower opens for all. */
static struct device *first_on_device(const struct ipc_reduce *reduce, uint32_t here)
{
    const struct reduce_member *const members = reduce->rendezvous.members;
    uint32_t first = 0;
    while (cuda_ordinal(members[first].device) != cuda_ordinal(members[here].device))
        first++;
    return members[first].device;
}

static int open_offer(struct ipc_reduce *reduce, uint32_t here, uint32_t tower, const struct arena_offer *offer,
                      void **memory_out)
{
    struct device *const device = first_on_device(reduce, here);
    const struct mapping *const known = find_mapping(reduce, device, &offer->export.handle);
    if (known != NULL) {
        *memory_out = (char *)known->base + offer->export.offset;
        return 0;
    }
    struct mapping *const mapping = &reduce->mappings[reduce->mapping_count];
    char why[CUDA_IPC_WHY] = "";
    const int rc = cuda_ipc_open(device, &offer->export, &mapping->base, memory_out, why);
    if (rc != 0) {
        log_message(LOG_ERROR, "sync.reduce = ipc: %s cannot use memory of tower %u in another process: %s: use "
                    "sync.reduce = host", cuda_name(device), tower, why);
        return rc;
    }
    mapping->device = device;
    mapping->handle = offer->export.handle;
    reduce->mapping_count++;
    return 0;
}

static const struct arena_offer *offer_of_tower(const struct ipc_reduce *reduce, uint32_t tower, enum region region)
{
    const uint32_t towers = reduce->rendezvous.towers, rank = tower / towers;
    return offer_of(board_of(reduce, rank), tower % towers, region);
}

/* Find the region of all towers for the device of one that is here. */
static int open_region(struct ipc_reduce *reduce, uint32_t here, enum region region)
{
    struct tower_arenas *const arenas = &reduce->arenas[here * REGION_COUNT + region];
    const struct reduce_member *const members = reduce->rendezvous.members;
    int rc = 0;
    arenas->count = reduce->run;
    for (uint32_t tower = 0; tower < reduce->run && rc == 0; tower++) {
        const struct arena_offer *const offer = offer_of_tower(reduce, tower, region);
        if (is_here(reduce, tower))
            arenas->values[tower] = peer_region(&members[tower - reduce->rendezvous.first], region).memory;
        else if (offer->bytes > 0)
            rc = open_offer(reduce, here, tower, offer, &arenas->values[tower]);
    }
    return rc;
}

static int open_arenas(struct ipc_reduce *reduce)
{
    const uint32_t towers = reduce->rendezvous.towers;
    int rc = 0;
    reduce->mappings = calloc((size_t)towers * (reduce->run - towers) * REGION_COUNT, sizeof(*reduce->mappings));
    if (reduce->mappings == NULL)
        return -ENOMEM;
    for (uint32_t d = 0; d < towers && rc == 0; d++)
        for (int region = 0; region < REGION_COUNT && rc == 0; region++)
            rc = open_region(reduce, d, region);
    return rc;
}

/* ---- beginning: is every region the one that was offered? ---- */

/* The first numbers of the regions of this process' towers: what they are, and a token that others look for. */
struct check {
    struct ipc_reduce *reduce;
    uint32_t *saved, *tokens;           /* pinned, [tower here * REGION_COUNT + region] */
    uint32_t *seen;                     /* pinned, [tower of the run * REGION_COUNT + region] */
};

/* Wait until the tower's communication stream is idle. */
static int settle(const struct reduce_member *member)
{
    struct event *passed = NULL;
    int rc = member->device->ops->event_open(member->device, EVENT_ORDER, &passed);
    if (rc == 0)
        rc = stream_record(member->communication, passed);
    if (rc == 0)
        rc = member->device->ops->event_wait(passed);
    event_close(passed);
    return rc;
}

/* Wait until nothing of the tower runs: its first weights may still be on their way. */
static int settle_all(const struct reduce_member *member)
{
    struct event *queued = NULL;
    int rc = member->device->ops->event_open(member->device, EVENT_ORDER, &queued);
    if (rc == 0)
        rc = stream_record(member->compute, queued);
    if (rc == 0)
        rc = stream_wait(member->communication, queued);
    if (rc == 0)
        rc = settle(member);
    event_close(queued);
    return rc;
}

/* Copy the first numbers of the regions of the towers here from or to pinned memory. */
static int copy_firsts(const struct check *check, uint32_t *pinned, enum copy_direction direction)
{
    const struct rendezvous *const rendezvous = &check->reduce->rendezvous;
    int rc = 0;
    for (uint32_t d = 0; d < rendezvous->towers && rc == 0; d++) {
        const struct reduce_member *const member = &rendezvous->members[d];
        rc = settle_all(member);
        for (int region = 0; region < REGION_COUNT && rc == 0; region++) {
            const struct arena_offer *const offer = offer_of_tower(check->reduce, rendezvous->first + d, region);
            void *const memory = peer_region(member, region).memory, *const at = &pinned[d * REGION_COUNT + region];
            const bool is_back = direction == COPY_FROM_DEVICE;
            rc = member->device->ops->copy(member->communication, is_back ? at : memory, is_back ? memory : at,
                                           offer->bytes, direction);
        }
        if (rc == 0)
            rc = settle(member);
    }
    return rc;
}

/* Look for the tokens of all towers, from one tower's device. */
static int look(const struct check *check, uint32_t here)
{
    const struct ipc_reduce *const reduce = check->reduce;
    const struct reduce_member *const member = &reduce->rendezvous.members[here];
    int rc = 0;
    for (uint32_t tower = 0; tower < reduce->run && rc == 0; tower++)
        for (int region = 0; region < REGION_COUNT && rc == 0; region++)
            rc = member->device->ops->copy(member->communication, &check->seen[tower * REGION_COUNT + region],
                                           reduce->arenas[here * REGION_COUNT + region].values[tower],
                                           offer_of_tower(reduce, tower, region)->bytes, COPY_FROM_DEVICE);
    if (rc == 0)
        rc = settle(member);
    for (uint32_t tower = 0; tower < reduce->run && rc == 0; tower++)
        for (int region = 0; region < REGION_COUNT && rc == 0; region++) {
            const struct arena_offer *const offer = offer_of_tower(reduce, tower, region);
            if (memcmp(&check->seen[tower * REGION_COUNT + region], &offer->token, offer->bytes) == 0)
                continue;
            log_message(LOG_ERROR, "sync.reduce = ipc: %s finds other numbers in the memory of tower %u than that has: "
                        "use sync.reduce = host", cuda_name(member->device), tower);
            rc = -EIO;
        }
    return rc;
}

static int write_and_look(struct check *check)
{
    struct ipc_reduce *const reduce = check->reduce;
    const struct rendezvous *const rendezvous = &reduce->rendezvous;
    for (uint32_t i = 0; i < rendezvous->towers * REGION_COUNT; i++)
        check->tokens[i] = offer_of_tower(reduce, rendezvous->first + i / REGION_COUNT, i % REGION_COUNT)->token;
    int rc = copy_firsts(check, check->saved, COPY_FROM_DEVICE);
    if (rc == 0)
        rc = copy_firsts(check, check->tokens, COPY_TO_DEVICE);
    if (rc == 0)
        rc = meet(reduce);
    for (uint32_t d = 0; d < rendezvous->towers && rc == 0; d++)
        rc = look(check, d);
    if (rc == 0)
        rc = meet(reduce);
    return rc == 0 ? copy_firsts(check, check->saved, COPY_TO_DEVICE) : rc;
}

static int check_arenas(struct ipc_reduce *reduce)
{
    struct device *const device = reduce->rendezvous.members[0].device;
    const size_t here = (size_t)reduce->rendezvous.towers * REGION_COUNT, run = (size_t)reduce->run * REGION_COUNT;
    struct check check = { .reduce = reduce };
    void *memory;
    int rc = device->ops->alloc_pinned(device, (2 * here + run) * sizeof(uint32_t), &memory);
    if (rc != 0)
        return rc;
    check.saved = memory;
    check.tokens = check.saved + here;
    check.seen = check.tokens + here;
    rc = write_and_look(&check);
    for (uint32_t d = 0; d < reduce->rendezvous.towers; d++)    /* after a failure, copies may still be running */
        device->ops->stream_drain(reduce->rendezvous.members[d].communication);
    device->ops->free_pinned(device, memory);
    return rc;
}

static int come_together(struct ipc_reduce *reduce)
{
    int rc = connect_boards(reduce);
    if (rc == 0)
        rc = pin_boards(reduce);
    if (rc == 0)
        rc = meet(reduce);
    if (rc == 0)
        rc = open_arenas(reduce);
    return rc == 0 ? check_arenas(reduce) : rc;
}

static int ipc_begin(struct reduce *base, uint32_t tower)
{
    struct ipc_reduce *const reduce = ipc_reduce_of(base);
    struct rendezvous *const rendezvous = &reduce->rendezvous;
    (void)tower;
    pthread_mutex_lock(&rendezvous->lock);
    const bool is_last = ++reduce->begun == rendezvous->towers;
    while (!is_last && reduce->state == APART && !rendezvous->cancelled)
        pthread_cond_wait(&rendezvous->changed, &rendezvous->lock);
    int rc = reduce->state == TOGETHER ? 0 : -ECANCELED;
    pthread_mutex_unlock(&rendezvous->lock);
    if (!is_last)
        return rc;
    rc = come_together(reduce);
    pthread_mutex_lock(&rendezvous->lock);
    reduce->state = rc == 0 ? TOGETHER : BROKEN;
    pthread_cond_broadcast(&rendezvous->changed);
    pthread_mutex_unlock(&rendezvous->lock);
    return rc;
}

/* ---- one bucket ---- */

/* Tell the other ranks that the buckets of all towers here are complete. */
static int announce_ready(const struct ipc_reduce *reduce, struct stream *communication, uint32_t bucket,
                          uint32_t number)
{
    int rc = 0;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++)
        if (rank != own_rank(reduce))
            rc = cuda_stream_write_value(
                communication, ready_value(reduce, board_of(reduce, rank), bucket, own_rank(reduce)), number);
    return rc;
}

static int await_ready(const struct ipc_reduce *reduce, struct stream *communication, uint32_t bucket, uint32_t number)
{
    struct board *const own = board_of(reduce, own_rank(reduce));
    int rc = 0;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++)
        if (rank != own_rank(reduce))
            rc = cuda_stream_wait_value(communication, ready_value(reduce, own, bucket, rank), number);
    return rc;
}

static int announce_summed(const struct ipc_reduce *reduce, struct stream *communication, uint32_t bucket,
                           uint32_t tower, uint32_t number)
{
    int rc = 0;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks) && rc == 0; rank++)
        if (rank != own_rank(reduce))
            rc = cuda_stream_write_value(communication, summed_value(reduce, board_of(reduce, rank), bucket, tower),
                                         number);
    return rc;
}

/* The buckets of all towers here are complete. */
static int ipc_sum(struct rendezvous *rendezvous, struct share *share)
{
    const struct ipc_reduce *const reduce = ipc_reduce_of(rendezvous);
    struct stream *const communication = rendezvous->members[share->tower].communication;
    struct reduce_clock *const clock = reduce->clocks[share->tower];
    const uint64_t batch = share_batch(share);
    const uint32_t number = (uint32_t)share->summed_count;
    int rc = share->tower == 0 ? announce_ready(reduce, communication, share->bucket, number) : 0;
    if (rc != 0 || share->begin >= share->end)
        return rc;
    rc = await_ready(reduce, communication, share->bucket, number);
    if (rc == 0)
        rc = reduce_clock_begin(clock, share->bucket, batch);
    if (rc == 0)
        rc = peer_sum_range(rendezvous, share, &reduce->arenas[share->tower * REGION_COUNT + share->region]);
    if (rc == 0)
        rc = reduce_clock_end(clock);
    return rc == 0 ? announce_summed(reduce, communication, share->bucket, rendezvous->first + share->tower, number)
                   : rc;
}

/* Make the compute stream wait for the shares of the towers of other ranks. */
static int await_others(struct rendezvous *rendezvous, const struct share *share)
{
    const struct ipc_reduce *const reduce = ipc_reduce_of(rendezvous);
    struct stream *const compute = rendezvous->members[share->tower].compute;
    struct board *const own = board_of(reduce, own_rank(reduce));
    int rc = 0;
    for (uint32_t tower = 0; tower < reduce->run && rc == 0; tower++) {
        const struct share_range range = rendezvous_range(rendezvous, share_bucket(share), tower);
        if (!is_here(reduce, tower) && range.begin < range.end)
            rc = cuda_stream_wait_value(compute, summed_value(reduce, own, share->bucket, tower),
                                        (uint32_t)share->started_count);
    }
    return rc;
}

static const struct rendezvous_ops between_ranks = { .connect = ipc_connect, .sum = ipc_sum,
                                                     .await_others = await_others };

static bool is_behind(const uint32_t *value, uint32_t number)
{
    return (int32_t)(atomic_load((const _Atomic(uint32_t) *)value) - number) < 0;
}

/* Does a bucket that the tower has started wait for another rank? Its tower may wait for input. */
static bool waits_for_a_rank(const struct ipc_reduce *reduce, uint32_t here)
{
    const struct rendezvous *const rendezvous = &reduce->rendezvous;
    struct board *const own = board_of(reduce, own_rank(reduce));
    for (uint32_t b = 0; b < rendezvous->buckets.count; b++) {
        const struct share *const share = &rendezvous->shares[(size_t)b * rendezvous->towers + here];
        for (uint32_t rank = 0; rank < ranks_size(reduce->ranks); rank++)
            if (rank != own_rank(reduce) && is_behind(ready_value(reduce, own, b, rank), (uint32_t)share->started_count))
                return true;
    }
    return false;
}

static int ipc_poll(struct reduce *base, uint32_t tower)
{
    struct ipc_reduce *const reduce = ipc_reduce_of(base);
    if (rendezvous_is_cancelled(&reduce->rendezvous))
        return -ECANCELED;
    if (waits_for_a_rank(reduce, tower - reduce->rendezvous.first))
        heartbeat_beat();
    return 0;
}

static void ipc_record(struct reduce *base, uint32_t tower)
{
    const struct ipc_reduce *const reduce = ipc_reduce_of(base);
    reduce_clock_record(reduce->clocks[tower - reduce->rendezvous.first]);
}

/* ---- leaving ---- */

static void announce_cancel(struct ipc_reduce *reduce)
{
    struct board *const own = atomic_load(&reduce->own);
    if (own != NULL)
        atomic_store(&own->is_cancelled, true);
}

static bool have_all(const struct ipc_reduce *reduce, size_t flag_at)
{
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks); rank++)
        if (!atomic_load((atomic_bool *)(void *)((char *)board_of(reduce, rank) + flag_at)))
            return false;
    return true;
}

/* End the waits of this rank's streams. Streams of other ranks may still write smaller values, so this is repeated. */
static void release_values(struct ipc_reduce *reduce)
{
    _Atomic(uint32_t) *const values =
        (_Atomic(uint32_t) *)values_of(reduce, board_of(reduce, own_rank(reduce)));
    pthread_mutex_lock(&reduce->rendezvous.lock);
    for (size_t i = 0; i < value_count(reduce); i++) {
        const uint32_t value = atomic_load(&values[i]);
        if (reduce->released[i] != 0 && value == reduce->released[i])
            continue;
        reduce->released[i] = value + RELEASED;
        atomic_store(&values[i], reduce->released[i]);
    }
    pthread_mutex_unlock(&reduce->rendezvous.lock);
}

/* Is there no hope any more that other ranks do what this one waits for? Only after a cancel, of which *since_ns is the
 * time; 0: there was none yet. */
static bool is_hopeless(struct ipc_reduce *reduce, uint64_t *since_ns)
{
    if (!rendezvous_is_cancelled(&reduce->rendezvous))
        return false;
    announce_cancel(reduce);
    const uint64_t now_ns = clock_now_ns();
    *since_ns = *since_ns == 0 ? now_ns : *since_ns;
    return now_ns - *since_ns > (ranks_failed(reduce->ranks) ? FAILED_PATIENCE_NS : PATIENCE_NS);
}

/* Wait until the tower's streams are idle; after a cancel end their waits when all ranks have cancelled. False: work is
 * left behind. */
static bool await_streams(struct ipc_reduce *reduce, uint32_t here)
{
    const struct reduce_member *const member = &reduce->rendezvous.members[here];
    uint64_t since_ns = 0;
    bool has_hope = true;
    while (has_hope && !(cuda_stream_is_idle(member->communication) && cuda_stream_is_idle(member->compute))) {
        has_hope = !is_hopeless(reduce, &since_ns);
        if (since_ns != 0 && have_all(reduce, offsetof(struct board, is_cancelled)))
            release_values(reduce);
        nap();
    }
    return has_hope;
}

/* Set a flag of this rank, and wait until all ranks have set it. */
static bool await_flag(struct ipc_reduce *reduce, size_t flag_at)
{
    uint64_t since_ns = 0;
    bool has_hope = true;
    atomic_store((atomic_bool *)(void *)((char *)board_of(reduce, own_rank(reduce)) + flag_at), true);
    while (has_hope && !have_all(reduce, flag_at)) {
        has_hope = !is_hopeless(reduce, &since_ns);
        nap();
    }
    return has_hope;
}

static void close_mappings(struct ipc_reduce *reduce)
{
    for (uint32_t i = 0; i < reduce->mapping_count; i++)
        cuda_ipc_close(reduce->mappings[i].device, reduce->mappings[i].base);
    reduce->mapping_count = 0;
}

/* Close the memory of other ranks when no rank uses any, and wait until none has that of this one open. False: in vain.
 * */
static bool close_together(struct ipc_reduce *reduce)
{
    if (!await_flag(reduce, offsetof(struct board, is_idle)))
        return false;
    close_mappings(reduce);
    return await_flag(reduce, offsetof(struct board, has_closed));
}

/* This rank met no others: they opened no memory of it. */
static bool close_alone(struct ipc_reduce *reduce)
{
    struct board *const own = atomic_load(&reduce->own);
    if (own != NULL) {
        atomic_store(&own->is_idle, true);
        atomic_store(&own->has_closed, true);
    }
    return true;
}

/* Memory of which other ranks may have kept something open is not freed until the process ends. */
static void ipc_leave(struct reduce *base, uint32_t tower)
{
    struct ipc_reduce *const reduce = ipc_reduce_of(base);
    const uint32_t here = tower - reduce->rendezvous.first;
    pthread_mutex_lock(&reduce->rendezvous.lock);
    const bool met = reduce->state != APART && reduce->meeting > 0;
    pthread_mutex_unlock(&reduce->rendezvous.lock);
    bool is_over = !met || await_streams(reduce, here);
    pthread_mutex_lock(&reduce->rendezvous.lock);
    const bool is_last = ++reduce->left == reduce->rendezvous.joined;
    pthread_mutex_unlock(&reduce->rendezvous.lock);
    if (is_last && is_over)
        is_over = met ? close_together(reduce) : close_alone(reduce);
    if (!is_over)
        atomic_store(&heartbeat_abandoned_work, true);
}

static void ipc_cancel(struct reduce *base)
{
    rendezvous_cancel(base);
    announce_cancel(ipc_reduce_of(base));
}

/* ---- the table ---- */

static int ipc_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    if (strcmp(towers->devices->kind, "cuda") != 0)
        return unsupported_reason_set(reason, -EINVAL, "reduce", "ipc is for CUDA devices, and this run computes on the "
                                      "CPU: use auto or host");
    if (!towers->on_one_host)
        return unsupported_reason_set(reason, -EINVAL, "reduce", "ipc sums over the processes of one host, and this run "
                                      "has several hosts: use auto or host");
    if (towers->run > KERNEL_TOWERS_MAX)
        return unsupported_reason_set(reason, -EINVAL, "reduce", "ipc sums over at most %u towers, and there are %u: "
                                      "use auto or host", KERNEL_TOWERS_MAX, towers->run);
    if (!peer_are_connected(towers))
        return unsupported_reason_set(reason, -ENODEV, "reduce",
                                      "the devices cannot use each other's memory: use auto or host");
    return reduce_check_rounding(towers, "ipc", reason);
}

static void ipc_free(struct ipc_reduce *reduce)
{
    free(reduce->arenas);
    free(reduce->is_pinned);
    free(reduce->mappings);
    free(reduce->released);
    free(reduce);
}

static int ipc_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    struct ipc_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    reduce->ranks = spec->ranks;
    reduce->run = spec->towers;
    reduce->connection.job.advance = advance;
    reduce->arenas = calloc((size_t)spec->here.count * REGION_COUNT, sizeof(*reduce->arenas));
    reduce->is_pinned = calloc(ranks_size(spec->ranks), sizeof(*reduce->is_pinned));
    const int rc = reduce->arenas == NULL || reduce->is_pinned == NULL
                       ? -ENOMEM : rendezvous_init(&reduce->rendezvous, &reduce_ipc_ops, spec->here);
    if (rc != 0) {
        ipc_free(reduce);
        return rc;
    }
    reduce->rendezvous.sharing = (struct tower_range){ 0, spec->towers };
    *reduce_out = &reduce->rendezvous.base;
    return 0;
}

/* If the job was abandoned, messages to the ranks' memory may be in flight, so it is not freed. */
static void ipc_close(struct reduce *base)
{
    struct ipc_reduce *const reduce = ipc_reduce_of(base);
    const bool is_used = ranks_abandon_jobs(reduce->ranks);
    struct device *const device = reduce->rendezvous.members[0].device;
    for (uint32_t rank = 0; rank < ranks_size(reduce->ranks); rank++)
        if (reduce->is_pinned[rank])
            device->ops->unpin(device, board_of(reduce, rank));
    for (uint32_t d = 0; d < KERNEL_TOWERS_MAX; d++)
        reduce_clock_close(reduce->clocks[d]);
    const bool is_released = rendezvous_close(&reduce->rendezvous, is_used);
    rank_memory_close(reduce->connection.memory, !is_released);
    if (is_released)
        ipc_free(reduce);
}

static int ipc_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                    const struct buckets *buckets)
{
    struct ipc_reduce *const reduce = ipc_reduce_of(base);
    struct reduce_clock **const clock = &reduce->clocks[tower - reduce->rendezvous.first];
    const int rc = reduce_clock_open(clock, member, tower, buckets->count);
    return rc == 0 ? rendezvous_join(&reduce->rendezvous, &between_ranks, tower, member, buckets) : rc;
}

const struct reduce_ops reduce_ipc_ops = {
    .name = "ipc",
    .knows_owners = true,
    .supports = ipc_supports,
    .agree = ipc_trial,
    .try_between = ipc_trial_between,
    .open = ipc_open,
    .close = ipc_close,
    .join = ipc_join,
    .begin = ipc_begin,
    .start = rendezvous_start,
    .wait = rendezvous_wait,
    .poll = ipc_poll,
    .record = ipc_record,
    .leave = ipc_leave,
    .cancel = ipc_cancel,
};
