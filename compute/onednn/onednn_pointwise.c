/* Loops of ours over values and gradients that change every number by itself: ReLU, dropout. They share the tower's
 * threads. */
#include "compute/onednn/onednn_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/team.h"
#include "compute/vector.h"

#define VALUE_GRAIN 1024u       /* numbers a thread takes at least */

/* ---- gradients through masks ---- */

struct pass_work {
    enum value_type type;
    struct gradient_pass pass;
};

ALWAYS_INLINE void pass_by_values(enum value_type type, const struct gradient_pass *pass, size_t first, size_t end)
{
    const void *const from = pass->from, *const values = pass->values;
    void *const to = pass->to;
    const float scale = pass->scale;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++) {
        const float scaled = value_read(type, from, i) * scale;
        value_write(type, to, i, value_read(type, values, i) > 0.0f ? scaled : 0.0f);
    }
}

ALWAYS_INLINE void pass_noted(enum value_type type, const struct gradient_pass *pass, size_t first, size_t end)
{
    const void *const from = pass->from;
    const uint8_t *const active = pass->active;
    void *const to = pass->to;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++)
        value_write(type, to, i, active[i] ? value_read(type, from, i) : 0.0f);
}

ALWAYS_INLINE void add_by_values(enum value_type type, const struct gradient_pass *pass, size_t first, size_t end)
{
    const void *const from = pass->from, *const values = pass->values;
    void *const to = pass->to;
    const float scale = pass->scale;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++) {
        const float passed = value_read(type, values, i) > 0.0f ? value_read(type, from, i) * scale : 0.0f;
        value_write(type, to, i, value_read(type, to, i) + passed);
    }
}

ALWAYS_INLINE void add_all(enum value_type type, const struct gradient_pass *pass, size_t first, size_t end)
{
    const void *const from = pass->from;
    void *const to = pass->to;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++)
        value_write(type, to, i, value_read(type, to, i) + value_read(type, from, i));
}

static void copy_all(enum value_type type, const struct gradient_pass *pass, size_t first, size_t end)
{
    if (pass->to != pass->from)
        memcpy(value_at(type, pass->to, first), value_at(type, pass->from, first), (end - first) * value_size(type));
}

VECTOR_LOOPS
static void pass_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const enum value_type type = ((const struct pass_work *)arg)->type;
    const struct gradient_pass *const pass = &((const struct pass_work *)arg)->pass;
    (void)member;
    if (pass->active != NULL)
        FOR_TYPE(type, pass_noted, pass, first, end);
    else if (pass->values != NULL && pass->adds)
        FOR_TYPE(type, add_by_values, pass, first, end);
    else if (pass->values != NULL)
        FOR_TYPE(type, pass_by_values, pass, first, end);
    else if (pass->adds)
        FOR_TYPE(type, add_all, pass, first, end);
    else
        copy_all(type, pass, first, end);
}

void gradient_run(const struct plan *plan, const struct gradient_pass *pass)
{
    struct pass_work work = { plan_type(plan), *pass };
    team_run(plan_backend(plan)->spec.threads, pass->count, VALUE_GRAIN, pass_part, &work);
}

void gradient_hand_on(const struct plan *plan, const void *from, const struct flow *flow, size_t count)
{
    if (flow->buffer == BUFFER_NONE || plan_data(plan, flow->buffer) == from)
        return;
    const struct gradient_pass pass = {
        .from = from, .to = plan_data(plan, flow->buffer), .count = count, .scale = 1.0f, .adds = flow->adds };
    gradient_run(plan, &pass);
}

struct note_work { enum value_type type; const void *values; uint8_t *active; };

ALWAYS_INLINE void note(enum value_type type, const void *restrict values, uint8_t *restrict active, size_t first,
                        size_t end)
{
    for (size_t i = first; i < end; i++)
        active[i] = value_read(type, values, i) > 0.0f;
}

VECTOR_LOOPS
static void note_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct note_work *const work = arg;
    (void)member;
    FOR_TYPE(work->type, note, work->values, work->active, first, end);
}

