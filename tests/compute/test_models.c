/* Tests of the models: what their counts cannot tell (test_counts.c has those), and the table of their names and
 * options. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/network/model_look.h"
#include "tests/helpers/test.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

static struct net *net_of(const char *model)
{
    return model_make(model, 0, true);
}

static bool has_layer(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (strcmp(net->layers[i].name, name) == 0)
            return true;
    return false;
}

/* ---- layers in their order ---- */

static const char letters[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = 'C', [LAYER_DENSE] = 'D', [LAYER_BATCH_NORM] = 'N', [LAYER_RELU] = 'R',
    [LAYER_ACTIVATION] = 'a', [LAYER_MULTIPLY] = '*', [LAYER_MAX_POOL] = 'M', [LAYER_AVERAGE_POOL] = 'A', [LAYER_DROPOUT] = 'd', [LAYER_LOCAL_RESPONSE_NORM] = 'L',
    [LAYER_ADD] = '+', [LAYER_CONCAT] = 'c', [LAYER_PAD_CHANNELS] = 'p', [LAYER_SOFTMAX_LOSS] = '!',
};

static void assert_layers(const struct net *net, const char *expected)
{
    char text[NET_LAYERS_MAX + 1] = "";
    for (uint32_t i = 0; i < net->layer_count; i++)
        text[i] = letters[net->layers[i].kind];
    assert_string_equal(text, expected);
}

#define TWICE(text) text text
#define THRICE(text) text text text
#define GROUP4(text) TWICE(TWICE(text)) "M"
#define DENSE12(text) TWICE(TWICE(THRICE(text)))

TEST(networks_without_branches_have_their_layers_in_order)
{
    static const struct { const char *model, *layers; } rows[] = {
        { "mnist_cnn", "CRCRMdDRdD!" },
        { "mnist_cnn2", "CRCRMdDRdD!" },
        { "multigpu_mnist", "CRCRNCRMdDRdD!" },
        { "cifar10_cnn", "CRCRMdCRCRMdDRdD!" },
        { "small_cifar", "CRD!" },
        { "cifar_alexnet", "CRMLCRLMDRDRD!" },
        { "cifar_trivial", "DRDRD!" },
        { "cifar_vgg19", TWICE(TWICE("CR") "M") THRICE(GROUP4("CR")) "D!" },
        { "cifar_vgg19_bn", TWICE(TWICE("CNR") "M") THRICE(GROUP4("CNR")) "D!" },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        assert_layers(net, rows[i].layers);
        for (uint32_t k = 0; k < net->layer_count; k++)
            assert_int_equal(net->layers[k].inputs[0], k == 0 ? NET_INPUT : k - 1);
        net_close(net);
    }
}

TEST(networks_with_branches_have_their_layers_in_order)
{
    static const struct { const char *model, *layers; } rows[] = {
        { "resnet20_v1", "CN" THRICE("CNRCN+R") TWICE("CNRpCN+R" TWICE("CNRCN+R")) "AD!" },
        { "resnet20_v2", "CNR" THRICE("NRCNRC+") TWICE("NRCNRpC+" TWICE("NRCNRC+")) "NRAD!" },
        { "densenet40_k12", "C" TWICE(DENSE12("NRCc") "NRCRA") DENSE12("NRCc") "NRAD!" },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        assert_layers(net, rows[i].layers);
        net_close(net);
    }
}

TEST(dropout_has_the_rates_of_its_places)
{
    static const struct { const char *model, *layer; float rate; } rows[] = {
        { "mnist_cnn", "dropout1", 0.25f },
        { "mnist_cnn", "dropout2", 0.5f },
        { "multigpu_mnist", "dropout1", 0.25f },
        { "multigpu_mnist", "dropout2", 0.5f },
        { "cifar10_cnn", "dropout1", 0.25f },
        { "cifar10_cnn", "dropout2", 0.25f },
        { "cifar10_cnn", "dropout3", 0.5f },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        assert_true(layer_named(net, rows[i].layer)->rate == rows[i].rate);
        net_close(net);
    }
}

/* ---- shapes ---- */

