/* Tests of the simulated CUDA runtime: devices, memory, streams, events, graphs and failures on demand. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_fixture.h"

static void pause_ms(long ms)
{
    const struct timespec time = { .tv_nsec = ms * 1000000 };
    nanosleep(&time, NULL);
}

/* ---- devices and memory ---- */

TEST(there_are_as_many_devices_as_set_up)
{
    int count, device, value;
    struct cudaDeviceProp properties, other;
    assert_cuda(cudaGetDeviceCount(&count));
    assert_int_equal(count, 2);
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    assert_int_equal(cudaSetDevice(-1), cudaErrorInvalidDevice);
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaGetDeviceProperties(&properties, 1));
    assert_string_equal(properties.name, "Simulated GPU");
    assert_int_equal(properties.totalGlobalMem, 64 << 20);
    assert_cuda(cudaDeviceGetAttribute(&value, cudaDevAttrHostNumaId, 0));
    assert_int_equal(cudaDeviceGetAttribute(&value, cudaDevAttrHostNumaId, 2), cudaErrorInvalidDevice);
    assert_cuda(cudaGetDeviceProperties(&other, 0));
    assert_int_not_equal(properties.pciBusID, other.pciBusID);
}

TEST(memory_is_limited_and_full_of_nans_until_written)
{
    size_t free_before, free_after, total;
    void *refused = &total;
    assert_cuda(cudaMemGetInfo(&free_before, &total));
    assert_int_equal(total, 64 << 20);
    float *const memory = device_new(1000 * sizeof(float));
    assert_int_equal((uintptr_t)memory % 256, 0);
    for (size_t i = 0; i < 1000; i++)
        assert_true(isnan(memory[i]));
    assert_cuda(cudaMemGetInfo(&free_after, &total));
    assert_int_equal(free_before - free_after, 1000 * sizeof(float));
    assert_int_equal(cudaMalloc(&refused, free_after + 1), cudaErrorMemoryAllocation);
    assert_null(refused);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaSuccess);
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaMemGetInfo(&free_after, &total));
    assert_int_equal(free_before, free_after);
    assert_cuda(cudaFree(NULL));
}

TEST(peer_access_is_enabled_once_and_only_where_there_is_any)
{
    int can;
    sim_set_peer_access(false);
    assert_cuda(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 0);
    sim_set_peer_access(true);
    assert_cuda(cudaDeviceCanAccessPeer(&can, 0, 0));
    assert_int_equal(can, 0);
    assert_cuda(cudaDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    assert_cuda(cudaSetDevice(1));
    uint32_t *const memory = device_new(4);
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaDeviceEnablePeerAccess(1, 0));
    assert_int_equal(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
    cudaStream_t stream = stream_new();
    assert_cuda(test_fill(stream, memory, 1, 42));
    assert_int_equal(peek(memory, 0), 42);
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
}

TEST(only_pinned_copies_run_beside_the_caller)
{
    uint32_t pageable = 5;
    struct door door;
    cudaStream_t stream = stream_new();
    uint32_t *const pinned = pinned_new(4);
    uint32_t *const memory = device_new(8);
    sim_calls_clear();
    *pinned = 1;
    door_close(&door, stream);
    assert_cuda(cudaMemcpyAsync(memory, pinned, 4, cudaMemcpyHostToDevice, stream));
    assert_cuda(cudaMemcpyAsync(memory + 1, memory, 4, cudaMemcpyDeviceToDevice, stream));
    *pinned = 7;                /* not read yet */
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    door_open(&door);
    assert_cuda(cudaStreamSynchronize(stream));
    assert_cuda(cudaStreamQuery(stream));
    assert_int_equal(peek(memory, 1), 7);
    assert_int_equal(sim_calls("pageable copy"), 0);
    assert_cuda(cudaMemcpyAsync(memory, &pageable, 4, cudaMemcpyHostToDevice, stream));
    pageable = 6;
    assert_int_equal(peek(memory, 0), 5);
    assert_int_equal(sim_calls("pageable copy"), 1);
    assert_int_equal(sim_calls("cudaMemcpyAsync"), 3);
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaFreeHost(pinned));
}

TEST(a_fill_runs_beside_the_caller)
{
    uint32_t *const memory = device_new(4);
    cudaStream_t stream = stream_new();
    sim_delay_us(20000);
    assert_cuda(cudaMemsetAsync(memory, 1, 4, stream));
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_cuda(cudaStreamSynchronize(stream));
    sim_delay_us(0);
    assert_int_equal(peek(memory, 0), 0x01010101);
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
}

/* ---- streams and events ---- */

