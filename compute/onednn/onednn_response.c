/* Local response normalisation: y = x * d^-beta with d = k + alpha / size * the sum of x^2 over the channels
 * around. A loop of ours, pixel by pixel: its channels are brought together, with zeros around them. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"

/* Rows of numbers a channel that a thread works in. */
enum row { ROW_VALUES, ROW_SUMMED, ROW_DIVISORS, ROW_POWERS, ROW_GRADIENTS, ROW_COUNT };

struct response_state { uint32_t rows; };       /* buffer: ROW_COUNT rows for every thread */

static void response_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .in_until = PHASE_INPUTS, .adds = true };
}

/* The channels, and as many zeros on both sides as the window reaches over. */
static size_t row_floats(const struct layer *layer)
{
    return (size_t)layer->in.channels + layer->response.size - 1;
}

static int response_plan(struct plan *plan, uint32_t layer)
{
    const struct layer *const how = plan_layer(plan, layer);
    const size_t thread_floats = ROW_COUNT * row_floats(how);
    struct response_state *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    const int rc = plan_buffer(plan, plan_backend(plan)->spec.threads * thread_floats * sizeof(float), &state->rows);
    if (rc == 0)
        plan_use(plan, state->rows, layer, PHASE_FORWARD, PHASE_FORWARD);
    if (rc == 0 && plan->base.training)
        plan_use(plan, state->rows, layer, PHASE_INPUTS, PHASE_INPUTS);
    return rc;
}

/* One pass over a layer: with gradients it is backward. */
struct response_work {
    enum value_type type;
    const struct layer *layer;
    const struct tensor_layout *tensor;
    const void *values, *out_gradients;
    void *to;                   /* results, or gradients of the input */
    float *rows;                /* of all threads */
    bool adds;
};

static float *row_of(const struct response_work *work, uint32_t member, enum row row)
{
    return work->rows + ((size_t)member * ROW_COUNT + row) * row_floats(work->layer);
}

ALWAYS_INLINE void gather(enum value_type type, const struct tensor_layout *tensor, const void *restrict sample,
                          size_t pixel, float *restrict row)
{
    if (tensor->block == tensor->shape.channels)
        for (size_t c = 0; c < tensor->shape.channels; c++)
            row[c] = value_read(type, sample, pixel * tensor->block + c);
    else
        for (size_t c = 0; c < tensor->shape.channels; c++)
            row[c] = value_read(type, sample, tensor_at(tensor, c, pixel));
}

/* The row of a pixel of sample `i`. */
VECTOR_LOOPS
static void gather_any(const struct response_work *work, const void *values, size_t i, size_t pixel, float *row)
{
    FOR_TYPE(work->type, gather, work->tensor, value_at(work->type, values, i * tensor_count(work->tensor)), pixel,
             row);
}

ALWAYS_INLINE void scatter(enum value_type type, const struct response_work *work, const float *row, void *sample,
                           size_t pixel)
{
    const struct tensor_layout *const tensor = work->tensor;
    const size_t channels = tensor->shape.channels, all = tensor_blocks(tensor) * tensor->block;
    for (size_t c = 0; c < channels; c++) {
        const size_t at = tensor_at(tensor, c, pixel);
        value_write(type, sample, at, work->adds ? value_read(type, sample, at) + row[c] : row[c]);
    }
    for (size_t c = channels; c < all && !work->adds; c++)
        value_write(type, sample, tensor_at(tensor, c, pixel), 0.0f);
}

/* A row to its pixel; channels that only fill a block become 0 where nothing is added to. */
static void scatter_any(const struct response_work *work, const float *row, size_t i, size_t pixel)
{
    FOR_TYPE(work->type, scatter, work, row, value_at(work->type, work->to, i * tensor_count(work->tensor)), pixel);
}

/* sums[c] = the sum of padded[c .. c + size). */
VECTOR_LOOPS
static void window_sums(const float *restrict padded, size_t size, size_t channels, float *restrict sums)
{
    for (size_t c = 0; c < channels; c++)
        sums[c] = padded[c];
    for (size_t i = 1; i < size; i++)
        for (size_t c = 0; c < channels; c++)
            sums[c] += padded[c + i];
}

/* divisors become k + factor * themselves; powers are those to -beta. */
VECTOR_LOOPS
static void find_powers(const struct local_response_norm *how, size_t channels, float *restrict divisors,
                        float *restrict powers)
{
    const float factor = how->alpha / (float)how->size, k = how->k;
    for (size_t c = 0; c < channels; c++)
        divisors[c] = k + factor * divisors[c];
    if (how->beta == 0.75f)
        for (size_t c = 0; c < channels; c++)
            powers[c] = 1.0f / (sqrtf(divisors[c]) * sqrtf(sqrtf(divisors[c])));
    else
        for (size_t c = 0; c < channels; c++)
            powers[c] = powf(divisors[c], -how->beta);
}

