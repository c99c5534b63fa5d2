/* The kernels of the softmax loss. Queued by the CUDA backend from the tower's thread. */
#define LAUNCHES_EARLY
#include "compute/cuda/kernel_types.cuh"

#include <math.h>

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

/* The first largest logit. Every lane starts with logit 0, so a NaN in logit 0 stays and a NaN in another logit never
 * becomes the largest, as in a plain loop. */
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

/* 1 for padding channels. */
static __device__ inline float class_weight(const loss_shape &shape, uint32_t c)
{
    return shape.class_weights != NULL && c < shape.classes ? shape.class_weights[c] : 1.0f;
}

/* The mean distance of the logits from the largest one, weighted by the targets; valid in the lane that owns the label
 * (`writes`), where `own` is the distance of the label. A warp has one sample, so its lanes do not diverge. */
template <typename T>
static __device__ inline float target_distance(const loss_shape &shape, const T *logits, const mixed_label &label,
                                               float largest, float own, uint32_t lane)
{
    float target = own, sum = 0;
    if (label.share < 1) {
        const bool holds = label.other >= 0 && lane == (uint32_t)label.other % WARP;
        const float other =
            holds ? class_weight(shape, (uint32_t)label.other) * (largest - widened(logits[label.other])) : 0.0f;
        target = label.share * own + (1.0f - label.share) * warp_sum(other);
    }
    if (shape.smoothing == 0)
        return target;
    for (uint32_t c = lane; c < shape.classes; c += WARP)
        sum += class_weight(shape, c) * (largest - widened(logits[c]));
    return (1.0f - shape.smoothing) * target + shape.smoothing * (warp_sum(sum) / (float)shape.classes);
}

/* The target probability of class c, times its class weight. */
static __device__ inline float target_of(const loss_shape &shape, const mixed_label &label, uint32_t c)
{
    const float rest = shape.smoothing / (float)shape.classes;
    const float own = c == (uint32_t)label.label ? label.share : 0.0f;
    const float other = label.share < 1 && c == (uint32_t)label.other ? 1.0f - label.share : 0.0f;
    return class_weight(shape, c) * ((1.0f - shape.smoothing) * (own + other) + rest);
}

/* The class weight of a sample: the mean of those of its labels, by their shares. */
static __device__ inline float sample_weight(const loss_shape &shape, const mixed_label &label)
{
    return shape.class_weights != NULL ? mixing_class_weight(&label, shape.class_weights) : 0.0f;
}

/* The sum of the targets of a sample. */
static __device__ inline float target_total(const loss_shape &shape, const mixed_label &label, uint32_t lane)
{
    float sum = 0;
    if (shape.class_weights == NULL)
        return 1;
    for (uint32_t c = lane; c < shape.classes && shape.smoothing != 0; c += WARP)
        sum += class_weight(shape, c);
    return (1.0f - shape.smoothing) * sample_weight(shape, label) +
           shape.smoothing / (float)shape.classes * warp_sum(sum);
}

