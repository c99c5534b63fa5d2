/* Convolutions of one shape through cuDNN: the graph, the plan chosen for it, and running it. Called by the CUDA
 * backend from the tower's thread. */
#include "compute/cuda/cudnn_conv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "compute/cuda/cudnn_engine.h"
#include "compute/cuda/cudnn_graph.h"
#include "stage/cuda/cuda_call.h"
#include "stage/file/file.h"
#include "stage/log.h"

/* ---- the plan cache: one file per plan, named after the hash of all that the plan depends on ----
 *
 * A file has three lines, the last without a newline: the key, the hash of the plan in hexadecimal, the plan. It
 * appears by a rename. A damaged or missing file is not an error: the plan is made again. */

#define HASH_DIGITS 16u
#define FILE_BYTES_MAX (4u << 20)

static bool cache_path(char path[PATH_MAX], const char *folder, const char *key)
{
    const uint64_t hash = XXH3_64bits(key, strlen(key));
    return snprintf(path, PATH_MAX, "%s/conv-%016" PRIx64 ".plan", folder, hash) < PATH_MAX;
}

/* Formats the lines of a cache file before the plan. */
static char *cache_header(const char *key, const char *plan, size_t bytes, size_t *header_bytes_out)
{
    const size_t header_bytes = strlen(key) + 1 + HASH_DIGITS + 1;
    char *const header = malloc(header_bytes + 1);
    if (header != NULL) {
        snprintf(header, header_bytes + 1, "%s\n%016" PRIx64 "\n", key, (uint64_t)XXH3_64bits(plan, bytes));
        *header_bytes_out = header_bytes;
    }
    return header;
}

/* Does `text` hold an undamaged plan for the key? */
static bool cache_is_valid(const char *text, size_t bytes, const char *key, size_t *header_bytes_out)
{
    const size_t header_bytes = strlen(key) + 1 + HASH_DIGITS + 1;
    if (bytes <= header_bytes)
        return false;
    char *const header = cache_header(key, text + header_bytes, bytes - header_bytes, header_bytes_out);
    const bool whole = header != NULL && memcmp(text, header, header_bytes) == 0;
    free(header);
    return whole;
}

static bool plan_cache_load(const char *folder, const char *key, char **plan_out, size_t *bytes_out)
{
    char path[PATH_MAX];
    size_t bytes, header_bytes;
    char *text;
    if (!cache_path(path, folder, key) || file_load(path, FILE_BYTES_MAX, &text, &bytes) != 0)
        return false;
    if (!cache_is_valid(text, bytes, key, &header_bytes)) {
        free(text);
        return false;
    }
    memmove(text, text + header_bytes, bytes - header_bytes);
    *plan_out = text;
    *bytes_out = bytes - header_bytes;
    return true;
}

