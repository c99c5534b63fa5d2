/* Tests of the CUDA backend's steps on the simulated CUDA: segments and recorded steps, what
 * a step may not do, fp16 steps that are left out, and what is told of all this. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/cuda/kernels.h"
#include "tests/cuda/backend_cuda_rig.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/test.h"

/* ---- fp16 ---- */

TEST(an_fp16_step_whose_gradients_overflow_is_left_out)
{
    float *const no_states[OPTIMIZER_STATES_MAX] = { NULL, NULL };
    struct net *net = rig_net(0);
    struct rig rig;
    cuda_rig_open(&rig, "cuda", net, PRECISION_FP16);
    cuda_rig_run(&rig, SAMPLES, true);
    float *before = rig_read(&rig, rig.weights, 2);
    const float overflow = INFINITY;
    device_memory_write(rig.compute, rig.gradients + rig_offset(&rig, 1), &overflow, sizeof(overflow));
    rig_update(&rig, OPTIMIZER_SGD, no_states);
    float *after = rig_read(&rig, rig.weights, 2);
    assert_memory_equal(after, before, net->parameters[2].count * sizeof(*after));
    free(after);
    const struct backend_result next = cuda_rig_run(&rig, SAMPLES, true);
    assert_float_equal(next.loss_scale, LOSS_SCALE_FIRST / 2, 0);
    assert_int_equal(next.skipped_steps, 1);
    rig_update(&rig, OPTIMIZER_SGD, no_states);
    after = rig_read(&rig, rig.weights, 2);
    assert_memory_not_equal(after, before, net->parameters[2].count * sizeof(*after));
    assert_int_equal(cuda_rig_run(&rig, SAMPLES, true).skipped_steps, 1);
    free(before);
    free(after);
    cuda_rig_close(&rig);
    net_close(net);
}

/* ---- segments and recorded steps ---- */

/* Make the plans, then cut backward at these layers. 0 or what segment() returned. */
static int cut(struct rig *rig, uint32_t first, uint32_t second)
{
    rig_plan(rig, SAMPLES, true);
    rig_plan(rig, 5, true);
    rig_plan(rig, SAMPLES, false);
    bool *ends = rig_ends(rig->net, first, second);
    const int rc = rig->ops->segment(rig->backend, ends);
    free(ends);
    return rc;
}

static void assert_done(const struct rig *rig, const uint32_t *layers, uint32_t count)
{
    assert_int_equal(rig->done_count, count);
    assert_memory_equal(rig->done, layers, count * sizeof(*layers));
}

TEST(tells_of_the_layers_that_are_asked_for)
{
    static const enum graph_use uses[] = { GRAPH_OFF, GRAPH_ON };
    static const uint32_t all[] = { 8, 6, 2, 0 }, some[] = { 6, 0 };
    struct net *net = rig_net(0);
    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
        struct rig rig;
        struct backend_spec spec = rig_spec(net, PRECISION_FP32);
        spec.graph = uses[i];
        rig_open_with(&rig, "cuda", &spec, false);
        cuda_rig_run(&rig, SAMPLES, true);
        assert_done(&rig, all, 4);
        assert_int_equal(cut(&rig, 6, 0), 0);
        sim_calls_clear();
        cuda_rig_run(&rig, SAMPLES, true);
        assert_done(&rig, some, 2);
        assert_int_equal(sim_calls("cudaGraphLaunch"), uses[i] == GRAPH_ON ? 3 : 0);
        cuda_rig_close(&rig);
    }
    net_close(net);
}

/* What becomes ready with each layer of the last backward, copied at that time. */
struct prefixes {
    struct rig *rig;
    float *copies[NET_LAYERS_MAX];
    size_t ready[NET_LAYERS_MAX];
    uint32_t count;
};

