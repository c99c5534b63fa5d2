/* Kernels of batch normalisation. Queued by the CUDA backend from the tower's thread. A thread owns eight adjacent
 * columns of many rows, so that adjacent threads read adjacent 16 bytes and per-column data is read once; every sum
 * has a fixed order. */
#include "compute/cuda/kernel_activation.cuh"
#include "compute/cuda/kernel_types.cuh"

#include <math.h>

/* ---- statistics: mean and variance of chunks of rows, then of all rows ---- */

/* The mean of `count` numbers, and the sum of squared distances from it. */
struct moments { float count, mean, squares; };

/* Merges the moments of two sets of numbers (Chan, Golub, LeVeque 1979), without subtracting large sums. */
static __device__ inline moments merged(const moments &a, const moments &b)
{
    const float count = a.count + b.count, share = b.count > 0 ? b.count / count : 0.0f;
    const float distance = b.mean - a.mean;
    return moments{ count, a.mean + distance * share, a.squares + b.squares + distance * distance * a.count * share };
}

/* Moments of the threads of a block; the columns of a thread have the same count. */
template <uint32_t COLUMNS>
struct block_moments { float counts[THREADS], means[COLUMNS][THREADS], squares[COLUMNS][THREADS]; };

template <uint32_t COLUMNS>
static __device__ inline moments moments_at(const block_moments<COLUMNS> &all, uint32_t column, uint32_t thread)
{
    return moments{ all.counts[thread], all.means[column][thread], all.squares[column][thread] };
}

/* Merges the moments of threads as sum_lanes adds their sums. */
template <uint32_t COLUMNS>
static __device__ inline void merge_lanes(block_moments<COLUMNS> *all, uint32_t width)
{
    for (uint32_t step = THREADS / 2; step >= width; step /= 2) {
        __syncthreads();
        if (threadIdx.x >= step)
            continue;
        for (uint32_t k = 0; k < COLUMNS; k++) {
            const moments both = merged(moments_at(*all, k, threadIdx.x), moments_at(*all, k, threadIdx.x + step));
            all->means[k][threadIdx.x] = both.mean;
            all->squares[k][threadIdx.x] = both.squares;
        }
        all->counts[threadIdx.x] += all->counts[threadIdx.x + step];
    }
}

/* The moments of a chunk by Welford's algorithm, which updates the mean with every value. */
template <typename T>
static __global__ void chunk_moments(tiling tiling, size_t rows, uint32_t stride, const void *__restrict__ in,
                                     float *__restrict__ partials)
{
    __shared__ block_moments<GROUP> all;
    const share mine = share_of(tiling, rows);
    floats<GROUP> mean = {}, squares = {};
    float count = 0;
    FOUR_AT_ONCE
    for (size_t row = mine.first; row < mine.last; row += mine.step) {
        const floats<GROUP> values = read<GROUP>((const T *)in + mine.offset(row, stride));
        count += 1.0f;
        const float part = 1.0f / count;
        for (uint32_t k = 0; k < GROUP; k++) {
            const float distance = values.value[k] - mean.value[k];
            mean.value[k] += distance * part;
            squares.value[k] += distance * (values.value[k] - mean.value[k]);
        }
    }
    all.counts[threadIdx.x] = count;
    for (uint32_t k = 0; k < GROUP; k++) {
        all.means[k][threadIdx.x] = mean.value[k];
        all.squares[k][threadIdx.x] = squares.value[k];
    }
    merge_lanes(&all, tiling.width);
    if (threadIdx.x >= tiling.width || mine.group >= tiling.groups)
        return;
    for (uint32_t k = 0; k < GROUP; k++) {
        mean.value[k] = all.means[k][threadIdx.x];
        squares.value[k] = all.squares[k][threadIdx.x];
    }
    write(partials + mine.partial(0), mean);
    write(partials + mine.partial(1), squares);
}

/* kept: the decay; taken: 1 - decay, computed in double because it may be tiny. */
struct running { float epsilon, kept, taken; float *mean, *variance; };

static __device__ inline float deviation_inverse(float variance, float epsilon)
{
    return 1.0f / sqrtf(variance + epsilon);
}

/* Stores the statistics of a batch and updates the running ones. The running variance is the unbiased estimate, n / (n
 * - 1) times that of the batch. */
static __device__ inline void store_statistics(const moments &of, const normalisation &norm, const running &running,
                                               uint32_t column)
{
    const float count = (float)norm.rows, variance = of.squares / count;
    const float unbiased = norm.rows > 1 ? of.squares / (count - 1.0f) : variance;
    norm.statistics[column] = of.mean;
    norm.statistics[norm.columns + column] = deviation_inverse(variance, running.epsilon);
    norm.statistics[2 * norm.columns + column] = of.squares;
    running.mean[column] = running.kept * running.mean[column] + running.taken * of.mean;
    running.variance[column] = running.kept * running.variance[column] + running.taken * unbiased;
}

