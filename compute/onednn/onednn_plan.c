/* Making plans: layouts of values, oneDNN memories, the layers' states; and running them. Everything is allocated
 * when a plan is made; a step only runs it. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/mixing.h"

static const struct layer_ops *const layer_table[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = &onednn_weighted_ops,
    [LAYER_DENSE] = &onednn_weighted_ops,
    [LAYER_BATCH_NORM] = &onednn_batch_norm_ops,
    [LAYER_RELU] = &onednn_relu_ops,
    [LAYER_MAX_POOL] = &onednn_max_pool_ops,
    [LAYER_AVERAGE_POOL] = &onednn_average_pool_ops,
    [LAYER_DROPOUT] = &onednn_dropout_ops,
    [LAYER_LOCAL_RESPONSE_NORM] = &onednn_response_ops,
    [LAYER_ADD] = &onednn_add_ops,
    [LAYER_CONCAT] = &onednn_concat_ops,
    [LAYER_PAD_CHANNELS] = &onednn_pad_channels_ops,
    [LAYER_AUXILIARY_LOSS] = &onednn_loss_ops,
    [LAYER_SOFTMAX_LOSS] = &onednn_loss_ops,
};

const struct fusion_rule onednn_rules[] = {
    { .head = LAYER_CONV2D, .tail_count = 3, .tail = { LAYER_BATCH_NORM, LAYER_ADD, LAYER_RELU },
      .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_BATCH_NORM, LAYER_ADD }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_BATCH_NORM, LAYER_RELU }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_BATCH_NORM }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_ADD, LAYER_RELU }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_ADD }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_DENSE, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 2, .tail = { LAYER_ADD, LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_ADD } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_MAX_POOL, .tail_count = 1, .tail = { LAYER_DROPOUT }, .use = RULE_TRAINING },
};

const uint32_t onednn_rule_count = sizeof(onednn_rules) / sizeof(onednn_rules[0]);

bool value_is_relu(const struct plan *plan, uint32_t value)
{
    if (value == 0)
        return false;
    const struct group *const group = plan_group(&plan->base, plan_group(&plan->base, value - 1)->head);
    return group->tail_count > 0 && plan_layer(plan, group->tail[group->tail_count - 1])->kind == LAYER_RELU;
}

/* A pooled or kept number is above 0 exactly where the ReLU is active and the gradient passes. */
bool value_is_masked_above(const struct plan *plan, uint32_t value)
{
    const uint32_t reader = fusion_only_reader(&plan->base.fusion, value);
    return reader != NET_INPUT && (plan_layer(plan, reader)->kind == LAYER_MAX_POOL ||
                                   plan_layer(plan, reader)->kind == LAYER_DROPOUT);
}

/* Layers whose backward does not read their input. */
static bool is_done_forward(enum layer_kind kind)
{
    return kind == LAYER_CONCAT || kind == LAYER_ADD || kind == LAYER_PAD_CHANNELS || kind == LAYER_AVERAGE_POOL ||
           kind == LAYER_MAX_POOL;
}

bool value_is_done_forward(const struct plan *plan, uint32_t value)
{
    const struct fusion *const fusion = &plan->base.fusion;
    for (uint32_t i = 0; i < plan->base.net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(fusion, i) && k < fusion->groups[i].input_count; k++)
            if (fusion->groups[i].inputs[k] == value && !is_done_forward(plan_layer(plan, i)->kind))
                return false;
    return true;
}

/* ---- buffers and memories ---- */

int plan_memory(struct plan *plan, nn_md md, struct place place, dnnl_memory_t *memory_out)
{
    if (plan->memory_count == plan->memory_room) {
        const uint32_t room = plan->memory_room * 2 + 32;
        struct plan_memory *const memories = realloc(plan->memories, room * sizeof(*memories));
        if (memories == NULL)
            return -ENOMEM;
        plan->memories = memories;
        plan->memory_room = room;
    }
    struct plan_memory *const memory = &plan->memories[plan->memory_count];
    memory->place = place;
    const int rc = nn_memory_create(&memory->memory, md, plan_backend(plan)->engine, DNNL_MEMORY_NONE);
    if (rc != 0)
        return rc;
    plan->memory_count++;
    *memory_out = memory->memory;
    return 0;
}

