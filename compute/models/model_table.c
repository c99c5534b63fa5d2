/* The table of models, a row each, by family; finding and opening a model by its name. Called while a run is being set
 * up. */
#include <errno.h>
#include <string.h>

#include "compute/models/models.h"
#include "stage/log.h"

#define MNIST { 1, 28, 28 }
#define CIFAR { 3, 32, 32 }
#define IMAGENET { 3, 224, 224 }

const struct model model_table[] = {
    { "mnist_cnn", NULL, "two convolutions of 32 filters and two dense layers",
      MNIST, 10, model_build_mnist_cnn, 32, false },
    { "mnist_cnn2", NULL, "as mnist_cnn with 64 filters in the second convolution",
      MNIST, 10, model_build_mnist_cnn, 64, false },
    { "multigpu_mnist", NULL, "three convolutions, one batch normalisation, two dense layers",
      MNIST, 10, model_build_multigpu_mnist, 0, false },

    { "cifar10_cnn", NULL, "four convolutions and two dense layers of Keras' CIFAR-10 example",
      CIFAR, 10, model_build_cifar10_cnn, 0, false },
    { "small_cifar", NULL, "one convolution and one dense layer",
      CIFAR, 10, model_build_small_cifar, 0, false },
    { "cifar_alexnet", NULL, "two convolutions of 5x5, local response normalisation, three dense layers",
      CIFAR, 10, model_build_alexnet_cifar, 0, false },
    { "cifar_trivial", NULL, "three dense layers, of which the first has one unit: to measure the input alone",
      CIFAR, 10, model_build_trivial, 0, false },
    { "cifar_vgg19", NULL, "sixteen convolutions of 3x3 and one dense layer",
      CIFAR, 10, model_build_vgg_cifar, 0, false },
    { "cifar_vgg19_bn", "vgg19_bn", "as cifar_vgg19 with batch normalisation",
      CIFAR, 10, model_build_vgg_cifar, 1, false },
    { "resnet20_v1", "resnet20", "residual network of 20 layers",
      CIFAR, 10, model_build_resnet_cifar_v1, 20, false },
    { "resnet32_v1", "resnet32", "residual network of 32 layers",
      CIFAR, 10, model_build_resnet_cifar_v1, 32, false },
    { "resnet44_v1", "resnet44", "residual network of 44 layers",
      CIFAR, 10, model_build_resnet_cifar_v1, 44, false },
    { "resnet56_v1", "resnet56", "residual network of 56 layers",
      CIFAR, 10, model_build_resnet_cifar_v1, 56, false },
    { "resnet110_v1", "resnet110", "residual network of 110 layers",
      CIFAR, 10, model_build_resnet_cifar_v1, 110, false },
    { "resnet20_v2", NULL, "as resnet20_v1 with normalisation and ReLU before the convolutions",
      CIFAR, 10, model_build_resnet_cifar_v2, 20, false },
    { "resnet32_v2", NULL, "as resnet32_v1 with normalisation and ReLU before the convolutions",
      CIFAR, 10, model_build_resnet_cifar_v2, 32, false },
    { "resnet44_v2", NULL, "as resnet44_v1 with normalisation and ReLU before the convolutions",
      CIFAR, 10, model_build_resnet_cifar_v2, 44, false },
    { "resnet56_v2", NULL, "as resnet56_v1 with normalisation and ReLU before the convolutions",
      CIFAR, 10, model_build_resnet_cifar_v2, 56, false },
    { "resnet110_v2", NULL, "as resnet110_v1 with normalisation and ReLU before the convolutions",
      CIFAR, 10, model_build_resnet_cifar_v2, 110, false },
    { "densenet40_k12", NULL, "densely connected network of 40 layers that each add 12 channels",
      CIFAR, 10, model_build_densenet_cifar, DENSENET40_K12, false },
    { "densenet100_k12", NULL, "densely connected network of 100 layers that each add 12 channels",
      CIFAR, 10, model_build_densenet_cifar, DENSENET100_K12, false },
    { "densenet100_k24", NULL, "densely connected network of 100 layers that each add 24 channels",
      CIFAR, 10, model_build_densenet_cifar, DENSENET100_K24, false },

    { "mobilenet_v2_cifar", NULL, "mobilenet_v2 with fewer strides for small images",
      CIFAR, 10, model_build_mobilenet_v2, 1, false },
    { "resnext29_8x64d", NULL, "residual network of 29 layers, bottlenecks of 8 groups",
      CIFAR, 10, model_build_resnext_cifar, 0, false },

    /* ImageNet, as in tf_cnn_benchmarks */
    { "imagenet_alexnet", NULL, "AlexNet of one column",
      { 3, 227, 227 }, 1000, model_build_alexnet_imagenet, 0, false },
    { "imagenet_trivial", NULL, "as cifar_trivial",
      { 3, 227, 227 }, 1000, model_build_trivial, 0, false },
    { "googlenet", NULL, "GoogLeNet (Inception v1)",
      IMAGENET, 1000, model_build_googlenet, 0, false },
    { "inception3", NULL, "Inception v3",
      { 3, 299, 299 }, 1000, model_build_inception3, 0, false },
    { "lenet", NULL, "two convolutions and two dense layers",
      { 3, 28, 28 }, 1000, model_build_lenet, 0, false },
    { "overfeat", NULL, "OverFeat's fast network",
      { 3, 231, 231 }, 1000, model_build_overfeat, 0, false },
    { "resnet50_v1", "resnet50", "residual network of 50 layers",
      IMAGENET, 1000, model_build_resnet_imagenet_v1, 50, false },
    { "resnet50_v1.5", NULL, "as resnet50_v1 with strides in the 3x3 convolutions",
      IMAGENET, 1000, model_build_resnet_imagenet_v1_5, 50, false },
    { "resnet50_v2", NULL, "as resnet50_v1 with normalisation before the convolutions",
      IMAGENET, 1000, model_build_resnet_imagenet_v2, 50, false },
    { "resnet101_v1", "resnet101", "as resnet50_v1 with 101 layers",
      IMAGENET, 1000, model_build_resnet_imagenet_v1, 101, false },
    { "resnet101_v1.5", NULL, "as resnet50_v1.5 with 101 layers",
      IMAGENET, 1000, model_build_resnet_imagenet_v1_5, 101, false },
    { "resnet101_v2", NULL, "as resnet50_v2 with 101 layers",
      IMAGENET, 1000, model_build_resnet_imagenet_v2, 101, false },
    { "resnet152_v1", "resnet152", "as resnet50_v1 with 152 layers",
      IMAGENET, 1000, model_build_resnet_imagenet_v1, 152, false },
    { "resnet152_v1.5", NULL, "as resnet50_v1.5 with 152 layers",
      IMAGENET, 1000, model_build_resnet_imagenet_v1_5, 152, false },
    { "resnet152_v2", NULL, "as resnet50_v2 with 152 layers",
      IMAGENET, 1000, model_build_resnet_imagenet_v2, 152, false },
    { "vgg11", NULL, "VGG of 11 layers", IMAGENET, 1000, model_build_vgg_imagenet, 11, false },
    { "vgg16", NULL, "as vgg11 with 16 layers", IMAGENET, 1000, model_build_vgg_imagenet, 16, false },
    { "vgg19", NULL, "as vgg11 with 19 layers", IMAGENET, 1000, model_build_vgg_imagenet, 19, false },

    /* ImageNet, as in torchvision */
    { "torchvision_resnet18", NULL, "torchvision's residual network of 18 layers",
      IMAGENET, 1000, model_build_resnet_torchvision, 18, true },
    { "torchvision_resnet34", NULL, "as torchvision_resnet18 with 34 layers",
      IMAGENET, 1000, model_build_resnet_torchvision, 34, true },
    { "torchvision_resnet50", NULL, "as torchvision_resnet18 with 50 layers, in bottlenecks",
      IMAGENET, 1000, model_build_resnet_torchvision, 50, true },
    { "torchvision_resnet101", NULL, "as torchvision_resnet50 with 101 layers",
      IMAGENET, 1000, model_build_resnet_torchvision, 101, true },
    { "torchvision_resnet152", NULL, "as torchvision_resnet50 with 152 layers",
      IMAGENET, 1000, model_build_resnet_torchvision, 152, true },
    { "torchvision_vgg11", NULL, "torchvision's VGG of 11 layers",
      IMAGENET, 1000, model_build_vgg_torchvision, 11, true },
    { "torchvision_vgg13", NULL, "as torchvision_vgg11 with 13 layers",
      IMAGENET, 1000, model_build_vgg_torchvision, 13, true },
    { "torchvision_vgg16", NULL, "as torchvision_vgg11 with 16 layers",
      IMAGENET, 1000, model_build_vgg_torchvision, 16, true },
    { "torchvision_vgg19", NULL, "as torchvision_vgg11 with 19 layers",
      IMAGENET, 1000, model_build_vgg_torchvision, 19, true },
    { "torchvision_vgg16_bn", NULL, "as torchvision_vgg16 with batch normalisation",
      IMAGENET, 1000, model_build_vgg_bn_torchvision, 16, true },
    { "torchvision_alexnet", NULL, "torchvision's AlexNet of one column",
      IMAGENET, 1000, model_build_alexnet_torchvision, 0, true },
    { "wide_resnet50_2", NULL, "as torchvision_resnet50 with twice the filters in the 3x3 convolutions",
      IMAGENET, 1000, model_build_resnet_wide, 50, true },
    { "densenet121", NULL, "densely connected network of 121 layers that each add 32 channels",
      IMAGENET, 1000, model_build_densenet_imagenet, 0, true },
    { "squeezenet1_1", NULL, "SqueezeNet 1.1: convolutions that reduce and expand the channels",
      IMAGENET, 1000, model_build_squeezenet, 0, true },
    { "resnext50_32x4d", NULL, "as wide_resnet50_2 with 3x3 convolutions of 32 groups",
      IMAGENET, 1000, model_build_resnext, 50, true },
    { "regnet_y_1_6gf", NULL, "RegNetY of 1.6 GFLOPs: groups of 24 channels, squeeze and excitation",
      IMAGENET, 1000, model_build_regnet, 0, true },
    { "mobilenet_v2", NULL, "MobileNetV2: depthwise convolutions between narrow sums",
      IMAGENET, 1000, model_build_mobilenet_v2, 2, true },
    { "mobilenet_v3_large", NULL, "MobileNetV3-Large: as mobilenet_v2 with squeeze and excitation, hard swish",
      IMAGENET, 1000, model_build_mobilenet_v3, 0, true },
    { "efficientnet_b0", NULL, "EfficientNet-B0: depthwise convolutions, squeeze and excitation, SiLU",
      IMAGENET, 1000, model_build_efficientnet, EFFICIENTNET_B0, true },
    { "efficientnet_v2_s", NULL, "EfficientNetV2-S: as efficientnet_b0, fused in the first stages",
      { 3, 384, 384 }, 1000, model_build_efficientnet, EFFICIENTNET_V2_S, true },
    { "convnext_tiny", NULL, "ConvNeXt-T: depthwise convolutions of 7x7, layer normalisation, GELU",
      IMAGENET, 1000, model_build_convnext, 0, true },
    { .name = NULL },
};

const struct model *model_find(const char *name)
{
    for (const struct model *model = model_table; model->name != NULL; model++)
        if (strcmp(model->name, name) == 0 || (model->alias != NULL && strcmp(model->alias, name) == 0))
            return model;
    return NULL;
}

int model_open(struct net **net_out, const char *name, const struct model_options *options)
{
    const struct model *model = model_find(name);
    if (model == NULL)
        return -ENOENT;
    struct net *net;
    int rc = net_open(&net, model->name, model_image(options, model->input),
                      options->classes ? options->classes : model->classes);
    if (rc < 0)
        return rc;
    model->build(net, options, model->variant);
    if (options->transform != NULL)
        net_use_transform(net, options->transform);
    rc = net_finish(net);
    if (rc < 0) {
        log_message(LOG_ERROR, "model %s: %s", name, net_error(net));
        net_close(net);
        return rc;
    }
    *net_out = net;
    return 0;
}
