/* Tests of when things happen on a device that computes by itself: copies under computation,
 * the host ahead of the device, and no call in the steady state that waits or allocates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stage/clock.h"
#include "tests/cuda/cuda_calls.h"
#include "tests/cuda/timeline_stand.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/test_device_kind.h"

enum { STEPS = TIMELINE_STEPS_MAX, WARM_UP = 10, STAGING = 4, REPORTS = 8, ATTEMPTS = 5, SKIPPED = 77 };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define DEADLINE_NS 30000000000u

static bool is_counted;                 /* calls of CUDA are */

static const struct timeline_spec usual = { .steps = STEPS, .staging_depth = STAGING, .report_depth = REPORTS };

static void sleep_ns(uint64_t ns)
{
    nanosleep(&(struct timespec){ .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) }, NULL);
}

static void add_times(struct step_times *sum, const struct step_times *times)
{
    sum->input_wait += times->input_wait;
    sum->exposed_copy += times->exposed_copy;
    sum->total += times->total;
}

/* The reports of steps [first, end). */
static struct step_times take_reports(struct timeline *timeline, uint32_t first, uint32_t end)
{
    struct step_times sum = { .total = 0 };
    for (uint32_t number = first; number < end; number++) {
        const struct step_times times = timeline_next(timeline);
        add_times(&sum, &times);
    }
    return sum;
}

/* Where the device's time went. */

static uint64_t length_of(struct interval interval)
{
    return interval.end_ns - interval.begin_ns;
}

static uint64_t overlap_of(struct interval a, struct interval b)
{
    const uint64_t begin_ns = a.begin_ns > b.begin_ns ? a.begin_ns : b.begin_ns;
    const uint64_t end_ns = a.end_ns < b.end_ns ? a.end_ns : b.end_ns;
    return end_ns > begin_ns ? end_ns - begin_ns : 0;
}

/* The copies of batches from WARM_UP on: how long they took, and how much of it while the
 * compute stream was within a step. */
struct copies { uint64_t total_ns, covered_ns; };

static struct copies sum_copies(const struct timeline *timeline)
{
    struct copies copies = { 0, 0 };
    struct interval steps[STEPS];
    for (uint32_t s = 0; s < STEPS; s++)
        steps[s] = timeline_step(timeline, s);
    for (uint32_t c = WARM_UP; c < STEPS; c++) {
        const struct interval copy = timeline_copy(timeline, c);
        copies.total_ns += length_of(copy);
        for (uint32_t s = 0; s < STEPS; s++)
            copies.covered_ns += overlap_of(copy, steps[s]);
    }
    return copies;
}

/* The part of the time from WARM_UP on, in per cent, that the compute stream was between steps. */
static double idle_percent(const struct timeline *timeline)
{
    const struct interval first = timeline_step(timeline, WARM_UP), last = timeline_step(timeline, STEPS - 1);
    uint64_t busy_ns = 0;
    for (uint32_t s = WARM_UP; s < STEPS; s++)
        busy_ns += length_of(timeline_step(timeline, s));
    const double all_ns = (double)(last.end_ns - first.begin_ns);
    return 100 * (all_ns - (double)busy_ns) / all_ns;
}

/* Other work on the machine can spoil what a run measures; a fault spoils every run. */
static void assert_succeeds_once(bool (*run)(void))
{
    for (int i = 0; i < ATTEMPTS; i++)
        if (run())
            return;
    fail_msg("not once in %d runs", ATTEMPTS);
}

/* Feeds all steps; sums and copies are of those from WARM_UP on. */
static struct step_times run_whole(struct timeline *timeline, struct feeder_counts *counts_out)
{
    timeline_go(timeline);
    take_reports(timeline, 0, WARM_UP);
    const struct step_times sum = take_reports(timeline, WARM_UP, STEPS);
    *counts_out = timeline_end(timeline);
    return sum;
}

