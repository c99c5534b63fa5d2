/* Tests of the order of events: copies overlap computation, the host runs ahead of the device, and no call in the
 * steady state waits or allocates. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "tests/cuda/cuda_calls.h"
#include "tests/cuda/timeline_fixture.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"

enum { STEPS = TIMELINE_STEPS_MAX, WARM_UP = 10, STAGING = 4, REPORTS = 8, SKIPPED = 77 };

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
    return timeline_published(timeline) >= count;
}

static bool has_queued(const struct timeline *timeline, uint32_t count)
{
    return timeline_queued(timeline) >= count;
}

/* Wait for a condition; fails when it never becomes true. */
static void await(bool (*is_so)(const struct timeline *timeline, uint32_t number), const struct timeline *timeline,
                  uint32_t number)
{
    const uint64_t begun_ns = clock_now_ns();
    while (!is_so(timeline, number)) {
        assert_true(clock_now_ns() - begun_ns < DEADLINE_NS);
        timeline_sleep_ns(50000);
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
        timeline_release(timeline, number + 1);
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
        timeline_sleep_ns(late_ns);
        timeline_feed(timeline, number + 1);
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
        assert_int_equal(timeline_queued(timeline), queued);
        timeline_release(timeline, number + 1);
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
        timeline_sleep_ns(1000000);
        assert_int_equal(timeline_queued(timeline), end);
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
    "cudaSetDevice", "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize",
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
    const uint64_t fills_before = cuda_calls("cudaMemsetAsync");
    take_reports(timeline, WARM_UP, STEPS);
    read_calls(forbidden, LENGTH(forbidden), after);
    if (graph == GRAPH_ON)      /* only the steps themselves fill memory */
        assert_int_equal(cuda_calls("cudaMemsetAsync"), fills_before);
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
