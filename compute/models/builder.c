/* Functions with which models are written: net_* calls that add the prefix of names and the initialisers of the
 * style. */
#include "compute/models/builder.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- styles ---- */

static struct initializer glorot(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_in, (void)fan_out;
    return (struct initializer){ INITIALIZER_GLOROT_UNIFORM, 0 };
}

static struct initializer variance_scaling(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_out;
    return initializer_variance_scaling(fan_in);
}

static struct initializer truncated_before_relu(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_out;
    return (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, sqrtf(2.0f / (float)fan_in) };
}

static struct initializer truncated_linear(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_out;
    return (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, sqrtf(1.0f / (float)fan_in) };
}

struct initializer he_normal_fan_out(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_in;
    return initializer_he_normal(fan_out);
}

struct initializer he_normal_fan_in(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_out;
    return initializer_he_normal(fan_in);
}

struct initializer normal_001(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_in, (void)fan_out;
    return (struct initializer){ INITIALIZER_NORMAL, 0.01f };
}

struct initializer he_uniform(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_out;
    return (struct initializer){ INITIALIZER_UNIFORM, sqrtf(6.0f / (float)fan_in) };
}

struct initializer pytorch_uniform(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_out;
    return (struct initializer){ INITIALIZER_UNIFORM, 1.0f / sqrtf((float)fan_in) };
}

const float torchvision_mean[] = { 0.485f, 0.456f, 0.406f }, torchvision_std[] = { 0.229f, 0.224f, 0.225f };

static const float ones[] = { 1, 1, 1 };

const struct style style_benchmarks = {
    .divisor = 127.5f, .mean = ones,
    .conv = variance_scaling, .hidden = truncated_before_relu, .classes = truncated_linear,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};

const struct batch_norm norm_without_gamma = { .decay = 0.999, .epsilon = 1e-3f, .with_gamma = false };

const struct style style_keras = {
    .divisor = 255,
    .conv = glorot, .hidden = glorot, .classes = glorot,
    .norm = { .decay = 0.99, .epsilon = 1e-3f, .with_gamma = true },
};

/* ---- drafts ---- */

struct builder builder_of(struct net *net, const struct model_options *options, const struct style *style)
{
    net_transform(net, style->divisor, style->mean, style->std);
    return (struct builder){ .net = net, .options = options, .style = style };
}

struct builder builder_within(const struct builder *builder, const char *format, ...)
{
    struct builder inner = *builder;
    const size_t used = strlen(inner.prefix);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(inner.prefix + used, sizeof(inner.prefix) - used, format, arguments);
    va_end(arguments);
    return inner;
}

struct builder *sequential_next(struct sequential *sequential)
{
    sequential->next = builder_within(&sequential->builder, "%u", sequential->count++);
    return &sequential->next;
}

/* A name that is too long is truncated, but is then still too long for the net, which reports it. */
static const char *numbered(struct builder *builder, const char *name, const char *number)
{
    snprintf(builder->name, sizeof(builder->name), "%s%s%s", builder->prefix, name, number);
    return builder->name;
}

static const char *named(struct builder *builder, const char *name)
{
    return numbered(builder, name, "");
}

static bool has_failed(const struct builder *builder)
{
    return net_error(builder->net)[0] != '\0';
}

uint32_t builder_channels(const struct builder *builder, uint32_t from)
{
    if (has_failed(builder))
        return 0;
    return from == NET_INPUT ? builder->net->input.channels : builder->net->layers[from].out.channels;
}

/* ---- one layer ---- */

static uint32_t weights_begin(struct builder *builder, int64_t layer,
                              struct initializer (*rule)(uint64_t fan_in, uint64_t fan_out))
{
    if (has_failed(builder))
        return (uint32_t)layer;
    struct net *const net = builder->net;
    const struct parameter *const weight = &net->parameters[net->layers[layer].parameters[PARAMETER_WEIGHT]];
    net_initialize(net, layer, PARAMETER_WEIGHT, rule(weight->fan_in, weight->fan_out));
    if (builder->style->biases != NULL && layer_has(&net->layers[layer], PARAMETER_BIAS))
        net_initialize(net, layer, PARAMETER_BIAS, builder->style->biases(weight->fan_in, weight->fan_out));
    return (uint32_t)layer;
}

