/* Convolutions of one shape through cuDNN: the graph, the plan chosen for it, and running it. Called by the CUDA
 * backend from the tower's thread. */
#include "compute/cuda/cudnn_conv.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cudnn_engine.h"
#include "compute/cuda/cudnn_graph.h"
#include "compute/cuda/plan_cache.h"
#include "stage/cuda/cuda_call.h"
#include "stage/log.h"

#define CACHE_KIND "conv"        /* in the plan cache */

/* ---- graphs ---- */

/* The tensors of a graph, which are also their unique ids: those in the caller's memory, of which a shape has some, and
 * those between two operations, numbered from TENSOR_BETWEEN. */
enum tensor_id {
    TENSOR_IN = 1, TENSOR_WEIGHT, TENSOR_OUT, TENSOR_BIAS, TENSOR_SCALE, TENSOR_SHIFT, TENSOR_ADDEND, TENSOR_RELU_OUT,
    TENSOR_SUM, TENSOR_SQUARES, TENSOR_VALUES, TENSOR_MEAN, TENSOR_INVERSE, TENSOR_GAMMA, TENSOR_BETA, TENSOR_NORM_SUMS,
    TENSOR_BETWEEN = TENSOR_NORM_SUMS + CONV_NORM_SUMS
};

/* The memory of a run: the tensors by id, and the workspace. */
struct conv_pointers { const void *tensors[TENSOR_BETWEEN]; void *workspace; };

/* Shared by the plans of one shape. */
struct conv_engine {
    uint32_t user_count;        /* plans that use the engine; the last plan closes it */
    char name[32];
    struct conv_shape shape;
    struct conv_shape fused;    /* the part that cuDNN computes: without what follows the product where cuDNN cannot
                                 * fuse it, and with evenly padded images where it computes uneven padding
                                 * wrongly */
    struct cudnn_graph graph;
    struct engine_plan chosen;
    bool cached, measured;
    const char *cache;          /* lent: the cache folder, NULL: none */
    char *key;                  /* key of the plan in the cache folder */
    bool was_replaced;          /* the first plan failed to run */
    uint32_t split_count;       /* packs that were made before a graph was split have pointers of other tensors */
};

struct conv_plan {
    struct conv_engine *engine;
    struct conv_pointers bound; /* the memory bound by `pack` */
    cudnnBackendDescriptor_t pack;      /* NULL before the first run */
    uint32_t split_count;       /* the engine's when `pack` was made */
};

static const char *const pass_names[PRODUCT_PASS_COUNT] = {
    [FPROP] = "forward", [DGRAD] = "data gradient", [WGRAD] = "weight gradient",
};

