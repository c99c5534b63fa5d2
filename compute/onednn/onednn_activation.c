/* Activations: the functions, and the layers that are not fused into a batch normalisation. The functions are vectors
 * of polynomials, whose coefficients are minimax fits of our own. */
#include "compute/onednn/onednn_activation.h"

#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "compute/vector.h"

/* ---- exp, the sigmoid, the normal distribution ---- */

/* e^x = 2^n e^r with |r| <= ln(2) / 2. Adding 3 * 2^22 rounds to a whole number, which is then in the lowest bits. */
ALWAYS_INLINE void find_exp(const lanes *at, lanes *exp_out)
{
    const lanes zero = { 0 }, least = zero - 87.0f, most = zero + 88.0f;
    lanes x = LANES_SELECT(*at < -87.0f, least, *at);
    x = LANES_SELECT(x > 88.0f, most, x);
    const lanes shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    const lanes r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    lanes p = r * 1.97900382e-4f + 1.39449684e-3f;
    p = p * r + 8.33349895e-3f;
    p = p * r + 4.16662908e-2f;
    p = p * r + 1.66666659e-1f;
    p = p * r + 5.00000007e-1f;
    const lanes power = p * r * r + r + 1.0f;
    *exp_out = (lanes)((lane_bits)power + ((lane_bits)shifted << 23));
}

/* The sigmoid of x and that of -x. */
ALWAYS_INLINE void find_sigmoids(const lanes *x, lanes *sigmoid_out, lanes *opposite_out)
{
    const lanes negative = -*x;
    lanes power;
    find_exp(&negative, &power);
    *sigmoid_out = 1.0f / (1.0f + power);
    *opposite_out = power * *sigmoid_out;
}

/* The distribution function P of a standard normal, and exp(-x^2 / 2). P(-|x|) is the latter times a polynomial of
 * k = 1 / (1 + 0.3 |x|), so that it is exact relative to its value. */
ALWAYS_INLINE void find_normal(const lanes *x, lanes *below_out, lanes *bell_out)
{
    const lanes size = (lanes)((lane_bits)*x & INT32_MAX), k = 1.0f / (1.0f + 0.3f * size);
    const lanes exponent = -0.5f * size * size;
    lanes p = k * -2.06124256e-2f + 1.12373698e-1f;
    find_exp(&exponent, bell_out);
    p = p * k - 2.28062879e-1f;
    p = p * k + 1.91575845e-1f;
    p = p * k - 7.92427385e-2f;
    p = p * k + 9.60554946e-2f;
    p = p * k + 7.84263426e-2f;
    p = p * k + 1.10227169e-1f;
    p = p * k + 1.19572859e-1f;
    p = p * k + 1.19686633e-1f;
    const lanes tail = *bell_out * (p * k), rest = 1.0f - tail;
    *below_out = LANES_SELECT(*x < 0.0f, tail, rest);
}

/* ---- functions and derivatives (doc/models.md, "Activations") ---- */

/* NaN stays NaN. */
ALWAYS_INLINE void clip(lanes *x, float least, float most)
{
    const lanes zero = { 0 }, low = zero + least, high = zero + most;
    *x = LANES_SELECT(*x < least, low, *x);
    *x = LANES_SELECT(*x > most, high, *x);
}

ALWAYS_INLINE void find_value(enum activation activation, float limit, lanes *x)
{
    lanes factor = *x, other;
    switch (activation) {
    case ACTIVATION_CLIPPED_RELU:
        clip(x, 0.0f, limit);
        return;
    case ACTIVATION_SIGMOID:
        find_sigmoids(x, &factor, &other);
        *x = factor;
        return;
    case ACTIVATION_SILU:
        find_sigmoids(x, &factor, &other);
        break;
    case ACTIVATION_GELU:
        find_normal(x, &factor, &other);
        break;
    default:
        factor = (*x + 3.0f) * (1.0f / 6);      /* exact near -3, as x / 6 + 1/2 is not */
        clip(&factor, 0.0f, 1.0f);
    }
    *x = activation == ACTIVATION_HARD_SIGMOID ? factor : *x * factor;
}

