/* NCCL between threads and processes, on simulated streams: all-reduce of fp32 sums, broadcasts, and groups of sends
 * and receives of fp32 and bf16 numbers, with non-blocking communicators only. Every call continues asynchronously
 * (ncclInProgress): a collective is in its stream only after ncclCommGetAsyncError has returned success. As in a ring,
 * every part of a sum starts with another rank.
 *
 * The ranks of a unique id share a file, whose name is the id; so they may be in several processes of one machine. What
 * a rank sends is written to the file, where the others read it. The file is removed when all ranks have opened it.
 *
 * Mistakes of the program end the test: a communicator that is used by a second thread, while a call is in progress or
 * after its end; ranks that disagree about a collective or a message, or that have messages left at the end; a
 * communicator that is destroyed before it is finalised. Communicators and cliques are never freed, so that use after
 * their end is detected. */
#include "tests/sim/sim_nccl.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/sim_internal.h"

#define RANKS_MAX 64
#define QUEUED_MAX 256              /* largest number of queued collectives of a communicator */
#define REGISTERED_MAX 16u          /* largest number of registered buffers of a rank */
#define QUERIES 3u                  /* a call is done at this query of its state at the earliest */
#define SLOTS 2u        /* collectives, or messages from one rank to another, that are in the file at once */
#define SLOT_BYTES ((off_t)1 << 28)
#define PIECES_MAX 512
#define POLL_NS 10000000            /* a wait looks again after this time, if nobody has woken it */
#define ABORT_POLL_NS 100000
#define PLACE_BYTES 96u
#define CONFIG_MAGIC 0xcafebeefu
#define ENTER() SIM_ENTER_WITH(sim_enter, ncclResult_t)

enum activity { COMM_JOINING, COMM_READY, COMM_QUEUEING, COMM_FINALIZING, COMM_FINALIZED, COMM_GONE };

enum kind { KIND_SUM, KIND_BROADCAST, KIND_GROUP };

/* A send or receive of a group. */
struct piece { bool is_send, is_done; int peer; char *values; size_t bytes; ncclDataType_t type; };

struct transfer {
    struct ncclComm *comm;
    enum kind kind;
    int root;                       /* of a broadcast */
    uint64_t number;                /* of the sum or broadcast on its communicator */
    const float *from;              /* of a sum or broadcast */
    float *to;
    size_t count;
    int piece_count;                /* of a group */
    struct piece pieces[PIECES_MAX];
};

/* What a rank says of the sum or broadcast that it takes part in. */
struct claim { enum kind kind; int root; uint64_t number; size_t count; };

/* A sum or broadcast that waits for its ranks. */
struct round { int arrived; struct claim claims[RANKS_MAX]; };

/* Messages from one rank to another, in the order of the sends. */
struct channel {
    uint64_t sent, received;        /* messages */
    struct { size_t bytes; ncclDataType_t type; } slots[SLOTS];
};

/* The begin of the file. What streams use is protected by the lock, and the other fields are atomic: only the
 * collectives themselves may synchronise streams and threads, because otherwise the thread sanitizer would not detect a
 * missing event. */
struct shared {
    atomic_int ranks;               /* 0 until the first one arrives */
    atomic_int arrived, finalizing;
    atomic_int error;               /* ncclResult_t of all its communicators */
    atomic_uint changes;            /* a futex: something that a stream may wait for has changed */
    pthread_mutex_t lock;           /* protects the following fields; robust, because a process may be killed */
    bool is_deserted;               /* a rank was aborted */
    char places[RANKS_MAX][PLACE_BYTES];        /* the device of each rank; "": it has not arrived */
    uint64_t done;                  /* sums and broadcasts */
    struct round rounds[SLOTS];
    struct channel channels[RANKS_MAX][RANKS_MAX];      /* [from][to] */
};

