/* Activations that are not fused into a batch normalisation, which keep their input for backward, and products, by our
 * own kernels. */
#include "compute/cuda/cuda_plan.h"
#include "stage/cuda/cuda_call.h"

/* ---- activation ---- */

struct curve cuda_curve_of(const struct plan *plan, uint32_t index)
{
    const struct layer *const layer = plan_layer(plan, index);
    return (struct curve){ .is_on = true, .function = layer->activation, .limit = layer->limit,
                           .channels = layer->out.channels };
}

static void value_by_value_use(const struct plan *plan, uint32_t head, struct value_use *use_out)
{
    (void)head;
    use_out->in_place = !plan->base.training;
}

static int activation_forward(struct plan *plan, uint32_t head)
{
    const struct curve curve = cuda_curve_of(plan, head);
    const uint32_t value = plan_output(&plan->base, head);
    return LAYER_KERNEL(plan, kernel_activation, value_rows(plan, value), value_stored(plan, value), &curve,
                        in_value(plan, head, 0), out_value(plan, head));
}

static int activation_backward(struct plan *plan, uint32_t head)
{
    const struct curve curve = cuda_curve_of(plan, head);
    const uint32_t value = plan_output(&plan->base, head);
    return LAYER_KERNEL(plan, kernel_activation_backward, value_rows(plan, value), value_stored(plan, value), &curve,
                        in_value(plan, head, 0), out_gradient(plan, head), in_gradient(plan, head, 0),
                        plan_flow(&plan->base, head, 0)->adds);
}

const struct layer_ops cuda_activation_ops = {
    .uses = { .in_until = PASS_INPUTS, .gradient_in_place = true, .adds = true },
    .use = value_by_value_use,
    .forward = activation_forward,
    .backward_inputs = activation_backward,
};

/* ---- multiply ---- */

static bool scales_channels(const struct plan *plan, uint32_t head)
{
    const struct shape all = plan_layer(plan, head)->in;
    const struct shape factors = plan_shape(&plan->base, plan_input(&plan->base, head, 1));
    return all.height != factors.height || all.width != factors.width;
}

/* Samples of pixels with a factor for each channel; inputs of the same shape are samples of one pixel. */
static struct image_shape product_shape(const struct plan *plan, uint32_t head)
{
    const struct shape all = plan_layer(plan, head)->in;
    const uint32_t pixels = all.height * all.width;
    const bool scales = scales_channels(plan, head);
    return (struct image_shape){ .count = plan->base.count * (scales ? 1 : pixels), .pixels = scales ? pixels : 1,
                                 .channels = all.channels, .stored = channels_stored(all.channels) };
}

static int multiply_forward(struct plan *plan, uint32_t head)
{
    const struct image_shape shape = product_shape(plan, head);
    return LAYER_KERNEL(plan, kernel_multiply, &shape, in_value(plan, head, 0), in_value(plan, head, 1),
                        out_value(plan, head), false);
}

/* The gradient of input k where it has the shape of the result: that of the result times the other input. */
static int product_gradient(struct plan *plan, uint32_t head, uint32_t k)
{
    const struct image_shape shape = product_shape(plan, head);
    void *const to = in_gradient(plan, head, k);
    return to == NULL ? 0 : LAYER_KERNEL(plan, kernel_multiply, &shape, out_gradient(plan, head),
                                         in_value(plan, head, 1 - k), to, plan_flow(&plan->base, head, k)->adds);
}

static int factor_gradient(struct plan *plan, uint32_t head)
{
    const struct image_shape shape = product_shape(plan, head);
    void *const to = in_gradient(plan, head, 1);
    return to == NULL ? 0 : LAYER_KERNEL(plan, kernel_factor_gradient, &shape, in_value(plan, head, 0),
                                         out_gradient(plan, head), to, plan_flow(&plan->base, head, 1)->adds);
}

static int multiply_backward(struct plan *plan, uint32_t head)
{
    const int rc = product_gradient(plan, head, 0);
    if (rc != 0)
        return rc;
    return scales_channels(plan, head) ? factor_gradient(plan, head) : product_gradient(plan, head, 1);
}

const struct layer_ops cuda_multiply_ops = {
    .uses = { .in_until = PASS_INPUTS, .others_until = PASS_INPUTS, .adds = true },
    .use = value_by_value_use,
    .forward = multiply_forward,
    .backward_inputs = multiply_backward,
};
