/* Tests of the simulated cuDNN: it computes the graph, and its results show when an engine was chosen that must not be.
 * Inputs have so few bits that sums are exact in any order, so results are compared bit by bit with a plain loop. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/sim/check/sim_cudnn_fixture.h"

#define GUARD 256

static const int64_t exact[] = { SIM_ENGINE_PLAIN, SIM_ENGINE_COMPILED, SIM_ENGINE_TILED, SIM_ENGINE_REVERSED };

BENCH_TEST(every_pass_is_the_plain_sum_rounded_once)
{
    for (size_t i = 0; i < SHAPES; i++)
        for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++)
            for (size_t type = 0; type < TYPES; type++)
                for (size_t engine = 0; engine < sizeof(exact) / sizeof(*exact); engine++) {
                    const struct wish wish = wish_for(&shapes[i], pass, precisions[type]);
                    assert_int_equal(errors_of(*state, &wish, exact[engine], false, false), 0);
                }
}

/* Move the channels of a tensor of floats outermost, or back innermost. */
static void move_channels(const struct bench *bench, const struct tensor *tensor, bool outermost)
{
    static float moved[MEMORY / sizeof(float)];
    float *const values = (float *)(void *)bench->memory[tensor->id];
    const size_t channels = (size_t)tensor->dims[1], pixels = (size_t)(tensor->dims[2] * tensor->dims[3]);
    const size_t count = (size_t)tensor->dims[0] * channels * pixels;
    for (size_t i = 0; i < count; i++) {
        const size_t image = i / (channels * pixels), channel = i / pixels % channels, pixel = i % pixels;
        const size_t inner = (image * pixels + pixel) * channels + channel;
        moved[outermost ? i : inner] = values[outermost ? inner : i];
    }
    memcpy(values, moved, count * sizeof(*values));
}

BENCH_TEST(layouts_are_what_the_strides_say)
{
    static const int tensors[] = { X, W, Y };
    for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++)
        for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
            struct wish wish = wish_for(&shapes[1], pass, PRECISION_FP32);
            struct tensor *const planar = &wish.tensors[tensors[i]];
            planar->planar = true;
            conv_fill(*state, &wish.shape, false);
            float *const expected = conv_expected(*state, &wish.shape, false, false);
            move_channels(*state, planar, true);
            sim_run(*state, &wish, SIM_ENGINE_TILED);
            move_channels(*state, planar, false);
            assert_int_equal(conv_wrong(*state, &wish.shape, expected), 0);
            free(expected);
        }
}

BENCH_TEST(bias_and_relu_are_added_before_rounding)
{
    for (size_t type = 0; type < TYPES; type++)
        for (int relu = 0; relu <= 1; relu++) {
            struct wish wish = wish_for(&shapes[0], FPROP, precisions[type]);
            wish.shape.bias = true;
            wish.shape.relu = relu;
            assert_int_equal(errors_of(*state, &wish, SIM_ENGINE_TILED, false, false), 0);
        }
}

BENCH_TEST(an_engine_on_tensor_cores_rounds_float_inputs_to_tf32)
{
    for (int pass = 0; pass < PRODUCT_PASS_COUNT; pass++) {
        const struct wish wish = wish_for(&shapes[3], pass, PRECISION_FP32);
        assert_int_equal(errors_of(*state, &wish, SIM_ENGINE_TENSOR, false, false), 0);
        assert_int_not_equal(errors_of(*state, &wish, SIM_ENGINE_TENSOR, true, false), 0);
        assert_int_equal(errors_of(*state, &wish, SIM_ENGINE_TENSOR, true, true), 0);
    }
    const struct wish half = wish_for(&shapes[0], FPROP, PRECISION_FP16);
    assert_int_equal(errors_of(*state, &half, SIM_ENGINE_TENSOR, false, false), 0);
}

BENCH_TEST(engines_that_must_not_be_taken_show_in_the_numbers)
{
    struct bench *bench = *state;
    for (size_t type = 0; type < TYPES; type++) {
        const struct wish wish = wish_for(&shapes[1], FPROP, precisions[type]);
        const size_t bytes = bytes_of(&wish.shape, Y);
        assert_int_not_equal(errors_of(bench, &wish, SIM_ENGINE_COARSE, false, false), 0);
        assert_int_not_equal(errors_of(bench, &wish, SIM_ENGINE_VARYING, false, false), 0);
        void *before = malloc(bytes);
        assert_non_null(before);
        memcpy(before, bench->memory[Y], bytes);
        sim_run(bench, &wish, SIM_ENGINE_VARYING);
        assert_memory_not_equal(before, bench->memory[Y], bytes);
        free(before);
    }
}