TEST(images_shrink_as_the_tables_of_the_models_say)
{
    static const struct { const char *model, *layer; uint32_t channels, size; } outputs[] = {
        { "densenet40_k12", "features.denseblock1.denselayer12.concat", 160, 32 },
        { "densenet40_k12", "features.transition1.pool", 24, 16 },
        { "densenet40_k12", "features.denseblock3.denselayer12.concat", 168, 8 },
        { "densenet100_k12", "features.denseblock1.denselayer32.concat", 400, 32 },
        { "densenet100_k12", "features.denseblock2.denselayer32.concat", 408, 16 },
        { "densenet100_k24", "features.denseblock1.denselayer32.concat", 784, 32 },
        { "densenet100_k24", "features.transition2.pool", 48, 8 },
        { "densenet100_k24", "features.denseblock3.denselayer32.concat", 816, 8 },
        { "imagenet_alexnet", "features.0", 64, 55 },
        { "imagenet_alexnet", "features.2", 64, 27 },
        { "imagenet_alexnet", "features.3", 192, 27 },
        { "imagenet_alexnet", "features.5", 192, 13 },
        { "imagenet_alexnet", "features.10", 256, 13 },
        { "imagenet_alexnet", "features.12", 256, 6 },
        { "overfeat", "features.0", 96, 56 },
        { "overfeat", "features.2", 96, 28 },
        { "overfeat", "features.3", 256, 24 },
        { "overfeat", "features.5", 256, 12 },
        { "overfeat", "features.6", 512, 12 },
        { "overfeat", "features.12", 1024, 6 },
        { "vgg11", "features.2", 64, 112 },
        { "vgg11", "features.20", 512, 7 },
        { "vgg16", "features.4", 64, 112 },
        { "vgg16", "features.9", 128, 56 },
        { "vgg16", "features.16", 256, 28 },
        { "vgg16", "features.23", 512, 14 },
        { "vgg16", "features.30", 512, 7 },
        { "vgg19", "features.36", 512, 7 },
        { "imagenet_trivial", "fc1", 1, 1 },
        { "imagenet_trivial", "fc2", 4096, 1 },
        { "lenet", "conv1", 32, 28 },
        { "lenet", "pool1", 32, 14 },
        { "lenet", "conv2", 64, 14 },
        { "lenet", "pool2", 64, 7 },
        { "googlenet", "conv1", 64, 112 },
        { "googlenet", "maxpool1", 64, 56 },
        { "googlenet", "conv3", 192, 56 },
        { "googlenet", "maxpool2", 192, 28 },
        { "googlenet", "inception3a.concat", 256, 28 },
        { "googlenet", "inception3b.concat", 480, 28 },
        { "googlenet", "maxpool3", 480, 14 },
        { "googlenet", "inception4a.concat", 512, 14 },
        { "googlenet", "inception4d.concat", 528, 14 },
        { "googlenet", "inception4e.concat", 832, 14 },
        { "googlenet", "maxpool4", 832, 7 },
        { "googlenet", "inception5a.concat", 832, 7 },
        { "googlenet", "inception5b.concat", 1024, 7 },
        { "googlenet", "avgpool", 1024, 1 },
        { "inception3", "Conv2d_1a_3x3.conv", 32, 149 },
        { "inception3", "Conv2d_2a_3x3.conv", 32, 147 },
        { "inception3", "Conv2d_2b_3x3.conv", 64, 147 },
        { "inception3", "maxpool1", 64, 73 },
        { "inception3", "Conv2d_3b_1x1.conv", 80, 73 },
        { "inception3", "Conv2d_4a_3x3.conv", 192, 71 },
        { "inception3", "maxpool2", 192, 35 },
        { "inception3", "Mixed_5b.concat", 256, 35 },
        { "inception3", "Mixed_5d.concat", 288, 35 },
        { "inception3", "Mixed_6a.concat", 768, 17 },
        { "inception3", "Mixed_6e.concat", 768, 17 },
        { "inception3", "Mixed_7a.concat", 1280, 8 },
        { "inception3", "Mixed_7c.concat", 2048, 8 },
        { "inception3", "avgpool", 2048, 1 },
        { "resnet50_v1", "conv1", 64, 112 },
        { "resnet50_v1", "maxpool", 64, 56 },
        { "resnet50_v1", "layer1.2.add", 256, 56 },
        { "resnet50_v1", "layer2.3.add", 512, 28 },
        { "resnet50_v1", "layer3.5.add", 1024, 14 },
        { "resnet50_v1", "layer4.2.add", 2048, 7 },
        { "resnet101_v1.5", "layer3.22.add", 1024, 14 },
        { "resnet152_v2", "layer2.7.add", 512, 28 },
        { "resnet152_v2", "layer3.35.add", 1024, 14 },
        { "resnet50_v2", "layer4.2.add", 2048, 7 },
        { "torchvision_resnet18", "conv1", 64, 112 },
        { "torchvision_resnet18", "maxpool", 64, 56 },
        { "torchvision_resnet18", "layer1.1.add", 64, 56 },
        { "torchvision_resnet34", "layer4.2.add", 512, 7 },
        { "torchvision_resnet50", "layer2.3.add", 512, 28 },
        { "torchvision_resnet50", "layer4.2.add", 2048, 7 },
        { "torchvision_vgg16_bn", "features.42", 512, 14 },
        { "torchvision_alexnet", "features.12", 256, 6 },
        { "wide_resnet50_2", "layer4.2.conv2", 1024, 7 },
        { "wide_resnet50_2", "layer4.2.add", 2048, 7 },
        { "densenet121", "features.denseblock1.denselayer6.concat", 256, 56 },
        { "densenet121", "features.transition3.pool", 512, 7 },
        { "densenet121", "features.denseblock4.denselayer16.concat", 1024, 7 },
        { "squeezenet1_1", "features.4.concat", 128, 55 },
        { "squeezenet1_1", "features.12.concat", 512, 13 },
        { "squeezenet1_1", "classifier.1", 1000, 13 },
    };
    for (size_t i = 0; i < ROWS(outputs); i++) {
        struct net *const net = net_of(outputs[i].model);
        const struct shape out = layer_named(net, outputs[i].layer)->out;
        if (out.channels != outputs[i].channels || out.height != outputs[i].size || out.width != outputs[i].size)
            fail_msg("%s: %s makes %ux%ux%u", net->model, outputs[i].layer, out.channels, out.height, out.width);
        net_close(net);
    }
}

/* Pixels of padding in front and behind, down and across: where a window of 3x3 halves an image, the odd pixel lies
 * behind. */
struct look { const char *model, *layer; uint32_t kernel_h, kernel_w, stride, top, bottom, left, right; };

