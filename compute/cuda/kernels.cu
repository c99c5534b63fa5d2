/* Kernels of the input step, ReLU, additions, dropout and biases. Queued by the CUDA backend from the tower's
 * thread. A thread owns eight channels of a pixel, so that adjacent threads read adjacent 16 bytes; every sum has a
 * fixed order. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_types.cuh"

/* ---- input ---- */

static __device__ inline float transformed(const input_transform &transform, float pixel, uint32_t channel)
{
    const float value = pixel / transform.divisor;
    return transform.is_plain ? value : (value - transform.mean[channel]) / transform.std[channel];
}

/* The pixels that a thread of the input step reads: a pixel of the sample, and the pixel at the same place in the
 * sample that it is mixed with. */
struct mixed_pixels {
    const uint8_t *own, *other;
    mix how;
    uint32_t y, x;
};

static __device__ inline mixed_pixels find_pixels(const image_shape &shape, const uint8_t *pixels,
                                                  const int32_t *labels, const mix *mixes, size_t pixel)
{
    const uint8_t *const own = pixels + pixel * shape.channels;
    uint32_t place;
    const uint32_t sample = (uint32_t)divided(pixel, shape.pixels, &place);
    const size_t partner = (size_t)mixing_partner(sample, shape.count) * shape.pixels + place;
    const mix how = mixing_find(mixes, labels, sample, shape.count);
    return how.share == 1 ? mixed_pixels{ own, own, how, 0, 0 }
                          : mixed_pixels{ own, pixels + partner * shape.channels, how, place / shape.width,
                                          place % shape.width };
}

template <typename T>
static __global__ void input(image_shape shape, input_transform transform, const uint8_t *__restrict__ pixels,
                             const int32_t *__restrict__ labels, const mix *__restrict__ mixes,
                             uint64_t first_position, uint32_t epoch, void *__restrict__ out,
                             mixed_label *__restrict__ labels_out, step_values *__restrict__ values)
{
    await_kernels_before();
    const size_t i = thread_number();
    const uint32_t groups = shape.stored / GROUP;
    if (i == 0)
        *values = step_values{ first_position, epoch };
    if (i < shape.count)
        labels_out[i] = mixing_label(mixes, labels, (uint32_t)i, shape.count);
    if (i >= (size_t)shape.count * shape.pixels * groups)
        return;
    uint32_t group;
    const mixed_pixels from = find_pixels(shape, pixels, labels, mixes, divided(i, groups, &group));
    const uint32_t first = group * GROUP;
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++) {
        const uint32_t channel = first + k;
        result.value[k] = channel < shape.channels
                              ? transformed(transform, mixing_pixel(&from.how, from.own[channel], from.other[channel],
                                                                    from.y, from.x), channel)
                              : 0.0f;
    }
    write((T *)out + i * GROUP, result);
}

