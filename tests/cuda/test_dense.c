/* Tests of dense layers on the simulated cuBLASLt: every pass in every precision matches double loops, with and
 * without epilogues, queued or in a graph, and a failure of any call gives one message and an errno. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cublaslt_dense.h"
#include "stage/random.h"
#include "tests/cuda/kernel_fixture.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"
#include "tests/sim/sim.h"

/* Tolerances: `sum` relative to the sum of the products' magnitudes (rounded inputs, order of additions), `out`
 * relative to the result (rounded once with the epilogue, twice without). */
static const struct exactness { enum value_type type; double sum, out; } exactness[PRECISION_COUNT] = {
    [PRECISION_FP32] = { VALUE_FP32, 1e-6, 2e-7 },
    [PRECISION_TF32] = { VALUE_FP32, 0x1.01p-10, 2e-7 },
    [PRECISION_BF16] = { VALUE_BF16, 1e-6, 0x1.01p-7 },
    [PRECISION_FP16] = { VALUE_FP16, 1e-6, 0x1.01p-10 },
};

/* The heuristics' first algorithm is taken. */
static const struct dense_planner untimed = { .workspace_max = DENSE_WORKSPACE };

/* A matrix or vector in device memory, with its values on the host. */
struct tensor {
    enum value_type type;
    size_t count;
    void *device;
    float *values;              /* as of the last transfer */
};

struct fixture {
    struct dense_library *library;
    struct dense_shape shape;
    struct dense_plan *plan;
    struct tensor in, out, weight, bias, weight_gradient, bias_gradient;
    void *workspace;
};

/* Random numbers around 0, rounded to the type. */
static void tensor_draw(struct tensor *tensor)
{
    static uint64_t drawn;
    for (size_t i = 0; i < tensor->count; i++)
        tensor->values[i] = rounded(tensor->type, test_uniform(random_key(7, RANDOM_DRAW, 0), drawn++) - 0.5f);
    values_write(tensor->type, tensor->device, tensor->values, tensor->count);
}

static struct tensor tensor_new(enum value_type type, size_t count)
{
    return (struct tensor){ type, count, values_poison(type, count), floats_new(count) };
}

static void tensors_open(struct fixture *fixture)
{
    const struct dense_shape *const shape = &fixture->shape;
    const enum value_type type = exactness[shape->precision].type;
    fixture->in = tensor_new(type, (size_t)shape->count * shape->features);
    fixture->out = tensor_new(type, (size_t)shape->count * shape->units);
    fixture->weight = tensor_new(type, (size_t)shape->units * shape->features);
    fixture->bias = tensor_new(type, shape->units);
    fixture->weight_gradient = tensor_new(VALUE_FP32, fixture->weight.count);
    fixture->bias_gradient = tensor_new(VALUE_FP32, shape->units);
    struct tensor *const inputs[] = { &fixture->in, &fixture->out, &fixture->weight, &fixture->bias };
    struct tensor *const result = shape->pass == FPROP ? &fixture->out
        : shape->pass == DGRAD ? &fixture->in : NULL;
    for (size_t i = 0; i < COUNT_OF(inputs); i++)
        if (inputs[i] != result)
            tensor_draw(inputs[i]);
}

static void fixture_open(struct fixture *fixture, const struct dense_shape *shape)
{
    *fixture = (struct fixture){ .shape = *shape };
    assert_int_equal(dense_library_open(&fixture->library, "cuda0"), 0);
    assert_int_equal(dense_plan_open(&fixture->plan, fixture->library, shape, &untimed), 0);
    tensors_open(fixture);
    if (dense_plan_workspace(fixture->plan) > 0)
        fixture->workspace = area_new(NULL, dense_plan_workspace(fixture->plan));
}

static void fixture_close(struct fixture *fixture)
{
    areas_close();
    dense_plan_close(fixture->plan);
    dense_library_close(fixture->library);
}

/* Operands that the pass must not use are NULL. */
static struct dense_operands fixture_operands(const struct fixture *fixture)
{
    const enum product_pass pass = fixture->shape.pass;
    const bool bias = fixture->shape.bias, is_gradient = pass == WGRAD;
    return (struct dense_operands){
        .in = fixture->in.device, .out = fixture->out.device, .weight = is_gradient ? NULL : fixture->weight.device,
        .bias = bias && pass == FPROP ? fixture->bias.device : NULL,
        .weight_gradient = is_gradient ? fixture->weight_gradient.device : NULL,
        .bias_gradient = bias && is_gradient ? fixture->bias_gradient.device : NULL, .workspace = fixture->workspace,
    };
}