static float *parameter_at(const struct plan *plan, uint32_t parameter, float *trained, float *statistics)
{
    const struct backend *const backend = plan_backend(plan);
    const struct arena *const arena = arenas_of(backend->arenas, plan->base.net, parameter);
    return (arena == &backend->arenas->trained ? trained : statistics) + arena->ranges[parameter].offset;
}

float *plan_weights(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    const struct backend_memory *const memory = &plan_backend(plan)->memory;
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    return parameter != NET_NO_PARAMETER ? parameter_at(plan, parameter, memory->weights, memory->statistics) : NULL;
}

float *plan_weight_gradients(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    float *const gradients = plan_backend(plan)->memory.gradients;
    return parameter != NET_NO_PARAMETER ? parameter_at(plan, parameter, gradients, NULL) : NULL;
}

nn_md plan_stored(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    return parameter != NET_NO_PARAMETER ? plan_backend(plan)->stored[parameter] : NULL;
}

/* ---- making a plan ---- */

/* 0 when sizes could overflow: a plan holds a few copies of the largest value, in bytes. */
static size_t value_bytes(const struct plan *plan, uint32_t value)
{
    const size_t count = tensor_count(&plan->tensors[value]), bytes = value_size(plan_type(plan));
    const size_t most = SIZE_MAX / 64 / bytes / plan->base.count / plan->base.net->layer_count;
    const uint32_t sub_batch = count < most ? value_sub_batch(plan, value) : 0;
    return count < most ? (sub_batch != 0 ? sub_batch : plan->base.count) * count * bytes : 0;
}

static int add_gradient(struct plan *plan, uint32_t value, uint32_t from, uint32_t to)
{
    void *const sum = plan_data(plan, to);
    elementwise_run(plan, value_total(plan, value),
                    &(struct elementwise){ .from = plan_data(plan, from), .addend = sum, .to = sum });
    return 0;
}

/* The value plan has decided which values are stored in the first channels of a wider one. */
static void set_tensor_widths(struct plan *plan)
{
    const struct value_memory *const values = &plan->base.values;
    for (uint32_t v = 0; v <= plan->base.net->layer_count; v++)
        if (value_is_front(values, v))
            plan->tensors[v].width = plan->tensors[values->values[v].widest].shape.channels;
}

static int open_buffers(struct plan *plan)
{
    set_tensor_widths(plan);
    int rc = plan_buffer(plan, plan->base.count * sizeof(struct mixed_label), &plan->labels);
    if (rc == 0)
        rc = plan_buffer(plan, 0, &plan->scratch);
    if (rc != 0)
        return rc;
    value_memory_use_always(&plan->base.values, plan->labels);
    value_memory_use_always(&plan->base.values, plan->scratch);
    return 0;
}

static const struct plan_ops onednn_plan_ops = {
    .layers = layer_table,
    .rules = onednn_rules,
    .rule_count = sizeof(onednn_rules) / sizeof(onednn_rules[0]),
    .value_bytes = value_bytes,
    .add = add_gradient,
    .begin = open_buffers,
};

static int open_tensors(struct plan *plan)
{
    const struct backend *const backend = plan_backend(plan);
    const uint32_t layer_count = plan->base.net->layer_count;
    plan->tensors = calloc((size_t)layer_count + 1, sizeof(*plan->tensors));
    if (plan->tensors == NULL)
        return -ENOMEM;
    for (uint32_t v = 0; v <= layer_count; v++)
        plan->tensors[v] =
            (struct tensor_layout){ backend->type, plan_shape(&plan->base,
                                                              v), backend->blocks[v], backend->is_nhwc, 0 };
    return 0;
}

int onednn_plan_open(struct backend *backend, uint32_t count, bool training, struct plan **plan_out)
{
    struct plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->base = (struct plan_base){
        .backend = backend, .ops = &onednn_plan_ops, .net = backend->spec.net, .count = count, .training = training };
    int rc = open_tensors(plan);
    if (rc == 0)
        rc = nn_jit_result(plan_base_open(&plan->base));
    if (rc != 0) {
        onednn_plan_close(plan);
        return rc;
    }
    if (plan->base.values.bytes > backend->pool_needed)
        backend->pool_needed = plan->base.values.bytes;
    *plan_out = plan;
    return 0;
}