TEST(windows_have_the_strides_and_the_padding_of_the_models_definitions)
{
    static const struct look looks[] = {
        { "resnet20_v1", "layer2.0.conv1", 3, 3, 2, 0, 1, 0, 1 },
        { "resnet20_v1", "layer3.0.conv1", 3, 3, 2, 0, 1, 0, 1 },
        { "resnet110_v1", "layer3.0.conv1", 3, 3, 2, 0, 1, 0, 1 },
        { "resnet20_v2", "layer2.0.conv1", 3, 3, 2, 0, 1, 0, 1 },
        { "resnet110_v2", "layer3.0.conv1", 3, 3, 2, 0, 1, 0, 1 },
        { "cifar_alexnet", "pool1", 3, 3, 2, 0, 1, 0, 1 },
        { "cifar_alexnet", "pool2", 3, 3, 2, 0, 1, 0, 1 },
        { "imagenet_alexnet", "features.0", 11, 11, 4, 0, 0, 0, 0 },
        { "imagenet_alexnet", "features.3", 5, 5, 1, 2, 2, 2, 2 },
        { "imagenet_alexnet", "features.12", 3, 3, 2, 0, 0, 0, 0 },
        { "overfeat", "features.3", 5, 5, 1, 0, 0, 0, 0 },
        { "overfeat", "features.5", 2, 2, 2, 0, 0, 0, 0 },
        { "vgg19", "features.34", 3, 3, 1, 1, 1, 1, 1 },
        { "googlenet", "conv1", 7, 7, 2, 2, 3, 2, 3 },
        { "googlenet", "maxpool1", 3, 3, 2, 0, 1, 0, 1 },
        { "googlenet", "maxpool4", 3, 3, 2, 0, 1, 0, 1 },
        { "googlenet", "inception4b.branch3.1", 5, 5, 1, 2, 2, 2, 2 },
        { "googlenet", "inception4b.branch4.0", 3, 3, 1, 1, 1, 1, 1 },
        { "inception3", "Conv2d_1a_3x3.conv", 3, 3, 2, 0, 0, 0, 0 },
        { "inception3", "Conv2d_2a_3x3.conv", 3, 3, 1, 0, 0, 0, 0 },
        { "inception3", "Conv2d_2b_3x3.conv", 3, 3, 1, 1, 1, 1, 1 },
        { "inception3", "Mixed_5b.pool", 3, 3, 1, 1, 1, 1, 1 },
        { "inception3", "Mixed_6a.branch3x3.conv", 3, 3, 2, 0, 0, 0, 0 },
        { "inception3", "Mixed_6a.pool", 3, 3, 2, 0, 0, 0, 0 },
        { "inception3", "Mixed_6b.branch7x7_2.conv", 1, 7, 1, 0, 0, 3, 3 },
        { "inception3", "Mixed_6b.branch7x7_3.conv", 7, 1, 1, 3, 3, 0, 0 },
        { "inception3", "Mixed_6b.branch7x7dbl_2.conv", 7, 1, 1, 3, 3, 0, 0 },
        { "inception3", "Mixed_6b.branch7x7dbl_5.conv", 1, 7, 1, 0, 0, 3, 3 },
        { "inception3", "Mixed_7c.branch3x3dbl_3a.conv", 1, 3, 1, 0, 0, 1, 1 },
        { "inception3", "Mixed_7c.branch3x3dbl_3b.conv", 3, 1, 1, 1, 1, 0, 0 },
        { "resnet50_v1", "conv1", 7, 7, 2, 3, 3, 3, 3 },
        { "resnet50_v1", "maxpool", 3, 3, 2, 0, 1, 0, 1 },
        { "resnet50_v1", "layer2.0.conv1", 1, 1, 2, 0, 0, 0, 0 },
        { "resnet50_v1", "layer2.0.conv2", 3, 3, 1, 1, 1, 1, 1 },
        { "resnet50_v1", "layer2.0.downsample.0", 1, 1, 2, 0, 0, 0, 0 },
        { "resnet50_v1", "layer1.0.downsample.0", 1, 1, 1, 0, 0, 0, 0 },
        { "resnet50_v1.5", "layer2.0.conv1", 1, 1, 1, 0, 0, 0, 0 },
        { "resnet50_v1.5", "layer2.0.conv2", 3, 3, 2, 1, 1, 1, 1 },
        { "resnet50_v2", "layer3.0.conv1", 1, 1, 2, 0, 0, 0, 0 },
        { "resnet50_v2", "layer3.0.conv2", 3, 3, 1, 1, 1, 1, 1 },
        { "resnet50_v2", "layer3.0.downsample", 1, 1, 2, 0, 0, 0, 0 },
        { "torchvision_resnet50", "conv1", 7, 7, 2, 3, 3, 3, 3 },
        { "torchvision_resnet50", "maxpool", 3, 3, 2, 1, 1, 1, 1 },
        { "torchvision_resnet50", "layer4.0.conv1", 1, 1, 1, 0, 0, 0, 0 },
        { "torchvision_resnet50", "layer4.0.conv2", 3, 3, 2, 1, 1, 1, 1 },
        { "torchvision_resnet18", "layer2.0.conv1", 3, 3, 2, 1, 1, 1, 1 },
        { "torchvision_resnet18", "layer2.0.conv2", 3, 3, 1, 1, 1, 1, 1 },
        { "torchvision_alexnet", "features.0", 11, 11, 4, 2, 2, 2, 2 },
        { "torchvision_alexnet", "features.3", 5, 5, 1, 2, 2, 2, 2 },
        { "torchvision_alexnet", "features.12", 3, 3, 2, 0, 0, 0, 0 },
        { "wide_resnet50_2", "layer3.0.conv2", 3, 3, 2, 1, 1, 1, 1 },
        { "densenet121", "features.conv0", 7, 7, 2, 3, 3, 3, 3 },
        { "densenet121", "features.pool0", 3, 3, 2, 1, 1, 1, 1 },
        { "densenet121", "features.transition2.pool", 2, 2, 2, 0, 0, 0, 0 },
        { "squeezenet1_1", "features.0", 3, 3, 2, 0, 0, 0, 0 },
        { "squeezenet1_1", "features.2", 3, 3, 2, 0, 1, 0, 1 },
    };
    for (size_t i = 0; i < ROWS(looks); i++) {
        const struct look *const look = &looks[i];
        struct net *const net = net_of(look->model);
        const struct layer *const layer = layer_named(net, look->layer);
        if (layer->kernel_h != look->kernel_h || layer->kernel_w != look->kernel_w ||
            layer->stride_h != look->stride || layer->stride_w != look->stride || layer->pad_top != look->top ||
            layer->pad_bottom != look->bottom || layer->pad_left != look->left || layer->pad_right != look->right)
            fail_msg("%s: %s has another window", look->model, look->layer);
        net_close(net);
    }
}

TEST(channels_are_added_as_zeros_on_both_sides)
{
    static const struct { const char *layer; uint32_t before, channels, size; } rows[] = {
        { "layer2.0.shortcut", 8, 32, 16 }, { "layer3.0.shortcut", 16, 64, 8 } };
    static const char *const models[] = { "resnet20_v1", "resnet20_v2", "resnet110_v1", "resnet110_v2" };
    for (size_t m = 0; m < ROWS(models); m++) {
        struct net *const net = net_of(models[m]);
        for (size_t i = 0; i < ROWS(rows); i++) {
            const struct layer *const around = layer_named(net, rows[i].layer);
            assert_int_equal(around->channels_before, rows[i].before);
            assert_int_equal(around->out.channels, rows[i].channels);
            assert_int_equal(around->out.height, rows[i].size);
            assert_int_equal(around->stride_h, 2);
        }
        net_close(net);
    }
}

/* ---- branches ---- */

struct join { const char *model, *layer, *inputs[7]; };

TEST(branches_are_concatenated_in_the_order_of_the_models_definitions)
{
    static const struct join joins[] = {
        { "googlenet", "inception4c.concat", { "branch1.relu", "branch2.1.relu", "branch3.1.relu", "branch4.1.relu" } },
        { "inception3", "Mixed_5c.concat",
          { "branch1x1.relu", "branch5x5_2.relu", "branch3x3dbl_3.relu", "branch_pool.relu" } },
        { "inception3", "Mixed_6a.concat", { "branch3x3.relu", "branch3x3dbl_3.relu", "pool" } },
        { "inception3", "Mixed_6d.concat",
          { "branch1x1.relu", "branch7x7_3.relu", "branch7x7dbl_5.relu", "branch_pool.relu" } },
        { "inception3", "Mixed_7a.concat", { "branch3x3_2.relu", "branch7x7x3_4.relu", "pool" } },
        { "inception3", "Mixed_7b.concat",
          { "branch1x1.relu", "branch3x3_2a.relu", "branch3x3_2b.relu", "branch3x3dbl_3a.relu", "branch3x3dbl_3b.relu",
            "branch_pool.relu" } },
    };
    for (size_t i = 0; i < ROWS(joins); i++) {
        struct net *const net = net_of(joins[i].model);
        uint32_t k = 0;
        for (; joins[i].inputs[k] != NULL; k++)
            assert_string_equal(strchr(layer_reads(net, joins[i].layer, k), '.') + 1, joins[i].inputs[k]);
        assert_int_equal(layer_named(net, joins[i].layer)->input_count, k);
        net_close(net);
    }
}

