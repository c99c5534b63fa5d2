/* Tests of the models for MNIST and CIFAR-10: what their counts cannot tell (test_counts.c has those). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/network/model_look.h"
#include "tests/helpers/test.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* ---- layers in their order ---- */

static const char letters[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = 'C', [LAYER_DENSE] = 'D', [LAYER_BATCH_NORM] = 'N', [LAYER_RELU] = 'R',
    [LAYER_MAX_POOL] = 'M', [LAYER_AVERAGE_POOL] = 'A', [LAYER_DROPOUT] = 'd', [LAYER_LOCAL_RESPONSE_NORM] = 'L',
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
        struct net *const net = model_make(rows[i].model, 0, true);
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
        struct net *const net = model_make(rows[i].model, 0, true);
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
        struct net *const net = model_make(rows[i].model, 0, true);
        assert_true(layer_named(net, rows[i].layer)->rate == rows[i].rate);
        net_close(net);
    }
}

/* ---- windows ---- */

/* The odd pixel of padding lies behind: the window begins at the edge. */
TEST(windows_of_3x3_that_halve_an_image_pad_it_behind_only)
{
    static const struct { const char *model, *layer; } rows[] = {
        { "resnet20_v1", "layer2.0.conv1" }, { "resnet20_v1", "layer3.0.conv1" },  { "resnet110_v1", "layer3.0.conv1" },
        { "resnet20_v2", "layer2.0.conv1" }, { "resnet110_v2", "layer3.0.conv1" }, { "cifar_alexnet", "pool1" },
        { "cifar_alexnet", "pool2" },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = model_make(rows[i].model, 0, true);
        const struct layer *const half = layer_named(net, rows[i].layer);
        assert_int_equal(half->kernel_h, 3);
        assert_int_equal(half->stride_h, 2);
        assert_int_equal(half->out.height * 2, half->in.height);
        assert_true(half->pad_top == 0 && half->pad_bottom == 1 && half->pad_left == 0 && half->pad_right == 1);
        net_close(net);
    }
}

/* ---- residual networks ---- */

/* No ReLU in the stem: the first shortcut carries signed values. */
TEST(the_stem_of_v1_has_no_relu_and_that_of_v2_has_one)
{
    struct net *const v1 = model_make("resnet20_v1", 0, true), *const v2 = model_make("resnet20_v2", 0, true);
    assert_string_equal(layer_reads(v1, "layer1.0.conv1", 0), "bn1");
    assert_string_equal(layer_reads(v1, "layer1.0.add", 1), "bn1");
    assert_string_equal(layer_reads(v2, "layer1.0.bn1", 0), "relu1");
    assert_string_equal(layer_reads(v2, "layer1.0.add", 1), "relu1");
    net_close(v1);
    net_close(v2);
}

/* v1 adds behind the ReLU of the block before, v2 before any normalisation of its own. */
TEST(shortcuts_carry_what_their_block_reads)
{
    static const struct { const char *model, *layer; uint32_t input; const char *reads; } rows[] = {
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
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = model_make(rows[i].model, 0, true);
        assert_string_equal(layer_reads(net, rows[i].layer, rows[i].input), rows[i].reads);
        net_close(net);
    }
}