static bool copies_are_covered(uint32_t staging_depth)
{
    struct timeline_spec spec = usual;
    struct feeder_counts counts;
    spec.staging_depth = staging_depth;
    struct timeline *timeline = timeline_open(&spec);
    const struct step_times sum = run_whole(timeline, &counts);
    const struct copies copies = sum_copies(timeline);
    timeline_close(timeline);
    print_message("staging_depth %u: %.2f of %.2f ms of copies covered, %.3f exposed; steps %.2f ms\n", staging_depth,
                  copies.covered_ns / 1e6, copies.total_ns / 1e6, sum.exposed_copy / 1e6, sum.total / 1e6);
    assert_true(copies.total_ns > 0 && counts.copy_ns > copies.total_ns);
    /* With two slots a step is queued before its copy is done: an event's length of it shows
     * though nothing waits. */
    const double exposed_max = 0.01 * (staging_depth > 2 ? copies.total_ns : sum.total);
    return copies.covered_ns >= 0.99 * copies.total_ns && sum.exposed_copy < exposed_max;
}

static bool copies_are_covered_with_two_slots(void)
{
    return copies_are_covered(2);
}

static bool copies_are_covered_with_more_slots(void)
{
    return copies_are_covered(STAGING);
}

static void copies_run_while_the_device_computes(void **state)
{
    (void)state;
    assert_succeeds_once(copies_are_covered_with_two_slots);
    assert_succeeds_once(copies_are_covered_with_more_slots);
}

static uint64_t mean_step_ns(void)
{
    struct feeder_counts counts;
    struct timeline *timeline = timeline_open(&usual);
    const struct step_times sum = run_whole(timeline, &counts);
    timeline_close(timeline);
    return sum.total / (STEPS - WARM_UP);
}

/* The same numbers when they should be bad. */
static bool lateness_shows(void)
{
    struct timeline_spec late = usual;
    struct feeder_counts counts;
    late.late_ns = 4 * mean_step_ns();
    struct timeline *timeline = timeline_open(&late);
    const struct step_times sum = run_whole(timeline, &counts);
    const struct copies copies = sum_copies(timeline);
    const double idle = idle_percent(timeline);
    timeline_close(timeline);
    print_message("late: input_wait %.2f of %.2f ms, exposed_copy %.2f of %.2f ms, %.2f covered\n",
                  sum.input_wait / 1e6, sum.total / 1e6, sum.exposed_copy / 1e6, copies.total_ns / 1e6,
                  copies.covered_ns / 1e6);
    return sum.input_wait > 0.5 * sum.total && sum.exposed_copy > 0.01 * copies.total_ns &&
           copies.covered_ns < 0.5 * copies.total_ns && idle > 50;
}

static void late_batches_show_as_input_wait_and_exposed_copies(void **state)
{
    (void)state;
    assert_succeeds_once(lateness_shows);
}

/* The host ahead of the device. */

/* When a step is reported, as many as may be are queued after it, and the next is not done. */
static bool device_has_work_queued(void)
{
    const uint32_t ahead = test_device_ops()->steps_ahead;
    uint32_t looks = 0, early = 0;
    struct timeline *timeline = timeline_open(&usual);
    timeline_go(timeline);
    take_reports(timeline, 0, WARM_UP);
    for (uint32_t number = WARM_UP; number < STEPS; number++) {
        timeline_next(timeline);
        if (number + ahead >= STEPS)
            continue;
        assert_true(timeline_queued(timeline) > number + ahead);
        looks++;
        early += !timeline_is_done(timeline, number + 1);
    }
    timeline_end(timeline);
    const double idle = idle_percent(timeline);
    timeline_close(timeline);
    print_message("%u of %u times ahead, idle %.2f %%\n", early, looks, idle);
    return early >= 0.9 * looks && idle < 5;
}

static void steps_are_queued_while_the_device_computes(void **state)
{
    (void)state;
    assert_true(test_device_ops()->steps_ahead > 0);
    assert_succeeds_once(device_has_work_queued);
}

/* Main does not come until every report is in use; then there are steps left to compute. */
static bool device_goes_on(void)
{
    struct timeline *timeline = timeline_open(&usual);
    timeline_go(timeline);
    take_reports(timeline, 0, WARM_UP);
    for (uint32_t number = WARM_UP; number < STEPS; number += REPORTS) {
        const uint64_t begun_ns = clock_now_ns();
        const uint32_t target = number + REPORTS < STEPS ? number + REPORTS : STEPS;
        while (timeline_queued(timeline) < target) {
            assert_true(clock_now_ns() - begun_ns < DEADLINE_NS);
            sleep_ns(50000);
        }
        take_reports(timeline, number, target);
    }
    timeline_end(timeline);
    const double idle = idle_percent(timeline);
    timeline_close(timeline);
    print_message("idle %.2f %%\n", idle);
    return idle < 5;
}

