/* Tests of the model table against the counts of the models' definitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <string.h>

#include "compute/model.h"
#include "tests/helpers/capture.h"

static struct net *model_make(const char *name, uint32_t classes, bool dropout)
{
    struct net *net;
    assert_int_equal(model_open(&net, name, &(struct model_options){ .classes = classes, .dropout = dropout }), 0);
    return net;
}

static void mnist_cnn_has_600810_parameters_and_6_09_million_macs(void **state)
{
    (void)state;
    struct net *net = model_make("mnist_cnn", 0, true);
    assert_int_equal(net->trainable_count, 600810);
    assert_int_equal(net->macs, 6094208);
    assert_int_equal(net->classes, 10);
    assert_int_equal(net->layer_count, 11);
    net_close(net);
}

static void mnist_cnn2_has_1199882_parameters(void **state)
{
    (void)state;
    struct net *net = model_make("mnist_cnn2", 0, true);
    assert_int_equal(net->trainable_count, 1199882);
    net_close(net);
}

static void parameters_load_into_the_same_net_in_pytorch(void **state)
{
    static const char *const names[] = { "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                         "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias" };
    static const size_t counts[] = { 32 * 9, 32, 32 * 32 * 9, 32, 128 * 4608, 128, 10 * 128, 10 };
    (void)state;
    struct net *net = model_make("mnist_cnn", 0, true);
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

static uint32_t count_kind(const struct net *net, enum layer_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->layer_count; i++)
        count += net->layers[i].kind == kind;
    return count;
}

static void dropout_can_be_left_out(void **state)
{
    (void)state;
    for (const struct model *model = model_table; model->name != NULL; model++) {
        struct net *with = model_make(model->name, 0, true), *without = model_make(model->name, 0, false);
        const uint32_t dropouts = count_kind(with, LAYER_DROPOUT);
        assert_int_equal(dropouts, strncmp(model->name, "mnist", 5) == 0 ? 2 : 0);
        assert_int_equal(count_kind(without, LAYER_DROPOUT), 0);
        assert_int_equal(with->layer_count, without->layer_count + dropouts);
        assert_int_equal(with->trainable_count, without->trainable_count);
        net_close(with);
        net_close(without);
    }
}

/* ---- residual networks ---- */

struct resnet_row {
    const char *name;
    uint32_t classes, convs, norms;
    size_t trainable, statistics;
    double million_macs;
};