static void copy_prefix(void *arg, uint32_t layer)
{
    struct prefixes *prefixes = arg;
    struct rig *rig = prefixes->rig;
    const size_t ready = arena_ready(&rig->arenas.trained, rig->net, layer);
    void *copy;
    assert_int_equal(rig->device->ops->alloc_pinned(rig->device, ready * sizeof(float), &copy), 0);
    assert_int_equal(rig->device->ops->copy(rig->compute, copy, rig->gradients, ready * sizeof(float),
                                            COPY_FROM_DEVICE),
                     0);
    prefixes->copies[prefixes->count] = copy;
    prefixes->ready[prefixes->count++] = ready;
}

TEST(gradients_are_final_when_their_layer_is_done)
{
    struct net *net = rig_net(0);
    struct rig rig;
    struct backend_spec spec = rig_spec(net, PRECISION_BF16);
    spec.graph = GRAPH_ON;
    rig_open_with(&rig, "cuda", &spec, false);
    assert_int_equal(cut(&rig, 6, 0), 0);
    cuda_rig_run(&rig, 5, true);
    const struct backend_input input = { .pixels = rig.pixels, .labels = rig.labels };
    struct plan *plan = rig_plan(&rig, SAMPLES, true);
    struct prefixes prefixes = { .rig = &rig };
    assert_int_equal(rig.ops->input(plan, &input), 0);
    assert_int_equal(rig.ops->forward(plan), 0);
    assert_int_equal(rig.ops->backward(plan, copy_prefix, &prefixes), 0);
    device_memory_wait(rig.compute);
    assert_int_equal(prefixes.count, 2);
    assert_int_equal(prefixes.ready[1], rig.arenas.trained.count);
    assert_memory_equal(prefixes.copies[0], prefixes.copies[1], prefixes.ready[0] * sizeof(float));
    for (uint32_t i = 0; i < prefixes.count; i++)
        rig.device->ops->free_pinned(rig.device, prefixes.copies[i]);
    cuda_rig_close(&rig);
    net_close(net);
}

/* Three steps of different samples' numbers: the weights and statistics they leave, and the loss. */
static float *numbers_after_steps(const struct backend_spec *spec, size_t *bytes_out)
{
    static const uint32_t counts[] = { SAMPLES, 5, SAMPLES };
    float *const no_states[OPTIMIZER_STATES_MAX] = { NULL, NULL };
    struct rig rig;
    rig_open_with(&rig, "cuda", spec, false);
    assert_int_equal(cut(&rig, 6, 0), 0);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        cuda_rig_run(&rig, counts[i], true);
        rig_update(&rig, OPTIMIZER_SGD, no_states);
    }
    cuda_rig_run(&rig, SAMPLES, false);
    const size_t trained = rig.arenas.trained.count, statistics = rig.arenas.statistics.count;
    float *const numbers = malloc((trained + statistics + 1) * sizeof(*numbers));
    assert_non_null(numbers);
    device_memory_read(rig.compute, numbers, rig.weights, trained * sizeof(*numbers));
    device_memory_read(rig.compute, numbers + trained, rig.statistics, statistics * sizeof(*numbers));
    numbers[trained + statistics] = (float)rig.result->loss_sum;
    assert_true(isfinite(rig.result->loss_sum));
    *bytes_out = (trained + statistics + 1) * sizeof(*numbers);
    cuda_rig_close(&rig);
    return numbers;
}

static void check_same_bits(const struct net *net, enum precision precision)
{
    struct backend_spec spec = rig_spec(net, precision);
    size_t bytes, other_bytes;
    float *const queued = numbers_after_steps(&spec, &bytes);
    for (uint32_t poison = 0; poison < 2; poison++)
        for (uint32_t use = GRAPH_ON; use <= GRAPH_OFF; use++) {
            spec.poison = poison != 0;
            spec.graph = (enum graph_use)use;
            float *const other = numbers_after_steps(&spec, &other_bytes);
            assert_int_equal(other_bytes, bytes);
            assert_memory_equal(other, queued, bytes);
            free(other);
        }
    free(queued);
}

