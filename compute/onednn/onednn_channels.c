/* Layers that rearrange channels or combine neighbouring ones, by our own loops: concat, pad_channels and local
 * response normalisation. */
#include "compute/onednn/onednn_plan.h"

#include <math.h>
#include <string.h>

#include "compute/vector.h"

/* ---- concat: inputs and result may have different blocks ---- */

static bool has_one_block(const struct tensor_layout *tensor)
{
    return tensor->block == tensor->shape.channels;
}

static void concat_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .adds = true,
        .grows = has_one_block(in_tensor(plan, layer, 0)) && has_one_block(out_tensor(plan, layer)),
        .reads_fronts = true,
    };
}

/* An input (`part`) and the result (`whole`), or their gradients. */
struct concat_work {
    enum value_type type;
    const struct tensor_layout *in, *out;
    void *part, *whole;
    size_t before;              /* channels of the result before those of the input */
    bool splits;                /* backward: from whole to part */
    bool adds;
};

/* Channels that are contiguous in input and result: their offsets in a sample's first pixel. */
struct channel_run { size_t part, whole, length; };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct channel_run run_from(const struct concat_work *work, size_t channel)
{
    const size_t to = work->before + channel, in_block = work->in->block, out_block = work->out->block;
    const size_t length = smaller(in_block - channel % in_block, out_block - to % out_block);
    return (struct channel_run){ tensor_at(work->in, channel, 0), tensor_at(work->out, to, 0),
                                 smaller(length, work->in->shape.channels - channel) };
}

/* A copy of `length` contiguous numbers of each of `pixels` pixels. */
struct pixel_run { const void *from; void *to; size_t from_stride, to_stride, length, pixels; };

ALWAYS_INLINE void copy_pixels(enum value_type type, struct pixel_run run, bool adds)
{
    for (size_t i = 0; i < run.pixels; i++) {
        const void *restrict const from = value_at(type, run.from, i * run.from_stride);
        void *restrict const to = value_at(type, run.to, i * run.to_stride);
        for (size_t k = 0; k < run.length; k++) {
            const float number = value_read(type, from, k);
            value_write(type, to, k, adds ? value_read(type, to, k) + number : number);
        }
    }
}

VECTOR_LOOPS
static void copy_run(enum value_type type, struct pixel_run run, bool adds)
{
    if (adds)
        FOR_TYPE(type, copy_pixels, run, true);
    else
        FOR_TYPE(type, copy_pixels, run, false);
}

/* The copy of `count` pixels of a sample, beginning with pixel `first`. */
static struct pixel_run pixels_of(const struct concat_work *work, struct channel_run channels, size_t sample,
                                  size_t first, size_t count)
{
    const size_t in_step = tensor_step(work->in), out_step = tensor_step(work->out);
    void *const part = value_at(work->type, work->part,
                                sample * tensor_count(work->in) + channels.part + first * in_step);
    void *const whole = value_at(work->type, work->whole,
                                 sample * tensor_count(work->out) + channels.whole + first * out_step);
    struct pixel_run run = work->splits ? (struct pixel_run){ whole, part, out_step, in_step, channels.length, count }
                                        : (struct pixel_run){ part, whole, in_step, out_step, channels.length, count };
    if (channels.length == in_step && channels.length == out_step) {
        run.length *= run.pixels;
        run.pixels = 1;
    }
    return run;
}

/* Copies pixels [first, end), counted over all samples. */
static void copy_input(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct concat_work *const work = arg;
    const size_t pixels = tensor_pixels(work->out);
    (void)member;
    for (size_t at = first, count; at < end; at += count) {
        count = smaller(pixels - at % pixels, end - at);
        for (size_t c = 0; c < work->in->shape.channels;) {
            const struct channel_run run = run_from(work, c);
            copy_run(work->type, pixels_of(work, run, at / pixels, at % pixels, count), work->adds);
            c += run.length;
        }
    }
}

struct padding_work { enum value_type type; const struct tensor_layout *tensor; void *values; };

static void clear_pixels(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct padding_work *const work = arg;
    const struct tensor_layout *const tensor = work->tensor;
    const size_t pixels = tensor_pixels(tensor), channels = tensor->shape.channels;
    const size_t bytes = (tensor->block - channels % tensor->block) * value_size(work->type);
    (void)member;
    for (size_t i = first; i < end; i++)
        memset(value_at(work->type, work->values,
                        i / pixels * tensor_count(tensor) + tensor_at(tensor, channels, i % pixels)), 0, bytes);
}

