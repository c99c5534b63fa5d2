/* The layer table of the CUDA backend, and the layers that do one thing to every number: ReLU,
 * dropout and sums. ReLU and dropout work in place where nobody else reads
 * the value; dropout turns values into 0 only where the gradient it passes back is 0, too. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"

void cuda_state_release(struct plan *plan, uint32_t layer)
{
    free(plan->states[layer]);
}

/* ---- relu: where it is not part of the layer before ---- */

static void relu_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)plan;
    (void)head;
    *use_out = (struct value_use){
        .out_until = PHASE_INPUTS,
        .out_sign = true,
        .in_place = true,
        .keeps_sign = true,
        .gradient_in_place = true,
        .adds = true,
    };
}

static int relu_forward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const size_t count = value_counts(plan, plan_output(&plan->base, head));
    return CUDA_CALL(backend->name, kernel_relu(backend->stream, backend->type, count, in_value(plan, head, 0),
                                                out_value(plan, head)));
}

static int relu_backward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const size_t count = value_counts(plan, plan_output(&plan->base, head));
    return CUDA_CALL(backend->name, kernel_relu_backward(backend->stream, backend->type, count, out_value(plan, head),
                                                         out_gradient(plan, head), in_gradient(plan, head, 0),
                                                         plan_flow(&plan->base, head, 0)->adds));
}

/* ---- dropout: in training only ---- */

struct dropping {
    struct image_shape shape;
    struct dropout dropout;
};

static void dropout_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)head;
    if (plan->base.training)
        *use_out = (struct value_use){ .in_place = true, .keeps_sign = true, .gradient_in_place = true, .adds = true };
    else
        use_out->is_identity = true;
}

static int dropout_plan(struct plan *plan, uint32_t head)
{
    const struct layer *const layer = plan_layer(plan, head);
    struct dropping *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[head] = state;
    state->shape = (struct image_shape){
        .count = plan->base.count,
        .pixels = layer->in.height * layer->in.width,
        .channels = layer->in.channels,
        .stored = channels_stored(layer->in.channels),
    };
    dropout_init(&state->dropout, plan->base.backend->spec.seed, head, layer->rate);
    return 0;
}

static int drop(struct plan *plan, uint32_t head, void *in_out)
{
    const struct backend *const backend = plan->base.backend;
    const struct dropping *const state = plan->states[head];
    return CUDA_CALL(backend->name, kernel_dropout(backend->stream, backend->type, &state->shape, &state->dropout,
                                                   cuda_plan_data(plan, plan->step), in_out));
}

static int dropout_forward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    void *const in = in_value(plan, head, 0), *const out = out_value(plan, head);
    const size_t bytes = value_counts(plan, plan_output(&plan->base, head)) * value_bytes(backend->type);
    if (!plan->base.training)
        return 0;
    int rc = 0;
    if (in != out)
        rc = CUDA_CALL(backend->name, cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, backend->stream));
    return rc == 0 ? drop(plan, head, out) : rc;
}

static int dropout_backward(struct plan *plan, uint32_t head)
{
    void *const gradient = out_gradient(plan, head);
    const int rc = drop(plan, head, gradient);
    return rc == 0 ? cuda_flow_pass(plan, head, 0, gradient) : rc;
}

/* ---- add ---- */

static void add_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)plan;
    (void)head;
    *use_out = (struct value_use){ .in_place = true, .gradient_in_place = true, .adds = true };
}

static int add_forward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const size_t count = value_counts(plan, plan_output(&plan->base, head));
    return CUDA_CALL(backend->name, kernel_add(backend->stream, backend->type, count, in_value(plan, head, 0),
                                               in_value(plan, head, 1), false, out_value(plan, head)));
}

static int add_backward(struct plan *plan, uint32_t head)
{
    int rc = 0;
    for (uint32_t k = 0; k < plan_group(&plan->base, head)->input_count && rc == 0; k++)
        rc = cuda_flow_pass(plan, head, k, out_gradient(plan, head));
    return rc;
}

/* ---- all ---- */

static const struct layer_ops relu_ops = {
    .use = relu_use,
    .forward = relu_forward,
    .backward_inputs = relu_backward,
};
static const struct layer_ops dropout_ops = {
    .use = dropout_use,
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward_inputs = dropout_backward,
    .release = cuda_state_release,
};
static const struct layer_ops add_ops = {
    .use = add_use,
    .forward = add_forward,
    .backward_inputs = add_backward,
};

const struct layer_ops *const cuda_layer_table[LAYER_KIND_COUNT] = {
    [LAYER_CONV2D] = &cuda_conv2d_ops,
    [LAYER_DENSE] = &cuda_dense_ops,
    [LAYER_BATCH_NORM] = &cuda_batch_norm_ops,
    [LAYER_RELU] = &relu_ops,
    [LAYER_MAX_POOL] = &cuda_max_pool_ops,
    [LAYER_AVERAGE_POOL] = &cuda_average_pool_ops,
    [LAYER_DROPOUT] = &dropout_ops,
    [LAYER_LOCAL_RESPONSE_NORM] = &cuda_local_response_norm_ops,
    [LAYER_ADD] = &add_ops,
    [LAYER_CONCAT] = &cuda_concat_ops,
    [LAYER_PAD_CHANNELS] = &cuda_pad_channels_ops,
    [LAYER_AUXILIARY_LOSS] = &cuda_softmax_loss_ops,
    [LAYER_SOFTMAX_LOSS] = &cuda_softmax_loss_ops,
};

void cuda_layer_describe(const struct plan *plan, uint32_t index, char *text, size_t text_size)
{
    const struct layer *const layer = plan_layer(plan, index);
    const uint32_t head = plan_group(&plan->base, index)->head;
    char how[640] = "own kernel";
    if (head == FUSION_LEFT_OUT)
        snprintf(how, sizeof(how), "in training only");
    else if (head != index)
        snprintf(how, sizeof(how), "in %s", plan_layer(plan, head)->name);
    else if (layer->kind == LAYER_CONV2D)
        cuda_conv2d_describe(plan, index, how, sizeof(how));
    else if (layer->kind == LAYER_DENSE)
        cuda_dense_describe(plan, index, how, sizeof(how));
    else if (layer->kind == LAYER_DROPOUT && !plan->base.training)
        snprintf(how, sizeof(how), "none");
    snprintf(text, text_size, "%s: %s", layer->name, how);
}
