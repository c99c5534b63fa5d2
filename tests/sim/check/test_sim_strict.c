/* Tests of how strict the simulated CUDA is: what is not written yet and what depends on an order shows in the results;
 * and this program is started again for each mistake, which must end it with a message. Programs without mistakes do
 * not need that, so no other test fails where it is missing. All else is tested by the tests of the CUDA side, which
 * are linked to it. */
#include <cuda_runtime_api.h>
#include <math.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_test_kernels.h"
#include "tests/sim/sim.h"

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)

static cudaStream_t stream_new(void)
{
    cudaStream_t stream;
    assert_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
    assert_non_null(stream);
    return stream;
}

static cudaEvent_t event_new(void)
{
    cudaEvent_t event;
    assert_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static void *device_new(size_t bytes)
{
    void *memory;
    assert_cuda(cudaMalloc(&memory, bytes));
    assert_non_null(memory);
    return memory;
}

static void *pinned_new(size_t bytes)
{
    void *memory;
    assert_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
    return memory;
}

/* Element i of device memory, which is memory of the host, after all work of the current device. */
static uint32_t peek(const uint32_t *memory, size_t i)
{
    assert_cuda(cudaDeviceSynchronize());
    return memory[i];
}

/* A stream waits at a closed door until the test opens it. */
struct door {
    sem_t reached, opened;
};

static void door_call(void *argument)
{
    struct door *door = argument;
    sem_post(&door->reached);
    while (sem_wait(&door->opened) != 0)
        continue;
}

static void door_close(struct door *door, cudaStream_t stream)
{
    sem_init(&door->reached, 0, 0);
    sem_init(&door->opened, 0, 0);
    assert_cuda(cudaLaunchHostFunc(stream, door_call, door));
}

static void door_open(struct door *door)
{
    sem_post(&door->opened);
}

static const char *program;     /* this one */

/* ---- what shows in the results ---- */

TEST(memory_is_full_of_nans_until_written)
{
    float *const memory = device_new(1000 * sizeof(float));
    for (size_t i = 0; i < 1000; i++)
        assert_true(isnan(memory[i]));
    assert_cuda(cudaFree(memory));
}

TEST(only_copies_of_pageable_memory_do_not_run_beside_the_caller)
{
    uint32_t pageable = 5, registered = 2;
    struct door door;
    cudaStream_t stream = stream_new();
    uint32_t *const pinned = pinned_new(4);
    uint32_t *const memory = device_new(16);
    *pinned = 1;
    door_close(&door, stream);
    assert_cuda(cudaMemcpyAsync(memory, pinned, 4, cudaMemcpyHostToDevice, stream));
    assert_cuda(cudaMemcpyAsync(memory + 1, memory, 4, cudaMemcpyDeviceToDevice, stream));
    assert_cuda(cudaMemsetAsync(memory + 2, 1, 4, stream));
    assert_cuda(cudaHostRegister(&registered, 4, cudaHostRegisterPortable));
    assert_int_equal(cudaHostRegister(&registered, 4, 0), cudaErrorHostMemoryAlreadyRegistered);
    cudaGetLastError();
    assert_cuda(cudaMemcpyAsync(memory + 3, &registered, 4, cudaMemcpyHostToDevice, stream));
    *pinned = 7;                /* not read yet */
    registered = 3;
    assert_int_not_equal(memory[2], 0x01010101);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    door_open(&door);
    assert_cuda(cudaStreamSynchronize(stream));
    assert_int_equal(peek(memory, 1), 7);
    assert_int_equal(peek(memory, 2), 0x01010101);
    assert_int_equal(peek(memory, 3), 3);
    assert_cuda(cudaHostUnregister(&registered));
    assert_cuda(cudaMemcpyAsync(memory, &pageable, 4, cudaMemcpyHostToDevice, stream));
    pageable = 6;
    assert_int_equal(peek(memory, 0), 5);
    cudaGetLastError();
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaFreeHost(pinned));
}

