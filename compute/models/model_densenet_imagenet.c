/* The densely connected network for ImageNet with bottlenecks and compression as torchvision has it (Huang et al. 2016,
 * DenseNet-BC; doc/models.md). Names are torchvision's. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

enum { BLOCKS = 4, STEM_FILTERS = 64, GROWTH = 32, BOTTLENECK = 4 };

static const struct style torchvision = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = he_normal_fan_in, .hidden = pytorch_uniform, .classes = pytorch_uniform,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};

static uint32_t norm_relu(struct builder *builder, const char *norm, const char *relu, uint32_t from)
{
    return build_relu(builder, relu, build_norm(builder, norm, from));
}

static uint32_t dense_layer(struct builder *builder, uint32_t from)
{
    uint32_t at = norm_relu(builder, "norm1", "relu1", from);
    at = build_conv(builder, "conv1", at, BOTTLENECK * GROWTH, window_centred(1, 1));
    at = norm_relu(builder, "norm2", "relu2", at);
    const uint32_t both[] = { from, build_conv(builder, "conv2", at, GROWTH, window_centred(3, 1)) };
    return build_concat(builder, "concat", both, 2);
}

static uint32_t block(const struct builder *builder, uint32_t from, uint32_t layers)
{
    for (uint32_t i = 1; i <= layers; i++) {
        struct builder layer = builder_within(builder, "denselayer%u.", i);
        from = dense_layer(&layer, from);
    }
    return from;
}

/* Halves the channels and the image. */
static uint32_t transition(struct builder *builder, uint32_t from)
{
    uint32_t at = norm_relu(builder, "norm", "relu", from);
    at = build_conv(builder, "conv", at, builder_channels(builder, from) / 2, window_centred(1, 1));
    return build_average_pool(builder, "pool", at, window_valid(2, 2));
}

static uint32_t stem(struct builder *builder)
{
    uint32_t at = build_conv(builder, "conv0", NET_INPUT, STEM_FILTERS, window_centred(7, 2));
    at = norm_relu(builder, "norm0", "relu0", at);
    return build_max_pool(builder, "pool0", at, window_centred(3, 2));
}

void model_build_densenet_imagenet(struct net *net, const struct model_options *options, uint32_t variant)
{
    static const uint32_t layers[BLOCKS] = { 6, 12, 24, 16 };
    struct builder builder = builder_of(net, options, &torchvision), features = builder_within(&builder, "features.");
    uint32_t at = stem(&features);
    (void)variant;
    for (uint32_t i = 1; i <= BLOCKS; i++) {
        const struct builder dense = builder_within(&features, "denseblock%u.", i);
        struct builder between = builder_within(&features, "transition%u.", i);
        at = block(&dense, at, layers[i - 1]);
        at = i < BLOCKS ? transition(&between, at) : norm_relu(&features, "norm5", "relu5", at);
    }
    at = build_global_average(&builder, "avgpool", at);
    build_classifier(&builder, "classifier", at);
}
