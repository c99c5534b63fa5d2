/* Descriptors of the simulated cuDNN: a table of attributes, and functions that set and get them. A descriptor that is
 * set as an attribute of another one must be finalised, and is copied. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/sim/sim_cudnn_graph.h"

#define DESCRIPTOR_MAGIC 0x6444736eu
#define ANY_OPERATION ((cudnnBackendDescriptorType_t)-1)

enum use { REQUIRED, OPTIONAL, RESULT };

struct attribute {
    cudnnBackendDescriptorType_t of;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    enum use use;
    size_t offset, element_bytes;       /* in union sim_body */
    int64_t capacity;
    size_t count_offset;                /* of the number of elements in union sim_body; 0: always one element */
    cudnnBackendDescriptorType_t part;  /* type of the descriptor, where the attribute is one */
};

#define OFFSET(field) offsetof(union sim_body, field)
#define BYTES(field) sizeof(((union sim_body *)NULL)->field)
#define ONE(of, name, type, use, field) \
    { CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, use, OFFSET(field), BYTES(field), 1, 0, 0 }
#define MANY(of, name, type, use, field, count) \
    { CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_##type, use, OFFSET(field), BYTES(field[0]), \
      BYTES(field) / BYTES(field[0]), OFFSET(count), 0 }
#define PART(of, name, use, field, kind) \
    { CUDNN_BACKEND_##of##_DESCRIPTOR, CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, use, OFFSET(field), \
      BYTES(field), 1, 0, CUDNN_BACKEND_##kind##_DESCRIPTOR }
#define CONVOLUTION(of, names, in, filter, out) \
    PART(of, names##_CONV_DESC, REQUIRED, operation.window, CONVOLUTION), \
    PART(of, names##_##in, REQUIRED, operation.x, TENSOR), \
    PART(of, names##_##filter, REQUIRED, operation.w, TENSOR), \
    PART(of, names##_##out, REQUIRED, operation.y, TENSOR), \
    ONE(of, names##_ALPHA, FLOAT, OPTIONAL, operation.alpha), \
    ONE(of, names##_BETA, FLOAT, OPTIONAL, operation.beta)

static const struct attribute sim_attributes[] = {
    ONE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, REQUIRED, tensor.type),
    MANY(TENSOR, TENSOR_DIMENSIONS, INT64, REQUIRED, tensor.dims, tensor.dim_count),
    MANY(TENSOR, TENSOR_STRIDES, INT64, REQUIRED, tensor.strides, tensor.stride_count),
    ONE(TENSOR, TENSOR_UNIQUE_ID, INT64, REQUIRED, tensor.id),
    ONE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, REQUIRED, tensor.alignment),
    ONE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, OPTIONAL, tensor.is_virtual),

    ONE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, REQUIRED, window.compute),
    ONE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, REQUIRED, window.mode),
    ONE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, REQUIRED, window.rank),
    MANY(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, REQUIRED, window.dilations, window.dilation_count),
    MANY(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, REQUIRED, window.strides, window.stride_count),
    MANY(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, REQUIRED, window.before, window.before_count),
    MANY(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, REQUIRED, window.after, window.after_count),

    ONE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, REQUIRED, pointwise.mode),
    ONE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, REQUIRED, pointwise.compute),

    CONVOLUTION(OPERATION_CONVOLUTION_FORWARD, OPERATION_CONVOLUTION_FORWARD, X, W, Y),
    CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_DATA, OPERATION_CONVOLUTION_BWD_DATA, DX, W, DY),
    CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_FILTER, OPERATION_CONVOLUTION_BWD_FILTER, X, DW, DY),

    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, REQUIRED, operation.pointwise, POINTWISE),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, REQUIRED, operation.x, TENSOR),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_BDESC, OPTIONAL, operation.b, TENSOR),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, OPTIONAL, operation.y, TENSOR),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_DYDESC, OPTIONAL, operation.dy, TENSOR),
    PART(OPERATION_POINTWISE, OPERATION_POINTWISE_DXDESC, OPTIONAL, operation.dx, TENSOR),

    ONE(OPERATION_GEN_STATS, OPERATION_GENSTATS_MODE, GENSTATS_MODE, REQUIRED, operation.statistics),
    ONE(OPERATION_GEN_STATS, OPERATION_GENSTATS_MATH_PREC, DATA_TYPE, REQUIRED, operation.compute),
    PART(OPERATION_GEN_STATS, OPERATION_GENSTATS_XDESC, REQUIRED, operation.x, TENSOR),
    PART(OPERATION_GEN_STATS, OPERATION_GENSTATS_SUMDESC, REQUIRED, operation.sum, TENSOR),
    PART(OPERATION_GEN_STATS, OPERATION_GENSTATS_SQSUMDESC, REQUIRED, operation.squares, TENSOR),

    ONE(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_MATH_PREC, DATA_TYPE, REQUIRED, operation.compute),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, REQUIRED, operation.mean, TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, REQUIRED, operation.inverse, TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, REQUIRED, operation.scale, TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_X_DESC, REQUIRED, operation.x, TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_DY_DESC, REQUIRED, operation.dy, TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, REQUIRED, operation.sum, TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, REQUIRED, operation.squares, TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, REQUIRED, operation.factors[0], TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, REQUIRED, operation.factors[1], TENSOR),
    PART(OPERATION_BN_BWD_WEIGHTS, OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, REQUIRED, operation.factors[2], TENSOR),

    ONE(OPERATIONGRAPH, OPERATIONGRAPH_HANDLE, HANDLE, OPTIONAL, graph.handle),
    { CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, REQUIRED,
      OFFSET(graph.operations), sizeof(struct sim_operation), SIM_OPERATIONS_MAX, OFFSET(graph.count), ANY_OPERATION },
    ONE(OPERATIONGRAPH, OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, INT64, RESULT, graph.engine_count),

    PART(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, REQUIRED, heuristics.graph, OPERATIONGRAPH),
    ONE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, REQUIRED, heuristics.mode),
    { CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, RESULT, 0, 0,
      INT64_MAX, 0, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR },

    PART(ENGINE, ENGINE_OPERATION_GRAPH, REQUIRED, engine.graph, OPERATIONGRAPH),
    ONE(ENGINE, ENGINE_GLOBAL_INDEX, INT64, REQUIRED, engine.index),
    MANY(ENGINE, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE, RESULT, engine.notes, engine.note_count),
    MANY(ENGINE, ENGINE_BEHAVIOR_NOTE, BEHAVIOR_NOTE, RESULT, engine.behavior, engine.behavior_count),

    PART(ENGINECFG, ENGINECFG_ENGINE, REQUIRED, config.engine, ENGINE),

    ONE(EXECUTION_PLAN, EXECUTION_PLAN_HANDLE, HANDLE, REQUIRED, plan.handle),
    PART(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, OPTIONAL, plan.config, ENGINECFG),
    { CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, OPTIONAL,
      0, 1, INT64_MAX, 0, 0 },
    ONE(EXECUTION_PLAN, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, RESULT, plan.workspace),

    MANY(VARIANT_PACK, VARIANT_PACK_UNIQUE_IDS, INT64, REQUIRED, pack.ids, pack.id_count),
    MANY(VARIANT_PACK, VARIANT_PACK_DATA_POINTERS, VOID_PTR, REQUIRED, pack.pointers, pack.pointer_count),
    ONE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, OPTIONAL, pack.workspace),
};
#define ATTRIBUTES (sizeof(sim_attributes) / sizeof(*sim_attributes))
_Static_assert(ATTRIBUTES <= 128, "`given` has a bit for each");

