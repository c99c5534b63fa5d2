/* Tests of the CUDA device where things go wrong, which only the simulated CUDA can do on
 * demand: no driver, calls that fail, streams that stand still; and of what its steady
 * state calls. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/cpus.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/feeder.h"
#include "stage/thread.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_long.h"
#include "tests/sim/sim.h"

enum { BYTES = 1000, TEXT = 2048 };

static const struct device_ops *const ops = &device_cuda_ops;

/* Why there is no device. */

static void check_reason(cudaError_t status, const char *expected)
{
    struct capture capture;
    char why[256], captured[TEXT];
    capture_begin(&capture);
    sim_fail("cudaGetDeviceCount", 1, (int)status);
    const uint32_t count = ops->count(why, sizeof(why));
    capture_end(&capture, captured, sizeof(captured));
    assert_int_equal(count, 0);
    assert_string_equal(why, expected);
    assert_string_equal(captured, "");
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static int no_failures_left(void **state)
{
    (void)state;
    sim_fail_clear();
    sim_delay_us(0);
    return 0;
}

TEST_WITH(says_why_there_is_no_device_and_prints_nothing, NULL, no_failures_left)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    sim_fail("cudaDriverGetVersion", 1, cudaErrorInsufficientDriver);
    check_reason(cudaErrorInsufficientDriver, "no CUDA driver is installed");
    check_reason(cudaErrorInsufficientDriver, "the driver is for CUDA up to 13.0, this program needs CUDA 13.0");
    check_reason(cudaErrorNoDevice, "the CUDA driver finds no device");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    check_reason(cudaErrorNoDevice, "the CUDA driver finds no device with CUDA_VISIBLE_DEVICES=\"\"");
    setenv("CUDA_VISIBLE_DEVICES", "7\n", 1);
    check_reason(cudaErrorNoDevice, "the CUDA driver finds no device with CUDA_VISIBLE_DEVICES=\"7\\x0a\"");
    unsetenv("CUDA_VISIBLE_DEVICES");
    check_reason(cudaErrorSystemNotReady, "system not yet initialized (cudaErrorSystemNotReady)");
    char why[8] = "unknown";
    assert_int_equal(ops->count(why, sizeof(why)), 2);
    assert_string_equal(why, "");
}

