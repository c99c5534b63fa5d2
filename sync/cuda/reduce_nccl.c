/* Reduction by NCCL, with one rank for each tower and device. Every NCCL call of a communicator is made by its tower's
 * thread. All towers of all processes are in one communicator.
 *
 * NCCL adds in an order of its own. Where sums have to be in pairs, it only sends numbers (nccl_exchange.c): with
 * train.slices, with several processes, whose weights would otherwise depend on how the hosts are connected, with bf16,
 * and for buckets with an owner or of pieces.
 *
 * A rank with an error or a cancel aborts its communicator when it leaves; the others finalize theirs. */
#include "sync/reduce.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/clock.h"
#include "stage/cuda/cuda_call.h"
#include "stage/log.h"
#include "sync/cuda/nccl_rank.h"

static int nccl_rank_poll(struct nccl_rank *rank);
static int nccl_rank_start(struct nccl_rank *rank, uint32_t bucket, uint64_t batch);

/* ---- opening and closing a rank ---- */

static int nccl_rank_open(struct nccl_rank **rank_out, struct nccl_group *group, uint32_t tower)
{
    struct nccl_rank *const rank = calloc(1, sizeof(*rank));
    if (rank == NULL)
        return -ENOMEM;
    rank->group = group;
    rank->tower = tower;
    atomic_init(&rank->started, 0);
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
    nccl_exchange_close(rank);
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

static int open_comm(struct nccl_rank *rank, const ncclUniqueId *id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return RANK_CALL(rank, ncclCommInitRankConfig(&rank->comm, (int)rank->group->towers, *id, (int)rank->tower,
                                                  &config));
}

/* Register memory, which NCCL then sends from and receives into without internal copies. If registering fails, NCCL
 * copies. */
static int register_memory(struct nccl_rank *rank, void *memory, size_t bytes)
{
    void *handle = NULL;
    if (bytes == 0)
        return 0;
    heartbeat_begin_wait("ncclCommRegister");
    const ncclResult_t status = ncclCommRegister(rank->comm, memory, bytes, &handle);
    if (status == ncclSuccess || status == ncclInProgress) {
        rank->registered[rank->registered_count++] = handle;
        return nccl_finish_call(rank, status, "ncclCommRegister");
    }
    heartbeat_end_wait();
    log_message(LOG_RUN, "%s: NCCL does not use what it sums in place: %s", nccl_rank_name(rank),
                ncclGetErrorString(status));
    return 0;
}

static int register_all(struct nccl_rank *rank)
{
    const struct reduce_member *const member = &rank->member;
    int rc = 0;
    for (int region = 0; region < REGION_COUNT && rc == 0; region++)
        rc = register_memory(rank, member->regions[region].floats, member->regions[region].count * sizeof(float));
    if (rc == 0 && member->bf16_grads != NULL)
        rc = register_memory(rank, member->bf16_grads, member->regions[REGION_GRADIENTS].count * sizeof(uint16_t));
    return rc != 0 ? rc : register_memory(rank, rank->exchange.memory, rank->exchange.bytes);
}

static int deregister_all(struct nccl_rank *rank)
{
    int rc = 0;
    for (uint32_t i = 0; i < rank->registered_count && rc == 0; i++)
        rc = RANK_CALL(rank, ncclCommDeregister(rank->comm, rank->registered[i]));
    return rc;
}

/* Wait until all started collectives have ended. */
static int await_collectives(struct nccl_rank *rank)
{
    const uint64_t begun_ns = clock_now_ns();
    heartbeat_begin_wait("waiting for a sum of NCCL");
    int rc = nccl_rank_poll(rank);
    while (rc == 0 && rank->finished < rank->queued) {
        nccl_pause(rank, begun_ns);
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
    if (rc == 0)
        rc = nccl_exchange_open(rank);
    if (rc == 0)
        rc = open_comm(rank, id);
    if (rc == 0)
        rc = register_all(rank);
    if (rc == 0)
        rc = warm_up(rank);
    if (rc == 0)
        rc = reduce_clock_open(&rank->clock, member, rank->tower, buckets->count);
    return nccl_keep_error(rank, rc);
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

/* The numbers of a bucket; during the warm-up as many zeros. */
static void *values_of(const struct nccl_rank *rank, const struct bucket *bucket, size_t *count_out)
{
    const struct reduce_member *const member = &rank->member;
    *count_out = bucket->count;
    if (!rank->warmed_up) {
        *count_out = bucket->count < member->zeros.count ? bucket->count : member->zeros.count;
        return member->zeros.floats;
    }
    if (nccl_is_bf16(rank, bucket))
        return member->bf16_grads + bucket->offset;
    return member->regions[bucket->region].floats + bucket->offset;
}

/* Queue the sum, not the mean: the update divides once, by the real number of samples, which may differ between
 * batches. The collective is in the stream only when the call has completed. */
static int queue_sum(struct nccl_rank *rank, const struct bucket *bucket)
{
    const cudaStream_t stream = cuda_stream_of(rank->member.communication);
    size_t count;
    void *const values = values_of(rank, bucket, &count);
    if (bucket->use == BUCKET_BROADCAST)
        return RANK_CALL(rank, ncclBroadcast(values, values, count, ncclFloat32, (int)bucket->owner, rank->comm,
                                             stream));
    if (nccl_is_sent(rank, bucket))
        return nccl_exchange_queue(rank, bucket, values, count);
    return RANK_CALL(rank, ncclAllReduce(values, values, count, ncclFloat32, ncclSum, rank->comm, stream));
}

static int queue_collective(struct nccl_rank *rank, const struct inflight_collective *entry)
{
    const struct reduce_member *const member = &rank->member;
    int rc = stream_record(member->compute, entry->queued);
    if (rc == 0)
        rc = stream_wait(member->communication, entry->queued);
    if (rc == 0)
        rc = reduce_clock_begin(rank->clock, entry->bucket, entry->batch);
    if (rc == 0)
        rc = cuda_enter(member->device);
    if (rc == 0)
        rc = queue_sum(rank, &rank->buckets.bucket[entry->bucket]);
    if (rc == 0)
        rc = reduce_clock_end(rank->clock);
    return rc != 0 ? rc : stream_record(member->communication, entry->reduced);
}

/* Show other towers how many collectives this one has started, and other processes how many all towers here have. */
static void show_started(struct nccl_rank *rank, uint64_t started)
{
    const struct nccl_group *const group = rank->group;
    uint64_t least = started;
    atomic_store(&rank->started, started);
    for (uint32_t d = 0; d < group->here.count; d++) {
        const uint64_t other = atomic_load(&group->members[d]->started);
        least = other < least ? other : least;
    }
    if (group->ranks != NULL)
        ranks_set_sums(group->ranks, least);
}

static int nccl_rank_start(struct nccl_rank *rank, uint32_t bucket, uint64_t batch)
{
    const uint64_t number = rank->queued;
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
        return nccl_keep_error(rank, rc);
    rank->latest[bucket] = number;
    rank->queued++;
    show_started(rank, rank->queued);
    return 0;
}

static int nccl_rank_wait(struct nccl_rank *rank, uint32_t bucket)
{
    if (rank->result != 0 || nccl_is_cancelled(rank))
        return rank->result != 0 ? rank->result : -ECANCELED;
    return nccl_keep_error(rank, stream_wait(rank->member.compute, inflight_at(rank, rank->latest[bucket])->reduced));
}

/* ---- waiting ---- */

static int check_comm(const struct nccl_rank *rank)
{
    ncclResult_t state;
    char call[64];
    const int rc = NCCL_CALL(nccl_rank_name(rank), ncclCommGetAsyncError(rank->comm, &state));
    if (rc != 0 || state == ncclSuccess || state == ncclInProgress)
        return rc;
    snprintf(call, sizeof(call), "the communicator of tower %u", rank->tower);
    return nccl_check(state, nccl_rank_name(rank), call);
}

/* Count the collectives that have ended, which they do in the order of their start. Waiting for a tower that has not
 * started one, perhaps because it waits for input, is no stall. */
static void retire_finished(struct nccl_rank *rank)
{
    while (rank->finished < rank->queued) {
        struct event *const reduced = inflight_at(rank, rank->finished)->reduced;
        if (!reduced->device->ops->event_passed(reduced))
            break;
        note_finished(rank);
    }
    if (rank->finished < rank->queued && !nccl_have_all_started(rank->group, rank->finished))
        heartbeat_beat();
}

static int nccl_rank_poll(struct nccl_rank *rank)
{
    if (rank->result != 0)
        return rank->result;
    nccl_watch_processes(rank);
    if (nccl_is_cancelled(rank))
        return -ECANCELED;
    retire_finished(rank);
    return nccl_keep_error(rank, check_comm(rank));
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
        rc = deregister_all(rank);
    return rc != 0 ? rc : RANK_CALL(rank, ncclCommFinalize(rank->comm));
}

static void nccl_rank_leave(struct nccl_rank *rank)
{
    show_started(rank, UINT64_MAX);
    if (rank->comm == NULL)
        return;
    int rc = nccl_keep_error(rank, cuda_enter(rank->member.device));
    if (rc == 0)
        rc = end_comm(rank);
    /* After an error of this rank the waits of the others would not end. */
    if (rc != 0)
        nccl_cancel_all(rank->group);
    if (rc == 0)
        NCCL_CALL(nccl_rank_name(rank), ncclCommDestroy(rank->comm));
    else
        NCCL_CALL(nccl_rank_name(rank), ncclCommAbort(rank->comm));
    rank->comm = NULL;
}

/* ---- the reduction ---- */

struct nccl_reduce {
    struct reduce base;
    struct nccl_group group;
};

static int open_ranks(struct nccl_group *group)
{
    group->devices = calloc(group->here.count, sizeof(*group->devices));
    group->members = calloc(group->here.count, sizeof(*group->members));
    group->terms = calloc(group->towers, sizeof(*group->terms));
    if (group->devices == NULL || group->members == NULL || group->terms == NULL)
        return -ENOMEM;
    group->term_count = terms_find(group->towers, group->here.count, group->terms);
    while (group->terms[group->own_first].rank != group->here.first / group->here.count)
        group->own_first++;
    for (uint32_t i = group->own_first; i < group->term_count; i++)
        group->own_count += group->terms[i].rank == group->terms[group->own_first].rank;
    int rc = 0;
    for (uint32_t d = 0; d < group->here.count && rc == 0; d++)
        rc = nccl_rank_open(&group->members[d], group, group->here.first + d);
    return rc;
}

static void nccl_close(struct reduce *base)
{
    struct nccl_reduce *const reduce = (struct nccl_reduce *)base;
    struct nccl_group *const group = &reduce->group;
    for (uint32_t d = 0; group->members != NULL && d < group->here.count; d++)
        nccl_rank_close(group->members[d]);
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->lock);
    free(group->terms);
    free(group->members);
    free(group->devices);
    free(reduce);
}

static int open_reduce(struct reduce **reduce_out, const struct reduce_spec *spec, const struct reduce_ops *ops,
                       bool in_pairs)
{
    struct nccl_reduce *const reduce = calloc(1, sizeof(*reduce));
    if (reduce == NULL)
        return -ENOMEM;
    struct nccl_group *const group = &reduce->group;
    reduce->base.ops = ops;
    group->towers = spec->towers;
    group->here = spec->ranks != NULL ? spec->here : (struct tower_range){ 0, spec->towers };
    group->processes = ranks_size(spec->ranks);
    group->number = ranks_number_reduction(spec->ranks);
    group->ranks = spec->ranks;
    group->in_pairs = in_pairs;
    atomic_init(&group->cancelled, false);
    pthread_mutex_init(&group->lock, NULL);
    pthread_cond_init(&group->changed, NULL);
    const int rc = open_ranks(group);
    if (rc != 0) {
        nccl_close(&reduce->base);
        return rc;
    }
    *reduce_out = &reduce->base;
    return 0;
}

static int nccl_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    return open_reduce(reduce_out, spec, &reduce_nccl_ops, spec->in_pairs || ranks_size(spec->ranks) > 1);
}

static int nccl_allreduce_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    return open_reduce(reduce_out, spec, &reduce_nccl_allreduce_ops, false);
}

