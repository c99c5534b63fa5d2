/* The layers of the reference backend that have no window: plain loops over N,C,H,W in fp32, with sums in double. Slow
 * and obvious; the other backends must match them. */
#include <math.h>
#include <string.h>

#include "compute/reference/reference_plan.h"

/* ---- dense ---- */

static int dense_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const float *const weight = v.parameters[PARAMETER_WEIGHT], *const bias = v.parameters[PARAMETER_BIAS];
    const size_t inputs = shape_count(v.layer->in), units = v.layer->out.channels;
    for (size_t n = 0; n < v.samples; n++)
        for (size_t unit = 0; unit < units; unit++) {
            double sum = bias != NULL ? bias[unit] : 0;
            for (size_t i = 0; i < inputs; i++)
                sum += (double)v.in[n * inputs + i] * weight[unit * inputs + i];
            v.out[n * units + unit] = (float)sum;
        }
    return 0;
}

void reference_bias_backward(const struct view *v)
{
    const size_t channels = v->layer->out.channels, area = shape_area(v->layer->out);
    for (size_t channel = 0; channel < channels; channel++) {
        double sum = 0;
        for (size_t n = 0; n < v->samples; n++)
            for (size_t i = 0; i < area; i++)
                sum += v->out_gradient[(n * channels + channel) * area + i];
        v->gradients[PARAMETER_BIAS][channel] = (float)sum;
    }
}

static int dense_backward_parameters(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t inputs = shape_count(v.layer->in), units = v.layer->out.channels;
    for (size_t unit = 0; unit < units; unit++)
        for (size_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (size_t n = 0; n < v.samples; n++)
                sum += (double)v.out_gradient[n * units + unit] * v.in[n * inputs + i];
            v.gradients[PARAMETER_WEIGHT][unit * inputs + i] = (float)sum;
        }
    if (layer_has(v.layer, PARAMETER_BIAS))
        reference_bias_backward(&v);
    return 0;
}

static int dense_backward_inputs(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const float *const weight = v.parameters[PARAMETER_WEIGHT];
    const size_t inputs = shape_count(v.layer->in), units = v.layer->out.channels;
    for (size_t n = 0; n < v.samples; n++)
        for (size_t i = 0; i < inputs; i++) {
            double sum = 0;
            for (size_t unit = 0; unit < units; unit++)
                sum += (double)v.out_gradient[n * units + unit] * weight[unit * inputs + i];
            target_put(v.targets[0], n * inputs + i, (float)sum);
        }
    return 0;
}

const struct layer_ops reference_dense = {
    .uses = { .in_until = PASS_PARAMETERS, .adds = true },
    .forward = dense_forward,
    .backward_parameters = dense_backward_parameters,
    .backward_inputs = dense_backward_inputs,
};

/* ---- relu ---- */

static int relu_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.out_count; i++)
        v.out[i] = v.in[i] > 0 ? v.in[i] : 0;
    return 0;
}

static int relu_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.in_count; i++)
        target_put(v.targets[0], i, v.out[i] > 0 ? v.out_gradient[i] : 0);
    return 0;
}

const struct layer_ops reference_relu = {
    .uses = { .out_until = PASS_INPUTS, .out_sign = true, .in_place = true, .keeps_sign = true,
              .gradient_in_place = true, .adds = true },
    .forward = relu_forward,
    .backward_inputs = relu_backward,
};

/* ---- activations: in double, rounded once ---- */

