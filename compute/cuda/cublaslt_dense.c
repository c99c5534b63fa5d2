/* Dense layers by cuBLASLt. Called by the CUDA backend from the tower's thread: plans are made at the start, a step
 * only runs them.
 *
 * cuBLASLt is column-major: our row-major matrix [rows][columns] is its columns x rows matrix with leading dimension
 * `columns`. So every matrix here is the transpose of ours, and each pass is one product (D = op(A) * op(B)):
 *
 *   forward            out [units x count]      = weight^T [units x features] * in [features x count]
 *   data gradient      in [features x count]    = weight [features x units]   * out [units x count]
 *   weight gradient    weight [features x units] = in [features x count]      * out^T [count x units]
 *
 * The forward bias belongs to the rows of D, as the BIAS epilogue expects; the bias gradient is the sum of B over
 * the inner dimension of the product for each column of D: BGRADB. */
#include "compute/cuda/cublaslt_dense.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/plan_cache.h"
#include "compute/cuda/plan_timing.h"
#include "stage/cuda/cuda_call.h"
#include "stage/log.h"

#define NAME_BYTES 32
#define OPERAND_ALIGNMENT 16u
#define CACHE_KIND "dense"              /* in the plan cache */

struct dense_library {
    const struct cublaslt_api *api;
    cublasLtHandle_t handle;
    char name[NAME_BYTES];      /* name of the device, for messages */
};

struct dense_plan {
    struct dense_library *library;      /* lent */
    struct dense_shape shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtEpilogue_t epilogue;        /* operations fused into the product */
    bool fused;                         /* the product computes the whole result; false: finish_run computes the rest */
    cublasLtMatmulAlgo_t algorithm;
    int32_t algorithm_id;
    bool measured, cached;              /* how the algorithm was chosen */
    size_t product_workspace, workspace;
};

enum matrix { MATRIX_WEIGHT, MATRIX_IN, MATRIX_OUT };

static const struct product {
    enum matrix a, b, d;
    cublasOperation_t a_operation, b_operation;
} products[PRODUCT_PASS_COUNT] = {
    [FPROP] = { MATRIX_WEIGHT, MATRIX_IN, MATRIX_OUT, CUBLAS_OP_T, CUBLAS_OP_N },
    [DGRAD] = { MATRIX_WEIGHT, MATRIX_OUT, MATRIX_IN, CUBLAS_OP_N, CUBLAS_OP_N },
    [WGRAD] = { MATRIX_IN, MATRIX_OUT, MATRIX_WEIGHT, CUBLAS_OP_N, CUBLAS_OP_T },
};

/* Sums are fp32 in all precisions. fp32 must not use tensor cores or narrower inputs, whatever the environment or a
 * later library would allow. */
#define NARROW_INPUTS (CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF \
                       | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32)
static const struct arithmetic {
    enum value_type type;
    cudaDataType_t cuda_type;
    cublasComputeType_t compute;
    uint64_t excluded;          /* CUBLASLT_NUMERICAL_IMPL_FLAGS_* */
} arithmetics[PRECISION_COUNT] = {
    [PRECISION_FP32] = { VALUE_FP32, CUDA_R_32F, CUBLAS_COMPUTE_32F,
                         CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK | NARROW_INPUTS },
    [PRECISION_TF32] = { VALUE_FP32, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32,
                         CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF },
    [PRECISION_BF16] = { VALUE_BF16, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F },
    [PRECISION_FP16] = { VALUE_FP16, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F },
};

/* Logs an error and returns its errno. */
static int lt_check(const struct dense_library *const library, cublasStatus_t status, const char *const call)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return 0;
    log_message(LOG_ERROR, "%s: cuBLASLt: %s: %s", library->name, call,
                library->api->cublasLtGetStatusString(status));
    return status == CUBLAS_STATUS_ALLOC_FAILED ? -ENOMEM : -EIO;
}

