/* Convolution and dense layers on oneDNN: one primitive per direction. ReLU is fused into forward, the bias gradient is
 * computed with the weight gradient. In evaluation a convolution also takes a batch normalisation, an addition and an
 * activation that follow it. */
#include "compute/onednn/onednn_depthwise.h"
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"

#define CACHED 4u               /* a value of at most so many sub-batches may fit into a cache and is not split */
#define WEIGHT_BYTES ((size_t)512 << 10)        /* larger weights are too expensive to read for every sub-batch, */
#define WEIGHT_SHARE 4u         /* unless a sub-batch is this many times larger */
#define WINOGRAD_BLOCK 16u      /* largest channel block that Winograd's kernels read */
#define OWN_WINDOW_MAX 64u      /* largest window (x channels) whose bf16 weight gradient is computed by our own loop */
#define PADDING_MAX 64u         /* padding channels of the last weight block: their weights are 0 */

/* Which output channel each weight of a layout belongs to. The weights are `count` runs of `run` weights. In a run the
 * channel changes every `channel_stride` weights, and the same `block` channels repeat. Every `group_runs` runs, a
 * group of `group_channels` channels begins. */
struct channel_runs { size_t block, channel_stride, run, count, group_runs, group_channels; };

/* Evaluation: the batch normalisation that follows the convolution, folded into it as a factor and a shift per channel.
 * Either the primitive applies both to its result, or a copy of the weights is multiplied by the factors and the shifts
 * are the bias; that copy is made for every batch, because the backend is not notified when weights change. */
struct folded_norm {
    uint32_t layer;             /* the batch_norm layer; NET_INPUT: none */
    uint32_t head;              /* the convolution */
    uint32_t factors, shifts;   /* buffers */
    nn_md line;                 /* descriptor of factors and of shifts, as arguments of the primitive; NULL: the
                                 * weights are multiplied */
    nn_md bias;                 /* descriptor of the shifts, as the bias */
    uint32_t weights;           /* buffer: the multiplied weights */
    struct channel_runs runs;   /* runs of the output channels of the weights */
};
static inline bool folded_norm_has(const struct folded_norm *folded)
{
    return folded->layer != NET_INPUT;
}
static inline bool folded_norm_is_in_weights(const struct folded_norm *folded)
{
    return folded_norm_has(folded) && folded->line == NULL;
}

/* The calls for some samples of the batch. */
struct sub_batch_calls { struct sub_batch sub_batch; struct nn_call forward, weights, data; };

/* All calls of a layer, in order of samples. There are several when the input is recomputed in sub-batches, or when the
 * scratchpad of Winograd's algorithm does not hold all samples; in the latter case the first call computes the whole
 * weight gradient. */
struct sub_batches {
    struct sub_batch_calls *calls;
    uint32_t count;
    uint32_t source;            /* the batch_norm head that recomputes the input of each sub-batch; NET_INPUT: the
                                 * input is stored as a whole */
    uint32_t recomputed;        /* buffer: a sub-batch of the input, normalised again in backward */
    uint32_t partial_weights, partial_bias;     /* buffers: gradients of one sub-batch, added to those of the first */
};
static inline bool sub_batches_recompute_input(const struct sub_batches *sub_batches)
{
    return sub_batches->source != NET_INPUT;
}

struct weighted {
    struct sub_batches sub_batches;
    struct folded_norm norm;
    const struct layer *activation;     /* evaluation: the activation that follows; NULL: none */
    struct nn_eltwise eltwise;  /* the activation as a post-operation; undefined: a loop computes it */
    struct first_conv *first;   /* computes the weight gradient, when not NULL */
    struct depthwise *depthwise;        /* the same, of sub-batches, too */
    uint32_t depthwise_scratch, depthwise_sums;         /* buffers */
    bool masks;                 /* backward first applies the ReLU's mask to the gradient */
    uint32_t relu_mask;         /* buffer written by relu_store_mask; BUFFER_NONE: the values are the mask */
};

static const struct value *in_buffers(const struct plan *plan, uint32_t layer)
{
    return &plan->base.values.values[plan_input(&plan->base, layer, 0)];
}

static const struct value *out_buffers(const struct plan *plan, uint32_t layer)
{
    return &plan->base.values.values[plan_output(&plan->base, layer)];
}

/* ---- sub-batches ----
 *
 * When the output of a batch normalisation does not fit into a cache, it and the convolution that reads it are bound by
 * memory: the value is written, read, and read again for the weight gradient; its gradient is written and read. So such
 * a value is computed a few samples at a time, just before the convolution reads them from the cache, and normalised
 * again in backward. */

static bool is_plain_norm(const struct plan *plan, uint32_t value)
{
    const uint32_t head = value != 0 ? plan_group(&plan->base, value - 1)->head : FUSION_LEFT_OUT;
    return head != FUSION_LEFT_OUT && plan_layer(plan, head)->kind == LAYER_BATCH_NORM &&
           !plan_has_sum(plan, head);
}

/* Is `reader` the first group after the one that computes the value? Then the input of that normalisation has not been
 * overwritten yet. */
static bool follows_directly(const struct plan *plan, uint32_t reader, uint32_t value)
{
    for (uint32_t i = plan_group(&plan->base, value - 1)->head + 1; i < reader; i++)
        if (fusion_is_head(&plan->base.fusion, i))
            return false;
    return true;
}

/* Does the reader use Winograd's algorithm? It would transform all weights again for each sub-batch. It reads blocked
 * layouts only. */
