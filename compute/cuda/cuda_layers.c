/* The layer table of the CUDA backend, and the layers that are computed by our own kernels: ReLU, dropout, additions,
 * pools, and layers that rearrange channels or combine neighbouring ones. ReLU and dropout work in place where no other
 * layer reads the value; dropout zeroes values only where the gradient it passes back is 0, too. */
#include "compute/cuda/cuda_plan.h"

#include <errno.h>
#include <stdio.h>

#include "stage/cuda/cuda_call.h"
#include "stage/log.h"

/* ---- ReLU, where it is not fused into the layer before ---- */

static int relu_forward(struct plan *plan, uint32_t head)
{
    const size_t count = value_counts(plan, plan_output(&plan->base, head));
    return LAYER_KERNEL(plan, kernel_relu, count, in_value(plan, head, 0), out_value(plan, head));
}

static int relu_backward(struct plan *plan, uint32_t head)
{
    const size_t count = value_counts(plan, plan_output(&plan->base, head));
    return LAYER_KERNEL(plan, kernel_relu_backward, count, out_value(plan, head), out_gradient(plan, head),
                        in_gradient(plan, head, 0), plan_flow(&plan->base, head, 0)->adds);
}

static const struct layer_ops relu_ops = {
    .uses = { .out_until = PASS_INPUTS, .out_sign = true, .in_place = true, .keeps_sign = true,
              .gradient_in_place = true, .adds = true },
    .forward = relu_forward,
    .backward_inputs = relu_backward,
};

/* ---- dropout: in training only ---- */

struct dropout_state {
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
    struct dropout_state *const state = plan->base.states[head];
    state->shape = (struct image_shape){
        .count = plan->base.count,
        .pixels = layer->in.height * layer->in.width,
        .channels = layer->in.channels,
        .stored = channels_stored(layer->in.channels),
    };
    dropout_init(&state->dropout, plan->base.backend->spec.seed, net_random_stream(plan->base.net, head), layer->rate);
    return 0;
}

static int dropout_run(struct plan *plan, uint32_t head, void *in_out)
{
    const struct dropout_state *const state = plan->base.states[head];
    return LAYER_KERNEL(plan, kernel_dropout, &state->shape, &state->dropout, plan_data(plan, plan->step), in_out);
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
    return rc == 0 ? dropout_run(plan, head, out) : rc;
}

static int dropout_backward(struct plan *plan, uint32_t head)
{
    void *const gradient = out_gradient(plan, head);
    const int rc = dropout_run(plan, head, gradient);
    return rc == 0 ? cuda_flow_pass(plan, head, 0, gradient) : rc;
}

static const struct layer_ops dropout_ops = {
    .use = dropout_use,
    .state_bytes = sizeof(struct dropout_state),
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward_inputs = dropout_backward,
};

/* ---- add ---- */

static int add_forward(struct plan *plan, uint32_t head)
{
    const size_t count = value_counts(plan, plan_output(&plan->base, head));
    return LAYER_KERNEL(plan, kernel_add, count, in_value(plan, head, 0), in_value(plan, head, 1), false,
                        out_value(plan, head));
}

static int add_backward(struct plan *plan, uint32_t head)
{
    int rc = 0;
    for (uint32_t k = 0; k < plan_group(&plan->base, head)->input_count && rc == 0; k++)
        rc = cuda_flow_pass(plan, head, k, out_gradient(plan, head));
    return rc;
}

static const struct layer_ops add_ops = {
    .uses = { .in_place = true, .gradient_in_place = true, .adds = true },
    .forward = add_forward,
    .backward_inputs = add_backward,
};

/* ---- pools ---- */

struct max_pool {
    uint32_t winners; /* buffer; BUFFER_NONE: no gradient is wanted */
};

static struct pool_shape pool_shape_of(const struct plan *plan, uint32_t head)
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

static int pool_refuse_window(const struct plan *plan, const struct layer *layer)
{
    log_message(LOG_ERROR, "%s: layer %s: a %ux%u window has more than %u pixels", plan->base.backend->name,
                layer->name, layer->kernel_h, layer->kernel_w, POOL_WINDOW_MAX);
    return -ENOTSUP;
}

/* Plans a buffer with a byte for the winner of each window. */
static int max_pool_plan(struct plan *plan, uint32_t head)
{
    const struct layer *const layer = plan_layer(plan, head);
    struct max_pool *const state = plan->base.states[head];
    if ((uint64_t)layer->kernel_h * layer->kernel_w > POOL_WINDOW_MAX)
        return pool_refuse_window(plan, layer);
    state->winners = BUFFER_NONE;
    if (!plan_has_inputs(&plan->base, head))
        return 0;
    return plan_scratch(plan, head, value_counts(plan, plan_output(&plan->base, head)), PASS_FORWARD,
                        PASS_INPUTS, &state->winners);
}

