/* Tests of the model table: names, options and what is refused. */
#include <errno.h>
#include <string.h>

#include "tests/helpers/capture.h"
#include "tests/helpers/network/model_look.h"
#include "tests/helpers/test.h"

TEST(parameters_load_into_the_same_net_in_pytorch)
{
    static const char *const names[] = { "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                         "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias" };
    static const size_t counts[] = { 32 * 9, 32, 32 * 32 * 9, 32, 128 * 4608, 128, 10 * 128, 10 };
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

TEST(dropout_can_be_left_out)
{
    for (const struct model *model = model_table; model->name != NULL; model++) {
        struct net *with = model_make(model->name, 0, true), *without = model_make(model->name, 0, false);
        const uint32_t dropouts = count_kind(with, LAYER_DROPOUT);
        assert_int_equal(count_kind(without, LAYER_DROPOUT), 0);
        assert_int_equal(with->layer_count, without->layer_count + dropouts);
        assert_int_equal(with->trainable_count, without->trainable_count);
        net_close(with);
        net_close(without);
    }
    struct net *const net = model_make("mnist_cnn", 0, true);
    assert_int_equal(count_kind(net, LAYER_DROPOUT), 2);
    net_close(net);
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
    struct net *const net = model_make("resnet20", 0, true);
    assert_string_equal(net->model, "resnet20_v1");
    net_close(net);
}

TEST(an_impossible_number_of_classes_is_reported)
{
    struct net *net = NULL;
    struct capture capture;
    char text[256];
    capture_begin(&capture);
    const int rc = model_open(&net, "mnist_cnn", &(struct model_options){ .classes = UINT32_MAX });
    capture_end(&capture, text, sizeof(text));
    assert_int_equal(rc, -EINVAL);
    assert_null(net);
    assert_non_null(strstr(text, "mnist_cnn"));
    assert_non_null(strstr(text, "fc2"));
}

TEST(no_model_takes_an_impossible_number_of_classes)
{
    for (const struct model *model = model_table; model->name != NULL; model++) {
        const struct model_options options = { .classes = UINT32_MAX, .auxiliary = true };
        struct net *net = NULL;
        struct capture capture;
        char text[256];
        capture_begin(&capture);
        const int rc = model_open(&net, model->name, &options);
        capture_end(&capture, text, sizeof(text));
        assert_int_equal(rc, -EINVAL);
        assert_null(net);
        assert_non_null(strstr(text, model->name));
    }
}

TESTS_MAIN(NULL, NULL)
