/* Tests of how strict the simulated cuDNN is: it refuses what the real library refuses, and an engine that must not be
 * chosen shows in the results. Programs without mistakes do not need that, so no other test fails where it is missing.
 * All else is tested by the tests of convolutions, which are linked to it. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/cudnn_conv_fixture.h"
#include "tests/helpers/test.h"

#define GUARD 256
#define assert_cudnn(call) assert_int_equal((call), CUDNN_STATUS_SUCCESS)

typedef cudnnBackendDescriptor_t part;

/* Tensors, by id; BIAS is another one. The first four are in the device's memory. */
enum { X = IN, W = WEIGHT, Y = OUT, PRODUCT = TENSORS, SUM };

/* count, in: channels, height, width, out: the same, kernel, stride, padding at the top, bottom, left and right,
 * groups. wish_for computes the height and width of the output. */
#define SHAPE(...) \
    { FPROP, PRECISION_FP32, false, false, CONV_BEFORE_NOTHING, CONV_AFTER_NOTHING, __VA_ARGS__ }
static const struct conv_shape shapes[] = {
    SHAPE(2, 3, 7, 6, 5, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 8, 5, 9, 16, 0, 0, 3, 2, 2, 1, 0, 2, 1, 0, 1),
};

/* One for each type of values. */
static const enum precision precisions[] = { PRECISION_FP32, PRECISION_FP16, PRECISION_BF16 };
enum { TYPES = sizeof(precisions) / sizeof(precisions[0]) };

struct tensor {
    int64_t id;
    cudnnDataType_t type;
    int64_t dims[4];
    bool is_virtual;
};

/* A graph to be built. Tests change its fields before. */
struct wish {
    struct conv_shape shape;
    float alpha, beta;          /* alpha 0: not set */
    struct tensor tensors[SUM + 1];     /* by id */
};

/* Descriptors to be freed together. */
struct parts { part all[24]; int count; };

/* ---- building graphs ---- */

static part part_new(cudnnBackendDescriptorType_t type)
{
    part made = NULL;
    assert_cudnn(cudnnBackendCreateDescriptor(type, &made));
    return made;
}

static void part_free(part old)
{
    assert_cudnn(cudnnBackendDestroyDescriptor(old));
}

static void set(part to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void *values)
{
    assert_cudnn(cudnnBackendSetAttribute(to, name, type, count, values));
}

static void set_part(part to, cudnnBackendAttributeName_t name, part value)
{
    set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

/* Like tensor_new, but the descriptor is not finalised, so that a test can set more attributes. */
static part tensor_start(const struct tensor *tensor)
{
    const int64_t *d = tensor->dims, alignment = 16;
    const int64_t last[4] = { d[1] * d[2] * d[3], 1, d[3] * d[1], d[1] };
    part made = part_new(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &tensor->type);
    set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d);
    set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, last);
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &tensor->id);
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &tensor->is_virtual);
    return made;
}

static part tensor_new(const struct tensor *tensor)
{
    part made = tensor_start(tensor);
    assert_cudnn(cudnnBackendFinalize(made));
    return made;
}

