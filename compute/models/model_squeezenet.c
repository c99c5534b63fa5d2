/* SqueezeNet 1.1 as torchvision has it (Iandola et al. 2016; doc/models.md): modules that reduce the channels, and
 * expand them again by two convolutions, whose outputs are concatenated. The last convolution has a filter for each
 * class. Names are torchvision's. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

static const struct style torchvision = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std, .conv = he_uniform,
};

static uint32_t conv(struct builder *builder, const char *name, const char *relu, uint32_t from, uint32_t filters,
                     uint32_t kernel)
{
    const uint32_t at = build_conv_bias(builder, name, from, filters, window_centred(kernel, 1));
    return build_relu(builder, relu, at);
}

/* Appends a module, which reduces to `squeezed` channels and expands to eight times as many. */
static uint32_t fire(struct sequential *features, uint32_t from, uint32_t squeezed)
{
    struct builder builder = builder_within(sequential_next(features), ".");
    const uint32_t at = conv(&builder, "squeeze", "squeeze_activation", from, squeezed, 1);
    const uint32_t both[] = {
        conv(&builder, "expand1x1", "expand1x1_activation", at, 4 * squeezed, 1),
        conv(&builder, "expand3x3", "expand3x3_activation", at, 4 * squeezed, 3),
    };
    return build_concat(&builder, "concat", both, 2);
}

static uint32_t pool(struct sequential *features, uint32_t from)
{
    return build_max_pool(sequential_next(features), "", from, window_ceil(3));
}

/* Appends the convolution with a filter for each class, the mean over its pixels, and the loss. */
static void classify(const struct builder *builder, uint32_t from)
{
    struct sequential classifier = { .builder = builder_within(builder, "classifier.") };
    uint32_t at = build_dropout(sequential_next(&classifier), "", from, 0.5f);
    at = build_conv_bias(sequential_next(&classifier), "", at, builder->net->classes, window_centred(1, 1));
    build_initializers(&classifier.next, at, normal_001(0, 0), 0);
    at = build_relu(sequential_next(&classifier), "", at);
    at = build_global_average(sequential_next(&classifier), "", at);
    net_softmax_loss(builder->net, "loss", at);
}

void model_build_squeezenet(struct net *net, const struct model_options *options, uint32_t variant)
{
    /* 0: a pool */
    static const uint32_t modules[] = { 0, 16, 16, 0, 32, 32, 0, 48, 48, 64, 64 };
    const struct builder builder = builder_of(net, options, &torchvision);
    struct sequential features = { .builder = builder_within(&builder, "features.") };
    uint32_t at = build_conv_bias(sequential_next(&features), "", NET_INPUT, 64, window_valid(3, 2));
    at = build_relu(sequential_next(&features), "", at);
    (void)variant;
    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
        at = modules[i] > 0 ? fire(&features, at, modules[i]) : pool(&features, at);
    classify(&builder, at);
}
