/* The models of this folder, for the table in model_table.c. The comment of each function explains its argument
 * `variant`. */
#ifndef PIPETRAIN_MODELS_H
#define PIPETRAIN_MODELS_H

#include "compute/model.h"

/* variant: filters of the second convolution. */
void model_build_mnist_cnn(struct net *net, const struct model_options *options, uint32_t variant);
/* No variants. */
void model_build_multigpu_mnist(struct net *net, const struct model_options *options, uint32_t variant);

/* No variants. */
void model_build_cifar10_cnn(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_small_cifar(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_alexnet_cifar(struct net *net, const struct model_options *options, uint32_t variant);
/* variant: layers, 6 * n + 2. */
void model_build_resnet_cifar_v1(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_resnet_cifar_v2(struct net *net, const struct model_options *options, uint32_t variant);
enum densenet_variant { DENSENET40_K12, DENSENET100_K12, DENSENET100_K24 };
void model_build_densenet_cifar(struct net *net, const struct model_options *options, uint32_t variant);
/* No variants. */
void model_build_resnext_cifar(struct net *net, const struct model_options *options, uint32_t variant);
/* variant 1: with batch normalisation. */
void model_build_vgg_cifar(struct net *net, const struct model_options *options, uint32_t variant);

/* For images of any size. No variants. */
void model_build_trivial(struct net *net, const struct model_options *options, uint32_t variant);

/* ---- ImageNet ---- */

/* No variants. */
void model_build_alexnet_imagenet(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_alexnet_torchvision(struct net *net, const struct model_options *options, uint32_t variant);
/* Of 1.6 GFLOPs. */
void model_build_regnet(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_convnext(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_mobilenet_v3(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_densenet_imagenet(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_googlenet(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_inception3(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_lenet(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_overfeat(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_squeezenet(struct net *net, const struct model_options *options, uint32_t variant);
/* variant: the stride of the first convolution and of the second stage: 1 for images of 32x32. */
void model_build_mobilenet_v2(struct net *net, const struct model_options *options, uint32_t variant);
enum efficientnet_variant { EFFICIENTNET_B0, EFFICIENTNET_V2_S };
void model_build_efficientnet(struct net *net, const struct model_options *options, uint32_t variant);
/* variant: layers. */
void model_build_resnet_imagenet_v1(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_resnet_imagenet_v1_5(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_resnet_imagenet_v2(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_vgg_imagenet(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_vgg_torchvision(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_vgg_bn_torchvision(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_resnet_torchvision(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_resnet_wide(struct net *net, const struct model_options *options, uint32_t variant);
void model_build_resnext(struct net *net, const struct model_options *options, uint32_t variant);

#endif
