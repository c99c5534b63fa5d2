/* Tests of the CUDA backend's steps on the simulated CUDA: segments and graphs, forbidden calls, skipped fp16 steps,
 * and descriptions. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/kernels.h"
#include "tests/cuda/backend_cuda_fixture.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"
#include "tests/sim/sim_cudnn.h"

/* With steps queued in one way. */
static void open_fixture(struct network *fixture, const struct net *net, enum precision precision, enum graph_use use)
{
    struct backend_spec spec = cuda_fixture_spec(net, precision);
    spec.graph = use;
    cuda_fixture_open_with(fixture, "cuda", &spec, false);
}

/* ---- fp16 ---- */

TEST(an_fp16_step_with_an_overflow_is_skipped)
{
    struct network fixture;
    cuda_fixture_open_own(&fixture, small_net(0), PRECISION_FP16);
    cuda_fixture_run(&fixture, SAMPLES, true);
    float *before = cuda_fixture_read(&fixture, fixture.weights, 2);
    const float overflow = INFINITY;
    device_memory_write(fixture.compute, fixture.gradients + network_offset(&fixture, 1), &overflow,
                        sizeof(overflow));
    cuda_fixture_update(&fixture, OPTIMIZER_SGD, NULL);
    float *after = cuda_fixture_read(&fixture, fixture.weights, 2);
    assert_memory_equal(after, before, fixture.net->parameters[2].count * sizeof(*after));
    const struct backend_result next = cuda_fixture_run(&fixture, SAMPLES, true);
    assert_float_equal(next.loss_scale, LOSS_SCALE_FIRST / 2, 0);
    assert_int_equal(next.skipped_steps, 1);
    cuda_fixture_update(&fixture, OPTIMIZER_SGD, NULL);
    after = cuda_fixture_read(&fixture, fixture.weights, 2);
    assert_memory_not_equal(after, before, fixture.net->parameters[2].count * sizeof(*after));
    assert_int_equal(cuda_fixture_run(&fixture, SAMPLES, true).skipped_steps, 1);
    cuda_fixture_close(&fixture);
}

/* ---- segments and recorded steps ---- */

/* Make the plans, then end segments of backward at these layers. Returns what segment() returns. */
static int plan_segments(struct network *fixture, uint32_t first, uint32_t second)
{
    network_plan(fixture, SAMPLES, true);
    network_plan(fixture, 5, true);
    network_plan(fixture, SAMPLES, false);
    bool *ends = cuda_fixture_ends(fixture->net, first, second);
    const int rc = fixture->ops->segment(fixture->backend, ends);
    free(ends);
    return rc;
}

static void assert_done(const struct network *fixture, const uint32_t *layers, uint32_t count)
{
    assert_int_equal(fixture->done_count, count);
    assert_memory_equal(fixture->done, layers, count * sizeof(*layers));
}

TEST(backward_reports_the_ends_of_segments)
{
    static const enum graph_use uses[] = { GRAPH_OFF, GRAPH_ON };
    static const uint32_t all[] = { 8, 6, 2, 0 }, some[] = { 6, 0 };
    struct net *net = small_net(0);
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        struct network fixture;
        open_fixture(&fixture, net, PRECISION_FP32, uses[i]);
        cuda_fixture_run(&fixture, SAMPLES, true);
        assert_done(&fixture, all, 4);
        assert_int_equal(plan_segments(&fixture, 6, 0), 0);
        sim_calls_clear();
        cuda_fixture_run(&fixture, SAMPLES, true);
        assert_done(&fixture, some, 2);
        assert_in_range(sim_calls("cudaGraphLaunch"), uses[i] == GRAPH_ON, uses[i] == GRAPH_ON ? 3 : 0);
        cuda_fixture_close(&fixture);
    }
    net_close(net);
}

