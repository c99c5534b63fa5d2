/* The reference backend: every layer as plain loops over N,C,H,W in fp32, sums in
 * double. Slow and obvious; what other backends must match. Runs in the tower's
 * thread. Parameters are stored row-major, as they are named. */
#include "compute/backend.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/dropout.h"

struct reference {
    struct backend_base base;
    struct backend_spec spec;
    const struct arena *arena;
    float *weights, *gradients;
};

/* What a plan keeps of a layer: its output, the gradient of it, and what backward needs. */
struct reference_layer {
    float *out, *gradient;      /* count x out shape; folded layers share their owner's */
    uint32_t *winners;          /* max_pool: input index of each maximum, within its sample */
    uint8_t *mask;              /* dropout: count x out shape */
    double *sums;               /* conv2d: room for all sums of one pass */
    struct dropout dropout;
};

struct reference_plan {
    struct plan_base base;
    const struct net *net;
    struct reference *backend;
    struct reference_layer *layers;
    float *image;               /* the net's input */
    int32_t *labels;
    uint64_t first_position;
    uint32_t epoch;
    struct backend_result result;
    size_t bytes;
};

static struct reference_plan *plan_of(struct plan *plan)
{
    return (struct reference_plan *)plan;
}

static const float *weights_of(const struct reference_plan *plan, uint32_t parameter)
{
    return plan->backend->weights + plan->backend->arena->ranges[parameter].offset;
}

static float *gradients_of(const struct reference_plan *plan, uint32_t parameter)
{
    return plan->backend->gradients + plan->backend->arena->ranges[parameter].offset;
}

/* The values layer `index` reads, and where their gradient goes (NULL for the image). */
static const float *input_of(const struct reference_plan *plan, uint32_t index)
{
    const uint32_t from = plan->net->layers[index].input;
    return from == NET_INPUT ? plan->image : plan->layers[from].out;
}

static float *input_gradient_of(const struct reference_plan *plan, uint32_t index)
{
    const uint32_t from = plan->net->layers[index].input;
    return from == NET_INPUT ? NULL : plan->layers[from].gradient;
}

static float relu(float value)
{
    return value > 0 ? value : 0;
}

/* Through a ReLU whose output is `out`. */
static void relu_backward(const float *out, float *gradient, size_t count)
{
    for (size_t i = 0; i < count; i++)
        gradient[i] = out[i] > 0 ? gradient[i] : 0;
}

/* ---- memory of a plan ---- */

static void *plan_alloc(struct reference_plan *plan, size_t bytes)
{
    struct device *const device = plan->backend->spec.device;
    void *memory = NULL;
    if (device->ops->alloc(device, bytes > 0 ? bytes : 1, &memory) != 0)
        return NULL;
    plan->bytes += bytes;
    return memory;
}

static void plan_free(struct reference_plan *plan, void *memory)
{
    if (memory != NULL)
        plan->backend->spec.device->ops->free(plan->backend->spec.device, memory);
}

static int plan_values(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    struct reference_layer *const state = &plan->layers[index];
    const size_t count = plan->base.count * shape_count(plan->net->layers[index].out);
    state->out = plan_alloc(plan, count * sizeof(float));
    if (plan->base.training)
        state->gradient = plan_alloc(plan, count * sizeof(float));
    return state->out != NULL && (!plan->base.training || state->gradient != NULL) ? 0 : -ENOMEM;
}

static void release_values(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    struct reference_layer *const state = &plan->layers[index];
    plan_free(plan, state->out);
    plan_free(plan, state->gradient);
    plan_free(plan, state->winners);
    plan_free(plan, state->mask);
    plan_free(plan, state->sums);
}

/* ---- conv2d ---- */

/* One tap of a convolution or pooling window: the input row or column, or -1 outside. */
static int64_t tap(uint32_t out, uint32_t stride, uint32_t offset, uint32_t pad, uint32_t size)
{
    const int64_t at = (int64_t)out * stride + offset - pad;
    return at >= 0 && at < size ? at : -1;
}

#define INLINE static inline __attribute__((always_inline))

struct conv2d_values;
typedef void conv2d_visit(const struct conv2d_values *values, size_t out, size_t in, size_t weight);