/* Nor does it matter what lies in memory that holds nothing. */
TEST(recorded_steps_give_the_same_bits)
{
    struct net *const nets[] = { rig_net(0.5f), rig_graph() };
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++)
            check_same_bits(nets[i], (enum precision)precision);
        net_close(nets[i]);
    }
}

/* Launches of graphs in a step with this use. */
static uint64_t launches(const struct net *net, enum graph_use use)
{
    struct rig rig;
    struct backend_spec spec = rig_spec(net, PRECISION_FP32);
    spec.graph = use;
    rig_open_with(&rig, "cuda", &spec, false);
    assert_int_equal(cut(&rig, 6, 0), 0);
    sim_calls_clear();
    cuda_rig_run(&rig, SAMPLES, true);
    cuda_rig_close(&rig);
    return sim_calls("cudaGraphLaunch");
}

TEST(records_small_steps_unless_told_otherwise)
{
    struct net *net = rig_net(0);
    assert_int_equal(launches(net, GRAPH_AUTO), 3);
    net->macs = 1ull << 40;
    assert_int_equal(launches(net, GRAPH_AUTO), 0);
    assert_int_equal(launches(net, GRAPH_ON), 3);
    net_close(net);
}

TEST(steps_that_cannot_be_recorded_are_queued_unless_recording_is_demanded)
{
    static const char *const functions[] = { "cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaGraphUpload" };
    struct net *net = rig_net(0);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        for (uint32_t number = 2; number <= 3; number++) {
            struct rig rig;
            char text[2048];
            struct backend_spec spec = rig_spec(net, PRECISION_FP32);
            spec.graph = number == 2 ? GRAPH_AUTO : GRAPH_ON;
            rig_open_with(&rig, "cuda", &spec, false);
            sim_fail(functions[i], number, cudaErrorUnknown);
            const int rc = CAPTURE(text, cut(&rig, 6, 0));
            sim_fail_clear();
            assert_int_equal(rc, spec.graph == GRAPH_AUTO ? 0 : -EIO);
            assert_non_null(strstr(text, functions[i]));
            assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
            sim_calls_clear();
            cuda_rig_run(&rig, SAMPLES, true);
            cuda_rig_run(&rig, SAMPLES, false);
            assert_int_equal(sim_calls("cudaGraphLaunch"), 0);
            cuda_rig_close(&rig);
        }
    net_close(net);
}

/* ---- the steady state ---- */

TEST(a_step_allocates_nothing_and_waits_for_nothing)
{
    static const char *const forbidden[] = {
        "cudaMalloc",
        "cudaFree",
        "cudaHostAlloc",
        "cudaFreeHost",
        "cudaEventCreateWithFlags",
        "cudaStreamSynchronize",
        "cudaDeviceSynchronize",
        "cudaEventSynchronize",
        "cudaStreamQuery",
        "cudaEventQuery",
        "cudaMemcpy",
        "pageable copy",
        "cudaStreamBeginCapture",
        "cudaGraphInstantiate",
        "cudaStreamCreateWithPriority",
        "cudnnCreate",
        "cudnnBackendCreateDescriptor",
        "cublasLtCreate",
        "cublasLtMatmulDescCreate",
        "cublasLtMatmulAlgoGetHeuristic",
        "cudaGetLastError",
    };
    float *const no_states[OPTIMIZER_STATES_MAX] = { NULL, NULL };
    struct net *net = rig_net(0.5f);
    for (uint32_t use = GRAPH_ON; use <= GRAPH_OFF; use++) {
        struct rig rig;
        struct backend_spec spec = rig_spec(net, PRECISION_FP16);
        spec.graph = (enum graph_use)use;
        rig_open_with(&rig, "cuda", &spec, false);
        assert_int_equal(cut(&rig, 6, 0), 0);
        struct plan *plan = rig_plan(&rig, SAMPLES, true);
        cuda_rig_run(&rig, SAMPLES, true);
        sim_calls_clear();
        for (uint32_t step = 0; step < 3; step++) {
            rig_queue(&rig, plan);
            rig_update(&rig, OPTIMIZER_SGD, no_states);
        }
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
            if (sim_calls(forbidden[i]) > 0)
                fail_msg("%s was called %u times", forbidden[i], (unsigned)sim_calls(forbidden[i]));
        assert_int_equal(sim_calls("cudaMemcpyAsync"), 3);
        device_memory_wait(rig.compute);
        cuda_rig_close(&rig);
    }
    net_close(net);
}