/* Appends a convolution; `name` is its full name. */
static uint32_t conv(struct builder *builder, const char *name, uint32_t from, uint32_t filters, struct window window,
                     bool with_bias)
{
    return weights_begin(builder, net_conv2d(builder->net, name, from, filters, window, with_bias),
                         builder->style->conv);
}

uint32_t build_grouped_conv(struct builder *builder, const char *name, uint32_t from, struct conv2d how)
{
    return weights_begin(builder, net_grouped_conv2d(builder->net, named(builder, name), from, how),
                         builder->style->conv);
}

uint32_t build_conv(struct builder *builder, const char *name, uint32_t from, uint32_t filters, struct window window)
{
    return conv(builder, named(builder, name), from, filters, window, false);
}

uint32_t build_conv_bias(struct builder *builder, const char *name, uint32_t from, uint32_t filters,
                         struct window window)
{
    return conv(builder, named(builder, name), from, filters, window, true);
}

static uint32_t dense(struct builder *builder, const char *name, uint32_t from, uint32_t units)
{
    return weights_begin(builder, net_dense(builder->net, name, from, units, true), builder->style->hidden);
}

uint32_t build_dense(struct builder *builder, const char *name, uint32_t from, uint32_t units)
{
    return dense(builder, named(builder, name), from, units);
}

uint32_t build_norm(struct builder *builder, const char *name, uint32_t from)
{
    return build_norm_with(builder, name, from, builder->style->norm);
}

uint32_t build_norm_with(struct builder *builder, const char *name, uint32_t from, struct batch_norm how)
{
    return (uint32_t)net_batch_norm(builder->net, named(builder, name), from, how);
}

uint32_t build_layer_norm(struct builder *builder, const char *name, uint32_t from, float epsilon)
{
    return (uint32_t)net_layer_norm(builder->net, named(builder, name), from, epsilon);
}

uint32_t build_scale(struct builder *builder, const char *name, uint32_t from, float gamma)
{
    const int64_t layer = net_scale(builder->net, named(builder, name), from);
    net_initialize(builder->net, layer, PARAMETER_GAMMA, (struct initializer){ INITIALIZER_CONSTANT, gamma });
    return (uint32_t)layer;
}

uint32_t build_relu(struct builder *builder, const char *name, uint32_t from)
{
    return (uint32_t)net_relu(builder->net, named(builder, name), from);
}

uint32_t build_clipped_relu(struct builder *builder, const char *name, uint32_t from, float limit)
{
    return (uint32_t)net_clipped_relu(builder->net, named(builder, name), from, limit);
}

uint32_t build_activation(struct builder *builder, const char *name, uint32_t from, enum activation activation)
{
    return (uint32_t)net_activation(builder->net, named(builder, name), from, activation);
}

uint32_t build_max_pool(struct builder *builder, const char *name, uint32_t from, struct window window)
{
    return (uint32_t)net_max_pool(builder->net, named(builder, name), from, window);
}

uint32_t build_average_pool(struct builder *builder, const char *name, uint32_t from, struct window window)
{
    return (uint32_t)net_average_pool(builder->net, named(builder, name), from, window);
}

uint32_t build_global_average(struct builder *builder, const char *name, uint32_t from)
{
    return (uint32_t)net_global_average(builder->net, named(builder, name), from);
}

uint32_t build_dropout(struct builder *builder, const char *name, uint32_t from, float rate)
{
    return builder->options->dropout ? (uint32_t)net_dropout(builder->net, named(builder, name), from, rate) : from;
}

uint32_t build_stochastic_depth(struct builder *builder, const char *name, uint32_t from, float rate)
{
    return builder->options->dropout ? (uint32_t)net_stochastic_depth(builder->net, named(builder, name), from, rate)
                                     : from;
}

uint32_t build_local_response_norm(struct builder *builder, const char *name, uint32_t from,
                                   struct local_response_norm how)
{
    return (uint32_t)net_local_response_norm(builder->net, named(builder, name), from, how);
}

