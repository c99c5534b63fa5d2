/* MobileNetV2 (Sandler et al. 2018), also for 32x32 images, and MobileNetV3-Large (Howard et al. 2019) as torchvision
 * has them: blocks that expand the channels, filter each channel alone, and reduce the channels (doc/models.md). Names
 * are torchvision's. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The activation after a normalisation. */
enum after { AFTER_NOTHING, AFTER_RELU, AFTER_RELU6, AFTER_HARD_SWISH };

static uint32_t activation(struct builder *builder, uint32_t from, enum after after)
{
    switch (after) {
    case AFTER_RELU: return build_relu(builder, "", from);
    case AFTER_RELU6: return build_clipped_relu(builder, "", from, 6);
    case AFTER_HARD_SWISH: return build_activation(builder, "", from, ACTIVATION_HARD_SWISH);
    default: return from;
    }
}

/* Appends a convolution, a normalisation and an activation, which are called by their numbers. */
static uint32_t conv(struct sequential *sequential, uint32_t from, struct conv2d how, enum after after)
{
    uint32_t at = build_grouped_conv(sequential_next(sequential), "", from, how);
    at = build_norm(sequential_next(sequential), "", at);
    return after == AFTER_NOTHING ? at : activation(sequential_next(sequential), at, after);
}

/* The same as a module of its own in a Sequential. */
static uint32_t conv_module(struct sequential *modules, uint32_t from, struct conv2d how, enum after after)
{
    struct sequential inside = { .builder = builder_within(sequential_next(modules), ".") };
    return conv(&inside, from, how, after);
}

static struct conv2d pointwise(uint32_t filters)
{
    return (struct conv2d){ .filters = filters, .groups = 1, .window = window_centred(1, 1) };
}

static struct conv2d depthwise(uint32_t channels, uint32_t kernel, uint32_t stride)
{
    return (struct conv2d){ .filters = channels, .groups = channels, .window = window_centred(kernel, stride) };
}

static struct conv2d stem(uint32_t filters, uint32_t stride)
{
    return (struct conv2d){ .filters = filters, .groups = 1, .window = window_centred(3, stride) };
}

/* ---- MobileNetV2 ---- */

static const struct style style_v2 = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = he_normal_fan_out, .classes = normal_001,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};

static uint32_t block_v2(struct sequential *features, uint32_t from, uint32_t expansion, uint32_t filters,
                         uint32_t stride)
{
    struct builder builder = builder_within(sequential_next(features), ".");
    struct sequential modules = { .builder = builder_within(&builder, "conv.") };
    const uint32_t channels = builder_channels(&builder, from), wide = expansion * channels;
    uint32_t at = from;
    if (expansion != 1)
        at = conv_module(&modules, at, pointwise(wide), AFTER_RELU6);
    at = conv_module(&modules, at, depthwise(wide, 3, stride), AFTER_RELU6);
    at = conv(&modules, at, pointwise(filters), AFTER_NOTHING);
    return stride == 1 && channels == filters ? build_add(&builder, "add", at, from) : at;
}

/* Sandler et al. 2018, table 2; the strides of the stem and of the second row are `stride`. */
static void build_v2(struct net *net, const struct model_options *options, uint32_t stride)
{
    const struct { uint32_t expansion, filters, blocks, stride; } rows[] = {
        { 1, 16, 1, 1 }, { 6, 24, 2, stride }, { 6, 32, 3, 2 }, { 6, 64, 4, 2 }, { 6, 96, 3, 1 }, { 6, 160, 3, 2 },
        { 6, 320, 1, 1 },
    };
    struct builder builder = builder_of(net, options, &style_v2);
    struct sequential features = { .builder = builder_within(&builder, "features.") };
    uint32_t at = conv_module(&features, NET_INPUT, stem(32, stride), AFTER_RELU6);
    for (size_t row = 0; row < COUNT(rows); row++)
        for (uint32_t i = 0; i < rows[row].blocks; i++)
            at = block_v2(&features, at, rows[row].expansion, rows[row].filters, i == 0 ? rows[row].stride : 1);
    at = conv_module(&features, at, pointwise(1280), AFTER_RELU6);
    at = build_global_average(&builder, "avgpool", at);
    build_classifier(&builder, "classifier.1", build_dropout(&builder, "classifier.0", at, 0.2f));
}

