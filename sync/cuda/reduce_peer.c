/* Reduction between CUDA devices that access each other's memory. For its share of a bucket every tower's communication
 * stream reads all arenas, adds them in pairs and writes the sum to all arenas or to the owner's; or it copies from the
 * owner. Several towers may be on one device. */
#include "sync/reduce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/kernels.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"
#include "sync/cuda/reduce_clock.h"
#include "sync/cuda/reduce_peer.h"

/* ---- checking peer access ----
 *
 * Drivers may report peer access that does not work: on some machines (PCIe access control, an IOMMU, a faulty bridge)
 * wrong numbers arrive, or none. */

#define PATTERN_MAX 1024u       /* in floats: several cache lines */

/* Two members on different devices, and pinned memory for their numbers. */
struct peer_link {
    const struct reduce_member *reader, *other;
    struct event *passed[2];    /* on their communication streams */
    float *numbers;             /* [PATTERN_MAX] */
    uint32_t count;
};

static float reader_number(uint32_t i)
{
    return (float)(i + 1);
}

static float other_number(uint32_t i)
{
    return (float)(i * 4096u);
}

static float expected_sum(uint32_t i)
{
    return reader_number(i) + other_number(i);
}

static float zero(uint32_t i)
{
    (void)i;
    return 0;
}

static int peer_await(const struct reduce_member *member, struct event *passed)
{
    const int rc = stream_record(member->communication, passed);
    return rc == 0 ? member->device->ops->event_wait(passed) : rc;
}

static struct event *event_of(const struct peer_link *link, const struct reduce_member *member)
{
    return link->passed[member == link->other];
}

static int write_numbers(const struct peer_link *link, const struct reduce_member *member, float (*number)(uint32_t i))
{
    for (uint32_t i = 0; i < link->count; i++)
        link->numbers[i] = number(i);
    const int rc = member->device->ops->copy(member->communication, member->zeros.floats, link->numbers,
                                             link->count * sizeof(float), COPY_TO_DEVICE);
    return rc == 0 ? peer_await(member, event_of(link, member)) : rc;
}

static int peer_add(const struct peer_link *link)
{
    const struct reduce_member *const reader = link->reader;
    const struct tower_arenas both = { 2, { reader->zeros.floats, link->other->zeros.floats } };
    const cudaStream_t stream = cuda_stream_of(reader->communication);
    int rc = cuda_enter(reader->device);
    if (rc == 0)
        rc = CUDA_CALL(cuda_name(reader->device),
                       kernel_sum_towers(stream, VALUE_FP32, &both, 0, link->count, (struct some_arenas){ 0, 2 },
                                         (struct some_arenas){ 0, 2 }));
    return rc == 0 ? peer_await(reader, event_of(link, reader)) : rc;
}

/* Check the sums that the member has. 0, -EIO if they are wrong, or another negative errno. */
static int read_sums(const struct peer_link *link, const struct reduce_member *member)
{
    int rc = member->device->ops->copy(member->communication, link->numbers, member->zeros.floats,
                                       link->count * sizeof(float), COPY_FROM_DEVICE);
    if (rc == 0)
        rc = peer_await(member, event_of(link, member));
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < link->count; i++)
        if (link->numbers[i] != expected_sum(i)) {
            log_message(LOG_ERROR, "%s works on memory of %s and other numbers arrive (%g for %g in place %u): use "
                        "sync.reduce = host, or look for PCIe access control (ACS) and the IOMMU",
                        cuda_name(link->reader->device), cuda_name(link->other->device), (double)link->numbers[i],
                        (double)expected_sum(i), i);
            return -EIO;
        }
    return 0;
}

static int try_link(const struct peer_link *link)
{
    int rc = write_numbers(link, link->reader, reader_number);
    if (rc == 0)
        rc = write_numbers(link, link->other, other_number);
    if (rc == 0)
        rc = peer_add(link);
    if (rc == 0)
        rc = read_sums(link, link->reader);
    if (rc == 0)
        rc = read_sums(link, link->other);
    if (rc == 0)
        rc = write_numbers(link, link->reader, zero);
    return rc == 0 ? write_numbers(link, link->other, zero) : rc;
}

