/* Fixture for tests of the simulated cuDNN. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_cudnn_fixture.h"
#include "tests/sim/sim_values.h"

const struct shape shapes[SHAPES] = {
    { 2, 3, 7, 6, 5, 3, 3, 1, 1, 1, 1, 1, 1 },
    { 1, 8, 5, 9, 16, 3, 2, 2, 1, 0, 2, 1, 0 },
    { 3, 1, 11, 8, 4, 5, 4, 3, 2, 2, 1, 0, 3 },
    { 2, 9, 4, 4, 17, 1, 1, 2, 2, 0, 0, 0, 0 },
};

const cudnnDataType_t types[TYPES] = { CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16 };

static int out_h(const struct shape *shape)
{
    return (shape->h + shape->top + shape->bottom - shape->r) / shape->stride_h + 1;
}

static int out_w(const struct shape *shape)
{
    return (shape->w + shape->left + shape->right - shape->s) / shape->stride_w + 1;
}

/* ---- building graphs ---- */

part part_new(cudnnBackendDescriptorType_t type)
{
    part made = NULL;
    assert_cudnn(cudnnBackendCreateDescriptor(type, &made));
    return made;
}

void part_free(part old)
{
    assert_cudnn(cudnnBackendDestroyDescriptor(old));
}

void set(part to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
         const void *values)
{
    assert_cudnn(cudnnBackendSetAttribute(to, name, type, count, values));
}

void set_part(part to, cudnnBackendAttributeName_t name, part value)
{
    set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

part tensor_start(const struct tensor *tensor)
{
    const int64_t *d = tensor->dims, alignment = 16;
    const int64_t last[4] = { d[1] * d[2] * d[3], 1, d[3] * d[1], d[1] };
    const int64_t planar[4] = { d[1] * d[2] * d[3], d[2] * d[3], d[3], 1 };
    part made = part_new(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &tensor->type);
    set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, d);
    set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, tensor->planar ? planar : last);
    set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &tensor->id);
    set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &tensor->is_virtual);
    return made;
}

part tensor_new(const struct tensor *tensor)
{
    part made = tensor_start(tensor);
    assert_cudnn(cudnnBackendFinalize(made));
    return made;
}

part window_new(const struct shape *shape)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t rank = 2, ones[2] = { 1, 1 }, strides[2] = { shape->stride_h, shape->stride_w };
    const int64_t before[2] = { shape->top, shape->left }, after[2] = { shape->bottom, shape->right };
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
} names[PASSES] = {
    [FORWARD] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA },
    [DATA] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA },
    [WEIGHT] = { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA },
};

struct wish wish_for(const struct shape *shape, enum pass pass, cudnnDataType_t type)
{
    struct wish wish = { .shape = *shape, .pass = pass, .type = type };
    struct shape *const s = &wish.shape;
    if (pass == WEIGHT) {
        s->bottom = s->top;
        s->right = s->left;
    }
    const struct tensor y = { Y, type, { s->n, s->k, out_h(s), out_w(s) }, false, false };
    wish.tensors[X] = (struct tensor){ X, type, { s->n, s->c, s->h, s->w }, false, false };
    wish.tensors[W] = (struct tensor){ W, type, { s->k, s->c, s->r, s->s }, false, false };
    wish.tensors[BIAS] = (struct tensor){ BIAS, type, { 1, s->k, 1, 1 }, false, false };
    wish.tensors[Y] = wish.tensors[PRODUCT] = wish.tensors[SUM] = y;
    wish.tensors[PRODUCT].id = PRODUCT;
    wish.tensors[SUM].id = SUM;
    wish.tensors[PRODUCT].type = wish.tensors[SUM].type = CUDNN_DATA_FLOAT;
    wish.tensors[PRODUCT].is_virtual = wish.tensors[SUM].is_virtual = true;
    return wish;
}

part keep(struct parts *parts, part made)
{
    parts->all[parts->count++] = made;
    return made;
}

void parts_free(struct parts *parts)
{
    while (parts->count > 0)
        part_free(parts->all[--parts->count]);
}

