/* Kernels of batch normalisation. Queued by the CUDA backend from the tower's thread. A thread owns eight adjacent
 * columns of many rows, so that adjacent threads read adjacent 16 bytes and per-column data is read once; every sum
 * has a fixed order. Passes over the rows are sweeps (sweep.h).
 *
 * They are bound by memory: with the H200's 4.8 TB/s and a latency of 700 ns, 25 KB must be in flight on each of its
 * multiprocessors at any time. A thread therefore reads several rows before it computes with the first one, 64 bytes
 * in all, and registers are limited to those with which 768 or 1,024 threads run per multiprocessor. The compiler
 * does not do that for a plain loop over rows, even unrolled: it does not move a load before the test whether there is
 * a next row, nor before a store that may be to the same memory. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_activation.cuh"
#include "compute/cuda/kernel_types.cuh"
#include "compute/cuda/sweep.h"

#include <math.h>
#include <string.h>

static_assert(SWEEP_THREADS == THREADS && SWEEP_GROUP == GROUP && SWEEP_WIDTH_MAX == WARP, "sweep.h");

#define BYTES_AT_ONCE 64u       /* that a thread reads before it computes with any of them */

/* Before a loop over rows that are kept in registers, and before one whose next rows there are no registers for. */
#ifdef __CUDACC__
#define EACH_ROW _Pragma("unroll")
#define ONE_BATCH _Pragma("unroll 1")
#else
#define EACH_ROW
#define ONE_BATCH
#endif

/* ---- sweeps ---- */

/* The thread's columns, and its first row in a slab; its other rows are `step` apart. */
struct seat {
    uint32_t group, row, step;
    bool is_inside;             /* the matrix has these columns */
};

static __device__ inline seat seat_of(const sweep &sweep)
{
    const uint32_t group = blockIdx.x * sweep.width + (threadIdx.x & (sweep.width - 1));
    return seat{ group, threadIdx.x >> sweep.width_bits, THREADS >> sweep.width_bits, group < sweep.groups };
}

/* Where the block stores the `number`-th of its two sums of the thread's columns. */
static __device__ inline size_t partial_of(const sweep &sweep, const seat &mine, uint32_t number)
{
    return (((size_t)blockIdx.y * 2 + number) * sweep.groups + mine.group) * GROUP;
}

/* Eight values as they are stored. As words, because the compiler keeps each 16-bit number in a register of its own. */
template <typename T>
struct alignas(16) pack { uint32_t word[sizeof(T) * GROUP / sizeof(uint32_t)]; };

template <typename T>
static __device__ inline floats<GROUP> unpacked(const pack<T> &from)
{
    packed<T, GROUP> numbers;
    floats<GROUP> values;
    memcpy(&numbers, &from, sizeof(numbers));
    for (uint32_t k = 0; k < GROUP; k++)
        values.value[k] = widened(numbers.value[k]);
    return values;
}

/* Reads ROWS rows, `apart` numbers from each other. */
template <uint32_t ROWS, typename T>
static __device__ inline void read_rows(pack<T> (&rows)[ROWS], const T *from, size_t apart)
{
    EACH_ROW
    for (uint32_t r = 0; r < ROWS; r++)
        rows[r] = *reinterpret_cast<const pack<T> *>(from + r * apart);
}

/* Calls body.take<ROWS>(row) for all rows of the thread: ROWS at once, from `row` on and `step` apart, and one by one
 * in the last slab of the matrix if it is not whole. So take() is free of conditions, which would delay loads. */
template <uint32_t ROWS, typename BODY>
static __device__ inline void sweep_over(const sweep &sweep, const seat &mine, BODY &body)
{
    for (uint32_t visit = blockIdx.y; visit < sweep.slabs; visit += sweep.chunks) {
        const size_t first = sweep_row(&sweep, visit);
        if (first + sweep.slab_rows <= sweep.rows) {
            ONE_BATCH
            for (uint32_t at = 0; at < SWEEP_ROWS; at += ROWS)
                body.template take<ROWS>(first + mine.row + at * mine.step);
        } else {
            for (size_t row = first + mine.row; row < sweep.rows; row += mine.step)
                body.template take<1>(row);
        }
    }
}

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