static uint32_t pattern_count(const struct reduce_member *a, const struct reduce_member *b)
{
    const size_t both = a->zeros.count < b->zeros.count ? a->zeros.count : b->zeros.count;
    return both < PATTERN_MAX ? (uint32_t)both : PATTERN_MAX;
}

static int check_link(const struct reduce_member *reader, const struct reduce_member *other)
{
    struct device *const device = reader->device;
    struct peer_link link = { .reader = reader, .other = other, .count = pattern_count(reader, other) };
    void *numbers;
    int rc = device->ops->alloc_pinned(device, PATTERN_MAX * sizeof(float), &numbers);
    if (rc != 0)
        return rc;
    link.numbers = numbers;
    rc = device->ops->event_open(device, EVENT_ORDER, &link.passed[0]);
    if (rc == 0)
        rc = other->device->ops->event_open(other->device, EVENT_ORDER, &link.passed[1]);
    if (rc == 0)
        rc = try_link(&link);
    /* After a failure, copies may still be running. */
    device->ops->stream_drain(reader->communication);
    other->device->ops->stream_drain(other->communication);
    for (uint32_t i = 0; i < 2; i++)
        if (link.passed[i] != NULL)
            link.passed[i]->device->ops->event_close(link.passed[i]);
    device->ops->free_pinned(device, numbers);
    return rc;
}

/* Is it the first member on its device? Only these are checked. */
static bool is_first_there(const struct reduce_member *members, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (cuda_ordinal(members[k].device) == cuda_ordinal(members[i].device))
            return false;
    return true;
}

/* Check the access between every two devices of the members, in both directions: one device reads known numbers of the
 * other, adds its own and writes the sums to both. It uses the members' zeros, which are zero again afterwards. Access
 * has to be enabled, and nothing queued on the communication streams. Blocks. 0, -EIO if wrong numbers arrived, or
 * another negative errno (both logged). */
static int peer_check(const struct reduce_member *members, uint32_t count)
{
    int rc = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count && rc == 0; j++)
            if (i != j && is_first_there(members, i) && is_first_there(members, j))
                rc = check_link(&members[i], &members[j]);
    return rc;
}

/* ---- the reduction ---- */

struct peer_reduce {
    struct rendezvous rendezvous;
    struct tower_arenas arenas[REGION_COUNT];   /* gradients: the arenas, or their bf16 copies */
    struct reduce_clock *clocks[KERNEL_TOWERS_MAX];     /* each is set by its tower before it joins */
};

static bool has_bf16_grads(const struct reduce_member *member, enum region region)
{
    return region == REGION_GRADIENTS && member->bf16_grads != NULL;
}

struct peer_region peer_region(const struct reduce_member *member, enum region region)
{
    const struct reduce_region *const floats = &member->regions[region];
    if (has_bf16_grads(member, region))
        return (struct peer_region){ member->bf16_grads, floats->count * sizeof(uint16_t) };
    return (struct peer_region){ floats->floats, floats->count * sizeof(float) };
}

static enum value_type type_of(const struct share *share)
{
    return has_bf16_grads(&share->rendezvous->members[share->tower], share->region) ? VALUE_BF16 : VALUE_FP32;
}

int peer_sum_range(struct rendezvous *rendezvous, const struct share *share, const struct tower_arenas *arenas)
{
    struct stream *const communication = rendezvous->members[share->tower].communication;
    const struct bucket *const bucket = share_bucket(share);
    const uint32_t tower = rendezvous->first + share->tower;
    if (bucket->use == BUCKET_BROADCAST)
        return communication->device->ops->copy(communication, (float *)arenas->values[tower] + share->begin,
                                                (float *)arenas->values[bucket->owner] + share->begin,
                                                (share->end - share->begin) * sizeof(float), COPY_ON_DEVICE);
    const struct some_arenas all = { 0, arenas->count }, own = { tower, 1 }, owner = { bucket->owner, 1 };
    const struct some_arenas from = bucket->use == BUCKET_ALL_GATHER ? own : all;
    const struct some_arenas into = bucket->use == BUCKET_REDUCE         ? owner
                                  : bucket->use == BUCKET_REDUCE_SCATTER ? own
                                                                       : all;
    const int rc = cuda_enter(communication->device);
    return rc != 0 ? rc : CUDA_CALL(cuda_name(communication->device),
                                    kernel_sum_towers(cuda_stream_of(communication), type_of(share), arenas,
                                                      share->begin, share->end, from, into));
}

