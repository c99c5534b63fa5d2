/* Translates layers to ONNX operators. Every value is a matrix [N, channels] after a dense layer, and else an image [N,
 * channels, height, width]; nodes between both forms are added where a layer needs the other one.
 *
 * Names: parameters have those of the weights, values and other constants the layer's name, a slash, which no layer's
 * name has, and a word. */
#include "tools/export/onnx_graph.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "tools/export/folded_norm.h"

#define OPSET_LEAST 13u
#define OPSET_LAYER_NORM 17u

/* Fields of the messages in onnx.proto. */
enum { GRAPH_NODE = 1 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OPERATOR = 4, NODE_ATTRIBUTE = 5 };
enum { ATTRIBUTE_NAME = 1, ATTRIBUTE_FLOAT = 2, ATTRIBUTE_INT = 3, ATTRIBUTE_INTS = 8, ATTRIBUTE_TYPE = 20 };
enum { ATTRIBUTE_IS_FLOAT = 1, ATTRIBUTE_IS_INT = 2, ATTRIBUTE_IS_INTS = 7 };

#define NO_NORM UINT32_MAX
#define VALUES (NET_LAYERS_MAX + 1u)    /* the outputs of layers, and the image */
#define IMAGE NET_LAYERS_MAX

struct onnx_name { char text[ONNX_NAME_BYTES]; };

struct builder {
    const struct export_subject *subject;
    const struct net *net;
    struct onnx_graph *graph;
    struct onnx_name image;             /* the transformed image */
    bool is_needed[NET_LAYERS_MAX];     /* in evaluation */
    uint32_t maker[VALUES];             /* the layer whose node computes the value; IMAGE: none */
    uint32_t readers[VALUES];           /* number of layers that read the value, without identities */
    uint32_t norm[NET_LAYERS_MAX];      /* the batch normalisation that is folded into the layer, or NO_NORM */
    float *bias[NET_LAYERS_MAX];        /* with `norm`: the folded bias and the factors, until a constant owns them */
    double *factors[NET_LAYERS_MAX];
    bool is_matrix[VALUES];             /* form of the value */
    bool has_other_form[VALUES];        /* the node that makes the other one was added */
    int code;                           /* the first failure, reported */
};

/* ---- failures ---- */

static void no_memory(struct builder *builder)
{
    if (builder->code == EXIT_CODE_OK)
        log_message(LOG_ERROR, "the ONNX graph: %s", strerror(ENOMEM));
    builder->code = builder->code == EXIT_CODE_OK ? EXIT_CODE_MEMORY : builder->code;
}

static void read_failed(struct builder *builder, int rc)
{
    if (builder->code == EXIT_CODE_OK)
        builder->code = rc == -ENOMEM ? EXIT_CODE_MEMORY : EXIT_CODE_DATA;
}

/* ---- names ---- */

static struct onnx_name name_with(const char *name, const char *word)
{
    struct onnx_name made;
    snprintf(made.text, sizeof(made.text), "%s/%s", name, word);
    return made;
}

static const struct layer *layer_at(const struct builder *builder, uint32_t index)
{
    return &builder->net->layers[index];
}

static const struct layer *last_layer(const struct builder *builder)
{
    return layer_at(builder, builder->net->layer_count - 1);
}

static uint32_t value_of(uint32_t input)
{
    return input == NET_INPUT ? IMAGE : input;
}

/* The layer whose node computes input k of a layer. */
static uint32_t maker_of(const struct builder *builder, const struct layer *layer, uint32_t k)
{
    return builder->maker[value_of(layer->inputs[k])];
}

/* The output of a node, in the form of is_matrix. The matrix that the loss reads is the output of the model. */
static struct onnx_name output_name(const struct builder *builder, uint32_t maker)
{
    struct onnx_name made;
    if (maker == IMAGE)
        return builder->image;
    if (maker != maker_of(builder, last_layer(builder), 0) || !builder->is_matrix[maker])
        return name_with(layer_at(builder, maker)->name, "output");
    snprintf(made.text, sizeof(made.text), ONNX_LOGITS);
    return made;
}

/* ---- constants ---- */

static struct onnx_constant *add_constant(struct builder *builder, const char *name, enum onnx_type type)
{
    struct onnx_graph *const graph = builder->graph;
    if (graph->constant_count == graph->constant_room) {
        const size_t room = graph->constant_room > 0 ? 2 * graph->constant_room : 64;
        struct onnx_constant *const moved = realloc(graph->constants, room * sizeof(*moved));
        if (moved == NULL) {
            no_memory(builder);
            return NULL;
        }
        graph->constants = moved;
        graph->constant_room = room;
    }
    struct onnx_constant *const constant = &graph->constants[graph->constant_count++];
    *constant = (struct onnx_constant){ .type = type, .parameter = NET_NO_PARAMETER };
    snprintf(constant->name, sizeof(constant->name), "%s", name);
    return constant;
}