/* A block handles eight columns, 32 threads each: it copies their known statistics or merges their chunks. */
static __global__ void merge_chunks(tiling tiling, normalisation norm, running running,
                                    const float *__restrict__ partials)
{
    __shared__ block_moments<1> all;
    const uint32_t column = blockIdx.x * GROUP + threadIdx.x % GROUP;
    if (blockIdx.x * GROUP < norm.known.columns) {
        if (threadIdx.x < GROUP)
            store_statistics(moments{ (float)norm.rows, norm.known.means[column], norm.known.squares[column] }, norm,
                         running, column);
        return;
    }
    const uint32_t fresh = norm.columns - norm.known.columns;
    moments sum = { 0, 0, 0 };
    for (size_t chunk = threadIdx.x / GROUP; chunk < tiling.chunks; chunk += THREADS / GROUP) {
        const float *const of = partials + chunk * 2 * fresh + column - norm.known.columns;
        const size_t left = norm.rows - chunk * tiling.rows;
        sum = merged(sum, moments{ (float)(left < tiling.rows ? left : tiling.rows), of[0], of[fresh] });
    }
    all.counts[threadIdx.x] = sum.count;
    all.means[0][threadIdx.x] = sum.mean;
    all.squares[0][threadIdx.x] = sum.squares;
    merge_lanes(&all, GROUP);
    if (threadIdx.x < GROUP)
        store_statistics(moments_at(all, 0, threadIdx.x), norm, running, column);
}

/* In double, so that the subtraction adds nothing to the errors of the sums; rounding must not make the variance
 * negative. */
static __global__ void moments_from_sums(normalisation norm, running running, const float *__restrict__ sums)
{
    const size_t column = thread_number();
    if (column >= norm.columns)
        return;
    const double sum = sums[column], mean = sum / (double)norm.rows;
    const float squares = (float)(sums[norm.columns + column] - sum * mean);
    store_statistics(moments{ (float)norm.rows, (float)mean, squares < 0 ? 0.0f : squares }, norm, running,
                     (uint32_t)column);
}

static __global__ void load_running(normalisation norm, float epsilon, const float *__restrict__ mean,
                                    const float *__restrict__ variance)
{
    const size_t column = thread_number();
    if (column >= norm.columns)
        return;
    norm.statistics[column] = mean[column];
    norm.statistics[norm.columns + column] = deviation_inverse(variance[column], epsilon);
}

static cudaError_t check_norm(const struct normalisation *norm, std::initializer_list<const void *> pointers)
{
    if (norm->columns % GROUP != 0 || norm->stride % GROUP != 0 || norm->stride < norm->columns ||
        norm->known.columns % GROUP != 0 || norm->known.columns > norm->columns)
        return cudaErrorInvalidValue;
    return is_aligned(pointers) && is_aligned({ norm->statistics, norm->gamma, norm->beta })
               ? cudaSuccess : cudaErrorMisalignedAddress;
}

size_t kernel_norm_partials(size_t rows, uint32_t columns)
{
    return 2 * tiling_of(rows, columns).chunks * columns;
}

