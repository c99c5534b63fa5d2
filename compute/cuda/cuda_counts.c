/* Counts the operations of a training step on a GPU, and the bytes of device memory that they read and write, from the
 * fused network, without a device: for every function of a layer that queues work there is a function here that counts
 * it. test_cuda_launches compares both for every model. What is counted as a byte: struct step_counts (backend.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cuda_plan.h"

/* ---- what a cache still holds ---- */

#define CACHED_MAX 32u
#define TOUCHED_MAX 8u

/* The part of a tensor that the cache holds: its end or, after a pass backwards, its beginning. */
struct cached { uint32_t buffer; size_t bytes; bool backwards; };

struct touched { uint32_t buffer; size_t bytes; bool is_read; };

/* A model of step_counts.cached_bytes: passes go over their tensors from one end to the other, and what they touched
 * last stays, in all up to STEP_CACHE_BYTES. A pass that begins where the last one over a tensor ended finds that part;
 * one that begins at the other end replaces it before it gets there, unless the whole tensor is held. */
struct cache {
    struct cached held[CACHED_MAX];     /* the last touched first */
    uint32_t count;
    struct touched touched[TOUCHED_MAX];        /* by the operation that is being counted */
    uint32_t touched_count;
    bool backwards;             /* its direction */
};

static void cache_touch(struct cache *cache, uint32_t buffer, size_t bytes, bool is_read)
{
    for (uint32_t i = 0; i < cache->touched_count; i++)
        if (cache->touched[i].buffer == buffer) {
            cache->touched[i].is_read |= is_read;
            return;
        }
    if (cache->touched_count < TOUCHED_MAX)     /* a concatenation has more inputs: the rest does not count */
        cache->touched[cache->touched_count++] = (struct touched){ buffer, bytes, is_read };
}

/* Bytes of the tensor that the operation finds, and forgets what was held of it. */
static size_t cache_take(struct cache *cache, const struct touched *touched)
{
    for (uint32_t i = 0; i < cache->count; i++) {
        const struct cached held = cache->held[i];
        if (held.buffer != touched->buffer)
            continue;
        memmove(&cache->held[i], &cache->held[i + 1], (--cache->count - i) * sizeof(held));
        const bool meets = held.backwards != cache->backwards || held.bytes >= touched->bytes;
        return !touched->is_read || !meets ? 0 : held.bytes < touched->bytes ? held.bytes : touched->bytes;
    }
    return 0;
}

static void cache_put(struct cache *cache, const struct cached *held)
{
    size_t bytes = 0;
    uint32_t kept = 0;
    if (cache->count == CACHED_MAX)
        cache->count--;
    memmove(&cache->held[1], &cache->held[0], cache->count * sizeof(*held));
    cache->held[0] = *held;
    for (cache->count++; kept < cache->count && bytes < STEP_CACHE_BYTES; kept++) {
        const size_t left = STEP_CACHE_BYTES - bytes;
        if (cache->held[kept].bytes > left)
            cache->held[kept].bytes = left;
        bytes += cache->held[kept].bytes;
    }
    cache->count = kept;
}

/* The operation is complete: returns the bytes that it finds. The tensors that it touches share the cache. */
static size_t cache_settle(struct cache *cache)
{
    size_t all = 0, found = 0;
    for (uint32_t i = 0; i < cache->touched_count; i++) {
        found += cache_take(cache, &cache->touched[i]);
        all += cache->touched[i].bytes;
    }
    for (uint32_t i = 0; i < cache->touched_count; i++) {
        const struct touched *const touched = &cache->touched[i];
        const double share = all > STEP_CACHE_BYTES ? (double)STEP_CACHE_BYTES / (double)all : 1;
        cache_put(cache, &(struct cached){ touched->buffer, (size_t)((double)touched->bytes * share),
                                           cache->backwards });
    }
    cache->touched_count = 0;
    cache->backwards = false;
    return found;
}

struct counter {
    struct plan *plan;
    struct step_counts *counts;
    struct cache *cache;
};

static const struct layer *layer_of(const struct counter *counter, uint32_t head)
{
    return plan_layer(counter->plan, head);
}

static const struct flow *flow_of(const struct counter *counter, uint32_t head, uint32_t k)
{
    return plan_flow(&counter->plan->base, head, k);
}

static uint32_t value_buffer(const struct counter *counter, uint32_t value)
{
    return counter->plan->base.values.values[value].buffer;
}