/* Three convolutions that cuDNN computes alike. */
static struct net *triplets(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "triplets", (struct shape){ 8, 6, 6 }, 4), 0);
    net_conv2d(net, "conv1", NET_INPUT, 8, window_square(3, 1, PADDING_SAME), true);
    net_conv2d(net, "conv2", 0, 8, window_square(3, 1, PADDING_SAME), true);
    net_conv2d(net, "conv3", 1, 8, window_square(3, 1, PADDING_SAME), true);
    net_dense(net, "fc", 2, 4, true);
    net_softmax_loss(net, "loss", 3);
    assert_int_equal(net_finish(net), 0);
    return net;
}

/* Within a step, and between training and evaluation. */
TEST(equal_convolutions_make_descriptors_in_their_first_run_only)
{
    float *const no_states[OPTIMIZER_STATES_MAX] = { NULL, NULL };
    struct net *net = triplets();
    struct rig rig;
    cuda_rig_open(&rig, "cuda", net, PRECISION_FP16);
    rig_plan(&rig, SAMPLES, true);
    rig_plan(&rig, SAMPLES, false);
    for (uint32_t step = 0; step < 3; step++) {
        cuda_rig_run(&rig, SAMPLES, true);
        rig_update(&rig, OPTIMIZER_SGD, no_states);
        cuda_rig_run(&rig, SAMPLES, false);
        if (step == 0)
            sim_calls_clear();
    }
    assert_int_equal(sim_calls("cudnnBackendExecute"), 2 * (3 + 3 + 2 + 3));
    assert_int_equal(sim_calls("cudnnBackendCreateDescriptor"), 0);
    cuda_rig_close(&rig);
    net_close(net);
}

/* So that libraries load what they load at first use before the first step. */
TEST(a_plan_is_run_once_when_it_gets_its_memory)
{
    static const char *const functions[] = { "cudnnBackendExecute", "cublasLtMatmul", "cudaLaunchKernelEx" };
    uint64_t calls[sizeof(functions) / sizeof(functions[0])];
    struct net *net = rig_net(0.5f);
    struct rig rig;
    cuda_rig_open(&rig, "cuda", net, PRECISION_FP16);
    rig_plan(&rig, SAMPLES, true);
    float *before = rig_read(&rig, rig.weights, 2);
    sim_calls_clear();
    rig_plan(&rig, 5, true);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        calls[i] = sim_calls(functions[i]);
    sim_calls_clear();
    assert_float_equal(cuda_rig_run(&rig, 5, true).loss_scale, LOSS_SCALE_FIRST, 0);
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        assert_true(calls[i] > 0);
        assert_int_equal(calls[i], sim_calls(functions[i]));
    }
    float *after = rig_read(&rig, rig.weights, 2);
    assert_memory_equal(after, before, net->parameters[2].count * sizeof(*after));
    free(before);
    free(after);
    cuda_rig_close(&rig);
    net_close(net);
}

