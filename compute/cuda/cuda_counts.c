/* Counts the operations of a training step on a GPU from the fused network, without a device: for every function of a
 * layer that queues work there is a function here that counts it. test_cuda_launches compares both for every model. */
#include <errno.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"

struct counter {
    struct plan *plan;
    struct step_counts *counts;
};

static const struct layer *layer_of(const struct counter *counter, uint32_t head)
{
    return plan_layer(counter->plan, head);
}

static bool has(const struct counter *counter, uint32_t head, enum layer_kind kind)
{
    return fusion_has(&counter->plan->base.fusion, head, kind);
}

static uint32_t value_buffer(const struct counter *counter, uint32_t value)
{
    return counter->plan->base.values.values[value].buffer;
}

static uint32_t gradient_buffer(const struct counter *counter, uint32_t head)
{
    return counter->plan->base.values.values[plan_output(&counter->plan->base, head)].gradient;
}

/* Counts cuda_flow_pass for the gradient of the group's result. */
static void count_pass(const struct counter *counter, uint32_t head, uint32_t k)
{
    const struct flow *const flow = plan_flow(&counter->plan->base, head, k);
    if (flow->buffer == BUFFER_NONE || flow->buffer == gradient_buffer(counter, head))
        return;
    if (flow->adds)
        counter->counts->kernels++;
    else
        counter->counts->copies++;
}

/* ---- forward ---- */

static void count_dropout(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    counter->counts->kernels++;
    counter->counts->copies += value_buffer(counter, plan_input(base, head, 0)) !=
                               value_buffer(counter, plan_output(base, head));
}

/* The kernels: statistics of chunks, unless those of all columns are known; statistics of all rows; normalisation. */
static void count_norm(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    const uint32_t before = plan_norm_before(base, head), channels = layer_of(counter, head)->in.channels;
    const bool is_known = before != NET_INPUT && layer_of(counter, before)->in.channels == channels;
    counter->counts->kernels += is_known ? 2 : 3;
}

static void count_forward(const struct counter *counter, uint32_t head)
{
    struct step_counts *const counts = counter->counts;
    switch (layer_of(counter, head)->kind) {
    case LAYER_CONV2D: counts->convolutions++; return;
    case LAYER_DENSE: counts->products++; return;
    case LAYER_BATCH_NORM: count_norm(counter, head); return;
    case LAYER_DROPOUT: count_dropout(counter, head); return;
    case LAYER_AUXILIARY_LOSS: case LAYER_SOFTMAX_LOSS: counts->kernels += 2; return;   /* loss and its sum */
    default: counts->kernels++; return;
    }
}

/* ---- backward ---- */

/* With a bias there are two kernels: the ReLU's mask with the bias gradient of chunks, and the sum of the chunks. */
static void count_bias(const struct counter *counter, uint32_t head)
{
    if (layer_has(layer_of(counter, head), PARAMETER_BIAS))
        counter->counts->kernels += 2;
    else
        counter->counts->kernels += has(counter, head, LAYER_RELU);
}

/* Also counts the conversion of 16-bit weight gradients to fp32 and the padding of images with uneven padding. */
static void count_weights(const struct counter *counter, uint32_t head)
{
    const struct layer *const layer = layer_of(counter, head);
    const bool is_even = layer->pad_top == layer->pad_bottom && layer->pad_left == layer->pad_right;
    count_bias(counter, head);
    counter->counts->convolutions++;
    counter->counts->kernels += (counter->plan->base.backend->type != VALUE_FP32) + !is_even;
}

static void count_parameters(const struct counter *counter, uint32_t head)
{
    switch (layer_of(counter, head)->kind) {
    case LAYER_CONV2D:
        count_weights(counter, head);
        return;
    case LAYER_DENSE:
        if (has(counter, head, LAYER_RELU))
            count_bias(counter, head);
        counter->counts->products++;
        return;
    case LAYER_BATCH_NORM: case LAYER_LAYER_NORM: case LAYER_SCALE:
        counter->counts->kernels += 2;
        return;
    default:
        return;
    }
}

/* If the result shares the buffer of its first input (value_use.grows), the gradient of that input is already in
 * place. */