/* The gradients that are final after each layer of the last backward, copied at that time. */
struct prefixes {
    struct network *fixture;
    float *copies[NET_LAYERS_MAX];
    size_t ready[NET_LAYERS_MAX];
    uint32_t count;
};

static void copy_prefix(void *arg, uint32_t layer)
{
    struct prefixes *prefixes = arg;
    struct network *fixture = prefixes->fixture;
    const size_t ready = arena_ready(&fixture->arenas.trained, fixture->net, layer);
    void *copy;
    assert_int_equal(fixture->device->ops->alloc_pinned(fixture->device, ready * sizeof(float), &copy), 0);
    assert_int_equal(fixture->device->ops->copy(fixture->compute, copy, fixture->gradients, ready * sizeof(float),
                                            COPY_FROM_DEVICE),
                     0);
    prefixes->copies[prefixes->count] = copy;
    prefixes->ready[prefixes->count++] = ready;
}

TEST(gradients_are_final_when_their_layer_is_reported)
{
    struct net *net = small_net(0);
    struct network fixture;
    open_fixture(&fixture, net, PRECISION_BF16, GRAPH_ON);
    assert_int_equal(plan_segments(&fixture, 6, 0), 0);
    cuda_fixture_run(&fixture, 5, true);
    const struct backend_input input = { .pixels = fixture.pixels, .labels = fixture.labels };
    struct plan *plan = network_plan(&fixture, SAMPLES, true);
    struct prefixes prefixes = { .fixture = &fixture };
    assert_int_equal(fixture.ops->input(plan, &input), 0);
    assert_int_equal(fixture.ops->forward(plan), 0);
    assert_int_equal(fixture.ops->backward(plan, copy_prefix, &prefixes), 0);
    device_memory_wait(fixture.compute);
    assert_int_equal(prefixes.count, 2);
    assert_int_equal(prefixes.ready[1], fixture.arenas.trained.count);
    assert_memory_equal(prefixes.copies[0], prefixes.copies[1], prefixes.ready[0] * sizeof(float));
    for (uint32_t i = 0; i < prefixes.count; i++)
        fixture.device->ops->free_pinned(fixture.device, prefixes.copies[i]);
    cuda_fixture_close(&fixture);
    net_close(net);
}

/* Weights, statistics and loss after three steps with different counts of samples. */
static float *numbers_after_steps(const struct backend_spec *spec, size_t *bytes_out)
{
    static const uint32_t counts[] = { SAMPLES, 5, SAMPLES };
    struct network fixture;
    cuda_fixture_open_with(&fixture, "cuda", spec, false);
    assert_int_equal(plan_segments(&fixture, 6, 0), 0);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        cuda_fixture_run(&fixture, counts[i], true);
        cuda_fixture_update(&fixture, OPTIMIZER_SGD, NULL);
    }
    cuda_fixture_run(&fixture, SAMPLES, false);
    const size_t trained = fixture.arenas.trained.count, statistics = fixture.arenas.statistics.count;
    float *const numbers = malloc((trained + statistics + 1) * sizeof(*numbers));
    assert_non_null(numbers);
    device_memory_read(fixture.compute, numbers, fixture.weights, trained * sizeof(*numbers));
    device_memory_read(fixture.compute, numbers + trained, fixture.statistics, statistics * sizeof(*numbers));
    numbers[trained + statistics] = (float)fixture.result->loss_sum;
    assert_true(isfinite(fixture.result->loss_sum));
    *bytes_out = (trained + statistics + 1) * sizeof(*numbers);
    cuda_fixture_close(&fixture);
    return numbers;
}

/* Under a sanitizer, of two ways to run the same steps one does, the other in the next precision. */
static bool is_left_out(uint32_t number)
{
    return test_is_sanitized() && !test_is_long() && number % 2 == 0;
}