static int nccl_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct nccl_group *const group = &((struct nccl_reduce *)base)->group;
    const uint32_t here = tower - group->here.first;
    ncclUniqueId id;
    const int rc = nccl_join_all(group, here, member->device, &id);
    return rc != 0 ? rc : nccl_rank_connect(group->members[here], member, buckets, &id);
}

/* ---- steps ---- */

static struct nccl_rank *rank_of(struct reduce *base, uint32_t tower)
{
    const struct nccl_group *const group = &((struct nccl_reduce *)base)->group;
    return group->members[tower - group->here.first];
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
    nccl_cancel_all(&((struct nccl_reduce *)base)->group);
}

static size_t nccl_device_bytes(const struct reduce *base, const struct buckets *buckets, bool has_bf16_grads)
{
    return nccl_exchange_bytes(&((const struct nccl_reduce *)base)->group, buckets, has_bf16_grads);
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

/* Has each tower a device, and can a kernel add the terms that a tower has? */
static int check_counts(const struct reduce_towers *towers, bool in_pairs, struct unsupported_reason *reason)
{
    if (towers->here.count > towers->device_count)
        return unsupported_reason_set(reason, -EINVAL, "reduce",
                                      "NCCL takes one tower a device, and there are more towers than "
                                      "devices: use auto, peer or host");
    if (in_pairs && (towers->here.count > SUM_TERMS_MAX || towers->run > TERM_TOWERS_MAX ||
                     terms_find(towers->run, towers->here.count, NULL) > SUM_TERMS_MAX))
        return unsupported_reason_set(reason, -EINVAL, "reduce", "nccl adds at most %u towers of a process, and %u "
                                      "sums of processes, of %u towers, in pairs: use auto or host", SUM_TERMS_MAX,
                                      SUM_TERMS_MAX, TERM_TOWERS_MAX);
    return 0;
}

static int check_kind(const struct reduce_towers *towers, const char *name, struct unsupported_reason *reason)
{
    return strcmp(towers->devices->kind, "cuda") == 0
               ? 0 : unsupported_reason_set(reason, -EINVAL, "reduce", "%s is for CUDA devices, and this run computes "
                                            "on the CPU: use auto or host", name);
}

static int nccl_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    const bool in_pairs = reduce_is_in_pairs(towers) || towers->here.count < towers->run;
    int rc = check_kind(towers, "nccl", reason);
    if (rc == 0)
        rc = reduce_check_rounding(towers, "nccl", reason);
    return rc != 0 ? rc : check_counts(towers, in_pairs, reason);
}

