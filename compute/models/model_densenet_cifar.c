/* The densely connected networks for CIFAR-10 images as tf_cnn_benchmarks has them (Huang et al. 2016, without
 * bottlenecks; doc/models.md): every layer's output is concatenated with its input. Names are in the manner of
 * torchvision's. */
#include <math.h>

#include "compute/models/builder.h"
#include "compute/models/models.h"

enum { BLOCKS = 3, STEM_CHANNELS = 16 };

/* The settings of each variant. */
static const struct { uint32_t layers_per_block, growth; } variants[] = {
    [DENSENET40_K12] = { 12, 12 },
    [DENSENET100_K12] = { 32, 12 },
    [DENSENET100_K24] = { 32, 24 },
};

static uint32_t norm_relu(struct builder *builder, uint32_t from)
{
    const uint32_t at = build_norm(builder, "norm", from);
    return build_relu(builder, "relu", at);
}

/* The initial weights of every convolution have the std for a 3x3 window. */
static uint32_t conv(struct builder *builder, uint32_t from, uint32_t filters, struct window window)
{
    const float std = sqrtf(2.0f / 9.0f / (float)filters);
    const uint32_t at = build_conv_bias(builder, "conv", from, filters, window);
    build_initializers(builder, at, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, std }, 0);
    return at;
}

static uint32_t dense_layer(struct builder *builder, uint32_t from, uint32_t growth)
{
    const uint32_t at = norm_relu(builder, from);
    const uint32_t both[] = { from, conv(builder, at, growth, window_same(3, 1)) };
    return build_concat(builder, "concat", both, 2);
}

/* Reduces to 2 * growth channels, not to the number of the input: the published parameter counts are for this width. */
static uint32_t transition(struct builder *builder, uint32_t from, uint32_t growth)
{
    uint32_t at = norm_relu(builder, from);
    at = conv(builder, at, 2 * growth, window_same(1, 1));
    at = build_relu(builder, "relu_out", at);
    return build_average_pool(builder, "pool", at, window_valid(2, 2));
}

static uint32_t block(struct builder *builder, uint32_t from, uint32_t layers, uint32_t growth)
{
    for (uint32_t i = 1; i <= layers; i++) {
        struct builder layer = builder_within(builder, "denselayer%u.", i);
        from = dense_layer(&layer, from, growth);
    }
    return from;
}

void model_build_densenet_cifar(struct net *net, const struct model_options *options, uint32_t variant)
{
    const uint32_t layers = variants[variant].layers_per_block, growth = variants[variant].growth;
    struct builder builder = builder_of(net, options, &style_benchmarks),
                   features = builder_within(&builder, "features.");
    uint32_t at = build_conv_bias(&features, "conv", NET_INPUT, STEM_CHANNELS, window_same(3, 1));
    for (uint32_t i = 1; i <= BLOCKS; i++) {
        struct builder dense = builder_within(&features, "denseblock%u.", i),
                       between = builder_within(&features, "transition%u.", i);
        at = block(&dense, at, layers, growth);
        at = i < BLOCKS ? transition(&between, at, growth) : norm_relu(&features, at);
    }
    at = build_global_average(&builder, "avgpool", at);
    build_classifier(&builder, "classifier", at);
}