static bool uses_winograd(const struct plan *plan, uint32_t reader)
{
    const struct tensor_layout *const in = in_tensor(plan, reader, 0);
    const bool is_in_blocks = !in->is_nhwc && in->block <= WINOGRAD_BLOCK;
    return is_in_blocks &&
           winograd_workspace(plan_backend(plan), plan_layer(plan, reader), plan->base.count, NULL) != 0;
}

static bool can_split(const struct plan *plan, uint32_t reader, uint32_t value)
{
    return plan_layer(plan, reader)->kind == LAYER_CONV2D && plan_input(&plan->base, reader, 0) == value &&
           follows_directly(plan, reader, value) && !uses_winograd(plan, reader) &&
           !first_conv_fits(plan_layer(plan, reader), in_tensor(plan, reader, 0), out_tensor(plan, reader));
}

static bool are_weights_small(const struct plan *plan, uint32_t reader, size_t sub_batch_bytes)
{
    const struct layer *const layer = plan_layer(plan, reader);
    const size_t weights = (size_t)layer->in.channels / layer->groups * layer->out.channels * layer->kernel_h *
                           layer->kernel_w;
    return weights * sizeof(float) <= WEIGHT_BYTES || weights * sizeof(float) <= sub_batch_bytes / WEIGHT_SHARE;
}

uint32_t value_sub_batch(const struct plan *plan, uint32_t value)
{
    const uint32_t reader = is_plain_norm(plan, value) ? fusion_only_reader(&plan->base.fusion, value) : NET_INPUT;
    const uint32_t threads = plan_backend(plan)->spec.threads;
    const size_t bytes = tensor_count(&plan->tensors[value]) * value_size(plan_type(plan));
    const size_t together = plan_backend(plan)->sub_batch_bytes;
    if (reader == NET_INPUT || plan->base.count * bytes <= together * CACHED || !can_split(plan, reader, value))
        return 0;
    const size_t fitting = together / bytes / threads * threads, sub_batch = fitting > threads ? fitting : threads;
    const bool is_worth_it = sub_batch * 2 <= plan->base.count && are_weights_small(plan, reader, sub_batch * bytes);
    return is_worth_it ? (uint32_t)sub_batch : 0;
}

static int open_buffers(struct plan *plan, uint32_t head, struct sub_batches *sub_batches)
{
    nn_md weights = plan_stored(plan, head, PARAMETER_WEIGHT), bias = plan_stored(plan, head, PARAMETER_BIAS);
    int rc = plan_scratch(plan, head, in_buffers(plan, head)->bytes, PASS_PARAMETERS, PASS_PARAMETERS,
                          &sub_batches->recomputed);
    if (rc == 0)
        rc = plan_scratch(plan, head, nn_md_bytes(weights), PASS_PARAMETERS, PASS_PARAMETERS,
                          &sub_batches->partial_weights);
    if (rc == 0 && bias != NULL)
        rc = plan_scratch(plan, head, nn_md_bytes(bias), PASS_PARAMETERS, PASS_PARAMETERS, &sub_batches->partial_bias);
    return rc;
}

/* The number of samples per call when the input is stored as a whole. */
static uint32_t samples_per_call(const struct plan *plan, uint32_t head)
{
    const uint32_t count = plan->base.count;
    const uint32_t samples = winograd_samples(plan_backend(plan), plan_layer(plan, head), in_tensor(plan, head, 0),
                                              out_tensor(plan, head), count, plan_has_inputs(&plan->base, head));
    return samples != 0 ? samples : count;
}

static int sub_batches_open(struct plan *plan, uint32_t head, struct sub_batches *sub_batches)
{
    const uint32_t value = plan_input(&plan->base, head, 0), sub_batch = value_sub_batch(plan, value);
    const uint32_t count = plan->base.count, each = sub_batch != 0 ? sub_batch : samples_per_call(plan, head);
    *sub_batches = (struct sub_batches){ .count = (count + each - 1) / each,
                             .source = sub_batch != 0 ? plan_group(&plan->base, value - 1)->head : NET_INPUT };
    sub_batches->calls = calloc(sub_batches->count, sizeof(*sub_batches->calls));
    if (sub_batches->calls == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < sub_batches->count; i++) {
        const uint32_t first = i * each, left = count - first;
        sub_batches->calls[i].sub_batch = (struct sub_batch){ first, left < each ? left : each };
    }
    return sub_batch != 0 && value_memory_needs_grad(&plan->base.values, head) ? open_buffers(plan, head, sub_batches)
                                                                               : 0;
}

static void sub_batches_close(struct sub_batches *sub_batches)
{
    for (uint32_t i = 0; sub_batches->calls != NULL && i < sub_batches->count; i++) {
        call_close(&sub_batches->calls[i].data);
        call_close(&sub_batches->calls[i].weights);
        call_close(&sub_batches->calls[i].forward);
    }
    free(sub_batches->calls);
}

static int sub_batches_forward(const struct plan *plan, uint32_t head, const struct sub_batches *sub_batches)
{
    int rc = 0;
    for (uint32_t i = 0; i < sub_batches->count && rc == 0; i++) {
        if (sub_batches_recompute_input(sub_batches))
            norm_forward_sub_batch(plan, sub_batches->source, sub_batches->calls[i].sub_batch,
                               plan_data(plan, in_buffers(plan, head)->buffer));
        rc = call_run(plan, &sub_batches->calls[i].forward);
    }
    return rc;
}

struct add_work { float *to; const float *more; };

VECTOR_LOOPS
static void add_floats(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct add_work *const work = arg;
    float *const to = work->to;
    const float *const more = work->more;
    (void)member;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++)
        to[i] += more[i];
}

