/* Tests of the order of events: copies overlap computation, the host runs ahead of the device, and no call in the
 * steady state waits or allocates.
 *
 * A timeline is one tower's pipeline (ring, feeder, slots, trainer) and a batch source. Its device computes longer than
 * it copies. Copies of the device's and the backend's tables record timed events around every copy and step, on the
 * same streams as the real operations. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/feeder.h"
#include "stage/thread.h"
#include "sync/sync.h"
#include "sync/trainer.h"
#include "tests/cuda/cuda_calls.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

enum { STEPS = 40, CLASSES = 10, PREFETCH = 4 };

struct timeline_spec {
    uint32_t steps;             /* up to STEPS, each of one full batch */
    uint32_t staging_depth, report_depth;
    enum graph_use graph;
    bool holds_steps;           /* the device stays in every finished step until it is `released` */
    bool holds_batches;         /* the source keeps every batch until it is `fed` */
};

/* Device time, counted from some point before the first step. */
struct interval { uint64_t begin_ns, end_ns; };

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
    struct watch copies[STEPS], steps[STEPS];
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

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) }, NULL);
}

static void await_number(const atomic_uint *counter, uint32_t number)
{
    while (atomic_load(counter) <= number)
        sleep_ns(50000);
}

/* Run by the compute stream. */
static void hold_step(void *arg)
{
    struct timeline *timeline = arg;
    await_number(&timeline->released, timeline->held++);
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
    for (uint32_t i = 0; i < STEPS; i++) {
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
    for (uint32_t i = 0; i < STEPS; i++) {
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
    for (size_t i = 0; i < layout->of[PHASE_TRAIN].sample_bytes * layout->capacity; i++)
        batch->pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    for (uint32_t i = 0; i < layout->capacity; i++)
        batch->labels[i] = (int32_t)(i % CLASSES);
}

static int source_batch(const struct timeline *timeline, uint64_t number)
{
    struct local_batch local;
    struct batch *batch;
    int rc = schedule_find(&timeline->schedule, number, 0, &local);
    if (rc)
        return rc;
    if (timeline->spec.holds_batches)
        await_number(&timeline->fed, (uint32_t)number);
    rc = ring_claim(timeline->ring, &local, &batch);
    if (rc)
        return rc;
    if (number < PREFETCH)
        batch_fill(timeline, batch);
    for (uint32_t i = 0; i < local.count; i++)
        batch->ids[i] = local.first_position + i;
    ring_fill(timeline->ring, batch, local.count);
    return 0;
}

static void source_loop(void *arg)
{
    for (uint64_t number = 0; source_batch(arg, number) == 0; number++)
        ;
}

/* ---- open, in the order of the pipeline ---- */

static struct net *net_make(const struct load *load)
{
    struct net *const net = network_net_begin("timeline", load->image, CLASSES);
    net_conv2d(net, "conv1", NET_INPUT, load->filters[0], window_square(3, 2, PADDING_VALID), true);
    net_relu(net, "relu1", 0);
    net_conv2d(net, "conv2", 1, load->filters[1], window_square(3, 1, PADDING_VALID), true);
    net_relu(net, "relu2", 2);
    return network_net_end(net, 3);
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
                   .backend_spec = { .threads = 1, .local_max = batch, .graph = timeline->spec.graph },
                   .optimizer = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f }, .train_counts = { batch, 0 } },
        .sync = { .ops = sync_table[SYNC_REPLICATED], .schedule = &timeline->schedule, .reduce = timeline->reduce,
                  .communication = timeline->communication, .learning_rate = &rate, .bucket_bytes = SIZE_MAX },
        .gate = timeline->gate, .stop = timeline->stop,
        .report_depth = timeline->spec.report_depth, .local_max = batch,
    };
    assert_int_equal(trainer_start(&timeline->trainer, &spec), 0);
    assert_int_equal(stop_on_failure(timeline->stop, trainer_cancel, timeline->trainer), 0);
    struct trainer_needs needs;
    trainer_plan(timeline->trainer);
    assert_int_equal(trainer_planned(timeline->trainer, &needs), 0);
    trainer_allocate(timeline->trainer, timeline->slots);
    assert_int_equal(trainer_ready(timeline->trainer), 0);
}

