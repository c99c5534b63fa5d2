/* The CPU backend on oneDNN: opening, memory, operations over ranges of the arenas, plans and their steps. Used from
 * the tower's thread, whose OpenMP team oneDNN and our own loops share. Everything is allocated when a plan is made; a
 * step only runs it. */
#include "compute/onednn/onednn_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/floats.h"
#include "compute/mixing.h"
#include "compute/team.h"

#define LARGE_VALUE_BYTES ((size_t)32 << 20)    /* larger than any cache */
#define SUB_BATCH_BYTES ((size_t)2 << 20)       /* the second-level caches of two threads */
#define UPDATE_GRAIN 16u                        /* floats: 64 bytes, a multiple of every vector */

static const struct layer_ops *const layer_table[LAYER_ROW_COUNT] = {
    [LAYER_CONV2D] = &onednn_weighted_ops,
    [LAYER_DENSE] = &onednn_weighted_ops,
    [LAYER_BATCH_NORM] = &onednn_batch_norm_ops,
    [LAYER_LAYER_NORM] = &onednn_layer_norm_ops,
    [LAYER_SCALE] = &onednn_scale_ops,
    [LAYER_RELU] = &onednn_relu_ops,
    [LAYER_ACTIVATION] = &onednn_activation_ops,
    [LAYER_MAX_POOL] = &onednn_max_pool_ops,
    [LAYER_AVERAGE_POOL] = &onednn_average_pool_ops,
    [LAYER_DROPOUT] = &onednn_dropout_ops,
    [LAYER_STOCHASTIC_DEPTH] = &onednn_stochastic_depth_ops,
    [LAYER_LOCAL_RESPONSE_NORM] = &onednn_response_ops,
    [LAYER_ADD] = &onednn_add_ops,
    [LAYER_MULTIPLY] = &onednn_multiply_ops,
    [LAYER_CONCAT] = &onednn_concat_ops,
    [LAYER_PAD_CHANNELS] = &onednn_pad_channels_ops,
    [LAYER_AUXILIARY_LOSS] = &onednn_loss_ops,
    [LAYER_SOFTMAX_LOSS] = &onednn_loss_ops,
    [LAYER_SEND] = &onednn_send_ops,
    [LAYER_RECEIVE] = &onednn_receive_ops,
    [LAYER_PART_LOSS] = &onednn_part_loss_ops,
};

const struct fusion_rule onednn_rules[] = {
    { .head = LAYER_CONV2D, .tail_count = 3, .tail = { LAYER_BATCH_NORM, LAYER_ADD, LAYER_RELU },
      .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 3, .tail = { LAYER_BATCH_NORM, LAYER_STOCHASTIC_DEPTH, LAYER_ADD },
      .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_BATCH_NORM, LAYER_ADD }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_BATCH_NORM, LAYER_RELU }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_BATCH_NORM, LAYER_ACTIVATION }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_BATCH_NORM }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_ADD, LAYER_RELU }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_ADD }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_ACTIVATION }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_DENSE, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 2, .tail = { LAYER_ADD, LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_ADD } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_ACTIVATION } },
    { .head = LAYER_MAX_POOL, .tail_count = 1, .tail = { LAYER_DROPOUT }, .use = RULE_TRAINING },
    { .head = LAYER_SCALE, .tail_count = 2, .tail = { LAYER_STOCHASTIC_DEPTH, LAYER_ADD } },
    { .head = LAYER_SCALE, .tail_count = 1, .tail = { LAYER_STOCHASTIC_DEPTH } },
    { .head = LAYER_SCALE, .tail_count = 1, .tail = { LAYER_ADD } },
    { .head = LAYER_STOCHASTIC_DEPTH, .tail_count = 1, .tail = { LAYER_ADD } },
};

const uint32_t onednn_rule_count = sizeof(onednn_rules) / sizeof(onednn_rules[0]);

static void onednn_close(struct backend *backend)
{
    if (backend == NULL)
        return;
    for (uint32_t i = 0; i < backend->spec.net->parameter_count && backend->stored != NULL; i++)
        nn_md_release(backend->stored[i]);
    if (backend->base.pool != NULL)
        backend->spec.device->ops->free(backend->spec.device, backend->base.pool);
    if (backend->stream != NULL)
        dnnl_stream_destroy(backend->stream);
    if (backend->engine != NULL)
        dnnl_engine_destroy(backend->engine);
    free(backend->stored);
    free(backend->blocks);
    free(backend->needs_grad);
    backend_base_release(&backend->base);
    free(backend);
    nn_jit_remove_tower();
}

