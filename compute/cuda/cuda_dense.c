/* Dense layers by cuBLASLt. Their input is the image before them as rows of numbers; what the
 * permutation of the weights' columns is, cuda_store.c says. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"

struct dense {
    struct dense_plan *passes[DENSE_PASS_COUNT];        /* NULL: not needed */
    uint32_t partials;          /* buffer; NO_BUFFER: the product gives the bias' gradient too */
};

static int open_product(struct plan *plan, uint32_t index, enum dense_pass pass)
{
    const struct backend *const backend = plan->base.backend;
    const struct layer *const layer = plan_layer(plan, index);
    struct dense *const state = plan->states[index];
    const struct dense_shape shape = {
        .pass = pass,
        .precision = backend->spec.precision,
        .bias = pass == DENSE_FORWARD || (pass == DENSE_WEIGHT_GRADIENT && !layer->relu),
        .relu = pass == DENSE_FORWARD && layer->relu,
        .count = plan->base.count,
        .features = (uint32_t)edge_count(&plan->edges[index]),
        .units = plan->edges[index + 1].stored,
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
    state->partials = NO_BUFFER;
    int rc = cuda_output_open(plan, layer);
    if (rc == 0 && plan->base.training && plan_layer(plan, layer)->relu)
        rc = cuda_partials_open(plan, layer, &state->partials);
    if (rc == 0)
        rc = open_product(plan, layer, DENSE_FORWARD);
    if (rc == 0 && edge_has_gradient(plan, layer))
        rc = open_product(plan, layer, DENSE_DATA_GRADIENT);
    if (rc == 0 && plan->base.training)
        rc = open_product(plan, layer, DENSE_WEIGHT_GRADIENT);
    return rc;
}

static int run_product(struct plan *plan, uint32_t layer, enum dense_pass pass,
                       const struct dense_operands *operands)
{
    const struct dense *const state = plan->states[layer];
    return dense_plan_run(state->passes[pass], plan->base.backend->stream, operands);
}

static int dense_forward(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct layer *const layer = plan_layer(plan, index);
    const struct dense_operands operands = {
        .in = edge_value(plan, index),
        .out = edge_value(plan, index + 1),
        .weight = parameter_value(backend, layer->weight),
        .bias = parameter_value(backend, layer->bias),
        .workspace = backend->workspace,
    };
    return run_product(plan, index, DENSE_FORWARD, &operands);
}

static int dense_weight_gradient(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct layer *const layer = plan_layer(plan, index);
    const struct dense_operands operands = {
        .in = edge_value(plan, index),
        .out = edge_gradient(plan, index + 1),
        .weight_gradient = parameter_gradient(backend, layer->weight),
        .bias_gradient = layer->relu ? NULL : parameter_gradient(backend, layer->bias),
        .workspace = backend->workspace,
    };
    return run_product(plan, index, DENSE_WEIGHT_GRADIENT, &operands);
}

static int dense_data_gradient(struct plan *plan, uint32_t index)
{
    const struct backend *const backend = plan->base.backend;
    const struct dense_operands operands = {
        .in = edge_gradient(plan, index),
        .out = edge_gradient(plan, index + 1),
        .weight = parameter_value(backend, plan_layer(plan, index)->weight),
        .workspace = backend->workspace,
    };
    return run_product(plan, index, DENSE_DATA_GRADIENT, &operands);
}

static int dense_backward(struct plan *plan, uint32_t index)
{
    const struct dense *const state = plan->states[index];
    int rc = 0;
    if (state->partials != NO_BUFFER)
        rc = cuda_bias_gradient_run(plan, index, state->partials);
    if (rc == 0)
        rc = dense_weight_gradient(plan, index);
    return rc == 0 && edge_has_gradient(plan, index) ? dense_data_gradient(plan, index) : rc;
}

static void dense_release(struct plan *plan, uint32_t layer)
{
    struct dense *const state = plan->states[layer];
    for (uint32_t pass = 0; pass < DENSE_PASS_COUNT; pass++)
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

const struct layer_ops cuda_dense_ops = { dense_plan, dense_forward, dense_backward, dense_release };