static double clip(double x, double least, double most)
{
    return x > most ? most : x > least ? x : x <= least ? least : x;       /* NaN stays NaN */
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The distribution function and the density of a standard normal. */
static double normal_below(double x)
{
    return erfc(-x * sqrt(0.5)) / 2;
}

static double normal_density(double x)
{
    return exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
}

/* A function of a layer, and its derivative. */
struct curve { double (*value)(const struct layer *layer, double x), (*slope)(const struct layer *layer, double x); };

static double clipped_relu(const struct layer *layer, double x)
{
    return clip(x, 0, layer->limit);
}

static double clipped_relu_slope(const struct layer *layer, double x)
{
    return x > 0 && x < layer->limit;
}

static double sigmoid_value(const struct layer *layer, double x)
{
    (void)layer;
    return sigmoid(x);
}

static double sigmoid_slope(const struct layer *layer, double x)
{
    (void)layer;
    return sigmoid(x) * sigmoid(-x);
}

static double hard_sigmoid(const struct layer *layer, double x)
{
    (void)layer;
    return clip(x / 6 + 0.5, 0, 1);
}

static double hard_sigmoid_slope(const struct layer *layer, double x)
{
    (void)layer;
    return x > -3 && x < 3 ? 1.0 / 6 : 0;
}

static double silu(const struct layer *layer, double x)
{
    (void)layer;
    return x * sigmoid(x);
}

static double silu_slope(const struct layer *layer, double x)
{
    (void)layer;
    return sigmoid(x) * (1 + x * sigmoid(-x));
}

static double hard_swish(const struct layer *layer, double x)
{
    return x * hard_sigmoid(layer, x);
}

static double hard_swish_slope(const struct layer *layer, double x)
{
    return hard_sigmoid(layer, x) + x * hard_sigmoid_slope(layer, x);
}

static double gelu(const struct layer *layer, double x)
{
    (void)layer;
    return x * normal_below(x);
}

static double gelu_slope(const struct layer *layer, double x)
{
    (void)layer;
    return normal_below(x) + x * normal_density(x);
}

static const struct curve curves[ACTIVATION_COUNT] = {
    [ACTIVATION_CLIPPED_RELU] = { clipped_relu, clipped_relu_slope },
    [ACTIVATION_SIGMOID] = { sigmoid_value, sigmoid_slope },
    [ACTIVATION_HARD_SIGMOID] = { hard_sigmoid, hard_sigmoid_slope },
    [ACTIVATION_SILU] = { silu, silu_slope },
    [ACTIVATION_HARD_SWISH] = { hard_swish, hard_swish_slope },
    [ACTIVATION_GELU] = { gelu, gelu_slope },
};

static int activation_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct curve *const curve = &curves[v.layer->activation];
    for (size_t i = 0; i < v.out_count; i++)
        v.out[i] = (float)curve->value(v.layer, v.in[i]);
    return 0;
}

static int activation_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct curve *const curve = &curves[v.layer->activation];
    for (size_t i = 0; i < v.in_count; i++)
        target_put(v.targets[0], i, (float)(v.out_gradient[i] * curve->slope(v.layer, v.in[i])));
    return 0;
}

const struct layer_ops reference_activation = {
    .uses = { .in_until = PASS_INPUTS, .gradient_in_place = true, .adds = true },
    .forward = activation_forward,
    .backward_inputs = activation_backward,
};

/* ---- dropout: an identity outside of training ---- */

static void dropout_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    const bool training = ((const struct plan_base *)plan)->training;
    (void)index;
    *use_out = (struct value_use){
        .in_place = true,
        .keeps_sign = true,
        .is_identity = !training,
        .gradient_in_place = true,
    };
}

/* Keep the mask until backward: 1 kept, 0 dropped. */
static int dropout_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const struct layer *const layer = &plan->base.net->layers[index];
    const uint64_t seed = ((const struct reference *)plan->base.backend)->spec.seed;
    if (!plan->base.training)
        return 0;
    dropout_init(&plan->layers[index].dropout, seed, net_random_stream(plan->base.net, index), layer->rate);
    return plan_scratch(base, index, plan->base.count * shape_count(layer->out), PASS_FORWARD, PASS_INPUTS,
                        &plan->layers[index].kept);
}

