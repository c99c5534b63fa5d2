/* The layers of the reference backend: plain loops over N,C,H,W in fp32, sums in double.
 * Slow and obvious; what the other backends must match. */
#include "compute/reference/reference_plan.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* One layer of a plan, with all that its loops touch. */
struct view {
    const struct layer *layer;
    const struct reference_layer *state;
    size_t samples;
    size_t in_count, out_count; /* values of all samples */
    const float *in;
    float *in_gradient;         /* NULL: the image needs none */
    const float *weight, *bias; /* conv2d, dense */
    float *weight_gradient, *bias_gradient;
};

static struct view view_of(struct plan *base, uint32_t index)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    const struct layer *const layer = &plan->net->layers[index];
    const struct reference_layer *const from = layer->input == NET_INPUT ? NULL : &plan->layers[layer->input];
    struct view view = {
        .layer = layer,
        .state = &plan->layers[index],
        .samples = plan->base.count,
        .in_count = plan->base.count * shape_count(layer->in),
        .out_count = plan->base.count * shape_count(layer->out),
        .in = from != NULL ? from->out : plan->image,
        .in_gradient = from != NULL ? from->gradient : NULL,
    };
    if (layer->weight != NET_NO_PARAMETER) {
        const struct arena_range *const ranges = plan->arena->ranges;
        view.weight = plan->weights + ranges[layer->weight].offset;
        view.bias = plan->weights + ranges[layer->bias].offset;
        view.weight_gradient = plan->gradients + ranges[layer->weight].offset;
        view.bias_gradient = plan->gradients + ranges[layer->bias].offset;
    }
    return view;
}

static float relu(float value)
{
    return value > 0 ? value : 0;
}

/* Through a ReLU with results `out`. */
static void relu_gradient(const float *out, float *gradient, size_t count)
{
    for (size_t i = 0; i < count; i++)
        gradient[i] = out[i] > 0 ? gradient[i] : 0;
}

static void round_sums(const double *sums, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)sums[i];
}

/* ---- every kind: output and its gradient ---- */

static int values_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    struct reference_layer *const state = &plan->layers[index];
    const size_t count = plan->base.count * shape_count(plan->net->layers[index].out);
    state->out = reference_alloc(plan, count, sizeof(*state->out));
    if (plan->base.training)
        state->gradient = reference_alloc(plan, count, sizeof(*state->gradient));
    return state->out != NULL && (state->gradient != NULL || !plan->base.training) ? 0 : -ENOMEM;
}

static void values_release(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    struct reference_layer *const state = &plan->layers[index];
    reference_free(plan, state->out);
    reference_free(plan, state->gradient);
    reference_free(plan, state->weight_sums);
    reference_free(plan, state->in_sums);
    reference_free(plan, state->winners);
    reference_free(plan, state->mask);
}

/* ---- windows of conv2d and max_pool ---- */

struct place { size_t sample, channel, row, column; };

/* Where value `index` lies. */
static struct place place_of(struct shape shape, size_t index)
{
    return (struct place){
        .sample = index / shape_count(shape),
        .channel = index / shape.width / shape.height % shape.channels,
        .row = index / shape.width % shape.height,
        .column = index % shape.width,
    };
}

/* A tap of a window: the input value it lies on in channel 0, the same row and column of
 * the next channel so many values further. */
struct tap { size_t in, next_channel; };

/* Tap (kh, kw) of the window of output value `out`. False in the padding. */
static bool tap_find(const struct layer *layer, struct place out, uint32_t kh, uint32_t kw, struct tap *tap_out)
{
    const size_t row = out.row * layer->stride_h + kh - layer->pad_top;
    const size_t column = out.column * layer->stride_w + kw - layer->pad_left;
    if (row >= layer->in.height || column >= layer->in.width)   /* before the first wraps around */
        return false;
    *tap_out = (struct tap){
        .in = out.sample * shape_count(layer->in) + row * layer->in.width + column,
        .next_channel = (size_t)layer->in.height * layer->in.width,
    };
    return true;
}

/* ---- conv2d ---- */