TEST(dependence_on_the_order_of_blocks_and_threads_shows)
{
    cudaStream_t stream = stream_new();
    uint32_t *const memory = device_new(64 * sizeof(*memory));
    uint32_t found[2];
    for (int launch = 0; launch < 2; launch++) {
        assert_cuda(cudaMemsetAsync(memory, 0, 4, stream));
        assert_cuda(test_order(stream, 4, memory));
        found[launch] = peek(memory, 0);
    }
    assert_int_not_equal(found[0], found[1]);
    for (int launch = 0; launch < 2; launch++) {
        assert_cuda(test_neighbour(stream, 64, true, memory));
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(peek(memory, i), 1000 + (i + 1) % 64);
    }
    for (int launch = 0; launch < 2; launch++) {
        assert_cuda(test_neighbour(stream, 64, false, memory));
        found[launch] = peek(memory, 5);
    }
    assert_int_not_equal(found[0], found[1]);
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaStreamDestroy(stream));
}

/* Captures memory[0] = 1 on the first stream, beside it memory[0] = 2 on the second, then memory[1] = memory[0]. */
static cudaError_t capture_fork(cudaStream_t stream, cudaStream_t other, uint32_t *memory, bool joins,
                                cudaGraph_t *graph_out)
{
    cudaEvent_t event = event_new();
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_cuda(cudaEventRecord(event, stream));
    assert_cuda(cudaStreamWaitEvent(other, event, 0));
    assert_cuda(test_fill(other, memory, 1, 2));
    assert_cuda(cudaEventRecord(event, other));
    assert_cuda(test_fill(stream, memory, 1, 1));
    if (joins)
        assert_cuda(cudaStreamWaitEvent(stream, event, 0));
    assert_cuda(cudaMemcpyAsync(memory + 1, memory, 4, cudaMemcpyDeviceToDevice, stream));
    const cudaError_t status = cudaStreamEndCapture(stream, graph_out);
    assert_cuda(cudaEventDestroy(event));
    return status;
}

TEST(dependence_on_the_order_of_branches_of_a_graph_shows)
{
    cudaStream_t stream = stream_new(), other = stream_new();
    uint32_t *const memory = device_new(2 * sizeof(*memory)), found[3];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    assert_cuda(capture_fork(stream, other, memory, true, &graph));
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    for (int launch = 0; launch < 3; launch++) {
        assert_cuda(cudaGraphLaunch(exec, stream));
        found[launch] = peek(memory, 1);
        assert_in_range(found[launch], 1, 2);
    }
    assert_in_range(found[0] + found[1] + found[2], 4, 5);      /* not three times the same */
    assert_cuda(cudaGraphExecDestroy(exec));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaStreamDestroy(other));
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
}

TEST(a_capture_ends_only_with_all_its_streams_joined)
{
    cudaStream_t stream = stream_new(), other = stream_new();
    uint32_t *const memory = device_new(2 * sizeof(*memory));
    cudaGraph_t graph;
    assert_int_equal(capture_fork(stream, other, memory, false, &graph), cudaErrorStreamCaptureUnjoined);
    assert_null(graph);
    cudaGetLastError();
    assert_cuda(test_fill(other, memory, 1, 3));        /* the streams are not captured any more */
    assert_int_equal(peek(memory, 0), 3);
    assert_cuda(capture_fork(stream, other, memory, true, &graph));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaStreamDestroy(other));
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
}

TEST(blocks_and_grids_have_the_sizes_of_a_device)
{
    cudaStream_t stream = stream_new();
    uint32_t *const memory = device_new(sizeof(*memory));
    assert_int_equal(test_order(stream, 0, memory), cudaErrorInvalidConfiguration);
    assert_int_equal(test_neighbour(stream, 1025, true, memory), cudaErrorInvalidConfiguration);
    cudaGetLastError();
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaStreamDestroy(stream));
}

