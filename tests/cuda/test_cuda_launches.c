/* Counts of a step's launches and copies, on a simulated GPU that computes nothing, for real nets and batches,
 * queued and as graphs. With the argument `table` it prints them for a net of every family (bench/RESULTS.md). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "compute/model.h"
#include "sync/bucket.h"
#include "tests/helpers/network/model_look.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tests/sim/sim.h"

#define DEVICE_BYTES ((size_t)192 << 30)
#define BUCKET_BYTES ((size_t)16 << 20) /* sync.bucket on GPUs */

/* By kind of call. */
enum { OWN_KERNELS, CONVOLUTIONS, PRODUCTS, COPIES, GRAPHS, EVENTS, CALL_COUNT };

static const char *const functions[CALL_COUNT][2] = {
    [OWN_KERNELS] = { "cudaLaunchKernelEx" },
    [CONVOLUTIONS] = { "cudnnBackendExecute" },
    [PRODUCTS] = { "cublasLtMatmul" },
    [COPIES] = { "cudaMemcpyAsync", "cudaMemsetAsync" },
    [GRAPHS] = { "cudaGraphLaunch" },
    [EVENTS] = { "cudaEventRecord", "cudaStreamWaitEvent" },
};

/* Also the MiB of values and gradients of a step. */
struct step_calls { uint64_t of[CALL_COUNT], mebibytes; };

static uint64_t calls_of(int what)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < 2 && functions[what][i] != NULL; i++)
        calls += sim_calls(functions[what][i]);
    return calls;
}

static uint64_t all_calls(const struct step_calls *calls)
{
    uint64_t all = 0;
    for (int i = 0; i < CALL_COUNT; i++)
        all += calls->of[i];
    return all;
}

/* ---- a tower ---- */

/* Updates every bucket of gradients when backward has filled it. */
struct bench {
    struct tower_fixture fixture;
    struct net *net;
    struct buckets buckets;
    size_t updated;
    struct backend_spec wishes;         /* with precision, graph and batch_statistics only */
};

static void open_slot(struct bench *bench, uint32_t batch)
{
    struct tower_fixture *const fixture = &bench->fixture;
    const struct device_ops *const ops = fixture->device->ops;
    void *pixels, *labels;
    assert_int_equal(ops->alloc(fixture->device, batch * shape_count(bench->net->input), &pixels), 0);
    assert_int_equal(ops->alloc(fixture->device, batch * sizeof(int32_t), &labels), 0);
    fixture->slot.pixels = pixels;
    fixture->slot.labels = labels;
    fixture->slot.local = (struct local_batch){ .count = batch, .global_count = batch };
}

static void cut(struct bench *bench)
{
    size_t ends[REGION_BUCKETS_MAX];
    buckets_add(&bench->buckets, REGION_GRADIENTS, tower_arena(bench->fixture.tower), BUCKET_BYTES);
    for (uint32_t i = 0; i < bench->buckets.count; i++)
        ends[i] = bench->buckets.bucket[i].offset + bench->buckets.bucket[i].count;
    assert_int_equal(tower_set_segments(bench->fixture.tower, ends, bench->buckets.count), 0);
}

/* Takes over the net. */
static void bench_open_as(struct bench *bench, struct net *net, uint32_t batch, struct backend_spec wishes)
{
    *bench = (struct bench){ .net = net, .wishes = wishes };
    tower_fixture_open_device(&bench->fixture, "cuda");
    struct tower_spec spec = tower_fixture_spec(&bench->fixture, "cuda", bench->net);
    spec.backend_spec.precision = wishes.precision;
    spec.backend_spec.graph = wishes.graph;
    spec.backend_spec.batch_statistics = wishes.batch_statistics;
    spec.backend_spec.fuses = wishes.fuses;
    spec.backend_spec.local_max = spec.train_counts[0] = batch;
    spec.evaluate_counts[0] = batch;
    spec.optimizer = (struct optimizer){ .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .weight_decay = 1e-4f };
    tower_fixture_open_tower(&bench->fixture, &spec);
    open_slot(bench, batch);
    cut(bench);
}

