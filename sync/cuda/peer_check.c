/* A pattern through every link between devices. See peer_check.h. */
#include "sync/cuda/peer_check.h"

#include <errno.h>

#include "compute/cuda/kernels.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"

#define PATTERN_MAX 1024u       /* floats: several lines, pages or not */

/* Two members on different devices, and pinned memory for their numbers. */
struct link {
    const struct reduce_member *reader, *other;
    struct event *passed[2];    /* on their communication streams */
    float *numbers;             /* PATTERN_MAX */
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

static float sum(uint32_t i)
{
    return reader_number(i) + other_number(i);
}

static float nothing(uint32_t i)
{
    (void)i;
    return 0;
}

static int await(const struct reduce_member *member, struct event *passed)
{
    const int rc = stream_record(member->communication, passed);
    return rc == 0 ? member->device->ops->event_wait(passed) : rc;
}

static struct event *event_of(const struct link *link, const struct reduce_member *member)
{
    return link->passed[member == link->other];
}

static int write_numbers(const struct link *link, const struct reduce_member *member, float (*number)(uint32_t i))
{
    for (uint32_t i = 0; i < link->count; i++)
        link->numbers[i] = number(i);
    const int rc = member->device->ops->copy(member->communication, member->zeros.floats, link->numbers,
                                             link->count * sizeof(float), COPY_TO_DEVICE);
    return rc == 0 ? await(member, event_of(link, member)) : rc;
}

static int add(const struct link *link)
{
    const struct reduce_member *const reader = link->reader;
    const struct tower_arenas both = { 2, { reader->zeros.floats, link->other->zeros.floats } };
    const cudaStream_t stream = cuda_stream_of(reader->communication);
    int rc = cuda_enter(reader->device);
    if (rc == 0)
        rc = CUDA_CALL(cuda_name(reader->device),
                       kernel_sum_towers(stream, VALUE_FP32, &both, 0, link->count, 0, 2));
    return rc == 0 ? await(reader, event_of(link, reader)) : rc;
}

/* 0, -EIO when the member's numbers are not the sums, or another negative errno. */
static int read_sums(const struct link *link, const struct reduce_member *member)
{
    int rc = member->device->ops->copy(member->communication, link->numbers, member->zeros.floats,
                                       link->count * sizeof(float), COPY_FROM_DEVICE);
    if (rc == 0)
        rc = await(member, event_of(link, member));
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < link->count; i++)
        if (link->numbers[i] != sum(i)) {
            log_message(LOG_ERROR, "%s works on memory of %s and other numbers arrive (%g for %g in place %u): use "
                        "sync.reduce = host, or look for PCIe access control (ACS) and the IOMMU",
                        cuda_name(link->reader->device), cuda_name(link->other->device), (double)link->numbers[i],
                        (double)sum(i), i);
            return -EIO;
        }
    return 0;
}

static int try_link(const struct link *link)
{
    int rc = write_numbers(link, link->reader, reader_number);
    if (rc == 0)
        rc = write_numbers(link, link->other, other_number);
    if (rc == 0)
        rc = add(link);
    if (rc == 0)
        rc = read_sums(link, link->reader);
    if (rc == 0)
        rc = read_sums(link, link->other);
    if (rc == 0)
        rc = write_numbers(link, link->reader, nothing);
    return rc == 0 ? write_numbers(link, link->other, nothing) : rc;
}

static uint32_t pattern_count(const struct reduce_member *a, const struct reduce_member *b)
{
    const size_t both = a->zeros.count < b->zeros.count ? a->zeros.count : b->zeros.count;
    return both < PATTERN_MAX ? (uint32_t)both : PATTERN_MAX;
}

static int check_link(const struct reduce_member *reader, const struct reduce_member *other)
{
    struct device *const device = reader->device;
    struct link link = { .reader = reader, .other = other, .count = pattern_count(reader, other) };
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
    /* Where it was given up, copies may still be on their way. */
    device->ops->stream_drain(reader->communication);
    other->device->ops->stream_drain(other->communication);
    for (uint32_t i = 0; i < 2; i++)
        if (link.passed[i] != NULL)
            link.passed[i]->device->ops->event_close(link.passed[i]);
    device->ops->free_pinned(device, numbers);
    return rc;
}

/* The first member on a device stands for all on it. */
static bool is_first_there(const struct reduce_member *members, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (cuda_ordinal(members[k].device) == cuda_ordinal(members[i].device))
            return false;
    return true;
}

int peer_check(const struct reduce_member *members, uint32_t count)
{
    int rc = 0;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < count && rc == 0; j++)
            if (i != j && is_first_there(members, i) && is_first_there(members, j))
                rc = check_link(&members[i], &members[j]);
    return rc;
}
