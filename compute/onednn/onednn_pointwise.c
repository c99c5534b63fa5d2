/* Loops of ours over values and gradients that change every number by itself: the input
 * step, ReLU, dropout. They share the tower's threads. */
#include "compute/onednn/onednn_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"

#define FLOAT_GRAIN 1024u       /* floats a thread takes at least */

/* ---- the input ---- */

VECTOR_LOOPS
static void divide(const uint8_t *restrict pixels, float divisor, float *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)pixels[i] / divisor;
}

/* Pixels of `channels` channels, each with its own mean and deviation. */
VECTOR_LOOPS
static void transform(const struct input_transform *how, size_t channels, const uint8_t *restrict pixels,
                      float *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i += channels)
        for (size_t c = 0; c < channels; c++)
            values[i + c] = ((float)pixels[i + c] / how->divisor - how->mean[c]) / how->deviation[c];
}

/* Channel by channel, with zeros in the channels that only fill a block. */
static void transform_blocked(const struct input_transform *how, const struct edge *edge,
                              const uint8_t *restrict pixels, float *restrict values)
{
    const size_t channels = edge->shape.channels, pixel_count = edge_pixels(edge);
    for (size_t c = 0; c < edge_blocks(edge) * edge->block; c++) {
        const float mean = how->is_plain || c >= channels ? 0.0f : how->mean[c];
        const float deviation = how->is_plain || c >= channels ? 1.0f : how->deviation[c];
        float *restrict to = values + edge_at(edge, c, 0);
        for (size_t p = 0; p < pixel_count; p++)
            to[p * edge->block] =
                c < channels ? ((float)pixels[p * channels + c] / how->divisor - mean) / deviation : 0.0f;
    }
}

struct convert_work {
    const struct plan *plan;
    const uint8_t *pixels;
};

static void convert_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct convert_work *const work = arg;
    const struct input_transform *const how = &work->plan->base.net->transform;
    const struct edge *const edge = &work->plan->edges[0];
    const size_t bytes = shape_count(edge->shape), floats = edge_floats(edge);
    const uint8_t *const pixels = work->pixels + first * bytes;
    float *const values = plan_value(work->plan, 0) + first * floats;
    (void)member;
    if (edge->block == edge->shape.channels && how->is_plain)
        divide(pixels, how->divisor, values, (end - first) * bytes);
    else if (edge->block == edge->shape.channels)
        transform(how, edge->shape.channels, pixels, values, (end - first) * bytes);
    for (size_t i = 0; i < end - first && edge->block != edge->shape.channels; i++)
        transform_blocked(how, edge, pixels + i * bytes, values + i * floats);
}

void input_convert(const struct plan *plan, const uint8_t *pixels)
{
    struct convert_work work = { plan, pixels };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, convert_samples, &work);
}

/* ---- gradients through masks ---- */

VECTOR_LOOPS
static void pass_by_values(const struct gradient_pass *pass, size_t first, size_t end)
{
    const float *const from = pass->from, *const values = pass->values;
    float *const to = pass->to;
    const float scale = pass->scale;
    INDEPENDENT_TURNS
    for (size_t i = first; i < end; i++) {
        const float scaled = from[i] * scale;
        to[i] = values[i] > 0.0f ? scaled : 0.0f;
    }
}

VECTOR_LOOPS
static void pass_noted(const struct gradient_pass *pass, size_t first, size_t end)
{
    const float *const from = pass->from;
    const uint8_t *const active = pass->active;
    float *const to = pass->to;
    INDEPENDENT_TURNS
    for (size_t i = first; i < end; i++)
        to[i] = active[i] ? from[i] : 0.0f;
}

VECTOR_LOOPS
static void add_by_values(const struct gradient_pass *pass, size_t first, size_t end)
{
    const float *restrict from = pass->from, *restrict values = pass->values;
    float *restrict to = pass->to;
    const float scale = pass->scale;
    for (size_t i = first; i < end; i++)
        to[i] += values[i] > 0.0f ? from[i] * scale : 0.0f;
}