static const char *const precision_names[PRECISION_COUNT] = {
    [PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32", [PRECISION_BF16] = "bf16", [PRECISION_FP16] = "fp16",
};

static const cudnnDataType_t data_types[VALUE_TYPE_COUNT] = {
    [VALUE_FP32] = CUDNN_DATA_FLOAT, [VALUE_FP16] = CUDNN_DATA_HALF, [VALUE_BF16] = CUDNN_DATA_BFLOAT16,
};

static const cudnnBackendDescriptorType_t operation_types[PRODUCT_PASS_COUNT] = {
    [FPROP] = CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    [DGRAD] = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    [WGRAD] = CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
};

static const char *const before_names[] = {
    [CONV_BEFORE_NOTHING] = "", [CONV_BEFORE_SCALE_RELU] = "scale + relu + ",
};

static const char *const after_names[] = {
    [CONV_AFTER_NOTHING] = "", [CONV_AFTER_ADD] = " + add", [CONV_AFTER_DRELU] = " + relu gradient",
    [CONV_AFTER_ADD_DRELU] = " + add + relu gradient", [CONV_AFTER_NORM] = " + norm sums",
    [CONV_AFTER_STATISTICS] = " + statistics",
};

bool conv_shape_equals(const struct conv_shape *a, const struct conv_shape *b)
{
    return a->pass == b->pass && a->precision == b->precision && a->bias == b->bias && a->relu == b->relu &&
           a->before == b->before && a->after == b->after &&
           a->count == b->count && a->in_channels == b->in_channels && a->in_h == b->in_h && a->in_w == b->in_w &&
           a->out_channels == b->out_channels && a->out_h == b->out_h && a->out_w == b->out_w &&
           a->kernel_h == b->kernel_h && a->kernel_w == b->kernel_w && a->stride_h == b->stride_h &&
           a->stride_w == b->stride_w && a->pad_top == b->pad_top && a->pad_bottom == b->pad_bottom &&
           a->pad_left == b->pad_left && a->pad_right == b->pad_right && a->groups == b->groups;
}

/* Formats everything that the graph depends on. */
static void shape_print(const struct conv_shape *shape, char *text, size_t text_size)
{
    char groups[32] = "";
    if (shape->groups > 1)
        snprintf(groups, sizeof(groups), ", groups %" PRIu32, shape->groups);
    snprintf(text, text_size,
             "%s %s%s%s%s%s, %" PRIu32 " x %" PRIu32 "x%" PRIu32 "x%" PRIu32 " -> %" PRIu32 "x%" PRIu32 "x%" PRIu32
             ", kernel %" PRIu32 "x%" PRIu32 ", stride %" PRIu32 "x%" PRIu32 ", padding %" PRIu32 "+%" PRIu32
             " %" PRIu32 "+%" PRIu32 "%s",
             precision_names[shape->precision], before_names[shape->before], pass_names[shape->pass],
             shape->bias ? " + bias" : "", shape->relu ? " + relu" : "", after_names[shape->after], shape->count,
             shape->in_channels, shape->in_h, shape->in_w, shape->out_channels, shape->out_h, shape->out_w,
             shape->kernel_h, shape->kernel_w, shape->stride_h, shape->stride_w, shape->pad_top, shape->pad_bottom,
             shape->pad_left, shape->pad_right, groups);
}

/* The tensor that the product computes. */
static enum tensor_id result_of(const struct conv_shape *shape)
{
    static const enum tensor_id results[PRODUCT_PASS_COUNT] = {
        [FPROP] = TENSOR_OUT, [DGRAD] = TENSOR_IN, [WGRAD] = TENSOR_WEIGHT,
    };
    return results[shape->pass];
}

/* Has a graph of the shape the tensor of the caller's? */
static bool has_tensor(const struct conv_shape *shape, enum tensor_id id)
{
    switch (id) {
    case TENSOR_BIAS:
        return shape->bias;
    case TENSOR_SCALE:
    case TENSOR_SHIFT:
        return shape->before == CONV_BEFORE_SCALE_RELU;
    case TENSOR_ADDEND:
        return conv_adds(shape->after);
    case TENSOR_RELU_OUT:
        return conv_masks(shape->after);
    case TENSOR_SUM:
    case TENSOR_SQUARES:
        return shape->after == CONV_AFTER_STATISTICS;
    default:
        return id < TENSOR_VALUES || (id < TENSOR_BETWEEN && shape->after == CONV_AFTER_NORM);
    }
}

static struct graph_tensor tensor_of(const struct conv_shape *shape, enum tensor_id id)
{
    const cudnnDataType_t type = data_types[precision_type(shape->precision)];
    struct graph_tensor tensor = { .id = id, .type = type };
    switch (id) {
    case TENSOR_IN:
        tensor = (struct graph_tensor){ id, type, { shape->count, shape->in_channels, shape->in_h, shape->in_w },
                                        false };
        break;
    case TENSOR_WEIGHT:
        tensor = (struct graph_tensor){ id, type, { shape->out_channels, shape->in_channels / shape->groups,
                                                    shape->kernel_h, shape->kernel_w }, false };
        break;
    case TENSOR_OUT:
        tensor = (struct graph_tensor){ id, type, { shape->count, shape->out_channels, shape->out_h, shape->out_w },
                                        false };
        break;
    case TENSOR_BIAS:
        tensor = (struct graph_tensor){ id, type, { 1, shape->out_channels, 1, 1 }, false };
        break;
    case TENSOR_SCALE:
    case TENSOR_SHIFT:
        tensor = (struct graph_tensor){ id, type, { 1, shape->in_channels, 1, 1 }, false };
        break;
    case TENSOR_SUM:
    case TENSOR_SQUARES:
        tensor = (struct graph_tensor){ id, CUDNN_DATA_FLOAT, { 1, shape->out_channels, 1, 1 }, false };
        break;
    case TENSOR_ADDEND:
    case TENSOR_RELU_OUT:
    case TENSOR_VALUES:
        tensor = tensor_of(shape, result_of(shape));
        tensor.id = id;
        break;
    default:
        if (id < TENSOR_BETWEEN)        /* vectors of a normalisation */
            tensor = (struct graph_tensor){ id, CUDNN_DATA_FLOAT, { 1, shape->in_channels, 1, 1 }, false };
        break;
    }
    return tensor;
}

static size_t tensor_bytes(const struct conv_shape *shape, enum tensor_id id)
{
    const struct graph_tensor tensor = tensor_of(shape, id);
    size_t bytes = tensor.type == CUDNN_DATA_FLOAT ? sizeof(float) : sizeof(uint16_t);
    for (uint32_t i = 0; i < 4; i++)
        bytes *= (size_t)tensor.dims[i];
    return (bytes + 255) & ~(size_t)255;
}

/* Enlarges the image on the side with more padding, by the difference, so that the remaining padding is the same on
 * both sides. */
static void make_even(uint32_t *size, uint32_t *before, uint32_t *after)
{
    const uint32_t less = *before < *after ? *before : *after;
    *size += *before - less + (*after - less);
    *before = *after = less;
}

/* cuDNN's weight gradient engines use the padding before the image also after it, and report no error (seen with cuDNN
 * 9.14 on sm_90 in every precision, doc/gpu.md). So they only get shapes with the same padding on both
 * sides. */
static struct conv_shape with_even_padding(const struct conv_shape *shape)
{
    struct conv_shape even = *shape;
    if (shape->pass == WGRAD) {
        make_even(&even.in_h, &even.pad_top, &even.pad_bottom);
        make_even(&even.in_w, &even.pad_left, &even.pad_right);
    }
    return even;
}

size_t conv_shape_bytes(const struct conv_shape *shape)
{
    const struct conv_shape even = with_even_padding(shape);
    size_t bytes = 0;
    for (enum tensor_id id = TENSOR_IN; id < TENSOR_BETWEEN; id++)
        if (has_tensor(&even, id))
            bytes += tensor_bytes(&even, id);
    return bytes;
}

/* A graph while it is built: the operations so far, and the number of tensors between them. */
struct conv_graph {
    struct cudnn_graph *graph;
    const struct conv_shape *shape;
    int64_t count, between_count;
    cudnnDataType_t between;    /* type of the next tensors between operations: before the product that of the values,
                                 * as cuDNN requires; then fp32, so that results are rounded once, at the end */
    cudnnBackendDescriptor_t operations[8];
};

static cudnnBackendDescriptor_t add_tensor(const struct conv_graph *build, enum tensor_id id)
{
    const struct graph_tensor tensor = tensor_of(build->shape, id);
    return graph_add_tensor(build->graph, &tensor);
}

/* A tensor between two operations, which has the dimensions of tensor `like`. */
static cudnnBackendDescriptor_t add_between(struct conv_graph *build, enum tensor_id like)
{
    struct graph_tensor tensor = tensor_of(build->shape, like);
    tensor.id = TENSOR_BETWEEN + build->between_count++;
    tensor.type = build->between;
    tensor.internal = true;
    return graph_add_tensor(build->graph, &tensor);
}

/* Adds an operation on `in`; `second` is NULL where the mode has one input. Writes to `out`, or (NULL) to a new tensor
 * between operations, like tensor `like`. Returns the tensor that it writes. */
static cudnnBackendDescriptor_t add_step(struct conv_graph *build, cudnnPointwiseMode_t mode, enum tensor_id like,
                                         cudnnBackendDescriptor_t in, cudnnBackendDescriptor_t second,
                                         cudnnBackendDescriptor_t out)
{
    cudnnBackendDescriptor_t to = out != NULL ? out : add_between(build, like);
    build->operations[build->count++] = graph_add_pointwise(build->graph, mode, in, second, to);
    return to;
}

/* The input of the product: the caller's, or what is computed from it. */
static cudnnBackendDescriptor_t add_before(struct conv_graph *build)
{
    cudnnBackendDescriptor_t in = add_tensor(build, TENSOR_IN);
    if (build->shape->before == CONV_BEFORE_NOTHING)
        return in;
    const cudnnDataType_t after = build->between;
    build->between = data_types[precision_type(build->shape->precision)];
    cudnnBackendDescriptor_t scale = add_tensor(build, TENSOR_SCALE), shift = add_tensor(build, TENSOR_SHIFT);
    in = add_step(build, CUDNN_POINTWISE_MUL, TENSOR_IN, in, scale, NULL);
    in = add_step(build, CUDNN_POINTWISE_ADD, TENSOR_IN, in, shift, NULL);
    in = add_step(build, CUDNN_POINTWISE_RELU_FWD, TENSOR_IN, in, NULL, NULL);
    build->between = after;
    return in;
}

static void add_product(struct conv_graph *build, cudnnBackendDescriptor_t result)
{
    const struct conv_shape *const shape = build->shape;
    const struct graph_window window = {
        .pad_before = { shape->pad_top, shape->pad_left },
        .pad_after = { shape->pad_bottom, shape->pad_right },
        .strides = { shape->stride_h, shape->stride_w },
    };
    const enum tensor_id made = result_of(shape);
    cudnnBackendDescriptor_t in = made == TENSOR_IN ? result : add_before(build);
    cudnnBackendDescriptor_t weight = made == TENSOR_WEIGHT ? result : add_tensor(build, TENSOR_WEIGHT);
    cudnnBackendDescriptor_t out = made == TENSOR_OUT ? result : add_tensor(build, TENSOR_OUT);
    build->operations[build->count++] =
        graph_add_convolution(build->graph, operation_types[shape->pass], &window, in, weight, out);
}

/* The operations after the product, each of which reads the result of the one before it. */
struct conv_step { bool is_wanted, has_second; enum tensor_id second; cudnnPointwiseMode_t mode; };

/* The sums of the result, which is in memory. */
static void add_statistics(struct conv_graph *build, cudnnBackendDescriptor_t result)
{
    cudnnBackendDescriptor_t sum = add_tensor(build, TENSOR_SUM), squares = add_tensor(build, TENSOR_SQUARES);
    build->operations[build->count++] = graph_add_statistics(build->graph, result, sum, squares);
}

/* The result of the normalisation of the caller's values. cuDNN knows the pattern by these operations in this order. */
static cudnnBackendDescriptor_t add_normalised(struct conv_graph *build, const struct norm_tensors *norm)
{
    const enum tensor_id like = TENSOR_VALUES;
    cudnnBackendDescriptor_t beta = add_tensor(build, TENSOR_BETA);
    cudnnBackendDescriptor_t last = add_step(build, CUDNN_POINTWISE_SUB, like, norm->values, norm->mean, NULL);
    last = add_step(build, CUDNN_POINTWISE_MUL, like, last, norm->inverse, NULL);
    last = add_step(build, CUDNN_POINTWISE_MUL, like, last, norm->gamma, NULL);
    return add_step(build, CUDNN_POINTWISE_ADD, like, last, beta, NULL);
}

/* Masks the gradient, and sums it for the normalisation. */
static void add_norm(struct conv_graph *build, cudnnBackendDescriptor_t gradient, cudnnBackendDescriptor_t result)
{
    const struct norm_tensors norm = {
        .values = add_tensor(build, TENSOR_VALUES), .mean = add_tensor(build, TENSOR_MEAN),
        .inverse = add_tensor(build, TENSOR_INVERSE), .gamma = add_tensor(build, TENSOR_GAMMA),
    };
    cudnnBackendDescriptor_t sums[CONV_NORM_SUMS];
    for (uint32_t i = 0; i < CONV_NORM_SUMS; i++)
        sums[i] = add_tensor(build, TENSOR_NORM_SUMS + i);
    cudnnBackendDescriptor_t normalised = add_normalised(build, &norm);
    add_step(build, CUDNN_POINTWISE_RELU_BWD, result_of(build->shape), gradient, normalised, result);
    build->operations[build->count++] = graph_add_norm_sums(build->graph, &norm, result, sums);
}

/* The product and the operations before and after it. Every operation before the one that writes the result writes a
 * tensor between operations. */
static int graph_build(struct cudnn_graph *graph, const char *name, cudnnHandle_t handle,
                       const struct conv_shape *shape)
{
    const struct conv_step steps[] = {
        { shape->bias, true, TENSOR_BIAS, CUDNN_POINTWISE_ADD },
        { shape->relu, false, TENSOR_BETWEEN, CUDNN_POINTWISE_RELU_FWD },
        { conv_adds(shape->after), true, TENSOR_ADDEND, CUDNN_POINTWISE_ADD },
        { conv_masks(shape->after), true, TENSOR_RELU_OUT, CUDNN_POINTWISE_RELU_BWD },
    };
    const enum tensor_id like = result_of(shape);
    uint32_t left = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        left += steps[i].is_wanted;
    const bool has_norm = shape->after == CONV_AFTER_NORM;
    graph_init(graph, name);
    struct conv_graph build = { .graph = graph, .shape = shape, .between = CUDNN_DATA_FLOAT };
    cudnnBackendDescriptor_t result = add_tensor(&build, like);
    cudnnBackendDescriptor_t last = left == 0 && !has_norm ? result : add_between(&build, like);
    add_product(&build, last);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        if (!steps[i].is_wanted)
            continue;
        cudnnBackendDescriptor_t second = steps[i].has_second ? add_tensor(&build, steps[i].second) : NULL;
        last = add_step(&build, steps[i].mode, like, last, second, --left == 0 ? result : NULL);
    }
    if (shape->after == CONV_AFTER_STATISTICS)
        add_statistics(&build, result);
    if (has_norm)
        add_norm(&build, last, result);
    graph_finish(graph, handle, build.count, build.operations);
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
        /* It would store the gradient in its workspace before it masks and sums it, as our own kernels do. */
        .no_generic = engine->fused.after == CONV_AFTER_NORM,
        .copy_bytes = tensor_bytes(&engine->fused, TENSOR_IN) + tensor_bytes(&engine->fused, TENSOR_OUT),
    };
}

