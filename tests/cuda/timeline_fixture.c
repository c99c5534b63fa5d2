/* A pipeline with events around every copy and step: copies of the device's and the backend's tables record them on
 * the same streams around the real operations. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "stage/thread.h"
#include "sync/sync.h"
#include "tests/cuda/cuda_calls.h"
#include "tests/cuda/timeline_fixture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

enum { CLASSES = 10, PREFETCH = 4 };

/* The net: milliseconds per step and less per copy on a GPU; the speed of the simulation is set. */
struct load { struct shape image; uint32_t batch, filters[2], slow_us; };

static const struct load gpu_load = { { 3, 128, 128 }, 256, { 32, 64 }, 0 };
static const struct load simulated_load = { { 1, 8, 8 }, 4, { 3, 4 }, 500 };

struct watch { struct event *begin, *end; };

struct timeline {
    struct timeline_spec spec;
    const struct load *load;
    struct schedule schedule;
    struct batch_layout layout;
    struct device_ops device_ops;       /* watched */
    struct backend_ops backend_ops;     /* watched */
    struct device *device;
    struct stream *compute, *communication;
    struct stream *copy;                /* of the feeder */
    struct event *origin;
    struct watch copies[TIMELINE_STEPS_MAX], steps[TIMELINE_STEPS_MAX];
    atomic_uint copied;                 /* batches whose copy is queued */
    uint32_t begun;                     /* of the tower's thread */
    uint32_t held;                      /* steps held so far, used by the stream only */
    atomic_uint released, fed;          /* limits: steps that may end, batches that may be filled */
    atomic_uint queued;                 /* steps */
    struct net *net;
    struct stop *stop;
    struct gate *gate;
    struct reduce *reduce;
    struct ring *ring;
    struct slots *slots;
    void *blocks[PREFETCH];
    struct thread *source;
    struct feeder *feeder;
    struct trainer *trainer;
};

/* The only one: operations of the tables get the device's objects only. */
static struct timeline *watched;

/* ---- recording ---- */

static int watched_stream_open(struct device *device, enum stream_role role, const char *name,
                               struct stream **stream_out)
{
    const int rc = test_device_ops()->stream_open(device, role, name, stream_out);
    if (!rc && role == STREAM_COPY)
        watched->copy = *stream_out;
    return rc;
}

void timeline_sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) }, NULL);
}

static void await(const atomic_uint *counter, uint32_t number)
{
    while (atomic_load(counter) <= number)
        timeline_sleep_ns(50000);
}

/* Run by the compute stream. */
static void hold_step(void *arg)
{
    struct timeline *timeline = arg;
    await(&timeline->released, timeline->held++);
}

static int watched_copy(struct stream *stream, void *to, const void *from, size_t bytes,
                        enum copy_direction direction)
{
    const struct device_ops *ops = test_device_ops();
    if (stream != watched->copy)
        return ops->copy(stream, to, from, bytes, direction);
    const struct watch *watch = &watched->copies[atomic_load(&watched->copied)];
    int rc = ops->record(stream, watch->begin);
    if (!rc)
        rc = ops->copy(stream, to, from, bytes, direction);
    if (!rc)
        rc = ops->record(stream, watch->end);
    atomic_fetch_add(&watched->copied, 1);
    return rc;
}

static const struct backend_ops *backend_of_device(void)
{
    return backend_find(test_device_ops()->host_memory ? "reference" : "cuda");
}

static int watched_input(struct plan *plan, const struct backend_input *input)
{
    const int rc = stream_record(watched->compute, watched->steps[watched->begun++].begin);
    return rc ? rc : backend_of_device()->input(plan, input);
}

static int watched_result(struct plan *plan, struct backend_result *result_out)
{
    int rc = backend_of_device()->result(plan, result_out);
    if (!rc && watched->spec.holds_steps)
        rc = test_device_ops()->call(watched->compute, hold_step, watched);
    if (!rc)
        rc = stream_record(watched->compute, watched->steps[watched->begun - 1].end);
    atomic_store(&watched->queued, watched->begun);
    return rc;
}

