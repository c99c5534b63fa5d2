/* Convolutions by cuDNN. It writes a weight gradient as the value type: 16-bit ones go by a
 * buffer into the arena. In evaluation the batch normalisation behind it is folded into weights and bias,
 * anew in every pass: they may have changed. A sum behind that, and its ReLU, is a kernel of ours. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"
#include "stage/log.h"

struct conv2d {
    struct conv_plan *passes[CONV_PASS_COUNT];  /* NULL: not needed */
    uint32_t partials;          /* buffer; BUFFER_NONE: no bias */
    uint32_t weight_gradient;   /* buffer; BUFFER_NONE: the arena's range itself */
    uint32_t weight, bias;      /* buffers; BUFFER_NONE: the layer's own */
};

static const char *const pass_names[CONV_PASS_COUNT] = {
    [CONV_FORWARD] = "forward", [CONV_DATA_GRADIENT] = "data gradient", [CONV_WEIGHT_GRADIENT] = "weight gradient",
};

static bool has_norm(const struct plan *plan, uint32_t head)
{
    return fusion_has(&plan->base.fusion, head, LAYER_BATCH_NORM);
}

static bool has_sum(const struct plan *plan, uint32_t head)
{
    return fusion_has(&plan->base.fusion, head, LAYER_ADD);
}

static bool pass_is_needed(const struct plan *plan, uint32_t layer, enum conv_pass pass)
{
    return pass == CONV_FORWARD || (pass == CONV_WEIGHT_GRADIENT && value_plan_needs_grad(&plan->base.values, layer)) ||
           (pass == CONV_DATA_GRADIENT && plan_has_inputs(&plan->base, layer));
}

static struct conv_shape shape_of(const struct plan *plan, uint32_t index, enum conv_pass pass)
{
    const struct layer *const layer = plan_layer(plan, index);
    return (struct conv_shape){
        .pass = pass,
        .precision = plan->base.backend->spec.precision,
        .bias = pass == CONV_FORWARD && (layer_has(layer, PARAMETER_BIAS) || has_norm(plan, index)),
        .relu = pass == CONV_FORWARD && has_relu(plan, index) && !has_sum(plan, index),
        .count = plan->base.count,
        .in_channels = channels_stored(layer->in.channels),
        .in_h = layer->in.height, .in_w = layer->in.width,
        .out_channels = channels_stored(layer->out.channels),
        .out_h = layer->out.height, .out_w = layer->out.width,
        .kernel_h = layer->kernel_h, .kernel_w = layer->kernel_w,
        .stride_h = layer->stride_h, .stride_w = layer->stride_w,
        .pad_top = layer->pad_top, .pad_bottom = layer->pad_bottom,
        .pad_left = layer->pad_left, .pad_right = layer->pad_right,
    };
}

static bool shape_equals(const struct conv_shape *a, const struct conv_shape *b)
{
    return a->pass == b->pass && a->precision == b->precision && a->bias == b->bias && a->relu == b->relu &&
           a->count == b->count && a->in_channels == b->in_channels && a->in_h == b->in_h && a->in_w == b->in_w &&
           a->out_channels == b->out_channels && a->out_h == b->out_h && a->out_w == b->out_w &&
           a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w && a->stride_h == b->stride_h &&
           a->stride_w == b->stride_w && a->pad_top == b->pad_top && a->pad_bottom == b->pad_bottom &&
           a->pad_left == b->pad_left && a->pad_right == b->pad_right;
}

static struct conv_plan *find_conv(const struct backend *backend, const struct conv_shape *shape)
{
    for (uint32_t i = 0; i < backend->conv_count; i++)
        if (shape_equals(&backend->convs[i].shape, shape))
            return backend->convs[i].plan;
    return NULL;
}

static int make_room(struct backend *backend)
{
    if (backend->conv_count < backend->conv_room)
        return 0;
    const uint32_t room = backend->conv_room * 2 + 16;
    struct conv_entry *const convs = realloc(backend->convs, room * sizeof(*convs));
    if (convs == NULL)
        return -ENOMEM;
    backend->convs = convs;
    backend->conv_room = room;
    return 0;
}

static int add_conv(struct plan *plan, const struct conv_shape *shape, struct conv_plan **conv_out)
{
    struct backend *const backend = plan->base.backend;
    int rc = make_room(backend);
    if (rc == 0)
        rc = cuda_measuring_begin(plan);
    if (rc == 0)
        rc = conv_plan_open(conv_out, &plan->planner, shape, false);
    if (rc == 0)
        backend->convs[backend->conv_count++] = (struct conv_entry){ *shape, *conv_out };
    return rc;
}