static int conv2d_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const struct layer *const layer = &plan->net->layers[index];
    struct reference_layer *const state = &plan->layers[index];
    if (plan->base.training) {
        const size_t weights = plan->net->parameters[layer->weight].count;
        state->weight_sums = reference_alloc(plan, weights, sizeof(*state->weight_sums));
        state->in_sums = reference_alloc(plan, plan->base.count * shape_count(layer->in), sizeof(*state->in_sums));
        if (state->weight_sums == NULL || state->in_sums == NULL)
            return -ENOMEM;
    }
    return values_plan(base, index);
}

/* Weights lie as [out channel][channel][kh][kw]: the one of a tap in channel 0. */
static size_t weight_of(const struct layer *layer, size_t out_channel, uint32_t kh, uint32_t kw)
{
    return (out_channel * layer->in.channels * layer->kernel_h + kh) * layer->kernel_w + kw;
}

static double tap_sum(const struct view *v, struct tap tap, size_t weight)
{
    const size_t next_weight = (size_t)v->layer->kernel_h * v->layer->kernel_w;
    double sum = 0;
    for (size_t c = 0; c < v->layer->in.channels; c++)
        sum += (double)v->in[tap.in + c * tap.next_channel] * v->weight[weight + c * next_weight];
    return sum;
}

/* What an output value with gradient `gradient` gives to the weights and inputs of a tap. */
static void tap_backward(const struct view *v, struct tap tap, size_t weight, double gradient)
{
    const size_t next_weight = (size_t)v->layer->kernel_h * v->layer->kernel_w;
    for (size_t c = 0; c < v->layer->in.channels; c++) {
        const size_t in = tap.in + c * tap.next_channel, w = weight + c * next_weight;
        v->state->weight_sums[w] += gradient * v->in[in];
        v->state->in_sums[in] += gradient * v->weight[w];
    }
}

static double window_sum(const struct view *v, struct place out)
{
    struct tap tap;
    double sum = 0;
    for (uint32_t kh = 0; kh < v->layer->kernel_h; kh++)
        for (uint32_t kw = 0; kw < v->layer->kernel_w; kw++)
            if (tap_find(v->layer, out, kh, kw, &tap))
                sum += tap_sum(v, tap, weight_of(v->layer, out.channel, kh, kw));
    return sum;
}

static void window_backward(const struct view *v, struct place out, double gradient)
{
    struct tap tap;
    for (uint32_t kh = 0; kh < v->layer->kernel_h; kh++)
        for (uint32_t kw = 0; kw < v->layer->kernel_w; kw++)
            if (tap_find(v->layer, out, kh, kw, &tap))
                tap_backward(v, tap, weight_of(v->layer, out.channel, kh, kw), gradient);
}

static int conv2d_forward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    for (size_t i = 0; i < v.out_count; i++) {
        const struct place place = place_of(v.layer->out, i);
        const float value = (float)(window_sum(&v, place) + v.bias[place.channel]);
        v.state->out[i] = v.layer->relu ? relu(value) : value;
    }
    return 0;
}

static void bias_backward(const struct view *v)
{
    const size_t channels = v->layer->out.channels;
    const size_t pixels = (size_t)v->layer->out.height * v->layer->out.width;
    for (size_t channel = 0; channel < channels; channel++) {
        double sum = 0;
        for (size_t n = 0; n < v->samples; n++)
            for (size_t i = 0; i < pixels; i++)
                sum += v->state->gradient[(n * channels + channel) * pixels + i];
        v->bias_gradient[channel] = (float)sum;
    }
}

static int conv2d_backward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    const size_t weight_count = weight_of(v.layer, v.layer->out.channels, 0, 0);
    if (v.layer->relu)
        relu_gradient(v.state->out, v.state->gradient, v.out_count);
    memset(v.state->weight_sums, 0, weight_count * sizeof(double));
    memset(v.state->in_sums, 0, v.in_count * sizeof(double));
    for (size_t i = 0; i < v.out_count; i++)
        window_backward(&v, place_of(v.layer->out, i), v.state->gradient[i]);
    round_sums(v.state->weight_sums, weight_count, v.weight_gradient);
    bias_backward(&v);
    if (v.in_gradient != NULL)
        round_sums(v.state->in_sums, v.in_count, v.in_gradient);
    return 0;
}

