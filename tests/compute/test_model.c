/* Tests of the model table against the counts of the models' definitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "compute/model.h"
#include "tests/helpers/capture.h"

static struct net *model_make(const char *name, uint32_t classes, bool dropout)
{
    struct net *net;
    assert_int_equal(model_open(&net, name, &(struct model_options){ classes, dropout }), 0);
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

static void every_relu_of_the_mnist_models_is_folded(void **state)
{
    (void)state;
    struct net *net = model_make("mnist_cnn", 0, true);
    for (uint32_t i = 0; i < net->layer_count; i++)
        assert_true(net->layers[i].kind != LAYER_RELU || net->layers[i].folded_into == i - 1);
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
        assert_int_equal(count_kind(with, LAYER_DROPOUT), 2);
        assert_int_equal(count_kind(without, LAYER_DROPOUT), 0);
        assert_int_equal(with->layer_count, without->layer_count + 2);
        assert_int_equal(with->trainable_count, without->trainable_count);
        net_close(with);
        net_close(without);
    }
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
    assert_int_equal(model_open(&net, "mnist", &(struct model_options){ 0, true }), -ENOENT);
    assert_null(net);
}

static void an_impossible_number_of_classes_is_reported(void **state)
{
    struct net *net = NULL;
    struct capture capture;
    char text[256];
    (void)state;
    capture_begin(&capture);
    const int rc = model_open(&net, "mnist_cnn", &(struct model_options){ UINT32_MAX, true });
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
        cmocka_unit_test(every_relu_of_the_mnist_models_is_folded),
        cmocka_unit_test(dropout_can_be_left_out),
        cmocka_unit_test(the_number_of_classes_can_be_chosen),
        cmocka_unit_test(every_model_is_found_by_its_name_and_no_other),
        cmocka_unit_test(an_impossible_number_of_classes_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
