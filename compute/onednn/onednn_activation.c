/* Activations: the functions of arrays, and the layers that are not fused into a batch normalisation. */
#include "compute/onednn/onednn_activation.h"

#include <string.h>

#include "compute/onednn/onednn_activation_lanes.h"
#include "compute/onednn/onednn_plan.h"

ALWAYS_INLINE void find_numbers(enum activation activation, float limit, bool slopes, float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        lanes x = { 0 };
        if (i + LANES <= count)
            memcpy(&x, numbers + i, sizeof(x));
        else
            memcpy(&x, numbers + i, (count - i) * sizeof(*numbers));
        if (slopes)
            activation_slope(activation, limit, &x);
        else
            activation_value(activation, limit, &x);
        if (i + LANES <= count)
            memcpy(numbers + i, &x, sizeof(x));
        else
            memcpy(numbers + i, &x, (count - i) * sizeof(*numbers));
    }
}

VECTOR_POLYNOMIALS
void activation_values(const struct layer *layer, float *numbers, size_t count)
{
    FOR_ACTIVATION(layer->activation, find_numbers, layer->limit, false, numbers, count);
}

VECTOR_POLYNOMIALS
void activation_slopes(const struct layer *layer, float *numbers, size_t count)
{
    FOR_ACTIVATION(layer->activation, find_numbers, layer->limit, true, numbers, count);
}

/* ---- the layer, where it is not fused ---- */

#define GRAIN 1024u             /* numbers that are computed at a time, and fewest per thread */

/* Forward: to[i] = f(values[i]). Backward, with the gradients of the results: to[i] (+)= f'(values[i]) * gradients[i];
 * `to` may be either of the others. */
struct activation_work {
    enum value_type type;
    const struct layer *layer;
    const void *values, *gradients;
    void *to;
    bool adds;
};

ALWAYS_INLINE void read_numbers(enum value_type type, const void *values, size_t first, size_t count, float *numbers)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = value_read(type, values, first + i);
}

ALWAYS_INLINE void write_results(enum value_type type, const struct activation_work *work, size_t first, size_t count,
                                 const float *numbers)
{
    void *const to = work->to;
    INDEPENDENT_ITERATIONS
    for (size_t i = 0; i < count; i++)
        value_write(type, to, first + i, numbers[i]);
}

ALWAYS_INLINE void write_gradients(enum value_type type, const struct activation_work *work, bool adds, size_t first,
                                   size_t count, const float *slopes)
{
    const void *const gradients = work->gradients;
    void *const to = work->to;
    INDEPENDENT_ITERATIONS
    for (size_t i = 0; i < count; i++) {
        const float passed = value_read(type, gradients, first + i) * slopes[i];
        value_write(type, to, first + i, adds ? value_read(type, to, first + i) + passed : passed);
    }
}

VECTOR_LOOPS
static void read_any(const struct activation_work *work, size_t first, size_t count, float *numbers)
{
    FOR_TYPE(work->type, read_numbers, work->values, first, count, numbers);
}

VECTOR_LOOPS
static void write_any(const struct activation_work *work, size_t first, size_t count, const float *numbers)
{
    if (work->gradients == NULL)
        FOR_TYPE(work->type, write_results, work, first, count, numbers);
    else if (work->adds)
        FOR_TYPE(work->type, write_gradients, work, true, first, count, numbers);
    else
        FOR_TYPE(work->type, write_gradients, work, false, first, count, numbers);
}

static void activation_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct activation_work *const work = arg;
    float numbers[GRAIN];
    (void)member;
    for (size_t at = first; at < end; at += GRAIN) {
        const size_t count = end - at < GRAIN ? end - at : GRAIN;
        read_any(work, at, count, numbers);
        (work->gradients != NULL ? activation_slopes : activation_values)(work->layer, numbers, count);
        write_any(work, at, count, numbers);
    }
}

static void compute_value(const struct plan *plan, const struct layer *activation, const void *values, uint32_t value)
{
    struct activation_work work = { .type = plan_type(plan), .layer = activation, .values = values,
                                    .to = plan_value(plan, value) };
    plan_run(plan, value_total(plan, value), GRAIN, activation_part, &work);
    if (activation_moves_zero(activation))
        tensor_clear_padding(&plan->tensors[value], work.to, plan->base.count);
}

void activation_replace(const struct plan *plan, const struct layer *activation, uint32_t value)
{
    compute_value(plan, activation, plan_value(plan, value), value);
}

static int activation_forward(struct plan *plan, uint32_t layer)
{
    compute_value(plan, plan_layer(plan, layer), in_value(plan, layer, 0), plan_output(&plan->base, layer));
    return 0;
}

static int activation_backward(struct plan *plan, uint32_t layer)
{
    struct activation_work work = { .type = plan_type(plan), .layer = plan_layer(plan, layer),
                                    .values = in_value(plan, layer, 0), .gradients = out_gradient(plan, layer),
                                    .to = in_gradient(plan, layer, 0), .adds = plan_flow(&plan->base, layer, 0)->adds };
    plan_run(plan, value_total(plan, plan_output(&plan->base, layer)), GRAIN, activation_part, &work);
    return 0;
}

static void activation_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)layer;
    use_out->in_place = !plan->base.training;
}

const struct layer_ops onednn_activation_ops = {
    .uses = { .in_until = PASS_INPUTS, .gradient_in_place = true, .adds = true },
    .use = activation_use,
    .forward = activation_forward,
    .backward_inputs = activation_backward,
};
