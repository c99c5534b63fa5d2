/* Tests of the CUDA device's failures, which only the simulated CUDA produces on demand: no driver, failing calls,
 * blocked streams. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/cpus.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/thread.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tests/sim/sim.h"

enum { BYTES = 1000, TEXT = 2048 };

static const struct device_ops *const ops = &device_cuda_ops;

/* ---- why there is no device ---- */

static void check_reason(cudaError_t status, const char *expected)
{
    char why[256], captured[TEXT];
    sim_fail("cudaGetDeviceCount", 1, (int)status);
    const uint32_t count = CAPTURE(captured, ops->count(why, sizeof(why)));
    assert_int_equal(count, 0);
    assert_string_equal(why, expected);
    assert_string_equal(captured, "");
    assert_int_equal(cudaGetLastError(), cudaSuccess);
}

static int clear_failures(void **state)
{
    (void)state;
    sim_fail_clear();
    sim_delay_us(0);
    return 0;
}

TEST_WITH(the_reason_for_no_device_is_returned_not_printed, NULL, clear_failures)
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

TEST_WITH(device_files_and_the_environment_limit_the_count, fixture_folder_make, fixture_folder_remove)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(cuda_count_at_most(folder), UINT32_MAX);
    assert_int_equal(cuda_count_at_most("/no such folder"), UINT32_MAX);
    static const char *const names[] = { "nvidia0", "nvidia1", "nvidia12", "nvidiactl", "nvidia-uvm", "null" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        fixture_write_text(fixture_path(folder, names[i]), "");
    assert_int_equal(cuda_count_at_most(folder), 3);
    static const struct { const char *visible; uint32_t most; } rows[] = {
        { "1", 1 }, { "0,2", 2 }, { "0,1,2", 3 }, { "0,1,2,3", 3 }, { "GPU-8932f937", 1 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setenv("CUDA_VISIBLE_DEVICES", rows[i].visible, 1);
        assert_int_equal(cuda_count_at_most(folder), rows[i].most);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(peer_access_is_queried)
{
    assert_true(ops->reaches(0, 0));
    assert_true(ops->reaches(0, 1));
    sim_set_peer_access(false);
    assert_true(ops->reaches(1, 1));
    assert_false(ops->reaches(0, 1));
    sim_set_peer_access(true);
}

/* ---- failing calls ---- */

struct fixture {
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

static void fixture_open(struct fixture *fixture, uint32_t index)
{
    fixture->device = device_make(index);
    assert_int_equal(ops->stream_open(fixture->device, STREAM_COPY, "copy0", &fixture->stream), 0);
    assert_int_equal(ops->event_open(fixture->device, EVENT_TIMED, &fixture->event), 0);
    assert_int_equal(ops->event_open(fixture->device, EVENT_TIMED, &fixture->other), 0);
    assert_int_equal(ops->alloc(fixture->device, BYTES, &fixture->memory), 0);
    assert_int_equal(ops->alloc_pinned(fixture->device, BYTES, &fixture->pinned), 0);
    assert_int_equal(ops->record(fixture->stream, fixture->event), 0);
    assert_int_equal(ops->record(fixture->stream, fixture->other), 0);
    assert_int_equal(ops->event_wait(fixture->other), 0);
}

static void fixture_close(struct fixture *fixture)
{
    ops->stream_close(fixture->stream);
    ops->event_close(fixture->other);
    ops->event_close(fixture->event);
    ops->free(fixture->device, fixture->memory);
    ops->free_pinned(fixture->device, fixture->pinned);
    ops->close(fixture->device);
}

static void nothing(void *arg)
{
    (void)arg;
}

static int try_open(struct fixture *fixture)
{
    struct device *device = fixture->device;
    const int rc = ops->open(&device, &(struct device_spec){ .index = 0, .name = "tower" });
    if (!rc)
        ops->close(device);
    else
        assert_ptr_equal(device, fixture->device);
    return rc;
}

static int try_alloc(struct fixture *fixture)
{
    void *memory = fixture;
    const int rc = ops->alloc(fixture->device, BYTES, &memory);
    if (!rc)
        ops->free(fixture->device, memory);
    else
        assert_ptr_equal(memory, fixture);
    return rc;
}

static int try_pin(struct fixture *fixture)
{
    void *const memory = malloc(BYTES);
    assert_non_null(memory);
    const int rc = ops->pin(fixture->device, memory, BYTES);
    if (!rc)
        ops->unpin(fixture->device, memory);
    free(memory);
    return rc;
}

static int try_alloc_pinned(struct fixture *fixture)
{
    void *memory = fixture;
    const int rc = ops->alloc_pinned(fixture->device, BYTES, &memory);
    if (!rc)
        ops->free_pinned(fixture->device, memory);
    else
        assert_ptr_equal(memory, fixture);
    return rc;
}

static int try_memory(struct fixture *fixture)
{
    size_t free_bytes = 1, total_bytes = 2;
    const int rc = ops->memory(fixture->device, &free_bytes, &total_bytes);
    assert_true(!rc || (free_bytes == 1 && total_bytes == 2));
    return rc;
}

static int try_stream_open(struct fixture *fixture)
{
    struct stream *stream = fixture->stream;
    const int rc = ops->stream_open(fixture->device, STREAM_COMMUNICATION, "comm0", &stream);
    if (!rc)
        ops->stream_close(stream);
    else
        assert_ptr_equal(stream, fixture->stream);
    return rc;
}

static int try_event_open(struct fixture *fixture)
{
    struct event *event = fixture->event;
    const int rc = ops->event_open(fixture->device, EVENT_ORDER, &event);
    if (!rc)
        ops->event_close(event);
    else
        assert_ptr_equal(event, fixture->event);
    return rc;
}

static int try_record(struct fixture *fixture)
{
    return ops->record(fixture->stream, fixture->other);
}

static int try_stream_wait(struct fixture *fixture)
{
    return ops->stream_wait(fixture->stream, fixture->event);
}

static int try_copy(struct fixture *fixture)
{
    return ops->copy(fixture->stream, fixture->memory, fixture->pinned, BYTES, COPY_TO_DEVICE);
}

static int try_call(struct fixture *fixture)
{
    return ops->call(fixture->stream, nothing, NULL);
}

static int try_event_wait(struct fixture *fixture)
{
    return ops->event_wait(fixture->event);
}

static int try_event_elapsed(struct fixture *fixture)
{
    uint64_t elapsed_ns = UINT64_MAX;
    const int rc = ops->event_elapsed(fixture->event, fixture->event, &elapsed_ns);
    assert_true(rc ? elapsed_ns == UINT64_MAX : elapsed_ns == 0);
    return rc;
}

static const struct failing {
    const char *function;
    cudaError_t status;
    int (*attempt)(struct fixture *fixture);
    int error;
} failings[] = {
    { "cudaDeviceGetStreamPriorityRange", cudaErrorNoDevice, try_open, -ENODEV },
    { "cudaStreamCreateWithPriority", cudaErrorMemoryAllocation, try_open, -ENOMEM },
    { "cudaMalloc", cudaErrorMemoryAllocation, try_alloc, -ENOMEM },
    { "cudaMalloc", cudaErrorIllegalState, try_alloc, -EIO },
    { "cudaMemsetAsync", cudaErrorInvalidValue, try_alloc, -EIO },
    { "cudaStreamSynchronize", cudaErrorUnknown, try_alloc, -EIO },
    { "cudaHostAlloc", cudaErrorMemoryAllocation, try_alloc_pinned, -ENOMEM },
    { "cudaHostRegister", cudaErrorMemoryAllocation, try_pin, -ENOMEM },
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

/* The text is one line that names the device, the function and the error. */
static void assert_message(const char *text, const char *device, const char *function, const char *error)
{
    char beginning[128];
    snprintf(beginning, sizeof(beginning), "pipetrain: %s: %s", device, function);
    assert_memory_equal(text, beginning, strlen(beginning));
    assert_non_null(strstr(text, error));
    assert_int_equal(capture_lines(text), 1);
}

static void check_failing(struct fixture *fixture, const struct failing *failing)
{
    char captured[TEXT];
    sim_fail(failing->function, 1, (int)failing->status);
    const int rc = CAPTURE(captured, failing->attempt(fixture));
    assert_int_equal(rc, failing->error);
    assert_message(captured, "cuda0", failing->function, cudaGetErrorName(failing->status));
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_int_equal(failing->attempt(fixture), 0);
}

static size_t free_bytes_of(struct device *device)
{
    size_t free_bytes, total_bytes;
    assert_int_equal(ops->memory(device, &free_bytes, &total_bytes), 0);
    return free_bytes;
}

TEST_WITH(failing_calls_are_reported_once_and_leak_nothing, NULL, clear_failures)
{
    struct fixture fixture;
    fixture_open(&fixture, 0);
    const size_t before = free_bytes_of(fixture.device);
    for (size_t i = 0; i < sizeof(failings) / sizeof(failings[0]); i++)
        check_failing(&fixture, &failings[i]);
    assert_int_equal(free_bytes_of(fixture.device), before);
    fixture_close(&fixture);
}

TEST(a_failed_allocation_is_reported_with_its_size)
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

TEST(an_unknown_device_cannot_be_opened)
{
    struct device *device = NULL;
    char captured[TEXT];
    const int rc = CAPTURE(captured, ops->open(&device, &(struct device_spec){ .index = 2, .name = "tower" }));
    assert_int_equal(rc, -ENODEV);
    assert_null(device);
    assert_message(captured, "cuda2", "cudaSetDevice", "cudaErrorInvalidDevice");
}

TEST_WITH(the_current_device_changes_only_when_it_must, NULL, clear_failures)
{
    struct fixture fixtures[3];
    for (uint32_t i = 0; i < 3; i++)
        fixture_open(&fixtures[i], i % 2);         /* the first and the third share a device */
    sim_calls_clear();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(try_copy(&fixtures[0]), 0);
        assert_int_equal(try_record(&fixtures[2]), 0);
    }
    assert_int_equal(sim_calls("cudaSetDevice"), 0);    /* still the last one */
    assert_int_equal(try_copy(&fixtures[1]), 0);
    assert_int_equal(try_copy(&fixtures[2]), 0);
    assert_at_most(sim_calls("cudaSetDevice"), 2);

    sim_fail("cudaSetDevice", 1, cudaErrorUnknown);
    char captured[TEXT];
    const int rc = CAPTURE(captured, try_copy(&fixtures[1]));
    assert_int_equal(rc, -EIO);
    assert_message(captured, "cuda1", "cudaSetDevice", "cudaErrorUnknown");
    assert_int_equal(try_copy(&fixtures[1]), 0);         /* tries again */
    assert_at_most(sim_calls("cudaSetDevice"), 4);
    for (uint32_t i = 0; i < 3; i++)
        fixture_close(&fixtures[i]);
}

TEST_WITH(a_wait_leaves_no_error_for_the_next_launch, NULL, clear_failures)
{
    struct fixture fixture;
    fixture_open(&fixture, 0);
    sim_delay_us(2000);
    assert_int_equal(try_copy(&fixture), 0);
    assert_int_equal(try_record(&fixture), 0);
    assert_false(ops->event_passed(fixture.other));
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    uint64_t elapsed_ns;
    assert_int_equal(ops->event_elapsed(fixture.event, fixture.other, &elapsed_ns), -EAGAIN);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    assert_int_equal(ops->event_wait(fixture.other), 0);
    assert_int_equal(cudaPeekAtLastError(), cudaSuccess);
    sim_delay_us(0);
    fixture_close(&fixture);
}

/* Comes last of the messages: a persistent error is reported once per process. */
TEST_WITH(a_persistent_error_is_reported_once, NULL, clear_failures)
{
    struct fixture fixture;
    struct capture capture;
    char captured[TEXT];
    int errors[4];
    fixture_open(&fixture, 0);
    const char *const functions[] = { "cudaMemcpyAsync", "cudaEventQuery", "cudaEventRecord" };
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        sim_fail(functions[i], 0, cudaErrorIllegalAddress);
    capture_begin(&capture);
    errors[0] = try_copy(&fixture);
    errors[1] = try_record(&fixture);
    errors[2] = try_event_wait(&fixture);
    errors[3] = try_copy(&fixture);
    capture_end(&capture, captured, sizeof(captured));
    sim_fail_clear();
    for (int i = 0; i < 4; i++)
        assert_int_equal(errors[i], -EIO);
    assert_message(captured, "cuda0", "cudaMemcpyAsync", "cudaErrorIllegalAddress");
    fixture_close(&fixture);
}

/* ---- CPUs ---- */

/* Replaces the C library's function to record the CPUs, also where one node has all CPUs. */
static struct { unsigned count; cpu_set_t last; } affinity;

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *cpus)
{
    assert_true(pthread_equal(thread, pthread_self()));
    affinity.count++;
    affinity.last = *cpus;
    return sched_setaffinity(0, size, cpus) ? errno : 0;
}

TEST(threads_are_bound_to_cpus_they_have)
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

TEST(pinned_memory_keeps_the_cpus_of_the_thread)
{
    cpu_set_t all, one, after;
    struct fixture fixture;
    fixture_open(&fixture, 0);
    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    CPU_SET((unsigned)sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(try_alloc_pinned(&fixture), 0);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &one));
    ops->bind(fixture.device);
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &one));               /* binding adds no CPU */
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    cpu_set_t before;
    const bool has_near = cpus_bind_to_node(0, &before);   /* the node of the simulated devices */
    if (has_near)
        cpus_restore(&before);
    affinity.count = 0;
    assert_int_equal(try_alloc_pinned(&fixture), 0);
    if (has_near) {
        assert_int_equal(affinity.count, 2);            /* to the device's node and back */
        assert_true(CPU_EQUAL(&affinity.last, &all));
    }
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&after, &all));
    fixture_close(&fixture);
}

