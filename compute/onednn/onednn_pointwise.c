/* Loops of ours over values and gradients that change every number by itself: the input
 * step, ReLU, dropout. They work in place and share the tower's threads. */
#include "compute/onednn/onednn_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "compute/team.h"
#include "compute/vector.h"

#define FLOAT_GRAIN 1024u       /* floats a thread takes at least */

/* The whole of an edge's values and gradients, for loops that do not care for the order. */
struct flat { float *values, *gradients; float scale; uint8_t *active; };

VECTOR_LOOPS
static void convert(const uint8_t *restrict pixels, float *restrict values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)pixels[i] / 255.0f;
}

/* Pixel p of channel c of a sample lies at (c / block * pixels + p) * block + c % block. */
static void convert_blocked(const struct edge *edge, const uint8_t *restrict pixels, float *restrict values)
{
    const size_t channels = edge->shape.channels, block = edge->block, pixel_count = edge_pixels(edge);
    for (size_t c = 0; c < edge_blocks(edge) * block; c++) {
        float *restrict to = values + c / block * pixel_count * block + c % block;
        for (size_t p = 0; p < pixel_count; p++)
            to[p * block] = c < channels ? (float)pixels[p * channels + c] / 255.0f : 0.0f;
    }
}

struct convert_work {
    const struct plan *plan;
    const uint8_t *pixels;
};

static void convert_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct convert_work *work = arg;
    const struct edge *edge = &work->plan->edges[0];
    const size_t bytes = shape_count(edge->shape), floats = edge_floats(edge);
    float *values = plan_value(work->plan, 0);
    (void)member;
    if (edge->block == edge->shape.channels) {
        convert(work->pixels + first * bytes, values + first * floats, (end - first) * bytes);
        return;
    }
    for (size_t i = first; i < end; i++)
        convert_blocked(edge, work->pixels + i * bytes, values + i * floats);
}

void input_convert(const struct plan *plan, const uint8_t *pixels)
{
    struct convert_work work = { plan, pixels };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, convert_samples, &work);
}

VECTOR_LOOPS
static void relu_part(void *arg, uint32_t member, size_t first, size_t end)
{
    float *restrict values = ((const struct flat *)arg)->values;
    (void)member;
    for (size_t i = first; i < end; i++)
        values[i] = values[i] > 0.0f ? values[i] : 0.0f;
}

VECTOR_LOOPS
static void mask_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct flat *flat = arg;
    const float *restrict values = flat->values;
    float *restrict gradients = flat->gradients;
    const float scale = flat->scale;
    (void)member;
    for (size_t i = first; i < end; i++) {
        const float scaled = gradients[i] * scale;
        gradients[i] = values[i] > 0.0f ? scaled : 0.0f;
    }
}

static size_t edge_total(const struct plan *plan, uint32_t edge)
{
    return plan->base.count * edge_floats(&plan->edges[edge]);
}

void relu_mask(const struct plan *plan, uint32_t edge, float scale)
{
    struct flat flat = { .values = plan_value(plan, edge), .gradients = plan_gradient(plan, edge), .scale = scale };
    team_run(plan_backend(plan)->spec.threads, edge_total(plan, edge), FLOAT_GRAIN, mask_part, &flat);
}

VECTOR_LOOPS
static void note_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const float *restrict values = ((const struct flat *)arg)->values;
    uint8_t *restrict active = ((const struct flat *)arg)->active;
    (void)member;
    for (size_t i = first; i < end; i++)
        active[i] = values[i] > 0.0f;
}

void relu_note(const struct plan *plan, uint32_t edge, uint32_t active)
{
    struct flat flat = { .values = plan_value(plan, edge), .active = plan_data(plan, active) };
    team_run(plan_backend(plan)->spec.threads, edge_total(plan, edge), FLOAT_GRAIN, note_part, &flat);
}

VECTOR_LOOPS
static void mask_noted_part(void *arg, uint32_t member, size_t first, size_t end)
{
    float *restrict gradients = ((const struct flat *)arg)->gradients;
    const uint8_t *restrict active = ((const struct flat *)arg)->active;
    (void)member;
    for (size_t i = first; i < end; i++)
        gradients[i] = active[i] ? gradients[i] : 0.0f;
}

void relu_mask_noted(const struct plan *plan, uint32_t edge, uint32_t active)
{
    struct flat flat = { .gradients = plan_gradient(plan, edge), .active = plan_data(plan, active) };
    team_run(plan_backend(plan)->spec.threads, edge_total(plan, edge), FLOAT_GRAIN, mask_noted_part, &flat);
}