static void a_slow_main_does_not_stop_the_device(void **state)
{
    (void)state;
    assert_succeeds_once(device_goes_on);
}

/* The same number when main is away for longer than there are reports. */
static void a_main_that_stays_away_stops_the_device(void **state)
{
    (void)state;
    struct timeline_spec spec = usual;
    spec.report_depth = test_device_ops()->steps_ahead + 1;
    struct timeline *timeline = timeline_open(&spec);
    timeline_go(timeline);
    const struct step_times sum = take_reports(timeline, 0, WARM_UP);
    for (uint32_t number = WARM_UP; number < STEPS; number++) {
        if (number % WARM_UP == 0)
            sleep_ns(2 * sum.total);
        assert_true(timeline_queued(timeline) <= number + spec.report_depth);
        timeline_next(timeline);
    }
    timeline_end(timeline);
    print_message("idle %.2f %%\n", idle_percent(timeline));
    assert_true(idle_percent(timeline) > 20);
    timeline_close(timeline);
}

/* When a step is done, all slots are published for later ones, the last before its copy can
 * begin. */
static bool slots_are_full(void)
{
    uint32_t looks = 0, full = 0;
    struct timeline *timeline = timeline_open(&usual);
    timeline_go(timeline);
    take_reports(timeline, 0, WARM_UP);
    for (uint32_t number = WARM_UP; number < STEPS; number++) {
        timeline_next(timeline);
        const uint64_t published = timeline_published(timeline);
        if (number + STAGING + 2 > STEPS)
            continue;
        looks++;
        full += published >= number + STAGING + 2;
    }
    timeline_end(timeline);
    timeline_close(timeline);
    print_message("%u of %u times full\n", full, looks);
    return full >= 0.9 * looks;
}

static void a_slow_device_does_not_stop_the_feeder(void **state)
{
    (void)state;
    assert_succeeds_once(slots_are_full);
}

/* Calls of CUDA. */

/* Of the runtime, and of the driver, which libraries may call themselves. */
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

/* What a step is made of. Not the questions whether it is done: they are as many as there is
 * time for. */
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

static void what_is_forbidden_is_counted(void **state)
{
    (void)state;
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
    take_reports(timeline, WARM_UP, STEPS);
    read_calls(forbidden, LENGTH(forbidden), after);
    timeline_end(timeline);
    assert_int_equal(cuda_calls(CUDA_PAGEABLE_COPY) - pageable_before, 0);
    timeline_close(timeline);
    for (size_t i = 0; i < LENGTH(forbidden); i++)
        if (after[i] != before[i])
            fail_msg("%s was called %llu times in %d steps", forbidden[i],
                     (unsigned long long)(after[i] - before[i]), STEPS - WARM_UP);
}

static void the_steady_state_neither_waits_in_cuda_nor_allocates(void **state)
{
    (void)state;
    skip_unless_counted();
    check_steady_state(GRAPH_ON);
    check_steady_state(GRAPH_OFF);
}

/* Of all threads, from the first step of a run to the last. */
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

/* Runs of 20, 30 and 40 steps: ten more steps make the same calls more each time. */
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

static void every_step_makes_the_same_calls(void **state)
{
    (void)state;
    skip_unless_counted();
    check_calls_per_step(GRAPH_ON);
    check_calls_per_step(GRAPH_OFF);
}

/* What cannot be tested is skipped; with PIPETRAIN_TEST_REQUIRED=1 that is a failure. */
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_run_while_the_device_computes),
        cmocka_unit_test(late_batches_show_as_input_wait_and_exposed_copies),
        cmocka_unit_test(steps_are_queued_while_the_device_computes),
        cmocka_unit_test(a_slow_main_does_not_stop_the_device),
        cmocka_unit_test(a_main_that_stays_away_stops_the_device),
        cmocka_unit_test(a_slow_device_does_not_stop_the_feeder),
        cmocka_unit_test(what_is_forbidden_is_counted),
        cmocka_unit_test(the_steady_state_neither_waits_in_cuda_nor_allocates),
        cmocka_unit_test(every_step_makes_the_same_calls),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