static void bench_open_net(struct bench *bench, struct net *net, uint32_t batch, enum precision precision,
                           enum graph_use graph)
{
    bench_open_as(bench, net, batch, (struct backend_spec){ .precision = precision, .graph = graph });
}

static void bench_open(struct bench *bench, const char *model, uint32_t batch, enum precision precision,
                       enum graph_use graph)
{
    const struct model_options options = { .dropout = true, .auxiliary = true };
    struct net *net;
    assert_int_equal(model_open(&net, model, &options), 0);
    bench_open_net(bench, net, batch, precision, graph);
}

static void bench_close(struct bench *bench)
{
    tower_fixture_close(&bench->fixture);
    net_close(bench->net);
}

static void update_bucket(void *arg, size_t floats)
{
    static const struct optimizer_step step = { .learning_rate = 0.1f, .gradient_scale = 1 };
    struct bench *const bench = arg;
    assert_true(floats > bench->updated);
    assert_int_equal(tower_update(bench->fixture.tower, bench->updated, floats - bench->updated, &step), 0);
    bench->updated = floats;
}

static void queue_evaluation(struct bench *bench)
{
    tower_fixture_forward(&bench->fixture, false);
    assert_int_equal(tower_result(bench->fixture.tower, bench->fixture.result), 0);
}

static void queue_training(struct bench *bench, void (*bucket_done)(void *arg, size_t floats))
{
    tower_fixture_forward(&bench->fixture, true);
    assert_int_equal(tower_backward(bench->fixture.tower, bucket_done, bench), 0);
    assert_int_equal(tower_result(bench->fixture.tower, bench->fixture.result), 0);
}

static void queue_step(struct bench *bench)
{
    bench->updated = 0;
    queue_training(bench, update_bucket);
    assert_int_equal(bench->updated, tower_fixture_floats(&bench->fixture));
}

static void leave_bucket(void *arg, size_t floats)
{
    (void)arg, (void)floats;
}

static void queue_without_update(struct bench *bench)
{
    queue_training(bench, leave_bucket);
}

/* The calls of a second pass, which are those of the first. */
static struct step_calls count_calls(struct bench *bench, void (*queue)(struct bench *bench))
{
    struct step_calls first = { .mebibytes = 0 }, second = first;
    for (int i = 0; i < 2; i++) {
        struct step_calls *const calls = i == 0 ? &first : &second;
        sim_calls_clear();
        queue(bench);
        for (int what = 0; what < CALL_COUNT; what++)
            calls->of[what] = calls_of(what);
    }
    assert_memory_equal(&first, &second, sizeof(first));
    return second;
}

static struct step_calls step_of(const char *model, uint32_t batch, enum precision precision, enum graph_use graph)
{
    struct bench bench;
    bench_open(&bench, model, batch, precision, graph);
    struct step_calls calls = count_calls(&bench, queue_step);
    calls.mebibytes = (tower_needs(bench.fixture.tower).backend.values + (1 << 20) - 1) >> 20;
    bench_close(&bench);
    return calls;
}

/* ---- tests ---- */

/* Does this run test the model? The long tests test all of them. */
static bool is_tested(const char *model, const char *const *some)
{
    for (; *some != NULL && !test_is_long(); some++)
        if (strcmp(model, *some) == 0)
            return true;
    return test_is_long();
}

static void keep_last_line(void *arg, const char *line)
{
    snprintf(arg, 128, "%s", line);
}

/* All three passes of every convolution and product, without the gradient of the image. */
TEST(resnet50_asks_for_no_convolution_twice)
{
    struct bench bench;
    bench_open(&bench, "resnet50_v1", 256, PRECISION_BF16, GRAPH_OFF);
    const struct step_calls calls = count_calls(&bench, queue_step);
    assert_in_range(calls.of[CONVOLUTIONS], 1, 3 * count_kind(bench.net, LAYER_CONV2D) - 1);
    assert_at_most(calls.of[PRODUCTS], 3 * count_kind(bench.net, LAYER_DENSE));
    assert_int_equal(calls.of[GRAPHS], 0);
    bench_close(&bench);
}

