/* Tests of convolutions on the simulated cuDNN: results of every pass and precision, choice of engines, the plan
 * cache, timing. Most inputs have few bits, so that sums are exact in any order and results can be compared bit by
 * bit. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/clock.h"
#include "tests/cuda/cudnn_conv_fixture.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"

BENCH_TEST(every_pass_and_precision_rounds_the_sum_once)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++)
            for (int i = 0; i < 12; i++) {
                const struct conv_shape shape = random_shape((enum product_pass)pass, (enum precision)precision);
                assert_computes(bench, &bench->planner, &shape, false, description);
            }
}

BENCH_TEST(inputs_are_rounded_in_tf32_and_not_in_fp32)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        for (int tf32 = 0; tf32 <= 1; tf32++) {
            struct conv_shape shape = random_shape((enum product_pass)pass, tf32 ? PRECISION_TF32 : PRECISION_FP32);
            conv_fill(bench, &shape, true);
            float *results = conv_expected(bench, &shape, tf32, false);
            float *others = conv_expected(bench, &shape, !tf32, false);
            assert_int_equal(open_and_run(bench, &bench->planner, &shape, description), 0);
            double worst = 0, other = 0;
            for (size_t i = 0; i < conv_count_of(&shape, result_of(&shape)); i++) {
                const double got = conv_value(bench, &shape, result_of(&shape), i, false);
                worst = fmax(worst, fabs(got - results[i]));
                other = fmax(other, fabs(got - others[i]));
            }
            assert_true(worst < other / 16);
            free(results);
            free(others);
        }
}

BENCH_TEST(runs_of_one_plan_give_the_same_bits)
{
    struct bench *bench = *state;
    static unsigned char before[MEMORY];
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        const struct conv_shape shape = random_shape((enum product_pass)pass, PRECISION_FP32);
        const int result = result_of(&shape);
        struct conv_plan *plan = NULL;
        conv_fill(bench, &shape, true);
        assert_int_equal(conv_plan_open(&plan, &bench->planner, &shape, false), 0);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(conv_run(bench, plan, &shape), 0);
            assert_cuda(cudaStreamSynchronize(bench->stream));
            if (i > 0)
                assert_memory_equal(before, bench->memory[result], bytes_of(&shape, result));
            memcpy(before, bench->memory[result], bytes_of(&shape, result));
        }
        conv_plan_close(plan);
    }
}

BENCH_TEST(only_the_first_run_with_new_pointers_makes_descriptors)
{
    struct bench *bench = *state;
    const struct conv_shape shape = fused_shape(PRECISION_BF16);
    struct conv_plan *plan = NULL;
    assert_int_equal(conv_plan_open(&plan, &bench->planner, &shape, false), 0);
    conv_fill(bench, &shape, false);
    assert_int_equal(conv_run(bench, plan, &shape), 0);
    sim_calls_clear();
    assert_int_equal(conv_run(bench, plan, &shape), 0);
    assert_int_equal(sim_calls("cudnnBackendExecute"), 1);
    assert_int_equal(sim_calls("cudnnBackendCreateDescriptor"), 0);
    assert_int_equal(sim_calls("cudnnBackendSetAttribute"), 0);
    conv_plan_close(plan);
}

/* With the result at `place`. */
static void assert_runs_at(struct bench *bench, struct conv_plan *plan, const struct conv_shape *shape,
                           unsigned char *place)
{
    const int result = result_of(shape);
    unsigned char *kept = bench->memory[result];
    bench->memory[result] = place;
    memset(place, 0xff, bytes_of(shape, result));
    conv_fill(bench, shape, false);
    float *results = conv_expected(bench, shape, false, false);
    assert_int_equal(conv_run(bench, plan, shape), 0);
    assert_cuda(cudaStreamSynchronize(bench->stream));
    assert_int_equal(conv_wrong(bench, shape, results), 0);
    free(results);
    bench->memory[result] = kept;
}

BENCH_TEST(other_pointers_are_used_when_given)
{
    struct bench *bench = *state;
    const struct conv_shape shape = fused_shape(PRECISION_FP16);
    struct conv_plan *plan = NULL;
    assert_int_equal(conv_plan_open(&plan, &bench->planner, &shape, false), 0);
    for (int i = 0; i < 4; i++)
        assert_runs_at(bench, plan, &shape, i % 2 == 0 ? bench->memory[OUT] : bench->scratch);
    conv_plan_close(plan);
}