BENCH_TEST(sums_in_another_order_differ_in_the_last_bits)
{
    struct bench *bench = *state;
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    const size_t bytes = bytes_of(&wish.shape, Y);
    unsigned char before[1 << 12];
    assert_true(bytes <= sizeof(before));
    conv_fill(bench, &wish.shape, true);
    for (size_t i = 0; i < conv_count_of(&wish.shape, X); i++)
        ((float *)(void *)bench->memory[X])[i] /= 3;
    sim_run(bench, &wish, SIM_ENGINE_TILED);
    memcpy(before, bench->memory[Y], bytes);
    sim_run(bench, &wish, SIM_ENGINE_TILED);
    assert_memory_equal(before, bench->memory[Y], bytes);
    sim_run(bench, &wish, SIM_ENGINE_REVERSED);
    assert_memory_not_equal(before, bench->memory[Y], bytes);
}

BENCH_TEST(the_whole_workspace_is_overwritten_and_nothing_behind_it)
{
    struct bench *bench = *state;
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[1], FPROP, PRECISION_FP32);
    part plan = plan_new(&parts, bench, &wish, SIM_ENGINE_TILED);
    const size_t bytes = (size_t)workspace_of(plan);
    assert_true(bytes > 0);
    memset(bench->workspace, 1, bytes + GUARD);
    conv_fill(bench, &wish.shape, false);
    sim_run(bench, &wish, SIM_ENGINE_TILED);
    for (size_t i = 0; i < bytes + GUARD; i++)
        assert_int_equal(bench->workspace[i], i < bytes ? 0xff : 1);
    parts_free(&parts);
}

/* ---- variant packs and running ---- */

struct binding { int64_t ids[3]; void *pointers[3], *workspace; };

static struct binding binding_of(const struct bench *bench)
{
    return (struct binding){ { X, W, Y }, { bench->memory[X], bench->memory[W], bench->memory[Y] }, bench->workspace };
}

static cudnnStatus_t execute_status(const struct bench *bench, const struct binding *binding)
{
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    part plan = plan_new(&parts, bench, &wish, SIM_ENGINE_TILED);
    part pack = keep(&parts, part_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, binding->ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, binding->pointers);
    set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &binding->workspace);
    assert_int_equal(cudnnBackendExecute(bench->handle, plan, pack), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    cudnnStatus_t status = cudnnBackendFinalize(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(bench->handle, plan, pack);
    parts_free(&parts);
    return status;
}

BENCH_TEST(every_tensor_wants_an_aligned_pointer_and_the_plan_its_workspace)
{
    struct bench *bench = *state;
    struct binding binding = binding_of(bench);
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    conv_fill(bench, &wish.shape, false);
    assert_cudnn(execute_status(bench, &binding));
    binding.ids[1] = 77;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM);
    binding.ids[1] = X;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    binding = binding_of(bench);
    binding.pointers[2] = NULL;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    binding.pointers[2] = bench->memory[Y] + 8;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    binding = binding_of(bench);
    binding.workspace = NULL;
    assert_int_equal(execute_status(bench, &binding), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

BENCH_TEST(packs_want_as_many_pointers_as_ids)
{
    const int64_t ids[2] = { 1, 2 };
    void *pointers[1] = { NULL };
    part pack = part_new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 2, ids);
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, pointers);
    assert_int_equal(cudnnBackendFinalize(pack), CUDNN_STATUS_BAD_PARAM);
    part_free(pack);
}

/* Does executing with these pointers end the program? */
static bool is_fatal(const struct bench *bench, const struct binding *binding)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(STDERR_FILENO);
        _exit(execute_status(bench, binding) == CUDNN_STATUS_SUCCESS ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

BENCH_TEST(memory_that_overlaps_or_is_not_the_devices_ends_the_test)
{
    struct bench *bench = *state;
    static unsigned char host[1 << 16] __attribute__((aligned(256)));
    struct binding binding = binding_of(bench);
    assert_false(is_fatal(bench, &binding));
    binding.pointers[2] = bench->memory[X] + 64;
    assert_true(is_fatal(bench, &binding));
    binding = binding_of(bench);
    binding.workspace = bench->memory[W] + 16;
    assert_true(is_fatal(bench, &binding));
    binding = binding_of(bench);
    binding.pointers[0] = host;
    assert_true(is_fatal(bench, &binding));
    binding.pointers[0] = bench->memory[X] + MEMORY - 64;
    assert_true(is_fatal(bench, &binding));
}

BENCH_TEST(a_recorded_plan_runs_with_every_launch)
{
    struct bench *bench = *state;
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP32);
    part plan = plan_new(&parts, bench, &wish, SIM_ENGINE_TILED), pack = pack_new(&parts, bench);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    assert_cuda(cudaStreamBeginCapture(bench->stream, cudaStreamCaptureModeThreadLocal));
    assert_cudnn(cudnnBackendExecute(bench->handle, plan, pack));
    assert_cuda(cudaStreamEndCapture(bench->stream, &graph));
    assert_cuda(cudaGraphInstantiate(&executable, graph, 0));
    parts_free(&parts);
    for (int i = 0; i < 2; i++) {
        conv_fill(bench, &wish.shape, false);
        float *const expected = conv_expected(bench, &wish.shape, false, false);
        assert_cuda(cudaGraphLaunch(executable, bench->stream));
        assert_cuda(cudaStreamSynchronize(bench->stream));
        assert_int_equal(conv_wrong(bench, &wish.shape, expected), 0);
        free(expected);
    }
    assert_cuda(cudaGraphExecDestroy(executable));
    assert_cuda(cudaGraphDestroy(graph));
}