struct conv2d_values {
    const float *in, *weight, *out_gradient;
    double *sum;                /* of out (forward), of weight or in gradients (backward) */
};

INLINE void conv2d_forward_tap(const struct conv2d_values *v, size_t out, size_t in, size_t weight)
{
    v->sum[out] += (double)v->in[in] * v->weight[weight];
}

INLINE void conv2d_weight_tap(const struct conv2d_values *v, size_t out, size_t in, size_t weight)
{
    v->sum[weight] += (double)v->out_gradient[out] * v->in[in];
}

INLINE void conv2d_data_tap(const struct conv2d_values *v, size_t out, size_t in, size_t weight)
{
    v->sum[in] += (double)v->out_gradient[out] * v->weight[weight];
}

/* Every (output value, tap) pair: calls visit with the flat indices of output, input
 * and weight, within the batch. */
INLINE void conv2d_each(const struct layer *l, uint32_t samples, conv2d_visit *visit, const struct conv2d_values *values)
{
    for (uint32_t n = 0; n < samples; n++)
    for (uint32_t oc = 0; oc < l->out.channels; oc++)
    for (uint32_t oh = 0; oh < l->out.height; oh++)
    for (uint32_t ow = 0; ow < l->out.width; ow++)
    for (uint32_t kh = 0; kh < l->kernel_h; kh++)
    for (uint32_t kw = 0; kw < l->kernel_w; kw++) {
        const int64_t ih = tap(oh, l->stride_h, kh, l->pad_top, l->in.height);
        const int64_t iw = tap(ow, l->stride_w, kw, l->pad_left, l->in.width);
        if (ih < 0 || iw < 0)
            continue;
        const size_t out = (((size_t)n * l->out.channels + oc) * l->out.height + oh) * l->out.width + ow;
        for (uint32_t ic = 0; ic < l->in.channels; ic++) {
            const size_t in = (((size_t)n * l->in.channels + ic) * l->in.height + (size_t)ih) * l->in.width + (size_t)iw;
            const size_t weight = (((size_t)oc * l->in.channels + ic) * l->kernel_h + kh) * l->kernel_w + kw;
            visit(values, out, in, weight);
        }
    }
}

/* A pass of sums in double over all taps, written as floats. */
INLINE void conv2d_sum(const struct layer *l, uint32_t samples, conv2d_visit *visit, const struct conv2d_values *values,
                       size_t count, float *result)
{
    memset(values->sum, 0, count * sizeof(*values->sum));
    conv2d_each(l, samples, visit, values);
    for (size_t i = 0; i < count; i++)
        result[i] = (float)values->sum[i];
}

static int conv2d_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const struct layer *const l = &plan->net->layers[index];
    const size_t in = plan->base.count * shape_count(l->in), out = plan->base.count * shape_count(l->out);
    const size_t weights = plan->net->parameters[l->weight].count, pixels = in > out ? in : out;
    plan->layers[index].sums = plan_alloc(plan, (weights > pixels ? weights : pixels) * sizeof(double));
    return plan->layers[index].sums != NULL ? plan_values(base, index) : -ENOMEM;
}

static int conv2d_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const struct layer *const l = &plan->net->layers[index];
    const size_t plane = (size_t)l->out.height * l->out.width;
    const size_t count = plan->base.count * shape_count(l->out);
    float *const out = plan->layers[index].out;
    const struct conv2d_values values = {
        .in = input_of(plan, index), .weight = weights_of(plan, l->weight), .sum = plan->layers[index].sums};
    conv2d_sum(l, plan->base.count, conv2d_forward_tap, &values, count, out);
    const float *const bias = weights_of(plan, l->bias);
    for (size_t i = 0; i < count; i++) {
        const float value = out[i] + bias[i / plane % l->out.channels];
        out[i] = l->relu ? relu(value) : value;
    }
    return 0;
}

