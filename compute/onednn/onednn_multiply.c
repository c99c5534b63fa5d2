/* The product of two values, by loops of ours: of the same shape and layout, or of a value and a factor for each
 * channel of a sample. */
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "compute/vector.h"

#define GRAIN 1024u             /* fewest numbers per thread */
#define STRIP 128u              /* pixels whose products are summed in single precision before they are added to others:
                                 * long sums lose bits, and the nearest caches hold a strip */

static bool scales_channels(const struct plan *plan, uint32_t layer)
{
    const struct shape all = in_tensor(plan, layer, 0)->shape, factors = in_tensor(plan, layer, 1)->shape;
    return all.height != factors.height || all.width != factors.width;
}

/* ---- inputs of the same shape ---- */

/* to[i] (+)= a[i] * b[i]. */
struct product_work { enum value_type type; const void *a, *b; void *to; bool adds; };

ALWAYS_INLINE void multiply(enum value_type type, const struct product_work *work, bool adds, size_t first, size_t end)
{
    const void *const a = work->a, *const b = work->b;
    void *const to = work->to;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++) {
        const float product = value_read(type, a, i) * value_read(type, b, i);
        value_write(type, to, i, adds ? value_read(type, to, i) + product : product);
    }
}

VECTOR_LOOPS
static void multiply_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct product_work *const work = arg;
    (void)member;
    if (work->adds)
        FOR_TYPE(work->type, multiply, work, true, first, end);
    else
        FOR_TYPE(work->type, multiply, work, false, first, end);
}

static void same_forward(const struct plan *plan, uint32_t layer)
{
    struct product_work work = { plan_type(plan), in_value(plan, layer, 0), in_value(plan, layer, 1),
                                 out_value(plan, layer), false };
    plan_run(plan, value_total(plan, plan_output(&plan->base, layer)), GRAIN, multiply_part, &work);
}

static void same_backward(const struct plan *plan, uint32_t layer)
{
    for (uint32_t k = 0; k < 2; k++) {
        const struct flow *const flow = plan_flow(&plan->base, layer, k);
        struct product_work work = { plan_type(plan), out_gradient(plan, layer), in_value(plan, layer, 1 - k),
                                     plan_data(plan, flow->buffer), flow->adds };
        if (flow->buffer != BUFFER_NONE)
            plan_run(plan, value_total(plan, plan_output(&plan->base, layer)), GRAIN, multiply_part, &work);
    }
}

/* ---- a factor for each channel of a sample ---- */

/* The factors of a sample as floats, with zeros for the padding of the last block, and the sums for their gradients. */
struct multiply_state { uint32_t rows; };       /* buffer: [thread], two floats per channel */

struct scale_work {
    const struct plan *plan;
    const struct tensor_layout *tensor, *factor_tensor;
    const void *values, *factors;
    const void *gradients;      /* of the results; NULL: forward */
    void *to;                   /* results, or gradients of the values; NULL: they are not needed */
    void *factor_gradients;     /* NULL: they are not needed */
    float *rows;
    bool adds, factor_adds;
};

static size_t row_floats(const struct tensor_layout *tensor)
{
    return (tensor_blocks(tensor) * tensor->block + LANES - 1) / LANES * LANES;
}

static int multiply_plan(struct plan *plan, uint32_t layer)
{
    struct multiply_state *const state = plan->base.states[layer];
    const size_t bytes = plan_backend(plan)->spec.threads * 2 * row_floats(in_tensor(plan, layer, 0)) * sizeof(float);
    return plan_scratch(plan, layer, bytes, PASS_FORWARD, plan->base.training ? PASS_INPUTS : PASS_FORWARD,
                        &state->rows);
}

/* The numbers of the factors of a sample: one pixel, whose channels are in order in every layout. */
static size_t factor_numbers(const struct scale_work *work)
{
    return tensor_blocks(work->factor_tensor) * work->factor_tensor->block;
}

static void read_factors(const struct scale_work *work, size_t sample, float *row)
{
    const enum value_type type = work->tensor->type;
    const size_t channels = work->tensor->shape.channels, floats = row_floats(work->tensor);
    for (size_t c = 0; c < channels; c++)
        row[c] = value_read(type, work->factors, sample * factor_numbers(work) + c);
    memset(row + channels, 0, (floats - channels) * sizeof(*row));
}

static void write_factor_gradients(const struct scale_work *work, size_t sample, const float *sums)
{
    const enum value_type type = work->tensor->type;
    const size_t numbers = factor_numbers(work), channels = work->tensor->shape.channels;
    for (size_t c = 0; c < channels; c++) {
        const size_t at = sample * numbers + c;
        const float before = work->factor_adds ? value_read(type, work->factor_gradients, at) : 0.0f;
        value_write(type, work->factor_gradients, at, before + sums[c]);
    }
    for (size_t c = channels; c < numbers && !work->factor_adds; c++)
        value_write(type, work->factor_gradients, sample * numbers + c, 0.0f);
}

/* Pixels of one channel block of a sample: `count` rows of `block` numbers, where `at` is the first number. */
struct rows { size_t at, count, block; };

/* to (+)= from * factors. With one channel a block, pixels are what is vectorised. */
ALWAYS_INLINE void scale_rows(enum value_type type, struct rows rows, const void *from, const float *factors, bool adds,
                              void *to)
{
    const size_t inner = rows.block == 1 ? rows.count : rows.block, outer = rows.block == 1 ? 1 : rows.count;
    for (size_t i = 0; i < outer; i++) {
        const size_t first = rows.at + i * inner;
        INDEPENDENT_ITERATIONS
        for (size_t k = 0; k < inner; k++) {
            const float scaled = value_read(type, from, first + k) * factors[rows.block == 1 ? 0 : k];
            value_write(type, to, first + k, adds ? value_read(type, to, first + k) + scaled : scaled);
        }
    }
}