/* Open and planned, not running. One timeline at a time. */
static struct timeline *timeline_open(const struct timeline_spec *spec)
{
    const struct reduce_spec alone = { .towers = 1 };
    struct timeline *timeline = calloc(1, sizeof(*timeline));
    assert_non_null(timeline);
    assert_in_range(spec->steps, 1, STEPS);
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
    timeline->net = net_make(timeline->load);
    device_open(timeline);
    stages_open(timeline);
    trainer_open(timeline);
    watches_open(timeline);
    cuda_slow_us(timeline->load->slow_us);
    return timeline;
}

static void timeline_go(struct timeline *timeline)
{
    const struct feeder_spec spec = {
        .name = "feeder", .device = timeline->device, .ring = timeline->ring, .slots = timeline->slots,
        .stop = timeline->stop, .schedule = &timeline->schedule, .classes = CLASSES, .layout = &timeline->layout,
    };
    assert_int_equal(feeder_start(&timeline->feeder, &spec), 0);
    assert_int_equal(thread_start(&timeline->source, "source", source_loop, timeline), 0);
    trainer_go(timeline->trainer);
}

/* Take the next step's report and give it back. */
static struct step_times timeline_next(struct timeline *timeline)
{
    struct step_report *report;
    assert_int_equal(trainer_report(timeline->trainer, &report), 0);
    assert_int_equal(report->result.counted, timeline->load->batch);
    const struct step_times times = report->times;
    trainer_give_back(timeline->trainer, report);
    return times;
}

/* After the last report: waits for the feeder and the device. */
static struct feeder_counts timeline_end(struct timeline *timeline)
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
static void timeline_close(struct timeline *timeline)
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

/* ---- results ---- */

/* Has the device finished step, or copy, `number`? At any time. */
static bool timeline_is_done(const struct timeline *timeline, uint32_t number)
{
    return timeline->device->ops->event_passed(timeline->steps[number].end);
}

static bool timeline_is_copied(const struct timeline *timeline, uint32_t number)
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

/* After timeline_end: the times of the copy of batch `number`, and of step `number` from the first read of the batch
 * to its result, without the stream's waits before. */
static struct interval timeline_copy(const struct timeline *timeline, uint32_t number)
{
    return interval_of(timeline, &timeline->copies[number]);
}

static struct interval timeline_step(const struct timeline *timeline, uint32_t number)
{
    return interval_of(timeline, &timeline->steps[number]);
}

/* ---- tests ---- */

enum { WARM_UP = 10, STAGING = 4, REPORTS = 8, SKIPPED = 77 };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define DEADLINE_NS UINT64_C(120000000000)

static bool is_counted;                 /* calls of CUDA are counted */

/* Of tests/sim/sim.h, in programs linked with the simulation. */
extern void sim_delay_us(uint32_t us) __attribute__((weak));

static const struct timeline_spec usual = { .steps = STEPS, .staging_depth = STAGING, .report_depth = REPORTS };

/* Reports of the steps [first, end). */
static struct step_times take_reports(struct timeline *timeline, uint32_t first, uint32_t end)
{
    struct step_times sum = { .total = 0 };
    for (uint32_t number = first; number < end; number++) {
        const struct step_times times = timeline_next(timeline);
        sum.input_wait += times.input_wait;
        sum.exposed_copy += times.exposed_copy;
        sum.total += times.total;
    }
    return sum;
}

/* ---- overlap ---- */

static uint64_t length_of(struct interval interval)
{
    return interval.end_ns - interval.begin_ns;
}

/* Other work on the machine changes times, so these tests hold the device in a step or its source before a batch, or
 * pause, and check what happens meanwhile. */

static bool has_published(const struct timeline *timeline, uint32_t count)
{
    struct slots_counts counts;
    slots_count(timeline->slots, &counts);
    return counts.published >= count;
}

static bool has_queued(const struct timeline *timeline, uint32_t count)
{
    return atomic_load(&timeline->queued) >= count;
}

