/* Tests of dense layers over the simulated cuBLASLt: every pass in every precision matches
 * double loops, with and without the library's epilogues, queued or replayed from a graph,
 * and a failure of any call ends in one message and an errno. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cublaslt_dense.h"
#include "stage/random.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_long.h"
#include "tests/helpers/test_random.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_values.h"

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* How far results may be from the double loops: `sum` of the sum of the products' sizes
 * (rounded inputs, order of additions), `out` of the result's size (rounded results, once
 * with the epilogue and twice without). */
static const struct exactness { cudaDataType_t type; double sum, out; } exactness[PRECISION_COUNT] = {
    [PRECISION_FP32] = { CUDA_R_32F, 1e-6, 2e-7 },
    [PRECISION_TF32] = { CUDA_R_32F, 0x1.01p-10, 2e-7 },
    [PRECISION_BF16] = { CUDA_R_16BF, 1e-6, 0x1.01p-7 },
    [PRECISION_FP16] = { CUDA_R_16F, 1e-6, 0x1.01p-10 },
};

/* A matrix or vector in device memory, with its numbers on the host. */
struct tensor {
    cudaDataType_t type;
    size_t count;
    void *device;
    float *values;              /* what the device held when last moved */
};

struct rig {
    cudaStream_t stream;
    struct dense_library *library;
    struct dense_shape shape;
    struct dense_plan *plan;
    struct tensor in, out, weight, bias, weight_gradient, bias_gradient;
    void *workspace;
};

static size_t tensor_bytes(const struct tensor *tensor)
{
    return tensor->count * sim_value_bytes(tensor->type);
}

