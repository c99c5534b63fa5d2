/* RegNetY of 1.6 GFLOPs as torchvision has it (Radosavovic et al. 2020; doc/models.md): a residual network of
 * bottlenecks with groups of 24 channels and squeeze and excitation. Names are torchvision's. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

enum { STAGES = 4, STEM_FILTERS = 32, GROUP_WIDTH = 24 };

static const struct style torchvision = {
    .divisor = 255, .mean = torchvision_mean, .std = torchvision_std,
    .conv = he_normal_fan_out, .classes = normal_001, .biases = pytorch_uniform,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};

static uint32_t conv_norm(const struct builder *builder, const char *module, uint32_t from, struct conv2d how)
{
    struct builder inside = builder_within(builder, "%s.", module);
    return build_norm(&inside, "1", build_grouped_conv(&inside, "0", from, how));
}

static struct conv2d pointwise(uint32_t filters, uint32_t stride)
{
    return (struct conv2d){ .filters = filters, .groups = 1, .window = window_centred(1, stride) };
}

static uint32_t block(struct builder *builder, uint32_t from, uint32_t filters, uint32_t stride)
{
    const uint32_t channels = builder_channels(builder, from);
    const struct conv2d grouped = { .filters = filters, .groups = filters / GROUP_WIDTH,
                                    .window = window_centred(3, stride) };
    struct builder branch = builder_within(builder, "f."), excitation = builder_within(builder, "f.se.");
    uint32_t at = conv_norm(&branch, "a", from, pointwise(filters, 1));
    at = build_relu(&branch, "a.2", at);
    at = conv_norm(&branch, "b", at, grouped);
    at = build_relu(&branch, "b.2", at);
    at = build_excitation(&excitation, at, (channels + 2) / 4, ACTIVATION_COUNT, ACTIVATION_SIGMOID);
    const uint32_t around = channels != filters || stride != 1
                                ? conv_norm(builder, "proj", from, pointwise(filters, stride)) : from;
    at = conv_norm(&branch, "c", at, pointwise(filters, 1));
    return build_relu(builder, "activation", build_add(builder, "add", at, around));
}

void model_build_regnet(struct net *net, const struct model_options *options, uint32_t variant)
{
    static const uint32_t widths[STAGES] = { 48, 120, 336, 888 }, depths[STAGES] = { 2, 6, 17, 2 };
    struct builder builder = builder_of(net, options, &torchvision);
    const struct conv2d stem = { .filters = STEM_FILTERS, .groups = 1, .window = window_centred(3, 2) };
    uint32_t at = conv_norm(&builder, "stem", NET_INPUT, stem);
    at = build_relu(&builder, "stem.2", at);
    (void)variant;
    for (uint32_t stage = 0; stage < STAGES; stage++)
        for (uint32_t i = 0; i < depths[stage]; i++) {
            struct builder inside =
                builder_within(&builder, "trunk_output.block%u.block%u-%u.", stage + 1, stage + 1, i);
            at = block(&inside, at, widths[stage], i == 0 ? 2 : 1);
        }
    const uint32_t classes = build_classifier(&builder, "fc", build_global_average(&builder, "avgpool", at));
    build_initializers(&builder, classes, normal_001(0, 0), 0);
}