/* No ReLU in the stem of v1: the first shortcut carries signed values. v1 adds behind the ReLU of the block before, v2
 * before any normalisation of its own. In densely connected networks new channels come behind those that were there. */
TEST(layers_read_what_the_models_definitions_say)
{
    static const struct { const char *model, *layer; uint32_t input; const char *reads; } rows[] = {
        { "resnet20_v1", "layer1.0.conv1", 0, "bn1" },
        { "resnet20_v1", "layer1.0.add", 1, "bn1" },
        { "resnet20_v2", "layer1.0.bn1", 0, "relu1" },
        { "resnet20_v2", "layer1.0.add", 1, "relu1" },
        { "resnet20_v1", "layer1.1.add", 1, "layer1.0.relu2" },
        { "resnet20_v1", "layer1.1.add", 0, "layer1.1.bn2" },
        { "resnet20_v1", "layer2.0.shortcut", 0, "layer1.2.relu2" },
        { "resnet20_v1", "layer2.0.add", 1, "layer2.0.shortcut" },
        { "resnet20_v2", "layer1.1.add", 1, "layer1.0.add" },
        { "resnet20_v2", "layer1.1.add", 0, "layer1.1.conv2" },
        { "resnet20_v2", "layer2.0.shortcut", 0, "layer1.2.add" },
        { "resnet20_v2", "layer2.0.conv1", 0, "layer2.0.relu1" },
        { "resnet20_v2", "layer2.0.add", 1, "layer2.0.shortcut" },
        { "resnet20_v2", "bn2", 0, "layer3.2.add" },
        { "densenet40_k12", "features.denseblock1.denselayer1.norm", 0, "features.conv" },
        { "densenet40_k12", "features.denseblock1.denselayer1.concat", 0, "features.conv" },
        { "densenet40_k12", "features.denseblock1.denselayer1.concat", 1, "features.denseblock1.denselayer1.conv" },
        { "densenet40_k12", "features.denseblock2.denselayer2.concat", 0, "features.denseblock2.denselayer1.concat" },
        { "densenet40_k12", "features.denseblock2.denselayer1.norm", 0, "features.transition1.pool" },
        { "densenet40_k12", "features.transition1.relu_out", 0, "features.transition1.conv" },
        { "googlenet", "inception3b.branch4.0", 0, "inception3a.concat" },
        { "googlenet", "inception4a.branch1", 0, "maxpool3" },
        { "googlenet", "inception5a.branch2.0", 0, "maxpool4" },
        { "inception3", "Mixed_5b.branch_pool.conv", 0, "Mixed_5b.pool" },
        { "inception3", "Mixed_6a.pool", 0, "Mixed_5d.concat" },
        { "inception3", "Mixed_7b.branch3x3_2a.conv", 0, "Mixed_7b.branch3x3_1.relu" },
        { "inception3", "Mixed_7b.branch3x3_2b.conv", 0, "Mixed_7b.branch3x3_1.relu" },
        { "inception3", "Mixed_7b.branch3x3dbl_3a.conv", 0, "Mixed_7b.branch3x3dbl_2.relu" },
        { "inception3", "Mixed_7b.branch3x3dbl_3b.conv", 0, "Mixed_7b.branch3x3dbl_2.relu" },
        { "resnet50_v1", "layer1.0.downsample.0", 0, "maxpool" },
        { "resnet50_v1", "layer1.1.conv1", 0, "layer1.0.relu" },
        { "resnet50_v2", "layer1.0.bn1", 0, "maxpool" },
        { "resnet50_v2", "layer1.0.downsample", 0, "layer1.0.relu1" },
        { "resnet50_v2", "layer1.0.conv1", 0, "layer1.0.relu1" },
        { "resnet50_v2", "layer1.1.bn1", 0, "layer1.0.add" },
        { "resnet50_v2", "bn2", 0, "layer4.2.add" },
        { "resnet50_v2", "avgpool", 0, "relu2" },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        assert_string_equal(layer_reads(net, rows[i].layer, rows[i].input), rows[i].reads);
        net_close(net);
    }
}

TEST(the_last_pool_of_inception3_takes_the_largest_and_those_before_it_means)
{
    struct net *const net = net_of("inception3");
    assert_int_equal(layer_named(net, "Mixed_5b.pool")->kind, LAYER_AVERAGE_POOL);
    assert_int_equal(layer_named(net, "Mixed_6e.pool")->kind, LAYER_AVERAGE_POOL);
    assert_int_equal(layer_named(net, "Mixed_7b.pool")->kind, LAYER_AVERAGE_POOL);
    assert_int_equal(layer_named(net, "Mixed_7c.pool")->kind, LAYER_MAX_POOL);
    net_close(net);
}

struct sum { const char *model, *layer, *branch, *around; };

/* The shortcut stands before the branch's last convolution: that one, the sum and the ReLU can be one. */
TEST(residual_blocks_add_their_shortcut_to_the_last_layer_of_their_branch)
{
    static const struct sum sums[] = {
        { "resnet50_v1", "layer1.0.add", "layer1.0.bn3", "layer1.0.downsample.1" },
        { "resnet50_v1", "layer1.1.add", "layer1.1.bn3", "layer1.0.relu" },
        { "resnet50_v1.5", "layer4.0.add", "layer4.0.bn3", "layer4.0.downsample.1" },
        { "resnet50_v2", "layer2.0.add", "layer2.0.conv3", "layer2.0.downsample" },
        { "resnet50_v2", "layer2.1.add", "layer2.1.conv3", "layer2.0.add" },
        { "torchvision_resnet18", "layer1.0.add", "layer1.0.bn2", "maxpool" },
        { "torchvision_resnet34", "layer2.0.add", "layer2.0.bn2", "layer2.0.downsample.1" },
    };
    for (size_t i = 0; i < ROWS(sums); i++) {
        struct net *const net = net_of(sums[i].model);
        const struct layer *const add = layer_named(net, sums[i].layer);
        assert_string_equal(layer_reads(net, sums[i].layer, 0), sums[i].branch);
        assert_string_equal(layer_reads(net, sums[i].layer, 1), sums[i].around);
        assert_true(add->inputs[1] + 1 < add->inputs[0]);
        net_close(net);
    }
}

/* A ReLU behind the sums of v1, none behind those of v2. */
TEST(residual_networks_have_so_many_relus)
{
    static const struct { const char *model; uint32_t relus, adds; } rows[] = {
        { "resnet50_v1", 49, 16 }, { "resnet50_v1.5", 49, 16 }, { "resnet50_v2", 50, 16 },
        { "torchvision_resnet18", 17, 8 }, { "torchvision_resnet152", 151, 50 },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        assert_int_equal(count_kind(net, LAYER_RELU), rows[i].relus);
        assert_int_equal(count_kind(net, LAYER_ADD), rows[i].adds);
        net_close(net);
    }
}