static void bias_backward(const struct layer *l, uint32_t samples, const float *out_gradient, float *bias_gradient)
{
    const size_t plane = (size_t)l->out.height * l->out.width;
    for (uint32_t c = 0; c < l->out.channels; c++) {
        double sum = 0;
        for (uint32_t n = 0; n < samples; n++)
            for (size_t i = 0; i < plane; i++)
                sum += out_gradient[((size_t)n * l->out.channels + c) * plane + i];
        bias_gradient[c] = (float)sum;
    }
}

static int conv2d_backward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const struct layer *const l = &plan->net->layers[index];
    const uint32_t samples = plan->base.count;
    float *const out_gradient = plan->layers[index].gradient;
    if (l->relu)
        relu_backward(plan->layers[index].out, out_gradient, samples * shape_count(l->out));
    bias_backward(l, samples, out_gradient, gradients_of(plan, l->bias));
    const struct conv2d_values values = {
        .in = input_of(plan, index), .weight = weights_of(plan, l->weight), .out_gradient = out_gradient,
        .sum = plan->layers[index].sums};
    conv2d_sum(l, samples, conv2d_weight_tap, &values, plan->net->parameters[l->weight].count,
               gradients_of(plan, l->weight));
    float *const in_gradient = input_gradient_of(plan, index);
    if (in_gradient != NULL)
        conv2d_sum(l, samples, conv2d_data_tap, &values, samples * shape_count(l->in), in_gradient);
    return 0;
}

/* ---- dense ---- */

static int dense_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const struct layer *const l = &plan->net->layers[index];
    const size_t inputs = shape_count(l->in), units = l->out.channels;
    const float *const weight = weights_of(plan, l->weight), *const bias = weights_of(plan, l->bias);
    for (uint32_t n = 0; n < plan->base.count; n++) {
        const float *const in = input_of(plan, index) + n * inputs;
        for (size_t unit = 0; unit < units; unit++) {
            double sum = bias[unit];
            for (size_t i = 0; i < inputs; i++)
                sum += (double)in[i] * weight[unit * inputs + i];
            plan->layers[index].out[n * units + unit] = l->relu ? relu((float)sum) : (float)sum;
        }
    }
    return 0;
}

static void dense_weight_backward(const struct reference_plan *plan, uint32_t index)
{
    const struct layer *const l = &plan->net->layers[index];
    const size_t inputs = shape_count(l->in), units = l->out.channels;
    const float *const in = input_of(plan, index), *const out_gradient = plan->layers[index].gradient;
    for (size_t unit = 0; unit < units; unit++)
        for (size_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (uint32_t n = 0; n < plan->base.count; n++)
                sum += (double)out_gradient[n * units + unit] * in[n * inputs + i];
            gradients_of(plan, l->weight)[unit * inputs + i] = (float)sum;
        }
}

static void dense_data_backward(const struct reference_plan *plan, uint32_t index, float *in_gradient)
{
    const struct layer *const l = &plan->net->layers[index];
    const size_t inputs = shape_count(l->in), units = l->out.channels;
    const float *const weight = weights_of(plan, l->weight), *const out_gradient = plan->layers[index].gradient;
    for (uint32_t n = 0; n < plan->base.count; n++)
        for (size_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (size_t unit = 0; unit < units; unit++)
                sum += (double)out_gradient[n * units + unit] * weight[unit * inputs + i];
            in_gradient[n * inputs + i] = (float)sum;
        }
}

static int dense_backward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const struct layer *const l = &plan->net->layers[index];
    if (l->relu)
        relu_backward(plan->layers[index].out, plan->layers[index].gradient, plan->base.count * shape_count(l->out));
    bias_backward(l, plan->base.count, plan->layers[index].gradient, gradients_of(plan, l->bias));
    dense_weight_backward(plan, index);
    float *const in_gradient = input_gradient_of(plan, index);
    if (in_gradient != NULL)
        dense_data_backward(plan, index, in_gradient);
    return 0;
}

/* ---- relu: its own values, or those of the layer that did its work ---- */

static bool is_folded(const struct reference_plan *plan, uint32_t index)
{
    return plan->net->layers[index].folded_into != NET_NO_LAYER;
}

static int relu_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    if (!is_folded(plan, index))
        return plan_values(base, index);
    plan->layers[index] = plan->layers[plan->net->layers[index].folded_into];
    return 0;
}