cudaError_t kernel_norm_statistics(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                   float epsilon, double decay, const void *in, float *partials, float *running_mean,
                                   float *running_variance)
{
    static decltype(&chunk_moments<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(chunk_moments);
    cudaError_t status = check_norm(norm, { in, partials });
    if (status != cudaSuccess || norm->rows == 0)
        return status;
    const struct tiling tiling = tiling_of(norm->rows, norm->columns - norm->known.columns);
    const void *const fresh = (const char *)in + norm->known.columns * value_bytes(type);
    status = launch_blocks(stream, tiling.tiles, tiling.chunks, kernels[type], tiling, norm->rows, norm->stride, fresh,
                           partials);
    if (status != cudaSuccess)
        return status;
    const running running = { epsilon, (float)decay, (float)(1 - decay), running_mean, running_variance };
    return launch_blocks(stream, norm->columns / GROUP, 1, merge_chunks, tiling, *norm, running, partials);
}

cudaError_t kernel_norm_from_sums(cudaStream_t stream, const struct normalisation *norm, float epsilon, double decay,
                                  const float *sums, float *running_mean, float *running_variance)
{
    const cudaError_t status = check_norm(norm, { sums });
    if (status != cudaSuccess || norm->rows == 0)
        return status;
    if (norm->known.columns > 0)
        return cudaErrorInvalidValue;
    const running running = { epsilon, (float)decay, (float)(1 - decay), running_mean, running_variance };
    return launch_threads(stream, norm->columns, moments_from_sums, *norm, running, sums);
}

cudaError_t kernel_norm_running(cudaStream_t stream, const struct normalisation *norm, float epsilon,
                                const float *running_mean, const float *running_variance)
{
    return launch_threads(stream, norm->columns, load_running, *norm, epsilon, running_mean, running_variance);
}

/* ---- the normalised values ---- */

/* The coefficients of a thread's columns. Forward and backward compute the same bits, so that a ReLU's mask can be
 * recomputed. */
struct line { floats<GROUP> mean, scale, beta; };

static __device__ inline line line_of(const normalisation &norm, uint32_t group)
{
    const uint32_t column = group * GROUP;
    line line = { read<GROUP>(norm.statistics + column), read<GROUP>(norm.statistics + norm.columns + column),
                  read<GROUP>(norm.beta + column) };
    if (norm.gamma == NULL)
        return line;
    const floats<GROUP> gamma = read<GROUP>(norm.gamma + column);
    for (uint32_t k = 0; k < GROUP; k++)
        line.scale.value[k] *= gamma.value[k];
    return line;
}

static __device__ inline floats<GROUP> normalised(const line &line, const floats<GROUP> &values)
{
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++)
        result.value[k] = fmaf(values.value[k] - line.mean.value[k], line.scale.value[k], line.beta.value[k]);
    return result;
}

/* One bit per number: is the number, rounded as it is stored, above 0? */
template <typename T>
static __device__ inline uint8_t signs_of(const floats<GROUP> &values)
{
    uint8_t signs = 0;
    for (uint32_t k = 0; k < GROUP; k++) {
        T number;
        narrowed(values.value[k], &number);
        signs |= (uint8_t)((widened(number) > 0) << k);
    }
    return signs;
}

static __device__ inline floats<GROUP> where_set(uint8_t signs, const floats<GROUP> &gradient)
{
    floats<GROUP> result;
    for (uint32_t k = 0; k < GROUP; k++)
        result.value[k] = signs >> k & 1 ? gradient.value[k] : 0.0f;
    return result;
}

/* out may be in when the stride is the number of columns. */
template <typename T>
static __global__ void normalise(tiling tiling, normalisation norm, const void *in, const void *shortcut, bool relu,
                                 void *out, uint8_t *__restrict__ mask)
{
    const share mine = share_of(tiling, norm.rows);
    if (mine.group >= tiling.groups)
        return;
    const line line = line_of(norm, mine.group);
    FOUR_AT_ONCE
    for (size_t row = mine.first; row < mine.last; row += mine.step) {
        floats<GROUP> values = normalised(line, read<GROUP>((const T *)in + mine.offset(row, norm.stride)));
        if (shortcut != NULL)
            values = plus(values, read<GROUP>((const T *)shortcut + mine.offset(row)));
        if (relu)
            values = positive(values);
        if (norm.curve.is_on)
            values = curved(norm.curve, values, mine.group * GROUP);
        write((T *)out + mine.offset(row), values);
        if (mask != NULL)
            mask[mine.offset(row) / GROUP] = signs_of<T>(values);
    }
}

cudaError_t kernel_norm_apply(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                              const void *in, const void *shortcut, bool relu, void *out, uint8_t *mask)
{
    static decltype(&normalise<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(normalise);
    const struct tiling tiling = fine_tiling_of(norm->rows, norm->columns);
    const cudaError_t status = check_norm(norm, { in, shortcut, out });
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, tiling.tiles, tiling.chunks, kernels[type], tiling, *norm, in, shortcut, relu, out,
                         mask);
}

/* ---- sums of the gradient ---- */

/* Where the gradient passes the ReLU. */
enum passing {
    PASSING_ALL,                /* everywhere: there is no ReLU */
    PASSING_MASK,               /* where a bit of the stored mask is set; the masked gradient is written back */
    PASSING_RECOMPUTED,         /* where the recomputed normalised value is above 0 */
    PASSING_CURVE,              /* times the derivative of the curve there, which is written back */
    PASSING_COUNT
};

/* Four blocks per multiprocessor, not three: then up to 528 blocks are one wave on the 132 multiprocessors of an
 * H100. */