static void check_same_bits(const struct net *net, enum precision precision)
{
    struct backend_spec spec = cuda_fixture_spec(net, precision);
    size_t bytes, other_bytes;
    float *const queued = numbers_after_steps(&spec, &bytes);
    for (uint32_t poison = 0; poison < 2; poison++)
        for (uint32_t use = GRAPH_ON; use <= GRAPH_OFF; use++) {
            if (is_left_out(use + poison + (uint32_t)precision))
                continue;
            spec.poison = poison != 0;
            spec.graph = (enum graph_use)use;
            float *const other = numbers_after_steps(&spec, &other_bytes);
            assert_int_equal(other_bytes, bytes);
            assert_memory_equal(other, queued, bytes);
            free(other);
        }
    free(queued);
}

/* The content of unused memory does not matter either. */
TEST(graphs_give_the_same_bits)
{
    struct net *const nets[] = { small_net(0.5f), residual_net() };
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++)
            check_same_bits(nets[i], (enum precision)precision);
        net_close(nets[i]);
    }
}

/* ---- statistics by convolutions ---- */

/* Relative distance of the numbers after some steps with fused statistics from those with exact ones. */
static double distance_by_statistics(const struct backend_spec *exact)
{
    struct backend_spec fused = *exact;
    double difference = 0, norm = 0;
    size_t bytes, other_bytes;
    fused.batch_statistics = BATCH_STATISTICS_FUSED;
    float *const one = numbers_after_steps(exact, &bytes), *const other = numbers_after_steps(&fused, &other_bytes);
    assert_int_equal(other_bytes, bytes);
    for (size_t i = 0; i < bytes / sizeof(*one); i++) {
        difference += pow((double)(other[i] - one[i]), 2);
        norm += pow((double)one[i], 2);
    }
    free(one);
    free(other);
    return sqrt(difference / norm);
}

/* Also where statistics of a block's values are reused, in recorded steps, and for a last batch of another size. */
TEST(fused_statistics_train_like_exact_ones)
{
    struct net *const nets[] = { residual_net(), dense_block_net() };
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        for (enum precision precision = PRECISION_BF16; precision <= PRECISION_FP16; precision++) {
            struct backend_spec spec = cuda_fixture_spec(nets[i], precision);
            const double roundoff = precision == PRECISION_BF16 ? 0x1p-9 : 0x1p-12;
            spec.poison = true;
            for (uint32_t use = GRAPH_ON; use <= GRAPH_OFF; use++) {
                if (is_left_out(use + (uint32_t)precision))
                    continue;
                spec.graph = (enum graph_use)use;
                const double distance = distance_by_statistics(&spec);
                assert_true(distance > 0 && distance < 4 * roundoff);
            }
        }
        net_close(nets[i]);
    }
}

TEST(statistics_are_exact_where_cudnn_does_not_fuse_them)
{
    struct net *const net = residual_net();
    sim_cudnn_refuse(SIM_CUDNN_FUSION);
    for (enum precision precision = PRECISION_BF16; precision <= PRECISION_FP16; precision++) {
        const struct backend_spec spec = cuda_fixture_spec(net, precision);
        assert_true(distance_by_statistics(&spec) <= 0);
    }
    sim_cudnn_refuse(0);
    net_close(net);
}

/* Bytes of values of a plan for training in fp16. */
static size_t value_bytes_of(const struct net *net, enum batch_statistics statistics, unsigned refusals)
{
    struct backend_spec spec = cuda_fixture_spec(net, PRECISION_FP16);
    struct network fixture;
    spec.batch_statistics = statistics;
    sim_cudnn_refuse(refusals);
    cuda_fixture_open_with(&fixture, "cuda", &spec, false);
    network_plan(&fixture, SAMPLES, true);
    const size_t bytes = cuda_fixture_needs(&fixture).values;
    cuda_fixture_close(&fixture);
    sim_cudnn_refuse(0);
    return bytes;
}