#define LT_CALL(library, function, ...)                                                                               \
    lt_check((library), HEARTBEAT_CALL(#function, (library)->api->function(__VA_ARGS__)), #function)

int dense_library_open(struct dense_library **const library_out, const char *const name)
{
    const struct cublaslt_api *const api = cublaslt_api_find();
    if (api == NULL)
        return -ENOENT;
    struct dense_library *const library = calloc(1, sizeof(*library));
    if (library == NULL)
        return -ENOMEM;
    library->api = api;
    snprintf(library->name, sizeof(library->name), "%s", name);
    const int rc = LT_CALL(library, cublasLtCreate, &library->handle);
    if (rc < 0) {
        free(library);
        return rc;
    }
    *library_out = library;
    return 0;
}

void dense_library_close(struct dense_library *const library)
{
    if (library == NULL)
        return;
    LT_CALL(library, cublasLtDestroy, library->handle);
    free(library);
}

static const struct arithmetic *arithmetic_of(const struct dense_plan *const plan)
{
    return &arithmetics[plan->shape.precision];
}

static cudaDataType_t result_type(const struct dense_plan *const plan)
{
    return plan->shape.pass == WGRAD ? CUDA_R_32F : arithmetic_of(plan)->cuda_type;
}

static int layout_open(const struct dense_plan *const plan, enum matrix matrix, cudaDataType_t type,
                       cublasLtMatrixLayout_t *const layout_out)
{
    const struct dense_shape *const shape = &plan->shape;
    const uint64_t rows = matrix == MATRIX_OUT ? shape->units : shape->features;
    const uint64_t columns = matrix == MATRIX_WEIGHT ? shape->units : shape->count;
    return LT_CALL(plan->library, cublasLtMatrixLayoutCreate, layout_out, type, rows, columns, (int64_t)rows);
}

static int layouts_open(struct dense_plan *const plan)
{
    const struct product *const product = &products[plan->shape.pass];
    const cudaDataType_t type = arithmetic_of(plan)->cuda_type;
    int rc = layout_open(plan, product->a, type, &plan->a);
    if (rc == 0)
        rc = layout_open(plan, product->b, type, &plan->b);
    if (rc == 0)
        rc = layout_open(plan, product->d, result_type(plan), &plan->d);
    return rc;
}

#define SET_OPERATION(plan, attribute, value) \
    LT_CALL((plan)->library, cublasLtMatmulDescSetAttribute, (plan)->operation, attribute, &(value), sizeof(value))

static int operation_open(struct dense_plan *const plan)
{
    const int32_t a_operation = products[plan->shape.pass].a_operation;
    const int32_t b_operation = products[plan->shape.pass].b_operation;
    int rc = LT_CALL(plan->library, cublasLtMatmulDescCreate, &plan->operation, arithmetic_of(plan)->compute,
                     CUDA_R_32F);
    if (rc == 0)
        rc = SET_OPERATION(plan, CUBLASLT_MATMUL_DESC_TRANSA, a_operation);
    if (rc == 0)
        rc = SET_OPERATION(plan, CUBLASLT_MATMUL_DESC_TRANSB, b_operation);
    return rc;
}

static cublasLtEpilogue_t epilogue_wanted(const struct dense_shape *const shape)
{
    static const cublasLtEpilogue_t forward[2][2] = {   /* [bias][relu] */
        { CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU },
        { CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU_BIAS },
    };
    if (shape->pass == FPROP)
        return forward[shape->bias][shape->relu];
    return shape->pass == WGRAD && shape->bias ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_DEFAULT;
}

static bool epilogue_has_bias(cublasLtEpilogue_t epilogue)
{
    return (epilogue & (CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADB)) != 0;
}

static int set_bias(struct dense_plan *const plan, const void *const bias)
{
    return SET_OPERATION(plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
}

/* The heuristics use only the alignment of the bias' address. The type of the bias must be set, because its default is
 * the type of the result. */
static int set_epilogue(struct dense_plan *const plan, cublasLtEpilogue_t wanted)
{
    const bool has_bias = epilogue_has_bias(wanted);
    const uint32_t epilogue = wanted;
    const int32_t type = has_bias ? (int32_t)result_type(plan) : -1;
    int rc = SET_OPERATION(plan, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    if (rc == 0)
        rc = SET_OPERATION(plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    if (rc == 0)
        rc = set_bias(plan, has_bias ? (const void *)(uintptr_t)OPERAND_ALIGNMENT : NULL);
    plan->epilogue = wanted;
    return rc;
}

#define SET_PREFERENCE(plan, preference, attribute, value) \
    LT_CALL((plan)->library, cublasLtMatmulPreferenceSetAttribute, preference, attribute, &(value), sizeof(value))

static int set_alignments(const struct dense_plan *const plan, cublasLtMatmulPreference_t preference)
{
    static const cublasLtMatmulPreferenceAttributes_t attributes[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };
    const uint32_t alignment = OPERAND_ALIGNMENT;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof(attributes) / sizeof(attributes[0]); i++)
        rc = SET_PREFERENCE(plan, preference, attributes[i], alignment);
    return rc;
}

/* Allows split-K only with a separate reduction in fp32. A reduction inside the output has no fixed order, and one in
 * 16 bits rounds the partial sums. */
static int set_preferences(const struct dense_plan *const plan, cublasLtMatmulPreference_t preference,
                           size_t workspace_max)
{
    const uint64_t workspace = workspace_max;
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint64_t implementations = ~arithmetic_of(plan)->excluded;
    int rc = SET_PREFERENCE(plan, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    if (rc == 0)
        rc = SET_PREFERENCE(plan, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    if (rc == 0)
        rc = SET_PREFERENCE(plan, preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, implementations);
    return rc == 0 ? set_alignments(plan, preference) : rc;
}

/* Does the status mean that there is no algorithm? Versions differ in whether an unknown combination of types and
 * epilogue is unsupported or invalid. */
static bool is_unsupported(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE
        || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* ---- running a product ---- */

static const void *operand(const struct dense_operands *const operands, enum matrix matrix)
{
    return matrix == MATRIX_WEIGHT ? operands->weight : matrix == MATRIX_IN ? operands->in : operands->out;
}

static void *result_operand(const struct dense_operands *const operands, enum product_pass pass)
{
    return pass == FPROP ? operands->out
        : pass == DGRAD ? operands->in : (void *)operands->weight_gradient;
}

/* Sets the bias of the epilogue and queues the product. */
static int queue_product(struct dense_plan *const plan, const cublasLtMatmulAlgo_t *const algorithm,
                         size_t workspace_bytes, cudaStream_t stream, const struct dense_operands *const operands,
                         cublasStatus_t *const status_out)
{
    const struct product *const product = &products[plan->shape.pass];
    const float one = 1.0f, zero = 0.0f;
    void *const d = result_operand(operands, plan->shape.pass);
    int rc = 0;
    if (epilogue_has_bias(plan->epilogue))
        rc = set_bias(plan, plan->shape.pass == FPROP ? operands->bias : operands->bias_gradient);
    if (rc == 0)
        *status_out = HEARTBEAT_CALL("cublasLtMatmul", plan->library->api->cublasLtMatmul(
            plan->library->handle, plan->operation, &one, operand(operands, product->a), plan->a,
            operand(operands, product->b), plan->b, &zero, d, plan->d, d, plan->d, algorithm, operands->workspace,
            workspace_bytes, stream));
    return rc;
}

/* ---- algorithms of the heuristics ---- */

struct candidates { cublasLtMatmulHeuristicResult_t found[PLAN_CANDIDATES_MAX]; uint32_t count; };

/* Asks cuBLASLt for up to `wanted` algorithms. 0, -ENOTSUP (not logged: the caller may try another epilogue), or
 * another negative errno. */
static int query_heuristics(struct dense_plan *const plan, cublasLtMatmulPreference_t preference, uint32_t wanted,
                            struct candidates *const candidates)
{
    int count = 0;
    const struct cublaslt_api *const api = plan->library->api;
    const cublasStatus_t status = HEARTBEAT_CALL("cublasLtMatmulAlgoGetHeuristic", api->cublasLtMatmulAlgoGetHeuristic(
        plan->library->handle, plan->operation, plan->a, plan->b, plan->d, plan->d, preference, (int)wanted,
        candidates->found, &count));
    if (is_unsupported(status) || (status == CUBLAS_STATUS_SUCCESS && count < 1))
        return -ENOTSUP;
    candidates->count = 0;
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < count; i++)
        if (candidates->found[i].state == CUBLAS_STATUS_SUCCESS)
            candidates->found[candidates->count++] = candidates->found[i];
    const int rc = lt_check(plan->library, status, "cublasLtMatmulAlgoGetHeuristic");
    return rc == 0 && candidates->count == 0 ? -ENOTSUP : rc;
}

static int find_candidates(struct dense_plan *const plan, const struct dense_planner *const planner,
                           struct candidates *const candidates)
{
    cublasLtMatmulPreference_t preference;
    int rc = LT_CALL(plan->library, cublasLtMatmulPreferenceCreate, &preference);
    if (rc < 0)
        return rc;
    rc = set_preferences(plan, preference, planner->workspace_max);
    if (rc == 0)
        rc = query_heuristics(plan, preference, planner->scratch != NULL ? PLAN_CANDIDATES_MAX : 1, candidates);
    LT_CALL(plan->library, cublasLtMatmulPreferenceDestroy, preference);
    return rc;
}

/* ---- measuring them ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* The bytes of a matrix; fp32 for the largest type that it may have. */
static size_t matrix_bytes(const struct dense_shape *const shape, enum matrix matrix)
{
    const size_t rows = matrix == MATRIX_WEIGHT ? shape->units : shape->count;
    const size_t columns = matrix == MATRIX_OUT ? shape->units : shape->features;
    const bool is_wide = matrix == MATRIX_WEIGHT && shape->pass == WGRAD;
    return aligned(rows * columns * (is_wide ? sizeof(float) : value_bytes(arithmetics[shape->precision].type)));
}

size_t dense_shape_bytes(const struct dense_shape *const shape)
{
    return matrix_bytes(shape, MATRIX_IN) + matrix_bytes(shape, MATRIX_OUT) + matrix_bytes(shape, MATRIX_WEIGHT)
        + aligned(shape->units * sizeof(float));
}

static struct dense_operands scratch_operands(const struct dense_planner *const planner,
                                              const struct dense_shape *const shape)
{
    unsigned char *const in = planner->scratch, *const out = in + matrix_bytes(shape, MATRIX_IN);
    unsigned char *const weight = out + matrix_bytes(shape, MATRIX_OUT);
    unsigned char *const bias = weight + matrix_bytes(shape, MATRIX_WEIGHT);
    return (struct dense_operands){
        .in = in, .out = out, .weight = weight, .bias = bias, .weight_gradient = (float *)(void *)weight,
        .bias_gradient = (float *)(void *)bias, .workspace = planner->workspace,
    };
}

struct measuring {
    struct dense_plan *plan;
    const struct dense_planner *planner;
    const struct candidates *candidates;
};

static int run_candidate(void *arg, uint32_t i)
{
    const struct measuring *const measuring = arg;
    const struct dense_operands operands = scratch_operands(measuring->planner, &measuring->plan->shape);
    const cublasLtMatmulHeuristicResult_t *const candidate = &measuring->candidates->found[i];
    cublasStatus_t status;
    const int rc = queue_product(measuring->plan, &candidate->algo, candidate->workspaceSize,
                                 measuring->planner->stream, &operands, &status);
    if (rc < 0)
        return rc;
    return is_unsupported(status) ? -ENOTSUP : lt_check(measuring->plan->library, status, "cublasLtMatmul");
}

static int fastest(struct dense_plan *const plan, const struct dense_planner *const planner,
                   const struct candidates *const candidates, uint32_t *const best_out)
{
    struct measuring measuring = { plan, planner, candidates };
    return plan_fastest(plan->library->name, planner->stream, candidates->count, run_candidate, &measuring, best_out);
}

/* ---- measured choices in the plan cache: the words of the algorithm in hexadecimal ---- */

#define KEY_BYTES 1024
#define ALGORITHM_WORDS (sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t))
#define WORD_CHARACTERS 17u             /* 16 digits and a space */

static int key_print(const struct dense_plan *const plan, const struct dense_planner *const planner, char *key)
{
    const struct dense_shape *const shape = &plan->shape;
    char device[512];
    const int rc = plan_cache_device(plan->library->name, device, sizeof(device));
    if (rc == 0)
        snprintf(key, KEY_BYTES, "pipetrain dense 1, cublaslt %zu, %s, workspace %zu, pass %d, precision %d, "
                 "epilogue %d, %" PRIu32 " x %" PRIu32 " -> %" PRIu32, plan->library->api->cublasLtGetVersion(), device,
                 planner->workspace_max, (int)shape->pass, (int)shape->precision, (int)plan->epilogue, shape->count,
                 shape->features, shape->units);
    return rc;
}

static bool parse_algorithm(const char *text, size_t bytes, cublasLtMatmulAlgo_t *const algorithm_out)
{
    uint64_t words[ALGORITHM_WORDS];
    if (bytes != ALGORITHM_WORDS * WORD_CHARACTERS)
        return false;
    for (size_t i = 0; i < ALGORITHM_WORDS; i++) {
        char word[WORD_CHARACTERS], *end;
        memcpy(word, text + i * WORD_CHARACTERS, WORD_CHARACTERS - 1);
        word[WORD_CHARACTERS - 1] = '\0';
        words[i] = strtoull(word, &end, 16);
        if (*end != '\0')
            return false;
    }
    memcpy(algorithm_out, words, sizeof(*algorithm_out));
    return true;
}

/* Does the library accept the algorithm for this product, within the workspace? */
static bool check_algorithm(struct dense_plan *const plan, const struct dense_planner *const planner,
                            const cublasLtMatmulAlgo_t *const algorithm)
{
    cublasLtMatmulHeuristicResult_t result;
    const cublasStatus_t status = HEARTBEAT_CALL("cublasLtMatmulAlgoCheck", plan->library->api->cublasLtMatmulAlgoCheck(
        plan->library->handle, plan->operation, plan->a, plan->b, plan->d, plan->d, algorithm, &result));
    if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > planner->workspace_max)
        return false;
    plan->algorithm = *algorithm;
    plan->product_workspace = result.workspaceSize;
    return true;
}

static bool load_cached(struct dense_plan *const plan, const struct dense_planner *const planner, const char *key)
{
    cublasLtMatmulAlgo_t algorithm;
    char *text;
    size_t bytes;
    if (!plan_cache_load(planner->cache, CACHE_KIND, key, &text, &bytes))
        return false;
    plan->cached = parse_algorithm(text, bytes, &algorithm) && check_algorithm(plan, planner, &algorithm);
    free(text);
    return plan->cached;
}

static void save(const struct dense_plan *const plan, const struct dense_planner *const planner, const char *key)
{
    char text[ALGORITHM_WORDS * WORD_CHARACTERS + 1];
    uint64_t words[ALGORITHM_WORDS];
    memcpy(words, &plan->algorithm, sizeof(words));
    for (size_t i = 0; i < ALGORITHM_WORDS; i++)
        snprintf(text + i * WORD_CHARACTERS, WORD_CHARACTERS + 1, "%016" PRIx64 " ", words[i]);
    plan_cache_store(planner->cache, CACHE_KIND, key, text, ALGORITHM_WORDS * WORD_CHARACTERS);
}

/* ---- choosing ---- */

/* Measures if there are several candidates. */
static int choose_candidate(struct dense_plan *const plan, const struct dense_planner *const planner)
{
    struct candidates candidates;
    uint32_t best = 0;
    int rc = find_candidates(plan, planner, &candidates);
    if (rc == 0 && candidates.count > 1)
        rc = fastest(plan, planner, &candidates, &best);
    if (rc < 0)
        return rc;
    plan->measured = candidates.count > 1;
    plan->algorithm = candidates.found[best].algo;
    plan->product_workspace = candidates.found[best].workspaceSize;
    return 0;
}

static int find_algorithm(struct dense_plan *const plan, const struct dense_planner *const planner,
                          cublasLtEpilogue_t epilogue)
{
    const bool is_kept = planner->scratch != NULL && planner->cache != NULL;
    char key[KEY_BYTES];
    int rc = set_epilogue(plan, epilogue);
    if (rc == 0 && is_kept)
        rc = key_print(plan, planner, key);
    if (rc < 0 || (is_kept && load_cached(plan, planner, key)))
        return rc;
    rc = choose_candidate(plan, planner);
    if (rc == 0 && is_kept && plan->measured)
        save(plan, planner, key);
    return rc;
}

static int choose_algorithm(struct dense_plan *const plan, const struct dense_planner *const planner)
{
    const cublasLtEpilogue_t wanted = epilogue_wanted(&plan->shape);
    const bool measures = planner->scratch != NULL;
    const int turn = measures ? plan_turn_begin(planner->cache) : -1;
    int rc = find_algorithm(plan, planner, wanted);
    if (rc == -ENOTSUP && wanted != CUBLASLT_EPILOGUE_DEFAULT)
        rc = find_algorithm(plan, planner, CUBLASLT_EPILOGUE_DEFAULT);
    if (measures)
        plan_turn_end(turn);
    if (rc == -ENOTSUP)
        log_message(LOG_ERROR, "%s: cuBLASLt: no algorithm for a dense layer of %u features and %u units, %u samples",
                    plan->library->name, plan->shape.features, plan->shape.units, plan->shape.count);
    plan->fused = plan->epilogue == wanted;
    return rc;
}

/* ---- plans ---- */

static int read_algorithm_id(struct dense_plan *const plan)
{
    size_t written;
    return LT_CALL(plan->library, cublasLtMatmulAlgoConfigGetAttribute, &plan->algorithm, CUBLASLT_ALGO_CONFIG_ID,
                   &plan->algorithm_id, sizeof(plan->algorithm_id), &written);
}

/* The bytes of the workspace. The product and the sum of the bias gradient share it, because they run one after the
 * other. */
static size_t workspace_needed(const struct dense_plan *const plan)
{
    const struct dense_shape *const shape = &plan->shape;
    if (plan->fused || shape->pass != WGRAD)
        return plan->product_workspace;
    const size_t partials = kernel_bias_partials(shape->count, shape->units) * sizeof(float);
    return partials > plan->product_workspace ? partials : plan->product_workspace;
}

int dense_plan_open(struct dense_plan **const plan_out, struct dense_library *const library,
                    const struct dense_shape *const shape, const struct dense_planner *const planner)
{
    assert(shape->count > 0 && shape->features > 0 && shape->units > 0);
    assert(shape->features % 8 == 0 && shape->units % 8 == 0);
    struct dense_plan *const plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        return -ENOMEM;
    plan->library = library;
    plan->shape = *shape;
    int rc = operation_open(plan);
    if (rc == 0)
        rc = layouts_open(plan);
    if (rc == 0)
        rc = choose_algorithm(plan, planner);
    if (rc == 0)
        rc = read_algorithm_id(plan);
    if (rc < 0) {
        dense_plan_close(plan);
        return rc;
    }
    plan->workspace = workspace_needed(plan);
    *plan_out = plan;
    return 0;
}

void dense_plan_close(struct dense_plan *const plan)
{
    if (plan == NULL)
        return;
    const cublasLtMatrixLayout_t layouts[] = { plan->a, plan->b, plan->d };
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (layouts[i] != NULL)
            LT_CALL(plan->library, cublasLtMatrixLayoutDestroy, layouts[i]);
    if (plan->operation != NULL)
        LT_CALL(plan->library, cublasLtMatmulDescDestroy, plan->operation);
    free(plan);
}

size_t dense_plan_workspace(const struct dense_plan *const plan)
{
    return plan->workspace;
}

void dense_plan_describe(const struct dense_plan *const plan, char *const text, size_t text_size)
{
    const struct dense_shape *const shape = &plan->shape;
    const char *const rest = epilogue_wanted(shape) == CUBLASLT_EPILOGUE_DEFAULT ? ""
        : shape->pass == WGRAD ? ", bias gradient"
        : !shape->relu ? ", bias" : shape->bias ? ", bias and relu" : ", relu";
    snprintf(text, text_size, "algorithm %d, %.1f MiB workspace%s%s%s%s", plan->algorithm_id,
             (double)plan->workspace / (1 << 20), rest, rest[0] == '\0' ? "" : plan->fused ? " fused" : " apart",
             plan->measured ? ", measured" : "", plan->cached ? ", cached" : "");
}

/* Runs our own kernels for the bias, the ReLU or the bias gradient that the epilogue did not compute. */
static int finish_run(const struct dense_plan *const plan, cudaStream_t stream,
                      const struct dense_operands *const operands)
{
    const struct dense_shape *const shape = &plan->shape;
    const enum value_type type = arithmetic_of(plan)->type;
    const char *const name = plan->library->name;
    if (shape->pass == WGRAD)
        return CUDA_CALL(name, kernel_bias_gradient(stream, type, shape->count, shape->units, NULL, operands->out,
                                                    operands->workspace, operands->bias_gradient));
    if (shape->bias)
        return CUDA_CALL(name, kernel_bias(stream, type, shape->count, shape->units, operands->bias, shape->relu,
                                           operands->out));
    return CUDA_CALL(name, kernel_relu(stream, type, (size_t)shape->count * shape->units, operands->out,
                                       operands->out));
}

int dense_plan_run(struct dense_plan *const plan, cudaStream_t stream, const struct dense_operands *const operands)
{
    cublasStatus_t status;
    int rc = queue_product(plan, &plan->algorithm, plan->product_workspace, stream, operands, &status);
    if (rc == 0)
        rc = lt_check(plan->library, status, "cublasLtMatmul");
    if (rc == 0 && !plan->fused)
        rc = finish_run(plan, stream, operands);
    return rc;
}