static void assert_takes_turns(struct bench *bench, struct conv_plan *const plans[2], const struct conv_shape *shape)
{
    assert_runs_at(bench, plans[0], shape, bench->memory[result_of(shape)]);
    assert_runs_at(bench, plans[1], shape, bench->scratch);
}

BENCH_TEST(plans_with_a_shared_engine_have_their_own_pointers)
{
    struct bench *bench = *state;
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        const struct conv_shape shape = random_shape((enum product_pass)pass, PRECISION_BF16);
        struct conv_plan *plans[2] = { NULL, NULL };
        assert_int_equal(conv_plan_open(&plans[0], &bench->planner, &shape, false), 0);
        sim_calls_clear();
        assert_int_equal(conv_plan_share(&plans[1], plans[0]), 0);
        assert_int_equal(sim_calls("cudnnBackendCreateDescriptor"), 0);
        assert_int_equal(conv_plan_workspace(plans[1]), conv_plan_workspace(plans[0]));
        assert_takes_turns(bench, plans, &shape);
        sim_calls_clear();
        assert_takes_turns(bench, plans, &shape);
        assert_takes_turns(bench, plans, &shape);
        assert_int_equal(sim_calls("cudnnBackendExecute"), 4);
        assert_int_equal(sim_calls("cudnnBackendCreateDescriptor"), 0);
        assert_int_equal(sim_calls("cudnnBackendSetAttribute"), 0);
        conv_plan_close(plans[0]);
        conv_plan_close(plans[1]);
    }
}

BENCH_TEST(an_engine_stays_until_its_last_plan_is_closed)
{
    struct bench *bench = *state;
    const struct conv_shape shape = fused_shape(PRECISION_FP32);
    for (int last = 0; last <= 1; last++) {
        struct conv_plan *plans[2] = { NULL, NULL };
        assert_int_equal(conv_plan_open(&plans[0], &bench->planner, &shape, false), 0);
        assert_int_equal(conv_plan_share(&plans[1], plans[0]), 0);
        assert_takes_turns(bench, plans, &shape);
        conv_plan_close(plans[!last]);
        assert_runs_at(bench, plans[last], &shape, bench->memory[OUT]);
        conv_plan_close(plans[last]);
        assert_int_equal(sim_cudnn_live(), 1);          /* the handle */
    }
}

BENCH_TEST(bias_and_relu_are_kernels_where_cudnn_refuses_them)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    const unsigned refusals[] = { SIM_CUDNN_FUSION, SIM_CUDNN_FUSION_ENGINES };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            struct conv_shape shape = fused_shape((enum precision)precision);
            shape.relu = precision % 2;
            sim_cudnn_refuse(refusals[i]);
            assert_computes(bench, &bench->planner, &shape, true, description);
            assert_non_null(strstr(description, "bias apart"));
            sim_cudnn_refuse(0);
            assert_computes(bench, &bench->planner, &shape, false, description);
            assert_null(strstr(description, "bias apart"));
        }
}

BENCH_TEST(a_relu_without_a_bias_is_a_kernel_where_cudnn_refuses_it)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        struct conv_shape shape = fused_shape((enum precision)precision);
        shape.bias = false;
        sim_cudnn_refuse(SIM_CUDNN_FUSION);
        assert_computes(bench, &bench->planner, &shape, true, description);
        assert_non_null(strstr(description, "relu apart"));
        sim_cudnn_refuse(0);
        assert_computes(bench, &bench->planner, &shape, false, description);
        assert_null(strstr(description, "apart"));
    }
}

static const enum conv_after afters[] = { CONV_AFTER_ADD, CONV_AFTER_DRELU, CONV_AFTER_ADD_DRELU };
#define AFTERS (sizeof(afters) / sizeof(afters[0]))
static const enum precision narrow[] = { PRECISION_BF16, PRECISION_FP16 };

BENCH_TEST(a_data_gradient_is_added_and_masked_before_it_is_rounded)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    for (size_t i = 0; i < 12 * AFTERS; i++) {
        const struct conv_shape shape = after_shape(narrow[i % 2], afters[i / 2 % AFTERS]);
        assert_computes(bench, &bench->planner, &shape, false, description);
        assert_null(strstr(description, "apart"));
    }
}

