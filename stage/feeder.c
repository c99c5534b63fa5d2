/* The feeder thread of one tower copies batches to the device in the order of their numbers. It blocks on one wait at a
 * time (for a batch, a slot or a copy), while copies run on its copy stream and the tower computes. */
#include "stage/feeder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/heartbeat.h"
#include "stage/random.h"
#include "stage/thread.h"
#include "stage/trace/range.h"

struct feeder {
    struct feeder_spec spec;
    struct thread *thread;
    struct stream *copy;
    struct event *begun, *ended;        /* before and after the current copy */
    struct event *previous_ended;       /* recorded after the previous copy; NULL without a trace track for copies */
    uint64_t previous_ended_ns;         /* when the previous copy ended; 0: there was none */
    void *block;                /* synthetic input: pinned memory in which values are generated */
    uint64_t number;            /* synthetic input: number of the next batch */
    uint32_t filled;            /* synthetic input: number of slots that have their values */
    struct feeder_counts counts;        /* written by the thread, read after the join */
};

/* Report a device error. A cancelled wait (-ECANCELED) is not an error: the run was stopped. */
static int feeder_fail(struct feeder *feeder, uint64_t number, int error)
{
    if (error == -ECANCELED)
        return error;
    return stop_fail(feeder->spec.stop, EXIT_CODE_DEVICE, "%s: copy of batch %llu to the device failed: %s",
                     feeder->spec.name, (unsigned long long)number, strerror(-error));
}

static int copy_range(struct feeder *feeder, struct slot *slot, const void *block, size_t offset, size_t bytes)
{
    return feeder->spec.device->ops->copy(feeder->copy, (char *)slot->block + offset, (const char *)block + offset, bytes,
                                          COPY_TO_DEVICE);
}

/* Queue the copies of `count` samples: of a full batch a single one, of others of what they have in each array. */
static int copy_samples(struct feeder *feeder, struct slot *slot, const void *block, enum phase phase, uint32_t count)
{
    const struct batch_image *const image = &feeder->spec.layout->of[phase];
    if (count == feeder->spec.layout->capacity)
        return copy_range(feeder, slot, block, 0, image->bytes);
    int rc = copy_range(feeder, slot, block, 0, count * image->sample_bytes);
    if (!rc)
        rc = copy_range(feeder, slot, block, image->labels_offset, count * sizeof(*slot->labels));
    if (!rc && image->mixes_offset > 0)
        rc = copy_range(feeder, slot, block, image->mixes_offset, count * sizeof(*slot->mixes));
    return rc;
}

/* Queue the copy of the samples in the block into the slot, to run after the slot's last reader. */
static int copy_queue(struct feeder *feeder, struct slot *slot, const void *block, enum phase phase, uint32_t count)
{
    int rc = stream_wait(feeder->copy, slot->free);
    if (!rc)
        rc = stream_record(feeder->copy, feeder->begun);
    if (!rc)
        rc = copy_samples(feeder, slot, block, phase, count);
    if (!rc)
        rc = stream_record(feeder->copy, feeder->ended);
    return rc ? rc : stream_record(feeder->copy, slot->ready);
}

static struct trace_batch traced(const struct feeder *feeder, const struct local_batch *local)
{
    return (struct trace_batch){ local->number, feeder->spec.tower };
}

/* The start time of a copy that was queued at queued_ns, has just finished and took copy_ns: the end of the previous
 * copy plus the time between their events, clamped to host timestamps, so that the device's clock cannot drift. */
static uint64_t copy_begin(const struct feeder *feeder, uint64_t queued_ns, uint64_t copy_ns)
{
    const uint64_t latest_ns = clock_now_ns() - copy_ns;
    uint64_t begun_ns = queued_ns, between_ns;
    if (feeder->previous_ended_ns > 0 &&
        feeder->spec.device->ops->event_elapsed(feeder->previous_ended, feeder->begun, &between_ns) == 0)
        begun_ns = feeder->previous_ended_ns + between_ns;
    const uint64_t earliest_ns = queued_ns > feeder->previous_ended_ns ? queued_ns : feeder->previous_ended_ns;
    begun_ns = begun_ns < latest_ns ? begun_ns : latest_ns;
    return begun_ns > earliest_ns ? begun_ns : earliest_ns;
}

static void record_copy(struct feeder *feeder, const struct local_batch *local, uint64_t queued_ns, uint64_t copy_ns)
{
    if (feeder->spec.copy_track == NULL)
        return;
    const uint64_t begun_ns = copy_begin(feeder, queued_ns, copy_ns);
    const struct trace_entry copy = { begun_ns, begun_ns + copy_ns, local->number, local->count,
                                      (uint16_t)feeder->spec.tower, TRACE_COPY };
    struct event *const ended = feeder->ended;
    trace_put(feeder->spec.copy_track, &copy);
    trace_span(feeder->spec.track, TRACE_FEED, traced(feeder, local), queued_ns, local->count);
    feeder->previous_ended_ns = copy.end_ns;
    feeder->ended = feeder->previous_ended;
    feeder->previous_ended = ended;
}