/* Clears the padding of the last block of a value, or of its gradient. */
static void clear_padding(const struct plan *plan, const struct tensor_layout *tensor, void *values)
{
    struct padding_work work = { plan_type(plan), tensor, values };
    if (tensor->shape.channels % tensor->block != 0)
        plan_run(plan, plan->base.count * tensor_pixels(tensor), 1, clear_pixels, &work);
}

static void concat_run(const struct plan *plan, uint32_t layer, uint32_t k, struct concat_work work)
{
    work.type = plan_type(plan);
    work.in = in_tensor(plan, layer, k);
    work.out = out_tensor(plan, layer);
    for (uint32_t i = 0; i < k; i++)
        work.before += in_tensor(plan, layer, i)->shape.channels;
    plan_run(plan, plan->base.count * tensor_pixels(work.out), 1, copy_input, &work);
}

/* The first input to copy: 1 if the result shares the buffer of input 0, else 0. */
static uint32_t first_copied(const struct plan *plan, uint32_t layer)
{
    return value_memory_grows(&plan->base.values, layer) ? 1 : 0;
}

static int concat_forward(struct plan *plan, uint32_t layer)
{
    void *const whole = out_value(plan, layer);
    for (uint32_t k = first_copied(plan, layer); k < plan_layer(plan, layer)->input_count; k++)
        concat_run(plan, layer, k, (struct concat_work){ .part = in_value(plan, layer, k), .whole = whole });
    clear_padding(plan, out_tensor(plan, layer), whole);
    return 0;
}

static int concat_backward(struct plan *plan, uint32_t layer)
{
    void *const whole = out_gradient(plan, layer);
    for (uint32_t k = first_copied(plan, layer); k < plan_layer(plan, layer)->input_count; k++) {
        const struct flow *const flow = plan_flow(&plan->base, layer, k);
        if (flow->buffer == BUFFER_NONE)
            continue;
        concat_run(plan, layer, k, (struct concat_work){ .part = plan_data(plan, flow->buffer), .whole = whole,
                                                         .splits = true, .adds = flow->adds });
        if (!flow->adds)
            clear_padding(plan, in_tensor(plan, layer, k), plan_data(plan, flow->buffer));
    }
    return 0;
}

const struct layer_ops onednn_concat_ops = {
    .use = concat_use,
    .forward = concat_forward,
    .backward_inputs = concat_backward,
};

/* ---- pad_channels ---- */

struct pad_work {
    enum value_type type;
    const struct layer *layer;
    const struct tensor_layout *in, *out;
    void *in_values, *out_values;       /* or gradients */
    bool splits;                        /* backward: from out to in */
    bool clears;                        /* backward: the gradient is not added to anything */
};

/* Offsets of row `y` of the result for channel `c` of the input, and of the row it is copied from. */
static size_t out_row(const struct pad_work *work, size_t c, size_t y)
{
    return tensor_at(work->out, c + work->layer->channels_before, y * work->layer->out.width);
}

static size_t in_row(const struct pad_work *work, size_t c, size_t y)
{
    return tensor_at(work->in, c, y * work->layer->stride_h * work->layer->in.width);
}

ALWAYS_INLINE void pad_sample(enum value_type type, const struct pad_work *work, const void *in, void *out)
{
    const struct layer *const layer = work->layer;
    const size_t in_step = work->in->block * layer->stride_w, out_step = work->out->block;
    memset(out, 0, tensor_count(work->out) * value_size(type));
    for (size_t c = 0; c < layer->in.channels; c++)
        for (size_t y = 0; y < layer->out.height; y++)
            for (size_t x = 0; x < layer->out.width; x++)
                value_write(type, out, out_row(work, c, y) + x * out_step,
                            value_read(type, in, in_row(work, c, y) + x * in_step));
}

ALWAYS_INLINE void unpad_sample(enum value_type type, const struct pad_work *work, void *in, const void *out)
{
    const struct layer *const layer = work->layer;
    const size_t in_step = work->in->block * layer->stride_w, out_step = work->out->block;
    if (work->clears)
        memset(in, 0, tensor_count(work->in) * value_size(type));
    for (size_t c = 0; c < layer->in.channels; c++)
        for (size_t y = 0; y < layer->out.height; y++)
            for (size_t x = 0; x < layer->out.width; x++) {
                const size_t at = in_row(work, c, y) + x * in_step;
                value_write(type, in, at,
                            value_read(type, in, at) + value_read(type, out, out_row(work, c, y) + x * out_step));
            }
}

static void pad_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pad_work *const work = arg;
    (void)member;
    for (size_t i = first; i < end; i++) {
        void *const in = value_at(work->type, work->in_values, i * tensor_count(work->in));
        void *const out = value_at(work->type, work->out_values, i * tensor_count(work->out));
        if (work->splits)
            FOR_TYPE(work->type, unpad_sample, work, in, out);
        else
            FOR_TYPE(work->type, pad_sample, work, in, out);
    }
}

