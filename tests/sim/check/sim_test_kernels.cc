/* Kernels for the tests of the simulation, written like those of compute/cuda/kernels.cu. */
#define LAUNCHES_EARLY          /* launch_blocks; launch() does not */
#include "tests/sim/check/sim_test_kernels.h"

#include <cuda_runtime.h>

#include "compute/cuda/kernel_types.cuh"

static __global__ void order(uint32_t *value)
{
    *value = 2 * *value + blockIdx.x;
}

static __global__ void neighbour(int barrier, uint32_t *out)
{
    __shared__ uint32_t left[1024];
    left[threadIdx.x] = 0;
    __syncthreads();
    left[threadIdx.x] = 1000 + threadIdx.x;
    if (barrier)
        __syncthreads();
    out[threadIdx.x] = left[(threadIdx.x + 1) % blockDim.x];
}

static __global__ void missing_at_barrier(uint32_t which)
{
    if (threadIdx.x == which)
        return;
    __syncthreads();
}

static __global__ void missing_at_shuffle(uint32_t which)
{
    (void)__shfl_xor_sync(0xFFFFFFFFu, which, 1);
    if (threadIdx.x != which)
        (void)__shfl_xor_sync(0xFFFFFFFFu, which, 1);
    __syncthreads();
}

static __global__ void two_barriers()
{
    if (threadIdx.x % 2 == 0)
        __syncthreads();
    else
        __syncthreads();
}

static __global__ void fill(uint32_t *out, uint32_t count, uint32_t value)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[i] = value;
}

static __global__ void early(uint32_t from, int barrier, uint32_t *value)
{
    if (barrier)
        __syncthreads();
    if (threadIdx.x < from)
        await_kernels_before();
    if (threadIdx.x == 0)
        *value += 1;
}

template <typename... P, typename... A>
static cudaError_t launch(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(P...), A... arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

cudaError_t test_order(cudaStream_t stream, uint32_t blocks, uint32_t *value)
{
    return launch(stream, blocks, 1, order, value);
}

cudaError_t test_neighbour(cudaStream_t stream, uint32_t threads, int barrier, uint32_t *out)
{
    return launch(stream, 1, threads, neighbour, barrier, out);
}

cudaError_t test_early(cudaStream_t stream, uint32_t from, int barrier, uint32_t *value)
{
    return launch_blocks(stream, 1, 1, early, from, barrier, value);
}

cudaError_t test_missing_at_barrier(cudaStream_t stream, uint32_t which)
{
    return launch(stream, 1, 64, missing_at_barrier, which);
}

cudaError_t test_missing_at_shuffle(cudaStream_t stream, uint32_t which)
{
    return launch(stream, 1, 64, missing_at_shuffle, which);
}

cudaError_t test_two_barriers(cudaStream_t stream)
{
    return launch(stream, 1, 64, two_barriers);
}

cudaError_t test_fill(cudaStream_t stream, uint32_t *out, uint32_t count, uint32_t value)
{
    return launch(stream, (count + 255) / 256, 256, fill, out, count, value);
}

size_t test_divided(size_t number, uint32_t by, uint32_t *rest)
{
    return divided(number, by, rest);
}