static void add_partial_gradient(const struct plan *plan, uint32_t head, enum parameter_kind kind, uint32_t more)
{
    const size_t count = nn_md_bytes(plan_stored(plan, head, kind)) / sizeof(float);
    struct add_work work = { plan_weight_gradients(plan, head, kind), plan_data(plan, more) };
    plan_run(plan, count, LANES, add_floats, &work);
}

/* Computes the weight gradient of a depthwise convolution from a recomputed sub-batch, or from all samples. */
static void run_depthwise(const struct plan *plan, uint32_t head, const struct weighted *state,
                          struct sub_batch sub_batch)
{
    const bool recomputes = sub_batches_recompute_input(&state->sub_batches);
    const struct tensor_layout *const out = out_tensor(plan, head);
    const size_t first = recomputes ? sub_batch.first : 0;
    const struct depthwise_operands operands = {
        .values = plan_data(plan, recomputes ? state->sub_batches.recomputed : in_buffers(plan, head)->buffer),
        .gradients = value_at(out->type, out_gradient(plan, head), first * tensor_count(out)),
        .count = recomputes ? sub_batch.count : plan->base.count,
        .scratch = plan_data(plan, state->depthwise_scratch),
        .sums = plan_data(plan, state->depthwise_sums),
        .weights = plan_weight_gradients(plan, head, PARAMETER_WEIGHT),
        .bias = plan_weight_gradients(plan, head, PARAMETER_BIAS),
        .adds = first > 0,
    };
    depthwise_compute(state->depthwise, &operands, plan_backend(plan)->spec.threads);
}

static int run_backward_weights(const struct plan *plan, uint32_t head, const struct weighted *state,
                                const struct sub_batch_calls *calls)
{
    const struct sub_batches *const sub_batches = &state->sub_batches;
    if (sub_batches_recompute_input(sub_batches))
        norm_forward_sub_batch(plan, sub_batches->source, calls->sub_batch, plan_data(plan, sub_batches->recomputed));
    if (state->depthwise != NULL) {
        run_depthwise(plan, head, state, calls->sub_batch);
        return 0;
    }
    const int rc = call_run(plan, &calls->weights);
    if (rc != 0 || calls->sub_batch.first == 0)
        return rc;
    add_partial_gradient(plan, head, PARAMETER_WEIGHT, sub_batches->partial_weights);
    if (layer_has(plan_layer(plan, head), PARAMETER_BIAS))
        add_partial_gradient(plan, head, PARAMETER_BIAS, sub_batches->partial_bias);
    return 0;
}

static int sub_batches_backward_weights(const struct plan *plan, uint32_t head, const struct weighted *state)
{
    const struct sub_batches *const sub_batches = &state->sub_batches;
    const uint32_t count = sub_batches_recompute_input(sub_batches) ? sub_batches->count : 1;
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = run_backward_weights(plan, head, state, &sub_batches->calls[i]);
    return rc;
}

static int sub_batches_backward_data(const struct plan *plan, uint32_t head, const struct sub_batches *sub_batches)
{
    int rc = 0;
    for (uint32_t i = 0; i < sub_batches->count && rc == 0; i++) {
        rc = call_run(plan, &sub_batches->calls[i].data);
        if (rc == 0 && sub_batches_recompute_input(sub_batches))
            norm_backward_sub_batch(plan, sub_batches->source, sub_batches->calls[i].sub_batch,
                                    in_gradient(plan, head, 0));
    }
    return rc;
}

/* ---- folded batch normalisation ---- */

static int folded_norm_open(struct plan *plan, uint32_t head, struct folded_norm *folded)
{
    const dnnl_dim_t channels = plan_layer(plan, head)->out.channels, dims[] = { 1, channels, 1, 1 };
    const size_t bytes = ((size_t)channels + PADDING_MAX) * sizeof(float);
    *folded = (struct folded_norm){ .layer = plan_find(plan, head, LAYER_BATCH_NORM), .head = head };
    if (!folded_norm_has(folded))
        return 0;
    folded->line = nn_md_tag(4, dims, dnnl_abcd, dnnl_f32);
    folded->bias = nn_md_tag(1, &channels, dnnl_a, dnnl_f32);
    int rc = folded->line != NULL && folded->bias != NULL ? 0 : -ENOMEM;
    if (rc == 0)
        rc = plan_scratch(plan, head, bytes, PASS_FORWARD, PASS_FORWARD, &folded->factors);
    return rc != 0 ? rc : plan_scratch(plan, head, bytes, PASS_FORWARD, PASS_FORWARD, &folded->shifts);
}

static void folded_norm_close(struct folded_norm *folded)
{
    nn_md_release(folded->line);
    nn_md_release(folded->bias);
    folded->line = folded->bias = NULL;
}

/* gamma NULL: 1. */
struct norm_numbers { const float *mean, *variance, *gamma, *beta; double epsilon; };

VECTOR_LOOPS
static void compute_factors(struct norm_numbers of, size_t channels, float *restrict factors, float *restrict shifts)
{
    for (size_t c = 0; c < channels; c++)
        factors[c] = (float)(1.0 / sqrt((double)of.variance[c] + of.epsilon));
    for (size_t c = 0; c < channels && of.gamma != NULL; c++)
        factors[c] *= of.gamma[c];
    for (size_t c = 0; c < channels; c++)
        shifts[c] = of.beta[c] - of.mean[c] * factors[c];
    for (size_t c = channels; c < channels + PADDING_MAX; c++)
        factors[c] = 0;
}

/* The dimension of output channels in a weight layout; with one of them in each group, that of the groups. */
static int channel_dim(const struct nn_layout *layout)
{
    return layout->rank == 5 && layout->dims[1] > 1 ? 1 : 0;
}

