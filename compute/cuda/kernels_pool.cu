/* Kernels of pools. Queued by the CUDA backend from the tower's thread. A thread owns eight channels of a pixel;
 * every sum has a fixed order. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_types.cuh"

/* Taps [begin, end) of a window of `size` that are inside an axis of `length`. */
struct taps { uint32_t begin, end; };

static __device__ inline taps taps_of(uint32_t out, uint32_t stride, uint32_t pad, uint32_t size, uint32_t length)
{
    const uint32_t at = out * stride;
    return taps{ at < pad ? pad - at : 0, at + size > length + pad ? length + pad - at : size };
}

/* Windows [begin, end) along one axis that cover the input at `in`. */
static __device__ inline taps windows_of(uint32_t in, uint32_t stride, uint32_t pad, uint32_t size, uint32_t length)
{
    const uint32_t last = (in + pad) / stride;
    const uint32_t begin = in + pad < size ? 0 : (in + pad - size) / stride + 1;
    return taps{ begin, last < length ? last + 1 : length };
}

/* ---- max_pool ---- */

typedef packed<uint8_t, GROUP> places;      /* the winning taps of eight channels */

template <typename T>
static __global__ void max_pool(size_t threads, pool_shape shape, const void *__restrict__ in,
                                void *__restrict__ out, uint8_t *__restrict__ winners)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    const site at = site_of(i, shape.out_h, shape.out_w, shape.stored);
    const taps rows = taps_of(at.row, shape.stride_h, shape.pad_top, shape.kernel_h, shape.in_h);
    const taps columns = taps_of(at.column, shape.stride_w, shape.pad_left, shape.kernel_w, shape.in_w);
    floats<GROUP> best = {};
    places winner = {};
    bool is_first = true;
    for (uint32_t kh = rows.begin; kh < rows.end; kh++)
        for (uint32_t kw = columns.begin; kw < columns.end; kw++) {
            const uint32_t row = at.row * shape.stride_h + kh - shape.pad_top;
            const uint32_t column = at.column * shape.stride_w + kw - shape.pad_left;
            const floats<GROUP> tap = read<GROUP>((const T *)in + offset_of(at.sample, row, column, shape.in_h,
                                                                            shape.in_w, shape.stored, at.channel));
            for (uint32_t k = 0; k < GROUP; k++) {
                const bool wins = is_first || tap.value[k] > best.value[k];
                best.value[k] = wins ? tap.value[k] : best.value[k];
                winner.value[k] = wins ? (uint8_t)(kh * shape.kernel_w + kw) : winner.value[k];
            }
            is_first = false;
        }
    write((T *)out + i * GROUP, best);
    if (winners != NULL)
        *reinterpret_cast<places *>(winners + i * GROUP) = winner;
}

/* Gathers instead of scattering: the thread of an input checks which windows that contain it have it as their
 * winner. */
template <typename T>
static __global__ void max_pool_backward(size_t threads, pool_shape shape, const void *__restrict__ out_gradient,
                                         const uint8_t *__restrict__ winners, void *__restrict__ in_gradient,
                                         bool adds)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    const site at = site_of(i, shape.in_h, shape.in_w, shape.stored);
    const taps rows = windows_of(at.row, shape.stride_h, shape.pad_top, shape.kernel_h, shape.out_h);
    const taps columns = windows_of(at.column, shape.stride_w, shape.pad_left, shape.kernel_w, shape.out_w);
    floats<GROUP> sum = {};
    for (uint32_t row = rows.begin; row < rows.end; row++)
        for (uint32_t column = columns.begin; column < columns.end; column++) {
            const size_t offset = offset_of(at.sample, row, column, shape.out_h, shape.out_w, shape.stored, at.channel);
            const uint32_t kh = at.row + shape.pad_top - row * shape.stride_h;
            const uint32_t kw = at.column + shape.pad_left - column * shape.stride_w;
            const places winner = *reinterpret_cast<const places *>(winners + offset);
            const floats<GROUP> gradient = read<GROUP>((const T *)out_gradient + offset);
            for (uint32_t k = 0; k < GROUP; k++)
                sum.value[k] += winner.value[k] == kh * shape.kernel_w + kw ? gradient.value[k] : 0.0f;
        }
    T *const to = (T *)in_gradient + i * GROUP;
    write(to, adds ? plus(read<GROUP>(to), sum) : sum);
}