BENCH_TEST(streams_are_of_the_handles_device)
{
    struct bench *bench = *state;
    cudaStream_t other, got = NULL;
    assert_cuda(cudaSetDevice(1));
    assert_cuda(cudaStreamCreateWithPriority(&other, cudaStreamNonBlocking, 0));
    assert_cuda(cudaSetDevice(0));
    assert_int_equal(cudnnSetStream(bench->handle, other), CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
    assert_cudnn(cudnnGetStream(bench->handle, &got));
    assert_ptr_equal(got, bench->stream);
    assert_cuda(cudaStreamDestroy(other));
}

/* ---- plans as text ---- */

static char *text_of(part from, cudnnBackendAttributeName_t name, int64_t *count)
{
    assert_cudnn(cudnnBackendGetAttribute(from, name, CUDNN_TYPE_CHAR, 0, count, NULL));
    char *text = malloc((size_t)*count);
    assert_non_null(text);
    assert_int_equal(cudnnBackendGetAttribute(from, name, CUDNN_TYPE_CHAR, *count - 1, NULL, text),
                     CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    assert_cudnn(cudnnBackendGetAttribute(from, name, CUDNN_TYPE_CHAR, *count, count, text));
    return text;
}

static cudnnStatus_t plan_of_text(const struct bench *bench, const char *text, int64_t count, part *plan_out)
{
    struct parts parts = { .count = 0 };
    part plan = plan_start(&parts, bench, NULL);
    set(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, count, text);
    const cudnnStatus_t status = cudnnBackendFinalize(plan);
    if (status == CUDNN_STATUS_SUCCESS && plan_out != NULL)
        *plan_out = plan;
    else
        parts_free(&parts);
    return status;
}

BENCH_TEST(a_plan_comes_back_from_its_text)
{
    struct bench *bench = *state;
    struct parts parts = { .count = 0 };
    struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP16);
    part again = NULL, config = keep(&parts, part_new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    part engine = keep(&parts, part_new(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
    int64_t count = 0;
    part plan = plan_new(&parts, bench, &wish, SIM_ENGINE_REVERSED);
    char *text = text_of(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, &count);
    assert_cudnn(plan_of_text(bench, text, count, &again));
    free(text);
    assert_int_equal(workspace_of(again), workspace_of(plan));
    assert_cudnn(cudnnBackendGetAttribute(again, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                          1, NULL, &config));
    assert_cudnn(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, NULL,
                                          &engine));
    assert_int_equal(index_of(engine), SIM_ENGINE_REVERSED);
    conv_fill(bench, &wish.shape, false);
    float *const expected = conv_expected(bench, &wish.shape, false, false);
    assert_cudnn(cudnnBackendExecute(bench->handle, again, pack_new(&parts, bench)));
    assert_cuda(cudaStreamSynchronize(bench->stream));
    assert_int_equal(conv_wrong(bench, &wish.shape, expected), 0);
    free(expected);
    part_free(again);
    parts_free(&parts);
}

BENCH_TEST(a_damaged_text_is_no_plan)
{
    struct parts parts = { .count = 0 };
    const struct wish wish = wish_for(&shapes[0], FPROP, PRECISION_FP16);
    int64_t count = 0;
    char *text = text_of(plan_new(&parts, *state, &wish, SIM_ENGINE_REVERSED),
                         CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, &count);
    for (int64_t i = 0; i < count; i += 37) {
        const char kept = text[i];
        text[i] = kept == '1' ? '2' : '1';
        assert_int_not_equal(plan_of_text(*state, text, count, NULL), CUDNN_STATUS_SUCCESS);
        text[i] = kept;
    }
    assert_int_not_equal(plan_of_text(*state, text, count - 1, NULL), CUDNN_STATUS_SUCCESS);
    assert_int_not_equal(plan_of_text(*state, text, count / 2, NULL), CUDNN_STATUS_SUCCESS);
    assert_cudnn(plan_of_text(*state, text, count, NULL));
    free(text);
    parts_free(&parts);
}

TESTS_MAIN(NULL, NULL)
