/* Max-pooling, with what surrounds it in one pass: forward applies a dropout that
 * follows, backward the masks of that dropout and of a ReLU in front. Forward keeps for
 * every result the place in its window that gave it, or that no gradient goes back;
 * neither input nor result are needed again.
 *
 * oneDNN's primitive would do the pooling alone: three passes more over the values, and
 * backward on AVX2 takes several times as long as this one. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"
#include "stage/log.h"

#define NO_GRADIENT UINT16_MAX

struct pool {
    enum value_type type;
    uint32_t in_h, in_w, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left;
    size_t block, blocks;       /* of both tensors */
    bool tiles;                 /* the windows cover every input exactly once, and nothing was there */
    bool adds;                  /* to a gradient that is there */
    bool after_relu;
    bool drops;
    struct dropout dropout;
    uint32_t masks;             /* buffer: room for tensor_mask per thread */
    bool has_places;
    uint32_t places;            /* buffer: uint16_t of every result */
};

/* The part of a window inside the image, in rows and columns of the image, and what to
 * add to row * kernel_w + column for the place in the window. */
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

/* The place of the first pixel of row `y` of the image. */
ALWAYS_INLINE int32_t place_at(const struct pool *pool, const struct view *window, uint32_t y)
{
    return (int32_t)((y - window->top + window->row0) * pool->kernel_w + window->column0);
}

/* The largest of a window for `count` channels, and its place. */
ALWAYS_INLINE void window_forward(enum value_type type, const struct pool *pool, const struct view *window,
                                  const void *in, uint32_t count, lanes *best_out, lane_bits *place_out)
{
    lanes best = (lanes){ 0 } - INFINITY;
    lane_bits place = { 0 };
    for (uint32_t y = window->top; y < window->bottom; y++) {
        size_t at = ((size_t)y * pool->in_w + window->left) * pool->block;
        int32_t here = place_at(pool, window, y);
        for (uint32_t x = window->left; x < window->right; x++, here++, at += pool->block) {
            lanes value;
            lanes_read(type, in, at, count, &value);
            const lane_bits larger = value > best;
            place = LANES_SELECT(larger, (lane_bits){ 0 } + here, place);
            best = LANES_SELECT(larger, value, best);
        }
    }
    *best_out = best;
    *place_out = place;
}

/* The gradient of `count` results to where they came from. */
ALWAYS_INLINE void window_backward(enum value_type type, const struct pool *pool, const struct view *window, void *in,
                                   uint32_t count, const lanes *gradient, const lane_bits *place)
{
    for (uint32_t y = window->top; y < window->bottom; y++) {
        size_t at = ((size_t)y * pool->in_w + window->left) * pool->block;
        int32_t here = place_at(pool, window, y);
        for (uint32_t x = window->left; x < window->right; x++, here++, at += pool->block) {
            lanes passed = LANES_SELECT(*place == here, *gradient, (lanes){ 0 }), before;
            if (!pool->tiles) {
                lanes_read(type, in, at, count, &before);
                passed += before;
            }
            lanes_write(type, in, at, count, &passed);
        }
    }
}

/* What goes on from the largest values of `count` channels: dropout, and the places of
 * those that pass a gradient back. keep and places may be NULL. */
ALWAYS_INLINE void results_store(enum value_type type, const struct pool *pool, const lanes *largest,
                                 const lane_bits *place, const uint8_t *keep, uint32_t count, void *out,
                                 uint16_t *places)
{
    lanes best = *largest;
    lane_bits passes = best > (pool->after_relu ? 0.0f : -INFINITY);
    if (keep != NULL) {
        lane_bytes bytes;
        LANES_LOAD(bytes, keep, count);
        const lane_bits kept = __builtin_convertvector(bytes, lane_bits) != 0;
        best = LANES_SELECT(kept, best * pool->dropout.scale, (lanes){ 0 });
        passes &= kept;
    }
    lanes_write(type, out, 0, count, &best);
    if (places != NULL) {
        const lane_bits passed = LANES_SELECT(passes, *place, (lane_bits){ 0 } + NO_GRADIENT);
        const lane_shorts shorts = __builtin_convertvector(passed, lane_shorts);
        LANES_STORE(places, shorts, count);
    }
}

