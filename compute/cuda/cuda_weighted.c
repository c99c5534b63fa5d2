/* What convolutions and dense layers have in common: how they use values, and the beginning of
 * backward, which is one pass of our own over the result's gradient for the ReLU's mask (from the
 * result) and the bias' gradient. */
#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"

void cuda_weighted_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    use_out->in_until = PHASE_PARAMETERS;
    use_out->out_until = has_relu(plan, head) ? PHASE_PARAMETERS : PHASE_FORWARD;
    use_out->out_sign = true;
}

int cuda_partials_open(struct plan *plan, uint32_t head, uint32_t *buffer_out)
{
    const uint32_t out = plan_output(&plan->base, head);
    const size_t partials = kernel_bias_partials(value_rows(plan, out), value_stored(plan, out));
    return cuda_plan_scratch(plan, head, partials * sizeof(float), PHASE_PARAMETERS, PHASE_PARAMETERS, buffer_out);
}

int cuda_bias_gradient_run(struct plan *plan, uint32_t head, uint32_t partials)
{
    const struct backend *const backend = plan->base.backend;
    const uint32_t out = plan_output(&plan->base, head);
    void *const gradient = out_gradient(plan, head);
    const void *const values = has_relu(plan, head) ? out_value(plan, head) : NULL;
    float *const bias_gradient = parameter_gradient(plan, head, PARAMETER_BIAS);
    if (bias_gradient != NULL)
        return CUDA_CALL(backend->name, kernel_bias_gradient(backend->stream, backend->type, value_rows(plan, out),
                                                             value_stored(plan, out), values, gradient,
                                                             cuda_plan_data(plan, partials), bias_gradient));
    if (values == NULL)
        return 0;
    return CUDA_CALL(backend->name, kernel_relu_backward(backend->stream, backend->type, value_counts(plan, out),
                                                         values, gradient, gradient, false));
}