/* The watchdog guards only the copy itself. Before it, the copy waits for a free slot, that is for steps, and steps may
 * wait for the input of other towers. */
static int await_copy(struct feeder *feeder, struct slot *slot)
{
    int rc = event_wait(feeder->begun);
    heartbeat_begin("waiting for its copy");
    if (!rc)
        rc = event_wait(slot->ready);
    heartbeat_end();
    return rc;
}

/* Wait for the copy of a batch that was queued at queued_ns. */
static int copy_wait(struct feeder *feeder, struct slot *slot, const struct local_batch *local, uint64_t queued_ns)
{
    const struct device_ops *const ops = feeder->spec.device->ops;
    uint64_t copy_ns = 0;
    int rc = await_copy(feeder, slot);
    if (!rc)
        rc = ops->event_elapsed(feeder->begun, feeder->ended, &copy_ns);
    feeder->counts.copy_ns += copy_ns;
    if (!rc)
        record_copy(feeder, local, queued_ns, copy_ns);
    return rc;
}

/* Copy one batch of the ring into the slot. The tower receives the slot as soon as the copy is queued; the loader
 * receives the batch back when the copy has finished. */
static int feed_batch(struct feeder *feeder, const struct batch *batch, struct slot *slot)
{
    const uint32_t count = batch->local.count;
    const uint64_t begun_ns = trace_now(feeder->spec.track);
    int rc = 0;
    range_begin(TRACE_FEED, batch->local.number);
    heartbeat_at("batch", batch->local.number + 1);
    slot->local = batch->local;
    slot->batches_found = batch->full_found;
    memcpy(slot->ids, batch->ids, count * sizeof(slot->ids[0]));
    if (count > 0)
        rc = copy_queue(feeder, slot, batch->block, batch->local.phase, count);
    if (!rc)
        slots_publish(feeder->spec.slots, slot);
    if (!rc && count > 0)
        rc = copy_wait(feeder, slot, &batch->local, begun_ns);
    range_end();
    return rc ? feeder_fail(feeder, batch->local.number, rc) : 0;
}

/* Returns 0 while there may be more batches. */
static int feed_from_ring(struct feeder *feeder)
{
    struct trace_track *const track = feeder->spec.track;
    struct batch *batch;
    struct slot *slot;
    const uint64_t begun_ns = trace_now(track);
    range_begin(TRACE_WAIT_BATCH, RANGE_NO_BATCH);
    int rc = ring_take(feeder->spec.ring, &batch);
    range_end();
    if (rc)
        return rc;
    trace_span(track, TRACE_WAIT_BATCH, traced(feeder, &batch->local), begun_ns, 0);
    const uint64_t taken_ns = trace_now(track);
    trace_count(track, TRACE_FULL_BATCHES, traced(feeder, &batch->local), taken_ns, batch->full_found);
    rc = slots_empty(feeder->spec.slots, &slot);
    trace_span(track, TRACE_WAIT_SLOT, traced(feeder, &batch->local), taken_ns, 0);
    if (!rc) {
        rc = feed_batch(feeder, batch, slot);
        if (rc)         /* the copy may still read the batch, so nobody may fill it again */
            ring_cancel(feeder->spec.ring);
    }
    ring_give_back(feeder->spec.ring, batch);
    feeder->counts.batches += rc == 0;
    return rc;
}

/* Generate the values of the batches whose number modulo the number of slots is `place`: a function of (seed, tower,
 * place, element). */
static void synthetic_draw(const struct feeder_spec *spec, uint32_t place, void *block)
{
    const struct random_key key = random_key(spec->seed, RANDOM_SYNTHETIC, spec->tower);
    /* A multiple of the 16 bytes of a random block. */
    const size_t pixel_bytes = spec->layout->of[PHASE_TRAIN].labels_offset;
    uint8_t *pixels = block;
    for (size_t i = 0; i * 16 < pixel_bytes; i++) {
        uint32_t word[4] = { (uint32_t)i, (uint32_t)((uint64_t)i >> 32), place, 0 };
        random_mix(key, word);
        memcpy(pixels + i * 16, word, sizeof(word));
    }
    int32_t *labels = (int32_t *)(pixels + pixel_bytes);
    for (uint32_t i = 0; i < spec->layout->capacity; i++) {
        uint32_t word[4] = { i, 0, place, 1 };
        random_mix(key, word);
        labels[i] = (int32_t)((uint64_t)word[0] * spec->classes >> 32);
    }
}

/* Fill a slot when it is first used; later batches reuse its values. Values depend on the batch number modulo the
 * slots, so a resumed run has the same values. */
