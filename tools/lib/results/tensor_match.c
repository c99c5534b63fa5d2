/* Compares files with networks. All models are built in turn, which takes milliseconds and happens only before an
 * error message. */
#include "tools/lib/results/tensor_match.h"

#include <stdio.h>
#include <string.h>

#include "compute/model.h"
#include "stage/text/names.h"
#include "tools/lib/results/tensor_file.h"

#define CLASSES_MAX 50000u     /* a number of classes with which every model can be built */

bool tensor_is_counter(const char *name)
{
    static const char end[] = ".num_batches_tracked";
    const size_t length = strlen(name);
    return (length >= sizeof(end) - 1 && strcmp(name + length - (sizeof(end) - 1), end) == 0) ||
           strcmp(name, "n_averaged") == 0;
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
        if (&net->layers[net->parameters[i].layer] != head &&
            (tensor == NULL || !tensor_has_shape(tensor, &net->parameters[i])))
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

/* Add the model if it fits; with its auxiliary head only if it does not fit without. Most models already differ in
 * their bodies, which are the same with any classes and head. */
static void try_model(const struct safetensors_index *index, size_t count, const struct model *model,
                      char text[TENSOR_MATCH_SIZE])
{
    struct model_options options = { .dropout = true };
    struct net *net;
    if (model_open(&net, model->name, &options) != 0)
        return;
    options.classes = has_body(index, net) ? find_classes(index, net) : 0;
    net_close(net);
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

/* ---- model.skip ---- */

/* Does a name of the network begin with the first `bytes` of the text? */
static bool begins_name(const struct net *net, const char *text, size_t bytes)
{
    for (uint32_t i = 0; i < net->parameter_count; i++)
        if (strncmp(net->parameters[i].name, text, bytes) == 0)
            return true;
    return false;
}

/* Append a pattern of the first bytes of a name, with ".*" if it is a module, unless a pattern in the text already
 * matches it. False: no space. */
static bool add_pattern(char text[TENSOR_MATCH_SIZE], const char *name, size_t bytes, bool is_module)
{
    const size_t used = strlen(text), at = used + (used > 0);
    char pattern[PATTERN_BYTES];
    if (bytes + 3 > sizeof(pattern) || at + bytes + 3 > TENSOR_MATCH_SIZE)
        return false;
    memcpy(pattern, name, bytes);
    memcpy(pattern + bytes, is_module ? ".*" : "", is_module ? 3 : 1);
    if (patterns_match(text, pattern))
        return true;
    if (used > 0)
        text[used] = ',';
    memcpy(text + at, pattern, strlen(pattern) + 1);
    return true;
}

/* Append a pattern of the name's module; or of the name itself if the network has a module of the same name. */
static bool add_module(const struct net *net, const char *name, char text[TENSOR_MATCH_SIZE])
{
    const size_t bytes = strcspn(name, ".");
    if (name[bytes] == '.' && !begins_name(net, name, bytes + 1))
        return add_pattern(text, name, bytes, true);
    return add_pattern(text, name, strlen(name), false);
}

/* Does the file have all layers? The last one may be missing; then a pattern for it is added. */
static bool add_missing(const struct safetensors_index *index, const struct net *net, const char *prefix,
                        char text[TENSOR_MATCH_SIZE])
{
    const struct layer *const head = tensor_match_head(net);
    char name[256];
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const struct parameter *const parameter = &net->parameters[i];
        snprintf(name, sizeof(name), "%.128s%s", prefix, parameter->name);
        const struct safetensors_tensor *const tensor = tensor_find(index, name);
        if (tensor != NULL && tensor_has_shape(tensor, parameter))
            continue;
        if (&net->layers[parameter->layer] != head || !add_pattern(text, head->name, strlen(head->name), true))
            return false;
    }
    return true;
}

bool tensor_match_skip(const struct safetensors_index *index, const struct net *net, const char *prefix,
                       char text_out[TENSOR_MATCH_SIZE])
{
    const size_t bytes = strlen(prefix);
    text_out[0] = '\0';
    bool fits = add_missing(index, net, prefix, text_out);
    for (size_t i = 0; fits && i < index->count; i++) {
        const char *const name = index->tensors[i].name;
        const bool is_inside = strncmp(name, prefix, bytes) == 0;
        const char *const rest = is_inside ? name + bytes : name;
        if (tensor_is_counter(rest) ? is_inside : is_inside && net_parameter_find(net, rest) != NULL)
            continue;
        fits = add_module(net, rest, text_out);
    }
    return fits;
}