static bool has_constant(const struct builder *builder, const char *name)
{
    for (size_t i = 0; i < builder->graph->constant_count; i++)
        if (strcmp(builder->graph->constants[i].name, name) == 0)
            return true;
    return false;
}

/* Add a constant of the bytes at `data`, which are copied; `count` numbers: rank 1, 0: a single number of rank 0. */
static struct onnx_constant *add_data(struct builder *builder, const char *name, enum onnx_type type,
                                      const void *data, size_t bytes, uint32_t count)
{
    void *const copy = malloc(bytes);
    struct onnx_constant *const constant = add_constant(builder, name, type);
    if (constant == NULL || copy == NULL) {
        free(copy);
        no_memory(builder);
        return NULL;
    }
    memcpy(copy, data, bytes);
    constant->data = copy;
    constant->bytes = bytes;
    constant->rank = count > 0;
    constant->dims[0] = count;
    return constant;
}

static struct onnx_name add_int64s(struct builder *builder, struct onnx_name name, const int64_t *numbers,
                                   uint32_t count)
{
    (void)add_data(builder, name.text, ONNX_INT64, numbers, count * sizeof(*numbers), count);
    return name;
}

/* A single float. Those with a name of their own are added once. */
static struct onnx_name add_float(struct builder *builder, struct onnx_name name, float number)
{
    if (!has_constant(builder, name.text))
        (void)add_data(builder, name.text, ONNX_FLOAT, &number, sizeof(number), 0);
    return name;
}

/* A float for each channel of an image. */
static struct onnx_name add_channels(struct builder *builder, const char *name, const float *numbers)
{
    const uint32_t channels = builder->net->input.channels;
    struct onnx_name made;
    snprintf(made.text, sizeof(made.text), "%s", name);
    struct onnx_constant *const constant =
        add_data(builder, name, ONNX_FLOAT, numbers, channels * sizeof(*numbers), channels);
    if (constant != NULL) {
        constant->rank = 3;
        constant->dims[1] = constant->dims[2] = 1;
    }
    return made;
}

/* A parameter of a layer; only a scale's name can be that of an input or output of the graph. */
static struct onnx_name add_parameter(struct builder *builder, const struct layer *layer, enum parameter_kind kind)
{
    const uint32_t index = layer->parameters[kind];
    const struct parameter *const parameter = &builder->net->parameters[index];
    struct onnx_name name;
    snprintf(name.text, sizeof(name.text), "%s%s", parameter->name,
             strchr(parameter->name, '.') == NULL ? "/gamma" : "");
    struct onnx_constant *const constant = add_constant(builder, name.text, ONNX_FLOAT);
    if (constant == NULL)
        return name;
    constant->parameter = index;
    constant->rank = parameter->rank;
    memcpy(constant->dims, parameter->dims, sizeof(constant->dims));
    constant->bytes = parameter->count * sizeof(float);
    return name;
}

/* ---- nodes ---- */

/* Begin a node with its inputs, output and name: attributes may follow until node_end. */
static void node_begin(struct builder *builder, const char *op_type, const char *name,
                       const struct onnx_name *inputs, uint32_t count, struct onnx_name output)
{
    struct proto *const nodes = &builder->graph->nodes;
    proto_open_message(nodes, GRAPH_NODE);
    for (uint32_t i = 0; i < count; i++)
        proto_string(nodes, NODE_INPUT, inputs[i].text);
    proto_string(nodes, NODE_OUTPUT, output.text);
    proto_string(nodes, NODE_NAME, name);
    proto_string(nodes, NODE_OPERATOR, op_type);
}

static void node_end(struct builder *builder)
{
    proto_close_message(&builder->graph->nodes);
}

static struct proto *attribute_begin(struct builder *builder, const char *name, uint64_t type)
{
    struct proto *const nodes = &builder->graph->nodes;
    proto_open_message(nodes, NODE_ATTRIBUTE);
    proto_string(nodes, ATTRIBUTE_NAME, name);
    proto_varint(nodes, ATTRIBUTE_TYPE, type);
    return nodes;
}

static void add_attribute_int(struct builder *builder, const char *name, int64_t value)
{
    proto_varint(attribute_begin(builder, name, ATTRIBUTE_IS_INT), ATTRIBUTE_INT, (uint64_t)value);
    proto_close_message(&builder->graph->nodes);
}

static void add_attribute_float(struct builder *builder, const char *name, float value)
{
    proto_float(attribute_begin(builder, name, ATTRIBUTE_IS_FLOAT), ATTRIBUTE_FLOAT, value);
    proto_close_message(&builder->graph->nodes);
}