TEST(device_files_and_the_environment_say_how_many_there_can_be)
{
    char folder[] = "/tmp/pipetrain-devices.XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(cuda_count_at_most(folder), UINT32_MAX);
    assert_int_equal(cuda_count_at_most("/no such folder"), UINT32_MAX);
    static const char *const names[] = { "nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm", "null" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    }
    assert_int_equal(cuda_count_at_most(folder), 3);
    static const struct { const char *visible; uint32_t most; } rows[] = {
        { "1", 1 }, { "0,2", 2 }, { "0,1,2", 3 }, { "0,1,2,3", 3 }, { "GPU-8932f937", 1 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setenv("CUDA_VISIBLE_DEVICES", rows[i].visible, 1);
        assert_int_equal(cuda_count_at_most(folder), rows[i].most);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

TEST(asks_which_devices_reach_each_other)
{
    assert_true(ops->reaches(0, 0));
    assert_true(ops->reaches(0, 1));
    sim_set_peer_access(false);
    assert_true(ops->reaches(1, 1));
    assert_false(ops->reaches(0, 1));
    sim_set_peer_access(true);
}

/* Calls that fail. */

struct bench {
    struct device *device;
    struct stream *stream;
    struct event *event, *other;
    void *memory, *pinned;
};

static struct device *device_make(uint32_t index)
{
    struct device *device = NULL;
    assert_int_equal(ops->open(&device, &(struct device_spec){ .index = index, .name = "tower" }), 0);
    return device;
}

static void bench_open(struct bench *bench, uint32_t index)
{
    bench->device = device_make(index);
    assert_int_equal(ops->stream_open(bench->device, STREAM_COPY, "copy0", &bench->stream), 0);
    assert_int_equal(ops->event_open(bench->device, EVENT_TIMED, &bench->event), 0);
    assert_int_equal(ops->event_open(bench->device, EVENT_TIMED, &bench->other), 0);
    assert_int_equal(ops->alloc(bench->device, BYTES, &bench->memory), 0);
    assert_int_equal(ops->alloc_pinned(bench->device, BYTES, &bench->pinned), 0);
    assert_int_equal(ops->record(bench->stream, bench->event), 0);
    assert_int_equal(ops->record(bench->stream, bench->other), 0);
    assert_int_equal(ops->event_wait(bench->other), 0);
}

static void bench_close(struct bench *bench)
{
    ops->stream_close(bench->stream);
    ops->event_close(bench->other);
    ops->event_close(bench->event);
    ops->free(bench->device, bench->memory);
    ops->free_pinned(bench->device, bench->pinned);
    ops->close(bench->device);
}

static void nothing(void *arg)
{
    (void)arg;
}

static int try_open(struct bench *bench)
{
    struct device *device = bench->device;
    const int rc = ops->open(&device, &(struct device_spec){ .index = 0, .name = "tower" });
    if (!rc)
        ops->close(device);
    else
        assert_ptr_equal(device, bench->device);
    return rc;
}

static int try_alloc(struct bench *bench)
{
    void *memory = bench;
    const int rc = ops->alloc(bench->device, BYTES, &memory);
    if (!rc)
        ops->free(bench->device, memory);
    else
        assert_ptr_equal(memory, bench);
    return rc;
}

static int try_alloc_pinned(struct bench *bench)
{
    void *memory = bench;
    const int rc = ops->alloc_pinned(bench->device, BYTES, &memory);
    if (!rc)
        ops->free_pinned(bench->device, memory);
    else
        assert_ptr_equal(memory, bench);
    return rc;
}

static int try_memory(struct bench *bench)
{
    size_t free_bytes = 1, total_bytes = 2;
    const int rc = ops->memory(bench->device, &free_bytes, &total_bytes);
    assert_true(!rc || (free_bytes == 1 && total_bytes == 2));
    return rc;
}

static int try_stream_open(struct bench *bench)
{
    struct stream *stream = bench->stream;
    const int rc = ops->stream_open(bench->device, STREAM_COMMUNICATION, "comm0", &stream);
    if (!rc)
        ops->stream_close(stream);
    else
        assert_ptr_equal(stream, bench->stream);
    return rc;
}

static int try_event_open(struct bench *bench)
{
    struct event *event = bench->event;
    const int rc = ops->event_open(bench->device, EVENT_ORDER, &event);
    if (!rc)
        ops->event_close(event);
    else
        assert_ptr_equal(event, bench->event);
    return rc;
}

static int try_record(struct bench *bench)
{
    return ops->record(bench->stream, bench->other);
}

static int try_stream_wait(struct bench *bench)
{
    return ops->stream_wait(bench->stream, bench->event);
}

static int try_copy(struct bench *bench)
{
    return ops->copy(bench->stream, bench->memory, bench->pinned, BYTES, COPY_TO_DEVICE);
}

static int try_call(struct bench *bench)
{
    return ops->call(bench->stream, nothing, NULL);
}

static int try_event_wait(struct bench *bench)
{
    return ops->event_wait(bench->event);
}

static int try_event_elapsed(struct bench *bench)
{
    uint64_t elapsed_ns = UINT64_MAX;
    const int rc = ops->event_elapsed(bench->event, bench->event, &elapsed_ns);
    assert_true(rc ? elapsed_ns == UINT64_MAX : elapsed_ns == 0);
    return rc;
}

static const struct failing {
    const char *function;
    cudaError_t status;
    int (*attempt)(struct bench *bench);
    int error;
} failings[] = {
    { "cudaDeviceGetStreamPriorityRange", cudaErrorNoDevice, try_open, -ENODEV },
    { "cudaStreamCreateWithPriority", cudaErrorMemoryAllocation, try_open, -ENOMEM },
    { "cudaMalloc", cudaErrorMemoryAllocation, try_alloc, -ENOMEM },
    { "cudaMalloc", cudaErrorIllegalState, try_alloc, -EIO },
    { "cudaMemsetAsync", cudaErrorInvalidValue, try_alloc, -EIO },
    { "cudaStreamSynchronize", cudaErrorUnknown, try_alloc, -EIO },
    { "cudaHostAlloc", cudaErrorMemoryAllocation, try_alloc_pinned, -ENOMEM },
    { "cudaMemGetInfo", cudaErrorUnknown, try_memory, -EIO },
    { "cudaStreamCreateWithPriority", cudaErrorDevicesUnavailable, try_stream_open, -ENODEV },
    { "cudaEventCreateWithFlags", cudaErrorMemoryAllocation, try_event_open, -ENOMEM },
    { "cudaEventRecord", cudaErrorUnknown, try_record, -EIO },
    { "cudaStreamWaitEvent", cudaErrorUnknown, try_stream_wait, -EIO },
    { "cudaMemcpyAsync", cudaErrorInvalidValue, try_copy, -EIO },
    { "cudaLaunchHostFunc", cudaErrorUnknown, try_call, -EIO },
    { "cudaEventQuery", cudaErrorUnknown, try_event_wait, -EIO },
    { "cudaEventElapsedTime", cudaErrorUnknown, try_event_elapsed, -EIO },
};

static unsigned count_lines(const char *text)
{
    unsigned lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* One line that names the device, the function and the error. */
static void assert_says(const char *text, const char *device, const char *function, const char *error)
{
    char beginning[128];
    snprintf(beginning, sizeof(beginning), "pipetrain: %s: %s", device, function);
    assert_memory_equal(text, beginning, strlen(beginning));
    assert_non_null(strstr(text, error));
    assert_int_equal(count_lines(text), 1);
}

static void check_failing(struct bench *bench, const struct failing *failing)
{
    struct capture capture;
    char captured[TEXT];
    capture_begin(&capture);
    sim_fail(failing->function, 1, (int)failing->status);
    const int rc = failing->attempt(bench);
    capture_end(&capture, captured, sizeof(captured));
    assert_int_equal(rc, failing->error);
    assert_says(captured, "cuda0", failing->function, cudaGetErrorName(failing->status));
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(failing->attempt(bench), 0);
}

static size_t free_bytes_of(struct device *device)
{
    size_t free_bytes, total_bytes;
    assert_int_equal(ops->memory(device, &free_bytes, &total_bytes), 0);
    return free_bytes;
}

TEST_WITH(a_call_that_fails_is_reported_once_and_leaves_nothing_behind, NULL, no_failures_left)
{
    struct bench bench;
    bench_open(&bench, 0);
    const size_t before = free_bytes_of(bench.device);
    for (size_t i = 0; i < sizeof(failings) / sizeof(failings[0]); i++)
        check_failing(&bench, &failings[i]);
    assert_int_equal(free_bytes_of(bench.device), before);
    bench_close(&bench);
}

TEST(memory_that_is_short_is_told_with_its_size)
{
    struct device *device = device_make(1);
    char captured[TEXT];
    void *memory = NULL;
    const int rc = CAPTURE(captured, ops->alloc(device, (size_t)1 << 40, &memory));
    assert_int_equal(rc, -ENOMEM);
    assert_null(memory);
    assert_string_equal(captured, "pipetrain: cuda1: cudaMalloc of 1099511627776 bytes: out of memory "
                                  "(cudaErrorMemoryAllocation)\n");
    ops->close(device);
}

TEST(a_device_that_is_not_there_cannot_be_opened)
{
    struct device *device = NULL;
    char captured[TEXT];
    const int rc = CAPTURE(captured, ops->open(&device, &(struct device_spec){ .index = 2, .name = "tower" }));
    assert_int_equal(rc, -ENODEV);
    assert_null(device);
    assert_says(captured, "cuda2", "cudaSetDevice", "cudaErrorInvalidDevice");
}

TEST_WITH(the_current_device_changes_only_when_it_must, NULL, no_failures_left)
{
    struct bench benches[3];
    for (uint32_t i = 0; i < 3; i++)
        bench_open(&benches[i], i % 2);         /* the first and the third share a device */
    sim_calls_clear();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(try_copy(&benches[0]), 0);
        assert_int_equal(try_record(&benches[2]), 0);
    }
    assert_int_equal(sim_calls("cudaSetDevice"), 0);    /* the one opened last */
    assert_int_equal(try_copy(&benches[1]), 0);
    assert_int_equal(try_copy(&benches[2]), 0);
    assert_int_equal(sim_calls("cudaSetDevice"), 2);

    sim_fail("cudaSetDevice", 1, cudaErrorUnknown);
    char captured[TEXT];
    const int rc = CAPTURE(captured, try_copy(&benches[1]));
    assert_int_equal(rc, -EIO);
    assert_says(captured, "cuda1", "cudaSetDevice", "cudaErrorUnknown");
    assert_int_equal(try_copy(&benches[1]), 0);         /* asks again */
    assert_int_equal(sim_calls("cudaSetDevice"), 4);
    for (uint32_t i = 0; i < 3; i++)
        bench_close(&benches[i]);
}

TEST_WITH(a_wait_leaves_no_error_for_the_next_launch, NULL, no_failures_left)
{
    struct bench bench;
    bench_open(&bench, 0);
    sim_delay_us(2000);
    assert_int_equal(try_copy(&bench), 0);
    assert_int_equal(try_record(&bench), 0);
    assert_false(ops->event_passed(bench.other));
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    uint64_t elapsed_ns;
    assert_int_equal(ops->event_elapsed(bench.event, bench.other, &elapsed_ns), -EAGAIN);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_int_equal(ops->event_wait(bench.other), 0);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    sim_delay_us(0);
    bench_close(&bench);
}

/* After this the process has seen its one report of an error that sticks. */
TEST_WITH(an_error_that_sticks_is_reported_once, NULL, no_failures_left)
{
    struct bench bench;
    struct capture capture;
    char captured[TEXT];
    int errors[4];
    bench_open(&bench, 0);
    const char *const functions[] = { "cudaMemcpyAsync", "cudaEventQuery", "cudaEventRecord" };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        sim_fail(functions[i], 0, cudaErrorIllegalAddress);
    capture_begin(&capture);
    errors[0] = try_copy(&bench);
    errors[1] = try_record(&bench);
    errors[2] = try_event_wait(&bench);
    errors[3] = try_copy(&bench);
    capture_end(&capture, captured, sizeof(captured));
    sim_fail_clear();
    for (int i = 0; i < 4; i++)
        assert_int_equal(errors[i], -EIO);
    assert_says(captured, "cuda0", "cudaMemcpyAsync", "cudaErrorIllegalAddress");
    bench_close(&bench);
}

/* CPUs. */

/* In place of the C library's: what threads bind themselves to, also on a machine whose one
 * node has all CPUs. */
static struct { unsigned count; cpu_set_t last; } affinity;

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *cpus)
{
    assert_true(pthread_equal(thread, pthread_self()));
    affinity.count++;
    affinity.last = *cpus;
    return sched_setaffinity(0, size, cpus) ? errno : 0;
}

TEST(threads_are_bound_within_the_cpus_they_have)
{
    cpu_set_t all, near, before, after;
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&near);
    CPU_SET(CPU_SETSIZE - 1, &near);
    assert_true(!CPU_ISSET(CPU_SETSIZE - 1, &all));
    assert_false(cpus_bind(&near, &before));        /* none in common */
    assert_false(cpus_bind_to_node(-1, &before));
    assert_false(cpus_bind_to_node(1000000, &before));
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &all));

    const unsigned here = (unsigned)sched_getcpu();
    CPU_SET(here, &near);
    assert_true(cpus_bind(&near, &before));
    assert_true(CPU_EQUAL(&before, &all));
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_COUNT(&after) == 1 && CPU_ISSET(here, &after));
    cpus_restore(&before);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &all));
}

