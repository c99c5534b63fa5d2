/* Kernels of the layers that only shares of a net have (compute/share.h): copies to and from memory outside of plans,
 * and the softmax loss of a part of the classes. Queued by the CUDA backend from the tower's thread. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_types.cuh"

#include <math.h>

/* ---- memory outside of plans: a thread owns eight channels of a pixel, adjacent threads own adjacent pixels ---- */

/* The numbers that a thread owns, and where they are. */
struct outside_site { size_t sample; uint32_t pixel, channel; };

static __device__ inline outside_site outside_site_of(const outside_shape &shape, size_t thread)
{
    uint32_t pixel, group;
    const size_t line = divided(thread, shape.pixels, &pixel);
    const size_t sample = divided(line, shape.stored / GROUP, &group);
    return outside_site{ sample, pixel, group * GROUP };
}

static __device__ inline size_t value_at(const outside_shape &shape, const outside_site &site)
{
    return (site.sample * shape.pixels + site.pixel) * shape.stored + site.channel;
}

static __device__ inline size_t outside_at(const outside_shape &shape, const outside_site &site, uint32_t channel)
{
    const uint32_t of_part = shape.channels * shape.pixels / shape.parts, number = channel * shape.pixels + site.pixel;
    return ((size_t)(number / of_part) * shape.count + site.sample) * of_part + number % of_part;
}

template <typename T>
static __global__ void to_outside(outside_shape shape, const void *__restrict__ values, float *__restrict__ outside)
{
    await_kernels_before();
    const outside_site site = outside_site_of(shape, thread_number());
    if (site.sample >= shape.count)
        return;
    const floats<GROUP> numbers = read<GROUP>((const T *)values + value_at(shape, site));
    for (uint32_t k = 0; k < GROUP; k++)
        if (site.channel + k < shape.channels)
            outside[outside_at(shape, site, site.channel + k)] = numbers.value[k];
}

template <typename T>
static __global__ void from_outside(outside_shape shape, const float *__restrict__ outside, void *__restrict__ values,
                                    bool adds)
{
    await_kernels_before();
    const outside_site site = outside_site_of(shape, thread_number());
    if (site.sample >= shape.count)
        return;
    T *const to = (T *)values + value_at(shape, site);
    floats<GROUP> numbers = {};
    for (uint32_t k = 0; k < GROUP; k++)
        if (site.channel + k < shape.channels)
            numbers.value[k] = outside[outside_at(shape, site, site.channel + k)];
    write(to, adds ? plus(read<GROUP>(to), numbers) : numbers);
}

static bool outside_is_valid(const struct outside_shape *shape)
{
    return shape->stored % GROUP == 0 && shape->channels <= shape->stored && shape->pixels > 0 && shape->parts > 0 &&
           shape->channels * shape->pixels % shape->parts == 0;
}

static size_t outside_threads(const struct outside_shape *shape)
{
    return (size_t)shape->count * shape->pixels * (shape->stored / GROUP);
}

