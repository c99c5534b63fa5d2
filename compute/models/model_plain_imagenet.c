/* Networks for ImageNet without branches (doc/models.md): convolutions and pools, two wide dense layers, the classes.
 * AlexNet (Krizhevsky 2014), OverFeat (Sermanet et al. 2013) and VGG (Simonyan, Zisserman 2014) as tf_cnn_benchmarks
 * has them; torchvision's VGG, also with batch normalisation, and its AlexNet, which have another input and other
 * initial weights. Names are torchvision's. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

/* A convolution, and the pool after it. */
struct step {
    uint32_t kernel, stride;
    enum padding padding;
    uint32_t filters;           /* 0: the end of the table */
    uint32_t pool;              /* size of the window, with stride 2; 0: no pool */
};

static uint32_t conv(struct sequential *sequential, uint32_t from, uint32_t filters, struct window window)
{
    const uint32_t at = build_conv_bias(sequential_next(sequential), "", from, filters, window);
    return build_relu(sequential_next(sequential), "", at);
}

static uint32_t hidden(struct sequential *sequential, uint32_t from, uint32_t units)
{
    uint32_t at = build_dense(sequential_next(sequential), "", from, units);
    at = build_relu(sequential_next(sequential), "", at);
    return build_dropout(sequential_next(sequential), "", at, 0.5f);
}

/* Appends the layers after the convolutions. */
static void classify(const struct builder *builder, uint32_t from, uint32_t first, uint32_t second)
{
    struct sequential classifier = { .builder = builder_within(builder, "classifier.") };
    from = hidden(&classifier, from, first);
    from = hidden(&classifier, from, second);
    build_classifier(sequential_next(&classifier), "", from);
}

static void build(struct net *net, const struct model_options *options, const struct step *steps, uint32_t first,
                  uint32_t second)
{
    const struct builder builder = builder_of(net, options, &style_benchmarks);
    struct sequential features = { .builder = builder_within(&builder, "features.") };
    uint32_t at = NET_INPUT;
    for (const struct step *step = steps; step->filters > 0; step++) {
        at = conv(&features, at, step->filters, window_square(step->kernel, step->stride, step->padding));
        if (step->pool > 0)
            at = build_max_pool(sequential_next(&features), "", at, window_valid(step->pool, 2));
    }
    classify(&builder, at, first, second);
}

void model_build_alexnet_imagenet(struct net *net, const struct model_options *options, uint32_t variant)
{
    static const struct step steps[] = {
        { 11, 4, PADDING_VALID, 64, 3 },
        { 5, 1, PADDING_SAME, 192, 3 },
        { 3, 1, PADDING_SAME, 384, 0 },
        { 3, 1, PADDING_SAME, 384, 0 },
        { 3, 1, PADDING_SAME, 256, 3 },
        { .filters = 0 },
    };
    (void)variant;
    build(net, options, steps, 4096, 4096);
}

void model_build_overfeat(struct net *net, const struct model_options *options, uint32_t variant)
{
    static const struct step steps[] = {
        { 11, 4, PADDING_VALID, 96, 2 },
        { 5, 1, PADDING_VALID, 256, 2 },
        { 3, 1, PADDING_SAME, 512, 0 },
        { 3, 1, PADDING_SAME, 1024, 0 },
        { 3, 1, PADDING_SAME, 1024, 2 },
        { .filters = 0 },
    };
    (void)variant;
    build(net, options, steps, 3072, 4096);
}

enum { GROUPS = 5 };

/* A convolution as in `conv`, with batch normalisation. */
static uint32_t conv_norm(struct sequential *sequential, uint32_t from, uint32_t filters, struct window window)
{
    uint32_t at = build_conv_bias(sequential_next(sequential), "", from, filters, window);
    at = build_norm(sequential_next(sequential), "", at);
    return build_relu(sequential_next(sequential), "", at);
}

typedef uint32_t (*append_conv)(struct sequential *sequential, uint32_t from, uint32_t filters, struct window window);