static int cache_write_file(int file, const char *header, size_t header_bytes, const char *plan, size_t bytes)
{
    int rc = file_write(file, header, header_bytes);
    if (rc == 0)
        rc = file_write(file, plan, bytes);
    if (close(file) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

static int cache_write(const char *folder, const char *path, const char *key, const char *plan, size_t bytes)
{
    char temporary[PATH_MAX];
    size_t header_bytes;
    if (snprintf(temporary, sizeof(temporary), "%s/conv-XXXXXX", folder) >= PATH_MAX)
        return -ENAMETOOLONG;
    char *const header = cache_header(key, plan, bytes, &header_bytes);
    if (header == NULL)
        return -ENOMEM;
    const int file = mkostemp(temporary, O_CLOEXEC);
    int rc = file < 0 ? -errno : cache_write_file(file, header, header_bytes, plan, bytes);
    if (rc == 0 && rename(temporary, path) < 0)
        rc = -errno;
    if (rc < 0 && file >= 0)
        unlink(temporary);
    free(header);
    return rc;
}

static void plan_cache_store(const char *folder, const char *key, const char *plan, size_t bytes)
{
    static atomic_flag is_reported = ATOMIC_FLAG_INIT;
    char path[PATH_MAX];
    const int rc = cache_path(path, folder, key) ? cache_write(folder, path, key, plan, bytes) : -ENAMETOOLONG;
    if (rc < 0 && !atomic_flag_test_and_set(&is_reported))
        log_message(LOG_RUN, "convolution plans are not kept in %s: %s", folder, strerror(-rc));
}

static void plan_cache_drop(const char *folder, const char *key)
{
    char path[PATH_MAX];
    if (cache_path(path, folder, key))
        unlink(path);
}

/* ---- graphs ---- */

/* Tensors of the graph: the caller's tensors, of which the bias is optional, and two internal tensors. */
enum tensor_id { TENSOR_IN = 1, TENSOR_WEIGHT, TENSOR_OUT, TENSOR_BIAS, TENSOR_PRODUCT, TENSOR_SUM };

#define POINTERS TENSOR_BIAS    /* most pointers of a pack */

/* The memory of a run: the tensors by id, and the workspace. */
struct conv_pointers { const void *tensors[POINTERS]; void *workspace; };

/* Shared by the plans of one shape. */
struct conv_engine {
    uint32_t user_count;        /* plans that use the engine; the last plan closes it */
    char name[32];
    struct conv_shape shape;
    struct conv_shape fused;    /* the part that cuDNN computes: without bias and ReLU where cuDNN cannot fuse them, and
                                 * with evenly padded images where it computes uneven padding wrongly */
    struct cudnn_graph graph;
    struct engine_plan chosen;
    bool cached, measured;
    const char *cache;          /* lent: the cache folder, NULL: none */
    char *key;                  /* key of the plan in the cache folder */
    bool was_replaced;          /* the first plan failed to run */
};

struct conv_plan {
    struct conv_engine *engine;
    struct conv_pointers bound; /* the memory bound by `pack` */
    cudnnBackendDescriptor_t pack;      /* NULL before the first run */
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

/* Formats everything that the graph depends on. */
static void shape_print(const struct conv_shape *shape, char *text, size_t text_size)
{
    char groups[32] = "";
    if (shape->groups > 1)
        snprintf(groups, sizeof(groups), ", groups %" PRIu32, shape->groups);
    snprintf(text, text_size,
             "%s %s%s%s, %" PRIu32 " x %" PRIu32 "x%" PRIu32 "x%" PRIu32 " -> %" PRIu32 "x%" PRIu32 "x%" PRIu32
             ", kernel %" PRIu32 "x%" PRIu32 ", stride %" PRIu32 "x%" PRIu32 ", padding %" PRIu32 "+%" PRIu32
             " %" PRIu32 "+%" PRIu32 "%s",
             precision_names[shape->precision], pass_names[shape->pass], shape->bias ? " + bias" : "",
             shape->relu ? " + relu" : "", shape->count, shape->in_channels, shape->in_h, shape->in_w,
             shape->out_channels, shape->out_h, shape->out_w, shape->kernel_h, shape->kernel_w, shape->stride_h,
             shape->stride_w, shape->pad_top, shape->pad_bottom, shape->pad_left, shape->pad_right, groups);
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
            id, type, { shape->out_channels, shape->in_channels / shape->groups, shape->kernel_h, shape->kernel_w },
            false };
    case TENSOR_BIAS:
        return (struct graph_tensor){ id, type, { 1, shape->out_channels, 1, 1 }, false };
    case TENSOR_OUT:
    case TENSOR_PRODUCT:
    case TENSOR_SUM:
        break;
    }
    /* Internal tensors are fp32: results are rounded once, at the end. */
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

/* out = in * weight [+ bias] [, ReLU]: every operation but the last writes an internal tensor. */
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

/* Saves the plan in the cache, unless cuDNN cannot serialise it. Such a plan is made again in every run. */
static int save(const struct conv_engine *engine, const char *folder, const char *key)
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

static int bind_pointers(const struct conv_engine *engine, const struct conv_pointers *pointers,
                         cudnnBackendDescriptor_t *pack_out)
{
    return pointers_bind(pack_out, engine->name, engine->fused.bias ? TENSOR_BIAS : TENSOR_OUT, pointers->tensors,
                         pointers->workspace);
}

/* The pointers of the tensors, by id, in the scratch memory of the planner. */
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

/* Towers are opened in parallel, but only one measures at a time, so that nothing else runs on a shared device and the
 * other towers find the chosen plan in the cache. Processes that share the cache, such as ranks, take turns by locking
 * its folder; the lock is released when its process ends. A process that holds the lock for too long is waited for only
 * once, not for every convolution. */
static pthread_mutex_t measuring = PTHREAD_MUTEX_INITIALIZER;
static bool is_turn_overdue;            /* guarded by measuring */
#define TURN_LOOK_NS 10000000
#define TURN_LOOKS_MAX 3000u

/* Waits until this process has the folder's lock, or another process has held it for too long. */
static void await_turn(int folder, const char *cache)
{
    const struct timespec nap = { .tv_nsec = TURN_LOOK_NS };
    uint32_t looks = 0;
    while (flock(folder, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && !is_turn_overdue) {
        nanosleep(&nap, NULL);
        is_turn_overdue = ++looks == TURN_LOOKS_MAX;
        if (is_turn_overdue)
            log_message(LOG_RUN, "%s: another process has had its lock for 30 s: measuring beside it, so plans may not "
                        "be the fastest", cache);
    }
}

/* Opens the cache folder and waits for its lock. -1: there is no folder. */
static int begin_measuring(const char *cache)
{
    pthread_mutex_lock(&measuring);
    const int folder = cache != NULL ? open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (folder >= 0)
        await_turn(folder, cache);
    return folder;
}

static void end_measuring(int folder)
{
    if (folder >= 0)
        close(folder);
    pthread_mutex_unlock(&measuring);
}

/* Chooses a plan for the whole shape or, when cuDNN has no engine that fuses bias and ReLU, for the convolution alone,
 * followed by our own kernels. */
static int choose_or_split(struct conv_engine *engine, const struct conv_planner *planner,
                           struct cudnn_refusal *refusal)
{
    const int status = choose_plan(engine, planner, refusal);
    if (status != -ENOTSUP || (!engine->fused.bias && !engine->fused.relu))
        return status;
    engine->fused.bias = engine->fused.relu = false;
    graph_release(&engine->graph);
    return choose_plan(engine, planner, refusal);
}

static int check_planner(const struct conv_planner *planner, const struct conv_shape *shape)
{
    assert(shape->pass == FPROP || (!shape->bias && !shape->relu));
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
    const int turn = measures ? begin_measuring(planner->cache) : -1;
    const int rc = choose_or_split(engine, planner, &refusal);
    if (measures)
        end_measuring(turn);
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

/* Do our own kernels pad the image, add the bias, apply the ReLU, because cuDNN cannot? */
static bool pads_separately(const struct conv_engine *engine)
{
    return engine->fused.in_h != engine->shape.in_h || engine->fused.in_w != engine->shape.in_w;
}

static bool adds_bias_separately(const struct conv_engine *engine)
{
    return engine->shape.bias && !engine->fused.bias;
}

static bool applies_relu_separately(const struct conv_engine *engine)
{
    return engine->shape.relu && !engine->fused.relu;
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
    const char *const apart = pads_separately(engine)  ? ", zeros apart"
                              : adds_bias_separately(engine) ? ", bias apart"
                              : applies_relu_separately(engine) ? ", relu apart"
                                                    : "";
    snprintf(text, text_size, "engine %" PRId64 ", %.1f MiB workspace%s%s%s", engine->chosen.engine,
             (double)conv_plan_workspace(plan) / (1 << 20), apart,
             engine->measured ? ", measured" : "", engine->cached ? ", cached" : "");
}

/* Makes a new pack when a pointer changed; in a run the pointers are the same in every step. */
static int rebind(struct conv_plan *plan, const struct conv_pointers *pointers)
{
    cudnnBackendDescriptor_t pack;
    if (plan->pack != NULL && memcmp(&plan->bound, pointers, sizeof(*pointers)) == 0)
        return 0;
    const int rc = bind_pointers(plan->engine, pointers, &pack);
    if (rc < 0)
        return rc;
    descriptor_close(plan->pack);
    plan->pack = pack;
    plan->bound = *pointers;
    return 0;
}

static int finish_separately(const struct conv_engine *engine, cudnnHandle_t handle, const void *bias, void *out)
{
    const struct conv_shape *const shape = &engine->shape;
    const enum value_type type = precision_type(shape->precision);
    const size_t rows = (size_t)shape->count * shape->out_h * shape->out_w;
    cudaStream_t stream;
    const int status = CUDNN_CALL(engine->name, cudnnGetStream(handle, &stream));
    if (status < 0)
        return status;
    if (adds_bias_separately(engine))
        return CUDA_CALL(engine->name, kernel_bias(stream, type, rows, shape->out_channels, bias, shape->relu, out));
    return CUDA_CALL(engine->name, kernel_relu(stream, type, rows * shape->out_channels, out, out));
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

/* An engine may fail when it first runs, for example on another driver than the plan was made with. Then another engine
 * that needs no more workspace is chosen, once, and the plan is removed from the cache. 0; -ENOTSUP, with the reason in
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
    const bool pads = pads_separately(engine);
    const struct conv_pointers pointers = {
        .tensors = { pads ? workspace : in, weight, out, bias },
        .workspace = (unsigned char *)workspace + padded_bytes(engine),
    };
    int status = rebind(plan, &pointers);
    if (status == 0 && pads)
        status = pad_image(engine, handle, in, workspace);
    if (status == 0)
        status = run_product(plan, handle);
    if (status == 0 && (adds_bias_separately(engine) || applies_relu_separately(engine)))
        status = finish_separately(engine, handle, bias, out);
    return status;
}