TEST(pinned_memory_leaves_the_thread_its_cpus)
{
    cpu_set_t all, one, after;
    struct bench bench;
    bench_open(&bench, 0);
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(try_alloc_pinned(&bench), 0);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &one));
    ops->bind(bench.device);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &one));               /* no CPU is won by binding */
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    cpu_set_t before;
    const bool has_near = cpus_bind_to_node(0, &before);   /* the node that devices say is theirs */
    if (has_near)
        cpus_restore(&before);
    affinity.count = 0;
    assert_int_equal(try_alloc_pinned(&bench), 0);
    if (has_near) {
        assert_int_equal(affinity.count, 2);            /* to the device's node and back */
        assert_true(CPU_EQUAL(&affinity.last, &all));
    }
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &all));
    bench_close(&bench);
}

/* Steady state. */

enum { SLOTS = 2, BATCH = 8, WARM = 5, BATCHES = 40 };

struct lane {
    struct device *device;
    struct schedule schedule;
    struct batch_layout layout;
    struct stop *stop;
    struct stream *compute;
    struct slots *slots;
    struct ring *ring;
    void *blocks[SLOTS];
    struct feeder *feeder;
};

static void lane_open(struct lane *lane)
{
    *lane = (struct lane){ .schedule = { .records = { BATCH * BATCHES, 0 }, .batch = BATCH, .towers = 1,
                                         .epochs = 1 } };
    lane->device = device_make(0);
    assert_int_equal(batch_layout_init(&lane->layout, 4, 4, 1, BATCH), 0);
    assert_int_equal(stop_open(&lane->stop), 0);
    assert_int_equal(ops->stream_open(lane->device, STREAM_COMPUTE, "compute", &lane->compute), 0);
    assert_int_equal(slots_open(&lane->slots, lane->device, SLOTS, &lane->layout), 0);
    for (int i = 0; i < SLOTS; i++)
        assert_int_equal(ops->alloc_pinned(lane->device, lane->layout.block_bytes, &lane->blocks[i]), 0);
    assert_int_equal(ring_open(&lane->ring, SLOTS, &lane->layout, lane->blocks), 0);
    ring_range(lane->ring, 0, BATCHES);
    const struct feeder_spec spec = {
        .name = "feeder", .device = lane->device, .ring = lane->ring, .slots = lane->slots, .stop = lane->stop,
        .schedule = &lane->schedule, .classes = 10, .layout = &lane->layout,
    };
    assert_int_equal(feeder_start(&lane->feeder, &spec), 0);
}