TEST(a_wait_holds_for_the_record_before_it_alone)
{
    cudaStream_t producer = stream_new(), consumer = stream_new();
    cudaEvent_t ready = event_new();
    struct door first, second;
    uint32_t *const memory = device_new(8);
    assert_cuda(cudaStreamWaitEvent(consumer, ready, 0));      /* never recorded: no wait */
    assert_cuda(cudaStreamSynchronize(consumer));
    assert_cuda(cudaEventQuery(ready));
    assert_cuda(cudaEventSynchronize(ready));
    door_close(&first, producer);
    assert_cuda(test_fill(producer, memory, 1, 1));
    assert_cuda(cudaEventRecord(ready, producer));
    assert_cuda(cudaStreamWaitEvent(consumer, ready, 0));
    assert_cuda(cudaMemcpyAsync(memory + 1, memory, 4, cudaMemcpyDeviceToDevice, consumer));
    door_close(&second, producer);
    assert_cuda(cudaEventRecord(ready, producer));             /* the wait knows nothing of it */
    pause_ms(5);
    assert_int_equal(cudaStreamQuery(consumer), cudaErrorNotReady);
    door_open(&first);
    assert_cuda(cudaStreamSynchronize(consumer));
    assert_int_equal(cudaEventQuery(ready), cudaErrorNotReady);
    door_open(&second);
    assert_cuda(cudaEventSynchronize(ready));
    assert_cuda(cudaEventQuery(ready));
    assert_int_equal(peek(memory, 1), 1);
    assert_cuda(cudaEventDestroy(ready));
    assert_cuda(cudaStreamDestroy(consumer));
    assert_cuda(cudaStreamDestroy(producer));
    assert_cuda(cudaFree(memory));
}

TEST(events_order_streams_of_two_devices)
{
    cudaStream_t here = stream_new();
    uint32_t *const memory = device_new(4);
    cudaEvent_t event = event_new();
    struct door door;
    assert_cuda(cudaSetDevice(1));
    cudaStream_t there = stream_new();
    uint32_t *const copy = device_new(4);
    door_close(&door, there);
    assert_cuda(cudaSetDevice(0));
    assert_cuda(test_fill(here, memory, 1, 9));
    assert_cuda(cudaEventRecord(event, here));
    assert_cuda(cudaStreamWaitEvent(there, event, 0));
    assert_cuda(cudaMemcpyAsync(copy, memory, 4, cudaMemcpyDeviceToDevice, there));
    assert_cuda(cudaEventSynchronize(event));
    door_open(&door);
    assert_cuda(cudaStreamSynchronize(there));
    assert_int_equal(peek(copy, 0), 9);
    assert_cuda(cudaStreamDestroy(here));
    assert_cuda(cudaStreamDestroy(there));
    assert_cuda(cudaEventDestroy(event));
    assert_cuda(cudaFree(memory));
    assert_cuda(cudaFree(copy));
}

TEST(time_lies_between_timed_events_that_passed)
{
    cudaStream_t stream = stream_new();
    cudaEvent_t start, end;
    uint32_t *const memory = device_new(4);
    struct door door;
    float ms = -1;
    assert_cuda(cudaEventCreateWithFlags(&start, cudaEventDefault));
    assert_cuda(cudaEventCreateWithFlags(&end, cudaEventDefault));
    assert_cuda(cudaEventRecord(start, stream));
    door_close(&door, stream);
    sim_delay_us(3000);
    assert_cuda(test_fill(stream, memory, 1, 1));
    assert_cuda(test_fill(stream, memory, 1, 2));
    assert_cuda(cudaEventRecord(end, stream));
    assert_int_equal(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
    door_open(&door);
    assert_cuda(cudaStreamSynchronize(stream));
    sim_delay_us(0);
    assert_cuda(cudaEventElapsedTime(&ms, start, end));
    assert_true(ms >= 6.0f);
    assert_cuda(cudaEventElapsedTime(&ms, end, start));
    assert_true(ms <= -6.0f);
    assert_cuda(cudaEventDestroy(start));
    assert_cuda(cudaEventDestroy(end));
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
}

TEST(a_destroyed_stream_finishes_its_work)
{
    struct door door;
    cudaStream_t stream = stream_new();
    uint32_t *const memory = device_new(4);
    cudaEvent_t event = event_new();
    door_close(&door, stream);
    assert_cuda(test_fill(stream, memory, 1, 3));
    assert_cuda(cudaEventRecord(event, stream));
    assert_cuda(cudaStreamDestroy(stream));
    door_open(&door);
    assert_cuda(cudaEventSynchronize(event));
    assert_int_equal(peek(memory, 0), 3);
    assert_cuda(cudaEventDestroy(event));
    assert_cuda(cudaFree(memory));
}

/* ---- graphs ---- */

TEST(a_captured_stream_runs_at_the_launches_of_its_graph_only)
{
    cudaStream_t stream = stream_new();
    uint32_t *const memory = device_new(4);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    assert_cuda(cudaMemsetAsync(memory, 0, 4, stream));
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_cuda(test_order(stream, 2, memory));
    assert_cuda(test_order(stream, 1, memory));
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_int_equal(peek(memory, 0), 0);
    assert_cuda(cudaGraphInstantiate(&exec, graph, 0));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaGraphUpload(exec, stream));
    /* Blocks ascending: 0 -> 0 -> 1 -> 2; every launch changes the direction: two per graph. */
    assert_cuda(cudaGraphLaunch(exec, stream));
    assert_int_equal(peek(memory, 0), 2);
    assert_cuda(cudaGraphLaunch(exec, stream));
    assert_cuda(cudaGraphExecDestroy(exec));            /* while it may be running */
    assert_int_equal(peek(memory, 0), 2 * (2 * (2 * 2) + 1));
    assert_cuda(cudaStreamDestroy(stream));
    assert_cuda(cudaFree(memory));
}