/* Wait for a condition; fails when it never becomes true. */
static void await(bool (*is_so)(const struct timeline *timeline, uint32_t number), const struct timeline *timeline,
                  uint32_t number)
{
    const uint64_t begun_ns = clock_now_ns();
    while (!is_so(timeline, number)) {
        assert_true(clock_now_ns() - begun_ns < DEADLINE_NS);
        sleep_ns(50000);
    }
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* While step `number` is held, all slots get their batches. */
static void assert_slots_fill_beside_step(const struct timeline *timeline, uint32_t number, uint32_t depth)
{
    const uint32_t last = smaller(number + depth, STEPS - 1);
    await(has_published, timeline, last + 1);
    for (uint32_t next = number + 1; next <= last; next++)
        await(timeline_is_copied, timeline, next);
    assert_false(timeline_is_done(timeline, number));
}

static void check_copies_beside_steps(uint32_t depth)
{
    struct timeline_spec spec = usual;
    spec.staging_depth = depth;
    spec.holds_steps = true;
    struct timeline *timeline = timeline_open(&spec);
    timeline_go(timeline);
    for (uint32_t number = 0; number < STEPS; number++) {
        assert_slots_fill_beside_step(timeline, number, depth);
        atomic_store(&timeline->released, number + 1);
        timeline_next(timeline);
    }
    timeline_end(timeline);
    for (uint32_t number = 1; number < STEPS; number++) {
        const struct interval copy = timeline_copy(timeline, number);
        assert_true(length_of(copy) > 0);
        assert_true(copy.end_ns <= timeline_step(timeline, number - 1).end_ns);
    }
    timeline_close(timeline);
}

TEST(copies_overlap_computation)
{
    check_copies_beside_steps(2);
    check_copies_beside_steps(STAGING);
}

/* The opposite: every batch comes when the device is idle. */
TEST(late_batches_count_as_input_wait_and_exposed_copies)
{
    const uint64_t late_ns = 20000000;
    struct timeline_spec late = usual;
    late.holds_batches = true;
    late.report_depth = STEPS;
    struct timeline *timeline = timeline_open(&late);
    timeline_go(timeline);
    for (uint32_t number = 0; number < STEPS; number++) {
        sleep_ns(late_ns);
        atomic_store(&timeline->fed, number + 1);
        await(has_queued, timeline, number + 1);
        await(timeline_is_done, timeline, number);
    }
    const struct step_times sum = take_reports(timeline, 0, STEPS);
    timeline_end(timeline);
    for (uint32_t number = 1; number < STEPS; number++) {
        const struct interval copy = timeline_copy(timeline, number);
        assert_true(copy.begin_ns >= timeline_step(timeline, number - 1).end_ns);
        assert_true(copy.end_ns <= timeline_step(timeline, number).begin_ns);       /* read at its arrival */
    }
    timeline_close(timeline);
    print_message("late: input_wait %.2f of %.2f ms, exposed_copy %.3f ms\n", sum.input_wait / 1e6, sum.total / 1e6,
                  sum.exposed_copy / 1e6);
    assert_true(sum.input_wait > late_ns / 2 * STEPS);
    /* The simulation copies some kilobytes before the waiting thread wakes up. */
    assert_true(sum.exposed_copy > 0 || sim_delay_us != NULL);
}

/* ---- the host ahead of the device ---- */

/* While a step is held, exactly the allowed number of steps is queued behind it. */
TEST(steps_are_queued_while_the_device_computes)
{
    const uint32_t ahead = test_device_ops()->steps_ahead;
    struct timeline_spec spec = usual;
    spec.holds_steps = true;
    struct timeline *timeline = timeline_open(&spec);
    assert_true(ahead > 0);
    timeline_go(timeline);
    for (uint32_t number = 0; number < STEPS; number++) {
        const uint32_t queued = smaller(number + ahead + 1, STEPS);
        await(has_queued, timeline, queued);
        assert_false(timeline_is_done(timeline, number));
        assert_int_equal(atomic_load(&timeline->queued), queued);
        atomic_store(&timeline->released, number + 1);
        timeline_next(timeline);
    }
    timeline_end(timeline);
    timeline_close(timeline);
}

/* Main takes no report: the device does as many steps as there are reports. */
TEST(a_slow_main_does_not_stop_the_device)
{
    struct timeline *timeline = timeline_open(&usual);
    timeline_go(timeline);
    for (uint32_t number = 0; number < STEPS; number += REPORTS) {
        const uint32_t end = smaller(number + REPORTS, STEPS);
        await(has_queued, timeline, end);
        await(timeline_is_done, timeline, end - 1);
        take_reports(timeline, number, end);
    }
    timeline_end(timeline);
    timeline_close(timeline);
}

/* And no more. */
TEST(a_main_that_takes_no_reports_stops_the_device)
{
    struct timeline_spec spec = usual;
    spec.report_depth = test_device_ops()->steps_ahead + 1;
    struct timeline *timeline = timeline_open(&spec);
    timeline_go(timeline);
    for (uint32_t number = 0; number < STEPS; number++) {
        const uint32_t end = smaller(number + spec.report_depth, STEPS);
        await(has_queued, timeline, end);
        await(timeline_is_done, timeline, end - 1);
        sleep_ns(1000000);
        assert_int_equal(atomic_load(&timeline->queued), end);
        timeline_next(timeline);
    }
    timeline_end(timeline);
    timeline_close(timeline);
}

/* ---- calls of CUDA ---- */

/* Of the runtime, and of the driver for libraries that call it. */
static const char *const forbidden[] = {
    "cudaMalloc", "cudaMallocHost", "cudaMallocManaged", "cudaMallocAsync", "cudaFree", "cudaFreeAsync",
    "cudaHostAlloc", "cudaFreeHost", "cudaHostRegister", "cudaHostUnregister",
    "cudaMemcpy", "cudaMemset", "cudaMemGetInfo",
    "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
    "cudaEventCreate", "cudaEventCreateWithFlags", "cudaEventDestroy",
    "cudaStreamCreate", "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority", "cudaStreamDestroy",
    "cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags",
    "cudaGraphUpload", "cudaGraphDestroy", "cudaGraphExecDestroy", "cudaGraphExecUpdate",
    "cuMemAlloc", "cuMemAllocPitch", "cuMemAllocHost", "cuMemAllocManaged", "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync", "cuMemCreate", "cuMemMap", "cuMemHostAlloc", "cuMemHostRegister", "cuMemFree",
    "cuMemFreeHost", "cuMemFreeAsync",
    "cuMemcpy", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemsetD8", "cuMemsetD16", "cuMemsetD32",
    "cuCtxSynchronize", "cuStreamSynchronize", "cuEventSynchronize", "cuEventCreate", "cuStreamCreate",
    "cuStreamCreateWithPriority", "cuStreamBeginCapture", "cuGraphInstantiate", "cuGraphInstantiateWithFlags",
    "cuGraphInstantiateWithParams",
    "cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuLibraryLoadData",
    "cuLibraryLoadFromFile",
};

/* The calls of a step, without polls, whose number depends on the time. */
static const char *const allowed[] = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemsetAsync",
    "cudaEventRecord", "cudaStreamWaitEvent", "cudaEventElapsedTime", "cudaLaunchHostFunc",
    "cuLaunchKernel", "cuLaunchKernelEx", "cuGraphLaunch", "cuEventRecord", "cuStreamWaitEvent",
};