static int dropout_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct dropout *const dropout = &v.state->dropout;
    uint8_t *const mask = reference_buffer(v.plan, v.state->kept);
    const size_t size = shape_count(v.layer->out);
    if (!v.plan->base.training)
        return 0;
    for (size_t n = 0; n < v.samples; n++)
        dropout_mask(dropout, v.plan->epoch, v.plan->first_position + n, size, mask + n * size);
    dropout_apply(dropout, mask, v.in, v.out, v.out_count);
    return 0;
}

static int dropout_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const uint8_t *const mask = reference_buffer(v.plan, v.state->kept);
    dropout_apply(&v.state->dropout, mask, v.out_gradient, v.targets[0].gradient, v.out_count);
    return 0;
}

const struct layer_ops reference_dropout = {
    .use = dropout_use,
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward_inputs = dropout_backward,
};

/* ---- add ---- */

static int add_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.out_count; i++)
        v.out[i] = v.in[i] + v.ins[1][i];
    return 0;
}

static int add_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (uint32_t k = 0; k < v.layer->input_count; k++)
        for (size_t i = 0; i < v.in_count && v.targets[k].gradient != NULL; i++)
            target_put(v.targets[k], i, v.out_gradient[i]);
    return 0;
}

const struct layer_ops reference_add = {
    .uses = { .in_place = true, .gradient_in_place = true, .adds = true },
    .forward = add_forward,
    .backward_inputs = add_backward,
};

/* ---- multiply ---- */

/* Does the second input have a number per channel of a sample, instead of one per value? */
static bool scales_channels(const struct view *v)
{
    return v->out_count != v->samples * shape_count(plan_shape(&v->plan->base, v->layer->inputs[1] + 1));
}

/* The values of the first input that each number of the second is multiplied by. */
static size_t values_per_factor(const struct view *v)
{
    return scales_channels(v) ? shape_area(v->layer->in) : 1;
}

static int multiply_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t each = values_per_factor(&v);
    for (size_t i = 0; i < v.out_count; i++)
        v.out[i] = v.in[i] * v.ins[1][i / each];
    return 0;
}

static int multiply_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t each = values_per_factor(&v);
    for (size_t i = 0; i < v.in_count && v.targets[0].gradient != NULL; i++)
        target_put(v.targets[0], i, v.out_gradient[i] * v.ins[1][i / each]);
    for (size_t i = 0; i < v.in_count / each && v.targets[1].gradient != NULL; i++) {
        double sum = 0;
        for (size_t j = i * each; j < (i + 1) * each; j++)
            sum += (double)v.out_gradient[j] * v.in[j];
        target_put(v.targets[1], i, (float)sum);
    }
    return 0;
}

const struct layer_ops reference_multiply = {
    .uses = { .in_until = PASS_INPUTS, .others_until = PASS_INPUTS, .adds = true },
    .forward = multiply_forward,
    .backward_inputs = multiply_backward,
};

/* ---- pad_channels ---- */

/* The index of the output value that input value i becomes, or SIZE_MAX when the stride skips it. */
static size_t padded_index(const struct layer *layer, size_t i)
{
    const struct shape in = layer->in, out = layer->out;
    const size_t column = i % in.width, row = i / in.width % in.height;
    const size_t channel = i / shape_area(in) % in.channels + layer->channels_before;
    if (row % layer->stride_h != 0 || column % layer->stride_w != 0)
        return SIZE_MAX;
    return i / shape_count(in) * shape_count(out) + channel * shape_area(out) +
           row / layer->stride_h * out.width + column / layer->stride_w;
}

static int pad_channels_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    memset(v.out, 0, v.out_count * sizeof(*v.out));
    for (size_t i = 0; i < v.in_count; i++) {
        const size_t place = padded_index(v.layer, i);
        if (place != SIZE_MAX)
            v.out[place] = v.in[i];
    }
    return 0;
}

static int pad_channels_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.in_count; i++) {
        const size_t place = padded_index(v.layer, i);
        target_put(v.targets[0], i, place != SIZE_MAX ? v.out_gradient[place] : 0);
    }
    return 0;
}