static const struct attribute *find(cudnnBackendDescriptorType_t of, cudnnBackendAttributeName_t name)
{
    for (size_t i = 0; i < ATTRIBUTES; i++)
        if (sim_attributes[i].of == of && sim_attributes[i].name == name)
            return &sim_attributes[i];
    return NULL;
}

static bool is_known(cudnnBackendDescriptorType_t type)
{
    for (size_t i = 0; i < ATTRIBUTES; i++)
        if (sim_attributes[i].of == type)
            return true;
    return false;
}

static bool is_operation(cudnnBackendDescriptorType_t type)
{
    return type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR ||
           type == CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR;
}

static struct sim_descriptor *descriptor_of(cudnnBackendDescriptor_t handle)
{
    struct sim_descriptor *const descriptor = handle;
    return descriptor != NULL && descriptor->magic == DESCRIPTOR_MAGIC ? descriptor : NULL;
}

struct sim_descriptor *sim_descriptor_of(cudnnBackendDescriptor_t handle, cudnnBackendDescriptorType_t type)
{
    struct sim_descriptor *const descriptor = descriptor_of(handle);
    return descriptor != NULL && descriptor->type == type ? descriptor : NULL;
}

static bool is_given(const struct sim_descriptor *descriptor, size_t attribute)
{
    return descriptor->given[attribute / 64] >> attribute % 64 & 1;
}

