/* The layers of the reference backend that residual branches of newer networks have: layer normalisation, a factor per
 * channel, stochastic depth. Plain loops over N,C,H,W in fp32, with sums in double. */
#include <math.h>

#include "compute/reference/reference_plan.h"

/* The channel of value i. */
static size_t residual_channel(const struct view *v, size_t i)
{
    return i / shape_area(v->layer->in) % v->layer->in.channels;
}

/* ---- layer_norm: over the channels of each pixel ---- */

/* A pixel of a sample. normalised = (value - mean) * scale */
struct pixel { double mean, scale; };

/* The index of the value of channel 0 of a pixel, counted over all samples. */
static size_t pixel_at(const struct view *v, size_t pixel)
{
    const size_t area = shape_area(v->layer->in);
    return pixel / area * shape_count(v->layer->in) + pixel % area;
}

static struct pixel pixel_measure(const struct view *v, size_t pixel)
{
    const size_t channels = v->layer->in.channels, area = shape_area(v->layer->in);
    const float *const in = v->in + pixel_at(v, pixel);
    double mean = 0, squares = 0;
    for (size_t c = 0; c < channels; c++)
        mean += in[c * area];
    mean /= (double)channels;
    for (size_t c = 0; c < channels; c++)
        squares += (in[c * area] - mean) * (in[c * area] - mean);
    return (struct pixel){ mean, 1 / sqrt(squares / (double)channels + v->layer->epsilon) };
}

static size_t pixel_count(const struct view *v)
{
    return v->samples * shape_area(v->layer->in);
}

static int layer_norm_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const float *const gamma = v.parameters[PARAMETER_GAMMA], *const beta = v.parameters[PARAMETER_BETA];
    const size_t area = shape_area(v.layer->in);
    for (size_t i = 0; i < pixel_count(&v); i++) {
        const struct pixel pixel = pixel_measure(&v, i);
        for (size_t c = 0, at = pixel_at(&v, i); c < v.layer->in.channels; c++, at += area)
            v.out[at] = (float)(gamma[c] * ((v.in[at] - pixel.mean) * pixel.scale) + beta[c]);
    }
    return 0;
}

static int layer_norm_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const size_t channels = plan->base.net->layers[index].in.channels;
    return !plan->base.training ? 0 : plan_scratch(base, index, 2 * channels * sizeof(double), PASS_PARAMETERS,
                                                   PASS_PARAMETERS, &plan->layers[index].kept);
}

static int layer_norm_backward_parameters(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t channels = v.layer->in.channels, area = shape_area(v.layer->in);
    double *const sums = reference_buffer(v.plan, v.state->kept), *const products = sums + channels;
    for (size_t c = 0; c < channels; c++)
        sums[c] = products[c] = 0;
    for (size_t i = 0; i < pixel_count(&v); i++) {
        const struct pixel pixel = pixel_measure(&v, i);
        for (size_t c = 0, at = pixel_at(&v, i); c < channels; c++, at += area) {
            sums[c] += v.out_gradient[at];
            products[c] += v.out_gradient[at] * (v.in[at] - pixel.mean) * pixel.scale;
        }
    }
    for (size_t c = 0; c < channels; c++) {
        v.gradients[PARAMETER_BETA][c] = (float)sums[c];
        v.gradients[PARAMETER_GAMMA][c] = (float)products[c];
    }
    return 0;
}

/* Every value also changes the mean and the std of its pixel. */
static void pixel_backward(const struct view *v, size_t i)
{
    const float *const gamma = v->parameters[PARAMETER_GAMMA];
    const size_t channels = v->layer->in.channels, area = shape_area(v->layer->in), first = pixel_at(v, i);
    const struct pixel pixel = pixel_measure(v, i);
    double sum = 0, products = 0;
    for (size_t c = 0, at = first; c < channels; c++, at += area) {
        const double gradient = (double)gamma[c] * v->out_gradient[at];
        sum += gradient;
        products += gradient * (v->in[at] - pixel.mean) * pixel.scale;
    }
    for (size_t c = 0, at = first; c < channels; c++, at += area) {
        const double normalised = (v->in[at] - pixel.mean) * pixel.scale;
        const double shared = (sum + normalised * products) / (double)channels;
        target_put(v->targets[0], at, (float)(pixel.scale * ((double)gamma[c] * v->out_gradient[at] - shared)));
    }
}

