/* Network descriptions: opening, the transform of the input, the checks of the whole. Called
 * while a run is being set up, from one thread. Layers and parameters live in two arrays of
 * fixed size, so that indices and pointers into them stay valid while a model is built. */
#include "compute/net.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/net_build.h"

static const char *const kind_names[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = "conv2d",
    [LAYER_DENSE] = "dense",
    [LAYER_BATCH_NORM] = "batch_norm",
    [LAYER_RELU] = "relu",
    [LAYER_MAX_POOL] = "max_pool",
    [LAYER_AVERAGE_POOL] = "average_pool",
    [LAYER_DROPOUT] = "dropout",
    [LAYER_LOCAL_RESPONSE_NORM] = "local_response_norm",
    [LAYER_ADD] = "add",
    [LAYER_CONCAT] = "concat",
    [LAYER_PAD_CHANNELS] = "pad_channels",
    [LAYER_AUXILIARY_LOSS] = "auxiliary_loss",
    [LAYER_SOFTMAX_LOSS] = "softmax_loss",
};

const char *layer_kind_name(enum layer_kind kind)
{
    return kind_names[kind];
}

int net_refuse(struct net *net, const char *name, const char *format, ...)
{
    if (net->error[0] != '\0')
        return -EINVAL;
    const int used = snprintf(net->error, sizeof(net->error), "layer '%.47s': ", name);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(net->error + used, sizeof(net->error) - (size_t)used, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

bool shape_fits(struct shape shape)
{
    const uint64_t area = (uint64_t)shape.height * shape.width;
    return area > 0 && shape.channels > 0 && area <= NET_COUNT_MAX / shape.channels;
}

int net_open(struct net **net_out, const char *model, struct shape input, uint32_t classes)
{
    struct net *net = calloc(1, sizeof(*net));
    if (net == NULL)
        return -ENOMEM;
    net->layers = calloc(NET_LAYERS_MAX, sizeof(*net->layers));
    net->parameters = calloc(NET_PARAMETERS_MAX, sizeof(*net->parameters));
    if (net->layers == NULL || net->parameters == NULL) {
        net_close(net);
        return -ENOMEM;
    }
    snprintf(net->model, sizeof(net->model), "%s", model);
    net->input = input;
    net->classes = classes;
    net_transform(net, 255.0f, NULL, NULL);
    if (!shape_fits(input))
        net_refuse(net, "input", "impossible shape %ux%ux%u", input.channels, input.height, input.width);
    *net_out = net;
    return 0;
}

void net_close(struct net *net)
{
    if (net == NULL)
        return;
    free(net->layers);
    free(net->parameters);
    free(net);
}

const char *net_error(const struct net *net)
{
    return net->error;
}

int net_transform(struct net *net, float divisor, const float *mean, const float *std)
{
    struct input_transform transform = { .divisor = divisor, .is_plain = mean == NULL && std == NULL };
    if (!transform.is_plain && net->input.channels > NET_CHANNELS_MAX)
        return net_refuse(net, "input", "%u channels are too many for a mean and deviation each", net->input.channels);
    bool is_finite = isnormal(divisor);
    for (uint32_t c = 0; c < NET_CHANNELS_MAX; c++) {
        const bool is_given = c < net->input.channels;
        transform.mean[c] = mean != NULL && is_given ? mean[c] : 0.0f;
        transform.std[c] = std != NULL && is_given ? std[c] : 1.0f;
        is_finite = is_finite && isfinite(transform.mean[c]) && isnormal(transform.std[c]);
    }
    if (!is_finite)
        return net_refuse(net, "input", "its transform divides by 0 or is not finite");
    net->transform = transform;
    return 0;
}

int net_use_transform(struct net *net, const struct input_transform *transform)
{
    return net_transform(net, transform->divisor, transform->is_plain ? NULL : transform->mean,
                         transform->is_plain ? NULL : transform->std);
}

static void check_readers(struct net *net)
{
    uint32_t readers[NET_LAYERS_MAX] = { 0 };
    for (uint32_t i = 0; i < net->layer_count; i++)
        for (uint32_t k = 0; k < net->layers[i].input_count; k++)
            if (net->layers[i].inputs[k] != NET_INPUT)
                readers[net->layers[i].inputs[k]]++;
    for (uint32_t i = 0; i + 1 < net->layer_count; i++)
        if (readers[i] == 0 && net->layers[i].kind != LAYER_AUXILIARY_LOSS)
            net_refuse(net, net->layers[i].name, "nothing reads its output");
}

static void add_totals(struct net *net)
{
    net->trainable_count = 0;
    net->statistic_count = 0;
    net->macs = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        *(parameter->is_trained ? &net->trainable_count : &net->statistic_count) += parameter->count;
    }
    for (uint32_t i = 0; i < net->layer_count; i++)
        net->macs += net->layers[i].macs;
}

static bool is_all_frozen(const struct net *net, const struct layer *layer)
{
    for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++)
        if (layer_has(layer, kind) && parameter_is_updated(&net->parameters[layer->parameters[kind]]))
            return false;
    return true;
}

void net_freeze(struct net *net, uint32_t index)
{
    struct parameter *const parameter = &net->parameters[index];
    struct layer *const layer = &net->layers[parameter->layer];
    if (!parameter_is_updated(parameter))
        return;
    parameter->is_frozen = true;
    net->frozen_count += parameter->count;
    layer->is_frozen = is_all_frozen(net, layer);
}

int net_finish(struct net *net)
{
    if (net->layer_count == 0 || net->layers[net->layer_count - 1].kind != LAYER_SOFTMAX_LOSS)
        net_refuse(net, net->model, "the net does not end in a loss");
    if (net->parameter_count == 0)
        net_refuse(net, net->model, "the net has no parameters");
    check_readers(net);
    if (net->error[0] != '\0')
        return -EINVAL;
    add_totals(net);
    return 0;
}

size_t net_most_numbers(const struct net *net)
{
    size_t most = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        most = net->parameters[i].count > most ? net->parameters[i].count : most;
    return most;
}
