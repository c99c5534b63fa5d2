/* The networks of Keras' examples for MNIST (doc/models.md): the "simple convnet", its variant with a wider second
 * convolution, and the one of MultiGPU_Study. */
#include "compute/models/models.h"
#include "compute/models/parts.h"

void model_build_mnist_cnn(struct net *net, const struct model_options *options, uint32_t filters)
{
    struct draft draft = draft_of(net, options, &style_keras);
    uint32_t at = part_conv_relu(&draft, "1", NET_INPUT, 32, window_valid(3, 1));
    at = part_conv_relu(&draft, "2", at, filters, window_valid(3, 1));
    at = part_max_pool(&draft, "pool1", at, window_valid(2, 2));
    at = part_dropout(&draft, "dropout1", at, 0.25f);
    at = part_dense_relu(&draft, "1", at, 128);
    at = part_dropout(&draft, "dropout2", at, 0.5f);
    part_classes(&draft, "fc2", at);
}

/* Normalised behind the ReLU of the widest convolution, not before it. */
void model_build_multigpu_mnist(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct draft draft = draft_of(net, options, &style_keras);
    uint32_t at = part_conv_relu(&draft, "1", NET_INPUT, 32, window_valid(3, 1));
    at = part_conv_relu(&draft, "2", at, 256, window_valid(3, 1));
    at = part_norm(&draft, "bn2", at);
    at = part_conv_relu(&draft, "3", at, 128, window_valid(3, 1));
    at = part_max_pool(&draft, "pool1", at, window_valid(2, 2));
    at = part_dropout(&draft, "dropout1", at, 0.25f);
    at = part_dense_relu(&draft, "1", at, 128);
    at = part_dropout(&draft, "dropout2", at, 0.5f);
    part_classes(&draft, "fc2", at);
}
