/* Convolution and dense layers: one primitive per direction, ReLU fused into forward,
 * the bias gradient made with the weight gradient. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct weighted {
    struct nn_call forward, weights, data;
    struct first_conv *first;   /* replaces weights when there is one */
    bool masks;                 /* backward begins with this layer's own ReLU mask */
    uint32_t active;            /* buffer of relu_note, or BUFFER_NONE: the values are the mask */
};

static bool has_relu(const struct plan *plan, uint32_t layer)
{
    return fusion_has(&plan->base.fusion, layer, LAYER_RELU);
}

static bool mask_is_left(const struct plan *plan, uint32_t layer)
{
    return plan->base.training && has_relu(plan, layer) &&
           !value_is_masked_above(plan, plan_output(&plan->base, layer));
}

/* What is kept for a mask that is left to this layer: the values, or when they are large a
 * byte per value. That is one more pass, but their memory is then free for the gradients. */
static bool mask_is_noted(const struct plan *plan, uint32_t layer)
{
    const size_t values = value_total(plan, plan_output(&plan->base, layer));
    return mask_is_left(plan, layer) && values * sizeof(float) > plan_backend(plan)->noted_bytes;
}

static void weighted_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    const bool keeps = mask_is_left(plan, layer) && !mask_is_noted(plan, layer);
    *use_out = (struct value_use){
        .in_until = PHASE_PARAMETERS,
        .out_until = keeps ? PHASE_PARAMETERS : PHASE_FORWARD,
        .out_sign = true,
    };
}

static int open_active(struct plan *plan, uint32_t layer, struct weighted *state)
{
    if (!mask_is_noted(plan, layer))
        return 0;
    const int rc = plan_buffer(plan, value_total(plan, plan_output(&plan->base, layer)), &state->active);
    if (rc == 0)
        plan_use(plan, state->active, layer, PHASE_FORWARD, PHASE_PARAMETERS);
    return rc;
}

/* ---- primitives ---- */

struct operands { struct operand operand[4]; uint32_t count; };

static void add_operand(struct operands *operands, int arg, nn_md md, enum place_kind kind, uint32_t index)
{
    operands->operand[operands->count++] = (struct operand){ arg, md, { kind, index } };
}

static void add_buffer(struct operands *operands, int arg, nn_md md, uint32_t buffer)
{
    add_operand(operands, arg, md, PLACE_BUFFER, buffer);
}

static const struct value *in_value(const struct plan *plan, uint32_t layer)
{
    return &plan->base.values.values[plan_input(&plan->base, layer, 0)];
}

static const struct value *out_value(const struct plan *plan, uint32_t layer)
{
    return &plan->base.values.values[plan_output(&plan->base, layer)];
}

static int open_forward(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct weighted *state)
{
    const struct layer *const about = plan_layer(plan, layer);
    struct operands operands = { .count = 0 };
    struct nn_op op;
    add_buffer(&operands, DNNL_ARG_SRC, mds->src, in_value(plan, layer)->buffer);
    add_operand(&operands, DNNL_ARG_WEIGHTS, mds->weights, PLACE_WEIGHTS, about->parameters[PARAMETER_WEIGHT]);
    if (mds->bias != NULL)
        add_operand(&operands, DNNL_ARG_BIAS, mds->bias, PLACE_WEIGHTS, about->parameters[PARAMETER_BIAS]);
    add_buffer(&operands, DNNL_ARG_DST, mds->dst, out_value(plan, layer)->buffer);
    weighted_op(&op, about, mds, (struct weighted_how){ NN_FORWARD, plan->base.training, has_relu(plan, layer) });
    return call_open(plan, &state->forward, layer, &op, NULL, operands.operand, operands.count, PHASE_FORWARD);
}

static int open_weights(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct weighted *state)
{
    const struct layer *const about = plan_layer(plan, layer);
    struct operands operands = { .count = 0 };
    struct nn_op op;
    state->masks = mask_is_left(plan, layer);
    const int rc = open_active(plan, layer, state);
    if (rc != 0)
        return rc;
    if (first_conv_fits(about, in_edge(plan, layer, 0), out_edge(plan, layer))) {
        const bool with_relu = state->masks && !plan_has_inputs(&plan->base, layer);
        state->masks = state->masks && !with_relu;
        return first_conv_open(plan, layer, with_relu, state->active, &state->first);
    }
    add_buffer(&operands, DNNL_ARG_SRC, mds->src, in_value(plan, layer)->buffer);
    add_operand(&operands, DNNL_ARG_DIFF_WEIGHTS, mds->weights, PLACE_GRADIENTS, about->parameters[PARAMETER_WEIGHT]);
    if (mds->bias != NULL)
        add_operand(&operands, DNNL_ARG_DIFF_BIAS, mds->bias, PLACE_GRADIENTS, about->parameters[PARAMETER_BIAS]);
    add_buffer(&operands, DNNL_ARG_DIFF_DST, mds->dst, out_value(plan, layer)->gradient);
    weighted_op(&op, about, mds, (struct weighted_how){ NN_BACKWARD_WEIGHTS, true, false });
    return call_open(plan, &state->weights, layer, &op, state->forward.pd, operands.operand, operands.count,
                     PHASE_PARAMETERS);
}

