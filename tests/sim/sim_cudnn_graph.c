/* The checks of the simulated cuDNN when a descriptor is finalised. */
#include "tests/sim/sim_cudnn_graph.h"

#include <string.h>

#include "tests/sim/sim.h"
#include "tests/sim/sim_cudnn.h"

#define BAD(...) sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, __VA_ARGS__)
#define UNSUPPORTED(...) sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, __VA_ARGS__)
#define ID(tensor) ((long long)(tensor)->id)

size_t sim_element_bytes(cudnnDataType_t type)
{
    return type == CUDNN_DATA_FLOAT ? 4 : type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2 : 0;
}

size_t sim_tensor_bytes(const struct sim_tensor *tensor)
{
    size_t last = 0;
    for (int i = 0; i < SIM_RANK; i++)
        last += (size_t)((tensor->dims[i] - 1) * tensor->strides[i]);
    return (last + 1) * sim_element_bytes(tensor->type);
}

static cudnnStatus_t finalize_tensor(const struct sim_tensor *tensor)
{
    const int64_t bytes = (int64_t)sim_element_bytes(tensor->type);
    if (bytes == 0)
        return UNSUPPORTED("tensor %lld: data type %d", ID(tensor), (int)tensor->type);
    if (tensor->dim_count != tensor->stride_count)
        return BAD("tensor %lld: %lld dimensions, %lld strides", ID(tensor), (long long)tensor->dim_count,
                   (long long)tensor->stride_count);
    if (tensor->dim_count != SIM_RANK)
        return UNSUPPORTED("tensor %lld: %lld dimensions", ID(tensor), (long long)tensor->dim_count);
    for (int i = 0; i < SIM_RANK; i++)
        if (tensor->dims[i] < 1 || tensor->strides[i] < 1)
            return BAD("tensor %lld: dimension %d or its stride is not positive", ID(tensor), i);
    if (tensor->alignment < 1 || tensor->alignment % bytes != 0)
        return BAD("tensor %lld: alignment %lld", ID(tensor), (long long)tensor->alignment);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_window(const struct sim_window *window)
{
    if (window->rank != 2)
        return UNSUPPORTED("convolution of %lld dimensions", (long long)window->rank);
    if (window->dilation_count != 2 || window->stride_count != 2 || window->before_count != 2 ||
        window->after_count != 2)
        return BAD("convolution: an array does not have 2 elements");
    for (int i = 0; i < 2; i++) {
        if (window->strides[i] < 1 || window->dilations[i] < 1 || window->before[i] < 0 || window->after[i] < 0)
            return BAD("convolution: stride, dilation or padding of dimension %d", i);
        if (window->dilations[i] != 1)
            return UNSUPPORTED("convolution: dilation");
    }
    if (window->mode != CUDNN_CROSS_CORRELATION || window->compute != CUDNN_DATA_FLOAT)
        return UNSUPPORTED("convolution: mode %d, compute type %d", (int)window->mode, (int)window->compute);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_pointwise(const struct sim_pointwise *pointwise)
{
    static const cudnnPointwiseMode_t modes[] = { CUDNN_POINTWISE_ADD, CUDNN_POINTWISE_SUB, CUDNN_POINTWISE_MUL,
                                                  CUDNN_POINTWISE_RELU_FWD, CUDNN_POINTWISE_RELU_BWD };
    size_t at = 0;
    while (at < sizeof(modes) / sizeof(*modes) && modes[at] != pointwise->mode)
        at++;
    if (at == sizeof(modes) / sizeof(*modes))
        return UNSUPPORTED("pointwise mode %d", (int)pointwise->mode);
    if (pointwise->compute != CUDNN_DATA_FLOAT)
        return UNSUPPORTED("pointwise compute type %d", (int)pointwise->compute);
    return CUDNN_STATUS_SUCCESS;
}

/* The real engines compute wrong results for it without an error, so the simulation refuses it. */
static bool is_computed_wrongly(const struct sim_operation *operation)
{
    const struct sim_window *const window = &operation->window;
    return operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR &&
           (window->before[0] != window->after[0] || window->before[1] != window->after[1]);
}

static cudnnStatus_t finalize_convolution(const struct sim_operation *operation)
{
    const struct sim_window *const window = &operation->window;
    const int64_t *const x = operation->x.dims, *const w = operation->w.dims, *const y = operation->y.dims;
    if (x[0] != y[0] || w[0] != y[1])
        return BAD("convolution: images or output channels differ");
    if (x[1] % w[1] != 0)
        return BAD("convolution: %lld channels, filters of %lld", (long long)x[1], (long long)w[1]);
    if (y[1] % (x[1] / w[1]) != 0)
        return BAD("convolution: %lld filters in %lld groups", (long long)y[1], (long long)(x[1] / w[1]));
    for (int i = 0; i < 2; i++) {
        const int64_t room = x[2 + i] + window->before[i] + window->after[i] - w[2 + i];
        if (room < 0 || y[2 + i] != room / window->strides[i] + 1)
            return BAD("convolution: output dimension %d is %lld", i, (long long)y[2 + i]);
    }
    if (operation->alpha != 1 || operation->beta != 0)
        return UNSUPPORTED("convolution: alpha %g, beta %g", operation->alpha, operation->beta);
    if (is_computed_wrongly(operation))
        return UNSUPPORTED("weight gradient: padding that is not the same on both sides");
    return CUDNN_STATUS_SUCCESS;
}

/* Which of the tensors that a pointwise operation may have are set? */
static bool has_its_tensors(const struct sim_descriptor *descriptor)
{
    const cudnnPointwiseMode_t mode = descriptor->body.operation.pointwise.mode;
    const bool is_gradient = mode == CUDNN_POINTWISE_RELU_BWD, has_two = mode != CUDNN_POINTWISE_RELU_FWD;
    return sim_descriptor_has(descriptor, CUDNN_ATTR_OPERATION_POINTWISE_BDESC) == (has_two && !is_gradient) &&
           sim_descriptor_has(descriptor, CUDNN_ATTR_OPERATION_POINTWISE_YDESC) == !is_gradient &&
           sim_descriptor_has(descriptor, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC) == is_gradient &&
           sim_descriptor_has(descriptor, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC) == is_gradient;
}

static cudnnStatus_t finalize_pointwise_operation(struct sim_descriptor *descriptor)
{
    struct sim_operation *const operation = &descriptor->body.operation;
    const cudnnPointwiseMode_t mode = operation->pointwise.mode;
    if (!has_its_tensors(descriptor))
        return BAD("pointwise: number of inputs");
    operation->has_b = mode != CUDNN_POINTWISE_RELU_FWD;
    if (mode == CUDNN_POINTWISE_RELU_BWD) {
        operation->b = operation->x;
        operation->x = operation->dy;
        operation->y = operation->dx;
    }
    for (int i = 0; i < SIM_RANK; i++) {
        if (operation->x.dims[i] != operation->y.dims[i])
            return BAD("pointwise: dimension %d of input and output differs", i);
        if (operation->has_b && operation->b.dims[i] != 1 && operation->b.dims[i] != operation->y.dims[i])
            return BAD("pointwise: dimension %d of the second input is %lld", i, (long long)operation->b.dims[i]);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_statistics(const struct sim_operation *operation)
{
    const int64_t wanted[SIM_RANK] = { 1, operation->x.dims[1], 1, 1 };
    const struct sim_tensor *const made[] = { &operation->sum, &operation->squares };
    if (operation->statistics != CUDNN_GENSTATS_SUM_SQSUM || operation->compute != CUDNN_DATA_FLOAT)
        return UNSUPPORTED("statistics of mode %d in type %d", (int)operation->statistics, (int)operation->compute);
    for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++)
        if (memcmp(made[i]->dims, wanted, sizeof(wanted)) != 0 || made[i]->type != CUDNN_DATA_FLOAT)
            return BAD("statistics: tensor %lld is not FLOAT 1,C,1,1", ID(made[i]));
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_norm(const struct sim_operation *operation)
{
    const int64_t wanted[SIM_RANK] = { 1, operation->x.dims[1], 1, 1 };
    const struct sim_tensor *const vectors[] = {
        &operation->mean, &operation->inverse, &operation->scale, &operation->sum, &operation->squares,
        &operation->factors[0], &operation->factors[1], &operation->factors[2],
    };
    if (operation->compute != CUDNN_DATA_FLOAT)
        return UNSUPPORTED("normalisation in type %d", (int)operation->compute);
    for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
        if (memcmp(vectors[i]->dims, wanted, sizeof(wanted)) != 0 || vectors[i]->type != CUDNN_DATA_FLOAT)
            return BAD("normalisation: tensor %lld is not FLOAT 1,C,1,1", ID(vectors[i]));
    if (memcmp(operation->x.dims, operation->dy.dims, sizeof(wanted)) != 0)
        return BAD("normalisation: values and gradient differ");
    return CUDNN_STATUS_SUCCESS;
}

static bool is_pointwise(const struct sim_operation *operation)
{
    return operation->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
}

const struct sim_tensor *sim_operation_result(const struct sim_operation *operation)
{
    return operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR     ? &operation->x
           : operation->type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ? &operation->w
                                                                                               : &operation->y;
}

const struct sim_tensor *sim_operations_result(const struct sim_operations *graph)
{
    return sim_operation_result(&graph->operations[graph->count - 1]);
}

/* Continues the list of tensors with those that only a normalisation has. */
static int list_norm(const struct sim_operations *graph, const struct sim_tensor **tensors, int count)
{
    const struct sim_operation *const norm = sim_norm_of(graph);
    tensors[count++] = &graph->line[0].x;
    for (int i = 0; i < SIM_LINE; i++) {
        tensors[count++] = &graph->line[i].b;
        if (i + 1 < SIM_LINE)       /* the last one is listed with the operation that reads it */
            tensors[count++] = &graph->line[i].y;
    }
    tensors[count++] = &norm->sum;
    tensors[count++] = &norm->squares;
    for (int i = 0; i < SIM_FACTORS; i++)
        tensors[count++] = &norm->factors[i];
    return count;
}

/* Lists all tensors of the graph. The x of an operation after the first is the result of the one before it. */
static int list_tensors(const struct sim_operations *graph, const struct sim_tensor **tensors)
{
    int count = 0;
    tensors[count++] = &graph->operations[0].x;
    for (int64_t i = 0; i < graph->count; i++) {
        const struct sim_operation *const operation = &graph->operations[i];
        if (!is_pointwise(operation))
            tensors[count++] = &operation->w;
        if (operation->has_b)
            tensors[count++] = &operation->b;
        tensors[count++] = &operation->y;
    }
    const struct sim_operation *const statistics = sim_statistics_of(graph);
    if (statistics != NULL) {
        tensors[count++] = &statistics->sum;
        tensors[count++] = &statistics->squares;
    }
    return graph->has_norm ? list_norm(graph, tensors, count) : count;
}

/* Is the tensor the result of one operation and the input of the next one? */
static bool is_between(const struct sim_operations *graph, const struct sim_tensor *tensor)
{
    for (int64_t i = 0; i + 1 < graph->count; i++)
        if (tensor == sim_operation_result(&graph->operations[i]))
            return true;
    for (int i = 0; i < SIM_LINE && graph->has_norm; i++)
        if (tensor == &graph->line[i].y)
            return true;
    return graph->has_norm && tensor == &graph->operations[graph->count - 1].b;
}

static cudnnStatus_t check_tensors(const struct sim_operations *graph)
{
    const struct sim_tensor *tensors[4 + 2 * SIM_OPERATIONS_MAX + 2 * SIM_LINE + SIM_FACTORS + 2];
    const int count = list_tensors(graph, tensors);
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++)
            if (tensors[i]->id == tensors[j]->id)
                return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two tensors are %lld",
                                      ID(tensors[i]));
        if (tensors[i]->is_virtual && !is_between(graph, tensors[i]))
            return BAD("tensor %lld is virtual at the graph's edge", ID(tensors[i]));
        if (!tensors[i]->is_virtual && is_between(graph, tensors[i]))
            return UNSUPPORTED("tensor %lld inside the graph is not virtual", ID(tensors[i]));
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Separates a last operation of statistics from the others. They are of the result of a forward pass. */
static cudnnStatus_t find_statistics(struct sim_operations *graph)
{
    const struct sim_operation *const last = &graph->operations[graph->count - 1];
    graph->has_statistics = last->type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR;
    if (!graph->has_statistics)
        return CUDNN_STATUS_SUCCESS;
    graph->count--;
    if (graph->count == 0 || graph->operations[graph->count - 1].type !=
                                 CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                              "statistics that follow no forward convolution");
    if (memcmp(&last->x, sim_operations_result(graph), sizeof(last->x)) != 0)
        return BAD("the statistics are not of the result");
    return CUDNN_STATUS_SUCCESS;
}

/* Does the line compute, in this order, (values - mean) * inverse * scale + shift from what the sums read? */
static bool is_line_of(const struct sim_operation *line, const struct sim_operation *norm)
{
    static const cudnnPointwiseMode_t modes[SIM_LINE] = { CUDNN_POINTWISE_SUB, CUDNN_POINTWISE_MUL, CUDNN_POINTWISE_MUL,
                                                          CUDNN_POINTWISE_ADD };
    const struct sim_tensor *const seconds[SIM_LINE] = { &norm->mean, &norm->inverse, &norm->scale, &line[3].b };
    const struct sim_tensor *from = &norm->x;
    for (int i = 0; i < SIM_LINE; i++) {
        if (!is_pointwise(&line[i]) || line[i].pointwise.mode != modes[i] || line[i].b.type != CUDNN_DATA_FLOAT ||
            memcmp(&line[i].x, from, sizeof(*from)) != 0 || memcmp(&line[i].b, seconds[i], sizeof(*from)) != 0)
            return false;
        from = &line[i].y;
    }
    return true;
}

/* Separates the line and the sums of a normalisation, in the one order in which the real library knows them: data
 * gradient, line, gradient of the ReLU, sums. */
static cudnnStatus_t find_norm(struct sim_operations *graph)
{
    enum { RELU = 1 + SIM_LINE, NORM, ALL };
    struct sim_operation *const operations = graph->operations;
    graph->has_norm = operations[graph->count - 1].type == CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR;
    if (!graph->has_norm)
        return CUDNN_STATUS_SUCCESS;
    if (graph->count != ALL || operations[0].type != CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
        !is_line_of(&operations[1], &operations[NORM]) || !is_pointwise(&operations[RELU]) ||
        operations[RELU].pointwise.mode != CUDNN_POINTWISE_RELU_BWD ||
        memcmp(&operations[RELU].b, &operations[SIM_LINE].y, sizeof(operations->b)) != 0 ||
        memcmp(&operations[RELU].y, &operations[NORM].dy, sizeof(operations->b)) != 0)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "sums for a normalisation in another pattern");
    memcpy(graph->line, &operations[1], sizeof(graph->line));
    memmove(&operations[1], &operations[RELU], 2 * sizeof(*operations));
    graph->count = 2;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t find_convolution(struct sim_operations *graph)
{
    int64_t found = 0;
    for (int64_t i = 0; i < graph->count; i++)
        if (!is_pointwise(&graph->operations[i])) {
            graph->convolution = i;
            found++;
        }
    if (found != 1)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%lld convolutions", (long long)found);
    return CUDNN_STATUS_SUCCESS;
}

/* Before the convolution operations may compute its image, after it operations may read its result, if that is of the
 * forward pass or the gradient of the data. */
static cudnnStatus_t check_pattern(const struct sim_operations *graph)
{
    const struct sim_operation *const operations = graph->operations;
    const cudnnBackendDescriptorType_t pass = operations[graph->convolution].type;
    if (graph->convolution > 0 && pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "operations before a data gradient");
    if (graph->convolution + 1 < graph->count &&
        pass == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "operations after a weight gradient");
    for (int64_t i = 1; i < graph->count; i++)
        if (memcmp(&operations[i].x, sim_operation_result(&operations[i - 1]), sizeof(operations[i].x)) != 0)
            return BAD("operation %d does not read what the one before it writes", (int)i);
    return CUDNN_STATUS_SUCCESS;
}

/* The second input of an operation is of the size of the first or has one number per channel. */
static cudnnStatus_t check_seconds(const struct sim_operations *graph)
{
    for (int64_t i = 0; i < graph->count; i++) {
        const struct sim_operation *const operation = &graph->operations[i];
        const int64_t channels[SIM_RANK] = { 1, operation->y.dims[1], 1, 1 };
        if (operation->has_b && memcmp(operation->b.dims, channels, sizeof(channels)) != 0 &&
            memcmp(operation->b.dims, operation->y.dims, sizeof(channels)) != 0)
            return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "a second input that is not 1,C,1,1");
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_graph(struct sim_operations *graph, bool has_handle)
{
    if (has_handle)
        sim_handle_device(graph->handle);
    cudnnStatus_t status = find_statistics(graph);
    if (status == CUDNN_STATUS_SUCCESS)
        status = find_norm(graph);
    if (status == CUDNN_STATUS_SUCCESS)
        status = find_convolution(graph);
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_pattern(graph);
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_tensors(graph);
    if (status == CUDNN_STATUS_SUCCESS)
        status = check_seconds(graph);
    graph->engine_count = SIM_ENGINE_REVERSED + 1;
    return status;
}

static cudnnStatus_t finalize_engine(struct sim_engine *engine)
{
    if (!sim_engine_exists(engine->index))
        return UNSUPPORTED("engine %lld", (long long)engine->index);
    sim_engine_describe(engine);
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize_pack(const struct sim_pack *pack)
{
    if (pack->id_count != pack->pointer_count)
        return BAD("%lld ids, %lld pointers", (long long)pack->id_count, (long long)pack->pointer_count);
    for (int64_t i = 0; i < pack->id_count; i++)
        for (int64_t j = 0; j < i; j++)
            if (pack->ids[i] == pack->ids[j])
                return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two pointers for tensor %lld",
                                      (long long)pack->ids[i]);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t sim_descriptor_finalize(struct sim_descriptor *descriptor)
{
    union sim_body *const body = &descriptor->body;
    switch (descriptor->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
        return finalize_tensor(&body->tensor);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
        return finalize_window(&body->window);
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
        return finalize_pointwise(&body->pointwise);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return finalize_pointwise_operation(descriptor);
    case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR:
        return finalize_statistics(&body->operation);
    case CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR:
        return finalize_norm(&body->operation);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
        return finalize_graph(&body->graph, sim_descriptor_has(descriptor, CUDNN_ATTR_OPERATIONGRAPH_HANDLE));
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return sim_heuristics_find(&body->heuristics);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
        return finalize_engine(&body->engine);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
        return sim_plan_finish(descriptor);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
        return finalize_pack(&body->pack);
    default:
        return finalize_convolution(&body->operation);
    }
}