static int layer_norm_backward_inputs(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < pixel_count(&v); i++)
        pixel_backward(&v, i);
    return 0;
}

static void layer_norm_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)index;
    *use_out = (struct value_use){
        .in_until = PASS_INPUTS,
        .in_place = !((const struct plan_base *)plan)->training,
        .gradient_in_place = true,
        .adds = true,
    };
}

const struct layer_ops reference_layer_norm = {
    .use = layer_norm_use,
    .plan = layer_norm_plan,
    .forward = layer_norm_forward,
    .backward_parameters = layer_norm_backward_parameters,
    .backward_inputs = layer_norm_backward_inputs,
};

/* ---- scale ---- */

static void scale_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)index;
    *use_out = (struct value_use){
        .in_until = PASS_PARAMETERS,
        .in_place = !((const struct plan_base *)plan)->training,
        .gradient_in_place = true,
        .adds = true,
    };
}

static int scale_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.out_count; i++)
        v.out[i] = v.parameters[PARAMETER_GAMMA][residual_channel(&v, i)] * v.in[i];
    return 0;
}

static int scale_backward_parameters(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t channels = v.layer->in.channels, area = shape_area(v.layer->in);
    for (size_t c = 0; c < channels; c++) {
        double sum = 0;
        for (size_t n = 0; n < v.samples; n++)
            for (size_t i = 0, at = (n * channels + c) * area; i < area; i++, at++)
                sum += (double)v.out_gradient[at] * v.in[at];
        v.gradients[PARAMETER_GAMMA][c] = (float)sum;
    }
    return 0;
}

static int scale_backward_inputs(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.in_count; i++)
        target_put(v.targets[0], i, v.parameters[PARAMETER_GAMMA][residual_channel(&v, i)] * v.out_gradient[i]);
    return 0;
}

const struct layer_ops reference_channel_scale = {
    .use = scale_use,
    .forward = scale_forward,
    .backward_parameters = scale_backward_parameters,
    .backward_inputs = scale_backward_inputs,
};

/* ---- stochastic_depth: an identity outside of training ---- */

static void stochastic_depth_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)index;
    *use_out = (struct value_use){
        .in_place = true,
        .keeps_sign = true,
        .is_identity = !((const struct plan_base *)plan)->training,
        .gradient_in_place = true,
        .adds = true,
    };
}

static int stochastic_depth_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const uint64_t seed = ((const struct reference *)plan->base.backend)->spec.seed;
    dropout_init(&plan->layers[index].dropout, seed, net_random_stream(plan->base.net, index),
                 plan->base.net->layers[index].rate);
    return 0;
}

/* A number of the sample of value i, when it has passed the layer. */
static float sample_pass(const struct view *v, size_t i, float number)
{
    const uint64_t position = v->plan->first_position + i / shape_count(v->layer->in);
    const float factor = dropout_sample_factor(&v->state->dropout, v->plan->epoch, position);
    return factor != 0 ? factor * number : 0;
}

static int stochastic_depth_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.out_count && v.plan->base.training; i++)
        v.out[i] = sample_pass(&v, i, v.in[i]);
    return 0;
}

static int stochastic_depth_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.in_count; i++)
        target_put(v.targets[0], i, sample_pass(&v, i, v.out_gradient[i]));
    return 0;
}

const struct layer_ops reference_stochastic_depth = {
    .use = stochastic_depth_use,
    .plan = stochastic_depth_plan,
    .forward = stochastic_depth_forward,
    .backward_inputs = stochastic_depth_backward,
};