static int queue_sum(struct rendezvous *rendezvous, struct share *share)
{
    struct peer_reduce *const reduce = (struct peer_reduce *)rendezvous;
    struct reduce_clock *const clock = reduce->clocks[share->tower];
    const uint64_t batch = share_batch(share);
    if (share->begin >= share->end)
        return 0;
    int rc = reduce_clock_begin(clock, share->bucket, batch);
    if (rc == 0)
        rc = peer_sum_range(rendezvous, share, &reduce->arenas[share->region]);
    return rc == 0 ? reduce_clock_end(clock) : rc;
}

static int connect_device(const struct rendezvous *rendezvous, struct device *device, struct device *other)
{
    int can_access = 0;
    if (cuda_ordinal(device) == cuda_ordinal(other))
        return 0;
    int rc = CUDA_CALL(cuda_name(device),
                       cudaDeviceCanAccessPeer(&can_access, cuda_ordinal(device), cuda_ordinal(other)));
    if (rc == 0 && !can_access) {
        log_message(LOG_ERROR, "sync.reduce = %s: %s cannot use the memory of %s: use sync.reduce = host",
                    rendezvous->base.ops->name, cuda_name(device), cuda_name(other));
        return -ENOTSUP;
    }
    return rc != 0 ? rc : device->ops->connect(device, other);
}

static void gather_arenas(struct rendezvous *rendezvous, enum region region)
{
    struct tower_arenas *const arenas = &((struct peer_reduce *)rendezvous)->arenas[region];
    arenas->count = rendezvous->towers;
    for (uint32_t d = 0; d < rendezvous->towers; d++)
        arenas->values[d] = peer_region(&rendezvous->members[d], region).memory;
}

int peer_connect(struct rendezvous *rendezvous)
{
    int rc = 0;
    for (uint32_t i = 0; i < rendezvous->towers && rc == 0; i++)
        for (uint32_t j = 0; j < rendezvous->towers && rc == 0; j++)
            rc = connect_device(rendezvous, rendezvous->members[i].device, rendezvous->members[j].device);
    return rc == 0 ? peer_check(rendezvous->members, rendezvous->towers) : rc;
}

static int connect_devices(struct rendezvous *rendezvous)
{
    const int rc = peer_connect(rendezvous);
    for (int region = 0; region < REGION_COUNT; region++)
        gather_arenas(rendezvous, region);
    return rc;
}

static const struct rendezvous_ops between_peers = { .connect = connect_devices, .sum = queue_sum };

bool peer_are_connected(const struct reduce_towers *towers)
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
                                      "peer sums over at most %u towers, and there are %u: use auto or host",
                                      KERNEL_TOWERS_MAX, towers->run);
    if (!peer_are_connected(towers))
        return unsupported_reason_set(reason, -ENODEV, "reduce",
                                      "the devices cannot use each other's memory: use auto or host");
    return reduce_check_rounding(towers, "peer", reason);
}

static int peer_open(struct reduce **reduce_out, const struct reduce_spec *spec)
{
    if (spec->towers > KERNEL_TOWERS_MAX) {
        log_message(LOG_ERROR, "sync.reduce = peer: %u towers, and at most %u are possible: use sync.reduce = host",
                    spec->towers, KERNEL_TOWERS_MAX);
        return -ENOTSUP;
    }
    struct peer_reduce *const reduce = calloc(1, sizeof(*reduce));
    const struct tower_range all = { 0, spec->towers };
    const int rc = reduce == NULL ? -ENOMEM : rendezvous_init(&reduce->rendezvous, &reduce_peer_ops, all);
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
    if (rendezvous_close(&reduce->rendezvous, false))
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