/* Are the output channels of all groups adjacent, for each input channel and window position? */
static bool has_channels_last(const struct nn_layout *layout)
{
    return layout->rank == 5 && layout->block_count == 0 && layout->strides[1] == 1 &&
           layout->strides[0] == layout->dims[1];
}

/* Finds the runs of output channels in a weight layout. False when the weights of a block of output channels are not
 * contiguous. */
static bool find_runs(const struct nn_layout *layout, size_t weights, struct channel_runs *runs_out)
{
    const int dim = channel_dim(layout);
    size_t inner = 1;
    if (has_channels_last(layout)) {
        *runs_out = (struct channel_runs){ .block = (size_t)(layout->dims[0] * layout->dims[1]), .channel_stride = 1,
                                           .run = weights, .count = 1, .group_runs = 1 };
        return true;
    }
    *runs_out = (struct channel_runs){ .block = 1, .run = (size_t)layout->strides[dim],
                                       .group_channels = (size_t)layout->dims[dim] };
    for (int i = layout->block_count - 1; i >= 0; i--) {
        if (layout->block_dims[i] == dim) {
            runs_out->block = (size_t)layout->blocks[i];
            runs_out->channel_stride = inner;
        }
        inner *= (size_t)layout->blocks[i];
    }
    if (runs_out->block == 1)
        runs_out->channel_stride = runs_out->run;
    runs_out->group_runs = (size_t)layout->padded[dim] / runs_out->block;
    runs_out->count = runs_out->group_runs * (size_t)(dim == 1 ? layout->dims[0] : 1);
    return runs_out->count * runs_out->run == weights &&
           (dim == 0 || (size_t)layout->strides[0] == runs_out->group_runs * runs_out->run);
}

/* The first channel of a run. Padding channels of a group have weights of 0, so the factors of the next group do not
 * matter there. */
static size_t run_channel(const struct channel_runs *runs, size_t run)
{
    return run / runs->group_runs * runs->group_channels + run % runs->group_runs * runs->block;
}

VECTOR_LOOPS
static void scale_vectors(const struct channel_runs *runs, const float *restrict factors, const float *restrict from,
                          float *restrict to)
{
    for (size_t at = 0; at < runs->run; at += runs->block)
        for (size_t c = 0; c < runs->block; c++)
            to[at + c] = from[at + c] * factors[c];
}

VECTOR_LOOPS
static void scale_stretches(const struct channel_runs *runs, const float *restrict factors, const float *restrict from,
                            float *restrict to)
{
    for (size_t at = 0; at < runs->run; at += runs->channel_stride) {
        const float factor = factors[at / runs->channel_stride % runs->block];
        for (size_t i = at; i < at + runs->channel_stride; i++)
            to[i] = from[i] * factor;
    }
}

struct scale_work {
    const struct channel_runs *runs;
    const float *factors, *from;
    float *to;
};

static void scale_runs(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct scale_work *const work = arg;
    const struct channel_runs *const runs = work->runs;
    (void)member;
    for (size_t r = first; r < end; r++)
        (runs->channel_stride == 1 ? scale_vectors : scale_stretches)(
            runs, work->factors + run_channel(runs, r), work->from + r * runs->run, work->to + r * runs->run);
}

static int folded_norm_into_weights(struct plan *plan, nn_md weights, struct folded_norm *folded)
{
    struct nn_layout layout;
    if (nn_md_layout(weights, &layout) != 0 ||
        !find_runs(&layout, nn_md_bytes(weights) / sizeof(float), &folded->runs))
        return -ENOTSUP;
    const int rc = plan_scratch(plan, folded->head, nn_md_bytes(weights), PASS_FORWARD, PASS_FORWARD,
                                &folded->weights);
    if (rc != 0)
        return rc;
    nn_md_release(folded->line);
    folded->line = NULL;
    return 0;
}

static void scale_weights(const struct plan *plan, const struct folded_norm *folded)
{
    struct scale_work work = {
        .runs = &folded->runs,
        .factors = plan_data(plan, folded->factors),
        .from = plan_weights(plan, folded->head, PARAMETER_WEIGHT),
        .to = plan_data(plan, folded->weights),
    };
    plan_run(plan, folded->runs.count, 1, scale_runs, &work);
}

static void add_bias_to_shifts(const struct plan *plan, const struct folded_norm *folded)
{
    const float *const bias = plan_weights(plan, folded->head, PARAMETER_BIAS);
    const float *const factors = plan_data(plan, folded->factors);
    float *const shifts = plan_data(plan, folded->shifts);
    for (size_t c = 0; c < plan_layer(plan, folded->head)->out.channels && bias != NULL; c++)
        shifts[c] += bias[c] * factors[c];
}

static void folded_norm_compute(const struct plan *plan, const struct folded_norm *folded)
{
    const struct norm_numbers of = {
        .mean = plan_weights(plan, folded->layer, PARAMETER_RUNNING_MEAN),
        .variance = plan_weights(plan, folded->layer, PARAMETER_RUNNING_VARIANCE),
        .gamma = plan_weights(plan, folded->layer, PARAMETER_GAMMA),
        .beta = plan_weights(plan, folded->layer, PARAMETER_BETA),
        .epsilon = plan_layer(plan, folded->layer)->epsilon,
    };
    compute_factors(of, plan_layer(plan, folded->layer)->out.channels, plan_data(plan, folded->factors),
                    plan_data(plan, folded->shifts));
    if (folded->line != NULL)
        return;
    scale_weights(plan, folded);
    add_bias_to_shifts(plan, folded);
}

