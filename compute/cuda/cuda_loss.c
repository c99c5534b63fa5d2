/* The softmax loss and auxiliary losses, by our own kernel: forward also writes the gradient of the logits. The first
 * loss of a step sets the result, the others add to it. */
#include <math.h>
#include <string.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"

struct loss {
    uint32_t samples;           /* buffer */
    bool adds;                  /* adds to the result of earlier losses */
};

static int loss_plan(struct plan *plan, uint32_t head)
{
    struct loss *const state = plan->base.states[head];
    state->adds = plan->has_loss;
    plan->has_loss = true;
    return plan_scratch(plan, head, plan->base.count * sizeof(struct sample_loss), PASS_FORWARD, PASS_FORWARD,
                        &state->samples);
}

static int loss_forward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const struct layer *const layer = plan_layer(plan, head);
    const struct loss *const state = plan->base.states[head];
    const bool is_last = layer->kind == LAYER_SOFTMAX_LOSS;
    const struct loss_shape shape = {
        .count = plan->base.count,
        .classes = plan_net(plan)->classes,
        .stored = value_stored(plan, plan_input(&plan->base, head, 0)),
        .weight = layer->loss_weight,
        .is_auxiliary = !is_last,
        .adds = state->adds,
        .smoothing = plan->base.training ? backend->spec.label_smoothing : 0.0f,
        .class_weights = plan->base.training ? backend->class_weights : NULL,
        .weight_sum = plan->base.training && is_last && backend->class_weights != NULL ? backend->memory.gradients
                                                                                       : NULL,
        .answers = layer->kind == LAYER_SOFTMAX_LOSS ? plan_data(plan, plan->base.answers) : NULL,
    };
    return LAYER_KERNEL(plan, kernel_softmax_loss, &shape, in_value(plan, head, 0), plan_data(plan, plan->labels),
                        backend->scale, in_gradient(plan, head, 0), plan_data(plan, state->samples),
                        plan_data(plan, plan->result));
}

/* ---- logits and embeddings on the host ---- */

/* Converts fp16 (IEEE 754 binary16) to float. */
static float fp16_to_float(uint16_t half)
{
    const int exponent = half >> 10 & 31, mantissa = half & 1023;
    const float magnitude = exponent == 31  ? (mantissa != 0 ? NAN : INFINITY)
                            : exponent == 0 ? ldexpf((float)mantissa, -24)
                                            : ldexpf((float)(mantissa | 1024), exponent - 25);
    return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

static float value_to_float(enum value_type type, const void *values, size_t index)
{
    const uint16_t half = type == VALUE_FP32 ? 0 : ((const uint16_t *)values)[index];
    const uint32_t bits = (uint32_t)half << 16;
    float number;
    if (type == VALUE_FP16)
        return fp16_to_float(half);
    memcpy(&number, type == VALUE_BF16 ? (const void *)&bits : (const float *)values + index, sizeof(number));
    return number;
}

/* Converts numbers [begin, begin + count) of the value, whose pixels are padded to a stride; the bounce buffer starts
 * with number `begin`. */
static void convert_values(const struct plan *plan, uint32_t value, size_t begin, size_t count, float *values_out)
{
    const struct backend *const backend = plan->base.backend;
    const size_t stride = value_stride(plan, value), pixels = value_pixels(plan, value);
    const size_t channels = plan_shape(&plan->base, value).channels;
    for (size_t i = 0; i < count; i++) {
        const size_t row = (begin + i) / stride, channel = (begin + i) % stride;
        if (channel < channels)
            values_out[(row / pixels * channels + channel) * pixels + row % pixels] =
                value_to_float(backend->type, backend->bounce, i);
    }
}

int cuda_values(struct plan *plan, uint32_t layer, float *values_out)
{
    struct backend *const backend = plan->base.backend;
    const struct device_ops *const ops = backend->spec.device->ops;
    const uint32_t value = plan_input(&plan->base, layer, 0);
    const char *const values = plan_data(plan, plan->base.values.values[value].buffer);
    const size_t size = value_bytes(backend->type), most = BOUNCE_BYTES / size;
    const size_t count = value_rows(plan, value) * value_stride(plan, value);
    int rc = cuda_enter(backend->spec.device);
    for (size_t at = 0; at < count && rc == 0; at += most) {
        const size_t piece = count - at < most ? count - at : most;
        rc = ops->copy(backend->spec.compute, backend->bounce, values + at * size, piece * size, COPY_FROM_DEVICE);
        if (rc == 0)
            rc = cuda_store_wait(backend);
        if (rc == 0)
            convert_values(plan, value, at, piece, values_out);
    }
    return rc;
}

const struct layer_ops cuda_softmax_loss_ops = {
    .uses = { .gradient_early = true },
    .state_bytes = sizeof(struct loss),
    .plan = loss_plan,
    .forward = loss_forward,
};
