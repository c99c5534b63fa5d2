/* Dense layers by cuBLASLt. Their input is the image before them as rows of numbers; what the
 * permutation of the weights' columns is, cuda_store.c says. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"

struct dense {
    struct dense_plan *passes[DENSE_PASS_COUNT];        /* NULL: not needed */
    uint32_t partials;          /* buffer; BUFFER_NONE: the product gives the bias' gradient, or there is none */
};

static int open_product(struct plan *plan, uint32_t index, enum dense_pass pass)
{
    struct backend *const backend = plan->base.backend;
    struct dense *const state = plan->states[index];
    const bool relu = has_relu(plan, index), bias = layer_has(plan_layer(plan, index), PARAMETER_BIAS);
    const struct dense_shape shape = {
        .pass = pass,
        .precision = backend->spec.precision,
        .bias = bias && (pass == DENSE_FORWARD || (pass == DENSE_WEIGHT_GRADIENT && !relu)),
        .relu = pass == DENSE_FORWARD && relu,
        .count = plan->base.count,
        .features = (uint32_t)value_count(plan, plan_input(&plan->base, index, 0)),
        .units = value_stored(plan, plan_output(&plan->base, index)),
    };
    const int rc = dense_plan_open(&state->passes[pass], backend->dense, &shape, DENSE_WORKSPACE);
    if (rc == 0)
        cuda_plan_workspace(plan, dense_plan_workspace(state->passes[pass]));
    return rc;
}

static int dense_plan(struct plan *plan, uint32_t layer)
{
    struct dense *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    state->partials = BUFFER_NONE;
    const bool is_apart = has_relu(plan, layer) && layer_has(plan_layer(plan, layer), PARAMETER_BIAS);
    const bool goes_back = value_plan_needs_grad(&plan->base.values, layer);
    int rc = goes_back && is_apart ? cuda_partials_open(plan, layer, &state->partials) : 0;
    if (plan->base.backend->dense == NULL)      /* the plan is only counted */
        return rc;
    if (rc == 0)
        rc = open_product(plan, layer, DENSE_FORWARD);
    if (rc == 0 && plan_has_inputs(&plan->base, layer))
        rc = open_product(plan, layer, DENSE_DATA_GRADIENT);
    if (rc == 0 && goes_back)
        rc = open_product(plan, layer, DENSE_WEIGHT_GRADIENT);
    return rc;
}

static int run_product(struct plan *plan, uint32_t layer, enum dense_pass pass, const struct dense_operands *operands)
{
    const struct dense *const state = plan->states[layer];
    return dense_plan_run(state->passes[pass], plan->base.backend->stream, operands);
}

static int dense_forward(struct plan *plan, uint32_t index)
{
    const struct dense_operands operands = {
        .in = in_value(plan, index, 0),
        .out = out_value(plan, index),
        .weight = parameter_value(plan, index, PARAMETER_WEIGHT),
        .bias = parameter_value(plan, index, PARAMETER_BIAS),
        .workspace = plan->base.backend->workspace,
    };
    return run_product(plan, index, DENSE_FORWARD, &operands);
}

static int dense_backward_parameters(struct plan *plan, uint32_t index)
{
    const struct dense *const state = plan->states[index];
    const bool is_apart = has_relu(plan, index);        /* the mask comes first */
    const struct dense_operands operands = {
        .in = in_value(plan, index, 0),
        .out = out_gradient(plan, index),
        .weight_gradient = parameter_gradient(plan, index, PARAMETER_WEIGHT),
        .bias_gradient = is_apart ? NULL : parameter_gradient(plan, index, PARAMETER_BIAS),
        .workspace = plan->base.backend->workspace,
    };
    const int rc = is_apart ? cuda_bias_gradient_run(plan, index, state->partials) : 0;
    return rc == 0 ? run_product(plan, index, DENSE_WEIGHT_GRADIENT, &operands) : rc;
}

static int dense_backward_inputs(struct plan *plan, uint32_t index)
{
    const struct dense_operands operands = {
        .in = in_gradient(plan, index, 0),
        .out = out_gradient(plan, index),
        .weight = parameter_value(plan, index, PARAMETER_WEIGHT),
        .workspace = plan->base.backend->workspace,
    };
    return run_product(plan, index, DENSE_DATA_GRADIENT, &operands);
}

static void dense_release(struct plan *plan, uint32_t layer)
{
    struct dense *const state = plan->states[layer];
    for (uint32_t pass = 0; state != NULL && pass < DENSE_PASS_COUNT; pass++)
        dense_plan_close(state->passes[pass]);
    free(state);
}

void cuda_dense_describe(const struct plan *plan, uint32_t layer, char *text, size_t text_size)
{
    static const char *const names[DENSE_PASS_COUNT] = {
        [DENSE_FORWARD] = "forward", [DENSE_DATA_GRADIENT] = "data gradient",
        [DENSE_WEIGHT_GRADIENT] = "weight gradient",
    };
    const struct dense *const state = plan->states[layer];
    size_t at = 0;
    for (uint32_t pass = 0; pass < DENSE_PASS_COUNT && at < text_size; pass++) {
        char how[128];
        if (state->passes[pass] == NULL)
            continue;
        dense_plan_describe(state->passes[pass], how, sizeof(how));
        at += (size_t)snprintf(text + at, text_size - at, "%s%s %s", at > 0 ? "; " : "", names[pass], how);
    }
}

const struct layer_ops cuda_dense_ops = {
    .use = cuda_weighted_use,
    .plan = dense_plan,
    .forward = dense_forward,
    .backward_parameters = dense_backward_parameters,
    .backward_inputs = dense_backward_inputs,
    .release = dense_release,
};