/* ---- dense ---- */

static int dense_forward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    const size_t inputs = shape_count(v.layer->in), units = v.layer->out.channels;
    for (size_t n = 0; n < v.samples; n++)
        for (size_t unit = 0; unit < units; unit++) {
            double sum = v.bias[unit];
            for (size_t i = 0; i < inputs; i++)
                sum += (double)v.in[n * inputs + i] * v.weight[unit * inputs + i];
            v.state->out[n * units + unit] = v.layer->relu ? relu((float)sum) : (float)sum;
        }
    return 0;
}

static void dense_weight_backward(const struct view *v)
{
    const size_t inputs = shape_count(v->layer->in), units = v->layer->out.channels;
    for (size_t unit = 0; unit < units; unit++)
        for (size_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (size_t n = 0; n < v->samples; n++)
                sum += (double)v->state->gradient[n * units + unit] * v->in[n * inputs + i];
            v->weight_gradient[unit * inputs + i] = (float)sum;
        }
}

static void dense_data_backward(const struct view *v)
{
    const size_t inputs = shape_count(v->layer->in), units = v->layer->out.channels;
    for (size_t n = 0; n < v->samples; n++)
        for (size_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (size_t unit = 0; unit < units; unit++)
                sum += (double)v->state->gradient[n * units + unit] * v->weight[unit * inputs + i];
            v->in_gradient[n * inputs + i] = (float)sum;
        }
}

static int dense_backward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    if (v.layer->relu)
        relu_gradient(v.state->out, v.state->gradient, v.out_count);
    dense_weight_backward(&v);
    bias_backward(&v);
    if (v.in_gradient != NULL)
        dense_data_backward(&v);
    return 0;
}

/* ---- relu: values of its own, or those of the layer that did its work ---- */

static bool is_folded(struct plan *base, uint32_t index)
{
    return reference_plan_of(base)->net->layers[index].folded_into != NET_NO_LAYER;
}

static int relu_plan(struct plan *base, uint32_t index)
{
    if (!is_folded(base, index))
        return values_plan(base, index);
    struct reference_plan *const plan = reference_plan_of(base);
    plan->layers[index] = plan->layers[plan->net->layers[index].folded_into];
    return 0;
}

static int relu_forward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    for (size_t i = 0; i < v.out_count && !is_folded(base, index); i++)
        v.state->out[i] = relu(v.in[i]);
    return 0;
}

static int relu_backward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    if (is_folded(base, index) || v.in_gradient == NULL)
        return 0;
    memcpy(v.in_gradient, v.state->gradient, v.in_count * sizeof(float));
    relu_gradient(v.state->out, v.in_gradient, v.in_count);
    return 0;
}

static void relu_release(struct plan *base, uint32_t index)
{
    if (!is_folded(base, index))
        values_release(base, index);
}

/* ---- max_pool ---- */

static int max_pool_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    struct reference_layer *const state = &plan->layers[index];
    const size_t count = plan->base.count * shape_count(plan->net->layers[index].out);
    state->winners = reference_alloc(plan, count, sizeof(*state->winners));
    return state->winners != NULL ? values_plan(base, index) : -ENOMEM;
}

/* The first largest value of a window; padding never wins. */
static size_t window_winner(const struct view *v, struct place out)
{
    size_t winner = SIZE_MAX;
    struct tap tap;
    for (uint32_t kh = 0; kh < v->layer->kernel_h; kh++)
        for (uint32_t kw = 0; kw < v->layer->kernel_w; kw++) {
            if (!tap_find(v->layer, out, kh, kw, &tap))
                continue;
            const size_t in = tap.in + out.channel * tap.next_channel;
            if (winner == SIZE_MAX || v->in[in] > v->in[winner])
                winner = in;
        }
    return winner;
}