static int synthetic_fill(struct feeder *feeder, struct slot *slot, const struct local_batch *local)
{
    const uint32_t depth = slots_depth(feeder->spec.slots);
    if (feeder->filled == depth)
        return 0;
    feeder->filled++;
    heartbeat_at("batch", local->number + 1);
    synthetic_draw(&feeder->spec, (uint32_t)(feeder->number % depth), feeder->block);
    const uint64_t begun_ns = trace_now(feeder->spec.track);
    range_begin(TRACE_FEED, local->number);
    int rc = copy_queue(feeder, slot, feeder->block, PHASE_TRAIN, feeder->spec.layout->capacity);
    if (!rc)
        rc = copy_wait(feeder, slot, local, begun_ns);
    range_end();
    return rc;
}

/* Returns 0 while there may be more batches. */
static int feed_synthetic(struct feeder *feeder)
{
    const uint64_t number = feeder->number;
    struct local_batch local;
    struct slot *slot;
    const uint64_t begun_ns = trace_now(feeder->spec.track);
    int rc = schedule_find(feeder->spec.schedule, number, feeder->spec.tower, &local);
    if (!rc)
        rc = slots_empty(feeder->spec.slots, &slot);
    if (rc)
        return rc;
    trace_span(feeder->spec.track, TRACE_WAIT_SLOT, traced(feeder, &local), begun_ns, 0);
    rc = synthetic_fill(feeder, slot, &local);
    if (rc)
        return feeder_fail(feeder, number, rc);
    slot->local = local;
    for (uint32_t i = 0; i < local.count; i++)
        slot->ids[i] = local.first_position + i;
    slots_publish(feeder->spec.slots, slot);
    feeder->number++;
    feeder->counts.batches++;
    return 0;
}

static void feeder_loop(void *arg)
{
    struct feeder *feeder = arg;
    int (*const feed)(struct feeder *) = feeder->spec.ring != NULL ? feed_from_ring : feed_synthetic;
    heartbeat_adopt(feeder->spec.heartbeat);
    feeder->spec.device->ops->bind(feeder->spec.device);
    while (feed(feeder) == 0)
        ;
    slots_finish(feeder->spec.slots);
    heartbeat_adopt(NULL);
}

static void feeder_close(struct feeder *feeder)
{
    struct device *const device = feeder->spec.device;
    if (feeder->copy != NULL)
        device->ops->stream_close(feeder->copy);
    device->ops->event_close(feeder->previous_ended);
    device->ops->event_close(feeder->ended);
    device->ops->event_close(feeder->begun);
    if (feeder->block != NULL)
        device->ops->free_pinned(device, feeder->block);
    free(feeder);
}

/* Open everything that the thread needs. */
static int feeder_prepare(struct feeder *feeder)
{
    struct device *const device = feeder->spec.device;
    char name[16];
    snprintf(name, sizeof(name), "copy%u", feeder->spec.tower);
    int rc = device->ops->stream_open(device, STREAM_COPY, name, &feeder->copy);
    if (!rc)
        rc = device->ops->event_open(device, EVENT_TIMED, &feeder->begun);
    if (!rc)
        rc = device->ops->event_open(device, EVENT_TIMED, &feeder->ended);
    if (!rc && feeder->spec.copy_track != NULL)
        rc = device->ops->event_open(device, EVENT_TIMED, &feeder->previous_ended);
    if (rc || feeder->spec.ring != NULL)
        return rc;
    return device->ops->alloc_pinned(device, feeder->spec.layout->block_bytes, &feeder->block);
}

int feeder_start(struct feeder **feeder_out, const struct feeder_spec *spec)
{
    struct feeder *feeder = calloc(1, sizeof(*feeder));
    if (feeder == NULL)
        return -ENOMEM;
    feeder->spec = *spec;
    feeder->number = spec->ring == NULL ? spec->schedule->first : 0;
    int rc = feeder_prepare(feeder);
    if (!rc)
        rc = thread_start(&feeder->thread, spec->name, feeder_loop, feeder);
    if (rc) {
        feeder_close(feeder);
        return rc;
    }
    *feeder_out = feeder;
    return 0;
}

/* Read the counts of waits from the ring and the slots, where no other thread waits in the feeder's place. */
static void feeder_count(const struct feeder *feeder, struct feeder_counts *counts_out)
{
    struct slots_counts slots;
    struct ring_counts ring = { 0 };
    slots_count(feeder->spec.slots, &slots);
    if (feeder->spec.ring != NULL)
        ring_count(feeder->spec.ring, &ring);
    *counts_out = feeder->counts;
    counts_out->wait_batch_ns = ring.take_waited_ns;
    counts_out->wait_slot_ns = slots.empty_waited_ns;
}

void feeder_join(struct feeder *feeder, struct feeder_counts *counts_out)
{
    if (feeder == NULL)
        return;
    thread_join(feeder->thread);
    if (counts_out != NULL)
        feeder_count(feeder, counts_out);
    feeder_close(feeder);
}
