/* The network for CIFAR-10 images that tf_cnn_benchmarks calls alexnet (doc/models.md): that of TensorFlow's CIFAR-10
 * tutorial, after cuda-convnet, and no relative of the AlexNet for ImageNet. */
#include "compute/models/models.h"
#include "compute/models/parts.h"

static const struct local_response_norm response = { .size = 9, .alpha = 0.001f, .beta = 0.75f, .k = 1 };

static uint32_t conv(struct draft *draft, const char *name, uint32_t from, float bias)
{
    const uint32_t at = part_conv_bias(draft, name, from, 64, window_same(5, 1));
    part_begin(draft, at, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, 0.05f }, bias);
    return at;
}

static uint32_t dense(struct draft *draft, const char *name, uint32_t from, uint32_t units)
{
    const uint32_t at = part_dense(draft, name, from, units);
    part_begin(draft, at, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, 0.04f }, 0.1f);
    return at;
}

/* The pool comes before the normalisation, then behind it. */
void model_build_alexnet_cifar(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct draft draft = draft_of(net, options, &style_benchmarks);
    uint32_t at = conv(&draft, "conv1", NET_INPUT, 0);
    at = part_relu(&draft, "relu1", at);
    at = part_max_pool(&draft, "pool1", at, window_same(3, 2));
    at = part_local_response_norm(&draft, "norm1", at, response);
    at = conv(&draft, "conv2", at, 0.1f);
    at = part_relu(&draft, "relu2", at);
    at = part_local_response_norm(&draft, "norm2", at, response);
    at = part_max_pool(&draft, "pool2", at, window_same(3, 2));
    at = dense(&draft, "fc1", at, 384);
    at = part_relu(&draft, "relu3", at);
    at = dense(&draft, "fc2", at, 192);
    at = part_relu(&draft, "relu4", at);
    part_classes(&draft, "fc3", at);
}