cudaError_t kernel_input(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                         const struct input_transform *transform, const uint8_t *pixels, const int32_t *labels,
                         const struct mix *mixes, uint64_t first_position, uint32_t epoch, void *out,
                         struct mixed_label *labels_out, struct step_values *values)
{
    static decltype(&input<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(input);
    if (shape->stored % GROUP != 0 || (!transform->is_plain && shape->channels > NET_CHANNELS_MAX) ||
        (mixes != NULL && (shape->width == 0 || shape->pixels % shape->width != 0)))
        return cudaErrorInvalidValue;
    if (!is_aligned({ out }))
        return cudaErrorMisalignedAddress;
    struct image_shape read = *shape;
    read.count = pixels != NULL ? shape->count : 0;
    const size_t threads = (size_t)read.count * read.pixels * (read.stored / GROUP);
    const size_t least = pixels != NULL ? read.count : 1;
    return launch_threads(stream, threads > least ? threads : least, kernels[type], read, *transform, pixels, labels,
                          mixes, first_position, epoch, out, labels_out, values);
}

/* ---- relu and sums ---- */

template <typename T>
static __global__ void relu(size_t count, const void *in, void *out)
{
    await_kernels_before();
    const size_t i = thread_number() * GROUP;
    if (i < count)
        write_some((T *)out + i, positive(read_some<GROUP>((const T *)in + i, count - i)), count - i);
}

/* in_gradient may be out_gradient. */
template <typename T>
static __global__ void relu_backward(size_t count, const void *__restrict__ out, const void *out_gradient,
                                     void *in_gradient, bool adds)
{
    await_kernels_before();
    const size_t i = thread_number() * GROUP;
    if (i >= count)
        return;
    T *const to = (T *)in_gradient + i;
    const floats<GROUP> values = read_some<GROUP>((const T *)out + i, count - i);
    const floats<GROUP> passed = where_positive(values, read_some<GROUP>((const T *)out_gradient + i, count - i));
    write_some(to, adds ? plus(read_some<GROUP>(to, count - i), passed) : passed, count - i);
}

/* sum may be a or b. */
template <typename T>
static __global__ void add(size_t count, const void *a, const void *b, bool relu, void *sum)
{
    await_kernels_before();
    const size_t i = thread_number() * GROUP;
    if (i >= count)
        return;
    const floats<GROUP> left = read_some<GROUP>((const T *)a + i, count - i);
    const floats<GROUP> both = plus(left, read_some<GROUP>((const T *)b + i, count - i));
    write_some((T *)sum + i, relu ? positive(both) : both, count - i);
}

cudaError_t kernel_relu(cudaStream_t stream, enum value_type type, size_t count, const void *in, void *out)
{
    static decltype(&relu<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(relu);
    if (!is_aligned({ in, out }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, GROUP), kernels[type], count, in, out);
}

cudaError_t kernel_relu_backward(cudaStream_t stream, enum value_type type, size_t count, const void *out,
                                 const void *out_gradient, void *in_gradient, bool adds)
{
    static decltype(&relu_backward<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(relu_backward);
    if (!is_aligned({ out, out_gradient, in_gradient }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, GROUP), kernels[type], count, out, out_gradient, in_gradient, adds);
}

cudaError_t kernel_add(cudaStream_t stream, enum value_type type, size_t count, const void *a, const void *b,
                       bool relu, void *sum)
{
    static decltype(&add<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(add);
    if (!is_aligned({ a, b, sum }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, GROUP), kernels[type], count, a, b, relu, sum);
}

/* ---- dropout ---- */

/* The number of blocks of random words that the elements of one channel may use: a channel need not begin at a
 * block. */
static __host__ __device__ inline uint32_t blocks_of_channel(uint32_t pixels)
{
    return (pixels + 2 * (GROUP - 1)) / GROUP;
}

/* A thread owns the elements of one channel that share a block of random words: up to eight adjacent pixels.
 * Adjacent threads own adjacent channels. */
template <typename T>
static __global__ void drop(image_shape shape, struct dropout rule, const step_values *__restrict__ values,
                               void *__restrict__ in_out)
{
    await_kernels_before();
    const uint32_t blocks = blocks_of_channel(shape.pixels);
    uint32_t channel, part;
    const size_t line = divided(thread_number(), shape.channels, &channel), sample = divided(line, blocks, &part);
    if (sample >= shape.count)
        return;
    const size_t begin = (size_t)channel * shape.pixels, end = begin + shape.pixels;
    const size_t block = begin / GROUP + part;
    if (block * GROUP >= end)
        return;
    const uint64_t position = values->first_position + sample;
    const random_words words = philox(rule.key, random_words{ { (uint32_t)block, (uint32_t)position,
                                                                (uint32_t)(position >> 32), values->epoch } });
    T *const of_channel = (T *)in_out + sample * shape.pixels * shape.stored + channel;
    for (uint32_t k = 0; k < GROUP; k++) {
        const size_t element = block * GROUP + k;
        if (element < begin || element >= end)
            continue;
        T *const at = of_channel + (element - begin) * shape.stored;
        const bool is_kept = (uint16_t)(words.word[k / 2] >> k % 2 * 16) >= rule.threshold;
        narrowed(is_kept ? widened(*at) * rule.scale : 0.0f, at);
    }
}

cudaError_t kernel_dropout(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                           const struct dropout *rule, const struct step_values *values, void *in_out)
{
    static decltype(&drop<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(drop);
    const size_t threads = (size_t)shape->count * blocks_of_channel(shape->pixels) * shape->channels;
    return launch_threads(stream, threads, kernels[type], *shape, *rule, values, in_out);
}

/* ---- bias ---- */

template <typename T>
static __global__ void add_bias(size_t threads, uint32_t groups, const void *__restrict__ bias, bool relu,
                                void *__restrict__ in_out)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= threads)
        return;
    uint32_t group;
    divided(i, groups, &group);
    T *const at = (T *)in_out + i * GROUP;
    const floats<GROUP> added = read<GROUP>((const T *)bias + group * GROUP);
    floats<GROUP> values = read<GROUP>(at);
    for (uint32_t k = 0; k < GROUP; k++)
        values.value[k] += added.value[k];
    write(at, relu ? positive(values) : values);
}

cudaError_t kernel_bias(cudaStream_t stream, enum value_type type, size_t rows, uint32_t columns,
                        const void *bias, int relu, void *in_out)
{
    static decltype(&add_bias<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(add_bias);
    if (columns % GROUP != 0)
        return cudaErrorInvalidValue;
    if (!is_aligned({ bias, in_out }))
        return cudaErrorMisalignedAddress;
    const size_t threads = rows * (columns / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, columns / GROUP, bias, relu != 0, in_out);
}

/* ---- bias gradient: sums of chunks of rows, then the sums of all chunks ---- */

template <typename T>
static __global__ void sum_chunk(tiling tiling, size_t rows, const void *__restrict__ out,
                                 void *__restrict__ gradient, float *__restrict__ partials)
{
    await_kernels_before();
    __shared__ float sums[GROUP][THREADS];
    const share mine = share_of(tiling, rows);
    floats<GROUP> sum = {};
    FOUR_AT_ONCE
    for (size_t row = mine.first; row < mine.last; row += mine.step) {
        const size_t at = mine.offset(row);
        floats<GROUP> values = read<GROUP>((const T *)gradient + at);
        if (out != NULL) {
            values = where_positive(read<GROUP>((const T *)out + at), values);
            write((T *)gradient + at, values);
        }
        for (uint32_t k = 0; k < GROUP; k++)
            sum.value[k] += values.value[k];
    }
    for (uint32_t k = 0; k < GROUP; k++)
        sums[k][threadIdx.x] = sum.value[k];
    sum_lanes(sums, GROUP, tiling.width);
    if (threadIdx.x >= tiling.width || mine.group >= tiling.groups)
        return;
    for (uint32_t k = 0; k < GROUP; k++)
        sum.value[k] = sums[k][threadIdx.x];
    write(partials + mine.offset(blockIdx.y), sum);
}

/* A block sums the chunks of eight columns, 32 threads each. */
static __global__ void sum_chunks(uint32_t columns, uint32_t chunks, const float *__restrict__ partials,
                                  float *__restrict__ bias_gradient)
{
    await_kernels_before();
    __shared__ float sums[1][THREADS];
    const uint32_t column = blockIdx.x * GROUP + threadIdx.x % GROUP;
    float sum = 0;
    FOUR_AT_ONCE
    for (uint32_t chunk = threadIdx.x / GROUP; chunk < chunks; chunk += THREADS / GROUP)
        sum += partials[(size_t)chunk * columns + column];
    sums[0][threadIdx.x] = sum;
    sum_lanes(sums, 1, GROUP);
    if (threadIdx.x < GROUP)
        bias_gradient[column] = sums[0][threadIdx.x];
}

size_t kernel_bias_partials(size_t rows, uint32_t columns)
{
    return tiling_of(rows, columns).chunks * columns;
}

cudaError_t kernel_bias_gradient(cudaStream_t stream, enum value_type type, size_t rows, uint32_t columns,
                                 const void *out, void *gradient, float *partials, float *bias_gradient)
{
    static decltype(&sum_chunk<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(sum_chunk);
    if (columns % GROUP != 0)
        return cudaErrorInvalidValue;
    if (!is_aligned({ out, gradient, partials }))
        return cudaErrorMisalignedAddress;
    const struct tiling tiling = tiling_of(rows, columns);
    const cudaError_t status = launch_blocks(stream, tiling.tiles, tiling.chunks, kernels[type], tiling, rows, out,
                                             gradient, partials);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, tiling.groups, 1, sum_chunks, columns, (uint32_t)tiling.chunks, partials,
                         bias_gradient);
}