TEST(resnet50_at_batch_256_in_bf16_is_recorded_as_graphs)
{
    struct bench bench;
    char line[128], expected[128];
    bench_open(&bench, "resnet50_v1", 256, PRECISION_BF16, GRAPH_ON);
    tower_describe(bench.fixture.tower, keep_last_line, line);
    snprintf(expected, sizeof(expected), "steps: recorded, forward as one graph, backward as %" PRIu32,
             bench.buckets.count);
    assert_string_equal(line, expected);
    const struct step_calls calls = count_calls(&bench, queue_step);
    assert_int_equal(calls.of[GRAPHS], 1 + bench.buckets.count);
    assert_int_equal(calls.of[CONVOLUTIONS] + calls.of[PRODUCTS], 0);
    assert_at_most(calls.of[OWN_KERNELS], 1 + bench.buckets.count);   /* the input and the updates */
    assert_at_most(calls.of[COPIES], 1);
    bench_close(&bench);
}

/* Counts are those that --describe prints. Closes the bench. */
static void assert_counted(struct bench *bench, uint32_t batch)
{
    struct step_counts counts;
    struct backend_spec spec = bench->wishes;
    spec.net = bench->net;
    const struct step_calls calls = count_calls(bench, queue_without_update);
    assert_int_equal(backend_find("cuda")->count_step(&spec, batch, &counts), 0);
    assert_int_equal(counts.kernels, calls.of[OWN_KERNELS]);
    assert_int_equal(counts.convolutions, calls.of[CONVOLUTIONS]);
    assert_int_equal(counts.products, calls.of[PRODUCTS]);
    assert_int_equal(counts.copies, calls.of[COPIES]);
    assert_int_equal(counts.bytes[STEP_CONVOLUTIONS], sim_bytes("cudnnBackendExecute"));
    assert_int_equal(counts.value_bytes, tower_needs(bench->fixture.tower).backend.values);
    bench_close(bench);
}

TEST(steps_are_counted_without_a_device_as_they_are_queued)
{
    static const char *const some[] = { "mnist_cnn", "cifar_alexnet", "resnet20_v1", "resnet20_v2", "densenet40_k12",
                                        "googlenet", NULL };
    for (const struct model *model = model_table; model->name != NULL; model++) {
        const enum precision precision = (model - model_table) % 2 != 0 ? PRECISION_BF16 : PRECISION_FP32;
        struct bench bench;
        if (!is_tested(model->name, some))
            continue;
        bench_open(&bench, model->name, 64, precision, GRAPH_OFF);
        assert_counted(&bench, 64);
    }
}

/* Sums of branches and masks that convolutions compute. */
TEST(fused_steps_are_counted_without_a_device_as_they_are_queued)
{
    static const char *const some[] = { "resnet20_v1", "resnet20_v2", "googlenet", NULL };
    const struct model_options options = { .dropout = true, .auxiliary = true };
    for (const struct model *model = model_table; model->name != NULL; model++) {
        const enum precision precision = (model - model_table) % 2 != 0 ? PRECISION_FP16 : PRECISION_BF16;
        struct bench bench;
        struct net *net;
        if (!is_tested(model->name, some))
            continue;
        assert_int_equal(model_open(&net, model->name, &options), 0);
        bench_open_as(&bench, net, 64, (struct backend_spec){ .precision = precision, .graph = GRAPH_OFF,
                                                              .fuses = true });
        assert_counted(&bench, 64);
    }
}

TEST(steps_with_fused_statistics_are_counted_as_they_are_queued)
{
    static const char *const some[] = { "resnet20_v1", "resnet20_v2", "densenet40_k12", NULL };
    for (size_t i = 0; some[i] != NULL; i++) {
        const struct model_options options = { 0 };
        struct bench bench;
        struct net *net;
        assert_int_equal(model_open(&net, some[i], &options), 0);
        bench_open_as(&bench, net, 64, (struct backend_spec){ .precision = i == 1 ? PRECISION_FP16 : PRECISION_BF16,
                                                              .graph = GRAPH_OFF,
                                                              .batch_statistics = BATCH_STATISTICS_FUSED });
        assert_counted(&bench, 64);
    }
}

