/* Descriptors of cuDNN's backend API, and the graphs of convolutions built from them. While plans are made, from the
 * tower's thread. */
#include "compute/cuda/cudnn_graph.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stage/log.h"

static int error_of(cudnnStatus_t status)
{
    switch (status) {
    case CUDNN_STATUS_SUCCESS:
        return 0;
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
        return -ENOMEM;
    default:
        break;
    }
    switch (CUDNN_STATUS_CATEGORY(status)) {
    case CUDNN_STATUS_NOT_SUPPORTED:
        return -ENOTSUP;
    case CUDNN_STATUS_BAD_PARAM:
        return -EINVAL;
    case CUDNN_STATUS_NOT_INITIALIZED / 1000 * 1000:
        return -ENODEV;
    default:
        return -EIO;
    }
}

/* Sets `text` to the first line of the last message. */
static void last_error(char *text, size_t text_size)
{
    *text = '\0';
    cudnnGetLastErrorString(text, text_size);
    text[strcspn(text, "\n")] = '\0';
}

int cudnn_check(cudnnStatus_t status, const char *name, const char *call)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return 0;
    char text[256];
    last_error(text, sizeof(text));
    log_message(LOG_ERROR, "%s: %s: %s%s%s", name, call, cudnnGetErrorString(status), *text ? ": " : "", text);
    return error_of(status);
}

/* cuDNN refuses with several statuses: a graph without an engine; an engine that fails late, while it is compiled or
 * configured; a plan of another version. Out of memory and a broken device are not refusals. */
static bool is_refusal(cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH)
        return true;
    const int rc = error_of(status);
    return rc == -ENOTSUP || rc == -EINVAL ||
           (rc == -EIO && CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_INTERNAL_ERROR);
}

static void refuse(cudnnStatus_t status, struct cudnn_refusal *refusal)
{
    char text[sizeof(refusal->text)];
    last_error(text, sizeof(text));
    snprintf(refusal->text, sizeof(refusal->text), "%s", *text ? text : cudnnGetErrorString(status));
}

int cudnn_try(cudnnStatus_t status, const char *name, const char *call, struct cudnn_refusal *refusal)
{
    if (!is_refusal(status))
        return cudnn_check(status, name, call);
    refuse(status, refusal);
    return -ENOTSUP;
}

int descriptor_open(cudnnBackendDescriptor_t *descriptor_out, const char *name, cudnnBackendDescriptorType_t type)
{
    return CUDNN_CALL(name, cudnnBackendCreateDescriptor(type, descriptor_out));
}

void descriptor_close(cudnnBackendDescriptor_t descriptor)
{
    if (descriptor != NULL)
        CUDNN_CALL("cudnn", cudnnBackendDestroyDescriptor(descriptor));
}

int descriptor_set(cudnnBackendDescriptor_t descriptor, const char *name, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    char call[64];
    snprintf(call, sizeof(call), "cudnnBackendSetAttribute(%d)", (int)attribute);
    return cudnn_check(HEARTBEAT_CALL("cudnnBackendSetAttribute",
                                      cudnnBackendSetAttribute(descriptor, attribute, type, count, values)),
                       name, call);
}

int descriptor_get(cudnnBackendDescriptor_t descriptor, const char *name, cudnnBackendAttributeName_t attribute,
                   cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count_out, void *values)
{
    int64_t count = 0;
    char call[64];
    snprintf(call, sizeof(call), "cudnnBackendGetAttribute(%d)", (int)attribute);
    const int rc = cudnn_check(HEARTBEAT_CALL("cudnnBackendGetAttribute",
                                              cudnnBackendGetAttribute(descriptor, attribute, type, capacity, &count,
                                                                       values)),
                               name, call);
    if (rc == 0 && count_out != NULL)
        *count_out = count;
    return rc;
}

int descriptor_finalize(cudnnBackendDescriptor_t descriptor, const char *name, struct cudnn_refusal *refusal)
{
    return cudnn_try(HEARTBEAT_CALL("cudnnBackendFinalize", cudnnBackendFinalize(descriptor)), name,
                     "cudnnBackendFinalize", refusal);
}

/* Did the driver fail to load the compiled kernels of an engine? While a plan is finalised nothing is executed, so the
 * status of a failed execution means this. */