static struct tensor *fixture_result(struct fixture *fixture)
{
    return fixture->shape.pass == FPROP ? &fixture->out
        : fixture->shape.pass == DGRAD ? &fixture->in : &fixture->weight_gradient;
}

static void tensor_fetch(struct tensor *tensor)
{
    tensor->values = values_read(tensor->type, tensor->device, tensor->count);
}

static void fixture_fetch(struct fixture *fixture)
{
    tensor_fetch(fixture_result(fixture));
    if (fixture->shape.pass == WGRAD && fixture->shape.bias)
        tensor_fetch(&fixture->bias_gradient);
}

static void fixture_run(struct fixture *fixture)
{
    const struct dense_operands operands = fixture_operands(fixture);
    assert_int_equal(dense_plan_run(fixture->plan, stream, &operands), 0);
    fixture_fetch(fixture);
}

/* The sum of `count` products, and of their magnitudes, in double. */
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

/* The result's element, without bias. */
static struct sum expected_at(const struct fixture *fixture, size_t row, size_t column)
{
    const size_t features = fixture->shape.features, units = fixture->shape.units;
    const float *const in = fixture->in.values, *const out = fixture->out.values;
    const float *const weight = fixture->weight.values;
    if (fixture->shape.pass == FPROP)
        return sum_of(in + row * features, 1, weight + column * features, 1, features);
    if (fixture->shape.pass == DGRAD)
        return sum_of(out + row * units, 1, weight + column, features, units);
    return sum_of(out + row, units, in + column, features, fixture->shape.count);
}

static void check_value(const struct fixture *fixture, double value, double expected, double size, double rounded_size)
{
    const struct exactness *const exact = &exactness[fixture->shape.precision];
    const double out = fixture->shape.pass == WGRAD ? 2e-7 : exact->out;
    const double allowed = exact->sum * size + out * rounded_size + 1e-7;
    if (!(fabs(value - expected) <= allowed))
        fail_msg("pass %d precision %d, %u samples %u features %u units: %.9g instead of %.9g (+- %.3g)",
                 (int)fixture->shape.pass, (int)fixture->shape.precision, fixture->shape.count, fixture->shape.features,
                 fixture->shape.units, value, expected, allowed);
}

static void check_result(struct fixture *fixture)
{
    const struct dense_shape *const shape = &fixture->shape;
    const size_t columns = shape->pass == FPROP ? shape->units : shape->features;
    const struct tensor *const result = fixture_result(fixture);
    for (size_t i = 0; i < result->count; i++) {
        const struct sum sum = expected_at(fixture, i / columns, i % columns);
        const double bias = shape->pass == FPROP && shape->bias ? fixture->bias.values[i % columns] : 0;
        const double expected = sum.value + bias;
        check_value(fixture, result->values[i], shape->relu && expected < 0 ? 0 : expected, sum.size + fabs(bias),
                    fabs(sum.value) + fabs(bias));
    }
}

static void check_bias_gradient(const struct fixture *fixture)
{
    static const float one = 1;
    if (fixture->shape.pass != WGRAD || !fixture->shape.bias)
        return;
    for (size_t unit = 0; unit < fixture->shape.units; unit++) {
        const struct sum sum = sum_of(fixture->out.values + unit, fixture->shape.units, &one, 0, fixture->shape.count);
        check_value(fixture, fixture->bias_gradient.values[unit], sum.value, sum.size, fabs(sum.value));
    }
}

/* Results are correct, and the same bits in a second run. */
static void check_shape(const struct dense_shape *shape)
{
    struct fixture fixture;
    fixture_open(&fixture, shape);
    fixture_run(&fixture);
    check_result(&fixture);
    check_bias_gradient(&fixture);
    const struct tensor *const result = fixture_result(&fixture);
    const float *const first = result->values;
    fixture_run(&fixture);
    assert_memory_equal(result->values, first, result->count * sizeof(*first));
    fixture_close(&fixture);
}

/* Skips sizes that take seconds. */
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

/* The sum of eight products, each slightly larger than 1. */
static float sum_of_almost_ones(enum precision precision)
{
    struct fixture fixture;
    fixture_open(&fixture, &(struct dense_shape){ FPROP, precision, false, false, 1, 8, 8 });
    for (size_t i = 0; i < fixture.in.count; i++)
        fixture.in.values[i] = 1 + 0x1p-13f;
    for (size_t i = 0; i < fixture.weight.count; i++)
        fixture.weight.values[i] = 1;
    values_write(VALUE_FP32, fixture.in.device, fixture.in.values, fixture.in.count);
    values_write(VALUE_FP32, fixture.weight.device, fixture.weight.values, fixture.weight.count);
    fixture_run(&fixture);
    const float sum = fixture.out.values[7];
    fixture_close(&fixture);
    return sum;
}

