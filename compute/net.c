/* Network descriptions: shape rules, parameters, folding, totals. Called while a run
 * is being set up, from one thread. Layers and parameters live in two arrays of fixed
 * size, so that indices and pointers into them stay valid while a model is built. */
#include "compute/net.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keep the first message; later ones are consequences. */
static int refuse(struct net *net, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(struct net *net, const char *name, const char *format, ...)
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

static bool shape_fits(struct shape shape)
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
    if (!shape_fits(input))
        refuse(net, "input", "impossible shape %ux%ux%u", input.channels, input.height, input.width);
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
    return NULL;
}

/* The place of the next layer, filled with what all kinds have, or NULL. The layer
 * is part of the net only after layer_append. */
static struct layer *layer_begin(struct net *net, enum layer_kind kind, const char *name, uint32_t from)
{
    const char *problem = append_problem(net, name, from);
    if (problem != NULL)
        refuse(net, name, "%s", problem);
    if (net->error[0] != '\0')
        return NULL;
    struct layer *layer = &net->layers[net->layer_count];
    *layer = (struct layer){ .kind = kind, .input = from, .weight = NET_NO_PARAMETER, .bias = NET_NO_PARAMETER,
                             .folded_into = NET_NO_LAYER };
    snprintf(layer->name, sizeof(layer->name), "%s", name);
    layer->in = from == NET_INPUT ? net->input : net->layers[from].out;
    layer->out = layer->in;
    return layer;
}

static int64_t layer_append(struct net *net, struct layer *layer)
{
    if (!shape_fits(layer->out))
        return refuse(net, layer->name, "output %ux%ux%u is too large", layer->out.channels, layer->out.height,
                      layer->out.width);
    return net->layer_count++;
}

static uint32_t parameter_append(struct net *net, const struct layer *layer, const char *what,
                                 const struct parameter *made)
{
    struct parameter *parameter = &net->parameters[net->parameter_count];
    *parameter = *made;
    snprintf(parameter->name, sizeof(parameter->name), "%s.%s", layer->name, what);
    parameter->layer = (uint32_t)(layer - net->layers);
    parameter->count = 1;
    for (uint32_t i = 0; i < parameter->rank; i++)
        parameter->count *= parameter->dims[i];
    return net->parameter_count++;
}

/* Weights of `fan_in` numbers per output channel, and a bias per output channel. */
static int parameters_append(struct net *net, struct layer *layer, const struct parameter *weight)
{
    const uint32_t outputs = weight->dims[0];
    if (outputs == 0 || weight->fan_in > NET_COUNT_MAX / outputs)
        return refuse(net, layer->name, "%u outputs of %llu weights each do not fit", outputs,
                      (unsigned long long)weight->fan_in);
    const struct parameter bias = { .rank = 1, .dims = { outputs }, .init = INIT_ZERO };
    layer->weight = parameter_append(net, layer, "weight", weight);
    layer->bias = parameter_append(net, layer, "bias", &bias);
    return 0;
}

/* One axis of a sliding window (models spec 1.1). */
struct axis { uint32_t out, before, after; };

static bool axis_find(uint32_t n, uint32_t kernel, uint32_t stride, enum padding padding, struct axis *axis_out)
{
    if (kernel == 0 || stride == 0 || kernel > NET_COUNT_MAX)
        return false;
    if (padding == PADDING_VALID) {
        if (kernel > n)
            return false;
        *axis_out = (struct axis){ .out = (n - kernel) / stride + 1 };
        return true;
    }
    const uint32_t out = (n - 1) / stride + 1;
    const uint64_t reach = (uint64_t)(out - 1) * stride + kernel;
    const uint32_t total = reach > n ? (uint32_t)(reach - n) : 0;
    *axis_out = (struct axis){ .out = out, .before = total / 2, .after = total - total / 2 };
    return true;
}

static int window_init(struct net *net, struct layer *layer, uint32_t kernel, uint32_t stride, enum padding padding)
{
    struct axis vertical, horizontal;
    if (!axis_find(layer->in.height, kernel, stride, padding, &vertical) ||
        !axis_find(layer->in.width, kernel, stride, padding, &horizontal))
        return refuse(net, layer->name, "a %ux%u window with stride %u does not fit on %ux%u", kernel, kernel,
                      stride, layer->in.height, layer->in.width);
    layer->kernel_h = layer->kernel_w = kernel;
    layer->stride_h = layer->stride_w = stride;
    layer->pad_top = vertical.before;
    layer->pad_bottom = vertical.after;
    layer->pad_left = horizontal.before;
    layer->pad_right = horizontal.after;
    layer->out.height = vertical.out;
    layer->out.width = horizontal.out;
    return 0;
}

