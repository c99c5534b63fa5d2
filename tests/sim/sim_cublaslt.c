/* cuBLASLt on the CPU, in place of compute/cuda/cublaslt_api.c: products of column-major matrices, one per call, with
 * the epilogues RELU, BIAS, RELU_BIAS and BGRADB.
 *
 * Mistakes of the program end the test. What a real library may not support is refused with a status, as the
 * environment says:
 *
 *   SIM_CUBLASLT_NO_EPILOGUE=1  epilogues are "not supported"
 *   SIM_CUBLASLT_NO_EPILOGUE=2  the heuristics succeed and find no algorithm for epilogues
 *   SIM_CUBLASLT_SLOW=66,68     these algorithms take ten seconds more by the events' times
 *   SIM_CUBLASLT_BROKEN=67      these algorithms are found, and are "not supported" when they run */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cublaslt_dense.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_values.h"

#define HANDLE_MAGIC 0x4c74u
#define OPERATION_MAGIC 0x4c75u
#define LAYOUT_MAGIC 0x4c76u
#define PREFERENCE_MAGIC 0x4c77u
#define ALGORITHM_MAGIC 0x4c78u
#define ALGORITHM_FIRST 66
#define ALGORITHM_COUNT 3               /* which compute the same */
#define SLOW_NS 10000000000u
#define SPLIT_FROM 1024u            /* products of this inner dimension or more are summed in two parts */
#define WORKSPACE_ALIGNMENT 16u
#define ENTER() SIM_ENTER_WITH(sim_enter, cublasStatus_t)

struct cublasLtContext { uint32_t magic; int device; };

struct operation {
    uint32_t magic;
    int32_t compute, scale, a_operation, b_operation;
    uint32_t epilogue;
    int32_t bias_type;
    void *bias;
};

struct matrix_layout {
    uint32_t magic;
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t stride;
};

struct preference {
    uint32_t magic;
    uint64_t workspace_max, implementations;
    uint32_t reductions;
    uint32_t alignments[4];         /* of A, B, C, D */
};

/* A product without its addresses. An algorithm is valid only for the problem that it was found for. */
struct problem {
    struct operation operation;     /* bias NULL */
    struct matrix_layout a, b, d;
};

/* The content of a cublasLtMatmulAlgo_t. It may be kept and used with another device of the same kind. */
struct algorithm {
    int32_t id;
    uint32_t magic;
    bool split, in_place;
    uint32_t alignments[3];
    uint64_t workspace, fingerprint;
};
_Static_assert(sizeof(struct algorithm) <= sizeof(cublasLtMatmulAlgo_t), "algorithms are copied by callers");

static void *object_open(uint32_t magic, size_t bytes)
{
    uint32_t *const object = sim_alloc(bytes);
    *object = magic;
    return object;
}

static void *object_check(void *object, uint32_t magic, const char *who)
{
    if (object == NULL || *(uint32_t *)object != magic)
        sim_die("%s: not an object of the right kind, or closed", who);
    return object;
}

/* Frees the object even when a test makes the call fail. */
static cublasStatus_t object_close(void *object, uint32_t magic, const char *who)
{
    *(uint32_t *)object_check(object, magic, who) = 0;
    free(object);
    return (cublasStatus_t)sim_enter(who);
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success"
        : status == CUBLAS_STATUS_NOT_INITIALIZED ? "the library was not initialized"
        : status == CUBLAS_STATUS_ALLOC_FAILED ? "an allocation failed"
        : status == CUBLAS_STATUS_INVALID_VALUE ? "a value is invalid"
        : status == CUBLAS_STATUS_NOT_SUPPORTED ? "not supported" : "failed";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    ENTER();
    *handle = object_open(HANDLE_MAGIC, sizeof(**handle));
    (*handle)->device = sim_current_device();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return object_close(handle, HANDLE_MAGIC, __func__);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation_out, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    ENTER();
    struct operation *const operation = object_open(OPERATION_MAGIC, sizeof(*operation));
    operation->compute = (int32_t)compute;
    operation->scale = (int32_t)scale;
    operation->a_operation = operation->b_operation = CUBLAS_OP_N;
    operation->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    operation->bias_type = -1;
    *operation_out = (cublasLtMatmulDesc_t)(void *)operation;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    return object_close(operation, OPERATION_MAGIC, __func__);
}

