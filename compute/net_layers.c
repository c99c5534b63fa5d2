/* The kinds of layers: what each makes of its input's shape, and its parameters. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compute/net_build.h"

/* ---- every kind ---- */

static bool name_taken(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (strcmp(net->layers[i].name, name) == 0)
            return true;
    return false;
}

static const char *append_problem(const struct net *net, const char *name, uint32_t from)
{
    if (net->layer_count == NET_LAYERS_MAX)
        return "too many layers";
    if (name[0] == '\0' || strlen(name) >= sizeof(net->layers->name))
        return "the name is empty or too long";
    if (name_taken(net, name))
        return "another layer has this name";
    if (from != NET_INPUT && from >= net->layer_count)
        return "reads a layer that does not exist";
    if (net->layer_count > 0 && net->layers[net->layer_count - 1].kind == LAYER_SOFTMAX_LOSS)
        return "comes behind the loss";
    if (from != NET_INPUT && net->layers[from].kind == LAYER_AUXILIARY_LOSS)
        return "reads a loss";
    return NULL;
}

static struct shape shape_of(const struct net *net, uint32_t from)
{
    return from == NET_INPUT ? net->input : net->layers[from].out;
}

/* The place of the next layer, filled with what all kinds have, or NULL. The layer
 * is part of the net only after layer_append. */
static struct layer *layer_begin(struct net *net, enum layer_kind kind, const char *name, uint32_t from)
{
    const char *const problem = append_problem(net, name, from);
    if (problem != NULL)
        net_refuse(net, name, "%s", problem);
    if (net->error[0] != '\0')
        return NULL;
    struct layer *const layer = &net->layers[net->layer_count];
    *layer = (struct layer){ .kind = kind, .input_count = 1, .inputs = { from } };
    for (uint32_t p = 0; p < PARAMETER_KIND_COUNT; p++)
        layer->parameters[p] = NET_NO_PARAMETER;
    snprintf(layer->name, sizeof(layer->name), "%s", name);
    layer->in = shape_of(net, from);
    layer->out = layer->in;
    return layer;
}

static int64_t layer_append(struct net *net, struct layer *layer)
{
    if (!shape_fits(layer->out))
        return net_refuse(net, layer->name, "output %ux%ux%u is too large", layer->out.channels, layer->out.height,
                          layer->out.width);
    return net->layer_count++;
}

/* ---- parameters ---- */

/* What all parameters of a kind have in common. */
struct parameter_trait {
    const char *name;           /* behind the layer's, as PyTorch has it */
    bool is_trained, decays;
    struct initializer initializer;
};

static const struct parameter_trait parameter_traits[PARAMETER_KIND_COUNT] = {
    [PARAMETER_WEIGHT] = { "weight", true, true, { INITIALIZER_GLOROT_UNIFORM, 0 } },
    [PARAMETER_BIAS] = { "bias", true, true, { INITIALIZER_CONSTANT, 0 } },
    [PARAMETER_GAMMA] = { "weight", true, false, { INITIALIZER_CONSTANT, 1 } },
    [PARAMETER_BETA] = { "bias", true, false, { INITIALIZER_CONSTANT, 0 } },
    [PARAMETER_RUNNING_MEAN] = { "running_mean", false, false, { INITIALIZER_CONSTANT, 0 } },
    [PARAMETER_RUNNING_VARIANCE] = { "running_var", false, false, { INITIALIZER_CONSTANT, 1 } },
};

static void parameter_append(struct net *net, struct layer *layer, enum parameter_kind kind,
                             const struct parameter *shape)
{
    const struct parameter_trait *const trait = &parameter_traits[kind];
    struct parameter *const parameter = &net->parameters[net->parameter_count];
    *parameter = *shape;
    snprintf(parameter->name, sizeof(parameter->name), "%s.%s", layer->name, trait->name);
    parameter->kind = kind;
    parameter->layer = (uint32_t)(layer - net->layers);
    parameter->is_trained = trait->is_trained;
    parameter->decays = trait->decays;
    parameter->initializer = trait->initializer;
    parameter->count = 1;
    for (uint32_t i = 0; i < parameter->rank; i++)
        parameter->count *= parameter->dims[i];
    layer->parameters[kind] = net->parameter_count++;
}

static void append_per_channel(struct net *net, struct layer *layer, enum parameter_kind kind)
{
    const struct parameter shape = { .rank = 1, .dims = { layer->out.channels } };
    parameter_append(net, layer, kind, &shape);
}

/* Weights of `fan_in` numbers per output channel, and a bias per output channel. */
static int append_weights(struct net *net, struct layer *layer, const struct parameter *weight, bool with_bias)
{
    const uint32_t outputs = weight->dims[0];
    if (outputs == 0 || weight->fan_in > NET_COUNT_MAX / outputs)
        return net_refuse(net, layer->name, "%u outputs of %llu weights each do not fit (1 to %llu would)", outputs,
                          (unsigned long long)weight->fan_in, (unsigned long long)(NET_COUNT_MAX / weight->fan_in));
    layer->out.channels = outputs;
    parameter_append(net, layer, PARAMETER_WEIGHT, weight);
    if (with_bias)
        append_per_channel(net, layer, PARAMETER_BIAS);
    return 0;
}

