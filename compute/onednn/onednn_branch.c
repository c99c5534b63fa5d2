/* Where branches part and meet: the sum of two values, the channels of several one behind the other, and
 * the shortcut that takes every stride-th pixel and puts channels of zeros around its own. Loops of ours. */
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "compute/team.h"
#include "compute/vector.h"

#define VALUE_GRAIN 1024u       /* numbers a thread takes at least */

/* ---- add: both inputs and the result lie alike ---- */

static void add_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .in_place = true, .gradient_in_place = true, .adds = true };
}

struct sum_work { enum value_type type; const void *left, *right; void *to; };

ALWAYS_INLINE void sum(enum value_type type, const struct sum_work *work, size_t first, size_t end)
{
    const void *const left = work->left, *const right = work->right;
    void *const to = work->to;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++)
        value_write(type, to, i, value_read(type, left, i) + value_read(type, right, i));
}

VECTOR_LOOPS
static void sum_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct sum_work *const work = arg;
    (void)member;
    FOR_TYPE(work->type, sum, work, first, end);
}

static int add_forward(struct plan *plan, uint32_t layer)
{
    const uint32_t value = plan_output(&plan->base, layer);
    struct sum_work work = { plan_type(plan), plan_value(plan, plan_input(&plan->base, layer, 0)),
                            plan_value(plan, plan_input(&plan->base, layer, 1)), plan_value(plan, value) };
    team_run(plan_backend(plan)->spec.threads, value_total(plan, value), VALUE_GRAIN, sum_part, &work);
    return 0;
}

static int add_backward(struct plan *plan, uint32_t layer)
{
    const uint32_t value = plan_output(&plan->base, layer);
    for (uint32_t k = 0; k < 2; k++)
        gradient_hand_on(plan, plan_gradient(plan, value), plan_flow(&plan->base, layer, k), value_total(plan, value));
    return 0;
}

const struct layer_ops onednn_add_ops = {
    .use = add_use,
    .forward = add_forward,
    .backward_inputs = add_backward,
};

/* ---- concat: of values that lie in any blocks ---- */

static bool is_together(const struct tensor_layout *tensor)
{
    return tensor->block == tensor->shape.channels;
}

static void concat_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .adds = true,
        .grows = is_together(in_tensor(plan, layer, 0)) && is_together(out_tensor(plan, layer)),
        .reads_fronts = true,
    };
}

/* An input and the result, or their gradients. */
struct concat_work {
    enum value_type type;
    const struct tensor_layout *in, *out;
    void *part, *whole;
    size_t before;              /* channels of the result in front of the input's */
    bool adds;
};

/* Channels that lie together in the input and in the result: where, in one pixel of a sample. */
struct channel_run { size_t part, whole, length; };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static struct channel_run run_from(const struct concat_work *work, size_t channel)
{
    const size_t to = work->before + channel, in_block = work->in->block, out_block = work->out->block;
    const size_t length = least(in_block - channel % in_block, out_block - to % out_block);
    return (struct channel_run){ tensor_at(work->in, channel, 0), tensor_at(work->out, to, 0),
                                 least(length, work->in->shape.channels - channel) };
}

/* Pixels one behind the other, in both `length` numbers. */
struct pixel_run { void *part, *whole; size_t part_stride, whole_stride, length, pixels; };

ALWAYS_INLINE void join(enum value_type type, struct pixel_run run, bool adds)
{
    (void)adds;
    for (size_t i = 0; i < run.pixels; i++) {
        const void *restrict const from = value_at(type, run.part, i * run.part_stride);
        void *restrict const to = value_at(type, run.whole, i * run.whole_stride);
        for (size_t k = 0; k < run.length; k++)
            value_write(type, to, k, value_read(type, from, k));
    }
}

ALWAYS_INLINE void split(enum value_type type, struct pixel_run run, bool adds)
{
    for (size_t i = 0; i < run.pixels; i++) {
        const void *restrict const from = value_at(type, run.whole, i * run.whole_stride);
        void *restrict const to = value_at(type, run.part, i * run.part_stride);
        for (size_t k = 0; k < run.length; k++) {
            const float more = value_read(type, from, k);
            value_write(type, to, k, adds ? value_read(type, to, k) + more : more);
        }
    }
}

VECTOR_LOOPS
static void join_run(enum value_type type, struct pixel_run run, bool adds)
{
    FOR_TYPE(type, join, run, adds);
}

VECTOR_LOOPS
static void split_run(enum value_type type, struct pixel_run run, bool adds)
{
    FOR_TYPE(type, split, run, adds);
}

/* `count` pixels of a sample, from pixel `first` on. */
static struct pixel_run pixels_of(const struct concat_work *work, struct channel_run channels, size_t sample,
                                  size_t first, size_t count)
{
    const size_t in_step = tensor_step(work->in), out_step = tensor_step(work->out);
    const size_t part = sample * tensor_count(work->in) + channels.part + first * in_step;
    const size_t whole = sample * tensor_count(work->out) + channels.whole + first * out_step;
    struct pixel_run run = { value_at(work->type, work->part, part), value_at(work->type, work->whole, whole),
                             in_step, out_step, channels.length, count };
    if (channels.length == in_step && channels.length == out_step) {
        run.length *= run.pixels;
        run.pixels = 1;
    }
    return run;
}

/* Pixels [first, end) of all samples. */
static void move_pixels(const struct concat_work *work, size_t first, size_t end,
                        void (*move)(enum value_type type, struct pixel_run run, bool adds))
{
    const size_t pixels = tensor_pixels(work->out);
    for (size_t at = first, count; at < end; at += count) {
        count = least(pixels - at % pixels, end - at);
        for (size_t c = 0; c < work->in->shape.channels;) {
            const struct channel_run run = run_from(work, c);
            move(work->type, pixels_of(work, run, at / pixels, at % pixels, count), work->adds);
            c += run.length;
        }
    }
}

