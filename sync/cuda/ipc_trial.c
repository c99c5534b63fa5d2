/* The trial: every rank offers a little memory of each of its devices. A device reads the numbers at the begin of
 * another rank's memory, adds its own, and writes the sums to a place of its own there, where the owner checks them.
 * Called by main of every rank, or of every process of the doctor's trial. */
#include "sync/cuda/ipc_trial.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compute/cuda/kernels.h"
#include "stage/clock.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/cuda_ipc.h"
#include "stage/cuda/device_cuda.h"
#include "sync/ranks/rank_gather.h"

#define NUMBERS 1024u           /* floats that are summed: several cache lines */
#define DEADLINE_NS 20000000000u
#define NAP_NS 50000

/* A device of this rank, and its memory: its numbers, then the sums of each device of the run. */
struct trial_device {
    struct device *device;
    struct stream *stream;
    struct event *passed;
    float *memory;              /* [(1 + devices of the run) * NUMBERS], on the device */
    float *host;                /* the same size, pinned */
};

/* What a rank tells the others, with an offer for each of its devices. */
struct trial_rank {
    uint32_t devices, has_failed;
    char why[CUDA_IPC_WHY + 64];
    struct cuda_export offers[];
};

struct trial {
    const struct reduce_towers *towers;
    const struct reduce_group *group;
    uint32_t per_rank;          /* the most devices of a rank */
    struct trial_device *devices;
    struct trial_rank *own;
    char *all;                  /* [rank] struct trial_rank */
};

static size_t rank_bytes(const struct trial *trial)
{
    return sizeof(struct trial_rank) + trial->per_rank * sizeof(struct cuda_export);
}

static const struct trial_rank *rank_at(const struct trial *trial, uint32_t rank)
{
    return (const struct trial_rank *)(const void *)(trial->all + rank * rank_bytes(trial));
}

/* Devices are numbered by rank. */
static uint32_t number_of(const struct trial *trial, uint32_t rank, uint32_t device)
{
    return rank * trial->per_rank + device;
}

static size_t float_count(const struct trial *trial)
{
    return (size_t)(1 + number_of(trial, trial->group->size, 0)) * NUMBERS;
}

/* Sums of two are exact. */
static float number_at(uint32_t device, uint32_t i)
{
    return (float)(device * 4096u + i + 1);
}

/* ---- failures ---- */

static void __attribute__((format(printf, 2, 3))) fail_trial(struct trial *trial, const char *format, ...)
{
    if (trial->own->has_failed)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(trial->own->why, sizeof(trial->own->why), format, arguments);
    va_end(arguments);
    trial->own->has_failed = true;
}

/* 0, or -ENODEV with the reason of the first rank that failed; or the errno of a message. */
static int exchange(struct trial *trial, struct unsupported_reason *reason)
{
    const struct reduce_group *const group = trial->group;
    const int rc = group->gather(group->processes, trial->own, rank_bytes(trial), trial->all);
    if (rc != 0)
        return rc;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct trial_rank *const other = rank_at(trial, rank);
        if (other->has_failed)
            return unsupported_reason_set(reason, -ENODEV, "reduce", "rank %u: %.*s", rank, (int)sizeof(other->why),
                                          other->why);
    }
    return 0;
}

/* ---- the devices of this rank ---- */

/* Wait for the device's stream. A device that hangs is abandoned. */
static int await(struct trial *trial, struct trial_device *own)
{
    const uint64_t begun_ns = clock_now_ns();
    int rc = stream_record(own->stream, own->passed);
    while (rc == 0 && !own->device->ops->event_passed(own->passed)) {
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
        if (clock_now_ns() - begun_ns < DEADLINE_NS)
            continue;
        fail_trial(trial, "%s hangs", cuda_name(own->device));
        own->device->ops->cancel(own->device);
        rc = -EIO;
    }
    return rc == 0 ? own->device->ops->event_wait(own->passed) : rc;
}

/* Do values that streams write and wait for work? */
static int try_values(struct trial *trial, struct trial_device *own)
{
    uint32_t *const value = (uint32_t *)(void *)own->host;
    *value = 0;
    int rc = cuda_stream_write_value(own->stream, value, 1);
    if (rc == 0)
        rc = cuda_stream_wait_value(own->stream, value, 1);
    return rc == 0 ? await(trial, own) : rc;
}

