/* ResNeXt-29, 8x64d, for CIFAR-10 images (Xie et al. 2017, table 7, and the authors' code; doc/models.md): three stages
 * of three bottlenecks whose 3x3 convolutions have 8 groups. Names are those that torchvision gives to residual
 * networks. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

enum { STAGES = 3, BLOCKS = 3, STEM_FILTERS = 64, GROUPS = 8, GROUP_WIDTH = 64, SUM = 256 };

static const float mean[] = { 0.4914f, 0.4822f, 0.4465f }, std[] = { 0.2470f, 0.2435f, 0.2616f };

static const struct style style = {
    .divisor = 255, .mean = mean, .std = std, .conv = he_normal_fan_out, .classes = pytorch_uniform,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};

static uint32_t shortcut(struct builder *builder, uint32_t from, uint32_t channels, uint32_t stride)
{
    if (builder_channels(builder, from) == channels)
        return from;
    const uint32_t at = build_conv(builder, "downsample.0", from, channels, window_centred(1, stride));
    return build_norm(builder, "downsample.1", at);
}

static uint32_t block(struct builder *builder, uint32_t from, uint32_t stage, uint32_t stride)
{
    const struct conv2d grouped = { .filters = GROUPS * GROUP_WIDTH << stage, .groups = GROUPS,
                                    .window = window_centred(3, stride) };
    uint32_t at = build_conv_norm_relu(builder, "1", from, grouped.filters, window_centred(1, 1));
    at = build_grouped_conv(builder, "conv2", at, grouped);
    at = build_relu(builder, "relu2", build_norm(builder, "bn2", at));
    const uint32_t around = shortcut(builder, from, SUM << stage, stride);
    at = build_conv_norm(builder, "3", at, SUM << stage, window_centred(1, 1));
    return build_relu(builder, "relu", build_add(builder, "add", at, around));
}

void model_build_resnext_cifar(struct net *net, const struct model_options *options, uint32_t variant)
{
    struct builder builder = builder_of(net, options, &style);
    uint32_t at = build_conv_norm_relu(&builder, "1", NET_INPUT, STEM_FILTERS, window_centred(3, 1));
    (void)variant;
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (uint32_t i = 0; i < BLOCKS; i++) {
            struct builder inside = builder_within(&builder, "layer%u.%u.", stage + 1, i);
            at = block(&inside, at, stage, stage > 0 && i == 0 ? 2 : 1);
        }
    build_classifier(&builder, "fc", build_global_average(&builder, "avgpool", at));
}