static void add_attribute_ints(struct builder *builder, const char *name, const uint32_t *values, uint32_t count)
{
    struct proto *const nodes = attribute_begin(builder, name, ATTRIBUTE_IS_INTS);
    for (uint32_t i = 0; i < count; i++)
        proto_varint(nodes, ATTRIBUTE_INTS, values[i]);
    proto_close_message(nodes);
}

/* Add a node without attributes. */
static struct onnx_name add_node(struct builder *builder, const char *op_type, const char *name,
                                 const struct onnx_name *inputs, uint32_t count, struct onnx_name output)
{
    node_begin(builder, op_type, name, inputs, count, output);
    node_end(builder);
    return output;
}

static struct onnx_name add_unary(struct builder *builder, const char *op_type, struct onnx_name input,
                                  struct onnx_name output)
{
    return add_node(builder, op_type, output.text, &input, 1, output);
}

static struct onnx_name add_binary(struct builder *builder, const char *op_type, struct onnx_name left,
                                   struct onnx_name right, struct onnx_name output)
{
    return add_node(builder, op_type, output.text, (const struct onnx_name[]){ left, right }, 2, output);
}

static struct onnx_name add_transpose(struct builder *builder, struct onnx_name input, const uint32_t order[4],
                                      struct onnx_name output)
{
    node_begin(builder, "Transpose", output.text, &input, 1, output);
    add_attribute_ints(builder, "perm", order, 4);
    node_end(builder);
    return output;
}

static const uint32_t channels_last[] = { 0, 2, 3, 1 }, channels_first[] = { 0, 3, 1, 2 };

/* ---- forms of values ---- */

static const char *value_base(const struct builder *builder, uint32_t maker)
{
    return maker == IMAGE ? "/image" : layer_at(builder, maker)->name;
}

static struct onnx_name add_flatten(struct builder *builder, struct onnx_name input, struct onnx_name output)
{
    node_begin(builder, "Flatten", output.text, &input, 1, output);
    add_attribute_int(builder, "axis", 1);
    node_end(builder);
    return output;
}

static struct onnx_name add_unsqueeze(struct builder *builder, struct onnx_name input, struct onnx_name output)
{
    static const int64_t axes[] = { 2, 3 };
    const struct onnx_name name = name_with("", "axes");
    if (!has_constant(builder, name.text))
        (void)add_int64s(builder, name, axes, 2);
    return add_binary(builder, "Unsqueeze", input, name, output);
}

/* Input k of a layer in the form that it needs. */
static struct onnx_name input_form(struct builder *builder, const struct layer *layer, uint32_t k, bool is_matrix)
{
    const uint32_t maker = maker_of(builder, layer, k);
    const struct onnx_name value = output_name(builder, maker);
    if (builder->is_matrix[maker] == is_matrix)
        return value;
    const struct onnx_name other = name_with(value_base(builder, maker), is_matrix ? "matrix" : "image");
    if (builder->has_other_form[maker])
        return other;
    builder->has_other_form[maker] = true;
    return is_matrix ? add_flatten(builder, value, other) : add_unsqueeze(builder, value, other);
}

static struct onnx_name input_image(struct builder *builder, const struct layer *layer, uint32_t k)
{
    return input_form(builder, layer, k, false);
}

/* The only input of a layer that computes every number alone, whose output has the form of the input. */
static struct onnx_name input_alone(struct builder *builder, uint32_t index)
{
    const uint32_t maker = maker_of(builder, layer_at(builder, index), 0);
    builder->is_matrix[index] = builder->is_matrix[maker];
    return output_name(builder, maker);
}

/* All inputs of a layer, and its output, in one form: matrices only if all are. */
static void inputs_alike(struct builder *builder, uint32_t index, struct onnx_name *inputs_out)
{
    const struct layer *const layer = layer_at(builder, index);
    bool all_matrices = true;
    for (uint32_t k = 0; k < layer->input_count; k++)
        all_matrices = all_matrices && builder->is_matrix[maker_of(builder, layer, k)];
    for (uint32_t k = 0; k < layer->input_count; k++)
        inputs_out[k] = input_form(builder, layer, k, all_matrices);
    builder->is_matrix[index] = all_matrices;
}

/* ---- layers ---- */

static void add_window(struct builder *builder, const struct layer *layer)
{
    const uint32_t kernel[] = { layer->kernel_h, layer->kernel_w }, strides[] = { layer->stride_h, layer->stride_w };
    const uint32_t pads[] = { layer->pad_top, layer->pad_left, layer->pad_bottom, layer->pad_right };
    add_attribute_ints(builder, "kernel_shape", kernel, 2);
    add_attribute_ints(builder, "strides", strides, 2);
    add_attribute_ints(builder, "pads", pads, 4);
}