static int pad_run(const struct plan *plan, uint32_t layer, struct pad_work work)
{
    work.type = plan_type(plan);
    work.layer = plan_layer(plan, layer);
    work.in = in_tensor(plan, layer, 0);
    work.out = out_tensor(plan, layer);
    plan_run(plan, plan->base.count, 1, pad_samples, &work);
    return 0;
}

static int pad_forward(struct plan *plan, uint32_t layer)
{
    return pad_run(plan, layer, (struct pad_work){ .in_values = in_value(plan, layer, 0),
                                                   .out_values = out_value(plan, layer) });
}

static int pad_backward(struct plan *plan, uint32_t layer)
{
    return pad_run(plan, layer, (struct pad_work){ .in_values = in_gradient(plan, layer, 0),
                                                   .out_values = out_gradient(plan, layer), .splits = true,
                                                   .clears = !plan_flow(&plan->base, layer, 0)->adds });
}

const struct layer_ops onednn_pad_channels_ops = {
    .uses = { .adds = true },
    .forward = pad_forward,
    .backward_inputs = pad_backward,
};

/* ---- local response normalisation ----
 *
 * y = x * d^-beta with d = k + alpha / size * the sum of x^2 over the neighbouring channels. The channels of a pixel
 * are gathered into a row with zeros on both sides. */

/* Rows of one float per channel, in which a thread works. */
enum row { ROW_VALUES, ROW_SUMMED, ROW_DIVISORS, ROW_POWERS, ROW_GRADIENTS, ROW_COUNT };

struct response_state { uint32_t rows; };       /* buffer: [thread][ROW_COUNT] */

/* The channels, and on both sides as many zeros as the window overlaps. */
static size_t row_floats(const struct layer *layer)
{
    return (size_t)layer->in.channels + layer->response.size - 1;
}

static int response_plan(struct plan *plan, uint32_t layer)
{
    const struct layer *const how = plan_layer(plan, layer);
    const size_t thread_floats = ROW_COUNT * row_floats(how);
    struct response_state *const state = plan->base.states[layer];
    const int rc = plan_scratch(plan, layer, plan_backend(plan)->spec.threads * thread_floats * sizeof(float),
                                PASS_FORWARD, PASS_FORWARD, &state->rows);
    if (rc == 0 && plan->base.training)
        plan_use(plan, state->rows, layer, PASS_INPUTS, PASS_INPUTS);
    return rc;
}

/* Forward, or backward with out_gradients. */
struct response_work {
    enum value_type type;
    const struct layer *layer;
    const struct tensor_layout *tensor;
    const void *values, *out_gradients;
    void *to;                   /* results, or gradients of the input */
    float *rows;                /* [thread] */
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

/* Gathers the channels of a pixel of sample `i` into a row. */
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

/* Stores a row in its pixel; the padding of the last block becomes 0 unless the row is added. */
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

/* divisors[c] = k + factor * divisors[c]; powers[c] = divisors[c]^-beta. */
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

/* Computes the values of a pixel, their divisors, and the powers of the divisors. */
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

/* gradients = g * d^-beta - 2 * alpha / size * beta * x * the sum of g * x * d^(-beta - 1) over the neighbouring
 * channels. The sum has the same window as forward, because a channel is in the windows of exactly the channels that
 * are in its own window. */
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

static struct response_work response_work_of(const struct plan *plan, uint32_t layer)
{
    const struct response_state *const state = plan->base.states[layer];
    return (struct response_work){
        .type = plan_type(plan), .layer = plan_layer(plan, layer), .tensor = in_tensor(plan, layer, 0),
        .values = in_value(plan, layer, 0), .rows = plan_data(plan, state->rows),
    };
}

static int response_forward(struct plan *plan, uint32_t layer)
{
    struct response_work work = response_work_of(plan, layer);
    work.to = out_value(plan, layer);
    plan_run(plan, plan->base.count, 1, forward_samples, &work);
    return 0;
}

static int response_backward(struct plan *plan, uint32_t layer)
{
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    struct response_work work = response_work_of(plan, layer);
    work.out_gradients = out_gradient(plan, layer);
    work.to = plan_data(plan, flow->buffer);
    work.adds = flow->adds;
    plan_run(plan, plan->base.count, 1, backward_samples, &work);
    return 0;
}

const struct layer_ops onednn_response_ops = {
    .uses = { .in_until = PASS_INPUTS, .adds = true },
    .state_bytes = sizeof(struct response_state),
    .plan = response_plan,
    .forward = response_forward,
    .backward_inputs = response_backward,
};
