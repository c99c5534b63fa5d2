/* Kernels of activations and their gradients. Queued by the CUDA backend from the tower's
 * thread. A thread owns eight channels of a pixel wherever the work is per value, so that
 * neighbours read neighbouring 16 bytes; every sum has a fixed order. */
#include "compute/cuda/kernel_types.cuh"

/* ---- input ---- */

template <typename T>
static __global__ void input(image_shape shape, const uint8_t *__restrict__ pixels,
                             const int32_t *__restrict__ labels, uint64_t first_position, uint32_t epoch,
                             void *__restrict__ out, int32_t *__restrict__ labels_out,
                             step_values *__restrict__ values)
{
    const size_t i = thread_number();
    const uint32_t groups = shape.stored / GROUP;
    if (i == 0)
        *values = step_values{ first_position, epoch };
    if (i < shape.count)
        labels_out[i] = labels[i];
    if (i >= (size_t)shape.count * shape.pixels * groups)
        return;
    const size_t pixel = i / groups;
    const uint32_t first = (uint32_t)(i % groups) * GROUP;
    const uint8_t *const from = pixels + pixel * shape.channels;
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++)
        result.value[k] = first + k < shape.channels ? (float)from[first + k] / 255.0f : 0.0f;
    write((T *)out + i * GROUP, result);
}

cudaError_t kernel_input(cudaStream_t stream, enum value_type type, const struct image_shape *shape,
                         const uint8_t *pixels, const int32_t *labels, uint64_t first_position, uint32_t epoch,
                         void *out, int32_t *labels_out, struct step_values *values)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(image_shape, const uint8_t *, const int32_t *, uint64_t, uint32_t,
                                                   void *, int32_t *, step_values *) = FOR_TYPES(input);
    if (shape->stored % GROUP != 0)
        return cudaErrorInvalidValue;
    if (!is_aligned({ out }))
        return cudaErrorMisalignedAddress;
    const size_t threads = (size_t)shape->count * shape->pixels * (shape->stored / GROUP);
    return launch_threads(stream, threads > shape->count ? threads : shape->count, kernels[type], *shape, pixels,
                          labels, first_position, epoch, out, labels_out, values);
}

/* ---- max_pool ---- */

typedef packed<uint8_t, GROUP> places;      /* of eight winners in their windows */

/* Which eight channels of which pixel a thread owns. */
struct site { size_t sample; uint32_t row, column, channel; };

static __device__ inline site site_of(size_t i, uint32_t height, uint32_t width, uint32_t stored)
{
    const uint32_t groups = stored / GROUP;
    const size_t pixel = i / groups, line = pixel / width;
    return site{ line / height, (uint32_t)(line % height), (uint32_t)(pixel % width), (uint32_t)(i % groups) * GROUP };
}

static __device__ inline size_t offset_of(size_t sample, uint32_t row, uint32_t column, uint32_t height,
                                          uint32_t width, uint32_t stored, uint32_t channel)
{
    return ((sample * height + row) * width + column) * stored + channel;
}

/* Taps [begin, end) of a window of `size` that lie in an axis of `length`. */
struct taps { uint32_t begin, end; };

static __device__ inline taps taps_of(uint32_t out, uint32_t stride, uint32_t pad, uint32_t size, uint32_t length)
{
    const uint32_t at = out * stride;
    return taps{ at < pad ? pad - at : 0, at + size > length + pad ? length + pad - at : size };
}

template <typename T>
static __global__ void max_pool(size_t threads, pool_shape shape, const void *__restrict__ in,
                                void *__restrict__ out, uint8_t *__restrict__ winners)
{
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

/* Windows [begin, end) along one axis that cover the input at `in`. */
static __device__ inline taps windows_of(uint32_t in, uint32_t stride, uint32_t pad, uint32_t size, uint32_t length)
{
    const uint32_t last = (in + pad) / stride;
    const uint32_t begin = in + pad < size ? 0 : (in + pad - size) / stride + 1;
    return taps{ begin, last < length ? last + 1 : length };
}

/* Gathers instead of scattering: every input looks which of the windows over it it won. */
template <typename T>
static __global__ void max_pool_backward(size_t threads, pool_shape shape, const void *__restrict__ out_gradient,
                                         const uint8_t *__restrict__ winners, void *__restrict__ in_gradient)
{
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
    write((T *)in_gradient + i * GROUP, sum);
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
    static void (*const kernels[VALUE_TYPE_COUNT])(size_t, pool_shape, const void *, void *, uint8_t *) =
        FOR_TYPES(max_pool);
    const cudaError_t status = check_pool(shape, in, out, winners);
    if (status != cudaSuccess)
        return status;
    const size_t threads = (size_t)shape->count * shape->out_h * shape->out_w * (shape->stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, in, out, winners);
}

cudaError_t kernel_max_pool_backward(cudaStream_t stream, enum value_type type, const struct pool_shape *shape,
                                     const void *out_gradient, const uint8_t *winners, void *in_gradient)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(size_t, pool_shape, const void *, const uint8_t *, void *) =
        FOR_TYPES(max_pool_backward);
    const cudaError_t status = check_pool(shape, out_gradient, winners, in_gradient);
    if (status != cudaSuccess)
        return status;
    const size_t threads = (size_t)shape->count * shape->in_h * shape->in_w * (shape->stored / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, *shape, out_gradient, winners, in_gradient);
}

