/* NCCL between threads of one process, on simulated streams: all-reduce of fp32 sums, and groups of sends and receives
 * of fp32 numbers in which all ranks take part, with non-blocking communicators only. Every call continues
 * asynchronously (ncclInProgress): a collective is in its stream only after ncclCommGetAsyncError has returned success.
 * As in a ring, every part of a sum starts with another rank.
 *
 * Mistakes of the program end the test: a communicator that is used by a second thread, while a call is in progress or
 * after its end; ranks that disagree about a collective; a communicator that is destroyed before it is finalised.
 * Communicators and cliques are never freed, so that use after their end is detected. */
#include "tests/sim/sim_nccl.h"

#include <nccl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/sim_internal.h"

#define RANKS_MAX 64
#define ROUNDS 64                   /* largest number of queued collectives of a clique */
#define REGISTERED_MAX 8u           /* largest number of registered buffers of a rank */
#define QUERIES 3u                  /* a call is done at this query of its state at the earliest */
#define CONFIG_MAGIC 0xcafebeefu
#define ENTER() SIM_ENTER_WITH(sim_enter, ncclResult_t)

enum activity { COMM_JOINING, COMM_READY, COMM_QUEUEING, COMM_FINALIZING, COMM_FINALIZED, COMM_GONE };

/* A send or receive of a group. */
struct piece { bool is_send; int peer; float *floats; size_t count; };

struct transfer {
    struct ncclComm *comm;
    uint64_t number;                /* of the collective on its communicator */
    const float *from;
    float *to;
    size_t count;
    int piece_count;                /* of a group; then from, to and count are not used */
    struct piece pieces[2 * RANKS_MAX];
};

/* A collective that waits for its ranks. */
struct round {
    int arrived;
    uint64_t done;                  /* number / ROUNDS + 1 of the last collective that used this element */
    struct transfer transfers[RANKS_MAX];
};

/* The ranks of one unique id. */
struct clique {
    struct clique *next;
    ncclUniqueId id;
    int ranks;                      /* 0 until the first one arrives */
    int arrived, finalizing;
    struct ncclComm *comms[RANKS_MAX];
    atomic_int error;               /* ncclResult_t of all its communicators */
    pthread_mutex_t lock;           /* protects the following fields, and `aborted` of the communicators */
    pthread_cond_t changed;
    bool is_deserted;               /* a rank was aborted */
    struct round rounds[ROUNDS];
};

struct ncclComm {
    struct clique *clique;
    int rank, device;
    pthread_t owner;
    enum activity activity;
    uint32_t queries;               /* of the call in progress */
    bool aborted;
    uint64_t queued;                /* collectives */
    _Atomic uint64_t finished;      /* collectives */
    struct transfer transfer;       /* the one to be queued, in COMM_QUEUEING */
    cudaStream_t stream;
    const void *registered[REGISTERED_MAX];
};

/* Protects all of the above except what streams use. Only the collectives themselves may synchronise streams and
 * threads, because otherwise the thread sanitizer would not detect a missing event. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct clique *cliques;
static uint64_t next_id = 1;
static uint32_t open_comms;

static ncclResult_t error_of(const struct clique *clique)
{
    return (ncclResult_t)atomic_load_explicit(&clique->error, memory_order_relaxed);
}

static void set_error(struct clique *clique, ncclResult_t error)
{
    atomic_store_explicit(&clique->error, (int)error, memory_order_relaxed);
}

static atomic_int lost_rank = -1;
static atomic_uint break_after;
static atomic_bool abort_hangs;

void sim_nccl_lose_rank(int rank)
{
    atomic_store(&lost_rank, rank);
}

void sim_nccl_break_after(uint32_t number)
{
    atomic_store(&break_after, number);
}

void sim_nccl_hang_abort(bool hangs)
{
    atomic_store(&abort_hangs, hangs);
}

uint32_t sim_nccl_open_communicators(void)
{
    pthread_mutex_lock(&lock);
    const uint32_t count = open_comms;
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- functions of NCCL ---- */

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error",
        [ncclSystemError] = "unhandled system error",
        [ncclInternalError] = "internal error",
        [ncclInvalidArgument] = "invalid argument",
        [ncclInvalidUsage] = "invalid usage",
        [ncclRemoteError] = "remote process exited or there was a network error",
        [ncclInProgress] = "NCCL operation in progress",
    };
    return (unsigned int)result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