/* Convolutions with a normalisation and a ReLU between each two. */
static struct net *chain_net(void)
{
    static const char *const names[][3] = { { "conv1", "norm1", "relu1" }, { "conv2", "norm2", "relu2" },
                                            { "conv3", "norm3", "relu3" }, { "conv4", "norm4", "relu4" } };
    static const struct batch_norm how = { .decay = 0.9f, .epsilon = 1e-5f, .with_gamma = true };
    struct net *const net = network_net_begin("chain", (struct shape){ 8, 8, 8 }, 4);
    uint32_t last = NET_INPUT;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        last = (uint32_t)net_conv2d(net, names[i][0], last, 16, window_square(3, 1, PADDING_SAME), false);
        last = (uint32_t)net_batch_norm(net, names[i][1], last, how);
        last = (uint32_t)net_relu(net, names[i][2], last);
    }
    return network_net_end(net, last);
}

TEST(in_fp16_values_that_a_convolution_normalises_itself_are_not_stored)
{
    enum { VALUE = SAMPLES * 8 * 8 * 16 * 2, NOT_STORED = 3 };
    struct net *const net = chain_net();
    const size_t stored = value_bytes_of(net, BATCH_STATISTICS_EXACT, 0);
    const size_t fused = value_bytes_of(net, BATCH_STATISTICS_FUSED, 0);
    assert_in_range(stored - fused, (NOT_STORED - 1) * VALUE, NOT_STORED * VALUE);
    assert_true(value_bytes_of(net, BATCH_STATISTICS_FUSED, SIM_CUDNN_FUSION_ENGINES) >= stored);
    net_close(net);
}

/* Graph launches of a step. */
static uint64_t launches(const struct net *net, enum graph_use use)
{
    struct network fixture;
    open_fixture(&fixture, net, PRECISION_FP32, use);
    assert_int_equal(plan_segments(&fixture, 6, 0), 0);
    sim_calls_clear();
    cuda_fixture_run(&fixture, SAMPLES, true);
    cuda_fixture_close(&fixture);
    return sim_calls("cudaGraphLaunch");
}

TEST(small_steps_are_graphs_by_default)
{
    struct net *net = small_net(0);
    assert_in_range(launches(net, GRAPH_AUTO), 1, 3);
    net->layers[1].macs = 1ull << 40;
    assert_int_equal(launches(net, GRAPH_AUTO), 0);
    assert_in_range(launches(net, GRAPH_ON), 1, 3);
    net_close(net);
}

/* ---- weight gradients on the side stream of recorded steps ---- */

/* Waits of streams for events that segment() records. */
static uint64_t recorded_waits(const struct net *net, enum graph_use use)
{
    struct network fixture;
    open_fixture(&fixture, net, PRECISION_FP32, use);
    sim_calls_clear();
    assert_int_equal(plan_segments(&fixture, 6, 0), 0);
    const uint64_t waits = sim_calls("cudaStreamWaitEvent");
    cuda_fixture_close(&fixture);
    return waits;
}

/* Layers 2, 6 and 8 have a weight and a data gradient, and there are plans for training SAMPLES and 5 samples. Layer 1
 * stands for any other that takes long. */
TEST(only_small_weight_gradients_of_small_recorded_steps_run_beside_data_gradients)
{
    struct net *net = small_net(0);
    assert_int_equal(recorded_waits(net, GRAPH_OFF), 0);
    assert_int_equal(recorded_waits(net, GRAPH_ON), 2 * 2 * 3);
    net->layers[6].macs = 600000000 / SAMPLES + 1;
    assert_int_equal(recorded_waits(net, GRAPH_ON), 2 * (2 * 3) - 2);
    net->layers[6].macs = 1ull << 32;
    assert_int_equal(recorded_waits(net, GRAPH_ON), 2 * (2 * 3 - 2));
    net->layers[1].macs = 100000000000u / SAMPLES;
    assert_int_equal(recorded_waits(net, GRAPH_ON), 2 * 3 - 2);
    net->layers[1].macs = 1ull << 40;
    assert_int_equal(recorded_waits(net, GRAPH_ON), 0);
    net_close(net);
}

