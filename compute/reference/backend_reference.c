/* The reference backend, which the others must match. Parameters are stored in plain row-major order; layers run one
 * after the other in the tower's thread, on host memory; nothing is fused. The loops of the layers are in the other
 * files of this folder. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "compute/reference/reference_plan.h"

static struct reference *reference_of(const struct plan_base *base)
{
    return (struct reference *)base->backend;
}

/* ---- for the layers ---- */

static void find_parameters(struct view *view)
{
    const struct reference *const backend = reference_of(&view->plan->base);
    for (uint32_t kind = 0; kind < PARAMETER_KIND_COUNT; kind++) {
        const uint32_t parameter = view->layer->parameters[kind];
        if (parameter == NET_NO_PARAMETER)
            continue;
        const struct net *const net = backend->spec.net;
        const size_t offset = arenas_of(backend->arenas, net, parameter)->ranges[parameter].offset;
        const bool is_trained = net->parameters[parameter].is_trained;
        float *const gradients = is_trained ? backend->memory.gradients : NULL;
        view->parameters[kind] = (is_trained ? backend->memory.weights : backend->memory.statistics) + offset;
        view->gradients[kind] = gradients != NULL ? gradients + offset : NULL;
    }
}

struct view view_of(struct plan *plan, uint32_t index)
{
    const struct reference_plan *const made = reference_plan_of(plan);
    const struct plan_base *const base = &made->base;
    const struct layer *const layer = &base->net->layers[index];
    struct view view = {
        .plan = made,
        .layer = layer,
        .state = &made->layers[index],
        .samples = base->count,
        .in_count = base->count * shape_count(layer->in),
        .out_count = base->count * shape_count(layer->out),
        .in = in_value(plan, index, 0),
        .out = out_value(plan, index),
        .out_gradient = out_gradient(plan, index),
    };
    for (uint32_t k = 0; k < layer->input_count; k++) {
        view.ins[k] = in_value(plan, index, k);
        view.targets[k] = (struct target){ in_gradient(plan, index, k), plan_flow(base, index, k)->adds };
    }
    find_parameters(&view);
    return view;
}

/* ---- opening, parameters, memory ---- */

