/* Convolutions of one shape through cuDNN: the graph, the plan chosen for it, and running it.
 * Called by the CUDA backend from the tower's thread. */
#include "compute/cuda/cudnn/cudnn_conv.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cudnn/cudnn_cache.h"
#include "compute/cuda/cudnn/cudnn_engine.h"
#include "compute/cuda/cudnn/cudnn_graph.h"
#include "compute/cuda/cudnn/cudnn_timing.h"
#include "stage/cuda/cuda_call.h"
#include "stage/log.h"

/* Tensors of the graph: the caller's, of which the bias may lack, and two that stay inside. */
enum tensor_id { TENSOR_IN = 1, TENSOR_WEIGHT, TENSOR_OUT, TENSOR_BIAS, TENSOR_PRODUCT, TENSOR_SUM };

#define POINTERS TENSOR_BIAS    /* at most */

/* In the order of the ids, then the workspace. */
struct conv_pointers { const void *tensors[POINTERS]; void *workspace; };

/* What plans of one shape share. */
struct conv_engine {
    uint32_t user_count;        /* plans; the last one closes it */
    char name[32];
    struct conv_shape shape;
    struct conv_shape fused;    /* what cuDNN does of it: without bias and ReLU where it refuses those, and of images
                                 * with zeros around them where it is wrong about the padding */
    struct cudnn_graph graph;
    struct engine_plan chosen;
    bool cached, measured;
    const char *cache;          /* lent: the folder that may hold the plan, NULL: none */
    char *key;                  /* there */
    bool was_replaced;          /* the first plan did not run */
};

struct conv_plan {
    struct conv_engine *engine;
    struct conv_pointers bound; /* by `pack` */
    cudnnBackendDescriptor_t pack;      /* NULL before the first run */
};

static const char *const pass_names[CONV_PASS_COUNT] = {
    [CONV_FORWARD] = "forward", [CONV_DATA_GRADIENT] = "data gradient", [CONV_WEIGHT_GRADIENT] = "weight gradient",
};