static void lane_close(struct lane *lane)
{
    struct feeder_counts counts;
    feeder_join(lane->feeder, &counts);
    assert_int_equal(counts.batches, BATCHES);
    slots_close(lane->slots);
    ring_close(lane->ring);
    for (int i = 0; i < SLOTS; i++)
        ops->free_pinned(lane->device, lane->blocks[i]);
    ops->stream_close(lane->compute);
    ops->close(lane->device);
    stop_close(lane->stop);
}

static void lane_step(struct lane *lane, uint64_t number)
{
    struct batch_slice slice;
    struct batch *batch;
    struct slot *slot;
    assert_int_equal(schedule_find(&lane->schedule, number, 0, &slice), 0);
    assert_int_equal(ring_claim(lane->ring, &slice, &batch), 0);
    memset(batch->block, (int)number, lane->layout.block_bytes);
    ring_fill(lane->ring, batch, slice.count);
    assert_int_equal(slots_take(lane->slots, &slot), 0);
    assert_int_equal(stream_wait(lane->compute, slot->ready), 0);
    assert_int_equal(stream_record(lane->compute, slot->free), 0);
    slots_give_back(lane->slots, slot);
}

TEST(feeding_allocates_nothing_and_never_stops_the_device)
{
    static const char *const forbidden[] = {
        "cudaSetDevice", "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaMemsetAsync",
        "cudaStreamCreateWithPriority", "cudaStreamDestroy", "cudaEventCreateWithFlags", "cudaEventDestroy",
        "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "pageable copy",
    };
    struct lane lane;
    lane_open(&lane);
    for (uint64_t number = 0; number < WARM; number++)
        lane_step(&lane, number);
    sim_calls_clear();
    for (uint64_t number = WARM; number < BATCHES; number++)
        lane_step(&lane, number);
    assert_true(sim_calls("cudaMemcpyAsync") >= BATCHES - WARM);
    for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
        if (sim_calls(forbidden[i]) > 0)
            fail_msg("%s was called", forbidden[i]);
    }
    lane_close(&lane);
}