static int max_pool_forward(struct plan *plan, uint32_t head)
{
    const struct max_pool *const state = plan->base.states[head];
    const struct pool_shape shape = pool_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_max_pool, &shape, in_value(plan, head, 0), out_value(plan, head),
                        plan_data(plan, state->winners));
}

static int max_pool_backward(struct plan *plan, uint32_t head)
{
    const struct max_pool *const state = plan->base.states[head];
    const struct pool_shape shape = pool_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_max_pool_backward, &shape, out_gradient(plan, head),
                        plan_data(plan, state->winners), in_gradient(plan, head, 0),
                        plan_flow(&plan->base, head, 0)->adds);
}

static const struct layer_ops max_pool_ops = {
    .uses = { .adds = true },
    .state_bytes = sizeof(struct max_pool),
    .plan = max_pool_plan,
    .forward = max_pool_forward,
    .backward_inputs = max_pool_backward,
};

static int average_pool_forward(struct plan *plan, uint32_t head)
{
    const struct pool_shape shape = pool_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_average_pool, &shape, in_value(plan, head, 0), out_value(plan, head));
}

static int average_pool_backward(struct plan *plan, uint32_t head)
{
    const struct pool_shape shape = pool_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_average_pool_backward, &shape, out_gradient(plan, head),
                        in_gradient(plan, head, 0), plan_flow(&plan->base, head, 0)->adds);
}

static const struct layer_ops average_pool_ops = {
    .uses = { .adds = true },
    .forward = average_pool_forward,
    .backward_inputs = average_pool_backward,
};

/* ---- pad_channels ---- */

static struct pad_shape pad_shape_of(const struct plan *plan, uint32_t head)
{
    const struct layer *const layer = plan_layer(plan, head);
    return (struct pad_shape){
        .count = plan->base.count,
        .channels = layer->in.channels,
        .in_h = layer->in.height,
        .in_w = layer->in.width,
        .in_stored = channels_stored(layer->in.channels),
        .out_h = layer->out.height,
        .out_w = layer->out.width,
        .out_stored = channels_stored(layer->out.channels),
        .before = layer->channels_before,
        .stride = layer->stride_h,
    };
}

static int pad_channels_forward(struct plan *plan, uint32_t head)
{
    const struct pad_shape shape = pad_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_pad_channels, &shape, in_value(plan, head, 0), out_value(plan, head));
}

static int pad_channels_backward(struct plan *plan, uint32_t head)
{
    const struct pad_shape shape = pad_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_pad_channels_backward, &shape, out_gradient(plan, head),
                        in_gradient(plan, head, 0), plan_flow(&plan->base, head, 0)->adds);
}

static const struct layer_ops pad_channels_ops = {
    .uses = { .adds = true },
    .forward = pad_channels_forward,
    .backward_inputs = pad_channels_backward,
};

/* ---- concat: the result may share the buffer of the first input ---- */

static void concat_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .adds = true,
        .grows = plan_group(&plan->base, head)->input_count > 1,
        .reads_fronts = true,
    };
}

/* The index of the first input to copy: 1 if the result shares the buffer of input 0, else 0. */
static uint32_t first_copied(const struct plan *plan, uint32_t head)
{
    return value_memory_grows(&plan->base.values, head) ? 1 : 0;
}

static int concat_forward(struct plan *plan, uint32_t head)
{
    const uint32_t out = plan_output(&plan->base, head), first = first_copied(plan, head);
    struct concat concat = {
        .pixels = value_rows(plan, out),
        .kept = first > 0 ? plan_shape(&plan->base, plan_input(&plan->base, head, 0)).channels : 0,
        .stride = value_stride(plan, out),
        .count = plan_group(&plan->base, head)->input_count - first,
    };
    for (uint32_t k = 0; k < concat.count; k++) {
        const uint32_t in = plan_input(&plan->base, head, first + k);
        concat.parts[k].values = in_value(plan, head, first + k);
        concat.parts[k].channels = plan_shape(&plan->base, in).channels;
        concat.parts[k].stride = value_stride(plan, in);
    }
    return LAYER_KERNEL(plan, kernel_concat, &concat, out_value(plan, head));
}

/* The gradient of an input is that of pad_channels, with the channels of other inputs in place of the padding. */
static struct pad_shape concat_shape_of(const struct plan *plan, uint32_t head, uint32_t k, uint32_t before)
{
    const uint32_t in = plan_input(&plan->base, head, k), out = plan_output(&plan->base, head);
    const struct shape shape = plan_shape(&plan->base, in);
    return (struct pad_shape){
        .count = plan->base.count,
        .channels = shape.channels,
        .in_h = shape.height,
        .in_w = shape.width,
        .in_stored = value_stride(plan, in),
        .out_h = shape.height,
        .out_w = shape.width,
        .out_stored = value_stride(plan, out),
        .before = before,
        .stride = 1,
    };
}