void onednn_plan_close(struct plan *plan)
{
    if (plan == NULL)
        return;
    plan_base_close(&plan->base);
    for (uint32_t i = 0; i < plan->memory_count; i++)
        dnnl_memory_destroy(plan->memories[i].memory);
    free(plan->memories);
    free(plan->tensors);
    free(plan);
}

/* ---- a step ---- */

static void *resolve_place(const struct plan *plan, struct place place)
{
    const struct backend_memory *const memory = &plan_backend(plan)->memory;
    if (place.kind == PLACE_BUFFER)
        return (char *)plan_data(plan, place.index) + place.offset;
    return parameter_at(plan, place.index, place.kind == PLACE_WEIGHTS ? memory->weights : memory->gradients, NULL);
}

/* Points all oneDNN memories into the pool, which may have moved. */
static int bind_memories(struct plan *plan)
{
    const struct backend *const backend = plan_backend(plan);
    for (uint32_t i = 0; i < plan->memory_count; i++) {
        const struct plan_memory *const memory = &plan->memories[i];
        const int rc = NN_CHECK(dnnl_memory_set_data_handle(memory->memory, resolve_place(plan, memory->place)));
        if (rc != 0)
            return rc;
    }
    plan->bound = backend->base.pool;
    plan->base.poisoned = backend->spec.poison ? backend->base.pool : NULL;
    return 0;
}

int onednn_input(struct plan *plan, const struct backend_input *input)
{
    const int rc = plan->bound != plan_backend(plan)->base.pool ? bind_memories(plan) : 0;
    if (rc != 0)
        return rc;
    plan->epoch = input->epoch;
    plan->first_position = input->first_position;
    struct mixed_label *const labels = plan_data(plan, plan->labels);
    for (uint32_t i = 0; i < plan->base.count; i++)
        labels[i] = mixing_label(input->mixes, input->labels, i, plan->base.count);
    input_convert(plan, input);
    return 0;
}

int onednn_forward(struct plan *plan)
{
    plan->result = (struct backend_result){ .loss_scale = 1 };
    return plan_base_forward(&plan->base);
}

int onednn_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    return plan_base_backward(&plan->base, layer_done, arg);
}

int onednn_result(struct plan *plan, struct backend_result *result_out)
{
    *result_out = plan->result;
    return 0;
}

/* ---- describing ---- */

static const char *layout_name(const struct tensor_layout *tensor)
{
    if (tensor->is_nhwc)
        return "nhwc";
    return tensor->block == 8 ? "nChw8c" : tensor->block == 16 ? "nChw16c" : tensor->block == 1 ? "nchw" : "nhwc";
}

static void describe_layer(const struct plan *plan, uint32_t i, char *text, size_t text_size)
{
    const struct layer *const layer = plan_layer(plan, i);
    const uint32_t head = plan_group(&plan->base, i)->head;
    if (head == FUSION_LEFT_OUT)
        snprintf(text, text_size, "in training only");
    else if (head != i)
        snprintf(text, text_size, "in %s", plan_layer(plan, head)->name);
    else if (layer_has(layer, PARAMETER_WEIGHT))
        weighted_describe(plan, i, text, text_size);
    else if (layer->kind == LAYER_DROPOUT && !plan->base.training)
        snprintf(text, text_size, "none");
    else
        snprintf(text, text_size, "own loop");
}

void onednn_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg)
{
    for (uint32_t i = 0; i < plan->base.net->layer_count; i++) {
        const struct layer *const layer = plan_layer(plan, i);
        char how[512], line[768];
        describe_layer(plan, i, how, sizeof(how));
        snprintf(line, sizeof(line), "%s: %s -> %s, %s", layer->name, layout_name(&plan->tensors[layer->inputs[0] + 1]),
                 layout_name(&plan->tensors[i + 1]), how);
        write(arg, line);
    }
}