struct initializer initializer_variance_scaling(uint64_t fan_in)
{
    /* The std of a standard normal without what is beyond 2. */
    const double truncated = 0.87962566103423978;
    return (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, (float)(sqrt(1.0 / (double)fan_in) / truncated) };
}

struct initializer initializer_he_normal(uint64_t fan_out)
{
    return (struct initializer){ INITIALIZER_NORMAL, (float)sqrt(2.0 / (double)fan_out) };
}

struct initializer initializer_usual(enum parameter_kind kind)
{
    return parameter_traits[kind].initializer;
}

int net_initialize(struct net *net, int64_t layer, enum parameter_kind kind, struct initializer initializer)
{
    if (net->error[0] != '\0' || layer < 0)
        return -EINVAL;
    if (layer >= net->layer_count || !layer_has(&net->layers[layer], kind))
        return net_refuse(net, net->model, "layer %lld has no %s to initialise", (long long)layer,
                          parameter_traits[kind].name);
    net->parameters[net->layers[layer].parameters[kind]].initializer = initializer;
    return 0;
}

/* ---- the kinds ---- */

int64_t net_conv2d(struct net *net, const char *name, uint32_t from, uint32_t filters, struct window window,
                   bool with_bias)
{
    struct layer *const layer = layer_begin(net, LAYER_CONV2D, name, from);
    if (layer == NULL || layer_set_window(net, layer, window) != 0)
        return -EINVAL;
    const uint64_t taps = (uint64_t)window.kernel_h * window.kernel_w;
    if (taps > NET_COUNT_MAX)
        return net_refuse(net, name, "a %ux%u window is too large", window.kernel_h, window.kernel_w);
    const struct parameter weight = {
        .rank = 4,
        .dims = { filters, layer->in.channels, window.kernel_h, window.kernel_w },
        .fan_in = taps * layer->in.channels,
        .fan_out = taps * filters,
    };
    if (append_weights(net, layer, &weight, with_bias) != 0)
        return -EINVAL;
    layer->macs = weight.fan_in * filters * layer->out.height * layer->out.width;
    return layer_append(net, layer);
}

int64_t net_dense(struct net *net, const char *name, uint32_t from, uint32_t units, bool with_bias)
{
    struct layer *const layer = layer_begin(net, LAYER_DENSE, name, from);
    if (layer == NULL)
        return -EINVAL;
    const uint32_t inputs = (uint32_t)shape_count(layer->in);
    const struct parameter weight = { .rank = 2, .dims = { units, inputs }, .fan_in = inputs, .fan_out = units };
    layer->out = (struct shape){ units, 1, 1 };
    if (append_weights(net, layer, &weight, with_bias) != 0)
        return -EINVAL;
    layer->macs = weight.fan_in * units;
    return layer_append(net, layer);
}

