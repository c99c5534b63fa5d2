/* Layers that change every number by itself, by our own loops on the tower's threads: ReLU, dropout, addition; and the
 * passes of gradients through masks. */
#include "compute/onednn/onednn_plan.h"

#include <string.h>

#include "compute/vector.h"

#define VALUE_GRAIN 1024u       /* fewest numbers per thread */

/* ---- elementwise passes ---- */

struct elementwise_work { enum value_type type; struct elementwise pass; };

ALWAYS_INLINE void mask_by_values(enum value_type type, const struct elementwise *pass, bool adds, size_t first,
                                  size_t end)
{
    const void *const from = pass->from, *const values = pass->values, *const addend = pass->addend;
    void *const to = pass->to;
    const float scale = pass->scale;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++) {
        const float scaled = value_read(type, from, i) * scale;
        const float passed = value_read(type, values, i) > 0.0f ? scaled : 0.0f;
        value_write(type, to, i, adds ? value_read(type, addend, i) + passed : passed);
    }
}

ALWAYS_INLINE void mask_by_bytes(enum value_type type, const struct elementwise *pass, size_t first, size_t end)
{
    const void *const from = pass->from;
    const uint8_t *const mask = pass->mask;
    void *const to = pass->to;
    const float scale = pass->scale;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++)
        value_write(type, to, i, mask[i] ? value_read(type, from, i) * scale : 0.0f);
}

ALWAYS_INLINE void add(enum value_type type, const struct elementwise *pass, size_t first, size_t end)
{
    const void *const from = pass->from, *const addend = pass->addend;
    void *const to = pass->to;
    INDEPENDENT_ITERATIONS
    for (size_t i = first; i < end; i++)
        value_write(type, to, i, value_read(type, addend, i) + value_read(type, from, i));
}

static void copy(enum value_type type, const struct elementwise *pass, size_t first, size_t end)
{
    if (pass->to != pass->from)
        memcpy(value_at(type, pass->to, first), value_at(type, pass->from, first), (end - first) * value_size(type));
}

VECTOR_LOOPS
static void elementwise_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const enum value_type type = ((const struct elementwise_work *)arg)->type;
    const struct elementwise *const pass = &((const struct elementwise_work *)arg)->pass;
    (void)member;
    if (pass->mask != NULL)
        FOR_TYPE(type, mask_by_bytes, pass, first, end);
    else if (pass->values != NULL && pass->addend != NULL)
        FOR_TYPE(type, mask_by_values, pass, true, first, end);
    else if (pass->values != NULL)
        FOR_TYPE(type, mask_by_values, pass, false, first, end);
    else if (pass->addend != NULL)
        FOR_TYPE(type, add, pass, first, end);
    else
        copy(type, pass, first, end);
}

void elementwise_run(const struct plan *plan, size_t count, const struct elementwise *pass)
{
    struct elementwise_work work = { plan_type(plan), *pass };
    plan_run(plan, count, VALUE_GRAIN, elementwise_part, &work);
}

void gradient_copy(const struct plan *plan, const void *from, const struct flow *flow, size_t count)
{
    if (flow->buffer == BUFFER_NONE || plan_data(plan, flow->buffer) == from)
        return;
    void *const to = plan_data(plan, flow->buffer);
    elementwise_run(plan, count, &(struct elementwise){ .from = from, .to = to, .scale = 1.0f,
                                                        .addend = flow->adds ? to : NULL });
}

struct mask_work { enum value_type type; const void *values; uint8_t *mask; };

ALWAYS_INLINE void store_mask(enum value_type type, const void *restrict values, uint8_t *restrict mask, size_t first,
                              size_t end)
{
    for (size_t i = first; i < end; i++)
        mask[i] = value_read(type, values, i) > 0.0f;
}

VECTOR_LOOPS
static void store_mask_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct mask_work *const work = arg;
    (void)member;
    FOR_TYPE(work->type, store_mask, work->values, work->mask, first, end);
}

void relu_store_mask(const struct plan *plan, uint32_t value, uint32_t mask)
{
    struct mask_work work = { plan_type(plan), plan_value(plan, value), plan_data(plan, mask) };
    plan_run(plan, value_total(plan, value), VALUE_GRAIN, store_mask_part, &work);
}

/* ---- ReLU, where it is not fused into the layer before ---- */

static int relu_forward(struct plan *plan, uint32_t layer)
{
    const void *const in = in_value(plan, layer, 0);
    elementwise_run(plan, value_total(plan, plan_output(&plan->base, layer)),
                    &(struct elementwise){ .from = in, .values = in, .to = out_value(plan, layer), .scale = 1.0f });
    return 0;
}

static void mask_by_result(const struct plan *plan, uint32_t layer, float scale)
{
    void *const to = in_gradient(plan, layer, 0);
    elementwise_run(plan, value_total(plan, plan_output(&plan->base, layer)),
                    &(struct elementwise){ .from = out_gradient(plan, layer), .values = out_value(plan, layer),
                                           .to = to, .scale = scale,
                                           .addend = plan_flow(&plan->base, layer, 0)->adds ? to : NULL });
}