/* The weight of a convolution or dense layer, times the factors of a folded normalisation. */
static struct onnx_name add_weight(struct builder *builder, uint32_t index)
{
    const struct onnx_name name = add_parameter(builder, layer_at(builder, index), PARAMETER_WEIGHT);
    if (builder->norm[index] == NO_NORM || builder->code != EXIT_CODE_OK)
        return name;
    struct onnx_constant *const constant = &builder->graph->constants[builder->graph->constant_count - 1];
    constant->factors = builder->factors[index];
    constant->norm = layer_at(builder, builder->norm[index])->name;
    builder->factors[index] = NULL;
    return name;
}

/* Add the inputs of a convolution or dense layer after the first: weight, bias. Returns the number of all inputs. */
static uint32_t add_weights(struct builder *builder, uint32_t index, struct onnx_name inputs[3])
{
    const struct layer *const layer = layer_at(builder, index);
    inputs[1] = add_weight(builder, index);
    if (builder->norm[index] != NO_NORM) {
        snprintf(inputs[2].text, sizeof(inputs[2].text), "%s.bias", layer->name);
        (void)add_data(builder, inputs[2].text, ONNX_FLOAT, builder->bias[index],
                       layer->out.channels * sizeof(float), layer->out.channels);
        return 3;
    }
    if (!layer_has(layer, PARAMETER_BIAS))
        return 2;
    inputs[2] = add_parameter(builder, layer, PARAMETER_BIAS);
    return 3;
}

static void add_conv2d(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    struct onnx_name inputs[3] = { input_image(builder, layer, 0) };
    const uint32_t count = add_weights(builder, index, inputs);
    node_begin(builder, "Conv", layer->name, inputs, count, output_name(builder, index));
    add_window(builder, layer);
    add_attribute_int(builder, "group", layer->groups);
    node_end(builder);
}

static void add_dense(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    struct onnx_name inputs[3] = { input_form(builder, layer, 0, true) };
    const uint32_t count = add_weights(builder, index, inputs);
    builder->is_matrix[index] = true;
    node_begin(builder, "Gemm", layer->name, inputs, count, output_name(builder, index));
    add_attribute_int(builder, "transB", 1);
    node_end(builder);
}

/* The constant 1 of every channel in place of gamma. */
static struct onnx_name add_ones(struct builder *builder, const struct layer *layer)
{
    const struct onnx_name name = name_with(layer->name, "ones");
    struct onnx_constant *const constant = add_constant(builder, name.text, ONNX_FLOAT);
    float *const ones = malloc(layer->in.channels * sizeof(*ones));
    if (constant == NULL || ones == NULL) {
        free(ones);
        no_memory(builder);
        return name;
    }
    for (uint32_t c = 0; c < layer->in.channels; c++)
        ones[c] = 1;
    constant->data = ones;
    constant->bytes = layer->in.channels * sizeof(*ones);
    constant->rank = 1;
    constant->dims[0] = layer->in.channels;
    return name;
}

static struct onnx_name add_gamma(struct builder *builder, const struct layer *layer)
{
    return layer_has(layer, PARAMETER_GAMMA) ? add_parameter(builder, layer, PARAMETER_GAMMA)
                                             : add_ones(builder, layer);
}

static void add_batch_norm(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const struct onnx_name inputs[] = {
        input_alone(builder, index), add_gamma(builder, layer), add_parameter(builder, layer, PARAMETER_BETA),
        add_parameter(builder, layer, PARAMETER_RUNNING_MEAN),
        add_parameter(builder, layer, PARAMETER_RUNNING_VARIANCE),
    };
    node_begin(builder, "BatchNormalization", layer->name, inputs, 5, output_name(builder, index));
    add_attribute_float(builder, "epsilon", layer->epsilon);
    node_end(builder);
}

/* ONNX normalises the last dimensions, so channels of images become the last one. */
static void add_layer_norm(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    struct onnx_name inputs[] = {
        input_alone(builder, index), add_gamma(builder, layer), add_parameter(builder, layer, PARAMETER_BETA)
    };
    const bool is_matrix = builder->is_matrix[index];
    const struct onnx_name output = output_name(builder, index);
    const struct onnx_name normalised = is_matrix ? output : name_with(layer->name, "normalised");
    if (!is_matrix)
        inputs[0] = add_transpose(builder, inputs[0], channels_last, name_with(layer->name, "nhwc"));
    node_begin(builder, "LayerNormalization", layer->name, inputs, 3, normalised);
    add_attribute_int(builder, "axis", -1);
    add_attribute_float(builder, "epsilon", layer->epsilon);
    node_end(builder);
    if (!is_matrix)
        (void)add_transpose(builder, normalised, channels_first, output);
    builder->graph->opset = OPSET_LAYER_NORM;
}

static void add_scale(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const struct onnx_name inputs[] = {
        input_image(builder, layer, 0), add_parameter(builder, layer, PARAMETER_GAMMA)
    };
    (void)add_node(builder, "Mul", layer->name, inputs, 2, output_name(builder, index));
}