static uint32_t gradient_buffer(const struct counter *counter, uint32_t head)
{
    return counter->plan->base.values.values[plan_output(&counter->plan->base, head)].gradient;
}

/* ---- operations ---- */

static void count_bytes(const struct counter *counter, enum step_work work, size_t bytes)
{
    counter->counts->bytes[work] += bytes;
    counter->counts->cached_bytes += cache_settle(counter->cache);
}

static void count_kernel(const struct counter *counter, enum step_work work, size_t bytes)
{
    counter->counts->kernels++;
    count_bytes(counter, work, bytes);
}

static void count_convolution(const struct counter *counter, size_t bytes)
{
    counter->counts->convolutions++;
    count_bytes(counter, STEP_CONVOLUTIONS, bytes);
}

static void count_product(const struct counter *counter, size_t bytes)
{
    counter->counts->products++;
    count_bytes(counter, STEP_OTHERS, bytes);
}

static void count_copy(const struct counter *counter, enum step_work work, size_t bytes)
{
    counter->counts->copies++;
    count_bytes(counter, work, bytes);
}

/* The kernel that is counted next is the first pass of a normalisation (sweep.h). */
static void goes_backwards(const struct counter *counter)
{
    counter->cache->backwards = true;
}

/* ---- bytes of tensors ---- */

static size_t number_size(const struct counter *counter)
{
    return value_bytes(counter->plan->base.backend->type);
}

static size_t in_numbers(const struct counter *counter, uint32_t head, uint32_t k)
{
    return value_counts(counter->plan, plan_input(&counter->plan->base, head, k));
}

static size_t out_numbers(const struct counter *counter, uint32_t head)
{
    return value_counts(counter->plan, plan_output(&counter->plan->base, head));
}

/* Input k and the result of a group; their gradients have as many bytes. */
static size_t in_size(const struct counter *counter, uint32_t head, uint32_t k)
{
    return in_numbers(counter, head, k) * number_size(counter);
}

static size_t out_size(const struct counter *counter, uint32_t head)
{
    return out_numbers(counter, head) * number_size(counter);
}

/* The normalisation whose result, input k, is not stored, because this group computes it. */
static uint32_t norm_read(const struct counter *counter, uint32_t head, uint32_t k)
{
    switch (layer_of(counter, head)->kind) {
    case LAYER_CONV2D: return cuda_norm_inside(counter->plan, head);
    case LAYER_BATCH_NORM: return k == 1 ? cuda_norm_added(counter->plan, head) : NET_INPUT;
    default: return NET_INPUT;
    }
}

/* The same as operands of the operation that is counted next. Instead of a result that is not stored, the input of its
 * normalisation is read, which has as many bytes. */
static size_t in_read(const struct counter *counter, uint32_t head, uint32_t k)
{
    const struct plan_base *const base = &counter->plan->base;
    const size_t bytes = in_size(counter, head, k);
    const uint32_t norm = norm_read(counter, head, k);
    const uint32_t value = norm != NET_INPUT ? plan_input(base, norm, 0) : plan_input(base, head, k);
    cache_touch(counter->cache, value_buffer(counter, value), bytes, true);
    return bytes;
}

static size_t out_used(const struct counter *counter, uint32_t head, bool is_read)
{
    const size_t bytes = out_size(counter, head);
    cache_touch(counter->cache, value_buffer(counter, plan_output(&counter->plan->base, head)), bytes, is_read);
    return bytes;
}

static size_t out_read(const struct counter *counter, uint32_t head)
{
    return out_used(counter, head, true);
}

static size_t out_written(const struct counter *counter, uint32_t head)
{
    return out_used(counter, head, false);
}

/* The gradient of the result. */
static size_t gradient_read(const struct counter *counter, uint32_t head)
{
    cache_touch(counter->cache, gradient_buffer(counter, head), out_size(counter, head), true);
    return out_size(counter, head);
}

static size_t out_rows(const struct counter *counter, uint32_t head)
{
    return value_rows(counter->plan, plan_output(&counter->plan->base, head));
}

static uint32_t out_columns(const struct counter *counter, uint32_t head)
{
    return value_stored(counter->plan, plan_output(&counter->plan->base, head));
}

/* fp32 numbers per column of the result: a parameter of the layer, its gradient or a statistic. */
static size_t column_bytes(const struct counter *counter, uint32_t head, size_t rows)
{
    return rows * out_columns(counter, head) * sizeof(float);
}

