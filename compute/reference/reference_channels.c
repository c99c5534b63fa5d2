/* The layers of the reference backend that bring channels together: concatenation, and division by
 * the squares of neighbouring channels. Plain loops over N,C,H,W in fp32, sums in double. */
#include <math.h>
#include <string.h>

#include "compute/reference/reference_plan.h"

/* ---- concat ---- */

static void concat_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)plan;
    (void)index;
    *use_out = (struct value_use){ .adds = true };
}

/* Input k as a part of every sample of the result. */
struct part { size_t offset, count; };

static struct part part_of(const struct view *v, uint32_t index, uint32_t k)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < k; i++)
        offset += shape_count(plan_shape(&v->plan->base, plan_input(&v->plan->base, index, i)));
    return (struct part){ offset, shape_count(plan_shape(&v->plan->base, plan_input(&v->plan->base, index, k))) };
}

static int concat_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t sample = shape_count(v.layer->out);
    for (uint32_t k = 0; k < v.layer->input_count; k++) {
        const struct part part = part_of(&v, index, k);
        for (size_t n = 0; n < v.samples; n++)
            memcpy(v.out + n * sample + part.offset, v.ins[k] + n * part.count, part.count * sizeof(*v.out));
    }
    return 0;
}

static int concat_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const size_t sample = shape_count(v.layer->out);
    for (uint32_t k = 0; k < v.layer->input_count; k++) {
        const struct part part = part_of(&v, index, k);
        for (size_t i = 0; i < v.samples * part.count && v.targets[k].gradient != NULL; i++)
            target_put(v.targets[k], i, v.out_gradient[i / part.count * sample + part.offset + i % part.count]);
    }
    return 0;
}

const struct layer_ops reference_concat = {
    .use = concat_use,
    .forward = concat_forward,
    .backward_inputs = concat_backward,
};

/* ---- local_response_norm: y = x * d^-beta, d = k + alpha / size * sum of x^2 over the window ---- */

static void response_use(const struct plan *plan, uint32_t index, struct value_use *use_out)
{
    (void)plan;
    (void)index;
    *use_out = (struct value_use){ .in_until = PHASE_INPUTS, .adds = true };
}

/* The channels around channel c of value i: the places of the first and the last of them. */
struct neighbours { size_t first, last; };

static struct neighbours neighbours_of(const struct view *v, size_t i)
{
    const size_t area = shape_area(v->layer->in), reach = v->layer->response.size / 2;
    const size_t c = i / area % v->layer->in.channels, behind = v->layer->in.channels - 1 - c;
    return (struct neighbours){ i - (c < reach ? c : reach) * area, i + (behind < reach ? behind : reach) * area };
}

static double divisor(const struct view *v, size_t i)
{
    const struct local_response_norm *const how = &v->layer->response;
    const struct neighbours around = neighbours_of(v, i);
    double squares = 0;
    for (size_t j = around.first; j <= around.last; j += shape_area(v->layer->in))
        squares += (double)v->in[j] * v->in[j];
    return how->k + (double)how->alpha / how->size * squares;
}

static int response_forward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    for (size_t i = 0; i < v.in_count; i++)
        v.out[i] = (float)(v.in[i] * pow(divisor(&v, i), -(double)v.layer->response.beta));
    return 0;
}

/* A number is in the window of all that are in its own. */
static int response_backward(struct plan *plan, uint32_t index)
{
    const struct view v = view_of(plan, index);
    const struct local_response_norm *const how = &v.layer->response;
    const double factor = 2.0 * how->beta * how->alpha / how->size;
    for (size_t i = 0; i < v.in_count; i++) {
        const struct neighbours around = neighbours_of(&v, i);
        double sum = 0;
        for (size_t j = around.first; j <= around.last; j += shape_area(v.layer->in))
            sum += (double)v.out_gradient[j] * v.in[j] * pow(divisor(&v, j), -(double)how->beta - 1);
        const double own = v.out_gradient[i] * pow(divisor(&v, i), -(double)how->beta);
        target_put(v.targets[0], i, (float)(own - factor * v.in[i] * sum));
    }
    return 0;
}

const struct layer_ops reference_local_response_norm = {
    .use = response_use,
    .forward = response_forward,
    .backward_inputs = response_backward,
};