/* A layer's own plan for the shape, which remembers the layer's pointers; shares the backend's,
 * which is new when the shape is the first of its kind. */
static int open_conv(struct plan *plan, const struct conv_shape *shape, struct conv_plan **conv_out)
{
    struct conv_plan *conv = find_conv(plan->base.backend, shape);
    int rc = conv == NULL ? add_conv(plan, shape, &conv) : 0;
    if (rc == 0)
        rc = conv_plan_share(conv_out, conv);
    if (rc == 0)
        cuda_plan_workspace(plan, conv_plan_workspace(conv));
    return rc;
}

void cuda_convs_close(struct backend *backend)
{
    for (uint32_t i = 0; i < backend->conv_count; i++)
        conv_plan_close(backend->convs[i].plan);
    free(backend->convs);
}

static int plan_pass(struct plan *plan, uint32_t layer, enum conv_pass pass)
{
    struct conv2d *const state = plan->states[layer];
    const struct conv_shape shape = shape_of(plan, layer, pass);
    const int rc = open_conv(plan, &shape, &state->passes[pass]);
    if (rc == -ENOTSUP)
        log_message(LOG_ERROR, "%s: layer %s cannot be computed: its %s", plan->base.backend->name,
                    plan_layer(plan, layer)->name, pass_names[pass]);
    return rc;
}

/* Bytes of the weights as the value type. */
static size_t weight_bytes(const struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const uint32_t weight = plan_layer(plan, index)->parameters[PARAMETER_WEIGHT];
    return backend->arenas->trained.ranges[weight].count * value_bytes(backend->type);
}

static int open_folded(struct plan *plan, uint32_t index, struct conv2d *state)
{
    const size_t bias = value_stored(plan, plan_output(&plan->base, index)) * value_bytes(plan->base.backend->type);
    const int rc = cuda_plan_scratch(plan, index, weight_bytes(plan, index), PHASE_FORWARD, PHASE_FORWARD,
                                     &state->weight);
    return rc == 0 ? cuda_plan_scratch(plan, index, bias, PHASE_FORWARD, PHASE_FORWARD, &state->bias) : rc;
}

static int open_scratch(struct plan *plan, uint32_t index, struct conv2d *state)
{
    const struct backend *const backend = plan->base.backend;
    const struct layer *const layer = plan_layer(plan, index);
    int rc = layer_has(layer, PARAMETER_BIAS) ? cuda_partials_open(plan, index, &state->partials) : 0;
    if (rc == 0 && backend->type != VALUE_FP32)
        rc = cuda_plan_scratch(plan, index, weight_bytes(plan, index), PHASE_PARAMETERS, PHASE_PARAMETERS,
                               &state->weight_gradient);
    return rc;
}

/* A plan that is only counted has none. */
static bool has_engines(const struct plan *plan)
{
    return plan->base.backend->cudnn != NULL;
}

static int conv2d_plan(struct plan *plan, uint32_t layer)
{
    struct conv2d *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    state->partials = state->weight_gradient = state->weight = state->bias = BUFFER_NONE;
    int rc = value_plan_needs_grad(&plan->base.values, layer) ? open_scratch(plan, layer, state) : 0;
    if (rc == 0 && has_norm(plan, layer))
        rc = open_folded(plan, layer, state);
    for (uint32_t pass = 0; pass < CONV_PASS_COUNT && rc == 0 && has_engines(plan); pass++)
        if (pass_is_needed(plan, layer, pass))
            rc = plan_pass(plan, layer, pass);
    return rc;
}

size_t cuda_conv2d_scratch(const struct plan *plan)
{
    size_t most = 0;
    for (uint32_t i = 0; i < plan_net(plan)->layer_count; i++)
        for (uint32_t pass = 0; pass < CONV_PASS_COUNT; pass++) {
            if (plan_layer(plan, i)->kind != LAYER_CONV2D || !fusion_is_head(&plan->base.fusion, i) ||
                !pass_is_needed(plan, i, pass))
                continue;
            const struct conv_shape shape = shape_of(plan, i, pass);
            const size_t bytes = conv_shape_bytes(&shape);
            most = bytes > most ? bytes : most;
        }
    return most;
}

/* ---- running ---- */

/* cuDNN's pointers are not const; weights are only read. */
static void *conv2d_weight(const struct plan *plan, uint32_t layer)
{
    return (void *)(uintptr_t)parameter_value(plan, layer, PARAMETER_WEIGHT);
}

static int add_input(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    void *const out = out_value(plan, index);
    const size_t count = value_counts(plan, plan_output(&plan->base, index));
    return CUDA_CALL(backend->name, kernel_add(backend->stream, backend->type, count, out, in_value(plan, index, 1),
                                               has_relu(plan, index), out));
}