/* The moments of a thread's columns. */
template <typename T>
struct column_moments {
    const T *in;                /* the thread's columns in the first row */
    size_t stride, apart;
    float count;
    floats<GROUP> means, squares;

    /* Adds rows: their own mean and squares first, which are then merged. Every division and every step of the chain of
     * dependent sums is for several rows, and nothing large is subtracted, as with a row at a time (Welford 1962). */
    template <uint32_t ROWS>
    __device__ inline void take(size_t row)
    {
        const float before = count, all = before + ROWS, share = ROWS / all, weight = before * share;
        pack<T> rows[ROWS];
        floats<GROUP> values[ROWS];
        read_rows(rows, in + row * stride, apart);
        EACH_ROW
        for (uint32_t r = 0; r < ROWS; r++)
            values[r] = unpacked(rows[r]);
        for (uint32_t k = 0; k < GROUP; k++) {
            float mean = 0, square = 0;
            EACH_ROW
            for (uint32_t r = 0; r < ROWS; r++)
                mean += values[r].value[k];
            mean *= 1.0f / ROWS;
            EACH_ROW
            for (uint32_t r = 0; r < ROWS; r++)
                square += (values[r].value[k] - mean) * (values[r].value[k] - mean);
            const float distance = mean - means.value[k];
            means.value[k] += distance * share;
            squares.value[k] += square + distance * distance * weight;
        }
        count = all;
    }
};

