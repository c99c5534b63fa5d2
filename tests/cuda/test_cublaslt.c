/* Tests against the real cuBLASLt without a device: all functions exist, and its descriptors accept and hold every
 * attribute that dense layers set. Opening a handle and finding algorithms, which need a device, are replaced, and
 * the CUDA runtime is the simulated one. Skipped where the library is not installed. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "compute/cuda/cublaslt_dense.h"
#include "compute/cuda/cuda_plan.h"
#include "compute/model.h"
#include "tests/helpers/test.h"

#define TEXT(number) #number
#define SONAME(major) "libcublasLt.so." TEXT(major)

/* The last descriptors passed to the library. */
static struct question {
    uint32_t times;
    int32_t compute, scale, a_operation, b_operation, bias_type;
    uint32_t epilogue;
    void *bias;
    struct { uint32_t type; uint64_t rows, columns; int64_t stride; } a, b, d;
    uint64_t workspace, implementations;
    uint32_t reductions, alignments[4];
} asked;

/* Nothing is measured. */
static const struct dense_planner planner = { .workspace_max = DENSE_WORKSPACE };

/* From the library; the program itself does not use them. */
static __typeof__(&cublasLtMatmulDescGetAttribute) operation_get;
static __typeof__(&cublasLtMatrixLayoutGetAttribute) layout_get;
static __typeof__(&cublasLtMatmulPreferenceGetAttribute) preference_get;

static cublasStatus_t fake_create(cublasLtHandle_t *handle)
{
    *handle = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t fake_destroy(cublasLtHandle_t handle)
{
    (void)handle;
    return CUBLAS_STATUS_SUCCESS;
}

/* GET(get, object, CUBLASLT_..., &field): as many bytes as the field has. */
#define GET(get, object, attribute, field)                                                                  \
    do {                                                                                                    \
        size_t written = 0;                                                                                 \
        assert_int_equal(get(object, attribute, field, sizeof(*(field)), &written), CUBLAS_STATUS_SUCCESS); \
        assert_int_equal(written, sizeof(*(field)));                                                        \
    } while (0)

#define GET_LAYOUT(layout, out)                                                     \
    do {                                                                            \
        GET(layout_get, layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &(out)->type);         \
        GET(layout_get, layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &(out)->rows);         \
        GET(layout_get, layout, CUBLASLT_MATRIX_LAYOUT_COLS, &(out)->columns);      \
        GET(layout_get, layout, CUBLASLT_MATRIX_LAYOUT_LD, &(out)->stride);         \
    } while (0)

static void read_operation(cublasLtMatmulDesc_t operation)
{
    GET(operation_get, operation, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &asked.compute);
    GET(operation_get, operation, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &asked.scale);
    GET(operation_get, operation, CUBLASLT_MATMUL_DESC_TRANSA, &asked.a_operation);
    GET(operation_get, operation, CUBLASLT_MATMUL_DESC_TRANSB, &asked.b_operation);
    GET(operation_get, operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &asked.epilogue);
    GET(operation_get, operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &asked.bias);
    GET(operation_get, operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &asked.bias_type);
}

static void read_preference(cublasLtMatmulPreference_t preference)
{
    GET(preference_get, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &asked.workspace);
    GET(preference_get, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &asked.reductions);
    GET(preference_get, preference, CUBLASLT_MATMUL_PREF_IMPL_MASK, &asked.implementations);
    GET(preference_get, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &asked.alignments[0]);
    GET(preference_get, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &asked.alignments[1]);
    GET(preference_get, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &asked.alignments[2]);
    GET(preference_get, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &asked.alignments[3]);
}

/* Finds nothing while an epilogue is requested, so that both attempts happen. */
static cublasStatus_t fake_heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                     cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                     cublasLtMatmulPreference_t preference, int wanted,
                                     cublasLtMatmulHeuristicResult_t results[], int *count_out)
{
    const uint32_t last_epilogue = asked.epilogue;
    (void)handle;
    assert_int_equal(wanted, 1);
    assert_ptr_equal(c, d);
    read_operation(operation);
    GET_LAYOUT(a, &asked.a);
    GET_LAYOUT(b, &asked.b);
    GET_LAYOUT(d, &asked.d);
    read_preference(preference);
    if (asked.times++ > 0) {
        assert_int_equal(asked.epilogue, CUBLASLT_EPILOGUE_DEFAULT);
        assert_null(asked.bias);
        assert_int_equal(asked.bias_type, -1);
        asked.epilogue = last_epilogue;
    }
    memset(results, 0, sizeof(*results));
    *count_out = 1;
    return asked.times == 1 && asked.epilogue != CUBLASLT_EPILOGUE_DEFAULT ? CUBLAS_STATUS_NOT_SUPPORTED
        : CUBLAS_STATUS_SUCCESS;
}