template <typename T, enum passing PASSING>
static __global__ void __launch_bounds__(THREADS, 4)
    sum_gradients(tiling tiling, normalisation norm, const void *__restrict__ in, const uint8_t *__restrict__ mask,
                  void *__restrict__ gradient, float *__restrict__ partials)
{
    __shared__ float sums[2 * GROUP][THREADS];
    const share mine = share_of(tiling, norm.rows);
    floats<GROUP> sum = {}, product = {};
    if (mine.group < tiling.groups) {
        const line line = line_of(norm, mine.group);
        TWO_AT_ONCE
        for (size_t row = mine.first; row < mine.last; row += mine.step) {
            T *const at = (T *)gradient + mine.offset(row);
            const floats<GROUP> values = read<GROUP>((const T *)in + mine.offset(row, norm.stride));
            floats<GROUP> passed = read<GROUP>(at);
            if (PASSING == PASSING_RECOMPUTED)
                passed = where_positive(normalised(line, values), passed);
            if (PASSING == PASSING_MASK) {
                passed = where_set(mask[mine.offset(row) / GROUP], passed);
                write(at, passed);
            }
            if (PASSING == PASSING_CURVE) {
                write(at, times_slope(norm.curve, normalised(line, values), passed));
                passed = read<GROUP>(at);
            }
            for (uint32_t k = 0; k < GROUP; k++) {
                sum.value[k] += passed.value[k];
                product.value[k] += passed.value[k] * (values.value[k] - line.mean.value[k]);
            }
        }
    }
    for (uint32_t k = 0; k < GROUP; k++) {
        sums[k][threadIdx.x] = sum.value[k];
        sums[GROUP + k][threadIdx.x] = product.value[k];
    }
    sum_lanes(sums, 2 * GROUP, tiling.width);
    if (threadIdx.x >= tiling.width || mine.group >= tiling.groups)
        return;
    for (uint32_t k = 0; k < GROUP; k++) {
        sum.value[k] = sums[k][threadIdx.x];
        product.value[k] = sums[GROUP + k][threadIdx.x];
    }
    write(partials + mine.partial(0), sum);
    write(partials + mine.partial(1), product);
}

/* A block sums the chunks of eight columns, 32 threads each. Writes to `means` the numbers that the gradient of the
 * values needs: the mean gradient, and the mean product of gradient and distance from the mean, over the variance. */
static __global__ void sum_gradient_chunks(normalisation norm, uint32_t chunks, const float *__restrict__ partials,
                                           float *__restrict__ means, float *__restrict__ gamma_gradient,
                                           float *__restrict__ beta_gradient)
{
    __shared__ float sums[2][THREADS];
    const uint32_t column = blockIdx.x * GROUP + threadIdx.x % GROUP;
    float sum = 0, product = 0;
    FOUR_AT_ONCE
    for (uint32_t chunk = threadIdx.x / GROUP; chunk < chunks; chunk += THREADS / GROUP) {
        const float *const of = partials + (size_t)chunk * 2 * norm.columns + column;
        sum += of[0];
        product += of[norm.columns];
    }
    sums[0][threadIdx.x] = sum;
    sums[1][threadIdx.x] = product;
    sum_lanes(sums, 2, GROUP);
    if (threadIdx.x >= GROUP)
        return;
    const float inverse = norm.statistics[norm.columns + column], count = (float)norm.rows;
    const float slope = sums[1][threadIdx.x] * inverse;
    beta_gradient[column] = sums[0][threadIdx.x];
    if (gamma_gradient != NULL)
        gamma_gradient[column] = slope;
    means[column] = sums[0][threadIdx.x] / count;
    means[norm.columns + column] = slope * inverse / count;
}

#define FOR_PASSING(kernel, type) \
    { kernel<type, PASSING_ALL>, kernel<type, PASSING_MASK>, kernel<type, PASSING_RECOMPUTED>, \
      kernel<type, PASSING_CURVE> }

cudaError_t kernel_norm_sums(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                             const void *in, bool relu, const uint8_t *mask, void *gradient, float *partials,
                             float *means, float *gamma_gradient, float *beta_gradient)
{
    static void (*const kernels[VALUE_TYPE_COUNT][PASSING_COUNT])(tiling, struct normalisation, const void *,
                                                                  const uint8_t *, void *, float *) = {
        FOR_PASSING(sum_gradients, float), FOR_PASSING(sum_gradients, __half),
        FOR_PASSING(sum_gradients, __nv_bfloat16),
    };
    const enum passing passing = norm->curve.is_on ? PASSING_CURVE
                                 : !relu           ? PASSING_ALL
                                 : mask != NULL    ? PASSING_MASK
                                                   : PASSING_RECOMPUTED;
    const struct tiling tiling = tiling_of(norm->rows, norm->columns);
    cudaError_t status = check_norm(norm, { in, gradient, partials });
    if (status != cudaSuccess)
        return status;
    status = launch_blocks(stream, tiling.tiles, tiling.chunks, kernels[type][passing], tiling, *norm, in, mask,
                           gradient, partials);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, tiling.groups, 1, sum_gradient_chunks, *norm, (uint32_t)tiling.chunks, partials,
                         means, gamma_gradient, beta_gradient);
}

