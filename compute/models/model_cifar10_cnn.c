/* The convolutional networks of Keras' examples for CIFAR-10, and the smallest one (doc/models.md). */
#include "compute/models/models.h"
#include "compute/models/parts.h"

void model_build_cifar10_cnn(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct draft draft = draft_of(net, options, &style_keras);
    uint32_t at = part_conv_relu(&draft, "1", NET_INPUT, 32, window_same(3, 1));
    at = part_conv_relu(&draft, "2", at, 32, window_valid(3, 1));
    at = part_max_pool(&draft, "pool1", at, window_valid(2, 2));
    at = part_dropout(&draft, "dropout1", at, 0.25f);
    at = part_conv_relu(&draft, "3", at, 64, window_same(3, 1));
    at = part_conv_relu(&draft, "4", at, 64, window_valid(3, 1));
    at = part_max_pool(&draft, "pool2", at, window_valid(2, 2));
    at = part_dropout(&draft, "dropout2", at, 0.25f);
    at = part_dense_relu(&draft, "1", at, 512);
    at = part_dropout(&draft, "dropout3", at, 0.5f);
    part_classes(&draft, "fc2", at);
}

void model_build_small_cifar(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct draft draft = draft_of(net, options, &style_keras);
    const uint32_t at = part_conv_relu(&draft, "1", NET_INPUT, 32, window_same(3, 1));
    part_classes(&draft, "fc", at);
}