const struct layer_ops reference_pad_channels = {
    .uses = { .adds = true },
    .forward = pad_channels_forward,
    .backward_inputs = pad_channels_backward,
};

/* ---- concat ---- */

/* The range of input k within every sample of the result. */
struct channel_part { size_t offset, count; };

static struct channel_part part_of(const struct view *v, uint32_t index, uint32_t k)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < k; i++)
        offset += shape_count(plan_shape(&v->plan->base, plan_input(&v->plan->base, index, i)));
    const uint32_t input = plan_input(&v->plan->base, index, k);
    return (struct channel_part){ offset, shape_count(plan_shape(&v->plan->base, input)) };
}

static int concat_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t sample = shape_count(v.layer->out);
    for (uint32_t k = 0; k < v.layer->input_count; k++) {
        const struct channel_part part = part_of(&v, index, k);
        for (size_t n = 0; n < v.samples; n++)
            memcpy(v.out + n * sample + part.offset, v.ins[k] + n * part.count, part.count * sizeof(*v.out));
    }
    return 0;
}

static int concat_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t sample = shape_count(v.layer->out);
    for (uint32_t k = 0; k < v.layer->input_count; k++) {
        const struct channel_part part = part_of(&v, index, k);
        for (size_t i = 0; i < v.samples * part.count && v.targets[k].gradient != NULL; i++)
            target_put(v.targets[k], i, v.out_gradient[i / part.count * sample + part.offset + i % part.count]);
    }
    return 0;
}

const struct layer_ops reference_concat = {
    .uses = { .adds = true },
    .forward = concat_forward,
    .backward_inputs = concat_backward,
};

/* ---- local_response_norm: y = x * d^-beta, d = k + alpha / size * sum of x^2 over the window ---- */

/* The window around value i, which spans neighbouring channels: the indices of the first and the last value in it. */
struct neighbours { size_t first, last; };

static struct neighbours neighbours_of(const struct view *v, size_t i)
{
    const size_t area = shape_area(v->layer->in), reach = v->layer->response.size / 2;
    const size_t c = i / area % v->layer->in.channels, behind = v->layer->in.channels - 1 - c;
    return (struct neighbours){ i - (c < reach ? c : reach) * area, i + (behind < reach ? behind : reach) * area };
}

static double divisor(const struct view *v, size_t i)
{
    const struct local_response_norm *const how = &v->layer->response;
    const struct neighbours around = neighbours_of(v, i);
    double squares = 0;
    for (size_t j = around.first; j <= around.last; j += shape_area(v->layer->in))
        squares += (double)v->in[j] * v->in[j];
    return how->k + (double)how->alpha / how->size * squares;
}

static int response_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.in_count; i++)
        v.out[i] = (float)(v.in[i] * pow(divisor(&v, i), -(double)v.layer->response.beta));
    return 0;
}

/* A value is in the windows of all values that are in its own window. */
static int response_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct local_response_norm *const how = &v.layer->response;
    const double factor = 2.0 * how->beta * how->alpha / how->size;
    for (size_t i = 0; i < v.in_count; i++) {
        const struct neighbours around = neighbours_of(&v, i);
        double sum = 0;
        for (size_t j = around.first; j <= around.last; j += shape_area(v.layer->in))
            sum += (double)v.out_gradient[j] * v.in[j] * pow(divisor(&v, j), -(double)how->beta - 1);
        const double own = v.out_gradient[i] * pow(divisor(&v, i), -(double)how->beta);
        target_put(v.targets[0], i, (float)(own - factor * v.in[i] * sum));
    }
    return 0;
}

const struct layer_ops reference_local_response_norm = {
    .uses = { .in_until = PASS_INPUTS, .adds = true },
    .forward = response_forward,
    .backward_inputs = response_backward,
};

/* ---- batch_norm (Ioffe, Szegedy 2015; doc/models.md): samples without a label are part of the batch ---- */