BENCH_TEST(sum_and_mask_are_kernels_where_cudnn_refuses_them)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    for (int precision = 0; precision < PRECISION_COUNT; precision++)
        for (size_t i = 0; i < AFTERS; i++) {
            const bool is_narrow = precision == PRECISION_BF16 || precision == PRECISION_FP16;
            const struct conv_shape shape = after_shape((enum precision)precision, afters[i]);
            sim_cudnn_refuse(is_narrow ? SIM_CUDNN_FUSION_ENGINES : 0);
            assert_computes(bench, &bench->planner, &shape, true, description);
            assert_non_null(strstr(description, conv_adds(shape.after) ? ", sum apart" : ", mask apart"));
        }
}

/* A weight gradient has no such engine in bf16. */
BENCH_TEST(an_image_is_scaled_and_its_relu_computed_before_the_product)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    struct conv_plan *plan = NULL;
    for (int i = 0; i < 12; i++) {
        const struct conv_shape forward = before_shape(FPROP, narrow[i % 2]);
        const struct conv_shape gradient = before_shape(WGRAD, PRECISION_FP16);
        assert_computes(bench, &bench->planner, &forward, false, description);
        assert_computes(bench, &bench->planner, &gradient, false, description);
    }
    struct conv_shape refused = before_shape(WGRAD, PRECISION_BF16);
    assert_int_equal(conv_plan_open(&plan, &bench->planner, &refused, true), -ENOTSUP);
    refused.precision = PRECISION_FP16;
    refused.pad_bottom += refused.stride_h;
    refused.out_h++;
    assert_int_equal(conv_plan_open(&plan, &bench->planner, &refused, true), -ENOTSUP);
}

/* The sums of the result as it is stored; exact, because the numbers are few multiples of 1/64. */
static void assert_sums(const struct bench *bench, const struct conv_shape *shape)
{
    const uint32_t channels = shape->out_channels;
    for (uint32_t c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        for (size_t i = c; i < conv_count_of(shape, OUT); i += channels) {
            const double value = conv_value(bench, shape, OUT, i, false);
            sum += value;
            squares += value * value;
        }
        assert_true(fabs(conv_value(bench, shape, SUMS, c, false) - sum) <= 1e-5 * squares);
        assert_true(fabs(conv_value(bench, shape, SUMS, channels + c, false) - squares) <= 1e-5 * squares);
    }
}

BENCH_TEST(a_forward_pass_sums_its_result_and_the_squares)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    for (int i = 0; i < 12; i++) {
        struct conv_shape shape = statistics_shape(i % 2 == 0 ? PRECISION_FP16 : PRECISION_BF16);
        if (i % 3 == 2)
            shape.before = before_shape(FPROP, shape.precision).before;
        assert_computes(bench, &bench->planner, &shape, false, description);
        assert_non_null(strstr(description, " + statistics"));
        assert_sums(bench, &shape);
    }
}

BENCH_TEST(statistics_are_left_to_the_caller_where_cudnn_refuses_them)
{
    struct bench *bench = *state;
    static const unsigned refusals[] = { 0, SIM_CUDNN_FUSION, SIM_CUDNN_FUSION_ENGINES };
    char description[DESCRIPTION];
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            const struct conv_shape shape = statistics_shape((enum precision)precision);
            const bool is_fused = i == 0 && precision_type(shape.precision) != VALUE_FP32;
            struct conv_plan *plan = NULL;
            sim_cudnn_refuse(refusals[i]);
            assert_computes(bench, &bench->planner, &shape, false, description);
            assert_int_equal(strstr(description, ", statistics apart") == NULL, is_fused);
            assert_int_equal(conv_plan_open(&plan, &bench->planner, &shape, true), 0);
            assert_int_equal(conv_plan_has_statistics(plan), is_fused);
            conv_plan_close(plan);
        }
}

/* The gradients of gamma and beta from the result as it is stored, but for its rounding. */
static void assert_norm_sums(const struct bench *bench, const struct conv_shape *shape)
{
    const uint32_t channels = shape->in_channels;
    for (uint32_t c = 0; c < channels; c++) {
        const double mean = conv_value(bench, shape, STATISTICS, c, false);
        const double inverse = conv_value(bench, shape, STATISTICS, channels + c, false);
        double gamma = 0, beta = 0, size = 0;
        for (size_t i = c; i < conv_count_of(shape, IN); i += channels) {
            const double gradient = conv_value(bench, shape, IN, i, false);
            beta += gradient;
            gamma += gradient * (conv_value(bench, shape, VALUES, i, false) - mean) * inverse;
            size += 8 * fabs(gradient);
        }
        assert_true(fabs(conv_value(bench, shape, SUMS, c, false) - gamma) <= 1e-3 * size);
        assert_true(fabs(conv_value(bench, shape, SUMS, channels + c, false) - beta) <= 1e-3 * size);
    }
}

