/* Network descriptions: opening, layers and their parameters, windows, checks of the whole network. Called while a
 * run is being set up, from one thread. Layers and parameters are stored in two arrays of fixed size, so that
 * indices and pointers into them stay valid while a model is built. */
#include "compute/net.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening, the transform of pixels ---- */

static const char *const kind_names[LAYER_ROW_COUNT] = {
    [LAYER_CONV2D] = "conv2d",
    [LAYER_DENSE] = "dense",
    [LAYER_BATCH_NORM] = "batch_norm",
    [LAYER_LAYER_NORM] = "layer_norm",
    [LAYER_SCALE] = "scale",
    [LAYER_RELU] = "relu",
    [LAYER_ACTIVATION] = "activation",
    [LAYER_MAX_POOL] = "max_pool",
    [LAYER_AVERAGE_POOL] = "average_pool",
    [LAYER_DROPOUT] = "dropout",
    [LAYER_STOCHASTIC_DEPTH] = "stochastic_depth",
    [LAYER_LOCAL_RESPONSE_NORM] = "local_response_norm",
    [LAYER_ADD] = "add",
    [LAYER_MULTIPLY] = "multiply",
    [LAYER_CONCAT] = "concat",
    [LAYER_PAD_CHANNELS] = "pad_channels",
    [LAYER_AUXILIARY_LOSS] = "auxiliary_loss",
    [LAYER_SOFTMAX_LOSS] = "softmax_loss",
    [LAYER_SEND] = "send",
    [LAYER_RECEIVE] = "receive",
    [LAYER_PART_LOSS] = "part_loss",
};

const char *layer_kind_name(enum layer_kind kind)
{
    return kind_names[kind];
}

const char *activation_name(enum activation activation)
{
    static const char *const names[ACTIVATION_COUNT] = {
        [ACTIVATION_CLIPPED_RELU] = "relu",           [ACTIVATION_SIGMOID] = "sigmoid",
        [ACTIVATION_HARD_SIGMOID] = "hard_sigmoid",   [ACTIVATION_SILU] = "silu",
        [ACTIVATION_HARD_SWISH] = "hard_swish",       [ACTIVATION_GELU] = "gelu",
    };
    return names[activation];
}

const char *layer_word(const struct layer *layer)
{
    return layer->kind == LAYER_ACTIVATION ? activation_name(layer->activation) : layer_kind_name(layer->kind);
}

int net_fail(struct net *net, const char *name, const char *format, ...)
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
        net_fail(net, "input", "impossible shape %ux%ux%u", input.channels, input.height, input.width);
    *net_out = net;
    return 0;
}

void net_close(struct net *net)
{
    if (net == NULL)
        return;
    free(net->layers);
    free(net->parameters);
    if (net->share != NULL) {
        free(net->share->layers);
        free(net->share->parts);
        free(net->share->parameters);
        free(net->share->firsts);
        free(net->share->is_part);
    }
    free(net->share);
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
        return net_fail(net, "input", "%u channels are too many for a mean and deviation each", net->input.channels);
    bool is_finite = isnormal(divisor);
    for (uint32_t c = 0; c < NET_CHANNELS_MAX; c++) {
        const bool is_given = c < net->input.channels;
        transform.mean[c] = mean != NULL && is_given ? mean[c] : 0.0f;
        transform.std[c] = std != NULL && is_given ? std[c] : 1.0f;
        is_finite = is_finite && isfinite(transform.mean[c]) && isnormal(transform.std[c]);
    }
    if (!is_finite)
        return net_fail(net, "input", "its transform divides by 0 or is not finite");
    net->transform = transform;
    return 0;
}

int net_use_transform(struct net *net, const struct input_transform *transform)
{
    return net_transform(net, transform->divisor, transform->is_plain ? NULL : transform->mean,
                         transform->is_plain ? NULL : transform->std);
}

/* ---- windows of convolutions and pools: their positions on an image, and its padding (doc/models.md) ---- */