static cudaError_t check_pool(const struct pool_shape *shape, const void *a, const void *b, const void *c)
{
    if (shape->stored % GROUP != 0 || (uint64_t)shape->kernel_h * shape->kernel_w > POOL_WINDOW_MAX)
        return cudaErrorInvalidValue;
    return is_aligned({ a, b, c }) ? cudaSuccess : cudaErrorMisalignedAddress;
}

cudaError_t kernel_max_pool(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                            const void *in, void *out, uint8_t *winners)
{
    static decltype(&max_pool<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(max_pool);
    const cudaError_t status = check_pool(shape, in, out, winners);
    if (status != cudaSuccess)
        return status;
    const size_t threads = (size_t)shape->count * shape->out_h * shape->out_w * (shape->stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, in, out, winners);
}

cudaError_t kernel_max_pool_backward(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                     const void *out_gradient, const uint8_t *winners, void *in_gradient, bool adds)
{
    static decltype(&max_pool_backward<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(max_pool_backward);
    const cudaError_t status = check_pool(shape, out_gradient, winners, in_gradient);
    if (status != cudaSuccess)
        return status;
    const size_t threads = (size_t)shape->count * shape->in_h * shape->in_w * (shape->stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, out_gradient, winners, in_gradient,
                          adds);
}

/* ---- average_pool ---- */

static __device__ inline uint32_t taps_count(const taps &rows, const taps &columns)
{
    return (rows.end - rows.begin) * (columns.end - columns.begin);
}

template <typename T>
static __global__ void average_pool(size_t threads, pool_shape shape, const void *__restrict__ in,
                                    void *__restrict__ out)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    const site at = site_of(i, shape.out_h, shape.out_w, shape.stored);
    const taps rows = taps_of(at.row, shape.stride_h, shape.pad_top, shape.kernel_h, shape.in_h);
    const taps columns = taps_of(at.column, shape.stride_w, shape.pad_left, shape.kernel_w, shape.in_w);
    floats<GROUP> sum = {};
    for (uint32_t kh = rows.begin; kh < rows.end; kh++)
        FOUR_AT_ONCE
        for (uint32_t kw = columns.begin; kw < columns.end; kw++)
            sum = plus(sum, read<GROUP>((const T *)in +
                                        offset_of(at.sample, at.row * shape.stride_h + kh - shape.pad_top,
                                                  at.column * shape.stride_w + kw - shape.pad_left, shape.in_h,
                                                  shape.in_w, shape.stored, at.channel)));
    for (uint32_t k = 0; k < GROUP; k++)
        sum.value[k] /= (float)taps_count(rows, columns);
    write((T *)out + i * GROUP, sum);
}

/* Computes the mean over all pixels; a block handles `width` groups of channels of a sample. */
template <typename T>
static __global__ void average_image(tiling tiling, uint32_t pixels, const void *__restrict__ in,
                                     void *__restrict__ out)
{
    await_kernels_before();
    __shared__ float sums[GROUP][THREADS];
    const size_t sample = blockIdx.x / tiling.tiles;
    const uint32_t group = blockIdx.x % (uint32_t)tiling.tiles * tiling.width + threadIdx.x % tiling.width;
    floats<GROUP> sum = {};
    FOUR_AT_ONCE
    for (uint32_t pixel = threadIdx.x / tiling.width; pixel < pixels && group < tiling.groups;
         pixel += THREADS / tiling.width)
        sum = plus(sum, read<GROUP>((const T *)in + ((sample * pixels + pixel) * tiling.groups + group) * GROUP));
    for (uint32_t k = 0; k < GROUP; k++)
        sums[k][threadIdx.x] = sum.value[k];
    sum_lanes(sums, GROUP, tiling.width);
    if (threadIdx.x >= tiling.width || group >= tiling.groups)
        return;
    for (uint32_t k = 0; k < GROUP; k++)
        sum.value[k] = sums[k][threadIdx.x] / (float)pixels;
    write((T *)out + (sample * tiling.groups + group) * GROUP, sum);
}

template <typename T>
static __global__ void average_pool_backward(size_t threads, pool_shape shape, const void *__restrict__ out_gradient,
                                             void *__restrict__ in_gradient, bool adds)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    const site at = site_of(i, shape.in_h, shape.in_w, shape.stored);
    const taps rows = windows_of(at.row, shape.stride_h, shape.pad_top, shape.kernel_h, shape.out_h);
    const taps columns = windows_of(at.column, shape.stride_w, shape.pad_left, shape.kernel_w, shape.out_w);
    floats<GROUP> sum = {};
    for (uint32_t row = rows.begin; row < rows.end; row++)
        for (uint32_t column = columns.begin; column < columns.end; column++) {
            const taps high = taps_of(row, shape.stride_h, shape.pad_top, shape.kernel_h, shape.in_h);
            const taps wide = taps_of(column, shape.stride_w, shape.pad_left, shape.kernel_w, shape.in_w);
            const float count = (float)taps_count(high, wide);
            const floats<GROUP> gradient = read<GROUP>(
                (const T *)out_gradient +
                offset_of(at.sample, row, column, shape.out_h, shape.out_w, shape.stored, at.channel));
            for (uint32_t k = 0; k < GROUP; k++)
                sum.value[k] += gradient.value[k] / count;
        }
    T *const to = (T *)in_gradient + i * GROUP;
    write(to, adds ? plus(read<GROUP>(to), sum) : sum);
}