/* Formats everything that a plan depends on. */
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

/* Loads the plan from the cache. 0, -ENOTSUP when the cache has no usable plan, or another negative errno. */
static int load_cached(struct conv_engine *engine, const struct engine_rules *rules, const char *folder,
                       const char *key)
{
    char *text;
    size_t bytes;
    if (!plan_cache_load(folder, CACHE_KIND, key, &text, &bytes))
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

/* Saves the plan in the cache, unless cuDNN cannot serialise it. Such a plan is made again in every run. */
static int save(const struct conv_engine *engine, const char *folder, const char *key)
{
    char *text;
    size_t bytes;
    const int rc = engine_plan_save(&engine->chosen, engine->name, &text, &bytes);
    if (rc < 0)
        return rc == -ENOTSUP ? 0 : rc;
    plan_cache_store(folder, CACHE_KIND, key, text, bytes);
    free(text);
    return 0;
}

static int bind_pointers(const struct conv_engine *engine, const struct conv_pointers *pointers,
                         cudnnBackendDescriptor_t *pack_out)
{
    int64_t ids[TENSOR_BETWEEN], count = 0;
    const void *bound[TENSOR_BETWEEN];
    for (enum tensor_id id = TENSOR_IN; id < TENSOR_BETWEEN; id++) {
        if (!has_tensor(&engine->fused, id))
            continue;
        ids[count] = id;
        bound[count++] = pointers->tensors[id];
    }
    return pointers_bind(pack_out, engine->name, count, ids, bound, pointers->workspace);
}

/* The pointers of the tensors in the scratch memory of the planner. */
static struct conv_pointers scratch_of(const struct conv_planner *planner, const struct conv_shape *shape)
{
    struct conv_pointers pointers = { .workspace = planner->workspace };
    const unsigned char *at = planner->scratch;
    for (enum tensor_id id = TENSOR_IN; id < TENSOR_BETWEEN; id++) {
        if (!has_tensor(shape, id))
            continue;
        pointers.tensors[id] = at;
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
    int rc = bind_pointers(engine, &pointers, &pack);
    if (rc < 0)
        return rc;
    rc = engine_fastest(plans, count, rules, pack, planner->stream, best_out, refusal);
    descriptor_close(pack);
    return rc;
}

static int find_plans(struct conv_engine *engine, const struct conv_planner *planner, const struct engine_rules *rules,
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

/* Chooses a plan for engine->fused. -ENOTSUP is not logged. */
static int choose_plan(struct conv_engine *engine, const struct conv_planner *planner, struct cudnn_refusal *refusal)
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
        rc = engine->key != NULL ? load_cached(engine, &rules, planner->cache, key) : -ENOMEM;
        if (rc != -ENOTSUP)
            return rc;
    }
    rc = find_plans(engine, planner, &rules, refusal);
    if (rc == 0 && planner->cache != NULL)
        rc = save(engine, planner->cache, key);
    return rc;
}

/* Do our own kernels pad the image, because cuDNN cannot? */
static bool pads_separately(const struct conv_engine *engine)
{
    return engine->fused.in_h != engine->shape.in_h || engine->fused.in_w != engine->shape.in_w;
}

/* Leaves what follows the product to our own kernels. */
static void split(struct conv_engine *engine)
{
    engine->fused.bias = engine->fused.relu = false;
    engine->fused.after = CONV_AFTER_NOTHING;
    engine->split_count++;
    graph_release(&engine->graph);
}

/* Says once why sums and masks, which usually are fused, are computed apart. Others of the network may be fused. */
static void report_split(const struct conv_engine *engine, const struct cudnn_refusal *refusal)
{
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    char text[256];
    if (engine->fused.after == CONV_AFTER_NOTHING || atomic_flag_test_and_set(&is_reported))
        return;
    shape_print(&engine->fused, text, sizeof(text));
    log_message(LOG_RUN, "%s: cuDNN does not fuse %s, which is computed by several kernels: %s", engine->name, text,
                refusal->text);
}

/* Says once what avoids the generic engine, which is slow. Others of the network may have it, too. */
static void report_generic(const struct conv_engine *engine, size_t workspace_max)
{
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    const size_t wanted = (engine->chosen.others_workspace + (1 << 20) - 1) >> 20;
    char text[256];
    if (engine->chosen.others_workspace == 0 || atomic_flag_test_and_set(&is_reported))
        return;
    shape_print(&engine->fused, text, sizeof(text));
    log_message(LOG_RUN, "%s: cuDNN's slow generic engine computes %s: others need at least %zu MiB of workspace, and "
                "devices.workspace is %zu MiB", engine->name, text, wanted, workspace_max >> 20);
}

/* Chooses a plan for the whole shape or, when cuDNN has no engine that fuses what follows the product, for the
 * convolution alone, followed by our own kernels. */
static int choose_or_split(struct conv_engine *engine, const struct conv_planner *planner,
                           struct cudnn_refusal *refusal)
{
    struct conv_shape *const fused = &engine->fused;
    if (fused->before != CONV_BEFORE_NOTHING && pads_separately(engine)) {
        snprintf(refusal->text, sizeof(refusal->text), "the zeros around the image would be scaled, too");
        return -ENOTSUP;
    }
    const int status = choose_plan(engine, planner, refusal);
    if (status != -ENOTSUP || (!fused->bias && !fused->relu && fused->after == CONV_AFTER_NOTHING))
        return status;
    report_split(engine, refusal);
    split(engine);
    return choose_plan(engine, planner, refusal);
}

static int check_planner(const struct conv_planner *planner, const struct conv_shape *shape)
{
    assert(shape->pass == FPROP || (!shape->bias && !shape->relu));
    assert(shape->pass == DGRAD || shape->after == CONV_AFTER_NOTHING ||
           (shape->pass == FPROP && shape->after == CONV_AFTER_STATISTICS && !shape->bias && !shape->relu));
    assert(shape->pass != DGRAD || shape->before == CONV_BEFORE_NOTHING);
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
    engine->fused = with_even_padding(shape);
    const bool measures = planner->scratch != NULL;
    const int turn = measures ? plan_turn_begin(planner->cache) : -1;
    const int rc = choose_or_split(engine, planner, &refusal);
    if (measures)
        plan_turn_end(turn);
    if (rc == -ENOTSUP && !quiet) {
        char text[256];
        shape_print(shape, text, sizeof(text));
        log_message(LOG_ERROR, "%s: cuDNN has no engine for %s: %s", planner->name, text, refusal.text);
    }
    if (rc == 0 && !quiet)
        report_generic(engine, planner->workspace_max);
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
    int rc = check_planner(planner, shape);
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

bool conv_plan_has_statistics(const struct conv_plan *plan)
{
    return plan->engine->fused.after == CONV_AFTER_STATISTICS;
}

bool conv_plan_has_norm_sums(const struct conv_plan *plan)
{
    return plan->engine->fused.after == CONV_AFTER_NORM;
}

/* Do our own kernels add the bias, apply the ReLU, add the addend, apply the ReLU's mask? Does the caller compute
 * statistics, or mask and sum the gradient for a normalisation? */
static bool adds_bias_separately(const struct conv_engine *engine)
{
    return engine->shape.bias && !engine->fused.bias;
}

static bool applies_relu_separately(const struct conv_engine *engine)
{
    return engine->shape.relu && !engine->fused.relu;
}

static bool adds_separately(const struct conv_engine *engine)
{
    return conv_adds(engine->shape.after) && !conv_adds(engine->fused.after);
}

static bool masks_separately(const struct conv_engine *engine)
{
    return conv_masks(engine->shape.after) && !conv_masks(engine->fused.after);
}

static bool sums_separately(const struct conv_engine *engine)
{
    return engine->shape.after == CONV_AFTER_STATISTICS && engine->fused.after != CONV_AFTER_STATISTICS;
}

static bool leaves_norm(const struct conv_engine *engine)
{
    return engine->shape.after == CONV_AFTER_NORM && engine->fused.after != CONV_AFTER_NORM;
}

/* The bytes of the padded image, which is at the start of the workspace. */
static size_t padded_bytes(const struct conv_engine *engine)
{
    return pads_separately(engine) ? tensor_bytes(&engine->fused, TENSOR_IN) : 0;
}

size_t conv_plan_workspace(const struct conv_plan *plan)
{
    return padded_bytes(plan->engine) + plan->engine->chosen.workspace;
}

void conv_plan_describe(const struct conv_plan *plan, char *text, size_t text_size)
{
    const struct conv_engine *const engine = plan->engine;
    const char *const apart = pads_separately(engine)           ? ", zeros apart"
                              : adds_bias_separately(engine)    ? ", bias apart"
                              : applies_relu_separately(engine) ? ", relu apart"
                              : adds_separately(engine)         ? ", sum apart"
                              : masks_separately(engine)        ? ", mask apart"
                              : sums_separately(engine)         ? ", statistics apart"
                              : leaves_norm(engine)             ? ", norm sums apart"
                                                                : "";
    snprintf(text, text_size, "%sengine %" PRId64 "%s, %.1f MiB workspace%s%s%s", before_names[engine->fused.before],
             engine->chosen.engine, after_names[engine->fused.after], (double)conv_plan_workspace(plan) / (1 << 20),
             apart, engine->measured ? ", measured" : "", engine->cached ? ", cached" : "");
}

/* Makes a new pack when a pointer changed; in a run the pointers are the same in every step. */
static int rebind(struct conv_plan *plan, const struct conv_pointers *pointers)
{
    cudnnBackendDescriptor_t pack;
    if (plan->pack != NULL && plan->split_count == plan->engine->split_count &&
        memcmp(&plan->bound, pointers, sizeof(*pointers)) == 0)
        return 0;
    const int rc = bind_pointers(plan->engine, pointers, &pack);
    if (rc < 0)
        return rc;
    descriptor_close(plan->pack);
    plan->pack = pack;
    plan->bound = *pointers;
    plan->split_count = plan->engine->split_count;
    return 0;
}

static int finish_forward(const struct conv_engine *engine, cudaStream_t stream, const struct conv_operands *operands)
{
    const struct conv_shape *const shape = &engine->shape;
    const enum value_type type = precision_type(shape->precision);
    const size_t rows = (size_t)shape->count * shape->out_h * shape->out_w;
    void *const out = operands->out;
    if (adds_bias_separately(engine))
        return CUDA_CALL(engine->name, kernel_bias(stream, type, rows, shape->out_channels, operands->bias, shape->relu,
                                                   out));
    if (applies_relu_separately(engine))
        return CUDA_CALL(engine->name, kernel_relu(stream, type, rows * shape->out_channels, out, out));
    return 0;
}

static int finish_gradient(const struct conv_engine *engine, cudaStream_t stream, const struct conv_operands *operands)
{
    const struct conv_shape *const shape = &engine->shape;
    const enum value_type type = precision_type(shape->precision);
    const size_t count = (size_t)shape->count * shape->in_h * shape->in_w * shape->in_channels;
    void *const in = operands->in;
    int status = 0;
    if (adds_separately(engine))
        status = CUDA_CALL(engine->name, kernel_add(stream, type, count, in, operands->addend, false, in));
    if (status == 0 && masks_separately(engine))
        status = CUDA_CALL(engine->name, kernel_relu_backward(stream, type, count, operands->relu_out, in, in, false));
    return status;
}

/* Computes what cuDNN's plan leaves out. */
static int finish_separately(const struct conv_engine *engine, cudnnHandle_t handle,
                             const struct conv_operands *operands)
{
    cudaStream_t stream;
    if (engine->shape.bias == engine->fused.bias && engine->shape.relu == engine->fused.relu &&
        engine->shape.after == engine->fused.after)
        return 0;
    const int status = CUDNN_CALL(engine->name, cudnnGetStream(handle, &stream));
    if (status < 0)
        return status;
    return engine->shape.pass == FPROP ? finish_forward(engine, stream, operands)
                                       : finish_gradient(engine, stream, operands);
}

static int pad_image(const struct conv_engine *engine, cudnnHandle_t handle, const void *in, void *padded)
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
                                                                padded));
}