ncclResult_t ncclGetVersion(int *version)
{
    ENTER();
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    ENTER();
    struct clique *const clique = sim_alloc(sizeof(*clique));
    pthread_mutex_init(&clique->lock, NULL);
    pthread_cond_init(&clique->changed, NULL);
    pthread_mutex_lock(&lock);
    memcpy(clique->id.internal, &next_id, sizeof(next_id));
    next_id++;
    clique->next = cliques;
    cliques = clique;
    *id = clique->id;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/* ---- joining: the lock is held in static functions ---- */

static struct clique *find_clique(const ncclUniqueId *id)
{
    for (struct clique *clique = cliques; clique != NULL; clique = clique->next)
        if (memcmp(&clique->id, id, sizeof(*id)) == 0)
            return clique;
    sim_die("ncclCommInitRankConfig: an id that is not from ncclGetUniqueId");
}

static bool device_is_taken(const struct clique *clique, int device)
{
    for (int r = 0; r < clique->ranks; r++)
        if (clique->comms[r] != NULL && clique->comms[r]->device == device)
            return true;
    return false;
}

static struct ncclComm *open_comm(struct clique *clique, int ranks, int rank)
{
    if (clique->ranks != 0 && clique->ranks != ranks)
        sim_die("ncclCommInitRankConfig: ranks disagree how many they are");
    if (clique->comms[rank] != NULL)
        sim_die("ncclCommInitRankConfig: rank %d comes twice", rank);
    struct ncclComm *const comm = sim_alloc(sizeof(*comm));
    clique->ranks = ranks;
    comm->clique = clique;
    comm->rank = rank;
    comm->device = sim_current_device();
    comm->owner = pthread_self();
    if (device_is_taken(clique, comm->device))
        set_error(clique, ncclInvalidUsage);
    clique->comms[rank] = comm;
    clique->arrived += rank != atomic_load(&lost_rank);
    open_comms++;
    return comm;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    ENTER();
    if (nranks < 1 || nranks > RANKS_MAX || rank < 0 || rank >= nranks)
        sim_die("ncclCommInitRankConfig: rank %d of %d", rank, nranks);
    if (config->magic != CONFIG_MAGIC || config->size != sizeof(*config) || config->blocking != 0)
        sim_die("ncclCommInitRankConfig: the configuration is not initialised, or blocking, which is not simulated");
    pthread_mutex_lock(&lock);
    *comm = open_comm(find_clique(&id), nranks, rank);
    pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

/* Ends the test unless the calling thread may use the communicator now. `wanted`: the required state, or COMM_GONE for
 * any state before the end. */
static void check_comm(const struct ncclComm *comm, const char *who, enum activity wanted)
{
    if (comm == NULL)
        sim_die("%s: no communicator", who);
    if (comm->activity == COMM_GONE)
        sim_die("%s: the communicator of rank %d was ended", who, comm->rank);
    if (!pthread_equal(comm->owner, pthread_self()))
        sim_die("%s: the communicator of rank %d is another thread's", who, comm->rank);
    if (wanted != COMM_GONE && comm->activity != wanted)
        sim_die("%s: rank %d: while another call is in progress, or out of order", who, comm->rank);
}

static void check_comm_ready(const struct ncclComm *comm, const char *who)
{
    pthread_mutex_lock(&lock);
    check_comm(comm, who, COMM_READY);
    pthread_mutex_unlock(&lock);
}

/* ---- collectives ---- */

static bool is_broken_now(void)
{
    unsigned int left = atomic_load(&break_after);
    while (left > 0)
        if (atomic_compare_exchange_weak(&break_after, &left, left - 1))
            return left == 1;
    return false;
}

static void check_round(const struct clique *clique, const struct round *round)
{
    for (int r = 1; r < clique->ranks; r++)
        if (round->transfers[r].count != round->transfers[0].count ||
            round->transfers[r].number != round->transfers[0].number ||
            (round->transfers[r].piece_count > 0) != (round->transfers[0].piece_count > 0))
            sim_die("ncclAllReduce: ranks 0 and %d disagree about a collective", r);
}

/* The sum of an element in part p starts with rank p + 1. */
static float sum_at(const struct clique *clique, const struct round *round, size_t at, size_t part)
{
    float sum = 0.0f;
    for (int r = 0; r < clique->ranks; r++) {
        const size_t rank = (part + 1 + (size_t)r) % (size_t)clique->ranks;
        const float value = round->transfers[rank].from[at];
        sum = r == 0 ? value : sum + value;
    }
    return sum;
}

static void reduce_round(const struct clique *clique, const struct round *round)
{
    const size_t count = round->transfers[0].count, ranks = (size_t)clique->ranks;
    for (size_t i = 0; i < count; i++) {
        const float sum = sum_at(clique, round, i, i * ranks / count);
        for (size_t r = 0; r < ranks; r++)
            round->transfers[r].to[i] = sum;
    }
}

/* The receive in `transfer` that goes with the nth send of `from` to its rank. */
static const struct piece *find_receive(const struct transfer *transfer, int from, int nth)
{
    for (int i = 0; i < transfer->piece_count; i++)
        if (!transfer->pieces[i].is_send && transfer->pieces[i].peer == from && nth-- == 0)
            return &transfer->pieces[i];
    sim_die("ncclGroupEnd: rank %d does not receive what rank %d sends", transfer->comm->rank, from);
    return NULL;
}

static void deliver(const struct round *round, int from)
{
    const struct transfer *const transfer = &round->transfers[from];
    int sent[RANKS_MAX] = { 0 };
    for (int i = 0; i < transfer->piece_count; i++) {
        const struct piece *const send = &transfer->pieces[i];
        if (!send->is_send)
            continue;
        const struct piece *const receive = find_receive(&round->transfers[send->peer], from, sent[send->peer]++);
        if (receive->count != send->count)
            sim_die("ncclGroupEnd: ranks %d and %d disagree about a size", from, send->peer);
        memcpy(receive->floats, send->floats, send->count * sizeof(float));
    }
}

static void complete_round(struct clique *clique, struct round *round)
{
    check_round(clique, round);
    round->arrived = 0;
    if (is_broken_now()) {
        set_error(clique, ncclRemoteError);
        return;
    }
    for (int r = 0; r < clique->ranks; r++)
        deliver(round, r);
    if (round->transfers[0].piece_count == 0)
        reduce_round(clique, round);
    round->done++;
    pthread_cond_broadcast(&clique->changed);
}

/* Runs on the rank's stream. A collective that breaks, or that an aborted rank has left, blocks until its communicator
 * is aborted, and writes no memory any more. */
static void run_collective(void *arguments)
{
    const struct transfer *const transfer = arguments;
    struct ncclComm *const comm = transfer->comm;
    struct clique *const clique = comm->clique;
    struct round *const round = &clique->rounds[transfer->number % ROUNDS];
    pthread_mutex_lock(&clique->lock);
    if (!clique->is_deserted && error_of(clique) == ncclSuccess) {
        round->transfers[comm->rank] = *transfer;
        if (++round->arrived == clique->ranks)
            complete_round(clique, round);
    }
    while (round->done <= transfer->number / ROUNDS && !comm->aborted)
        pthread_cond_wait(&clique->changed, &clique->lock);
    pthread_mutex_unlock(&clique->lock);
    atomic_fetch_add_explicit(&comm->finished, 1, memory_order_relaxed);
}

/* It is in the stream once a query has returned success. */
static ncclResult_t queue_transfer(ncclComm_t comm, const struct transfer *transfer, cudaStream_t stream, const char *who)
{
    pthread_mutex_lock(&lock);
    if (comm->queued - atomic_load_explicit(&comm->finished, memory_order_relaxed) >= ROUNDS)
        sim_die("%s: more than %d collectives are queued", who, ROUNDS);
    comm->transfer = *transfer;
    comm->transfer.comm = comm;
    comm->transfer.number = comm->queued++;
    comm->stream = stream;
    comm->activity = COMM_QUEUEING;
    comm->queries = 0;
    pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream)
{
    ENTER();
    check_comm_ready(comm, __func__);
    if (error_of(comm->clique) != ncclSuccess)
        return error_of(comm->clique);
    if (type != ncclFloat32 || operation != ncclSum)
        sim_die("ncclAllReduce: only sums of fp32 are simulated");
    if (sim_stream_device(stream) != comm->device)
        sim_die("ncclAllReduce: the stream is of device %d, rank %d of device %d", sim_stream_device(stream),
                comm->rank, comm->device);
    if (count == 0)
        return ncclSuccess;
    sim_check_memory(from, count * sizeof(float), comm->device, __func__);
    sim_check_memory(to, count * sizeof(float), comm->device, __func__);
    return queue_transfer(comm, &(struct transfer){ .from = from, .to = to, .count = count }, stream, __func__);
}

/* ---- groups: of one communicator each ---- */

/* nccl.h declares these without arguments, which is no prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

static _Thread_local struct {
    bool is_open;
    struct ncclComm *comm;
    cudaStream_t stream;
    struct transfer transfer;
} group;

ncclResult_t ncclGroupStart(void)
{
    ENTER();
    if (group.is_open)
        sim_die("ncclGroupStart: groups in groups are not simulated");
    memset(&group, 0, sizeof(group));
    group.is_open = true;
    return ncclSuccess;
}

static ncclResult_t add_piece(const struct piece *piece, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream,
                              const char *who)
{
    check_comm_ready(comm, who);
    if (!group.is_open || (group.comm != NULL && (group.comm != comm || group.stream != stream)))
        sim_die("%s: only groups of one communicator on one stream are simulated", who);
    if (type != ncclFloat32 || piece->peer < 0 || piece->peer >= comm->clique->ranks || piece->peer == comm->rank)
        sim_die("%s: only fp32, and another rank of the communicator", who);
    if (group.transfer.piece_count == 2 * RANKS_MAX)
        sim_die("%s: more than %d in a group", who, 2 * RANKS_MAX);
    sim_check_memory(piece->floats, piece->count * sizeof(float), comm->device, who);
    group.comm = comm;
    group.stream = stream;
    group.transfer.pieces[group.transfer.piece_count++] = *piece;
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    ENTER();
    return add_piece(&(struct piece){ true, peer, (float *)from, count }, type, comm, stream, __func__);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    ENTER();
    return add_piece(&(struct piece){ false, peer, to, count }, type, comm, stream, __func__);
}

ncclResult_t ncclGroupEnd(void)
{
    ENTER();
    if (!group.is_open)
        sim_die("ncclGroupEnd: no group is open");
    group.is_open = false;
    if (group.comm == NULL)
        return ncclSuccess;
    if (error_of(group.comm->clique) != ncclSuccess)
        return error_of(group.comm->clique);
    return queue_transfer(group.comm, &group.transfer, group.stream, __func__);
}

/* Without the lock. */
static void push_transfer(const struct ncclComm *comm)
{
    const int current = sim_current_device();
    sim_set_current_device(comm->device);
    sim_stream_push(comm->stream, run_collective, &comm->transfer, sizeof(comm->transfer));
    sim_set_current_device(current);
}

/* The state of the call in progress. The lock is held. */
static ncclResult_t query(struct ncclComm *comm)
{
    const struct clique *const clique = comm->clique;
    const bool is_late = ++comm->queries >= QUERIES;
    const bool is_idle = atomic_load_explicit(&comm->finished, memory_order_relaxed) == comm->queued;
    if (error_of(clique) != ncclSuccess)
        return error_of(clique);
    switch (comm->activity) {
    case COMM_JOINING:
        return is_late && clique->arrived == clique->ranks ? ncclSuccess : ncclInProgress;
    case COMM_QUEUEING:
        return is_late ? ncclSuccess : ncclInProgress;
    case COMM_FINALIZING:
        return is_late && is_idle && clique->finalizing == clique->ranks ? ncclSuccess : ncclInProgress;
    default:
        return ncclSuccess;
    }
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    ENTER();
    pthread_mutex_lock(&lock);
    check_comm(comm, __func__, COMM_GONE);
    const ncclResult_t state = query(comm);
    const bool is_pushed = comm->activity == COMM_QUEUEING && state == ncclSuccess;
    if (state == ncclSuccess && (comm->activity == COMM_JOINING || is_pushed))
        comm->activity = COMM_READY;
    else if (state == ncclSuccess && comm->activity == COMM_FINALIZING)
        comm->activity = COMM_FINALIZED;
    pthread_mutex_unlock(&lock);
    if (is_pushed)
        push_transfer(comm);
    *error = state;
    return ncclSuccess;
}

/* ---- registered memory ---- */

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
    ENTER();
    check_comm_ready(comm, __func__);
    uint32_t place = 0;
    while (place < REGISTERED_MAX && comm->registered[place] != NULL)
        place++;
    if (place == REGISTERED_MAX)
        sim_die("%s: more than %u buffers of rank %d", __func__, REGISTERED_MAX, comm->rank);
    sim_check_memory(buffer, bytes, comm->device, __func__);
    comm->registered[place] = buffer;
    *handle = &comm->registered[place];
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    ENTER();
    check_comm_ready(comm, __func__);
    uint32_t place = 0;
    while (place < REGISTERED_MAX && handle != &comm->registered[place])
        place++;
    if (place == REGISTERED_MAX || comm->registered[place] == NULL)
        sim_die("ncclCommDeregister: not a handle of ncclCommRegister");
    comm->registered[place] = NULL;
    return ncclSuccess;
}

/* ---- the end ---- */

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    ENTER();
    pthread_mutex_lock(&lock);
    check_comm(comm, __func__, COMM_READY);
    comm->activity = COMM_FINALIZING;
    comm->queries = 0;
    comm->clique->finalizing++;
    pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    ENTER();
    pthread_mutex_lock(&lock);
    check_comm(comm, __func__, COMM_FINALIZED);
    for (uint32_t place = 0; place < REGISTERED_MAX; place++)
        if (comm->registered[place] != NULL)
            sim_die("ncclCommDestroy: rank %d has registered memory", comm->rank);
    comm->activity = COMM_GONE;
    open_comms--;
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    ENTER();
    while (atomic_load(&abort_hangs))
        pause();
    pthread_mutex_lock(&lock);
    check_comm(comm, __func__, COMM_GONE);
    comm->activity = COMM_GONE;
    open_comms--;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&comm->clique->lock);
    comm->aborted = comm->clique->is_deserted = true;
    pthread_cond_broadcast(&comm->clique->changed);
    pthread_mutex_unlock(&comm->clique->lock);
    return ncclSuccess;
}