static struct event *event_make(struct timeline *timeline)
{
    struct event *event;
    assert_int_equal(timeline->device->ops->event_open(timeline->device, EVENT_TIMED, &event), 0);
    return event;
}

static void watches_open(struct timeline *timeline)
{
    timeline->origin = event_make(timeline);
    for (uint32_t i = 0; i < TIMELINE_STEPS_MAX; i++) {
        timeline->copies[i] = (struct watch){ event_make(timeline), event_make(timeline) };
        timeline->steps[i] = (struct watch){ event_make(timeline), event_make(timeline) };
    }
    assert_int_equal(stream_record(timeline->compute, timeline->origin), 0);
    assert_int_equal(timeline->device->ops->event_wait(timeline->origin), 0);
}

static void watch_close(const struct device_ops *ops, const struct watch *watch)
{
    ops->event_close(watch->begin);
    ops->event_close(watch->end);
}

static void watches_close(struct timeline *timeline)
{
    const struct device_ops *ops = timeline->device->ops;
    for (uint32_t i = 0; i < TIMELINE_STEPS_MAX; i++) {
        watch_close(ops, &timeline->copies[i]);
        watch_close(ops, &timeline->steps[i]);
    }
    ops->event_close(timeline->origin);
}

/* ---- the source ---- */

/* A block is filled once; later contents do not matter. */
static void batch_fill(const struct timeline *timeline, struct batch *batch)
{
    const struct batch_layout *layout = &timeline->layout;
    for (size_t i = 0; i < layout->sample_bytes * layout->capacity; i++)
        batch->pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint32_t i = 0; i < layout->capacity; i++)
        batch->labels[i] = (int32_t)(i % CLASSES);
}

static int source_batch(const struct timeline *timeline, uint64_t number)
{
    struct batch_slice slice;
    struct batch *batch;
    int rc = schedule_find(&timeline->schedule, number, 0, &slice);
    if (rc)
        return rc;
    if (timeline->spec.holds_batches)
        await(&timeline->fed, (uint32_t)number);
    rc = ring_claim(timeline->ring, &slice, &batch);
    if (rc)
        return rc;
    if (number < PREFETCH)
        batch_fill(timeline, batch);
    for (uint32_t i = 0; i < slice.count; i++)
        batch->ids[i] = slice.first_position + i;
    ring_fill(timeline->ring, batch, slice.count);
    return 0;
}

static void source_loop(void *arg)
{
    for (uint64_t number = 0; source_batch(arg, number) == 0; number++)
        ;
}

/* ---- open, in the order of the pipeline ---- */

static void net_make(struct timeline *timeline)
{
    const struct load *load = timeline->load;
    assert_int_equal(net_open(&timeline->net, "timeline", load->image, CLASSES), 0);
    net_conv2d(timeline->net, "conv1", NET_INPUT, load->filters[0], window_square(3, 2, PADDING_VALID), true);
    net_relu(timeline->net, "relu1", 0);
    net_conv2d(timeline->net, "conv2", 1, load->filters[1], window_square(3, 1, PADDING_VALID), true);
    net_relu(timeline->net, "relu2", 2);
    net_dense(timeline->net, "fc", 3, CLASSES, true);
    net_softmax_loss(timeline->net, "loss", 4);
    assert_int_equal(net_finish(timeline->net), 0);
}

static void device_open(struct timeline *timeline)
{
    const struct device_ops *ops = test_device_ops();
    const struct device_spec spec = { .name = "device" };
    assert_int_equal(ops->open(&timeline->device, &spec), 0);
    timeline->device_ops = *ops;
    timeline->device_ops.stream_open = watched_stream_open;
    timeline->device_ops.copy = watched_copy;
    timeline->device->ops = ops = &timeline->device_ops;
    assert_int_equal(ops->stream_open(timeline->device, STREAM_COMPUTE, "compute", &timeline->compute), 0);
    assert_int_equal(ops->stream_open(timeline->device, STREAM_COMMUNICATION, "reduce", &timeline->communication), 0);
}

