/* Max and average pooling by our own loops. Max pooling includes the layers around it in one pass: forward applies a
 * dropout that follows, backward the masks of that dropout and of a ReLU before the pool. For every result forward
 * stores the tap of the window that won, or that no gradient passes; backward needs neither the input nor the result.
 *
 * oneDNN's primitive would do the pooling alone: three more passes over the values, and backward on AVX2 takes several
 * times as long. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"
#include "stage/log.h"

#define NO_WINNER UINT16_MAX

struct pool {
    enum value_type type;
    uint32_t in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
    size_t block, blocks;       /* channel blocks of input and result */
    bool windows_tile;          /* the windows cover every input exactly once, and the gradient is not added */
    bool adds;                  /* the gradient of the input is added to the gradient in memory */
    bool after_relu;
    bool has_dropout;
    struct dropout dropout;
    uint32_t masks;             /* buffer: [thread], for tensor_mask */
    bool has_winners;
    uint32_t winners;           /* buffer: uint16_t per result: the tap that won, or NO_WINNER */
};

/* The part of a window inside the image, in rows and columns of the image. The tap of its first pixel is (row0,
 * column0). */
struct view { uint32_t top, bottom, left, right; uint32_t row0, column0; };

static inline struct view window_at(const struct pool *pool, uint32_t row, uint32_t column)
{
    const uint32_t top = row * pool->stride_h, left = column * pool->stride_w;
    const uint32_t bottom = top + pool->kernel_h, right = left + pool->kernel_w;
    const uint32_t in_bottom = pool->in_h + pool->pad_top, in_right = pool->in_w + pool->pad_left;
    return (struct view){
        .top = top > pool->pad_top ? top - pool->pad_top : 0,
        .bottom = (bottom < in_bottom ? bottom : in_bottom) - pool->pad_top,
        .left = left > pool->pad_left ? left - pool->pad_left : 0,
        .right = (right < in_right ? right : in_right) - pool->pad_left,
        .row0 = top > pool->pad_top ? 0 : pool->pad_top - top,
        .column0 = left > pool->pad_left ? 0 : pool->pad_left - left,
    };
}

static size_t in_plane(const struct pool *pool)
{
    return (size_t)pool->in_h * pool->in_w * pool->block;
}

static size_t out_plane(const struct pool *pool)
{
    return (size_t)pool->out_h * pool->out_w * pool->block;
}

struct pool_work {
    const struct plan *plan;
    const struct pool *pool;
    const struct tensor_layout *tensor;    /* layout of the results, for dropout */
    void *in, *out;             /* values or gradients */
    uint16_t *winners;
};

/* Plane `plane` (a channel block of a sample) of the input or its gradient, and of the result. */
static void *in_of(const struct pool_work *work, size_t plane)
{
    return value_at(work->pool->type, work->in, plane * in_plane(work->pool));
}

static void *out_of(const struct pool_work *work, size_t plane)
{
    return value_at(work->pool->type, work->out, plane * out_plane(work->pool));
}

static uint32_t find_dropout(const struct plan *plan, uint32_t layer)
{
    const struct group *const group = plan_group(&plan->base, layer);
    return group->tail_count > 0 ? group->tail[0] : NET_INPUT;
}

static int pool_plan(struct plan *plan, uint32_t layer)
{
    struct pool *const pool = plan->base.states[layer];
    const struct layer *const about = plan_layer(plan, layer);
    const struct tensor_layout *const in = in_tensor(plan, layer, 0);
    const uint32_t dropout = find_dropout(plan, layer);
    *pool = (struct pool){
        .type = plan_type(plan),
        .in_h = about->in.height, .in_w = about->in.width, .out_h = about->out.height, .out_w = about->out.width,
        .kernel_h = about->kernel_h, .kernel_w = about->kernel_w,
        .stride_h = about->stride_h, .stride_w = about->stride_w,
        .pad_top = about->pad_top, .pad_left = about->pad_left,
        .block = in->block, .blocks = tensor_blocks(in),
        .after_relu = value_is_relu(plan, plan_input(&plan->base, layer, 0)),
        .has_dropout = dropout != NET_INPUT,
        .has_winners = plan_has_inputs(&plan->base, layer),
        .adds = plan_flow(&plan->base, layer, 0)->adds,
    };
    pool->windows_tile = !pool->adds && about->pad_top == 0 && about->pad_left == 0 &&
                         about->kernel_h == about->stride_h && about->kernel_w == about->stride_w &&
                         about->out.height * about->stride_h == about->in.height &&
                         about->out.width * about->stride_w == about->in.width;
    if (pool->has_dropout)
        dropout_init(&pool->dropout, plan_backend(plan)->spec.seed, net_random_stream(plan->base.net, dropout),
                     plan_layer(plan, dropout)->rate);
    return 0;
}