static void residual_networks_have_the_counts_of_their_table(void **state)
{
    static const struct resnet_row rows[] = {
        { "resnet20_v1", 10, 19, 19, 269722, 1376, 40.55 },
        { "resnet20_v1", 11, 19, 19, 269787, 1376, 40.55 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net *const net = model_make(rows[i].name, rows[i].classes, true);
        assert_int_equal(count_kind(net, LAYER_CONV2D), rows[i].convs);
        assert_int_equal(count_kind(net, LAYER_BATCH_NORM), rows[i].norms);
        assert_int_equal(net->trainable_count, rows[i].trainable);
        assert_int_equal(net->statistic_count, rows[i].statistics);
        assert_true(fabs((double)net->macs / 1e6 - rows[i].million_macs) < 0.005);
        net_close(net);
    }
}

static const struct layer *layer_named(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (strcmp(net->layers[i].name, name) == 0)
            return &net->layers[i];
    fail_msg("no layer %s", name);
    return NULL;
}

static const struct parameter *parameter_named(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (strcmp(net->parameters[i].name, name) == 0)
            return &net->parameters[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

/* A ReLU behind every normalisation but the stem's, and in the middle of each of three stages of
 * three blocks; two shortcuts where channels change. */
static void resnet20_has_no_relu_in_its_stem_and_two_padded_shortcuts(void **state)
{
    (void)state;
    struct net *const net = model_make("resnet20_v1", 0, true);
    assert_int_equal(net->classes, 10);
    assert_int_equal(count_kind(net, LAYER_RELU), 18);
    assert_int_equal(count_kind(net, LAYER_ADD), 9);
    assert_int_equal(count_kind(net, LAYER_PAD_CHANNELS), 2);
    assert_int_equal(layer_named(net, "layer1.0.conv1")->inputs[0], layer_named(net, "bn1") - net->layers);
    assert_int_equal(layer_named(net, "layer1.0.add")->inputs[1], layer_named(net, "bn1") - net->layers);
    const struct layer *const around = layer_named(net, "layer2.0.shortcut");
    assert_int_equal(around->channels_before, 8);
    assert_int_equal(around->out.channels, 32);
    assert_int_equal(around->out.height, 16);
    assert_int_equal(layer_named(net, "layer3.2.relu2")->out.width, 8);
    net_close(net);
}

/* The odd pixel of padding lies behind. */
static void resnet20_halves_images_with_windows_that_begin_at_the_edge(void **state)
{
    (void)state;
    struct net *const net = model_make("resnet20_v1", 0, true);
    const struct layer *const half = layer_named(net, "layer2.0.conv1");
    assert_int_equal(half->pad_top, 0);
    assert_int_equal(half->pad_bottom, 1);
    assert_int_equal(half->pad_left, 0);
    assert_int_equal(half->pad_right, 1);
    net_close(net);
}

static void resnet20_begins_with_its_own_deviations_and_pixels_from_minus_1_to_1(void **state)
{
    (void)state;
    struct net *const net = model_make("resnet20_v1", 0, true);
    const struct initializer fc = parameter_named(net, "fc.weight")->initializer;
    const struct initializer conv = parameter_named(net, "layer3.0.conv2.weight")->initializer;
    assert_int_equal(fc.kind, INITIALIZER_TRUNCATED_NORMAL);
    assert_true(fabs(fc.value - 0.125) < 1e-6);
    assert_int_equal(conv.kind, INITIALIZER_TRUNCATED_NORMAL);
    assert_true(fabs(conv.value * 0.8796 - 1.0 / 24) < 1e-5);
    assert_true(net->transform.divisor == 127.5f);
    for (uint32_t c = 0; c < 3; c++)
        assert_true(net->transform.mean[c] == 1 && net->transform.deviation[c] == 1);
    net_close(net);
}

static void the_number_of_classes_can_be_chosen(void **state)
{
    (void)state;
    struct net *net = model_make("mnist_cnn", 47, true);
    assert_int_equal(net->classes, 47);
    assert_int_equal(net->trainable_count, 600810 + 37 * 129);
    net_close(net);
}

static void every_model_is_found_by_its_name_and_no_other(void **state)
{
    struct net *net = NULL;
    (void)state;
    for (const struct model *model = model_table; model->name != NULL; model++) {
        assert_ptr_equal(model_find(model->name), model);
        assert_true(strlen(model->summary) > 0);
    }
    assert_null(model_find("mnist_cnn3"));
    assert_null(model_find(""));
    assert_int_equal(model_open(&net, "mnist", &(struct model_options){ .dropout = true }), -ENOENT);
    assert_null(net);
}

static void an_impossible_number_of_classes_is_reported(void **state)
{
    struct net *net = NULL;
    struct capture capture;
    char text[256];
    (void)state;
    capture_begin(&capture);
    const int rc = model_open(&net, "mnist_cnn", &(struct model_options){ .classes = UINT32_MAX });
    capture_end(&capture, text, sizeof(text));
    assert_int_equal(rc, -EINVAL);
    assert_null(net);
    assert_non_null(strstr(text, "mnist_cnn"));
    assert_non_null(strstr(text, "fc2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnist_cnn_has_600810_parameters_and_6_09_million_macs),
        cmocka_unit_test(mnist_cnn2_has_1199882_parameters),
        cmocka_unit_test(parameters_load_into_the_same_net_in_pytorch),
        cmocka_unit_test(dropout_can_be_left_out),
        cmocka_unit_test(residual_networks_have_the_counts_of_their_table),
        cmocka_unit_test(resnet20_has_no_relu_in_its_stem_and_two_padded_shortcuts),
        cmocka_unit_test(resnet20_halves_images_with_windows_that_begin_at_the_edge),
        cmocka_unit_test(resnet20_begins_with_its_own_deviations_and_pixels_from_minus_1_to_1),
        cmocka_unit_test(the_number_of_classes_can_be_chosen),
        cmocka_unit_test(every_model_is_found_by_its_name_and_no_other),
        cmocka_unit_test(an_impossible_number_of_classes_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