static int forward_folded(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct conv2d *const state = plan->states[index];
    const uint32_t norm = plan_group(&plan->base, index)->tail[0];
    const uint32_t filters = value_stored(plan, plan_output(&plan->base, index));
    void *const weight = cuda_plan_data(plan, state->weight), *const bias = cuda_plan_data(plan, state->bias);
    const struct folding folding = {
        .filters = filters,
        .numbers = weight_bytes(plan, index) / value_bytes(backend->type) / filters,
        .epsilon = plan_layer(plan, norm)->epsilon,
        .weights = parameter_weights(plan, index, PARAMETER_WEIGHT),
        .bias = parameter_weights(plan, index, PARAMETER_BIAS),
        .gamma = parameter_weights(plan, norm, PARAMETER_GAMMA),
        .beta = parameter_weights(plan, norm, PARAMETER_BETA),
        .mean = parameter_statistic(plan, norm, PARAMETER_RUNNING_MEAN),
        .variance = parameter_statistic(plan, norm, PARAMETER_RUNNING_VARIANCE),
    };
    int rc = CUDA_CALL(backend->name, kernel_norm_fold(backend->stream, backend->type, &folding, weight, bias));
    if (rc == 0)
        rc = conv_plan_run(state->passes[CONV_FORWARD], backend->cudnn, in_value(plan, index, 0), weight, bias,
                           out_value(plan, index), backend->workspace);
    return rc == 0 && has_sum(plan, index) ? add_input(plan, index) : rc;
}

static int conv2d_forward(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct conv2d *const state = plan->states[index];
    if (has_norm(plan, index))
        return forward_folded(plan, index);
    return conv_plan_run(state->passes[CONV_FORWARD], backend->cudnn, in_value(plan, index, 0),
                         conv2d_weight(plan, index), parameter_value(plan, index, PARAMETER_BIAS),
                         out_value(plan, index), backend->workspace);
}

static int conv2d_weight_gradient(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct conv2d *const state = plan->states[index];
    const uint32_t weight = plan_layer(plan, index)->parameters[PARAMETER_WEIGHT];
    float *const gradient = parameter_gradient(plan, index, PARAMETER_WEIGHT);
    const bool is_direct = state->weight_gradient == BUFFER_NONE;
    void *const made = is_direct ? gradient : cuda_plan_data(plan, state->weight_gradient);
    const int rc = conv_plan_run(state->passes[CONV_WEIGHT_GRADIENT], backend->cudnn, in_value(plan, index, 0), made,
                                 NULL, out_gradient(plan, index), backend->workspace);
    if (rc != 0 || is_direct)
        return rc;
    return CUDA_CALL(backend->name, kernel_widen(backend->stream, backend->type,
                                                 backend->arenas->trained.ranges[weight].count, made, gradient));
}

static int conv2d_backward_parameters(struct plan *plan, uint32_t index)
{
    const struct conv2d *const state = plan->states[index];
    const int rc = cuda_bias_gradient_run(plan, index, state->partials);
    return rc == 0 ? conv2d_weight_gradient(plan, index) : rc;
}

static int conv2d_backward_inputs(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct conv2d *const state = plan->states[index];
    return conv_plan_run(state->passes[CONV_DATA_GRADIENT], backend->cudnn, in_gradient(plan, index, 0),
                         conv2d_weight(plan, index), NULL, out_gradient(plan, index), backend->workspace);
}

static void conv2d_release(struct plan *plan, uint32_t layer)
{
    struct conv2d *const state = plan->states[layer];
    for (uint32_t pass = 0; state != NULL && pass < CONV_PASS_COUNT; pass++)
        conv_plan_close(state->passes[pass]);
    free(state);
}

void cuda_conv2d_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size)
{
    const struct conv2d *const state = plan->states[layer];
    size_t at = 0;
    for (uint32_t pass = 0; pass < CONV_PASS_COUNT && at < text_size; pass++) {
        char how[128];
        if (state->passes[pass] == NULL)
            continue;
        conv_plan_describe(state->passes[pass], how, sizeof(how));
        at += (size_t)snprintf(text + at, text_size - at, "%s%s %s", at > 0 ? "; " : "", pass_names[pass], how);
    }
}

const struct layer_ops cuda_conv2d_ops = {
    .use = cuda_weighted_use,
    .plan = conv2d_plan,
    .forward = conv2d_forward,
    .backward_parameters = conv2d_backward_parameters,
    .backward_inputs = conv2d_backward_inputs,
    .release = conv2d_release,
};
