/* Convolution and dense layers: one primitive per direction, ReLU fused into forward,
 * the bias gradient made with the weight gradient. Backward makes the weight gradient
 * first, so that its reduction can start while the input's gradient is computed. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct weighted {
    struct nn_call forward, weights, data;
    struct first_conv *first;   /* replaces weights when there is one */
    bool has_data;
    bool masks;                 /* backward begins with this layer's own ReLU mask */
    uint32_t active;            /* buffer of relu_note, or BUFFER_NONE: the values are the mask */
};

/* Max-pooling and dropout pass on a gradient that already has the mask: a pooled or
 * dropped value is above zero exactly where the ReLU is active and the gradient passes. */
static bool mask_is_left(const struct plan *plan, uint32_t layer)
{
    const struct net *net = plan_backend(plan)->spec.net;
    const uint32_t behind = layer_behind(net, layer);
    return net->layers[layer].relu && net->layers[behind].kind != LAYER_MAX_POOL &&
           net->layers[behind].kind != LAYER_DROPOUT;
}

static struct operand operand(int arg, nn_md md, enum place_kind kind, uint32_t index)
{
    return (struct operand){ arg, md, { kind, index } };
}

/* What is kept for a mask that is left to this layer: the values, or when they are large a
 * byte per value. That is one more pass, but their memory is then free for the gradients. */
static int active_open(struct plan *plan, uint32_t layer, struct weighted *state)
{
    const struct edge *out = &plan->edges[layer + 1];
    const size_t values = plan->base.count * edge_floats(out);
    if (values * sizeof(float) <= plan_backend(plan)->noted_bytes) {
        plan_use(plan, out->value, time_weights(plan, layer));
        return 0;
    }
    const int rc = plan_buffer(plan, values, &state->active);
    if (rc)
        return rc;
    plan_use(plan, state->active, time_forward(layer));
    plan_use(plan, state->active, time_weights(plan, layer));
    return 0;
}

static int forward_open(struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                        struct weighted *state)
{
    const struct layer *about = plan_layer(plan, layer);
    const uint32_t time = time_forward(layer);
    const struct operand operands[] = {
        operand(DNNL_ARG_SRC, mds->src, PLACE_BUFFER, plan->edges[layer].value),
        operand(DNNL_ARG_WEIGHTS, mds->weights, PLACE_WEIGHTS, about->weight),
        operand(DNNL_ARG_BIAS, mds->bias, PLACE_WEIGHTS, about->bias),
        operand(DNNL_ARG_DST, mds->dst, PLACE_BUFFER, plan->edges[layer + 1].value),
    };
    struct nn_op op;
    weighted_op(&op, about, mds, NN_FORWARD, plan->base.training);
    plan_use(plan, plan->edges[layer].value, time);
    plan_use(plan, plan->edges[layer + 1].value, time);
    return call_open(plan, &state->forward, layer, &op, NULL, operands, 4, time);
}

static int weights_open(struct plan *plan, uint32_t layer, const struct weighted_mds *mds,
                        struct weighted *state)
{
    const struct layer *about = plan_layer(plan, layer);
    const uint32_t time = time_weights(plan, layer);
    plan_use(plan, plan->edges[layer].value, time);
    plan_use(plan, plan->edges[layer + 1].gradient, time);
    state->masks = mask_is_left(plan, layer);
    if (state->masks) {
        const int rc = active_open(plan, layer, state);
        if (rc)
            return rc;
    }
    if (first_conv_fits(about, &plan->edges[layer], &plan->edges[layer + 1])) {
        const bool with_relu = state->masks && !state->has_data;
        state->masks = state->masks && !with_relu;
        return first_conv_open(plan, layer, with_relu, state->active, &state->first);
    }
    const struct operand operands[] = {
        operand(DNNL_ARG_SRC, mds->src, PLACE_BUFFER, plan->edges[layer].value),
        operand(DNNL_ARG_DIFF_WEIGHTS, mds->weights, PLACE_GRADIENTS, about->weight),
        operand(DNNL_ARG_DIFF_BIAS, mds->bias, PLACE_GRADIENTS, about->bias),
        operand(DNNL_ARG_DIFF_DST, mds->dst, PLACE_BUFFER, plan->edges[layer + 1].gradient),
    };
    struct nn_op op;
    weighted_op(&op, about, mds, NN_BACKWARD_WEIGHTS, true);
    return call_open(plan, &state->weights, layer, &op, state->forward.pd, operands, 4, time);
}

