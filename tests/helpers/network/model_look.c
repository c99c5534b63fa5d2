/* Find layers and parameters. Called by tests of models. */
#include "tests/helpers/network/model_look.h"

#include <string.h>

#include "tests/helpers/test.h"

struct net *model_make(const char *name, uint32_t classes, bool dropout)
{
    struct net *net;
    assert_int_equal(model_open(&net, name, &(struct model_options){ .classes = classes, .dropout = dropout }), 0);
    return net;
}

const struct layer *layer_named(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->layer_count; i++)
        if (strcmp(net->layers[i].name, name) == 0)
            return &net->layers[i];
    fail_msg("%s has no layer %s", net->model, name);
    return NULL;
}

const struct parameter *parameter_named(const struct net *net, const char *name)
{
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (strcmp(net->parameters[i].name, name) == 0)
            return &net->parameters[i];
    fail_msg("%s has no parameter %s", net->model, name);
    return NULL;
}

const char *layer_reads(const struct net *net, const char *name, uint32_t k)
{
    const struct layer *const layer = layer_named(net, name);
    assert_true(k < layer->input_count);
    return layer->inputs[k] == NET_INPUT ? "image" : net->layers[layer->inputs[k]].name;
}

uint32_t count_kind(const struct net *net, enum layer_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < net->layer_count; i++)
        count += net->layers[i].kind == kind;
    return count;
}
