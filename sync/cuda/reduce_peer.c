/* Reduction between CUDA devices that reach each other's memory: every tower's communication
 * stream reads its share of a bucket from all arenas, adds in tower order and writes the sum
 * to all arenas, or to the owner's, or copies from that one. Several towers may be on one device. */
#include "sync/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/kernels.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"
#include "sync/cuda/peer_check.h"
#include "sync/cuda/reduce_clock.h"
#include "sync/rendezvous.h"

struct peer_reduce {
    struct rendezvous rendezvous;
    struct tower_arenas arenas[REGION_COUNT];   /* of gradients what the members bring of them */
    struct reduce_clock *clocks[KERNEL_TOWERS_MAX];     /* each set by its tower before it joins */
};

static bool brings_bf16_grads(const struct reduce_member *member, enum region region)
{
    return region == REGION_GRADIENTS && member->bf16_grads != NULL;
}

static enum value_type type_of(const struct share *share)
{
    return brings_bf16_grads(&share->rendezvous->members[share->tower], share->region) ? VALUE_BF16 : VALUE_FP32;
}

static int sum_range(struct rendezvous *rendezvous, const struct share *share)
{
    struct stream *const communication = rendezvous->members[share->tower].communication;
    const struct tower_arenas *const arenas = &((struct peer_reduce *)rendezvous)->arenas[share->region];
    const struct bucket *const bucket = share_bucket(share);
    if (bucket->use == BUCKET_BROADCAST)
        return communication->device->ops->copy(communication, (float *)arenas->values[share->tower] + share->begin,
                                                (float *)arenas->values[bucket->owner] + share->begin,
                                                (share->end - share->begin) * sizeof(float), COPY_ON_DEVICE);
    const struct tower_range all = { 0, rendezvous->towers }, one = { bucket->owner, 1 };
    const struct tower_range into = bucket->use == BUCKET_REDUCE ? one : all;
    const int rc = cuda_enter(communication->device);
    return rc != 0 ? rc : CUDA_CALL(cuda_name(communication->device),
                                    kernel_sum_towers(cuda_stream_of(communication), type_of(share), arenas,
                                                      share->begin, share->end, into.first, into.count));
}

static int queue_sum(struct rendezvous *rendezvous, struct share *share)
{
    struct reduce_clock *const clock = ((struct peer_reduce *)rendezvous)->clocks[share->tower];
    const uint64_t batch = share_batch(share);
    if (share->begin >= share->end)
        return 0;
    int rc = reduce_clock_begin(clock, share->bucket, batch);
    if (rc == 0)
        rc = sum_range(rendezvous, share);
    return rc == 0 ? reduce_clock_end(clock) : rc;
}

static int connect_device(struct device *device, struct device *other)
{
    int can_access = 0;
    if (cuda_ordinal(device) == cuda_ordinal(other))
        return 0;
    int rc = CUDA_CALL(cuda_name(device),
                       cudaDeviceCanAccessPeer(&can_access, cuda_ordinal(device), cuda_ordinal(other)));
    if (rc == 0 && !can_access) {
        log_message(LOG_ERROR, "sync.reduce = peer: %s cannot use the memory of %s: use sync.reduce = host",
                    cuda_name(device), cuda_name(other));
        return -ENOTSUP;
    }
    return rc != 0 ? rc : device->ops->connect(device, other);
}

static void gather_arenas(struct rendezvous *rendezvous, enum region region)
{
    struct tower_arenas *const arenas = &((struct peer_reduce *)rendezvous)->arenas[region];
    arenas->count = rendezvous->towers;
    for (uint32_t d = 0; d < rendezvous->towers; d++) {
        const struct reduce_member *const member = &rendezvous->members[d];
        if (brings_bf16_grads(member, region))
            arenas->values[d] = member->bf16_grads;
        else
            arenas->values[d] = member->regions[region].floats;
    }
}

/* Every device gets access to every other one's memory. */
static int connect_devices(struct rendezvous *rendezvous)
{
    int rc = 0;
    for (uint32_t i = 0; i < rendezvous->towers && rc == 0; i++)
        for (uint32_t j = 0; j < rendezvous->towers && rc == 0; j++)
            rc = connect_device(rendezvous->members[i].device, rendezvous->members[j].device);
    if (rc == 0)
        rc = peer_check(rendezvous->members, rendezvous->towers);
    for (int region = 0; region < REGION_COUNT; region++)
        gather_arenas(rendezvous, region);
    return rc;
}

static const struct rendezvous_ops between_peers = { .connect = connect_devices, .sum = queue_sum };

/* Can all devices use each other's memory? */
static bool are_connected(const struct reduce_towers *towers)
{
    for (uint32_t i = 0; i < towers->device_count; i++)
        for (uint32_t j = 0; j < towers->device_count; j++)
            if (i != j && !towers->devices->reaches(towers->index[i], towers->index[j]))
                return false;
    return true;
}

static int peer_supports(const struct reduce_towers *towers, struct unsupported_reason *reason)
{
    if (strcmp(towers->devices->kind, "cuda") != 0)
        return unsupported_reason_set(reason, -EINVAL, "reduce",
                                      "peer is for CUDA devices, and this run computes on the CPU: "
                                      "use auto or host");
    if (towers->run > KERNEL_TOWERS_MAX)
        return unsupported_reason_set(reason, -EINVAL, "reduce",
                                      "peer sums over at most %u towers, and there are %u: use auto "
                                      "or host",
                                      KERNEL_TOWERS_MAX, towers->run);
    if (!are_connected(towers))
        return unsupported_reason_set(reason, -ENODEV, "reduce",
                                      "the devices cannot use each other's memory: use auto or host");
    return 0;
}

static int peer_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    if (spec->towers > KERNEL_TOWERS_MAX) {
        log_message(LOG_ERROR, "sync.reduce = peer: %u towers, and at most %u are possible: use sync.reduce = host",
                    spec->towers, KERNEL_TOWERS_MAX);
        return -ENOTSUP;
    }
    struct peer_reduce *const reduce = calloc(1, sizeof(*reduce));
    const int rc = reduce == NULL ? -ENOMEM : rendezvous_init(&reduce->rendezvous, &reduce_peer_ops, spec);
    if (rc != 0) {
        free(reduce);
        return rc;
    }
    *reduce_out = &reduce->rendezvous.base;
    return 0;
}

static void peer_close(struct reduce *base)
{
    struct peer_reduce *const reduce = (struct peer_reduce *)base;
    if (reduce == NULL)
        return;
    for (uint32_t d = 0; d < KERNEL_TOWERS_MAX; d++)
        reduce_clock_close(reduce->clocks[d]);
    rendezvous_release(&reduce->rendezvous);
    free(reduce);
}

static int peer_join(struct reduce *base, uint32_t tower, const struct reduce_member *member,
                     const struct buckets *buckets)
{
    struct peer_reduce *const reduce = (struct peer_reduce *)base;
    const int rc = reduce_clock_open(&reduce->clocks[tower], member, tower, buckets->count);
    return rc == 0 ? rendezvous_join(&reduce->rendezvous, &between_peers, tower, member, buckets) : rc;
}

static void peer_record(struct reduce *base, uint32_t tower)
{
    reduce_clock_record(((struct peer_reduce *)base)->clocks[tower]);
}

const struct reduce_ops reduce_peer_ops = {
    .name = "peer",
    .knows_owners = true,
    .supports = peer_supports,
    .open = peer_open,
    .close = peer_close,
    .join = peer_join,
    .start = rendezvous_start,
    .wait = rendezvous_wait,
    .record = peer_record,
    .cancel = rendezvous_cancel,
};