/* Between host and device through pinned memory, as a program would. */
static void tensor_move(struct tensor *tensor, cudaStream_t stream, bool to_device)
{
    void *pinned;
    const size_t bytes = tensor_bytes(tensor);
    assert_int_equal(cudaHostAlloc(&pinned, bytes, cudaHostAllocPortable), cudaSuccess);
    for (size_t i = 0; to_device && i < tensor->count; i++)
        sim_value_write(tensor->type, pinned, i, tensor->values[i]);
    assert_int_equal(cudaMemcpyAsync(to_device ? tensor->device : pinned, to_device ? pinned : tensor->device, bytes,
                                     to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream),
                     cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    for (size_t i = 0; i < tensor->count; i++)
        tensor->values[i] = sim_value_read(tensor->type, pinned, i);
    assert_int_equal(cudaFreeHost(pinned), cudaSuccess);
}

/* Random numbers around 0, as far as the type can hold them. */
static void tensor_draw(struct tensor *tensor, cudaStream_t stream)
{
    static uint64_t drawn;
    for (size_t i = 0; i < tensor->count; i++)
        tensor->values[i] = test_uniform(random_key(7, RANDOM_DRAW, 0), drawn++) - 0.5f;
    tensor_move(tensor, stream, true);
}

static void tensor_open(struct tensor *tensor, cudaDataType_t type, size_t count)
{
    *tensor = (struct tensor){ .type = type, .count = count, .values = calloc(count, sizeof(float)) };
    assert_non_null(tensor->values);
    assert_int_equal(cudaMalloc(&tensor->device, tensor_bytes(tensor)), cudaSuccess);
}

static void tensor_close(struct tensor *tensor)
{
    assert_int_equal(cudaFree(tensor->device), cudaSuccess);
    free(tensor->values);
}

static void tensors_open(struct rig *rig)
{
    const struct dense_shape *const shape = &rig->shape;
    const cudaDataType_t type = exactness[shape->precision].type;
    tensor_open(&rig->in, type, (size_t)shape->count * shape->features);
    tensor_open(&rig->out, type, (size_t)shape->count * shape->units);
    tensor_open(&rig->weight, type, (size_t)shape->units * shape->features);
    tensor_open(&rig->bias, type, shape->units);
    tensor_open(&rig->weight_gradient, CUDA_R_32F, rig->weight.count);
    tensor_open(&rig->bias_gradient, CUDA_R_32F, shape->units);
    struct tensor *const inputs[] = { &rig->in, &rig->out, &rig->weight, &rig->bias };
    struct tensor *const result = shape->pass == FPROP ? &rig->out
        : shape->pass == DGRAD ? &rig->in : NULL;
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        if (inputs[i] != result)
            tensor_draw(inputs[i], rig->stream);
}

static void cuda_rig_open(struct rig *rig, const struct dense_shape *shape)
{
    int least, greatest;
    *rig = (struct rig){ .shape = *shape };
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
    assert_int_equal(cudaStreamCreateWithPriority(&rig->stream, cudaStreamNonBlocking, least), cudaSuccess);
    assert_int_equal(dense_library_open(&rig->library, "cuda0"), 0);
    assert_int_equal(dense_plan_open(&rig->plan, rig->library, shape, DENSE_WORKSPACE), 0);
    tensors_open(rig);
    if (dense_plan_workspace(rig->plan) > 0)
        assert_int_equal(cudaMalloc(&rig->workspace, dense_plan_workspace(rig->plan)), cudaSuccess);
}

static void cuda_rig_close(struct rig *rig)
{
    struct tensor *const tensors[] = { &rig->in, &rig->out, &rig->weight, &rig->bias, &rig->weight_gradient,
                                       &rig->bias_gradient };
    for (size_t i = 0; i < COUNT_OF(tensors); i++)
        tensor_close(tensors[i]);
    assert_int_equal(cudaFree(rig->workspace), cudaSuccess);
    dense_plan_close(rig->plan);
    dense_library_close(rig->library);
    assert_int_equal(cudaStreamDestroy(rig->stream), cudaSuccess);
}

/* Only what the pass may use: the others are NULL. */
static struct dense_operands rig_operands(const struct rig *rig)
{
    const enum product_pass pass = rig->shape.pass;
    const bool bias = rig->shape.bias, is_gradient = pass == WGRAD;
    return (struct dense_operands){
        .in = rig->in.device, .out = rig->out.device, .weight = is_gradient ? NULL : rig->weight.device,
        .bias = bias && pass == FPROP ? rig->bias.device : NULL,
        .weight_gradient = is_gradient ? rig->weight_gradient.device : NULL,
        .bias_gradient = bias && is_gradient ? rig->bias_gradient.device : NULL, .workspace = rig->workspace,
    };
}

static struct tensor *rig_result(struct rig *rig)
{
    return rig->shape.pass == FPROP ? &rig->out
        : rig->shape.pass == DGRAD ? &rig->in : &rig->weight_gradient;
}

static void rig_fetch(struct rig *rig)
{
    tensor_move(rig_result(rig), rig->stream, false);
    if (rig->shape.pass == WGRAD && rig->shape.bias)
        tensor_move(&rig->bias_gradient, rig->stream, false);
}

static void cuda_rig_run(struct rig *rig)
{
    const struct dense_operands operands = rig_operands(rig);
    assert_int_equal(dense_plan_run(rig->plan, rig->stream, &operands), 0);
    rig_fetch(rig);
}

/* A double loop's sum of products and of their sizes: of `count` numbers from a and b, `step` apart. */
struct sum { double value, size; };

static struct sum sum_of(const float *a, size_t a_step, const float *b, size_t b_step, size_t count)
{
    struct sum sum = { 0, 0 };
    for (size_t i = 0; i < count; i++) {
        const double product = (double)a[i * a_step] * (double)b[i * b_step];
        sum.value += product;
        sum.size += fabs(product);
    }
    return sum;
}

/* The result's number at (row, column) of its row-major matrix, without bias. */
static struct sum expected_at(const struct rig *rig, size_t row, size_t column)
{
    const size_t features = rig->shape.features, units = rig->shape.units;
    const float *const in = rig->in.values, *const out = rig->out.values, *const weight = rig->weight.values;
    if (rig->shape.pass == FPROP)
        return sum_of(in + row * features, 1, weight + column * features, 1, features);
    if (rig->shape.pass == DGRAD)
        return sum_of(out + row * units, 1, weight + column, features, units);
    return sum_of(out + row, units, in + column, features, rig->shape.count);
}

static void check_value(const struct rig *rig, double value, double expected, double size, double rounded_size)
{
    const struct exactness *const exact = &exactness[rig->shape.precision];
    const double out = rig->shape.pass == WGRAD ? 2e-7 : exact->out;
    const double allowed = exact->sum * size + out * rounded_size + 1e-7;
    if (!(fabs(value - expected) <= allowed))
        fail_msg("pass %d precision %d, %u samples %u features %u units: %.9g instead of %.9g (+- %.3g)",
                 (int)rig->shape.pass, (int)rig->shape.precision, rig->shape.count, rig->shape.features,
                 rig->shape.units, value, expected, allowed);
}

static void check_result(struct rig *rig)
{
    const struct dense_shape *const shape = &rig->shape;
    const size_t columns = shape->pass == FPROP ? shape->units : shape->features;
    const struct tensor *const result = rig_result(rig);
    for (size_t i = 0; i < result->count; i++) {
        const struct sum sum = expected_at(rig, i / columns, i % columns);
        const double bias = shape->pass == FPROP && shape->bias ? rig->bias.values[i % columns] : 0;
        const double expected = sum.value + bias;
        check_value(rig, result->values[i], shape->relu && expected < 0 ? 0 : expected, sum.size + fabs(bias),
                    fabs(sum.value) + fabs(bias));
    }
}

static void check_bias_gradient(const struct rig *rig)
{
    static const float one = 1;
    if (rig->shape.pass != WGRAD || !rig->shape.bias)
        return;
    for (size_t unit = 0; unit < rig->shape.units; unit++) {
        const struct sum sum = sum_of(rig->out.values + unit, rig->shape.units, &one, 0, rig->shape.count);
        check_value(rig, rig->bias_gradient.values[unit], sum.value, sum.size, fabs(sum.value));
    }
}

/* Results are right, and the same a second time. */
static void check_shape(const struct dense_shape *shape)
{
    struct rig rig;
    cuda_rig_open(&rig, shape);
    cuda_rig_run(&rig);
    check_result(&rig);
    check_bias_gradient(&rig);
    const struct tensor *const result = rig_result(&rig);
    float *const first = malloc(result->count * sizeof(*first));
    assert_non_null(first);
    memcpy(first, result->values, result->count * sizeof(*first));
    cuda_rig_run(&rig);
    assert_memory_equal(result->values, first, result->count * sizeof(*first));
    free(first);
    cuda_rig_close(&rig);
}

/* All sizes, and of the large ones those that take no seconds (less with the thread sanitizer). */
static uint64_t product_max(void)
{
#ifdef __SANITIZE_THREAD__
    return 200000;
#else
    return test_is_long() ? 20000000 : 1500000;
#endif
}

static void check_sizes(struct dense_shape shape, uint32_t features_max)
{
    static const uint32_t counts[] = { 1, 3, 128 }, features[] = { 8, 16, 9216 }, units[] = { 8, 16, 128 };
    for (size_t i = 0; i < COUNT_OF(counts) * COUNT_OF(features) * COUNT_OF(units); i++) {
        shape.count = counts[i % 3];
        shape.features = features[i / 3 % 3];
        shape.units = units[i / 9];
        if (shape.features <= features_max && (uint64_t)shape.count * shape.features * shape.units < product_max())
            check_shape(&shape);
    }
}

/* refusal: SIM_CUBLASLT_NO_EPILOGUE, or NULL. */
static void check_pass(enum product_pass pass, const char *refusal)
{
    const bool has_bias = pass != DGRAD, has_relu = pass == FPROP;
    if (refusal != NULL)
        setenv("SIM_CUBLASLT_NO_EPILOGUE", refusal, 1);
    for (int precision = 0; precision < PRECISION_COUNT; precision++)
        for (int bias = 0; bias <= has_bias; bias++)
            for (int relu = 0; relu <= has_relu; relu++)
                check_sizes((struct dense_shape){ .pass = pass, .precision = (enum precision)precision, .bias = bias,
                                                  .relu = relu },
                            bias == has_bias && relu == has_relu ? 9216 : 16);
    unsetenv("SIM_CUBLASLT_NO_EPILOGUE");
}

TEST(forward_matches_double_loops)
{
    check_pass(FPROP, NULL);
}

TEST(data_gradient_matches_double_loops)
{
    check_pass(DGRAD, NULL);
}

TEST(weight_gradient_matches_double_loops)
{
    check_pass(WGRAD, NULL);
}

TEST(forward_matches_without_epilogues)
{
    check_pass(FPROP, "1");
}

TEST(weight_gradient_matches_without_epilogues)
{
    check_pass(WGRAD, "2");
}

TEST(a_full_layer_matches_double_loops)
{
    const uint32_t features = test_is_long() ? 9216 : 9216 / 8;
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        check_shape(&(struct dense_shape){ (enum product_pass)pass, PRECISION_BF16, pass != DGRAD,
                                           pass == FPROP, 128, features, 128 });
}

/* The forward pass of a small layer of ones and a little more than ones. */
static float sum_of_almost_ones(enum precision precision)
{
    struct rig rig;
    cuda_rig_open(&rig, &(struct dense_shape){ FPROP, precision, false, false, 1, 8, 8 });
    for (size_t i = 0; i < rig.in.count; i++)
        rig.in.values[i] = 1 + 0x1p-13f;
    for (size_t i = 0; i < rig.weight.count; i++)
        rig.weight.values[i] = 1;
    tensor_move(&rig.in, rig.stream, true);
    tensor_move(&rig.weight, rig.stream, true);
    cuda_rig_run(&rig);
    const float sum = rig.out.values[7];
    cuda_rig_close(&rig);
    return sum;
}

TEST(fp32_keeps_bits_that_tf32_rounds_away)
{
    assert_true(sum_of_almost_ones(PRECISION_FP32) == 8 + 0x1p-10f);
    assert_true(sum_of_almost_ones(PRECISION_TF32) == 8);
}

static void record(struct rig *rig, cudaGraphExec_t *exec_out)
{
    cudaGraph_t graph;
    const struct dense_operands operands = rig_operands(rig);
    assert_int_equal(cudaStreamBeginCapture(rig->stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    assert_int_equal(dense_plan_run(rig->plan, rig->stream, &operands), 0);
    assert_int_equal(cudaStreamEndCapture(rig->stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(exec_out, graph, 0), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(graph), cudaSuccess);
}

/* A replay computes with what the operands hold then. */
static void check_replay(const struct dense_shape *shape)
{
    struct rig rig;
    cudaGraphExec_t exec;
    cuda_rig_open(&rig, shape);
    cuda_rig_run(&rig);
    record(&rig, &exec);
    for (int i = 0; i < 2; i++) {
        tensor_draw(shape->pass == DGRAD ? &rig.out : &rig.in, rig.stream);
        assert_int_equal(cudaGraphLaunch(exec, rig.stream), cudaSuccess);
        rig_fetch(&rig);
        check_result(&rig);
        check_bias_gradient(&rig);
    }
    assert_int_equal(cudaGraphExecDestroy(exec), cudaSuccess);
    cuda_rig_close(&rig);
}

TEST(a_recorded_run_replays)
{
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        const struct dense_shape shape = { (enum product_pass)pass, PRECISION_FP16, pass != DGRAD,
                                           pass == FPROP, 5, 2048, 16 };
        check_replay(&shape);
        setenv("SIM_CUBLASLT_NO_EPILOGUE", "1", 1);
        check_replay(&shape);
        unsetenv("SIM_CUBLASLT_NO_EPILOGUE");
    }
}

static void description_of(const struct dense_shape *shape, char *text, size_t text_size)
{
    struct rig rig;
    cuda_rig_open(&rig, shape);
    dense_plan_describe(rig.plan, text, text_size);
    cuda_rig_close(&rig);
}

TEST(describes_who_does_the_epilogue)
{
    char text[128];
    const struct dense_shape forward = { FPROP, PRECISION_BF16, true, true, 4, 8, 16 };
    description_of(&forward, text, sizeof(text));
    assert_string_equal(text, "algorithm 66, 0.0 MiB workspace, bias and relu fused");
    setenv("SIM_CUBLASLT_NO_EPILOGUE", "1", 1);
    description_of(&forward, text, sizeof(text));
    assert_string_equal(text, "algorithm 66, 0.0 MiB workspace, bias and relu apart");
    unsetenv("SIM_CUBLASLT_NO_EPILOGUE");
    description_of(&(struct dense_shape){ DGRAD, PRECISION_BF16, false, false, 4, 8, 16 }, text,
                   sizeof(text));
    assert_string_equal(text, "algorithm 66, 0.0 MiB workspace");
}

TEST(asks_for_no_more_workspace_than_it_may)
{
    const struct dense_shape shape = { FPROP, PRECISION_FP32, true, true, 128, 9216, 128 };
    struct dense_library *library;
    struct dense_plan *plan;
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(dense_library_open(&library, "cuda0"), 0);
    assert_int_equal(dense_plan_open(&plan, library, &shape, DENSE_WORKSPACE), 0);
    assert_true(dense_plan_workspace(plan) > 0);
    dense_plan_close(plan);
    assert_int_equal(dense_plan_open(&plan, library, &shape, 4096), 0);
    assert_true(dense_plan_workspace(plan) <= 4096);
    dense_plan_close(plan);
    dense_library_close(library);
}

/* A library and a plan opened, run, closed: the first errno. */
static int whole_life(struct rig *rig)
{
    struct dense_library *library = NULL;
    struct dense_plan *plan = NULL;
    const struct dense_operands operands = rig_operands(rig);
    int rc = dense_library_open(&library, "cuda0");
    if (rc == 0)
        rc = dense_plan_open(&plan, library, &rig->shape, 0);
    if (rc == 0)
        rc = dense_plan_run(plan, rig->stream, &operands);
    dense_plan_close(plan);
    dense_library_close(library);
    assert_int_equal(cudaStreamSynchronize(rig->stream), cudaSuccess);
    return rc;
}

static unsigned occurrences(const char *text, const char *word)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        count++;
    return count;
}

/* Let the number-th call of the function fail. False when there are fewer calls. */
static bool check_failure(struct rig *rig, const char *function, uint32_t number)
{
    char text[1024];
    const uint64_t calls = sim_calls(function);
    sim_fail(function, number, CUBLAS_STATUS_INTERNAL_ERROR);
    const int rc = CAPTURE(text, whole_life(rig));
    sim_fail_clear();
    const bool failed = sim_calls(function) - calls >= number;
    assert_int_equal(rc, failed && strstr(function, "Destroy") == NULL ? -EIO : 0);
    assert_int_equal(occurrences(text, function), failed);
    assert_int_equal(occurrences(text, "\n"), failed);
    return failed;
}

TEST(every_failure_is_logged_once_and_passed_on)
{
#define NAME(name) #name,
    static const char *const functions[] = { CUBLASLT_FUNCTIONS(NAME) };
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        struct rig rig;
        cuda_rig_open(&rig, &(struct dense_shape){ (enum product_pass)pass, PRECISION_BF16, pass != DGRAD,
                                              pass == FPROP, 3, 8, 16 });
        for (size_t i = 0; i < COUNT_OF(functions); i++) {
            uint32_t number = 1;
            while (check_failure(&rig, functions[i], number))
                number++;
            /* cublasLtGetVersion and cublasLtGetStatusString cannot fail. */
            assert_true(number > 1 || strncmp(functions[i], "cublasLtGet", strlen("cublasLtGet")) == 0);
        }
        cuda_rig_close(&rig);
    }
}

static int plan_with_failure(const char *function, uint32_t number, int status)
{
    struct rig rig;
    char text[1024];
    cuda_rig_open(&rig, &(struct dense_shape){ FPROP, PRECISION_FP16, true, true, 3, 8, 16 });
    sim_fail(function, number, status);
    const int rc = CAPTURE(text, whole_life(&rig));
    sim_fail_clear();
    cuda_rig_close(&rig);
    return rc;
}

TEST(only_missing_support_is_worked_around)
{
    const char *const heuristic = "cublasLtMatmulAlgoGetHeuristic";
    assert_int_equal(plan_with_failure(heuristic, 1, CUBLAS_STATUS_NOT_SUPPORTED), 0);
    assert_int_equal(plan_with_failure(heuristic, 1, CUBLAS_STATUS_INVALID_VALUE), 0);
    assert_int_equal(plan_with_failure(heuristic, 0, CUBLAS_STATUS_NOT_SUPPORTED), -ENOTSUP);
    assert_int_equal(plan_with_failure(heuristic, 1, CUBLAS_STATUS_ALLOC_FAILED), -ENOMEM);
    assert_int_equal(plan_with_failure("cublasLtMatmul", 1, CUBLAS_STATUS_NOT_SUPPORTED), -EIO);
    assert_int_equal(plan_with_failure("cublaslt_api_find", 1, 1), -ENOENT);
}

TEST(a_failed_kernel_is_passed_on)
{
    setenv("SIM_CUBLASLT_NO_EPILOGUE", "1", 1);
    assert_int_equal(plan_with_failure("cudaLaunchKernelEx", 1, cudaErrorLaunchOutOfResources), -EIO);
    unsetenv("SIM_CUBLASLT_NO_EPILOGUE");
}

TESTS_MAIN(NULL, NULL)