/* One channel block of a sample, `count` channels at a time. */
ALWAYS_INLINE void plane_forward(enum value_type type, const struct pool *pool, const void *in, void *out,
                                 const uint8_t *keep, uint16_t *places, uint32_t count)
{
    size_t at = 0;
    for (uint32_t row = 0; row < pool->out_h; row++)
        for (uint32_t column = 0; column < pool->out_w; column++) {
            const struct view window = window_at(pool, row, column);
            for (size_t first = 0; first < pool->block; first += count, at += count) {
                lanes best;
                lane_bits place;
                window_forward(type, pool, &window, value_at(type, in, first), count, &best, &place);
                results_store(type, pool, &best, &place, keep != NULL ? keep + at : NULL, count,
                              value_at(type, out, at), places != NULL ? places + at : NULL);
            }
        }
}

/* Window by window into `in`, which holds what to add to unless the windows tile it. */
ALWAYS_INLINE void plane_backward(enum value_type type, const struct pool *pool, void *in, const void *out,
                                  const uint16_t *places, uint32_t count)
{
    const float scale = pool->drops ? pool->dropout.scale : 1.0f;
    size_t at = 0;
    for (uint32_t row = 0; row < pool->out_h; row++)
        for (uint32_t column = 0; column < pool->out_w; column++) {
            const struct view window = window_at(pool, row, column);
            for (size_t first = 0; first < pool->block; first += count, at += count) {
                lanes gradient;
                lane_shorts shorts;
                lanes_read(type, out, at, count, &gradient);
                LANES_LOAD(shorts, places + at, count);
                gradient *= scale;
                const lane_bits place = __builtin_convertvector(shorts, lane_bits);
                window_backward(type, pool, &window, value_at(type, in, first), count, &gradient, &place);
            }
        }
}

VECTOR_LOOPS
static void plane_forward_any(const struct pool *pool, const void *in, void *out, const uint8_t *keep,
                              uint16_t *places)
{
    if (pool->block % LANES == 0)
        FOR_TYPE(pool->type, plane_forward, pool, in, out, keep, places, LANES);
    else
        FOR_TYPE(pool->type, plane_forward, pool, in, out, keep, places, 1);
}

VECTOR_LOOPS
static void plane_backward_any(const struct pool *pool, void *in, const void *out, const uint16_t *places)
{
    if (!pool->tiles && !pool->adds)
        memset(in, 0, (size_t)pool->in_h * pool->in_w * pool->block * value_size(pool->type));
    if (pool->block % LANES == 0)
        FOR_TYPE(pool->type, plane_backward, pool, in, out, places, LANES);
    else
        FOR_TYPE(pool->type, plane_backward, pool, in, out, places, 1);
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
    const struct tensor_layout *tensor; /* of the results */
    void *in, *out;             /* values or gradients */
    uint16_t *places;
};

/* A plane of the input or its gradient, and of the result. */
static void *in_of(const struct pool_work *work, size_t plane)
{
    return value_at(work->pool->type, work->in, plane * in_plane(work->pool));
}

static void *out_of(const struct pool_work *work, size_t plane)
{
    return value_at(work->pool->type, work->out, plane * out_plane(work->pool));
}

static void forward_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pool_work *work = arg;
    const struct pool *pool = work->pool;
    const size_t sample = pool->blocks * out_plane(pool);
    uint8_t *mask = pool->drops ? (uint8_t *)plan_data(work->plan, pool->masks) + member * 2 * sample : NULL;
    for (size_t i = first; i < end; i++) {
        if (mask != NULL)
            tensor_mask(work->plan, work->tensor, &pool->dropout, i, mask);
        for (size_t b = 0; b < pool->blocks; b++) {
            const size_t plane = i * pool->blocks + b;
            plane_forward_any(pool, in_of(work, plane), out_of(work, plane),
                              mask != NULL ? mask + b * out_plane(pool) : NULL,
                              work->places != NULL ? work->places + plane * out_plane(pool) : NULL);
        }
    }
}

