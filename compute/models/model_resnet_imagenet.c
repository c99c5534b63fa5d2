/* The residual networks for ImageNet (He et al. 2015; v2: 2016; doc/models.md): those of tf_cnn_benchmarks, and
 * torchvision's, which are v1.5 with another pool, other initial weights and another input, also with wider
 * bottlenecks. Names are torchvision's. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

enum { STAGES = 4, STEM_FILTERS = 64, BOTTLENECK = 4 };

/* A block of a residual network: the layer that it reads, the filters of its convolutions and of its sum, and its
 * stride, and the groups of its 3x3 convolution. */
struct block { uint32_t from, filters, sum, stride, groups; };

/* The number of blocks of each stage. */
static const uint32_t *depth_of(uint32_t layers)
{
    static const struct { uint32_t layers, blocks[STAGES]; } depths[] = {
        { 18, { 2, 2, 2, 2 } },
        { 34, { 3, 4, 6, 3 } },
        { 50, { 3, 4, 6, 3 } },
        { 101, { 3, 4, 23, 3 } },
        { 152, { 3, 8, 36, 3 } },
    };
    size_t row = 0;
    while (depths[row].layers != layers)
        row++;
    return depths[row].blocks;
}

/* ---- blocks ---- */

/* The block's input, or, where its shape differs from that of the sum, a convolution of it. */
static uint32_t shortcut(struct builder *builder, const struct block *block)
{
    if (builder_channels(builder, block->from) == block->sum)
        return block->from;
    const uint32_t at = build_conv(builder, "downsample.0", block->from, block->sum, window_centred(1, block->stride));
    return build_norm(builder, "downsample.1", at);
}

/* The shortcut comes before the last convolution, so that this convolution, or the normalisation after it, can be fused
 * with the sum and the ReLU. */
static uint32_t basic(struct builder *builder, const struct block *block)
{
    uint32_t at = build_conv_norm_relu(builder, "1", block->from, block->filters, window_centred(3, block->stride));
    const uint32_t around = shortcut(builder, block);
    at = build_conv_norm(builder, "2", at, block->sum, window_centred(3, 1));
    at = build_add(builder, "add", at, around);
    return build_relu(builder, "relu", at);
}

/* The 3x3 convolution of a bottleneck. */
static uint32_t conv_norm_relu_2(struct builder *builder, const struct block *block, uint32_t from, uint32_t stride)
{
    const struct conv2d how = { .filters = block->filters, .groups = block->groups,
                                .window = window_centred(3, stride) };
    const uint32_t at = build_grouped_conv(builder, "conv2", from, how);
    return build_relu(builder, "relu2", build_norm(builder, "bn2", at));
}

static uint32_t bottleneck(struct builder *builder, const struct block *block, uint32_t first, uint32_t second)
{
    uint32_t at = build_conv_norm_relu(builder, "1", block->from, block->filters, window_centred(1, first));
    at = conv_norm_relu_2(builder, block, at, second);
    const uint32_t around = shortcut(builder, block);
    at = build_conv_norm(builder, "3", at, block->sum, window_centred(1, 1));
    at = build_add(builder, "add", at, around);
    return build_relu(builder, "relu", at);
}

static uint32_t block_v1(struct builder *builder, const struct block *block)
{
    return bottleneck(builder, block, block->stride, 1);
}

static uint32_t block_v1_5(struct builder *builder, const struct block *block)
{
    return bottleneck(builder, block, 1, block->stride);
}

static uint32_t norm_relu(struct builder *builder, const char *norm, const char *relu, uint32_t from,
                          struct batch_norm how)
{
    return build_relu(builder, relu, build_norm_with(builder, norm, from, how));
}

/* The branch reads the normalised input of the block, and so does a convolution in the shortcut; a shortcut without one
 * carries the input itself. */
static uint32_t block_v2(struct builder *builder, const struct block *block)
{
    const uint32_t ahead = norm_relu(builder, "bn1", "relu1", block->from, norm_without_gamma);
    uint32_t around = block->from;
    if (builder_channels(builder, block->from) != block->sum)
        around = build_conv(builder, "downsample", ahead, block->sum, window_centred(1, block->stride));
    uint32_t at = build_conv(builder, "conv1", ahead, block->filters, window_centred(1, block->stride));
    at = norm_relu(builder, "bn2", "relu2", at, builder->style->norm);
    at = build_conv(builder, "conv2", at, block->filters, window_centred(3, 1));
    at = norm_relu(builder, "bn3", "relu3", at, builder->style->norm);
    at = build_conv(builder, "conv3", at, block->sum, window_centred(1, 1));
    return build_add(builder, "add", at, around);
}