static void add_relu(struct builder *builder, uint32_t index)
{
    const struct onnx_name input = input_alone(builder, index);
    (void)add_node(builder, "Relu", layer_at(builder, index)->name, &input, 1, output_name(builder, index));
}

static void add_max_pool(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const struct onnx_name input = input_image(builder, layer, 0);
    node_begin(builder, "MaxPool", layer->name, &input, 1, output_name(builder, index));
    add_window(builder, layer);
    node_end(builder);
}

static bool is_of_all_pixels(const struct layer *layer)
{
    return layer->kernel_h == layer->in.height && layer->kernel_w == layer->in.width &&
           layer->pad_top + layer->pad_bottom + layer->pad_left + layer->pad_right == 0;
}

static void add_average_pool(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const struct onnx_name input = input_image(builder, layer, 0), output = output_name(builder, index);
    if (is_of_all_pixels(layer)) {
        (void)add_node(builder, "GlobalAveragePool", layer->name, &input, 1, output);
        return;
    }
    node_begin(builder, "AveragePool", layer->name, &input, 1, output);
    add_window(builder, layer);
    add_attribute_int(builder, "count_include_pad", 0);
    node_end(builder);
}

static void add_local_response_norm(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const struct onnx_name input = input_image(builder, layer, 0);
    node_begin(builder, "LRN", layer->name, &input, 1, output_name(builder, index));
    add_attribute_int(builder, "size", layer->response.size);
    add_attribute_float(builder, "alpha", layer->response.alpha);
    add_attribute_float(builder, "beta", layer->response.beta);
    add_attribute_float(builder, "bias", layer->response.k);
    node_end(builder);
}

static void add_alike(struct builder *builder, uint32_t index, const char *op_type)
{
    const struct layer *const layer = layer_at(builder, index);
    struct onnx_name inputs[LAYER_INPUTS_MAX];
    inputs_alike(builder, index, inputs);
    (void)add_node(builder, op_type, layer->name, inputs, layer->input_count, output_name(builder, index));
}

static void add_add(struct builder *builder, uint32_t index)
{
    add_alike(builder, index, "Add");
}

static void add_multiply(struct builder *builder, uint32_t index)
{
    add_alike(builder, index, "Mul");
}

static void add_concat(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    struct onnx_name inputs[LAYER_INPUTS_MAX];
    inputs_alike(builder, index, inputs);
    node_begin(builder, "Concat", layer->name, inputs, layer->input_count, output_name(builder, index));
    add_attribute_int(builder, "axis", 1);
    node_end(builder);
}

/* Every stride-th pixel of an image. */
static struct onnx_name add_slice(struct builder *builder, const struct layer *layer, struct onnx_name input)
{
    const int64_t starts[] = { 0, 0 }, ends[] = { layer->in.height, layer->in.width }, axes[] = { 2, 3 };
    const int64_t steps[] = { layer->stride_h, layer->stride_w };
    const struct onnx_name output = name_with(layer->name, "slice");
    const struct onnx_name inputs[] = {
        input,
        add_int64s(builder, name_with(layer->name, "starts"), starts, 2),
        add_int64s(builder, name_with(layer->name, "ends"), ends, 2),
        add_int64s(builder, name_with(layer->name, "axes"), axes, 2),
        add_int64s(builder, name_with(layer->name, "steps"), steps, 2),
    };
    return add_node(builder, "Slice", output.text, inputs, 5, output);
}

static void add_pad_channels(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const int64_t after = (int64_t)layer->out.channels - layer->in.channels - layer->channels_before;
    const int64_t pads[8] = { [1] = layer->channels_before, [5] = after };
    struct onnx_name inputs[] = {
        input_image(builder, layer, 0), add_int64s(builder, name_with(layer->name, "pads"), pads, 8)
    };
    if (layer->stride_h > 1 || layer->stride_w > 1)
        inputs[0] = add_slice(builder, layer, inputs[0]);
    (void)add_node(builder, "Pad", layer->name, inputs, 2, output_name(builder, index));
}

static void add_softmax(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const uint32_t maker = maker_of(builder, layer, 0);
    struct onnx_name logits = output_name(builder, maker), probabilities;
    if (!builder->is_matrix[maker]) {
        snprintf(probabilities.text, sizeof(probabilities.text), ONNX_LOGITS);
        logits = add_flatten(builder, logits, probabilities);
    }
    snprintf(probabilities.text, sizeof(probabilities.text), ONNX_PROBABILITIES);
    node_begin(builder, "Softmax", layer->name, &logits, 1, probabilities);
    add_attribute_int(builder, "axis", 1);
    node_end(builder);
}

/* ---- activations ---- */

