/* Tests of every model of the table against the counts of its definition: those that tf_cnn_benchmarks, Keras and
 * PyTorch publish, to the digit. Only descriptions are built. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/helpers/network/model_look.h"
#include "tests/helpers/test.h"

/* Layers, numbers by kind, what is trained, statistics, both and the step counter, multiply-accumulates in millions. */
struct counts {
    const char *model;
    uint32_t convs, norms, denses;
    size_t weights, biases, gammas, betas, trained, statistics, variables;
    double million_macs;
};

static size_t count_numbers(const struct net *net, enum parameter_kind kind)
{
    size_t count = 0;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        count += net->parameters[i].kind == kind ? net->parameters[i].count : 0;
    return count;
}

static void assert_count(const char *model, const char *what, size_t counted, size_t published)
{
    if (counted != published)
        fail_msg("%s: %zu %s, not %zu", model, counted, what, published);
}

static void assert_macs(const char *model, const struct net *net, double millions)
{
    if (fabs((double)net->macs / 1e6 - millions) > 0.00501)
        fail_msg("%s: %.4f million MACs, not %.2f", model, (double)net->macs / 1e6, millions);
}

static void assert_counts(const struct counts *row, uint32_t classes)
{
    struct net *const net = model_make(row->model, classes, true);
    assert_int_equal(net->classes, classes);
    assert_count(row->model, "convolutions", count_kind(net, LAYER_CONV2D), row->convs);
    assert_count(row->model, "normalisations", count_kind(net, LAYER_BATCH_NORM), row->norms);
    assert_count(row->model, "dense layers", count_kind(net, LAYER_DENSE), row->denses);
    assert_count(row->model, "weights", count_numbers(net, PARAMETER_WEIGHT), row->weights);
    assert_count(row->model, "biases", count_numbers(net, PARAMETER_BIAS), row->biases);
    assert_count(row->model, "gammas", count_numbers(net, PARAMETER_GAMMA), row->gammas);
    assert_count(row->model, "betas", count_numbers(net, PARAMETER_BETA), row->betas);
    assert_count(row->model, "trained", net->trainable_count, row->trained);
    assert_count(row->model, "statistics", net->statistic_count, row->statistics);
    assert_count(row->model, "variables", net->trainable_count + net->statistic_count + 1, row->variables);
    assert_macs(row->model, net, row->million_macs);
    net_close(net);
}