ALWAYS_INLINE void find_slope(enum activation activation, float limit, lanes *x)
{
    const lanes zero = { 0 }, one = zero + 1.0f, sixth = zero + 1.0f / 6;
    lanes value, other;
    switch (activation) {
    case ACTIVATION_CLIPPED_RELU:
        *x = LANES_SELECT((*x > 0.0f) & (*x < limit), one, zero);
        return;
    case ACTIVATION_SIGMOID:
        find_sigmoids(x, &value, &other);
        *x = value * other;
        return;
    case ACTIVATION_SILU:
        find_sigmoids(x, &value, &other);
        *x = value * (1.0f + *x * other);
        return;
    case ACTIVATION_GELU:
        find_normal(x, &value, &other);
        *x = value + *x * other * 0.398942280f;
        return;
    case ACTIVATION_HARD_SIGMOID:
        *x = LANES_SELECT((*x > -3.0f) & (*x < 3.0f), sixth, zero);
        return;
    default:
        value = *x * (1.0f / 3) + 0.5f;
        other = LANES_SELECT(*x < 3.0f, value, one);
        *x = LANES_SELECT(*x > -3.0f, other, zero);
    }
}

ALWAYS_INLINE void find_numbers(enum activation activation, float limit, bool slopes, float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i += LANES) {
        lanes x = { 0 };
        if (i + LANES <= count)
            memcpy(&x, numbers + i, sizeof(x));
        else
            memcpy(&x, numbers + i, (count - i) * sizeof(*numbers));
        if (slopes)
            find_slope(activation, limit, &x);
        else
            find_value(activation, limit, &x);
        if (i + LANES <= count)
            memcpy(numbers + i, &x, sizeof(x));
        else
            memcpy(numbers + i, &x, (count - i) * sizeof(*numbers));
    }
}

/* The activation is a constant for the compiler. */
#define FIND_NUMBERS(layer, slopes, numbers, count) \
    do { \
        const float limit = (layer)->limit; \
        switch ((layer)->activation) { \
        case ACTIVATION_CLIPPED_RELU: find_numbers(ACTIVATION_CLIPPED_RELU, limit, slopes, numbers, count); break; \
        case ACTIVATION_SIGMOID: find_numbers(ACTIVATION_SIGMOID, limit, slopes, numbers, count); break; \
        case ACTIVATION_HARD_SIGMOID: find_numbers(ACTIVATION_HARD_SIGMOID, limit, slopes, numbers, count); break; \
        case ACTIVATION_SILU: find_numbers(ACTIVATION_SILU, limit, slopes, numbers, count); break; \
        case ACTIVATION_HARD_SWISH: find_numbers(ACTIVATION_HARD_SWISH, limit, slopes, numbers, count); break; \
        default: find_numbers(ACTIVATION_GELU, limit, slopes, numbers, count); \
        } \
    } while (0)

VECTOR_LOOPS
void activation_values(const struct layer *layer, float *numbers, size_t count)
{
    FIND_NUMBERS(layer, false, numbers, count);
}

VECTOR_LOOPS
void activation_slopes(const struct layer *layer, float *numbers, size_t count)
{
    FIND_NUMBERS(layer, true, numbers, count);
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

static int activation_forward(struct plan *plan, uint32_t layer)
{
    struct activation_work work = { .type = plan_type(plan), .layer = plan_layer(plan, layer),
                                    .values = in_value(plan, layer, 0), .to = out_value(plan, layer) };
    plan_run(plan, value_total(plan, plan_output(&plan->base, layer)), GRAIN, activation_part, &work);
    if (activation_moves_zero(work.layer))
        tensor_clear_padding(out_tensor(plan, layer), work.to, plan->base.count);
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