BENCH_TEST(a_data_gradient_is_masked_and_summed_for_a_normalisation)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    for (int i = 0; i < 12; i++) {
        const struct conv_shape shape = after_shape(PRECISION_FP16, CONV_AFTER_NORM);
        assert_computes(bench, &bench->planner, &shape, false, description);
        assert_non_null(strstr(description, " + norm sums"));
        assert_norm_sums(bench, &shape);
    }
}

/* In bf16 there is no engine; in fp16 one may be refused. */
BENCH_TEST(sums_for_a_normalisation_are_left_to_the_caller_where_cudnn_refuses_them)
{
    struct bench *bench = *state;
    static const unsigned refusals[] = { 0, SIM_CUDNN_FUSION, SIM_CUDNN_FUSION_ENGINES };
    char description[DESCRIPTION];
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++)
        for (int precision = PRECISION_BF16; precision <= PRECISION_FP16; precision++) {
            const struct conv_shape shape = after_shape((enum precision)precision, CONV_AFTER_NORM);
            const bool is_fused = i == 0 && precision == PRECISION_FP16;
            struct conv_plan *plan = NULL;
            sim_cudnn_refuse(refusals[i]);
            assert_computes(bench, &bench->planner, &shape, !is_fused, description);
            assert_int_equal(strstr(description, ", norm sums apart") == NULL, is_fused);
            assert_int_equal(conv_plan_open(&plan, &bench->planner, &shape, true), 0);
            assert_int_equal(conv_plan_has_norm_sums(plan), is_fused);
            conv_plan_close(plan);
        }
}

/* Another engine sums, too; after that fails, the gradient is left as it is. */
BENCH_TEST(sums_for_a_normalisation_that_do_not_run_are_left_to_the_caller)
{
    struct bench *bench = *state;
    const struct conv_shape shape = after_shape(PRECISION_FP16, CONV_AFTER_NORM);
    struct conv_plan *plan = NULL;
    assert_int_equal(conv_plan_open(&plan, &bench->planner, &shape, false), 0);
    conv_fill(bench, &shape, false);
    for (int failures = 0; failures <= 2; failures++) {
        const bool is_left = failures == 2;
        char text[1024];
        float *const results = conv_expected(bench, &shape, false, is_left);
        if (failures > 0)
            sim_fail("cudnnBackendExecute", 1, CUDNN_STATUS_NOT_SUPPORTED);
        assert_int_equal(CAPTURE(text, conv_run(bench, plan, &shape)), 0);
        sim_fail_clear();
        assert_cuda(cudaStreamSynchronize(bench->stream));
        assert_int_equal(conv_wrong(bench, &shape, results), 0);
        assert_int_equal(conv_plan_has_norm_sums(plan), !is_left);
        free(results);
    }
    conv_plan_close(plan);
}

/* What would avoid it is said once. */
BENCH_TEST(the_slow_engine_is_the_last_choice)
{
    struct bench *bench = *state;
    struct conv_plan *plan = NULL;
    char description[DESCRIPTION], text[1024];
    sim_cudnn_refuse(SIM_CUDNN_HEURISTICS);
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        const struct conv_shape shape = random_shape(WGRAD, (enum precision)precision);
        assert_int_equal(CAPTURE(text, conv_plan_open(&plan, &bench->planner, &shape, false)), 0);
        conv_plan_close(plan);
        assert_int_equal(strstr(text, "weight gradient, ") != NULL, precision == 0);
        assert_int_equal(strstr(text, ": others need at least 1024 MiB of workspace, and devices.workspace is 1 MiB\n")
                         != NULL, precision == 0);
        assert_computes(bench, &bench->planner, &shape, false, description);
        assert_int_equal(strncmp(description, "engine 0,", 9), 0);
    }
}