TEST(kernels_are_launched_early_where_their_code_waits)
{
    cudaStream_t stream = stream_new();
    uint32_t *const memory = device_new(sizeof(*memory));
    assert_cuda(cudaMemsetAsync(memory, 0, 4, stream));
    sim_calls_clear();
    for (uint32_t launch = 0; launch < 3; launch++)
        assert_cuda(test_early(stream, 256, false, memory));
    assert_int_equal(peek(memory, 0), 3);
    assert_int_equal(sim_calls("early launch"), 3);
    assert_in_range(sim_calls("cudaFuncGetAttributes"), 0, 1);
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaStreamDestroy(stream));
}

TEST(numbers_of_32_bits_and_of_more_are_divided_alike)
{
    static const size_t numbers[] = { 0, 1, 7, 4294967294u, 4294967295u, 4294967296u, 4294967301u, (size_t)1 << 40 };
    static const uint32_t by[] = { 1, 2, 3, 7, 4294967295u };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        for (size_t k = 0; k < sizeof(by) / sizeof(by[0]); k++) {
            uint32_t rest;
            assert_int_equal(test_divided(numbers[i], by[k], &rest), numbers[i] / by[k]);
            assert_int_equal(rest, numbers[i] % by[k]);
        }
}

/* ---- several processes ---- */

/* A handle in hexadecimal digits. */
struct digits { char text[2 * sizeof(cudaIpcMemHandle_t) + 1]; };

static struct digits digits_of(const cudaIpcMemHandle_t *handle)
{
    struct digits digits;
    for (size_t i = 0; i < sizeof(*handle); i++)
        snprintf(digits.text + 2 * i, 3, "%02x", ((const unsigned char *)handle)[i]);
    return digits;
}

/* In another process. */
static bool write_there(const char *digits)
{
    void *there;
    cudaIpcMemHandle_t handle;
    const cudaStream_t stream = stream_new();
    for (size_t i = 0; i < sizeof(handle); i++)
        sscanf(digits + 2 * i, "%2hhx", (unsigned char *)&handle + i);
    return cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess &&
           cudaMemsetAsync(there, 1, 4, stream) == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess &&
           cudaIpcCloseMemHandle(there) == cudaSuccess;
}

