/* The layers of the reference backend that slide a window over the image: plain loops over N,C,H,W in fp32, with
 * sums in double. Slow and obvious; the other backends must match them. */
#include <string.h>

#include "compute/reference/reference_plan.h"

/* ---- windows ---- */

struct coordinates { size_t sample, channel, row, column; };

/* The coordinates of value `index`. */
static struct coordinates coordinates_of(struct shape shape, size_t index)
{
    return (struct coordinates){
        .sample = index / shape_count(shape),
        .channel = index / shape.width / shape.height % shape.channels,
        .row = index / shape.width % shape.height,
        .column = index % shape.width,
    };
}

/* A tap of a window: the index of its input value in channel 0, and the distance to the same pixel of the next
 * channel. */
struct tap { size_t in, next_channel; };

/* Find tap (kh, kw) of the window of output value `out`. False when it is in the padding. */
static bool tap_find(const struct layer *layer, struct coordinates out, uint32_t kh, uint32_t kw, struct tap *tap_out)
{
    const size_t row = out.row * layer->stride_h + kh - layer->pad_top;
    const size_t column = out.column * layer->stride_w + kw - layer->pad_left;
    if (row >= layer->in.height || column >= layer->in.width)   /* a negative index wraps around */
        return false;
    *tap_out = (struct tap){
        .in = out.sample * shape_count(layer->in) + row * layer->in.width + column,
        .next_channel = shape_area(layer->in),
    };
    return true;
}

/* ---- conv2d ---- */

static int conv2d_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const struct net *const net = plan->base.net;
    const struct layer *const layer = &net->layers[index];
    if (!plan->base.training)
        return 0;
    struct reference_layer *const state = &plan->layers[index];
    const size_t weights = net->parameters[layer->parameters[PARAMETER_WEIGHT]].count;
    const size_t numbers = plan->base.count * shape_count(layer->in);
    const int rc = plan_scratch(base, index, weights * sizeof(double), PASS_PARAMETERS, PASS_PARAMETERS,
                                &state->weight_sums);
    return rc != 0 ? rc : plan_scratch(base, index, numbers * sizeof(double), PASS_INPUTS, PASS_INPUTS,
                                       &state->in_sums);
}

/* The input channels that a filter reads: those of its group. */
static size_t group_channels(const struct layer *layer)
{
    return layer->in.channels / layer->groups;
}

/* Find tap (kh, kw) of the window of output value `out` in the first channel of its group. */
static bool group_tap_find(const struct layer *layer, struct coordinates out, uint32_t kh, uint32_t kw,
                           struct tap *tap_out)
{
    if (!tap_find(layer, out, kh, kw, tap_out))
        return false;
    const size_t group = out.channel / (layer->out.channels / layer->groups);
    tap_out->in += group * group_channels(layer) * tap_out->next_channel;
    return true;
}

/* The index of a tap's weight in the first channel of the group; weights are stored as
 * [out channel][channel of the group][kh][kw]. */
static size_t weight_of(const struct layer *layer, size_t out_channel, uint32_t kh, uint32_t kw)
{
    return (out_channel * group_channels(layer) * layer->kernel_h + kh) * layer->kernel_w + kw;
}

/* The distance to the weight of the same tap in the next channel. */
static size_t next_weight(const struct layer *layer)
{
    return (size_t)layer->kernel_h * layer->kernel_w;
}

static double tap_sum(const struct view *v, struct tap tap, size_t weight)
{
    const float *const weights = v->parameters[PARAMETER_WEIGHT];
    const size_t next = next_weight(v->layer);
    double sum = 0;
    for (size_t c = 0; c < group_channels(v->layer); c++)
        sum += (double)v->in[tap.in + c * tap.next_channel] * weights[weight + c * next];
    return sum;
}

static double window_sum(const struct view *v, struct coordinates out)
{
    struct tap tap;
    double sum = 0;
    for (uint32_t kh = 0; kh < v->layer->kernel_h; kh++)
        for (uint32_t kw = 0; kw < v->layer->kernel_w; kw++)
            if (group_tap_find(v->layer, out, kh, kw, &tap))
                sum += tap_sum(v, tap, weight_of(v->layer, out.channel, kh, kw));
    return sum;
}

static int conv2d_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const float *const bias = v.parameters[PARAMETER_BIAS];
    for (size_t i = 0; i < v.out_count; i++) {
        const struct coordinates position = coordinates_of(v.layer->out, i);
        v.out[i] = (float)(window_sum(&v, position) + (bias != NULL ? bias[position.channel] : 0));
    }
    return 0;
}

/* Add the contribution of a tap, in a window with output gradient `gradient`, to the gradients of weights or inputs. */
typedef void (*tap_backward)(const struct view *v, struct tap tap, size_t weight, double gradient, double *sums);

static void tap_to_weights(const struct view *v, struct tap tap, size_t weight, double gradient, double *sums)
{
    const size_t next = next_weight(v->layer);
    for (size_t c = 0; c < group_channels(v->layer); c++)
        sums[weight + c * next] += gradient * v->in[tap.in + c * tap.next_channel];
}

static void tap_to_inputs(const struct view *v, struct tap tap, size_t weight, double gradient, double *sums)
{
    const float *const weights = v->parameters[PARAMETER_WEIGHT];
    const size_t next = next_weight(v->layer);
    for (size_t c = 0; c < group_channels(v->layer); c++)
        sums[tap.in + c * tap.next_channel] += gradient * weights[weight + c * next];
}