/* One axis of a window: its number of positions, and the pixels of padding. */
struct axis { uint32_t out, before, after; };

/* A window has ceil(n / stride) positions; the padding is split evenly, and an odd pixel of it is after the image. */
static bool find_same(uint32_t n, uint32_t kernel, uint32_t stride, struct axis *axis_out)
{
    const uint32_t out = (n - 1) / stride + 1;
    const uint64_t reach = (uint64_t)(out - 1) * stride + kernel;
    const uint32_t total = reach > n ? (uint32_t)(reach - n) : 0;
    *axis_out = (struct axis){ .out = out, .before = total / 2, .after = total - total / 2 };
    return true;
}

/* A window has as many positions as fit on the padded axis. Padding of a whole window is an error, because a window
 * outside of the image has no maximum and no mean. */
static bool find_explicit(uint32_t n, uint32_t kernel, uint32_t stride, struct axis padding, struct axis *axis_out)
{
    const uint64_t padded = (uint64_t)n + padding.before + padding.after;
    if (kernel > padded || padding.before >= kernel || padding.after >= kernel)
        return false;
    *axis_out = (struct axis){ (uint32_t)((padded - kernel) / stride + 1), padding.before, padding.after };
    return true;
}

static bool find_axis(uint32_t n, uint32_t kernel, uint32_t stride, enum padding padding, struct axis given,
                      struct axis *axis_out)
{
    if (kernel == 0 || stride == 0 || kernel > NET_COUNT_MAX)
        return false;
    if (padding == PADDING_SAME)
        return find_same(n, kernel, stride, axis_out);
    return find_explicit(n, kernel, stride, padding == PADDING_EXPLICIT ? given : (struct axis){ 0 }, axis_out);
}

bool layer_pads_same(const struct layer *layer)
{
    struct axis rows, columns;
    find_same(layer->in.height, layer->kernel_h, layer->stride_h, &rows);
    find_same(layer->in.width, layer->kernel_w, layer->stride_w, &columns);
    return layer->pad_top == rows.before && layer->pad_bottom == rows.after && layer->pad_left == columns.before &&
           layer->pad_right == columns.after;
}

/* The number of pixels of an axis that suffices for `positions` positions of a window. */
static uint64_t pixels_for(uint64_t positions, uint32_t kernel, uint32_t stride, uint32_t padding)
{
    return (positions - 1) * (stride > 0 ? stride : 1) + (kernel > padding ? kernel - padding : 1);
}

/* Is the layer a global average, which has one output pixel for images of any size? */
static bool is_whole_mean(const struct layer *layer)
{
    return layer->kind == LAYER_AVERAGE_POOL && layer->stride_h == 1 && layer->stride_w == 1 &&
           layer->kernel_h == layer->in.height && layer->kernel_w == layer->in.width;
}

/* The image size with which layer `from` has at least *height x *width output pixels. False when no size ensures
 * that. */
static bool find_image(const struct net *net, uint32_t from, uint64_t *height, uint64_t *width)
{
    while (from != NET_INPUT && *height <= NET_COUNT_MAX && *width <= NET_COUNT_MAX) {
        const struct layer *const layer = &net->layers[from];
        if (layer->kind == LAYER_DENSE || is_whole_mean(layer))
            return false;
        *height = pixels_for(*height, layer->kernel_h, layer->stride_h, layer->pad_top + layer->pad_bottom);
        *width = pixels_for(*width, layer->kernel_w, layer->stride_w, layer->pad_left + layer->pad_right);
        from = layer->inputs[0];
    }
    return *height <= NET_COUNT_MAX && *width <= NET_COUNT_MAX &&
           shape_fits((struct shape){ net->input.channels, (uint32_t)*height, (uint32_t)*width });
}

static bool pads_whole_windows(const struct window *window)
{
    return window->padding == PADDING_EXPLICIT &&
           (window->top >= window->kernel_h || window->bottom >= window->kernel_h ||
            window->left >= window->kernel_w || window->right >= window->kernel_w);
}