/* A unique id in this process. */
struct clique {
    struct clique *next;
    ncclUniqueId id;                /* the name of the file */
    int file;
    struct shared *shared;
    atomic_int users;               /* communicators and transfers of this process; the last one closes the file */
    bool is_named;                  /* by this process, which removes the file when it ends */
};

struct ncclComm {
    struct ncclComm *next;
    struct clique *clique;
    int rank, device;
    pthread_t owner;
    enum activity activity;
    uint32_t queries;               /* of the call in progress */
    atomic_bool aborted;
    atomic_bool is_copying;         /* a stream reads or writes device memory; then the communicator is not aborted */
    uint64_t queued;                /* collectives, and of these the sums and broadcasts */
    uint64_t numbered;
    _Atomic uint64_t finished;      /* collectives */
    struct transfer transfer;       /* the one to be queued, in COMM_QUEUEING */
    cudaStream_t stream;
    const void *registered[REGISTERED_MAX];
};

/* Protects what is not in the file, except what streams use. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct clique *cliques;
static struct ncclComm *comms;      /* all that this process has made */
static uint32_t next_id = 1;
static uint32_t open_comms;

static ncclResult_t error_of(const struct clique *clique)
{
    return (ncclResult_t)atomic_load_explicit(&clique->shared->error, memory_order_relaxed);
}