/* The heuristics propose an engine that is compiled before the others. */
BENCH_TEST(a_plan_is_compiled_only_where_there_is_no_other)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    sim_calls_clear();
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        const struct conv_shape shape = random_shape(WGRAD, (enum precision)precision);
        assert_computes(bench, &bench->planner, &shape, false, description);
    }
    assert_int_equal(sim_calls("compilation"), 0);
    const struct conv_shape shape = after_shape(PRECISION_BF16, CONV_AFTER_ADD);
    assert_computes(bench, &bench->planner, &shape, false, description);
    assert_int_equal(sim_calls("compilation"), 1);
}

BENCH_TEST(no_engine_is_enotsup_and_logged_unless_quiet)
{
    struct bench *bench = *state;
    struct conv_plan *plan = NULL;
    char text[1024];
    sim_cudnn_refuse(SIM_CUDNN_ENGINES);
    const struct conv_shape shape = fused_shape(PRECISION_FP32);
    for (int quiet = 0; quiet <= 1; quiet++) {
        const int rc = CAPTURE(text, conv_plan_open(&plan, &bench->planner, &shape, quiet));
        assert_int_equal(rc, -ENOTSUP);
        assert_null(plan);
        assert_int_equal(strstr(text, "forward") != NULL, !quiet);
        assert_int_equal(*text == '\0', quiet);
    }
}

BENCH_TEST(the_workspace_stays_below_the_limit)
{
    struct bench *bench = *state;
    char description[DESCRIPTION];
    const size_t caps[] = { 0, 100, 200, WORKSPACE_MAX };
    for (size_t i = 0; i < sizeof(caps) / sizeof(*caps); i++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            struct conv_planner planner = bench->planner;
            const struct conv_shape shape = random_shape(DGRAD, (enum precision)precision);
            planner.workspace_max = caps[i];
            assert_computes(bench, &planner, &shape, false, description);
        }
}

/* ---- the cache ---- */

static int file_damage(const char *path)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal(fseek(file, ftell(file) / 2, SEEK_SET), 0);
    assert_int_equal(fputc('!', file), '!');
    return fclose(file);
}

BENCH_TEST(a_cached_plan_gives_the_same_bits)
{
    struct bench *bench = *state;
    struct conv_planner planner = bench->planner;
    static unsigned char before[MEMORY];
    char first[DESCRIPTION], second[DESCRIPTION];
    planner.cache = folder;
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            const struct conv_shape shape = random_shape((enum product_pass)pass, (enum precision)precision);
            const int result = result_of(&shape);
            conv_fill(bench, &shape, true);
            assert_int_equal(open_and_run(bench, &planner, &shape, first), 0);
            memcpy(before, bench->memory[result], bytes_of(&shape, result));
            assert_int_equal(open_and_run(bench, &planner, &shape, second), 0);
            assert_memory_equal(before, bench->memory[result], bytes_of(&shape, result));
            assert_null(strstr(first, ", cached"));
            assert_string_equal(second + strlen(first), ", cached");
        }
    assert_int_equal(fixture_each_file(folder, NULL), PRODUCT_PASS_COUNT * PRECISION_COUNT);
}

BENCH_TEST(a_damaged_file_is_ignored_and_replaced)
{
    struct bench *bench = *state;
    struct conv_planner planner = bench->planner;
    const struct conv_shape shape = fused_shape(PRECISION_BF16);
    char description[DESCRIPTION];
    planner.cache = folder;
    assert_computes(bench, &planner, &shape, false, description);
    assert_int_equal(fixture_each_file(folder, file_damage), 1);
    assert_computes(bench, &planner, &shape, false, description);
    assert_null(strstr(description, ", cached"));
    assert_computes(bench, &planner, &shape, false, description);
    assert_non_null(strstr(description, ", cached"));
}

/* cuDNN may refuse its own plan after an update. */
BENCH_TEST(a_cached_plan_that_cudnn_refuses_is_made_again)
{
    struct bench *bench = *state;
    struct conv_planner planner = bench->planner;
    const struct conv_shape shape = random_shape(WGRAD, PRECISION_FP16);
    char description[DESCRIPTION];
    uint64_t before_plan;
    planner.cache = folder;
    assert_computes(bench, &planner, &shape, false, description);
    sim_calls_clear();
    assert_computes(bench, &planner, &shape, false, description);
    assert_non_null(strstr(description, ", cached"));
    before_plan = sim_calls("cudnnBackendFinalize") - 1;        /* the last is the variant pack */
    sim_fail("cudnnBackendFinalize", (uint32_t)before_plan, CUDNN_STATUS_NOT_SUPPORTED);
    assert_computes(bench, &planner, &shape, false, description);
    assert_null(strstr(description, ", cached"));
}