/* ---- max pooling ---- */

/* The tap, kernel_w * row + column, of the first pixel of image row `y`. */
ALWAYS_INLINE int32_t tap_at(const struct pool *pool, const struct view *window, uint32_t y)
{
    return (int32_t)((y - window->top + window->row0) * pool->kernel_w + window->column0);
}

/* Finds the largest value of a window for `count` channels, and its tap. */
ALWAYS_INLINE void window_forward(enum value_type type, const struct pool *pool, const struct view *window,
                                  const void *in, uint32_t count, lanes *best_out, lane_bits *winner_out)
{
    lanes best = (lanes){ 0 } - INFINITY;
    lane_bits winner = { 0 };
    for (uint32_t y = window->top; y < window->bottom; y++) {
        size_t at = ((size_t)y * pool->in_w + window->left) * pool->block;
        int32_t tap = tap_at(pool, window, y);
        for (uint32_t x = window->left; x < window->right; x++, tap++, at += pool->block) {
            lanes value;
            lanes_read(type, in, at, count, &value);
            const lane_bits larger = value > best;
            winner = LANES_SELECT(larger, (lane_bits){ 0 } + tap, winner);
            best = LANES_SELECT(larger, value, best);
        }
    }
    *best_out = best;
    *winner_out = winner;
}

/* Adds the gradient of `count` results to the inputs that won. */
ALWAYS_INLINE void window_backward(enum value_type type, const struct pool *pool, const struct view *window, void *in,
                                   uint32_t count, const lanes *gradient, const lane_bits *winner)
{
    for (uint32_t y = window->top; y < window->bottom; y++) {
        size_t at = ((size_t)y * pool->in_w + window->left) * pool->block;
        int32_t tap = tap_at(pool, window, y);
        for (uint32_t x = window->left; x < window->right; x++, tap++, at += pool->block) {
            lanes passed = LANES_SELECT(*winner == tap, *gradient, (lanes){ 0 }), before;
            if (!pool->windows_tile) {
                lanes_read(type, in, at, count, &before);
                passed += before;
            }
            lanes_write(type, in, at, count, &passed);
        }
    }
}

/* Stores results after dropout, and the winners that pass a gradient back. keep and winners may be NULL. */
ALWAYS_INLINE void store_results(enum value_type type, const struct pool *pool, const lanes *largest,
                                 const lane_bits *winner, const uint8_t *keep, uint32_t count, void *out,
                                 uint16_t *winners)
{
    lanes best = *largest;
    lane_bits is_passed = best > (pool->after_relu ? 0.0f : -INFINITY);
    if (keep != NULL) {
        lane_bytes bytes;
        LANES_LOAD(bytes, keep, count);
        const lane_bits kept = __builtin_convertvector(bytes, lane_bits) != 0;
        best = LANES_SELECT(kept, best * pool->dropout.scale, (lanes){ 0 });
        is_passed &= kept;
    }
    lanes_write(type, out, 0, count, &best);
    if (winners != NULL) {
        const lane_bits passed = LANES_SELECT(is_passed, *winner, (lane_bits){ 0 } + NO_WINNER);
        const lane_shorts shorts = __builtin_convertvector(passed, lane_shorts);
        LANES_STORE(winners, shorts, count);
    }
}

/* Pools one channel block of a sample, `count` channels at a time. */
ALWAYS_INLINE void plane_forward(enum value_type type, const struct pool *pool, const void *in, void *out,
                                 const uint8_t *keep, uint16_t *winners, uint32_t count)
{
    size_t at = 0;
    for (uint32_t row = 0; row < pool->out_h; row++)
        for (uint32_t column = 0; column < pool->out_w; column++) {
            const struct view window = window_at(pool, row, column);
            for (size_t first = 0; first < pool->block; first += count, at += count) {
                lanes best;
                lane_bits winner;
                window_forward(type, pool, &window, value_at(type, in, first), count, &best, &winner);
                store_results(type, pool, &best, &winner, keep != NULL ? keep + at : NULL, count,
                              value_at(type, out, at), winners != NULL ? winners + at : NULL);
            }
        }
}