TEST(the_first_run_leaves_statistics_alone)
{
    struct net *net = rig_graph();
    struct rig rig;
    cuda_rig_open(&rig, "cuda", net, PRECISION_BF16);
    const size_t bytes = rig.arenas.statistics.count * sizeof(float);
    float *const before = malloc(bytes), *const after = malloc(bytes);
    assert_true(before != NULL && after != NULL);
    device_memory_read(rig.compute, before, rig.statistics, bytes);
    rig_plan(&rig, SAMPLES, true);
    device_memory_read(rig.compute, after, rig.statistics, bytes);
    assert_memory_equal(after, before, bytes);
    cuda_rig_run(&rig, SAMPLES, false);
    device_memory_read(rig.compute, after, rig.statistics, bytes);
    assert_memory_equal(after, before, bytes);
    cuda_rig_run(&rig, SAMPLES, true);
    device_memory_read(rig.compute, after, rig.statistics, bytes);
    assert_memory_not_equal(after, before, bytes);
    free(before);
    free(after);
    cuda_rig_close(&rig);
    net_close(net);
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
    struct net *net = rig_net(0);
    struct rig rig;
    struct backend_spec spec = rig_spec(net, PRECISION_FP32);
    spec.graph = GRAPH_ON;
    rig_open_with(&rig, "cuda", &spec, false);
    assert_int_equal(cut(&rig, 6, 0), 0);
    rig.ops->plan_describe(rig_plan(&rig, SAMPLES, true), keep_line, &lines);
    assert_int_equal(lines.count, net->layer_count + 1);
    for (uint32_t i = 0; i < net->layer_count; i++)
        assert_memory_equal(lines.text[i], net->layers[i].name, strlen(net->layers[i].name));
    assert_non_null(strstr(lines.text[0], "forward engine"));
    assert_non_null(strstr(lines.text[0], "weight gradient engine"));
    assert_null(strstr(lines.text[0], "data gradient"));
    assert_non_null(strstr(lines.text[2], "data gradient engine"));
    assert_non_null(strstr(lines.text[1], "in conv1"));
    assert_non_null(strstr(lines.text[net->layer_count], "backward as 2"));
    cuda_rig_close(&rig);
    net_close(net);
}

TEST(describes_what_is_folded_into_what)
{
    static struct lines lines;
    struct net *net = rig_graph();
    struct rig rig;
    cuda_rig_open(&rig, "cuda", net, PRECISION_FP32);
    rig.ops->plan_describe(rig_plan(&rig, SAMPLES, true), keep_line, &lines);
    assert_string_equal(lines.text[2], "relu1: in norm1");
    assert_string_equal(lines.text[8], "sum1: in norm3");
    assert_string_equal(lines.text[9], "relu3: in norm3");
    assert_string_equal(lines.text[10], "shortcut: own kernel");
    assert_string_equal(lines.text[13], "sum2: in norm4");
    cuda_rig_close(&rig);
    net_close(net);
}

/* A convolution's ReLU, in evaluation, is cuDNN's own, but behind a sum. */
TEST(describes_what_evaluation_folds_into_convolutions)
{
    static struct lines lines;
    struct net *net = rig_folded();
    struct rig rig;
    cuda_rig_open(&rig, "cuda", net, PRECISION_FP32);
    rig.ops->plan_describe(rig_plan(&rig, SAMPLES, false), keep_line, &lines);
    assert_string_equal(lines.text[1], "norm1: in conv1");
    assert_string_equal(lines.text[2], "relu1: in conv1");
    assert_string_equal(lines.text[4], "norm2: in shortcut");
    assert_string_equal(lines.text[6], "norm3: in conv2");
    assert_string_equal(lines.text[7], "sum1: in conv2");
    assert_string_equal(lines.text[8], "relu2: in conv2");
    assert_string_equal(lines.text[10], "norm4: in conv3");
    assert_string_equal(lines.text[11], "sum2: in conv3");
    cuda_rig_close(&rig);
    net_close(net);
}

int main(void)
{
    sim_setup(2, RIG_DEVICE_BYTES);
    return tests_run(NULL, NULL);
}
