/* Shared by the files of kernels: values of three types as fp32, eight at a time; launches of one thread per work item;
 * how images and matrices are divided among threads and blocks. */
#ifndef PIPETRAIN_KERNEL_TYPES_CUH
#define PIPETRAIN_KERNEL_TYPES_CUH

#include <atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <initializer_list>
#include <stddef.h>
#include <stdint.h>

#include "compute/cuda/kernels.h"

#define THREADS 256u        /* threads of every block; with at most 84 registers a thread, two blocks run per
                             * multiprocessor */
#define WARP 32u
#define WHOLE_WARP 0xffffffffu
#define GROUP 8u            /* values that a thread reads at once: 16 bytes of a 16-bit type */

/* Before a loop that is bound by memory latency: loads of four, or two, iterations are in flight together. */
#ifdef __CUDACC__
#define FOUR_AT_ONCE _Pragma("unroll 4")
#define TWO_AT_ONCE _Pragma("unroll 2")
#else
#define FOUR_AT_ONCE
#define TWO_AT_ONCE
#endif

/* One instance per value_type. */
#define FOR_TYPES(kernel) { kernel<float>, kernel<__half>, kernel<__nv_bfloat16> }

static __device__ inline float widened(float value) { return value; }
static __device__ inline float widened(__half value) { return __half2float(value); }
static __device__ inline float widened(__nv_bfloat16 value) { return __bfloat162float(value); }

static __device__ inline void narrowed(float from, float *to) { *to = from; }
static __device__ inline void narrowed(float from, __half *to) { *to = __float2half_rn(from); }
static __device__ inline void narrowed(float from, __nv_bfloat16 *to) { *to = __float2bfloat16_rn(from); }

/* COUNT adjacent values in memory, accessed with as few loads of up to 16 bytes as possible. */
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

/* A 64-bit division takes about fifty instructions, a 32-bit one a dozen; nearly all thread numbers have 32 bits. */
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

/* Reads, or writes, the first min(rest, COUNT) values: one by one if there are fewer than COUNT, at the end of an
 * array. */
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

/* max(value, 0); NaN becomes 0, as in the reference. */
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

/* ---- random words ---- */

struct random_words { uint32_t word[4]; };

/* random_mix of stage/random.h on the device. */
static __device__ inline random_words philox(struct random_key key, random_words counter)
{
    uint32_t *const word = counter.word;
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)word[0] * 0xD2511F53u, product1 = (uint64_t)word[2] * 0xCD9E8D57u;
        word[0] = (uint32_t)(product1 >> 32) ^ word[1] ^ key.word[0];
        word[1] = (uint32_t)product1;
        word[2] = (uint32_t)(product0 >> 32) ^ word[3] ^ key.word[1];
        word[3] = (uint32_t)product0;
        key.word[0] += 0x9E3779B9u;
        key.word[1] += 0xBB67AE85u;
    }
    return counter;
}

/* ---- launches ---- */

/* The first statement of a kernel that is launched early (programmatic dependent launch, CUDA programming guide): such
 * a kernel may start once all blocks of the kernel before it in the stream have started, so that its launch overlaps
 * with that kernel. This waits until all kernels before have ended and what they wrote can be read. All threads wait:
 * so once a kernel has ended, all before it have. */
static __device__ inline void await_kernels_before()
{
#if !defined(__CUDACC__) || __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();  /* the next kernel may start */
#endif
}

#define EARLY_DEVICES_MAX 64

/* Does the kernel's code for the current device wait? Code for an older architecture, from which a driver makes code
 * for the device, does not. All kernels are compiled for the same architectures, so the first answer holds for all. */
static inline bool waits_for_kernels_before(const void *kernel)
{
    enum answer : unsigned char { UNKNOWN, NO, YES };
    static std::atomic<unsigned char> answers[EARLY_DEVICES_MAX];
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= EARLY_DEVICES_MAX)
        return false;
    unsigned char answer = answers[device].load(std::memory_order_relaxed);
    if (answer == UNKNOWN) {
        cudaFuncAttributes attributes = {};
        if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess)
            return false;       /* the launch reports what is wrong */
        answer = attributes.ptxVersion >= 90 ? YES : NO;
        answers[device].store(answer, std::memory_order_relaxed);
    }
    return answer == YES;
}

static inline size_t pieces(size_t count, size_t of)
{
    return count / of + (count % of != 0);
}

template <typename T>
struct exactly { typedef T type; };

/* A file whose kernels all begin with await_kernels_before defines LAUNCHES_EARLY before it includes this one. */
#ifdef LAUNCHES_EARLY
#define IS_EARLY true
#else
#define IS_EARLY false
#endif