/* ---- plans that fail to run ---- */

/* Finds another engine for the graph. The workspace of the step is allocated already. */
static int find_another(struct conv_engine *engine, cudnnHandle_t handle, struct cudnn_refusal *refusal)
{
    const struct conv_planner planner = { .name = engine->name, .handle = handle,
                                          .workspace_max = engine->chosen.workspace };
    struct engine_rules rules = rules_of(engine, &planner);
    struct engine_plan another;
    uint32_t count = 0;
    rules.failed = &engine->chosen.engine;
    const int rc = engine_find(&engine->graph, &rules, 1, &another, &count, refusal);
    if (rc < 0)
        return rc;
    engine_plan_close(&engine->chosen);
    engine->chosen = another;
    engine->cached = engine->measured = false;
    return 0;
}

/* Can our own kernels compute what follows the product after all? Statistics would need memory that is not planned. */
static bool may_split(const struct conv_engine *engine)
{
    return engine->fused.after != CONV_AFTER_NOTHING && engine->fused.after != CONV_AFTER_STATISTICS;
}

/* An engine may fail when it first runs, for example on another driver than the plan was made with. Then another engine
 * that needs no more workspace is chosen, once, and the plan is removed from the cache. If there is none for a sum or a
 * mask, our own kernels compute them. 0; -ENOTSUP, with the reason in *refusal, when there is no engine; or another
 * negative errno. */