TEST(fp32_keeps_bits_that_tf32_rounds_away)
{
    assert_true(sum_of_almost_ones(PRECISION_FP32) == 8 + 0x1p-10f);
    assert_true(sum_of_almost_ones(PRECISION_TF32) == 8);
}

static void record(struct fixture *fixture, cudaGraphExec_t *exec_out)
{
    cudaGraph_t graph;
    const struct dense_operands operands = fixture_operands(fixture);
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    assert_int_equal(dense_plan_run(fixture->plan, stream, &operands), 0);
    CUDA_OK(cudaStreamEndCapture(stream, &graph));
    CUDA_OK(cudaGraphInstantiate(exec_out, graph, 0));
    CUDA_OK(cudaGraphDestroy(graph));
}

/* A replay uses the operands' values at that time. */
static void check_replay(const struct dense_shape *shape)
{
    struct fixture fixture;
    cudaGraphExec_t exec;
    fixture_open(&fixture, shape);
    fixture_run(&fixture);
    record(&fixture, &exec);
    for (int i = 0; i < 2; i++) {
        tensor_draw(shape->pass == DGRAD ? &fixture.out : &fixture.in);
        CUDA_OK(cudaGraphLaunch(exec, stream));
        fixture_fetch(&fixture);
        check_result(&fixture);
        check_bias_gradient(&fixture);
    }
    CUDA_OK(cudaGraphExecDestroy(exec));
    fixture_close(&fixture);
}

TEST(graphs_of_a_run_replay)
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
    struct fixture fixture;
    fixture_open(&fixture, shape);
    dense_plan_describe(fixture.plan, text, text_size);
    fixture_close(&fixture);
}

TEST(descriptions_tell_whether_the_epilogue_is_fused)
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

TEST(workspaces_stay_within_the_limit)
{
    const struct dense_shape shape = { FPROP, PRECISION_FP32, true, true, 128, 9216, 128 };
    struct dense_library *library;
    struct dense_plan *plan;
    assert_int_equal(dense_library_open(&library, "cuda0"), 0);
    assert_int_equal(dense_plan_open(&plan, library, &shape, &untimed), 0);
    assert_true(dense_plan_workspace(plan) > 0);
    dense_plan_close(plan);
    assert_int_equal(dense_plan_open(&plan, library, &shape, &(struct dense_planner){ .workspace_max = 4096 }), 0);
    assert_true(dense_plan_workspace(plan) <= 4096);
    dense_plan_close(plan);
    dense_library_close(library);
}

/* Open a library and a plan, run, close. The first errno. */
static int open_run_close(struct fixture *fixture)
{
    struct dense_library *library = NULL;
    struct dense_plan *plan = NULL;
    const struct dense_operands operands = fixture_operands(fixture);
    int rc = dense_library_open(&library, "cuda0");
    if (rc == 0)
        rc = dense_plan_open(&plan, library, &fixture->shape, &(struct dense_planner){ .workspace_max = 0 });
    if (rc == 0)
        rc = dense_plan_run(plan, stream, &operands);
    dense_plan_close(plan);
    dense_library_close(library);
    CUDA_OK(cudaStreamSynchronize(stream));
    return rc;
}

/* Make the number-th call of the function fail. False when there are fewer calls. */
static bool check_failure(struct fixture *fixture, const char *function, uint32_t number)
{
    char text[1024];
    const uint64_t calls = sim_calls(function);
    sim_fail(function, number, CUBLAS_STATUS_INTERNAL_ERROR);
    const int rc = CAPTURE(text, open_run_close(fixture));
    sim_fail_clear();
    const bool failed = sim_calls(function) - calls >= number;
    assert_int_equal(rc, failed && strstr(function, "Destroy") == NULL ? -EIO : 0);
    assert_int_equal(strstr(text, function) != NULL, failed);
    assert_int_equal(capture_lines(text), failed);
    return failed;
}