static int data_open(struct plan *plan, uint32_t layer, const struct weighted_mds *mds, struct weighted *state)
{
    const struct layer *about = plan_layer(plan, layer);
    const uint32_t time = time_data(plan, layer);
    const struct operand operands[] = {
        operand(DNNL_ARG_DIFF_SRC, mds->src, PLACE_BUFFER, plan->edges[layer].gradient),
        operand(DNNL_ARG_WEIGHTS, mds->weights, PLACE_WEIGHTS, about->weight),
        operand(DNNL_ARG_DIFF_DST, mds->dst, PLACE_BUFFER, plan->edges[layer + 1].gradient),
    };
    struct nn_op op;
    weighted_op(&op, about, mds, NN_BACKWARD_DATA, true);
    plan_use(plan, plan->edges[layer].gradient, time);
    plan_use(plan, plan->edges[layer + 1].gradient, time);
    return call_open(plan, &state->data, layer, &op, state->forward.pd, operands, 3, time);
}

static int weighted_plan(struct plan *plan, uint32_t layer)
{
    const struct backend *backend = plan_backend(plan);
    const struct layer *about = plan_layer(plan, layer);
    struct weighted *state = calloc(1, sizeof(*state));
    struct weighted_mds mds;
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    state->active = BUFFER_NONE;
    state->has_data = plan_has_gradient(plan, layer);
    int rc = plan_edge_open(plan, layer + 1);
    if (rc)
        return rc;
    rc = weighted_mds_open(&mds, about, &plan->edges[layer], &plan->edges[layer + 1], plan->base.count,
                           backend->stored[about->weight], backend->stored[about->bias]);
    if (rc)
        return rc;
    rc = forward_open(plan, layer, &mds, state);
    if (rc == 0 && plan->base.training)
        rc = weights_open(plan, layer, &mds, state);
    if (rc == 0 && state->has_data)
        rc = data_open(plan, layer, &mds, state);
    weighted_mds_close(&mds);
    return rc;
}

static int weighted_forward(struct plan *plan, uint32_t layer)
{
    const struct weighted *state = plan->states[layer];
    const int rc = call_run(plan, &state->forward);
    if (rc == 0 && state->active != BUFFER_NONE)
        relu_note(plan, layer + 1, state->active);
    return rc;
}

static int weighted_backward(struct plan *plan, uint32_t layer)
{
    const struct weighted *state = plan->states[layer];
    int rc = 0;
    if (state->masks && state->active != BUFFER_NONE)
        relu_mask_noted(plan, layer + 1, state->active);
    else if (state->masks)
        relu_mask(plan, layer + 1, 1.0f);
    if (state->first != NULL)
        first_conv_run(plan, state->first, layer);
    else
        rc = call_run(plan, &state->weights);
    if (rc)
        return rc;
    plan->layer_done(plan->layer_done_arg, layer);
    return state->has_data ? call_run(plan, &state->data) : 0;
}

static void weighted_release(struct plan *plan, uint32_t layer)
{
    struct weighted *state = plan->states[layer];
    call_close(&state->data);
    call_close(&state->weights);
    call_close(&state->forward);
    first_conv_close(state->first);
    free(state);
}

void weighted_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size)
{
    const struct weighted *state = plan->states[layer];
    char stored[64], forward[64], weights[64], data[64];
    nn_md_describe(plan_backend(plan)->stored[plan_layer(plan, layer)->weight], stored, sizeof(stored));
    call_describe(&state->forward, forward, sizeof(forward));
    call_describe(&state->weights, weights, sizeof(weights));
    call_describe(&state->data, data, sizeof(data));
    snprintf(text, text_size, "weights %s, forward %s%s, gradient of weights %s, of input %s", stored, forward,
             plan_layer(plan, layer)->relu ? " with ReLU" : "", state->first != NULL ? "own loop" : weights, data);
}

const struct layer_ops onednn_weighted_ops = {
    .plan = weighted_plan,
    .forward = weighted_forward,
    .backward = weighted_backward,
    .release = weighted_release,
};
