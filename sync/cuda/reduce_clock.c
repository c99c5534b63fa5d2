/* A ring of queued reductions with their events. It has one entry more than the number of reductions that can be
 * queued, because the oldest one is measured from the end of the previous one. */
#include "sync/cuda/reduce_clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "stage/clock.h"
#include "stage/trace/trace.h"

struct timed_sum {
    struct event *begun, *ended;
    uint32_t bucket;
    uint64_t batch;
};

struct reduce_clock {
    struct stream *stream;
    struct trace_track *track;
    uint32_t tower, depth;
    struct timed_sum *sums;             /* reduction n is sums[n % depth] */
    /* Count of reductions; written by the queueing thread when an entry is complete. */
    atomic_uint_fast64_t queued;
    atomic_uint_fast64_t recorded;      /* count of reductions; written by the tower's thread */
    bool is_left_out;                   /* the reduction that is being queued is not traced, because the ring is full */
    struct event *origin;
    uint64_t ended_ns;                  /* end of the last recorded reduction, or the origin */
};

static int open_events(struct reduce_clock *clock, struct device *device)
{
    int rc = device->ops->event_open(device, EVENT_TIMED, &clock->origin);
    for (uint32_t i = 0; i < clock->depth && rc == 0; i++) {
        rc = device->ops->event_open(device, EVENT_TIMED, &clock->sums[i].begun);
        if (rc == 0)
            rc = device->ops->event_open(device, EVENT_TIMED, &clock->sums[i].ended);
    }
    return rc;
}

static int set_origin(struct reduce_clock *clock)
{
    int rc = stream_record(clock->stream, clock->origin);
    if (rc == 0)
        rc = clock->origin->device->ops->event_wait(clock->origin);
    clock->ended_ns = clock_now_ns();
    return rc;
}

int reduce_clock_open(struct reduce_clock **clock_out, const struct reduce_member *member, uint32_t tower,
                      uint32_t buckets)
{
    /* Reductions of the steps that may be queued and not yet reported; and of the latest reported one, which may have
     * reductions in flight where gradients are applied a step later. */
    const uint32_t depth = (member->device->ops->steps_ahead + 2) * buckets + 1;
    *clock_out = NULL;
    if (member->track == NULL)
        return 0;
    struct reduce_clock *const clock = calloc(1, sizeof(*clock));
    struct timed_sum *const sums = calloc(depth, sizeof(*sums));
    if (clock == NULL || sums == NULL) {
        free(clock);
        free(sums);
        return -ENOMEM;
    }
    *clock = (struct reduce_clock){ .stream = member->communication, .track = member->track, .tower = tower,
                                    .depth = depth, .sums = sums };
    int rc = open_events(clock, member->device);
    if (rc == 0)
        rc = set_origin(clock);
    if (rc != 0)
        reduce_clock_close(clock);
    else
        *clock_out = clock;
    return rc;
}

void reduce_clock_close(struct reduce_clock *clock)
{
    if (clock == NULL)
        return;
    for (uint32_t i = 0; i < clock->depth; i++) {
        event_close(clock->sums[i].begun);
        event_close(clock->sums[i].ended);
    }
    event_close(clock->origin);
    free(clock->sums);
    free(clock);
}

static struct timed_sum *sum_at(const struct reduce_clock *clock, uint64_t number)
{
    return &clock->sums[number % clock->depth];
}

int reduce_clock_begin(struct reduce_clock *clock, uint32_t bucket, uint64_t batch)
{
    if (clock == NULL)
        return 0;
    const uint64_t number = atomic_load_explicit(&clock->queued, memory_order_relaxed);
    struct timed_sum *const sum = sum_at(clock, number);
    /* Acquire: the tower's thread has read the events that are reused now. */
    clock->is_left_out = number - atomic_load_explicit(&clock->recorded, memory_order_acquire) >= clock->depth - 1;
    if (clock->is_left_out)
        return 0;
    sum->bucket = bucket;
    sum->batch = batch;
    return stream_record(clock->stream, sum->begun);
}

int reduce_clock_end(struct reduce_clock *clock)
{
    if (clock == NULL || clock->is_left_out)
        return 0;
    const uint64_t number = atomic_load_explicit(&clock->queued, memory_order_relaxed);
    const int rc = stream_record(clock->stream, sum_at(clock, number)->ended);
    /* Release: a thread that reads this count also sees the entry. */
    if (rc == 0)
        atomic_store_explicit(&clock->queued, number + 1, memory_order_release);
    return rc;
}

/* Record a reduction. False if it has not ended, or the device cannot report its times. */
static bool record_one(struct reduce_clock *clock, uint64_t number)
{
    const struct timed_sum *const sum = sum_at(clock, number);
    const struct device_ops *const ops = clock->stream->device->ops;
    struct event *const before = number > 0 ? sum_at(clock, number - 1)->ended : clock->origin;
    uint64_t between_ns, lasted_ns;
    if (!ops->event_passed(sum->ended) || ops->event_elapsed(before, sum->begun, &between_ns) != 0 ||
        ops->event_elapsed(sum->begun, sum->ended, &lasted_ns) != 0)
        return false;
    const uint64_t begun_ns = clock->ended_ns + between_ns;
    clock->ended_ns = begun_ns + lasted_ns;
    trace_put(clock->track, &(struct trace_entry){ begun_ns, clock->ended_ns, sum->batch, sum->bucket,
                                                   (uint16_t)clock->tower, TRACE_REDUCE });
    return true;
}

void reduce_clock_record(struct reduce_clock *clock)
{
    if (clock == NULL)
        return;
    uint64_t number = atomic_load_explicit(&clock->recorded, memory_order_relaxed);
    const uint64_t queued = atomic_load_explicit(&clock->queued, memory_order_acquire);
    while (number < queued && record_one(clock, number))
        atomic_store_explicit(&clock->recorded, ++number, memory_order_release);
}