static part window_new(const struct conv_shape *shape)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t rank = 2, ones[2] = { 1, 1 }, strides[2] = { shape->stride_h, shape->stride_w };
    const int64_t before[2] = { shape->pad_top, shape->pad_left }, after[2] = { shape->pad_bottom, shape->pad_right };
    part made = part_new(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
    set(made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
    set(made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
    set(made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    set(made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    assert_cudnn(cudnnBackendFinalize(made));
    return made;
}

/* Of one pass: the operation's type and the names of its attributes. */
static const struct names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t window, x, w, y, alpha, beta;
} names[PRODUCT_PASS_COUNT] = {
    [FPROP] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [DGRAD] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [WGRAD] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

/* A valid graph. Weight gradients get the same padding on both sides. */
static struct wish wish_for(const struct conv_shape *shape, int pass, enum precision precision)
{
    struct wish wish = { .shape = *shape };
    struct conv_shape *const s = &wish.shape;
    s->pass = (enum product_pass)pass;
    s->precision = precision;
    if (s->pass == WGRAD) {
        s->pad_bottom = s->pad_top;
        s->pad_right = s->pad_left;
    }
    s->out_h = (s->in_h + s->pad_top + s->pad_bottom - s->kernel_h) / s->stride_h + 1;
    s->out_w = (s->in_w + s->pad_left + s->pad_right - s->kernel_w) / s->stride_w + 1;
    const cudnnDataType_t type = precision == PRECISION_FP16   ? CUDNN_DATA_HALF
                                 : precision == PRECISION_BF16 ? CUDNN_DATA_BFLOAT16
                                                               : CUDNN_DATA_FLOAT;
    const struct tensor y = { Y, type, { s->count, s->out_channels, s->out_h, s->out_w }, false };
    wish.tensors[X] = (struct tensor){ X, type, { s->count, s->in_channels, s->in_h, s->in_w }, false };
    wish.tensors[W] =
        (struct tensor){ W, type, { s->out_channels, s->in_channels, s->kernel_h, s->kernel_w }, false };
    wish.tensors[BIAS] = (struct tensor){ BIAS, type, { 1, s->out_channels, 1, 1 }, false };
    wish.tensors[Y] = y;
    wish.tensors[PRODUCT] = (struct tensor){ PRODUCT, CUDNN_DATA_FLOAT, { 0 }, true };
    memcpy(wish.tensors[PRODUCT].dims, y.dims, sizeof(y.dims));
    wish.tensors[SUM] = wish.tensors[PRODUCT];
    wish.tensors[SUM].id = SUM;
    return wish;
}

static part keep(struct parts *parts, part made)
{
    parts->all[parts->count++] = made;
    return made;
}

static void parts_free(struct parts *parts)
{
    while (parts->count > 0)
        part_free(parts->all[--parts->count]);
}

static part add_tensor(struct parts *parts, const struct wish *wish, int id)
{
    return keep(parts, tensor_new(&wish->tensors[id]));
}

static part pointwise_new(struct parts *parts, cudnnPointwiseMode_t mode, part in, part second, part out)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    part kind = keep(parts, part_new(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
    set(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    assert_cudnn(cudnnBackendFinalize(kind));
    part made = keep(parts, part_new(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR));
    set_part(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_part(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, in);
    if (second != NULL)
        set_part(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, second);
    set_part(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
    return made;
}

/* Not finalised. */
static part convolution_start(struct parts *parts, const struct wish *wish, part y)
{
    const struct names *of = &names[wish->shape.pass];
    part made = keep(parts, part_new(of->type));
    set_part(made, of->window, keep(parts, window_new(&wish->shape)));
    set_part(made, of->x, add_tensor(parts, wish, X));
    set_part(made, of->w, add_tensor(parts, wish, W));
    set_part(made, of->y, y);
    if (wish->alpha != 0) {
        set(made, of->alpha, CUDNN_TYPE_FLOAT, 1, &wish->alpha);
        set(made, of->beta, CUDNN_TYPE_FLOAT, 1, &wish->beta);
    }
    return made;
}

/* Not finalised; the last of the parts. */
static part graph_start(struct parts *parts, const struct wish *wish)
{
    part operations[3];
    int64_t count = 0;
    part y = add_tensor(parts, wish, Y), product = wish->shape.bias ? add_tensor(parts, wish, PRODUCT) : y;
    operations[count++] = convolution_start(parts, wish, product);
    if (wish->shape.bias) {
        part sum = wish->shape.relu ? add_tensor(parts, wish, SUM) : y;
        operations[count++] = pointwise_new(parts, CUDNN_POINTWISE_ADD, product, add_tensor(parts, wish, BIAS), sum);
        if (wish->shape.relu)
            operations[count++] = pointwise_new(parts, CUDNN_POINTWISE_RELU_FWD, sum, NULL, y);
    }
    for (int64_t i = 0; i < count; i++)
        assert_cudnn(cudnnBackendFinalize(operations[i]));
    part graph = keep(parts, part_new(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations);
    return graph;
}

static part graph_new(struct parts *parts, const struct wish *wish)
{
    part graph = graph_start(parts, wish);
    assert_cudnn(cudnnBackendFinalize(graph));
    return graph;
}

static part config_new(struct parts *parts, part graph, int64_t index)
{
    part engine = keep(parts, part_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
    set_part(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    assert_cudnn(cudnnBackendFinalize(engine));
    part config = keep(parts, part_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    set_part(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    assert_cudnn(cudnnBackendFinalize(config));
    return config;
}

/* ---- plans ---- */

/* Not finalised. */
static part plan_start(struct parts *parts, const struct bench *bench, part config)
{
    part plan = keep(parts, part_new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &bench->handle);
    if (config != NULL)
        set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return plan;
}

static part plan_new(struct parts *parts, const struct bench *bench, const struct wish *wish, int64_t engine)
{
    part plan = plan_start(parts, bench, config_new(parts, graph_new(parts, wish), engine));
    assert_cudnn(cudnnBackendFinalize(plan));
    return plan;
}

static part pack_new(struct parts *parts, const struct bench *bench)
{
    const int64_t ids[] = { BIAS, X, Y, W };
    void *const pointers[] = { bench->memory[BIAS], bench->memory[X], bench->memory[Y], bench->memory[W] };
    part pack = keep(parts, part_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 4, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 4, pointers);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &bench->workspace);
    assert_cudnn(cudnnBackendFinalize(pack));
    return pack;
}

/* Every descriptor is gone before the work is done. */
static void sim_run(const struct bench *bench, const struct wish *wish, int64_t engine)
{
    struct parts parts = { .count = 0 };
    part plan = plan_new(&parts, bench, wish, engine), pack = pack_new(&parts, bench);
    sim_delay_us(500);
    assert_cudnn(cudnnBackendExecute(bench->handle, plan, pack));
    parts_free(&parts);
    sim_delay_us(0);
    assert_cuda(cudaStreamSynchronize(bench->stream));
}

static size_t errors_of(struct bench *bench, const struct wish *wish, int64_t engine)
{
    const int result = result_of(&wish->shape);
    conv_fill(bench, &wish->shape, false);
    float *const expected = conv_expected(bench, &wish->shape, false, false);
    memset(bench->memory[result], 0xff, bytes_of(&wish->shape, result));
    sim_run(bench, wish, engine);
    const size_t count = conv_wrong(bench, &wish->shape, expected);
    free(expected);
    return count;
}

static int64_t workspace_of(part plan)
{
    int64_t workspace = -1, count = 0;
    assert_cudnn(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                          &workspace));
    assert_int_equal(count, 1);
    return workspace;
}

static int64_t index_of(part engine)
{
    int64_t index = -1;
    assert_cudnn(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, NULL, &index));
    return index;
}

/* ---- what shows in the results ---- */

BENCH_TEST(engines_that_must_not_be_taken_show_in_the_numbers)
{
    struct bench *bench = *state;
    for (size_t type = 0; type < TYPES; type++) {
        const struct wish wish = wish_for(&shapes[1], FPROP, precisions[type]);
        const size_t bytes = bytes_of(&wish.shape, Y);
        assert_int_not_equal(errors_of(bench, &wish, SIM_ENGINE_COARSE), 0);
        assert_int_not_equal(errors_of(bench, &wish, SIM_ENGINE_VARYING), 0);
        void *before = malloc(bytes);
        assert_non_null(before);
        memcpy(before, bench->memory[Y], bytes);
        sim_run(bench, &wish, SIM_ENGINE_VARYING);
        assert_memory_not_equal(before, bench->memory[Y], bytes);
        free(before);
    }
}

BENCH_TEST(sums_in_another_order_differ_in_the_last_bits)
{
    struct bench *bench = *state;
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    const size_t bytes = bytes_of(&wish.shape, Y);
    unsigned char before[1 << 12];
    assert_true(bytes <= sizeof(before));
    conv_fill(bench, &wish.shape, true);
    for (size_t i = 0; i < conv_count_of(&wish.shape, X); i++)
        ((float *)(void *)bench->memory[X])[i] /= 3;
    sim_run(bench, &wish, SIM_ENGINE_TILED);
    memcpy(before, bench->memory[Y], bytes);
    sim_run(bench, &wish, SIM_ENGINE_TILED);
    assert_memory_equal(before, bench->memory[Y], bytes);
    sim_run(bench, &wish, SIM_ENGINE_REVERSED);
    assert_memory_not_equal(before, bench->memory[Y], bytes);
}

BENCH_TEST(the_whole_workspace_is_overwritten_and_nothing_after_it)
{
    struct bench *bench = *state;
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[1], FPROP, PRECISION_FP32);
    part plan = plan_new(&parts, bench, &wish, SIM_ENGINE_TILED);
    const size_t bytes = (size_t)workspace_of(plan);
    assert_true(bytes > 0);
    memset(bench->workspace, 1, bytes + GUARD);
    conv_fill(bench, &wish.shape, false);
    sim_run(bench, &wish, SIM_ENGINE_TILED);
    for (size_t i = 0; i < bytes + GUARD; i++)
        assert_int_equal(bench->workspace[i], i < bytes ? 0xff : 1);
    parts_free(&parts);
}

/* ---- variant packs and running ---- */

struct binding { int64_t ids[3]; void *pointers[3], *workspace; };

static struct binding binding_of(const struct bench *bench)
{
    return (struct binding){ { X, W, Y }, { bench->memory[X], bench->memory[W], bench->memory[Y] }, bench->workspace };
}

static cudnnStatus_t execute_status(const struct bench *bench, const struct binding *binding)
{
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    part plan = plan_new(&parts, bench, &wish, SIM_ENGINE_TILED);
    part pack = keep(&parts, part_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, binding->ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, binding->pointers);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &binding->workspace);
    assert_int_equal(cudnnBackendExecute(bench->handle, plan, pack), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    cudnnStatus_t status = cudnnBackendFinalize(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(bench->handle, plan, pack);
    parts_free(&parts);
    return status;
}

BENCH_TEST(every_tensor_wants_an_aligned_pointer_and_the_plan_its_workspace)
{
    struct bench *bench = *state;
    struct binding binding = binding_of(bench);
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    conv_fill(bench, &wish.shape, false);
    assert_cudnn(execute_status(bench, &binding));
    binding.ids[1] = 77;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM);
    binding.ids[1] = X;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    binding = binding_of(bench);
    binding.pointers[2] = NULL;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    binding.pointers[2] = bench->memory[Y] + 8;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    binding = binding_of(bench);
    binding.workspace = NULL;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

BENCH_TEST(packs_want_as_many_pointers_as_ids)
{
    const int64_t ids[2] = { 1, 2 };
    void *pointers[1] = { NULL };
    part pack = part_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 2, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, pointers);
    assert_int_equal(cudnnBackendFinalize(pack), CUDNN_STATUS_BAD_PARAM);
    part_free(pack);
}

/* Does executing with these pointers end the program? */
static bool is_fatal(const struct bench *bench, const struct binding *binding)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(STDERR_FILENO);
        _exit(execute_status(bench, binding) == CUDNN_STATUS_SUCCESS ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

BENCH_TEST(memory_that_overlaps_or_is_not_the_devices_ends_the_test)
{
    struct bench *bench = *state;
    static unsigned char host[1 << 16] __attribute__((aligned(256)));
    struct binding binding = binding_of(bench);
    assert_false(is_fatal(bench, &binding));
    binding.pointers[2] = bench->memory[X] + 64;
    assert_true(is_fatal(bench, &binding));
    binding = binding_of(bench);
    binding.workspace = bench->memory[W] + 16;
    assert_true(is_fatal(bench, &binding));
    binding = binding_of(bench);
    binding.pointers[0] = host;
    assert_true(is_fatal(bench, &binding));
    binding.pointers[0] = bench->memory[X] + MEMORY - 64;
    assert_true(is_fatal(bench, &binding));
}

BENCH_TEST(streams_are_of_the_handles_device)
{
    struct bench *bench = *state;
    cudaStream_t other, got = NULL;
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0));
    assert_cuda(cudaSetDevice(0));
    assert_int_equal(cudnnSetStream(bench->handle, other), CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
    assert_cudnn(cudnnGetStream(bench->handle, &got));
    assert_ptr_equal(got, bench->stream);
    assert_cuda(cudaStreamDestroy(other));
}

/* ---- heuristics and engines ---- */

static part heuristics_start(struct parts *parts, part graph, cudnnBackendHeurMode_t mode)
{
    part made = keep(parts, part_new(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
    set_part(made, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(made, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    return made;
}

/* Fills in the numbers of the proposed engines, at most 16, and returns their count. */
static int64_t proposals(const struct wish *wish, cudnnBackendHeurMode_t mode, int64_t *engines)
{
    struct parts parts = { .count = 0 };
    part found = heuristics_start(&parts, graph_new(&parts, wish), mode), configs[16];
    int64_t most = -1, count = -1;
    assert_cudnn(cudnnBackendFinalize(found));
    assert_cudnn(cudnnBackendGetAttribute(found, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                                          &most, NULL));
    assert_in_range(most, 1, 16);
    for (int64_t i = 0; i < most; i++)
        configs[i] = part_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    assert_cudnn(cudnnBackendGetAttribute(found, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most,
                                          &count, configs));
    assert_true(count < most);
    for (int64_t i = 0; i < most; i++) {
        if (i < count) {
            part engine = part_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
            assert_cudnn(cudnnBackendGetAttribute(configs[i], CUDNN_ATTR_ENGINECFG_ENGINE,
                                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL, &engine));
            engines[i] = index_of(engine);
            part_free(engine);
        }
        part_free(configs[i]);
    }
    parts_free(&parts);
    return count;
}

BENCH_TEST(heuristics_announce_more_engines_than_they_propose)
{
    int64_t engines[16];
    const struct wish wish = wish_for(&shapes[0], WGRAD, PRECISION_FP16);
    assert_true(proposals(&wish, CUDNN_HEUR_MODE_A, engines) > 0);
    assert_int_equal(engines[0], SIM_ENGINE_VARYING);
}

BENCH_TEST(no_engine_takes_tensors_of_several_types)
{
    int64_t engines[16];
    struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP16);
    wish.tensors[W].type = CUDNN_DATA_BFLOAT16;
    assert_int_equal(proposals(&wish, CUDNN_HEUR_MODE_A, engines), 0);
}

/* ---- descriptors ---- */

/* The status of finalising the convolution. */
static cudnnStatus_t convolution_status(const struct wish *wish)
{
    struct parts parts = { .count = 0 };
    part made = convolution_start(&parts, wish, add_tensor(&parts, wish, Y));
    const cudnnStatus_t status = cudnnBackendFinalize(made);
    parts_free(&parts);
    return status;
}

static cudnnStatus_t graph_status(const struct wish *wish)
{
    struct parts parts = { .count = 0 };
    const cudnnStatus_t status = cudnnBackendFinalize(graph_start(&parts, wish));
    parts_free(&parts);
    return status;
}

BENCH_TEST(attributes_want_their_type_and_number)
{
    const int64_t dims[5] = { 1, 1, 1, 1, 1 };
    int64_t count = -1;
    part tensor = part_new(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_FLOAT, 4, dims),
                     CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, dims),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, NULL),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, dims),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, dims),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendSetAttribute(NULL, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, dims),
                     CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 0, &count, NULL),
                     CUDNN_STATUS_NOT_INITIALIZED);
    assert_int_equal(cudnnBackendFinalize(tensor), CUDNN_STATUS_BAD_PARAM);
    part_free(tensor);
    assert_int_equal(cudnnBackendDestroyDescriptor(NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)99, &tensor),
                     CUDNN_STATUS_NOT_SUPPORTED);
}

BENCH_TEST(finalised_descriptors_can_be_read_and_not_set)
{
    const struct wish wish = wish_for(&shapes[1], FPROP, PRECISION_FP32);
    part tensor = tensor_new(&wish.tensors[X]);
    int64_t dims[8] = { 0 }, count = -1;
    assert_int_equal(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendFinalize(tensor), CUDNN_STATUS_BAD_PARAM);
    assert_cudnn(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 0, &count, NULL));
    assert_int_equal(count, 4);
    assert_cudnn(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2, &count, dims));
    assert_int_equal(count, 2);
    assert_int_equal(dims[1], shapes[1].in_channels);
    assert_int_equal(dims[2], 0);
    assert_int_equal(cudnnBackendGetAttribute(tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_CHAR, 4, &count, dims),
                     CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    part_free(tensor);
}

/* The status of finalising a valid tensor after one attribute is set again. */
static cudnnStatus_t tensor_status(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                                   const void *values)
{
    const struct wish wish = wish_for(&shapes[1], FPROP, PRECISION_FP32);
    part tensor = tensor_start(&wish.tensors[X]);
    set(tensor, name, type, count, values);
    const cudnnStatus_t status = cudnnBackendFinalize(tensor);
    part_free(tensor);
    return status;
}

BENCH_TEST(tensors_want_positive_dimensions_and_whole_alignments)
{
    const int64_t zero[4] = { 1, 0, 5, 9 }, backwards[4] = { 360, -1, 72, 8 }, odd = 3, good = 4;
    const cudnnDataType_t type = CUDNN_DATA_INT8;
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, zero), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, backwards), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 3, zero), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &odd),
                     CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(tensor_status(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type),
                     CUDNN_STATUS_NOT_SUPPORTED);
    assert_cudnn(tensor_status(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &good));
}