/* A kernel writes the gradient of input k; to add to it, it also reads it. */
static size_t flow_written(const struct counter *counter, uint32_t head, uint32_t k)
{
    const struct flow *const flow = flow_of(counter, head, k);
    cache_touch(counter->cache, flow->buffer, in_size(counter, head, k), flow->adds);
    return in_size(counter, head, k) * (flow->adds ? 2 : 1);
}

static size_t weight_numbers(const struct counter *counter, uint32_t head)
{
    const uint32_t weight = layer_of(counter, head)->parameters[PARAMETER_WEIGHT];
    return counter->plan->base.backend->arenas->trained.ranges[weight].count;
}

static size_t weight_bytes(const struct counter *counter, uint32_t head)
{
    return weight_numbers(counter, head) * number_size(counter);
}

static bool has_parameter(const struct counter *counter, uint32_t head, enum parameter_kind kind)
{
    return layer_has(layer_of(counter, head), kind);
}

/* The bias in the value type. */
static size_t bias_bytes(const struct counter *counter, uint32_t head)
{
    return has_parameter(counter, head, PARAMETER_BIAS) ? out_columns(counter, head) * number_size(counter) : 0;
}

/* Counts cuda_flow_pass for the gradient of the group's result. */
static void count_pass(const struct counter *counter, uint32_t head, uint32_t k, enum step_work work)
{
    const struct flow *const flow = flow_of(counter, head, k);
    if (flow->buffer == BUFFER_NONE || flow->buffer == gradient_buffer(counter, head))
        return;
    const size_t bytes = gradient_read(counter, head) + flow_written(counter, head, k);
    if (flow->adds)
        count_kernel(counter, work, bytes);
    else
        count_copy(counter, work, bytes);
}

/* ---- forward ---- */

/* The sums that a convolution computes for the batch normalisation after it. */
static size_t sums_bytes(const struct counter *counter, uint32_t conv)
{
    return cuda_conv_sums(counter->plan, conv) != BUFFER_NONE ? column_bytes(counter, conv, 2) : 0;
}

/* The scale and shift with which a convolution normalises its input itself. */
static size_t inside_bytes(const struct counter *counter, uint32_t conv)
{
    const uint32_t norm = cuda_norm_inside(counter->plan, conv);
    return norm != NET_INPUT ? 2 * out_columns(counter, norm) * number_size(counter) : 0;
}

static void count_weighted(const struct counter *counter, uint32_t head)
{
    const size_t bytes = in_read(counter, head, 0) + weight_bytes(counter, head) + bias_bytes(counter, head) +
                         out_written(counter, head);
    if (layer_of(counter, head)->kind == LAYER_CONV2D)
        count_convolution(counter, bytes + sums_bytes(counter, head) + inside_bytes(counter, head));
    else
        count_product(counter, bytes);
}

static void count_dropout(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    if (value_buffer(counter, plan_input(base, head, 0)) != value_buffer(counter, plan_output(base, head)))
        count_copy(counter, STEP_OTHERS, in_read(counter, head, 0) + out_written(counter, head));
    count_kernel(counter, STEP_OTHERS,
                 out_read(counter, head) + out_written(counter, head) + sizeof(struct step_values));
}

/* The columns whose statistics an earlier normalisation has computed (known_of in cuda_norm.c). */
static uint32_t known_columns(const struct counter *counter, uint32_t head)
{
    const uint32_t before = plan_norm_before(&counter->plan->base, head);
    const uint32_t channels = layer_of(counter, head)->in.channels;
    if (before == NET_INPUT)
        return 0;
    const uint32_t known = layer_of(counter, before)->in.channels;
    return known == channels ? out_columns(counter, head) : known / 8 * 8;
}

/* The mask of a ReLU after an addition, one bit per number, unless the gradient comes masked. */
static size_t mask_bytes(const struct counter *counter, uint32_t head)
{
    return cuda_norm_has_mask(counter->plan, head) ? out_numbers(counter, head) / 8 : 0;
}

/* Statistics, or partial sums, of the chunks of some columns. */
static size_t partial_bytes(const struct counter *counter, uint32_t head, uint32_t columns)
{
    return kernel_norm_partials(out_rows(counter, head), columns) * sizeof(float);
}

/* The factors and terms of each column that every kernel reads: mean, deviation, beta, and gamma if there is one. */
static size_t line_bytes(const struct counter *counter, uint32_t head)
{
    return column_bytes(counter, head, 3 + has_parameter(counter, head, PARAMETER_GAMMA));
}