/* Recorded steps keep memory in use for longer where weight gradients run beside data gradients. */
TEST(values_of_recorded_steps_are_counted_as_they_are_planned)
{
    static const char *const models[] = { "mnist_cnn", "resnet20_v1" };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct bench bench;
        struct step_counts counts;
        bench_open(&bench, models[i], 64, PRECISION_BF16, GRAPH_ON);
        const struct backend_spec spec = { .net = bench.net, .precision = PRECISION_BF16, .graph = GRAPH_ON };
        assert_int_equal(backend_find("cuda")->count_step(&spec, 64, &counts), 0);
        assert_int_equal(counts.value_bytes, tower_needs(bench.fixture.tower).backend.values);
        bench_close(&bench);
    }
}

/* Layers of residual branches, alone and with the additions after them. */
static struct net *branches_net(void)
{
    struct net *const net = network_net_begin("branches", (struct shape){ 3, 8, 8 }, 10);
    const uint32_t start = (uint32_t)net_conv2d(net, "conv", NET_INPUT, 16, window_square(3, 1, PADDING_SAME), true);
    const uint32_t norm = (uint32_t)net_layer_norm(net, "norm", start, 1e-6f);
    const uint32_t scale = (uint32_t)net_scale(net, "scale1", norm);
    const uint32_t sum = (uint32_t)net_add(net, "sum1", (uint32_t)net_stochastic_depth(net, "drop1", scale, 0.1f),
                                           start);
    const uint32_t next = (uint32_t)net_layer_norm(net, "norm2", sum, 1e-6f);
    const uint32_t drop = (uint32_t)net_stochastic_depth(net, "drop2", next, 0.2f);
    const uint32_t both = (uint32_t)net_add(net, "sum2", sum, drop);
    const uint32_t alone = (uint32_t)net_stochastic_depth(net, "drop3", (uint32_t)net_scale(net, "scale2", both), 0.2f);
    return network_net_end(net, net_stochastic_depth(net, "drop4", (uint32_t)net_max_pool(
        net, "pool", alone, window_square(2, 2, PADDING_VALID)), 0.2f));
}

TEST(steps_of_residual_branches_are_counted_as_they_are_queued)
{
    struct bench bench;
    bench_open_net(&bench, branches_net(), 64, PRECISION_BF16, GRAPH_OFF);
    assert_counted(&bench, 64);
}

/* ---- bytes ---- */

static struct net *block_net(void)
{
    static const struct batch_norm how = { .decay = 0.9f, .epsilon = 1e-5f, .with_gamma = true };
    struct net *const net = network_net_begin("block", (struct shape){ 3, 8, 8 }, 10);
    const struct window window = window_square(3, 1, PADDING_SAME);
    const uint32_t conv1 = (uint32_t)net_conv2d(net, "conv1", NET_INPUT, 16, window, false);
    const uint32_t relu1 = (uint32_t)net_relu(net, "relu1", (uint32_t)net_batch_norm(net, "norm1", conv1, how));
    const uint32_t conv2 = (uint32_t)net_conv2d(net, "conv2", relu1, 16, window, false);
    const uint32_t sum = (uint32_t)net_add(net, "sum", (uint32_t)net_batch_norm(net, "norm2", conv2, how), relu1);
    return network_net_end(net, net_max_pool(net, "pool", (uint32_t)net_relu(net, "relu2", sum),
                                             window_square(2, 2, PADDING_VALID)));
}

