/* The null backend computes nothing and needs no memory. Towers return their slots at once and count every sample,
 * so that a run measures the loader and the transfer of batches alone. */
#include "compute/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct null_backend {
    struct backend_base base;
    const struct net *net;
};

struct null_plan {
    struct plan_base base;
};

static int null_supports(const struct backend_spec *spec, struct unsupported_reason *reason)
{
    (void)spec, (void)reason;
    return 0;
}

static int null_open(struct backend **backend_out, const struct backend_spec *spec)
{
    struct null_backend *const backend = calloc(1, sizeof(*backend));
    if (backend == NULL)
        return -ENOMEM;
    *backend = (struct null_backend){ .base = { .ops = &backend_null_ops }, .net = spec->net };
    *backend_out = (struct backend *)backend;
    return 0;
}

static void null_close(struct backend *backend)
{
    free(backend);
}

/* ---- parameters: none are stored ---- */

static int null_stored_sizes(struct backend *base, size_t *stored_counts)
{
    const struct null_backend *const backend = (const struct null_backend *)base;
    for (uint32_t i = 0; i < backend->net->parameter_count; i++)
        stored_counts[i] = 0;
    return 0;
}

static void null_lay_out(struct backend *backend, const struct arenas *arenas)
{
    (void)backend, (void)arenas;
}

static void null_needs(const struct backend *backend, struct backend_needs *needs_out)
{
    (void)backend;
    *needs_out = (struct backend_needs){ .values = 0 };
}

static int null_bind(struct backend *backend, const struct backend_memory *memory)
{
    (void)backend, (void)memory;
    return 0;
}

static int null_allocate(struct backend *backend)
{
    (void)backend;
    return 0;
}

static int null_pack(struct backend *backend, uint32_t parameter, const float *plain, float *stored)
{
    (void)backend, (void)parameter, (void)plain, (void)stored;
    return 0;
}

static int null_unpack(struct backend *base, uint32_t parameter, const float *stored, float *plain)
{
    const struct null_backend *const backend = (const struct null_backend *)base;
    (void)stored;
    for (size_t i = 0; i < backend->net->parameters[parameter].count; i++)
        plain[i] = 0;
    return 0;
}

static int null_plain(const struct backend *backend, uint32_t parameter, const float *stored, float *plain)
{
    return null_unpack((struct backend *)backend, parameter, stored, plain);
}

/* ---- plans and steps ---- */

static int null_plan(struct backend *backend, const struct plan_spec *spec, struct plan **plan_out)
{
    struct null_plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->base = (struct plan_base){ .backend = backend, .count = spec->count, .training = spec->training };
    *plan_out = (struct plan *)plan;
    return 0;
}

static void null_plan_close(struct plan *plan)
{
    free(plan);
}

static void null_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg)
{
    (void)plan;
    write(arg, "no layer: nothing is computed");
}

static int null_input(struct plan *plan, const struct backend_input *input)
{
    (void)plan, (void)input;
    return 0;
}

static int null_forward(struct plan *plan)
{
    (void)plan;
    return 0;
}

/* There are no gradients, so all layers are done at once. */
static int null_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    (void)plan;
    layer_done(arg, 0);
    return 0;
}

static int null_result(struct plan *plan, struct backend_result *result_out)
{
    *result_out = (struct backend_result){ .counted = ((const struct null_plan *)plan)->base.count, .loss_scale = 1 };
    return 0;
}

/* Nothing is predicted, so no sample has an answer. */
static int null_answers(struct plan *plan, struct answer *answers_out)
{
    for (uint32_t i = 0; i < ((const struct null_plan *)plan)->base.count; i++)
        answers_out[i] = (struct answer){ .label = -1 };
    return 0;
}

static int null_values(struct plan *plan, uint32_t layer, float *values_out)
{
    const struct plan_base *const base = &((const struct null_plan *)plan)->base;
    const struct net *const net = ((const struct null_backend *)base->backend)->net;
    memset(values_out, 0, base->count * shape_count(net->layers[layer].in) * sizeof(*values_out));
    return 0;
}

static int null_squares(struct backend *backend, const struct squares *squares, uint32_t count)
{
    (void)backend, (void)squares, (void)count;
    return 0;
}

static int null_update(struct backend *backend, const struct optimizer *optimizer, const struct optimizer_step *step,
                       const struct optimizer_range *ranges, uint32_t range_count)
{
    (void)backend, (void)optimizer, (void)step, (void)ranges, (void)range_count;
    return 0;
}

static int null_axpby(struct backend *backend, float *floats, const float *more, size_t count, float share, float keep)
{
    (void)backend, (void)floats, (void)more, (void)count, (void)share, (void)keep;
    return 0;
}

static int null_scale(struct backend *backend, float *floats, size_t count, float factor)
{
    (void)backend, (void)floats, (void)count, (void)factor;
    return 0;
}

static int null_to_bf16(struct backend *backend, const float *floats, uint16_t *halves, size_t count)
{
    (void)backend, (void)floats, (void)halves, (void)count;
    return 0;
}

static int null_from_bf16(struct backend *backend, const uint16_t *halves, float *floats, size_t count)
{
    (void)backend, (void)halves, (void)floats, (void)count;
    return 0;
}

static int null_clip_value(struct backend *backend, float *gradients, size_t count, float limit)
{
    (void)backend, (void)gradients, (void)count, (void)limit;
    return 0;
}

const struct backend_ops backend_null_ops = {
    .name = "null",
    .host_memory = true,
    .device = "null",
    .supports = null_supports,
    .open = null_open,
    .close = null_close,
    .stored_sizes = null_stored_sizes,
    .lay_out = null_lay_out,
    .needs = null_needs,
    .bind = null_bind,
    .allocate = null_allocate,
    .pack = null_pack,
    .unpack = null_unpack,
    .plain = null_plain,
    .plan = null_plan,
    .plan_close = null_plan_close,
    .plan_describe = null_plan_describe,
    .input = null_input,
    .forward = null_forward,
    .backward = null_backward,
    .result = null_result,
    .answers = null_answers,
    .values = null_values,
    .squares = null_squares,
    .update = null_update,
    .clip_value = null_clip_value,
    .scale = null_scale,
    .to_bf16 = null_to_bf16,
    .from_bf16 = null_from_bf16,
    .axpby = null_axpby,
};
