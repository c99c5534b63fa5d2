/* Convolution and dense layers: one primitive per direction, ReLU fused into forward,
 * the bias gradient made with the weight gradient. In evaluation a convolution takes batch
 * normalisation and a sum with it. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_PLACES_MAX 64u      /* of a window, all its channels, whose gradient in bf16 is a loop of ours */

struct weighted {
    struct parts parts;
    struct folded_norm norm;
    struct first_conv *first;   /* replaces weights when there is one */
    bool masks;                 /* backward begins with this layer's own ReLU mask */
    uint32_t active;            /* buffer of relu_note, or BUFFER_NONE: the values are the mask */
};

static bool has_relu(const struct plan *plan, uint32_t layer)
{
    return fusion_has(&plan->base.fusion, layer, LAYER_RELU);
}

/* The input of the group that is added: the primitive adds to what is in the result's place. */
static bool adds_value(const struct plan *plan, uint32_t layer)
{
    return fusion_has(&plan->base.fusion, layer, LAYER_ADD);
}

static bool mask_is_left(const struct plan *plan, uint32_t layer)
{
    return plan->base.training && has_relu(plan, layer) &&
           !value_is_masked_above(plan, plan_output(&plan->base, layer));
}

/* What is kept for a mask that is left to this layer: the values, or when they are large, or nothing else reads them
 * backward, a byte per value. That is one more pass, but their memory is then free for the gradients. */
static bool mask_is_noted(const struct plan *plan, uint32_t layer)
{
    const uint32_t made = plan_output(&plan->base, layer);
    const bool are_large = value_total(plan, made) * value_size(plan_type(plan)) > plan_backend(plan)->noted_bytes;
    return mask_is_left(plan, layer) && (are_large || value_is_done_forward(plan, made));
}