static int engine_create(struct backend *backend)
{
    int rc = nn_jit_begin();
    if (rc != 0)
        return rc;
    nn_ignore_environment();
    rc = NN_CHECK(dnnl_engine_create(&backend->engine, dnnl_cpu, 0));
    if (rc == 0)
        rc = NN_CHECK(dnnl_stream_create(&backend->stream, backend->engine, dnnl_stream_default_flags));
    nn_jit_end();
    return rc;
}

static int backend_init(struct backend *backend)
{
    const struct net *net = backend->spec.net;
    backend->blocks = calloc((size_t)net->layer_count + 1, sizeof(*backend->blocks));
    backend->stored = calloc((size_t)net->parameter_count + 1, sizeof(*backend->stored));
    backend->needs_grad = calloc((size_t)net->layer_count + 1, sizeof(*backend->needs_grad));
    if (backend->blocks == NULL || backend->stored == NULL || backend->needs_grad == NULL)
        return -ENOMEM;
    team_size(backend->spec.threads);
    const int rc = engine_create(backend);
    return rc != 0 ? rc : layouts_choose(backend);
}

static int onednn_supports(const struct backend_spec *spec, struct unsupported_reason *reason)
{
    if (spec->precision != PRECISION_FP32 && spec->convolution == CONVOLUTION_WINOGRAD)
        return unsupported_reason_set(reason, -EINVAL, "convolution", "Winograd's algorithm is for fp32 only");
    if (spec->batch_statistics != BATCH_STATISTICS_EXACT)
        return unsupported_reason_set(reason, -EINVAL, "batch_statistics", BATCH_STATISTICS_ON_CPU);
    if (spec->precision == PRECISION_FP32 || (spec->precision == PRECISION_BF16 && nn_has_bf16()))
        return 0;
    return unsupported_reason_set(reason, -ENODEV, "precision",
                         spec->precision != PRECISION_BF16 ? "the CPU computes in fp32 and bf16 only"
                                                           : "this CPU computes in fp32 only: bf16 needs AVX512-BF16 "
                                                             "or AMX");
}

static int onednn_open(struct backend **backend_out, const struct backend_spec *spec)
{
    int rc = backend_check(&backend_onednn_ops, spec);
    if (rc != 0)
        return rc;
    struct backend *backend = calloc(1, sizeof(*backend));
    if (backend == NULL)
        return -ENOMEM;
    backend->base.ops = &backend_onednn_ops;
    backend->spec = *spec;
    backend->type = spec->precision == PRECISION_BF16 ? VALUE_BF16 : VALUE_FP32;
    backend->large_value_bytes = LARGE_VALUE_BYTES;
    backend->sub_batch_bytes = SUB_BATCH_BYTES;
    nn_jit_add_tower();
    rc = nn_jit_result(backend_init(backend));
    if (rc) {
        onednn_close(backend);
        return rc;
    }
    *backend_out = backend;
    return 0;
}

static int onednn_stored_sizes(struct backend *backend, size_t *stored_counts)
{
    for (uint32_t i = 0; i < backend->spec.net->parameter_count; i++)
        stored_counts[i] = nn_md_bytes(backend->stored[i]) / sizeof(float);
    return 0;
}

static void onednn_lay_out(struct backend *backend, const struct arenas *arenas)
{
    backend->arenas = arenas;
}

static void onednn_needs(const struct backend *backend, struct backend_needs *needs_out)
{
    *needs_out = (struct backend_needs){ .values = backend_pool_bytes(&backend->base), .room = NN_JIT_BYTES };
}

static int onednn_bind(struct backend *backend, const struct backend_memory *memory)
{
    backend->memory = *memory;
    return 0;
}

/* The pool grows to the size of the largest plan; plans notice that it moved. Afterwards there must be enough address
 * space left for the memory that oneDNN allocates temporarily in each step. */
static int onednn_allocate(struct backend *backend)
{
    struct device *const device = backend->spec.device;
    const size_t bytes = backend_pool_bytes(&backend->base);
    void *pool;
    if (bytes <= backend->pool_bytes)
        return 0;
    device->ops->free(device, backend->base.pool);
    backend->base.pool = NULL;
    backend->pool_bytes = 0;
    const int rc = device->ops->alloc(device, bytes, &pool);
    if (rc != 0)
        return rc;
    backend->base.pool = pool;
    backend->pool_bytes = bytes;
    return nn_jit_result(nn_jit_check_memory());
}

/* ---- operations over ranges, shared among the tower's threads ---- */