/* By hand, at batch 4 in bf16. */
TEST(bytes_of_a_residual_block_are_those_of_its_tensors)
{
    enum { BATCH = 4, PIXELS = BATCH * 64, IMAGE = PIXELS * 8 * 2, VALUE = PIXELS * 16 * 2, POOLED = VALUE / 4,
           LOGITS = BATCH * 16 * 2 };
    enum { FILTERS1 = 16 * 9 * 8, FILTERS2 = 16 * 9 * 16, CLASSES = 16 * 256 };     /* weights, with padding */
    enum { COLUMNS = 16 * 4, PARTIALS = 2 * COLUMNS, MASK = PIXELS * 16 / 8, WINNERS = PIXELS / 4 * 16 };
    enum { LOSSES = BATCH * 12, LABELS = BATCH * 12, RESULT = sizeof(struct backend_result) };
    enum { NORM_COLUMNS = 2 * PARTIALS + 7 * COLUMNS + 4 * COLUMNS +                /* forward */
                          2 * PARTIALS + 4 * COLUMNS + 5 * COLUMNS + 6 * COLUMNS }; /* backward: sums, gradient */
    struct net *const net = block_net();
    const struct backend_spec spec = { .net = net, .precision = PRECISION_BF16 };
    struct step_counts counts;
    assert_int_equal(backend_find("cuda")->count_step(&spec, BATCH, &counts), 0);
    /* forward and weight gradient; the second one also has a data gradient */
    assert_int_equal(counts.bytes[STEP_CONVOLUTIONS],
                     2 * (IMAGE + 2 * FILTERS1 + VALUE) + 3 * (VALUE + 2 * FILTERS2 + VALUE));
    /* forward 1 + 2 passes over values and backward 2 + 3, after the addition 1 + 3 and 3 + 3 */
    assert_int_equal(counts.bytes[STEP_NORMS], (8 + 10) * VALUE + 2 * MASK + 2 * NORM_COLUMNS);
    /* the gradient by conv2 is added to that by the addition */
    assert_int_equal(counts.bytes[STEP_SUMS], 3 * VALUE);
    assert_int_equal(counts.bytes[STEP_OTHERS],
                     BATCH * (8 * 8 * 3 + 4) + IMAGE + LABELS + sizeof(uint64_t) * 2 +              /* input */
                     2 * (VALUE + POOLED + WINNERS) +
                     (POOLED + 2 * CLASSES + 16 * 2 + LOGITS) + (POOLED + 4 * CLASSES + 16 * 4 + LOGITS) +
                     (POOLED + 2 * CLASSES + LOGITS) +
                     2 * LOGITS + LABELS + LOSSES + LOSSES + RESULT + RESULT +                      /* loss */
                     6 * (FILTERS1 + FILTERS2));                            /* gradients as fp32 */
    /* A cache holds all of it: every read value but the image in forward, every gradient, both parts of the sum. */
    assert_int_equal(counts.cached_bytes, (7 + 14) * VALUE + 3 * POOLED + 3 * LOGITS + IMAGE);
    net_close(net);
}

static struct net *both_net(void)
{
    static const struct batch_norm how = { .decay = 0.9f, .epsilon = 1e-5f, .with_gamma = true };
    struct net *const net = network_net_begin("both", (struct shape){ 3, 8, 8 }, 10);
    const struct window window = window_square(3, 1, PADDING_SAME);
    const uint32_t conv1 = (uint32_t)net_conv2d(net, "conv1", NET_INPUT, 16, window, false);
    const uint32_t conv2 = (uint32_t)net_conv2d(net, "conv2", NET_INPUT, 16, window, false);
    const uint32_t norm1 = (uint32_t)net_batch_norm(net, "norm1", conv1, how);
    const uint32_t sum = (uint32_t)net_add(net, "sum", (uint32_t)net_batch_norm(net, "norm2", conv2, how), norm1);
    return network_net_end(net, net_max_pool(net, "pool", (uint32_t)net_relu(net, "relu", sum),
                                             window_square(2, 2, PADDING_VALID)));
}

/* By hand: of norm1, whose result is only added, forward queues the pass of the statistics only. */
TEST(a_normalisation_that_is_only_added_does_not_store_its_result)
{
    enum { BATCH = 4, PIXELS = BATCH * 64, VALUE = PIXELS * 16 * 2, MASK = PIXELS * 16 / 8 };
    enum { COLUMNS = 16 * 4, PARTIALS = 2 * COLUMNS,
           NORM_COLUMNS = 2 * PARTIALS + 7 * COLUMNS + 4 * COLUMNS +                /* forward */
                          2 * PARTIALS + 4 * COLUMNS + 5 * COLUMNS + 6 * COLUMNS }; /* backward: sums, gradient */
    struct net *const net = both_net();
    const struct backend_spec spec = { .net = net, .precision = PRECISION_BF16 };
    struct step_counts counts;
    struct bench bench;
    assert_int_equal(backend_find("cuda")->count_step(&spec, BATCH, &counts), 0);
    /* norm1: 1 pass over values, backward 2 + 3; norm2: 1 + 3 and 3 + 3 */
    assert_int_equal(counts.bytes[STEP_NORMS], (1 + 5 + 4 + 6) * VALUE + 2 * MASK + 2 * NORM_COLUMNS);
    net_close(net);
    bench_open_net(&bench, both_net(), 64, PRECISION_BF16, GRAPH_OFF);
    assert_counted(&bench, 64);
}