cudaError_t kernel_to_outside(cudaStream_t stream, enum value_type type, const struct outside_shape *shape,
                              const void *values, float *outside)
{
    static decltype(&to_outside<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(to_outside);
    if (!outside_is_valid(shape))
        return cudaErrorInvalidValue;
    if (!is_aligned({ values }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, outside_threads(shape), kernels[type], *shape, values, outside);
}

cudaError_t kernel_from_outside(cudaStream_t stream, enum value_type type, const struct outside_shape *shape,
                                const float *outside, void *values, bool adds)
{
    static decltype(&from_outside<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(from_outside);
    if (!outside_is_valid(shape))
        return cudaErrorInvalidValue;
    if (!is_aligned({ values }))
        return cudaErrorMisalignedAddress;
    return launch_threads(stream, outside_threads(shape), kernels[type], *shape, outside, values, adds);
}

static __global__ void send_nothing(size_t count, float *__restrict__ numbers, uint32_t rows,
                                    mixed_label *__restrict__ labels)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i < count)
        numbers[i] = 0;
    if (i < rows)
        labels[i] = mixed_label{ BATCH_NO_LABEL, BATCH_NO_LABEL, 1 };
}

cudaError_t kernel_send_nothing(cudaStream_t stream, size_t count, float *numbers, uint32_t rows,
                                struct mixed_label *labels)
{
    return launch_threads(stream, count > rows ? count : rows, send_nothing, count, numbers, rows, labels);
}

/* ---- the loss of a part of the classes: a block per sample, threads that own eight adjacent classes ---- */

struct largest { float value; uint32_t index; };

/* Of two logits the one that is NaN, else the larger one; of equals the first. So the order of comparisons changes
 * nothing. */
static __device__ inline largest larger(const largest &a, const largest &b)
{
    const bool a_is_nan = isnan(a.value), b_is_nan = isnan(b.value);
    const bool is_equal = a_is_nan || b_is_nan ? a_is_nan && b_is_nan : a.value == b.value;
    if (is_equal)
        return a.index < b.index ? a : b;
    return a_is_nan || a.value > b.value ? a : b;
}

template <typename T>
static __device__ inline largest find_largest(const part_loss_shape &shape, const T *logits, largest *found)
{
    largest mine = { widened(logits[0]), 0 };
    for (uint32_t c = threadIdx.x * GROUP; c < shape.classes; c += THREADS * GROUP) {
        const floats<GROUP> values = read<GROUP>(logits + c);
        for (uint32_t k = 0; k < GROUP; k++)
            if (c + k < shape.classes)
                mine = larger(mine, largest{ values.value[k], c + k });
    }
    found[threadIdx.x] = mine;
    for (uint32_t step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            found[threadIdx.x] = larger(found[threadIdx.x], found[threadIdx.x + step]);
    }
    __syncthreads();
    return found[0];
}

/* part_target, which is in double and of most classes 0 without smoothing. */
static __device__ inline double target_of(const part_rule &rule, const mixed_label &label, uint32_t c)
{
    const bool is_label = c == (uint32_t)label.label || c == (uint32_t)label.other;
    return is_label || rule.smoothing != 0 ? part_target(&rule, &label, c) : 0;
}

struct part_sums { double sum, target; };

template <typename T>
static __device__ inline part_sums sum_part(const part_loss_shape &shape, const T *logits, const mixed_label &label,
                                            float largest, part_sums *sums)
{
    part_sums mine = { 0, 0 };
    for (uint32_t c = threadIdx.x * GROUP; c < shape.classes; c += THREADS * GROUP) {
        const floats<GROUP> values = read<GROUP>(logits + c);
        for (uint32_t k = 0; k < GROUP; k++) {
            if (c + k >= shape.classes)
                continue;
            const double target = label.label < 0 ? 0 : target_of(shape.rule, label, shape.first + c + k);
            mine.sum += (double)expf(values.value[k] - largest);
            mine.target += target > 0 ? target * (double)values.value[k] : 0;
        }
    }
    sums[threadIdx.x] = mine;
    for (uint32_t step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x >= step)
            continue;
        sums[threadIdx.x].sum += sums[threadIdx.x + step].sum;
        sums[threadIdx.x].target += sums[threadIdx.x + step].target;
    }
    return sums[0];
}

template <typename T>
static __global__ void find_part_stats(part_loss_shape shape, const void *__restrict__ logits,
                                       const mixed_label *__restrict__ labels, part_stats *__restrict__ stats)
{
    await_kernels_before();
    __shared__ largest found[THREADS];
    __shared__ part_sums sums[THREADS];
    const T *const row = (const T *)logits + (size_t)blockIdx.x * shape.stored;
    const largest best = find_largest(shape, row, found);
    const part_sums sum = sum_part(shape, row, labels[blockIdx.x], best.value, sums);
    if (threadIdx.x == 0)
        stats[(size_t)shape.part * shape.count + blockIdx.x] = part_stats{ best.value, shape.first + best.index,
                                                                           sum.sum, sum.target };
}

/* A sample in backward: softmax of a logit is exp(logit - high - low). */
struct part_row {
    mixed_label label;          /* label < 0: gradients are 0 */
    float total;                /* the sum of the targets; NaN if the loss is not finite */
    float high, low;            /* the logarithm of the sum of exp(logit), as two numbers */
};

static __device__ inline part_row part_row_of(const part_loss_shape &shape, const mixed_label &label,
                                              const part_stats *stats)
{
    if (label.label < 0)
        return part_row{ label, 0, 0, 0 };
    const part_softmax softmax = part_combine(stats, shape.count, shape.parts);
    const bool is_finite = isfinite(softmax.log_sum - softmax.target);
    const float high = (float)softmax.log_sum;
    return part_row{ label, is_finite ? (float)part_target_total(&shape.rule, &label) : NAN, high,
                     (float)(softmax.log_sum - (double)high) };
}

static __device__ inline float part_slope(const part_loss_shape &shape, const part_row &row, uint32_t c, float logit)
{
    if (row.label.label < 0 || c >= shape.classes)
        return 0;
    return row.total * expf(logit - row.high - row.low) - (float)target_of(shape.rule, row.label, shape.first + c);
}

template <typename T>
static __global__ void part_gradients(part_loss_shape shape, const void *__restrict__ logits,
                                      const mixed_label *__restrict__ labels, const part_stats *__restrict__ stats,
                                      void *__restrict__ gradient)
{
    await_kernels_before();
    __shared__ part_row shared;
    const size_t at = (size_t)blockIdx.x * shape.stored;
    if (threadIdx.x == 0)
        shared = part_row_of(shape, labels[blockIdx.x], stats + blockIdx.x);
    __syncthreads();
    const part_row row = shared;
    for (uint32_t c = threadIdx.x * GROUP; c < shape.stored; c += THREADS * GROUP) {
        floats<GROUP> values = read<GROUP>((const T *)logits + at + c);
        for (uint32_t k = 0; k < GROUP; k++)
            values.value[k] = part_slope(shape, row, c + k, values.value[k]);
        write((T *)gradient + at + c, values);
    }
}