static struct onnx_name add_hard_sigmoid_of(struct builder *builder, struct onnx_name input, struct onnx_name output)
{
    node_begin(builder, "HardSigmoid", output.text, &input, 1, output);
    add_attribute_float(builder, "alpha", 1.0f / 6);
    add_attribute_float(builder, "beta", 0.5f);
    node_end(builder);
    return output;
}

static void add_clipped_relu(struct builder *builder, const struct layer *layer, struct onnx_name input,
                             struct onnx_name output)
{
    const struct onnx_name inputs[] = {
        input, add_float(builder, name_with("", "zero"), 0),
        add_float(builder, name_with(layer->name, "limit"), layer->limit)
    };
    (void)add_node(builder, "Clip", layer->name, inputs, 3, output);
}

static void add_sigmoid(struct builder *builder, const struct layer *layer, struct onnx_name input,
                        struct onnx_name output)
{
    (void)add_node(builder, "Sigmoid", layer->name, &input, 1, output);
}

static void add_hard_sigmoid(struct builder *builder, const struct layer *layer, struct onnx_name input,
                             struct onnx_name output)
{
    (void)layer;
    (void)add_hard_sigmoid_of(builder, input, output);
}

static void add_silu(struct builder *builder, const struct layer *layer, struct onnx_name input,
                     struct onnx_name output)
{
    const struct onnx_name sigmoid = add_unary(builder, "Sigmoid", input, name_with(layer->name, "sigmoid"));
    (void)add_binary(builder, "Mul", input, sigmoid, output);
}

static void add_hard_swish(struct builder *builder, const struct layer *layer, struct onnx_name input,
                           struct onnx_name output)
{
    const struct onnx_name sigmoid = add_hard_sigmoid_of(builder, input, name_with(layer->name, "hard_sigmoid"));
    (void)add_binary(builder, "Mul", input, sigmoid, output);
}

/* The operators in the order in which ONNX Runtime recognises GELU and computes it at once. */
static void add_gelu(struct builder *builder, const struct layer *layer, struct onnx_name input,
                     struct onnx_name output)
{
    const struct onnx_name root = add_float(builder, name_with("", "sqrt2"), 1.41421356237309504880f);
    const struct onnx_name one = add_float(builder, name_with("", "one"), 1);
    const struct onnx_name half = add_float(builder, name_with("", "half"), 0.5f);
    struct onnx_name value = add_binary(builder, "Div", input, root, name_with(layer->name, "divided"));
    value = add_unary(builder, "Erf", value, name_with(layer->name, "erf"));
    value = add_binary(builder, "Add", value, one, name_with(layer->name, "sum"));
    value = add_binary(builder, "Mul", input, value, name_with(layer->name, "product"));
    (void)add_binary(builder, "Mul", value, half, output);
}

static void (*const activations[ACTIVATION_COUNT])(struct builder *builder, const struct layer *layer,
                                                   struct onnx_name input, struct onnx_name output) = {
    [ACTIVATION_CLIPPED_RELU] = add_clipped_relu, [ACTIVATION_SIGMOID] = add_sigmoid,
    [ACTIVATION_HARD_SIGMOID] = add_hard_sigmoid, [ACTIVATION_SILU] = add_silu,
    [ACTIVATION_HARD_SWISH] = add_hard_swish,     [ACTIVATION_GELU] = add_gelu,
};

static void add_activation(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const struct onnx_name input = input_alone(builder, index);
    activations[layer->activation](builder, layer, input, output_name(builder, index));
}

/* NULL: identities in evaluation, and layers of training only; a kind without a row is refused. */
static void (*const layer_table[LAYER_KIND_COUNT])(struct builder *builder, uint32_t index) = {
    [LAYER_CONV2D] = add_conv2d,
    [LAYER_DENSE] = add_dense,
    [LAYER_BATCH_NORM] = add_batch_norm,
    [LAYER_LAYER_NORM] = add_layer_norm,
    [LAYER_SCALE] = add_scale,
    [LAYER_RELU] = add_relu,
    [LAYER_ACTIVATION] = add_activation,
    [LAYER_MAX_POOL] = add_max_pool,
    [LAYER_AVERAGE_POOL] = add_average_pool,
    [LAYER_DROPOUT] = NULL,
    [LAYER_STOCHASTIC_DEPTH] = NULL,
    [LAYER_LOCAL_RESPONSE_NORM] = add_local_response_norm,
    [LAYER_ADD] = add_add,
    [LAYER_MULTIPLY] = add_multiply,
    [LAYER_CONCAT] = add_concat,
    [LAYER_PAD_CHANNELS] = add_pad_channels,
    [LAYER_AUXILIARY_LOSS] = NULL,
    [LAYER_SOFTMAX_LOSS] = add_softmax,
};

/* ---- the input ---- */