/* ---- the gradient of the values: each value also affects mean and deviation of its column ---- */

/* in_gradient may be gradient when the stride is the number of columns. */
template <typename T, bool RELU>
static __global__ void spread_gradient(tiling tiling, normalisation norm, const void *__restrict__ in,
                                       const void *gradient, const float *__restrict__ means, void *in_gradient,
                                       bool adds)
{
    const share mine = share_of(tiling, norm.rows);
    if (mine.group >= tiling.groups)
        return;
    const line line = line_of(norm, mine.group);
    const floats<GROUP> sum = read<GROUP>(means + mine.group * GROUP);
    const floats<GROUP> slope = read<GROUP>(means + norm.columns + mine.group * GROUP);
    TWO_AT_ONCE
    for (size_t row = mine.first; row < mine.last; row += mine.step) {
        T *const to = (T *)in_gradient + mine.offset(row, norm.stride);
        const floats<GROUP> values = read<GROUP>((const T *)in + mine.offset(row, norm.stride));
        floats<GROUP> result = read<GROUP>((const T *)gradient + mine.offset(row));
        if (RELU)
            result = where_positive(normalised(line, values), result);
        for (uint32_t k = 0; k < GROUP; k++) {
            const float shared = sum.value[k] + (values.value[k] - line.mean.value[k]) * slope.value[k];
            result.value[k] = (result.value[k] - shared) * line.scale.value[k];
        }
        write(to, adds ? plus(read<GROUP>(to), result) : result);
    }
}

#define FOR_BOTH(kernel, type) { kernel<type, false>, kernel<type, true> }

cudaError_t kernel_norm_gradient(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                 const void *in, bool relu, const void *gradient, const float *means,
                                 void *in_gradient, bool adds)
{
    static void (*const kernels[VALUE_TYPE_COUNT][2])(tiling, struct normalisation, const void *, const void *,
                                                      const float *, void *, bool) = {
        FOR_BOTH(spread_gradient, float), FOR_BOTH(spread_gradient, __half), FOR_BOTH(spread_gradient, __nv_bfloat16),
    };
    const struct tiling tiling = fine_tiling_of(norm->rows, norm->columns);
    const cudaError_t status = check_norm(norm, { in, gradient, means, in_gradient });
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, tiling.tiles, tiling.chunks, kernels[type][relu], tiling, *norm, in, gradient, means,
                         in_gradient, adds);
}

/* ---- folding into a convolution ---- */

static __device__ inline float folded_scale(const folding &from, size_t filter)
{
    const float gamma = from.gamma != NULL ? from.gamma[filter] : 1.0f;
    return gamma / sqrtf(from.variance[filter] + from.epsilon);
}

/* A thread has the same number of weights of all filters in a row, which may begin and end within filters. The thread
 * with a filter's first weight writes its bias. */
template <typename T>
static __global__ void fold(size_t threads, folding from, void *__restrict__ weights, void *__restrict__ bias)
{
    const size_t i = thread_number();
    if (i >= threads)
        return;
    size_t filter = i * GROUP / from.numbers, at = i * GROUP % from.numbers;
    float scale = folded_scale(from, filter);
    floats<GROUP> values = read<GROUP>(from.weights + i * GROUP);
    for (uint32_t k = 0; k < GROUP; k++, at++) {
        if (at == from.numbers) {
            at = 0;
            scale = folded_scale(from, ++filter);
        }
        if (at == 0)
            narrowed(from.beta[filter] + ((from.bias != NULL ? from.bias[filter] : 0.0f) - from.mean[filter]) * scale,
                     (T *)bias + filter);
        values.value[k] *= scale;
    }
    write((T *)weights + i * GROUP, values);
}

cudaError_t kernel_norm_fold(cudaStream_t stream, enum value_type type, const struct folding *folding, void *weights,
                             void *bias)
{
    static decltype(&fold<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(fold);
    if (folding->filters % GROUP != 0)
        return cudaErrorInvalidValue;
    if (!is_aligned({ folding->weights, weights, bias }))
        return cudaErrorMisalignedAddress;
    const size_t threads = folding->filters / GROUP * folding->numbers;
    return launch_threads(stream, threads, kernels[type], threads, *folding, weights, bias);
}
