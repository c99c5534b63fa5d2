/* The densely connected networks for CIFAR-10 images as tf_cnn_benchmarks has them (Huang et al. 2016, without
 * bottlenecks; doc/models.md): every layer's result is put behind what it read. Names are in the manner of
 * torchvision's. */
#include <math.h>

#include "compute/models/models.h"
#include "compute/models/parts.h"

enum { BLOCKS = 3, STEM_CHANNELS = 16 };

/* What the builder's `variant` says. */
static const struct { uint32_t layers_per_block, growth; } variants[] = {
    [DENSENET40_K12] = { 12, 12 },
    [DENSENET100_K12] = { 32, 12 },
    [DENSENET100_K24] = { 32, 24 },
};

static uint32_t norm_relu(struct draft *draft, uint32_t from)
{
    const uint32_t at = part_norm(draft, "norm", from);
    return part_relu(draft, "relu", at);
}

/* The std is that of a 3x3 window whatever the window is. */
static uint32_t conv(struct draft *draft, uint32_t from, uint32_t filters, struct window window)
{
    const float std = sqrtf(2.0f / 9.0f / (float)filters);
    const uint32_t at = part_conv_bias(draft, "conv", from, filters, window);
    part_begin(draft, at, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, std }, 0);
    return at;
}

static uint32_t dense_layer(struct draft *draft, uint32_t from, uint32_t growth)
{
    const uint32_t at = norm_relu(draft, from);
    const uint32_t both[] = { from, conv(draft, at, growth, window_same(3, 1)) };
    return part_concat(draft, "concat", both, 2);
}

/* To 2 * growth channels, not to as many as there were: the published counts are those of this width. */
static uint32_t transition(struct draft *draft, uint32_t from, uint32_t growth)
{
    uint32_t at = norm_relu(draft, from);
    at = conv(draft, at, 2 * growth, window_same(1, 1));
    at = part_relu(draft, "relu_out", at);
    return part_average_pool(draft, "pool", at, window_valid(2, 2));
}

static uint32_t block(struct draft *draft, uint32_t from, uint32_t layers, uint32_t growth)
{
    for (uint32_t i = 1; i <= layers; i++) {
        struct draft layer = draft_in(draft, "denselayer%u.", i);
        from = dense_layer(&layer, from, growth);
    }
    return from;
}

void model_build_densenet_cifar(struct net *net, const struct model_options *options, uint32_t variant)
{
    const uint32_t layers = variants[variant].layers_per_block, growth = variants[variant].growth;
    struct draft draft = draft_of(net, options, &style_benchmarks), features = draft_in(&draft, "features.");
    uint32_t at = part_conv_bias(&features, "conv", NET_INPUT, STEM_CHANNELS, window_same(3, 1));
    for (uint32_t i = 1; i <= BLOCKS; i++) {
        struct draft dense = draft_in(&features, "denseblock%u.", i), between = draft_in(&features, "transition%u.", i);
        at = block(&dense, at, layers, growth);
        at = i < BLOCKS ? transition(&between, at, growth) : norm_relu(&features, at);
    }
    at = part_mean(&draft, "avgpool", at);
    part_classes(&draft, "classifier", at);
}