static void weighted_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    const bool keeps = mask_is_left(plan, layer) && !mask_is_noted(plan, layer);
    *use_out = (struct value_use){
        .in_until = value_slice(plan, plan_input(&plan->base, layer, 0)) != 0 ? PHASE_FORWARD : PHASE_PARAMETERS,
        .out_until = keeps ? PHASE_PARAMETERS : PHASE_FORWARD,
        .out_sign = true,
        .in_place = adds_value(plan, layer),
        .in_place_input = adds_value(plan, layer),
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

static size_t room_of(const struct plan *plan, uint32_t layer)
{
    return winograd_room(plan_backend(plan), plan_layer(plan, layer), plan->base.count, NULL);
}

struct operands { struct operand operand[6]; uint32_t count; };

static void add_operand(struct operands *operands, int arg, nn_md md, enum place_kind kind, uint32_t index)
{
    operands->operand[operands->count++] = (struct operand){ arg, md, { kind, index, 0 } };
}

static void add_buffer(struct operands *operands, int arg, nn_md md, uint32_t buffer)
{
    add_operand(operands, arg, md, PLACE_BUFFER, buffer);
}

static int open_mds(const struct plan *plan, uint32_t layer, uint32_t count, struct weighted_mds *mds)
{
    return weighted_mds_open(mds, plan_layer(plan, layer), in_tensor(plan, layer, 0), out_tensor(plan, layer), count,
                             plan_stored(plan, layer, PARAMETER_WEIGHT), plan_stored(plan, layer, PARAMETER_BIAS));
}

/* Samples from `first` on of a value or a gradient of the tensor, which is there as a whole. */
static void add_samples(struct operands *operands, int arg, nn_md md, const struct tensor_layout *tensor,
                        uint32_t buffer, uint32_t first)
{
    const size_t sample = tensor_count(tensor) * value_size(tensor->type);
    operands->operand[operands->count++] = (struct operand){ arg, md, { PLACE_BUFFER, buffer, first * sample } };
}

/* The same of the input or its gradient, where a slice has the buffer for itself. */
static void add_input(struct operands *operands, int arg, nn_md md, const struct plan *plan, uint32_t layer,
                      const struct parts *parts, uint32_t buffer, uint32_t first)
{
    add_samples(operands, arg, md, in_tensor(plan, layer, 0), buffer, parts_are_slices(parts) ? 0 : first);
}

static const struct value *in_value(const struct plan *plan, uint32_t layer)
{
    return &plan->base.values.values[plan_input(&plan->base, layer, 0)];
}

static const struct value *out_value(const struct plan *plan, uint32_t layer)
{
    return &plan->base.values.values[plan_output(&plan->base, layer)];
}

static void forward_op(const struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                       const struct folded_norm *norm, struct nn_op *op)
{
    weighted_op(op, plan_layer(plan, layer), mds,
                (struct weighted_how){ .direction = NN_FORWARD, .winograd = room_of(plan, layer),
                                       .training = plan->base.training, .with_relu = has_relu(plan, layer),
                                       .with_sum = adds_value(plan, layer), .line = norm->line });
    op->bias = folded_norm_is_in_weights(norm) ? norm->bias : mds->bias;
}

/* A normalisation is put into the weights where there is a better primitive without it. */
static int choose_fold(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct folded_norm *norm)
{
    const dnnl_engine_t engine = plan_backend(plan)->engine;
    struct folded_norm without = *norm;
    struct nn_op op;
    without.line = NULL;
    if (norm->line == NULL)
        return 0;
    forward_op(plan, layer, mds, norm, &op);
    const enum pd_class with_line = pd_class_of_best(engine, &op, NULL);
    forward_op(plan, layer, mds, &without, &op);
    if (pd_class_of_best(engine, &op, NULL) >= with_line)
        return 0;
    const int rc = folded_norm_into_weights(plan, mds->weights, norm);
    return rc == -ENOTSUP ? 0 : rc;
}

static int open_forward(struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                        const struct weighted *state, struct part *part, const struct part *beside)
{
    const struct folded_norm *const norm = &state->norm;
    const struct layer *const about = plan_layer(plan, layer);
    const bool is_multiplied = folded_norm_is_in_weights(norm);
    struct operands operands = { .count = 0 };
    struct nn_op op;
    forward_op(plan, layer, mds, norm, &op);
    add_input(&operands, DNNL_ARG_SRC, mds->src, plan, layer, &state->parts, in_value(plan, layer)->buffer,
              part->slice.first);
    if (is_multiplied)
        add_buffer(&operands, DNNL_ARG_WEIGHTS, mds->weights, norm->weights);
    else
        add_operand(&operands, DNNL_ARG_WEIGHTS, mds->weights, PLACE_WEIGHTS, about->parameters[PARAMETER_WEIGHT]);
    if (is_multiplied)
        add_buffer(&operands, DNNL_ARG_BIAS, norm->bias, norm->shifts);
    else if (mds->bias != NULL)
        add_operand(&operands, DNNL_ARG_BIAS, mds->bias, PLACE_WEIGHTS, about->parameters[PARAMETER_BIAS]);
    add_samples(&operands, DNNL_ARG_DST, mds->dst, out_tensor(plan, layer), out_value(plan, layer)->buffer,
                part->slice.first);
    if (norm->line != NULL) {
        add_buffer(&operands, NN_ARG_FACTOR, norm->line, norm->factors);
        add_buffer(&operands, NN_ARG_SHIFT, norm->line, norm->shifts);
    }
    return call_open(plan, &part->forward, layer, &op, NULL, operands.operand, operands.count, PHASE_FORWARD,
                     beside != NULL ? &beside->forward : NULL);
}

static void weights_op(const struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct nn_op *op)
{
    weighted_op(op, plan_layer(plan, layer), mds,
                (struct weighted_how){ .direction = NN_BACKWARD_WEIGHTS, .winograd = room_of(plan, layer),
                                       .training = true });
}

/* Is the gradient of the weights left to our own loop? oneDNN's fp32 kernels waste most of their work on few
 * channels. Those for bf16 do not: the loop, which takes a ReLU's mask with it, is faster for small windows only
 * (5 x 5 on 3 channels: a step of cifar_alexnet takes 8 % less with oneDNN's, 3 x 3: 7 % more). */
static bool is_own_loop(const struct plan *plan, uint32_t layer, const struct nn_op *op,
                        const_dnnl_primitive_desc_t forward)
{
    const struct layer *const about = plan_layer(plan, layer);
    const uint32_t places = about->in.channels * about->kernel_h * about->kernel_w;
    if (!first_conv_fits(about, in_tensor(plan, layer, 0), out_tensor(plan, layer)))
        return false;
    if (plan_type(plan) == VALUE_FP32 || places <= OWN_PLACES_MAX)
        return true;
    return pd_class_of_best(plan_backend(plan)->engine, op, forward) != PD_FAST;
}

static int open_weights(struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                        const struct parts *parts, struct part *part, const struct part *beside)
{
    const struct layer *const about = plan_layer(plan, layer);
    const uint32_t weight = about->parameters[PARAMETER_WEIGHT], bias = about->parameters[PARAMETER_BIAS];
    const bool adds = part->slice.first > 0;
    struct operands operands = { .count = 0 };
    struct nn_op op;
    add_buffer(&operands, DNNL_ARG_SRC, mds->src,
               parts_are_slices(parts) ? parts->again : in_value(plan, layer)->buffer);
    add_operand(&operands, DNNL_ARG_DIFF_WEIGHTS, mds->weights, adds ? PLACE_BUFFER : PLACE_GRADIENTS,
                adds ? parts->more_weights : weight);
    if (mds->bias != NULL)
        add_operand(&operands, DNNL_ARG_DIFF_BIAS, mds->bias, adds ? PLACE_BUFFER : PLACE_GRADIENTS,
                    adds ? parts->more_bias : bias);
    add_samples(&operands, DNNL_ARG_DIFF_DST, mds->dst, out_tensor(plan, layer), out_value(plan, layer)->gradient,
                part->slice.first);
    weights_op(plan, layer, mds, &op);
    return call_open(plan, &part->weights, layer, &op, part->forward.pd, operands.operand, operands.count,
                     PHASE_PARAMETERS, beside != NULL ? &beside->weights : NULL);
}

/* Slices make their own; else the first part makes the gradient of all samples. */
static int open_weights_part(struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                             const struct parts *parts, struct part *part, const struct part *beside)
{
    struct weighted_mds all;
    if (parts_are_slices(parts))
        return open_weights(plan, layer, mds, parts, part, beside);
    if (part->slice.first > 0)
        return 0;
    int rc = open_mds(plan, layer, plan->base.count, &all);
    if (rc != 0)
        return rc;
    rc = open_weights(plan, layer, &all, parts, part, NULL);
    weighted_mds_close(&all);
    return rc;
}

static int open_data(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, const struct parts *parts,
                     struct part *part, const struct part *beside)
{
    const struct layer *const about = plan_layer(plan, layer);
    struct operands operands = { .count = 0 };
    struct nn_op op;
    add_input(&operands, DNNL_ARG_DIFF_SRC, mds->src, plan, layer, parts, plan_flow(&plan->base, layer, 0)->buffer,
              part->slice.first);
    add_operand(&operands, DNNL_ARG_WEIGHTS, mds->weights, PLACE_WEIGHTS, about->parameters[PARAMETER_WEIGHT]);
    add_samples(&operands, DNNL_ARG_DIFF_DST, mds->dst, out_tensor(plan, layer), out_value(plan, layer)->gradient,
                part->slice.first);
    weighted_op(&op, about, mds,
                (struct weighted_how){ .direction = NN_BACKWARD_DATA, .winograd = room_of(plan, layer),
                                       .training = true });
    return call_open(plan, &part->data, layer, &op, part->forward.pd, operands.operand, operands.count, PHASE_INPUTS,
                     beside != NULL ? &beside->data : NULL);
}

/* Who masks the gradient by a ReLU of the layer's own, and who makes the gradient of the weights. */
static int open_backward(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct weighted *state)
{
    struct nn_op op;
    const int rc = open_active(plan, layer, state);
    if (rc != 0)
        return rc;
    state->masks = mask_is_left(plan, layer);
    weights_op(plan, layer, mds, &op);
    if (!is_own_loop(plan, layer, &op, state->parts.parts[0].forward.pd))
        return 0;
    const bool with_relu = state->masks && !plan_has_inputs(&plan->base, layer);
    state->masks = state->masks && !with_relu;
    return first_conv_open(plan, layer, with_relu, state->active, &state->first);
}

/* The first part decides for all. */
static int open_part(struct plan *plan, uint32_t layer, struct weighted *state, struct part *part)
{
    const bool is_first = part->slice.first == 0, goes_back = value_plan_needs_grad(&plan->base.values, layer);
    const struct part *const beside = is_first ? NULL : &state->parts.parts[0];
    struct weighted_mds mds;
    int rc = open_mds(plan, layer, part->slice.count, &mds);
    if (rc != 0)
        return rc;
    if (is_first)
        rc = choose_fold(plan, layer, &mds, &state->norm);
    if (rc == 0)
        rc = open_forward(plan, layer, &mds, state, part, beside);
    if (rc == 0 && goes_back && is_first)
        rc = open_backward(plan, layer, &mds, state);
    if (rc == 0 && goes_back && state->first == NULL)
        rc = open_weights_part(plan, layer, &mds, &state->parts, part, beside);
    if (rc == 0 && plan_has_inputs(&plan->base, layer))
        rc = open_data(plan, layer, &mds, &state->parts, part, beside);
    weighted_mds_close(&mds);
    return rc;
}

static int weighted_plan(struct plan *plan, uint32_t layer)
{
    struct weighted *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    state->active = BUFFER_NONE;
    int rc = parts_open(plan, layer, &state->parts);
    if (rc == 0)
        rc = folded_norm_open(plan, layer, &state->norm);
    for (uint32_t i = 0; i < state->parts.count && rc == 0; i++)
        rc = open_part(plan, layer, state, &state->parts.parts[i]);
    return rc;
}

static void weighted_release(struct plan *plan, uint32_t layer)
{
    struct weighted *const state = plan->states[layer];
    if (state == NULL)
        return;
    parts_close(&state->parts);
    first_conv_close(state->first);
    folded_norm_close(&state->norm);
    free(state);
}

/* ---- running ---- */

/* What is added comes to the result's place, unless it is there. */
static void bring_added(const struct plan *plan, uint32_t layer)
{
    const uint32_t value = plan_output(&plan->base, layer);
    const void *const added = plan_value(plan, plan_input(&plan->base, layer, 1));
    if (plan_value(plan, value) != added)
        memcpy(plan_value(plan, value), added, value_total(plan, value) * value_size(plan_type(plan)));
}

static int weighted_forward(struct plan *plan, uint32_t layer)
{
    const struct weighted *const state = plan->states[layer];
    if (folded_norm_has(&state->norm))
        folded_norm_find(plan, &state->norm);
    if (adds_value(plan, layer))
        bring_added(plan, layer);
    const int rc = parts_forward(plan, layer, &state->parts);
    if (rc == 0 && state->active != BUFFER_NONE)
        relu_note(plan, plan_output(&plan->base, layer), state->active);
    return rc;
}

static void mask_gradient(const struct plan *plan, uint32_t layer, const struct weighted *state)
{
    const uint32_t value = plan_output(&plan->base, layer);
    void *const gradient = plan_gradient(plan, value);
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
        return parts_backward_weights(plan, layer, &state->parts);
    first_conv_run(plan, state->first, layer);
    return 0;
}

static int weighted_backward_inputs(struct plan *plan, uint32_t layer)
{
    const struct weighted *const state = plan->states[layer];
    return parts_backward_data(plan, layer, &state->parts);
}

void weighted_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size)
{
    const struct weighted *const state = plan->states[layer];
    const struct parts *const parts = &state->parts;
    char stored[64], forward[64], weights[64], data[64], together[40] = "";
    nn_md_describe(plan_stored(plan, layer, PARAMETER_WEIGHT), stored, sizeof(stored));
    call_describe(&parts->parts[0].forward, forward, sizeof(forward));
    call_describe(&parts->parts[0].weights, weights, sizeof(weights));
    call_describe(&parts->parts[0].data, data, sizeof(data));
    if (parts->count > 1)
        snprintf(together, sizeof(together), ", %u samples at a time", parts->parts[0].slice.count);
    snprintf(text, text_size, "weights %s, forward %s%s%s%s, gradient of weights %s, of input %s%s", stored, forward,
             folded_norm_has(&state->norm) ? " with batch norm" : "", adds_value(plan, layer) ? " with sum" : "",
             has_relu(plan, layer) ? " with ReLU" : "", state->first != NULL ? "own loop" : weights, data, together);
}

const struct layer_ops onednn_weighted_ops = {
    .use = weighted_use,
    .plan = weighted_plan,
    .forward = weighted_forward,
    .backward_parameters = weighted_backward_parameters,
    .backward_inputs = weighted_backward_inputs,
    .release = weighted_release,
};