TEST(another_process_uses_memory_by_its_handle_and_the_same_one_cannot)
{
    cudaIpcMemHandle_t handle;
    void *there;
    int status = -1;
    uint32_t *const memory = device_new(8);
    const cudaStream_t stream = stream_new();
    assert_cuda(cudaMemsetAsync(memory, 2, 8, stream));
    assert_cuda(cudaStreamSynchronize(stream));
    assert_cuda(cudaIpcGetMemHandle(&handle, memory));
    const struct digits digits = digits_of(&handle);
    const pid_t child = fork();
    if (child == 0) {
        execl(program, program, "--write-there", digits.text, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(peek(memory, 0), 0x01010101);
    assert_int_equal(peek(memory, 1), 0x02020202);
    assert_int_equal(cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess),
                     cudaErrorMapBufferObjectFailed);
    cudaGetLastError();
    assert_cuda(cudaFree(memory));
}

/* ---- mistakes ---- */

/* What a mistake is made with: of device 0, which is current. */
struct objects {
    cudaStream_t stream, other;
    cudaEvent_t event;          /* recorded in `other`, without a time */
    uint32_t *memory;           /* of 4 elements */
    void *pinned;
};

static void free_what_is_open(const struct objects *with)
{
    cudaIpcMemHandle_t handle;
    void *there;
    sim_set_ipc(true, true);
    cudaIpcGetMemHandle(&handle, with->memory);
    cudaIpcOpenMemHandle(&there, handle, cudaIpcMemLazyEnablePeerAccess);
    cudaFree(with->memory);
}

static void make_a_handle_of_a_part(const struct objects *with)
{
    cudaIpcMemHandle_t handle;
    cudaIpcGetMemHandle(&handle, with->memory + 1);
}

static void free_twice(const struct objects *with)
{
    cudaFree(with->memory);
    cudaFree(with->memory);
}

static void use_host_memory(const struct objects *with)
{
    uint32_t local;
    test_fill(with->stream, &local, 1, 1);
}

static void use_foreign_memory(const struct objects *with)
{
    cudaSetDevice(1);
    uint32_t *const memory = device_new(4);
    cudaSetDevice(0);
    test_fill(with->stream, memory, 1, 1);
}

static void use_foreign_stream(const struct objects *with)
{
    cudaSetDevice(1);
    test_fill(with->stream, with->memory, 1, 1);
}

static void use_default_stream(const struct objects *with)
{
    test_fill(NULL, with->memory, 1, 1);
}

static void copy_past_the_end(const struct objects *with)
{
    char local[17] = "";
    cudaMemcpyAsync(with->memory, local, 17, cudaMemcpyHostToDevice, with->stream);
}

static void copy_in_wrong_direction(const struct objects *with)
{
    char local[16] = "";
    cudaMemcpyAsync(with->memory, local, 16, cudaMemcpyDeviceToHost, with->stream);
}

static void write_past_the_end(const struct objects *with)
{
    test_fill(with->stream, with->memory, 5, 1);
    cudaFree(with->memory);
}

static void use_dead_stream(const struct objects *with)
{
    cudaStreamDestroy(with->stream);
    cudaStreamSynchronize(with->stream);
}

static void use_dead_event(const struct objects *with)
{
    cudaEventDestroy(with->event);
    cudaEventQuery(with->event);
}

static void record_foreign_event(const struct objects *with)
{
    cudaSetDevice(1);
    cudaEventRecord(with->event, stream_new());
}

static void time_untimed_event(const struct objects *with)
{
    float ms;
    cudaEventElapsedTime(&ms, with->event, with->event);
}

static void time_event_never_recorded(const struct objects *with)
{
    float ms;
    cudaEvent_t event;
    (void)with;
    cudaEventCreate(&event);
    cudaEventElapsedTime(&ms, event, event);
}

static void enable_access_to_itself(const struct objects *with)
{
    (void)with;
    cudaDeviceEnablePeerAccess(0, 0);
}

static void enable_missing_access(const struct objects *with)
{
    (void)with;
    sim_set_peer_access(false);
    cudaDeviceEnablePeerAccess(1, 0);
}

static void call_cuda(void *argument)
{
    (void)argument;
    cudaGetLastError();
    cudaDeviceSynchronize();
}

static void call_cuda_in_host_function(const struct objects *with)
{
    cudaLaunchHostFunc(with->stream, call_cuda, NULL);
    cudaStreamSynchronize(with->stream);
}

static void miss_barrier(const struct objects *with)
{
    test_missing_at_barrier(with->stream, 63);
    cudaStreamSynchronize(with->stream);
}

static void miss_shuffle(const struct objects *with)
{
    test_missing_at_shuffle(with->stream, 5);
    cudaStreamSynchronize(with->stream);
}

static void use_two_barriers(const struct objects *with)
{
    test_two_barriers(with->stream);
    cudaStreamSynchronize(with->stream);
}

static void wait_in_some_threads(const struct objects *with)
{
    test_early(with->stream, 255, false, with->memory);
    cudaStreamSynchronize(with->stream);
}

static void wait_after_a_barrier(const struct objects *with)
{
    test_early(with->stream, 256, true, with->memory);
    cudaStreamSynchronize(with->stream);
}

#ifdef __SANITIZE_THREAD__
/* Time in between does not order two streams, nor does more work on the first. */
static void miss_wait(const struct objects *with)
{
    test_fill(with->stream, with->memory, 1, 1);
    usleep(20000);
    test_fill(with->stream, with->memory + 1, 1, 1);
    usleep(20000);
    cudaEventRecord(with->event, with->stream);
    test_fill(with->other, with->memory, 1, 2);
    cudaDeviceSynchronize();
}
#endif

/* ---- while the thread captures `stream` ---- */

static void capture_again(const struct objects *with)
{
    cudaStreamBeginCapture(with->stream, cudaStreamCaptureModeThreadLocal);
}

static void end_other_capture(const struct objects *with)
{
    cudaGraph_t graph;
    cudaStreamEndCapture(with->other, &graph);
}

static void record_and_end(const struct objects *with)
{
    cudaGraph_t graph;
    cudaEventRecord(with->event, with->stream);
    cudaStreamEndCapture(with->stream, &graph);
}

static void wait_after_capture(const struct objects *with)
{
    record_and_end(with);
    cudaStreamWaitEvent(with->other, with->event, 0);
}

static void query_after_capture(const struct objects *with)
{
    record_and_end(with);
    cudaEventQuery(with->event);
}

static void allocate(const struct objects *with)
{
    void *memory;
    (void)with;
    cudaMalloc(&memory, 4);
}

static void allocate_pinned(const struct objects *with)
{
    void *memory;
    (void)with;
    cudaHostAlloc(&memory, 4, 0);
}

static void pin(const struct objects *with)
{
    static char memory[4];
    (void)with;
    cudaHostRegister(memory, sizeof(memory), 0);
}

static void unpin_what_was_not_pinned(const struct objects *with) { cudaHostUnregister(with->pinned); }
static void free_memory(const struct objects *with) { cudaFree(with->memory); }
static void free_pinned(const struct objects *with) { cudaFreeHost(with->pinned); }
static void synchronize(const struct objects *with) { cudaStreamSynchronize(with->stream); }
static void query(const struct objects *with) { cudaStreamQuery(with->stream); }
static void synchronize_event(const struct objects *with) { cudaEventSynchronize(with->event); }
static void query_event(const struct objects *with) { cudaEventQuery(with->event); }
static void wait_for_event(const struct objects *with) { cudaStreamWaitEvent(with->stream, with->event, 0); }
static void synchronize_device(const struct objects *with) { (void)with; cudaDeviceSynchronize(); }
static void destroy_stream(const struct objects *with) { cudaStreamDestroy(with->stream); }

static void copy_pageable(const struct objects *with)
{
    uint32_t local = 0;
    cudaMemcpyAsync(with->memory, &local, 4, cudaMemcpyHostToDevice, with->stream);
}

static const struct death {
    const char *name;
    void (*die)(const struct objects *with);
    const char *message;
    bool captures;              /* `stream` is captured */
} deaths[] = {
    { "free_what_is_open", free_what_is_open, "is open in another process", false },
    { "make_a_handle_of_a_part", make_a_handle_of_a_part, "is not where an allocation of device memory begins", false },
    { "free_twice", free_twice, "is freed already", false },
    { "use_host_memory", use_host_memory, "is not device memory", false },
    { "use_foreign_memory", use_foreign_memory, "is memory of device 1, used on device 0", false },
    { "use_foreign_stream", use_foreign_stream, "device 1 is current, the stream is of device 0", false },
    { "use_default_stream", use_default_stream, "default streams of a device are not simulated", false },
    { "copy_past_the_end", copy_past_the_end, "go past the end of the allocation", false },
    { "copy_in_wrong_direction", copy_in_wrong_direction, "is device memory", false },
    { "use_dead_stream", use_dead_stream, "use of a stream that was destroyed", false },
    { "use_dead_event", use_dead_event, "use of an event that was destroyed", false },
    { "record_foreign_event", record_foreign_event, "an event of device 0, a stream of device 1", false },
    { "time_untimed_event", time_untimed_event, "cudaEventElapsedTime: an event", false },
    { "time_event_never_recorded", time_event_never_recorded, "cudaEventElapsedTime: an event", false },
    { "enable_access_to_itself", enable_access_to_itself, "device 0 cannot access memory of device 0", false },
    { "enable_missing_access", enable_missing_access, "device 0 cannot access memory of device 1", false },
    { "call_cuda_in_host_function", call_cuda_in_host_function, "called by a host function", false },
    { "miss_barrier", miss_barrier, "thread 63 has ended", false },
    { "miss_shuffle", miss_shuffle, "thread 5 waits elsewhere", false },
    { "wait_in_some_threads", wait_in_some_threads, "255 of 256 threads of a block wait", false },
    { "wait_after_a_barrier", wait_after_a_barrier, "has not waited for the kernels before", false },
    { "use_two_barriers", use_two_barriers, "waits elsewhere", false },
#ifdef __SANITIZE_THREAD__
    { "miss_wait", miss_wait, "data race", false },
#endif
    { "write_past_the_end", write_past_the_end, "bytes past the end", false },
    { "capture_again", capture_again, "cudaStreamBeginCapture is called while", true },
    { "end_other_capture", end_other_capture, "does not capture this stream", true },
    { "allocate", allocate, "cudaMalloc is called while", true },
    { "allocate_pinned", allocate_pinned, "cudaHostAlloc is called while", true },
    { "pin", pin, "cudaHostRegister is called while", true },
    { "unpin_what_was_not_pinned", unpin_what_was_not_pinned, "was not allocated so", false },
    { "free_memory", free_memory, "cudaFree is called while", true },
    { "free_pinned", free_pinned, "cudaFreeHost is called while", true },
    { "synchronize", synchronize, "cudaStreamSynchronize is called while", true },
    { "query", query, "cudaStreamQuery is called while", true },
    { "synchronize_event", synchronize_event, "cudaEventSynchronize is called while", true },
    { "query_event", query_event, "cudaEventQuery is called while", true },
    { "wait_for_event", wait_for_event, "not recorded in the capture", true },
    { "wait_after_capture", wait_after_capture, "of another capture", true },
    { "query_after_capture", query_after_capture, "has no point in time", true },
    { "synchronize_device", synchronize_device, "cudaDeviceSynchronize is called while", true },
    { "destroy_stream", destroy_stream, "destroyed while it is captured", true },
    { "copy_pageable", copy_pageable, "pageable memory is called while", true },
};

/* Run this program for one of the deaths; its messages to `text`. */
static int run_death(const char *name, char *text, size_t text_size)
{
    int ends[2], status = -1;
    size_t used = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execl(program, program, "--die", name, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && used + 1 < text_size; used += (size_t)(got > 0 ? got : 0))
        got = read(ends[0], text + used, text_size - 1 - used);
    text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

TEST(mistakes_end_the_test_with_a_message)
{
    for (size_t i = 0; i < sizeof(deaths) / sizeof(*deaths); i++) {
        char text[8192];
        const int status = run_death(deaths[i].name, text, sizeof(text));
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            fail_msg("%s went unnoticed", deaths[i].name);
        if (strstr(text, deaths[i].message) == NULL && strstr(text, "Sanitizer") == NULL)
            fail_msg("%s: %s", deaths[i].name, text);
    }
}

static int die(const char *name)
{
    struct objects with = { .stream = stream_new(), .other = stream_new(), .event = event_new() };
    with.memory = device_new(4 * sizeof(*with.memory));
    with.pinned = pinned_new(4);
    cudaEventRecord(with.event, with.other);
    for (size_t i = 0; i < sizeof(deaths) / sizeof(*deaths); i++) {
        if (strcmp(deaths[i].name, name) != 0)
            continue;
        if (deaths[i].captures)
            cudaStreamBeginCapture(with.stream, cudaStreamCaptureModeThreadLocal);
        deaths[i].die(&with);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--die") == 0)
        return die(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--write-there") == 0)
        return write_there(argv[2]) ? 0 : 1;
    program = argv[0];
    return tests_run(NULL, NULL);
}