TEST(cifar_models_of_11_classes_have_the_published_counts)
{
    static const struct counts rows[] = {
        { "cifar_alexnet", 2, 0, 3, 1755904, 715, 0, 0, 1756619, 0, 1756620, 32.78 },
        { "cifar_trivial", 0, 0, 3, 52224, 4108, 0, 0, 56332, 0, 56333, 0.05 },
        { "resnet20_v1", 19, 19, 1, 268400, 11, 688, 688, 269787, 1376, 271164, 40.55 },
        { "resnet20_v2", 19, 20, 1, 268400, 11, 352, 704, 269467, 1408, 270876, 40.55 },
        { "resnet32_v1", 31, 31, 1, 461936, 11, 1136, 1136, 464219, 2272, 466492, 68.86 },
        { "resnet32_v2", 31, 32, 1, 461936, 11, 576, 1152, 463675, 2304, 465980, 68.86 },
        { "resnet44_v1", 43, 43, 1, 655472, 11, 1584, 1584, 658651, 3168, 661820, 97.17 },
        { "resnet44_v2", 43, 44, 1, 655472, 11, 800, 1600, 657883, 3200, 661084, 97.17 },
        { "resnet56_v1", 55, 55, 1, 849008, 11, 2032, 2032, 853083, 4064, 857148, 125.49 },
        { "resnet56_v2", 55, 56, 1, 849008, 11, 1024, 2048, 852091, 4096, 856188, 125.49 },
        { "resnet110_v1", 109, 109, 1, 1719920, 11, 4048, 4048, 1728027, 8096, 1736124, 252.89 },
        { "resnet110_v2", 109, 110, 1, 1719920, 11, 2032, 4064, 1726027, 8128, 1734156, 252.89 },
        { "densenet40_k12", 39, 39, 1, 349704, 507, 3640, 3640, 357491, 7280, 364772, 151.56 },
        { "densenet100_k12", 99, 99, 1, 2173944, 1227, 21120, 21120, 2217411, 42240, 2259652, 959.89 },
        { "densenet100_k24", 99, 99, 1, 8574144, 2427, 41712, 41712, 8659995, 83424, 8743420, 3724.21 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_counts(&rows[i], 11);
}

TEST(cifar_models_of_10_classes_have_the_published_counts)
{
    static const struct counts rows[] = {
        { "cifar_alexnet", 2, 0, 3, 1755712, 714, 0, 0, 1756426, 0, 1756427, 32.78 },
        { "cifar_trivial", 0, 0, 3, 48128, 4107, 0, 0, 52235, 0, 52236, 0.05 },
        { "resnet20_v1", 19, 19, 1, 268336, 10, 688, 688, 269722, 1376, 271099, 40.55 },
        { "resnet20_v2", 19, 20, 1, 268336, 10, 352, 704, 269402, 1408, 270811, 40.55 },
        { "resnet32_v1", 31, 31, 1, 461872, 10, 1136, 1136, 464154, 2272, 466427, 68.86 },
        { "resnet32_v2", 31, 32, 1, 461872, 10, 576, 1152, 463610, 2304, 465915, 68.86 },
        { "resnet44_v1", 43, 43, 1, 655408, 10, 1584, 1584, 658586, 3168, 661755, 97.17 },
        { "resnet44_v2", 43, 44, 1, 655408, 10, 800, 1600, 657818, 3200, 661019, 97.17 },
        { "resnet56_v1", 55, 55, 1, 848944, 10, 2032, 2032, 853018, 4064, 857083, 125.49 },
        { "resnet56_v2", 55, 56, 1, 848944, 10, 1024, 2048, 852026, 4096, 856123, 125.49 },
        { "resnet110_v1", 109, 109, 1, 1719856, 10, 4048, 4048, 1727962, 8096, 1736059, 252.89 },
        { "resnet110_v2", 109, 110, 1, 1719856, 10, 2032, 4064, 1725962, 8128, 1734091, 252.89 },
        { "densenet40_k12", 39, 39, 1, 349536, 506, 3640, 3640, 357322, 7280, 364603, 151.56 },
        { "densenet100_k12", 99, 99, 1, 2173536, 1226, 21120, 21120, 2217002, 42240, 2259243, 959.89 },
        { "densenet100_k24", 99, 99, 1, 8573328, 2426, 41712, 41712, 8659178, 83424, 8742603, 3724.21 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_counts(&rows[i], 10);
}

TEST(imagenet_models_of_1001_classes_have_the_published_counts)
{
    static const struct counts rows[] = {
        { "vgg11", 8, 0, 3, 132855488, 11945, 0, 0, 132867433, 0, 132867434, 7609.09 },
        { "vgg16", 13, 0, 3, 138348224, 13417, 0, 0, 138361641, 0, 138361642, 15470.27 },
        { "vgg19", 16, 0, 3, 143656640, 14697, 0, 0, 143671337, 0, 143671338, 19632.07 },
        { "lenet", 2, 0, 2, 2171744, 1609, 0, 0, 2173353, 0, 2173354, 14.03 },
        { "googlenet", 57, 0, 1, 6991296, 8281, 0, 0, 6999577, 0, 6999578, 1582.67 },
        { "overfeat", 5, 0, 3, 145913888, 11081, 0, 0, 145924969, 0, 145924970, 2801.41 },
        { "imagenet_alexnet", 5, 0, 3, 61831872, 10473, 0, 0, 61842345, 0, 61842346, 838.79 },
        { "imagenet_trivial", 0, 0, 3, 4258779, 5098, 0, 0, 4263877, 0, 4263878, 4.26 },
        { "inception3", 94, 94, 1, 23801184, 1001, 0, 17216, 23819401, 34432, 23853834, 5713.22 },
        { "resnet50_v1", 53, 53, 1, 25504960, 1001, 26560, 26560, 25559081, 53120, 25612202, 3857.98 },
        { "resnet50_v1.5", 53, 53, 1, 25504960, 1001, 26560, 26560, 25559081, 53120, 25612202, 4089.19 },
        { "resnet50_v2", 53, 50, 1, 25504960, 1001, 7616, 22784, 25536361, 45568, 25581930, 3857.98 },
        { "resnet101_v1", 104, 104, 1, 44444864, 1001, 52672, 52672, 44551209, 105344, 44656554, 7570.20 },
        { "resnet101_v1.5", 104, 104, 1, 44444864, 1001, 52672, 52672, 44551209, 105344, 44656554, 7801.41 },
        { "resnet101_v2", 104, 101, 1, 44444864, 1001, 16320, 48896, 44511081, 97792, 44608874, 7570.20 },
        { "resnet152_v1", 155, 155, 1, 60042432, 1001, 75712, 75712, 60194857, 151424, 60346282, 11282.42 },
        { "resnet152_v1.5", 155, 155, 1, 60042432, 1001, 75712, 75712, 60194857, 151424, 60346282, 11513.63 },
        { "resnet152_v2", 155, 152, 1, 60042432, 1001, 24000, 71936, 60139369, 143872, 60283242, 11282.42 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_counts(&rows[i], 1001);
}

TEST(imagenet_models_of_1000_classes_have_the_published_counts)
{
    static const struct counts rows[] = {
        { "vgg11", 8, 0, 3, 132851392, 11944, 0, 0, 132863336, 0, 132863337, 7609.09 },
        { "vgg16", 13, 0, 3, 138344128, 13416, 0, 0, 138357544, 0, 138357545, 15470.26 },
        { "vgg19", 16, 0, 3, 143652544, 14696, 0, 0, 143667240, 0, 143667241, 19632.06 },
        { "lenet", 2, 0, 2, 2171232, 1608, 0, 0, 2172840, 0, 2172841, 14.03 },
        { "googlenet", 57, 0, 1, 6990272, 8280, 0, 0, 6998552, 0, 6998553, 1582.67 },
        { "overfeat", 5, 0, 3, 145909792, 11080, 0, 0, 145920872, 0, 145920873, 2801.40 },
        { "imagenet_alexnet", 5, 0, 3, 61827776, 10472, 0, 0, 61838248, 0, 61838249, 838.79 },
        { "imagenet_trivial", 0, 0, 3, 4254683, 5097, 0, 0, 4259780, 0, 4259781, 4.25 },
        { "inception3", 94, 94, 1, 23799136, 1000, 0, 17216, 23817352, 34432, 23851785, 5713.22 },
        { "resnet50_v1", 53, 53, 1, 25502912, 1000, 26560, 26560, 25557032, 53120, 25610153, 3857.97 },
        { "resnet50_v1.5", 53, 53, 1, 25502912, 1000, 26560, 26560, 25557032, 53120, 25610153, 4089.18 },
        { "resnet50_v2", 53, 50, 1, 25502912, 1000, 7616, 22784, 25534312, 45568, 25579881, 3857.97 },
        { "resnet101_v1", 104, 104, 1, 44442816, 1000, 52672, 52672, 44549160, 105344, 44654505, 7570.19 },
        { "resnet101_v1.5", 104, 104, 1, 44442816, 1000, 52672, 52672, 44549160, 105344, 44654505, 7801.41 },
        { "resnet101_v2", 104, 101, 1, 44442816, 1000, 16320, 48896, 44509032, 97792, 44606825, 7570.19 },
        { "resnet152_v1", 155, 155, 1, 60040384, 1000, 75712, 75712, 60192808, 151424, 60344233, 11282.42 },
        { "resnet152_v1.5", 155, 155, 1, 60040384, 1000, 75712, 75712, 60192808, 151424, 60344233, 11513.63 },
        { "resnet152_v2", 155, 152, 1, 60040384, 1000, 24000, 71936, 60137320, 143872, 60281193, 11282.42 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_counts(&rows[i], 1000);
}

/* Trained numbers, all with statistics. */
TEST(models_of_keras_and_pytorch_have_the_published_counts)
{
    static const struct { const char *model; uint32_t classes; size_t trained, all; double million_macs; } rows[] = {
        { "mnist_cnn", 10, 600810, 600810, 6.09 },
        { "mnist_cnn2", 10, 1199882, 1199882, 11.99 },
        { "multigpu_mnist", 10, 2353738, 2354250, 187.38 },
        { "cifar10_cnn", 10, 1250858, 1250858, 20.74 },
        { "small_cifar", 10, 328586, 328586, 1.21 },
        { "cifar_vgg19", 10, 20029514, 20029514, 398.14 },
        { "cifar_vgg19_bn", 10, 20040522, 20051530, 398.14 },
        { "torchvision_resnet18", 1000, 11689512, 11699112, 1814.07 },
        { "torchvision_resnet34", 1000, 21797672, 21814696, 3663.76 },
        { "torchvision_resnet50", 1000, 25557032, 25610152, 4089.18 },
        { "torchvision_resnet101", 1000, 44549160, 44654504, 7801.41 },
        { "torchvision_resnet152", 1000, 60192808, 60344232, 11513.63 },
        { "torchvision_vgg16_bn", 1000, 138365992, 138374440, 15470.26 },
        { "torchvision_alexnet", 1000, 61100840, 61100840, 714.19 },
        { "wide_resnet50_2", 1000, 68883240, 68951464, 11398.02 },
        { "densenet121", 1000, 7978856, 8062504, 2834.16 },
        { "squeezenet1_1", 1000, 1235496, 1235496, 349.15 },
        { "resnext50_32x4d", 1000, 25028904, 25028904 + 68224, 4230.48 },
        { "regnet_y_1_6gf", 1000, 11202430, 11202430 + 52672, 1612.08 },
        { "mobilenet_v2", 1000, 3504872, 3504872 + 34112, 300.77 },
        { "mobilenet_v3_large", 1000, 5483032, 5483032 + 24400, 216.59 },
        { "efficientnet_b0", 1000, 5288548, 5288548 + 42016, 385.81 },
        { "efficientnet_v2_s", 1000, 21458488, 21458488 + 153872, 8365.62 },
        { "convnext_tiny", 1000, 28589128, 28589128, 4455.53 },
        { "resnext29_8x64d", 10, 34426698, 34426698 + 57472, 5387.27 },
        { "mobilenet_v2_cifar", 10, 2236682, 2236682 + 34112, 87.98 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *const net = model_make(rows[i].model, 0, true);
        assert_int_equal(net->classes, rows[i].classes);
        assert_count(rows[i].model, "trained", net->trainable_count, rows[i].trained);
        assert_count(rows[i].model, "numbers", net->trainable_count + net->statistic_count, rows[i].all);
        assert_macs(rows[i].model, net, rows[i].million_macs);
        net_close(net);
    }
}

/* The heights of a model's values, each told when it is less than any before, until one number a channel is left. */
static void find_sizes(const struct net *net, char *text, size_t text_size)
{
    uint32_t least = UINT32_MAX;
    size_t used = 0;
    for (uint32_t i = 0; i < net->layer_count && net->layers[i].out.height > 1; i++)
        if (net->layers[i].out.height < least) {
            least = net->layers[i].out.height;
            used += (size_t)snprintf(text + used, text_size - used, "%s%u", used > 0 ? " " : "", least);
        }
}

TEST(images_shrink_as_they_are_published_to)
{
    static const struct { const char *model, *sizes; } rows[] = {
        { "cifar_alexnet", "32 16 8" },
        { "resnet20_v1", "32 16 8" },
        { "resnet110_v2", "32 16 8" },
        { "densenet40_k12", "32 16 8" },
        { "densenet100_k24", "32 16 8" },
        { "cifar10_cnn", "32 30 15 13 6" },
        { "mnist_cnn", "26 24 12" },
        { "multigpu_mnist", "26 24 22 11" },
        { "cifar_vgg19", "32 16 8 4 2" },
        { "imagenet_alexnet", "55 27 13 6" },
        { "googlenet", "112 56 28 14 7" },
        { "inception3", "149 147 73 71 35 17 8" },
        { "resnet50_v1", "112 56 28 14 7" },
        { "resnet101_v1.5", "112 56 28 14 7" },
        { "resnet152_v2", "112 56 28 14 7" },
        { "torchvision_resnet18", "112 56 28 14 7" },
        { "torchvision_alexnet", "55 27 13 6" },
        { "densenet121", "112 56 28 14 7" },
        { "squeezenet1_1", "111 55 27 13" },
        { "vgg11", "224 112 56 28 14 7" },
        { "overfeat", "56 28 24 12 6" },
        { "lenet", "28 14 7" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char sizes[128];
        struct net *const net = model_make(rows[i].model, 0, true);
        find_sizes(net, sizes, sizeof(sizes));
        if (strcmp(sizes, rows[i].sizes) != 0)
            fail_msg("%s: %s, not %s", rows[i].model, sizes, rows[i].sizes);
        net_close(net);
    }
}

TESTS_MAIN(NULL, NULL)