static void replace_what_needs_a_device(void)
{
    struct cublaslt_api *const api = (struct cublaslt_api *)(uintptr_t)cublaslt_api_find();
    void *const library = dlopen(SONAME(CUBLAS_VER_MAJOR), RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(library);
    *(void **)&operation_get = dlsym(library, "cublasLtMatmulDescGetAttribute");
    *(void **)&layout_get = dlsym(library, "cublasLtMatrixLayoutGetAttribute");
    *(void **)&preference_get = dlsym(library, "cublasLtMatmulPreferenceGetAttribute");
    dlclose(library);
    api->cublasLtCreate = fake_create;
    api->cublasLtDestroy = fake_destroy;
    api->cublasLtMatmulAlgoGetHeuristic = fake_heuristic;
}

TEST(finds_all_functions_once)
{
    const struct cublaslt_api *const api = cublaslt_api_find();
#define FOUND(name) assert_true(api->name != NULL);
    CUBLASLT_FUNCTIONS(FOUND)
    assert_ptr_equal(cublaslt_api_find(), api);
    assert_non_null(api->cublasLtGetStatusString(CUBLAS_STATUS_NOT_SUPPORTED));
}

static const int32_t value_types[PRECISION_COUNT] = {
    [PRECISION_FP32] = CUDA_R_32F, [PRECISION_TF32] = CUDA_R_32F, [PRECISION_BF16] = CUDA_R_16BF,
    [PRECISION_FP16] = CUDA_R_16F,
};

static void check_layouts(const struct dense_shape *shape)
{
    const bool forward = shape->pass == FPROP, weights = shape->pass == WGRAD;
    assert_int_equal(asked.a.rows, shape->features);
    assert_int_equal(asked.a.columns, weights ? shape->count : shape->units);
    assert_int_equal(asked.b.rows, forward ? shape->features : shape->units);
    assert_int_equal(asked.b.columns, shape->count);
    assert_int_equal(asked.d.rows, forward ? shape->units : shape->features);
    assert_int_equal(asked.d.columns, weights ? shape->units : shape->count);
    assert_int_equal(asked.a.stride, asked.a.rows);
    assert_int_equal(asked.b.stride, asked.b.rows);
    assert_int_equal(asked.d.stride, asked.d.rows);
    assert_int_equal(asked.a.type, value_types[shape->precision]);
    assert_int_equal(asked.b.type, value_types[shape->precision]);
    assert_int_equal(asked.d.type, weights ? (int32_t)CUDA_R_32F : value_types[shape->precision]);
}

static void check_question(const struct dense_shape *shape)
{
    const bool forward = shape->pass == FPROP, weights = shape->pass == WGRAD;
    check_layouts(shape);
    assert_int_equal(asked.compute,
                     shape->precision == PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
    assert_int_equal(asked.scale, CUDA_R_32F);
    assert_int_equal(asked.a_operation, forward ? CUBLAS_OP_T : CUBLAS_OP_N);
    assert_int_equal(asked.b_operation, weights ? CUBLAS_OP_T : CUBLAS_OP_N);
    assert_int_equal(asked.epilogue, forward ? CUBLASLT_EPILOGUE_RELU_BIAS
                     : weights ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_DEFAULT);
    assert_int_equal(asked.workspace, DENSE_WORKSPACE);
    assert_int_equal(asked.reductions, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    if (shape->precision == PRECISION_FP32)
        assert_int_equal(asked.implementations & CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32, 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(asked.alignments[i], 16);
}

TEST(descriptors_hold_the_attributes_of_dense_layers)
{
    replace_what_needs_a_device();
    for (int i = 0; i < PRODUCT_PASS_COUNT * PRECISION_COUNT; i++) {
        const enum product_pass pass = (enum product_pass)(i / PRECISION_COUNT);
        const struct dense_shape shape = { pass, (enum precision)(i % PRECISION_COUNT), pass != DGRAD,
                                           pass == FPROP, 3, 16, 8 };
        struct dense_library *library;
        struct dense_plan *plan;
        memset(&asked, 0, sizeof(asked));
        assert_int_equal(dense_library_open(&library, "cuda0"), 0);
        assert_int_equal(dense_plan_open(&plan, library, &shape, &planner), 0);
        assert_int_equal(asked.times, pass == DGRAD ? 1 : 2);
        check_question(&shape);
        dense_plan_close(plan);
        dense_library_close(library);
    }
}

/* For batches of 256. */
static void describe_product(struct dense_library *library, const struct layer *layer, int pass, int precision)
{
    const uint32_t pixels = layer->in.height * layer->in.width;
    const struct dense_shape shape = {
        .pass = (enum product_pass)pass, .precision = (enum precision)precision,
        .bias = pass != DGRAD && layer_has(layer, PARAMETER_BIAS), .count = 256,
        .features = pixels * channels_stored(layer->in.channels), .units = channels_stored(layer->out.channels),
    };
    struct dense_plan *plan;
    memset(&asked, 0, sizeof(asked));
    assert_int_equal(dense_plan_open(&plan, library, &shape, &planner), 0);
    check_layouts(&shape);
    dense_plan_close(plan);
}

/* The algorithm needs a device. */
TEST(every_product_of_every_model_is_described_to_the_library)
{
    const struct model_options options = { .dropout = true, .auxiliary = true };
    struct dense_library *library;
    replace_what_needs_a_device();
    assert_int_equal(dense_library_open(&library, "cuda0"), 0);
    for (const struct model *model = model_table; model->name != NULL; model++) {
        struct net *net;
        assert_int_equal(model_open(&net, model->name, &options), 0);
        for (uint32_t i = 0; i < net->layer_count; i++)
            for (int k = 0; k < PRODUCT_PASS_COUNT * PRECISION_COUNT && net->layers[i].kind == LAYER_DENSE; k++)
                describe_product(library, &net->layers[i], k / PRECISION_COUNT, k % PRECISION_COUNT);
        net_close(net);
    }
    dense_library_close(library);
}

int main(void)
{
    if (cublaslt_api_find() == NULL)
        return 77;      /* its message says why */
    return tests_run(NULL, NULL);
}