/* The moments of the rows of a block. */
template <typename T>
static __global__ void __launch_bounds__(THREADS, 4)
    chunk_moments(sweep sweep, uint32_t stride, const void *__restrict__ in, float *__restrict__ partials)
{
    await_kernels_before();
    __shared__ block_moments<GROUP> all;
    constexpr uint32_t ROWS = BYTES_AT_ONCE / sizeof(pack<T>);
    const seat mine = seat_of(sweep);
    column_moments<T> sum = { (const T *)in + mine.group * GROUP, stride, (size_t)mine.step * stride, 0, {}, {} };
    if (mine.is_inside)
        sweep_over<ROWS>(sweep, mine, sum);
    all.counts[threadIdx.x] = sum.count;
    for (uint32_t k = 0; k < GROUP; k++) {
        all.means[k][threadIdx.x] = sum.means.value[k];
        all.squares[k][threadIdx.x] = sum.squares.value[k];
    }
    merge_lanes(&all, sweep.width);
    if (threadIdx.x >= sweep.width || !mine.is_inside)
        return;
    for (uint32_t k = 0; k < GROUP; k++) {
        sum.means.value[k] = all.means[k][threadIdx.x];
        sum.squares.value[k] = all.squares[k][threadIdx.x];
    }
    write(partials + partial_of(sweep, mine, 0), sum.means);
    write(partials + partial_of(sweep, mine, 1), sum.squares);
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
static __global__ void merge_chunks(sweep sweep, normalisation norm, running running,
                                    const float *__restrict__ partials)
{
    await_kernels_before();
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
    for (uint32_t chunk = threadIdx.x / GROUP; chunk < sweep.chunks; chunk += THREADS / GROUP) {
        const float *const of = partials + (size_t)chunk * 2 * fresh + column - norm.known.columns;
        sum = merged(sum, moments{ (float)sweep_chunk_rows(&sweep, chunk), of[0], of[fresh] });
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
    await_kernels_before();
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
    await_kernels_before();
    const size_t column = thread_number();
    if (column >= norm.columns)
        return;
    norm.statistics[column] = mean[column];
    norm.statistics[norm.columns + column] = deviation_inverse(variance[column], epsilon);
}

static cudaError_t check_norm(const struct normalisation *norm, std::initializer_list<const void *> pointers)
{
    if (norm->rows > UINT32_MAX || norm->columns % GROUP != 0 || norm->stride % GROUP != 0 ||
        norm->stride < norm->columns ||
        norm->known.columns % GROUP != 0 || norm->known.columns > norm->columns)
        return cudaErrorInvalidValue;
    return is_aligned(pointers) && is_aligned({ norm->statistics, norm->gamma, norm->beta })
               ? cudaSuccess : cudaErrorMisalignedAddress;
}

size_t kernel_norm_partials(size_t rows, uint32_t columns)
{
    return 2 * (size_t)sweep_backwards(rows, columns).chunks * columns;
}

cudaError_t kernel_norm_statistics(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                   float epsilon, double decay, const void *in, float *partials, float *running_mean,
                                   float *running_variance)
{
    static decltype(&chunk_moments<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(chunk_moments);
    cudaError_t status = check_norm(norm, { in, partials });
    if (status != cudaSuccess || norm->rows == 0)
        return status;
    const struct sweep sweep = sweep_backwards(norm->rows, norm->columns - norm->known.columns);
    const void *const fresh = (const char *)in + norm->known.columns * value_bytes(type);
    status = launch_blocks(stream, sweep.tiles, sweep.chunks, kernels[type], sweep, norm->stride, fresh, partials);
    if (status != cudaSuccess)
        return status;
    const running running = { epsilon, (float)decay, (float)(1 - decay), running_mean, running_variance };
    return launch_blocks(stream, norm->columns / GROUP, 1, merge_chunks, sweep, *norm, running, partials);
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

/* What follows the normalisation. */
enum ending {
    ENDING_PLAIN,
    ENDING_RELU,
    ENDING_SUM,                 /* the shortcut is added */
    ENDING_SUM_RELU,
    ENDING_MASK,                /* the same, and the mask is stored */
    ENDING_CURVE,
    ENDING_COUNT
};

/* The values as they would be read after they were stored. */
template <typename T>
static __device__ inline floats<GROUP> stored(floats<GROUP> values)
{
    for (uint32_t k = 0; k < GROUP; k++) {
        T number;
        narrowed(values.value[k], &number);
        values.value[k] = widened(number);
    }
    return values;
}

/* BOTH: the shortcut is normalised, too. */
template <typename T, ending ENDING, bool BOTH>
struct normaliser {
    static constexpr bool sums = ENDING == ENDING_SUM || ENDING == ENDING_SUM_RELU || ENDING == ENDING_MASK;
    static constexpr uint32_t ROWS = BYTES_AT_ONCE / sizeof(pack<T>) / (1 + sums);
    const normalisation &norm;
    const line &coefficients, &shortcut_coefficients;
    size_t shortcut_stride;
    const T *in, *shortcut;     /* the thread's columns in the first row */
    T *out;
    uint8_t *mask;
    uint32_t step, first;       /* rows between those of the thread; its first column */

    __device__ inline floats<GROUP> ended(floats<GROUP> values) const
    {
        return ENDING == ENDING_CURVE                         ? curved(norm.curve, values, first)
               : ENDING == ENDING_PLAIN || ENDING == ENDING_SUM ? values
                                                              : positive(values);
    }

    template <uint32_t COUNT>
    __device__ inline void take(size_t row)
    {
        const size_t at = row * norm.columns, apart = (size_t)step * norm.columns;
        pack<T> rows[COUNT], added[COUNT];
        read_rows(rows, in + row * norm.stride, (size_t)step * norm.stride);
        if (sums)
            read_rows(added, shortcut + row * shortcut_stride, step * shortcut_stride);
        EACH_ROW
        for (uint32_t r = 0; r < COUNT; r++) {
            floats<GROUP> values = normalised(coefficients, unpacked(rows[r]));
            if (BOTH)
                values = plus(values, stored<T>(normalised(shortcut_coefficients, unpacked(added[r]))));
            else if (sums)
                values = plus(values, unpacked(added[r]));
            values = ended(values);
            write(out + at + r * apart, values);
            if (ENDING == ENDING_MASK)
                mask[(at + r * apart) / GROUP] = signs_of<T>(values);
        }
    }
};

/* out may be in when the stride is the number of columns: a thread reads its rows before it writes them. */
template <typename T, ending ENDING, bool BOTH>
static __global__ void __launch_bounds__(THREADS, BOTH ? 3 : 4)
    normalise(sweep sweep, normalisation norm, normalisation shortcut_norm, const void *in, const void *shortcut,
              void *out, uint8_t *__restrict__ mask)
{
    await_kernels_before();
    const seat mine = seat_of(sweep);
    if (!mine.is_inside)
        return;
    const line line = line_of(norm, mine.group), shortcut_line = BOTH ? line_of(shortcut_norm, mine.group) : line;
    const uint32_t first = mine.group * GROUP;
    typedef normaliser<T, ENDING, BOTH> body_type;
    body_type body = { norm, line, shortcut_line, BOTH ? shortcut_norm.stride : norm.columns, (const T *)in + first,
                       body_type::sums ? (const T *)shortcut + first : NULL, (T *)out + first,
                       ENDING == ENDING_MASK ? mask + mine.group : NULL, mine.step, first };
    sweep_over<body_type::ROWS>(sweep, mine, body);
}

#define FOR_ENDINGS(kernel, type) \
    { kernel<type, ENDING_PLAIN, false>, kernel<type, ENDING_RELU, false>, kernel<type, ENDING_SUM, false>, \
      kernel<type, ENDING_SUM_RELU, false>, kernel<type, ENDING_MASK, false>, kernel<type, ENDING_CURVE, false> }
#define FOR_SUMS(kernel, type) \
    { kernel<type, ENDING_SUM, true>, kernel<type, ENDING_SUM_RELU, true>, kernel<type, ENDING_MASK, true> }

typedef void (*normalise_kernel)(sweep, normalisation, normalisation, const void *, const void *, void *, uint8_t *);

static enum ending ending_of(const struct normalisation *norm, const void *shortcut, bool relu, const uint8_t *mask)
{
    if (norm->curve.is_on)
        return ENDING_CURVE;
    if (shortcut != NULL)
        return !relu ? ENDING_SUM : mask != NULL ? ENDING_MASK : ENDING_SUM_RELU;
    return relu ? ENDING_RELU : ENDING_PLAIN;
}

cudaError_t kernel_norm_apply(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                              const void *in, const void *shortcut, bool relu, void *out, uint8_t *mask)
{
    static const normalise_kernel kernels[VALUE_TYPE_COUNT][ENDING_COUNT] = {
        FOR_ENDINGS(normalise, float), FOR_ENDINGS(normalise, __half), FOR_ENDINGS(normalise, __nv_bfloat16),
    };
    const struct sweep sweep = sweep_forwards(norm->rows, norm->columns);
    const enum ending ending = ending_of(norm, shortcut, relu, mask);
    const cudaError_t status = check_norm(norm, { in, shortcut, out });
    if (status != cudaSuccess)
        return status;
    if (mask != NULL && ending != ENDING_MASK)
        return cudaErrorInvalidValue;
    return launch_blocks(stream, sweep.tiles, sweep.chunks, kernels[type][ending], sweep, *norm, *norm, in, shortcut,
                         out, mask);
}

cudaError_t kernel_norm_apply_both(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                   const void *in, const struct normalisation *other, const void *other_in, bool relu,
                                   void *out, uint8_t *mask)
{
    static const normalise_kernel kernels[VALUE_TYPE_COUNT][3] = {
        FOR_SUMS(normalise, float), FOR_SUMS(normalise, __half), FOR_SUMS(normalise, __nv_bfloat16),
    };
    const struct sweep sweep = sweep_forwards(norm->rows, norm->columns);
    const enum ending ending = ending_of(norm, other_in, relu, mask);
    cudaError_t status = check_norm(norm, { in, out });
    if (status == cudaSuccess)
        status = check_norm(other, { other_in });
    if (status != cudaSuccess)
        return status;
    if (ending < ENDING_SUM || ending > ENDING_MASK || (mask != NULL && ending != ENDING_MASK) || other->curve.is_on ||
        other->rows != norm->rows || other->columns != norm->columns)
        return cudaErrorInvalidValue;
    return launch_blocks(stream, sweep.tiles, sweep.chunks, kernels[type][ending - ENDING_SUM], sweep, *norm, *other,
                         in, other_in, out, mask);
}

template <typename T>
static __global__ void write_line(normalisation norm, T *__restrict__ scale, T *__restrict__ shift)
{
    await_kernels_before();
    const size_t group = thread_number();
    if (group * GROUP >= norm.columns)
        return;
    line line = line_of(norm, (uint32_t)group);
    write(scale + group * GROUP, line.scale);
    for (uint32_t k = 0; k < GROUP; k++)
        line.beta.value[k] = fmaf(-line.mean.value[k], line.scale.value[k], line.beta.value[k]);
    write(shift + group * GROUP, line.beta);
}

template <typename T>
static cudaError_t launch_line(cudaStream_t stream, const struct normalisation &norm, void *scale, void *shift)
{
    return launch_threads(stream, norm.columns / GROUP, write_line<T>, norm, (T *)scale, (T *)shift);
}

cudaError_t kernel_norm_line(cudaStream_t stream, enum value_type type, const struct normalisation *norm, void *scale,
                             void *shift)
{
    static decltype(&launch_line<float>) const launches[VALUE_TYPE_COUNT] = FOR_TYPES(launch_line);
    const cudaError_t status = check_norm(norm, { scale, shift });
    return status == cudaSuccess ? launches[type](stream, *norm, scale, shift) : status;
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

/* Sums of a thread's columns: of the gradients, and of their products with the values' distances from the mean. */
template <typename T, passing PASSING>
struct gradient_sums {
    const normalisation &norm;
    const line &coefficients;
    const T *in;                /* the thread's columns in the first row */
    T *gradient;
    const uint8_t *mask;
    uint32_t step;
    floats<GROUP> sum, product;

    /* The gradient of a row that passes; `to`: where it is written back. */
    __device__ inline floats<GROUP> passed(const floats<GROUP> &values, const floats<GROUP> &gradients, uint8_t signs,
                                           T *to) const
    {
        if (PASSING == PASSING_ALL)
            return gradients;
        if (PASSING == PASSING_RECOMPUTED)
            return where_positive(normalised(coefficients, values), gradients);
        if (PASSING == PASSING_CURVE) {
            write(to, times_slope(norm.curve, normalised(coefficients, values), gradients));
            return read<GROUP>(to);
        }
        const floats<GROUP> masked = where_set(signs, gradients);
        write(to, masked);
        return masked;
    }

    template <uint32_t ROWS>
    __device__ inline void take(size_t row)
    {
        const size_t at = row * norm.columns, apart = (size_t)step * norm.columns;
        pack<T> rows[ROWS], gradients[ROWS];
        uint8_t signs[ROWS] = {};
        read_rows(rows, in + row * norm.stride, (size_t)step * norm.stride);
        read_rows(gradients, (const T *)gradient + at, apart);
        EACH_ROW
        for (uint32_t r = 0; PASSING == PASSING_MASK && r < ROWS; r++)
            signs[r] = mask[(at + r * apart) / GROUP];
        EACH_ROW
        for (uint32_t r = 0; r < ROWS; r++) {
            const floats<GROUP> values = unpacked(rows[r]);
            const floats<GROUP> slopes = passed(values, unpacked(gradients[r]), signs[r], gradient + at + r * apart);
            for (uint32_t k = 0; k < GROUP; k++) {
                sum.value[k] += slopes.value[k];
                product.value[k] += slopes.value[k] * (values.value[k] - coefficients.mean.value[k]);
            }
        }
    }
};

template <typename T, passing PASSING>
static __global__ void __launch_bounds__(THREADS, PASSING == PASSING_CURVE ? 2 : 4)
    sum_gradients(sweep sweep, normalisation norm, const void *__restrict__ in, const uint8_t *__restrict__ mask,
                  void *__restrict__ gradient, float *__restrict__ partials)
{
    await_kernels_before();
    constexpr uint32_t ROWS = BYTES_AT_ONCE / sizeof(pack<T>) / 2;
    __shared__ float sums[2 * GROUP][THREADS];
    const seat mine = seat_of(sweep);
    floats<GROUP> sum = {}, product = {};
    if (mine.is_inside) {
        const line line = line_of(norm, mine.group);
        gradient_sums<T, PASSING> body = { norm, line, (const T *)in + mine.group * GROUP,
                                           (T *)gradient + mine.group * GROUP,
                                           PASSING == PASSING_MASK ? mask + mine.group : NULL, mine.step, {}, {} };
        sweep_over<ROWS>(sweep, mine, body);
        sum = body.sum;
        product = body.product;
    }
    for (uint32_t k = 0; k < GROUP; k++) {
        sums[k][threadIdx.x] = sum.value[k];
        sums[GROUP + k][threadIdx.x] = product.value[k];
    }
    sum_lanes(sums, 2 * GROUP, sweep.width);
    if (threadIdx.x >= sweep.width || !mine.is_inside)
        return;
    for (uint32_t k = 0; k < GROUP; k++) {
        sum.value[k] = sums[k][threadIdx.x];
        product.value[k] = sums[GROUP + k][threadIdx.x];
    }
    write(partials + partial_of(sweep, mine, 0), sum);
    write(partials + partial_of(sweep, mine, 1), product);
}

/* A block sums the chunks of eight columns, 32 threads each. Writes to `means` the numbers that the gradient of the
 * values needs: the mean gradient, and the mean product of gradient and distance from the mean, over the variance. */
static __global__ void sum_gradient_chunks(normalisation norm, uint32_t chunks, const float *__restrict__ partials,
                                           float *__restrict__ means, float *__restrict__ gamma_gradient,
                                           float *__restrict__ beta_gradient)
{
    await_kernels_before();
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
    static void (*const kernels[VALUE_TYPE_COUNT][PASSING_COUNT])(sweep, struct normalisation, const void *,
                                                                  const uint8_t *, void *, float *) = {
        FOR_PASSING(sum_gradients, float), FOR_PASSING(sum_gradients, __half),
        FOR_PASSING(sum_gradients, __nv_bfloat16),
    };
    const enum passing passing = norm->curve.is_on ? PASSING_CURVE
                                 : !relu           ? PASSING_ALL
                                 : mask != NULL    ? PASSING_MASK
                                                   : PASSING_RECOMPUTED;
    const struct sweep sweep = sweep_backwards(norm->rows, norm->columns);
    cudaError_t status = check_norm(norm, { in, gradient, partials });
    if (status != cudaSuccess)
        return status;
    status = launch_blocks(stream, sweep.tiles, sweep.chunks, kernels[type][passing], sweep, *norm, in, mask, gradient,
                           partials);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, sweep.groups, 1, sum_gradient_chunks, *norm, sweep.chunks, partials, means,
                         gamma_gradient, beta_gradient);
}

static __global__ void means_from_sums(normalisation norm, const float *__restrict__ sums, float *__restrict__ means,
                                       float *__restrict__ gamma_gradient, float *__restrict__ beta_gradient)
{
    await_kernels_before();
    const size_t column = thread_number();
    if (column >= norm.columns)
        return;
    const float inverse = norm.statistics[norm.columns + column], count = (float)norm.rows;
    const float slope = sums[column], sum = sums[norm.columns + column];
    beta_gradient[column] = sum;
    gamma_gradient[column] = slope;
    means[column] = sum / count;
    means[norm.columns + column] = slope * inverse / count;
}

cudaError_t kernel_norm_means(cudaStream_t stream, const struct normalisation *norm, const float *sums, float *means,
                              float *gamma_gradient, float *beta_gradient)
{
    const cudaError_t status = check_norm(norm, { sums, means });
    if (status != cudaSuccess)
        return status;
    return launch_threads(stream, norm->columns, means_from_sums, *norm, sums, means, gamma_gradient, beta_gradient);
}

/* ---- the gradient of the values: each value also affects mean and deviation of its column ---- */

template <typename T, bool RELU, bool ADDS>
struct gradient_spreader {
    const normalisation &norm;
    const line &coefficients;
    const floats<GROUP> &sum, &slope;
    const T *in, *gradient;     /* the thread's columns in the first row */
    T *in_gradient;
    uint32_t step;

    __device__ inline floats<GROUP> spread(const floats<GROUP> &values, floats<GROUP> gradients) const
    {
        if (RELU)
            gradients = where_positive(normalised(coefficients, values), gradients);
        for (uint32_t k = 0; k < GROUP; k++) {
            const float distance = values.value[k] - coefficients.mean.value[k];
            const float shared = sum.value[k] + distance * slope.value[k];
            gradients.value[k] = (gradients.value[k] - shared) * coefficients.scale.value[k];
        }
        return gradients;
    }

    template <uint32_t ROWS>
    __device__ inline void take(size_t row)
    {
        const size_t at = row * norm.stride, apart = (size_t)step * norm.stride;
        pack<T> rows[ROWS], gradients[ROWS], before[ROWS];
        read_rows(rows, in + at, apart);
        read_rows(gradients, gradient + row * norm.columns, (size_t)step * norm.columns);
        if (ADDS)
            read_rows(before, (const T *)in_gradient + at, apart);
        EACH_ROW
        for (uint32_t r = 0; r < ROWS; r++) {
            const floats<GROUP> result = spread(unpacked(rows[r]), unpacked(gradients[r]));
            write(in_gradient + at + r * apart, ADDS ? plus(unpacked(before[r]), result) : result);
        }
    }
};

/* in_gradient may be gradient when the stride is the number of columns: a thread reads its rows before it writes
 * them. */
template <typename T, bool RELU, bool ADDS>
static __global__ void __launch_bounds__(THREADS, 3)
    spread_gradient(sweep sweep, normalisation norm, const void *__restrict__ in, const void *gradient,
                    const float *__restrict__ means, void *in_gradient)
{
    await_kernels_before();
    constexpr uint32_t ROWS = BYTES_AT_ONCE / sizeof(pack<T>) / 2;
    const seat mine = seat_of(sweep);
    const uint32_t first = mine.group * GROUP;
    if (!mine.is_inside)
        return;
    const line line = line_of(norm, mine.group);
    const floats<GROUP> sum = read<GROUP>(means + first), slope = read<GROUP>(means + norm.columns + first);
    gradient_spreader<T, RELU, ADDS> body = { norm, line, sum, slope, (const T *)in + first,
                                              (const T *)gradient + first, (T *)in_gradient + first, mine.step };
    sweep_over<ROWS>(sweep, mine, body);
}

#define FOR_BOTH(kernel, type) \
    { { kernel<type, false, false>, kernel<type, false, true> }, \
      { kernel<type, true, false>, kernel<type, true, true> } }

cudaError_t kernel_norm_gradient(cudaStream_t stream, enum value_type type, const struct normalisation *norm,
                                 const void *in, bool relu, const void *gradient, const float *means,
                                 void *in_gradient, bool adds)
{
    static void (*const kernels[VALUE_TYPE_COUNT][2][2])(sweep, struct normalisation, const void *, const void *,
                                                         const float *, void *) = {
        FOR_BOTH(spread_gradient, float), FOR_BOTH(spread_gradient, __half), FOR_BOTH(spread_gradient, __nv_bfloat16),
    };
    const struct sweep sweep = sweep_forwards(norm->rows, norm->columns);
    const cudaError_t status = check_norm(norm, { in, gradient, means, in_gradient });
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, sweep.tiles, sweep.chunks, kernels[type][relu][adds], sweep, *norm, in, gradient,
                         means, in_gradient);
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
    await_kernels_before();
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
