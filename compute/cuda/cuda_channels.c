/* Layers that put channels elsewhere or look at neighbouring ones, by kernels of our own. */
#include <errno.h>
#include <stdlib.h>

#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"

/* ---- pad_channels ---- */

static void pad_channels_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)plan;
    (void)head;
    use_out->adds = true;
}

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
    const struct backend *const backend = plan->base.backend;
    const struct pad_shape shape = pad_shape_of(plan, head);
    return CUDA_CALL(backend->name, kernel_pad_channels(backend->stream, backend->type, &shape,
                                                        in_value(plan, head, 0), out_value(plan, head)));
}

static int pad_channels_backward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const struct pad_shape shape = pad_shape_of(plan, head);
    return CUDA_CALL(backend->name, kernel_pad_channels_backward(backend->stream, backend->type, &shape,
                                                                 out_gradient(plan, head), in_gradient(plan, head, 0),
                                                                 plan_flow(&plan->base, head, 0)->adds));
}

const struct layer_ops cuda_pad_channels_ops = {
    .use = pad_channels_use,
    .forward = pad_channels_forward,
    .backward_inputs = pad_channels_backward,
};

/* ---- concat: the first input may stand in the result already ---- */

static void concat_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .adds = true,
        .grows = plan_group(&plan->base, head)->input_count > 1,
        .reads_fronts = true,
    };
}

/* The first input that is moved. */
static uint32_t first_moved(const struct plan *plan, uint32_t head)
{
    return value_plan_grows(&plan->base.values, head) ? 1 : 0;
}

static int concat_forward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const uint32_t out = plan_output(&plan->base, head), first = first_moved(plan, head);
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
    return CUDA_CALL(backend->name, kernel_concat(backend->stream, backend->type, &concat, out_value(plan, head)));
}

/* Backward an input is what a shortcut leaves of it: the rest of the channels are its padding. */
static struct pad_shape part_shape_of(const struct plan *plan, uint32_t head, uint32_t k, uint32_t before)
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
    const struct backend *const backend = plan->base.backend;
    uint32_t before = 0;
    int rc = 0;
    for (uint32_t k = 0; k < plan_group(&plan->base, head)->input_count && rc == 0; k++) {
        const struct pad_shape shape = part_shape_of(plan, head, k, before);
        void *const to = in_gradient(plan, head, k);
        before += shape.channels;
        if (to != NULL && k >= first_moved(plan, head))
            rc = CUDA_CALL(backend->name, kernel_pad_channels_backward(backend->stream, backend->type, &shape,
                                                                       out_gradient(plan, head), to,
                                                                       plan_flow(&plan->base, head, k)->adds));
    }
    return rc;
}

const struct layer_ops cuda_concat_ops = {
    .use = concat_use,
    .forward = concat_forward,
    .backward_inputs = concat_backward,
};

/* ---- local_response_norm ---- */

struct response {
    uint32_t terms;             /* buffer; BUFFER_NONE: nothing goes back */
};

static void response_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)plan;
    (void)head;
    *use_out = (struct value_use){ .in_until = PHASE_INPUTS, .gradient_in_place = true, .adds = true };
}

static int response_plan(struct plan *plan, uint32_t head)
{
    struct response *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[head] = state;
    state->terms = BUFFER_NONE;
    if (!plan_has_inputs(&plan->base, head))
        return 0;
    return cuda_plan_scratch(plan, head, value_counts(plan, plan_output(&plan->base, head)) * sizeof(float),
                             PHASE_INPUTS, PHASE_INPUTS, &state->terms);
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
    const struct backend *const backend = plan->base.backend;
    const struct response_shape shape = response_shape_of(plan, head);
    return CUDA_CALL(backend->name, kernel_response_norm(backend->stream, backend->type, &shape,
                                                         in_value(plan, head, 0), out_value(plan, head)));
}

static int response_backward(struct plan *plan, uint32_t head)
{
    const struct backend *const backend = plan->base.backend;
    const struct response *const state = plan->states[head];
    const struct response_shape shape = response_shape_of(plan, head);
    return CUDA_CALL(backend->name,
                     kernel_response_norm_backward(backend->stream, backend->type, &shape, in_value(plan, head, 0),
                                                   out_gradient(plan, head), cuda_plan_data(plan, state->terms),
                                                   in_gradient(plan, head, 0),
                                                   plan_flow(&plan->base, head, 0)->adds));
}

const struct layer_ops cuda_local_response_norm_ops = {
    .use = response_use,
    .plan = response_plan,
    .forward = response_forward,
    .backward_inputs = response_backward,
    .release = cuda_state_release,
};