/* ---- use of values ---- */

static bool masks_gradient(const struct plan *plan, uint32_t layer)
{
    return plan->base.training && plan_has_relu(plan, layer) &&
           !value_is_masked_above(plan, plan_output(&plan->base, layer));
}

/* Should the ReLU's mask be kept as a byte per value, instead of the values? Yes when the values are large or no other
 * group reads them in backward: storing the bytes takes one more pass, but the memory of the values is free for
 * gradients. */
static bool keeps_mask_bytes(const struct plan *plan, uint32_t layer)
{
    const uint32_t made = plan_output(&plan->base, layer);
    const size_t bytes = value_total(plan, made) * value_size(plan_type(plan));
    return masks_gradient(plan, layer) &&
           (bytes > plan_backend(plan)->large_value_bytes || value_is_done_forward(plan, made));
}

static void weighted_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    const bool keeps = masks_gradient(plan, layer) && !keeps_mask_bytes(plan, layer);
    *use_out = (struct value_use){
        .in_until = value_sub_batch(plan, plan_input(&plan->base, layer, 0)) != 0 ? PASS_FORWARD : PASS_PARAMETERS,
        .out_until = keeps ? PASS_PARAMETERS : PASS_FORWARD,
        .out_sign = true,
        .in_place = plan_has_sum(plan, layer),      /* the primitive adds its result to the contents of dst */
        .in_place_input = plan_has_sum(plan, layer),
    };
}

static int open_relu_mask(struct plan *plan, uint32_t layer, struct weighted *state)
{
    if (!keeps_mask_bytes(plan, layer))
        return 0;
    return plan_scratch(plan, layer, value_total(plan, plan_output(&plan->base, layer)), PASS_FORWARD,
                        PASS_PARAMETERS, &state->relu_mask);
}

/* ---- primitives ---- */

static size_t workspace_of(const struct plan *plan, uint32_t layer)
{
    return winograd_workspace(plan_backend(plan), plan_layer(plan, layer), plan->base.count, NULL);
}

struct operands { struct operand operand[6]; uint32_t count; };

static void add_operand(struct operands *operands, int arg, nn_md md, enum place_kind kind, uint32_t index)
{
    operands->operand[operands->count++] = (struct operand){ arg, md, { kind, index, 0 } };
}

static void add_buffer(struct operands *operands, int arg, nn_md md, uint32_t buffer)
{
    add_operand(operands, arg, md, PLACE_BUFFER, buffer);
}

static int open_mds(const struct plan *plan, uint32_t layer, uint32_t count, struct weighted_mds *mds)
{
    return weighted_mds_open(mds, plan_layer(plan, layer), in_tensor(plan, layer, 0), out_tensor(plan, layer), count,
                             plan_stored(plan, layer, PARAMETER_WEIGHT), plan_stored(plan, layer, PARAMETER_BIAS));
}

/* Adds an operand: the samples from `first` on of a value or gradient that is stored as a whole. */
static void add_samples(struct operands *operands, int arg, nn_md md, const struct tensor_layout *tensor,
                        uint32_t buffer, uint32_t first)
{
    const size_t sample = tensor_count(tensor) * value_size(tensor->type);
    operands->operand[operands->count++] = (struct operand){ arg, md, { PLACE_BUFFER, buffer, first * sample } };
}

/* As add_samples, for the input or its gradient. A recomputed sub-batch of the input is at the start of a buffer of its
 * own. */
static void add_input(struct operands *operands, int arg, nn_md md, const struct plan *plan, uint32_t layer,
                      const struct sub_batches *sub_batches, uint32_t buffer, uint32_t first)
{
    add_samples(operands, arg, md, in_tensor(plan, layer, 0), buffer,
                sub_batches_recompute_input(sub_batches) ? 0 : first);
}

/* Functions that oneDNN has, with 0 for 0. */
static struct nn_eltwise eltwise_of(const struct layer *activation)
{
    switch (activation->activation) {
    case ACTIVATION_CLIPPED_RELU: return (struct nn_eltwise){ dnnl_eltwise_clip, 0.0f, activation->limit };
    case ACTIVATION_SILU: return (struct nn_eltwise){ dnnl_eltwise_swish, 1.0f, 0.0f };
    case ACTIVATION_HARD_SWISH: return (struct nn_eltwise){ dnnl_eltwise_hardswish, 1.0f / 6, 0.5f };
    case ACTIVATION_GELU: return (struct nn_eltwise){ dnnl_eltwise_gelu_erf, 0.0f, 0.0f };
    default: return (struct nn_eltwise){ .kind = dnnl_alg_kind_undef };
    }
}

static void forward_op(const struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                       const struct folded_norm *norm, struct nn_eltwise eltwise, struct nn_op *op)
{
    weighted_op(op, plan_layer(plan, layer), mds,
                (struct weighted_options){ .direction = NN_FORWARD, .winograd = workspace_of(plan, layer),
                                       .training = plan->base.training, .with_relu = plan_has_relu(plan, layer),
                                       .with_sum = plan_has_sum(plan, layer), .line = norm->line,
                                       .eltwise = eltwise });
    op->bias = folded_norm_is_in_weights(norm) ? norm->bias : mds->bias;
}

/* Kernels for groups may need reorders of the values, which the others are not worth. */
static enum pd_class forward_class(const struct plan *plan, uint32_t layer, const struct nn_op *op)
{
    const dnnl_engine_t engine = plan_backend(plan)->engine;
    return plan_layer(plan, layer)->groups > 1 ? pd_class_of_call(engine, op) : pd_class_of_best(engine, op, NULL);
}