uint32_t build_pad_channels(struct builder *builder, const char *name, uint32_t from, uint32_t channels,
                            uint32_t stride)
{
    return (uint32_t)net_pad_channels(builder->net, named(builder, name), from, channels, stride);
}

uint32_t build_add(struct builder *builder, const char *name, uint32_t left, uint32_t right)
{
    return (uint32_t)net_add(builder->net, named(builder, name), left, right);
}

uint32_t build_multiply(struct builder *builder, const char *name, uint32_t left, uint32_t right)
{
    return (uint32_t)net_multiply(builder->net, named(builder, name), left, right);
}

uint32_t build_concat(struct builder *builder, const char *name, const uint32_t *from, uint32_t count)
{
    return (uint32_t)net_concat(builder->net, named(builder, name), from, count);
}

void build_auxiliary_loss(struct builder *builder, const char *name, uint32_t from, float weight)
{
    net_auxiliary_loss(builder->net, named(builder, name), from, weight);
}

void build_initializers(struct builder *builder, uint32_t layer, struct initializer weight, float bias)
{
    net_initialize(builder->net, layer, PARAMETER_WEIGHT, weight);
    net_initialize(builder->net, layer, PARAMETER_BIAS, (struct initializer){ INITIALIZER_CONSTANT, bias });
}

/* ---- several layers ---- */

uint32_t build_conv_norm(struct builder *builder, const char *number, uint32_t from, uint32_t filters,
                         struct window window)
{
    const uint32_t at = conv(builder, numbered(builder, "conv", number), from, filters, window, false);
    return (uint32_t)net_batch_norm(builder->net, numbered(builder, "bn", number), at, builder->style->norm);
}

uint32_t build_conv_norm_relu(struct builder *builder, const char *number, uint32_t from, uint32_t filters,
                             struct window window)
{
    const uint32_t at = build_conv_norm(builder, number, from, filters, window);
    return (uint32_t)net_relu(builder->net, numbered(builder, "relu", number), at);
}

uint32_t build_conv_relu(struct builder *builder, const char *number, uint32_t from, uint32_t filters,
                         struct window window)
{
    const uint32_t at = conv(builder, numbered(builder, "conv", number), from, filters, window, true);
    return (uint32_t)net_relu(builder->net, numbered(builder, "relu", number), at);
}

uint32_t build_dense_relu(struct builder *builder, const char *number, uint32_t from, uint32_t units)
{
    const uint32_t at = dense(builder, numbered(builder, "fc", number), from, units);
    char relu[16];
    snprintf(relu, sizeof(relu), "%s_relu", number);
    return (uint32_t)net_relu(builder->net, numbered(builder, "fc", relu), at);
}

uint32_t build_divisible(uint32_t channels, uint32_t divisor)
{
    uint32_t nearest = (channels + divisor / 2) / divisor * divisor;
    if (nearest < divisor)
        nearest = divisor;
    return 10 * nearest < 9 * channels ? nearest + divisor : nearest;
}

uint32_t build_excitation(struct builder *builder, uint32_t from, uint32_t hidden, enum activation after,
                          enum activation gate)
{
    const uint32_t channels = builder_channels(builder, from);
    uint32_t at = build_global_average(builder, "pool", from);
    at = build_conv_bias(builder, "fc1", at, hidden, window_centred(1, 1));
    at = after == ACTIVATION_COUNT ? build_relu(builder, "act", at)
                                   : build_activation(builder, "act", at, after);
    at = build_conv_bias(builder, "fc2", at, channels, window_centred(1, 1));
    at = build_activation(builder, "gate", at, gate);
    return build_multiply(builder, "multiply", from, at);
}

uint32_t build_classifier(struct builder *builder, const char *name, uint32_t from)
{
    const int64_t logits = net_dense(builder->net, named(builder, name), from, builder->net->classes, true);
    net_softmax_loss(builder->net, "loss", weights_begin(builder, logits, builder->style->classes));
    return (uint32_t)logits;
}