/* gradient may be the logits: a lane only writes what no other lane still reads. */
template <typename T>
static __global__ void softmax_loss(loss_shape shape, const void *logits, const mixed_label *__restrict__ labels,
                                    const struct loss_scale *__restrict__ scale, void *gradient,
                                    sample_loss *__restrict__ samples)
{
    await_kernels_before();
    const size_t sample = thread_number() / WARP;
    const uint32_t lane = threadIdx.x % WARP, classes = shape.classes;
    if (sample >= shape.count)
        return;
    const T *const row = (const T *)logits + sample * shape.stored;
    const largest best = find_largest(row, classes, lane);
    float sum = 0;
    for (uint32_t c = lane; c < classes; c += WARP)
        sum += expf(widened(row[c]) - best.value);
    sum = warp_sum(sum);
    const mixed_label target = labels[sample];
    const uint32_t label = (uint32_t)target.label;      /* -1 becomes larger than any class */
    const bool is_counted = label < classes;
    const bool is_correct = best.index == (uint32_t)mixing_answer(&target);
    const bool writes = lane == (is_counted ? label % WARP : 0);
    const float own = is_counted && writes ? class_weight(shape, label) * (best.value - widened(row[label])) : 0.0f;
    const float total = is_counted ? target_total(shape, target, lane) : 1.0f;
    const float loss = total * logf(sum) + target_distance(shape, row, target, best.value, own, lane);
    if (writes)
        samples[sample] = is_counted ? sample_loss{ loss, IS_COUNTED | (is_correct ? IS_CORRECT : 0),
                                                    sample_weight(shape, target) }
                                     : sample_loss{ 0, 0, 0 };
    if (writes && shape.answers != NULL)
        shape.answers[sample] = answer{ target.label, best.index };
    if (gradient == NULL)
        return;
    const float factor = !is_counted ? 0.0f : shape.weight * (scale != NULL ? scale->factor : 1.0f);
    for (uint32_t c = lane; c < shape.stored; c += WARP) {
        const bool is_used = is_counted && c < classes;
        const float slope =
            c == label && !isfinite(loss)
                ? loss : total * (expf(widened(row[c]) - best.value) / sum) - target_of(shape, target, c);
        narrowed(is_used ? slope * factor : 0.0f, (T *)gradient + sample * shape.stored + c);
    }
}

struct loss_sums { double loss; uint32_t correct, counted; double weight; };

static __device__ inline loss_sums plus(const loss_sums &a, const loss_sums &b)
{
    return loss_sums{ a.loss + b.loss, a.correct + b.correct, a.counted + b.counted, a.weight + b.weight };
}

/* The sums that a loss adds to the result. */
static __device__ inline loss_sums contribution(const loss_shape &shape, const loss_sums &sums)
{
    return loss_sums{ shape.weight * sums.loss, shape.is_auxiliary ? 0 : sums.correct,
                      shape.is_auxiliary ? 0 : sums.counted, shape.is_auxiliary ? 0 : sums.weight };
}

static __global__ void sum_losses(loss_shape shape, const sample_loss *__restrict__ samples,
                                  const struct loss_scale *__restrict__ scale, backend_result *__restrict__ result)
{
    await_kernels_before();
    __shared__ loss_sums sums[THREADS];
    loss_sums sum = { 0, 0, 0, 0 };
    for (size_t i = threadIdx.x; i < shape.count; i += THREADS) {
        const sample_loss sample = samples[i];
        sum = plus(sum, loss_sums{ sample.loss, (sample.flags & IS_CORRECT) != 0, (sample.flags & IS_COUNTED) != 0,
                                   sample.class_weight });
    }
    sums[threadIdx.x] = sum;
    for (uint32_t step = THREADS / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step)
            sums[threadIdx.x] = plus(sums[threadIdx.x], sums[threadIdx.x + step]);
    }
    if (threadIdx.x != 0)
        return;
    const loss_sums before = shape.adds
                                 ? loss_sums{ result->loss_sum, result->correct, result->counted, result->weight_sum }
                                 : loss_sums{ 0, 0, 0, 0 };
    const loss_sums all = plus(before, contribution(shape, sums[0]));
    if (shape.weight_sum != NULL)
        *shape.weight_sum = (float)all.weight;
    *result = backend_result{ all.loss, all.correct, all.counted, all.weight, scale != NULL ? scale->skipped_steps : 0,
                              scale != NULL ? scale->factor : 1.0f, 0 };
}

cudaError_t kernel_softmax_loss(cudaStream_t stream, enum value_type type, const struct loss_shape *shape,
                                const void *logits, const struct mixed_label *labels, const struct loss_scale *scale,
                                void *gradient, struct sample_loss *samples, struct backend_result *result)
{
    static decltype(&softmax_loss<float>) const kernels[VALUE_TYPE_COUNT] = FOR_TYPES(softmax_loss);
    if (shape->classes == 0 || shape->classes > shape->stored)
        return cudaErrorInvalidValue;
    const cudaError_t status = launch_threads(stream, (size_t)shape->count * WARP, kernels[type], *shape, logits,
                                              labels, scale, gradient, samples);
    if (status != cudaSuccess)
        return status;
    return launch_blocks(stream, 1, 1, sum_losses, *shape, samples, scale, result);
}