/* ---- a blocked stream ---- */

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

/* Leaks what the stream may still use, so it comes last. */
TEST(a_cancel_ends_waits_for_a_blocked_stream)
{
    struct fixture fixture;
    struct thread *thread;
    struct capture capture;
    char captured[TEXT];
    fixture_open(&fixture, 0);
    sim_calls_clear();
    sim_block("upload", 1);
    assert_int_equal(try_copy(&fixture), 0);
    assert_int_equal(try_record(&fixture), 0);
    while (sim_calls("upload") == 0)
        usleep(1000);
    struct waiting waiting = { fixture.other, 0 };
    assert_int_equal(thread_start(&thread, "waiting", wait_loop, &waiting), 0);
    usleep(2000);
    uint64_t begun_ns = clock_now_ns();
    device_cancel(fixture.device);
    thread_join(thread);
    assert_int_equal(waiting.result, -ECANCELED);
    if (test_is_long())
        assert_true(since(begun_ns) < 500000000);

    sim_calls_clear();
    begun_ns = clock_now_ns();
    capture_begin(&capture);
    fixture_close(&fixture);
    capture_end(&capture, captured, sizeof(captured));
    assert_in_range(since(begun_ns), 1000000000u, test_is_long() ? 3000000000u : UINT64_MAX);
    assert_string_equal(captured, "pipetrain: cuda0: the work on stream copy0 does not end: it is left behind\n");
    assert_int_equal(sim_calls("cudaFree"), 0);
    assert_int_equal(sim_calls("cudaFreeHost"), 0);
    sim_block_clear();
}

int main(void)
{
    alarm(120);
    sim_setup(2, (size_t)64 << 20);
    return tests_run(NULL, NULL);
}
