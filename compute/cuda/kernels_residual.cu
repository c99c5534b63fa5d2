/* Kernels of the layers of residual branches: layer normalisation; a factor per channel and stochastic depth, with the
 * addition after them. Queued by the CUDA backend from the tower's thread. Every sum has a fixed order. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_types.cuh"

#include <math.h>

/* ---- layer normalisation: some adjacent threads of a warp for each pixel ---- */

/* The number of threads for a pixel: a power of two, so that a warp handles whole pixels. */
static inline uint32_t threads_of_pixel(uint32_t columns)
{
    uint32_t width = 1;
    while (width < WARP && width < columns / GROUP)
        width *= 2;
    return width;
}

/* The sum over the threads of a pixel, which all of them get. All threads of the warp take part. */
static __device__ inline float pixel_sum(float mine, uint32_t width)
{
    for (uint32_t step = width / 2; step > 0; step /= 2)
        mine += __shfl_xor_sync(WHOLE_WARP, mine, step);
    return mine;
}

/* The pixel of a thread, and its first group of eight channels. A thread beyond the last pixel has no groups, but takes
 * part in the sums of its warp. */
struct seat { size_t row; uint32_t first, groups; };

static __device__ inline seat seat_of(const layer_normalisation &norm, uint32_t width)
{
    const size_t i = thread_number(), row = i / width;
    return seat{ row, (uint32_t)(i % width), row < norm.rows ? norm.columns / GROUP : 0 };
}

static __device__ inline bool is_channel(const layer_normalisation &norm, uint32_t group, uint32_t k)
{
    return group * GROUP + k < norm.channels;
}

template <typename T>
static __global__ void normalise_pixels(layer_normalisation norm, uint32_t width, const void *in, void *out)
{
    await_kernels_before();
    const seat mine = seat_of(norm, width);
    const T *const from = (const T *)in + mine.row * norm.columns;
    T *const to = (T *)out + mine.row * norm.columns;
    const float share = 1.0f / (float)norm.channels;
    float sum = 0, squares = 0;
    for (uint32_t group = mine.first; group < mine.groups; group += width) {
        const floats<GROUP> values = read<GROUP>(from + group * GROUP);
        for (uint32_t k = 0; k < GROUP; k++)
            sum += values.value[k];             /* the padding is 0 */
    }
    const float mean = pixel_sum(sum, width) * share;
    for (uint32_t group = mine.first; group < mine.groups; group += width) {
        const floats<GROUP> values = read<GROUP>(from + group * GROUP);
        for (uint32_t k = 0; k < GROUP; k++) {
            const float distance = values.value[k] - mean;
            squares += is_channel(norm, group, k) ? distance * distance : 0.0f;
        }
    }
    const float scale = 1.0f / sqrtf(pixel_sum(squares, width) * share + norm.epsilon);
    for (uint32_t group = mine.first; group < mine.groups; group += width) {
        const floats<GROUP> gamma = read<GROUP>(norm.gamma + group * GROUP);
        const floats<GROUP> beta = read<GROUP>(norm.beta + group * GROUP);
        floats<GROUP> values = read<GROUP>(from + group * GROUP);
        for (uint32_t k = 0; k < GROUP; k++)
            values.value[k] = is_channel(norm, group, k)
                                  ? (values.value[k] - mean) * scale * gamma.value[k] + beta.value[k] : 0.0f;
        write(to + group * GROUP, values);
    }
    if (norm.lines != NULL && mine.first == 0 && mine.groups > 0) {
        norm.lines[2 * mine.row] = mean;
        norm.lines[2 * mine.row + 1] = scale;
    }
}

/* in_gradient may be gradient. */
template <typename T>
static __global__ void pass_pixels(layer_normalisation norm, uint32_t width, const void *__restrict__ in,
                                   const void *gradient, void *in_gradient, bool adds)
{
    await_kernels_before();
    const seat mine = seat_of(norm, width);
    const size_t at = mine.row * norm.columns;
    const T *const values_at = (const T *)in + at, *const gradient_at = (const T *)gradient + at;
    T *const to = (T *)in_gradient + at;
    const float share = 1.0f / (float)norm.channels;
    const float mean = mine.groups > 0 ? norm.lines[2 * mine.row] : 0.0f;
    const float scale = mine.groups > 0 ? norm.lines[2 * mine.row + 1] : 0.0f;
    float sum = 0, products = 0;
    for (uint32_t group = mine.first; group < mine.groups; group += width) {
        const floats<GROUP> values = read<GROUP>(values_at + group * GROUP);
        const floats<GROUP> gamma = read<GROUP>(norm.gamma + group * GROUP);
        const floats<GROUP> passed = read<GROUP>(gradient_at + group * GROUP);
        for (uint32_t k = 0; k < GROUP; k++) {
            const float scaled = is_channel(norm, group, k) ? passed.value[k] * gamma.value[k] : 0.0f;
            sum += scaled;
            products += scaled * (values.value[k] - mean);
        }
    }
    sum = pixel_sum(sum, width) * share;
    products = pixel_sum(products, width) * scale * share;
    for (uint32_t group = mine.first; group < mine.groups; group += width) {
        const floats<GROUP> values = read<GROUP>(values_at + group * GROUP);
        const floats<GROUP> gamma = read<GROUP>(norm.gamma + group * GROUP);
        floats<GROUP> result = read<GROUP>(gradient_at + group * GROUP);
        for (uint32_t k = 0; k < GROUP; k++) {
            const float shared = sum + (values.value[k] - mean) * scale * products;
            result.value[k] = is_channel(norm, group, k) ? (result.value[k] * gamma.value[k] - shared) * scale : 0.0f;
        }
        write(to + group * GROUP, adds ? plus(read<GROUP>(to + group * GROUP), result) : result);
    }
}