part add_tensor(struct parts *parts, const struct wish *wish, int id)
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
part convolution_start(struct parts *parts, const struct wish *wish, part y)
{
    const struct names *of = &names[wish->pass];
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
part graph_start(struct parts *parts, const struct wish *wish)
{
    part operations[3];
    int64_t count = 0;
    part y = add_tensor(parts, wish, Y), product = wish->bias ? add_tensor(parts, wish, PRODUCT) : y;
    operations[count++] = convolution_start(parts, wish, product);
    if (wish->bias) {
        part sum = wish->relu ? add_tensor(parts, wish, SUM) : y;
        operations[count++] = pointwise_new(parts, CUDNN_POINTWISE_ADD, product, add_tensor(parts, wish, BIAS), sum);
        if (wish->relu)
            operations[count++] = pointwise_new(parts, CUDNN_POINTWISE_RELU_FWD, sum, NULL, y);
    }
    for (int64_t i = 0; i < count; i++)
        assert_cudnn(cudnnBackendFinalize(operations[i]));
    part graph = keep(parts, part_new(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, operations);
    return graph;
}

part graph_new(struct parts *parts, const struct wish *wish)
{
    part graph = graph_start(parts, wish);
    assert_cudnn(cudnnBackendFinalize(graph));
    return graph;
}

part config_new(struct parts *parts, part graph, int64_t index)
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

/* ---- a device with memory ---- */

int sim_bench_open(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    assert_non_null(bench);
    assert_cuda(cudaSetDevice(0));
    assert_cuda(cudaStreamCreateWithPriority(&bench->stream, cudaStreamNonBlocking, 0));
    assert_cudnn(cudnnCreate(&bench->handle));
    assert_cudnn(cudnnSetStream(bench->handle, bench->stream));
    assert_cuda(cudaMalloc((void **)&bench->workspace, 1 << 16));
    for (int i = X; i <= BIAS; i++)
        assert_cuda(cudaMalloc((void **)&bench->memory[i], 1 << 16));
    *state = bench;
    return 0;
}

int sim_bench_close(void **state)
{
    struct bench *bench = *state;
    sim_cudnn_refuse(0);
    sim_fail_clear();
    assert_cuda(cudaStreamSynchronize(bench->stream));
    for (int i = X; i <= BIAS; i++)
        assert_cuda(cudaFree(bench->memory[i]));
    assert_cuda(cudaFree(bench->workspace));
    assert_cudnn(cudnnDestroy(bench->handle));
    assert_cuda(cudaStreamDestroy(bench->stream));
    free(bench);
    assert_int_equal(sim_cudnn_live(), 0);
    return 0;
}

/* Not finalised. */
part plan_start(struct parts *parts, const struct bench *bench, part config)
{
    part plan = keep(parts, part_new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &bench->handle);
    if (config != NULL)
        set_part(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return plan;
}

part plan_new(struct parts *parts, const struct bench *bench, const struct wish *wish, int64_t engine)
{
    part plan = plan_start(parts, bench, config_new(parts, graph_new(parts, wish), engine));
    assert_cudnn(cudnnBackendFinalize(plan));
    return plan;
}

part pack_new(struct parts *parts, const struct bench *bench)
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
void sim_run(const struct bench *bench, const struct wish *wish, int64_t engine)
{
    struct parts parts = { .count = 0 };
    part plan = plan_new(&parts, bench, wish, engine), pack = pack_new(&parts, bench);
    sim_delay_us(500);
    assert_cudnn(cudnnBackendExecute(bench->handle, plan, pack));
    parts_free(&parts);
    sim_delay_us(0);
    assert_cuda(cudaStreamSynchronize(bench->stream));
}

/* ---- numbers ---- */

static cudaDataType_t value_type(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT ? CUDA_R_32F : type == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
}

size_t sim_count_of(const struct tensor *tensor)
{
    const int64_t *d = tensor->dims;
    return (size_t)(d[0] * d[1] * d[2] * d[3]);
}

/* Element in memory. */
static size_t at(const struct tensor *tensor, int64_t a, int64_t b, int64_t c, int64_t d)
{
    const int64_t *n = tensor->dims;
    return (size_t)(tensor->planar ? ((a * n[1] + b) * n[2] + c) * n[3] + d : ((a * n[2] + c) * n[3] + d) * n[1] + b);
}

/* Multiples of 1/8 from 1 to 2, of either sign. `fine`: and a little more, which tf32 rounds
 * away. */
void sim_fill(struct bench *bench, const struct wish *wish, bool fine)
{
    static uint32_t random = 1;
    for (int id = X; id <= BIAS; id++) {
        const struct tensor *tensor = &wish->tensors[id];
        for (size_t i = 0; i < sim_count_of(tensor); i++) {
            random = random * 1664525 + 1013904223;
            const float size = 1 + (float)(random >> 29) / 8 + (fine ? 0x1p-12f : 0);
            sim_value_write(value_type(tensor->type), bench->memory[id], i, random >> 28 & 1 ? size : -size);
        }
    }
}

double sim_value(const struct bench *bench, const struct wish *wish, int id, size_t i, bool tf32)
{
    const float number = sim_value_read(value_type(wish->tensors[id].type), bench->memory[id], i);
    return tf32 ? sim_tf32_round(number) : number;
}

/* What the pass adds to one element of its result for every product there is. */
double *sim_expected(const struct bench *bench, const struct wish *wish, int result, bool tf32)
{
    const struct shape *s = &wish->shape;
    const struct tensor *t = wish->tensors;
    double *sums = calloc(sim_count_of(&t[result]), sizeof(*sums));
    assert_non_null(sums);
    for (int n = 0; n < s->n; n++)
        for (int k = 0; k < s->k; k++)
            for (int p = 0; p < out_h(s); p++)
                for (int q = 0; q < out_w(s); q++)
                    for (int c = 0; c < s->c; c++)
                        for (int r = 0; r < s->r; r++)
                            for (int v = 0; v < s->s; v++) {
                                const int h = p * s->stride_h + r - s->top, w = q * s->stride_w + v - s->left;
                                if (h < 0 || h >= s->h || w < 0 || w >= s->w)
                                    continue;
                                const size_t x = at(&t[X], n, c, h, w), f = at(&t[W], k, c, r, v);
                                const size_t y = at(&t[Y], n, k, p, q);
                                if (result == Y)
                                    sums[y] += sim_value(bench, wish, X, x, tf32) * sim_value(bench, wish, W, f, tf32);
                                else if (result == X)
                                    sums[x] += sim_value(bench, wish, Y, y, tf32) * sim_value(bench, wish, W, f, tf32);
                                else
                                    sums[f] += sim_value(bench, wish, X, x, tf32) * sim_value(bench, wish, Y, y, tf32);
                            }
    return sums;
}

static int result_of(enum pass pass)
{
    return pass == FORWARD ? Y : pass == DATA ? X : W;
}

/* How many elements of the result are not the sums, rounded once. */
size_t sim_wrong(const struct bench *bench, const struct wish *wish, int result, const double *sums)
{
    const struct tensor *tensor = &wish->tensors[result];
    const cudaDataType_t type = value_type(tensor->type);
    size_t count = 0;
    for (size_t i = 0; i < sim_count_of(tensor); i++) {
        float rounded;
        sim_value_write(type, &rounded, 0, (float)sums[i]);
        count += sim_value_read(type, bench->memory[result], i) != sim_value_read(type, &rounded, 0);
    }
    return count;
}

/* The pass by an engine, compared with the plain loop. */
size_t errors_of(struct bench *bench, const struct wish *wish, int64_t engine, bool fine, bool tf32)
{
    const int result = result_of(wish->pass);
    sim_fill(bench, wish, fine);
    double *sums = sim_expected(bench, wish, result, tf32);
    memset(bench->memory[result], 0xff,
           sim_count_of(&wish->tensors[result]) * (wish->type == CUDNN_DATA_FLOAT ? 4 : 2));
    sim_run(bench, wish, engine);
    const size_t count = sim_wrong(bench, wish, result, sums);
    free(sums);
    return count;
}

int64_t workspace_of(part plan)
{
    int64_t workspace = -1, count = 0;
    assert_cudnn(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                          &workspace));
    assert_int_equal(count, 1);
    return workspace;
}

int64_t index_of(part engine)
{
    int64_t index = -1;
    assert_cudnn(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, NULL, &index));
    return index;
}