/* ---- relu: NaN becomes 0, as in the reference ---- */

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

template <typename T>
static __global__ void relu(size_t count, const void *in, void *out)
{
    const size_t i = thread_number() * GROUP;
    if (i < count)
        write_some((T *)out + i, positive(read_some<GROUP>((const T *)in + i, count - i)), count - i);
}

template <typename T>
static __global__ void relu_backward(size_t count, const void *__restrict__ out, void *__restrict__ gradient)
{
    const size_t i = thread_number() * GROUP;
    if (i >= count)
        return;
    T *const at = (T *)gradient + i;
    const floats<GROUP> values = read_some<GROUP>((const T *)out + i, count - i);
    write_some(at, where_positive(values, read_some<GROUP>(at, count - i)), count - i);
}

cudaError_t kernel_relu(cudaStream_t stream, enum value_type type, size_t count, const void *in, void *out)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(size_t, const void *, void *) = FOR_TYPES(relu);
    if (!is_aligned({ in, out }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, GROUP), kernels[type], count, in, out);
}

cudaError_t kernel_relu_backward(cudaStream_t stream, enum value_type type, size_t count, const void *out,
                                 void *gradient)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(size_t, const void *, void *) = FOR_TYPES(relu_backward);
    if (!is_aligned({ out, gradient }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, pieces(count, GROUP), kernels[type], count, out, gradient);
}

/* ---- dropout ---- */

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

/* Blocks of random words that the elements of any one channel may touch: a channel need not
 * begin where a block does. */
static __host__ __device__ inline uint32_t blocks_of_channel(uint32_t pixels)
{
    return (pixels + 2 * (GROUP - 1)) / GROUP;
}

/* A thread owns the elements of one channel that share a block of random words: up to eight
 * neighbouring pixels. Threads next to it own the channels next to it, which lie beside it. */
template <typename T>
static __global__ void drop(image_shape shape, struct dropout rule, const step_values *__restrict__ values,
                               void *__restrict__ in_out)
{
    const uint32_t blocks = blocks_of_channel(shape.pixels);
    const size_t i = thread_number(), line = i / shape.channels, sample = line / blocks;
    if (sample >= shape.count)
        return;
    const uint32_t channel = (uint32_t)(i % shape.channels);
    const size_t begin = (size_t)channel * shape.pixels, end = begin + shape.pixels;
    const size_t block = begin / GROUP + line % blocks;
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
    static void (*const kernels[VALUE_TYPE_COUNT])(image_shape, struct dropout, const step_values *, void *) =
        FOR_TYPES(drop);
    const size_t threads = (size_t)shape->count * blocks_of_channel(shape->pixels) * shape->channels;
    return launch_threads(stream, threads, kernels[type], *shape, *rule, values, in_out);
}

/* ---- bias ---- */

template <typename T>
static __global__ void add_bias(size_t threads, uint32_t groups, const void *__restrict__ bias, bool relu,
                                void *__restrict__ in_out)
{
    const size_t i = thread_number();
    if (i >= threads)
        return;
    T *const at = (T *)in_out + i * GROUP;
    const floats<GROUP> added = read<GROUP>((const T *)bias + i % groups * GROUP);
    floats<GROUP> values = read<GROUP>(at);
    for (uint32_t k = 0; k < GROUP; k++)
        values.value[k] += added.value[k];
    write(at, relu ? positive(values) : values);
}

