/* Tests of convolutions on the simulated cuDNN when calls fail: every call of every function is logged once and
 * gives a negative errno, and nothing leaks. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/cuda/cudnn_conv_fixture.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"

static const char *const functions[] = {
    "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute", "cudnnBackendGetAttribute", "cudnnBackendFinalize",
    "cudnnBackendExecute", "cudnnBackendDestroyDescriptor", "cudnnGetStream",
    "cudaGetDevice", "cudaDriverGetVersion", "cudaGetDeviceProperties", "cudaEventCreate", "cudaEventRecord",
    "cudaEventSynchronize", "cudaEventElapsedTime", "cudaEventDestroy",
};
#define FUNCTIONS (sizeof(functions) / sizeof(*functions))

static bool is_of_cudnn(const char *function)
{
    return strncmp(function, "cudnn", 5) == 0;
}

/* Destroy functions release the object even when they fail. */
static bool may_be_survived(const char *function)
{
    return strstr(function, "Destroy") != NULL;
}

/* Of a plan: the driver could not load the engine, and there are others. Then nothing is logged. */
static bool may_have_another(const char *function)
{
    return strcmp(function, "cudnnBackendFinalize") == 0;
}

/* Open, run and close with the number-th call failing. */
static void fail_one(struct bench *bench, const struct conv_planner *planner, const struct conv_shape *shape,
                     const char *function, uint32_t number, int failure, bool is_refusal)
{
    char text[4096], description[DESCRIPTION];
    const uint32_t live = sim_cudnn_live();
    const int result = result_of(shape);
    conv_fill(bench, shape, false);
    float *results = conv_expected(bench, shape, false, false);
    memset(bench->memory[result], 0xff, bytes_of(shape, result));
    sim_calls_clear();
    sim_fail(function, number, failure);
    const int rc = CAPTURE(text, open_and_run(bench, planner, shape, description));
    sim_fail_clear();
    /* The number of timed runs depends on their time: this run had fewer calls. */
    const bool came = sim_calls(function) >= number;
    const bool has_another = may_have_another(function) && rc == 0;
    if (came && !is_refusal && capture_lines(text) != (has_another ? 0 : 1))
        fail_msg("%s, call %u: %zu lines: %s", function, number, capture_lines(text), text);
    if (rc > 0 || (came && !is_refusal && rc == 0 && !may_be_survived(function) && !has_another))
        fail_msg("%s, call %u: %d", function, number, rc);
    if (rc == 0 && conv_wrong(bench, shape, results) > 0 && strstr(description, "bias apart") == NULL)
        fail_msg("%s, call %u: other numbers", function, number);
    assert_int_equal(sim_cudnn_live(), live);
    free(results);
}

/* Every call of a successful run fails once. `kept`: with a plan in the cache. */
static void fail_each(struct bench *bench, const struct conv_planner *planner, bool kept, int cudnn_failure,
                      bool is_refusal)
{
    const struct conv_shape shape = fused_shape(PRECISION_BF16);
    char description[DESCRIPTION];
    uint64_t calls[FUNCTIONS];
    if (kept)
        assert_computes(bench, planner, &shape, false, description);
    sim_calls_clear();
    assert_computes(bench, planner, &shape, false, description);
    for (size_t i = 0; i < FUNCTIONS; i++)
        calls[i] = sim_calls(functions[i]);
    for (size_t i = 0; i < FUNCTIONS; i++)
        for (uint32_t number = 1; number <= calls[i]; number++) {
            const bool of_cudnn = is_of_cudnn(functions[i]);
            if (is_refusal && !of_cudnn)
                continue;
            if (!kept)
                fixture_each_file(folder, unlink);
            fail_one(bench, planner, &shape, functions[i], number, of_cudnn ? cudnn_failure : cudaErrorUnknown,
                     is_refusal);
        }
    fixture_each_file(folder, unlink);
}

/* Without a cache, with an empty one, and with a cached plan; with and without timing. */
static void fail_in_all_ways(struct bench *bench, int cudnn_failure, bool is_refusal)
{
    struct conv_planner cached = bench->planner, timed = timing_planner(bench);
    cached.cache = folder;
    fail_each(bench, &bench->planner, false, cudnn_failure, is_refusal);
    fail_each(bench, &cached, false, cudnn_failure, is_refusal);
    fail_each(bench, &cached, true, cudnn_failure, is_refusal);
    fail_each(bench, &timed, false, cudnn_failure, is_refusal);
}

BENCH_TEST(every_failing_call_is_logged_once_and_returned)
{
    fail_in_all_ways(*state, CUDNN_STATUS_EXECUTION_FAILED, false);
}

/* Every finalize of a run in turn: those of plans are among them, and another engine takes its place. */
BENCH_TEST(an_engine_that_the_driver_cannot_load_leaves_the_others)
{
    struct bench *bench = *state;
    const struct conv_shape shape = fused_shape(PRECISION_BF16);
    uint32_t survived = 0;
    char text[4096], description[DESCRIPTION];
    sim_calls_clear();
    assert_computes(bench, &bench->planner, &shape, false, description);
    const uint64_t calls = sim_calls("cudnnBackendFinalize");
    for (uint32_t number = 1; number <= calls; number++) {
        sim_fail("cudnnBackendFinalize", number, CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
        const int rc = CAPTURE(text, open_and_run(bench, &bench->planner, &shape, description));
        sim_fail_clear();
        survived += rc == 0;
        assert_int_equal(capture_lines(text), rc == 0 ? 0 : 1);
    }
    assert_in_range(survived, 1, calls - 1);
}

BENCH_TEST(every_refused_call_is_returned_or_has_a_fallback)
{
    fail_in_all_ways(*state, CUDNN_STATUS_NOT_SUPPORTED, true);
    fail_in_all_ways(*state, CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED, true);
}

BENCH_TEST(every_failing_call_of_a_separate_bias_is_returned)
{
    struct bench *bench = *state;
    const struct conv_shape shape = fused_shape(PRECISION_BF16);
    struct conv_plan *plan = NULL;
    char text[1024];
    sim_cudnn_refuse(SIM_CUDNN_FUSION);
    assert_int_equal(conv_plan_open(&plan, &bench->planner, &shape, false), 0);
    sim_fail("cudnnGetStream", 1, CUDNN_STATUS_EXECUTION_FAILED);
    const int rc = CAPTURE(text, conv_run(bench, plan, &shape));
    assert_int_equal(rc, -EIO);
    assert_int_equal(capture_lines(text), 1);
    conv_plan_close(plan);
}

TESTS_MAIN(NULL, NULL)