/* Arguments are converted to the kernel's own types. */
template <typename... P>
static cudaError_t launch_blocks(cudaStream_t stream, size_t blocks_x, size_t blocks_y, void (*kernel)(P...),
                                 typename exactly<P>::type... arguments)
{
    if (blocks_x == 0 || blocks_y == 0)
        return cudaSuccess;
    if (blocks_x > INT32_MAX || blocks_y > UINT16_MAX)
        return cudaErrorInvalidConfiguration;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks_x, (unsigned)blocks_y);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = IS_EARLY && waits_for_kernels_before((const void *)kernel) ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <typename... P>
static cudaError_t launch_threads(cudaStream_t stream, size_t threads, void (*kernel)(P...),
                                  typename exactly<P>::type... arguments)
{
    return launch_blocks(stream, pieces(threads, THREADS), 1, kernel, arguments...);
}

/* A misaligned pointer that is found here makes one call fail; found by the device, it would end the run. */
static inline bool is_aligned(std::initializer_list<const void *> pointers)
{
    for (const void *pointer : pointers)
        if ((uintptr_t)pointer % 16 != 0)
            return false;
    return true;
}

/* ---- images: threads that own eight channels of a pixel ---- */

/* The pixel and the first of the eight channels that a thread owns. */
struct site { size_t sample; uint32_t row, column, channel; };

static __device__ inline site site_of(size_t i, uint32_t height, uint32_t width, uint32_t stored)
{
    uint32_t group, row, column;
    const size_t pixel = divided(i, stored / GROUP, &group), line = divided(pixel, width, &column);
    const size_t sample = divided(line, height, &row);
    return site{ sample, row, column, group * GROUP };
}

static __device__ inline size_t offset_of(size_t sample, uint32_t row, uint32_t column, uint32_t height,
                                          uint32_t width, uint32_t stored, uint32_t channel)
{
    return ((sample * height + row) * width + column) * stored + channel;
}

/* ---- matrices of rows and columns: blocks that sum columns, or treat all numbers of a column alike ---- */

#define CHUNKS_MAX 512u
#define BLOCKS_WANTED 1024u     /* fill the largest device once */
#define ROWS_LEAST 4u           /* fewest rows per thread: with fewer rows, the cost of more blocks exceeds the gain */

/* A block sums `rows` rows of width * 8 columns: width threads along the columns, THREADS / width (a power of two)
 * along the rows. Depends on the shape alone, so that sums are the same on all devices. */
struct tiling {
    uint32_t groups;            /* the number of groups of eight columns */
    uint32_t width;
    size_t tiles, chunks, rows; /* blocks along the columns; blocks along the rows, rows of each */
};

static inline struct tiling tiling_of(size_t rows, uint32_t columns)
{
    struct tiling tiling = { columns / GROUP, 1, 0, 0, 0 };
    while (tiling.width < WARP && tiling.width < tiling.groups)
        tiling.width *= 2;
    tiling.tiles = pieces(tiling.groups, tiling.width);
    if (rows == 0 || tiling.tiles == 0)
        return tiling;
    const size_t wanted = pieces(BLOCKS_WANTED, tiling.tiles) < CHUNKS_MAX ? pieces(BLOCKS_WANTED, tiling.tiles)
                                                                           : CHUNKS_MAX;
    const size_t least = ROWS_LEAST * (THREADS / tiling.width);
    tiling.rows = pieces(rows, wanted) > least ? pieces(rows, wanted) : least;
    tiling.chunks = pieces(rows, tiling.rows);
    return tiling;
}

/* The part of a matrix that a thread owns: eight columns of every `step`-th row from first to last. */
struct share {
    uint32_t group, groups;
    size_t first, last, step;
    __device__ size_t offset(size_t row) const { return (row * groups + group) * GROUP; }
    /* Where the block stores the `number`-th of its two sums. */
    __device__ size_t partial(uint32_t number) const
    {
        return (((size_t)blockIdx.y * 2 + number) * groups + group) * GROUP;
    }
};

static __device__ inline share share_of(const tiling &tiling, size_t rows)
{
    const uint32_t group = blockIdx.x * tiling.width + threadIdx.x % tiling.width;
    const size_t first = blockIdx.y * tiling.rows, last = first + tiling.rows < rows ? first + tiling.rows : rows;
    return share{ group, tiling.groups, first + threadIdx.x / tiling.width, group < tiling.groups ? last : 0,
                  THREADS / tiling.width };
}

/* For each of `count` rows of sums: adds up the sums of the threads whose numbers are equal modulo `width`, a power of
 * two; the first of these threads gets the total. */
static __device__ inline void sum_lanes(float (*sums)[THREADS], uint32_t count, uint32_t width)
{
    for (uint32_t step = THREADS / 2; step >= width; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            for (uint32_t k = 0; k < count; k++)
                sums[k][threadIdx.x] += sums[k][threadIdx.x + step];
    }
}

#endif
