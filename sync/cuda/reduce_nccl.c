/* Reduction by NCCL, one rank a device: how the towers come together. What a tower does then
 * is its rank's business (nccl_rank.h). */
#include "sync/reduce.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/cuda/device_cuda.h"
#include "stage/log.h"
#include "sync/cuda/nccl_call.h"
#include "sync/cuda/nccl_rank.h"

struct nccl_reduce {
    struct reduce base;
    struct nccl_group group;
    pthread_mutex_t lock;       /* guards what follows */
    pthread_cond_t changed;
    struct device **devices;    /* [tower], NULL until it joins */
    uint32_t joined;
    bool named, broken;         /* id is there; there will be none */
    ncclUniqueId id;
};

/* Opening and closing. */

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

/* What NCCL would refuse, or hang at. All towers have come. */

/* Two ranks on one device. */
static int refuse_shared_device(const struct nccl_reduce *reduce, uint32_t tower)
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

/* Every launch would wait for its end, and collectives end only together. */
static int refuse_blocking_launches(const struct nccl_reduce *reduce)
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
    int rc = refuse_blocking_launches(reduce);
    for (uint32_t d = 0; d < reduce->group.towers && rc == 0; d++)
        rc = refuse_shared_device(reduce, d);
    return rc;
}

/* Coming together. */

/* True for the last tower that comes. */
static bool enter(struct nccl_reduce *reduce, uint32_t tower, struct device *device)
{
    pthread_mutex_lock(&reduce->lock);
    reduce->devices[tower] = device;
    const bool is_last = ++reduce->joined == reduce->group.towers;
    pthread_mutex_unlock(&reduce->lock);
    return is_last;
}

/* The last tower names the communicator, or ends the meeting. */
static int name_communicator(struct nccl_reduce *reduce)
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
    reduce->named = rc == 0;
    reduce->broken = rc != 0;
    pthread_cond_broadcast(&reduce->changed);
    pthread_mutex_unlock(&reduce->lock);
    return rc;
}

/* Wait for the other towers. One that does not come hangs elsewhere, or has failed. */
static int await_name(struct nccl_reduce *reduce)
{
    pthread_mutex_lock(&reduce->lock);
    while (!reduce->named && !reduce->broken && !atomic_load(&reduce->group.cancelled))
        pthread_cond_wait(&reduce->changed, &reduce->lock);
    const bool is_over = reduce->broken || atomic_load(&reduce->group.cancelled);
    pthread_mutex_unlock(&reduce->lock);
    return is_over ? -ECANCELED : 0;
}

static int nccl_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct nccl_reduce *const reduce = (struct nccl_reduce *)base;
    int rc = 0;
    if (enter(reduce, tower, member->device))
        rc = name_communicator(reduce);
    if (rc == 0)
        rc = await_name(reduce);
    return rc != 0 ? rc : nccl_rank_connect(reduce->group.ranks[tower], member, buckets, &reduce->id);
}

/* Steps. */

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

/* A kernel that is loaded when it is first called stops its device meanwhile, and with it for ever
 * a collective of NCCL that waits for a peer. Loading all of the libraries' kernels at the start
 * takes seconds and memory, so only runs that may use NCCL do, which takes a device for each tower. The first call of
 * CUDA reads this. */
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