/* Adds the gradients window by window. `in` is zero or holds the gradient to add to, unless the windows tile it. */
ALWAYS_INLINE void plane_backward(enum value_type type, const struct pool *pool, void *in, const void *out,
                                  const uint16_t *winners, uint32_t count)
{
    const float scale = pool->has_dropout ? pool->dropout.scale : 1.0f;
    size_t at = 0;
    for (uint32_t row = 0; row < pool->out_h; row++)
        for (uint32_t column = 0; column < pool->out_w; column++) {
            const struct view window = window_at(pool, row, column);
            for (size_t first = 0; first < pool->block; first += count, at += count) {
                lanes gradient;
                lane_shorts shorts;
                lanes_read(type, out, at, count, &gradient);
                LANES_LOAD(shorts, winners + at, count);
                gradient *= scale;
                const lane_bits winner = __builtin_convertvector(shorts, lane_bits);
                window_backward(type, pool, &window, value_at(type, in, first), count, &gradient, &winner);
            }
        }
}

VECTOR_LOOPS
static void plane_forward_any(const struct pool *pool, const void *in, void *out, const uint8_t *keep,
                              uint16_t *winners)
{
    if (pool->block % LANES == 0)
        FOR_TYPE(pool->type, plane_forward, pool, in, out, keep, winners, LANES);
    else
        FOR_TYPE(pool->type, plane_forward, pool, in, out, keep, winners, 1);
}

VECTOR_LOOPS
static void plane_backward_any(const struct pool *pool, void *in, const void *out, const uint16_t *winners)
{
    if (!pool->windows_tile && !pool->adds)
        memset(in, 0, (size_t)pool->in_h * pool->in_w * pool->block * value_size(pool->type));
    if (pool->block % LANES == 0)
        FOR_TYPE(pool->type, plane_backward, pool, in, out, winners, LANES);
    else
        FOR_TYPE(pool->type, plane_backward, pool, in, out, winners, 1);
}

static void forward_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pool_work *work = arg;
    const struct pool *pool = work->pool;
    const size_t sample = pool->blocks * out_plane(pool);
    uint8_t *mask = pool->has_dropout ? (uint8_t *)plan_data(work->plan, pool->masks) + member * 2 * sample : NULL;
    for (size_t i = first; i < end; i++) {
        if (mask != NULL)
            tensor_mask(work->plan, work->tensor, &pool->dropout, i, mask);
        for (size_t b = 0; b < pool->blocks; b++) {
            const size_t plane = i * pool->blocks + b;
            plane_forward_any(pool, in_of(work, plane), out_of(work, plane),
                              mask != NULL ? mask + b * out_plane(pool) : NULL,
                              work->winners != NULL ? work->winners + plane * out_plane(pool) : NULL);
        }
    }
}

static void backward_planes(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pool_work *work = arg;
    const struct pool *pool = work->pool;
    (void)member;
    for (size_t plane = first; plane < end; plane++)
        plane_backward_any(pool, in_of(work, plane), out_of(work, plane), work->winners + plane * out_plane(pool));
}

static int pool_buffers(struct plan *plan, uint32_t layer, struct pool *pool)
{
    const size_t sample = pool->blocks * out_plane(pool), results = plan->base.count * sample;
    const size_t masks = pool->has_dropout ? plan_backend(plan)->spec.threads * 2 * sample : 0;
    const int rc = plan_scratch(plan, layer, masks, PASS_FORWARD, PASS_FORWARD, &pool->masks);
    return rc != 0 || !pool->has_winners ? rc : plan_scratch(plan, layer, results * sizeof(uint16_t), PASS_FORWARD,
                                                             PASS_INPUTS, &pool->winners);
}

static int max_pool_plan(struct plan *plan, uint32_t layer)
{
    const struct layer *about = plan_layer(plan, layer);
    if ((uint64_t)about->kernel_h * about->kernel_w >= NO_WINNER) {
        log_message(LOG_ERROR, "layer '%s': a window of %ux%u is too large", about->name, about->kernel_h,
                    about->kernel_w);
        return -ENOTSUP;
    }
    const int rc = pool_plan(plan, layer);
    return rc != 0 ? rc : pool_buffers(plan, layer, plan->base.states[layer]);
}

static int max_pool_forward(struct plan *plan, uint32_t layer)
{
    const struct pool *const pool = plan->base.states[layer];
    struct pool_work work = {
        plan, pool, out_tensor(plan, layer), in_value(plan, layer, 0), out_value(plan, layer),
        pool->has_winners ? plan_data(plan, pool->winners) : NULL,
    };
    plan_run(plan, plan->base.count, 1, forward_samples, &work);
    return 0;
}

static int max_pool_backward(struct plan *plan, uint32_t layer)
{
    const struct pool *const pool = plan->base.states[layer];
    struct pool_work work = {
        plan, pool, out_tensor(plan, layer), in_gradient(plan, layer, 0), out_gradient(plan, layer),
        plan_data(plan, pool->winners),
    };
    plan_run(plan, plan->base.count * pool->blocks, 1, backward_planes, &work);
    return 0;
}