static int relu_backward(struct plan *plan, uint32_t layer)
{
    mask_by_result(plan, layer, 1.0f);
    return 0;
}

const struct layer_ops onednn_relu_ops = {
    .uses = { .out_until = PASS_INPUTS, .out_sign = true, .in_place = true, .keeps_sign = true,
              .gradient_in_place = true, .adds = true },
    .forward = relu_forward,
    .backward_inputs = relu_backward,
};

/* ---- dropout ---- */

struct dropout_state {
    struct dropout dropout;
    bool reads_relu;            /* the input is the result of a ReLU, so a result above 0 was kept by dropout and passed
                                 * by the ReLU */
    uint32_t masks;             /* buffer: [thread], for tensor_mask */
};

static bool dropout_reads_relu(const struct plan *plan, uint32_t layer)
{
    return value_is_relu(plan, plan_input(&plan->base, layer, 0));
}

static void dropout_use(const struct plan *plan, uint32_t layer, struct value_use *use_out)
{
    *use_out = (struct value_use){
        .out_until = dropout_reads_relu(plan, layer) ? PASS_INPUTS : PASS_FORWARD, .out_sign = true,
        .in_place = true, .keeps_sign = true, .is_identity = !plan->base.training, .gradient_in_place = true };
}

static int dropout_plan(struct plan *plan, uint32_t layer)
{
    const struct backend *const backend = plan_backend(plan);
    if (!plan->base.training)
        return 0;
    struct dropout_state *const state = plan->base.states[layer];
    dropout_init(&state->dropout, backend->spec.seed, net_random_stream(plan->base.net, layer),
                 plan_layer(plan, layer)->rate);
    state->reads_relu = dropout_reads_relu(plan, layer);
    const int rc = plan_scratch(plan, layer, backend->spec.threads * 2 * tensor_count(out_tensor(plan, layer)),
                                PASS_FORWARD, PASS_FORWARD, &state->masks);
    if (rc == 0 && plan_has_inputs(&plan->base, layer) && !state->reads_relu)
        plan_use(plan, state->masks, layer, PASS_INPUTS, PASS_INPUTS);
    return rc;
}

VECTOR_LOOPS
static void reorder_block(const uint8_t *restrict from, size_t pixels, size_t block, size_t channels,
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
        reorder_block(plain + first * pixels, pixels, block, channels - first < block ? channels - first : block,
                      mask_out + first * pixels);
}

struct dropout_work {
    const struct plan *plan;
    const struct tensor_layout *tensor;
    const struct dropout_state *state;
    const void *from;           /* values or gradients */
    void *to;
};

static void dropout_samples(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct dropout_work *const work = arg;
    const enum value_type type = plan_type(work->plan);
    const size_t count = tensor_count(work->tensor);
    uint8_t *const mask = (uint8_t *)plan_data(work->plan, work->state->masks) + member * 2 * count;
    for (size_t i = first; i < end; i++) {
        struct elementwise_work sample = { type, { .from = value_at(type, work->from, i * count),
                                                   .to = value_at(type, work->to, i * count), .mask = mask,
                                                   .scale = work->state->dropout.scale } };
        tensor_mask(work->plan, work->tensor, &work->state->dropout, i, mask);
        elementwise_part(&sample, member, 0, count);
    }
}

static void dropout_run(struct plan *plan, uint32_t layer, const void *from, void *to)
{
    struct dropout_work work = { plan, out_tensor(plan, layer), plan->base.states[layer], from, to };
    plan_run(plan, plan->base.count, 1, dropout_samples, &work);
}

static int dropout_forward(struct plan *plan, uint32_t layer)
{
    if (plan->base.training)
        dropout_run(plan, layer, in_value(plan, layer, 0), out_value(plan, layer));
    return 0;
}

static int dropout_backward(struct plan *plan, uint32_t layer)
{
    const struct dropout_state *const state = plan->base.states[layer];
    if (state->reads_relu)
        mask_by_result(plan, layer, state->dropout.scale);
    else
        dropout_run(plan, layer, out_gradient(plan, layer), in_gradient(plan, layer, 0));
    return 0;
}

const struct layer_ops onednn_dropout_ops = {
    .use = dropout_use,
    .state_bytes = sizeof(struct dropout_state),
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward_inputs = dropout_backward,
};

/* ---- add: both inputs and the result have the same layout ---- */

static int add_forward(struct plan *plan, uint32_t layer)
{
    elementwise_run(plan, value_total(plan, plan_output(&plan->base, layer)),
                    &(struct elementwise){ .addend = in_value(plan, layer, 0), .from = in_value(plan, layer, 1),
                                           .to = out_value(plan, layer) });
    return 0;
}

static int add_backward(struct plan *plan, uint32_t layer)
{
    const size_t count = value_total(plan, plan_output(&plan->base, layer));
    for (uint32_t k = 0; k < 2; k++)
        gradient_copy(plan, out_gradient(plan, layer), plan_flow(&plan->base, layer, k), count);
    return 0;
}

const struct layer_ops onednn_add_ops = {
    .uses = { .in_place = true, .gradient_in_place = true, .adds = true },
    .forward = add_forward,
    .backward_inputs = add_backward,
};
