/* Tests of planning convolutions for devices that are only described to cuDNN: windows, strides, paddings, refusals,
 * and the plan cache. Needs no GPU. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/cudnn_engine.h"
#include "tests/cuda/cudnn_planning_fixture.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"

static struct conv_shape any_shape(void)
{
    return square(FPROP, PRECISION_FP16, 32, 26, 64, 3, 1, 0, 0);
}

TEST(other_windows_strides_and_paddings_have_plans)
{
    static const struct { const char *name; uint32_t in, size, out, kernel, stride, before, after; } windows[] = {
        { "1x1", 64, 56, 128, 1, 1, 0, 0 },        { "1x1 stride 2", 64, 56, 128, 1, 2, 0, 0 },
        { "3x3 same", 64, 56, 64, 3, 1, 1, 1 },    { "3x3 stride 2", 64, 56, 128, 3, 2, 1, 1 },
        { "3x3 padded 0+1", 64, 56, 128, 3, 2, 0, 1 }, { "5x5 same", 32, 28, 64, 5, 1, 2, 2 },
        { "5x5 padded 1+2", 32, 28, 64, 5, 2, 1, 2 },  { "7x7 stride 2", 8, 224, 64, 7, 2, 3, 3 },
        { "7x7 padded 2+3", 8, 224, 64, 7, 2, 2, 3 },
    };
    for (size_t i = 0; i < sizeof(windows) / sizeof(*windows); i++)
        for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
            for (int precision = 0; precision < PRECISION_COUNT; precision++)
                for (int device = SM_80; device < DEVICE_COUNT; device++) {
                    const struct conv_shape shape =
                        square(pass, precision, windows[i].in, windows[i].size, windows[i].out, windows[i].kernel,
                               windows[i].stride, windows[i].before, windows[i].after);
                    assert_plans(device, &shape, precision != PRECISION_FP32, windows[i].name);
                }
}

/* Depthwise; widths of ResNeXt, RegNet and a multiplier. */
TEST(groups_have_plans)
{
    static const struct { const char *name; uint32_t in, size, out, kernel, stride, groups; } rows[] = {
        { "depthwise 3x3", 96, 56, 96, 3, 1, 96 },     { "depthwise 3x3 stride 2", 96, 112, 96, 3, 2, 96 },
        { "depthwise 5x5", 240, 28, 240, 5, 1, 240 },  { "depthwise 7x7", 96, 56, 96, 7, 1, 96 },
        { "multiplier 2", 32, 28, 64, 3, 1, 32 },      { "32 groups of 4", 128, 56, 128, 3, 1, 32 },
        { "32 groups of 8", 256, 56, 256, 3, 2, 32 },  { "5 groups of 24", 120, 28, 120, 3, 1, 5 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
            for (int precision = 0; precision < PRECISION_COUNT; precision++)
                for (int device = SM_80; device < DEVICE_COUNT; device++) {
                    const uint32_t side = rows[i].kernel / 2;
                    struct conv_shape shape = square(pass, precision, rows[i].in, rows[i].size, rows[i].out,
                                                     rows[i].kernel, rows[i].stride, side, side);
                    shape.groups = rows[i].groups;
                    shape.bias = shape.relu = false;
                    assert_plans(device, &shape, false, rows[i].name);
                }
}

/* Plan the shape and return the description, which the next call overwrites. */
static const char *planned(const struct conv_planner *planner, const struct conv_shape *shape)
{
    static char text[128];
    struct conv_plan *plan = NULL;
    assert_int_equal(conv_plan_open(&plan, planner, shape, false), 0);
    conv_plan_describe(plan, text, sizeof(text));
    conv_plan_close(plan);
    return text;
}

/* By our kernel where no engine does it exactly. */
TEST(a_relu_without_a_bias_is_planned)
{
    for (int precision = 0; precision < PRECISION_COUNT; precision++)
        for (int device = SM_80; device < DEVICE_COUNT; device++) {
            const struct conv_planner planner = planner_for(device);
            struct conv_shape shape = square(FPROP, precision, 16, 32, 16, 3, 1, 1, 1);
            shape.bias = false;
            const char *const text = planned(&planner, &shape);
            assert_null(strstr(text, "engine 0,"));
            assert_null(strstr(text, "bias"));
        }
}

/* The shape, and the gradients of its weights and data, with a normalisation of the input. */
static void assert_normalises(const struct conv_planner *planner, struct conv_shape shape)
{
    shape.before = CONV_BEFORE_SCALE_RELU;
    const char *const text = planned(planner, &shape);
    assert_true(strstr(text, "scale + relu + ") == text && strstr(text, " + statistics") != NULL);
    shape.pass = WGRAD;
    shape.after = CONV_AFTER_NOTHING;
    assert_non_null(strstr(planned(planner, &shape), "scale + relu + "));
    shape.pass = DGRAD;
    shape.before = CONV_BEFORE_NOTHING;
    shape.after = CONV_AFTER_NORM;
    assert_non_null(strstr(planned(planner, &shape), " + norm sums"));
}

/* By engines that need no compilation at run time. */
TEST(forward_passes_with_statistics_are_planned_in_fp16)
{
    static const struct { uint32_t in, size, out, kernel, stride; } rows[] = {
        { 64, 56, 256, 1, 1 }, { 64, 56, 64, 3, 1 }, { 128, 56, 128, 3, 2 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int device = SM_80; device <= SM_90; device++) {
            const struct conv_planner planner = planner_for(device);
            const uint32_t side = rows[i].kernel / 2;
            struct conv_shape shape = square(FPROP, PRECISION_FP16, rows[i].in, rows[i].size, rows[i].out,
                                             rows[i].kernel, rows[i].stride, side, side);
            shape.bias = shape.relu = false;
            shape.after = CONV_AFTER_STATISTICS;
            assert_non_null(strstr(planned(&planner, &shape), " + statistics"));
            if (device == SM_90)
                assert_normalises(&planner, shape);
        }
}

/* There cuDNN has only its generic engine for them, which is not used. */
TEST(sums_for_a_normalisation_are_left_to_our_kernels_but_on_sm_90)
{
    static const int others[] = { SM_80, SM_100, SM_120 };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const struct conv_planner planner = planner_for(others[i]);
        struct conv_shape shape = square(DGRAD, PRECISION_FP16, 64, 56, 256, 1, 1, 0, 0);
        shape.after = CONV_AFTER_NORM;
        const char *const text = planned(&planner, &shape);
        assert_null(strstr(text, "engine 0"));
        assert_non_null(strstr(text, ", norm sums apart"));
    }
}

TEST(a_workspace_limit_of_0_gives_a_plan_without_workspace_or_none)
{
    struct conv_planner planner = planner_for(SM_90);
    planner.workspace_max = 0;
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            const struct conv_shape shape = square(pass, precision, 32, 26, 64, 3, 1, 0, 0);
            struct conv_plan *plan = NULL;
            const int rc = conv_plan_open(&plan, &planner, &shape, true);
            assert_true(rc == 0 || rc == -ENOTSUP);
            if (rc == 0)
                assert_int_equal(conv_plan_workspace(plan), 0);
            else
                assert_null(plan);
            conv_plan_close(plan);
        }
}

/* The graph of any_shape's convolution alone, in fp32. */
static void build_graph(struct cudnn_graph *graph)
{
    const struct graph_tensor tensors[] = {
        { .id = 1, .type = CUDNN_DATA_FLOAT, .dims = { 64, 32, 26, 26 } },
        { .id = 2, .type = CUDNN_DATA_FLOAT, .dims = { 64, 32, 3, 3 } },
        { .id = 3, .type = CUDNN_DATA_FLOAT, .dims = { 64, 64, 24, 24 } },
    };
    const struct graph_window window = { .strides = { 1, 1 } };
    graph_init(graph, "test");
    cudnnBackendDescriptor_t operation = graph_add_convolution(
        graph, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, &window,
        graph_add_tensor(graph, &tensors[0]), graph_add_tensor(graph, &tensors[1]),
        graph_add_tensor(graph, &tensors[2]));
    graph_finish(graph, NULL, 1, &operation);
    assert_int_equal(graph->status, 0);
}

static uint32_t notes_of_plan(cudnnBackendDescriptor_t plan)
{
    cudnnBackendDescriptor_t config, engine;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count;
    assert_int_equal(descriptor_open(&config, "test", CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), 0);
    assert_int_equal(descriptor_open(&engine, "test", CUDNN_BACKEND_ENGINE_DESCRIPTOR), 0);
    assert_int_equal(descriptor_get(plan, "test", CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL, &config), 0);
    assert_int_equal(descriptor_get(config, "test", CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                    NULL, &engine), 0);
    assert_int_equal(descriptor_get(engine, "test", CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                    CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes), 0);
    uint32_t set = 0;
    for (int64_t i = 0; i < count; i++)
        set |= 1u << notes[i];
    descriptor_close(engine);
    descriptor_close(config);
    return set;
}

/* The notes of all the best plans combined; their number goes to *count_out. */
static uint32_t notes_found(bool exact, uint32_t *count_out)
{
    const struct engine_rules rules = { .name = "test", .properties = described_devices[SM_90], .exact = exact,
                                        .workspace_max = WORKSPACE_MAX };
    struct cudnn_graph graph;
    struct cudnn_refusal refusal;
    struct engine_plan plans[ENGINE_PLANS_MAX];
    uint32_t notes = 0;
    build_graph(&graph);
    assert_int_equal(engine_find(&graph, &rules, ENGINE_PLANS_MAX, plans, count_out, &refusal), 0);
    for (uint32_t i = 0; i < *count_out; i++) {
        notes |= notes_of_plan(plans[i].plan);
        engine_plan_close(&plans[i]);
    }
    graph_release(&graph);
    return notes;
}

TEST(no_engine_varies_and_in_fp32_none_rounds_its_inputs)
{
    const uint32_t varying = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC |
                             1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    const uint32_t rounding = 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    uint32_t count;
    assert_int_equal(notes_found(true, &count) & (varying | rounding), 0);
    assert_true(count >= 1 && count <= ENGINE_PLANS_MAX);
    const uint32_t tf32 = notes_found(false, &count);
    assert_int_equal(tf32 & varying, 0);
    assert_int_not_equal(tf32 & rounding, 0);
    assert_int_equal(count, ENGINE_PLANS_MAX);
}

TEST(unsupported_shapes_are_refused_once_with_the_reason)
{
    const struct conv_planner planner = planner_for(SM_75);
    struct conv_shape shape = any_shape();
    shape.precision = PRECISION_BF16;       /* newer than the device */
    for (int quiet = 0; quiet < 2; quiet++) {
        struct conv_plan *plan = NULL;
        char text[2048];
        const int rc = CAPTURE(text, conv_plan_open(&plan, &planner, &shape, quiet != 0));
        assert_int_equal(rc, -ENOTSUP);
        assert_null(plan);
        if (quiet) {
            assert_string_equal(text, "");
        } else {
            assert_non_null(strstr(text, "sm_75: cuDNN has no engine for bf16 forward"));
            assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        }
    }
}

TEST(planning_for_no_device_is_an_error)
{
    const struct conv_planner planner = { .name = "nowhere", .workspace_max = WORKSPACE_MAX };
    const struct conv_shape shape = any_shape();
    struct conv_plan *plan = NULL;
    char text[512];
    const int rc = CAPTURE(text, conv_plan_open(&plan, &planner, &shape, true));
    assert_int_equal(rc, -EINVAL);
    assert_null(plan);
    assert_string_equal(text, "pipetrain: nowhere: no device to plan a convolution for\n");
}

TEST(an_error_of_cudnn_is_logged_once_and_returned)
{
    static const struct { cudnnStatus_t status; int error; bool refused; } rows[] = {
        { CUDNN_STATUS_SUCCESS, 0, false },
        { CUDNN_STATUS_NOT_SUPPORTED_SHAPE, -ENOTSUP, true },
        { CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, -EINVAL, true },
        { CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED, -EIO, true },
        { CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH, -ENODEV, true },
        { CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED, -ENODEV, false },
        { CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, -ENOMEM, false },
        { CUDNN_STATUS_EXECUTION_FAILED_CUDART, -EIO, false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct cudnn_refusal refusal = { "" };
        char checked[1024], tried[1024];
        const int check = CAPTURE(checked, cudnn_check(rows[i].status, "cuda7", "cudnnCall(x)"));
        const int attempt = CAPTURE(tried, cudnn_try(rows[i].status, "cuda7", "cudnnCall(x)", &refusal));
        assert_int_equal(check, rows[i].error);
        assert_int_equal(strncmp(checked, "pipetrain: cuda7: cudnnCall(x): CUDNN_STATUS", 44) == 0, check != 0);
        assert_int_equal(attempt, rows[i].refused ? -ENOTSUP : rows[i].error);
        assert_string_equal(tried, rows[i].refused ? "" : checked);
        assert_int_equal(*refusal.text != '\0', rows[i].refused);
    }
}

TEST(a_shape_that_does_not_fit_is_refused)
{
    const struct conv_planner planner = planner_for(SM_90);
    struct conv_shape shape = any_shape();
    struct conv_plan *plan = NULL;
    shape.out_h += 1;
    assert_int_equal(conv_plan_open(&plan, &planner, &shape, true), -ENOTSUP);
    assert_null(plan);
}

TEST(the_tensors_of_a_shape_are_aligned_one_by_one)
{
    struct conv_shape shape = square(WGRAD, PRECISION_FP16, 8, 3, 8, 3, 1, 0, 0);
    shape.count = 1;
    /* 3x3x8 pixels, 8x3x3x8 weights, 8 results, of 2 bytes. */
    assert_int_equal(conv_shape_bytes(&shape), 256 + 1280 + 256);
    shape = square(FPROP, PRECISION_FP32, 8, 3, 8, 3, 1, 0, 0);
    shape.count = 1;
    assert_int_equal(conv_shape_bytes(&shape), 512 + 2304 + 256 + 256);
}

/* Was the plan in the cache? */
static bool is_cached(const struct conv_planner *planner, const struct conv_shape *shape)
{
    return strstr(planned(planner, shape), ", cached") != NULL;
}

TEST_WITH(a_cached_plan_is_the_plan_that_was_made, fixture_folder_make, fixture_folder_remove)
{
    struct conv_planner planner = planner_for(SM_90);
    planner.cache = folder;
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            const struct conv_shape shape = square(pass, precision, 64, 56, 128, 3, 2, 0, 1);
            char first[128];
            strcpy(first, planned(&planner, &shape));
            const char *const second = planned(&planner, &shape);
            assert_null(strstr(first, ", cached"));
            assert_memory_equal(first, second, strlen(first));
            assert_string_equal(second + strlen(first), ", cached");
        }
    assert_int_equal(fixture_each_file(folder, NULL), PRODUCT_PASS_COUNT * PRECISION_COUNT);
}

TEST_WITH(plans_of_other_conditions_are_cached_separately, fixture_folder_make, fixture_folder_remove)
{
    struct conv_planner planner = planner_for(SM_90), other = planner, small = planner;
    planner.cache = other.cache = small.cache = folder;
    other.properties = described_devices[SM_80];
    small.workspace_max = 0;
    const struct conv_shape shape = square(FPROP, PRECISION_FP16, 32, 25, 64, 3, 2, 0, 0);
    struct conv_shape padded = shape;
    padded.pad_bottom = 1;      /* no space for another row of windows */
    struct conv_shape plain = shape;
    plain.relu = false;
    assert_false(is_cached(&planner, &shape));
    assert_false(is_cached(&other, &shape));
    assert_false(is_cached(&small, &shape));
    assert_false(is_cached(&planner, &padded));
    assert_false(is_cached(&planner, &plain));
    assert_true(is_cached(&planner, &shape));
    assert_true(is_cached(&other, &shape));
}

/* The bytes of the cache's only file. */
static uint8_t *held;
static size_t held_bytes;

static int file_overwrite(const char *path)
{
    fixture_write(path, held, held_bytes);
    return 0;
}

static int file_hold(const char *path)
{
    held = fixture_read(path, &held_bytes);
    return 0;
}

TEST_WITH(a_damaged_cache_file_is_replaced, fixture_folder_make, fixture_folder_remove)
{
    struct conv_planner planner = planner_for(SM_90);
    planner.cache = folder;
    const struct conv_shape shape = any_shape();
    assert_false(is_cached(&planner, &shape));
    assert_int_equal(fixture_each_file(folder, file_hold), 1);
    const size_t whole = held_bytes;
    for (size_t at = 0; at < whole; at += 1 + whole / (test_is_long() ? 40 : 8)) {
        held[at] ^= 4;
        fixture_each_file(folder, file_overwrite);
        held[at] ^= 4;
        assert_false(is_cached(&planner, &shape));
        held_bytes = at;
        fixture_each_file(folder, file_overwrite);
        held_bytes = whole;
        assert_false(is_cached(&planner, &shape));
        assert_true(is_cached(&planner, &shape));
    }
    assert_int_equal(fixture_each_file(folder, NULL), 1);
    free(held);
}

TEST(an_unwritable_cache_is_logged_and_no_error)
{
    struct conv_planner planner = planner_for(SM_90);
    planner.cache = "/nowhere/at/all";
    const struct conv_shape shape = any_shape();
    char text[512];
    const bool cached = CAPTURE(text, is_cached(&planner, &shape));
    assert_false(cached);
    assert_non_null(strstr(text, "not kept in /nowhere/at/all: No such file"));
}

int main(void)
{
    if (!described_devices_open()) {
        fprintf(stderr, "cuDNN cannot plan here\n");
        return 77;
    }
    const int failed = tests_run(NULL, NULL);
    described_devices_close();
    return failed;
}
