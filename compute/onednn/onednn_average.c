/* Average pooling: the mean of what of a window lies in the image. A loop of ours over the
 * channels of a block, as one pass of a few additions needs no library. */
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "compute/team.h"
#include "compute/vector.h"

#define PART 64u                /* channels summed at once */

static void average_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .adds = true };
}

struct average_work {
    enum value_type type;
    const struct layer *layer;
    size_t block;
    void *in, *out;             /* values or gradients */
    bool clears;                /* backward: nothing to add to */
};

/* The part of a window inside the image. */
struct view { uint32_t top, bottom, left, right; };

static uint32_t inside(uint32_t at, uint32_t pad, uint32_t size)
{
    const uint32_t moved = at > pad ? at - pad : 0;
    return moved < size ? moved : size;
}

static struct view view_at(const struct layer *layer, uint32_t row, uint32_t column)
{
    const uint32_t top = row * layer->stride_h, left = column * layer->stride_w;
    return (struct view){
        .top = inside(top, layer->pad_top, layer->in.height),
        .bottom = inside(top + layer->kernel_h, layer->pad_top, layer->in.height),
        .left = inside(left, layer->pad_left, layer->in.width),
        .right = inside(left + layer->kernel_w, layer->pad_left, layer->in.width),
    };
}

static float share_of(struct view view)
{
    return 1.0f / ((float)(view.bottom - view.top) * (float)(view.right - view.left));
}

/* Channels [first, first + count) of a window: their sums are fp32 whatever type the values have. */
ALWAYS_INLINE void average_part(enum value_type type, const struct average_work *work, struct view view,
                                const void *restrict in, void *restrict out, size_t first, size_t count)
{
    const float scale = share_of(view);
    float sums[PART] = { 0 };
    for (uint32_t y = view.top; y < view.bottom; y++)
        for (uint32_t x = view.left; x < view.right; x++) {
            const size_t at = ((size_t)y * work->layer->in.width + x) * work->block + first;
            for (size_t i = 0; i < count; i++)
                sums[i] += value_read(type, in, at + i) * scale;
        }
    for (size_t i = 0; i < count; i++)
        value_write(type, out, first + i, sums[i]);
}

VECTOR_LOOPS
static void average_window(const struct average_work *work, struct view view, const void *in, void *out)
{
    for (size_t first = 0; first < work->block; first += PART) {
        const size_t left = work->block - first, count = left < PART ? left : PART;
        FOR_TYPE(work->type, average_part, work, view, in, out, first, count);
    }
}

ALWAYS_INLINE void spread(enum value_type type, const struct average_work *work, struct view view, void *restrict in,
                          const void *restrict out)
{
    const float scale = share_of(view);
    const size_t block = work->block;
    for (uint32_t y = view.top; y < view.bottom; y++)
        for (uint32_t x = view.left; x < view.right; x++) {
            const size_t at = ((size_t)y * work->layer->in.width + x) * block;
            for (size_t i = 0; i < block; i++)
                value_write(type, in, at + i, value_read(type, in, at + i) + value_read(type, out, i) * scale);
        }
}

VECTOR_LOOPS
static void spread_window(const struct average_work *work, struct view view, void *in, const void *out)
{
    FOR_TYPE(work->type, spread, work, view, in, out);
}

/* One channel block of a sample is a plane. */
static size_t in_plane(const struct average_work *work)
{
    return (size_t)work->layer->in.height * work->layer->in.width * work->block;
}

static size_t out_plane(const struct average_work *work)
{
    return (size_t)work->layer->out.height * work->layer->out.width * work->block;
}

static void average_planes(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct average_work *const work = arg;
    (void)member;
    for (size_t plane = first; plane < end; plane++) {
        const void *const in = value_at(work->type, work->in, plane * in_plane(work));
        size_t at = plane * out_plane(work);
        for (uint32_t row = 0; row < work->layer->out.height; row++)
            for (uint32_t column = 0; column < work->layer->out.width; column++, at += work->block)
                average_window(work, view_at(work->layer, row, column), in, value_at(work->type, work->out, at));
    }
}

static void spread_planes(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct average_work *const work = arg;
    (void)member;
    for (size_t plane = first; plane < end; plane++) {
        void *const in = value_at(work->type, work->in, plane * in_plane(work));
        size_t at = plane * out_plane(work);
        if (work->clears)
            memset(in, 0, in_plane(work) * value_size(work->type));
        for (uint32_t row = 0; row < work->layer->out.height; row++)
            for (uint32_t column = 0; column < work->layer->out.width; column++, at += work->block)
                spread_window(work, view_at(work->layer, row, column), in, value_at(work->type, work->out, at));
    }
}

static int average_forward(struct plan *plan, uint32_t layer)
{
    const struct tensor_layout *const in = in_tensor(plan, layer, 0);
    struct average_work work = { plan_type(plan), plan_layer(plan, layer), in->block,
                                 plan_value(plan, plan_input(&plan->base, layer, 0)),
                                 plan_value(plan, plan_output(&plan->base, layer)), false };
    team_run(plan_backend(plan)->spec.threads, plan->base.count * tensor_blocks(in), 1, average_planes, &work);
    return 0;
}

static int average_backward(struct plan *plan, uint32_t layer)
{
    const struct tensor_layout *const in = in_tensor(plan, layer, 0);
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    struct average_work work = { plan_type(plan), plan_layer(plan, layer), in->block, plan_data(plan, flow->buffer),
                                plan_gradient(plan, plan_output(&plan->base, layer)), !flow->adds };
    team_run(plan_backend(plan)->spec.threads, plan->base.count * tensor_blocks(in), 1, spread_planes, &work);
    return 0;
}

const struct layer_ops onednn_average_pool_ops = {
    .use = average_use,
    .forward = average_forward,
    .backward_inputs = average_backward,
};