static void stages_open(struct timeline *timeline)
{
    struct device *device = timeline->device;
    for (uint32_t i = 0; i < PREFETCH; i++)
        assert_int_equal(device->ops->alloc_pinned(device, timeline->layout.block_bytes, &timeline->blocks[i]), 0);
    assert_int_equal(ring_open(&timeline->ring, PREFETCH, &timeline->layout, timeline->blocks), 0);
    ring_range(timeline->ring, 0, timeline->spec.steps);
    assert_int_equal(slots_open(&timeline->slots, device, timeline->spec.staging_depth, &timeline->layout), 0);
    assert_int_equal(stop_on_failure(timeline->stop, ring_cancel, timeline->ring), 0);
    assert_int_equal(stop_on_failure(timeline->stop, slots_cancel, timeline->slots), 0);
    assert_int_equal(stop_on_failure(timeline->stop, device_cancel, device), 0);
}

static void trainer_open(struct timeline *timeline)
{
    static const struct learning_rate rate = { .base = 1e-3 };
    const uint32_t batch = timeline->load->batch;
    timeline->backend_ops = *backend_of_device();
    timeline->backend_ops.input = watched_input;
    timeline->backend_ops.result = watched_result;
    const struct trainer_spec spec = {
        .name = "tower",
        .tower = { .net = timeline->net, .device = timeline->device, .compute = timeline->compute,
                   .backend = &timeline->backend_ops,
                   .backend_spec = { .threads = 1, .slice_max = batch, .graph = timeline->spec.graph },
                   .optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f }, .train_counts = { batch, 0 } },
        .sync = { .ops = sync_table[SYNC_REPLICATED], .schedule = &timeline->schedule, .reduce = timeline->reduce,
                  .communication = timeline->communication, .learning_rate = &rate, .bucket_bytes = SIZE_MAX },
        .gate = timeline->gate, .stop = timeline->stop,
        .report_depth = timeline->spec.report_depth, .slice_max = batch,
    };
    assert_int_equal(trainer_start(&timeline->trainer, &spec), 0);
    assert_int_equal(stop_on_failure(timeline->stop, trainer_cancel, timeline->trainer), 0);
    struct trainer_needs needs;
    trainer_plan(timeline->trainer);
    assert_int_equal(trainer_planned(timeline->trainer, &needs), 0);
    trainer_allocate(timeline->trainer, timeline->slots);
    assert_int_equal(trainer_ready(timeline->trainer), 0);
}

struct timeline *timeline_open(const struct timeline_spec *spec)
{
    const struct reduce_spec alone = { .towers = 1 };
    struct timeline *timeline = calloc(1, sizeof(*timeline));
    assert_non_null(timeline);
    assert_in_range(spec->steps, 1, TIMELINE_STEPS_MAX);
    watched = timeline;
    timeline->spec = *spec;
    timeline->load = cuda_is_simulated() ? &simulated_load : &gpu_load;
    const struct shape image = timeline->load->image;
    timeline->schedule = (struct schedule){ .records = { (uint64_t)spec->steps * timeline->load->batch },
                                            .batch = timeline->load->batch, .towers = 1, .epochs = 1 };
    assert_int_equal(batch_layout_init(&timeline->layout, image.height, image.width, image.channels,
                                       timeline->load->batch), 0);
    assert_int_equal(stop_open(&timeline->stop), 0);
    assert_int_equal(gate_open(&timeline->gate), 0);
    assert_int_equal(reduce_find("none")->open(&timeline->reduce, &alone), 0);
    net_make(timeline);
    device_open(timeline);
    stages_open(timeline);
    trainer_open(timeline);
    watches_open(timeline);
    cuda_slow_us(timeline->load->slow_us);
    return timeline;
}