bool sim_descriptor_has(const struct sim_descriptor *descriptor, cudnnBackendAttributeName_t name)
{
    const struct attribute *const attribute = find(descriptor->type, name);
    assert(attribute != NULL);
    return is_given(descriptor, (size_t)(attribute - sim_attributes));
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor_out)
{
    SIM_CUDNN_ENTER();
    if (!is_known(type))
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "descriptors of type %d are not simulated", (int)type);
    struct sim_descriptor *const descriptor = sim_alloc(sizeof(*descriptor));
    descriptor->magic = DESCRIPTOR_MAGIC;
    descriptor->type = type;
    if (is_operation(type)) {
        descriptor->body.operation.type = type;
        descriptor->body.operation.alpha = 1;
    }
    sim_cudnn_count(1);
    *descriptor_out = descriptor;
    return CUDNN_STATUS_SUCCESS;
}

/* Destroys the descriptor even when a test makes the call fail. */
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t handle)
{
    struct sim_descriptor *const descriptor = descriptor_of(handle);
    if (handle == NULL)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    if (descriptor == NULL)
        sim_die("cudnnBackendDestroyDescriptor: not a descriptor, or a destroyed one");
    descriptor->magic = 0;
    free(descriptor->text);
    free(descriptor);
    sim_cudnn_count(-1);
    SIM_CUDNN_ENTER();
    return CUDNN_STATUS_SUCCESS;
}

/* The checks that setting and getting share. On success *attribute_out is the attribute's row of the table. */
static cudnnStatus_t check(const struct sim_descriptor *descriptor, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, const struct attribute **attribute_out)
{
    if (descriptor == NULL)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    const struct attribute *const attribute = find(descriptor->type, name);
    if (attribute == NULL)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "descriptors of type %d have no attribute %d",
                              (int)descriptor->type, (int)name);
    if (type != attribute->type)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute %d is of type %d, not %d", (int)name,
                              (int)attribute->type, (int)type);
    *attribute_out = attribute;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_text(struct sim_descriptor *descriptor, int64_t count, const char *text)
{
    char *const copy = sim_alloc((size_t)count);
    memcpy(copy, text, (size_t)count);
    free(descriptor->text);
    descriptor->text = copy;
    descriptor->text_bytes = count;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_parts(unsigned char *to, const struct attribute *attribute, int64_t count,
                               const cudnnBackendDescriptor_t *parts)
{
    for (int64_t i = 0; i < count; i++) {
        const struct sim_descriptor *const part = descriptor_of(parts[i]);
        if (part == NULL)
            return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "attribute %d: element %d is no descriptor",
                                  (int)attribute->name, (int)i);
        if (attribute->part == ANY_OPERATION ? !is_operation(part->type) : part->type != attribute->part)
            return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "attribute %d: a descriptor of type %d",
                                  (int)attribute->name, (int)part->type);
        if (!part->final)
            return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "attribute %d: element %d is not finalised",
                                  (int)attribute->name, (int)i);
        memcpy(to + (size_t)i * attribute->element_bytes, &part->body, attribute->element_bytes);
    }
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_values(struct sim_descriptor *descriptor, const struct attribute *attribute, int64_t count,
                                const void *values)
{
    if (attribute->type == CUDNN_TYPE_CHAR)
        return set_text(descriptor, count, values);
    unsigned char *const body = (unsigned char *)&descriptor->body;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (attribute->type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        status = set_parts(body + attribute->offset, attribute, count, values);
    else
        memcpy(body + attribute->offset, values, (size_t)count * attribute->element_bytes);
    if (status == CUDNN_STATUS_SUCCESS && attribute->count_offset != 0)
        memcpy(body + attribute->count_offset, &count, sizeof(count));
    return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    SIM_CUDNN_ENTER();
    struct sim_descriptor *const descriptor = descriptor_of(handle);
    const struct attribute *attribute = NULL;
    cudnnStatus_t status = check(descriptor, name, type, &attribute);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (descriptor->final)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d is set after the descriptor is finalised",
                              (int)name);
    if (attribute->use == RESULT)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d cannot be set", (int)name);
    if (values == NULL || count < 1 || count > attribute->capacity)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: %lld elements", (int)name, (long long)count);
    status = set_values(descriptor, attribute, count, values);
    if (status == CUDNN_STATUS_SUCCESS)
        descriptor->given[(attribute - sim_attributes) / 64] |= 1ull << (attribute - sim_attributes) % 64;
    return status;
}