/* The kernels: statistics of chunks, unless those of all columns are known; statistics of all rows, which also updates
 * the running ones. A convolution may have computed sums; then one kernel reads them. */
static void count_statistics(const struct counter *counter, uint32_t head)
{
    const uint32_t source = cuda_norm_source(counter->plan, head);
    const size_t sums = source != NET_INPUT ? sums_bytes(counter, source) : 0;
    const uint32_t known = known_columns(counter, head), fresh = out_columns(counter, head) - known;
    const size_t partials = partial_bytes(counter, head, fresh), merged = column_bytes(counter, head, 7);
    if (sums > 0) {
        count_kernel(counter, STEP_NORMS, sums + merged);
        return;
    }
    if (fresh > 0) {
        goes_backwards(counter);
        count_kernel(counter, STEP_NORMS,
                     in_read(counter, head, 0) / out_columns(counter, head) * fresh + partials);
    }
    count_kernel(counter, STEP_NORMS, partials + 2 * known * sizeof(float) + merged);
}

/* The other summand: a value, or what a normalisation is computed from. */
static size_t shortcut_bytes(const struct counter *counter, uint32_t head)
{
    const uint32_t added = cuda_norm_added(counter->plan, head);
    if (!plan_has_sum(counter->plan, head))
        return 0;
    return in_read(counter, head, 1) + (added != NET_INPUT ? line_bytes(counter, added) : 0);
}

/* Statistics, then the normalised values, or the scale and shift of a convolution that computes them, or nothing, where
 * another normalisation does. */
static void count_norm(const struct counter *counter, uint32_t head)
{
    count_statistics(counter, head);
    if (cuda_norm_line(counter->plan, head) != BUFFER_NONE)
        count_kernel(counter, STEP_NORMS,
                     line_bytes(counter, head) + 2 * out_columns(counter, head) * number_size(counter));
    else if (value_buffer(counter, plan_output(&counter->plan->base, head)) != BUFFER_NONE)
        count_kernel(counter, STEP_NORMS, in_read(counter, head, 0) + out_written(counter, head) +
                     shortcut_bytes(counter, head) + mask_bytes(counter, head) + line_bytes(counter, head));
}

/* Mean and scale of every pixel. */
static size_t pixel_line_bytes(const struct counter *counter, uint32_t head)
{
    return out_rows(counter, head) * 2 * sizeof(float);
}

static void count_layer_norm(const struct counter *counter, uint32_t head)
{
    count_kernel(counter, STEP_NORMS, in_read(counter, head, 0) + out_written(counter, head) +
                 pixel_line_bytes(counter, head) + column_bytes(counter, head, 2));
}

/* Gamma, and the step's values, on which stochastic depth depends. */
static size_t branch_bytes(const struct counter *counter, uint32_t head)
{
    return column_bytes(counter, head, has_parameter(counter, head, PARAMETER_GAMMA)) +
           (plan_find(counter->plan, head, LAYER_STOCHASTIC_DEPTH) != NET_INPUT ? sizeof(struct step_values) : 0);
}

static void count_branch(const struct counter *counter, uint32_t head)
{
    count_kernel(counter, STEP_OTHERS, in_read(counter, head, 0) + out_written(counter, head) +
                 branch_bytes(counter, head) + (plan_has_sum(counter->plan, head) ? in_read(counter, head, 1) : 0));
}

/* The winner of a window, a byte for every number of the result. */
static size_t winner_bytes(const struct counter *counter, uint32_t head)
{
    const bool has_winners = layer_of(counter, head)->kind == LAYER_MAX_POOL &&
                             plan_has_inputs(&counter->plan->base, head);
    return has_winners ? out_numbers(counter, head) : 0;
}

/* If the result shares the buffer of its first input (value_use.grows), only the other inputs are copied, and the group
 * of eight channels in which they begin is written again. */
static uint32_t first_copied(const struct counter *counter, uint32_t head)
{
    return value_memory_grows(&counter->plan->base.values, head) ? 1 : 0;
}

static uint32_t in_channels(const struct counter *counter, uint32_t head, uint32_t k)
{
    return plan_shape(&counter->plan->base, plan_input(&counter->plan->base, head, k)).channels;
}