TEST(the_side_stream_has_a_workspace_of_its_own)
{
    struct net *net = small_net(0);
    struct backend_needs needs[2];
    for (uint32_t use = GRAPH_ON; use <= GRAPH_OFF; use++) {
        struct network fixture;
        open_fixture(&fixture, net, PRECISION_FP32, (enum graph_use)use);
        network_plan(&fixture, SAMPLES, true);
        needs[use - GRAPH_ON] = cuda_fixture_needs(&fixture);
        cuda_fixture_close(&fixture);
    }
    assert_true(needs[0].workspace > needs[1].workspace);
    assert_true(needs[0].values >= needs[1].values);
    assert_int_equal(needs[0].weights, needs[1].weights);
    net_close(net);
}

TEST(steps_are_queued_where_the_side_stream_cannot_be_recorded)
{
    static const char *const functions[] = { "cudaStreamWaitEvent", "cudaEventRecord" };
    struct net *net = small_net(0);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        for (uint32_t number = 1; number <= 4; number++) {
            struct network fixture;
            char text[2048];
            open_fixture(&fixture, net, PRECISION_FP32, GRAPH_AUTO);
            network_plan(&fixture, SAMPLES, true);
            network_plan(&fixture, 5, true);
            network_plan(&fixture, SAMPLES, false);
            sim_fail(functions[i], number, cudaErrorUnknown);
            const int rc = CAPTURE(text, plan_segments(&fixture, 6, 0));
            sim_fail_clear();
            assert_int_equal(rc, 0);
            assert_non_null(strstr(text, functions[i]));
            assert_non_null(strstr(text, "queued call by call"));
            sim_calls_clear();
            assert_true(isfinite(cuda_fixture_run(&fixture, SAMPLES, true).loss_sum));
            assert_int_equal(sim_calls("cudaGraphLaunch"), 0);
            cuda_fixture_close(&fixture);
        }
    net_close(net);
}

TEST(steps_are_queued_where_graphs_fail_unless_graphs_are_required)
{
    static const char *const functions[] = { "cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaGraphUpload" };
    struct net *net = small_net(0);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        for (uint32_t number = 2; number <= 3; number++) {
            struct network fixture;
            char text[2048];
            const enum graph_use use = number == 2 ? GRAPH_AUTO : GRAPH_ON;
            open_fixture(&fixture, net, PRECISION_FP32, use);
            sim_fail(functions[i], number, cudaErrorUnknown);
            const int rc = CAPTURE(text, plan_segments(&fixture, 6, 0));
            sim_fail_clear();
            assert_int_equal(rc, use == GRAPH_AUTO ? 0 : -EIO);
            assert_non_null(strstr(text, functions[i]));
            assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
            sim_calls_clear();
            cuda_fixture_run(&fixture, SAMPLES, true);
            cuda_fixture_run(&fixture, SAMPLES, false);
            assert_int_equal(sim_calls("cudaGraphLaunch"), 0);
            cuda_fixture_close(&fixture);
        }
    net_close(net);
}

/* ---- the steady state ---- */