cudaError_t kernel_bias(cudaStream_t stream, enum value_type type, size_t rows, uint32_t columns,
                        const void *bias, int relu, void *in_out)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(size_t, uint32_t, const void *, bool, void *) = FOR_TYPES(add_bias);
    if (columns % GROUP != 0)
        return cudaErrorInvalidValue;
    if (!is_aligned({ bias, in_out }))
        return cudaErrorMisalignedAddress;
    const size_t threads = rows * (columns / GROUP);
    return launch_threads(stream, threads, kernels[type], threads, columns / GROUP, bias, relu != 0, in_out);
}

/* ---- bias gradient: sums of chunks of rows, then the sum of those ---- */

#define CHUNKS_MAX 512u
#define BLOCKS_WANTED 1024u     /* fill the largest device once */
#define ROWS_LEAST 4u           /* a thread's share below which more blocks cost more than they give */

/* A block sums `rows` rows of width * 8 columns: width threads along the columns, THREADS /
 * width (a power of two) along the rows. Depends on the shape alone, so that sums do not
 * differ between devices. */
struct bias_tiling {
    uint32_t groups;            /* of eight columns, in all */
    uint32_t width;
    size_t tiles, chunks, rows; /* blocks along the columns; blocks along the rows, rows of each */
};

static struct bias_tiling bias_tiling_of(size_t rows, uint32_t columns)
{
    struct bias_tiling tiling = { columns / GROUP, 1, 0, 0, 0 };
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

/* Of the threads whose numbers are the same modulo `width`, a power of two, the first gets
 * the sum, in each of `count` rows. */
static __device__ inline void sum_lanes(float (*sums)[THREADS], uint32_t count, uint32_t width)
{
    for (uint32_t step = THREADS / 2; step >= width; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            for (uint32_t k = 0; k < count; k++)
                sums[k][threadIdx.x] += sums[k][threadIdx.x + step];
    }
}

template <typename T>
static __global__ void sum_chunk(bias_tiling tiling, size_t rows, const void *__restrict__ out,
                                 void *__restrict__ gradient, float *__restrict__ partials)
{
    __shared__ float sums[GROUP][THREADS];
    const uint32_t group = blockIdx.x * tiling.width + threadIdx.x % tiling.width;
    const size_t first = blockIdx.y * tiling.rows, lanes = THREADS / tiling.width;
    const size_t last = first + tiling.rows < rows ? first + tiling.rows : rows;
    floats<GROUP> sum = {};
    FOUR_AT_ONCE
    for (size_t row = first + threadIdx.x / tiling.width; row < last && group < tiling.groups; row += lanes) {
        const size_t at = (row * tiling.groups + group) * GROUP;
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
    if (threadIdx.x >= tiling.width || group >= tiling.groups)
        return;
    for (uint32_t k = 0; k < GROUP; k++)
        sum.value[k] = sums[k][threadIdx.x];
    write(partials + ((size_t)blockIdx.y * tiling.groups + group) * GROUP, sum);
}

/* A block sums the chunks of eight columns, with 32 threads for each. */
static __global__ void sum_chunks(uint32_t columns, uint32_t chunks, const float *__restrict__ partials,
                                  float *__restrict__ bias_gradient)
{
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
    return bias_tiling_of(rows, columns).chunks * columns;
}

cudaError_t kernel_bias_gradient(cudaStream_t stream, enum value_type type, size_t rows, uint32_t columns,
                                 const void *out, void *gradient, float *partials, float *bias_gradient)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(bias_tiling, size_t, const void *, void *, float *) =
        FOR_TYPES(sum_chunk);
    if (columns % GROUP != 0)
        return cudaErrorInvalidValue;
    if (!is_aligned({ out, gradient, partials }))
        return cudaErrorMisalignedAddress;
    const struct bias_tiling tiling = bias_tiling_of(rows, columns);
    const cudaError_t status = launch_blocks(stream, tiling.tiles, tiling.chunks, kernels[type], tiling, rows, out,
                                             gradient, partials);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, tiling.groups, 1, sum_chunks, columns, (uint32_t)tiling.chunks, partials,
                         bias_gradient);
}

/* ---- softmax loss: a warp per sample, then one block over the samples ---- */

#define IS_COUNTED 1u
#define IS_CORRECT 2u

struct largest { float value; uint32_t index; };

static __device__ inline largest warp_largest(largest mine)
{
    for (uint32_t step = WARP / 2; step > 0; step /= 2) {
        const float value = __shfl_xor_sync(WHOLE_WARP, mine.value, step);
        const uint32_t index = __shfl_xor_sync(WHOLE_WARP, mine.index, step);
        if (value > mine.value || (value == mine.value && index < mine.index))
            mine = largest{ value, index };
    }
    return mine;
}