static int relu_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const size_t count = plan->base.count * shape_count(plan->net->layers[index].out);
    for (size_t i = 0; i < count && !is_folded(plan, index); i++)
        plan->layers[index].out[i] = relu(input_of(plan, index)[i]);
    return 0;
}

static int relu_layer_backward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    float *const in_gradient = input_gradient_of(plan, index);
    if (is_folded(plan, index) || in_gradient == NULL)
        return 0;
    const size_t count = plan->base.count * shape_count(plan->net->layers[index].out);
    memcpy(in_gradient, plan->layers[index].gradient, count * sizeof(float));
    relu_backward(plan->layers[index].out, in_gradient, count);
    return 0;
}

static void relu_release(struct plan *base, uint32_t index)
{
    if (!is_folded(plan_of(base), index))
        release_values(base, index);
}

/* ---- max_pool ---- */

static int max_pool_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const size_t count = plan->base.count * shape_count(plan->net->layers[index].out);
    plan->layers[index].winners = plan_alloc(plan, count * sizeof(uint32_t));
    return plan->layers[index].winners != NULL ? plan_values(base, index) : -ENOMEM;
}

/* Index within its channel plane of the first maximum of a window. */
static uint32_t window_maximum(const struct layer *l, const float *plane, uint32_t oh, uint32_t ow)
{
    uint32_t winner = UINT32_MAX;
    for (uint32_t kh = 0; kh < l->kernel_h; kh++)
        for (uint32_t kw = 0; kw < l->kernel_w; kw++) {
            const int64_t ih = tap(oh, l->stride_h, kh, l->pad_top, l->in.height);
            const int64_t iw = tap(ow, l->stride_w, kw, l->pad_left, l->in.width);
            if (ih < 0 || iw < 0)
                continue;
            const uint32_t at = (uint32_t)(ih * l->in.width + iw);
            if (winner == UINT32_MAX || plane[at] > plane[winner])
                winner = at;
        }
    return winner;
}

static int max_pool_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const struct layer *const l = &plan->net->layers[index];
    const size_t in_plane = (size_t)l->in.height * l->in.width;
    const float *in = input_of(plan, index);
    float *out = plan->layers[index].out;
    uint32_t *winner = plan->layers[index].winners;
    for (size_t plane = 0; plane < (size_t)plan->base.count * l->in.channels; plane++, in += in_plane)
        for (uint32_t oh = 0; oh < l->out.height; oh++)
            for (uint32_t ow = 0; ow < l->out.width; ow++, winner++, out++) {
                *winner = window_maximum(l, in, oh, ow);
                *out = in[*winner];
            }
    return 0;
}

static int max_pool_backward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const struct layer *const l = &plan->net->layers[index];
    const size_t in_plane = (size_t)l->in.height * l->in.width, out_plane = (size_t)l->out.height * l->out.width;
    float *const in_gradient = input_gradient_of(plan, index);
    if (in_gradient == NULL)
        return 0;
    memset(in_gradient, 0, plan->base.count * shape_count(l->in) * sizeof(float));
    for (size_t plane = 0; plane < (size_t)plan->base.count * l->in.channels; plane++)
        for (size_t i = 0; i < out_plane; i++)
            in_gradient[plane * in_plane + plan->layers[index].winners[plane * out_plane + i]] +=
                plan->layers[index].gradient[plane * out_plane + i];
    return 0;
}

/* ---- dropout ---- */

static int dropout_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    struct reference_layer *const state = &plan->layers[index];
    const struct layer *const l = &plan->net->layers[index];
    dropout_init(&state->dropout, plan->backend->spec.seed, index, l->rate);
    state->mask = plan_alloc(plan, plan->base.count * shape_count(l->out));
    return state->mask != NULL ? plan_values(base, index) : -ENOMEM;
}

static int dropout_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    struct reference_layer *const state = &plan->layers[index];
    const size_t size = shape_count(plan->net->layers[index].out);
    const size_t count = plan->base.count * size;
    if (!plan->base.training) {
        memcpy(state->out, input_of(plan, index), count * sizeof(float));
        return 0;
    }
    for (uint32_t n = 0; n < plan->base.count; n++)
        dropout_mask(&state->dropout, plan->epoch, plan->first_position + n, size, state->mask + n * size);
    dropout_apply(&state->dropout, state->mask, input_of(plan, index), state->out, count);
    return 0;
}

