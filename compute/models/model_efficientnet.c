/* EfficientNet-B0 (Tan, Le 2019) and EfficientNetV2-S (2021) as torchvision has them: blocks that expand the channels,
 * weigh them by squeeze and excitation, reduce them, and are left out at random in training (doc/models.md). Names are
 * torchvision's. */
#include <math.h>

#include "compute/models/builder.h"
#include "compute/models/models.h"

/* The blocks of a stage; fused: a convolution of all channels expands and filters at once, without excitation. */
struct stage { bool is_fused; uint32_t expansion, kernel, stride, filters, blocks; };

static struct initializer classes_uniform(uint64_t fan_in, uint64_t fan_out)
{
    (void)fan_in;
    return (struct initializer){ INITIALIZER_UNIFORM, 1.0f / sqrtf((float)fan_out) };
}

static const struct style style_b0 = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = he_normal_fan_out, .classes = classes_uniform,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};
static const struct style style_v2 = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = he_normal_fan_out, .classes = classes_uniform,
    .norm = { .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true },
};

static const struct variant { const struct style *style; uint32_t stem; struct stage stages[8]; } variants[] = {
    [EFFICIENTNET_B0] = { &style_b0, 32, {
        { false, 1, 3, 1, 16, 1 }, { false, 6, 3, 2, 24, 2 }, { false, 6, 5, 2, 40, 2 }, { false, 6, 3, 2, 80, 3 },
        { false, 6, 5, 1, 112, 3 }, { false, 6, 5, 2, 192, 4 }, { false, 6, 3, 1, 320, 1 },
    } },
    [EFFICIENTNET_V2_S] = { &style_v2, 24, {
        { true, 1, 3, 1, 24, 2 }, { true, 4, 3, 2, 48, 4 }, { true, 4, 3, 2, 64, 4 }, { false, 4, 3, 2, 128, 6 },
        { false, 6, 3, 1, 160, 9 }, { false, 6, 3, 2, 256, 15 },
    } },
};

/* Appends a convolution, a normalisation and an activation as a module. */
static uint32_t conv(struct sequential *modules, uint32_t from, struct conv2d how, bool with_activation)
{
    struct builder builder = builder_within(sequential_next(modules), ".");
    uint32_t at = build_grouped_conv(&builder, "0", from, how);
    at = build_norm(&builder, "1", at);
    return with_activation ? build_activation(&builder, "2", at, ACTIVATION_SILU) : at;
}

static struct conv2d window_of(uint32_t filters, uint32_t kernel, uint32_t stride, uint32_t groups)
{
    return (struct conv2d){ .filters = filters, .groups = groups, .window = window_centred(kernel, stride) };
}

static uint32_t branch(struct sequential *modules, uint32_t from, uint32_t channels, const struct stage *stage,
                       uint32_t stride)
{
    const uint32_t wide = channels * stage->expansion;
    uint32_t at = from;
    if (stage->is_fused && wide == channels)
        return conv(modules, at, window_of(stage->filters, stage->kernel, stride, 1), true);
    if (stage->is_fused)
        at = conv(modules, at, window_of(wide, stage->kernel, stride, 1), true);
    else {
        if (wide != channels)
            at = conv(modules, at, window_of(wide, 1, 1, 1), true);
        at = conv(modules, at, window_of(wide, stage->kernel, stride, wide), true);
        struct builder excitation = builder_within(sequential_next(modules), ".");
        at = build_excitation(&excitation, at, channels / 4, ACTIVATION_SILU, ACTIVATION_SIGMOID);
    }
    return conv(modules, at, window_of(stage->filters, 1, 1, 1), false);
}

static uint32_t block(struct builder *builder, uint32_t from, const struct stage *stage, uint32_t stride, float rate)
{
    const uint32_t channels = builder_channels(builder, from);
    struct sequential modules = { .builder = builder_within(builder, "block.") };
    uint32_t at = branch(&modules, from, channels, stage, stride);
    if (stride != 1 || channels != stage->filters)
        return at;
    if (rate > 0)
        at = build_stochastic_depth(builder, "stochastic_depth", at, rate);
    return build_add(builder, "add", at, from);
}

/* Rates of stochastic depth rise linearly from 0 to almost 0.2. */
void model_build_efficientnet(struct net *net, const struct model_options *options, uint32_t variant)
{
    const struct variant *const how = &variants[variant];
    struct builder builder = builder_of(net, options, how->style);
    struct sequential features = { .builder = builder_within(&builder, "features.") };
    uint32_t at = conv(&features, NET_INPUT, window_of(how->stem, 3, 2, 1), true), count = 0, total = 0;
    for (const struct stage *stage = how->stages; stage->blocks > 0; stage++)
        total += stage->blocks;
    for (const struct stage *stage = how->stages; stage->blocks > 0; stage++) {
        const struct builder stage_builder = builder_within(sequential_next(&features), ".");
        for (uint32_t i = 0; i < stage->blocks; i++, count++) {
            struct builder inside = builder_within(&stage_builder, "%u.", i);
            at = block(&inside, at, stage, i == 0 ? stage->stride : 1, 0.2f * (float)count / (float)total);
        }
    }
    at = conv(&features, at, window_of(1280, 1, 1, 1), true);
    at = build_global_average(&builder, "avgpool", at);
    build_classifier(&builder, "classifier.1", build_dropout(&builder, "classifier.0", at, 0.2f));
}