void timeline_go(struct timeline *timeline)
{
    const struct feeder_spec spec = {
        .name = "feeder", .device = timeline->device, .ring = timeline->ring, .slots = timeline->slots,
        .stop = timeline->stop, .schedule = &timeline->schedule, .classes = CLASSES, .layout = &timeline->layout,
    };
    assert_int_equal(feeder_start(&timeline->feeder, &spec), 0);
    assert_int_equal(thread_start(&timeline->source, "source", source_loop, timeline), 0);
    trainer_go(timeline->trainer);
}

struct step_times timeline_next(struct timeline *timeline)
{
    struct step_report *report;
    assert_int_equal(trainer_report(timeline->trainer, &report), 0);
    assert_int_equal(report->result.counted, timeline->load->batch);
    const struct step_times times = report->times;
    trainer_give_back(timeline->trainer, report);
    return times;
}

struct feeder_counts timeline_end(struct timeline *timeline)
{
    struct step_report *report;
    struct feeder_counts counts;
    assert_int_equal(trainer_report(timeline->trainer, &report), -ENODATA);
    assert_false(stop_failed(timeline->stop));
    thread_join(timeline->source);
    feeder_join(timeline->feeder, &counts);
    timeline->source = NULL;
    timeline->feeder = NULL;
    assert_int_equal(counts.batches, timeline->spec.steps);
    return counts;
}

/* In the order of pipeline_close. */
void timeline_close(struct timeline *timeline)
{
    const struct device_ops *ops = timeline->device->ops;
    cuda_slow_us(0);
    ring_cancel(timeline->ring);
    slots_end(timeline->slots);
    thread_join(timeline->source);
    feeder_join(timeline->feeder, NULL);
    trainer_cancel(timeline->trainer);
    trainer_settle(timeline->trainer);
    ops->stream_close(timeline->communication);
    trainer_join(timeline->trainer);
    stop_forget(timeline->stop);
    timeline->reduce->ops->close(timeline->reduce);
    slots_close(timeline->slots);
    ring_close(timeline->ring);
    for (uint32_t i = 0; i < PREFETCH; i++)
        ops->free_pinned(timeline->device, timeline->blocks[i]);
    watches_close(timeline);
    ops->stream_close(timeline->compute);
    ops->close(timeline->device);
    gate_close(timeline->gate);
    stop_close(timeline->stop);
    net_close(timeline->net);
    free(timeline);
    watched = NULL;
}

/* ---- holding ---- */

void timeline_release(struct timeline *timeline, uint32_t end)
{
    atomic_store(&timeline->released, end);
}

void timeline_feed(struct timeline *timeline, uint32_t end)
{
    atomic_store(&timeline->fed, end);
}

/* ---- results ---- */

uint32_t timeline_queued(const struct timeline *timeline)
{
    return atomic_load(&timeline->queued);
}

uint64_t timeline_published(const struct timeline *timeline)
{
    struct slots_counts counts;
    slots_count(timeline->slots, &counts);
    return counts.published;
}

bool timeline_is_done(const struct timeline *timeline, uint32_t number)
{
    return timeline->device->ops->event_passed(timeline->steps[number].end);
}

bool timeline_is_copied(const struct timeline *timeline, uint32_t number)
{
    return atomic_load(&timeline->copied) > number &&
           timeline->device->ops->event_passed(timeline->copies[number].end);
}

static struct interval interval_of(const struct timeline *timeline, const struct watch *watch)
{
    const struct device_ops *ops = timeline->device->ops;
    struct interval interval;
    assert_int_equal(ops->event_elapsed(timeline->origin, watch->begin, &interval.begin_ns), 0);
    assert_int_equal(ops->event_elapsed(timeline->origin, watch->end, &interval.end_ns), 0);
    return interval;
}

struct interval timeline_copy(const struct timeline *timeline, uint32_t number)
{
    return interval_of(timeline, &timeline->copies[number]);
}

struct interval timeline_step(const struct timeline *timeline, uint32_t number)
{
    return interval_of(timeline, &timeline->steps[number]);
}