static bool differs(const float *numbers, uint32_t count, float from)
{
    for (uint32_t i = 0; i < count; i++)
        if (numbers[i] != from)
            return true;
    return false;
}

/* Transform pixels with the operations of the trainer, in its order, so that every float is the same. */
static void add_input(struct builder *builder)
{
    const struct input_transform *const transform = &builder->net->transform;
    const struct export_options *const options = &builder->subject->options;
    const uint32_t channels = builder->net->input.channels;
    struct onnx_name value = { ONNX_INPUT };
    if (options->layout == EXPORT_NHWC)
        value = add_transpose(builder, value, channels_first, name_with("/image", "nchw"));
    if (options->input == EXPORT_UINT8) {
        const struct onnx_name output = name_with("/image", "float");
        node_begin(builder, "Cast", output.text, &value, 1, output);
        add_attribute_int(builder, "to", ONNX_FLOAT);
        node_end(builder);
        value = output;
    }
    if (transform->divisor != 1)
        value = add_binary(builder, "Div", value, add_float(builder, name_with("/image", "divisor"),
                                                            transform->divisor), name_with("/image", "divided"));
    if (!transform->is_plain && differs(transform->mean, channels, 0))
        value = add_binary(builder, "Sub", value, add_channels(builder, "/image/mean", transform->mean),
                           name_with("/image", "centred"));
    if (!transform->is_plain && differs(transform->std, channels, 1))
        value = add_binary(builder, "Div", value, add_channels(builder, "/image/deviation", transform->std),
                           name_with("/image", "normalised"));
    builder->image = value;
}

/* ---- which layers are written ---- */

static bool is_identity(const struct layer *layer)
{
    return layer->kind == LAYER_DROPOUT || layer->kind == LAYER_STOCHASTIC_DEPTH;
}

/* Find the layers on which the loss depends, and the layer whose node computes each value. */
static void find_layers(struct builder *builder)
{
    const struct net *const net = builder->net;
    builder->is_needed[net->layer_count - 1] = true;
    for (uint32_t i = net->layer_count; i-- > 0;)
        for (uint32_t k = 0; builder->is_needed[i] && k < net->layers[i].input_count; k++)
            if (net->layers[i].inputs[k] != NET_INPUT)
                builder->is_needed[net->layers[i].inputs[k]] = true;
    builder->maker[IMAGE] = IMAGE;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *const layer = &net->layers[i];
        builder->norm[i] = NO_NORM;
        builder->maker[i] = is_identity(layer) ? maker_of(builder, layer, 0) : i;
        for (uint32_t k = 0; builder->is_needed[i] && !is_identity(layer) && k < layer->input_count; k++)
            builder->readers[maker_of(builder, layer, k)]++;
    }
}

/* ---- folding ---- */

/* Memory for the vectors of a normalisation and of the layer before it. */
struct norm_vectors { float *parameters[PARAMETER_KIND_COUNT], *bias; };

static void release_vectors(struct norm_vectors *vectors)
{
    for (enum parameter_kind i = 0; i < PARAMETER_KIND_COUNT; i++)
        free(vectors->parameters[i]);
    free(vectors->bias);
}

/* Read a vector of a layer; NULL if it has none, or after a failure. */
static float *read_vector(struct builder *builder, const struct layer *layer, enum parameter_kind kind)
{
    if (!layer_has(layer, kind) || builder->code != EXIT_CODE_OK)
        return NULL;
    float *const vector = malloc(builder->net->parameters[layer->parameters[kind]].count * sizeof(*vector));
    if (vector == NULL) {
        no_memory(builder);
        return NULL;
    }
    const int rc = initial_weights_read(builder->subject->weights, layer->parameters[kind], vector);
    if (rc != 0)
        read_failed(builder, rc);
    return vector;
}

static void compute_fold(struct builder *builder, uint32_t index, uint32_t norm, const struct norm_numbers *numbers,
                         const float *bias)
{
    double *const factors = malloc(numbers->channels * sizeof(*factors));
    float *const folded = malloc(numbers->channels * sizeof(*folded));
    builder->factors[index] = factors;
    builder->bias[index] = folded;
    if (factors == NULL || folded == NULL) {
        no_memory(builder);
        return;
    }
    folded_norm_factors(numbers, factors);
    if (!folded_norm_bias(numbers, factors, bias, folded))
        return;                 /* these numbers are floats only as layers of their own */
    builder->norm[index] = norm;
    builder->maker[norm] = index;
    builder->graph->folded++;
}

