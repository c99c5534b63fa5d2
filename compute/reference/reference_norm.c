/* Batch normalisation of the reference backend: plain loops over N,C,H,W in fp32, sums in
 * double (Ioffe, Szegedy 2015; doc/models.md). Samples without a label count here: they are
 * part of the batch. */
#include <math.h>

#include "compute/reference/reference_plan.h"

/* Of one channel, from forward until backward. */
struct channel {
    double mean, variance;
    double scale;               /* normalised = (value - mean) * scale */
    double gradients, products; /* sums over the gradients of the result, and of these times normalised values */
};

static void batch_norm_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    const bool training = ((const struct plan_base *)plan)->training;
    (void)index;
    *use_out = (struct value_use){
        .in_until = PHASE_INPUTS,
        .in_place = !training,
        .gradient_in_place = true,
        .adds = true,
    };
}

static int batch_norm_plan(struct plan *base, uint32_t index)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const uint32_t forward = time_forward(index);
    const uint32_t last = plan->base.training ? time_inputs(&plan->base.values, index) : forward;
    return reference_keep(plan, plan->base.net->layers[index].out.channels, sizeof(struct channel), forward, last,
                          &plan->layers[index].kept);
}

/* The channel of value i. */
static size_t channel_of(const struct view *v, size_t i)
{
    return i / shape_area(v->layer->in) % v->layer->in.channels;
}

/* Values of one channel in the whole batch. */
static size_t channel_count(const struct view *v)
{
    return v->samples * shape_area(v->layer->in);
}

static double normalised(const struct view *v, const struct channel *channels, size_t i)
{
    const struct channel *const channel = &channels[channel_of(v, i)];
    return (v->in[i] - channel->mean) * channel->scale;
}

/* ---- forward ---- */

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

/* The running variance estimates that of all data: n / (n - 1) of the batch's own, which is 0 when
 * there is one value. */
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

/* ---- backward ---- */

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
        v.slopes[PARAMETER_BETA][c] = (float)channels[c].gradients;
        if (v.slopes[PARAMETER_GAMMA] != NULL)
            v.slopes[PARAMETER_GAMMA][c] = (float)channels[c].products;
    }
    return 0;
}

/* Every value moves the mean and the std of its channel, too. */
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