/* The values of one channel that forward keeps for backward. */
struct channel {
    double mean, variance;
    double scale;               /* normalised = (value - mean) * scale */
    double gradients, products; /* sums of the result's gradients, and of these times the normalised values */
};

static void batch_norm_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    const bool training = ((const struct plan_base *)plan)->training;
    (void)index;
    *use_out = (struct value_use){
        .in_until = PASS_INPUTS,
        .in_place = !training,
        .gradient_in_place = true,
        .adds = true,
    };
}

static int batch_norm_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const size_t bytes = plan->base.net->layers[index].out.channels * sizeof(struct channel);
    return plan_scratch(base, index, bytes, PASS_FORWARD, plan->base.training ? PASS_INPUTS : PASS_FORWARD,
                        &plan->layers[index].kept);
}

/* The channel of value i. */
static size_t channel_of(const struct view *v, size_t i)
{
    return i / shape_area(v->layer->in) % v->layer->in.channels;
}

/* The number of values of one channel in the whole batch. */
static size_t channel_count(const struct view *v)
{
    return v->samples * shape_area(v->layer->in);
}

static double normalised(const struct view *v, const struct channel *channels, size_t i)
{
    const struct channel *const channel = &channels[channel_of(v, i)];
    return (v->in[i] - channel->mean) * channel->scale;
}

static void find_means(const struct view *v, struct channel *channels)
{
    for (size_t c = 0; c < v->layer->in.channels; c++)
        channels[c].mean = 0;
    for (size_t i = 0; i < v->in_count; i++)
        channels[channel_of(v, i)].mean += v->in[i];
    for (size_t c = 0; c < v->layer->in.channels; c++)
        channels[c].mean /= (double)channel_count(v);
}

static void find_variances(const struct view *v, struct channel *channels)
{
    for (size_t c = 0; c < v->layer->in.channels; c++)
        channels[c].variance = 0;
    for (size_t i = 0; i < v->in_count; i++) {
        struct channel *const channel = &channels[channel_of(v, i)];
        channel->variance += (v->in[i] - channel->mean) * (v->in[i] - channel->mean);
    }
    for (size_t c = 0; c < v->layer->in.channels; c++)
        channels[c].variance /= (double)channel_count(v);
}

/* The running variance is an estimate of the variance of all data: n / (n - 1) times the variance of the batch, or 0
 * when there is one value. */
static void move_running(const struct view *v, const struct channel *channels)
{
    const double decay = v->layer->decay, count = (double)channel_count(v);
    const double unbiased = count > 1 ? count / (count - 1) : 1;
    float *const mean = v->parameters[PARAMETER_RUNNING_MEAN];
    float *const variance = v->parameters[PARAMETER_RUNNING_VARIANCE];
    for (size_t c = 0; c < v->layer->in.channels; c++) {
        mean[c] = (float)(decay * mean[c] + (1 - decay) * channels[c].mean);
        variance[c] = (float)(decay * variance[c] + (1 - decay) * unbiased * channels[c].variance);
    }
}

static void use_running(const struct view *v, struct channel *channels)
{
    for (size_t c = 0; c < v->layer->in.channels; c++) {
        channels[c].mean = v->parameters[PARAMETER_RUNNING_MEAN][c];
        channels[c].variance = v->parameters[PARAMETER_RUNNING_VARIANCE][c];
    }
}

static void find_channels(const struct view *v, struct channel *channels)
{
    if (v->plan->base.training) {
        find_means(v, channels);
        find_variances(v, channels);
        move_running(v, channels);
    } else
        use_running(v, channels);
    for (size_t c = 0; c < v->layer->in.channels; c++)
        channels[c].scale = 1 / sqrt(channels[c].variance + v->layer->epsilon);
}

static double gamma_of(const struct view *v, size_t channel)
{
    return v->parameters[PARAMETER_GAMMA] != NULL ? v->parameters[PARAMETER_GAMMA][channel] : 1;
}