static int reference_supports(const struct backend_spec *spec, struct unsupported_reason *reason)
{
    if (spec->precision != PRECISION_FP32)
        return unsupported_reason_set(reason, -ENODEV, "precision", "the reference backend computes in fp32 only");
    if (spec->convolution == CONVOLUTION_WINOGRAD)
        return unsupported_reason_set(reason, -EINVAL, "convolution", "the reference backend computes directly only");
    if (spec->batch_statistics != BATCH_STATISTICS_EXACT)
        return unsupported_reason_set(reason, -EINVAL, "batch_statistics", BATCH_STATISTICS_ON_CPU);
    return 0;
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

static void free_memory(struct reference *backend)
{
    struct device *const device = backend->spec.device;
    if (backend->base.pool != NULL)
        device->ops->free(device, backend->base.pool);
    if (backend->labels != NULL)
        device->ops->free(device, backend->labels);
    backend->base.pool = NULL;
    backend->labels = NULL;
}

static void reference_close(struct backend *base)
{
    if (base == NULL)
        return;
    free_memory((struct reference *)base);
    backend_base_release((struct backend_base *)base);
    free(base);
}

static int reference_stored_sizes(struct backend *base, size_t *stored_counts)
{
    const struct net *const net = ((struct reference *)base)->spec.net;
    for (uint32_t i = 0; i < net->parameter_count; i++)
        stored_counts[i] = net->parameters[i].count;
    return 0;
}

static void reference_lay_out(struct backend *base, const struct arenas *arenas)
{
    ((struct reference *)base)->arenas = arenas;
}

static void reference_needs(const struct backend *base, struct backend_needs *needs_out)
{
    const struct reference *const backend = (const struct reference *)base;
    *needs_out = (struct backend_needs){
        .values = backend_pool_bytes(&backend->base) + backend->label_count * sizeof(*backend->labels),
    };
}

static int reference_bind(struct backend *base, const struct backend_memory *memory)
{
    ((struct reference *)base)->memory = *memory;
    return 0;
}

static int reference_allocate(struct backend *base)
{
    struct reference *const backend = (struct reference *)base;
    struct device *const device = backend->spec.device;
    void *block, *labels;
    free_memory(backend);
    int rc = device->ops->alloc(device, backend_pool_bytes(&backend->base), &block);
    if (rc != 0)
        return rc;
    backend->base.pool = block;
    rc = device->ops->alloc(device, backend->label_count * sizeof(*backend->labels), &labels);
    if (rc == 0)
        backend->labels = labels;
    return rc;
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

static const struct layer_ops *const layer_table[LAYER_ROW_COUNT] = {
    [LAYER_CONV2D] = &reference_conv2d,
    [LAYER_DENSE] = &reference_dense,
    [LAYER_BATCH_NORM] = &reference_batch_norm,
    [LAYER_LAYER_NORM] = &reference_layer_norm,
    [LAYER_SCALE] = &reference_channel_scale,
    [LAYER_RELU] = &reference_relu,
    [LAYER_ACTIVATION] = &reference_activation,
    [LAYER_MAX_POOL] = &reference_max_pool,
    [LAYER_AVERAGE_POOL] = &reference_average_pool,
    [LAYER_DROPOUT] = &reference_dropout,
    [LAYER_STOCHASTIC_DEPTH] = &reference_stochastic_depth,
    [LAYER_LOCAL_RESPONSE_NORM] = &reference_local_response_norm,
    [LAYER_ADD] = &reference_add,
    [LAYER_MULTIPLY] = &reference_multiply,
    [LAYER_CONCAT] = &reference_concat,
    [LAYER_PAD_CHANNELS] = &reference_pad_channels,
    [LAYER_AUXILIARY_LOSS] = &reference_loss,
    [LAYER_SOFTMAX_LOSS] = &reference_loss,
    [LAYER_SEND] = &reference_send,
    [LAYER_RECEIVE] = &reference_receive,
    [LAYER_PART_LOSS] = &reference_part_loss,
};

static size_t reference_value_bytes(const struct plan *plan, uint32_t value)
{
    const struct plan_base *const base = (const struct plan_base *)plan;
    const size_t count = shape_count(plan_shape(base, value));
    return count <= SIZE_MAX / sizeof(float) / base->count ? count * base->count * sizeof(float) : 0;
}

static int reference_add_gradient(struct plan *base, uint32_t value, uint32_t from, uint32_t to)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    const float *const added = reference_buffer(plan, from);
    float *const sum = reference_buffer(plan, to);
    const size_t count = plan->base.count * shape_count(plan_shape(&plan->base, value));
    for (size_t i = 0; i < count; i++)
        sum[i] += added[i];
    return 0;
}

static const struct plan_ops reference_plan_ops = {
    .layers = layer_table,
    .value_bytes = reference_value_bytes,
    .add = reference_add_gradient,
};

static void reference_plan_close(struct plan *base)
{
    struct reference_plan *const plan = reference_plan_of(base);
    if (plan == NULL)
        return;
    plan_base_close(&plan->base);
    free(plan->layers);
    free(plan);
}

static int open_layers(struct reference_plan *plan)
{
    const uint32_t layer_count = plan->base.net->layer_count;
    plan->layers = calloc(layer_count, sizeof(*plan->layers));
    if (plan->layers == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < layer_count; i++)
        plan->layers[i] = (struct reference_layer){ BUFFER_NONE, BUFFER_NONE, BUFFER_NONE, { .scale = 1 } };
    return plan_base_open(&plan->base);
}

static void require(struct reference *backend, const struct plan_base *plan)
{
    if (plan->count > backend->label_count)
        backend->label_count = plan->count;
}

static int reference_plan(struct backend *base, const struct plan_spec *spec, struct plan **plan_out)
{
    struct reference *const backend = (struct reference *)base;
    struct reference_plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->base = (struct plan_base){
        .backend = base,
        .ops = &reference_plan_ops,
        .net = backend_net(&backend->spec, spec->training),
        .keeps_embedding = backend->spec.keeps_embedding,
    };
    plan_base_use(&plan->base, spec);
    int rc = open_layers(plan);
    if (rc == 0)
        rc = plan_base_claim(&plan->base);
    if (rc != 0) {
        reference_plan_close((struct plan *)plan);
        return rc;
    }
    require(backend, &plan->base);
    *plan_out = (struct plan *)plan;
    return 0;
}

static void reference_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg)
{
    (void)plan;
    write(arg, "every layer: plain loops, N,C,H,W");
}

/* ---- a step ---- */

static float transformed(const struct input_transform *transform, float pixel, size_t channel)
{
    const float scaled = pixel / transform->divisor;
    return transform->is_plain ? scaled : (scaled - transform->mean[channel]) / transform->std[channel];
}

/* Transform one sample, mixed with its partner. */
static void transform_sample(const struct net *net, const struct mix *mix, const uint8_t *own, const uint8_t *other,
                             float *image)
{
    const uint32_t channels = net->input.channels, width = net->input.width;
    for (uint32_t c = 0; c < channels; c++)
        for (uint32_t y = 0; y < net->input.height; y++)
            for (uint32_t x = 0; x < width; x++) {
                const size_t i = (size_t)y * width + x, at = i * channels + c;
                image[c * shape_area(net->input) + i] =
                    transformed(&net->transform, mixing_pixel(mix, own[at], other[at], y, x), c);
            }
}