/* What oneDNN applies to the results in the same primitive: a factor and a shift for each channel, the activation. With
 * them it may have no primitive, or only a slower one. */
struct posts { bool line, eltwise; };

/* Computes without the post-operations where oneDNN has a better primitive then: the weights are multiplied by the
 * factors, and the activation gets a loop of its own. */
static int choose_posts(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct weighted *state)
{
    static const struct posts choices[] = { { true, true }, { false, true }, { true, false }, { false, false } };
    const bool has_line = state->norm.line != NULL, has_eltwise = state->eltwise.kind != dnnl_alg_kind_undef;
    struct posts best = { has_line, has_eltwise };
    uint32_t best_class = PD_NONE + 1;
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]) && (has_line || has_eltwise); i++) {
        struct folded_norm norm = state->norm;
        struct nn_op op;
        if (choices[i].line > has_line || choices[i].eltwise > has_eltwise)
            continue;
        norm.line = choices[i].line ? norm.line : NULL;
        forward_op(plan, layer, mds, &norm, choices[i].eltwise ? state->eltwise : (struct nn_eltwise){ 0 }, &op);
        const uint32_t class = forward_class(plan, layer, &op);
        if (class >= best_class)
            continue;
        best_class = class;
        best = choices[i];
    }
    if (!best.eltwise)
        state->eltwise = (struct nn_eltwise){ .kind = dnnl_alg_kind_undef };
    const int rc = best.line == has_line ? 0 : folded_norm_into_weights(plan, mds->weights, &state->norm);
    return rc == -ENOTSUP ? 0 : rc;
}

static int open_forward(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, const struct weighted *state,
                        struct sub_batch_calls *calls, const struct sub_batch_calls *first_calls)
{
    const struct folded_norm *const norm = &state->norm;
    const struct layer *const about = plan_layer(plan, layer);
    const bool is_multiplied = folded_norm_is_in_weights(norm);
    struct operands operands = { .count = 0 };
    struct nn_op op;
    forward_op(plan, layer, mds, norm, state->eltwise, &op);
    add_input(&operands, DNNL_ARG_SRC, mds->src, plan, layer, &state->sub_batches, in_buffers(plan, layer)->buffer,
              calls->sub_batch.first);
    if (is_multiplied)
        add_buffer(&operands, DNNL_ARG_WEIGHTS, mds->weights, norm->weights);
    else
        add_operand(&operands, DNNL_ARG_WEIGHTS, mds->weights, PLACE_WEIGHTS, about->parameters[PARAMETER_WEIGHT]);
    if (is_multiplied)
        add_buffer(&operands, DNNL_ARG_BIAS, norm->bias, norm->shifts);
    else if (mds->bias != NULL)
        add_operand(&operands, DNNL_ARG_BIAS, mds->bias, PLACE_WEIGHTS, about->parameters[PARAMETER_BIAS]);
    add_samples(&operands, DNNL_ARG_DST, mds->dst, out_tensor(plan, layer), out_buffers(plan, layer)->buffer,
                calls->sub_batch.first);
    if (norm->line != NULL) {
        add_buffer(&operands, NN_ARG_FACTOR, norm->line, norm->factors);
        add_buffer(&operands, NN_ARG_SHIFT, norm->line, norm->shifts);
    }
    return call_open(plan, &calls->forward, layer, &op, NULL, operands.operand, operands.count, PASS_FORWARD,
                     first_calls != NULL ? &first_calls->forward : NULL);
}

static void weights_op(const struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct nn_op *op)
{
    weighted_op(op, plan_layer(plan, layer), mds,
                (struct weighted_options){ .direction = NN_BACKWARD_WEIGHTS, .winograd = workspace_of(plan, layer),
                                       .training = true });
}

/* Does onednn_first.c compute the weight gradient? oneDNN's fp32 kernels waste most of their work on few channels.
 * Its bf16 kernels do not: our loop, which applies the ReLU mask on the way, is faster for small windows only
 * (cifar_alexnet, 3 channels, with oneDNN's kernel instead: 7 % more time a step with 3 x 3 windows, 8 % less with
 * its own 5 x 5). */
static bool uses_own_loop(const struct plan *plan, uint32_t layer, const struct nn_op *op,
                          const_dnnl_primitive_desc_t forward)
{
    const struct layer *const about = plan_layer(plan, layer);
    const uint32_t places = about->in.channels * about->kernel_h * about->kernel_w;
    if (!first_conv_fits(about, in_tensor(plan, layer, 0), out_tensor(plan, layer)))
        return false;
    if (plan_type(plan) == VALUE_FP32 || places <= OWN_WINDOW_MAX)
        return true;
    return pd_class_of_best(plan_backend(plan)->engine, op, forward) != PD_FAST;
}

/* oneDNN computes the weight gradient of depthwise convolutions fast in fp32 with 3 x 3 windows only. */
static bool uses_own_depthwise(const struct plan *plan, uint32_t layer, const struct nn_op *op,
                               const_dnnl_primitive_desc_t forward)
{
    return layer_is_depthwise(plan_layer(plan, layer)) &&
           (plan_type(plan) == VALUE_BF16 || pd_class_of_best(plan_backend(plan)->engine, op, forward) != PD_FAST);
}

