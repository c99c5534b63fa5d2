/* The softmax loss and the auxiliary ones, by a kernel of our own: forward leaves the logits'
 * gradient. The first of a step writes the result, the others add to it. */
#include <errno.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"

struct loss {
    uint32_t samples;           /* buffer */
    bool adds;                  /* to the result of losses before */
};

static void loss_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)plan;
    (void)head;
    use_out->gradient_early = true;
}

static int loss_plan(struct plan *plan, uint32_t head)
{
    struct loss *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[head] = state;
    state->adds = plan->has_loss;
    plan->has_loss = true;
    return cuda_plan_scratch(plan, head, plan->base.count * sizeof(struct sample_loss), PHASE_FORWARD, PHASE_FORWARD,
                             &state->samples);
}

static int loss_forward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const struct layer *const layer = plan_layer(plan, head);
    const struct loss *const state = plan->states[head];
    const struct loss_shape shape = {
        .count = plan->base.count,
        .classes = plan_net(plan)->classes,
        .stored = value_stored(plan, plan_input(&plan->base, head, 0)),
        .weight = layer->loss_weight,
        .is_auxiliary = layer->kind == LAYER_AUXILIARY_LOSS,
        .adds = state->adds,
    };
    return CUDA_CALL(backend->name,
                     kernel_softmax_loss(backend->stream, backend->type, &shape, in_value(plan, head, 0),
                                         cuda_plan_data(plan, plan->labels), backend->scale,
                                         in_gradient(plan, head, 0), cuda_plan_data(plan, state->samples),
                                         cuda_plan_data(plan, plan->result)));
}

const struct layer_ops cuda_softmax_loss_ops = {
    .use = loss_use,
    .plan = loss_plan,
    .forward = loss_forward,
    .release = cuda_state_release,
};