const struct layer_ops onednn_max_pool_ops = {
    .uses = { .adds = true },
    .state_bytes = sizeof(struct pool),
    .plan = max_pool_plan,
    .forward = max_pool_forward,
    .backward_inputs = max_pool_backward,
};

/* ---- average pooling ---- */

#define CHANNELS_AT_ONCE 64u

/* Weight of each pixel of a window: padding does not count. */
static float average_share(struct view view)
{
    return 1.0f / ((float)(view.bottom - view.top) * (float)(view.right - view.left));
}

/* Averages channels [first, first + count) of a window; the sums are fp32 for all types of values. */
ALWAYS_INLINE void average_channels(enum value_type type, const struct pool *pool, struct view view,
                                    const void *restrict in, void *restrict out, size_t first, size_t count)
{
    const float scale = average_share(view);
    float sums[CHANNELS_AT_ONCE] = { 0 };
    for (uint32_t y = view.top; y < view.bottom; y++)
        for (uint32_t x = view.left; x < view.right; x++) {
            const size_t at = ((size_t)y * pool->in_w + x) * pool->block + first;
            for (size_t i = 0; i < count; i++)
                sums[i] += value_read(type, in, at + i) * scale;
        }
    for (size_t i = 0; i < count; i++)
        value_write(type, out, first + i, sums[i]);
}

VECTOR_LOOPS
static void average_window(const struct pool *pool, struct view view, const void *in, void *out)
{
    for (size_t first = 0; first < pool->block; first += CHANNELS_AT_ONCE) {
        const size_t left = pool->block - first, count = left < CHANNELS_AT_ONCE ? left : CHANNELS_AT_ONCE;
        FOR_TYPE(pool->type, average_channels, pool, view, in, out, first, count);
    }
}

ALWAYS_INLINE void spread(enum value_type type, const struct pool *pool, struct view view, void *restrict in,
                          const void *restrict out)
{
    const float scale = average_share(view);
    const size_t block = pool->block;
    for (uint32_t y = view.top; y < view.bottom; y++)
        for (uint32_t x = view.left; x < view.right; x++) {
            const size_t at = ((size_t)y * pool->in_w + x) * block;
            for (size_t i = 0; i < block; i++)
                value_write(type, in, at + i, value_read(type, in, at + i) + value_read(type, out, i) * scale);
        }
}

VECTOR_LOOPS
static void spread_window(const struct pool *pool, struct view view, void *in, const void *out)
{
    FOR_TYPE(pool->type, spread, pool, view, in, out);
}

static void average_planes(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pool_work *const work = arg;
    const struct pool *const pool = work->pool;
    (void)member;
    for (size_t plane = first; plane < end; plane++) {
        size_t at = plane * out_plane(pool);
        for (uint32_t row = 0; row < pool->out_h; row++)
            for (uint32_t column = 0; column < pool->out_w; column++, at += pool->block)
                average_window(pool, window_at(pool, row, column), in_of(work, plane),
                               value_at(pool->type, work->out, at));
    }
}

static void spread_planes(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pool_work *const work = arg;
    const struct pool *const pool = work->pool;
    (void)member;
    for (size_t plane = first; plane < end; plane++) {
        void *const in = in_of(work, plane);
        size_t at = plane * out_plane(pool);
        if (!pool->adds)
            memset(in, 0, in_plane(pool) * value_size(pool->type));
        for (uint32_t row = 0; row < pool->out_h; row++)
            for (uint32_t column = 0; column < pool->out_w; column++, at += pool->block)
                spread_window(pool, window_at(pool, row, column), in, value_at(pool->type, work->out, at));
    }
}

static int average_forward(struct plan *plan, uint32_t layer)
{
    const struct pool *const pool = plan->base.states[layer];
    struct pool_work work = { .plan = plan, .pool = pool, .in = in_value(plan, layer, 0),
                              .out = out_value(plan, layer) };
    plan_run(plan, plan->base.count * pool->blocks, 1, average_planes, &work);
    return 0;
}

static int average_backward(struct plan *plan, uint32_t layer)
{
    const struct pool *const pool = plan->base.states[layer];
    struct pool_work work = { .plan = plan, .pool = pool, .in = in_gradient(plan, layer, 0),
                              .out = out_gradient(plan, layer) };
    plan_run(plan, plan->base.count * pool->blocks, 1, spread_planes, &work);
    return 0;
}

const struct layer_ops onednn_average_pool_ops = {
    .uses = { .adds = true },
    .state_bytes = sizeof(struct pool),
    .plan = pool_plan,
    .forward = average_forward,
    .backward_inputs = average_backward,
};