TEST(every_failure_is_logged_once_and_returned)
{
#define NAME(name) #name,
    static const char *const functions[] = { CUBLASLT_FUNCTIONS(NAME) };
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        struct fixture fixture;
        fixture_open(&fixture, &(struct dense_shape){ (enum product_pass)pass, PRECISION_BF16, pass != DGRAD,
                                              pass == FPROP, 3, 8, 16 });
        for (size_t i = 0; i < COUNT_OF(functions); i++) {
            uint32_t number = 1;
            while (check_failure(&fixture, functions[i], number))
                number++;
            /* cublasLtGetVersion and cublasLtGetStatusString cannot fail; only cached algorithms are checked. */
            assert_true(number > 1 || strncmp(functions[i], "cublasLtGet", strlen("cublasLtGet")) == 0 ||
                        strcmp(functions[i], "cublasLtMatmulAlgoCheck") == 0);
        }
        fixture_close(&fixture);
    }
}

static int plan_with_failure(const char *function, uint32_t number, int status)
{
    struct fixture fixture;
    char text[1024];
    fixture_open(&fixture, &(struct dense_shape){ FPROP, PRECISION_FP16, true, true, 3, 8, 16 });
    sim_fail(function, number, status);
    const int rc = CAPTURE(text, open_run_close(&fixture));
    sim_fail_clear();
    fixture_close(&fixture);
    return rc;
}

TEST(only_missing_support_has_a_fallback)
{
    const char *const heuristic = "cublasLtMatmulAlgoGetHeuristic";
    assert_int_equal(plan_with_failure(heuristic, 1, CUBLAS_STATUS_NOT_SUPPORTED), 0);
    assert_int_equal(plan_with_failure(heuristic, 1, CUBLAS_STATUS_INVALID_VALUE), 0);
    assert_int_equal(plan_with_failure(heuristic, 0, CUBLAS_STATUS_NOT_SUPPORTED), -ENOTSUP);
    assert_int_equal(plan_with_failure(heuristic, 1, CUBLAS_STATUS_ALLOC_FAILED), -ENOMEM);
    assert_int_equal(plan_with_failure("cublasLtMatmul", 1, CUBLAS_STATUS_NOT_SUPPORTED), -EIO);
    assert_int_equal(plan_with_failure("cublaslt_api_find", 1, 1), -ENOENT);
}

/* ---- measured algorithms ---- */

/* A measuring planner with its memory, and what came of a plan. */
struct timed {
    struct dense_planner planner;
    char description[128], messages[1024];
    size_t workspace;
};

static void timed_open(struct timed *timed, const struct dense_shape *shape, const char *cache)
{
    *timed = (struct timed){ .planner = { .workspace_max = 1 << 20, .stream = stream, .cache = cache } };
    timed->planner.scratch = area_new(NULL, dense_shape_bytes(shape));
    timed->planner.workspace = area_new(NULL, timed->planner.workspace_max);
}

static int plan_timed(struct timed *timed, const struct dense_shape *shape)
{
    struct dense_library *library;
    struct dense_plan *plan = NULL;
    assert_int_equal(dense_library_open(&library, "cuda0"), 0);
    const int rc = CAPTURE(timed->messages, dense_plan_open(&plan, library, shape, &timed->planner));
    timed->description[0] = '\0';
    if (rc == 0) {
        dense_plan_describe(plan, timed->description, sizeof(timed->description));
        timed->workspace = dense_plan_workspace(plan);
    }
    dense_plan_close(plan);
    dense_library_close(library);
    return rc;
}

static const struct dense_shape timed_shapes[PRODUCT_PASS_COUNT] = {
    [FPROP] = { FPROP, PRECISION_BF16, true, true, 5, 2048, 16 },
    [DGRAD] = { DGRAD, PRECISION_FP32, false, false, 5, 2048, 16 },
    [WGRAD] = { WGRAD, PRECISION_FP16, true, false, 1100, 24, 16 },
};

static void set_algorithms(const char *slow, const char *broken)
{
    setenv("SIM_CUBLASLT_SLOW", slow, 1);
    setenv("SIM_CUBLASLT_BROKEN", broken, 1);
}

TEST(the_fastest_algorithm_that_runs_is_taken)
{
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        struct timed timed;
        timed_open(&timed, &timed_shapes[pass], NULL);
        set_algorithms("66,68", "");
        assert_int_equal(plan_timed(&timed, &timed_shapes[pass]), 0);
        assert_memory_equal(timed.description, "algorithm 67", strlen("algorithm 67"));
        assert_non_null(strstr(timed.description, ", measured"));
        assert_null(strstr(timed.description, ", cached"));
        set_algorithms("66", "67");
        assert_int_equal(plan_timed(&timed, &timed_shapes[pass]), 0);
        assert_memory_equal(timed.description, "algorithm 68", strlen("algorithm 68"));
        set_algorithms("", "66,67");
        assert_int_equal(plan_timed(&timed, &timed_shapes[pass]), 0);
        assert_memory_equal(timed.description, "algorithm 68", strlen("algorithm 68"));
        set_algorithms("", "66,67,68");
        assert_int_equal(plan_timed(&timed, &timed_shapes[pass]), -ENOTSUP);
        assert_int_equal(capture_lines(timed.messages), 1);
        areas_close();
    }
    set_algorithms("", "");
}