static void window_backward(const struct view *v, size_t out, tap_backward add, double *sums)
{
    const struct coordinates position = coordinates_of(v->layer->out, out);
    struct tap tap;
    for (uint32_t kh = 0; kh < v->layer->kernel_h; kh++)
        for (uint32_t kw = 0; kw < v->layer->kernel_w; kw++)
            if (group_tap_find(v->layer, position, kh, kw, &tap))
                add(v, tap, weight_of(v->layer, position.channel, kh, kw), v->out_gradient[out], sums);
}

static int conv2d_backward_parameters(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t weight_count = weight_of(v.layer, v.layer->out.channels, 0, 0);
    double *const sums = reference_buffer(v.plan, v.state->weight_sums);
    memset(sums, 0, weight_count * sizeof(*sums));
    for (size_t i = 0; i < v.out_count; i++)
        window_backward(&v, i, tap_to_weights, sums);
    for (size_t i = 0; i < weight_count; i++)
        v.gradients[PARAMETER_WEIGHT][i] = (float)sums[i];
    if (v.gradients[PARAMETER_BIAS] != NULL)
        reference_bias_backward(&v);
    return 0;
}

static int conv2d_backward_inputs(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    double *const sums = reference_buffer(v.plan, v.state->in_sums);
    memset(sums, 0, v.in_count * sizeof(*sums));
    for (size_t i = 0; i < v.out_count; i++)
        window_backward(&v, i, tap_to_inputs, sums);
    for (size_t i = 0; i < v.in_count; i++)
        target_put(v.targets[0], i, (float)sums[i]);
    return 0;
}

const struct layer_ops reference_conv2d = {
    .uses = { .in_until = PASS_PARAMETERS, .adds = true },
    .plan = conv2d_plan,
    .forward = conv2d_forward,
    .backward_parameters = conv2d_backward_parameters,
    .backward_inputs = conv2d_backward_inputs,
};

/* ---- pools ---- */

/* Pools sum their gradients in the target, which starts at 0 unless they add to it. */
static void target_begin(const struct view *v)
{
    if (!v->targets[0].adds)
        memset(v->targets[0].gradient, 0, v->in_count * sizeof(float));
}

/* Keep until backward the index of the input value that each output value is. */
static int max_pool_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    if (!plan->base.training)
        return 0;
    const size_t results = plan->base.count * shape_count(plan->base.net->layers[index].out);
    return plan_scratch(base, index, results * sizeof(size_t), PASS_FORWARD, PASS_INPUTS,
                        &plan->layers[index].kept);
}

/* The first largest value of a window; padding never wins. */
static size_t window_winner(const struct view *v, struct coordinates out)
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

static int max_pool_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    size_t *const winners = reference_buffer(v.plan, v.state->kept);
    for (size_t i = 0; i < v.out_count; i++) {
        const size_t winner = window_winner(&v, coordinates_of(v.layer->out, i));
        v.out[i] = v.in[winner];
        if (winners != NULL)
            winners[i] = winner;
    }
    return 0;
}

static int max_pool_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t *const winners = reference_buffer(v.plan, v.state->kept);
    target_begin(&v);
    for (size_t i = 0; i < v.out_count; i++)
        v.targets[0].gradient[winners[i]] += v.out_gradient[i];
    return 0;
}

const struct layer_ops reference_max_pool = {
    .uses = { .adds = true },
    .plan = max_pool_plan,
    .forward = max_pool_forward,
    .backward_inputs = max_pool_backward,
};

/* The number of input values in a window: padding does not count. */
static size_t count_taps(const struct layer *layer, struct coordinates out)
{
    struct tap tap;
    size_t count = 0;
    for (uint32_t kh = 0; kh < layer->kernel_h; kh++)
        for (uint32_t kw = 0; kw < layer->kernel_w; kw++)
            count += tap_find(layer, out, kh, kw, &tap);
    return count;
}

static double window_total(const struct view *v, struct coordinates out)
{
    struct tap tap;
    double total = 0;
    for (uint32_t kh = 0; kh < v->layer->kernel_h; kh++)
        for (uint32_t kw = 0; kw < v->layer->kernel_w; kw++)
            if (tap_find(v->layer, out, kh, kw, &tap))
                total += v->in[tap.in + out.channel * tap.next_channel];
    return total;
}

static int average_pool_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.out_count; i++) {
        const struct coordinates out = coordinates_of(v.layer->out, i);
        v.out[i] = (float)(window_total(&v, out) / (double)count_taps(v.layer, out));
    }
    return 0;
}

static void spread(const struct view *v, struct coordinates out, float gradient)
{
    struct tap tap;
    for (uint32_t kh = 0; kh < v->layer->kernel_h; kh++)
        for (uint32_t kw = 0; kw < v->layer->kernel_w; kw++)
            if (tap_find(v->layer, out, kh, kw, &tap))
                v->targets[0].gradient[tap.in + out.channel * tap.next_channel] += gradient;
}

static int average_pool_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    target_begin(&v);
    for (size_t i = 0; i < v.out_count; i++) {
        const struct coordinates out = coordinates_of(v.layer->out, i);
        spread(&v, out, v.out_gradient[i] / (float)count_taps(v.layer, out));
    }
    return 0;
}

const struct layer_ops reference_average_pool = {
    .uses = { .adds = true },
    .forward = average_pool_forward,
    .backward_inputs = average_pool_backward,
};