/* ---- values ---- */

TEST(normalisations_have_the_decay_the_epsilon_and_the_gamma_of_their_place)
{
    static const struct { const char *model, *layer; double decay; float epsilon; bool gamma; } rows[] = {
        { "multigpu_mnist", "bn2", 0.99, 1e-3f, true },
        { "cifar_vgg19_bn", "features.1", 0.9, 1e-5f, true },
        { "resnet20_v1", "bn1", 0.9, 1e-5f, true },
        { "resnet20_v1", "layer3.2.bn2", 0.9, 1e-5f, true },
        { "resnet20_v2", "bn1", 0.9, 1e-5f, true },
        { "resnet20_v2", "layer1.0.bn1", 0.999, 1e-3f, false },
        { "resnet20_v2", "layer1.0.bn2", 0.9, 1e-5f, true },
        { "resnet20_v2", "bn2", 0.999, 1e-3f, false },
        { "densenet40_k12", "features.transition2.norm", 0.9, 1e-5f, true },
        { "densenet40_k12", "features.norm", 0.9, 1e-5f, true },
        { "inception3", "Conv2d_1a_3x3.bn", 0.999, 1e-3f, false },
        { "inception3", "Mixed_7c.branch_pool.bn", 0.999, 1e-3f, false },
        { "resnet50_v1", "bn1", 0.9, 1e-5f, true },
        { "resnet50_v1", "layer1.0.downsample.1", 0.9, 1e-5f, true },
        { "resnet50_v1.5", "layer4.2.bn3", 0.9, 1e-5f, true },
        { "resnet50_v2", "bn1", 0.9, 1e-5f, true },
        { "resnet50_v2", "layer1.0.bn1", 0.999, 1e-3f, false },
        { "resnet50_v2", "layer1.0.bn2", 0.9, 1e-5f, true },
        { "resnet50_v2", "layer1.0.bn3", 0.9, 1e-5f, true },
        { "resnet50_v2", "bn2", 0.999, 1e-3f, false },
        { "torchvision_resnet18", "layer3.0.downsample.1", 0.9, 1e-5f, true },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        const struct layer *const norm = layer_named(net, rows[i].layer);
        assert_true(norm->decay == rows[i].decay);
        assert_true(norm->epsilon == rows[i].epsilon);
        assert_int_equal(layer_has(norm, PARAMETER_GAMMA), rows[i].gamma);
        net_close(net);
    }
}

TEST(responses_are_normalised_over_9_channels)
{
    struct net *const net = net_of("cifar_alexnet");
    for (uint32_t i = 0; i < 2; i++) {
        const struct local_response_norm how = layer_named(net, i == 0 ? "norm1" : "norm2")->response;
        assert_true(how.size == 9 && how.alpha == 0.001f && how.beta == 0.75f && how.k == 1.0f);
    }
    net_close(net);
}

struct beginning { const char *model, *parameter; enum initializer_kind kind; double value; };

/* A truncated normal of this std before it is cut has the std 1 / sqrt(fan_in) afterwards. */
#define SCALED(fan_in) (1 / sqrt(fan_in) / 0.87962566103423978)