void relu_note(const struct plan *plan, uint32_t value, uint32_t active)
{
    struct note_work work = { plan_type(plan), plan_value(plan, value), plan_data(plan, active) };
    team_run(plan_backend(plan)->spec.threads, value_total(plan, value), VALUE_GRAIN, note_part, &work);
}

/* ---- ReLU of its own: behind something it is not folded into ---- */

static void relu_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    (void)plan, (void)layer;
    *use_out = (struct value_use){
        .out_until = PHASE_INPUTS, .out_sign = true, .in_place = true, .keeps_sign = true, .gradient_in_place = true,
        .adds = true };
}

struct relu_work { enum value_type type; const void *from; void *to; };

ALWAYS_INLINE void relu(enum value_type type, const void *from, void *to, size_t first, size_t end)
{
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++) {
        const float value = value_read(type, from, i);
        value_write(type, to, i, value > 0.0f ? value : 0.0f);
    }
}

VECTOR_LOOPS
static void relu_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct relu_work *const work = arg;
    (void)member;
    FOR_TYPE(work->type, relu, work->from, work->to, first, end);
}

static int relu_forward(struct plan *plan, uint32_t layer)
{
    const uint32_t from = plan_input(&plan->base, layer, 0), to = plan_output(&plan->base, layer);
    struct relu_work work = { plan_type(plan), plan_value(plan, from), plan_value(plan, to) };
    team_run(plan_backend(plan)->spec.threads, value_total(plan, to), VALUE_GRAIN, relu_part, &work);
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
    uint32_t masks;             /* buffer: room for tensor_mask per thread */
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
    const int rc = plan_buffer(plan, backend->spec.threads * 2 * tensor_count(out_tensor(plan, layer)), &state->masks);
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

void tensor_mask(const struct plan *plan, const struct tensor_layout *tensor, const struct dropout *dropout,
                 size_t sample, uint8_t *mask_out)
{
    const size_t pixels = tensor_pixels(tensor), block = tensor->block, channels = tensor->shape.channels;
    const bool in_order = block == 1 || pixels == 1;
    uint8_t *plain = in_order ? mask_out : mask_out + tensor_count(tensor);
    dropout_mask(dropout, plan->epoch, plan->first_position + sample, pixels * channels, plain);
    for (size_t first = 0; first < channels && !in_order; first += block)
        mask_block(plain + first * pixels, pixels, block, channels - first < block ? channels - first : block,
                   mask_out + first * pixels);
}

struct dropout_work {
    const struct plan *plan;
    const struct tensor_layout *tensor;
    const struct dropout_state *state;
    const void *from;           /* values or gradients */
    void *to;
};

/* to[i] = mask[i] ? from[i] * scale : 0. */
ALWAYS_INLINE void drop(enum value_type type, const uint8_t *mask, float scale, const void *from, void *to,
                        size_t count)
{
    INDEPENDENT_ITERATIONS
    for (size_t i = 0; i < count; i++)
        value_write(type, to, i, mask[i] ? value_read(type, from, i) * scale : 0.0f);
}

VECTOR_LOOPS
static void drop_any(enum value_type type, const uint8_t *mask, float scale, const void *from, void *to, size_t count)
{
    FOR_TYPE(type, drop, mask, scale, from, to, count);
}

static void dropout_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct dropout_work *const work = arg;
    const struct dropout_state *const state = work->state;
    const enum value_type type = plan_type(work->plan);
    const size_t count = tensor_count(work->tensor);
    uint8_t *const mask = (uint8_t *)plan_data(work->plan, state->masks) + member * 2 * count;
    for (size_t i = first; i < end; i++) {
        tensor_mask(work->plan, work->tensor, &state->dropout, i, mask);
        drop_any(type, mask, state->dropout.scale, value_at(type, work->from, i * count),
                 value_at(type, work->to, i * count), count);
    }
}

static void dropout_run(struct plan *plan, uint32_t layer, const void *from, void *to)
{
    struct dropout_work work = { plan, out_tensor(plan, layer), plan->states[layer], from, to };
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
