/* Compares files with networks. All models are built in turn, which takes milliseconds and happens only before an
 * error message. */
#include "tools/results/tensor_match.h"

#include <stdio.h>
#include <string.h>

#include "compute/model.h"
#include "tools/results/tensor_file.h"

#define CLASSES_MAX 50000u     /* fits every model */

const struct safetensors_tensor *tensor_find(const struct safetensors_index *index, const char *name)
{
    for (size_t i = 0; i < index->count; i++)
        if (strcmp(index->tensors[i].name, name) == 0)
            return &index->tensors[i];
    return NULL;
}

bool tensor_has_shape(const struct safetensors_tensor *tensor, const struct parameter *parameter)
{
    bool is_same = tensor_number_bytes(tensor->dtype) > 0 && tensor->rank == parameter->rank;
    for (uint32_t i = 0; is_same && i < parameter->rank; i++)
        is_same = tensor->dims[i] == parameter->dims[i];
    return is_same;
}

static bool has_all_tensors(const struct safetensors_index *index, size_t count, const struct net *net)
{
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct safetensors_tensor *const tensor = tensor_find(index, net->parameters[i].name);
        if (tensor == NULL || !tensor_has_shape(tensor, &net->parameters[i]))
            return false;
    }
    return net->parameter_count == count;
}

const struct layer *tensor_match_head(const struct net *net)
{
    const struct layer *layer = &net->layers[net->layer_count - 1];
    while (!layer_has(layer, PARAMETER_WEIGHT) && layer->inputs[0] != NET_INPUT)
        layer = &net->layers[layer->inputs[0]];
    return layer;
}

/* The number of classes, from the weights of the last layer; 0: the file does not have them. */
static uint32_t find_classes(const struct safetensors_index *index, const struct net *net)
{
    const struct layer *const last = tensor_match_head(net);
    if (!layer_has(last, PARAMETER_WEIGHT))
        return 0;
    const struct safetensors_tensor *const tensor =
        tensor_find(index, net->parameters[last->parameters[PARAMETER_WEIGHT]].name);
    return tensor != NULL && tensor->rank > 0 && tensor->dims[0] <= CLASSES_MAX ? (uint32_t)tensor->dims[0] : 0;
}

uint32_t tensor_match_classes(const struct safetensors_index *index, const struct model *model)
{
    struct net *net;
    if (model_open(&net, model->name, &(const struct model_options){ .dropout = true }) != 0)
        return 0;
    const uint32_t classes = find_classes(index, net);
    net_close(net);
    return classes;
}

static bool is_model(const struct safetensors_index *index, size_t count, const struct model *model,
                     const struct model_options *options)
{
    struct net *net;
    if (model_open(&net, model->name, options) != 0)
        return false;
    const bool is_this = has_all_tensors(index, count, net);
    net_close(net);
    return is_this;
}

static bool has_body(const struct safetensors_index *index, const struct net *net)
{
    const struct layer *const head = tensor_match_head(net);
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct safetensors_tensor *const tensor = tensor_find(index, net->parameters[i].name);
        if (&net->layers[net->parameters[i].layer] != head && (tensor == NULL || !tensor_has_shape(tensor, &net->parameters[i])))
            return false;
    }
    return true;
}

struct net *tensor_match_open(const struct safetensors_index *index, const struct model *model)
{
    const struct model_options options = { .classes = tensor_match_classes(index, model), .dropout = true };
    struct net *net;
    if (model_open(&net, model->name, &options) != 0)
        return NULL;
    if (has_body(index, net))
        return net;
    net_close(net);
    return NULL;
}

static void add_model(const struct model *model, const struct model_options *options, char text[TENSOR_MATCH_SIZE])
{
    const size_t used = strlen(text);
    char classes[48] = "";
    if (options->classes != model->classes)
        snprintf(classes, sizeof(classes), " with data.classes = %u", options->classes);
    snprintf(text + used, TENSOR_MATCH_SIZE - used, "%s'%s'%s%s", used > 0 ? ", " : "", model->name, classes,
             !options->auxiliary    ? ""
             : classes[0] != '\0' ? " and model.auxiliary = yes"
                                    : " with model.auxiliary = yes");
}

/* The auxiliary head is tried only if the file does not fit without it. */
static void try_model(const struct safetensors_index *index, size_t count, const struct model *model,
                      char text[TENSOR_MATCH_SIZE])
{
    struct model_options options = { .classes = tensor_match_classes(index, model), .dropout = true };
    if (options.classes == 0)
        return;
    bool fits = is_model(index, count, model, &options);
    if (!fits) {
        options.auxiliary = true;
        fits = is_model(index, count, model, &options);
    }
    if (fits)
        add_model(model, &options, text);
}

void tensor_match_models(const struct safetensors_index *index, size_t count, char text_out[TENSOR_MATCH_SIZE])
{
    text_out[0] = '\0';
    for (const struct model *model = model_table; model->name != NULL; model++)
        try_model(index, count, model, text_out);
}