static void count_concat(const struct counter *counter, uint32_t head)
{
    const uint32_t first = first_copied(counter, head), kept = first > 0 ? in_channels(counter, head, 0) : 0;
    uint32_t read = kept % 8, written = out_columns(counter, head) - kept / 8 * 8;
    for (uint32_t k = first; k < plan_group(&counter->plan->base, head)->input_count; k++)
        read += in_channels(counter, head, k);
    count_kernel(counter, STEP_OTHERS, out_rows(counter, head) * (read + written) * number_size(counter));
}

/* The loss of every sample with the gradient of its logits, and the sum of the losses. */
static void count_loss(const struct counter *counter, uint32_t head)
{
    const size_t samples = counter->plan->base.count * sizeof(struct sample_loss);
    const size_t gradient = flow_of(counter, head, 0)->buffer != BUFFER_NONE ? flow_written(counter, head, 0) : 0;
    count_kernel(counter, STEP_OTHERS, in_read(counter, head, 0) + gradient + samples +
                 counter->plan->base.count * sizeof(struct mixed_label));
    count_kernel(counter, STEP_OTHERS, samples + sizeof(struct backend_result));
}

/* Reads all inputs, and writes the result. */
static void count_values(const struct counter *counter, uint32_t head, enum step_work work)
{
    size_t bytes = out_written(counter, head) + winner_bytes(counter, head);
    for (uint32_t k = 0; k < plan_group(&counter->plan->base, head)->input_count; k++)
        bytes += in_read(counter, head, k);
    count_kernel(counter, work, bytes);
}

static void count_forward(const struct counter *counter, uint32_t head)
{
    switch (layer_of(counter, head)->kind) {
    case LAYER_CONV2D: case LAYER_DENSE: count_weighted(counter, head); return;
    case LAYER_BATCH_NORM: count_norm(counter, head); return;
    case LAYER_LAYER_NORM: count_layer_norm(counter, head); return;
    case LAYER_LOCAL_RESPONSE_NORM: count_values(counter, head, STEP_NORMS); return;
    case LAYER_SCALE: case LAYER_STOCHASTIC_DEPTH: count_branch(counter, head); return;
    case LAYER_DROPOUT: count_dropout(counter, head); return;
    case LAYER_ADD: count_values(counter, head, STEP_SUMS); return;
    case LAYER_CONCAT: count_concat(counter, head); return;
    case LAYER_AUXILIARY_LOSS: case LAYER_SOFTMAX_LOSS: count_loss(counter, head); return;
    default: count_values(counter, head, STEP_OTHERS); return;
    }
}

/* ---- backward ---- */

/* With a bias there are two kernels: the ReLU's mask with the bias gradient of chunks, and the sum of the chunks. */
static void count_bias(const struct counter *counter, uint32_t head)
{
    const size_t partials = kernel_bias_partials(out_rows(counter, head), out_columns(counter, head)) * sizeof(float);
    const bool has_relu = plan_has_relu(counter->plan, head), has_bias = has_parameter(counter, head, PARAMETER_BIAS);
    if (!has_relu && !has_bias)
        return;
    const size_t masked = has_relu ? out_read(counter, head) + out_size(counter, head) : 0;
    count_kernel(counter, STEP_OTHERS, gradient_read(counter, head) + masked + (has_bias ? partials : 0));
    if (has_bias)
        count_kernel(counter, STEP_OTHERS, partials + column_bytes(counter, head, 1));
}

/* The image of a weight gradient: cuDNN needs even padding, so the rest of an uneven one becomes part of the image. */
static size_t even_image_bytes(const struct counter *counter, uint32_t head)
{
    const struct layer *const layer = layer_of(counter, head);
    const size_t height = layer->in.height + (size_t)abs((int)layer->pad_top - (int)layer->pad_bottom);
    const size_t width = layer->in.width + (size_t)abs((int)layer->pad_left - (int)layer->pad_right);
    return in_size(counter, head, 0) / ((size_t)layer->in.height * layer->in.width) * height * width;
}

/* Also counts the conversion of 16-bit weight gradients to fp32 and the padding of images with uneven padding. */
static void count_conv_weights(const struct counter *counter, uint32_t head)
{
    const size_t image = even_image_bytes(counter, head);
    const bool is_padded = image != in_size(counter, head, 0);
    count_bias(counter, head);
    if (is_padded)
        count_kernel(counter, STEP_OTHERS, in_read(counter, head, 0) + image);
    count_convolution(counter, (is_padded ? image : in_read(counter, head, 0)) + gradient_read(counter, head) +
                      weight_bytes(counter, head) + inside_bytes(counter, head));
    if (counter->plan->base.backend->type != VALUE_FP32)
        count_kernel(counter, STEP_OTHERS,
                     weight_bytes(counter, head) + weight_numbers(counter, head) * sizeof(float));
}

