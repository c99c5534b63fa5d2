/* Small chains of layers (doc/models.md): the networks of Keras' examples for MNIST and CIFAR-10, and the small
 * networks of tf_cnn_benchmarks. */
#include "compute/models/builder.h"
#include "compute/models/models.h"

/* ---- Keras' examples for MNIST: the "simple convnet", its variant with a wider second convolution, and the network of
 * MultiGPU_Study ---- */

void model_build_mnist_cnn(struct net *net, const struct model_options *options, uint32_t filters)
{
    struct builder builder = builder_of(net, options, &style_keras);
    uint32_t at = build_conv_relu(&builder, "1", NET_INPUT, 32, window_valid(3, 1));
    at = build_conv_relu(&builder, "2", at, filters, window_valid(3, 1));
    at = build_max_pool(&builder, "pool1", at, window_valid(2, 2));
    at = build_dropout(&builder, "dropout1", at, 0.25f);
    at = build_dense_relu(&builder, "1", at, 128);
    at = build_dropout(&builder, "dropout2", at, 0.5f);
    build_classifier(&builder, "fc2", at);
}

/* The normalisation comes after the ReLU of the widest convolution, not before it. */
void model_build_multigpu_mnist(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct builder builder = builder_of(net, options, &style_keras);
    uint32_t at = build_conv_relu(&builder, "1", NET_INPUT, 32, window_valid(3, 1));
    at = build_conv_relu(&builder, "2", at, 256, window_valid(3, 1));
    at = build_norm(&builder, "bn2", at);
    at = build_conv_relu(&builder, "3", at, 128, window_valid(3, 1));
    at = build_max_pool(&builder, "pool1", at, window_valid(2, 2));
    at = build_dropout(&builder, "dropout1", at, 0.25f);
    at = build_dense_relu(&builder, "1", at, 128);
    at = build_dropout(&builder, "dropout2", at, 0.5f);
    build_classifier(&builder, "fc2", at);
}

/* ---- Keras' example for CIFAR-10, and the smallest network ---- */

void model_build_cifar10_cnn(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct builder builder = builder_of(net, options, &style_keras);
    uint32_t at = build_conv_relu(&builder, "1", NET_INPUT, 32, window_same(3, 1));
    at = build_conv_relu(&builder, "2", at, 32, window_valid(3, 1));
    at = build_max_pool(&builder, "pool1", at, window_valid(2, 2));
    at = build_dropout(&builder, "dropout1", at, 0.25f);
    at = build_conv_relu(&builder, "3", at, 64, window_same(3, 1));
    at = build_conv_relu(&builder, "4", at, 64, window_valid(3, 1));
    at = build_max_pool(&builder, "pool2", at, window_valid(2, 2));
    at = build_dropout(&builder, "dropout2", at, 0.25f);
    at = build_dense_relu(&builder, "1", at, 512);
    at = build_dropout(&builder, "dropout3", at, 0.5f);
    build_classifier(&builder, "fc2", at);
}

void model_build_small_cifar(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct builder builder = builder_of(net, options, &style_keras);
    const uint32_t at = build_conv_relu(&builder, "1", NET_INPUT, 32, window_same(3, 1));
    build_classifier(&builder, "fc", at);
}

/* ---- tf_cnn_benchmarks ---- */

/* In the manner of LeNet-5, for small colour images. */
void model_build_lenet(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct builder builder = builder_of(net, options, &style_benchmarks);
    uint32_t at = build_conv_relu(&builder, "1", NET_INPUT, 32, window_same(5, 1));
    at = build_max_pool(&builder, "pool1", at, window_valid(2, 2));
    at = build_conv_relu(&builder, "2", at, 64, window_same(5, 1));
    at = build_max_pool(&builder, "pool2", at, window_valid(2, 2));
    build_classifier(&builder, "fc2", build_dense_relu(&builder, "1", at, 512));
}

/* Computes next to nothing, to measure the input alone; for images of any size. */
void model_build_trivial(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct builder builder = builder_of(net, options, &style_benchmarks);
    uint32_t at = build_dense_relu(&builder, "1", NET_INPUT, 1);
    at = build_dense_relu(&builder, "2", at, 4096);
    build_classifier(&builder, "fc3", at);
}

/* The network that tf_cnn_benchmarks calls alexnet for CIFAR-10 is that of TensorFlow's CIFAR-10 tutorial, after
 * cuda-convnet; it is not related to the AlexNet for ImageNet. */
static const struct local_response_norm response = { .size = 9, .alpha = 0.001f, .beta = 0.75f, .k = 1 };

static uint32_t alexnet_conv(struct builder *builder, const char *name, uint32_t from, float bias)
{
    const uint32_t at = build_conv_bias(builder, name, from, 64, window_same(5, 1));
    build_initializers(builder, at, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, 0.05f }, bias);
    return at;
}

static uint32_t alexnet_dense(struct builder *builder, const char *name, uint32_t from, uint32_t units)
{
    const uint32_t at = build_dense(builder, name, from, units);
    build_initializers(builder, at, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, 0.04f }, 0.1f);
    return at;
}

/* The first pool comes before the normalisation, the second after it. */
void model_build_alexnet_cifar(struct net *net, const struct model_options *options, uint32_t variant)
{
    (void)variant;
    struct builder builder = builder_of(net, options, &style_benchmarks);
    uint32_t at = alexnet_conv(&builder, "conv1", NET_INPUT, 0);
    at = build_relu(&builder, "relu1", at);
    at = build_max_pool(&builder, "pool1", at, window_same(3, 2));
    at = build_local_response_norm(&builder, "norm1", at, response);
    at = alexnet_conv(&builder, "conv2", at, 0.1f);
    at = build_relu(&builder, "relu2", at);
    at = build_local_response_norm(&builder, "norm2", at, response);
    at = build_max_pool(&builder, "pool2", at, window_same(3, 2));
    at = alexnet_dense(&builder, "fc1", at, 384);
    at = build_relu(&builder, "relu3", at);
    at = alexnet_dense(&builder, "fc2", at, 192);
    at = build_relu(&builder, "relu4", at);
    build_classifier(&builder, "fc3", at);
}