static int choose_another(struct conv_engine *engine, cudnnHandle_t handle, struct cudnn_refusal *refusal)
{
    char text[256];
    if (engine->was_replaced && !may_split(engine))
        return -ENOTSUP;
    shape_print(&engine->fused, text, sizeof(text));
    log_message(LOG_RUN, "%s: cuDNN's engine %" PRId64 " does not run %s: %s: another one is taken", engine->name,
                engine->chosen.engine, text, refusal->text);
    if (engine->cache != NULL)
        plan_cache_drop(engine->cache, CACHE_KIND, engine->key);
    int rc = engine->was_replaced ? -ENOTSUP : find_another(engine, handle, refusal);
    engine->was_replaced = true;
    if (rc != -ENOTSUP || !may_split(engine))
        return rc;
    split(engine);
    rc = graph_build(&engine->graph, engine->name, handle, &engine->fused);
    return rc == 0 ? find_another(engine, handle, refusal) : rc;
}

static int execute(const struct conv_plan *plan, cudnnHandle_t handle, struct cudnn_refusal *refusal)
{
    const struct conv_engine *const engine = plan->engine;
    return cudnn_try(HEARTBEAT_CALL("cudnnBackendExecute",
                                    cudnnBackendExecute(handle, engine->chosen.plan, plan->pack)),
                     engine->name, "cudnnBackendExecute", refusal);
}