static void square_parts(void *arg, uint32_t member, size_t first, size_t end)
{
    (void)member;
    squares_sum_parts(arg, first, end);
}

static int onednn_squares(struct backend *backend, const struct squares *squares, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct squares one = squares[i];
        team_run(backend->spec.threads, SQUARES_PARTS, 1, square_parts, &one);
        squares_sum(&one);
    }
    return 0;
}

struct update_work {
    const struct optimizer *optimizer;
    const struct optimizer_step *step;
    const struct optimizer_range *range;
};

static void update_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct update_work *work = arg;
    struct optimizer_range part = *work->range;
    (void)member;
    part.weights += first;
    part.gradients += first;
    for (uint32_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        if (part.states[i] != NULL)
            part.states[i] += first;
    part.count = end - first;
    optimizer_update(work->optimizer, work->step, &part);
}

static int onednn_update(struct backend *backend, const struct optimizer *optimizer, const struct optimizer_step *step,
                         const struct optimizer_range *ranges, uint32_t range_count)
{
    for (uint32_t i = 0; i < range_count; i++) {
        struct update_work work = { optimizer, step, &ranges[i] };
        team_run(backend->spec.threads, ranges[i].count, UPDATE_GRAIN, update_part, &work);
    }
    return 0;
}

/* The operands of an operation over a range; each operation uses some of them. */
struct range {
    float *floats;
    const float *more;
    const uint16_t *halves;
    uint16_t *halves_out;
    float factor, keep;
};

/* An operation over the elements [first, end) of a range. */
typedef void (*range_operation)(const struct range *range, size_t first, size_t end);

struct range_work { struct range range; range_operation run; };

static void range_part(void *arg, uint32_t member, size_t first, size_t end)
{
    const struct range_work *const work = arg;
    (void)member;
    work->run(&work->range, first, end);
}

static int range_run(struct backend *backend, size_t count, range_operation run, struct range range)
{
    struct range_work work = { range, run };
    team_run(backend->spec.threads, count, UPDATE_GRAIN, range_part, &work);
    return 0;
}

static void scale_part(const struct range *range, size_t first, size_t end)
{
    floats_scale(range->floats + first, end - first, range->factor);
}

static int onednn_scale(struct backend *backend, float *floats, size_t count, float factor)
{
    return range_run(backend, count, scale_part, (struct range){ .floats = floats, .factor = factor });
}

static void axpby_part(const struct range *range, size_t first, size_t end)
{
    floats_axpby(range->floats + first, range->more + first, end - first, range->factor, range->keep);
}

static int onednn_axpby(struct backend *backend, float *floats, const float *more, size_t count, float share,
                        float keep)
{
    return range_run(backend, count, axpby_part,
                     (struct range){ .floats = floats, .more = more, .factor = share, .keep = keep });
}

static void clip_part(const struct range *range, size_t first, size_t end)
{
    floats_clip(range->floats + first, end - first, range->factor);
}

static int onednn_clip_value(struct backend *backend, float *gradients, size_t count, float limit)
{
    return range_run(backend, count, clip_part, (struct range){ .floats = gradients, .factor = limit });
}

static void to_bf16_part(const struct range *range, size_t first, size_t end)
{
    floats_to_bf16(range->more + first, range->halves_out + first, end - first);
}

static int onednn_to_bf16(struct backend *backend, const float *floats, uint16_t *halves, size_t count)
{
    return range_run(backend, count, to_bf16_part, (struct range){ .more = floats, .halves_out = halves });
}

static void from_bf16_part(const struct range *range, size_t first, size_t end)
{
    floats_from_bf16(range->halves + first, range->floats + first, end - first);
}

static int onednn_from_bf16(struct backend *backend, const uint16_t *halves, float *floats, size_t count)
{
    return range_run(backend, count, from_bf16_part, (struct range){ .halves = halves, .floats = floats });
}

/* ---- making a plan ---- */

/* The bytes of a value; 0 if sizes could overflow, because a plan has a few buffers as large as its largest value. */
static size_t value_bytes(const struct plan *plan, uint32_t value)
{
    const size_t count = tensor_count(&plan->tensors[value]), bytes = value_size(plan_type(plan));
    const size_t most = SIZE_MAX / 64 / bytes / plan->base.count / plan->base.net->layer_count;
    const uint32_t sub_batch = count < most ? value_sub_batch(plan, value) : 0;
    return count < most ? (sub_batch != 0 ? sub_batch : plan->base.count) * count * bytes : 0;
}