/* ---- networks ---- */

static uint32_t stem(struct builder *builder, struct window pool)
{
    const uint32_t at = build_conv_norm_relu(builder, "1", NET_INPUT, STEM_FILTERS, window_centred(7, 2));
    return build_max_pool(builder, "maxpool", at, pool);
}

/* Each stage except the first starts with a block of stride 2 and doubles the filters. */
static uint32_t stages(struct builder *builder, uint32_t from, uint32_t layers, uint32_t widening,
                       uint32_t (*append)(struct builder *builder, const struct block *block))
{
    const uint32_t *const blocks = depth_of(layers);
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (uint32_t i = 0; i < blocks[stage]; i++) {
            struct block block = { .from = from, .filters = STEM_FILTERS << stage, .groups = 1 };
            block.sum = widening * block.filters;
            block.stride = stage > 0 && i == 0 ? 2 : 1;
            struct builder inside = builder_within(builder, "layer%u.%u.", stage + 1, i);
            from = append(&inside, &block);
        }
    return from;
}

static uint32_t head(struct builder *builder, uint32_t from)
{
    return build_classifier(builder, "fc", build_global_average(builder, "avgpool", from));
}

void model_build_resnet_imagenet_v1(struct net *net, const struct model_options *options, uint32_t layers)
{
    struct builder builder = builder_of(net, options, &style_benchmarks);
    head(&builder, stages(&builder, stem(&builder, window_same(3, 2)), layers, BOTTLENECK, block_v1));
}

void model_build_resnet_imagenet_v1_5(struct net *net, const struct model_options *options, uint32_t layers)
{
    struct builder builder = builder_of(net, options, &style_benchmarks);
    head(&builder, stages(&builder, stem(&builder, window_same(3, 2)), layers, BOTTLENECK, block_v1_5));
}

void model_build_resnet_imagenet_v2(struct net *net, const struct model_options *options, uint32_t layers)
{
    struct builder builder = builder_of(net, options, &style_benchmarks);
    const uint32_t at = stages(&builder, stem(&builder, window_same(3, 2)), layers, BOTTLENECK, block_v2);
    head(&builder, norm_relu(&builder, "bn2", "relu2", at, norm_without_gamma));
}

/* ---- torchvision's ---- */

static const struct style torchvision = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = he_normal_fan_out, .hidden = pytorch_uniform, .classes = pytorch_uniform, .biases = pytorch_uniform,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};

static void build_torchvision(struct net *net, const struct model_options *options, uint32_t layers,
                              uint32_t widening, uint32_t (*append)(struct builder *builder, const struct block *block))
{
    struct builder builder = builder_of(net, options, &torchvision);
    head(&builder, stages(&builder, stem(&builder, window_centred(3, 2)), layers, widening, append));
}

void model_build_resnet_torchvision(struct net *net, const struct model_options *options, uint32_t layers)
{
    const bool is_basic = layers < 50;
    build_torchvision(net, options, layers, is_basic ? 1 : BOTTLENECK, is_basic ? basic : block_v1_5);
}

/* Zagoruyko, Komodakis 2016: the 3x3 convolutions have twice the filters, and the sums as many as in v1. */
static uint32_t block_wide(struct builder *builder, const struct block *block)
{
    struct block wide = *block;
    wide.filters *= 2;
    return block_v1_5(builder, &wide);
}

static uint32_t block_resnext(struct builder *builder, const struct block *block)
{
    struct block grouped = *block;
    grouped.filters *= 2;
    grouped.groups = 32;
    return block_v1_5(builder, &grouped);
}

/* Xie et al. 2017: 32 groups of 4 channels, and twice as many in each following stage. */
void model_build_resnext(struct net *net, const struct model_options *options, uint32_t layers)
{
    build_torchvision(net, options, layers, BOTTLENECK, block_resnext);
}

void model_build_resnet_wide(struct net *net, const struct model_options *options, uint32_t layers)
{
    build_torchvision(net, options, layers, BOTTLENECK, block_wide);
}