/* An attribute of a descriptor: where it is stored, and its size, which shows that the caller's type is right. */
struct attribute { int32_t number; uint32_t bytes; size_t offset; };
#define ATTRIBUTE(object, number, field) \
    { number, sizeof(((struct object *)NULL)->field), offsetof(struct object, field) }

static void attribute_set(void *object, const struct attribute *attributes, size_t count, int32_t number,
                          const void *value, size_t bytes, const char *who)
{
    size_t i = 0;
    while (i < count && attributes[i].number != number)
        i++;
    if (i == count)
        sim_die("%s: attribute %d is not simulated", who, number);
    if (value == NULL || bytes != attributes[i].bytes)
        sim_die("%s: attribute %d of %u bytes is given as %zu", who, number, attributes[i].bytes, bytes);
    memcpy((unsigned char *)object + attributes[i].offset, value, bytes);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t object, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    ENTER();
    static const struct attribute attributes[] = {
        ATTRIBUTE(operation, CUBLASLT_MATMUL_DESC_TRANSA, a_operation),
        ATTRIBUTE(operation, CUBLASLT_MATMUL_DESC_TRANSB, b_operation),
        ATTRIBUTE(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue),
        ATTRIBUTE(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias),
        ATTRIBUTE(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bias_type),
    };
    attribute_set(object_check(object, OPERATION_MAGIC, __func__), attributes, sizeof(attributes) / sizeof(*attributes),
                  (int32_t)attribute, value, bytes, __func__);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout_out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t stride)
{
    ENTER();
    if (rows == 0 || columns == 0 || stride < (int64_t)rows || rows > INT32_MAX || columns > INT32_MAX)
        sim_die("%s: %llu x %llu, leading dimension %lld", __func__, (unsigned long long)rows,
                (unsigned long long)columns, (long long)stride);
    struct matrix_layout *const layout = object_open(LAYOUT_MAGIC, sizeof(*layout));
    layout->type = type;
    layout->rows = rows;
    layout->columns = columns;
    layout->stride = stride;
    *layout_out = (cublasLtMatrixLayout_t)(void *)layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return object_close(layout, LAYOUT_MAGIC, __func__);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference_out)
{
    ENTER();
    struct preference *const preference = object_open(PREFERENCE_MAGIC, sizeof(*preference));
    preference->implementations = UINT64_MAX;
    preference->reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
    for (size_t i = 0; i < 4; i++)
        preference->alignments[i] = 256;
    *preference_out = (cublasLtMatmulPreference_t)(void *)preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return object_close(preference, PREFERENCE_MAGIC, __func__);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t object,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    ENTER();
    static const struct attribute attributes[] = {
        ATTRIBUTE(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_max),
        ATTRIBUTE(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions),
        ATTRIBUTE(preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, implementations),
        ATTRIBUTE(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[0]),
        ATTRIBUTE(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[1]),
        ATTRIBUTE(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[2]),
        ATTRIBUTE(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[3]),
    };
    attribute_set(object_check(object, PREFERENCE_MAGIC, __func__), attributes,
                  sizeof(attributes) / sizeof(*attributes), (int32_t)attribute, value, bytes, __func__);
    return CUBLAS_STATUS_SUCCESS;
}

static bool epilogue_has_bias(uint32_t epilogue)
{
    return (epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB)) != 0;
}

static struct problem problem_of(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                 cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const char *who)
{
    if (c != d)
        sim_die("%s: only C = D is simulated", who);
    struct problem problem;
    memset(&problem, 0, sizeof(problem));        /* padding too, because its bytes are hashed */
    memcpy(&problem.operation, object_check(operation, OPERATION_MAGIC, who), sizeof(problem.operation));
    memcpy(&problem.a, object_check(a, LAYOUT_MAGIC, who), sizeof(problem.a));
    memcpy(&problem.b, object_check(b, LAYOUT_MAGIC, who), sizeof(problem.b));
    memcpy(&problem.d, object_check(d, LAYOUT_MAGIC, who), sizeof(problem.d));
    problem.operation.bias = NULL;
    return problem;
}