void model_build_mobilenet_v2(struct net *net, const struct model_options *options, uint32_t stride)
{
    build_v2(net, options, stride);
}

/* ---- MobileNetV3 ---- */

static const struct style style_v3 = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = he_normal_fan_out, .hidden = normal_001, .classes = normal_001,
    .norm = { .decay = 0.99, .epsilon = 1e-3f, .with_gamma = true },
};

struct block_v3 { uint32_t kernel, expanded, filters; bool with_excitation; enum after after; uint32_t stride; };

static uint32_t block_v3(struct sequential *features, uint32_t from, const struct block_v3 *block)
{
    struct builder builder = builder_within(sequential_next(features), ".");
    struct sequential modules = { .builder = builder_within(&builder, "block.") };
    const uint32_t channels = builder_channels(&builder, from);
    uint32_t at = from;
    if (block->expanded != channels)
        at = conv_module(&modules, at, pointwise(block->expanded), block->after);
    at = conv_module(&modules, at, depthwise(block->expanded, block->kernel, block->stride), block->after);
    if (block->with_excitation) {
        struct builder excitation = builder_within(sequential_next(&modules), ".");
        at = build_excitation(&excitation, at, build_divisible(block->expanded / 4, 8), ACTIVATION_COUNT,
                              ACTIVATION_HARD_SIGMOID);
    }
    at = conv_module(&modules, at, pointwise(block->filters), AFTER_NOTHING);
    return block->stride == 1 && channels == block->filters ? build_add(&builder, "add", at, from) : at;
}

/* Howard et al. 2019, table 1. */
void model_build_mobilenet_v3(struct net *net, const struct model_options *options, uint32_t variant)
{
    static const struct block_v3 blocks[] = {
        { 3, 16, 16, false, AFTER_RELU, 1 },         { 3, 64, 24, false, AFTER_RELU, 2 },
        { 3, 72, 24, false, AFTER_RELU, 1 },         { 5, 72, 40, true, AFTER_RELU, 2 },
        { 5, 120, 40, true, AFTER_RELU, 1 },         { 5, 120, 40, true, AFTER_RELU, 1 },
        { 3, 240, 80, false, AFTER_HARD_SWISH, 2 },  { 3, 200, 80, false, AFTER_HARD_SWISH, 1 },
        { 3, 184, 80, false, AFTER_HARD_SWISH, 1 },  { 3, 184, 80, false, AFTER_HARD_SWISH, 1 },
        { 3, 480, 112, true, AFTER_HARD_SWISH, 1 },  { 3, 672, 112, true, AFTER_HARD_SWISH, 1 },
        { 5, 672, 160, true, AFTER_HARD_SWISH, 2 },  { 5, 960, 160, true, AFTER_HARD_SWISH, 1 },
        { 5, 960, 160, true, AFTER_HARD_SWISH, 1 },
    };
    struct builder builder = builder_of(net, options, &style_v3);
    struct sequential features = { .builder = builder_within(&builder, "features.") };
    uint32_t at = conv_module(&features, NET_INPUT, stem(16, 2), AFTER_HARD_SWISH);
    (void)variant;
    for (size_t i = 0; i < COUNT(blocks); i++)
        at = block_v3(&features, at, &blocks[i]);
    at = conv_module(&features, at, pointwise(960), AFTER_HARD_SWISH);
    at = build_dense(&builder, "classifier.0", build_global_average(&builder, "avgpool", at), 1280);
    at = build_activation(&builder, "classifier.1", at, ACTIVATION_HARD_SWISH);
    build_classifier(&builder, "classifier.3", build_dropout(&builder, "classifier.2", at, 0.2f));
}