TEST(a_measured_choice_is_kept_for_its_shape_and_workspace)
{
    char folder[] = "/tmp/test_dense_XXXXXX", command[64];
    assert_non_null(mkdtemp(folder));
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        const struct dense_shape shape = timed_shapes[pass];
        struct dense_shape other = shape;
        struct timed timed;
        other.count--;
        timed_open(&timed, &shape, folder);
        set_algorithms("66,68", "");
        assert_int_equal(plan_timed(&timed, &shape), 0);
        const size_t workspace = timed.workspace;
        set_algorithms("66,67", "");    /* the cached one is not the fastest any more */
        const uint64_t runs = sim_calls("cublasLtMatmul");
        assert_int_equal(plan_timed(&timed, &shape), 0);
        assert_int_equal(sim_calls("cublasLtMatmul"), runs);
        assert_memory_equal(timed.description, "algorithm 67", strlen("algorithm 67"));
        assert_non_null(strstr(timed.description, ", cached"));
        assert_int_equal(timed.workspace, workspace);
        assert_int_equal(plan_timed(&timed, &other), 0);
        assert_memory_equal(timed.description, "algorithm 68", strlen("algorithm 68"));
        timed.planner.workspace_max /= 2;
        assert_int_equal(plan_timed(&timed, &shape), 0);
        assert_memory_equal(timed.description, "algorithm 68", strlen("algorithm 68"));
        areas_close();
    }
    set_algorithms("", "");
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* An algorithm that the library does not accept, as after a change of it that kept its version. */
TEST(a_refused_cached_choice_is_measured_again)
{
    char folder[] = "/tmp/test_dense_XXXXXX", command[64];
    struct timed timed;
    assert_non_null(mkdtemp(folder));
    timed_open(&timed, &timed_shapes[FPROP], folder);
    set_algorithms("66,68", "");
    assert_int_equal(plan_timed(&timed, &timed_shapes[FPROP]), 0);
    set_algorithms("66,67", "");
    sim_fail("cublasLtMatmulAlgoCheck", 1, CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(plan_timed(&timed, &timed_shapes[FPROP]), 0);
    sim_fail_clear();
    assert_memory_equal(timed.description, "algorithm 68", strlen("algorithm 68"));
    assert_int_equal(capture_lines(timed.messages), 0);
    set_algorithms("67", "");
    assert_int_equal(plan_timed(&timed, &timed_shapes[FPROP]), 0);
    assert_memory_equal(timed.description, "algorithm 68", strlen("algorithm 68"));
    assert_non_null(strstr(timed.description, ", cached"));
    set_algorithms("", "");
    areas_close();
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

TEST(a_failure_while_measuring_is_logged_once_and_returned)
{
    static const struct { const char *function; int status, rc; } failures[] = {
        { "cublasLtMatmul", CUBLAS_STATUS_INTERNAL_ERROR, -EIO },
        { "cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_INTERNAL_ERROR, -EIO },
        { "cublasLtMatmulDescSetAttribute", CUBLAS_STATUS_INTERNAL_ERROR, -EIO },
        { "cudaEventCreate", cudaErrorUnknown, -EIO },
        { "cudaEventRecord", cudaErrorUnknown, -EIO },
        { "cudaEventElapsedTime", cudaErrorUnknown, -EIO },
        { "cudaEventSynchronize", cudaErrorUnknown, -EIO },
    };
    struct timed timed;
    timed_open(&timed, &timed_shapes[FPROP], NULL);
    for (size_t i = 0; i < COUNT_OF(failures); i++) {
        sim_fail(failures[i].function, 1, failures[i].status);
        assert_int_equal(plan_timed(&timed, &timed_shapes[FPROP]), failures[i].rc);
        sim_fail_clear();
        assert_int_equal(capture_lines(timed.messages), 1);
    }
    areas_close();
}

TEST(a_failed_kernel_is_returned)
{
    setenv("SIM_CUBLASLT_NO_EPILOGUE", "1", 1);
    assert_int_equal(plan_with_failure("cudaLaunchKernelEx", 1, cudaErrorLaunchOutOfResources), -EIO);
    unsetenv("SIM_CUBLASLT_NO_EPILOGUE");
}

int main(void)
{
    return kernel_tests_run(tests_run);
}