static int add_gradient(struct plan *plan, uint32_t value, uint32_t from, uint32_t to)
{
    void *const sum = plan_data(plan, to);
    elementwise_run(plan, value_total(plan, value),
                    &(struct elementwise){ .from = plan_data(plan, from), .addend = sum, .to = sum });
    return 0;
}

/* Sets tensor_layout.width of the values that are stored in the first channels of a wider one (value_is_front). */
static void set_tensor_widths(struct plan *plan)
{
    const struct value_memory *const values = &plan->base.values;
    for (uint32_t v = 0; v <= plan->base.net->layer_count; v++)
        if (value_is_front(values, v))
            plan->tensors[v].width = plan->tensors[values->values[v].widest].shape.channels;
}

static int open_buffers(struct plan *plan)
{
    set_tensor_widths(plan);
    int rc = plan_buffer(plan, plan->base.count * sizeof(struct mixed_label), &plan->labels);
    if (rc == 0)
        rc = plan_buffer(plan, 0, &plan->scratch);
    if (rc != 0)
        return rc;
    value_memory_use_always(&plan->base.values, plan->labels);
    value_memory_use_always(&plan->base.values, plan->scratch);
    return 0;
}

static const struct plan_ops onednn_plan_ops = {
    .layers = layer_table,
    .rules = onednn_rules,
    .rule_count = sizeof(onednn_rules) / sizeof(onednn_rules[0]),
    .value_bytes = value_bytes,
    .add = add_gradient,
    .begin = open_buffers,
};

static int open_tensors(struct plan *plan)
{
    const struct backend *const backend = plan_backend(plan);
    const uint32_t layer_count = plan->base.net->layer_count;
    plan->tensors = calloc((size_t)layer_count + 1, sizeof(*plan->tensors));
    if (plan->tensors == NULL)
        return -ENOMEM;
    for (uint32_t v = 0; v <= layer_count; v++)
        plan->tensors[v] =
            (struct tensor_layout){ backend->type, plan_shape(&plan->base,
                                                              v), backend->blocks[v], backend->is_nhwc, 0 };
    return 0;
}

static void onednn_plan_close(struct plan *plan)
{
    if (plan == NULL)
        return;
    plan_base_close(&plan->base);
    for (uint32_t i = 0; i < plan->memory_count; i++)
        dnnl_memory_destroy(plan->memories[i].memory);
    free(plan->memories);
    free(plan->tensors);
    free(plan);
}

static int onednn_plan_open(struct backend *backend, const struct plan_spec *spec, struct plan **plan_out)
{
    struct plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->base = (struct plan_base){
        .backend = backend, .ops = &onednn_plan_ops, .net = backend_net(&backend->spec, spec->training),
        .keeps_embedding = backend->spec.keeps_embedding };
    plan_base_use(&plan->base, spec);
    int rc = open_tensors(plan);
    if (rc == 0)
        rc = nn_jit_result(plan_base_open(&plan->base));
    if (rc == 0)
        rc = plan_base_claim(&plan->base);
    if (rc != 0) {
        onednn_plan_close(plan);
        return rc;
    }
    *plan_out = plan;
    return 0;
}

/* ---- a step ---- */

static int onednn_input(struct plan *plan, const struct backend_input *input)
{
    const int rc = plan->bound != plan_block(&plan->base) ? plan_bind_memories(plan) : 0;
    if (rc != 0)
        return rc;
    plan->epoch = input->epoch;
    plan->first_position = input->first_position;
    struct mixed_label *const labels = plan_data(plan, plan->labels);
    for (uint32_t i = 0; i < plan->base.count && input->labels != NULL; i++)
        labels[i] = mixing_label(input->mixes, input->labels, i, plan->base.count);
    if (input->pixels != NULL)
        input_convert(plan, input);
    return 0;
}

static int onednn_forward(struct plan *plan)
{
    plan->result = (struct backend_result){ .loss_scale = 1 };
    return plan_base_forward(&plan->base);
}

static int onednn_backward(struct plan *plan, void (*layer_done)(void *arg, uint32_t layer), void *arg)
{
    return plan_base_backward(&plan->base, layer_done, arg);
}

static int onednn_result(struct plan *plan, struct backend_result *result_out)
{
    *result_out = plan->result;
    return 0;
}

static int onednn_answers(struct plan *plan, struct answer *answers_out)
{
    memcpy(answers_out, plan_data(plan, plan->base.answers), plan->base.count * sizeof(*answers_out));
    return 0;
}

static int onednn_send_nothing(struct backend *backend, float *numbers, size_t count, struct mixed_label *labels,
                               uint32_t rows)
{
    (void)backend;
    backend_send_nothing(numbers, count, labels, rows);
    return 0;
}