static cudnnStatus_t get_text(const struct sim_descriptor *descriptor, int64_t capacity, int64_t *count_out, char *text)
{
    const bool wanted = text != NULL && capacity > 0;
    if (wanted && capacity < descriptor->text_bytes)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "the text has %lld bytes",
                              (long long)descriptor->text_bytes);
    if (wanted)
        memcpy(text, descriptor->text, (size_t)descriptor->text_bytes);
    if (count_out != NULL)
        *count_out = descriptor->text_bytes;
    return CUDNN_STATUS_SUCCESS;
}

/* Copies the part into an empty descriptor of the caller. */
static cudnnStatus_t get_part(const unsigned char *from, const struct attribute *attribute,
                              const cudnnBackendDescriptor_t *handle)
{
    struct sim_descriptor *const part = sim_descriptor_of(*handle, attribute->part);
    if (part == NULL || part->final)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                              "attribute %d goes into a fresh descriptor of type %d", (int)attribute->name,
                              (int)attribute->part);
    memcpy(&part->body, from, attribute->element_bytes);
    part->final = true;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_values(const struct sim_descriptor *descriptor, const struct attribute *attribute,
                                int64_t capacity, int64_t *count_out, void *values)
{
    const unsigned char *const body = (const unsigned char *)&descriptor->body;
    const bool wanted = values != NULL && capacity > 0;
    int64_t count = 1;
    if (attribute->type == CUDNN_TYPE_BACKEND_DESCRIPTOR && attribute->capacity != 1)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "attribute %d cannot be read", (int)attribute->name);
    if (attribute->count_offset != 0)
        memcpy(&count, body + attribute->count_offset, sizeof(count));
    if (wanted && count > capacity)
        count = capacity;
    if (wanted && attribute->type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        const cudnnStatus_t status = get_part(body + attribute->offset, attribute, values);
        if (status != CUDNN_STATUS_SUCCESS)
            return status;
    } else if (wanted) {
        memcpy(values, body + attribute->offset, (size_t)count * attribute->element_bytes);
    }
    if (count_out != NULL)
        *count_out = count;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const handle, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count_out,
                                       void *values)
{
    SIM_CUDNN_ENTER();
    const struct sim_descriptor *const descriptor = descriptor_of(handle);
    const struct attribute *attribute = NULL;
    if (descriptor != NULL && !descriptor->final)
        return sim_cudnn_fail(CUDNN_STATUS_NOT_INITIALIZED, "attribute %d is read before the descriptor is finalised",
                              (int)name);
    const cudnnStatus_t status = check(descriptor, name, type, &attribute);
    if (status != CUDNN_STATUS_SUCCESS)
        return status;
    if (capacity < 0)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: %lld elements", (int)name, (long long)capacity);
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return sim_heuristics_results(&descriptor->body.heuristics, capacity, count_out, values);
    if (attribute->type == CUDNN_TYPE_CHAR)
        return get_text(descriptor, capacity, count_out, values);
    return get_values(descriptor, attribute, capacity, count_out, values);
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t handle)
{
    SIM_CUDNN_ENTER();
    struct sim_descriptor *const descriptor = descriptor_of(handle);
    if (descriptor == NULL)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    if (descriptor->final)
        return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "the descriptor is finalised already");
    for (size_t i = 0; i < ATTRIBUTES; i++)
        if (sim_attributes[i].of == descriptor->type && sim_attributes[i].use == REQUIRED &&
            !is_given(descriptor, i))
            return sim_cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d is not set", (int)sim_attributes[i].name);
    const cudnnStatus_t status = sim_descriptor_finalize(descriptor);
    descriptor->final = status == CUDNN_STATUS_SUCCESS;
    return status;
}