int64_t net_batch_norm(struct net *net, const char *name, uint32_t from, struct batch_norm how)
{
    struct layer *const layer = layer_begin(net, LAYER_BATCH_NORM, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (!(how.decay >= 0 && how.decay <= 1) || !(how.epsilon > 0.0f))
        return net_refuse(net, name, "decay %g is not in [0, 1], or epsilon %g is not above 0", how.decay,
                          (double)how.epsilon);
    layer->decay = how.decay;
    layer->epsilon = how.epsilon;
    if (how.with_gamma)
        append_per_channel(net, layer, PARAMETER_GAMMA);
    append_per_channel(net, layer, PARAMETER_BETA);
    append_per_channel(net, layer, PARAMETER_RUNNING_MEAN);
    append_per_channel(net, layer, PARAMETER_RUNNING_VARIANCE);
    return layer_append(net, layer);
}

int64_t net_relu(struct net *net, const char *name, uint32_t from)
{
    struct layer *const layer = layer_begin(net, LAYER_RELU, name, from);
    return layer != NULL ? layer_append(net, layer) : -EINVAL;
}

static int64_t append_pool(struct net *net, enum layer_kind kind, const char *name, uint32_t from,
                           struct window window)
{
    struct layer *const layer = layer_begin(net, kind, name, from);
    if (layer == NULL || layer_set_window(net, layer, window) != 0)
        return -EINVAL;
    return layer_append(net, layer);
}

int64_t net_max_pool(struct net *net, const char *name, uint32_t from, struct window window)
{
    return append_pool(net, LAYER_MAX_POOL, name, from, window);
}

int64_t net_average_pool(struct net *net, const char *name, uint32_t from, struct window window)
{
    return append_pool(net, LAYER_AVERAGE_POOL, name, from, window);
}

int64_t net_global_average(struct net *net, const char *name, uint32_t from)
{
    if (from != NET_INPUT && from >= net->layer_count)
        return net_refuse(net, name, "reads a layer that does not exist");
    const struct shape in = shape_of(net, from);
    const struct window whole = { .kernel_h = in.height, .kernel_w = in.width, .stride_h = 1, .stride_w = 1 };
    return net_average_pool(net, name, from, whole);
}

int64_t net_dropout(struct net *net, const char *name, uint32_t from, float rate)
{
    struct layer *const layer = layer_begin(net, LAYER_DROPOUT, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (!(rate >= 0.0f && rate < 1.0f))
        return net_refuse(net, name, "dropout rate %g is not in [0, 1)", (double)rate);
    layer->rate = rate;
    return layer_append(net, layer);
}

int64_t net_local_response_norm(struct net *net, const char *name, uint32_t from, struct local_response_norm how)
{
    struct layer *const layer = layer_begin(net, LAYER_LOCAL_RESPONSE_NORM, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (how.size % 2 == 0 || !(how.alpha >= 0.0f && isfinite(how.alpha)) || !(how.beta >= 0.0f && isfinite(how.beta)) ||
        !(how.k > 0.0f && isfinite(how.k)))
        return net_refuse(net, name, "size %u is not odd, or alpha %g, beta %g or k %g is out of range", how.size,
                          (double)how.alpha, (double)how.beta, (double)how.k);
    layer->response = how;
    return layer_append(net, layer);
}

/* A further input of the layer, whose first is there: its shape, or NULL. */
static const struct shape *add_input(struct net *net, struct layer *layer, uint32_t from)
{
    const char *const problem = append_problem(net, layer->name, from);
    if (problem != NULL) {
        net_refuse(net, layer->name, "%s", problem);
        return NULL;
    }
    layer->inputs[layer->input_count++] = from;
    return from == NET_INPUT ? &net->input : &net->layers[from].out;
}

int64_t net_add(struct net *net, const char *name, uint32_t left, uint32_t right)
{
    struct layer *const layer = layer_begin(net, LAYER_ADD, name, left);
    if (layer == NULL)
        return -EINVAL;
    const struct shape *const b = add_input(net, layer, right), a = layer->in;
    if (b == NULL)
        return -EINVAL;
    if (a.channels != b->channels || a.height != b->height || a.width != b->width)
        return net_refuse(net, name, "adds %ux%ux%u values to %ux%ux%u", b->channels, b->height, b->width, a.channels,
                          a.height, a.width);
    return layer_append(net, layer);
}

int64_t net_concat(struct net *net, const char *name, const uint32_t *from, uint32_t count)
{
    if (count == 0 || count > LAYER_INPUTS_MAX)
        return net_refuse(net, name, "has %u inputs, not 1 to %u", count, LAYER_INPUTS_MAX);
    struct layer *const layer = layer_begin(net, LAYER_CONCAT, name, from[0]);
    if (layer == NULL)
        return -EINVAL;
    uint64_t channels = layer->in.channels;
    for (uint32_t k = 1; k < count; k++) {
        const struct shape *const next = add_input(net, layer, from[k]);
        if (next == NULL)
            return -EINVAL;
        if (next->height != layer->in.height || next->width != layer->in.width)
            return net_refuse(net, name, "puts %ux%u pixels behind %ux%u", next->height, next->width,
                              layer->in.height, layer->in.width);
        channels += next->channels;
    }
    if (channels > NET_COUNT_MAX)
        return net_refuse(net, name, "%llu channels are too many", (unsigned long long)channels);
    layer->out.channels = (uint32_t)channels;
    return layer_append(net, layer);
}

int64_t net_pad_channels(struct net *net, const char *name, uint32_t from, uint32_t channels, uint32_t stride)
{
    struct layer *const layer = layer_begin(net, LAYER_PAD_CHANNELS, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (channels < layer->in.channels || stride == 0)
        return net_refuse(net, name, "cannot make %u channels of %u at stride %u", channels, layer->in.channels,
                          stride);
    layer->channels_before = (channels - layer->in.channels) / 2;
    layer->stride_h = layer->stride_w = stride;
    layer->out.channels = channels;
    layer->out.height = (layer->in.height - 1) / stride + 1;
    layer->out.width = (layer->in.width - 1) / stride + 1;
    return layer_append(net, layer);
}

static int64_t append_loss(struct net *net, enum layer_kind kind, const char *name, uint32_t from, float weight)
{
    struct layer *const layer = layer_begin(net, kind, name, from);
    if (layer == NULL)
        return -EINVAL;
    layer->loss_weight = weight;
    if (layer->in.channels != net->classes || layer->in.height != 1 || layer->in.width != 1)
        return net_refuse(net, name, "reads %ux%ux%u values for %u classes", layer->in.channels, layer->in.height,
                          layer->in.width, net->classes);
    return layer_append(net, layer);
}

int64_t net_auxiliary_loss(struct net *net, const char *name, uint32_t from, float weight)
{
    if (!(weight > 0.0f && isfinite(weight)))
        return net_refuse(net, name, "weight %g is not above 0", (double)weight);
    return append_loss(net, LAYER_AUXILIARY_LOSS, name, from, weight);
}

int64_t net_softmax_loss(struct net *net, const char *name, uint32_t from)
{
    return append_loss(net, LAYER_SOFTMAX_LOSS, name, from, 1.0f);
}