static const char *const precision_names[PRECISION_COUNT] = {
    [PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32", [PRECISION_BF16] = "bf16", [PRECISION_FP16] = "fp16",
};

static const cudnnDataType_t data_types[VALUE_TYPE_COUNT] = {
    [VALUE_FP32] = CUDNN_DATA_FLOAT, [VALUE_FP16] = CUDNN_DATA_HALF, [VALUE_BF16] = CUDNN_DATA_BFLOAT16,
};

static const cudnnBackendDescriptorType_t operation_types[CONV_PASS_COUNT] = {
    [CONV_FORWARD] = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    [CONV_DATA_GRADIENT] = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    [CONV_WEIGHT_GRADIENT] = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
};

/* Everything the graph depends on. */
static void shape_print(const struct conv_shape *shape, char *text, size_t text_size)
{
    snprintf(text, text_size,
             "%s %s%s%s, %" PRIu32 " x %" PRIu32 "x%" PRIu32 "x%" PRIu32 " -> %" PRIu32 "x%" PRIu32 "x%" PRIu32
             ", kernel %" PRIu32 "x%" PRIu32 ", stride %" PRIu32 "x%" PRIu32 ", padding %" PRIu32 "+%" PRIu32
             " %" PRIu32 "+%" PRIu32,
             precision_names[shape->precision], pass_names[shape->pass], shape->bias ? " + bias" : "",
             shape->relu ? " + relu" : "", shape->count, shape->in_channels, shape->in_h, shape->in_w,
             shape->out_channels, shape->out_h, shape->out_w, shape->kernel_h, shape->kernel_w, shape->stride_h,
             shape->stride_w, shape->pad_top, shape->pad_bottom, shape->pad_left, shape->pad_right);
}

static struct graph_tensor tensor_of(const struct conv_shape *shape, enum tensor_id id)
{
    const cudnnDataType_t type = data_types[precision_type(shape->precision)];
    const bool internal = id == TENSOR_PRODUCT || id == TENSOR_SUM;
    switch (id) {
    case TENSOR_IN:
        return (struct graph_tensor){ id, type, { shape->count, shape->in_channels, shape->in_h, shape->in_w }, false };
    case TENSOR_WEIGHT:
        return (struct graph_tensor){
            id, type, { shape->out_channels, shape->in_channels, shape->kernel_h, shape->kernel_w }, false };
    case TENSOR_BIAS:
        return (struct graph_tensor){ id, type, { 1, shape->out_channels, 1, 1 }, false };
    case TENSOR_OUT:
    case TENSOR_PRODUCT:
    case TENSOR_SUM:
        break;
    }
    /* What stays inside is not rounded: that is done once, at the end. */
    return (struct graph_tensor){ id, internal ? CUDNN_DATA_FLOAT : type,
                                 { shape->count, shape->out_channels, shape->out_h, shape->out_w }, internal };
}

static size_t tensor_bytes(const struct conv_shape *shape, enum tensor_id id)
{
    const struct graph_tensor tensor = tensor_of(shape, id);
    size_t bytes = value_bytes(precision_type(shape->precision));
    for (uint32_t i = 0; i < 4; i++)
        bytes *= (size_t)tensor.dims[i];
    return (bytes + 255) & ~(size_t)255;
}

/* Zeros are put on the side of the image that has more padding, as many as it has more. */
static void even_out(uint32_t *size, uint32_t *before, uint32_t *after)
{
    const uint32_t less = *before < *after ? *before : *after;
    *size += *before - less + (*after - less);
    *before = *after = less;
}

/* cuDNN's engines for the weight gradient take the padding in front of the image for that behind it as well, and say
 * nothing: seen with cuDNN 9.14 on sm_90, in every precision (doc/gpu.md). So they are asked only where both are the
 * same. */
static struct conv_shape evened(const struct conv_shape *shape)
{
    struct conv_shape even = *shape;
    if (shape->pass == CONV_WEIGHT_GRADIENT) {
        even_out(&even.in_h, &even.pad_top, &even.pad_bottom);
        even_out(&even.in_w, &even.pad_left, &even.pad_right);
    }
    return even;
}

size_t conv_shape_bytes(const struct conv_shape *shape)
{
    const struct conv_shape even = evened(shape);
    return tensor_bytes(&even, TENSOR_IN) + tensor_bytes(&even, TENSOR_WEIGHT) +
           (even.bias ? tensor_bytes(&even, TENSOR_BIAS) : 0) + tensor_bytes(&even, TENSOR_OUT);
}

static cudnnBackendDescriptor_t add_tensor(struct cudnn_graph *graph, const struct conv_shape *shape,
                                           enum tensor_id id)
{
    const struct graph_tensor tensor = tensor_of(shape, id);
    return graph_add_tensor(graph, &tensor);
}

static cudnnBackendDescriptor_t add_convolution(struct cudnn_graph *graph, const struct conv_shape *shape,
                                                cudnnBackendDescriptor_t out)
{
    const struct graph_window window = {
        .pad_before = { shape->pad_top, shape->pad_left },
        .pad_after = { shape->pad_bottom, shape->pad_right },
        .strides = { shape->stride_h, shape->stride_w },
    };
    cudnnBackendDescriptor_t in = add_tensor(graph, shape, TENSOR_IN);
    cudnnBackendDescriptor_t weight = add_tensor(graph, shape, TENSOR_WEIGHT);
    return graph_add_convolution(graph, operation_types[shape->pass], &window, in, weight, out);
}

/* in * weight [+ bias] [, ReLU] = out: each operation but the last writes a tensor inside. */
static int graph_build(struct cudnn_graph *graph, const char *name, cudnnHandle_t handle,
                       const struct conv_shape *shape)
{
    cudnnBackendDescriptor_t operations[3];
    int64_t count = 0;
    graph_init(graph, name);
    const bool is_alone = !shape->bias && !shape->relu;
    cudnnBackendDescriptor_t out = add_tensor(graph, shape, TENSOR_OUT);
    cudnnBackendDescriptor_t last = is_alone ? out : add_tensor(graph, shape, TENSOR_PRODUCT);
    operations[count++] = add_convolution(graph, shape, last);
    if (shape->bias) {
        cudnnBackendDescriptor_t bias = add_tensor(graph, shape, TENSOR_BIAS);
        cudnnBackendDescriptor_t sum = shape->relu ? add_tensor(graph, shape, TENSOR_SUM) : out;
        operations[count++] = graph_add_bias(graph, last, bias, sum);
        last = sum;
    }
    if (shape->relu)
        operations[count++] = graph_add_relu(graph, last, out);
    graph_finish(graph, handle, count, operations);
    return graph->status;
}

static struct engine_rules rules_of(const struct conv_engine *engine, const struct conv_planner *planner)
{
    return (struct engine_rules){
        .name = engine->name,
        .handle = planner->handle,
        .properties = planner->properties,
        .exact = engine->shape.precision == PRECISION_FP32,
        .workspace_max = planner->workspace_max,
        .copy_bytes = tensor_bytes(&engine->fused, TENSOR_IN) + tensor_bytes(&engine->fused, TENSOR_OUT),
    };
}

/* All that a plan depends on. */
static int key_print(const struct conv_planner *planner, const struct engine_rules *rules,
                     const struct conv_shape *shape, char *key, size_t key_size)
{
    char place[2304], graph[256];
    const int rc = engine_place(rules, place, sizeof(place));
    if (rc < 0)
        return rc;
    shape_print(shape, graph, sizeof(graph));
    snprintf(key, key_size, "pipetrain plan 2, %s%s, workspace %zu, %s", place,
             planner->scratch != NULL ? ", measured" : "", rules->workspace_max, graph);
    return 0;
}

/* 0, -ENOTSUP when there is none that fits, or another negative errno. */
static int load(struct conv_engine *engine, const struct engine_rules *rules, const char *folder, const char *key)
{
    char *text;
    size_t bytes;
    if (!plan_cache_load(folder, key, &text, &bytes))
        return -ENOTSUP;
    int rc = engine_plan_load(&engine->chosen, rules, text, bytes);
    free(text);
    if (rc == 0 && engine->chosen.workspace > rules->workspace_max) {
        engine_plan_close(&engine->chosen);
        rc = -ENOTSUP;
    }
    engine->cached = rc == 0;
    return rc;
}

/* A plan that has no text is made anew in every run. */
static int keep(const struct conv_engine *engine, const char *folder, const char *key)
{
    char *text;
    size_t bytes;
    const int rc = engine_plan_save(&engine->chosen, engine->name, &text, &bytes);
    if (rc < 0)
        return rc == -ENOTSUP ? 0 : rc;
    plan_cache_store(folder, key, text, bytes);
    free(text);
    return 0;
}

static int bind(const struct conv_engine *engine, const struct conv_pointers *pointers,
                cudnnBackendDescriptor_t *pack_out)
{
    return pointers_bind(pack_out, engine->name, engine->fused.bias ? TENSOR_BIAS : TENSOR_OUT, pointers->tensors,
                         pointers->workspace);
}

/* The scratch's parts in the order of the ids. */
static struct conv_pointers scratch_of(const struct conv_planner *planner, const struct conv_shape *shape)
{
    struct conv_pointers pointers = { .workspace = planner->workspace };
    const unsigned char *at = planner->scratch;
    for (enum tensor_id id = TENSOR_IN; id <= (shape->bias ? TENSOR_BIAS : TENSOR_OUT); id++) {
        pointers.tensors[id - TENSOR_IN] = at;
        at += tensor_bytes(shape, id);
    }
    return pointers;
}

static int fastest(const struct conv_engine *engine, const struct conv_planner *planner,
                   const struct engine_rules *rules, const struct engine_plan *plans, uint32_t count,
                   uint32_t *best_out, struct cudnn_refusal *refusal)
{
    const struct conv_pointers pointers = scratch_of(planner, &engine->fused);
    cudnnBackendDescriptor_t pack;
    int rc = bind(engine, &pointers, &pack);
    if (rc < 0)
        return rc;
    rc = timing_choose(plans, count, rules, pack, planner->stream, best_out, refusal);
    descriptor_close(pack);
    return rc;
}

static int find(struct conv_engine *engine, const struct conv_planner *planner, const struct engine_rules *rules,
                struct cudnn_refusal *refusal)
{
    struct engine_plan plans[ENGINE_PLANS_MAX];
    uint32_t count = 0, best = 0;
    const uint32_t wanted = planner->handle != NULL && planner->scratch != NULL ? ENGINE_PLANS_MAX : 1;
    int rc = engine_find(&engine->graph, rules, wanted, plans, &count, refusal);
    engine->measured = count > 1;
    if (rc == 0 && engine->measured)
        rc = fastest(engine, planner, rules, plans, count, &best, refusal);
    for (uint32_t i = 0; i < count; i++)
        if (rc < 0 || i != best)
            engine_plan_close(&plans[i]);
    if (rc == 0)
        engine->chosen = plans[best];
    return rc;
}

/* Choose a plan for what engine->fused says. -ENOTSUP is not logged. */
static int choose(struct conv_engine *engine, const struct conv_planner *planner, struct cudnn_refusal *refusal)
{
    const struct engine_rules rules = rules_of(engine, planner);
    char key[3072];
    int rc = graph_build(&engine->graph, engine->name, planner->handle, &engine->fused);
    if (rc == 0 && planner->cache != NULL)
        rc = key_print(planner, &rules, &engine->fused, key, sizeof(key));
    if (rc < 0) {
        *refusal = engine->graph.refusal;
        return rc;
    }
    if (planner->cache != NULL) {
        free(engine->key);
        engine->key = strdup(key);
        engine->cache = planner->cache;
        rc = engine->key != NULL ? load(engine, &rules, planner->cache, key) : -ENOMEM;
        if (rc != -ENOTSUP)
            return rc;
    }
    rc = find(engine, planner, &rules, refusal);
    if (rc == 0 && planner->cache != NULL)
        rc = keep(engine, planner->cache, key);
    return rc;
}

/* Towers are opened side by side. One at a time measures: then what is measured on a device that they share is measured
 * alone, and all but the first find in the cache what the first has chosen. */
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

/* Bias and ReLU are left to a kernel of ours when cuDNN has no engine that does them too. */
static int choose_any(struct conv_engine *engine, const struct conv_planner *planner, struct cudnn_refusal *refusal)
{
    const int status = choose(engine, planner, refusal);
    if (status != -ENOTSUP || (!engine->fused.bias && !engine->fused.relu))
        return status;
    engine->fused.bias = engine->fused.relu = false;
    graph_release(&engine->graph);
    return choose(engine, planner, refusal);
}

static int check(const struct conv_planner *planner, const struct conv_shape *shape)
{
    assert(shape->pass == CONV_FORWARD || (!shape->bias && !shape->relu));
    if (planner->handle != NULL || planner->properties != NULL)
        return 0;
    log_message(LOG_ERROR, "%s: no device to plan a convolution for", planner->name);
    return -EINVAL;
}

static void conv_engine_close(struct conv_engine *engine)
{
    engine_plan_close(&engine->chosen);
    graph_release(&engine->graph);
    free(engine->key);
    free(engine);
}

static int conv_engine_open(struct conv_engine **engine_out, const struct conv_planner *planner,
                            const struct conv_shape *shape, bool quiet)
{
    struct cudnn_refusal refusal = { "" };
    struct conv_engine *const engine = calloc(1, sizeof(*engine));
    if (engine == NULL)
        return -ENOMEM;
    snprintf(engine->name, sizeof(engine->name), "%s", planner->name);
    engine->shape = *shape;
    engine->fused = evened(shape);
    const bool measures = planner->scratch != NULL;
    if (measures)
        pthread_mutex_lock(&one_at_a_time);
    const int rc = choose_any(engine, planner, &refusal);
    if (measures)
        pthread_mutex_unlock(&one_at_a_time);
    if (rc == -ENOTSUP && !quiet) {
        char text[256];
        shape_print(shape, text, sizeof(text));
        log_message(LOG_ERROR, "%s: cuDNN has no engine for %s: %s", planner->name, text, refusal.text);
    }
    if (rc == 0)
        *engine_out = engine;
    else
        conv_engine_close(engine);
    return rc;
}

static int plan_open(struct conv_plan **plan_out, struct conv_engine *engine)
{
    struct conv_plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->engine = engine;
    engine->user_count++;
    *plan_out = plan;
    return 0;
}

int conv_plan_open(struct conv_plan **plan_out, const struct conv_planner *planner, const struct conv_shape *shape,
                   bool quiet)
{
    struct conv_engine *engine = NULL;
    int rc = check(planner, shape);
    if (rc == 0)
        rc = conv_engine_open(&engine, planner, shape, quiet);
    if (rc < 0)
        return rc;
    rc = plan_open(plan_out, engine);
    if (rc < 0)
        conv_engine_close(engine);
    return rc;
}

int conv_plan_share(struct conv_plan **plan_out, struct conv_plan *of)
{
    return plan_open(plan_out, of->engine);
}

void conv_plan_close(struct conv_plan *plan)
{
    if (plan == NULL)
        return;
    descriptor_close(plan->pack);
    if (--plan->engine->user_count == 0)
        conv_engine_close(plan->engine);
    free(plan);
}

/* What cuDNN leaves to kernels of ours. */
static bool leaves_zeros(const struct conv_engine *engine)
{
    return engine->fused.in_h != engine->shape.in_h || engine->fused.in_w != engine->shape.in_w;
}

static bool leaves_bias(const struct conv_engine *engine)
{
    return engine->shape.bias && !engine->fused.bias;
}

static bool leaves_relu(const struct conv_engine *engine)
{
    return engine->shape.relu && !engine->fused.relu;
}

/* The image with zeros around it stands at the front of the workspace. */
static size_t surrounded_bytes(const struct conv_engine *engine)
{
    return leaves_zeros(engine) ? tensor_bytes(&engine->fused, TENSOR_IN) : 0;
}

size_t conv_plan_workspace(const struct conv_plan *plan)
{
    return surrounded_bytes(plan->engine) + plan->engine->chosen.workspace;
}

void conv_plan_describe(const struct conv_plan *plan, char *text, size_t text_size)
{
    const struct conv_engine *const engine = plan->engine;
    const char *const apart = leaves_zeros(engine)  ? ", zeros apart"
                              : leaves_bias(engine) ? ", bias apart"
                              : leaves_relu(engine) ? ", relu apart"
                                                    : "";
    snprintf(text, text_size, "engine %" PRId64 ", %.1f MiB workspace%s%s%s", engine->chosen.engine,
             (double)conv_plan_workspace(plan) / (1 << 20), apart,
             engine->measured ? ", measured" : "", engine->cached ? ", cached" : "");
}

/* The same pointers come in every step, so the pack is made anew only when one changed. */
static int rebind(struct conv_plan *plan, const struct conv_pointers *pointers)
{
    cudnnBackendDescriptor_t pack;
    if (plan->pack != NULL && memcmp(&plan->bound, pointers, sizeof(*pointers)) == 0)
        return 0;
    const int rc = bind(plan->engine, pointers, &pack);
    if (rc < 0)
        return rc;
    descriptor_close(plan->pack);
    plan->pack = pack;
    plan->bound = *pointers;
    return 0;
}

static int finish(const struct conv_engine *engine, cudnnHandle_t handle, const void *bias, void *out)
{
    const struct conv_shape *const shape = &engine->shape;
    const enum value_type type = precision_type(shape->precision);
    const size_t rows = (size_t)shape->count * shape->out_h * shape->out_w;
    cudaStream_t stream;
    const int status = CUDNN_CALL(engine->name, cudnnGetStream(handle, &stream));
    if (status < 0)
        return status;
    if (leaves_bias(engine))
        return CUDA_CALL(engine->name, kernel_bias(stream, type, rows, shape->out_channels, bias, shape->relu, out));
    return CUDA_CALL(engine->name, kernel_relu(stream, type, rows * shape->out_channels, out, out));
}

static int surround(const struct conv_engine *engine, cudnnHandle_t handle, const void *in, void *surrounded)
{
    const struct conv_shape *const shape = &engine->shape, *const even = &engine->fused;
    const struct surround_shape around = {
        .count = shape->count, .stored = shape->in_channels,
        .in_h = shape->in_h, .in_w = shape->in_w, .out_h = even->in_h, .out_w = even->in_w,
        .top = shape->pad_top - even->pad_top, .left = shape->pad_left - even->pad_left,
    };
    cudaStream_t stream;
    const int status = CUDNN_CALL(engine->name, cudnnGetStream(handle, &stream));
    return status < 0 ? status
                      : CUDA_CALL(engine->name, kernel_surround(stream, precision_type(shape->precision), &around, in,
                                                                surrounded));
}

/* ---- plans that do not run ---- */

/* An engine may find out late, or on another driver than the plan was made with, that it cannot run. Once another one
 * is taken that is content with the workspace there is, and later runs choose anew. 0; -ENOTSUP, with the reason in
 * *refusal, when there is none; or another negative errno. */
static int choose_another(struct conv_engine *engine, cudnnHandle_t handle, struct cudnn_refusal *refusal)
{
    const struct conv_planner planner = { .name = engine->name, .handle = handle,
                                          .workspace_max = engine->chosen.workspace };
    struct engine_rules rules = rules_of(engine, &planner);
    struct engine_plan another;
    uint32_t count = 0;
    char text[256];
    if (engine->was_replaced)
        return -ENOTSUP;
    rules.failed = &engine->chosen.engine;
    shape_print(&engine->fused, text, sizeof(text));
    log_message(LOG_RUN, "%s: cuDNN's engine %" PRId64 " does not run %s: %s: another one is taken", engine->name,
                engine->chosen.engine, text, refusal->text);
    if (engine->cache != NULL)
        plan_cache_drop(engine->cache, engine->key);
    const int rc = engine_find(&engine->graph, &rules, 1, &another, &count, refusal);
    if (rc < 0)
        return rc;
    engine_plan_close(&engine->chosen);
    engine->chosen = another;
    engine->cached = engine->measured = false;
    engine->was_replaced = true;
    return 0;
}

static int execute(const struct conv_plan *plan, cudnnHandle_t handle, struct cudnn_refusal *refusal)
{
    const struct conv_engine *const engine = plan->engine;
    return cudnn_try(HEARTBEAT_CALL("cudnnBackendExecute",
                                    cudnnBackendExecute(handle, engine->chosen.plan, plan->pack)),
                     engine->name, "cudnnBackendExecute", refusal);
}

static int run_product(struct conv_plan *plan, cudnnHandle_t handle)
{
    struct cudnn_refusal refusal;
    int rc = execute(plan, handle, &refusal);
    if (rc != -ENOTSUP)
        return rc;
    rc = choose_another(plan->engine, handle, &refusal);
    if (rc == 0)
        rc = execute(plan, handle, &refusal);
    if (rc == -ENOTSUP)
        log_message(LOG_ERROR, "%s: no engine of cuDNN's runs a convolution: %s", plan->engine->name, refusal.text);
    return rc;
}

int conv_plan_run(struct conv_plan *plan, cudnnHandle_t handle, void *in, void *weight, const void *bias, void *out,
                  void *workspace)
{
    const struct conv_engine *const engine = plan->engine;
    const bool surrounds = leaves_zeros(engine);
    const struct conv_pointers pointers = {
        .tensors = { surrounds ? workspace : in, weight, out, bias },
        .workspace = (unsigned char *)workspace + surrounded_bytes(engine),
    };
    int status = rebind(plan, &pointers);
    if (status == 0 && surrounds)
        status = surround(engine, handle, in, workspace);
    if (status == 0)
        status = run_product(plan, handle);
    if (status == 0 && (leaves_bias(engine) || leaves_relu(engine)))
        status = finish(engine, handle, bias, out);
    return status;
}