static cudaError_t check_layer_norm(const struct layer_normalisation *norm, std::initializer_list<const void *> values)
{
    if (norm->columns % GROUP != 0 || norm->channels == 0 || norm->channels > norm->columns)
        return cudaErrorInvalidValue;
    return is_aligned(values) && is_aligned({ norm->gamma, norm->beta }) ? cudaSuccess : cudaErrorMisalignedAddress;
}

cudaError_t kernel_layer_norm(cudaStream_t stream, enum value_type type, const struct layer_normalisation *norm,
                              const void *in, void *out)
{
    static decltype(&normalise_pixels<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(normalise_pixels);
    const cudaError_t status = check_layer_norm(norm, { in, out });
    const uint32_t width = threads_of_pixel(norm->columns);
    return status != cudaSuccess ? status
                                 : launch_threads(stream, norm->rows * width, kernels[type], *norm, width, in, out);
}

cudaError_t kernel_layer_norm_gradient(cudaStream_t stream, enum value_type type,
                                       const struct layer_normalisation *norm, const void *in, const void *gradient,
                                       void *in_gradient, bool adds)
{
    static decltype(&pass_pixels<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(pass_pixels);
    const cudaError_t status = check_layer_norm(norm, { in, gradient, in_gradient });
    const uint32_t width = threads_of_pixel(norm->columns);
    return status != cudaSuccess ? status : launch_threads(stream, norm->rows * width, kernels[type], *norm, width, in,
                                                           gradient, in_gradient, adds);
}

/* ---- branches ---- */

/* The factor of the sample of a pixel. */
static __device__ inline float factor_of(const branch &of, size_t row)
{
    uint32_t pixel;
    if (!of.drops)
        return 1.0f;
    const uint64_t position = of.values->first_position + divided(row, of.pixels, &pixel);
    const random_words words = philox(of.rule.key, random_words{ { 0, (uint32_t)position, (uint32_t)(position >> 32),
                                                                   of.values->epoch } });
    return (uint16_t)words.word[0] >= of.rule.threshold ? of.rule.scale : 0.0f;
}

/* out may be in or addend. */
template <typename T>
static __global__ void pass_branch(size_t threads, branch of, const void *in, const void *addend, void *out)
{
    await_kernels_before();
    const size_t i = thread_number();
    uint32_t group;
    if (i >= threads)
        return;
    const float factor = factor_of(of, divided(i, of.columns / GROUP, &group));
    floats<GROUP> result = {};
    if (factor != 0.0f) {
        result = read<GROUP>((const T *)in + i * GROUP);
        for (uint32_t k = 0; k < GROUP; k++)
            result.value[k] *= of.gamma != NULL ? of.gamma[group * GROUP + k] * factor : factor;
    }
    write((T *)out + i * GROUP, addend != NULL ? plus(read<GROUP>((const T *)addend + i * GROUP), result) : result);
}

static cudaError_t check_branch(const struct branch *of, std::initializer_list<const void *> values)
{
    if (of->columns % GROUP != 0 || of->pixels == 0)
        return cudaErrorInvalidValue;
    return is_aligned(values) && is_aligned({ of->gamma }) ? cudaSuccess : cudaErrorMisalignedAddress;
}

cudaError_t kernel_branch(cudaStream_t stream, enum value_type type, const struct branch *of, const void *in,
                          const void *addend, void *out)
{
    static decltype(&pass_branch<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(pass_branch);
    const cudaError_t status = check_branch(of, { in, addend, out });
    const size_t threads = of->rows * (of->columns / GROUP);
    return status != cudaSuccess ? status
                                 : launch_threads(stream, threads, kernels[type], threads, *of, in, addend, out);
}

/* ---- the gradients of gamma and beta: sums of chunks of rows, then the sums of all chunks ---- */

/* How the factors of gamma follow from the values of a row: (value - mean) * scale. */
struct row_line { float mean, scale; };

static __device__ inline row_line line_of_row(const layer_normalisation &norm, size_t row)
{
    return row_line{ norm.lines[2 * row], norm.lines[2 * row + 1] };
}

static __device__ inline row_line line_of_row(const branch &of, size_t row)
{
    return row_line{ 0.0f, factor_of(of, row) };
}

template <typename T, typename ROWS>
static __global__ void __launch_bounds__(THREADS, 4)
    sum_rows(tiling tiling, ROWS rows, const void *__restrict__ in, const void *__restrict__ gradient,
             float *__restrict__ partials)
{
    await_kernels_before();
    __shared__ float sums[2 * GROUP][THREADS];
    const share mine = share_of(tiling, rows.rows);
    floats<GROUP> sum = {}, product = {};
    TWO_AT_ONCE
    for (size_t row = mine.first; row < mine.last; row += mine.step) {
        const row_line line = line_of_row(rows, row);
        const floats<GROUP> values = read<GROUP>((const T *)in + mine.offset(row));
        const floats<GROUP> passed = read<GROUP>((const T *)gradient + mine.offset(row));
        for (uint32_t k = 0; k < GROUP; k++) {
            sum.value[k] += passed.value[k];
            product.value[k] += passed.value[k] * ((values.value[k] - line.mean) * line.scale);
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

/* Adds the partial sums of all chunks: a block takes eight columns, with 32 threads for each. beta_gradient may be
 * NULL. */
static __global__ void sum_row_chunks(uint32_t columns, uint32_t chunks, const float *__restrict__ partials,
                                      float *__restrict__ gamma_gradient, float *__restrict__ beta_gradient)
{
    await_kernels_before();
    __shared__ float sums[2][THREADS];
    const uint32_t column = blockIdx.x * GROUP + threadIdx.x % GROUP;
    float sum = 0, product = 0;
    FOUR_AT_ONCE
    for (uint32_t chunk = threadIdx.x / GROUP; chunk < chunks; chunk += THREADS / GROUP) {
        const float *const of = partials + (size_t)chunk * 2 * columns + column;
        sum += of[0];
        product += of[columns];
    }
    sums[0][threadIdx.x] = sum;
    sums[1][threadIdx.x] = product;
    sum_lanes(sums, 2, GROUP);
    if (threadIdx.x >= GROUP)
        return;
    gamma_gradient[column] = sums[1][threadIdx.x];
    if (beta_gradient != NULL)
        beta_gradient[column] = sums[0][threadIdx.x];
}

size_t kernel_gamma_partials(size_t rows, uint32_t columns)
{
    return tiling_of(rows, columns).chunks * 2 * columns;
}

template <typename ROWS>
static cudaError_t launch_sums(cudaStream_t stream, void (*kernel)(tiling, ROWS, const void *, const void *, float *),
                               const ROWS &rows, const void *in, const void *gradient, float *partials,
                               float *gamma_gradient, float *beta_gradient)
{
    const struct tiling tiling = tiling_of(rows.rows, rows.columns);
    const cudaError_t status = launch_blocks(stream, tiling.tiles, tiling.chunks, kernel, tiling, rows, in, gradient,
                                             partials);
    return status != cudaSuccess ? status : launch_blocks(stream, tiling.groups, 1, sum_row_chunks, rows.columns,
                                                          (uint32_t)tiling.chunks, partials, gamma_gradient,
                                                          beta_gradient);
}

#define FOR_ROWS(rows) { sum_rows<float, rows>, sum_rows<__half, rows>, sum_rows<__nv_bfloat16, rows> }

cudaError_t kernel_layer_norm_sums(cudaStream_t stream, enum value_type type, const struct layer_normalisation *norm,
                                   const void *in, const void *gradient, float *partials, float *gamma_gradient,
                                   float *beta_gradient)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(tiling, layer_normalisation, const void *, const void *, float *) =
        FOR_ROWS(layer_normalisation);
    const cudaError_t status = check_layer_norm(norm, { in, gradient, partials });
    return status != cudaSuccess ? status : launch_sums(stream, kernels[type], *norm, in, gradient, partials,
                                                        gamma_gradient, beta_gradient);
}

cudaError_t kernel_branch_sums(cudaStream_t stream, enum value_type type, const struct branch *of, const void *in,
                               const void *gradient, float *partials, float *gamma_gradient)
{
    static void (*const kernels[VALUE_TYPE_COUNT])(tiling, branch, const void *, const void *, float *) =
        FOR_ROWS(branch);
    const cudaError_t status = check_branch(of, { in, gradient, partials });
    return status != cudaSuccess ? status : launch_sums(stream, kernels[type], *of, in, gradient, partials,
                                                        gamma_gradient, (float *)NULL);
}
