/* The layers of residual branches, by kernels of ours: layer normalisation; a factor per channel and stochastic depth,
 * with the addition that is fused into them. */
#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"

/* The partial sums of the gradients of a layer with gamma; training only. */
static int open_partials(struct plan *plan, uint32_t head, uint32_t *buffer_out)
{
    const uint32_t value = plan_output(&plan->base, head);
    const size_t floats = kernel_gamma_partials(value_rows(plan, value), value_stored(plan, value));
    return plan_scratch(plan, head, floats * sizeof(float), PASS_PARAMETERS, PASS_PARAMETERS, buffer_out);
}

/* ---- layer_norm ---- */

struct layer_norm {
    uint32_t lines, partials;   /* buffers; training only */
};

static void layer_norm_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)head;
    *use_out = (struct value_use){ .in_until = PASS_INPUTS, .in_place = !plan->base.training,
                                   .gradient_in_place = true, .adds = true };
}

static int layer_norm_plan(struct plan *plan, uint32_t head)
{
    struct layer_norm *const state = plan->base.states[head];
    const size_t rows = value_rows(plan, plan_output(&plan->base, head));
    *state = (struct layer_norm){ BUFFER_NONE, BUFFER_NONE };
    if (!plan->base.training)
        return 0;
    const int rc = plan_scratch(plan, head, rows * 2 * sizeof(float), PASS_FORWARD, PASS_INPUTS, &state->lines);
    return rc == 0 ? open_partials(plan, head, &state->partials) : rc;
}

static struct layer_normalisation layer_normalisation_of(const struct plan *plan, uint32_t head)
{
    const struct layer_norm *const state = plan->base.states[head];
    const struct layer *const layer = plan_layer(plan, head);
    const uint32_t value = plan_output(&plan->base, head);
    return (struct layer_normalisation){
        .rows = value_rows(plan, value),
        .channels = layer->in.channels,
        .columns = value_stored(plan, value),
        .epsilon = layer->epsilon,
        .gamma = parameter_weights(plan, head, PARAMETER_GAMMA),
        .beta = parameter_weights(plan, head, PARAMETER_BETA),
        .lines = plan_data(plan, state->lines),
    };
}

static int layer_norm_forward(struct plan *plan, uint32_t head)
{
    const struct layer_normalisation norm = layer_normalisation_of(plan, head);
    return LAYER_KERNEL(plan, kernel_layer_norm, &norm, in_value(plan, head, 0), out_value(plan, head));
}

static int layer_norm_backward_parameters(struct plan *plan, uint32_t head)
{
    const struct layer_norm *const state = plan->base.states[head];
    const struct layer_normalisation norm = layer_normalisation_of(plan, head);
    return LAYER_KERNEL(plan, kernel_layer_norm_sums, &norm, in_value(plan, head, 0), out_gradient(plan, head),
                        plan_data(plan, state->partials), parameter_gradient(plan, head, PARAMETER_GAMMA),
                        parameter_gradient(plan, head, PARAMETER_BETA));
}

static int layer_norm_backward_inputs(struct plan *plan, uint32_t head)
{
    const struct layer_normalisation norm = layer_normalisation_of(plan, head);
    return LAYER_KERNEL(plan, kernel_layer_norm_gradient, &norm, in_value(plan, head, 0), out_gradient(plan, head),
                        in_gradient(plan, head, 0), plan_flow(&plan->base, head, 0)->adds);
}

const struct layer_ops cuda_layer_norm_ops = {
    .use = layer_norm_use,
    .state_bytes = sizeof(struct layer_norm),
    .plan = layer_norm_plan,
    .forward = layer_norm_forward,
    .backward_parameters = layer_norm_backward_parameters,
    .backward_inputs = layer_norm_backward_inputs,
};

/* ---- scale and stochastic_depth, with the addition after them ---- */

struct branch_state {
    bool drops;
    struct dropout dropout;     /* where it drops */
    uint32_t partials;          /* buffer; training, with gamma */
};

static void scale_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)head;
    *use_out = (struct value_use){ .in_until = PASS_PARAMETERS, .in_place = !plan->base.training,
                                   .gradient_in_place = true, .adds = true };
}

static void depth_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    const bool has_sum = plan_has_sum(plan, head);
    *use_out = (struct value_use){ .in_place = true, .keeps_sign = !has_sum,
                                   .is_identity = !plan->base.training && !has_sum,
                                   .gradient_in_place = true, .adds = true };
}

static int branch_plan(struct plan *plan, uint32_t head)
{
    struct branch_state *const state = plan->base.states[head];
    const uint32_t depth = plan_find(plan, head, LAYER_STOCHASTIC_DEPTH);
    *state = (struct branch_state){ .drops = plan->base.training && depth != NET_INPUT, .partials = BUFFER_NONE };
    if (state->drops)
        dropout_init(&state->dropout, plan->base.backend->spec.seed, net_random_stream(plan->base.net, depth),
                     plan_layer(plan, depth)->rate);
    if (!plan->base.training || !layer_has(plan_layer(plan, head), PARAMETER_GAMMA))
        return 0;
    return open_partials(plan, head, &state->partials);
}

static struct branch branch_of(const struct plan *plan, uint32_t head)
{
    const struct branch_state *const state = plan->base.states[head];
    const uint32_t value = plan_output(&plan->base, head);
    return (struct branch){
        .rows = value_rows(plan, value),
        .pixels = (uint32_t)value_pixels(plan, value),
        .columns = value_stored(plan, value),
        .gamma = parameter_weights(plan, head, PARAMETER_GAMMA),
        .drops = state->drops,
        .rule = state->dropout,
        .values = plan_data(plan, plan->step),
    };
}

static int branch_forward(struct plan *plan, uint32_t head)
{
    const struct branch branch = branch_of(plan, head);
    const void *const addend = plan_has_sum(plan, head) ? in_value(plan, head, 1) : NULL;
    if (!branch.drops && branch.gamma == NULL && addend == NULL)
        return 0;
    return LAYER_KERNEL(plan, kernel_branch, &branch, in_value(plan, head, 0), addend, out_value(plan, head));
}

static int scale_backward_parameters(struct plan *plan, uint32_t head)
{
    const struct branch_state *const state = plan->base.states[head];
    const struct branch branch = branch_of(plan, head);
    return LAYER_KERNEL(plan, kernel_branch_sums, &branch, in_value(plan, head, 0), out_gradient(plan, head),
                        plan_data(plan, state->partials), parameter_gradient(plan, head, PARAMETER_GAMMA));
}

static int branch_backward_inputs(struct plan *plan, uint32_t head)
{
    const struct branch branch = branch_of(plan, head);
    void *const to = in_gradient(plan, head, 0), *const gradient = out_gradient(plan, head);
    const bool adds = plan_flow(&plan->base, head, 0)->adds;
    int rc = 0;
    if (to != NULL)
        rc = LAYER_KERNEL(plan, kernel_branch, &branch, gradient, adds ? to : NULL, to);
    return rc == 0 && plan_has_sum(plan, head) ? cuda_flow_pass(plan, head, 1, gradient) : rc;
}

const struct layer_ops cuda_scale_ops = {
    .use = scale_use,
    .state_bytes = sizeof(struct branch_state),
    .plan = branch_plan,
    .forward = branch_forward,
    .backward_parameters = scale_backward_parameters,
    .backward_inputs = branch_backward_inputs,
};

const struct layer_ops cuda_stochastic_depth_ops = {
    .use = depth_use,
    .state_bytes = sizeof(struct branch_state),
    .plan = branch_plan,
    .forward = branch_forward,
    .backward_inputs = branch_backward_inputs,
};
