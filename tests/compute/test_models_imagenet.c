/* Tests of the models for ImageNet: what their counts cannot tell (test_counts.c has those). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/network/model_look.h"
#include "tests/helpers/test.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

static struct net *net_with(const char *model, const struct model_options *options)
{
    struct net *net;
    assert_int_equal(model_open(&net, model, options), 0);
    return net;
}

static struct net *net_of(const char *model)
{
    return model_make(model, 0, true);
}

static const struct layer *find_layer(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (strcmp(net->layers[i].name, name) == 0)
            return &net->layers[i];
    return NULL;
}

static const char *input_name(const struct net *net, const struct layer *layer, uint32_t k)
{
    return layer->inputs[k] == NET_INPUT ? "" : net->layers[layer->inputs[k]].name;
}

/* ---- shapes ---- */

struct output { const char *model, *layer; uint32_t channels, size; };

TEST(images_shrink_as_the_tables_of_the_models_say)
{
    static const struct output outputs[] = {
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
    };
    for (size_t i = 0; i < ROWS(outputs); i++) {
        struct net *const net = net_of(outputs[i].model);
        const struct shape out = layer_named(net, outputs[i].layer)->out;
        if (out.channels != outputs[i].channels || out.height != outputs[i].size || out.width != outputs[i].size)
            fail_msg("%s: %s makes %ux%ux%u", net->model, outputs[i].layer, out.channels, out.height, out.width);
        net_close(net);
    }
}

/* Pixels of padding in front and behind, down and across. */
struct look { const char *model, *layer; uint32_t kernel_h, kernel_w, stride, top, bottom, left, right; };

TEST(windows_have_the_strides_and_the_padding_of_the_models_definitions)
{
    static const struct look looks[] = {
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

/* ---- branches ---- */

struct join { const char *model, *layer, *inputs[7]; };

TEST(branches_are_put_behind_each_other_in_the_order_of_the_models_definitions)
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
        const struct layer *const concat = layer_named(net, joins[i].layer);
        uint32_t k = 0;
        for (; joins[i].inputs[k] != NULL; k++)
            assert_string_equal(strchr(input_name(net, concat, k), '.') + 1, joins[i].inputs[k]);
        assert_int_equal(concat->input_count, k);
        net_close(net);
    }
}

struct read { const char *model, *layer, *input; };