/* The order of NCCL's own additions depends on the connections between devices and hosts. */
static int nccl_allreduce_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    const int rc = check_kind(towers, "nccl_allreduce", reason);
    if (rc != 0)
        return rc;
    if (towers->has_bf16_grads)
        return unsupported_reason_set(reason, -EINVAL, "reduce", "NCCL would add bf16 numbers in bf16, and sync.wire = "
                                      "bf16 sums in fp32: use nccl, which only lets it send them");
    if (towers->in_pairs)
        return unsupported_reason_set(reason, -EINVAL, "reduce", "NCCL adds in an order of its own, and train.slices "
                                      "needs sums in pairs: use nccl, which only lets it send the numbers");
    return check_counts(towers, false, reason);
}

/* What does not depend on who adds. */
#define NCCL_OPS                             \
    .device_bytes = nccl_device_bytes,       \
    .prepare = nccl_prepare,                 \
    .agree = nccl_agree,                     \
    .libraries = nccl_libraries,             \
    .close = nccl_close,                     \
    .join = nccl_join,                       \
    .start = nccl_start,                     \
    .wait = nccl_wait,                       \
    .poll = nccl_poll,                       \
    .record = nccl_record,                   \
    .leave = nccl_leave,                     \
    .cancel = nccl_cancel

const struct reduce_ops reduce_nccl_ops = {
    .name = "nccl",
    .knows_owners = true,
    .supports = nccl_supports,
    .open = nccl_open,
    NCCL_OPS,
};

const struct reduce_ops reduce_nccl_allreduce_ops = {
    .name = "nccl_allreduce",
    .is_only_named = true,
    .supports = nccl_allreduce_supports,
    .open = nccl_allreduce_open,
    NCCL_OPS,
};
