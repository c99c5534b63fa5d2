/* What the files of kernels share: values of three types as fp32, eight at a time, and
 * launches of one thread per piece of work. */
#ifndef PIPETRAIN_KERNEL_TYPES_CUH
#define PIPETRAIN_KERNEL_TYPES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <initializer_list>
#include <stddef.h>
#include <stdint.h>

#include "compute/cuda/kernels.h"

#define THREADS 256u        /* of every block; a thread keeps at most 84 registers: two run side by side */
#define WARP 32u
#define WHOLE_WARP 0xffffffffu
#define GROUP 8u            /* values a thread reads at once: 16 bytes of the 16-bit types */

/* In front of a loop that waits for memory: loads of four, or two, of its turns are under way
 * together. */
#ifdef __CUDACC__
#define FOUR_AT_ONCE _Pragma("unroll 4")
#define TWO_AT_ONCE _Pragma("unroll 2")
#else
#define FOUR_AT_ONCE
#define TWO_AT_ONCE
#endif

/* One row per value_type. */
#define FOR_TYPES(kernel) { kernel<float>, kernel<__half>, kernel<__nv_bfloat16> }

static __device__ inline float widened(float value) { return value; }
static __device__ inline float widened(__half value) { return __half2float(value); }
static __device__ inline float widened(__nv_bfloat16 value) { return __bfloat162float(value); }

static __device__ inline void narrowed(float from, float *to) { *to = from; }
static __device__ inline void narrowed(float from, __half *to) { *to = __float2half_rn(from); }
static __device__ inline void narrowed(float from, __nv_bfloat16 *to) { *to = __float2bfloat16_rn(from); }

/* COUNT neighbours in memory, moved by as few accesses of up to 16 bytes as they take. */
template <typename T, uint32_t COUNT>
struct alignas(sizeof(T) * COUNT < 16 ? sizeof(T) * COUNT : 16) packed { T value[COUNT]; };

/* The same in registers. */
template <uint32_t COUNT>
struct floats { float value[COUNT]; };

template <uint32_t COUNT, typename T>
static __device__ inline floats<COUNT> read(const T *from)
{
    const packed<T, COUNT> pack = *reinterpret_cast<const packed<T, COUNT> *>(from);
    floats<COUNT> values;
    for (uint32_t k = 0; k < COUNT; k++)
        values.value[k] = widened(pack.value[k]);
    return values;
}

template <uint32_t COUNT, typename T>
static __device__ inline void write(T *to, const floats<COUNT> &values)
{
    packed<T, COUNT> pack;
    for (uint32_t k = 0; k < COUNT; k++)
        narrowed(values.value[k], &pack.value[k]);
    *reinterpret_cast<packed<T, COUNT> *>(to) = pack;
}

static __device__ inline size_t thread_number()
{
    return (size_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* A GPU divides 64 bits by some fifty instructions and 32 by a dozen; nearly all numbers of threads have 32. */
static __device__ inline size_t divided(size_t number, uint32_t by, uint32_t *rest)
{
    if (number <= UINT32_MAX) {
        const uint32_t small = (uint32_t)number;
        *rest = small % by;
        return small / by;
    }
    *rest = (uint32_t)(number % by);
    return number / by;
}

/* `rest` of at most COUNT values: fewer ones alone, at the end of an array. */
template <uint32_t COUNT, typename T>
static __device__ inline floats<COUNT> read_some(const T *from, size_t rest)
{
    if (rest >= COUNT)
        return read<COUNT>(from);
    floats<COUNT> values = {};
    for (uint32_t k = 0; k < COUNT; k++)
        if (k < rest)
            values.value[k] = widened(from[k]);
    return values;
}

template <uint32_t COUNT, typename T>
static __device__ inline void write_some(T *to, const floats<COUNT> &values, size_t rest)
{
    if (rest >= COUNT) {
        write(to, values);
        return;
    }
    for (uint32_t k = 0; k < COUNT; k++)
        if (k < rest)
            narrowed(values.value[k], &to[k]);
}

/* NaN becomes 0, as in the reference. */
static __device__ inline floats<GROUP> positive(const floats<GROUP> &values)
{
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++)
        result.value[k] = values.value[k] > 0 ? values.value[k] : 0.0f;
    return result;
}

static __device__ inline floats<GROUP> where_positive(const floats<GROUP> &out, const floats<GROUP> &gradient)
{
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++)
        result.value[k] = out.value[k] > 0 ? gradient.value[k] : 0.0f;
    return result;
}

static __device__ inline floats<GROUP> plus(const floats<GROUP> &a, const floats<GROUP> &b)
{
    floats<GROUP> sum;
    for (uint32_t k = 0; k < GROUP; k++)
        sum.value[k] = a.value[k] + b.value[k];
    return sum;
}

/* ---- launches ---- */

static inline size_t pieces(size_t count, size_t of)
{
    return count / of + (count % of != 0);
}

template <typename T>
struct exactly { typedef T type; };

/* Arguments are converted to the kernel's own types. */
template <typename... P>
static cudaError_t launch_blocks(cudaStream_t stream, size_t blocks_x, size_t blocks_y, void (*kernel)(P...),
                                 typename exactly<P>::type... arguments)
{
    if (blocks_x == 0 || blocks_y == 0)
        return cudaSuccess;
    if (blocks_x > INT32_MAX || blocks_y > UINT16_MAX)
        return cudaErrorInvalidConfiguration;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks_x, (unsigned)blocks_y);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <typename... P>
static cudaError_t launch_threads(cudaStream_t stream, size_t threads, void (*kernel)(P...),
                                  typename exactly<P>::type... arguments)
{
    return launch_blocks(stream, pieces(threads, THREADS), 1, kernel, arguments...);
}

/* Found here, a pointer that breaks the header's rule costs one call; found by the device, the run. */
static inline bool is_aligned(std::initializer_list<const void *> pointers)
{
    for (const void *pointer : pointers)
        if ((uintptr_t)pointer % 16 != 0)
            return false;
    return true;
}

#endif
