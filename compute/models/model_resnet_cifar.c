/* The residual networks for CIFAR-10 images as tf_cnn_benchmarks has them (He et al. 2015, section
 * 4.2; doc/models.md). Names are those PyTorch would give. */
#include <math.h>
#include <stdio.h>

#include "compute/model.h"

enum { STAGES = 3, STEM_CHANNELS = 16 };

/* Where the names of a block's layers begin ("layer2.0"), and the name last made. */
struct block { char prefix[24], name[48]; };

static const char *named(struct block *block, const char *layer)
{
    snprintf(block->name, sizeof(block->name), "%s.%s", block->prefix, layer);
    return block->name;
}

/* 3x3, no bias, weights of variance 1 / fan-in. */
static uint32_t conv(struct net *net, const char *name, uint32_t from, uint32_t channels, uint32_t stride)
{
    const int64_t layer = net_conv2d(net, name, from, channels, window_square(3, stride, PADDING_SAME), false);
    if (layer >= 0) {
        const uint32_t weight = net->layers[layer].parameters[PARAMETER_WEIGHT];
        net_initialize(net, layer, PARAMETER_WEIGHT, initializer_variance_scaling(net->parameters[weight].fan_in));
    }
    return (uint32_t)layer;
}

static uint32_t norm(struct net *net, const char *name, uint32_t from)
{
    return (uint32_t)net_batch_norm(net, name, from, (struct batch_norm){ 0.9f, 1e-5f, .with_gamma = true });
}

static uint32_t relu(struct net *net, const char *name, uint32_t from)
{
    return (uint32_t)net_relu(net, name, from);
}

static uint32_t channels_of(const struct net *net, uint32_t from)
{
    return net->error[0] == '\0' ? net->layers[from].out.channels : 0;
}

/* What the branch is added to: the input, or, where channels change, every stride-th pixel of it
 * between channels of zeros ("option A": no parameters). */
static uint32_t shortcut(struct net *net, const char *name, uint32_t from, uint32_t channels, uint32_t stride)
{
    if (channels_of(net, from) == channels)
        return from;
    return (uint32_t)net_pad_channels(net, name, from, channels, stride);
}

/* The shortcut comes before the last normalisation, so that this one, the sum and the ReLU behind
 * them can be computed as one. */
static uint32_t block_v1(struct net *net, struct block *block, uint32_t from, uint32_t channels, uint32_t stride)
{
    uint32_t at = conv(net, named(block, "conv1"), from, channels, stride);
    at = norm(net, named(block, "bn1"), at);
    at = relu(net, named(block, "relu1"), at);
    at = conv(net, named(block, "conv2"), at, channels, 1);
    const uint32_t around = shortcut(net, named(block, "shortcut"), from, channels, stride);
    at = norm(net, named(block, "bn2"), at);
    at = (uint32_t)net_add(net, named(block, "add"), at, around);
    return relu(net, named(block, "relu2"), at);
}

/* Three stages of so many blocks; each but the first halves the image and doubles the channels. */
static uint32_t stages(struct net *net, uint32_t from, uint32_t blocks)
{
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (uint32_t i = 0; i < blocks; i++) {
            struct block block;
            snprintf(block.prefix, sizeof(block.prefix), "layer%u.%u", stage + 1, i);
            from = block_v1(net, &block, from, STEM_CHANNELS << stage, stage > 0 && i == 0 ? 2 : 1);
        }
    return from;
}

static void head(struct net *net, uint32_t from)
{
    const uint32_t mean = (uint32_t)net_global_average(net, "avgpool", from);
    const float deviation = sqrtf(1.0f / (float)(STEM_CHANNELS << (STAGES - 1)));
    const int64_t classes = net_dense(net, "fc", mean, net->classes, true);
    net_initialize(net, classes, PARAMETER_WEIGHT, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, deviation });
    net_softmax_loss(net, "loss", (uint32_t)classes);
}

/* Pixels go to [-1, 1]. The stem has no ReLU: the first block's shortcut carries signed values. */
static void build_v1(struct net *net, uint32_t blocks)
{
    static const float mean[] = { 1, 1, 1 };
    net_transform(net, 127.5f, mean, NULL);
    const uint32_t stem = conv(net, "conv1", NET_INPUT, STEM_CHANNELS, 1);
    head(net, stages(net, norm(net, "bn1", stem), blocks));
}

void model_build_resnet20_v1(struct net *net, const struct model_options *options)
{
    (void)options;
    build_v1(net, 3);
}
