/* The reference backend: the one the others must match. Parameters are stored row-major,
 * as they are named; layers run one after the other in the tower's thread, on a device
 * whose memory the host reads and writes (reference_layers.c has their loops). */
#include "compute/reference/reference_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/scale.h"

struct reference {
    struct backend_base base;
    struct backend_spec spec;
    const struct arena *arena;
    float *weights, *gradients;
};

static const struct layer_ops *ops_of(const struct reference_plan *plan, uint32_t layer)
{
    return &reference_layer_table[plan->net->layers[layer].kind];
}

/* ---- memory of a plan ---- */

void *reference_alloc(struct reference_plan *plan, size_t count, size_t item_bytes)
{
    void *memory;
    if (count > SIZE_MAX / item_bytes)
        return NULL;
    if (plan->device->ops->alloc(plan->device, count * item_bytes, &memory) != 0)
        return NULL;
    plan->bytes += count * item_bytes;
    return memory;
}

void reference_free(struct reference_plan *plan, void *memory)
{
    if (memory != NULL)
        plan->device->ops->free(plan->device, memory);
}

/* ---- opening, parameters ---- */

static int reference_supports(const struct backend_spec *spec, struct refusal *refusal)
{
    if (spec->precision == PRECISION_FP32)
        return 0;
    return refusal_write(refusal, -ENODEV, "precision", "the CPU computes in fp32 only");
}

static int reference_open(struct backend **backend_out, const struct backend_spec *spec)
{
    const int rc = backend_check(&backend_reference_ops, spec);
    if (rc != 0)
        return rc;
    struct reference *const backend = calloc(1, sizeof(*backend));
    if (backend == NULL)
        return -ENOMEM;
    backend->base.ops = &backend_reference_ops;
    backend->spec = *spec;
    *backend_out = (struct backend *)backend;
    return 0;
}

static void reference_close(struct backend *backend)
{
    free(backend);
}

static int reference_store(struct backend *base, size_t *stored_counts)
{
    const struct net *const net = ((struct reference *)base)->spec.net;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        stored_counts[i] = net->parameters[i].count;
    return 0;
}

static int reference_bind(struct backend *base, const struct arena *arena, float *weights, float *gradients)
{
    struct reference *const backend = (struct reference *)base;
    backend->arena = arena;
    backend->weights = weights;
    backend->gradients = gradients;
    return 0;
}

static int reference_pack(struct backend *base, uint32_t parameter, const float *plain, float *stored)
{
    const struct net *const net = ((struct reference *)base)->spec.net;
    memcpy(stored, plain, net->parameters[parameter].count * sizeof(float));
    return 0;
}

static int reference_unpack(struct backend *base, uint32_t parameter, const float *stored, float *plain)
{
    return reference_pack(base, parameter, stored, plain);
}

static int reference_plain(const struct backend *base, uint32_t parameter, const float *stored, float *plain)
{
    const struct net *const net = ((const struct reference *)base)->spec.net;
    memcpy(plain, stored, net->parameters[parameter].count * sizeof(float));
    return 0;
}

/* ---- plans ---- */

static void reference_plan_close(struct plan *base)
{
    struct reference_plan *const plan = reference_plan_of(base);
    if (plan == NULL)
        return;
    for (uint32_t i = 0; plan->layers != NULL && i < plan->net->layer_count; i++)
        ops_of(plan, i)->release(base, i);
    reference_free(plan, plan->image);
    reference_free(plan, plan->labels);
    free(plan->layers);
    free(plan);
}

static int plan_layers(struct reference_plan *plan)
{
    plan->layers = calloc(plan->net->layer_count, sizeof(*plan->layers));
    plan->image = reference_alloc(plan, plan->base.count * shape_count(plan->net->input), sizeof(*plan->image));
    plan->labels = reference_alloc(plan, plan->base.count, sizeof(*plan->labels));
    int rc = plan->layers != NULL && plan->image != NULL && plan->labels != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < plan->net->layer_count && rc == 0; i++)
        rc = ops_of(plan, i)->plan((struct plan *)plan, i);
    return rc;
}

static int reference_plan(struct backend *base, uint32_t count, bool training, struct plan **plan_out)
{
    const struct reference *const backend = (const struct reference *)base;
    struct reference_plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    *plan = (struct reference_plan){
        .base = { .backend = base, .count = count, .training = training },
        .net = backend->spec.net,
        .device = backend->spec.device,
        .seed = backend->spec.seed,
        .weights = backend->weights,
        .gradients = backend->gradients,
        .arena = backend->arena,
    };
    const int rc = plan_layers(plan);
    if (rc != 0) {
        reference_plan_close((struct plan *)plan);
        return rc;
    }
    *plan_out = (struct plan *)plan;
    return 0;
}

static size_t reference_plan_bytes(const struct plan *plan)
{
    return ((const struct reference_plan *)plan)->bytes;
}

static void reference_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg)
{
    (void)plan;
    write(arg, "every layer: plain loops, N,C,H,W");
}

/* ---- a step ---- */

static int reference_input(struct plan *base, const struct backend_input *input)
{
    struct reference_plan *const plan = reference_plan_of(base);
    const size_t channels = plan->net->input.channels;
    const size_t pixels = (size_t)plan->net->input.height * plan->net->input.width;
    for (size_t n = 0; n < plan->base.count; n++)
        for (size_t c = 0; c < channels; c++)
            for (size_t i = 0; i < pixels; i++)
                plan->image[(n * channels + c) * pixels + i] =
                    (float)input->pixels[(n * pixels + i) * channels + c] / 255.0f;
    memcpy(plan->labels, input->labels, plan->base.count * sizeof(*plan->labels));
    plan->first_position = input->first_position;
    plan->epoch = input->epoch;
    return 0;
}

static int reference_forward(struct plan *base)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    int rc = 0;
    for (uint32_t i = 0; i < plan->net->layer_count && rc == 0; i++)
        rc = ops_of(plan, i)->forward(base, i);
    return rc;
}

static int reference_backward(struct plan *base, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    assert(plan->base.training);
    int rc = 0;
    for (uint32_t i = plan->net->layer_count; i-- > 0 && rc == 0;) {
        rc = ops_of(plan, i)->backward(base, i);
        if (rc == 0 && plan->net->layers[i].weight != NET_NO_PARAMETER)
            layer_done(arg, i);
    }
    return rc;
}

static int reference_result(struct plan *base, struct backend_result *result_out)
{
    *result_out = reference_plan_of(base)->result;
    return 0;
}

static int reference_update(struct backend *backend, const struct optimizer *optimizer, float learning_rate,
                            float gradient_scale, const struct optimizer_range *range)
{
    (void)backend;
    optimizer_update(optimizer, learning_rate, gradient_scale, range);
    return 0;
}

static int reference_scale(struct backend *backend, float *floats, size_t count, float factor)
{
    (void)backend;
    scale_floats(floats, count, factor);
    return 0;
}

const struct backend_ops backend_reference_ops = {
    .name = "reference",
    .host_memory = true,
    .device = "cpu",
    .computes = true,
    .supports = reference_supports,
    .open = reference_open,
    .close = reference_close,
    .store = reference_store,
    .bind = reference_bind,
    .pack = reference_pack,
    .unpack = reference_unpack,
    .plain = reference_plain,
    .plan = reference_plan,
    .plan_close = reference_plan_close,
    .plan_bytes = reference_plan_bytes,
    .plan_describe = reference_plan_describe,
    .input = reference_input,
    .forward = reference_forward,
    .backward = reference_backward,
    .result = reference_result,
    .update = reference_update,
    .scale = reference_scale,
};
