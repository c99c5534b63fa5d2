/* The Keras "simple convnet" for MNIST and its variant with a wider second
 * convolution (doc/models.md). */
#include "compute/model.h"

static int64_t dropout(struct net *net, const struct model_options *options, const char *name, int64_t from,
                       float rate)
{
    return options->dropout ? net_dropout(net, name, (uint32_t)from, rate) : from;
}

static int64_t conv(struct net *net, const char *name, const char *relu, uint32_t from, uint32_t filters)
{
    const struct window window = window_square(3, 1, PADDING_VALID);
    return net_relu(net, relu, (uint32_t)net_conv2d(net, name, from, filters, window, true));
}

static void build(struct net *net, const struct model_options *options, uint32_t filters)
{
    int64_t at = conv(net, "conv1", "relu1", NET_INPUT, 32);
    at = conv(net, "conv2", "relu2", (uint32_t)at, filters);
    at = net_max_pool(net, "pool1", (uint32_t)at, window_square(2, 2, PADDING_VALID));
    at = dropout(net, options, "dropout1", at, 0.25f);
    at = net_dense(net, "fc1", (uint32_t)at, 128, true);
    at = net_relu(net, "relu3", (uint32_t)at);
    at = dropout(net, options, "dropout2", at, 0.5f);
    at = net_dense(net, "fc2", (uint32_t)at, net->classes, true);
    net_softmax_loss(net, "loss", (uint32_t)at);
}

void model_build_mnist_cnn(struct net *net, const struct model_options *options)
{
    build(net, options, 32);
}

void model_build_mnist_cnn2(struct net *net, const struct model_options *options)
{
    build(net, options, 64);
}