TEST(channels_are_added_as_zeros_on_both_sides)
{
    static const struct { const char *layer; uint32_t before, channels, size; } rows[] = {
        { "layer2.0.shortcut", 8, 32, 16 }, { "layer3.0.shortcut", 16, 64, 8 } };
    static const char *const models[] = { "resnet20_v1", "resnet20_v2", "resnet110_v1", "resnet110_v2" };
    for (size_t m = 0; m < ROWS(models); m++) {
        struct net *const net = model_make(models[m], 0, true);
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

/* ---- densely connected networks ---- */

TEST(new_channels_come_behind_those_that_were_there)
{
    struct net *const net = model_make("densenet40_k12", 0, true);
    assert_string_equal(layer_reads(net, "features.denseblock1.denselayer1.norm", 0), "features.conv");
    assert_string_equal(layer_reads(net, "features.denseblock1.denselayer1.concat", 0), "features.conv");
    assert_string_equal(layer_reads(net, "features.denseblock1.denselayer1.concat", 1),
                        "features.denseblock1.denselayer1.conv");
    assert_string_equal(layer_reads(net, "features.denseblock2.denselayer2.concat", 0),
                        "features.denseblock2.denselayer1.concat");
    assert_string_equal(layer_reads(net, "features.denseblock2.denselayer1.norm", 0), "features.transition1.pool");
    assert_string_equal(layer_reads(net, "features.transition1.relu_out", 0), "features.transition1.conv");
    net_close(net);
}

TEST(channels_grow_by_k_and_a_transition_leaves_2_k)
{
    static const struct { const char *model, *layer; uint32_t channels; } rows[] = {
        { "densenet40_k12", "features.denseblock1.denselayer12.concat", 160 },
        { "densenet40_k12", "features.transition1.pool", 24 },
        { "densenet40_k12", "features.denseblock3.denselayer12.concat", 168 },
        { "densenet100_k12", "features.denseblock1.denselayer32.concat", 400 },
        { "densenet100_k12", "features.denseblock2.denselayer32.concat", 408 },
        { "densenet100_k24", "features.denseblock1.denselayer32.concat", 784 },
        { "densenet100_k24", "features.transition2.pool", 48 },
        { "densenet100_k24", "features.denseblock3.denselayer32.concat", 816 },
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = model_make(rows[i].model, 0, true);
        assert_int_equal(layer_named(net, rows[i].layer)->out.channels, rows[i].channels);
        net_close(net);
    }
}

/* ---- normalisations ---- */

TEST(normalisations_have_the_decay_the_epsilon_and_the_gamma_of_their_source)
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
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = model_make(rows[i].model, 0, true);
        const struct layer *const norm = layer_named(net, rows[i].layer);
        assert_true(norm->decay == rows[i].decay);
        assert_true(norm->epsilon == rows[i].epsilon);
        assert_int_equal(layer_has(norm, PARAMETER_GAMMA), rows[i].gamma);
        net_close(net);
    }
}

TEST(responses_are_normalised_over_9_channels)
{
    struct net *const net = model_make("cifar_alexnet", 0, true);
    for (uint32_t i = 0; i < 2; i++) {
        const struct local_response_norm how = layer_named(net, i == 0 ? "norm1" : "norm2")->response;
        assert_true(how.size == 9 && how.alpha == 0.001f && how.beta == 0.75f && how.k == 1.0f);
    }
    net_close(net);
}

/* ---- how they begin ---- */

struct beginning { const char *model, *parameter; enum initializer_kind kind; double value; };

/* Of a normal cut at two deviations what is left has 0.87962566 of the std. */
#define SCALED(fan_in) (sqrt(1.0 / (fan_in)) / 0.87962566)

TEST(parameters_begin_as_their_source_says)
{
    const struct beginning rows[] = {
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
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct net *const net = model_make(rows[i].model, 0, true);
        const struct initializer made = parameter_named(net, rows[i].parameter)->initializer;
        if (made.kind != rows[i].kind || fabs(made.value - rows[i].value) > 1e-6 * (1 + rows[i].value))
            fail_msg("%s: %s begins otherwise: %g", net->model, rows[i].parameter, (double)made.value);
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
        struct net *const net = model_make(rows[i].model, 0, true);
        assert_true(fabs(changed(net, 0) - rows[i].of_0) < 1e-5);
        assert_true(fabs(changed(net, 255) - rows[i].of_255) < 1e-5);
        net_close(net);
    }
}

/* ---- names ---- */

/* Where the convolutions of VGG lie in PyTorch's list of layers. */
TEST(convolutions_of_vgg_are_called_by_their_places_and_have_biases)
{
    static const uint32_t plain[] = { 0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34 };
    static const uint32_t normed[] = { 0, 3, 7, 10, 14, 17, 20, 23, 27, 30, 33, 36, 40, 43, 46, 49 };
    for (uint32_t k = 0; k < 2; k++) {
        struct net *const net = model_make(k == 0 ? "cifar_vgg19" : "vgg19_bn", 0, true);
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

TESTS_MAIN(NULL, NULL)