BENCH_TEST(a_plan_that_does_not_run_is_replaced_once_and_uncached)
{
    struct bench *bench = *state;
    struct conv_planner planner = bench->planner;
    const struct conv_shape shape = random_shape(WGRAD, PRECISION_BF16);
    char first[DESCRIPTION], description[DESCRIPTION], text[1024];
    struct conv_plan *plan = NULL;
    planner.cache = folder;
    assert_computes(bench, &planner, &shape, false, first);
    assert_int_equal(conv_plan_open(&plan, &planner, &shape, false), 0);
    conv_fill(bench, &shape, false);
    float *const results = conv_expected(bench, &shape, false, false);
    sim_fail("cudnnBackendExecute", 1, CUDNN_STATUS_NOT_SUPPORTED);
    const int rc = CAPTURE(text, conv_run(bench, plan, &shape));
    assert_int_equal(rc, 0);
    assert_non_null(strstr(text, "another one is taken"));
    assert_cuda(cudaStreamSynchronize(bench->stream));
    assert_int_equal(conv_wrong(bench, &shape, results), 0);
    conv_plan_describe(plan, description, sizeof(description));
    assert_string_not_equal(description, first);
    assert_int_equal(fixture_each_file(folder, NULL), 0);
    sim_fail("cudnnBackendExecute", 1, CUDNN_STATUS_NOT_SUPPORTED);
    const int again = CAPTURE(text, conv_run(bench, plan, &shape));
    sim_fail_clear();
    assert_int_equal(again, -ENOTSUP);
    assert_non_null(strstr(text, "no engine of cuDNN's"));
    conv_plan_close(plan);
    free(results);
}

/* The simulation has one engine that fuses them. Other plans of the engine find it replaced. */
BENCH_TEST(a_fused_plan_that_does_not_run_is_split)
{
    struct bench *bench = *state;
    for (size_t i = 0; i < AFTERS; i++) {
        const struct conv_shape shape = after_shape(PRECISION_BF16, afters[i]);
        char description[DESCRIPTION], text[1024];
        struct conv_plan *plans[2] = { NULL, NULL };
        assert_int_equal(conv_plan_open(&plans[0], &bench->planner, &shape, false), 0);
        assert_int_equal(conv_plan_share(&plans[1], plans[0]), 0);
        assert_runs_at(bench, plans[1], &shape, bench->scratch);
        conv_fill(bench, &shape, false);
        float *const results = conv_expected(bench, &shape, false, true);
        sim_fail("cudnnBackendExecute", 1, CUDNN_STATUS_NOT_SUPPORTED);
        assert_int_equal(CAPTURE(text, conv_run(bench, plans[0], &shape)), 0);
        sim_fail_clear();
        assert_non_null(strstr(text, "another one is taken"));
        conv_plan_describe(plans[0], description, sizeof(description));
        assert_non_null(strstr(description, conv_adds(shape.after) ? ", sum apart" : ", mask apart"));
        for (int k = 0; k < 2; k++) {
            assert_int_equal(conv_run(bench, plans[k], &shape), 0);
            assert_cuda(cudaStreamSynchronize(bench->stream));
            assert_int_equal(conv_wrong(bench, &shape, results), 0);
            conv_plan_close(plans[k]);
        }
        free(results);
    }
}

/* Their memory is planned, so they are not split; the message says what to do without. */
BENCH_TEST(parts_of_normalisation_that_do_not_run_are_refused_with_a_way_out)
{
    struct bench *bench = *state;
    const struct conv_shape shapes[] = { statistics_shape(PRECISION_BF16), before_shape(WGRAD, PRECISION_FP16) };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char text[1024];
        struct conv_plan *plan = NULL;
        assert_int_equal(conv_plan_open(&plan, &bench->planner, &shapes[i], false), 0);
        conv_fill(bench, &shapes[i], false);
        sim_fail("cudnnBackendExecute", 0, CUDNN_STATUS_NOT_SUPPORTED);
        const int rc = CAPTURE(text, conv_run(bench, plan, &shapes[i]));
        sim_fail_clear();
        assert_int_equal(rc, -ENOTSUP);
        assert_non_null(strstr(text, "no engine of cuDNN's"));
        assert_non_null(strstr(text, "devices.batch_statistics = exact"));
        conv_plan_close(plan);
    }
}

