/* The layers that only shares of a net have (compute/share.h), by our own kernels: memory outside of the plan, and the
 * loss of a part of the classes. Statistics of a part, and what follows from those of all parts, are computed by one
 * block for each sample in an order fixed by the shapes, so that bits do not depend on who computes which part. */
#include <assert.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"

static struct outside_shape outside_shape_of(const struct plan *plan, uint32_t index, uint32_t parts)
{
    const struct layer *const layer = plan_layer(plan, index);
    return (struct outside_shape){
        .count = plan->base.count,
        .pixels = layer->out.height * layer->out.width,
        .channels = layer->out.channels,
        .stored = channels_stored(layer->out.channels),
        .parts = parts,
    };
}

/* ---- send ---- */

static int send_labels(const struct plan *plan)
{
    const struct backend *const backend = plan->base.backend;
    struct mixed_label *const labels = plan->base.outside.labels;
    if (labels == NULL || !cuda_plan_has_image(plan))
        return 0;
    return CUDA_CALL(backend->name, cudaMemcpyAsync(labels, plan_data(plan, plan->labels),
                                                    plan->base.count * sizeof(*labels), cudaMemcpyDeviceToDevice,
                                                    backend->stream));
}

static int send_forward(struct plan *plan, uint32_t head)
{
    const struct outside_shape shape = outside_shape_of(plan, head, 1);
    assert(plan->base.outside.sent != NULL);
    const int rc = LAYER_KERNEL(plan, kernel_to_outside, &shape, in_value(plan, head, 0), plan->base.outside.sent);
    return rc == 0 ? send_labels(plan) : rc;
}

static int send_backward(struct plan *plan, uint32_t head)
{
    const struct outside_shape shape = outside_shape_of(plan, head, 1);
    return LAYER_KERNEL(plan, kernel_from_outside, &shape, plan->base.outside.sent, in_gradient(plan, head, 0),
                        plan_flow(&plan->base, head, 0)->adds);
}

const struct layer_ops cuda_send_ops = {
    .uses = { .adds = true },
    .forward = send_forward,
    .backward_inputs = send_backward,
};

/* ---- receive ---- */

static int receive_forward(struct plan *plan, uint32_t head)
{
    const struct outside_shape shape = outside_shape_of(plan, head, plan->base.outside.received_parts);
    assert(plan->base.outside.received != NULL);
    return LAYER_KERNEL(plan, kernel_from_outside, &shape, plan->base.outside.received, out_value(plan, head), false);
}

static int receive_backward(struct plan *plan, uint32_t head)
{
    const struct outside_shape shape = outside_shape_of(plan, head, plan->base.outside.received_parts);
    assert(plan->base.outside.received_gradient != NULL);
    return LAYER_KERNEL(plan, kernel_to_outside, &shape, out_gradient(plan, head),
                        plan->base.outside.received_gradient);
}

const struct layer_ops cuda_receive_ops = { .forward = receive_forward, .backward_parameters = receive_backward };

/* ---- the loss of a part of the classes ---- */

struct part_state {
    uint32_t answers;           /* buffer: a struct answer per sample, for part_answers */
};

static int part_loss_plan(struct plan *plan, uint32_t head)
{
    struct part_state *const state = plan->base.states[head];
    const int rc = value_memory_buffer(&plan->base.values, plan->base.count * sizeof(struct answer), &state->answers);
    if (rc == 0)
        value_memory_use_always(&plan->base.values, state->answers);
    return rc;
}

static struct part_rule rule_of(const struct plan *plan)
{
    const struct backend *const backend = plan->base.backend;
    struct part_rule rule = { .classes = plan_net(plan)->classes, .weight_total = plan_net(plan)->classes };
    if (!plan->base.training)
        return rule;
    rule.smoothing = (double)backend->spec.label_smoothing;
    rule.class_weights = backend->class_weights;
    if (rule.class_weights != NULL)
        rule.weight_total = backend->class_weight_total;
    return rule;
}

static struct part_loss_shape part_shape_of(const struct plan *plan, uint32_t head)
{
    const uint32_t classes = plan_layer(plan, head)->in.channels;
    return (struct part_loss_shape){
        .count = plan->base.count,
        .first = plan->base.outside.part * classes,
        .classes = classes,
        .stored = channels_stored(classes),
        .part = plan->base.outside.part,
        .parts = plan->base.outside.stat_parts,
        .rule = rule_of(plan),
    };
}

static int part_loss_forward(struct plan *plan, uint32_t head)
{
    const struct outside *const outside = &plan->base.outside;
    const struct part_loss_shape shape = part_shape_of(plan, head);
    assert(outside->stats != NULL && outside->labels != NULL);
    return LAYER_KERNEL(plan, kernel_part_stats, &shape, in_value(plan, head, 0), outside->labels, outside->stats);
}

static int part_loss_backward(struct plan *plan, uint32_t head)
{
    const struct outside *const outside = &plan->base.outside;
    const struct part_loss_shape shape = part_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_part_gradient, &shape, in_value(plan, head, 0), outside->labels, outside->stats,
                        in_gradient(plan, head, 0));
}

const struct layer_ops cuda_part_loss_ops = {
    .uses = { .in_until = PASS_INPUTS },
    .state_bytes = sizeof(struct part_state),
    .plan = part_loss_plan,
    .forward = part_loss_forward,
    .backward_inputs = part_loss_backward,
};

/* ---- results ---- */

static struct part_rows rows_of(const struct plan *plan)
{
    const struct outside *const outside = &plan->base.outside;
    return (struct part_rows){
        .count = plan->base.count, .parts = outside->stat_parts, .labels = outside->labels, .stats = outside->stats,
        .rule = rule_of(plan),
    };
}

int cuda_part_sum(struct plan *plan, uint32_t first, uint32_t count, float *weight_sum)
{
    const struct backend *const backend = plan->base.backend;
    const struct part_rows rows = rows_of(plan);
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_part_result(backend->stream, &rows, first, count,
                                                                      backend->scale, weight_sum,
                                                                      plan_data(plan, plan->result)));
}

int cuda_part_weigh(struct plan *plan, uint32_t first, uint32_t count)
{
    return cuda_part_sum(plan, first, count, plan->base.backend->memory.gradients);
}

int cuda_part_answers(struct plan *plan, uint32_t first, uint32_t count, struct answer *answers_out)
{
    const struct backend *const backend = plan->base.backend;
    const struct backend_spec *const spec = &backend->spec;
    const struct part_rows rows = rows_of(plan);
    const struct part_state *const state = plan->base.states[plan->base.range.end - 1];
    struct answer *const answers = plan_data(plan, state->answers);
    int rc = cuda_enter(spec->device);
    if (rc == 0)
        rc = CUDA_CALL(backend->name, kernel_part_answers(backend->stream, &rows, first, count, answers));
    return rc != 0 ? rc : spec->device->ops->copy(spec->compute, answers_out, answers, count * sizeof(*answers),
                                                  COPY_FROM_DEVICE);
}

int cuda_send_nothing(struct backend *backend, float *numbers, size_t count, struct mixed_label *labels, uint32_t rows)
{
    const int rc = cuda_enter(backend->spec.device);
    return rc != 0 ? rc : CUDA_CALL(backend->name, kernel_send_nothing(backend->stream, count, numbers, rows, labels));
}