static bool part_is_valid(const struct part_loss_shape *shape)
{
    return shape->stored % GROUP == 0 && shape->classes > 0 && shape->classes <= shape->stored &&
           shape->part < shape->parts;
}

cudaError_t kernel_part_stats(cudaStream_t stream, enum value_type type, const struct part_loss_shape *shape,
                              const void *logits, const struct mixed_label *labels, struct part_stats *stats)
{
    static decltype(&find_part_stats<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(find_part_stats);
    if (!part_is_valid(shape))
        return cudaErrorInvalidValue;
    if (!is_aligned({ logits }))
        return cudaErrorMisalignedAddress;
    return launch_blocks(stream, shape->count, 1, kernels[type], *shape, logits, labels, stats);
}

cudaError_t kernel_part_gradient(cudaStream_t stream, enum value_type type, const struct part_loss_shape *shape,
                                 const void *logits, const struct mixed_label *labels, const struct part_stats *stats,
                                 void *gradient)
{
    static decltype(&part_gradients<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(part_gradients);
    if (!part_is_valid(shape))
        return cudaErrorInvalidValue;
    if (!is_aligned({ logits, gradient }))
        return cudaErrorMisalignedAddress;
    return launch_blocks(stream, shape->count, 1, kernels[type], *shape, logits, labels, stats, gradient);
}

/* ---- results of samples, once the statistics of all parts are known ---- */

struct part_outcome { double loss, weight; bool is_counted, is_correct; };

static __device__ inline part_outcome part_outcome_of(const part_rows &rows, uint32_t row)
{
    const mixed_label label = rows.labels[row];
    if (label.label < 0)
        return part_outcome{ 0, 0, false, false };
    const part_softmax softmax = part_combine(rows.stats + row, rows.count, rows.parts);
    const part_rule &rule = rows.rule;
    const double weight = rule.class_weights != NULL ? (double)mixing_class_weight(&label, rule.class_weights) : 0;
    return part_outcome{ part_loss(&rule, &label, &softmax), weight, true,
                         softmax.predicted == (uint32_t)mixing_answer(&label) };
}

static __device__ inline void add_outcome(backend_result *sum, const part_outcome &outcome)
{
    if (!outcome.is_counted)
        return;
    sum->loss_sum += outcome.loss;
    sum->weight_sum += outcome.weight;
    sum->correct += outcome.is_correct;
    sum->counted++;
}

/* One block: its threads compute the outcomes of THREADS rows at once, and thread 0 adds them in order. */
static __global__ void sum_part_rows(part_rows rows, uint32_t first, uint32_t count,
                                     const struct loss_scale *__restrict__ scale, float *__restrict__ weight_sum,
                                     backend_result *__restrict__ result)
{
    await_kernels_before();
    __shared__ part_outcome outcomes[THREADS];
    backend_result sum = { 0, 0, 0, 0, scale != NULL ? scale->skipped_steps : 0, scale != NULL ? scale->factor : 1.0f,
                           0 };
    for (uint32_t begin = 0; begin < count; begin += THREADS) {
        if (begin + threadIdx.x < count)
            outcomes[threadIdx.x] = part_outcome_of(rows, first + begin + threadIdx.x);
        __syncthreads();
        for (uint32_t i = 0; threadIdx.x == 0 && i < THREADS && begin + i < count; i++)
            add_outcome(&sum, outcomes[i]);
        __syncthreads();
    }
    if (threadIdx.x != 0)
        return;
    *result = sum;
    if (weight_sum != NULL)
        *weight_sum = (float)sum.weight_sum;
}

cudaError_t kernel_part_result(cudaStream_t stream, const struct part_rows *rows, uint32_t first, uint32_t count,
                               const struct loss_scale *scale, float *weight_sum, struct backend_result *result)
{
    return launch_blocks(stream, 1, 1, sum_part_rows, *rows, first, count, scale, weight_sum, result);
}

static __global__ void part_answers(part_rows rows, uint32_t first, uint32_t count, answer *__restrict__ answers)
{
    await_kernels_before();
    const size_t i = thread_number();
    if (i >= count)
        return;
    const part_stats *const stats = rows.stats + first + i;
    const uint32_t best = part_with_largest(stats, rows.count, rows.parts);
    answers[i] = answer{ rows.labels[first + i].label, stats[(size_t)best * rows.count].predicted };
}

cudaError_t kernel_part_answers(cudaStream_t stream, const struct part_rows *rows, uint32_t first, uint32_t count,
                                struct answer *answers)
{
    return launch_threads(stream, count, part_answers, *rows, first, count, answers);
}