/* sums[c] += the products of values and gradients of these rows. */
ALWAYS_INLINE void sum_channel(enum value_type type, struct rows rows, const void *values, const void *gradients,
                               float *sums)
{
    float parts[LANES] = { 0 }, sum = 0;
    for (size_t i = 0; i < rows.count; i++)
        parts[i % LANES] += value_read(type, values, rows.at + i) * value_read(type, gradients, rows.at + i);
    for (uint32_t k = 0; k < LANES; k++)
        sum += parts[k];
    sums[0] += sum;
}

ALWAYS_INLINE void sum_lanes(enum value_type type, struct rows rows, const void *values, const void *gradients,
                             size_t channel, uint32_t count, float *sums)
{
    lanes sum = { 0 }, value, gradient, before;
    for (size_t i = 0; i < rows.count; i++) {
        const size_t at = rows.at + i * rows.block + channel;
        lanes_read(type, values, at, count, &value);
        lanes_read(type, gradients, at, count, &gradient);
        sum += value * gradient;
    }
    LANES_LOAD(before, sums + channel, count);
    sum += before;
    LANES_STORE(sums + channel, sum, count);
}

ALWAYS_INLINE void sum_rows(enum value_type type, struct rows rows, const void *values, const void *gradients,
                            float *sums)
{
    size_t channel = 0;
    if (rows.block == 1) {
        sum_channel(type, rows, values, gradients, sums);
        return;
    }
    for (; channel + LANES <= rows.block; channel += LANES)
        sum_lanes(type, rows, values, gradients, channel, LANES, sums);
    for (; channel < rows.block; channel++)
        sum_lanes(type, rows, values, gradients, channel, 1, sums);
}

ALWAYS_INLINE void strip_of(enum value_type type, const struct scale_work *work, struct rows rows, const float *factors,
                            float *sums)
{
    const bool is_backward = work->gradients != NULL;
    if (is_backward && work->factor_gradients != NULL)
        sum_rows(type, rows, work->values, work->gradients, sums);
    if (work->to != NULL && work->adds)
        scale_rows(type, rows, is_backward ? work->gradients : work->values, factors, true, work->to);
    else if (work->to != NULL)
        scale_rows(type, rows, is_backward ? work->gradients : work->values, factors, false, work->to);
}

VECTOR_LOOPS
static void strip_run(const struct scale_work *work, struct rows rows, const float *factors, float *sums)
{
    FOR_TYPE(work->tensor->type, strip_of, work, rows, factors, sums);
}

static void scale_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct scale_work *const work = arg;
    const struct tensor_layout *const tensor = work->tensor;
    const size_t pixels = tensor_pixels(tensor), block = tensor->block, floats = row_floats(tensor);
    float *const factors = work->rows + member * 2 * floats, *const sums = factors + floats;
    for (size_t n = first; n < end; n++) {
        read_factors(work, n, factors);
        memset(sums, 0, floats * sizeof(*sums));
        for (size_t b = 0; b < tensor_blocks(tensor); b++)
            for (size_t p = 0; p < pixels; p += STRIP) {
                const size_t left = pixels - p, at = n * tensor_count(tensor) + (b * pixels + p) * block;
                strip_run(work, (struct rows){ at, left < STRIP ? left : STRIP, block }, factors + b * block,
                          sums + b * block);
            }
        if (work->factor_gradients != NULL)
            write_factor_gradients(work, n, sums);
    }
}

static struct scale_work scale_work_of(const struct plan *plan, uint32_t layer)
{
    const struct multiply_state *const state = plan->base.states[layer];
    return (struct scale_work){
        .plan = plan,
        .tensor = in_tensor(plan, layer, 0),
        .factor_tensor = in_tensor(plan, layer, 1),
        .values = in_value(plan, layer, 0),
        .factors = in_value(plan, layer, 1),
        .rows = plan_data(plan, state->rows),
    };
}

/* ---- the row ---- */

static int multiply_forward(struct plan *plan, uint32_t layer)
{
    struct scale_work work = scale_work_of(plan, layer);
    work.to = out_value(plan, layer);
    if (scales_channels(plan, layer))
        plan_run(plan, plan->base.count, 1, scale_samples, &work);
    else
        same_forward(plan, layer);
    return 0;
}

static int multiply_backward(struct plan *plan, uint32_t layer)
{
    struct scale_work work = scale_work_of(plan, layer);
    work.gradients = out_gradient(plan, layer);
    work.to = in_gradient(plan, layer, 0);
    work.adds = plan_flow(&plan->base, layer, 0)->adds;
    work.factor_gradients = in_gradient(plan, layer, 1);
    work.factor_adds = plan_flow(&plan->base, layer, 1)->adds;
    if (scales_channels(plan, layer))
        plan_run(plan, plan->base.count, 1, scale_samples, &work);
    else
        same_backward(plan, layer);
    return 0;
}

static void multiply_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)layer;
    use_out->in_place = !plan->base.training;
}

const struct layer_ops onednn_multiply_ops = {
    .uses = { .in_until = PASS_INPUTS, .others_until = PASS_INPUTS, .adds = true },
    .use = multiply_use,
    .state_bytes = sizeof(struct multiply_state),
    .plan = multiply_plan,
    .forward = multiply_forward,
    .backward_inputs = multiply_backward,
};
