/* Kernels for the tests of the simulation, written like those of compute/cuda/kernels.cu. */
#include "tests/sim/check/sim_test_kernels.h"

#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "compute/cuda/kernel_types.cuh"

static __global__ void scale(float factor, const float *in, float *out)
{
    const unsigned int row = (blockIdx.z * blockDim.z + threadIdx.z) * gridDim.y * blockDim.y +
                             blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned int i = row * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = factor * in[i] + (float)i;
}

static __device__ float sum_of_warp(float value)
{
    for (unsigned int delta = 16; delta > 0; delta /= 2)
        value += __shfl_down_sync(0xFFFFFFFFu, value, delta);
    return value;
}

/* The block's sum, in thread 0. */
static __device__ float sum_of_block(float value)
{
    __shared__ float warps[32];
    const unsigned int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    value = sum_of_warp(value);
    if (lane == 0)
        warps[warp] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
    __syncthreads();
    return warp == 0 ? sum_of_warp(value) : 0;
}

static __global__ void sum(uint32_t count, const float *in, float *partials, unsigned int *counter, float *total)
{
    __shared__ bool is_last;
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const float of_block = sum_of_block(i < count ? in[i] : 0);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = of_block;
        __threadfence();
        is_last = atomicAdd(counter, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last || threadIdx.x != 0)
        return;
    float added = 0;
    for (uint32_t block = 0; block < gridDim.x; block++)
        added += partials[block];
    *total = added;
    *counter = 0;
}

static __global__ void shuffles(uint32_t *down, uint32_t *other, uint32_t *from)
{
    const uint32_t lane = threadIdx.x;
    down[lane] = __shfl_down_sync(0xFFFFFFFFu, lane, 3);
    other[lane] = __shfl_xor_sync(0xFFFFFFFFu, 100 + lane, 5);
    __syncwarp();
    from[lane] = __shfl_sync(0xFFFFFFFFu, 200 + lane, 7);
}

template <typename T> __device__ float there_and_back(float value);
template <> __device__ float there_and_back<__half>(float value)
{
    return __half2float(__float2half_rn(value));
}
template <> __device__ float there_and_back<__nv_bfloat16>(float value)
{
    return __bfloat162float(__float2bfloat16_rn(value));
}

template <typename T, int STEP> static __global__ void round_trip(uint32_t count, const float *in, float *out)
{
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += STEP)
        out[i] = there_and_back<T>(in[i]);
}

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

template <typename... P, typename... A>
static cudaError_t launch(cudaStream_t stream, dim3 grid, dim3 block, void (*kernel)(P...), A... arguments)
{
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

cudaError_t test_scale(cudaStream_t stream, dim3 grid, dim3 block, float factor, const float *in, float *out)
{
    return launch(stream, grid, block, scale, factor, in, out);
}

cudaError_t test_sum(cudaStream_t stream, uint32_t threads, uint32_t count, const float *in, float *partials,
                     unsigned int *counter, float *total)
{
    return launch(stream, (count + threads - 1) / threads, threads, sum, count, in, partials, counter, total);
}

cudaError_t test_shuffles(cudaStream_t stream, uint32_t *down, uint32_t *other, uint32_t *from)
{
    return launch(stream, 1, 32, shuffles, down, other, from);
}

cudaError_t test_round(cudaStream_t stream, uint32_t count, const float *in, float *fp16, float *bf16)
{
    const cudaError_t status = launch(stream, 2, 32, round_trip<__half, 64>, count, in, fp16);
    return status != cudaSuccess ? status : launch(stream, 2, 32, round_trip<__nv_bfloat16, 64>, count, in, bf16);
}

cudaError_t test_order(cudaStream_t stream, uint32_t blocks, uint32_t *value)
{
    return launch(stream, blocks, 1, order, value);
}

cudaError_t test_neighbour(cudaStream_t stream, uint32_t threads, int barrier, uint32_t *out)
{
    return launch(stream, 1, threads, neighbour, barrier, out);
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
