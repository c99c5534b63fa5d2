/* The layers of the reference backend that have no window: plain loops over N,C,H,W in fp32,
 * sums in double. Slow and obvious; what the other backends must match. */
#include <math.h>
#include <string.h>

#include "compute/reference/reference_plan.h"

/* ---- dense ---- */

static void dense_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)plan;
    (void)index;
    *use_out = (struct value_use){ .in_until = PHASE_PARAMETERS, .adds = true };
}

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
        v->slopes[PARAMETER_BIAS][channel] = (float)sum;
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
            v.slopes[PARAMETER_WEIGHT][unit * inputs + i] = (float)sum;
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
    .use = dense_use,
    .forward = dense_forward,
    .backward_parameters = dense_backward_parameters,
    .backward_inputs = dense_backward_inputs,
};

/* ---- relu ---- */

static void relu_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)plan;
    (void)index;
    *use_out = (struct value_use){
        .out_until = PHASE_INPUTS,
        .out_sign = true,
        .in_place = true,
        .keeps_sign = true,
        .gradient_in_place = true,
        .adds = true,
    };
}

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
    .use = relu_use,
    .forward = relu_forward,
    .backward_inputs = relu_backward,
};

/* ---- dropout: nothing outside training ---- */

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

/* Until backward, the mask: 1 kept, 0 dropped. */
static int dropout_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const struct layer *const layer = &plan->base.net->layers[index];
    const uint64_t seed = ((const struct reference *)plan->base.backend)->spec.seed;
    if (!plan->base.training)
        return 0;
    dropout_init(&plan->layers[index].dropout, seed, index, layer->rate);
    return reference_keep(plan, plan->base.count * shape_count(layer->out), 1, time_forward(index),
                          time_inputs(&plan->base.values, index), &plan->layers[index].kept);
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

static void add_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)plan;
    (void)index;
    *use_out = (struct value_use){ .in_place = true, .gradient_in_place = true, .adds = true };
}

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
    .use = add_use,
    .forward = add_forward,
    .backward_inputs = add_backward,
};

/* ---- pad_channels ---- */

static void pad_channels_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)plan;
    (void)index;
    *use_out = (struct value_use){ .adds = true };
}

/* The output value that input value i becomes, or SIZE_MAX when no stride meets it. */
static size_t padded_place(const struct layer *layer, size_t i)
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
        const size_t place = padded_place(v.layer, i);
        if (place != SIZE_MAX)
            v.out[place] = v.in[i];
    }
    return 0;
}

static int pad_channels_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.in_count; i++) {
        const size_t place = padded_place(v.layer, i);
        target_put(v.targets[0], i, place != SIZE_MAX ? v.out_gradient[place] : 0);
    }
    return 0;
}

const struct layer_ops reference_pad_channels = {
    .use = pad_channels_use,
    .forward = pad_channels_forward,
    .backward_inputs = pad_channels_backward,
};

/* ---- softmax_loss, auxiliary_loss: forward makes the gradient, too ---- */

static void loss_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)plan;
    (void)index;
    *use_out = (struct value_use){ .gradient_early = true };
}

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

/* What is wanted of class c: the shares of its labels, less what smoothing takes of them and gives to all alike. */
static double wanted_of(double smoothing, uint32_t classes, const struct mixed_label *label, uint32_t c)
{
    const double own = c == (uint32_t)label->label ? (double)label->share : 0;
    const double other = c == (uint32_t)label->other ? 1 - (double)label->share : 0;
    return (1 - smoothing) * (own + other) + smoothing / classes;
}

/* The probabilities less those wanted, times the weight; a sample without a label gives nothing. */
static void loss_gradient(const struct layer *layer, double smoothing, const float *logits, double log_sum,
                          const struct mixed_label *label, float *gradient)
{
    const uint32_t classes = layer->in.channels;
    for (uint32_t c = 0; c < classes; c++) {
        const float probability = (float)exp((double)logits[c] - log_sum);
        const float wanted = (float)wanted_of(smoothing, classes, label, c);
        gradient[c] = label->label < 0 ? 0 : layer->loss_weight * (probability - wanted);
    }
}

/* What the logits are on average over what is wanted; smoothed labels want all of them. */
static double wanted_logit(double smoothing, const float *logits, uint32_t classes, const struct mixed_label *label)
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

static double reference_smoothing(struct plan *base)
{
    const struct plan_base *const plan = &reference_plan_of(base)->base;
    return plan->training ? (double)((const struct reference *)plan->backend)->spec.label_smoothing : 0;
}

/* Adds the weighted losses to the result; the answers of the last layer count. */
static int loss_forward(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const struct mixed_label *const labels = ((const struct reference *)plan->base.backend)->labels;
    const struct view v = view_of(base, index);
    const uint32_t classes = v.layer->in.channels;
    const bool answers = v.layer->kind == LAYER_SOFTMAX_LOSS;
    const double smoothing = reference_smoothing(base);
    for (size_t n = 0; n < v.samples; n++) {
        const float *const logits = v.in + n * classes;
        const uint32_t best = first_largest(logits, classes);
        const double log_sum = log_sum_exp(logits, classes, logits[best]);
        if (v.targets[0].gradient != NULL)
            loss_gradient(v.layer, smoothing, logits, log_sum, &labels[n], v.targets[0].gradient + n * classes);
        if (labels[n].label < 0)
            continue;
        plan->result.counted += answers;
        plan->result.correct += answers && best == (uint32_t)mixing_answer(&labels[n]);
        const double loss = log_sum - wanted_logit(smoothing, logits, classes, &labels[n]);
        plan->result.loss_sum += (double)v.layer->loss_weight * loss;
        if (!isfinite(loss) && v.targets[0].gradient != NULL)
            v.targets[0].gradient[n * classes + (uint32_t)labels[n].label] = NAN;   /* as the loss is */
    }
    return 0;
}

const struct layer_ops reference_loss = { .use = loss_use, .forward = loss_forward };
const struct layer_ops reference_auxiliary_loss = { .use = loss_use, .forward = loss_forward };