static cudaError_t check_average(const struct pool_shape *shape, const void *a, const void *b)
{
    if (shape->stored % GROUP != 0)
        return cudaErrorInvalidValue;
    return is_aligned({ a, b }) ? cudaSuccess : cudaErrorMisalignedAddress;
}

/* Is there one window over all pixels? */
static bool is_whole(const struct pool_shape *shape)
{
    return shape->out_h == 1 && shape->out_w == 1 && shape->pad_top == 0 && shape->pad_left == 0 &&
           shape->kernel_h >= shape->in_h && shape->kernel_w >= shape->in_w;
}

static cudaError_t launch_whole(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                const void *in, void *out)
{
    static decltype(&average_image<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(average_image);
    const struct tiling tiling = tiling_of(1, shape->stored);
    return launch_blocks(stream, shape->count * tiling.tiles, 1, kernels[type], tiling, shape->in_h * shape->in_w, in,
                         out);
}

cudaError_t kernel_average_pool(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                const void *in, void *out)
{
    static decltype(&average_pool<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(average_pool);
    const cudaError_t status = check_average(shape, in, out);
    if (status != cudaSuccess)
        return status;
    if (is_whole(shape))
        return launch_whole(stream, type, shape, in, out);
    const size_t threads = (size_t)shape->count * shape->out_h * shape->out_w * (shape->stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, in, out);
}

cudaError_t kernel_average_pool_backward(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                         const void *out_gradient, void *in_gradient, bool adds)
{
    static decltype(&average_pool_backward<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(average_pool_backward);
    const cudaError_t status = check_average(shape, out_gradient, in_gradient);
    if (status != cudaSuccess)
        return status;
    const size_t threads = (size_t)shape->count * shape->in_h * shape->in_w * (shape->stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, out_gradient, in_gradient, adds);
}