/* A ReLU of its own: behind something else than a convolution or dense layer. */
static int relu_plan(struct plan *plan, uint32_t layer)
{
    plan_edge_share(plan, layer);
    if (plan_layer(plan, layer)->folded_into != NET_NO_LAYER)
        return 0;
    plan_use(plan, plan->edges[layer].value, time_forward(layer));
    if (plan_has_gradient(plan, layer)) {
        plan_use(plan, plan->edges[layer].value, time_weights(plan, layer));
        plan_use(plan, plan->edges[layer].gradient, time_weights(plan, layer));
    }
    return 0;
}

static int relu_forward(struct plan *plan, uint32_t layer)
{
    struct flat flat = { .values = plan_value(plan, layer) };
    if (plan_layer(plan, layer)->folded_into == NET_NO_LAYER)
        team_run(plan_backend(plan)->spec.threads, edge_total(plan, layer), FLOAT_GRAIN, relu_part, &flat);
    return 0;
}

static int relu_backward(struct plan *plan, uint32_t layer)
{
    if (plan_layer(plan, layer)->folded_into == NET_NO_LAYER)
        relu_mask(plan, layer, 1.0f);
    return 0;
}

static void nothing_to_release(struct plan *plan, uint32_t layer)
{
    (void)plan;
    (void)layer;
}

const struct layer_ops onednn_relu_ops = {
    .plan = relu_plan,
    .forward = relu_forward,
    .backward = relu_backward,
    .release = nothing_to_release,
};

struct dropout_state {
    struct dropout dropout;
    bool reads_relu;            /* a value above zero was kept and its ReLU is active */
    uint32_t masks;             /* buffer: room for edge_mask per thread */
};

bool dropout_in_pool(const struct plan *plan, uint32_t layer)
{
    const struct net *net = plan_backend(plan)->spec.net;
    const uint32_t before = layer_before(net, layer);
    return net->layers[layer].kind == LAYER_DROPOUT && plan->base.training && before != NET_NO_LAYER &&
           net->layers[before].kind == LAYER_MAX_POOL;
}

static int dropout_plan(struct plan *plan, uint32_t layer)
{
    const struct backend *backend = plan_backend(plan);
    const struct edge *edge = &plan->edges[layer];
    plan_edge_share(plan, layer);
    if (!plan->base.training || dropout_in_pool(plan, layer))
        return 0;
    struct dropout_state *state = calloc(1, sizeof(*state));
    if (state == NULL)
        return -ENOMEM;
    plan->states[layer] = state;
    dropout_init(&state->dropout, backend->spec.seed, layer, plan_layer(plan, layer)->rate);
    state->reads_relu = layer_reads_relu(backend->spec.net, layer);
    const int rc = plan_buffer(plan, backend->spec.threads * 2 * edge_floats(edge), &state->masks);
    if (rc)
        return rc;
    plan_use(plan, edge->value, time_forward(layer));
    plan_use(plan, state->masks, time_forward(layer));
    if (plan_has_gradient(plan, layer)) {
        plan_use(plan, edge->gradient, time_weights(plan, layer));
        plan_use(plan, state->reads_relu ? edge->value : state->masks, time_weights(plan, layer));
    }
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
    float *numbers;             /* values or gradients */
};

static void dropout_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct dropout_work *work = arg;
    const struct dropout_state *state = work->state;
    const size_t floats = edge_floats(work->edge);
    uint8_t *mask = (uint8_t *)plan_data(work->plan, state->masks) + member * 2 * floats;
    for (size_t i = first; i < end; i++) {
        float *numbers = work->numbers + i * floats;
        edge_mask(work->plan, work->edge, &state->dropout, i, mask);
        dropout_apply(&state->dropout, mask, numbers, numbers, floats);
    }
}

static void dropout_run(struct plan *plan, uint32_t layer, float *numbers)
{
    struct dropout_work work = { plan, &plan->edges[layer], plan->states[layer], numbers };
    team_run(plan_backend(plan)->spec.threads, plan->base.count, 1, dropout_samples, &work);
}

static int dropout_forward(struct plan *plan, uint32_t layer)
{
    if (plan->states[layer] != NULL)
        dropout_run(plan, layer, plan_value(plan, layer));
    return 0;
}

static int dropout_backward(struct plan *plan, uint32_t layer)
{
    const struct dropout_state *state = plan->states[layer];
    if (state == NULL)
        return 0;
    if (state->reads_relu)
        relu_mask(plan, layer, state->dropout.scale);
    else
        dropout_run(plan, layer, plan_gradient(plan, layer));
    return 0;
}

static void dropout_release(struct plan *plan, uint32_t layer)
{
    free(plan->states[layer]);
}

const struct layer_ops onednn_dropout_ops = {
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .release = dropout_release,
};