TEST(branches_begin_where_the_models_definitions_say)
{
    static const struct read reads[] = {
        { "googlenet", "inception3b.branch4.0", "inception3a.concat" },
        { "googlenet", "inception4a.branch1", "maxpool3" },
        { "googlenet", "inception5a.branch2.0", "maxpool4" },
        { "inception3", "Mixed_5b.branch_pool.conv", "Mixed_5b.pool" },
        { "inception3", "Mixed_6a.pool", "Mixed_5d.concat" },
        { "inception3", "Mixed_7b.branch3x3_2a.conv", "Mixed_7b.branch3x3_1.relu" },
        { "inception3", "Mixed_7b.branch3x3_2b.conv", "Mixed_7b.branch3x3_1.relu" },
        { "inception3", "Mixed_7b.branch3x3dbl_3a.conv", "Mixed_7b.branch3x3dbl_2.relu" },
        { "inception3", "Mixed_7b.branch3x3dbl_3b.conv", "Mixed_7b.branch3x3dbl_2.relu" },
        { "resnet50_v1", "layer1.0.downsample.0", "maxpool" },
        { "resnet50_v1", "layer1.1.conv1", "layer1.0.relu" },
        { "resnet50_v2", "layer1.0.bn1", "maxpool" },
        { "resnet50_v2", "layer1.0.downsample", "layer1.0.relu1" },
        { "resnet50_v2", "layer1.0.conv1", "layer1.0.relu1" },
        { "resnet50_v2", "layer1.1.bn1", "layer1.0.add" },
        { "resnet50_v2", "bn2", "layer4.2.add" },
        { "resnet50_v2", "avgpool", "relu2" },
    };
    for (size_t i = 0; i < ROWS(reads); i++) {
        struct net *const net = net_of(reads[i].model);
        assert_string_equal(input_name(net, layer_named(net, reads[i].layer), 0), reads[i].input);
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
        assert_string_equal(input_name(net, add, 0), sums[i].branch);
        assert_string_equal(input_name(net, add, 1), sums[i].around);
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

struct norm { const char *model, *layer; double decay, epsilon; bool with_gamma; };

TEST(normalisations_have_the_decay_and_epsilon_of_their_place)
{
    static const struct norm norms[] = {
        { "inception3", "Conv2d_1a_3x3.bn", 0.999, 1e-3, false },
        { "inception3", "Mixed_7c.branch_pool.bn", 0.999, 1e-3, false },
        { "resnet50_v1", "bn1", 0.9, 1e-5, true },
        { "resnet50_v1", "layer1.0.downsample.1", 0.9, 1e-5, true },
        { "resnet50_v1.5", "layer4.2.bn3", 0.9, 1e-5, true },
        { "resnet50_v2", "bn1", 0.9, 1e-5, true },
        { "resnet50_v2", "layer1.0.bn1", 0.999, 1e-3, false },
        { "resnet50_v2", "layer1.0.bn2", 0.9, 1e-5, true },
        { "resnet50_v2", "layer1.0.bn3", 0.9, 1e-5, true },
        { "resnet50_v2", "bn2", 0.999, 1e-3, false },
        { "torchvision_resnet18", "layer3.0.downsample.1", 0.9, 1e-5, true },
    };
    for (size_t i = 0; i < ROWS(norms); i++) {
        struct net *const net = net_of(norms[i].model);
        const struct layer *const layer = layer_named(net, norms[i].layer);
        assert_true(fabs(layer->decay - norms[i].decay) < 1e-6);
        assert_true(fabs(layer->epsilon - norms[i].epsilon) < 1e-8);
        assert_int_equal(layer_has(layer, PARAMETER_GAMMA), norms[i].with_gamma);
        net_close(net);
    }
}

struct beginning { const char *model, *parameter; enum initializer_kind kind; double value; };

/* A truncated normal of this std before it is cut has the std 1 / sqrt(fan_in) afterwards. */
#define SCALED(fan_in) (1 / sqrt(fan_in) / 0.87962566103423978)

TEST(parameters_begin_as_the_models_definitions_say)
{
    const struct beginning beginnings[] = {
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
    };
    for (size_t i = 0; i < ROWS(beginnings); i++) {
        struct net *const net = net_of(beginnings[i].model);
        const struct initializer is = parameter_named(net, beginnings[i].parameter)->initializer;
        if (is.kind != beginnings[i].kind || fabs(is.value - beginnings[i].value) > 1e-6)
            fail_msg("%s: %s begins with kind %d, %g", net->model, beginnings[i].parameter, is.kind, (double)is.value);
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
    static const char *const models[] = { "imagenet_alexnet", "overfeat", "vgg11", "vgg16", "vgg19" };
    for (size_t i = 0; i < ROWS(models); i++) {
        struct net *const with = net_of(models[i]), *const without = net_with(models[i], &(struct model_options){ 0 });
        assert_int_equal(count_kind(with, LAYER_DROPOUT), 2);
        assert_string_equal(input_name(with, layer_named(with, "classifier.2"), 0), "classifier.1");
        assert_true(layer_named(with, "classifier.2")->rate == 0.5f && layer_named(with, "classifier.5")->rate == 0.5f);
        assert_int_equal(count_kind(without, LAYER_DROPOUT), 0);
        assert_non_null(find_layer(without, "classifier.6"));
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
TEST(torchvision_resnets_have_the_parameters_of_its_state_dict)
{
    static const struct { const char *model; uint32_t trained, all; } rows[] = {
        { "torchvision_resnet18", 62, 122 }, { "torchvision_resnet34", 110, 218 }, { "torchvision_resnet50", 161, 320 },
        { "torchvision_resnet101", 314, 626 }, { "torchvision_resnet152", 467, 932 },
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
    assert_null(find_layer(net, "layer1.1.downsample.0"));
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

TEST(inception3_has_an_auxiliary_head_where_it_is_asked_for)
{
    struct net *const plain = net_of("inception3");
    assert_int_equal(count_kind(plain, LAYER_AUXILIARY_LOSS), 0);
    assert_null(find_layer(plain, "AuxLogits.fc"));
    net_close(plain);
    struct net *const net = net_with("inception3", &(struct model_options){ .classes = 1001, .auxiliary = true });
    const struct layer *const pool = layer_named(net, "AuxLogits.pool");
    const struct layer *const loss = layer_named(net, "AuxLogits.loss");
    assert_int_equal(net->trainable_count, 27145970);
    assert_string_equal(input_name(net, pool, 0), "Mixed_6e.concat");
    assert_int_equal(pool->out.height, 5);
    assert_int_equal(pool->stride_h, 3);
    assert_int_equal(layer_named(net, "AuxLogits.conv1.conv")->out.height, 1);
    assert_true(loss->kind == LAYER_AUXILIARY_LOSS && loss->loss_weight == 0.4f);
    assert_true(parameter_named(net, "AuxLogits.conv1.conv.weight")->initializer.value == 0.01f);
    assert_true(parameter_named(net, "AuxLogits.fc.weight")->initializer.value == 0.001f);
    assert_true(fabs(parameter_named(net, "AuxLogits.conv0.conv.weight")->initializer.value - SCALED(768.0)) < 1e-6);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