static bool is_load_failure(cudnnStatus_t status)
{
    return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_EXECUTION_FAILED;
}

int descriptor_finalize_plan(cudnnBackendDescriptor_t descriptor, const char *name, struct cudnn_refusal *refusal)
{
    const cudnnStatus_t status = HEARTBEAT_CALL("cudnnBackendFinalize", cudnnBackendFinalize(descriptor));
    if (!is_load_failure(status))
        return cudnn_try(status, name, "cudnnBackendFinalize", refusal);
    refuse(status, refusal);
    return -ENOEXEC;
}

int pointers_bind(cudnnBackendDescriptor_t *pack_out, const char *name, int64_t count, const int64_t *ids,
                  const void *const *pointers, void *workspace)
{
    cudnnBackendDescriptor_t pack;
    int rc = descriptor_open(&pack, name, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    if (rc < 0)
        return rc;
    rc = descriptor_set(pack, name, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    if (rc == 0)
        rc = descriptor_set(pack, name, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                            pointers);
    if (rc == 0)
        rc = descriptor_set(pack, name, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (rc == 0)
        rc = CUDNN_CALL(name, cudnnBackendFinalize(pack));
    if (rc == 0)
        *pack_out = pack;
    else
        descriptor_close(pack);
    return rc;
}

void graph_init(struct cudnn_graph *graph, const char *name)
{
    *graph = (struct cudnn_graph){ .name = name };
}

void graph_release(struct cudnn_graph *graph)
{
    while (graph->part_count > 0)
        descriptor_close(graph->parts[--graph->part_count]);
}

/* Adds a part to the graph. NULL after a failure, which the functions below pass on. */
static cudnnBackendDescriptor_t add_part(struct cudnn_graph *graph, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t part = NULL;
    if (graph->status < 0)
        return NULL;
    assert(graph->part_count < GRAPH_PARTS_MAX);
    graph->status = descriptor_open(&part, graph->name, type);
    if (graph->status < 0)
        return NULL;
    graph->parts[graph->part_count++] = part;
    return part;
}

static void set_attribute(struct cudnn_graph *graph, cudnnBackendDescriptor_t part,
                          cudnnBackendAttributeName_t attribute, cudnnBackendAttributeType_t type, int64_t count,
                          const void *values)
{
    if (graph->status == 0)
        graph->status = descriptor_set(part, graph->name, attribute, type, count, values);
}

static void set_part(struct cudnn_graph *graph, cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t attribute,
                     cudnnBackendDescriptor_t value)
{
    set_attribute(graph, part, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static cudnnBackendDescriptor_t finalize_part(struct cudnn_graph *graph, cudnnBackendDescriptor_t part)
{
    if (graph->status == 0)
        graph->status = descriptor_finalize(part, graph->name, &graph->refusal);
    return graph->status == 0 ? part : NULL;
}

cudnnBackendDescriptor_t graph_add_tensor(struct cudnn_graph *graph, const struct graph_tensor *tensor)
{
    const int64_t *const dims = tensor->dims;
    const int64_t strides[4] = { dims[1] * dims[2] * dims[3], 1, dims[3] * dims[1], dims[1] };
    const int64_t alignment = 16;
    cudnnBackendDescriptor_t part = add_part(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_attribute(graph, part, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &tensor->type);
    set_attribute(graph, part, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims);
    set_attribute(graph, part, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    set_attribute(graph, part, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &tensor->id);
    set_attribute(graph, part, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set_attribute(graph, part, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &tensor->internal);
    return finalize_part(graph, part);
}

static cudnnBackendDescriptor_t add_window(struct cudnn_graph *graph, const struct graph_window *window)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t rank = 2, dilations[2] = { 1, 1 };
    cudnnBackendDescriptor_t part = add_part(graph, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_attribute(graph, part, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_attribute(graph, part, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_attribute(graph, part, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &rank);
    set_attribute(graph, part, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations);
    set_attribute(graph, part, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, window->strides);
    set_attribute(graph, part, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, window->pad_before);
    set_attribute(graph, part, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, window->pad_after);
    return finalize_part(graph, part);
}

/* The attributes have different names in each operation. */
struct convolution_names { cudnnBackendAttributeName_t window, in, filter, out, alpha, beta; };

static struct convolution_names convolution_names(cudnnBackendDescriptorType_t type)
{
    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        return (struct convolution_names){
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA };
    if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
        return (struct convolution_names){
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA };
    assert(type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    return (struct convolution_names){
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA };
}

cudnnBackendDescriptor_t graph_add_convolution(struct cudnn_graph *graph, cudnnBackendDescriptorType_t type,
                                               const struct graph_window *window, cudnnBackendDescriptor_t in,
                                               cudnnBackendDescriptor_t filter, cudnnBackendDescriptor_t out)
{
    const struct convolution_names names = convolution_names(type);
    const float alpha = 1, beta = 0;
    cudnnBackendDescriptor_t shape = add_window(graph, window);
    cudnnBackendDescriptor_t part = add_part(graph, type);
    set_part(graph, part, names.window, shape);
    set_part(graph, part, names.in, in);
    set_part(graph, part, names.filter, filter);
    set_part(graph, part, names.out, out);
    set_attribute(graph, part, names.alpha, CUDNN_TYPE_FLOAT, 1, &alpha);
    set_attribute(graph, part, names.beta, CUDNN_TYPE_FLOAT, 1, &beta);
    return finalize_part(graph, part);
}

/* The attributes of the input, the second input and the output, which differ where a mode computes a gradient. */
struct pointwise_names { cudnnBackendAttributeName_t in, second, out; };

static struct pointwise_names pointwise_names(cudnnPointwiseMode_t mode)
{
    if (mode == CUDNN_POINTWISE_RELU_BWD)
        return (struct pointwise_names){ CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                         CUDNN_ATTR_OPERATION_POINTWISE_DXDESC };
    return (struct pointwise_names){ CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                     CUDNN_ATTR_OPERATION_POINTWISE_YDESC };
}

cudnnBackendDescriptor_t graph_add_pointwise(struct cudnn_graph *graph, cudnnPointwiseMode_t mode,
                                             cudnnBackendDescriptor_t in, cudnnBackendDescriptor_t second,
                                             cudnnBackendDescriptor_t out)
{
    const struct pointwise_names names = pointwise_names(mode);
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t kind = add_part(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set_attribute(graph, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set_attribute(graph, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    kind = finalize_part(graph, kind);
    cudnnBackendDescriptor_t part = add_part(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(graph, part, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_part(graph, part, names.in, in);
    if (second != NULL)
        set_part(graph, part, names.second, second);
    set_part(graph, part, names.out, out);
    return finalize_part(graph, part);
}

cudnnBackendDescriptor_t graph_add_statistics(struct cudnn_graph *graph, cudnnBackendDescriptor_t in,
                                              cudnnBackendDescriptor_t sum, cudnnBackendDescriptor_t squares)
{
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t part = add_part(graph, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    set_attribute(graph, part, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
    set_attribute(graph, part, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_part(graph, part, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, in);
    set_part(graph, part, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sum);
    set_part(graph, part, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares);
    return finalize_part(graph, part);
}

cudnnBackendDescriptor_t graph_add_norm_sums(struct cudnn_graph *graph, const struct norm_tensors *norm,
                                             cudnnBackendDescriptor_t gradient, const cudnnBackendDescriptor_t sums[5])
{
    static const cudnnBackendAttributeName_t results[] = {
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC,
        CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS,
    };
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t part = add_part(graph, CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
    set_attribute(graph, part, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_part(graph, part, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, norm->mean);
    set_part(graph, part, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, norm->inverse);
    set_part(graph, part, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, norm->gamma);
    set_part(graph, part, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, norm->values);
    set_part(graph, part, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, gradient);
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        set_part(graph, part, results[i], sums[i]);
    return finalize_part(graph, part);
}

cudnnBackendDescriptor_t graph_finish(struct cudnn_graph *graph, cudnnHandle_t handle, int64_t operation_count,
                                      cudnnBackendDescriptor_t *operations)
{
    cudnnBackendDescriptor_t part = add_part(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (handle != NULL)
        set_attribute(graph, part, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_attribute(graph, part, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operation_count,
                  operations);
    return finalize_part(graph, part);
}