/* In units of 0.1 GB; doc/gpu.md. */
static void assert_gigabytes(const char *model, const struct backend_spec *wishes,
                             const size_t expected[STEP_WORK_COUNT])
{
    const struct model_options options = { 0 };
    struct backend_spec spec = *wishes;
    struct step_counts counts;
    struct net *net;
    assert_int_equal(model_open(&net, model, &options), 0);
    spec.net = net;
    assert_int_equal(backend_find("cuda")->count_step(&spec, 256, &counts), 0);
    for (int work = 0; work < STEP_WORK_COUNT; work++)
        assert_int_equal((counts.bytes[work] + 50000000) / 100000000, expected[work]);
    net_close(net);
}

/* By the passes of normalisations that begin where the operation before ended. */
TEST(resnet50_finds_4_gigabytes_in_a_cache)
{
    const struct model_options options = { 0 };
    struct step_counts counts;
    struct net *net;
    assert_int_equal(model_open(&net, "resnet50_v1.5", &options), 0);
    const struct backend_spec spec = { .net = net, .precision = PRECISION_BF16 };
    assert_int_equal(backend_find("cuda")->count_step(&spec, 256, &counts), 0);
    assert_in_range(counts.cached_bytes, 3500000000, 4500000000);
    net_close(net);
}

/* Fused, convolutions read the sums of branches (2.8 GB) and the values that mask them, and normalisations neither
 * write masked gradients nor store masks as bits. */
TEST(resnet50_moves_94_gigabytes_at_batch_256_in_bf16_and_88_fused)
{
    static const size_t expected[2][STEP_WORK_COUNT] = {
        { [STEP_CONVOLUTIONS] = 334, [STEP_NORMS] = 501, [STEP_SUMS] = 86, [STEP_OTHERS] = 16 },
        { [STEP_CONVOLUTIONS] = 390, [STEP_NORMS] = 470, [STEP_OTHERS] = 16 },
    };
    for (int fuses = 0; fuses < 2; fuses++)
        assert_gigabytes("resnet50_v1.5", &(struct backend_spec){ .precision = PRECISION_BF16, .fuses = fuses != 0 },
                         expected[fuses]);
}

/* A pass less over the result of every convolution. */
TEST(resnet50_with_fused_statistics_moves_6_gigabytes_less)
{
    static const size_t expected[STEP_WORK_COUNT] = {
        [STEP_CONVOLUTIONS] = 334, [STEP_NORMS] = 444, [STEP_SUMS] = 86, [STEP_OTHERS] = 16,
    };
    assert_gigabytes("resnet50_v1.5", &(struct backend_spec){ .precision = PRECISION_BF16,
                                                              .batch_statistics = BATCH_STATISTICS_FUSED }, expected);
}

/* Values that only the next convolution reads are neither written nor read. */
TEST(resnet50_with_fused_statistics_in_fp16_does_not_store_normalised_values)
{
    static const size_t expected[STEP_WORK_COUNT] = {
        [STEP_CONVOLUTIONS] = 350, [STEP_NORMS] = 376, [STEP_SUMS] = 86, [STEP_OTHERS] = 16,
    };
    assert_gigabytes("resnet50_v1.5", &(struct backend_spec){ .precision = PRECISION_FP16,
                                                              .batch_statistics = BATCH_STATISTICS_FUSED }, expected);
}