/* A stream that stands still. */

struct door {
    sem_t reached, opened;
};

static void door_call(void *arg)
{
    struct door *door = arg;
    sem_post(&door->reached);
    sem_wait(&door->opened);
}

struct waiting {
    struct event *event;
    int result;
};

static void wait_loop(void *arg)
{
    struct waiting *waiting = arg;
    waiting->result = ops->event_wait(waiting->event);
}

static uint64_t since(uint64_t begun_ns)
{
    return clock_now_ns() - begun_ns;
}

/* What may still be used stays, which is why this test comes last. */
TEST(cancelling_ends_the_waits_for_a_stream_that_stands_still)
{
    static struct door door;
    struct bench bench;
    struct thread *thread;
    struct capture capture;
    char captured[TEXT];
    bench_open(&bench, 0);
    sem_init(&door.reached, 0, 0);
    sem_init(&door.opened, 0, 0);
    assert_int_equal(ops->call(bench.stream, door_call, &door), 0);
    assert_int_equal(try_copy(&bench), 0);
    assert_int_equal(try_record(&bench), 0);
    sem_wait(&door.reached);
    struct waiting waiting = { bench.other, 0 };
    assert_int_equal(thread_start(&thread, "waiting", wait_loop, &waiting), 0);
    usleep(2000);
    uint64_t begun_ns = clock_now_ns();
    device_cancel(bench.device);
    thread_join(thread);
    assert_int_equal(waiting.result, -ECANCELED);
    if (test_is_long())
        assert_true(since(begun_ns) < 500000000);

    sim_calls_clear();
    begun_ns = clock_now_ns();
    capture_begin(&capture);
    bench_close(&bench);
    capture_end(&capture, captured, sizeof(captured));
    assert_in_range(since(begun_ns), 1000000000u, test_is_long() ? 3000000000u : UINT64_MAX);
    assert_string_equal(captured, "pipetrain: cuda0: the work on stream copy0 does not end: it is left behind\n");
    assert_int_equal(sim_calls("cudaFree"), 0);
    assert_int_equal(sim_calls("cudaFreeHost"), 0);
    sem_post(&door.opened);
}

int main(void)
{
    alarm(120);
    sim_setup(2, (size_t)64 << 20);
    return tests_run(NULL, NULL);
}
