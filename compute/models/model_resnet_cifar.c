/* The residual networks for CIFAR-10 images as tf_cnn_benchmarks has them: v1 (He et al. 2015, section
 * 4.2) and v2 (He et al. 2016, normalisation and ReLU before the convolutions); doc/models.md. Names are
 * those PyTorch would give. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

enum { STAGES = 3, STEM_CHANNELS = 16 };

/* The shortcut: the input, or, where channels change, every stride-th pixel of it between channels of zeros ("option
 * A": no parameters). */
static uint32_t shortcut(struct builder *builder, uint32_t from, uint32_t channels, uint32_t stride)
{
    if (builder_channels(builder, from) == channels)
        return from;
    return build_pad_channels(builder, "shortcut", from, channels, stride);
}

/* The shortcut comes before the last convolution, so that this convolution, or the normalisation after it, can be fused
 * with the sum and the ReLU. */
static uint32_t block_v1(struct builder *builder, uint32_t from, uint32_t channels, uint32_t stride)
{
    uint32_t at = build_conv_norm_relu(builder, "1", from, channels, window_same(3, stride));
    const uint32_t around = shortcut(builder, from, channels, stride);
    at = build_conv_norm(builder, "2", at, channels, window_same(3, 1));
    at = build_add(builder, "add", at, around);
    return build_relu(builder, "relu2", at);
}

/* The shortcut carries the input of the block before its normalisation; nothing follows the sum. */
static uint32_t block_v2(struct builder *builder, uint32_t from, uint32_t channels, uint32_t stride)
{
    uint32_t at = build_norm_with(builder, "bn1", from, norm_without_gamma);
    at = build_relu(builder, "relu1", at);
    at = build_conv(builder, "conv1", at, channels, window_same(3, stride));
    at = build_norm(builder, "bn2", at);
    at = build_relu(builder, "relu2", at);
    const uint32_t around = shortcut(builder, from, channels, stride);
    at = build_conv(builder, "conv2", at, channels, window_same(3, 1));
    return build_add(builder, "add", at, around);
}

/* Three stages of n blocks for 6 * n + 2 layers; each stage but the first halves the image and
 * doubles the channels. */
static uint32_t stages(struct builder *builder, uint32_t from, uint32_t layers,
                       uint32_t (*block)(struct builder *, uint32_t from, uint32_t channels, uint32_t stride))
{
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (uint32_t i = 0; i < (layers - 2) / 6; i++) {
            struct builder inside = builder_within(builder, "layer%u.%u.", stage + 1, i);
            from = block(&inside, from, STEM_CHANNELS << stage, stage > 0 && i == 0 ? 2 : 1);
        }
    return from;
}

/* The stem has no ReLU: the first block's shortcut carries signed values. */
void model_build_resnet_cifar_v1(struct net *net, const struct model_options *options, uint32_t layers)
{
    struct builder builder = builder_of(net, options, &style_benchmarks);
    uint32_t at = build_conv_norm(&builder, "1", NET_INPUT, STEM_CHANNELS, window_same(3, 1));
    at = stages(&builder, at, layers, block_v1);
    at = build_global_average(&builder, "avgpool", at);
    build_classifier(&builder, "fc", at);
}

/* The stem has a ReLU, and the first block normalises again. */
void model_build_resnet_cifar_v2(struct net *net, const struct model_options *options, uint32_t layers)
{
    struct builder builder = builder_of(net, options, &style_benchmarks);
    uint32_t at = build_conv_norm_relu(&builder, "1", NET_INPUT, STEM_CHANNELS, window_same(3, 1));
    at = stages(&builder, at, layers, block_v2);
    at = build_norm_with(&builder, "bn2", at, norm_without_gamma);
    at = build_relu(&builder, "relu2", at);
    at = build_global_average(&builder, "avgpool", at);
    build_classifier(&builder, "fc", at);
}
