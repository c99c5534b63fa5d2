/* Fixture for tests of the simulated cuDNN. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_cudnn_fixture.h"

/* count, in: channels, height, width, out: the same, kernel, stride, padding at the top, bottom, left and right.
 * wish_for computes the height and width of the output. */
#define SHAPE(...) { FPROP, PRECISION_FP32, false, false, __VA_ARGS__ }
const struct conv_shape shapes[SHAPES] = {
    SHAPE(2, 3, 7, 6, 5, 0, 0, 3, 3, 1, 1, 1, 1, 1, 1),
    SHAPE(1, 8, 5, 9, 16, 0, 0, 3, 2, 2, 1, 0, 2, 1, 0),
    SHAPE(3, 1, 11, 8, 4, 0, 0, 5, 4, 3, 2, 2, 1, 0, 3),
    SHAPE(2, 9, 4, 4, 17, 0, 0, 1, 1, 2, 2, 0, 0, 0, 0),
};

const enum precision precisions[TYPES] = { PRECISION_FP32, PRECISION_FP16, PRECISION_BF16 };

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

part window_new(const struct conv_shape *shape)
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

struct wish wish_for(const struct conv_shape *shape, int pass, enum precision precision)
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
    const struct tensor y = { Y, type, { s->count, s->out_channels, s->out_h, s->out_w }, false, false };
    wish.tensors[X] = (struct tensor){ X, type, { s->count, s->in_channels, s->in_h, s->in_w }, false, false };
    wish.tensors[W] =
        (struct tensor){ W, type, { s->out_channels, s->in_channels, s->kernel_h, s->kernel_w }, false, false };
    wish.tensors[BIAS] = (struct tensor){ BIAS, type, { 1, s->out_channels, 1, 1 }, false, false };
    wish.tensors[Y] = y;
    wish.tensors[PRODUCT] = (struct tensor){ PRODUCT, CUDNN_DATA_FLOAT, { 0 }, true, false };
    memcpy(wish.tensors[PRODUCT].dims, y.dims, sizeof(y.dims));
    wish.tensors[SUM] = wish.tensors[PRODUCT];
    wish.tensors[SUM].id = SUM;
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
part graph_start(struct parts *parts, const struct wish *wish)
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

/* ---- plans ---- */

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

size_t errors_of(struct bench *bench, const struct wish *wish, int64_t engine, bool fine, bool tf32)
{
    const int result = result_of(&wish->shape);
    conv_fill(bench, &wish->shape, fine);
    float *const expected = conv_expected(bench, &wish->shape, tf32, false);
    memset(bench->memory[result], 0xff, bytes_of(&wish->shape, result));
    sim_run(bench, wish, engine);
    const size_t count = conv_wrong(bench, &wish->shape, expected);
    free(expected);
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