VECTOR_LOOPS
static void add_all(const struct gradient_pass *pass, size_t first, size_t end)
{
    const float *restrict from = pass->from;
    float *restrict to = pass->to;
    for (size_t i = first; i < end; i++)
        to[i] += from[i];
}

static void copy_all(const struct gradient_pass *pass, size_t first, size_t end)
{
    if (pass->to != pass->from)
        memcpy(pass->to + first, pass->from + first, (end - first) * sizeof(*pass->to));
}

static void pass_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct gradient_pass *const pass = arg;
    (void)member;
    if (pass->active != NULL)
        pass_noted(pass, first, end);
    else if (pass->values != NULL && pass->adds)
        add_by_values(pass, first, end);
    else if (pass->values != NULL)
        pass_by_values(pass, first, end);
    else if (pass->adds)
        add_all(pass, first, end);
    else
        copy_all(pass, first, end);
}

void gradient_run(const struct plan *plan, const struct gradient_pass *pass)
{
    struct gradient_pass work = *pass;
    team_run(plan_backend(plan)->spec.threads, pass->count, FLOAT_GRAIN, pass_part, &work);
}

void gradient_hand_on(const struct plan *plan, const float *from, const struct flow *flow, size_t count)
{
    if (flow->buffer == BUFFER_NONE || plan_data(plan, flow->buffer) == from)
        return;
    const struct gradient_pass pass = {
        .from = from, .to = plan_data(plan, flow->buffer), .count = count, .scale = 1.0f, .adds = flow->adds };
    gradient_run(plan, &pass);
}

struct note_work { const float *values; uint8_t *active; };

VECTOR_LOOPS
static void note_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const float *restrict values = ((const struct note_work *)arg)->values;
    uint8_t *restrict active = ((const struct note_work *)arg)->active;
    (void)member;
    for (size_t i = first; i < end; i++)
        active[i] = values[i] > 0.0f;
}

void relu_note(const struct plan *plan, uint32_t value, uint32_t active)
{
    struct note_work work = { plan_value(plan, value), plan_data(plan, active) };
    team_run(plan_backend(plan)->spec.threads, value_total(plan, value), FLOAT_GRAIN, note_part, &work);
}

/* ---- ReLU of its own: behind something it is not folded into ---- */

static void relu_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){
        .out_until = PHASE_INPUTS, .out_sign = true, .in_place = true, .keeps_sign = true, .gradient_in_place = true,
        .adds = true };
}

struct relu_work { const float *from; float *to; };

VECTOR_LOOPS
static void relu_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct relu_work *const work = arg;
    const float *const from = work->from;
    float *const to = work->to;
    (void)member;
    INDEPENDENT_TURNS
    for (size_t i = first; i < end; i++)
        to[i] = from[i] > 0.0f ? from[i] : 0.0f;
}

static int relu_forward(struct plan *plan, uint32_t layer)
{
    const uint32_t from = plan_input(&plan->base, layer, 0), to = plan_output(&plan->base, layer);
    struct relu_work work = { plan_value(plan, from), plan_value(plan, to) };
    team_run(plan_backend(plan)->spec.threads, value_total(plan, to), FLOAT_GRAIN, relu_part, &work);
    return 0;
}

static void mask_by_result(const struct plan *plan, uint32_t layer, float scale)
{
    const uint32_t value = plan_output(&plan->base, layer);
    const struct flow *const flow = plan_flow(&plan->base, layer, 0);
    const struct gradient_pass pass = {
        .from = plan_gradient(plan, value), .to = plan_data(plan, flow->buffer), .count = value_total(plan, value),
        .scale = scale, .values = plan_value(plan, value), .adds = flow->adds };
    gradient_run(plan, &pass);
}

static int relu_backward(struct plan *plan, uint32_t layer)
{
    mask_by_result(plan, layer, 1.0f);
    return 0;
}

const struct layer_ops onednn_relu_ops = {
    .use = relu_use,
    .forward = relu_forward,
    .backward_inputs = relu_backward,
};

/* ---- dropout ---- */

struct dropout_state {
    struct dropout dropout;
    bool reads_relu;            /* a value above zero was kept and its ReLU is active */
    uint32_t masks;             /* buffer: room for edge_mask per thread */
};