static void transform_samples(const struct reference_plan *plan, const struct backend_input *input, float *images)
{
    const struct net *const net = plan->base.net;
    const size_t numbers = shape_count(net->input);
    const uint32_t count = plan->base.count;
    for (uint32_t n = 0; n < count; n++) {
        const struct mix mix = mixing_find(input->mixes, input->labels, n, count);
        transform_sample(net, &mix, input->pixels + n * numbers, input->pixels + mixing_partner(n, count) * numbers,
                         images + n * numbers);
    }
}

static int reference_input(struct plan *base, const struct backend_input *input)
{
    struct reference_plan *const plan = reference_plan_of(base);
    struct reference *const backend = reference_of(&plan->base);
    plan->base.poisoned = backend->spec.poison ? plan_block(&plan->base) : NULL;
    if (input->pixels != NULL)
        transform_samples(plan, input, plan_value(base, 0));
    for (uint32_t n = 0; n < plan->base.count && input->labels != NULL; n++)
        backend->labels[n] = mixing_label(input->mixes, input->labels, n, plan->base.count);
    plan->first_position = input->first_position;
    plan->epoch = input->epoch;
    return 0;
}

static int reference_forward(struct plan *plan)
{
    reference_plan_of(plan)->result = (struct backend_result){ .loss_scale = 1 };
    return plan_base_forward(&reference_plan_of(plan)->base);
}

static int reference_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    return plan_base_backward(&reference_plan_of(plan)->base, layer_done, arg);
}

static int reference_result(struct plan *base, struct backend_result *result_out)
{
    *result_out = reference_plan_of(base)->result;
    return 0;
}

static int reference_answers(struct plan *base, struct answer *answers_out)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    memcpy(answers_out, plan_data(base, plan->base.answers), plan->base.count * sizeof(*answers_out));
    return 0;
}

static int reference_values(struct plan *base, uint32_t layer, float *values_out)
{
    const struct reference_plan *const plan = reference_plan_of(base);
    const size_t count = plan->base.count * shape_count(plan->base.net->layers[layer].in);
    memcpy(values_out, in_value(base, layer, 0), count * sizeof(*values_out));
    return 0;
}

static int reference_send_nothing(struct backend *backend, float *numbers, size_t count, struct mixed_label *labels,
                                  uint32_t rows)
{
    (void)backend;
    backend_send_nothing(numbers, count, labels, rows);
    return 0;
}

static int reference_squares(struct backend *backend, const struct squares *squares, uint32_t count)
{
    (void)backend;
    for (uint32_t i = 0; i < count; i++) {
        squares_sum_parts(&squares[i], 0, SQUARES_PARTS);
        squares_sum(&squares[i]);
    }
    return 0;
}

static int reference_update(struct backend *backend, const struct optimizer *optimizer,
                            const struct optimizer_step *step, const struct optimizer_range *ranges,
                            uint32_t range_count)
{
    (void)backend;
    for (uint32_t i = 0; i < range_count; i++)
        optimizer_update(optimizer, step, &ranges[i]);
    return 0;
}

static int reference_axpby(struct backend *backend, float *floats, const float *more, size_t count, float share,
                           float keep)
{
    (void)backend;
    floats_axpby(floats, more, count, share, keep);
    return 0;
}

static int reference_scale(struct backend *backend, float *floats, size_t count, float factor)
{
    (void)backend;
    floats_scale(floats, count, factor);
    return 0;
}

static int reference_clip_value(struct backend *backend, float *gradients, size_t count, float limit)
{
    (void)backend;
    floats_clip(gradients, count, limit);
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
    .stored_sizes = reference_stored_sizes,
    .lay_out = reference_lay_out,
    .plan = reference_plan,
    .plan_close = reference_plan_close,
    .needs = reference_needs,
    .bind = reference_bind,
    .allocate = reference_allocate,
    .pack = reference_pack,
    .unpack = reference_unpack,
    .plain = reference_plain,
    .plan_describe = reference_plan_describe,
    .input = reference_input,
    .forward = reference_forward,
    .backward = reference_backward,
    .result = reference_result,
    .answers = reference_answers,
    .values = reference_values,
    .part_result = reference_part_result,
    .part_answers = reference_part_answers,
    .part_weigh = reference_part_weigh,
    .send_nothing = reference_send_nothing,
    .squares = reference_squares,
    .update = reference_update,
    .clip_value = reference_clip_value,
    .scale = reference_scale,
    .to_bf16 = backend_to_bf16,
    .from_bf16 = backend_from_bf16,
    .axpby = reference_axpby,
    .find_nonfinite = backend_find_nonfinite,
};