static int batch_norm_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    struct channel *const channels = reference_buffer(v.plan, v.state->kept);
    find_channels(&v, channels);
    for (size_t i = 0; i < v.out_count; i++) {
        const size_t c = channel_of(&v, i);
        v.out[i] = (float)(gamma_of(&v, c) * normalised(&v, channels, i) + v.parameters[PARAMETER_BETA][c]);
    }
    return 0;
}

static int batch_norm_backward_parameters(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    struct channel *const channels = reference_buffer(v.plan, v.state->kept);
    for (size_t c = 0; c < v.layer->in.channels; c++)
        channels[c].gradients = channels[c].products = 0;
    for (size_t i = 0; i < v.in_count; i++) {
        struct channel *const channel = &channels[channel_of(&v, i)];
        channel->gradients += v.out_gradient[i];
        channel->products += v.out_gradient[i] * normalised(&v, channels, i);
    }
    for (size_t c = 0; c < v.layer->in.channels; c++) {
        v.gradients[PARAMETER_BETA][c] = (float)channels[c].gradients;
        if (v.gradients[PARAMETER_GAMMA] != NULL)
            v.gradients[PARAMETER_GAMMA][c] = (float)channels[c].products;
    }
    return 0;
}

/* Every value also changes the mean and the std of its channel. */
static int batch_norm_backward_inputs(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct channel *const channels = reference_buffer(v.plan, v.state->kept);
    const double count = (double)channel_count(&v);
    for (size_t i = 0; i < v.in_count; i++) {
        const size_t c = channel_of(&v, i);
        const struct channel *const channel = &channels[c];
        const double shared = (channel->gradients + normalised(&v, channels, i) * channel->products) / count;
        target_put(v.targets[0], i, (float)(gamma_of(&v, c) * channel->scale * (v.out_gradient[i] - shared)));
    }
    return 0;
}

const struct layer_ops reference_batch_norm = {
    .use = batch_norm_use,
    .plan = batch_norm_plan,
    .forward = batch_norm_forward,
    .backward_parameters = batch_norm_backward_parameters,
    .backward_inputs = batch_norm_backward_inputs,
};

/* ---- softmax_loss, auxiliary_loss: forward computes the gradient, too ---- */

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

/* The target probability of class c: the shares of the mixed labels, smoothed (spec.label_smoothing). */
static double target_probability(double smoothing, uint32_t classes, const struct mixed_label *label, uint32_t c)
{
    const double own = c == (uint32_t)label->label ? (double)label->share : 0;
    const double other = c == (uint32_t)label->other ? 1 - (double)label->share : 0;
    return (1 - smoothing) * (own + other) + smoothing / classes;
}

/* How losses are computed: label smoothing, and class weights (NULL: all 1). */
struct loss_rule { double smoothing; const float *class_weights; };

static double class_weight(const struct loss_rule *rule, uint32_t c)
{
    return rule->class_weights != NULL ? (double)rule->class_weights[c] : 1;
}

/* The sum of target probability * class weight: 1 without class weights. */
static double target_total(const struct loss_rule *rule, uint32_t classes, const struct mixed_label *label)
{
    double total = 0;
    for (uint32_t c = 0; c < classes && rule->class_weights != NULL; c++)
        total += target_probability(rule->smoothing, classes, label, c) * class_weight(rule, c);
    return rule->class_weights != NULL ? total : 1;
}

/* (total * probability - target * class weight) * weight; 0 for samples without a label. */
static void loss_gradient(const struct layer *layer, const struct loss_rule *rule, const float *logits, double log_sum,
                          const struct mixed_label *label, float *gradient)
{
    const uint32_t classes = layer->in.channels;
    const float total = label->label < 0 ? 0 : (float)target_total(rule, classes, label);
    for (uint32_t c = 0; c < classes; c++) {
        const float probability = (float)exp((double)logits[c] - log_sum);
        const float target = (float)target_probability(rule->smoothing, classes, label, c);
        const float slope = total * probability - (float)class_weight(rule, c) * target;
        gradient[c] = label->label < 0 ? 0 : layer->loss_weight * slope;
    }
}