static bool dropout_reads_relu(const struct plan *plan, uint32_t layer)
{
    return value_is_relu(plan, plan_input(&plan->base, layer, 0));
}

static void dropout_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .out_until = dropout_reads_relu(plan, layer) ? PHASE_INPUTS : PHASE_FORWARD, .out_sign = true,
        .in_place = true, .keeps_sign = true, .is_identity = !plan->base.training, .gradient_in_place = true };
}

static int dropout_plan(struct plan *plan, uint32_t layer)
{
    const struct backend *const backend = plan_backend(plan);
    if (!plan->base.training)
        return 0;
    struct dropout_state *const state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    dropout_init(&state->dropout, backend->spec.seed, layer, plan_layer(plan, layer)->rate);
    state->reads_relu = dropout_reads_relu(plan, layer);
    const int rc = plan_buffer(plan, backend->spec.threads * 2 * edge_floats(out_edge(plan, layer)), &state->masks);
    if (rc != 0)
        return rc;
    plan_use(plan, state->masks, layer, PHASE_FORWARD, PHASE_FORWARD);
    if (plan_has_inputs(&plan->base, layer) && !state->reads_relu)
        plan_use(plan, state->masks, layer, PHASE_INPUTS, PHASE_INPUTS);
    return 0;
}

VECTOR_LOOPS
static void mask_block(const uint8_t *restrict from, size_t pixels, size_t block, size_t channels,
                       uint8_t *restrict to)
{
    for (size_t c = 0; c < channels; c++)
        for (size_t p = 0; p < pixels; p++)
            to[p * block + c] = from[c * pixels + p];
}

void edge_mask(const struct plan *plan, const struct edge *edge, const struct dropout *dropout, size_t sample,
               uint8_t *mask_out)
{
    const size_t pixels = edge_pixels(edge), block = edge->block, channels = edge->shape.channels;
    const bool in_order = block == 1 || pixels == 1;
    uint8_t *plain = in_order ? mask_out : mask_out + edge_floats(edge);
    dropout_mask(dropout, plan->epoch, plan->first_position + sample, pixels * channels, plain);
    for (size_t first = 0; first < channels && !in_order; first += block)
        mask_block(plain + first * pixels, pixels, block, channels - first < block ? channels - first : block,
                   mask_out + first * pixels);
}

struct dropout_work {
    const struct plan *plan;
    const struct edge *edge;
    const struct dropout_state *state;
    const float *from;          /* values or gradients */
    float *to;
};

static void dropout_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct dropout_work *const work = arg;
    const struct dropout_state *const state = work->state;
    const size_t floats = edge_floats(work->edge);
    uint8_t *const mask = (uint8_t *)plan_data(work->plan, state->masks) + member * 2 * floats;
    for (size_t i = first; i < end; i++) {
        edge_mask(work->plan, work->edge, &state->dropout, i, mask);
        dropout_apply(&state->dropout, mask, work->from + i * floats, work->to + i * floats, floats);
    }
}

static void dropout_run(struct plan *plan, uint32_t layer, const float *from, float *to)
{
    struct dropout_work work = { plan, out_edge(plan, layer), plan->states[layer], from, to };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, dropout_samples, &work);
}

static int dropout_forward(struct plan *plan, uint32_t layer)
{
    if (plan->base.training)
        dropout_run(plan, layer, plan_value(plan, plan_input(&plan->base, layer, 0)),
                    plan_value(plan, plan_output(&plan->base, layer)));
    return 0;
}

static int dropout_backward(struct plan *plan, uint32_t layer)
{
    const struct dropout_state *const state = plan->states[layer];
    if (state->reads_relu)
        mask_by_result(plan, layer, state->dropout.scale);
    else
        dropout_run(plan, layer, plan_gradient(plan, plan_output(&plan->base, layer)),
                    plan_data(plan, plan_flow(&plan->base, layer, 0)->buffer));
    return 0;
}

static void dropout_release(struct plan *plan, uint32_t layer)
{
    free(plan->states[layer]);
}

const struct layer_ops onednn_dropout_ops = {
    .use = dropout_use,
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward_inputs = dropout_backward,
    .release = dropout_release,
};