/* ---- timing ---- */

BENCH_TEST(measured_plans_compute_the_same)
{
    struct bench *bench = *state;
    const struct conv_planner planner = timing_planner(bench);
    char description[DESCRIPTION];
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            const struct conv_shape shape = random_shape((enum product_pass)pass, (enum precision)precision);
            assert_true(conv_shape_bytes(&shape) <= TENSORS * MEMORY);
            assert_computes(bench, &planner, &shape, false, description);
            assert_non_null(strstr(description, ", measured"));
        }
}

BENCH_TEST(a_candidate_that_does_not_run_is_not_chosen)
{
    struct bench *bench = *state;
    const struct conv_planner planner = timing_planner(bench);
    const struct conv_shape shape = fused_shape(PRECISION_FP16);
    char description[DESCRIPTION], fallen[DESCRIPTION];
    struct conv_plan *plan = NULL;
    sim_calls_clear();
    assert_computes(bench, &planner, &shape, false, description);
    assert_true(sim_calls("cudnnBackendExecute") > 4);
    sim_fail("cudnnBackendExecute", 1, CUDNN_STATUS_NOT_SUPPORTED);
    assert_computes(bench, &planner, &shape, false, fallen);
    sim_fail("cudnnBackendExecute", 0, CUDNN_STATUS_NOT_SUPPORTED);
    assert_int_equal(conv_plan_open(&plan, &planner, &shape, true), -ENOTSUP);
}

/* Another process, which ends without a word after a while. */
static pid_t hold_the_turn(const char *cache, uint32_t hold_us)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t process = fork();
    if (process == 0) {
        const int locked = flock(open(cache, O_RDONLY | O_DIRECTORY), LOCK_EX);
        (void)!write(ready[1], "r", 1);
        usleep(hold_us);
        _exit(locked);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return process;
}

/* Each of the planner's naps becomes a count, if they are counted. */
static bool counts_naps;
static uint32_t naps;
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left);
int __real_nanosleep(const struct timespec *wanted, struct timespec *left);
int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    naps += counts_naps;
    return counts_naps ? 0 : __real_nanosleep(wanted, left);
}

BENCH_TEST(processes_with_one_cache_measure_in_turn)
{
    enum { HOLD_US = 200000 };
    struct bench *bench = *state;
    struct conv_planner planner = timing_planner(bench);
    const struct conv_shape shape = fused_shape(PRECISION_FP32);
    struct conv_plan *plan = NULL;
    char text[128];
    planner.cache = folder;
    for (int run = 0; run < 2; run++) {
        const pid_t other = hold_the_turn(folder, HOLD_US);
        const uint64_t begun_ns = clock_now_ns();
        assert_int_equal(conv_plan_open(&plan, &planner, &shape, false), 0);
        assert_true(clock_now_ns() - begun_ns > HOLD_US * 1000ull / 2);
        conv_plan_describe(plan, text, sizeof(text));
        assert_int_equal(strstr(text, ", measured") != NULL, run == 0);
        conv_plan_close(plan);
        assert_int_equal(waitpid(other, NULL, 0), other);
    }
    fixture_each_file(folder, unlink);
}

/* Runs last: this process waits for no turn afterwards. */
BENCH_TEST(a_process_that_keeps_the_turn_is_waited_for_once)
{
    struct bench *bench = *state;
    struct conv_planner planner = timing_planner(bench);
    const struct conv_shape shape = fused_shape(PRECISION_FP32);
    struct conv_plan *plan = NULL;
    struct capture capture;
    char text[1024];
    planner.cache = folder;
    const int held = open(folder, O_RDONLY | O_DIRECTORY);      /* as another process would */
    assert_int_equal(flock(held, LOCK_EX), 0);
    counts_naps = true;
    for (int run = 0; run < 2; run++) {
        naps = 0;
        capture_begin(&capture);
        assert_int_equal(conv_plan_open(&plan, &planner, &shape, false), 0);
        capture_end(&capture, text, sizeof(text));
        assert_int_equal(naps > 0, run == 0);
        assert_int_equal(strstr(text, "another process has had its lock for 30 s") != NULL, run == 0);
        conv_plan_close(plan);
        fixture_each_file(folder, unlink);
    }
    counts_naps = false;
    close(held);
}

TESTS_MAIN(NULL, NULL)
