/* VGG with 19 layers for CIFAR-10 images as bearpaw/pytorch-classification has it: one dense layer, and with batch
 * normalisation the convolutions keep their biases (doc/models.md). Names are PyTorch's, by number. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

static const float mean[] = { 0.4914f, 0.4822f, 0.4465f }, std[] = { 0.2023f, 0.1994f, 0.2010f };

static const struct style style = {
    .divisor = 255, .mean = mean, .std = std,
    .conv = he_normal_fan_out, .classes = normal_001,
    .norm = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true },
};

/* The convolutions of the groups; each group ends in a pool. */
static const struct { uint32_t convs, filters; } groups[] = {
    { 2, 64 }, { 2, 128 }, { 4, 256 }, { 4, 512 }, { 4, 512 },
};

static uint32_t group(struct sequential *sequential, uint32_t from, uint32_t convs, uint32_t filters, bool with_norm)
{
    for (uint32_t i = 0; i < convs; i++) {
        from = build_conv_bias(sequential_next(sequential), "", from, filters, window_centred(3, 1));
        if (with_norm)
            from = build_norm(sequential_next(sequential), "", from);
        from = build_relu(sequential_next(sequential), "", from);
    }
    return build_max_pool(sequential_next(sequential), "", from, window_valid(2, 2));
}

void model_build_vgg_cifar(struct net *net, const struct model_options *options, uint32_t with_norm)
{
    struct builder builder = builder_of(net, options, &style);
    struct sequential features = { .builder = builder_within(&builder, "features.") };
    uint32_t at = NET_INPUT;
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        at = group(&features, at, groups[i].convs, groups[i].filters, with_norm);
    build_classifier(&builder, "classifier", at);
}