static void count_concat(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    for (uint32_t k = value_memory_grows(&base->values, head) ? 1 : 0; k < plan_group(base, head)->input_count; k++)
        counter->counts->kernels += plan_flow(base, head, k)->buffer != BUFFER_NONE;
}

static void count_inputs(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    struct step_counts *const counts = counter->counts;
    switch (layer_of(counter, head)->kind) {
    case LAYER_CONV2D: counts->convolutions++; return;
    case LAYER_DENSE: counts->products++; return;
    case LAYER_CONCAT: count_concat(counter, head); return;
    case LAYER_LOCAL_RESPONSE_NORM: counts->kernels += 2; return;
    case LAYER_AUXILIARY_LOSS: case LAYER_SOFTMAX_LOSS: return;         /* forward has computed the gradient */
    case LAYER_DROPOUT:
        counts->kernels++;
        count_pass(counter, head, 0);
        return;
    case LAYER_ADD:
        for (uint32_t k = 0; k < plan_group(base, head)->input_count; k++)
            count_pass(counter, head, k);
        return;
    case LAYER_MULTIPLY:
        for (uint32_t k = 0; k < plan_group(base, head)->input_count; k++)
            counts->kernels += plan_flow(base, head, k)->buffer != BUFFER_NONE;
        return;
    case LAYER_BATCH_NORM: case LAYER_SCALE: case LAYER_STOCHASTIC_DEPTH:
        counts->kernels += plan_flow(base, head, 0)->buffer != BUFFER_NONE;
        if (has(counter, head, LAYER_ADD))
            count_pass(counter, head, 1);
        return;
    default:
        counts->kernels++;
        return;
    }
}

static void count_backward(const struct counter *counter, uint32_t head)
{
    const struct plan_base *const base = &counter->plan->base;
    count_parameters(counter, head);
    if (plan_has_inputs(base, head))
        count_inputs(counter, head);
    for (uint32_t k = 0; k < plan_group(base, head)->input_count; k++)
        counter->counts->kernels += plan_flow(base, head, k)->sum != BUFFER_NONE;
}

/* ---- a step ---- */

/* Counts the input step, and the copy of the result to the host. */
static void count_step(const struct counter *counter)
{
    const struct plan_base *const base = &counter->plan->base;
    counter->counts->kernels++;
    counter->counts->copies++;
    for (uint32_t i = 0; i < base->net->layer_count; i++)
        if (fusion_is_head(&base->fusion, i))
            count_forward(counter, i);
    for (uint32_t i = 0; i < base->net->layer_count; i++)
        if (value_memory_needs_grad(&base->values, i))
            count_backward(counter, i);
    counter->counts->value_bytes = base->values.bytes;
    counter->counts->is_recorded = cuda_plan_is_recorded(counter->plan);
}

/* Counts a plan without cuDNN engines, because these would need a device. */
static int count_plan(struct backend *backend, uint32_t count, struct step_counts *counts_out)
{
    struct plan plan = { .base = { .backend = backend, .ops = &cuda_plan_ops, .net = backend->spec.net,
                                   .count = count, .training = true } };
    const int rc = plan_base_open(&plan.base);
    if (rc == 0)
        count_step(&(struct counter){ .plan = &plan, .counts = counts_out });
    plan_base_close(&plan.base);
    return rc;
}

int cuda_count_step(const struct backend_spec *spec, uint32_t count, struct step_counts *counts_out)
{
    struct backend *const backend = calloc(1, sizeof(*backend));
    size_t *const stored = calloc(spec->net->parameter_count + 1, sizeof(*stored));
    struct arenas arenas = { 0 };
    int rc = backend == NULL || stored == NULL ? -ENOMEM : 0;
    *counts_out = (struct step_counts){ 0 };
    if (rc == 0) {
        backend->spec = *spec;
        backend->name = "cuda";
        backend->type = precision_type(spec->precision);
        backend->arenas = &arenas;
        rc = cuda_stored_sizes(backend, stored);
    }
    if (rc == 0)
        rc = arenas_init(&arenas, spec->net, stored, 0);
    if (rc == 0)
        rc = count_plan(backend, count, counts_out);
    arenas_release(&arenas);
    free(stored);
    free(backend);
    return rc;
}