static void join_pixels(void *arg, uint32_t member, size_t first, size_t end)
{
    (void)member;
    move_pixels(arg, first, end, join_run);
}

static void split_pixels(void *arg, uint32_t member, size_t first, size_t end)
{
    (void)member;
    move_pixels(arg, first, end, split_run);
}

struct filling { enum value_type type; const struct tensor_layout *tensor; void *values; };

static void clear_pixels(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct filling *const filling = arg;
    const struct tensor_layout *const tensor = filling->tensor;
    const size_t pixels = tensor_pixels(tensor), channels = tensor->shape.channels;
    const size_t bytes = (tensor->block - channels % tensor->block) * value_size(filling->type);
    (void)member;
    for (size_t i = first; i < end; i++)
        memset(value_at(filling->type, filling->values,
                        i / pixels * tensor_count(tensor) + tensor_at(tensor, channels, i % pixels)), 0, bytes);
}

/* What fills the last block of a value, or of its gradient, is 0. */
static void clear_filling(const struct plan *plan, const struct tensor_layout *tensor, void *values)
{
    struct filling filling = { plan_type(plan), tensor, values };
    if (tensor->shape.channels % tensor->block != 0)
        team_run(plan_backend(plan)->spec.threads, plan->base.count * tensor_pixels(tensor), 1, clear_pixels, &filling);
}

static void run_input(const struct plan *plan, uint32_t layer, uint32_t k, struct concat_work work, team_work run)
{
    work.type = plan_type(plan);
    work.in = in_tensor(plan, layer, k);
    work.out = out_tensor(plan, layer);
    for (uint32_t i = 0; i < k; i++)
        work.before += in_tensor(plan, layer, i)->shape.channels;
    team_run(plan_backend(plan)->spec.threads, plan->base.count * tensor_pixels(work.out), 1, run, &work);
}

/* The first input that is moved: one that grows is there. */
static uint32_t first_moved(const struct plan *plan, uint32_t layer)
{
    return value_plan_grows(&plan->base.values, layer) ? 1 : 0;
}

static int concat_forward(struct plan *plan, uint32_t layer)
{
    void *const whole = plan_value(plan, plan_output(&plan->base, layer));
    for (uint32_t k = first_moved(plan, layer); k < plan_layer(plan, layer)->input_count; k++)
        run_input(plan, layer, k,
                  (struct concat_work){ .part = plan_value(plan, plan_input(&plan->base, layer, k)), .whole = whole },
                  join_pixels);
    clear_filling(plan, out_tensor(plan, layer), whole);
    return 0;
}

static int concat_backward(struct plan *plan, uint32_t layer)
{
    void *const whole = plan_gradient(plan, plan_output(&plan->base, layer));
    for (uint32_t k = first_moved(plan, layer); k < plan_layer(plan, layer)->input_count; k++) {
        const struct flow *const flow = plan_flow(&plan->base, layer, k);
        if (flow->buffer == BUFFER_NONE)
            continue;
        run_input(plan, layer, k,
                  (struct concat_work){ .part = plan_data(plan, flow->buffer), .whole = whole, .adds = flow->adds },
                  split_pixels);
        if (!flow->adds)
            clear_filling(plan, in_tensor(plan, layer, k), plan_data(plan, flow->buffer));
    }
    return 0;
}

const struct layer_ops onednn_concat_ops = {
    .use = concat_use,
    .forward = concat_forward,
    .backward_inputs = concat_backward,
};

/* ---- pad_channels ---- */

static void pad_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .adds = true };
}

struct pad_work {
    enum value_type type;
    const struct layer *layer;
    const struct tensor_layout *in, *out;
    void *in_values, *out_values;       /* or gradients */
    bool clears;                        /* backward: nothing to add to */
};

/* Where row `y` of the result lies for channel `c` of the input; and the row it comes from. */
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

static void pad_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pad_work *const work = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        FOR_TYPE(work->type, pad_sample, work, value_at(work->type, work->in_values, i * tensor_count(work->in)),
                 value_at(work->type, work->out_values, i * tensor_count(work->out)));
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
                value_write(type, in, at, value_read(type, in, at) +
                                              value_read(type, out, out_row(work, c, y) + x * out_step));
            }
}

static void unpad_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pad_work *const work = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        FOR_TYPE(work->type, unpad_sample, work, value_at(work->type, work->in_values, i * tensor_count(work->in)),
                 value_at(work->type, work->out_values, i * tensor_count(work->out)));
}

static int pad_forward(struct plan *plan, uint32_t layer)
{
    struct pad_work work = { plan_type(plan),
                             plan_layer(plan, layer),
                             in_tensor(plan, layer, 0),
                             out_tensor(plan, layer),
                             plan_value(plan, plan_input(&plan->base, layer, 0)),
                             plan_value(plan, plan_output(&plan->base, layer)),
                             false };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, pad_samples, &work);
    return 0;
}

static int pad_backward(struct plan *plan, uint32_t layer)
{
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    struct pad_work work = { plan_type(plan),
                             plan_layer(plan, layer),
                             in_tensor(plan, layer, 0),
                             out_tensor(plan, layer),
                             plan_data(plan, flow->buffer),
                             plan_gradient(plan, plan_output(&plan->base, layer)),
                             !flow->adds };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, unpad_samples, &work);
    return 0;
}

const struct layer_ops onednn_pad_channels_ops = {
    .use = pad_use,
    .forward = pad_forward,
    .backward_inputs = pad_backward,
};
