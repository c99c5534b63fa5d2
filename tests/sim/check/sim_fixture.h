/* Shared by the tests of the simulated CUDA runtime: streams, events and memory of the current device. All functions
 * assert that they succeed. Include it after cmocka's headers. */
#ifndef PIPETRAIN_SIM_FIXTURE_H
#define PIPETRAIN_SIM_FIXTURE_H

#include <cuda_runtime_api.h>
#include <semaphore.h>

#include "tests/sim/check/sim_test_kernels.h"
#include "tests/sim/sim.h"

#define assert_cuda(call) assert_int_equal((call), cudaSuccess)

static inline cudaStream_t stream_new(void)
{
    cudaStream_t stream;
    assert_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0));
    assert_non_null(stream);
    return stream;
}

static inline cudaEvent_t event_new(void)
{
    cudaEvent_t event;
    assert_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static inline void *device_new(size_t bytes)
{
    void *memory;
    assert_cuda(cudaMalloc(&memory, bytes));
    assert_non_null(memory);
    return memory;
}

static inline void *pinned_new(size_t bytes)
{
    void *memory;
    assert_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
    return memory;
}

/* Element i of device memory, which is memory of the host, after all work of the current device. */
static inline uint32_t peek(const uint32_t *memory, size_t i)
{
    assert_cuda(cudaDeviceSynchronize());
    return memory[i];
}

/* A stream waits at a closed door until the test opens it. */
struct door {
    sem_t reached, opened;
};

static inline void door_call(void *argument)
{
    struct door *door = argument;
    sem_post(&door->reached);
    while (sem_wait(&door->opened) != 0)
        continue;
}

static inline void door_close(struct door *door, cudaStream_t stream)
{
    sem_init(&door->reached, 0, 0);
    sem_init(&door->opened, 0, 0);
    assert_cuda(cudaLaunchHostFunc(stream, door_call, door));
}

static inline void door_open(struct door *door)
{
    sem_post(&door->opened);
}

#endif