BENCH_TEST(convolutions_want_dimensions_that_fit)
{
    static const int tensors[] = { X, W, Y };
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++)
            for (int dim = 0; dim < 4; dim++) {
                struct wish wish = wish_for(&shapes[0], pass, PRECISION_FP32);
                assert_cudnn(convolution_status(&wish));
                wish.tensors[tensors[i]].dims[dim]++;
                assert_int_equal(convolution_status(&wish), CUDNN_STATUS_BAD_PARAM);
            }
    struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    wish.shape.pad_bottom = 2;
    assert_int_equal(convolution_status(&wish), CUDNN_STATUS_BAD_PARAM);
}

BENCH_TEST(factors_other_than_1_and_0_are_refused)
{
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        struct wish wish = wish_for(&shapes[0], pass, PRECISION_FP32);
        wish.alpha = 1;
        assert_cudnn(convolution_status(&wish));
        wish.beta = 1;
        assert_int_equal(convolution_status(&wish), CUDNN_STATUS_NOT_SUPPORTED);
        wish.alpha = 2;
        wish.beta = 0;
        assert_int_equal(convolution_status(&wish), CUDNN_STATUS_NOT_SUPPORTED);
    }
}

/* Real engines compute wrong results for it. */
BENCH_TEST(weight_gradients_of_uneven_padding_are_refused)
{
    struct wish wish = wish_for(&shapes[1], WGRAD, PRECISION_FP32);
    assert_cudnn(convolution_status(&wish));
    wish.shape.pad_bottom++;        /* room for no other row of windows */
    assert_int_equal(convolution_status(&wish), CUDNN_STATUS_NOT_SUPPORTED);
}