/* Returns `stream` if it succeeds, else NULL. */
static void *allocate_beside(void *stream)
{
    void *memory = NULL;
    return cudaMalloc(&memory, 4) == cudaSuccess && cudaFree(memory) == cudaSuccess ? stream : NULL;
}

TEST(a_capture_limits_its_own_thread_only)
{
    cudaStream_t stream = stream_new();
    pthread_t thread;
    void *good;
    cudaGraph_t graph;
    assert_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(pthread_create(&thread, NULL, allocate_beside, stream), 0);
    assert_int_equal(pthread_join(thread, &good), 0);
    assert_non_null(good);
    assert_cuda(cudaStreamEndCapture(stream, &graph));
    assert_cuda(cudaGraphDestroy(graph));
    assert_cuda(cudaStreamDestroy(stream));
}

/* ---- failures ---- */

TEST(calls_fail_by_number)
{
    void *memory;
    sim_calls_clear();
    sim_fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
    memory = device_new(4);
    assert_cuda(cudaFree(memory));
    assert_int_equal(cudaMalloc(&memory, 4), cudaErrorMemoryAllocation);
    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
    memory = device_new(4);
    assert_int_equal(sim_calls("cudaMalloc"), 3);
    sim_fail("cudaFree", 0, cudaErrorLaunchFailure);
    for (int i = 0; i < 3; i++)
        assert_int_equal(cudaFree(memory), cudaErrorLaunchFailure);
    sim_fail_clear();
    assert_cuda(cudaFree(memory));
    cudaStream_t stream = stream_new();
    sim_fail("cudaLaunchKernelEx", 1, cudaErrorLaunchOutOfResources);
    assert_int_equal(test_two_barriers(stream), cudaErrorLaunchOutOfResources);
    assert_string_equal(cudaGetErrorName(cudaErrorLaunchOutOfResources), "cudaErrorLaunchOutOfResources");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_cuda(cudaStreamDestroy(stream));
}

static void *allocate_twice(void *arg)
{
    atomic_int *const done = arg;
    for (int i = 0; i < 2; i++) {
        assert_cuda(cudaFree(device_new(4)));
        atomic_fetch_add(done, 1);
    }
    return NULL;
}

TEST(calls_block_by_number_until_all_are_let_go)
{
    pthread_t thread;
    atomic_int done = 0;
    sim_block("cudaMalloc", 2);
    assert_int_equal(pthread_create(&thread, NULL, allocate_twice, &done), 0);
    for (int i = 0; i < 1000 && atomic_load(&done) == 0; i++)
        pause_ms(1);
    pause_ms(20);
    assert_int_equal(atomic_load(&done), 1);
    assert_cuda(cudaFree(device_new(4)));               /* other calls go on */
    sim_block_clear();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&done), 2);
}

TEST(a_kernel_that_blocks_holds_up_its_stream_alone)
{
    cudaStream_t stuck = stream_new(), other = stream_new();
    uint32_t *const memory = device_new(2 * sizeof(*memory));
    sim_calls_clear();
    sim_block("kernel", 2);
    assert_cuda(test_fill(stuck, memory, 1, 1));
    assert_cuda(test_fill(stuck, memory, 1, 1));
    while (sim_calls("kernel") < 2)
        pause_ms(1);
    assert_int_equal(cudaStreamQuery(stuck), cudaErrorNotReady);
    assert_cuda(test_fill(other, memory + 1, 1, 2));
    assert_cuda(cudaStreamSynchronize(other));
    assert_int_equal(cudaStreamQuery(stuck), cudaErrorNotReady);
    cudaGetLastError();
    sim_block_clear();
    assert_cuda(cudaStreamSynchronize(stuck));
    assert_cuda(cudaStreamDestroy(stuck));
    assert_cuda(cudaStreamDestroy(other));
    assert_cuda(cudaFree(memory));
}

int main(void)
{
    sim_setup(2, 64 << 20);
    return tests_run(NULL, NULL);
}
