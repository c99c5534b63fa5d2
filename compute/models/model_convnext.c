/* ConvNeXt-T as torchvision has it (Liu et al. 2022; doc/models.md): residual blocks of a depthwise convolution of 7x7,
 * layer normalisation, and two 1x1 convolutions with GELU between them, which are dense layers of every pixel in
 * torchvision. Names are torchvision's. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

enum { STAGES = 4, EXPANSION = 4 };

static struct initializer normal_002(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_in, (void)fan_out;
    return (struct initializer){ INITIALIZER_NORMAL, 0.02f };
}

static const struct style torchvision = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std, .conv = normal_002, .classes = normal_002,
};
static const float epsilon = 1e-6f;

static uint32_t block(struct builder *builder, uint32_t from, float rate)
{
    const uint32_t channels = builder_channels(builder, from);
    const struct conv2d depthwise = { .filters = channels, .groups = channels, .window = window_centred(7, 1),
                                      .with_bias = true };
    uint32_t at = build_grouped_conv(builder, "block.0", from, depthwise);
    at = build_layer_norm(builder, "block.2", at, epsilon);
    at = build_conv_bias(builder, "block.3", at, EXPANSION * channels, window_centred(1, 1));
    at = build_activation(builder, "block.4", at, ACTIVATION_GELU);
    at = build_conv_bias(builder, "block.5", at, channels, window_centred(1, 1));
    at = build_scale(builder, "layer_scale", at, 1e-6f);
    if (rate > 0)
        at = build_stochastic_depth(builder, "stochastic_depth", at, rate);
    return build_add(builder, "add", at, from);
}

static uint32_t stem(const struct builder *features)
{
    struct builder inside = builder_within(features, "0.");
    return build_layer_norm(&inside, "1", build_conv_bias(&inside, "0", NET_INPUT, 96, window_valid(4, 4)), epsilon);
}

/* Halves the image between two stages. */
static uint32_t halve(const struct builder *features, uint32_t from, uint32_t number, uint32_t filters)
{
    struct builder inside = builder_within(features, "%u.", number);
    return build_conv_bias(&inside, "1", build_layer_norm(&inside, "0", from, epsilon), filters, window_valid(2, 2));
}

/* Rates of stochastic depth rise linearly from 0 to 0.1. */
void model_build_convnext(struct net *net, const struct model_options *options, uint32_t variant)
{
    static const uint32_t widths[STAGES] = { 96, 192, 384, 768 }, depths[STAGES] = { 3, 3, 9, 3 };
    struct builder builder = builder_of(net, options, &torchvision), features = builder_within(&builder, "features.");
    uint32_t at = stem(&features), count = 0;
    (void)variant;
    for (uint32_t stage = 0; stage < STAGES; stage++) {
        if (stage > 0)
            at = halve(&features, at, 2 * stage, widths[stage]);
        for (uint32_t i = 0; i < depths[stage]; i++, count++) {
            struct builder inside = builder_within(&features, "%u.%u.", 2 * stage + 1, i);
            at = block(&inside, at, 0.1f * (float)count / 17.0f);
        }
    }
    at = build_layer_norm(&builder, "classifier.0", build_global_average(&builder, "avgpool", at), epsilon);
    build_classifier(&builder, "classifier.2", at);
}