static int open_depthwise(struct plan *plan, uint32_t layer, struct weighted *state)
{
    int rc = depthwise_open(plan_layer(plan, layer), in_tensor(plan, layer, 0), out_tensor(plan, layer),
                            state->sub_batches.calls[0].sub_batch.count, plan_stored(plan, layer, PARAMETER_WEIGHT),
                            &state->depthwise);
    if (rc == 0)
        rc = plan_scratch(plan, layer, depthwise_scratch_bytes(state->depthwise, plan_backend(plan)->spec.threads),
                          PASS_PARAMETERS, PASS_PARAMETERS, &state->depthwise_scratch);
    return rc != 0 ? rc : plan_scratch(plan, layer, depthwise_sum_bytes(state->depthwise), PASS_PARAMETERS,
                                       PASS_PARAMETERS, &state->depthwise_sums);
}

static int open_weights(struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                        const struct sub_batches *sub_batches, struct sub_batch_calls *calls,
                        const struct sub_batch_calls *first_calls)
{
    const struct layer *const about = plan_layer(plan, layer);
    const uint32_t weight = about->parameters[PARAMETER_WEIGHT], bias = about->parameters[PARAMETER_BIAS];
    const bool adds = calls->sub_batch.first > 0;
    struct operands operands = { .count = 0 };
    struct nn_op op;
    add_buffer(&operands, DNNL_ARG_SRC, mds->src,
               sub_batches_recompute_input(sub_batches) ? sub_batches->recomputed : in_buffers(plan, layer)->buffer);
    add_operand(&operands, DNNL_ARG_DIFF_WEIGHTS, mds->weights, adds ? PLACE_BUFFER : PLACE_GRADIENTS,
                adds ? sub_batches->partial_weights : weight);
    if (mds->bias != NULL)
        add_operand(&operands, DNNL_ARG_DIFF_BIAS, mds->bias, adds ? PLACE_BUFFER : PLACE_GRADIENTS,
                    adds ? sub_batches->partial_bias : bias);
    add_samples(&operands, DNNL_ARG_DIFF_DST, mds->dst, out_tensor(plan, layer), out_buffers(plan, layer)->gradient,
                calls->sub_batch.first);
    weights_op(plan, layer, mds, &op);
    return call_open(plan, &calls->weights, layer, &op, calls->forward.pd, operands.operand, operands.count,
                     PASS_PARAMETERS, first_calls != NULL ? &first_calls->weights : NULL);
}

/* Opens the calls for the weight gradient. Each recomputed sub-batch has its own; otherwise the first call computes the
 * weight gradient of all samples. */
static int open_sub_batch_weights(struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                              const struct sub_batches *sub_batches, struct sub_batch_calls *calls,
                              const struct sub_batch_calls *first_calls)
{
    struct weighted_mds all;
    if (sub_batches_recompute_input(sub_batches))
        return open_weights(plan, layer, mds, sub_batches, calls, first_calls);
    if (calls->sub_batch.first > 0)
        return 0;
    int rc = open_mds(plan, layer, plan->base.count, &all);
    if (rc != 0)
        return rc;
    rc = open_weights(plan, layer, &all, sub_batches, calls, NULL);
    weighted_mds_close(&all);
    return rc;
}

static int open_data(struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                     const struct sub_batches *sub_batches, struct sub_batch_calls *calls,
                     const struct sub_batch_calls *first_calls)
{
    const struct layer *const about = plan_layer(plan, layer);
    struct operands operands = { .count = 0 };
    struct nn_op op;
    add_input(&operands, DNNL_ARG_DIFF_SRC, mds->src, plan, layer, sub_batches,
              plan_flow(&plan->base, layer, 0)->buffer, calls->sub_batch.first);
    add_operand(&operands, DNNL_ARG_WEIGHTS, mds->weights, PLACE_WEIGHTS, about->parameters[PARAMETER_WEIGHT]);
    add_samples(&operands, DNNL_ARG_DIFF_DST, mds->dst, out_tensor(plan, layer), out_buffers(plan, layer)->gradient,
                calls->sub_batch.first);
    weighted_op(&op, about, mds,
                (struct weighted_options){ .direction = NN_BACKWARD_DATA, .winograd = workspace_of(plan, layer),
                                       .training = true });
    return call_open(plan, &calls->data, layer, &op, calls->forward.pd, operands.operand, operands.count, PASS_INPUTS,
                     first_calls != NULL ? &first_calls->data : NULL);
}

/* Decides where the ReLU's mask is applied, and which code computes the weight gradient. */
static int open_backward(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct weighted *state)
{
    struct nn_op op;
    const int rc = open_relu_mask(plan, layer, state);
    if (rc != 0)
        return rc;
    state->masks = masks_gradient(plan, layer);
    weights_op(plan, layer, mds, &op);
    if (uses_own_depthwise(plan, layer, &op, state->sub_batches.calls[0].forward.pd))
        return open_depthwise(plan, layer, state);
    if (!uses_own_loop(plan, layer, &op, state->sub_batches.calls[0].forward.pd))
        return 0;
    const bool with_relu = state->masks && !plan_has_inputs(&plan->base, layer);
    state->masks = state->masks && !with_relu;
    return first_conv_open(plan, layer, with_relu, state->relu_mask, &state->first);
}

/* Opens the calls for a sub-batch. The first one decides for all how the layer is computed. */
static int open_sub_batch(struct plan *plan, uint32_t layer, struct weighted *state, struct sub_batch_calls *calls)
{
    const bool is_first = calls->sub_batch.first == 0, goes_back = value_memory_needs_grad(&plan->base.values, layer);
    const struct sub_batch_calls *const first_calls = is_first ? NULL : &state->sub_batches.calls[0];
    struct weighted_mds mds;
    int rc = open_mds(plan, layer, calls->sub_batch.count, &mds);
    if (rc != 0)
        return rc;
    if (is_first)
        rc = choose_posts(plan, layer, &mds, state);
    if (rc == 0)
        rc = open_forward(plan, layer, &mds, state, calls, first_calls);
    if (rc == 0 && goes_back && is_first)
        rc = open_backward(plan, layer, &mds, state);
    if (rc == 0 && goes_back && state->first == NULL && state->depthwise == NULL)
        rc = open_sub_batch_weights(plan, layer, &mds, &state->sub_batches, calls, first_calls);
    if (rc == 0 && plan_has_inputs(&plan->base, layer))
        rc = open_data(plan, layer, &mds, &state->sub_batches, calls, first_calls);
    weighted_mds_close(&mds);
    return rc;
}

