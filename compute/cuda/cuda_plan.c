/* Making a plan: sizes of values, the layers' states, and further buffers of a step. */
#include "compute/cuda/cuda_plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "stage/cuda/cuda_call.h"
#include "stage/cuda/device_cuda.h"
#include "stage/log.h"

void cuda_plan_workspace(struct plan *plan, bool on_side, size_t bytes)
{
    size_t *const most = on_side ? &plan->side_bytes : &plan->workspace_bytes;
    if (bytes > *most)
        *most = bytes;
}

/* ---- parameters ---- */

static size_t offset_of(const struct plan *plan, uint32_t parameter)
{
    return arenas_of(plan->base.backend->arenas, plan->base.net, parameter)->ranges[parameter].offset;
}

static float *parameter_in(const struct plan *plan, float *arena, uint32_t layer, enum parameter_kind kind)
{
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    return parameter != NET_NO_PARAMETER ? arena + offset_of(plan, parameter) : NULL;
}

const float *parameter_weights(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    return parameter_in(plan, plan->base.backend->memory.weights, layer, kind);
}

const void *parameter_value(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    const struct backend *const backend = plan->base.backend;
    const uint32_t parameter = plan_layer(plan, layer)->parameters[kind];
    if (backend->shadow == NULL || parameter == NET_NO_PARAMETER)
        return parameter_weights(plan, layer, kind);
    return (const char *)backend->shadow + offset_of(plan, parameter) * value_bytes(backend->type);
}

float *parameter_gradient(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    return parameter_in(plan, plan->base.backend->memory.gradients, layer, kind);
}

float *parameter_statistic(const struct plan *plan, uint32_t layer, enum parameter_kind kind)
{
    return parameter_in(plan, plan->base.backend->memory.statistics, layer, kind);
}

/* ---- functions for plan_base ---- */

/* 0 when there are too many numbers: cuDNN's engines and our kernels count the numbers of all samples in 31 bits. */
static size_t value_size(const struct plan *plan, uint32_t value)
{
    const size_t count = value_count(plan, value);
    if (count <= INT32_MAX / plan->base.count)
        return value_counts(plan, value) * value_bytes(plan->base.backend->type);
    const struct shape shape = plan_shape(&plan->base, value);
    log_message(LOG_ERROR, "%s: %u samples of %ux%u pixels with %u channels are more numbers than cuDNN can count "
                "(2^31): at most %zu samples go into a step of a tower", plan->base.backend->name, plan->base.count,
                shape.height, shape.width, value_stored(plan, value), (size_t)INT32_MAX / count);
    return 0;
}

static int add_gradient(struct plan *plan, uint32_t value, uint32_t from, uint32_t to)
{
    void *const sum = plan_data(plan, to);
    return LAYER_KERNEL(plan, kernel_add, value_counts(plan, value), sum, plan_data(plan, from), false, sum);
}

static int poison_block(struct plan *plan, size_t offset, size_t bytes)
{
    const struct backend *const backend = plan->base.backend;
    return CUDA_CALL(backend->name,
                     cudaMemsetAsync(plan_block(&plan->base) + offset, PLAN_POISON, bytes, backend->stream));
}

int cuda_flow_pass(struct plan *plan, uint32_t head, uint32_t k, const void *from)
{
    const struct backend *const backend = plan->base.backend;
    const size_t count = value_counts(plan, plan_input(&plan->base, head, k));
    void *const to = in_gradient(plan, head, k);
    if (to == NULL || to == from)
        return 0;
    if (plan_flow(&plan->base, head, k)->adds)
        return LAYER_KERNEL(plan, kernel_add, count, to, from, false, to);
    return CUDA_CALL(backend->name, cudaMemcpyAsync(to, from, count * value_bytes(backend->type),
                                                    cudaMemcpyDeviceToDevice, backend->stream));
}

static int open_labels(struct plan *plan)
{
    struct value_memory *const values = &plan->base.values;
    plan->labels = BUFFER_NONE;
    if (!cuda_plan_has_image(plan))
        return 0;
    const int rc = value_memory_buffer(values, plan->base.count * sizeof(struct mixed_label), &plan->labels);
    if (rc != 0)
        return rc;
    value_memory_use(values, plan->labels, time_forward(0));
    value_memory_use(values, plan->labels, time_forward(plan_net(plan)->layer_count - 1));
    return 0;
}

/* Adds the buffers that the input step writes besides the image, and the buffer for the result of a step; compiles
 * convolutions. */
static int begin_plan(struct plan *plan)
{
    struct value_memory *const values = &plan->base.values;
    int rc = open_labels(plan);
    if (rc == 0)
        rc = value_memory_buffer(values, sizeof(struct step_values), &plan->step);
    if (rc == 0)
        rc = value_memory_buffer(values, sizeof(struct backend_result), &plan->result);
    if (rc != 0)
        return rc;
    value_memory_use_always(values, plan->step);
    value_memory_use_always(values, plan->result);
    return cuda_convs_compile(plan);
}