static int dropout_backward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const struct reference_layer *const state = &plan->layers[index];
    float *const in_gradient = input_gradient_of(plan, index);
    if (in_gradient != NULL)
        dropout_apply(&state->dropout, state->mask, state->gradient, in_gradient,
                      plan->base.count * shape_count(plan->net->layers[index].out));
    return 0;
}

/* ---- softmax_loss: out holds the probabilities ---- */

static uint32_t softmax(const float *logits, uint32_t classes, float *probabilities, double *log_sum_out)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++)
        best = logits[c] > logits[best] ? c : best;
    double sum = 0;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp((double)logits[c] - logits[best]);
    *log_sum_out = log(sum) + logits[best];
    for (uint32_t c = 0; c < classes; c++)
        probabilities[c] = (float)exp((double)logits[c] - *log_sum_out);
    return best;
}

static int loss_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const uint32_t classes = plan->net->layers[index].in.channels;
    plan->result = (struct backend_result){0};
    for (uint32_t n = 0; n < plan->base.count; n++) {
        const float *const logits = input_of(plan, index) + (size_t)n * classes;
        double log_sum;
        const uint32_t best = softmax(logits, classes, plan->layers[index].out + (size_t)n * classes, &log_sum);
        const int32_t label = plan->labels[n];
        if (label < 0)
            continue;
        plan->result.counted++;
        plan->result.correct += best == (uint32_t)label;
        plan->result.loss_sum += log_sum - logits[label];
    }
    return 0;
}

static int loss_backward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = plan_of(base);
    const uint32_t classes = plan->net->layers[index].in.channels;
    float *const in_gradient = input_gradient_of(plan, index);
    for (uint32_t n = 0; n < plan->base.count && in_gradient != NULL; n++)
        for (uint32_t c = 0; c < classes; c++) {
            const size_t at = (size_t)n * classes + c;
            const int32_t label = plan->labels[n];
            in_gradient[at] = label < 0 ? 0 : plan->layers[index].out[at] - (c == (uint32_t)label ? 1.0f : 0.0f);
        }
    return 0;
}

static const struct layer_ops rows[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = {conv2d_plan, conv2d_forward, conv2d_backward, release_values},
    [LAYER_DENSE] = {plan_values, dense_forward, dense_backward, release_values},
    [LAYER_RELU] = {relu_plan, relu_forward, relu_layer_backward, relu_release},
    [LAYER_MAX_POOL] = {max_pool_plan, max_pool_forward, max_pool_backward, release_values},
    [LAYER_DROPOUT] = {dropout_plan, dropout_forward, dropout_backward, release_values},
    [LAYER_SOFTMAX_LOSS] = {plan_values, loss_forward, loss_backward, release_values},
};

/* ---- the backend ---- */

static int reference_open(struct backend **backend_out, const struct backend_spec *spec)
{
    struct reference *const backend = calloc(1, sizeof(*backend));
    if (backend == NULL)
        return -ENOMEM;
    backend->base.ops = &backend_reference_ops;
    backend->spec = *spec;
    *backend_out = (struct backend *)backend;
    return 0;
}

static void reference_close(struct backend *backend)
{
    free(backend);
}

static int reference_store(struct backend *base, size_t *stored_counts)
{
    const struct net *const net = ((struct reference *)base)->spec.net;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        stored_counts[i] = net->parameters[i].count;
    return 0;
}

static int reference_bind(struct backend *base, const struct arena *arena, float *weights, float *gradients)
{
    struct reference *const backend = (struct reference *)base;
    backend->arena = arena;
    backend->weights = weights;
    backend->gradients = gradients;
    return 0;
}

static int reference_pack(struct backend *base, uint32_t parameter, const float *plain, float *stored)
{
    const struct net *const net = ((struct reference *)base)->spec.net;
    memcpy(stored, plain, net->parameters[parameter].count * sizeof(float));
    return 0;
}

