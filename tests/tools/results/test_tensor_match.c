/* Tests of files beside networks: every model is known by its tensors, and by all of them only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/model.h"
#include "tests/helpers/test.h"
#include "tools/lib/results/tensor_match.h"

enum { CLASSES = 17 };

/* What a file of the net's weights holds. */
static struct safetensors_index index_of(const struct net *net)
{
    struct safetensors_index index = { .count = net->parameter_count };
    index.tensors = calloc(index.count, sizeof(*index.tensors));
    assert_non_null(index.tensors);
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        index.tensors[i] = (struct safetensors_tensor){ .name = parameter->name, .dtype = "F32",
                                                        .rank = parameter->rank };
        for (uint32_t axis = 0; axis < parameter->rank; axis++)
            index.tensors[i].dims[axis] = parameter->dims[axis];
    }
    return index;
}

static void match(const struct safetensors_index *index, char text[TENSOR_MATCH_SIZE])
{
    tensor_match_models(index, index->count, text);
}

static void check_model(const char *name, const struct model_options *options, const char *said)
{
    struct net *net;
    char text[TENSOR_MATCH_SIZE], expected[128];
    assert_int_equal(model_open(&net, name, options), 0);
    struct safetensors_index index = index_of(net);
    snprintf(expected, sizeof(expected), "'%s'%s", name, said);
    match(&index, text);
    if (strstr(text, expected) == NULL)
        fail_msg("%s is found as: %s", name, text);
    index.tensors[0].dims[1] += 1;
    match(&index, text);
    assert_string_equal(text, "");
    index.tensors[0].dims[1] -= 1;
    index.count--;
    match(&index, text);
    assert_string_equal(text, "");
    free(index.tensors);
    net_close(net);
}

TEST(a_last_layer_that_is_missing_is_skipped_and_no_other)
{
    struct net *net;
    char text[TENSOR_MATCH_SIZE];
    assert_int_equal(model_open(&net, "mnist_cnn", &(const struct model_options){ .dropout = true }), 0);
    struct safetensors_index index = index_of(net);
    index.count -= 2;
    assert_true(tensor_match_skip(&index, net, "", text));
    assert_string_equal(text, "fc2.*");
    assert_false(tensor_match_skip(&index, net, "encoder.", text));
    index.tensors[index.count++].name = "fc2.0.weight";
    assert_true(tensor_match_skip(&index, net, "", text));
    assert_string_equal(text, "fc2.*");
    index.count -= 2;
    assert_false(tensor_match_skip(&index, net, "", text));
    free(index.tensors);
    net_close(net);
}

TEST(every_model_is_found_by_its_tensors_and_by_all_of_them_only)
{
    char said[64];
    snprintf(said, sizeof(said), " with data.classes = %d", CLASSES);
    for (const struct model *model = model_table; model->name != NULL; model++)
        check_model(model->name, &(const struct model_options){ .classes = CLASSES, .dropout = true }, said);
}

TEST(models_of_the_same_tensors_are_all_named)
{
    struct net *net;
    char text[TENSOR_MATCH_SIZE];
    assert_int_equal(model_open(&net, "resnet50_v1.5", &(const struct model_options){ .dropout = true }), 0);
    struct safetensors_index index = index_of(net);
    match(&index, text);
    assert_string_equal(text, "'resnet50_v1', 'resnet50_v1.5', 'torchvision_resnet50'");
    free(index.tensors);
    net_close(net);
}

TEST(an_auxiliary_head_is_named)
{
    check_model("inception3", &(const struct model_options){ .auxiliary = true }, " with model.auxiliary = yes");
}

static void check_body(const struct safetensors_index *index, const char *name, uint32_t classes)
{
    struct net *const net = tensor_match_open(index, model_find(name));
    assert_int_equal(net != NULL ? net->classes : 0, classes);
    net_close(net);
}

TEST(a_model_is_opened_by_the_tensors_before_its_last_layer)
{
    const struct { const char *file, *model; } rows[] = {
        { "resnet50_v1", "torchvision_resnet50" }, { "vgg11", "torchvision_vgg11" },
        { "torchvision_resnet152", "torchvision_resnet152" }, { "wide_resnet50_2", "wide_resnet50_2" },
        { "densenet121", "densenet121" }, { "torchvision_vgg16_bn", "torchvision_vgg16_bn" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct net *net;
        assert_int_equal(model_open(&net, rows[i].file, &(const struct model_options){ .classes = CLASSES }), 0);
        struct safetensors_index index = index_of(net), rest = index;
        check_body(&index, rows[i].model, CLASSES);
        index.count -= 2;
        check_body(&index, rows[i].model, 1000);
        index.count--;
        check_body(&index, rows[i].model, 0);
        rest.count--;
        rest.tensors++;
        check_body(&rest, rows[i].model, 0);
        free(index.tensors);
        net_close(net);
    }
}

TEST(a_file_without_tensors_is_of_no_model)
{
    char text[TENSOR_MATCH_SIZE];
    match(&(const struct safetensors_index){ .count = 0 }, text);
    assert_string_equal(text, "");
}

TESTS_MAIN(NULL, NULL)
