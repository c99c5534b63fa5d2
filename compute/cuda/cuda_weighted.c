/* What convolutions and dense layers have in common: buffers, and the beginning of backward,
 * which is one pass of our own over the output's gradient for the ReLU's mask (from the layer's
 * output) and the bias' gradient. */
#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"

int cuda_output_open(struct plan *plan, uint32_t layer)
{
    const int rc = cuda_edge_open(plan, layer + 1);
    if (rc != 0)
        return rc;
    cuda_plan_use(plan, plan->edges[layer].value, time_forward(layer));
    cuda_plan_use(plan, plan->edges[layer + 1].value, time_forward(layer));
    if (!plan->base.training)
        return 0;
    cuda_plan_use(plan, plan->edges[layer].value, time_weights(plan, layer));
    cuda_plan_use(plan, plan->edges[layer + 1].gradient, time_weights(plan, layer));
    if (plan_layer(plan, layer)->relu)
        cuda_plan_use(plan, plan->edges[layer + 1].value, time_weights(plan, layer));
    if (edge_has_gradient(plan, layer)) {
        cuda_plan_use(plan, plan->edges[layer + 1].gradient, time_data(plan, layer));
        cuda_plan_use(plan, plan->edges[layer].gradient, time_data(plan, layer));
    }
    return 0;
}

int cuda_scratch_open(struct plan *plan, uint32_t layer, size_t bytes, uint32_t *buffer_out)
{
    const int rc = cuda_plan_buffer(plan, bytes, buffer_out);
    if (rc == 0)
        cuda_plan_use(plan, *buffer_out, time_weights(plan, layer));
    return rc;
}

size_t cuda_row_count(const struct plan *plan, uint32_t edge)
{
    return plan->base.count * edge_pixels(&plan->edges[edge]);
}

int cuda_partials_open(struct plan *plan, uint32_t layer, uint32_t *buffer_out)
{
    const size_t partials = kernel_bias_partials(cuda_row_count(plan, layer + 1), plan->edges[layer + 1].stored);
    return cuda_scratch_open(plan, layer, partials * sizeof(float), buffer_out);
}

int cuda_bias_gradient_run(struct plan *plan, uint32_t index, uint32_t partials)
{
    const struct backend *const backend = plan->base.backend;
    const struct layer *const layer = plan_layer(plan, index);
    return CUDA_CALL(backend->name,
                     kernel_bias_gradient(backend->stream, backend->type, cuda_row_count(plan, index + 1),
                                          plan->edges[index + 1].stored,
                                          layer->relu ? edge_value(plan, index + 1) : NULL,
                                          edge_gradient(plan, index + 1), cuda_plan_data(plan, partials),
                                          parameter_gradient(backend, layer->bias)));
}