static int reference_unpack(struct backend *base, uint32_t parameter, const float *stored, float *plain)
{
    return reference_pack(base, parameter, stored, plain);
}

static void reference_plan_close(struct plan *base)
{
    struct reference_plan *const plan = plan_of(base);
    if (plan == NULL)
        return;
    for (uint32_t i = 0; plan->layers != NULL && i < plan->net->layer_count; i++)
        rows[plan->net->layers[i].kind].release(base, i);
    plan_free(plan, plan->image);
    plan_free(plan, plan->labels);
    free(plan->layers);
    free(plan);
}

static int plan_layers(struct reference_plan *plan)
{
    plan->layers = calloc(plan->net->layer_count, sizeof(*plan->layers));
    plan->image = plan_alloc(plan, plan->base.count * shape_count(plan->net->input) * sizeof(float));
    plan->labels = plan_alloc(plan, plan->base.count * sizeof(*plan->labels));
    int rc = plan->layers != NULL && plan->image != NULL && plan->labels != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < plan->net->layer_count && rc == 0; i++)
        rc = rows[plan->net->layers[i].kind].plan((struct plan *)plan, i);
    return rc;
}

static int reference_plan(struct backend *base, uint32_t count, bool training, struct plan **plan_out)
{
    struct reference_plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->base = (struct plan_base){.backend = base, .count = count, .training = training};
    plan->backend = (struct reference *)base;
    plan->net = plan->backend->spec.net;
    const int rc = plan_layers(plan);
    if (rc != 0) {
        reference_plan_close((struct plan *)plan);
        return rc;
    }
    *plan_out = (struct plan *)plan;
    return 0;
}

static size_t reference_plan_bytes(const struct plan *plan)
{
    return ((const struct reference_plan *)plan)->bytes;
}

static void reference_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg)
{
    (void)plan;
    write(arg, "every layer: plain loops, N,C,H,W");
}

static int reference_input(struct plan *base, const struct backend_input *input)
{
    struct reference_plan *const plan = plan_of(base);
    const size_t channels = plan->net->input.channels;
    const size_t plane = (size_t)plan->net->input.height * plan->net->input.width;
    for (size_t n = 0; n < plan->base.count; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < plane; i++)
                plan->image[(n * channels + c) * plane + i] =
                    (float)input->pixels[(n * plane + i) * channels + c] / 255.0f;
    memcpy(plan->labels, input->labels, plan->base.count * sizeof(*plan->labels));
    plan->first_position = input->first_position;
    plan->epoch = input->epoch;
    return 0;
}

static int reference_forward(struct plan *base)
{
    const struct net *const net = plan_of(base)->net;
    int rc = 0;
    for (uint32_t i = 0; i < net->layer_count && rc == 0; i++)
        rc = rows[net->layers[i].kind].forward(base, i);
    return rc;
}

static int reference_backward(struct plan *base, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    const struct net *const net = plan_of(base)->net;
    int rc = 0;
    for (uint32_t i = net->layer_count; i-- > 0 && rc == 0;) {
        rc = rows[net->layers[i].kind].backward(base, i);
        if (rc == 0 && net->layers[i].weight != NET_NO_PARAMETER)
            layer_done(arg, i);
    }
    return rc;
}

static int reference_result(struct plan *base, struct backend_result *result_out)
{
    *result_out = plan_of(base)->result;
    return 0;
}

static int reference_update(struct backend *backend, const struct optimizer *optimizer, float learning_rate,
                            float gradient_scale, const struct optimizer_range *range)
{
    (void)backend;
    optimizer_update(optimizer, learning_rate, gradient_scale, range);
    return 0;
}

const struct backend_ops backend_reference_ops = {
    .name = "reference",
    .open = reference_open,
    .close = reference_close,
    .store = reference_store,
    .bind = reference_bind,
    .pack = reference_pack,
    .unpack = reference_unpack,
    .plan = reference_plan,
    .plan_close = reference_plan_close,
    .plan_bytes = reference_plan_bytes,
    .plan_describe = reference_plan_describe,
    .input = reference_input,
    .forward = reference_forward,
    .backward = reference_backward,
    .result = reference_result,
    .update = reference_update,
};