/* Builds five groups of `lengths` convolutions, with a pool after each. */
static void build_groups(struct net *net, const struct model_options *options, const struct style *style,
                         const uint32_t lengths[GROUPS], append_conv append)
{
    static const uint32_t filters[GROUPS] = { 64, 128, 256, 512, 512 };
    const struct builder builder = builder_of(net, options, style);
    struct sequential features = { .builder = builder_within(&builder, "features.") };
    uint32_t at = NET_INPUT;
    for (uint32_t group = 0; group < GROUPS; group++) {
        for (uint32_t i = 0; i < lengths[group]; i++)
            at = append(&features, at, filters[group], window_same(3, 1));
        at = build_max_pool(sequential_next(&features), "", at, window_valid(2, 2));
    }
    classify(&builder, at, 4096, 4096);
}

static void build_vgg(struct net *net, const struct model_options *options, const struct style *style, uint32_t layers,
                      append_conv append)
{
    static const struct { uint32_t layers, lengths[GROUPS]; } rows[] = {
        { 11, { 1, 1, 2, 2, 2 } },
        { 13, { 2, 2, 2, 2, 2 } },
        { 16, { 2, 2, 3, 3, 3 } },
        { 19, { 2, 2, 4, 4, 4 } },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].layers == layers)
            build_groups(net, options, style, rows[i].lengths, append);
}

void model_build_vgg_imagenet(struct net *net, const struct model_options *options, uint32_t layers)
{
    build_vgg(net, options, &style_benchmarks, layers, conv);
}

/* ---- torchvision's ---- */

static const struct style torchvision = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = he_normal_fan_out, .hidden = normal_001, .classes = normal_001,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};

void model_build_vgg_torchvision(struct net *net, const struct model_options *options, uint32_t layers)
{
    build_vgg(net, options, &torchvision, layers, conv);
}

void model_build_vgg_bn_torchvision(struct net *net, const struct model_options *options, uint32_t layers)
{
    build_vgg(net, options, &torchvision, layers, conv_norm);
}

static const struct style pytorch = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = pytorch_uniform, .hidden = pytorch_uniform, .classes = pytorch_uniform, .biases = pytorch_uniform,
};

/* Dropout comes before the dense layers, and not after them as in the others. */
static uint32_t dropout_hidden(struct sequential *sequential, uint32_t from, uint32_t units)
{
    uint32_t at = build_dropout(sequential_next(sequential), "", from, 0.5f);
    at = build_dense(sequential_next(sequential), "", at, units);
    return build_relu(sequential_next(sequential), "", at);
}

void model_build_alexnet_torchvision(struct net *net, const struct model_options *options, uint32_t variant)
{
    static const struct { struct window window; uint32_t filters; bool with_pool; } convs[] = {
        { { 11, 11, 4, 4, PADDING_EXPLICIT, 2, 2, 2, 2 }, 64, true },
        { { 5, 5, 1, 1, PADDING_SAME, 0, 0, 0, 0 }, 192, true },
        { { 3, 3, 1, 1, PADDING_SAME, 0, 0, 0, 0 }, 384, false },
        { { 3, 3, 1, 1, PADDING_SAME, 0, 0, 0, 0 }, 256, false },
        { { 3, 3, 1, 1, PADDING_SAME, 0, 0, 0, 0 }, 256, true },
    };
    const struct builder builder = builder_of(net, options, &pytorch);
    struct sequential features = { .builder = builder_within(&builder, "features.") },
                      classifier = { .builder = builder_within(&builder, "classifier.") };
    uint32_t at = NET_INPUT;
    (void)variant;
    for (size_t i = 0; i < sizeof(convs) / sizeof(convs[0]); i++) {
        at = conv(&features, at, convs[i].filters, convs[i].window);
        if (convs[i].with_pool)
            at = build_max_pool(sequential_next(&features), "", at, window_valid(3, 2));
    }
    at = dropout_hidden(&classifier, at, 4096);
    at = dropout_hidden(&classifier, at, 4096);
    build_classifier(sequential_next(&classifier), "", at);
}
