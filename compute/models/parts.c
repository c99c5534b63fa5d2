/* The words in which models are written: net_* calls with names behind a prefix and first values as the model's style
 * has them. Called by the builders. */
#include "compute/models/parts.h"

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

struct draft draft_of(struct net *net, const struct model_options *options, const struct style *style)
{
    net_transform(net, style->divisor, style->mean, style->std);
    return (struct draft){ .net = net, .options = options, .style = style };
}

struct draft draft_in(const struct draft *draft, const char *format, ...)
{
    struct draft inner = *draft;
    const size_t used = strlen(inner.prefix);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(inner.prefix + used, sizeof(inner.prefix) - used, format, arguments);
    va_end(arguments);
    return inner;
}

struct draft *list_next(struct list *list)
{
    list->here = draft_in(&list->draft, "%u", list->place++);
    return &list->here;
}

/* Too long a name is cut, but not before it is too long for the net, which then says so. */
static const char *numbered(struct draft *draft, const char *name, const char *number)
{
    snprintf(draft->name, sizeof(draft->name), "%s%s%s", draft->prefix, name, number);
    return draft->name;
}

static const char *named(struct draft *draft, const char *name)
{
    return numbered(draft, name, "");
}

static bool is_refused(const struct draft *draft)
{
    return net_error(draft->net)[0] != '\0';
}

uint32_t channels_of(const struct draft *draft, uint32_t from)
{
    if (is_refused(draft))
        return 0;
    return from == NET_INPUT ? draft->net->input.channels : draft->net->layers[from].out.channels;
}

/* ---- one layer ---- */

static uint32_t weights_begin(struct draft *draft, int64_t layer,
                              struct initializer (*rule)(uint64_t fan_in, uint64_t fan_out))
{
    if (!is_refused(draft)) {
        const struct parameter *const weight =
            &draft->net->parameters[draft->net->layers[layer].parameters[PARAMETER_WEIGHT]];
        net_initialize(draft->net, layer, PARAMETER_WEIGHT, rule(weight->fan_in, weight->fan_out));
    }
    return (uint32_t)layer;
}

/* `name` as the net gets it. */
static uint32_t conv(struct draft *draft, const char *name, uint32_t from, uint32_t filters, struct window window,
                     bool with_bias)
{
    return weights_begin(draft, net_conv2d(draft->net, name, from, filters, window, with_bias), draft->style->conv);
}

uint32_t part_conv(struct draft *draft, const char *name, uint32_t from, uint32_t filters, struct window window)
{
    return conv(draft, named(draft, name), from, filters, window, false);
}

uint32_t part_conv_bias(struct draft *draft, const char *name, uint32_t from, uint32_t filters, struct window window)
{
    return conv(draft, named(draft, name), from, filters, window, true);
}

static uint32_t dense(struct draft *draft, const char *name, uint32_t from, uint32_t units)
{
    return weights_begin(draft, net_dense(draft->net, name, from, units, true), draft->style->hidden);
}

uint32_t part_dense(struct draft *draft, const char *name, uint32_t from, uint32_t units)
{
    return dense(draft, named(draft, name), from, units);
}

uint32_t part_norm(struct draft *draft, const char *name, uint32_t from)
{
    return part_norm_as(draft, name, from, draft->style->norm);
}

uint32_t part_norm_as(struct draft *draft, const char *name, uint32_t from, struct batch_norm how)
{
    return (uint32_t)net_batch_norm(draft->net, named(draft, name), from, how);
}

uint32_t part_relu(struct draft *draft, const char *name, uint32_t from)
{
    return (uint32_t)net_relu(draft->net, named(draft, name), from);
}

uint32_t part_max_pool(struct draft *draft, const char *name, uint32_t from, struct window window)
{
    return (uint32_t)net_max_pool(draft->net, named(draft, name), from, window);
}

uint32_t part_average_pool(struct draft *draft, const char *name, uint32_t from, struct window window)
{
    return (uint32_t)net_average_pool(draft->net, named(draft, name), from, window);
}

uint32_t part_mean(struct draft *draft, const char *name, uint32_t from)
{
    return (uint32_t)net_global_average(draft->net, named(draft, name), from);
}

uint32_t part_dropout(struct draft *draft, const char *name, uint32_t from, float rate)
{
    return draft->options->dropout ? (uint32_t)net_dropout(draft->net, named(draft, name), from, rate) : from;
}

uint32_t part_local_response_norm(struct draft *draft, const char *name, uint32_t from, struct local_response_norm how)
{
    return (uint32_t)net_local_response_norm(draft->net, named(draft, name), from, how);
}

uint32_t part_pad_channels(struct draft *draft, const char *name, uint32_t from, uint32_t channels, uint32_t stride)
{
    return (uint32_t)net_pad_channels(draft->net, named(draft, name), from, channels, stride);
}

uint32_t part_add(struct draft *draft, const char *name, uint32_t left, uint32_t right)
{
    return (uint32_t)net_add(draft->net, named(draft, name), left, right);
}

uint32_t part_concat(struct draft *draft, const char *name, const uint32_t *from, uint32_t count)
{
    return (uint32_t)net_concat(draft->net, named(draft, name), from, count);
}

void part_auxiliary_loss(struct draft *draft, const char *name, uint32_t from, float weight)
{
    net_auxiliary_loss(draft->net, named(draft, name), from, weight);
}

void part_begin(struct draft *draft, uint32_t layer, struct initializer weight, float bias)
{
    net_initialize(draft->net, layer, PARAMETER_WEIGHT, weight);
    net_initialize(draft->net, layer, PARAMETER_BIAS, (struct initializer){ INITIALIZER_CONSTANT, bias });
}

/* ---- several layers ---- */

uint32_t part_conv_norm(struct draft *draft, const char *number, uint32_t from, uint32_t filters, struct window window)
{
    const uint32_t at = conv(draft, numbered(draft, "conv", number), from, filters, window, false);
    return (uint32_t)net_batch_norm(draft->net, numbered(draft, "bn", number), at, draft->style->norm);
}

uint32_t part_conv_norm_relu(struct draft *draft, const char *number, uint32_t from, uint32_t filters,
                             struct window window)
{
    const uint32_t at = part_conv_norm(draft, number, from, filters, window);
    return (uint32_t)net_relu(draft->net, numbered(draft, "relu", number), at);
}

uint32_t part_conv_relu(struct draft *draft, const char *number, uint32_t from, uint32_t filters, struct window window)
{
    const uint32_t at = conv(draft, numbered(draft, "conv", number), from, filters, window, true);
    return (uint32_t)net_relu(draft->net, numbered(draft, "relu", number), at);
}

uint32_t part_dense_relu(struct draft *draft, const char *number, uint32_t from, uint32_t units)
{
    const uint32_t at = dense(draft, numbered(draft, "fc", number), from, units);
    char relu[16];
    snprintf(relu, sizeof(relu), "%s_relu", number);
    return (uint32_t)net_relu(draft->net, numbered(draft, "fc", relu), at);
}

uint32_t part_classes(struct draft *draft, const char *name, uint32_t from)
{
    const int64_t logits = net_dense(draft->net, named(draft, name), from, draft->net->classes, true);
    net_softmax_loss(draft->net, "loss", weights_begin(draft, logits, draft->style->classes));
    return (uint32_t)logits;
}