TEST(a_step_allocates_nothing_and_waits_for_nothing)
{
    static const char *const forbidden[] = {
        "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaEventCreateWithFlags", "cudaStreamSynchronize",
        "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaStreamQuery", "cudaEventQuery", "cudaMemcpy",
        "pageable copy", "cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaStreamCreateWithPriority",
        "cudnnCreate", "cudnnBackendCreateDescriptor", "cublasLtCreate", "cublasLtMatmulDescCreate",
        "cublasLtMatmulAlgoGetHeuristic", "cudaGetLastError",
    };
    struct net *net = small_net(0.5f);
    for (uint32_t use = GRAPH_ON; use <= GRAPH_OFF; use++) {
        struct network fixture;
        open_fixture(&fixture, net, PRECISION_FP16, (enum graph_use)use);
        assert_int_equal(plan_segments(&fixture, 6, 0), 0);
        struct plan *plan = network_plan(&fixture, SAMPLES, true);
        cuda_fixture_run(&fixture, SAMPLES, true);
        sim_calls_clear();
        for (uint32_t step = 0; step < 3; step++) {
            network_queue(&fixture, plan);
            cuda_fixture_update(&fixture, OPTIMIZER_SGD, NULL);
        }
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
            if (sim_calls(forbidden[i]) > 0)
                fail_msg("%s was called %u times", forbidden[i], (unsigned)sim_calls(forbidden[i]));
        assert_at_most(sim_calls("cudaMemcpyAsync"), 3);
        device_memory_wait(fixture.compute);
        cuda_fixture_close(&fixture);
    }
    net_close(net);
}

/* Three equal convolutions. */
static struct net *triplets(void)
{
    struct net *const net = network_net_begin("triplets", (struct shape){ 8, 6, 6 }, 4);
    net_conv2d(net, "conv1", NET_INPUT, 8, window_square(3, 1, PADDING_SAME), true);
    net_conv2d(net, "conv2", 0, 8, window_square(3, 1, PADDING_SAME), true);
    net_conv2d(net, "conv3", 1, 8, window_square(3, 1, PADDING_SAME), true);
    return network_net_end(net, 2);
}

/* They share descriptors within a step and between training and evaluation. */
TEST(equal_convolutions_share_descriptors)
{
    struct network fixture;
    cuda_fixture_open_own(&fixture, triplets(), PRECISION_FP16);
    network_plan(&fixture, SAMPLES, true);
    network_plan(&fixture, SAMPLES, false);
    for (uint32_t step = 0; step < 3; step++) {
        cuda_fixture_run(&fixture, SAMPLES, true);
        cuda_fixture_update(&fixture, OPTIMIZER_SGD, NULL);
        cuda_fixture_run(&fixture, SAMPLES, false);
        if (step == 0)
            sim_calls_clear();
    }
    assert_in_range(sim_calls("cudnnBackendExecute"), 1, 2 * (3 + 3 + 2 + 3));
    assert_int_equal(sim_calls("cudnnBackendCreateDescriptor"), 0);
    cuda_fixture_close(&fixture);
}

/* Libraries load code at its first use, so this happens before the first step. */
TEST(allocate_runs_a_plan_once)
{
    static const char *const functions[] = { "cudnnBackendExecute", "cublasLtMatmul", "cudaLaunchKernelEx" };
    uint64_t calls[sizeof(functions) / sizeof(functions[0])];
    struct network fixture;
    cuda_fixture_open_own(&fixture, small_net(0.5f), PRECISION_FP16);
    network_plan(&fixture, SAMPLES, true);
    float *before = cuda_fixture_read(&fixture, fixture.weights, 2);
    sim_calls_clear();
    network_plan(&fixture, 5, true);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        calls[i] = sim_calls(functions[i]);
    sim_calls_clear();
    assert_float_equal(cuda_fixture_run(&fixture, 5, true).loss_scale, LOSS_SCALE_FIRST, 0);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        assert_true(calls[i] > 0);
        assert_int_equal(calls[i], sim_calls(functions[i]));
    }
    float *after = cuda_fixture_read(&fixture, fixture.weights, 2);
    assert_memory_equal(after, before, fixture.net->parameters[2].count * sizeof(*after));
    cuda_fixture_close(&fixture);
}