static void read_calls(const char *const *functions, size_t count, uint64_t *calls)
{
    for (size_t i = 0; i < count; i++)
        calls[i] = cuda_calls(functions[i]);
}

static void skip_unless_counted(void)
{
    if (!is_counted)
        skip();
}

TEST(forbidden_calls_are_counted)
{
    skip_unless_counted();
    enum { BYTES = 1000 };
    static char pageable[BYTES];
    uint64_t before[LENGTH(forbidden)], after[LENGTH(forbidden)];
    struct stream *compute;
    read_calls(forbidden, LENGTH(forbidden), before);
    const uint64_t pageable_before = cuda_calls(CUDA_PAGEABLE_COPY);
    struct device *device = device_memory_open(backend_find("cuda"), &compute);
    void *memory, *pinned;
    assert_int_equal(device->ops->alloc(device, BYTES, &memory), 0);
    assert_int_equal(device->ops->alloc_pinned(device, BYTES, &pinned), 0);
    assert_int_equal(device->ops->copy(compute, memory, pinned, BYTES, COPY_TO_DEVICE), 0);
    device_memory_wait(compute);
    assert_int_equal(cuda_calls(CUDA_PAGEABLE_COPY) - pageable_before, 0);
    assert_int_equal(device->ops->copy(compute, memory, pageable, BYTES, COPY_TO_DEVICE), 0);
    device_memory_wait(compute);
    assert_int_equal(cuda_calls(CUDA_PAGEABLE_COPY) - pageable_before, 1);
    device->ops->free_pinned(device, pinned);
    device->ops->free(device, memory);
    device_memory_close(device, compute);
    read_calls(forbidden, LENGTH(forbidden), after);
    static const char *const made[] = { "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost",
                                        "cudaStreamCreateWithPriority", "cudaStreamSynchronize" };
    for (size_t m = 0; m < LENGTH(made); m++)
        for (size_t i = 0; i < LENGTH(forbidden); i++)
            if (strcmp(made[m], forbidden[i]) == 0)
                assert_true(after[i] > before[i]);
}