/* ---- describing ---- */

static const char *layout_name(const struct tensor_layout *tensor)
{
    if (tensor->is_nhwc)
        return "nhwc";
    return tensor->block == 8 ? "nChw8c" : tensor->block == 16 ? "nChw16c" : tensor->block == 1 ? "nchw" : "nhwc";
}

static void describe_layer(const struct plan *plan, uint32_t i, char *text, size_t text_size)
{
    const struct layer *const layer = plan_layer(plan, i);
    const uint32_t head = plan_group(&plan->base, i)->head;
    if (head == FUSION_LEFT_OUT)
        snprintf(text, text_size, "in training only");
    else if (head != i)
        snprintf(text, text_size, "in %s", plan_layer(plan, head)->name);
    else if (layer_has(layer, PARAMETER_WEIGHT))
        weighted_describe(plan, i, text, text_size);
    else if (!plan->base.training && (layer->kind == LAYER_DROPOUT || (layer->kind == LAYER_STOCHASTIC_DEPTH &&
                                                                      !plan_has_sum(plan, i))))
        snprintf(text, text_size, "none");
    else
        snprintf(text, text_size, "own loop");
}

/* The layout of the first input; numbers outside of the plan are in N,C,H,W order. */
static const char *input_name(const struct plan *plan, const struct layer *layer)
{
    return layer->input_count > 0 ? layout_name(&plan->tensors[layer->inputs[0] + 1]) : "nchw";
}

static void onednn_plan_describe(const struct plan *plan, void (*write)(void *arg, const char *line), void *arg)
{
    for (uint32_t i = plan->base.range.first; i < plan->base.range.end; i++) {
        const struct layer *const layer = plan_layer(plan, i);
        char how[512], line[768];
        describe_layer(plan, i, how, sizeof(how));
        snprintf(line, sizeof(line), "%s: %s -> %s, %s", layer->name, input_name(plan, layer),
                 layer->kind == LAYER_SEND ? "nchw" : layout_name(&plan->tensors[i + 1]), how);
        write(arg, line);
    }
}

/* ---- the table ---- */

static void put_onednn(char *text, size_t text_size)
{
    const dnnl_version_t *const version = dnnl_version();
    snprintf(text, text_size, "%d.%d.%d", version->major, version->minor, version->patch);
}

static const struct library onednn_libraries[] = { { "oneDNN", put_onednn, "libdnnl.so" },
                                                   { NULL, NULL, NULL } };

static int onednn_values(struct plan *plan, uint32_t layer, float *values_out)
{
    const uint32_t value = plan_input(&plan->base, layer, 0);
    const struct tensor_layout *const tensor = &plan->tensors[value];
    const size_t pixels = tensor_pixels(tensor);
    for (size_t i = 0; i < plan->base.count; i++)
        for (size_t c = 0; c < tensor->shape.channels; c++)
            for (size_t p = 0; p < pixels; p++)
                *values_out++ = value_read(tensor->type, plan_value(plan, value),
                                           i * tensor_count(tensor) + tensor_at(tensor, c, p));
    return 0;
}

const struct backend_ops backend_onednn_ops = {
    .name = "onednn",
    .libraries = onednn_libraries,
    .host_memory = true,
    .has_teams = true,
    .instructions = nn_instructions,
    .device = "cpu",
    .computes = true,
    .supports = onednn_supports,
    .open = onednn_open,
    .close = onednn_close,
    .stored_sizes = onednn_stored_sizes,
    .lay_out = onednn_lay_out,
    .plan = onednn_plan_open,
    .plan_close = onednn_plan_close,
    .needs = onednn_needs,
    .bind = onednn_bind,
    .allocate = onednn_allocate,
    .pack = onednn_pack,
    .unpack = onednn_unpack,
    .plain = onednn_plain,
    .plan_describe = onednn_plan_describe,
    .input = onednn_input,
    .forward = onednn_forward,
    .backward = onednn_backward,
    .result = onednn_result,
    .answers = onednn_answers,
    .values = onednn_values,
    .part_result = onednn_part_result,
    .part_answers = onednn_part_answers,
    .part_weigh = onednn_part_weigh,
    .send_nothing = onednn_send_nothing,
    .squares = onednn_squares,
    .update = onednn_update,
    .clip_value = onednn_clip_value,
    .scale = onednn_scale,
    .axpby = onednn_axpby,
    .to_bf16 = onednn_to_bf16,
    .from_bf16 = onednn_from_bf16,
    .find_nonfinite = backend_find_nonfinite,
};