/* What to do without a plan that takes part in a normalisation: other memory would be planned, so the run cannot go on.
 * */
static const char *way_out(const struct conv_shape *fused)
{
    const bool normalises = fused->after == CONV_AFTER_STATISTICS || fused->before != CONV_BEFORE_NOTHING;
    return normalises ? "; with devices.batch_statistics = exact it computes the product alone" : "";
}

/* Runs the plan, or plans that replace it: at most another engine, and one after a split. */
static int run_product(struct conv_plan *plan, cudnnHandle_t handle)
{
    struct cudnn_refusal refusal;
    int rc = execute(plan, handle, &refusal);
    while (rc == -ENOTSUP) {
        const struct conv_pointers bound = plan->bound;
        rc = choose_another(plan->engine, handle, &refusal);
        if (rc == -ENOTSUP)
            log_message(LOG_ERROR, "%s: no engine of cuDNN's runs a convolution: %s%s", plan->engine->name,
                        refusal.text, way_out(&plan->engine->fused));
        if (rc == 0)
            rc = rebind(plan, &bound);
        if (rc != 0)
            return rc;
        rc = execute(plan, handle, &refusal);
    }
    return rc;
}

static struct conv_pointers pointers_of(const struct conv_engine *engine, const struct conv_operands *operands)
{
    const uint32_t in_channels = engine->shape.in_channels;
    struct conv_pointers pointers = {
        .tensors = {
            [TENSOR_IN] = pads_separately(engine) ? operands->workspace : operands->in,
            [TENSOR_WEIGHT] = operands->weight, [TENSOR_OUT] = operands->out, [TENSOR_BIAS] = operands->bias,
            [TENSOR_SCALE] = operands->scale, [TENSOR_SHIFT] = operands->shift, [TENSOR_ADDEND] = operands->addend,
            [TENSOR_RELU_OUT] = operands->relu_out, [TENSOR_SUM] = operands->sums,
            [TENSOR_SQUARES] = operands->sums != NULL ? operands->sums + engine->shape.out_channels : NULL,
            [TENSOR_VALUES] = operands->values, [TENSOR_MEAN] = operands->statistics,
            [TENSOR_INVERSE] = operands->statistics != NULL ? operands->statistics + in_channels : NULL,
            [TENSOR_GAMMA] = operands->gamma, [TENSOR_BETA] = operands->beta,
        },
        .workspace = (unsigned char *)operands->workspace + padded_bytes(engine),
    };
    for (uint32_t i = 0; i < CONV_NORM_SUMS && operands->statistics != NULL; i++)
        pointers.tensors[TENSOR_NORM_SUMS + i] = operands->sums + (size_t)i * in_channels;
    return pointers;
}

int conv_plan_run(struct conv_plan *plan, cudnnHandle_t handle, const struct conv_operands *operands)
{
    const struct conv_engine *const engine = plan->engine;
    const struct conv_pointers pointers = pointers_of(engine, operands);
    int status = rebind(plan, &pointers);
    if (status == 0 && pads_separately(engine))
        status = pad_image(engine, handle, operands->in, operands->workspace);
    if (status == 0)
        status = run_product(plan, handle);
    return status == 0 ? finish_separately(engine, handle, operands) : status;
}