static void check_steady_state(enum graph_use graph)
{
    uint64_t before[LENGTH(forbidden)], after[LENGTH(forbidden)];
    struct timeline_spec spec = usual;
    spec.graph = graph;
    struct timeline *timeline = timeline_open(&spec);
    const uint64_t pageable_before = cuda_calls(CUDA_PAGEABLE_COPY);
    timeline_go(timeline);
    take_reports(timeline, 0, WARM_UP);
    read_calls(forbidden, LENGTH(forbidden), before);
    const uint64_t entered = cuda_calls("cudaSetDevice"), filled = cuda_calls("cudaMemsetAsync");
    take_reports(timeline, WARM_UP, STEPS);
    read_calls(forbidden, LENGTH(forbidden), after);
    if (cuda_is_simulated())    /* on a GPU libraries may make these calls */
        assert_int_equal(cuda_calls("cudaSetDevice"), entered);
    if (cuda_is_simulated() && graph == GRAPH_ON)
        assert_int_equal(cuda_calls("cudaMemsetAsync"), filled);
    timeline_end(timeline);
    assert_int_equal(cuda_calls(CUDA_PAGEABLE_COPY) - pageable_before, 0);
    timeline_close(timeline);
    for (size_t i = 0; i < LENGTH(forbidden); i++)
        if (after[i] != before[i])
            fail_msg("%s was called %llu times in %d steps", forbidden[i],
                     (unsigned long long)(after[i] - before[i]), STEPS - WARM_UP);
}

TEST(the_steady_state_neither_waits_in_cuda_nor_allocates)
{
    skip_unless_counted();
    check_steady_state(GRAPH_ON);
    check_steady_state(GRAPH_OFF);
}

/* Calls of all threads during a run. */
static void calls_of_run(uint32_t steps, enum graph_use graph, uint64_t calls[LENGTH(allowed)])
{
    uint64_t before[LENGTH(allowed)];
    struct timeline_spec spec = usual;
    spec.steps = steps;
    spec.graph = graph;
    struct timeline *timeline = timeline_open(&spec);
    read_calls(allowed, LENGTH(allowed), before);
    timeline_go(timeline);
    take_reports(timeline, 0, steps);
    timeline_end(timeline);
    read_calls(allowed, LENGTH(allowed), calls);
    timeline_close(timeline);
    for (size_t i = 0; i < LENGTH(allowed); i++)
        calls[i] -= before[i];
}

/* Runs of 20, 30 and 40 steps: each ten steps more add the same calls. */
static void check_calls_per_step(enum graph_use graph)
{
    uint64_t few[LENGTH(allowed)], more[LENGTH(allowed)], most[LENGTH(allowed)];
    uint64_t records = 0;
    calls_of_run(STEPS - 20, graph, few);
    calls_of_run(STEPS - 10, graph, more);
    calls_of_run(STEPS, graph, most);
    for (size_t i = 0; i < LENGTH(allowed); i++) {
        if (most[i] - more[i] != more[i] - few[i] || (more[i] - few[i]) % 10 != 0)
            fail_msg("%s is called %llu, %llu, %llu times in runs of 20, 30, 40 steps", allowed[i],
                     (unsigned long long)few[i], (unsigned long long)more[i], (unsigned long long)most[i]);
        if (strcmp(allowed[i], "cudaEventRecord") == 0)
            records = more[i] - few[i];
    }
    assert_true(records > 0);
}

TEST(every_step_makes_the_same_calls)
{
    skip_unless_counted();
    check_calls_per_step(GRAPH_ON);
    check_calls_per_step(GRAPH_OFF);
}

/* A skipped test is a failure with PIPETRAIN_TEST_REQUIRED=1. */
static int explain_skip(const char *why)
{
    const char *required = getenv("PIPETRAIN_TEST_REQUIRED");
    const bool is_required = required != NULL && strcmp(required, "1") == 0;
    fprintf(stderr, "%s: %s\n", is_required ? "FAILED" : "SKIPPED", why);
    return is_required ? 1 : SKIPPED;
}

int main(void)
{
    char why[256];
    alarm(300);
    if (test_device_is_inline())
        return explain_skip("this device computes in the thread that queues, so nothing can overlap");
    is_counted = cuda_calls_open(why, sizeof(why));
    if (!is_counted && explain_skip(why) != SKIPPED)
        return 1;
    return tests_run(NULL, NULL);
}
