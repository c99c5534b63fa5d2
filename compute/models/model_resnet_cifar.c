/* The residual networks for CIFAR-10 images as tf_cnn_benchmarks has them: v1 (He et al. 2015, section
 * 4.2) and v2 (He et al. 2016, normalisation and ReLU before the convolutions); doc/models.md. Names are
 * those PyTorch would give. */
#include "compute/models/models.h"
#include "compute/models/parts.h"

enum { STAGES = 3, STEM_CHANNELS = 16 };

/* What the branch is added to: the input, or, where channels change, every stride-th pixel of it
 * between channels of zeros ("option A": no parameters). */
static uint32_t shortcut(struct draft *draft, uint32_t from, uint32_t channels, uint32_t stride)
{
    if (channels_of(draft, from) == channels)
        return from;
    return part_pad_channels(draft, "shortcut", from, channels, stride);
}

/* The shortcut comes before the last convolution, so that this one, or the normalisation behind it,
 * can be computed as one with the sum and the ReLU. */
static uint32_t block_v1(struct draft *draft, uint32_t from, uint32_t channels, uint32_t stride)
{
    uint32_t at = part_conv_norm_relu(draft, "1", from, channels, window_same(3, stride));
    const uint32_t around = shortcut(draft, from, channels, stride);
    at = part_conv_norm(draft, "2", at, channels, window_same(3, 1));
    at = part_add(draft, "add", at, around);
    return part_relu(draft, "relu2", at);
}

/* The shortcut carries what the block read, not what was normalised; nothing follows the sum. */
static uint32_t block_v2(struct draft *draft, uint32_t from, uint32_t channels, uint32_t stride)
{
    uint32_t at = part_norm_as(draft, "bn1", from, norm_without_gamma);
    at = part_relu(draft, "relu1", at);
    at = part_conv(draft, "conv1", at, channels, window_same(3, stride));
    at = part_norm(draft, "bn2", at);
    at = part_relu(draft, "relu2", at);
    const uint32_t around = shortcut(draft, from, channels, stride);
    at = part_conv(draft, "conv2", at, channels, window_same(3, 1));
    return part_add(draft, "add", at, around);
}

/* Three stages of n blocks for 6 * n + 2 layers; each stage but the first halves the image and
 * doubles the channels. */
static uint32_t stages(struct draft *draft, uint32_t from, uint32_t layers,
                       uint32_t (*block)(struct draft *, uint32_t from, uint32_t channels, uint32_t stride))
{
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (uint32_t i = 0; i < (layers - 2) / 6; i++) {
            struct draft inside = draft_in(draft, "layer%u.%u.", stage + 1, i);
            from = block(&inside, from, STEM_CHANNELS << stage, stage > 0 && i == 0 ? 2 : 1);
        }
    return from;
}

/* The stem has no ReLU: the first block's shortcut carries signed values. */
void model_build_resnet_cifar_v1(struct net *net, const struct model_options *options, uint32_t layers)
{
    struct draft draft = draft_of(net, options, &style_benchmarks);
    uint32_t at = part_conv_norm(&draft, "1", NET_INPUT, STEM_CHANNELS, window_same(3, 1));
    at = stages(&draft, at, layers, block_v1);
    at = part_mean(&draft, "avgpool", at);
    part_classes(&draft, "fc", at);
}

/* The stem has its ReLU, and the first block normalises once more. */
void model_build_resnet_cifar_v2(struct net *net, const struct model_options *options, uint32_t layers)
{
    struct draft draft = draft_of(net, options, &style_benchmarks);
    uint32_t at = part_conv_norm_relu(&draft, "1", NET_INPUT, STEM_CHANNELS, window_same(3, 1));
    at = stages(&draft, at, layers, block_v2);
    at = part_norm_as(&draft, "bn2", at, norm_without_gamma);
    at = part_relu(&draft, "relu2", at);
    at = part_mean(&draft, "avgpool", at);
    part_classes(&draft, "fc", at);
}