static int copy_host(struct trial *trial, struct trial_device *own, enum copy_direction direction)
{
    void *const to = direction == COPY_TO_DEVICE ? own->memory : own->host;
    const void *const from = direction == COPY_TO_DEVICE ? own->host : own->memory;
    const int rc = own->device->ops->copy(own->stream, to, from, float_count(trial) * sizeof(float), direction);
    return rc == 0 ? await(trial, own) : rc;
}

static int write_numbers(struct trial *trial, uint32_t d)
{
    struct trial_device *const own = &trial->devices[d];
    const uint32_t number = number_of(trial, trial->group->rank, d);
    memset(own->host, 0, float_count(trial) * sizeof(float));
    for (uint32_t i = 0; i < NUMBERS; i++)
        own->host[i] = number_at(number, i);
    return copy_host(trial, own, COPY_TO_DEVICE);
}

static int open_own(struct trial *trial, uint32_t d)
{
    struct trial_device *const own = &trial->devices[d];
    const struct device_ops *const ops = trial->towers->devices;
    const struct device_spec spec = { .index = trial->towers->index[d], .name = "cuda" };
    const size_t bytes = float_count(trial) * sizeof(float);
    void *memory = NULL;
    int rc = ops->open(&own->device, &spec);
    if (rc == 0)
        rc = ops->stream_open(own->device, STREAM_COMMUNICATION, "trial", &own->stream);
    if (rc == 0)
        rc = ops->event_open(own->device, EVENT_ORDER, &own->passed);
    if (rc == 0)
        rc = ops->alloc(own->device, bytes, &memory);
    own->memory = memory;
    memory = NULL;
    if (rc == 0)
        rc = ops->alloc_pinned(own->device, bytes, &memory);
    own->host = memory;
    return rc;
}

static int offer_own(struct trial *trial, uint32_t d)
{
    char why[CUDA_IPC_WHY] = "";
    int rc = open_own(trial, d);
    if (rc == 0 && (rc = cuda_ipc_prepare(trial->devices[d].device, why)) != 0)
        fail_trial(trial, "%s", why);
    if (rc == 0)
        rc = try_values(trial, &trial->devices[d]);
    if (rc == 0)
        rc = write_numbers(trial, d);
    if (rc == 0 && (rc = cuda_ipc_export(trial->devices[d].device, trial->devices[d].memory, &trial->own->offers[d],
                                         why)) != 0)
        fail_trial(trial, "%s", why);
    return rc;
}

static void close_own(struct trial_device *own)
{
    if (own->device == NULL)
        return;
    const struct device_ops *const ops = own->device->ops;
    if (own->stream != NULL)
        ops->stream_close(own->stream);
    event_close(own->passed);
    ops->free(own->device, own->memory);
    ops->free_pinned(own->device, own->host);
    ops->close(own->device);
}

/* ---- the devices of other ranks ---- */

/* Add the numbers of device `d` here and of another rank's memory, into this device's place there. */
static int sum_into(struct trial *trial, uint32_t d, float *there)
{
    struct trial_device *const own = &trial->devices[d];
    const uint32_t number = number_of(trial, trial->group->rank, d);
    const struct tower_arenas arenas = { 3, { own->memory, there, there + (size_t)(1 + number) * NUMBERS } };
    const struct some_arenas from = { 0, 3 }, into = { 2, 1 };
    int rc = cuda_enter(own->device);
    if (rc == 0)
        rc = CUDA_CALL(cuda_name(own->device),
                       kernel_sum_towers(cuda_stream_of(own->stream), VALUE_FP32, &arenas, 0, NUMBERS, from, into));
    return rc == 0 ? await(trial, own) : rc;
}

static void try_memory(struct trial *trial, uint32_t d, uint32_t rank, uint32_t device)
{
    void *base, *there;
    char why[CUDA_IPC_WHY] = "";
    struct device *const own = trial->devices[d].device;
    if (cuda_ipc_open(own, &rank_at(trial, rank)->offers[device], &base, &there, why) != 0) {
        fail_trial(trial, "%s", why);
        return;
    }
    if (sum_into(trial, d, there) != 0)
        fail_trial(trial, "%s cannot use memory of rank %u", cuda_name(own), rank);
    cuda_ipc_close(own, base);
}