/* The gradients are fp32; without a ReLU the product also sums that of the bias. */
static void count_dense_weights(const struct counter *counter, uint32_t head)
{
    const bool has_relu = plan_has_relu(counter->plan, head);
    const bool sums_bias = has_parameter(counter, head, PARAMETER_BIAS) && !has_relu;
    if (has_relu)
        count_bias(counter, head);
    count_product(counter, in_read(counter, head, 0) + gradient_read(counter, head) +
                  weight_numbers(counter, head) * sizeof(float) + column_bytes(counter, head, sums_bias));
}

/* Does the data gradient of the convolution after the normalisation compute its sums? */
static bool has_given_sums(const struct counter *counter, uint32_t head)
{
    const struct plan *const plan = counter->plan;
    const uint32_t value = plan_output(&plan->base, head);
    return cuda_norm_line(plan, head) != BUFFER_NONE &&
           cuda_conv_norm_sums(plan, fusion_only_reader(&plan->base.fusion, value)) != BUFFER_NONE;
}

/* The sums of chunks of rows, then those of all chunks with the means that count_inputs' kernel reads. A mask that
 * forward has stored, and the slope of an activation, are applied to the gradient in place. Of sums that a convolution
 * has computed, and the deviation, one kernel makes the means and gradients. */
static void count_norm_sums(const struct counter *counter, uint32_t head)
{
    if (has_given_sums(counter, head)) {
        count_kernel(counter, STEP_NORMS, column_bytes(counter, head, 7));
        return;
    }
    const size_t partials = partial_bytes(counter, head, out_columns(counter, head));
    const size_t mask = mask_bytes(counter, head);
    const bool changes = mask > 0 || fusion_has(&counter->plan->base.fusion, head, LAYER_ACTIVATION);
    const size_t vectors = 4 + has_parameter(counter, head, PARAMETER_GAMMA);       /* deviation; means; gradients */
    goes_backwards(counter);
    count_kernel(counter, STEP_NORMS, in_read(counter, head, 0) + gradient_read(counter, head) +
                 (changes ? out_size(counter, head) : 0) + mask + line_bytes(counter, head) + partials);
    count_kernel(counter, STEP_NORMS, partials + column_bytes(counter, head, vectors));
}

/* The gradients of gamma, and of beta where there is one. `lines`: bytes that the rows depend on. */
static void count_row_sums(const struct counter *counter, uint32_t head, enum step_work work, size_t lines)
{
    const size_t partials = kernel_gamma_partials(out_rows(counter, head), out_columns(counter, head)) * sizeof(float);
    const size_t gradients = 1 + has_parameter(counter, head, PARAMETER_BETA);
    count_kernel(counter, work, in_read(counter, head, 0) + gradient_read(counter, head) + lines + partials);
    count_kernel(counter, work, partials + column_bytes(counter, head, gradients));
}

static void count_parameters(const struct counter *counter, uint32_t head)
{
    switch (layer_of(counter, head)->kind) {
    case LAYER_CONV2D: count_conv_weights(counter, head); return;
    case LAYER_DENSE: count_dense_weights(counter, head); return;
    case LAYER_BATCH_NORM: count_norm_sums(counter, head); return;
    case LAYER_LAYER_NORM: count_row_sums(counter, head, STEP_NORMS, pixel_line_bytes(counter, head)); return;
    case LAYER_SCALE: count_row_sums(counter, head, STEP_OTHERS, 0); return;
    default: return;
    }
}

/* Reads the channels of the part in the gradient of the result, and writes its pixels with their padding. If the result
 * shares the buffer of its first input, the gradient of that input is already in place. */
static void count_concat_inputs(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    for (uint32_t k = first_copied(counter, head); k < plan_group(base, head)->input_count; k++) {
        const struct flow *const flow = flow_of(counter, head, k);
        const uint32_t written = value_stride(counter->plan, plan_input(base, head, k)) * (flow->adds ? 2 : 1);
        if (flow->buffer != BUFFER_NONE)
            count_kernel(counter, STEP_OTHERS, out_rows(counter, head) * (in_channels(counter, head, k) + written) *
                         number_size(counter));
    }
}