static int concat_backward(struct plan *plan, uint32_t head)
{
    uint32_t before = 0;
    int rc = 0;
    for (uint32_t k = 0; k < plan_group(&plan->base, head)->input_count && rc == 0; k++) {
        const struct pad_shape shape = concat_shape_of(plan, head, k, before);
        void *const to = in_gradient(plan, head, k);
        before += shape.channels;
        if (to != NULL && k >= first_copied(plan, head))
            rc = LAYER_KERNEL(plan, kernel_pad_channels_backward, &shape, out_gradient(plan, head), to,
                              plan_flow(&plan->base, head, k)->adds);
    }
    return rc;
}

static const struct layer_ops concat_ops = {
    .use = concat_use,
    .forward = concat_forward,
    .backward_inputs = concat_backward,
};

/* ---- local_response_norm ---- */

struct response {
    uint32_t terms;             /* buffer; BUFFER_NONE: no gradient is wanted */
};

static int response_plan(struct plan *plan, uint32_t head)
{
    struct response *const state = plan->base.states[head];
    state->terms = BUFFER_NONE;
    if (!plan_has_inputs(&plan->base, head))
        return 0;
    return plan_scratch(plan, head, value_counts(plan, plan_output(&plan->base, head)) * sizeof(float),
                        PASS_INPUTS, PASS_INPUTS, &state->terms);
}

static struct response_shape response_shape_of(const struct plan *plan, uint32_t head)
{
    const struct layer *const layer = plan_layer(plan, head);
    return (struct response_shape){
        .pixels = value_rows(plan, plan_output(&plan->base, head)),
        .channels = layer->in.channels,
        .stored = channels_stored(layer->in.channels),
        .how = layer->response,
    };
}

static int response_forward(struct plan *plan, uint32_t head)
{
    const struct response_shape shape = response_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_response_norm, &shape, in_value(plan, head, 0), out_value(plan, head));
}

static int response_backward(struct plan *plan, uint32_t head)
{
    const struct response *const state = plan->base.states[head];
    const struct response_shape shape = response_shape_of(plan, head);
    return LAYER_KERNEL(plan, kernel_response_norm_backward, &shape, in_value(plan, head, 0), out_gradient(plan, head),
                        plan_data(plan, state->terms), in_gradient(plan, head, 0),
                        plan_flow(&plan->base, head, 0)->adds);
}

static const struct layer_ops local_response_norm_ops = {
    .uses = { .in_until = PASS_INPUTS, .gradient_in_place = true, .adds = true },
    .state_bytes = sizeof(struct response),
    .plan = response_plan,
    .forward = response_forward,
    .backward_inputs = response_backward,
};

/* ---- the layer table ---- */


const struct layer_ops *const cuda_layer_table[LAYER_ROW_COUNT] = {
    [LAYER_CONV2D] = &cuda_weighted_ops,
    [LAYER_DENSE] = &cuda_weighted_ops,
    [LAYER_BATCH_NORM] = &cuda_batch_norm_ops,
    [LAYER_LAYER_NORM] = &cuda_layer_norm_ops,
    [LAYER_SCALE] = &cuda_scale_ops,
    [LAYER_RELU] = &relu_ops,
    [LAYER_ACTIVATION] = &cuda_activation_ops,
    [LAYER_MAX_POOL] = &max_pool_ops,
    [LAYER_AVERAGE_POOL] = &average_pool_ops,
    [LAYER_DROPOUT] = &dropout_ops,
    [LAYER_STOCHASTIC_DEPTH] = &cuda_stochastic_depth_ops,
    [LAYER_LOCAL_RESPONSE_NORM] = &local_response_norm_ops,
    [LAYER_ADD] = &add_ops,
    [LAYER_MULTIPLY] = &cuda_multiply_ops,
    [LAYER_CONCAT] = &concat_ops,
    [LAYER_PAD_CHANNELS] = &pad_channels_ops,
    [LAYER_AUXILIARY_LOSS] = &cuda_softmax_loss_ops,
    [LAYER_SOFTMAX_LOSS] = &cuda_softmax_loss_ops,
    [LAYER_SEND] = &cuda_send_ops,
    [LAYER_RECEIVE] = &cuda_receive_ops,
    [LAYER_PART_LOSS] = &cuda_part_loss_ops,
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
    else if (layer->kind == LAYER_CONV2D || layer->kind == LAYER_DENSE)
        cuda_weighted_describe(plan, index, how, sizeof(how));
    else if (plan->base.values.values[plan_output(&plan->base, index)].buffer == BUFFER_NONE &&
             layer->kind == LAYER_BATCH_NORM)
        snprintf(how, sizeof(how), "own kernel; applied in %s", plan_layer(plan, fusion_only_reader(
                     &plan->base.fusion, plan_output(&plan->base, index)))->name);
    else if (!plan->base.training && (layer->kind == LAYER_DROPOUT || (layer->kind == LAYER_STOCHASTIC_DEPTH &&
                                                                      !plan_has_sum(plan, index))))
        snprintf(how, sizeof(how), "none");
    snprintf(text, text_size, "%s: %s", layer->name, how);
}