static void try_rank(struct trial *trial, uint32_t rank)
{
    const struct reduce_group *const group = trial->group;
    if (group->can_map != NULL && !group->can_map(group->processes, rank))
        fail_trial(trial, "memory of rank %u cannot be mapped: they are in different containers or on different hosts",
                   rank);
    for (uint32_t d = 0; d < trial->own->devices; d++)
        for (uint32_t j = 0; j < rank_at(trial, rank)->devices && !trial->own->has_failed; j++)
            try_memory(trial, d, rank, j);
}

/* Did the sums of another rank's device arrive here? */
static void check_sums(struct trial *trial, uint32_t d, uint32_t rank, uint32_t device)
{
    const struct trial_device *const own = &trial->devices[d];
    const uint32_t here = number_of(trial, trial->group->rank, d), number = number_of(trial, rank, device);
    for (uint32_t i = 0; i < NUMBERS; i++)
        if (own->host[(size_t)(1 + number) * NUMBERS + i] != number_at(here, i) + number_at(number, i))
            fail_trial(trial, "rank %u works on memory of %s and other numbers arrive: look for PCIe access control (ACS) "
                       "and the IOMMU", rank, cuda_name(own->device));
}

static void check_rank(struct trial *trial, uint32_t rank)
{
    for (uint32_t d = 0; d < trial->own->devices; d++)
        for (uint32_t j = 0; j < rank_at(trial, rank)->devices; j++)
            check_sums(trial, d, rank, j);
}

/* ---- the trial ---- */

static void offer_all(struct trial *trial)
{
    for (uint32_t d = 0; d < trial->own->devices; d++)
        if (offer_own(trial, d) != 0)
            fail_trial(trial, "device %u cannot be used", trial->towers->index[d]);
}

static void read_all(struct trial *trial)
{
    for (uint32_t d = 0; d < trial->own->devices; d++)
        if (copy_host(trial, &trial->devices[d], COPY_FROM_DEVICE) != 0)
            fail_trial(trial, "%s cannot be read", cuda_name(trial->devices[d].device));
}

/* Between two exchanges all ranks do the same. */
static int run_trial(struct trial *trial, struct unsupported_reason *reason)
{
    const uint32_t own = trial->group->rank, count = trial->group->size;
    offer_all(trial);
    int rc = exchange(trial, reason);
    if (rc != 0)
        return rc;
    for (uint32_t rank = 0; rank < count; rank++)
        if (rank != own)
            try_rank(trial, rank);
    rc = exchange(trial, reason);
    if (rc != 0)
        return rc;
    read_all(trial);
    for (uint32_t rank = 0; rank < count && !trial->own->has_failed; rank++)
        if (rank != own)
            check_rank(trial, rank);
    return exchange(trial, reason);
}

int ipc_trial_between(const struct reduce_towers *towers, const struct reduce_group *group,
                      struct unsupported_reason *reason)
{
    struct trial trial = { .towers = towers, .group = group, .per_rank = towers->here.count };
    trial.devices = calloc(towers->device_count, sizeof(*trial.devices));
    trial.own = calloc(1, rank_bytes(&trial));
    trial.all = calloc(group->size, rank_bytes(&trial));
    int rc = trial.devices == NULL || trial.own == NULL || trial.all == NULL ? -ENOMEM : 0;
    if (rc == 0) {
        trial.own->devices = towers->device_count;
        rc = run_trial(&trial, reason);
    }
    for (uint32_t d = 0; d < towers->device_count && trial.devices != NULL; d++)
        close_own(&trial.devices[d]);
    free(trial.all);
    free(trial.own);
    free(trial.devices);
    return rc == -ENOMEM || rc == -EINVAL ? -ECANCELED : rc;
}

/* ---- between ranks ---- */

static int gather(void *ranks, const void *own, size_t bytes, void *all_out)
{
    return rank_gather(ranks, own, bytes, all_out);
}

static bool can_map(void *ranks, uint32_t rank)
{
    return ranks_can_wake(ranks, rank);
}

int ipc_trial(const struct reduce_towers *towers, struct ranks *ranks, struct unsupported_reason *reason)
{
    const struct reduce_group group = { .rank = ranks_rank(ranks), .size = ranks_size(ranks), .processes = ranks,
                                        .gather = gather, .can_map = can_map };
    struct unsupported_reason found;
    const int rc = ipc_trial_between(towers, &group, &found);
    return rc != -ENODEV ? rc : unsupported_reason_set(reason, rc, "reduce", "ipc does not work between these "
                                                       "processes: %s", found.why);
}