/* The gradient of an input of a product is that of the result times the other input. */
static void count_multiply_inputs(const struct counter *counter, uint32_t head)
{
    for (uint32_t k = 0; k < plan_group(&counter->plan->base, head)->input_count; k++)
        if (flow_of(counter, head, k)->buffer != BUFFER_NONE)
            count_kernel(counter, STEP_OTHERS, gradient_read(counter, head) + in_read(counter, head, 1 - k) +
                         flow_written(counter, head, k));
}

/* Terms of every number in fp32, then the gradient; each reads the values and the gradient of the result. */
static void count_response_inputs(const struct counter *counter, uint32_t head)
{
    const size_t terms = out_numbers(counter, head) * sizeof(float);
    count_kernel(counter, STEP_NORMS, in_read(counter, head, 0) + gradient_read(counter, head) + terms);
    count_kernel(counter, STEP_NORMS, in_read(counter, head, 0) + gradient_read(counter, head) + terms +
                 flow_written(counter, head, 0));
}

/* Batch normalisation reads the values; branches only the gradient of the result. Fused additions pass it on. */
static void count_summed_inputs(const struct counter *counter, uint32_t head)
{
    const bool is_norm = layer_of(counter, head)->kind == LAYER_BATCH_NORM;
    if (flow_of(counter, head, 0)->buffer != BUFFER_NONE) {
        const size_t means = column_bytes(counter, head, 2);
        const size_t read = is_norm ? in_read(counter, head, 0) + line_bytes(counter, head) + means
                                    : branch_bytes(counter, head);
        count_kernel(counter, is_norm ? STEP_NORMS : STEP_OTHERS,
                     read + gradient_read(counter, head) + flow_written(counter, head, 0));
    }
    if (plan_has_sum(counter->plan, head))
        count_pass(counter, head, 1, STEP_SUMS);
}

static void count_layer_norm_inputs(const struct counter *counter, uint32_t head)
{
    count_kernel(counter, STEP_NORMS, in_read(counter, head, 0) + gradient_read(counter, head) +
                 flow_written(counter, head, 0) + pixel_line_bytes(counter, head) + column_bytes(counter, head, 1));
}

/* A convolution may also read the gradient that it adds, and the values that mask the sum; or values, statistics and
 * parameters of a normalisation, for which it writes sums. */
static void count_weighted_inputs(const struct counter *counter, uint32_t head)
{
    const struct flow *const flow = flow_of(counter, head, 0);
    const struct plan_base *const base = &counter->plan->base;
    const bool is_conv = layer_of(counter, head)->kind == LAYER_CONV2D;
    const uint32_t sums = is_conv ? cuda_conv_norm_sums(counter->plan, head) : BUFFER_NONE;
    const size_t in = in_size(counter, head, 0);
    size_t bytes = gradient_read(counter, head) + weight_bytes(counter, head) + in;
    cache_touch(counter->cache, flow->buffer, in, false);
    if (flow->addend != BUFFER_NONE) {
        cache_touch(counter->cache, flow->addend, in, true);
        bytes += in;
    }
    if (flow->masks)
        bytes += in_read(counter, head, 0);
    if (sums != BUFFER_NONE)
        bytes += in_read(counter, head, 0) +
                 (4 + CONV_NORM_SUMS) * value_stored(counter->plan, plan_input(base, head, 0)) * sizeof(float);
    if (is_conv)
        count_convolution(counter, bytes);
    else
        count_product(counter, bytes);
}

static void count_inputs(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    const enum layer_kind kind = layer_of(counter, head)->kind;
    switch (kind) {
    case LAYER_CONV2D: case LAYER_DENSE: count_weighted_inputs(counter, head); return;
    case LAYER_CONCAT: count_concat_inputs(counter, head); return;
    case LAYER_LAYER_NORM: count_layer_norm_inputs(counter, head); return;
    case LAYER_LOCAL_RESPONSE_NORM: count_response_inputs(counter, head); return;
    case LAYER_AUXILIARY_LOSS: case LAYER_SOFTMAX_LOSS: return;         /* forward has computed the gradient */
    case LAYER_DROPOUT:
        count_kernel(counter, STEP_OTHERS,
                     gradient_read(counter, head) + out_size(counter, head) + sizeof(struct step_values));
        count_pass(counter, head, 0, STEP_OTHERS);
        return;
    case LAYER_ADD:
        for (uint32_t k = 0; k < plan_group(base, head)->input_count; k++)
            count_pass(counter, head, k, STEP_SUMS);
        return;
    case LAYER_MULTIPLY: count_multiply_inputs(counter, head); return;
    case LAYER_BATCH_NORM: case LAYER_SCALE: case LAYER_STOCHASTIC_DEPTH: count_summed_inputs(counter, head); return;
    case LAYER_RELU:
        count_kernel(counter, STEP_OTHERS,
                     out_read(counter, head) + gradient_read(counter, head) + flow_written(counter, head, 0));
        return;
    case LAYER_ACTIVATION:
        count_kernel(counter, STEP_OTHERS,
                     in_read(counter, head, 0) + gradient_read(counter, head) + flow_written(counter, head, 0));
        return;
    default:
        count_kernel(counter, STEP_OTHERS,
                     gradient_read(counter, head) + winner_bytes(counter, head) + flow_written(counter, head, 0));
        return;
    }
}