/* Set an error for a window that does not fit; the message names the image size on which it would fit. */
static int fail_window(struct net *net, const struct layer *layer, const struct window *window)
{
    if (pads_whole_windows(window))
        return net_fail(net, layer->name, "padding %u,%u,%u,%u is not smaller than the %ux%u window", window->top,
                          window->bottom, window->left, window->right, window->kernel_h, window->kernel_w);
    const bool is_given = window->padding == PADDING_EXPLICIT;
    uint64_t height = pixels_for(1, window->kernel_h, 1, is_given ? window->top + window->bottom : 0);
    uint64_t width = pixels_for(1, window->kernel_w, 1, is_given ? window->left + window->right : 0);
    const bool can_fit = window->kernel_h > 0 && window->kernel_w > 0 && window->stride_h > 0 && window->stride_w > 0;
    char images[64] = "";
    if (can_fit && find_image(net, layer->inputs[0], &height, &width))
        snprintf(images, sizeof(images), " (on images of %ux%u or more it would)", (uint32_t)height, (uint32_t)width);
    return net_fail(net, layer->name, "a %ux%u window with stride %ux%u does not fit on %ux%u%s", window->kernel_h,
                      window->kernel_w, window->stride_h, window->stride_w, layer->in.height, layer->in.width, images);
}

static int layer_set_window(struct net *net, struct layer *layer, struct window window)
{
    const struct axis rows = { .before = window.top, .after = window.bottom };
    const struct axis columns = { .before = window.left, .after = window.right };
    struct axis vertical, horizontal;
    if (!find_axis(layer->in.height, window.kernel_h, window.stride_h, window.padding, rows, &vertical) ||
        !find_axis(layer->in.width, window.kernel_w, window.stride_w, window.padding, columns, &horizontal))
        return fail_window(net, layer, &window);
    layer->kernel_h = window.kernel_h;
    layer->kernel_w = window.kernel_w;
    layer->stride_h = window.stride_h;
    layer->stride_w = window.stride_w;
    layer->pad_top = vertical.before;
    layer->pad_bottom = vertical.after;
    layer->pad_left = horizontal.before;
    layer->pad_right = horizontal.after;
    layer->out.height = vertical.out;
    layer->out.width = horizontal.out;
    return 0;
}

/* ---- layers of every kind ---- */

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
        return "comes after the loss";
    if (from != NET_INPUT && net->layers[from].kind == LAYER_AUXILIARY_LOSS)
        return "reads a loss";
    return NULL;
}

static struct shape shape_of(const struct net *net, uint32_t from)
{
    return from == NET_INPUT ? net->input : net->layers[from].out;
}

/* The next layer of the array with the fields of every kind filled in, or NULL after an error. It becomes part of
 * the net with layer_append. */
static struct layer *layer_begin(struct net *net, enum layer_kind kind, const char *name, uint32_t from)
{
    const char *const problem = append_problem(net, name, from);
    if (problem != NULL)
        net_fail(net, name, "%s", problem);
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
        return net_fail(net, layer->name, "output %ux%ux%u is too large", layer->out.channels, layer->out.height,
                          layer->out.width);
    return net->layer_count++;
}

/* ---- parameters ---- */