static void backward_planes(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pool_work *work = arg;
    const struct pool *pool = work->pool;
    (void)member;
    for (size_t plane = first; plane < end; plane++)
        plane_backward_any(pool, in_of(work, plane), out_of(work, plane),
                           work->places + plane * out_plane(pool));
}

static uint32_t find_dropout(const struct plan *plan, uint32_t layer)
{
    const struct group *const group = plan_group(&plan->base, layer);
    return group->tail_count > 0 ? group->tail[0] : NET_INPUT;
}

static void pool_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .adds = true };
}

static void pool_init(const struct plan *plan, uint32_t layer, struct pool *pool)
{
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
        .drops = dropout != NET_INPUT,
        .has_places = plan_has_inputs(&plan->base, layer),
        .adds = plan_flow(&plan->base, layer, 0)->adds,
    };
    pool->tiles = !pool->adds && about->pad_top == 0 && about->pad_left == 0 &&
                  about->kernel_h == about->stride_h && about->kernel_w == about->stride_w &&
                  about->out.height * about->stride_h == about->in.height &&
                  about->out.width * about->stride_w == about->in.width;
    if (pool->drops)
        dropout_init(&pool->dropout, plan_backend(plan)->spec.seed, dropout, plan_layer(plan, dropout)->rate);
}

static int pool_buffers(struct plan *plan, uint32_t layer, struct pool *pool)
{
    const size_t sample = pool->blocks * out_plane(pool), results = plan->base.count * sample;
    int rc = plan_buffer(plan, pool->has_places ? results * sizeof(uint16_t) : 0, &pool->places);
    if (rc == 0)
        rc = plan_buffer(plan, pool->drops ? plan_backend(plan)->spec.threads * 2 * sample : 0, &pool->masks);
    if (rc != 0)
        return rc;
    plan_use(plan, pool->masks, layer, PHASE_FORWARD, PHASE_FORWARD);
    if (pool->has_places)
        plan_use(plan, pool->places, layer, PHASE_FORWARD, PHASE_INPUTS);
    return 0;
}

static int pool_plan(struct plan *plan, uint32_t layer)
{
    const struct layer *about = plan_layer(plan, layer);
    if ((uint64_t)about->kernel_h * about->kernel_w >= NO_GRADIENT) {
        log_message(LOG_ERROR, "layer '%s': a window of %ux%u is too large", about->name, about->kernel_h,
                    about->kernel_w);
        return -ENOTSUP;
    }
    struct pool *pool = malloc(sizeof(*pool));
    if (pool == NULL)
        return -ENOMEM;
    plan->states[layer] = pool;
    pool_init(plan, layer, pool);
    return pool_buffers(plan, layer, pool);
}

static int pool_forward(struct plan *plan, uint32_t layer)
{
    const struct pool *const pool = plan->states[layer];
    struct pool_work work = {
        plan, pool, out_tensor(plan, layer), plan_value(plan, plan_input(&plan->base, layer, 0)),
        plan_value(plan, plan_output(&plan->base, layer)), pool->has_places ? plan_data(plan, pool->places) : NULL,
    };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, forward_samples, &work);
    return 0;
}

static int pool_backward(struct plan *plan, uint32_t layer)
{
    const struct pool *const pool = plan->states[layer];
    struct pool_work work = {
        plan, pool, out_tensor(plan, layer), plan_data(plan, plan_flow(&plan->base, layer, 0)->buffer),
        plan_gradient(plan, plan_output(&plan->base, layer)), plan_data(plan, pool->places),
    };
    team_run(plan_backend(plan)->spec.threads, plan->base.count * pool->blocks, 1, backward_planes, &work);
    return 0;
}

static void pool_release(struct plan *plan, uint32_t layer)
{
    free(plan->states[layer]);
}

const struct layer_ops onednn_max_pool_ops = {
    .use = pool_use,
    .plan = pool_plan,
    .forward = pool_forward,
    .backward_inputs = pool_backward,
    .release = pool_release,
};