/* The gradient by this group is added to the sum. */
static void count_sum(const struct counter *counter, uint32_t head, uint32_t k)
{
    const size_t bytes = in_size(counter, head, k);
    cache_touch(counter->cache, flow_of(counter, head, k)->buffer, bytes, true);
    cache_touch(counter->cache, flow_of(counter, head, k)->sum, bytes, true);
    count_kernel(counter, STEP_SUMS, 3 * bytes);
}

static void count_backward(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    count_parameters(counter, head);
    if (plan_has_inputs(base, head))
        count_inputs(counter, head);
    for (uint32_t k = 0; k < plan_group(base, head)->input_count; k++)
        if (flow_of(counter, head, k)->sum != BUFFER_NONE)
            count_sum(counter, head, k);
}

/* ---- a step ---- */

/* The image, and labels and values of the step for its kernels. */
static void count_image(const struct counter *counter)
{
    const size_t pixels = shape_count(counter->plan->base.net->input);
    const size_t sample = pixels + sizeof(int32_t) + sizeof(struct mixed_label);
    count_kernel(counter, STEP_OTHERS, counter->plan->base.count * sample + sizeof(struct step_values) +
                 value_counts(counter->plan, 0) * number_size(counter));
}

/* Counts the input step, and the copy of the result to the host. */
static void count_step(const struct counter *counter)
{
    const struct plan_base *const base = &counter->plan->base;
    count_image(counter);
    count_copy(counter, STEP_OTHERS, sizeof(struct backend_result));
    for (uint32_t i = 0; i < base->net->layer_count; i++)
        if (fusion_is_head(&base->fusion, i))
            count_forward(counter, i);
    for (uint32_t i = base->net->layer_count; i-- > 0;)
        if (value_memory_needs_grad(&base->values, i))
            count_backward(counter, i);
    counter->counts->value_bytes = base->values.bytes;
    counter->counts->is_recorded = cuda_plan_is_recorded(counter->plan);
}

/* Counts a plan without cuDNN engines, because these would need a device. */
static int count_plan(struct backend *backend, uint32_t count, struct step_counts *counts_out)
{
    struct plan plan = { .base = { .backend = backend, .ops = &cuda_plan_ops, .net = backend->spec.net } };
    struct cache cache = { .count = 0 };
    plan_base_use(&plan.base, &(struct plan_spec){ .count = count, .training = true });
    const int rc = plan_base_open(&plan.base);
    if (rc == 0)
        count_step(&(struct counter){ .plan = &plan, .counts = counts_out, .cache = &cache });
    plan_base_close(&plan.base);
    return rc;
}

int cuda_count_step(const struct backend_spec *spec, uint32_t count, struct step_counts *counts_out)
{
    struct backend *const backend = calloc(1, sizeof(*backend));
    size_t *const stored = calloc(spec->net->parameter_count + 1, sizeof(*stored));
    struct arenas arenas = { 0 };
    int rc = backend == NULL || stored == NULL ? -ENOMEM : 0;
    *counts_out = (struct step_counts){ 0 };
    if (rc == 0) {
        backend->spec = *spec;
        backend->name = "cuda";
        backend->type = precision_type(spec->precision);
        backend->arenas = &arenas;
        rc = cuda_stored_sizes(backend, stored);
    }
    if (rc == 0)
        rc = arenas_init(&arenas, spec->net, stored, 0);
    if (rc == 0)
        rc = count_plan(backend, count, counts_out);
    arenas_release(&arenas);
    free(stored);
    free(backend);
    return rc;
}