/* The pixel's values, and its divisors and their powers. */
static void pixel_begin(const struct response_work *work, uint32_t member, size_t sample, size_t pixel)
{
    const struct local_response_norm *const how = &work->layer->response;
    const size_t channels = work->tensor->shape.channels;
    float *const values = row_of(work, member, ROW_VALUES), *const divisors = row_of(work, member, ROW_DIVISORS);
    float *const squares = row_of(work, member, ROW_SUMMED) + how->size / 2;
    gather_any(work, work->values, sample, pixel, values);
    for (size_t c = 0; c < channels; c++)
        squares[c] = values[c] * values[c];
    window_sums(row_of(work, member, ROW_SUMMED), how->size, channels, divisors);
    find_powers(how, channels, divisors, row_of(work, member, ROW_POWERS));
}

static void clear_rows(const struct response_work *work, uint32_t member)
{
    memset(row_of(work, member, 0), 0, ROW_COUNT * row_floats(work->layer) * sizeof(float));
}

static void forward_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct response_work *const work = arg;
    const size_t pixels = tensor_pixels(work->tensor);
    float *const values = row_of(work, member, ROW_VALUES), *const powers = row_of(work, member, ROW_POWERS);
    clear_rows(work, member);
    for (size_t i = first * pixels; i < end * pixels; i++) {
        pixel_begin(work, member, i / pixels, i % pixels);
        for (size_t c = 0; c < work->tensor->shape.channels; c++)
            values[c] *= powers[c];
        scatter_any(work, values, i / pixels, i % pixels);
    }
}

/* g * d^-beta - 2 * alpha / size * beta * x * the sum of g * x * d^(-beta - 1) over the channels around: a
 * channel is in the window of all that are in its own. */
VECTOR_LOOPS
static void pixel_backward(const struct response_work *work, uint32_t member)
{
    const struct local_response_norm *const how = &work->layer->response;
    const size_t channels = work->tensor->shape.channels;
    const float factor = 2.0f * how->beta * how->alpha / (float)how->size;
    const float *restrict const values = row_of(work, member, ROW_VALUES);
    const float *restrict const powers = row_of(work, member, ROW_POWERS);
    float *restrict const gradients = row_of(work, member, ROW_GRADIENTS);
    float *restrict const divisors = row_of(work, member, ROW_DIVISORS);
    float *restrict const parts = row_of(work, member, ROW_SUMMED) + how->size / 2;
    for (size_t c = 0; c < channels; c++)
        parts[c] = gradients[c] * values[c] * powers[c] / divisors[c];
    window_sums(row_of(work, member, ROW_SUMMED), how->size, channels, divisors);
    for (size_t c = 0; c < channels; c++)
        gradients[c] = gradients[c] * powers[c] - factor * values[c] * divisors[c];
}

static void backward_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct response_work *const work = arg;
    const size_t pixels = tensor_pixels(work->tensor);
    float *const gradients = row_of(work, member, ROW_GRADIENTS);
    clear_rows(work, member);
    for (size_t i = first * pixels; i < end * pixels; i++) {
        pixel_begin(work, member, i / pixels, i % pixels);
        gather_any(work, work->out_gradients, i / pixels, i % pixels, gradients);
        pixel_backward(work, member);
        scatter_any(work, gradients, i / pixels, i % pixels);
    }
}

static struct response_work begin_pass(const struct plan *plan, uint32_t layer)
{
    const struct response_state *const state = plan->states[layer];
    return (struct response_work){
        .type = plan_type(plan), .layer = plan_layer(plan, layer), .tensor = in_tensor(plan, layer, 0),
        .values = plan_value(plan, plan_input(&plan->base, layer, 0)), .rows = plan_data(plan, state->rows),
    };
}

static int response_forward(struct plan *plan, uint32_t layer)
{
    struct response_work work = begin_pass(plan, layer);
    work.to = plan_value(plan, plan_output(&plan->base, layer));
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, forward_samples, &work);
    return 0;
}

static int response_backward(struct plan *plan, uint32_t layer)
{
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    struct response_work work = begin_pass(plan, layer);
    work.out_gradients = plan_gradient(plan, plan_output(&plan->base, layer));
    work.to = plan_data(plan, flow->buffer);
    work.adds = flow->adds;
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, backward_samples, &work);
    return 0;
}

static void response_release(struct plan *plan, uint32_t layer)
{
    free(plan->states[layer]);
}

const struct layer_ops onednn_response_ops = {
    .use = response_use,
    .plan = response_plan,
    .forward = response_forward,
    .backward_inputs = response_backward,
    .release = response_release,
};