static void set_error(struct clique *clique, ncclResult_t error)
{
    atomic_store_explicit(&clique->shared->error, (int)error, memory_order_relaxed);
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

static atomic_uint counted_group = 1;
static atomic_uint_least64_t bytes_within, bytes_between;

void sim_nccl_count_bytes(uint32_t of)
{
    atomic_store(&counted_group, of);
    atomic_store(&bytes_within, 0);
    atomic_store(&bytes_between, 0);
}

uint64_t sim_nccl_bytes_within(void)
{
    return atomic_load(&bytes_within);
}

uint64_t sim_nccl_bytes_between(void)
{
    return atomic_load(&bytes_between);
}

static void count_bytes(int from, int to, size_t bytes)
{
    const unsigned int of = atomic_load_explicit(&counted_group, memory_order_relaxed);
    atomic_fetch_add_explicit((unsigned)from / of == (unsigned)to / of ? &bytes_within : &bytes_between, bytes,
                              memory_order_relaxed);
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

/* ---- the file ---- */

static void shared_lock(struct shared *shared)
{
    if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&shared->lock);
}

/* Unlock after a change, and wake all streams that wait. */
static void shared_unlock(struct shared *shared)
{
    atomic_fetch_add_explicit(&shared->changes, 1, memory_order_relaxed);
    pthread_mutex_unlock(&shared->lock);
    syscall(SYS_futex, &shared->changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Unlock, wait for a change, and lock again. */
static void shared_wait(struct shared *shared)
{
    const struct timespec limit = { .tv_nsec = POLL_NS };
    const unsigned int seen = atomic_load_explicit(&shared->changes, memory_order_relaxed);
    pthread_mutex_unlock(&shared->lock);
    syscall(SYS_futex, &shared->changes, FUTEX_WAIT, seen, &limit, NULL, 0);
    shared_lock(shared);
}

static void file_write(const struct clique *clique, uint64_t slot, const void *data, size_t bytes)
{
    if (bytes > (size_t)SLOT_BYTES)
        sim_die("a message of NCCL with more than %lld bytes is not simulated", (long long)SLOT_BYTES);
    if (pwrite(clique->file, data, bytes, (off_t)(slot + 1) * SLOT_BYTES) != (ssize_t)bytes)
        sim_die("%s: %s", clique->id.internal, strerror(errno));
}

static void file_read(const struct clique *clique, uint64_t slot, void *data, size_t bytes)
{
    if (pread(clique->file, data, bytes, (off_t)(slot + 1) * SLOT_BYTES) != (ssize_t)bytes)
        sim_die("%s: %s", clique->id.internal, strerror(errno));
}

/* Called with the lock before device memory is copied without it; false: the communicator was aborted, and its memory
 * may be freed. */
static bool begin_copy(struct ncclComm *comm)
{
    const bool may_copy = !atomic_load(&comm->aborted);
    atomic_store(&comm->is_copying, may_copy);
    pthread_mutex_unlock(&comm->clique->shared->lock);
    return may_copy;
}

static void end_copy(struct ncclComm *comm)
{
    atomic_store(&comm->is_copying, false);
}

/* What a rank adds to the sum or broadcast of this number. */
static uint64_t round_slot(uint64_t number, int rank)
{
    return number % SLOTS * RANKS_MAX + (uint64_t)rank;
}

static uint64_t channel_slot(int from, int to, uint64_t message)
{
    return SLOTS * RANKS_MAX + ((uint64_t)from * RANKS_MAX + (uint64_t)to) * SLOTS + message % SLOTS;
}

static void init_shared(struct shared *shared)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* With `flags` O_CREAT makes the file. */
static struct clique *open_clique(const ncclUniqueId *id, int flags)
{
    struct clique *const clique = sim_alloc(sizeof(*clique));
    clique->id = *id;
    clique->is_named = flags != 0;
    clique->file = open(id->internal, O_RDWR | O_CLOEXEC | flags, 0600);
    if (clique->file < 0 || (flags != 0 && ftruncate(clique->file, sizeof(struct shared)) != 0))
        sim_die("ncclCommInitRankConfig: an id that is not from ncclGetUniqueId: %s", strerror(errno));
    clique->shared = mmap(NULL, sizeof(*clique->shared), PROT_READ | PROT_WRITE, MAP_SHARED, clique->file, 0);
    if (clique->shared == MAP_FAILED)
        sim_die("%s: %s", id->internal, strerror(errno));
    if (flags != 0)
        init_shared(clique->shared);
    clique->next = cliques;
    cliques = clique;
    return clique;
}

static void use_clique(struct clique *clique)
{
    atomic_fetch_add_explicit(&clique->users, 1, memory_order_relaxed);
}

/* While ranks are missing the file stays open, because they may be of this process. */
static void leave_clique(struct clique *clique)
{
    const bool have_all_arrived = atomic_load_explicit(&clique->shared->arrived, memory_order_relaxed) ==
                                  atomic_load_explicit(&clique->shared->ranks, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&clique->users, 1, memory_order_acq_rel) != 1 || !have_all_arrived)
        return;
    munmap(clique->shared, sizeof(*clique->shared));
    close(clique->file);
}

/* Files of communicators that not all ranks have opened. */
__attribute__((destructor)) static void remove_files(void)
{
    for (const struct clique *clique = cliques; clique != NULL; clique = clique->next)
        if (clique->is_named)
            unlink(clique->id.internal);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    ENTER();
    const char *const folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    memset(id, 0, sizeof(*id));
    pthread_mutex_lock(&lock);
    snprintf(id->internal, sizeof(id->internal), "%s/pipetrain-sim-nccl.%d.%lld.%u", folder, (int)getpid(),
             (long long)now.tv_sec * 1000000000 + now.tv_nsec, next_id++);
    (void)open_clique(id, O_CREAT | O_EXCL);
    pthread_mutex_unlock(&lock);
    return ncclSuccess;
}

/* ---- joining: the lock is held in static functions ---- */

static struct clique *find_clique(const ncclUniqueId *id)
{
    for (struct clique *clique = cliques; clique != NULL; clique = clique->next)
        if (memcmp(&clique->id, id, sizeof(*id)) == 0)
            return clique;
    return open_clique(id, 0);
}

/* Take the place of the rank. False if another rank is on the same device. */
static bool take_place(struct shared *shared, int rank, int device)
{
    char place[PLACE_BYTES] = "";
    bool is_free = true;
    gethostname(place, PLACE_BYTES / 2);
    snprintf(place + strlen(place), PLACE_BYTES / 2, " %d", device);
    shared_lock(shared);
    if (shared->places[rank][0] != '\0')
        sim_die("ncclCommInitRankConfig: rank %d comes twice", rank);
    for (int r = 0; r < RANKS_MAX; r++)
        is_free = is_free && strcmp(shared->places[r], place) != 0;
    memcpy(shared->places[rank], place, sizeof(place));
    shared_unlock(shared);
    return is_free;
}

static struct ncclComm *open_comm(struct clique *clique, int ranks, int rank)
{
    struct shared *const shared = clique->shared;
    int expected = 0;
    if (!atomic_compare_exchange_strong_explicit(&shared->ranks, &expected, ranks, memory_order_relaxed,
                                                 memory_order_relaxed) && expected != ranks)
        sim_die("ncclCommInitRankConfig: ranks disagree how many they are");
    struct ncclComm *const comm = sim_alloc(sizeof(*comm));
    comm->next = comms;
    comms = comm;
    comm->clique = clique;
    comm->rank = rank;
    comm->device = sim_current_device();
    comm->owner = pthread_self();
    use_clique(clique);
    if (!take_place(shared, rank, comm->device))
        set_error(clique, ncclInvalidUsage);
    if (rank != atomic_load(&lost_rank) &&
        atomic_fetch_add_explicit(&shared->arrived, 1, memory_order_relaxed) + 1 == ranks)
        unlink(clique->id.internal);
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

/* ---- sums and broadcasts: on streams ---- */

static bool is_broken_now(void)
{
    unsigned int left = atomic_load(&break_after);
    while (left > 0)
        if (atomic_compare_exchange_weak(&break_after, &left, left - 1))
            return left == 1;
    return false;
}

/* Is the collective not carried out, because its communicator has an error or was left by a rank? The lock is held. */
static bool is_abandoned(const struct ncclComm *comm)
{
    return comm->clique->shared->is_deserted || error_of(comm->clique) != ncclSuccess;
}

static void check_claims(const struct round *round, int ranks)
{
    for (int r = 1; r < ranks; r++)
        if (round->claims[r].count != round->claims[0].count || round->claims[r].number != round->claims[0].number ||
            round->claims[r].kind != round->claims[0].kind || round->claims[r].root != round->claims[0].root)
            sim_die("ncclAllReduce, ncclBroadcast: ranks 0 and %d disagree about a collective", r);
}

/* All ranks have arrived: the collective is carried out, unless a test wants it to break. */
static void complete_round(struct clique *clique, struct round *round, int ranks)
{
    check_claims(round, ranks);
    round->arrived = 0;
    if (is_broken_now())
        set_error(clique, ncclRemoteError);
    else
        clique->shared->done++;
}

/* Wait until all ranks have arrived. False: this will not be; the communicator was aborted. True: the copy begins. */
static bool await_round(const struct transfer *transfer)
{
    struct ncclComm *const comm = transfer->comm;
    struct shared *const shared = comm->clique->shared;
    struct round *const round = &shared->rounds[transfer->number % SLOTS];
    shared_lock(shared);
    if (!is_abandoned(comm)) {
        round->claims[comm->rank] = (struct claim){ transfer->kind, transfer->root, transfer->number, transfer->count };
        if (++round->arrived == atomic_load_explicit(&shared->ranks, memory_order_relaxed))
            complete_round(comm->clique, round, round->arrived);
        shared_unlock(shared);
        shared_lock(shared);
    }
    while (shared->done <= transfer->number && !atomic_load(&comm->aborted))
        shared_wait(shared);
    return begin_copy(comm);
}

/* The sum of an element in part p starts with rank p + 1. */
static float sum_at(float *const *values, size_t ranks, size_t at, size_t part)
{
    float sum = 0.0f;
    for (size_t r = 0; r < ranks; r++) {
        const float value = values[(part + 1 + r) % ranks][at];
        sum = r == 0 ? value : sum + value;
    }
    return sum;
}

static void read_sum(const struct transfer *transfer)
{
    const struct clique *const clique = transfer->comm->clique;
    const size_t ranks = (size_t)atomic_load_explicit(&clique->shared->ranks, memory_order_relaxed);
    const size_t count = transfer->count;
    float *values[RANKS_MAX];
    for (size_t r = 0; r < ranks; r++) {
        values[r] = sim_alloc(count * sizeof(float));
        file_read(clique, round_slot(transfer->number, (int)r), values[r], count * sizeof(float));
    }
    for (size_t i = 0; i < count; i++)
        transfer->to[i] = sum_at(values, ranks, i, i * ranks / count);
    for (size_t r = 0; r < ranks; r++)
        free(values[r]);
}

/* A slot of the file may be written again when all ranks have arrived at the collective after it: then all have read
 * it. */
static void run_round(const struct transfer *transfer)
{
    struct ncclComm *const comm = transfer->comm;
    const bool writes = transfer->kind == KIND_SUM || comm->rank == transfer->root;
    shared_lock(comm->clique->shared);
    if (begin_copy(comm) && writes)
        file_write(comm->clique, round_slot(transfer->number, comm->rank), transfer->from,
                   transfer->count * sizeof(float));
    end_copy(comm);
    if (await_round(transfer) && transfer->kind == KIND_SUM)
        read_sum(transfer);
    else if (atomic_load(&comm->is_copying))
        file_read(comm->clique, round_slot(transfer->number, transfer->root), transfer->to,
                  transfer->count * sizeof(float));
    end_copy(comm);
}

/* ---- groups: on streams ---- */

/* Send a message if there is space for it. The lock is held, but not while data is copied: only this rank sends. */
static bool send_piece(struct ncclComm *comm, const struct piece *piece)
{
    struct shared *const shared = comm->clique->shared;
    struct channel *const channel = &shared->channels[comm->rank][piece->peer];
    if (channel->sent - channel->received == SLOTS)
        return false;
    if (begin_copy(comm))
        file_write(comm->clique, channel_slot(comm->rank, piece->peer, channel->sent), piece->values, piece->bytes);
    end_copy(comm);
    shared_lock(shared);
    if (atomic_load(&comm->aborted))
        return false;
    channel->slots[channel->sent % SLOTS].bytes = piece->bytes;
    channel->slots[channel->sent % SLOTS].type = piece->type;
    channel->sent++;
    return true;
}

/* Receive a message if there is one. */
static bool receive_piece(struct ncclComm *comm, const struct piece *piece)
{
    struct shared *const shared = comm->clique->shared;
    struct channel *const channel = &shared->channels[piece->peer][comm->rank];
    if (channel->sent == channel->received)
        return false;
    if (channel->slots[channel->received % SLOTS].bytes != piece->bytes ||
        channel->slots[channel->received % SLOTS].type != piece->type)
        sim_die("ncclGroupEnd: ranks %d and %d disagree about a size or type", piece->peer, comm->rank);
    if (begin_copy(comm))
        file_read(comm->clique, channel_slot(piece->peer, comm->rank, channel->received), piece->values, piece->bytes);
    end_copy(comm);
    shared_lock(shared);
    if (atomic_load(&comm->aborted))
        return false;
    channel->received++;
    return true;
}

/* Is an earlier piece of the same kind and rank not done? Messages between two ranks keep their order. */
static bool is_behind(const struct transfer *transfer, int i)
{
    for (int before = 0; before < i; before++) {
        const struct piece *const other = &transfer->pieces[before], *const piece = &transfer->pieces[i];
        if (!other->is_done && other->is_send == piece->is_send && other->peer == piece->peer)
            return true;
    }
    return false;
}

/* Do the pieces that can be done now. Returns the number of those that are left. The lock is held. */
static int advance_group(struct transfer *transfer, bool *moved_out)
{
    int left = 0;
    for (int i = 0; i < transfer->piece_count; i++) {
        struct piece *const piece = &transfer->pieces[i];
        if (!piece->is_done && !is_behind(transfer, i))
            piece->is_done = piece->is_send ? send_piece(transfer->comm, piece) : receive_piece(transfer->comm, piece);
        else if (piece->is_done)
            continue;
        left += !piece->is_done;
        *moved_out = *moved_out || piece->is_done;
    }
    return left;
}

static void run_group(struct transfer *transfer)
{
    struct ncclComm *const comm = transfer->comm;
    struct shared *const shared = comm->clique->shared;
    int left = transfer->piece_count;
    shared_lock(shared);
    if (!is_abandoned(comm) && is_broken_now())
        set_error(comm->clique, ncclRemoteError);
    while (left > 0 && !atomic_load(&comm->aborted)) {
        bool has_moved = false;
        if (!is_abandoned(comm))
            left = advance_group(transfer, &has_moved);
        if (has_moved) {
            shared_unlock(shared);
            shared_lock(shared);
        } else if (left > 0) {
            shared_wait(shared);
        }
    }
    pthread_mutex_unlock(&shared->lock);
}

/* Runs on the rank's stream. A collective that breaks, or that an aborted rank has left, blocks until its communicator
 * is aborted, and writes no memory any more. */
static void run_transfer(void *arguments)
{
    struct transfer *const transfer = *(struct transfer **)arguments;
    struct ncclComm *const comm = transfer->comm;
    if (transfer->kind == KIND_GROUP)
        run_group(transfer);
    else
        run_round(transfer);
    free(transfer);
    atomic_fetch_add_explicit(&comm->finished, 1, memory_order_relaxed);
    leave_clique(comm->clique);
}

/* ---- queueing ---- */

/* It is in the stream once a query has returned success. */
static ncclResult_t queue_transfer(ncclComm_t comm, const struct transfer *transfer, cudaStream_t stream,
                                   const char *who)
{
    pthread_mutex_lock(&lock);
    if (comm->queued - atomic_load_explicit(&comm->finished, memory_order_relaxed) >= QUEUED_MAX)
        sim_die("%s: more than %d collectives are queued", who, QUEUED_MAX);
    comm->transfer = *transfer;
    comm->transfer.comm = comm;
    comm->queued++;
    if (transfer->kind != KIND_GROUP)
        comm->transfer.number = comm->numbered++;
    comm->stream = stream;
    comm->activity = COMM_QUEUEING;
    comm->queries = 0;
    pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

static ncclResult_t queue_round(ncclComm_t comm, const struct transfer *transfer, ncclDataType_t type,
                                cudaStream_t stream, const char *who)
{
    check_comm_ready(comm, who);
    if (error_of(comm->clique) != ncclSuccess)
        return error_of(comm->clique);
    if (type != ncclFloat32)
        sim_die("%s: only fp32 is simulated", who);
    if (sim_stream_device(stream) != comm->device)
        sim_die("%s: the stream is of device %d, rank %d of device %d", who, sim_stream_device(stream), comm->rank,
                comm->device);
    if (transfer->count == 0)
        return ncclSuccess;
    sim_check_memory(transfer->from, transfer->count * sizeof(float), comm->device, who);
    sim_check_memory(transfer->to, transfer->count * sizeof(float), comm->device, who);
    return queue_transfer(comm, transfer, stream, who);
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream)
{
    ENTER();
    if (operation != ncclSum)
        sim_die("ncclAllReduce: only sums are simulated");
    return queue_round(comm, &(struct transfer){ .kind = KIND_SUM, .from = from, .to = to, .count = count }, type,
                       stream, __func__);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    ENTER();
    const struct transfer transfer = { .kind = KIND_BROADCAST, .root = root, .from = from, .to = to, .count = count };
    return queue_round(comm, &transfer, type, stream, __func__);
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
    group.transfer.kind = KIND_GROUP;
    return ncclSuccess;
}

static ncclResult_t add_piece(bool is_send, void *values, size_t count, ncclDataType_t type, int peer,
                              ncclComm_t comm, cudaStream_t stream, const char *who)
{
    const size_t bytes = count * (type == ncclBfloat16 ? 2 : sizeof(float));
    check_comm_ready(comm, who);
    if (!group.is_open || (group.comm != NULL && (group.comm != comm || group.stream != stream)))
        sim_die("%s: only groups of one communicator on one stream are simulated", who);
    if ((type != ncclFloat32 && type != ncclBfloat16) || peer < 0 || peer >= comm->clique->shared->ranks ||
        peer == comm->rank || count == 0)
        sim_die("%s: only numbers of fp32 or bf16, and another rank of the communicator", who);
    if (group.transfer.piece_count == PIECES_MAX)
        sim_die("%s: more than %d in a group", who, PIECES_MAX);
    sim_check_memory(values, bytes, comm->device, who);
    group.comm = comm;
    group.stream = stream;
    group.transfer.pieces[group.transfer.piece_count++] =
        (struct piece){ .is_send = is_send, .peer = peer, .values = values, .bytes = bytes, .type = type };
    return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    ENTER();
    const ncclResult_t status = add_piece(true, (void *)from, count, type, peer, comm, stream, __func__);
    count_bytes(comm->rank, peer, group.transfer.pieces[group.transfer.piece_count - 1].bytes);
    return status;
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    ENTER();
    return add_piece(false, to, count, type, peer, comm, stream, __func__);
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
static void push_transfer(struct ncclComm *comm)
{
    const int current = sim_current_device();
    struct transfer *const transfer = sim_alloc(sizeof(*transfer));
    *transfer = comm->transfer;
    use_clique(comm->clique);
    sim_set_current_device(comm->device);
    sim_stream_push(comm->stream, run_transfer, &transfer, sizeof(transfer));
    sim_set_current_device(current);
}

/* The state of the call in progress. The lock is held. */
static ncclResult_t query(struct ncclComm *comm)
{
    const struct clique *const clique = comm->clique;
    if (comm->activity == COMM_READY || comm->activity == COMM_FINALIZED)
        return error_of(clique);
    const int ranks = atomic_load_explicit(&clique->shared->ranks, memory_order_relaxed);
    const bool is_late = ++comm->queries >= QUERIES;
    const bool is_idle = atomic_load_explicit(&comm->finished, memory_order_relaxed) == comm->queued;
    if (error_of(clique) != ncclSuccess)
        return error_of(clique);
    switch (comm->activity) {
    case COMM_JOINING:
        return is_late && atomic_load_explicit(&clique->shared->arrived, memory_order_relaxed) == ranks
                   ? ncclSuccess : ncclInProgress;
    case COMM_QUEUEING:
        return is_late ? ncclSuccess : ncclInProgress;
    case COMM_FINALIZING:
        return is_late && is_idle && atomic_load_explicit(&clique->shared->finalizing, memory_order_relaxed) == ranks
                   ? ncclSuccess : ncclInProgress;
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
    atomic_fetch_add_explicit(&comm->clique->shared->finalizing, 1, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    return ncclInProgress;
}

/* A message that was sent to a rank and not received. */
static void check_channels(const struct ncclComm *comm)
{
    struct shared *const shared = comm->clique->shared;
    shared_lock(shared);
    for (int from = 0; from < RANKS_MAX; from++)
        if (shared->channels[from][comm->rank].sent != shared->channels[from][comm->rank].received)
            sim_die("ncclCommDestroy: rank %d has not received what rank %d has sent", comm->rank, from);
    pthread_mutex_unlock(&shared->lock);
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
    check_channels(comm);
    leave_clique(comm->clique);
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
    shared_lock(comm->clique->shared);
    comm->clique->shared->is_deserted = true;
    atomic_store(&comm->aborted, true);
    shared_unlock(comm->clique->shared);
    while (atomic_load(&comm->is_copying))
        nanosleep(&(struct timespec){ .tv_nsec = ABORT_POLL_NS }, NULL);
    leave_clique(comm->clique);
    return ncclSuccess;
}