/* ---- plans ---- */

static const struct fusion_rule rules[] = {
    { .head = LAYER_BATCH_NORM, .tail_count = 2, .tail = { LAYER_ADD, LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_ACTIVATION } },
    { .head = LAYER_CONV2D, .tail_count = 3, .tail = { LAYER_BATCH_NORM, LAYER_ADD, LAYER_RELU },
      .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 3, .tail = { LAYER_BATCH_NORM, LAYER_STOCHASTIC_DEPTH, LAYER_ADD },
      .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_BATCH_NORM, LAYER_ADD }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 2, .tail = { LAYER_BATCH_NORM, LAYER_RELU }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_BATCH_NORM }, .use = RULE_EVALUATION },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_DENSE, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_SCALE, .tail_count = 2, .tail = { LAYER_STOCHASTIC_DEPTH, LAYER_ADD } },
    { .head = LAYER_SCALE, .tail_count = 1, .tail = { LAYER_STOCHASTIC_DEPTH } },
    { .head = LAYER_SCALE, .tail_count = 1, .tail = { LAYER_ADD } },
    { .head = LAYER_STOCHASTIC_DEPTH, .tail_count = 1, .tail = { LAYER_ADD } },
};

const struct plan_ops cuda_plan_ops = {
    .layers = cuda_layer_table,
    .rules = rules,
    .rule_count = sizeof(rules) / sizeof(rules[0]),
    .value_bytes = value_size,
    .begin = begin_plan,
    .add = add_gradient,
    .poison = poison_block,
};

static struct conv_planner planner_of(const struct backend *backend)
{
    const struct backend_spec *const spec = &backend->spec;
    return (struct conv_planner){
        .name = backend->name,
        .handle = backend->cudnn,
        .workspace_max = backend_workspace(spec),
        .cache = spec->plan_cache,
        .stream = backend->stream,
    };
}

/* Makes the plan again, with the normalisations that were refused stored. */
static int plan_again(struct plan *plan)
{
    plan_base_close(&plan->base);
    plan->has_refused = plan->has_loss = false;
    plan->workspace_bytes = plan->side_bytes = 0;
    plan->side_count = 0;
    return plan_base_open(&plan->base);
}

/* Blocks are as large as the open plans need: a plan that did not fit and was closed takes no memory. */
static int claim_blocks(struct backend *backend)
{
    int rc = 0;
    backend_base_release(&backend->base);
    for (struct plan *plan = backend->plans; plan != NULL && rc == 0; plan = plan->next)
        rc = plan_base_claim(&plan->base);
    return rc;
}

static int make_plan(struct plan *plan)
{
    plan->planner = planner_of(plan->base.backend);
    plan->stored_norms = calloc(plan_net(plan)->layer_count, sizeof(*plan->stored_norms));
    int rc = plan->stored_norms != NULL ? plan_base_open(&plan->base) : -ENOMEM;
    while (rc == 0 && plan->has_refused)
        rc = plan_again(plan);
    cuda_measuring_end(plan);
    if (rc == 0 && plan->side_count > 0)
        rc = cuda_side_open(plan->base.backend);
    if (rc == 0)
        rc = claim_blocks(plan->base.backend);
    return rc == 0 ? cuda_segments_open(plan) : rc;
}

int cuda_plan_open(struct backend *backend, const struct plan_spec *spec, struct plan **plan_out)
{
    assert(backend->arenas != NULL);
    assert(backend->ends == NULL); /* recorded steps contain addresses, which a further plan may change */
    int rc = cuda_enter(backend->spec.device);
    if (rc != 0)
        return rc;
    struct plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->base = (struct plan_base){
        .backend = backend,
        .ops = &cuda_plan_ops,
        .net = backend_net(&backend->spec, spec->training),
        .keeps_embedding = backend->spec.keeps_embedding,
    };
    plan_base_use(&plan->base, spec);
    plan->next = backend->plans;
    backend->plans = plan;
    rc = make_plan(plan);
    if (rc != 0) {
        cuda_plan_close(plan);
        return rc;
    }
    *plan_out = plan;
    return 0;
}

static void unlink_plan(struct plan *plan)
{
    struct plan **link = &plan->base.backend->plans;
    while (*link != plan)
        link = &(*link)->next;
    *link = plan->next;
}

void cuda_plan_close(struct plan *plan)
{
    if (plan == NULL)
        return;
    unlink_plan(plan);
    cuda_segments_close(plan);
    plan_base_close(&plan->base);
    free(plan->stored_norms);
    free(plan);
}