static int open_data(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct weighted *state)
{
    const struct layer *const about = plan_layer(plan, layer);
    struct operands operands = { .count = 0 };
    struct nn_op op;
    add_buffer(&operands, DNNL_ARG_DIFF_SRC, mds->src, plan_flow(&plan->base, layer, 0)->buffer);
    add_operand(&operands, DNNL_ARG_WEIGHTS, mds->weights, PLACE_WEIGHTS, about->parameters[PARAMETER_WEIGHT]);
    add_buffer(&operands, DNNL_ARG_DIFF_DST, mds->dst, out_value(plan, layer)->gradient);
    weighted_op(&op, about, mds, (struct weighted_how){ NN_BACKWARD_DATA, true, false });
    return call_open(plan, &state->data, layer, &op, state->forward.pd, operands.operand, operands.count, PHASE_INPUTS);
}

static nn_md stored_md(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    return parameter != NET_NO_PARAMETER ? plan_backend(plan)->stored[parameter] : NULL;
}

static int weighted_plan(struct plan *plan, uint32_t layer)
{
    struct weighted *const state = calloc(1, sizeof(*state));
    struct weighted_mds mds;
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    state->active = BUFFER_NONE;
    int rc = weighted_mds_open(&mds, plan_layer(plan, layer), in_edge(plan, layer, 0), out_edge(plan, layer),
                               plan->base.count, stored_md(plan, layer, PARAMETER_WEIGHT),
                               stored_md(plan, layer, PARAMETER_BIAS));
    if (rc != 0)
        return rc;
    rc = open_forward(plan, layer, &mds, state);
    if (rc == 0 && plan->base.training)
        rc = open_weights(plan, layer, &mds, state);
    if (rc == 0 && plan_has_inputs(&plan->base, layer))
        rc = open_data(plan, layer, &mds, state);
    weighted_mds_close(&mds);
    return rc;
}

static void weighted_release(struct plan *plan, uint32_t layer)
{
    struct weighted *const state = plan->states[layer];
    if (state == NULL)
        return;
    call_close(&state->data);
    call_close(&state->weights);
    call_close(&state->forward);
    first_conv_close(state->first);
    free(state);
}

/* ---- running ---- */

static int weighted_forward(struct plan *plan, uint32_t layer)
{
    const struct weighted *const state = plan->states[layer];
    const int rc = call_run(plan, &state->forward);
    if (rc == 0 && state->active != BUFFER_NONE)
        relu_note(plan, plan_output(&plan->base, layer), state->active);
    return rc;
}

static void mask_gradient(const struct plan *plan, uint32_t layer, const struct weighted *state)
{
    const uint32_t value = plan_output(&plan->base, layer);
    float *const gradient = plan_gradient(plan, value);
    const bool is_noted = state->active != BUFFER_NONE;
    const struct gradient_pass pass = {
        .from = gradient, .to = gradient, .count = value_total(plan, value), .scale = 1.0f,
        .values = is_noted ? NULL : plan_value(plan, value),
        .active = is_noted ? plan_data(plan, state->active) : NULL,
    };
    gradient_run(plan, &pass);
}

static int weighted_backward_parameters(struct plan *plan, uint32_t layer)
{
    const struct weighted *const state = plan->states[layer];
    if (state->masks)
        mask_gradient(plan, layer, state);
    if (state->first == NULL)
        return call_run(plan, &state->weights);
    first_conv_run(plan, state->first, layer);
    return 0;
}

static int weighted_backward_inputs(struct plan *plan, uint32_t layer)
{
    const struct weighted *const state = plan->states[layer];
    return call_run(plan, &state->data);
}

void weighted_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size)
{
    const struct weighted *const state = plan->states[layer];
    char stored[64], forward[64], weights[64], data[64];
    nn_md_describe(stored_md(plan, layer, PARAMETER_WEIGHT), stored, sizeof(stored));
    call_describe(&state->forward, forward, sizeof(forward));
    call_describe(&state->weights, weights, sizeof(weights));
    call_describe(&state->data, data, sizeof(data));
    snprintf(text, text_size, "weights %s, forward %s%s, gradient of weights %s, of input %s", stored, forward,
             has_relu(plan, layer) ? " with ReLU" : "", state->first != NULL ? "own loop" : weights, data);
}

const struct layer_ops onednn_weighted_ops = {
    .use = weighted_use,
    .plan = weighted_plan,
    .forward = weighted_forward,
    .backward_parameters = weighted_backward_parameters,
    .backward_inputs = weighted_backward_inputs,
    .release = weighted_release,
};