BENCH_TEST(operations_want_all_their_parts_finalised_and_of_the_right_type)
{
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    part operation = keep(&parts, part_new(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
    part open = keep(&parts, tensor_start(&wish.tensors[X])), none = NULL;
    part window = keep(&parts, window_new(&wish.shape));
    const cudnnBackendAttributeName_t x = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X;
    const double one = 1;
    assert_int_equal(cudnnBackendSetAttribute(operation, x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &open),
                     CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    assert_int_equal(cudnnBackendSetAttribute(operation, x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &window),
                     CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
    assert_int_equal(cudnnBackendSetAttribute(operation, x, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &none),
                     CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(cudnnBackendSetAttribute(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                              CUDNN_TYPE_DOUBLE, 1, &one), CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(cudnnBackendFinalize(operation), CUDNN_STATUS_BAD_PARAM);
    part graph = keep(&parts, part_new(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    assert_int_equal(cudnnBackendSetAttribute(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                              &operation), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    parts_free(&parts);
}

BENCH_TEST(graphs_want_distinct_ids_and_virtual_tensors_inside_alone)
{
    const struct wish good = wish_for(&shapes[0], FPROP, PRECISION_FP16);
    struct wish wish = good;
    assert_cudnn(graph_status(&wish));
    wish.tensors[Y].id = X;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    wish = good;
    wish.tensors[Y].is_virtual = true;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_BAD_PARAM);
    wish = good;
    wish.shape.bias = wish.shape.relu = true;
    assert_cudnn(graph_status(&wish));
    wish.tensors[SUM].is_virtual = false;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_NOT_SUPPORTED);
    wish.tensors[SUM].is_virtual = true;
    wish.tensors[BIAS].id = SUM;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    wish.tensors[BIAS].id = BIAS;
    wish.tensors[BIAS].dims[1] = 1;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
}

BENCH_TEST(nothing_follows_a_weight_gradient)
{
    struct wish wish = wish_for(&shapes[0], WGRAD, PRECISION_FP16);
    wish.shape.bias = true;
    assert_int_equal(graph_status(&wish), CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
}

BENCH_TEST(plans_want_a_device_and_a_configuration)
{
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    part config = config_new(&parts, graph_new(&parts, &wish), SIM_ENGINE_TILED);
    part homeless = keep(&parts, part_new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    set_part(homeless, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    assert_int_equal(cudnnBackendFinalize(homeless), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(cudnnBackendFinalize(plan_start(&parts, *state, NULL)), CUDNN_STATUS_BAD_PARAM);
    parts_free(&parts);
}

TESTS_MAIN(NULL, NULL)