int64_t net_conv2d(struct net *net, const char *name, uint32_t from, uint32_t filters, uint32_t kernel,
                   uint32_t stride, enum padding padding)
{
    struct layer *layer = layer_begin(net, LAYER_CONV2D, name, from);
    if (layer == NULL || window_init(net, layer, kernel, stride, padding) < 0)
        return -EINVAL;
    const uint64_t taps = (uint64_t)kernel * kernel;
    if (taps > NET_COUNT_MAX)
        return refuse(net, name, "a %ux%u window is too large", kernel, kernel);
    const struct parameter weight = {
        .rank = 4, .dims = { filters, layer->in.channels, kernel, kernel }, .init = INIT_GLOROT_UNIFORM,
        .fan_in = taps * layer->in.channels, .fan_out = taps * filters,
    };
    if (parameters_append(net, layer, &weight) < 0)
        return -EINVAL;
    layer->out.channels = filters;
    layer->macs = weight.fan_in * filters * layer->out.height * layer->out.width;
    return layer_append(net, layer);
}

int64_t net_dense(struct net *net, const char *name, uint32_t from, uint32_t units)
{
    struct layer *layer = layer_begin(net, LAYER_DENSE, name, from);
    if (layer == NULL)
        return -EINVAL;
    const uint32_t inputs = (uint32_t)shape_count(layer->in);
    const struct parameter weight = {
        .rank = 2, .dims = { units, inputs }, .init = INIT_GLOROT_UNIFORM, .fan_in = inputs, .fan_out = units,
    };
    if (parameters_append(net, layer, &weight) < 0)
        return -EINVAL;
    layer->out = (struct shape){ units, 1, 1 };
    layer->macs = weight.fan_in * units;
    return layer_append(net, layer);
}

int64_t net_relu(struct net *net, const char *name, uint32_t from)
{
    struct layer *layer = layer_begin(net, LAYER_RELU, name, from);
    return layer != NULL ? layer_append(net, layer) : -EINVAL;
}

int64_t net_max_pool(struct net *net, const char *name, uint32_t from, uint32_t window, uint32_t stride,
                     enum padding padding)
{
    struct layer *layer = layer_begin(net, LAYER_MAX_POOL, name, from);
    if (layer == NULL || window_init(net, layer, window, stride, padding) < 0)
        return -EINVAL;
    return layer_append(net, layer);
}

int64_t net_dropout(struct net *net, const char *name, uint32_t from, float rate)
{
    struct layer *layer = layer_begin(net, LAYER_DROPOUT, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (!(rate >= 0.0f && rate < 1.0f))
        return refuse(net, name, "dropout rate %g is not in [0, 1)", (double)rate);
    layer->rate = rate;
    return layer_append(net, layer);
}

int64_t net_softmax_loss(struct net *net, const char *name, uint32_t from)
{
    struct layer *layer = layer_begin(net, LAYER_SOFTMAX_LOSS, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (layer->in.channels != net->classes || layer->in.height != 1 || layer->in.width != 1)
        return refuse(net, name, "reads %ux%ux%u values for %u classes", layer->in.channels, layer->in.height,
                      layer->in.width, net->classes);
    return layer_append(net, layer);
}

static void fold_relus(struct net *net, const uint32_t *readers)
{
    for (uint32_t i = 0; i < net->layer_count; i++) {
        struct layer *relu = &net->layers[i];
        if (relu->kind != LAYER_RELU || relu->input == NET_INPUT || readers[relu->input] != 1)
            continue;
        struct layer *source = &net->layers[relu->input];
        if (source->kind == LAYER_CONV2D || source->kind == LAYER_DENSE) {
            source->relu = true;
            relu->folded_into = relu->input;
        }
    }
}

int net_finish(struct net *net)
{
    uint32_t readers[NET_LAYERS_MAX] = { 0 };
    if (net->error[0] == '\0' &&
        (net->layer_count == 0 || net->layers[net->layer_count - 1].kind != LAYER_SOFTMAX_LOSS))
        refuse(net, net->model, "the net does not end in a loss");
    if (net->parameter_count == 0)
        refuse(net, net->model, "the net has no parameters");
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].input != NET_INPUT)
            readers[net->layers[i].input]++;
    for (uint32_t i = 0; i + 1 < net->layer_count; i++)
        if (readers[i] == 0)
            refuse(net, net->layers[i].name, "nothing reads its output");
    if (net->error[0] != '\0')
        return -EINVAL;
    fold_relus(net, readers);
    net->trainable_count = 0;
    net->macs = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        net->trainable_count += net->parameters[i].count;
    for (uint32_t i = 0; i < net->layer_count; i++)
        net->macs += net->layers[i].macs;
    return 0;
}

bool net_is_chain(const struct net *net)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (net->layers[i].input != (i == 0 ? NET_INPUT : i - 1))
            return false;
    return true;
}