static int max_pool_forward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    for (size_t i = 0; i < v.out_count; i++) {
        v.state->winners[i] = window_winner(&v, place_of(v.layer->out, i));
        v.state->out[i] = v.in[v.state->winners[i]];
    }
    return 0;
}

static int max_pool_backward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    if (v.in_gradient == NULL)
        return 0;
    memset(v.in_gradient, 0, v.in_count * sizeof(float));
    for (size_t i = 0; i < v.out_count; i++)
        v.in_gradient[v.state->winners[i]] += v.state->gradient[i];
    return 0;
}

/* ---- dropout ---- */

static int dropout_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    struct reference_layer *const state = &plan->layers[index];
    const struct layer *const layer = &plan->net->layers[index];
    dropout_init(&state->dropout, plan->seed, index, layer->rate);
    state->mask = reference_alloc(plan, plan->base.count * shape_count(layer->out), sizeof(*state->mask));
    return state->mask != NULL ? values_plan(base, index) : -ENOMEM;
}

static int dropout_forward(struct plan *base, uint32_t index)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    const struct view v = view_of(base, index);
    const struct dropout *const dropout = &v.state->dropout;
    const size_t size = shape_count(v.layer->out);
    if (!plan->base.training) {
        memcpy(v.state->out, v.in, v.out_count * sizeof(float));
        return 0;
    }
    for (size_t n = 0; n < v.samples; n++)
        dropout_mask(dropout, plan->epoch, plan->first_position + n, size, v.state->mask + n * size);
    dropout_apply(dropout, v.state->mask, v.in, v.state->out, v.out_count);
    return 0;
}

static int dropout_backward(struct plan *base, uint32_t index)
{
    const struct view v = view_of(base, index);
    if (v.in_gradient != NULL)
        dropout_apply(&v.state->dropout, v.state->mask, v.state->gradient, v.in_gradient, v.out_count);
    return 0;
}

/* ---- softmax_loss: out holds the probabilities ---- */

static uint32_t first_largest(const float *logits, uint32_t classes)
{
    uint32_t best = 0;
    for (uint32_t c = 1; c < classes; c++)
        best = logits[c] > logits[best] ? c : best;
    return best;
}

/* log(sum(exp(logit))) without overflow. */
static double log_sum_exp(const float *logits, uint32_t classes, double largest)
{
    double sum = 0;
    for (uint32_t c = 0; c < classes; c++)
        sum += exp((double)logits[c] - largest);
    return log(sum) + largest;
}

static int loss_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const struct view v = view_of(base, index);
    const uint32_t classes = v.layer->in.channels;
    plan->result = (struct backend_result){ .loss_scale = 1 };
    for (size_t n = 0; n < v.samples; n++) {
        const float *const logits = v.in + n * classes;
        const uint32_t best = first_largest(logits, classes);
        const double log_sum = log_sum_exp(logits, classes, logits[best]);
        for (uint32_t c = 0; c < classes; c++)
            v.state->out[n * classes + c] = (float)exp((double)logits[c] - log_sum);
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
    const struct reference_plan *const plan = reference_plan_of(base);
    const struct view v = view_of(base, index);
    const uint32_t classes = v.layer->in.channels;
    for (size_t i = 0; i < v.in_count && v.in_gradient != NULL; i++) {
        const int32_t label = plan->labels[i / classes];
        const float target = i % classes == (uint32_t)label ? 1 : 0;
        v.in_gradient[i] = label < 0 ? 0 : v.state->out[i] - target;
    }
    return 0;
}

const struct layer_ops reference_layer_table[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = { conv2d_plan, conv2d_forward, conv2d_backward, values_release },
    [LAYER_DENSE] = { values_plan, dense_forward, dense_backward, values_release },
    [LAYER_RELU] = { relu_plan, relu_forward, relu_backward, relu_release },
    [LAYER_MAX_POOL] = { max_pool_plan, max_pool_forward, max_pool_backward, values_release },
    [LAYER_DROPOUT] = { dropout_plan, dropout_forward, dropout_backward, values_release },
    [LAYER_SOFTMAX_LOSS] = { values_plan, loss_forward, loss_backward, values_release },
};