static size_t inner(const struct problem *problem)
{
    return problem->operation.a_operation == CUBLAS_OP_N ? problem->a.columns : problem->a.rows;
}

static void check_dimensions(const struct problem *problem, const char *who)
{
    const bool a_plain = problem->operation.a_operation == CUBLAS_OP_N;
    const bool b_plain = problem->operation.b_operation == CUBLAS_OP_N;
    if ((!a_plain && problem->operation.a_operation != CUBLAS_OP_T)
        || (!b_plain && problem->operation.b_operation != CUBLAS_OP_T))
        sim_die("%s: operations %d and %d", who, problem->operation.a_operation, problem->operation.b_operation);
    if ((a_plain ? problem->a.rows : problem->a.columns) != problem->d.rows
        || (b_plain ? problem->b.columns : problem->b.rows) != problem->d.columns
        || (b_plain ? problem->b.rows : problem->b.columns) != inner(problem))
        sim_die("%s: the matrices' dimensions do not fit", who);
}

/* Are these types in the library's table of supported types, as far as it is simulated? */
static bool is_supported(const struct problem *problem)
{
    const cudaDataType_t type = problem->a.type, result = problem->d.type;
    if (problem->operation.scale != CUDA_R_32F || problem->b.type != type)
        return false;
    if (problem->operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
        return type == CUDA_R_32F && result == CUDA_R_32F;
    return problem->operation.compute == CUBLAS_COMPUTE_32F
        && (type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF)
        && (result == type || result == CUDA_R_32F);
}

static void check_epilogue(const struct operation *operation, cudaDataType_t result, const char *who)
{
    const uint32_t epilogue = operation->epilogue;
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_RELU
        && epilogue != CUBLASLT_EPILOGUE_BIAS && epilogue != CUBLASLT_EPILOGUE_RELU_BIAS
        && epilogue != CUBLASLT_EPILOGUE_BGRADB)
        sim_die("%s: epilogue %u is not simulated", who, epilogue);
    if (!epilogue_has_bias(epilogue))
        return;
    if (operation->bias == NULL || (uintptr_t)operation->bias % 16 != 0)
        sim_die("%s: a bias at %p", who, operation->bias);
    if (operation->bias_type != -1 && operation->bias_type != (int32_t)result)
        sim_die("%s: a bias of type %d beside a result of type %d", who, operation->bias_type, (int)result);
}

static void check_strides(const struct problem *problem, const struct preference *preference, const char *who)
{
    const struct matrix_layout *const layouts[] = { &problem->a, &problem->b, &problem->d };
    const uint32_t alignments[] = { preference->alignments[0], preference->alignments[1], preference->alignments[3] };
    for (size_t i = 0; i < 3; i++)
        if ((size_t)layouts[i]->stride * sim_value_bytes(layouts[i]->type) % alignments[i] != 0)
            sim_die("%s: a leading dimension of %lld is not aligned to %u bytes", who, (long long)layouts[i]->stride,
                    alignments[i]);
}

/* The value of SIM_CUBLASLT_NO_EPILOGUE for a product with an epilogue, else 0. */
static int epilogue_refusal(const struct problem *problem)
{
    const char *const text = getenv("SIM_CUBLASLT_NO_EPILOGUE");
    return text == NULL || problem->operation.epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 0 : atoi(text);
}