TEST(parameters_begin_as_the_models_definitions_say)
{
    const struct beginning beginnings[] = {
        { "mnist_cnn", "conv2.weight", INITIALIZER_GLOROT_UNIFORM, 0 },
        { "multigpu_mnist", "fc1.weight", INITIALIZER_GLOROT_UNIFORM, 0 },
        { "cifar10_cnn", "fc2.weight", INITIALIZER_GLOROT_UNIFORM, 0 },
        { "small_cifar", "conv1.weight", INITIALIZER_GLOROT_UNIFORM, 0 },
        { "cifar_alexnet", "conv1.weight", INITIALIZER_TRUNCATED_NORMAL, 0.05 },
        { "cifar_alexnet", "conv1.bias", INITIALIZER_CONSTANT, 0 },
        { "cifar_alexnet", "conv2.weight", INITIALIZER_TRUNCATED_NORMAL, 0.05 },
        { "cifar_alexnet", "conv2.bias", INITIALIZER_CONSTANT, 0.1 },
        { "cifar_alexnet", "fc1.weight", INITIALIZER_TRUNCATED_NORMAL, 0.04 },
        { "cifar_alexnet", "fc1.bias", INITIALIZER_CONSTANT, 0.1 },
        { "cifar_alexnet", "fc2.weight", INITIALIZER_TRUNCATED_NORMAL, 0.04 },
        { "cifar_alexnet", "fc2.bias", INITIALIZER_CONSTANT, 0.1 },
        { "cifar_alexnet", "fc3.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(1.0 / 192) },
        { "cifar_alexnet", "fc3.bias", INITIALIZER_CONSTANT, 0 },
        { "cifar_trivial", "fc1.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(2.0 / 3072) },
        { "cifar_trivial", "fc2.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(2.0) },
        { "cifar_trivial", "fc3.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(1.0 / 4096) },
        { "resnet20_v1", "conv1.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(27) },
        { "resnet20_v1", "layer3.0.conv2.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(576) },
        { "resnet20_v1", "fc.weight", INITIALIZER_TRUNCATED_NORMAL, 0.125 },
        { "resnet20_v2", "layer3.0.conv1.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(288) },
        { "densenet40_k12", "features.conv.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(27) },
        { "densenet40_k12", "features.denseblock1.denselayer1.conv.weight", INITIALIZER_TRUNCATED_NORMAL,
          sqrt(2.0 / 9 / 12) },
        { "densenet100_k24", "features.transition1.conv.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(2.0 / 9 / 48) },
        { "densenet40_k12", "features.transition1.conv.bias", INITIALIZER_CONSTANT, 0 },
        { "densenet40_k12", "classifier.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(1.0 / 168) },
        { "cifar_vgg19", "features.0.weight", INITIALIZER_NORMAL, sqrt(2.0 / 576) },
        { "cifar_vgg19_bn", "features.49.weight", INITIALIZER_NORMAL, sqrt(2.0 / 4608) },
        { "cifar_vgg19_bn", "features.49.bias", INITIALIZER_CONSTANT, 0 },
        { "cifar_vgg19_bn", "classifier.weight", INITIALIZER_NORMAL, 0.01 },
        { "cifar_vgg19_bn", "classifier.bias", INITIALIZER_CONSTANT, 0 },
        { "imagenet_alexnet", "features.0.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(3.0 * 121) },
        { "imagenet_alexnet", "features.0.bias", INITIALIZER_CONSTANT, 0 },
        { "imagenet_alexnet", "classifier.0.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(2.0 / 9216) },
        { "imagenet_alexnet", "classifier.3.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(2.0 / 4096) },
        { "imagenet_alexnet", "classifier.6.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(1.0 / 4096) },
        { "overfeat", "classifier.3.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(2.0 / 3072) },
        { "vgg16", "features.28.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(512.0 * 9) },
        { "imagenet_trivial", "fc1.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(2.0 / 154587) },
        { "lenet", "fc1.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(2.0 / 3136) },
        { "lenet", "fc2.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(1.0 / 512) },
        { "googlenet", "inception3a.branch2.1.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(96.0 * 9) },
        { "googlenet", "fc.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(1.0 / 1024) },
        { "inception3", "Mixed_6b.branch7x7_2.conv.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(128.0 * 7) },
        { "inception3", "Mixed_6b.branch7x7_2.bn.bias", INITIALIZER_CONSTANT, 0 },
        { "inception3", "fc.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(1.0 / 2048) },
        { "resnet50_v1", "conv1.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(3.0 * 49) },
        { "resnet50_v1", "layer1.0.downsample.0.weight", INITIALIZER_TRUNCATED_NORMAL, SCALED(64.0) },
        { "resnet50_v1", "bn1.weight", INITIALIZER_CONSTANT, 1 },
        { "resnet50_v1", "fc.weight", INITIALIZER_TRUNCATED_NORMAL, sqrt(1.0 / 2048) },
        { "resnet50_v1", "fc.bias", INITIALIZER_CONSTANT, 0 },
        { "torchvision_resnet50", "conv1.weight", INITIALIZER_NORMAL, sqrt(2.0 / (64 * 49)) },
        { "torchvision_resnet50", "layer1.0.conv3.weight", INITIALIZER_NORMAL, sqrt(2.0 / 256) },
        { "torchvision_resnet50", "layer1.0.bn3.weight", INITIALIZER_CONSTANT, 1 },
        { "torchvision_resnet50", "fc.weight", INITIALIZER_UNIFORM, 1 / sqrt(2048.0) },
        { "torchvision_resnet50", "fc.bias", INITIALIZER_UNIFORM, 1 / sqrt(2048.0) },
        { "torchvision_resnet18", "fc.bias", INITIALIZER_UNIFORM, 1 / sqrt(512.0) },
        { "torchvision_vgg16_bn", "features.40.weight", INITIALIZER_NORMAL, sqrt(2.0 / (512 * 9)) },
        { "torchvision_vgg16_bn", "classifier.0.weight", INITIALIZER_NORMAL, 0.01 },
        { "torchvision_vgg16_bn", "classifier.0.bias", INITIALIZER_CONSTANT, 0 },
        { "torchvision_alexnet", "features.0.weight", INITIALIZER_UNIFORM, 1 / sqrt(363.0) },
        { "torchvision_alexnet", "features.0.bias", INITIALIZER_UNIFORM, 1 / sqrt(363.0) },
        { "torchvision_alexnet", "classifier.1.bias", INITIALIZER_UNIFORM, 1 / sqrt(9216.0) },
        { "torchvision_alexnet", "classifier.6.weight", INITIALIZER_UNIFORM, 1 / sqrt(4096.0) },
        { "wide_resnet50_2", "layer1.0.conv2.weight", INITIALIZER_NORMAL, sqrt(2.0 / (128 * 9)) },
        { "densenet121", "features.conv0.weight", INITIALIZER_NORMAL, sqrt(2.0 / 147) },
        { "densenet121", "classifier.weight", INITIALIZER_UNIFORM, 1 / sqrt(1024.0) },
        { "densenet121", "classifier.bias", INITIALIZER_CONSTANT, 0 },
        { "squeezenet1_1", "features.3.squeeze.weight", INITIALIZER_UNIFORM, sqrt(6.0 / 64) },
        { "squeezenet1_1", "features.3.squeeze.bias", INITIALIZER_CONSTANT, 0 },
        { "squeezenet1_1", "classifier.1.weight", INITIALIZER_NORMAL, 0.01 },
    };
    for (size_t i = 0; i < ROWS(beginnings); i++) {
        struct net *const net = net_of(beginnings[i].model);
        const struct initializer is = parameter_named(net, beginnings[i].parameter)->initializer;
        if (is.kind != beginnings[i].kind || fabs(is.value - beginnings[i].value) > 1e-6)
            fail_msg("%s: %s begins with kind %d, %g", net->model, beginnings[i].parameter, is.kind, (double)is.value);
        net_close(net);
    }
}

/* A pixel of the last channel as the net gets it. */
static double changed(const struct net *net, double pixel)
{
    const uint32_t last = net->input.channels - 1;
    return (pixel / net->transform.divisor - net->transform.mean[last]) / net->transform.std[last];
}

TEST(pixels_come_as_their_source_has_them)
{
    static const struct { const char *model; double of_0, of_255; } rows[] = {
        { "mnist_cnn", 0, 1 }, { "multigpu_mnist", 0, 1 }, { "cifar10_cnn", 0, 1 }, { "small_cifar", 0, 1 },
        { "cifar_alexnet", -1, 1 }, { "cifar_trivial", -1, 1 }, { "resnet20_v1", -1, 1 }, { "resnet110_v2", -1, 1 },
        { "densenet40_k12", -1, 1 }, { "cifar_vgg19", -2.221393, 2.753731 }, { "cifar_vgg19_bn", -2.221393, 2.753731 },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        assert_true(fabs(changed(net, 0) - rows[i].of_0) < 1e-5);
        assert_true(fabs(changed(net, 255) - rows[i].of_255) < 1e-5);
        net_close(net);
    }
}

TEST(pixels_go_to_minus_1_to_1_and_those_of_torchvision_by_its_mean_and_deviation)
{
    static const float mean[] = { 0.485f, 0.456f, 0.406f }, std[] = { 0.229f, 0.224f, 0.225f };
    static const char *const models[] = { "imagenet_alexnet", "googlenet", "inception3", "lenet",
                                          "overfeat", "resnet50_v1", "resnet101_v1.5", "resnet152_v2",
                                          "vgg11" };
    for (size_t i = 0; i < ROWS(models); i++) {
        struct net *const net = net_of(models[i]);
        assert_true(net->transform.divisor == 127.5f);
        for (uint32_t c = 0; c < 3; c++)
            assert_true(net->transform.mean[c] == 1 && net->transform.std[c] == 1);
        net_close(net);
    }
    struct net *const net = net_of("torchvision_resnet34");
    assert_true(net->transform.divisor == 255);
    for (uint32_t c = 0; c < 3; c++)
        assert_true(net->transform.mean[c] == mean[c] && net->transform.std[c] == std[c]);
    net_close(net);
}

/* ---- names and options ---- */

TEST(two_dropouts_of_a_half_can_be_left_out_and_no_name_changes)
{
    static const char *const models[] = { "imagenet_alexnet", "overfeat", "vgg11", "vgg16", "vgg19",
                                          "torchvision_vgg16_bn" };
    for (size_t i = 0; i < ROWS(models); i++) {
        struct net *const with = net_of(models[i]), *const without = model_make(models[i], 0, false);
        assert_int_equal(count_kind(with, LAYER_DROPOUT), 2);
        assert_string_equal(layer_reads(with, "classifier.2", 0), "classifier.1");
        assert_true(layer_named(with, "classifier.2")->rate == 0.5f && layer_named(with, "classifier.5")->rate == 0.5f);
        assert_int_equal(count_kind(without, LAYER_DROPOUT), 0);
        assert_true(has_layer(without, "classifier.6"));
        net_close(with);
        net_close(without);
    }
}

static uint32_t count_trained(const struct net *net)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        count += net->parameters[i].is_trained;
    return count;
}

/* torchvision's state_dict has a number of batches besides for each normalisation. */
TEST(networks_of_torchvision_have_the_parameters_of_its_state_dict)
{
    static const struct { const char *model; uint32_t trained, all; } rows[] = {
        { "torchvision_resnet18", 62, 122 }, { "torchvision_resnet34", 110, 218 }, { "torchvision_resnet50", 161, 320 },
        { "torchvision_resnet101", 314, 626 }, { "torchvision_resnet152", 467, 932 },
        { "torchvision_vgg16_bn", 58, 97 }, { "torchvision_alexnet", 16, 16 }, { "wide_resnet50_2", 161, 320 },
        { "densenet121", 364, 727 }, { "squeezenet1_1", 52, 52 }, { "mobilenet_v2", 158, 314 },
        { "mobilenet_v3_large", 174, 312 }, { "efficientnet_b0", 213, 360 }, { "efficientnet_v2_s", 452, 782 },
        { "resnext50_32x4d", 161, 320 }, { "regnet_y_1_6gf", 368, 626 }, { "convnext_tiny", 182, 182 },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        assert_int_equal(count_trained(net), rows[i].trained);
        assert_int_equal(net->parameter_count + count_kind(net, LAYER_BATCH_NORM), rows[i].all);
        net_close(net);
    }
}

TEST(the_parameters_of_torchvision_resnet50_have_its_names)
{
    static const struct { const char *name; uint32_t dims[4]; } rows[] = {
        { "conv1.weight", { 64, 3, 7, 7 } },
        { "bn1.weight", { 64 } },
        { "bn1.bias", { 64 } },
        { "bn1.running_mean", { 64 } },
        { "bn1.running_var", { 64 } },
        { "layer1.0.conv1.weight", { 64, 64, 1, 1 } },
        { "layer1.0.conv2.weight", { 64, 64, 3, 3 } },
        { "layer1.0.conv3.weight", { 256, 64, 1, 1 } },
        { "layer1.0.bn3.bias", { 256 } },
        { "layer1.0.downsample.0.weight", { 256, 64, 1, 1 } },
        { "layer1.0.downsample.1.running_var", { 256 } },
        { "layer2.0.downsample.0.weight", { 512, 256, 1, 1 } },
        { "layer3.0.downsample.1.weight", { 1024 } },
        { "layer4.0.downsample.0.weight", { 2048, 1024, 1, 1 } },
        { "layer4.2.conv3.weight", { 2048, 512, 1, 1 } },
        { "fc.weight", { 1000, 2048 } },
        { "fc.bias", { 1000 } },
    };
    struct net *const net = net_of("torchvision_resnet50");
    for (size_t i = 0; i < ROWS(rows); i++)
        assert_memory_equal(parameter_named(net, rows[i].name)->dims, rows[i].dims, sizeof(rows[i].dims));
    assert_string_equal(net->parameters[0].name, "conv1.weight");
    assert_string_equal(net->parameters[net->parameter_count - 1].name, "fc.bias");
    assert_false(has_layer(net, "layer1.1.downsample.0"));
    net_close(net);
}

TEST(the_convolutions_of_vgg_have_the_numbers_of_torchvision)
{
    static const struct { const char *model; uint32_t numbers[17]; } rows[] = {
        { "vgg11", { 0, 3, 6, 8, 11, 13, 16, 18, 99 } },
        { "vgg16", { 0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28, 99 } },
        { "vgg19", { 0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34, 99 } },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = net_of(rows[i].model);
        uint32_t convs = 0;
        for (; rows[i].numbers[convs] != 99; convs++) {
            char name[32];
            snprintf(name, sizeof(name), "features.%u", rows[i].numbers[convs]);
            assert_int_equal(layer_named(net, name)->kind, LAYER_CONV2D);
        }
        assert_int_equal(count_kind(net, LAYER_CONV2D), convs);
        assert_int_equal(layer_named(net, "classifier.0")->kind, LAYER_DENSE);
        assert_int_equal(layer_named(net, "classifier.3")->kind, LAYER_DENSE);
        assert_int_equal(layer_named(net, "classifier.6")->kind, LAYER_DENSE);
        net_close(net);
    }
}

/* Where the convolutions of VGG lie in PyTorch's list of layers. */
TEST(convolutions_of_vgg_are_called_by_their_places_and_have_biases)
{
    static const uint32_t plain[] = { 0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34 };
    static const uint32_t normed[] = { 0, 3, 7, 10, 14, 17, 20, 23, 27, 30, 33, 36, 40, 43, 46, 49 };
    for (uint32_t k = 0; k < 2; k++) {
        struct net *const net = net_of(k == 0 ? "cifar_vgg19" : "vgg19_bn");
        for (size_t i = 0; i < ROWS(plain); i++) {
            char name[32];
            snprintf(name, sizeof(name), "features.%u.weight", k == 0 ? plain[i] : normed[i]);
            assert_int_equal(parameter_named(net, name)->rank, 4);
            snprintf(name, sizeof(name), "features.%u.bias", k == 0 ? plain[i] : normed[i]);
            assert_int_equal(parameter_named(net, name)->kind, PARAMETER_BIAS);
        }
        net_close(net);
    }
}

TEST(inception3_has_an_auxiliary_head_where_it_is_asked_for)
{
    struct net *const plain = net_of("inception3");
    assert_int_equal(count_kind(plain, LAYER_AUXILIARY_LOSS), 0);
    assert_false(has_layer(plain, "AuxLogits.fc"));
    net_close(plain);
    struct net *net;
    assert_int_equal(model_open(&net, "inception3", &(struct model_options){ .classes = 1001, .auxiliary = true }), 0);
    const struct layer *const pool = layer_named(net, "AuxLogits.pool");
    const struct layer *const loss = layer_named(net, "AuxLogits.loss");
    assert_int_equal(net->trainable_count, 27145970);
    assert_string_equal(layer_reads(net, "AuxLogits.pool", 0), "Mixed_6e.concat");
    assert_int_equal(pool->out.height, 5);
    assert_int_equal(pool->stride_h, 3);
    assert_int_equal(layer_named(net, "AuxLogits.conv1.conv")->out.height, 1);
    assert_true(loss->kind == LAYER_AUXILIARY_LOSS && loss->loss_weight == 0.4f);
    assert_true(parameter_named(net, "AuxLogits.conv1.conv.weight")->initializer.value == 0.01f);
    assert_true(parameter_named(net, "AuxLogits.fc.weight")->initializer.value == 0.001f);
    assert_true(fabs(parameter_named(net, "AuxLogits.conv0.conv.weight")->initializer.value - SCALED(768.0)) < 1e-6);
    net_close(net);
}

/* ---- the table ---- */

TEST(parameters_load_into_the_same_net_in_pytorch)
{
    static const char *const names[] = { "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                         "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias" };
    static const size_t counts[] = { 32 * 9, 32, 32 * 32 * 9, 32, 128 * 4608, 128, 10 * 128, 10 };
    struct net *net = net_of("mnist_cnn");
    assert_int_equal(net->parameter_count, 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_string_equal(net->parameters[i].name, names[i]);
        assert_int_equal(net->parameters[i].count, counts[i]);
    }
    const uint32_t fc1[] = { 128, 4608 }, conv2[] = { 32, 32, 3, 3 };
    assert_memory_equal(net->parameters[4].dims, fc1, sizeof(fc1));
    assert_memory_equal(net->parameters[2].dims, conv2, sizeof(conv2));
    net_close(net);
}

TEST(dropout_can_be_left_out)
{
    for (const struct model *model = model_table; model->name != NULL; model++) {
        struct net *with = model_make(model->name, 0, true), *without = model_make(model->name, 0, false);
        const uint32_t dropouts = count_kind(with, LAYER_DROPOUT) + count_kind(with, LAYER_STOCHASTIC_DEPTH);
        assert_int_equal(count_kind(without, LAYER_DROPOUT) + count_kind(without, LAYER_STOCHASTIC_DEPTH), 0);
        assert_int_equal(with->layer_count, without->layer_count + dropouts);
        assert_int_equal(with->trainable_count, without->trainable_count);
        net_close(with);
        net_close(without);
    }
    struct net *const net = net_of("mnist_cnn");
    assert_int_equal(count_kind(net, LAYER_DROPOUT), 2);
    net_close(net);
}

/* Models of which every parameter fits images of any size, with sizes that are as odd as possible. */
TEST(images_of_another_size_have_the_same_parameters_where_no_dense_layer_reads_pixels)
{
    static const struct { const char *name; uint32_t side; const char *sized; } rows[] = {
        { "efficientnet_v2_s", 300, NULL },    { "convnext_tiny", 176, NULL },   { "efficientnet_b0", 225, NULL },
        { "regnet_y_1_6gf", 161, NULL },       { "mobilenet_v2", 97, NULL },     { "mobilenet_v3_large", 255, NULL },
        { "torchvision_resnet50", 177, NULL }, { "densenet121", 200, NULL },     { "resnext50_32x4d", 193, NULL },
        { "mobilenet_v2_cifar", 24, NULL },    { "squeezenet1_1", 300, NULL },   { "vgg16", 192, "classifier.0" },
        { "mnist_cnn", 24, "fc1" },            { "torchvision_vgg16_bn", 256, "classifier.0" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct model_options options = { .dropout = true, .height = rows[i].side, .width = rows[i].side };
        struct net *const net = model_make(rows[i].name, 0, true), *sized;
        assert_int_equal(model_open(&sized, rows[i].name, &options), 0);
        assert_int_equal(sized->input.height, rows[i].side);
        assert_int_equal(sized->input.channels, net->input.channels);
        const struct layer *const differs = net_find_sized(net, sized);
        if (rows[i].sized != NULL)
            assert_string_equal(differs->name, rows[i].sized);
        else
            assert_null(differs);
        for (uint32_t p = 0; differs == NULL && p < net->parameter_count; p++) {
            assert_string_equal(net->parameters[p].name, sized->parameters[p].name);
            assert_int_equal(net->parameters[p].count, sized->parameters[p].count);
        }
        net_close(sized);
        net_close(net);
    }
}

TEST(the_number_of_classes_can_be_chosen)
{
    struct net *net = model_make("mnist_cnn", 47, true);
    assert_int_equal(net->classes, 47);
    assert_int_equal(net->trainable_count, 600810 + 37 * 129);
    net_close(net);
}

TEST(every_model_is_found_by_its_name_its_alias_and_no_other)
{
    struct net *net = NULL;
    for (const struct model *model = model_table; model->name != NULL; model++) {
        assert_ptr_equal(model_find(model->name), model);
        if (model->alias != NULL)
            assert_ptr_equal(model_find(model->alias), model);
        assert_true(strlen(model->summary) > 0);
    }
    assert_null(model_find("mnist_cnn3"));
    assert_null(model_find(""));
    assert_int_equal(model_open(&net, "mnist", &(struct model_options){ .dropout = true }), -ENOENT);
    assert_null(net);
}

TEST(a_net_opened_by_an_alias_has_the_name_of_its_model)
{
    struct net *const net = net_of("resnet20");
    assert_string_equal(net->model, "resnet20_v1");
    net_close(net);
}

TEST(an_impossible_number_of_classes_is_reported)
{
    struct net *net = NULL;
    char text[256];
    const struct model_options options = { .classes = UINT32_MAX };
    assert_int_equal(CAPTURE(text, model_open(&net, "mnist_cnn", &options)), -EINVAL);
    assert_null(net);
    assert_non_null(strstr(text, "mnist_cnn"));
    assert_non_null(strstr(text, "fc2"));
}

TEST(no_model_takes_an_impossible_number_of_classes)
{
    for (const struct model *model = model_table; model->name != NULL; model++) {
        const struct model_options options = { .classes = UINT32_MAX, .auxiliary = true };
        struct net *net = NULL;
        char text[256];
        assert_int_equal(CAPTURE(text, model_open(&net, model->name, &options)), -EINVAL);
        assert_null(net);
        assert_non_null(strstr(text, model->name));
    }
}

TESTS_MAIN(NULL, NULL)