/* Fold a normalisation into layer `index`. */
static void fold(struct builder *builder, uint32_t index, uint32_t norm)
{
    const struct layer *const layer = layer_at(builder, norm);
    struct norm_vectors vectors = { .bias = NULL };
    for (enum parameter_kind i = 0; i < PARAMETER_KIND_COUNT; i++)
        vectors.parameters[i] = read_vector(builder, layer, i);
    vectors.bias = read_vector(builder, layer_at(builder, index), PARAMETER_BIAS);
    const struct norm_numbers numbers = {
        .channels = layer->in.channels,
        .epsilon = layer->epsilon,
        .gamma = vectors.parameters[PARAMETER_GAMMA],
        .beta = vectors.parameters[PARAMETER_BETA],
        .mean = vectors.parameters[PARAMETER_RUNNING_MEAN],
        .variance = vectors.parameters[PARAMETER_RUNNING_VARIANCE],
    };
    if (builder->code == EXIT_CODE_OK)
        compute_fold(builder, index, norm, &numbers, vectors.bias);
    release_vectors(&vectors);
}

static bool has_weights(const struct layer *layer)
{
    return layer->kind == LAYER_CONV2D || layer->kind == LAYER_DENSE;
}

/* Fold every batch normalisation that is the only reader of a convolution or dense layer. */
static void fold_norms(struct builder *builder)
{
    for (uint32_t i = 0; i < builder->net->layer_count; i++) {
        const struct layer *const layer = layer_at(builder, i);
        if (!builder->is_needed[i] || layer->kind != LAYER_BATCH_NORM)
            continue;
        builder->graph->norms++;
        const uint32_t from = maker_of(builder, layer, 0);
        if (!builder->subject->options.keeps_norms && from != IMAGE && has_weights(layer_at(builder, from)) &&
            builder->norm[from] == NO_NORM && builder->readers[from] == 1)
            fold(builder, from, i);
    }
    /* An identity after a folded layer is computed by the same node. */
    for (uint32_t i = 0; i < builder->net->layer_count; i++)
        if (is_identity(layer_at(builder, i)))
            builder->maker[i] = maker_of(builder, layer_at(builder, i), 0);
}

static void add_layer(struct builder *builder, uint32_t index)
{
    const struct layer *const layer = layer_at(builder, index);
    const bool is_known = layer_table[layer->kind] != NULL &&
                          (layer->kind != LAYER_ACTIVATION || activations[layer->activation] != NULL);
    if (is_known) {
        layer_table[layer->kind](builder, index);
        return;
    }
    log_message(LOG_ERROR, "layer '%s': %s has no operator of ONNX", layer->name, layer_word(layer));
    builder->code = EXIT_CODE_USAGE;
}

static void add_layers(struct builder *builder)
{
    for (uint32_t i = 0; i < builder->net->layer_count && builder->code == EXIT_CODE_OK; i++)
        if (builder->is_needed[i] && builder->maker[i] == i)
            add_layer(builder, i);
}

/* ---- the public functions ---- */

int onnx_graph_init(struct onnx_graph *graph, const struct export_subject *subject)
{
    *graph = (struct onnx_graph){ .opset = OPSET_LEAST };
    struct builder *const builder = calloc(1, sizeof(*builder));
    if (builder == NULL) {
        log_message(LOG_ERROR, "the ONNX graph: %s", strerror(ENOMEM));
        return EXIT_CODE_MEMORY;
    }
    proto_init(&graph->nodes);
    builder->subject = subject;
    builder->net = subject->net;
    builder->graph = graph;
    find_layers(builder);
    fold_norms(builder);
    add_input(builder);
    add_layers(builder);
    if (graph->nodes.failed != 0)
        no_memory(builder);
    const int code = builder->code;
    for (uint32_t i = 0; i < NET_LAYERS_MAX; i++) {
        free(builder->factors[i]);
        free(builder->bias[i]);
    }
    free(builder);
    return code;
}

void onnx_graph_release(struct onnx_graph *graph)
{
    for (size_t i = 0; i < graph->constant_count; i++) {
        free(graph->constants[i].factors);
        free(graph->constants[i].data);
    }
    free(graph->constants);
    proto_release(&graph->nodes);
    *graph = (struct onnx_graph){ .constants = NULL };
}

const void *onnx_constant_numbers(const struct onnx_constant *constant, const struct export_subject *subject,
                                  float *room, int *code_out)
{
    if (constant->parameter == NET_NO_PARAMETER)
        return constant->data;
    const int rc = initial_weights_read(subject->weights, constant->parameter, room);
    if (rc != 0) {
        *code_out = rc == -ENOMEM ? EXIT_CODE_MEMORY : EXIT_CODE_DATA;
        return NULL;
    }
    const size_t outputs = constant->dims[0], count = constant->bytes / sizeof(float) / outputs;
    if (constant->factors == NULL || folded_norm_scale(room, constant->factors, outputs, count))
        return room;
    log_message(LOG_ERROR, "%s: %s: with %s folded into it a number is too large for a float: use --no-fold",
                subject->weights_path, constant->name, constant->norm);
    *code_out = EXIT_CODE_DATA;
    return NULL;
}