static struct algorithm algorithm_for(const struct problem *problem, const struct preference *preference)
{
    const uint64_t workspace = 2 * problem->d.rows * problem->d.columns * sizeof(float);
    const uint32_t *const alignments = preference->alignments;
    struct algorithm algorithm = {
        .id = ALGORITHM_FIRST, .magic = ALGORITHM_MAGIC,
        .in_place = (preference->reductions & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0,
        .alignments = { alignments[0], alignments[1], alignments[3] },
        .fingerprint = sim_hash(problem, sizeof(*problem)),
    };
    algorithm.split = inner(problem) >= SPLIT_FROM && workspace <= preference->workspace_max
        && (preference->reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
    algorithm.workspace = algorithm.split ? workspace : 0;
    return algorithm;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference_object, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *count_out)
{
    ENTER();
    object_check(handle, HANDLE_MAGIC, __func__);
    const struct preference *const preference = object_check(preference_object, PREFERENCE_MAGIC, __func__);
    const struct problem problem = problem_of(operation, a, b, c, d, __func__);
    check_dimensions(&problem, __func__);
    check_epilogue((const struct operation *)(const void *)operation, problem.d.type, __func__);
    if (wanted < 1 || sim_current_device() != handle->device)
        sim_die("%s: %d results on device %d for a handle of %d", __func__, wanted, sim_current_device(),
                handle->device);
    if (!is_supported(&problem) || epilogue_refusal(&problem) == 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    check_strides(&problem, preference, __func__);
    *count_out = epilogue_refusal(&problem) == 2 ? 0 : wanted < ALGORITHM_COUNT ? wanted : ALGORITHM_COUNT;
    struct algorithm algorithm = algorithm_for(&problem, preference);
    for (int i = 0; i < *count_out; i++, algorithm.id++) {
        memset(&results[i], 0, sizeof(results[i]));
        memcpy(&results[i].algo, &algorithm, sizeof(algorithm));
        results[i].workspaceSize = algorithm.workspace;
        results[i].state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Unlike a run it refuses algorithms for other products, because a caller may have them from a file. */
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    ENTER();
    struct algorithm algorithm;
    object_check(handle, HANDLE_MAGIC, __func__);
    const struct problem problem = problem_of(operation, a, b, c, d, __func__);
    memcpy(&algorithm, algo, sizeof(algorithm));
    if (algorithm.magic != ALGORITHM_MAGIC || algorithm.fingerprint != sim_hash(&problem, sizeof(problem)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memset(result, 0, sizeof(*result));
    result->workspaceSize = algorithm.workspace;
    result->state = CUBLAS_STATUS_SUCCESS;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                                    size_t bytes, size_t *written_out)
{
    ENTER();
    struct algorithm algorithm;
    memcpy(&algorithm, algo, sizeof(algorithm));
    if (attribute != CUBLASLT_ALGO_CONFIG_ID || algorithm.magic != ALGORITHM_MAGIC || bytes != sizeof(algorithm.id))
        sim_die("%s: attribute %d of algorithm %d", __func__, (int)attribute, algorithm.id);
    memcpy(value, &algorithm.id, bytes);
    *written_out = sizeof(algorithm.id);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products, computed with fp32 sums on the stream's thread ---- */

/* Column-major, with `stride` elements from one column to the next. */
struct matrix { cudaDataType_t type; size_t stride; bool transposed; void *values; };

/* D (m x n) = alpha * op(A) * op(B) + beta * D. */
struct product {
    size_t m, n, k;
    struct matrix a, b, d;
    float alpha, beta;
    uint32_t epilogue;
    void *bias;
    bool tf32;                  /* inputs are rounded to tf32 */
    bool split;                 /* summed in two parts, in the workspace */
    bool in_place;              /* summed in two parts, in an order that varies */
    void *workspace;
    size_t workspace_bytes;
    bool is_slow;
};

/* out[row * row_step + column * column_step] = op(matrix)(row, column), for all rows and columns. */
static void matrix_read(const struct matrix *matrix, size_t rows, size_t columns, bool tf32, float *out,
                        size_t row_step, size_t column_step)
{
    for (size_t column = 0; column < columns; column++)
        for (size_t row = 0; row < rows; row++) {
            const size_t i = matrix->transposed ? row * matrix->stride + column : column * matrix->stride + row;
            const float value = sim_value_read(matrix->type, matrix->values, i);
            out[row * row_step + column * column_step] = tf32 ? sim_tf32_round(value) : value;
        }
}

/* sums[0..m) += a[i][0..m) * b[i] for i from begin to end. */
static void sum_products(const float *a, const float *b, size_t m, size_t begin, size_t end, float *restrict sums)
{
    for (size_t i = begin; i < end; i++) {
        const float factor = b[i];
        const float *const row = a + i * m;
        for (size_t j = 0; j < m; j++)
            sums[j] += row[j] * factor;
    }
}

/* sums[0..m) = one column of the product. sums has room for m more floats, which are scratch. */
static void column_sums(const struct product *product, const float *a, const float *b, bool backwards, float *sums)
{
    const size_t middle = product->split || product->in_place ? product->k / 2 : 0;
    memset(sums, 0, 2 * product->m * sizeof(*sums));
    if (product->in_place) {        /* the part that finishes first is added first */
        sum_products(a, b, product->m, backwards ? middle : 0, backwards ? product->k : middle, sums);
        sum_products(a, b, product->m, backwards ? 0 : middle, backwards ? middle : product->k, sums);
        return;
    }
    sum_products(a, b, product->m, 0, middle, sums);
    sum_products(a, b, product->m, middle, product->k, sums + product->m);
    for (size_t i = 0; i < product->m; i++)
        sums[i] += sums[product->m + i];
}

static float finish_value(const struct product *product, size_t row, float sum, size_t place)
{
    float value = product->alpha * sum;
    if (product->beta != 0)
        value += product->beta * sim_value_read(product->d.type, product->d.values, place);
    if (product->epilogue & CUBLASLT_EPILOGUE_BIAS)
        value += sim_value_read(product->d.type, product->bias, row);
    return product->epilogue & CUBLASLT_EPILOGUE_RELU && value <= 0 ? 0.0f : value;
}

static void bias_gradient(const struct product *product, const float *b)
{
    for (size_t column = 0; column < product->n; column++) {
        float sum = 0;
        for (size_t i = 0; i < product->k; i++)
            sum += b[column * product->k + i];
        sim_value_write(product->d.type, product->bias, column, sum);
    }
}

static void multiply(const struct product *product, const float *a, const float *b, bool backwards, float *sums)
{
    for (size_t column = 0; column < product->n; column++) {
        column_sums(product, a, b + column * product->k, backwards, sums);
        for (size_t row = 0; row < product->m; row++) {
            const size_t place = column * product->d.stride + row;
            sim_value_write(product->d.type, product->d.values, place, finish_value(product, row, sums[row], place));
        }
    }
}

/* Copies of A and B are stored in the order in which the sums read them: columns of op(A), and columns of op(B). */
static void run_product(void *arguments)
{
    static atomic_uint runs;
    const struct product *const product = arguments;
    if (product->is_slow)
        sim_pretend_ns(SLOW_NS);
    float *const a = sim_alloc((product->m * product->k + product->k * product->n + 2 * product->m) * sizeof(*a));
    float *const b = a + product->m * product->k;
    matrix_read(&product->a, product->m, product->k, product->tf32, a, 1, product->m);
    matrix_read(&product->b, product->k, product->n, product->tf32, b, 1, product->k);
    if (product->workspace_bytes > 0)
        memset(product->workspace, 0xff, product->workspace_bytes);
    multiply(product, a, b, atomic_fetch_add(&runs, 1) % 2 == 1, b + product->k * product->n);
    if (product->epilogue == CUBLASLT_EPILOGUE_BGRADB)
        bias_gradient(product, b);
    free(a);
}

/* ---- queueing ---- */

static size_t matrix_bytes(const struct matrix_layout *layout)
{
    return ((layout->columns - 1) * (size_t)layout->stride + layout->rows) * sim_value_bytes(layout->type);
}

static void check_operands(const struct problem *problem, const struct product *product,
                           const struct algorithm *algorithm, int device)
{
    const size_t bias_count = product->epilogue == CUBLASLT_EPILOGUE_BGRADB ? product->n : product->m;
    const size_t bias_bytes = epilogue_has_bias(product->epilogue) ? bias_count * sim_value_bytes(problem->d.type) : 0;
    const struct sim_operand operands[] = {     /* the first three may be written */
        { "cublasLtMatmul, D", product->d.values, matrix_bytes(&problem->d) },
        { "cublasLtMatmul, workspace", product->workspace, product->workspace_bytes },
        { "cublasLtMatmul, bias", product->bias, bias_bytes },
        { "cublasLtMatmul, A", product->a.values, matrix_bytes(&problem->a) },
        { "cublasLtMatmul, B", product->b.values, matrix_bytes(&problem->b) },
    };
    const size_t count = sizeof(operands) / sizeof(*operands);
    const uint32_t alignments[] = { algorithm->alignments[2], WORKSPACE_ALIGNMENT, 16, algorithm->alignments[0],
                                    algorithm->alignments[1] };
    for (size_t i = 0; i < count; i++)
        if (operands[i].bytes > 0 && (uintptr_t)operands[i].memory % alignments[i] != 0)
            sim_die("%s at %p is not aligned to %u bytes", operands[i].name, operands[i].memory, alignments[i]);
    sim_check_operands(operands, count, 3, device);
    sim_count_bytes("cublasLtMatmul", sim_operand_bytes(operands, count) - product->workspace_bytes);
}

static struct algorithm algorithm_check(const cublasLtMatmulAlgo_t *algo, const struct problem *problem,
                                        const void *workspace, size_t workspace_bytes, const char *who)
{
    struct algorithm algorithm;
    if (algo == NULL)
        sim_die("%s: no algorithm", who);
    memcpy(&algorithm, algo, sizeof(algorithm));
    if (algorithm.magic != ALGORITHM_MAGIC || algorithm.fingerprint != sim_hash(problem, sizeof(*problem)))
        sim_die("%s: the algorithm was found for another product", who);
    if (workspace_bytes < algorithm.workspace || (algorithm.workspace > 0 && workspace == NULL))
        sim_die("%s: %zu bytes of workspace at %p where %llu are needed", who, workspace_bytes, workspace,
                (unsigned long long)algorithm.workspace);
    return algorithm;
}

/* Is the algorithm in the list of this environment variable? */
static bool is_listed(const char *variable, int32_t id)
{
    const char *const list = getenv(variable);
    char text[16];
    snprintf(text, sizeof(text), "%d", (int)id);
    return list != NULL && strstr(list, text) != NULL;
}

static struct matrix matrix_of(const struct matrix_layout *layout, int32_t operation, const void *values)
{
    return (struct matrix){ layout->type, (size_t)layout->stride, operation == CUBLAS_OP_T,
                            (void *)(uintptr_t)values };
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation_object, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    ENTER();
    object_check(handle, HANDLE_MAGIC, __func__);
    const struct operation *const operation = object_check(operation_object, OPERATION_MAGIC, __func__);
    const struct problem problem = problem_of(operation_object, a_layout, b_layout, c_layout, d_layout, __func__);
    const struct algorithm algorithm = algorithm_check(algo, &problem, workspace, workspace_bytes, __func__);
    if (c != d || alpha == NULL || beta == NULL)
        sim_die("%s: C is not D, or no factors", __func__);
    if (sim_stream_device(stream) != handle->device)
        sim_die("%s: stream of device %d, handle of %d", __func__, sim_stream_device(stream), handle->device);
    check_epilogue(operation, problem.d.type, __func__);
    if (is_listed("SIM_CUBLASLT_BROKEN", algorithm.id))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const struct product product = {
        .m = problem.d.rows, .n = problem.d.columns, .k = inner(&problem),
        .a = matrix_of(&problem.a, operation->a_operation, a), .b = matrix_of(&problem.b, operation->b_operation, b),
        .d = matrix_of(&problem.d, CUBLAS_OP_N, d), .alpha = *(const float *)alpha, .beta = *(const float *)beta,
        .epilogue = operation->epilogue, .bias = operation->bias,
        .tf32 = operation->compute == CUBLAS_COMPUTE_32F_FAST_TF32, .split = algorithm.split,
        .in_place = algorithm.in_place, .workspace = workspace, .workspace_bytes = algorithm.workspace,
        .is_slow = is_listed("SIM_CUBLASLT_SLOW", algorithm.id),
    };
    check_operands(&problem, &product, &algorithm, handle->device);
    sim_stream_push(stream, run_product, &product, sizeof(product));
    return CUBLAS_STATUS_SUCCESS;
}

/* Unlike the real function it does not remember its first result, so that a test can make it fail and call it again. */
const struct cublaslt_api *cublaslt_api_find(void)
{
#define MEMBER(name) .name = name,
    static struct cublaslt_api api = { CUBLASLT_FUNCTIONS(MEMBER) };
    return sim_enter(__func__) == 0 ? &api : NULL;
}