static __device__ inline float warp_sum(float mine)
{
    for (uint32_t step = WARP / 2; step > 0; step /= 2)
        mine += __shfl_xor_sync(WHOLE_WARP, mine, step);
    return mine;
}

/* The first largest logit: every lane begins with the first, so that a NaN there stays and
 * one elsewhere loses, as in a plain loop. */
template <typename T>
static __device__ inline largest find_largest(const T *logits, uint32_t classes, uint32_t lane)
{
    largest mine = { widened(logits[0]), 0 };
    FOUR_AT_ONCE
    for (uint32_t c = lane; c < classes; c += WARP) {
        const float value = widened(logits[c]);
        if (value > mine.value)
            mine = largest{ value, c };
    }
    return warp_largest(mine);
}

/* gradient may be the logits: a lane writes only what it alone still reads. */
template <typename T>
static __global__ void softmax_loss(uint32_t count, uint32_t classes, uint32_t stored, const void *logits,
                                    const int32_t *__restrict__ labels, const struct loss_scale *__restrict__ scale,
                                    void *gradient, sample_loss *__restrict__ samples)
{
    const size_t sample = thread_number() / WARP;
    const uint32_t lane = threadIdx.x % WARP;
    if (sample >= count)
        return;
    const T *const row = (const T *)logits + sample * stored;
    const largest best = find_largest(row, classes, lane);
    float sum = 0;
    for (uint32_t c = lane; c < classes; c += WARP)
        sum += expf(widened(row[c]) - best.value);
    sum = warp_sum(sum);
    const uint32_t label = (uint32_t)labels[sample];    /* -1 is none of the classes */
    const bool is_counted = label < classes;
    if (lane == (is_counted ? label % WARP : 0))
        samples[sample] = is_counted ? sample_loss{ logf(sum) + (best.value - widened(row[label])),
                                                    IS_COUNTED | (best.index == label ? IS_CORRECT : 0) }
                                     : sample_loss{ 0, 0 };
    if (gradient == NULL)
        return;
    const float factor = !is_counted ? 0.0f : scale != NULL ? scale->factor : 1.0f;
    for (uint32_t c = lane; c < stored; c += WARP) {
        const bool is_used = is_counted && c < classes;
        const float wanted = c == label ? 1.0f : 0.0f;
        narrowed(is_used ? (expf(widened(row[c]) - best.value) / sum - wanted) * factor : 0.0f,
                 (T *)gradient + sample * stored + c);
    }
}

struct loss_sums { double loss; uint32_t correct, counted; };

static __device__ inline loss_sums plus(const loss_sums &a, const loss_sums &b)
{
    return loss_sums{ a.loss + b.loss, a.correct + b.correct, a.counted + b.counted };
}

static __global__ void sum_losses(uint32_t count, const sample_loss *__restrict__ samples,
                                  const struct loss_scale *__restrict__ scale, backend_result *__restrict__ result)
{
    __shared__ loss_sums sums[THREADS];
    loss_sums sum = { 0, 0, 0 };
    for (size_t i = threadIdx.x; i < count; i += THREADS) {
        const sample_loss sample = samples[i];
        sum = plus(sum, loss_sums{ sample.loss, (sample.flags & IS_CORRECT) != 0, (sample.flags & IS_COUNTED) != 0 });
    }
    sums[threadIdx.x] = sum;
    for (uint32_t step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            sums[threadIdx.x] = plus(sums[threadIdx.x], sums[threadIdx.x + step]);
    }
    if (threadIdx.x == 0)
        *result = backend_result{ sums[0].loss, sums[0].correct, sums[0].counted,
                                  scale != NULL ? scale->skipped_steps : 0, scale != NULL ? scale->factor : 1.0f };
}

cudaError_t kernel_softmax_loss(cudaStream_t stream, enum value_type type, uint32_t count, uint32_t classes,
                                uint32_t stored, const void *logits, const int32_t *labels,
                                const struct loss_scale *scale, void *gradient, struct sample_loss *samples,
                                struct backend_result *result)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(uint32_t, uint32_t, uint32_t, const void *, const int32_t *,
                                                   const struct loss_scale *, void *, sample_loss *) =
        FOR_TYPES(softmax_loss);
    if (classes == 0 || classes > stored)
        return cudaErrorInvalidValue;
    const cudaError_t status = launch_threads(stream, (size_t)count * WARP, kernels[type], count, classes, stored,
                                              logits, labels, scale, gradient, samples);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, 1, 1, sum_losses, count, samples, scale, result);
}