/* A stream's queue holds about a thousand calls, and up to three steps are queued. */
TEST(steps_of_every_model_fit_into_a_stream)
{
    enum { STREAM_CALLS = 1000, STEPS = 3 };
    static const char *const some[] = { "vgg19_bn", "googlenet", "resnet50_v1.5", NULL };
    for (const struct model *model = model_table; model->name != NULL; model++) {
        if (!is_tested(model->name, some))
            continue;
        const struct step_calls calls = step_of(model->name, 256, PRECISION_BF16, GRAPH_AUTO);
        if (all_calls(&calls) * STEPS > STREAM_CALLS)
            fail_msg("%s: %" PRIu64 " calls", model->name, all_calls(&calls));
    }
}

/* Every normalisation by a kernel that computes the convolution's weights and bias; a block's sum and ReLU by
 * another. The rest: the input, two pools, and the loss with two. */
TEST(resnet50_normalises_in_its_convolutions_in_evaluation)
{
    enum { BLOCKS = 16, OTHERS = 5 };
    struct bench bench;
    bench_open(&bench, "resnet50_v1", 256, PRECISION_BF16, GRAPH_OFF);
    const struct step_calls calls = count_calls(&bench, queue_evaluation);
    assert_at_most(calls.of[OWN_KERNELS], count_kind(bench.net, LAYER_BATCH_NORM) + BLOCKS + OTHERS);
    assert_in_range(calls.of[CONVOLUTIONS], 1, count_kind(bench.net, LAYER_CONV2D));
    bench_close(&bench);
}

static void assert_is_planned(struct tower_fixture *fixture, const struct net *net, enum precision precision)
{
    struct tower_spec spec = tower_fixture_spec(fixture, "cuda", net);
    struct tower *tower;
    spec.backend_spec.precision = precision;
    assert_int_equal(tower_open(&tower, &spec), 0);
    tower_close(tower);
}

TEST(every_model_is_planned)
{
    const struct model_options options = { .dropout = true, .auxiliary = true };
    struct tower_fixture fixture;
    tower_fixture_open_device(&fixture, "cuda");
    for (const struct model *model = model_table; model->name != NULL; model++) {
        struct net *net;
        assert_int_equal(model_open(&net, model->name, &options), 0);
        assert_is_planned(&fixture, net, (enum precision)((model - model_table) % PRECISION_COUNT));
        net_close(net);
    }
    tower_fixture_close(&fixture);
}

/* ---- the table ---- */

static void print_row(const char *model, uint32_t batch)
{
    const struct step_calls queued = step_of(model, batch, PRECISION_BF16, GRAPH_OFF);
    const struct step_calls recorded = step_of(model, batch, PRECISION_BF16, GRAPH_ON);
    printf("| %s | %" PRIu32 " | %" PRIu64 " |", model, batch, queued.mebibytes);
    for (int what = 0; what <= COPIES; what++)
        printf(" %" PRIu64 " |", queued.of[what]);
    printf(" %" PRIu64 " | %" PRIu64 " | %" PRIu64 " |\n", all_calls(&queued), recorded.of[GRAPHS],
           all_calls(&recorded));
    fflush(stdout);
}

static void print_table(void **state)
{
    static const struct { const char *model; uint32_t batch; } rows[] = {
        { "mnist_cnn", 128 }, { "cifar10_cnn", 128 }, { "cifar_alexnet", 128 }, { "resnet20_v1", 128 },
        { "resnet20_v2", 128 }, { "resnet110_v1", 128 }, { "densenet40_k12", 128 }, { "densenet100_k12", 64 },
        { "vgg19_bn", 128 }, { "imagenet_alexnet", 512 }, { "overfeat", 256 }, { "vgg16", 128 },
        { "googlenet", 256 }, { "inception3", 256 }, { "resnet50_v1", 256 }, { "resnet50_v1.5", 256 },
        { "resnet50_v2", 256 }, { "resnet152_v1", 128 }, { "torchvision_resnet50", 256 },
    };
    (void)state;
    printf("| model | batch | values, MiB | own kernels | convolutions | products | copies | calls | graphs "
           "| calls with them |\n"
           "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        print_row(rows[i].model, rows[i].batch);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest table[] = { cmocka_unit_test(print_table) };
    sim_setup_hollow(DEVICE_BYTES);
    if (argc == 2 && strcmp(argv[1], "table") == 0)
        return cmocka_run_group_tests(table, NULL, NULL);
    return tests_run(NULL, NULL);
}