/* The properties shared by all parameters of a kind. */
struct parameter_trait {
    const char *name;           /* suffix of the parameter's name, as in PyTorch */
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

/* Append the weights, `fan_in` numbers per output channel, and a bias per output channel. */
static int append_weights(struct net *net, struct layer *layer, const struct parameter *weight, bool with_bias)
{
    const uint32_t outputs = weight->dims[0];
    if (outputs == 0 || weight->fan_in > NET_COUNT_MAX / outputs)
        return net_fail(net, layer->name, "%u outputs of %llu weights each do not fit (1 to %llu would)", outputs,
                          (unsigned long long)weight->fan_in, (unsigned long long)(NET_COUNT_MAX / weight->fan_in));
    layer->out.channels = outputs;
    parameter_append(net, layer, PARAMETER_WEIGHT, weight);
    if (with_bias)
        append_per_channel(net, layer, PARAMETER_BIAS);
    return 0;
}

struct initializer initializer_variance_scaling(uint64_t fan_in)
{
    /* The std of a standard normal distribution truncated at -2 and 2. */
    const double truncated = 0.87962566103423978;
    return (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, (float)(sqrt(1.0 / (double)fan_in) / truncated) };
}

struct initializer initializer_he_normal(uint64_t fan_out)
{
    return (struct initializer){ INITIALIZER_NORMAL, (float)sqrt(2.0 / (double)fan_out) };
}

struct initializer initializer_default(enum parameter_kind kind)
{
    return parameter_traits[kind].initializer;
}

int net_initialize(struct net *net, int64_t layer, enum parameter_kind kind, struct initializer initializer)
{
    if (net->error[0] != '\0' || layer < 0)
        return -EINVAL;
    if (layer >= net->layer_count || !layer_has(&net->layers[layer], kind))
        return net_fail(net, net->model, "layer %lld has no %s to initialise", (long long)layer,
                          parameter_traits[kind].name);
    net->parameters[net->layers[layer].parameters[kind]].initializer = initializer;
    return 0;
}

/* ---- layers by kind ---- */

static uint32_t greatest_common_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The divisors of `number` next to `at`: the largest that is not above it, and the smallest that is not below it. If
 * one of them does not exist, both are the other one. */
static void find_divisors(uint32_t number, uint32_t at, uint32_t *below_out, uint32_t *above_out)
{
    uint32_t below = at > 0 ? 1 : 0, above = at <= number ? number : 0;
    for (uint32_t one = 1; one <= number / one; one++) {
        const uint32_t pair[] = { one, number / one };
        for (int i = 0; i < 2 && number % one == 0; i++) {
            below = pair[i] <= at && pair[i] > below ? pair[i] : below;
            above = pair[i] >= at && pair[i] < above ? pair[i] : above;
        }
    }
    *below_out = below > 0 ? below : above;
    *above_out = above > 0 ? above : below;
}

/* Set an error for groups that do not divide the channels or the filters; the message names the nearest numbers that
 * would. */
static int fail_groups(struct net *net, const struct layer *layer, uint32_t groups, uint32_t filters)
{
    const uint32_t channels = layer->in.channels;
    uint32_t below, above;
    find_divisors(greatest_common_divisor(channels, filters), groups, &below, &above);
    if (groups > 0 && channels % groups == 0)
        return net_fail(net, layer->name, "filters %u is no multiple of groups %u (filters %llu or groups %u would "
                        "fit)", filters, groups, ((unsigned long long)filters / groups + 1) * groups, below);
    if (below == above)
        return net_fail(net, layer->name, "groups %u does not divide %u input channels and %u filters (%u would)",
                        groups, channels, filters, below);
    return net_fail(net, layer->name, "groups %u does not divide %u input channels and %u filters (%u or %u would)",
                    groups, channels, filters, below, above);
}

int64_t net_grouped_conv2d(struct net *net, const char *name, uint32_t from, struct conv2d how)
{
    struct layer *const layer = layer_begin(net, LAYER_CONV2D, name, from);
    if (layer == NULL || layer_set_window(net, layer, how.window) != 0)
        return -EINVAL;
    const uint64_t taps = (uint64_t)how.window.kernel_h * how.window.kernel_w;
    if (taps > NET_COUNT_MAX)
        return net_fail(net, name, "a %ux%u window is too large", how.window.kernel_h, how.window.kernel_w);
    if (how.groups == 0 || layer->in.channels % how.groups != 0 || how.filters % how.groups != 0)
        return fail_groups(net, layer, how.groups, how.filters);
    const uint32_t channels = layer->in.channels / how.groups;
    const struct parameter weight = {
        .rank = 4,
        .dims = { how.filters, channels, how.window.kernel_h, how.window.kernel_w },
        .fan_in = taps * channels,
        .fan_out = taps * how.filters,
    };
    if (append_weights(net, layer, &weight, how.with_bias) != 0)
        return -EINVAL;
    layer->groups = how.groups;
    layer->macs = weight.fan_in * how.filters * layer->out.height * layer->out.width;
    return layer_append(net, layer);
}

int64_t net_conv2d(struct net *net, const char *name, uint32_t from, uint32_t filters, struct window window,
                   bool with_bias)
{
    return net_grouped_conv2d(net, name, from, (struct conv2d){ filters, 1, window, with_bias });
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
        return net_fail(net, name, "decay %g is not in [0, 1], or epsilon %g is not above 0", how.decay,
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

int64_t net_layer_norm(struct net *net, const char *name, uint32_t from, float epsilon)
{
    struct layer *const layer = layer_begin(net, LAYER_LAYER_NORM, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (!(epsilon > 0.0f && isfinite(epsilon)))
        return net_fail(net, name, "epsilon %g is not above 0", (double)epsilon);
    layer->epsilon = epsilon;
    append_per_channel(net, layer, PARAMETER_GAMMA);
    append_per_channel(net, layer, PARAMETER_BETA);
    return layer_append(net, layer);
}

/* The suffix of other parameters that the name ends in; NULL: none. */
static const char *parameter_suffix(const char *name)
{
    const char *const dot = strrchr(name, '.');
    for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT && dot != NULL; kind++)
        if (strcmp(dot + 1, parameter_traits[kind].name) == 0)
            return dot;
    return NULL;
}

int64_t net_scale(struct net *net, const char *name, uint32_t from)
{
    struct layer *const layer = layer_begin(net, LAYER_SCALE, name, from);
    if (layer == NULL)
        return -EINVAL;
    const char *const suffix = parameter_suffix(name);
    if (suffix != NULL)
        return net_fail(net, name, "the name of a scale is the name of its parameter and must not end in '%s'", suffix);
    const struct parameter shape = { .rank = 3, .dims = { layer->out.channels, 1, 1 } };
    parameter_append(net, layer, PARAMETER_GAMMA, &shape);
    struct parameter *const gamma = &net->parameters[layer->parameters[PARAMETER_GAMMA]];
    snprintf(gamma->name, sizeof(gamma->name), "%s", name);
    gamma->decays = true;
    return layer_append(net, layer);
}

int64_t net_relu(struct net *net, const char *name, uint32_t from)
{
    struct layer *const layer = layer_begin(net, LAYER_RELU, name, from);
    return layer != NULL ? layer_append(net, layer) : -EINVAL;
}

int64_t net_activation(struct net *net, const char *name, uint32_t from, enum activation activation)
{
    struct layer *const layer = layer_begin(net, LAYER_ACTIVATION, name, from);
    if (layer == NULL)
        return -EINVAL;
    layer->activation = activation;
    return layer_append(net, layer);
}

int64_t net_clipped_relu(struct net *net, const char *name, uint32_t from, float limit)
{
    if (!(limit > 0.0f && isfinite(limit)))
        return net_fail(net, name, "limit %g is not above 0 (6 makes a ReLU6)", (double)limit);
    const int64_t layer = net_activation(net, name, from, ACTIVATION_CLIPPED_RELU);
    if (layer >= 0)
        net->layers[layer].limit = limit;
    return layer;
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
        return net_fail(net, name, "reads a layer that does not exist");
    const struct shape in = shape_of(net, from);
    const struct window whole = { .kernel_h = in.height, .kernel_w = in.width, .stride_h = 1, .stride_w = 1 };
    return net_average_pool(net, name, from, whole);
}

static int64_t append_dropout(struct net *net, enum layer_kind kind, const char *name, uint32_t from, float rate)
{
    struct layer *const layer = layer_begin(net, kind, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (!(rate >= 0.0f && rate < 1.0f))
        return net_fail(net, name, "%s rate %g is not in [0, 1)", layer_kind_name(kind), (double)rate);
    layer->rate = rate;
    return layer_append(net, layer);
}

int64_t net_dropout(struct net *net, const char *name, uint32_t from, float rate)
{
    return append_dropout(net, LAYER_DROPOUT, name, from, rate);
}

int64_t net_stochastic_depth(struct net *net, const char *name, uint32_t from, float rate)
{
    return append_dropout(net, LAYER_STOCHASTIC_DEPTH, name, from, rate);
}

int64_t net_local_response_norm(struct net *net, const char *name, uint32_t from, struct local_response_norm how)
{
    struct layer *const layer = layer_begin(net, LAYER_LOCAL_RESPONSE_NORM, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (how.size % 2 == 0 || !(how.alpha >= 0.0f && isfinite(how.alpha)) || !(how.beta >= 0.0f && isfinite(how.beta)) ||
        !(how.k > 0.0f && isfinite(how.k)))
        return net_fail(net, name, "size %u is not odd, or alpha %g, beta %g or k %g is out of range", how.size,
                          (double)how.alpha, (double)how.beta, (double)how.k);
    layer->response = how;
    return layer_append(net, layer);
}

/* Add another input to the layer. Returns its shape, or NULL after an error. */
static const struct shape *add_input(struct net *net, struct layer *layer, uint32_t from)
{
    const char *const problem = append_problem(net, layer->name, from);
    if (problem != NULL) {
        net_fail(net, layer->name, "%s", problem);
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
        return net_fail(net, name, "adds %ux%ux%u values to %ux%ux%u", b->channels, b->height, b->width, a.channels,
                          a.height, a.width);
    return layer_append(net, layer);
}

static bool is_same_shape(const struct shape *a, const struct shape *b)
{
    return a->channels == b->channels && a->height == b->height && a->width == b->width;
}

/* Has `b` one pixel with the channels of `a`? */
static bool is_factor_of(const struct shape *a, const struct shape *b)
{
    return a->channels == b->channels && b->height == 1 && b->width == 1;
}

/* Set an error for shapes that have no product; the message names what would fit. */
static int fail_product(struct net *net, const char *name, const struct shape *a, const struct shape *b)
{
    const bool is_swapped = a->height == 1 && a->width == 1;
    const struct shape *const large = is_swapped ? b : a, *const small = is_swapped ? a : b;
    char pixel[32] = "";
    if (large->height > 1 || large->width > 1)
        snprintf(pixel, sizeof(pixel), " or %ux1x1", large->channels);
    return net_fail(net, name, "multiplies %ux%ux%u values by %ux%ux%u (%ux%ux%u%s would fit)", large->channels,
                    large->height, large->width, small->channels, small->height, small->width, large->channels,
                    large->height, large->width, pixel);
}

int64_t net_multiply(struct net *net, const char *name, uint32_t left, uint32_t right)
{
    struct layer *const layer = layer_begin(net, LAYER_MULTIPLY, name, left);
    if (layer == NULL)
        return -EINVAL;
    const struct shape *const b = add_input(net, layer, right), a = layer->in;
    if (b == NULL)
        return -EINVAL;
    if (!is_same_shape(&a, b) && !is_factor_of(&a, b) && !is_factor_of(b, &a))
        return fail_product(net, name, &a, b);
    if (!is_same_shape(&a, b) && is_factor_of(b, &a)) {
        layer->inputs[0] = right;
        layer->inputs[1] = left;
        layer->in = layer->out = *b;
    }
    return layer_append(net, layer);
}

int64_t net_concat(struct net *net, const char *name, const uint32_t *from, uint32_t count)
{
    if (count == 0 || count > LAYER_INPUTS_MAX)
        return net_fail(net, name, "has %u inputs, not 1 to %u", count, LAYER_INPUTS_MAX);
    struct layer *const layer = layer_begin(net, LAYER_CONCAT, name, from[0]);
    if (layer == NULL)
        return -EINVAL;
    uint64_t channels = layer->in.channels;
    for (uint32_t k = 1; k < count; k++) {
        const struct shape *const next = add_input(net, layer, from[k]);
        if (next == NULL)
            return -EINVAL;
        if (next->height != layer->in.height || next->width != layer->in.width)
            return net_fail(net, name, "concatenates %ux%u pixels with %ux%u", next->height, next->width,
                              layer->in.height, layer->in.width);
        channels += next->channels;
    }
    if (channels > NET_COUNT_MAX)
        return net_fail(net, name, "%llu channels are too many", (unsigned long long)channels);
    layer->out.channels = (uint32_t)channels;
    return layer_append(net, layer);
}

int64_t net_pad_channels(struct net *net, const char *name, uint32_t from, uint32_t channels, uint32_t stride)
{
    struct layer *const layer = layer_begin(net, LAYER_PAD_CHANNELS, name, from);
    if (layer == NULL)
        return -EINVAL;
    if (channels < layer->in.channels || stride == 0)
        return net_fail(net, name, "cannot make %u channels of %u at stride %u", channels, layer->in.channels,
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
        return net_fail(net, name, "reads %ux%ux%u values for %u classes", layer->in.channels, layer->in.height,
                          layer->in.width, net->classes);
    return layer_append(net, layer);
}

int64_t net_auxiliary_loss(struct net *net, const char *name, uint32_t from, float weight)
{
    if (!(weight > 0.0f && isfinite(weight)))
        return net_fail(net, name, "weight %g is not above 0", (double)weight);
    return append_loss(net, LAYER_AUXILIARY_LOSS, name, from, weight);
}

int64_t net_softmax_loss(struct net *net, const char *name, uint32_t from)
{
    return append_loss(net, LAYER_SOFTMAX_LOSS, name, from, 1.0f);
}

/* ---- the whole network ---- */

static void check_readers(struct net *net)
{
    uint32_t readers[NET_LAYERS_MAX] = { 0 };
    for (uint32_t i = 0; i < net->layer_count; i++)
        for (uint32_t k = 0; k < net->layers[i].input_count; k++)
            if (net->layers[i].inputs[k] != NET_INPUT)
                readers[net->layers[i].inputs[k]]++;
    for (uint32_t i = 0; i + 1 < net->layer_count; i++)
        if (readers[i] == 0 && net->layers[i].kind != LAYER_AUXILIARY_LOSS)
            net_fail(net, net->layers[i].name, "nothing reads its output");
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
        net_fail(net, net->model, "the net does not end in a loss");
    if (net->parameter_count == 0)
        net_fail(net, net->model, "the net has no parameters");
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

uint32_t net_embedding_layer(const struct net *net)
{
    uint32_t layer = net->layers[net->layer_count - 1].inputs[0];
    while (layer != NET_INPUT && net->layers[layer].kind != LAYER_DENSE && net->layers[layer].kind != LAYER_CONV2D)
        layer = net->layers[layer].inputs[0];
    return layer == NET_INPUT || net->layers[layer].inputs[0] == NET_INPUT ? NET_INPUT : layer;
}

const struct layer *net_find_sized(const struct net *net, const struct net *other)
{
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *const ours = &net->layers[i], *const theirs = &other->layers[i];
        if (i >= other->layer_count || ours->kind != theirs->kind || ours->in.channels != theirs->in.channels ||
            ours->out.channels != theirs->out.channels ||
            (ours->kind == LAYER_DENSE && !is_same_shape(&ours->in, &theirs->in)))
            return ours;
    }
    return NULL;
}

const struct parameter *net_parameter_find(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (strcmp(net->parameters[i].name, name) == 0)
            return &net->parameters[i];
    return NULL;
}