/* The sum of the logits times target probability * class weight. */
static double weighted_logit(const struct loss_rule *rule, const float *logits, uint32_t classes,
                             const struct mixed_label *label)
{
    double sum = 0;
    for (uint32_t c = 0; c < classes; c++)
        sum += target_probability(rule->smoothing, classes, label, c) * class_weight(rule, c) * (double)logits[c];
    return sum;
}

/* The mean of the logits, weighted by the target probabilities. */
static double mean_logit(double smoothing, const float *logits, uint32_t classes, const struct mixed_label *label)
{
    const double share = (double)label->share, own = logits[label->label];
    const double labels = share == 1 ? own : share * own + (1 - share) * logits[label->other];
    double sum = 0;
    if (smoothing == 0)
        return labels;
    for (uint32_t c = 0; c < classes; c++)
        sum += logits[c];
    return (1 - smoothing) * labels + smoothing * sum / classes;
}

static double sample_loss(const struct loss_rule *rule, const float *logits, uint32_t classes, double log_sum,
                          const struct mixed_label *label)
{
    if (rule->class_weights == NULL)
        return log_sum - mean_logit(rule->smoothing, logits, classes, label);
    return target_total(rule, classes, label) * log_sum - weighted_logit(rule, logits, classes, label);
}

static struct loss_rule loss_rule_of(struct plan *base)
{
    const struct plan_base *const plan = &reference_plan_of(base)->base;
    const struct backend_spec *const spec = &((const struct reference *)plan->backend)->spec;
    return plan->training ? (struct loss_rule){ (double)spec->label_smoothing, spec->class_weights }
                          : (struct loss_rule){ 0, NULL };
}

static void put_weight_sum(const struct reference_plan *plan)
{
    ((const struct reference *)plan->base.backend)->memory.gradients[0] = (float)plan->result.weight_sum;
}

/* Add the weighted losses to the result. Only the last layer counts correct answers. */
static int loss_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const struct mixed_label *const labels = ((const struct reference *)plan->base.backend)->labels;
    const struct view v = view_of(base, index);
    const uint32_t classes = v.layer->in.channels;
    const bool answers = v.layer->kind == LAYER_SOFTMAX_LOSS;
    const struct loss_rule rule = loss_rule_of(base);
    struct answer *const predicted = answers ? plan_data(base, plan->base.answers) : NULL;
    for (size_t n = 0; n < v.samples; n++) {
        const float *const logits = v.in + n * classes;
        const uint32_t best = first_largest(logits, classes);
        const double log_sum = log_sum_exp(logits, classes, logits[best]);
        if (v.targets[0].gradient != NULL)
            loss_gradient(v.layer, &rule, logits, log_sum, &labels[n], v.targets[0].gradient + n * classes);
        if (predicted != NULL)
            predicted[n] = (struct answer){ labels[n].label, best };
        if (labels[n].label < 0)
            continue;
        plan->result.counted += answers;
        plan->result.correct += answers && best == (uint32_t)mixing_answer(&labels[n]);
        if (answers && rule.class_weights != NULL)
            plan->result.weight_sum += (double)mixing_class_weight(&labels[n], rule.class_weights);
        const double loss = sample_loss(&rule, logits, classes, log_sum, &labels[n]);
        plan->result.loss_sum += (double)v.layer->loss_weight * loss;
        if (!isfinite(loss) && v.targets[0].gradient != NULL)
            v.targets[0].gradient[n * classes + (uint32_t)labels[n].label] = NAN;   /* so that it is not finite, like
                                                                                     * the loss */
    }
    if (answers && rule.class_weights != NULL)
        put_weight_sum(plan);
    return 0;
}

const struct layer_ops reference_loss = { .uses = { .gradient_early = true }, .forward = loss_forward };
