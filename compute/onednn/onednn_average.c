/* Average pooling: the mean of what of a window lies in the image. A loop of ours over the
 * channels of a block, as one pass of a few additions needs no library. */
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "compute/team.h"
#include "compute/vector.h"

static void average_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .adds = true };
}

struct average_work {
    const struct layer *layer;
    size_t block;
    float *in, *out;            /* values or gradients */
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

VECTOR_LOOPS
static void add_scaled(const float *restrict from, float *restrict to, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        to[i] += from[i] * scale;
}

static void average_window(const struct average_work *work, struct view view, const float *in, float *out)
{
    memset(out, 0, work->block * sizeof(*out));
    for (uint32_t y = view.top; y < view.bottom; y++)
        for (uint32_t x = view.left; x < view.right; x++)
            add_scaled(in + ((size_t)y * work->layer->in.width + x) * work->block, out, work->block, share_of(view));
}

static void spread_window(const struct average_work *work, struct view view, float *in, const float *out)
{
    for (uint32_t y = view.top; y < view.bottom; y++)
        for (uint32_t x = view.left; x < view.right; x++)
            add_scaled(out, in + ((size_t)y * work->layer->in.width + x) * work->block, work->block, share_of(view));
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
        float *out = work->out + plane * out_plane(work);
        for (uint32_t row = 0; row < work->layer->out.height; row++)
            for (uint32_t column = 0; column < work->layer->out.width; column++, out += work->block)
                average_window(work, view_at(work->layer, row, column), work->in + plane * in_plane(work), out);
    }
}

static void spread_planes(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct average_work *const work = arg;
    (void)member;
    for (size_t plane = first; plane < end; plane++) {
        const float *out = work->out + plane * out_plane(work);
        float *const in = work->in + plane * in_plane(work);
        if (work->clears)
            memset(in, 0, in_plane(work) * sizeof(*in));
        for (uint32_t row = 0; row < work->layer->out.height; row++)
            for (uint32_t column = 0; column < work->layer->out.width; column++, out += work->block)
                spread_window(work, view_at(work->layer, row, column), in, out);
    }
}

static int average_forward(struct plan *plan, uint32_t layer)
{
    const struct edge *const in = in_edge(plan, layer, 0);
    struct average_work work = { plan_layer(plan, layer), in->block,
                                 plan_value(plan, plan_input(&plan->base, layer, 0)),
                                 plan_value(plan, plan_output(&plan->base, layer)), false };
    team_run(plan_backend(plan)->spec.threads, plan->base.count * edge_blocks(in), 1, average_planes, &work);
    return 0;
}

static int average_backward(struct plan *plan, uint32_t layer)
{
    const struct edge *const in = in_edge(plan, layer, 0);
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    struct average_work work = { plan_layer(plan, layer), in->block, plan_data(plan, flow->buffer),
                                plan_gradient(plan, plan_output(&plan->base, layer)), !flow->adds };
    team_run(plan_backend(plan)->spec.threads, plan->base.count * edge_blocks(in), 1, spread_planes, &work);
    return 0;
}

const struct layer_ops onednn_average_pool_ops = {
    .use = average_use,
    .forward = average_forward,
    .backward_inputs = average_backward,
};