static int weighted_plan(struct plan *plan, uint32_t layer)
{
    struct weighted *const state = plan->base.states[layer];
    const uint32_t activation = plan_find(plan, layer, LAYER_ACTIVATION);
    state->relu_mask = BUFFER_NONE;
    if (activation != NET_INPUT) {
        state->activation = plan_layer(plan, activation);
        state->eltwise = eltwise_of(state->activation);
    }
    int rc = sub_batches_open(plan, layer, &state->sub_batches);
    if (rc == 0)
        rc = folded_norm_open(plan, layer, &state->norm);
    for (uint32_t i = 0; i < state->sub_batches.count && rc == 0; i++)
        rc = open_sub_batch(plan, layer, state, &state->sub_batches.calls[i]);
    return rc;
}

static void weighted_release(struct plan *plan, uint32_t layer)
{
    struct weighted *const state = plan->base.states[layer];
    sub_batches_close(&state->sub_batches);
    first_conv_close(state->first);
    depthwise_close(state->depthwise);
    folded_norm_close(&state->norm);
}

/* ---- running ---- */

/* Copies the added input to dst, unless it is computed in place. */
static void copy_added(const struct plan *plan, uint32_t layer)
{
    const uint32_t value = plan_output(&plan->base, layer);
    const void *const added = in_value(plan, layer, 1);
    if (plan_value(plan, value) != added)
        memcpy(plan_value(plan, value), added, value_total(plan, value) * value_size(plan_type(plan)));
}

static int weighted_forward(struct plan *plan, uint32_t layer)
{
    const struct weighted *const state = plan->base.states[layer];
    if (folded_norm_has(&state->norm))
        folded_norm_compute(plan, &state->norm);
    if (plan_has_sum(plan, layer))
        copy_added(plan, layer);
    const int rc = sub_batches_forward(plan, layer, &state->sub_batches);
    if (rc == 0 && state->activation != NULL && state->eltwise.kind == dnnl_alg_kind_undef)
        activation_replace(plan, state->activation, plan_output(&plan->base, layer));
    if (rc == 0 && state->relu_mask != BUFFER_NONE)
        relu_store_mask(plan, plan_output(&plan->base, layer), state->relu_mask);
    return rc;
}

static void mask_gradient(const struct plan *plan, uint32_t layer, const struct weighted *state)
{
    const uint32_t value = plan_output(&plan->base, layer);
    void *const gradient = plan_gradient(plan, value);
    const bool has_bytes = state->relu_mask != BUFFER_NONE;
    elementwise_run(plan, value_total(plan, value),
                    &(struct elementwise){ .from = gradient, .to = gradient, .scale = 1.0f,
                                           .values = has_bytes ? NULL : plan_value(plan, value),
                                           .mask = has_bytes ? plan_data(plan, state->relu_mask) : NULL });
}

static int weighted_backward_parameters(struct plan *plan, uint32_t layer)
{
    const struct weighted *const state = plan->base.states[layer];
    if (state->masks)
        mask_gradient(plan, layer, state);
    if (state->first == NULL)
        return sub_batches_backward_weights(plan, layer, state);
    first_conv_run(plan, state->first, layer);
    return 0;
}

static int weighted_backward_inputs(struct plan *plan, uint32_t layer)
{
    const struct weighted *const state = plan->base.states[layer];
    return sub_batches_backward_data(plan, layer, &state->sub_batches);
}

void weighted_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size)
{
    const struct weighted *const state = plan->base.states[layer];
    const struct sub_batches *const sub_batches = &state->sub_batches;
    char stored[64], forward[64], weights[64], data[64], together[40] = "";
    nn_md_describe(plan_stored(plan, layer, PARAMETER_WEIGHT), stored, sizeof(stored));
    call_describe(&sub_batches->calls[0].forward, forward, sizeof(forward));
    call_describe(&sub_batches->calls[0].weights, weights, sizeof(weights));
    call_describe(&sub_batches->calls[0].data, data, sizeof(data));
    if (sub_batches->count > 1)
        snprintf(together, sizeof(together), ", %u samples at a time", sub_batches->calls[0].sub_batch.count);
    snprintf(text, text_size, "weights %s, forward %s%s%s%s%s, gradient of weights %s, of input %s%s", stored, forward,
             folded_norm_has(&state->norm) ? " with batch norm" : "", plan_has_sum(plan, layer) ? " with sum" : "",
             plan_has_relu(plan, layer) ? " with ReLU" : "",
             state->eltwise.kind != dnnl_alg_kind_undef ? " with activation" : "",
             state->first != NULL || state->depthwise != NULL ? "own loop" : weights, data, together);
}

const struct layer_ops onednn_weighted_ops = {
    .use = weighted_use,
    .state_bytes = sizeof(struct weighted),
    .plan = weighted_plan,
    .forward = weighted_forward,
    .backward_parameters = weighted_backward_parameters,
    .backward_inputs = weighted_backward_inputs,
    .release = weighted_release,
};
