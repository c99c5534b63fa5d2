/* Pools, by kernels of our own. */
#include <errno.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"
#include "stage/log.h"

struct pool {
    struct pool_shape shape;
    uint32_t winners; /* buffer; BUFFER_NONE: not wanted */
};

static void pool_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)plan;
    (void)head;
    use_out->adds = true;
}

static struct pool_shape shape_of(const struct plan *plan, uint32_t head)
{
    const struct layer *const layer = plan_layer(plan, head);
    return (struct pool_shape){
        .count = plan->base.count,
        .stored = channels_stored(layer->in.channels),
        .in_h = layer->in.height,
        .in_w = layer->in.width,
        .out_h = layer->out.height,
        .out_w = layer->out.width,
        .kernel_h = layer->kernel_h,
        .kernel_w = layer->kernel_w,
        .stride_h = layer->stride_h,
        .stride_w = layer->stride_w,
        .pad_top = layer->pad_top,
        .pad_left = layer->pad_left,
    };
}

static int pool_open(struct plan *plan, uint32_t head, struct pool **pool_out)
{
    struct pool *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[head] = state;
    *state = (struct pool){ .shape = shape_of(plan, head), .winners = BUFFER_NONE };
    *pool_out = state;
    return 0;
}

/* ---- the largest ---- */

static int refuse_window(const struct plan *plan, const struct layer *layer)
{
    log_message(LOG_ERROR, "%s: layer %s: a %ux%u window has more than %u pixels", plan->base.backend->name,
                layer->name, layer->kernel_h, layer->kernel_w, POOL_WINDOW_MAX);
    return -ENOTSUP;
}

/* A winner's place in its window is a byte. */
static int max_pool_plan(struct plan *plan, uint32_t head)
{
    const struct layer *const layer = plan_layer(plan, head);
    struct pool *state;
    if ((uint64_t)layer->kernel_h * layer->kernel_w > POOL_WINDOW_MAX)
        return refuse_window(plan, layer);
    const int rc = pool_open(plan, head, &state);
    if (rc != 0 || !plan_has_inputs(&plan->base, head))
        return rc;
    return cuda_plan_scratch(plan, head, value_counts(plan, plan_output(&plan->base, head)), PHASE_FORWARD,
                             PHASE_INPUTS, &state->winners);
}

static int max_pool_forward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const struct pool *const state = plan->states[head];
    return CUDA_CALL(backend->name, kernel_max_pool(backend->stream, backend->type, &state->shape,
                                                    in_value(plan, head, 0), out_value(plan, head),
                                                    cuda_plan_data(plan, state->winners)));
}

static int max_pool_backward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const struct pool *const state = plan->states[head];
    return CUDA_CALL(backend->name,
                     kernel_max_pool_backward(backend->stream, backend->type, &state->shape, out_gradient(plan, head),
                                              cuda_plan_data(plan, state->winners), in_gradient(plan, head, 0),
                                              plan_flow(&plan->base, head, 0)->adds));
}

const struct layer_ops cuda_max_pool_ops = {
    .use = pool_use,
    .plan = max_pool_plan,
    .forward = max_pool_forward,
    .backward_inputs = max_pool_backward,
    .release = cuda_state_release,
};

/* ---- the mean ---- */

static int average_pool_plan(struct plan *plan, uint32_t head)
{
    struct pool *state;
    return pool_open(plan, head, &state);
}

static int average_pool_forward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const struct pool *const state = plan->states[head];
    return CUDA_CALL(backend->name, kernel_average_pool(backend->stream, backend->type, &state->shape,
                                                        in_value(plan, head, 0), out_value(plan, head)));
}

static int average_pool_backward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const struct pool *const state = plan->states[head];
    return CUDA_CALL(backend->name, kernel_average_pool_backward(backend->stream, backend->type, &state->shape,
                                                                 out_gradient(plan, head), in_gradient(plan, head, 0),
                                                                 plan_flow(&plan->base, head, 0)->adds));
}

const struct layer_ops cuda_average_pool_ops = {
    .use = pool_use,
    .plan = average_pool_plan,
    .forward = average_pool_forward,
    .backward_inputs = average_pool_backward,
    .release = cuda_state_release,
};
