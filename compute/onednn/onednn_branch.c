/* Where branches part and meet: the sum of two values, and the shortcut that takes every
 * stride-th pixel and puts channels of zeros around its own. Loops of ours. */
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "compute/team.h"
#include "compute/vector.h"

#define FLOAT_GRAIN 1024u       /* floats a thread takes at least */

/* ---- add: both inputs and the result lie alike ---- */

static void add_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .in_place = true, .gradient_in_place = true, .adds = true };
}

struct sum_work { const float *left, *right; float *to; };

VECTOR_LOOPS
static void sum_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct sum_work *const work = arg;
    const float *const left = work->left, *const right = work->right;
    float *const to = work->to;
    (void)member;
    INDEPENDENT_TURNS
    for (size_t i = first; i < end; i++)
        to[i] = left[i] + right[i];
}

static int add_forward(struct plan *plan, uint32_t layer)
{
    const uint32_t value = plan_output(&plan->base, layer);
    struct sum_work work = { plan_value(plan, plan_input(&plan->base, layer, 0)),
                            plan_value(plan, plan_input(&plan->base, layer, 1)), plan_value(plan, value) };
    team_run(plan_backend(plan)->spec.threads, value_total(plan, value), FLOAT_GRAIN, sum_part, &work);
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

/* ---- pad_channels ---- */

static void pad_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){ .adds = true };
}

struct pad_work {
    const struct layer *layer;
    const struct edge *in, *out;
    float *in_values, *out_values;      /* or gradients */
    bool clears;                        /* backward: nothing to add to */
};

/* Where row `y` of the result lies for channel `c` of the input; and the row it comes from. */
static size_t out_row(const struct pad_work *work, size_t c, size_t y)
{
    return edge_at(work->out, c + work->layer->channels_before, y * work->layer->out.width);
}

static size_t in_row(const struct pad_work *work, size_t c, size_t y)
{
    return edge_at(work->in, c, y * work->layer->stride_h * work->layer->in.width);
}

static void pad_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pad_work *const work = arg;
    const struct layer *const layer = work->layer;
    const size_t in_step = work->in->block * layer->stride_w, out_step = work->out->block;
    (void)member;
    for (size_t i = first; i < end; i++) {
        const float *const in = work->in_values + i * edge_floats(work->in);
        float *const out = work->out_values + i * edge_floats(work->out);
        memset(out, 0, edge_floats(work->out) * sizeof(*out));
        for (size_t c = 0; c < layer->in.channels; c++)
            for (size_t y = 0; y < layer->out.height; y++)
                for (size_t x = 0; x < layer->out.width; x++)
                    out[out_row(work, c, y) + x * out_step] = in[in_row(work, c, y) + x * in_step];
    }
}

static void unpad_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct pad_work *const work = arg;
    const struct layer *const layer = work->layer;
    const size_t in_step = work->in->block * layer->stride_w, out_step = work->out->block;
    (void)member;
    for (size_t i = first; i < end; i++) {
        float *const in = work->in_values + i * edge_floats(work->in);
        const float *const out = work->out_values + i * edge_floats(work->out);
        if (work->clears)
            memset(in, 0, edge_floats(work->in) * sizeof(*in));
        for (size_t c = 0; c < layer->in.channels; c++)
            for (size_t y = 0; y < layer->out.height; y++)
                for (size_t x = 0; x < layer->out.width; x++)
                    in[in_row(work, c, y) + x * in_step] += out[out_row(work, c, y) + x * out_step];
    }
}

static int pad_forward(struct plan *plan, uint32_t layer)
{
    struct pad_work work = { plan_layer(plan, layer), in_edge(plan, layer, 0), out_edge(plan, layer),
                            plan_value(plan, plan_input(&plan->base, layer, 0)),
                            plan_value(plan, plan_output(&plan->base, layer)), false };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, pad_samples, &work);
    return 0;
}

static int pad_backward(struct plan *plan, uint32_t layer)
{
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    struct pad_work work = { plan_layer(plan, layer), in_edge(plan, layer, 0), out_edge(plan, layer),
                            plan_data(plan, flow->buffer), plan_gradient(plan, plan_output(&plan->base, layer)),
                            !flow->adds };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, unpad_samples, &work);
    return 0;
}

const struct layer_ops onednn_pad_channels_ops = {
    .use = pad_use,
    .forward = pad_forward,
    .backward_inputs = pad_backward,
};