TEST(the_first_run_keeps_statistics)
{
    struct network fixture;
    cuda_fixture_open_own(&fixture, residual_net(), PRECISION_BF16);
    const size_t bytes = fixture.arenas.statistics.count * sizeof(float);
    float *const before = malloc(bytes), *const after = malloc(bytes);
    assert_true(before != NULL && after != NULL);
    device_memory_read(fixture.compute, before, fixture.statistics, bytes);
    network_plan(&fixture, SAMPLES, true);
    device_memory_read(fixture.compute, after, fixture.statistics, bytes);
    assert_memory_equal(after, before, bytes);
    cuda_fixture_run(&fixture, SAMPLES, false);
    device_memory_read(fixture.compute, after, fixture.statistics, bytes);
    assert_memory_equal(after, before, bytes);
    cuda_fixture_run(&fixture, SAMPLES, true);
    device_memory_read(fixture.compute, after, fixture.statistics, bytes);
    assert_memory_not_equal(after, before, bytes);
    free(before);
    free(after);
    cuda_fixture_close(&fixture);
}

/* ---- descriptions ---- */

struct lines {
    char text[32][768];
    uint32_t count;
};

static void keep_line(void *arg, const char *line)
{
    struct lines *lines = arg;
    snprintf(lines->text[lines->count++], sizeof(lines->text[0]), "%s", line);
}

TEST(describes_every_layer_and_how_steps_are_queued)
{
    static struct lines lines;
    struct net *net = small_net(0);
    struct network fixture;
    open_fixture(&fixture, net, PRECISION_FP32, GRAPH_ON);
    assert_int_equal(plan_segments(&fixture, 6, 0), 0);
    fixture.ops->plan_describe(network_plan(&fixture, SAMPLES, true), keep_line, &lines);
    assert_int_equal(lines.count, net->layer_count + 1);
    for (uint32_t i = 0; i < net->layer_count; i++)
        assert_memory_equal(lines.text[i], net->layers[i].name, strlen(net->layers[i].name));
    assert_non_null(strstr(lines.text[0], "forward engine"));
    assert_non_null(strstr(lines.text[0], "weight gradient engine"));
    assert_null(strstr(lines.text[0], "data gradient"));
    assert_non_null(strstr(lines.text[2], "data gradient engine"));
    assert_non_null(strstr(lines.text[1], "in conv1"));
    assert_non_null(strstr(lines.text[net->layer_count], "backward as 2, 3 weight gradients beside data gradients"));
    cuda_fixture_close(&fixture);
    net_close(net);
}

/* Lines of the description of a plan, by layer. */
struct described { uint32_t layer; const char *line; };

static void check_description(struct net *net, bool training, const struct described *rows, size_t count)
{
    static struct lines lines;
    struct network fixture;
    lines.count = 0;
    cuda_fixture_open_own(&fixture, net, PRECISION_FP32);
    fixture.ops->plan_describe(network_plan(&fixture, SAMPLES, training), keep_line, &lines);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(lines.text[rows[i].layer], rows[i].line);
    cuda_fixture_close(&fixture);
}

TEST(describes_fused_layers)
{
    static const struct described rows[] = {
        { 2, "relu1: in norm1" }, { 8, "sum1: in norm3" }, { 9, "relu3: in norm3" }, { 10, "shortcut: own kernel" },
        { 13, "sum2: in norm4" },
    };
    check_description(residual_net(), true, rows, sizeof(rows) / sizeof(rows[0]));
}

/* In evaluation cuDNN applies a convolution's ReLU, except after a sum. */
TEST(describes_layers_folded_into_convolutions)
{
    static const struct described rows[] = {
        { 1, "norm1: in conv1" }, { 2, "relu1: in conv1" }, { 4, "norm2: in shortcut" }, { 6, "norm3: in conv2" },
        { 7, "sum1: in conv2" }, { 8, "relu2: in conv2" }, { 10, "norm4: in conv3" }, { 11, "sum2: in conv3" },
    };
    check_description(folded_net(), false, rows, sizeof(rows) / sizeof(rows[0]));
}

int main(void)
{
    sim_setup(2, FIXTURE_DEVICE_BYTES);
    return tests_run(NULL, NULL);
}
