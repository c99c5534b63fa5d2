/* Tests of the CUDA backend's results on the simulated CUDA: losses, gradients and updates equal those of the
 * reference backend in every precision and batch size; and how parameters are stored. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/model.h"
#include "tests/cuda/backend_cuda_fixture.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_sanitizer.h"
#include "tests/sim/sim_cudnn.h"

/* The thread sanitizer is at least ten times slower and checks no numbers. */
#ifdef __SANITIZE_THREAD__
enum { RANDOM_NETS = 4 };
#else
enum { RANDOM_NETS = 30 };
#endif

static const char *const precision_names[PRECISION_COUNT] = {
    [PRECISION_FP32] = "fp32",
    [PRECISION_TF32] = "tf32",
    [PRECISION_BF16] = "bf16",
    [PRECISION_FP16] = "fp16",
};

static struct net *mnist(bool dropout)
{
    struct net *net;
    assert_int_equal(model_open(&net, "mnist_cnn", &(struct model_options){ .dropout = dropout }), 0);
    return net;
}

/* The CUDA backend in a precision, and the reference backend in fp32. */
static void open_pair(struct network *cuda, struct network *reference, const struct net *net, enum precision precision,
                      bool is_coarse)
{
    const struct backend_spec spec = cuda_fixture_spec(net, precision), exact = cuda_fixture_spec(net, PRECISION_FP32);
    cuda_fixture_open_with(cuda, "cuda", &spec, is_coarse);
    cuda_fixture_open_with(reference, "reference", &exact, is_coarse);
}

static void close_pair(struct network *cuda, struct network *reference)
{
    cuda_fixture_close(cuda);
    cuda_fixture_close(reference);
}

/* fp16: lower the loss scale until no gradient overflows, with unchanged weights. */
static void settle_scale(struct network *fixture)
{
    uint32_t skipped;
    do {
        skipped = cuda_fixture_run(fixture, SAMPLES, true).skipped_steps;
        cuda_fixture_update_by(fixture, OPTIMIZER_SGD, NULL, 0);
    } while (cuda_fixture_run(fixture, SAMPLES, true).skipped_steps != skipped);
}

/* ---- comparison with the reference ---- */

/* Tolerance relative to the largest number. A sample's contribution, up to 1, is rounded before it is summed, however
 * small the sum is. */
static const double tolerances[PRECISION_COUNT] = {
    [PRECISION_FP32] = 1e-4,
    [PRECISION_TF32] = 5e-3,
    [PRECISION_BF16] = 3e-2,
    [PRECISION_FP16] = 3e-2,
};

static void compare(const float *got, const float *wanted, size_t count, double factor,
                    enum precision precision, const char *what)
{
    double largest = precision == PRECISION_FP32 ? 0.01 : 1, worst = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(got[i]));
        largest = fmax(largest, fabs((double)wanted[i]));
        worst = fmax(worst, fabs((double)got[i] / factor - (double)wanted[i]));
    }
    if (worst > tolerances[precision] * largest)
        fail_msg("%s: %g from numbers up to %g", what, worst, largest);
}

/* Gradients in fp16 are those of the scaled loss. */
static void compare_gradients(struct network *cuda, struct network *reference, enum precision precision)
{
    const double factor = (double)cuda->result->loss_scale;
    for (uint32_t p = 0; p < cuda->net->parameter_count; p++) {
        float *got = cuda_fixture_read(cuda, cuda->gradients,
                                       p), *wanted = cuda_fixture_read(reference, reference->gradients, p);
        compare(got, wanted, cuda->net->parameters[p].count, factor, precision,
                cuda->net->parameters[p].name);
    }
}

static void compare_run(struct network *cuda, struct network *reference, enum precision precision, uint32_t count,
                        bool training)
{
    const struct backend_result got = cuda_fixture_run(cuda, count, training);
    const struct backend_result wanted = cuda_fixture_run(reference, count, training);
    const double tolerance = tolerances[precision];
    assert_int_equal(got.counted, count);
    assert_true(got.loss_scale == 1 || precision == PRECISION_FP16);
    assert_true(fabs(got.loss_sum - wanted.loss_sum) <= tolerance * (1 + fabs(wanted.loss_sum)));
    if (precision == PRECISION_FP32)
        assert_int_equal(got.correct, wanted.correct);
    if (training)
        compare_gradients(cuda, reference, precision);
}

static void compare_net(const struct net *net, enum precision precision)
{
    struct network cuda, reference;
    open_pair(&cuda, &reference, net, precision, precision != PRECISION_FP32);
    if (precision == PRECISION_FP16)
        settle_scale(&cuda);
    compare_run(&cuda, &reference, precision, SAMPLES, true);
    compare_run(&cuda, &reference, precision, 5, true);
    compare_run(&cuda, &reference, precision, 1, true);
    compare_run(&cuda, &reference, precision, SAMPLES, false);
    compare_run(&cuda, &reference, precision, 5, true);
    close_pair(&cuda, &reference);
}

/* Random nets are smaller than mnist_cnn, and have all precisions under a sanitizer, too. */
static bool is_short_for_sanitizer(void)
{
    return test_is_sanitized() && !test_is_long();
}

TEST(matches_the_reference_on_mnist)
{
    for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++) {
        if (!test_is_long() && precision != PRECISION_FP32 && precision != PRECISION_BF16)
            continue;
        if ((RANDOM_NETS < 30 || is_short_for_sanitizer()) && precision != PRECISION_FP32)
            continue;
        struct net *net = mnist(precision == PRECISION_FP32); /* dropping a quarter is not exact */
        print_message("%s\n", precision_names[precision]);
        compare_net(net, (enum precision)precision);
        net_close(net);
    }
}

TEST(matches_the_reference_on_random_nets)
{
    for (uint32_t seed = 0; seed < RANDOM_NETS; seed += test_is_long() ? 1 : 4) {
        struct net *net = network_random_net(seed, 0.5f);
        for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++) {
            print_message("net %u, %s\n", seed, precision_names[precision]);
            compare_net(net, (enum precision)precision);
        }
        net_close(net);
    }
}

/* ---- batch statistics: 16-bit values are rounded before a mean is subtracted, so they differ more, but gradients
 * have the direction of the reference ---- */

struct direction {
    double product, squares, other_squares;
};

static void add_direction(struct direction *direction, const float *got, const float *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(got[i]));
        direction->product += (double)got[i] * (double)wanted[i];
        direction->squares += (double)got[i] * (double)got[i];
        direction->other_squares += (double)wanted[i] * (double)wanted[i];
    }
}

static double cosine_of(struct network *cuda, struct network *reference)
{
    struct direction direction = { 0 };
    for (uint32_t p = 0; p < cuda->net->parameter_count; p++) {
        if (!cuda->net->parameters[p].is_trained)
            continue;
        float *const got = cuda_fixture_read(cuda, cuda->gradients, p);
        float *const wanted = cuda_fixture_read(reference, reference->gradients, p);
        add_direction(&direction, got, wanted, cuda->net->parameters[p].count);
    }
    return direction.product / sqrt(direction.squares * direction.other_squares);
}

static void check_direction(const struct net *net, enum precision precision, double least)
{
    struct network cuda, reference;
    open_pair(&cuda, &reference, net, precision, false);
    if (precision == PRECISION_FP16)
        settle_scale(&cuda);
    const double got = cuda_fixture_run(&cuda, SAMPLES, true).loss_sum;
    const double wanted = cuda_fixture_run(&reference, SAMPLES, true).loss_sum;
    const double cosine = cosine_of(&cuda, &reference);
    print_message("%s: loss %g instead of %g, cosine 1 - %g\n", precision_names[precision], got, wanted, 1 - cosine);
    assert_true(fabs(got - wanted) < tolerances[precision] * wanted);
    assert_true(cosine > least);
    close_pair(&cuda, &reference);
}

TEST(gradients_of_residual_and_dense_nets_have_the_direction_of_the_reference)
{
    static const double least[PRECISION_COUNT] = {
        [PRECISION_FP32] = 1 - 1e-9,
        [PRECISION_TF32] = 0.999,
        [PRECISION_BF16] = 0.99,
        [PRECISION_FP16] = 0.999,
    };
    struct net *const nets[] = { residual_net(), dense_block_net() };
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++)
            check_direction(nets[i], (enum precision)precision, least[precision]);
        net_close(nets[i]);
    }
}

/* ---- data gradients that add other branches and apply the mask of a ReLU ---- */

static void open_fusing(struct network *network, const struct net *net, enum precision precision, bool fuses)
{
    struct backend_spec spec = cuda_fixture_spec(net, precision);
    spec.fuses = fuses;
    spec.poison = true;
    cuda_fixture_open_with(network, "cuda", &spec, false);
    if (precision == PRECISION_FP16)
        settle_scale(network);
}

/* Kernels of a training step. */
static uint64_t kernels_of_step(struct network *network)
{
    cuda_fixture_run(network, SAMPLES, true);
    sim_calls_clear();
    cuda_fixture_run(network, SAMPLES, true);
    return sim_calls("cudaLaunchKernelEx");
}

/* Two blocks without a convolution in the shortcut, and one with. The gradients of the first two sums and of the first
 * ReLU come from two readers each, and the sums' ReLUs can be masked. */
static struct net *blocks_net(void)
{
    static const struct batch_norm how = { 0.75, 1e-2f, true };
    const struct window window = window_square(3, 1, PADDING_SAME), point = window_square(1, 1, PADDING_VALID);
    struct net *const net = network_net_begin("blocks", (struct shape){ 3, 9, 7 }, 4);
    uint32_t at = (uint32_t)net_conv2d(net, "conv", NET_INPUT, 13, window, false);
    at = (uint32_t)net_relu(net, "relu", (uint32_t)net_batch_norm(net, "norm", at, how));
    for (int i = 0; i < 3; i++) {
        char name[3][16];
        for (int k = 0; k < 3; k++)
            snprintf(name[k], sizeof(name[k]), "%s%d", (const char *const[]){ "conv", "norm", "sum" }[k], i);
        const uint32_t shortcut = i < 2 ? at : (uint32_t)net_conv2d(net, "shortcut", at, 13, point, false);
        const uint32_t conv = (uint32_t)net_conv2d(net, name[0], at, 13, window, false);
        const uint32_t norm = (uint32_t)net_batch_norm(net, name[1], conv, how);
        snprintf(name[0], sizeof(name[0]), "relu%d", i);
        at = (uint32_t)net_relu(net, name[0], (uint32_t)net_add(net, name[2], norm, shortcut));
    }
    return network_net_end(net, net_global_average(net, "mean", at));
}

/* Compares a step whose data gradients add and mask with one where kernels do: `saved` is the number of kernels that it
 * has less. Sums are rounded once instead of twice, so bits differ. */
static void check_fused(const struct net *net, enum precision precision, unsigned refusals, int64_t saved)
{
    struct network fused, apart;
    open_fusing(&apart, net, precision, false);
    sim_cudnn_refuse(refusals);
    open_fusing(&fused, net, precision, true);
    const uint64_t all = kernels_of_step(&apart);
    assert_int_equal((int64_t)(all - kernels_of_step(&fused)), saved);
    const double cosine = cosine_of(&fused, &apart);
    print_message("%s: cosine 1 - %g\n", precision_names[precision], 1 - cosine);
    assert_true(cosine > (precision == PRECISION_FP32 ? 1 - 1e-12 : 0.9999));
    sim_cudnn_refuse(0);
    cuda_fixture_close(&fused);
    cuda_fixture_close(&apart);
}

TEST(fused_sums_of_branches_are_those_of_kernels_rounded_once)
{
    struct net *const net = blocks_net();
    check_fused(net, PRECISION_BF16, 0, 3);
    check_fused(net, PRECISION_FP16, 0, 3);
    check_fused(net, PRECISION_FP32, 0, 0);
    net_close(net);
}

/* Where cuDNN refuses them, kernels add and, two of them, mask. */
TEST(sums_that_are_not_fused_are_computed_by_kernels)
{
    struct net *const net = blocks_net();
    check_fused(net, PRECISION_BF16, SIM_CUDNN_FUSION_ENGINES, -2);
    net_close(net);
}

/* Handles are those of the backend and of the threads: one for each of three shapes, which share one engine. */
TEST(fused_convolutions_are_compiled_side_by_side_once)
{
    struct net *const net = blocks_net();
    struct network network;
    sim_calls_clear();
    open_fusing(&network, net, PRECISION_BF16, true);
    network_plan(&network, SAMPLES, true);
    const uint64_t handles = sim_calls("cudnnCreate"), compiled = sim_calls("cudnnBackendFinalize");
    assert_int_equal(handles, 1 + 3);
    network_plan(&network, SAMPLES, true);
    assert_int_equal(sim_calls("cudnnBackendFinalize"), compiled);
    cuda_fixture_close(&network);
    net_close(net);
}

/* All concatenations of a dense block are prefixes of the last one, and so are their gradients. */
TEST(a_dense_block_has_one_buffer)
{
    struct network fixture;
    cuda_fixture_open_own(&fixture, dense_block_net(), PRECISION_BF16);
    const struct plan_base *const base = (const struct plan_base *)(const void *)network_plan(&fixture, SAMPLES,
                                                                                                   true);
    const struct value *const values = base->values.values;
    uint32_t buffer = BUFFER_NONE, gradient = BUFFER_NONE;
    for (uint32_t i = 0; i < fixture.net->layer_count; i++) {
        if (fixture.net->layers[i].kind != LAYER_CONCAT)
            continue;
        assert_true(buffer == BUFFER_NONE || values[i + 1].buffer == buffer);
        assert_true(gradient == BUFFER_NONE || values[i + 1].gradient == gradient);
        buffer = values[i + 1].buffer;
        gradient = values[i + 1].gradient;
    }
    assert_true(buffer != BUFFER_NONE && gradient != BUFFER_NONE);
    cuda_fixture_close(&fixture);
}

/* Every concatenation of a block except the first. */
static void assert_grows(const struct net *net, const struct plan_base *base)
{
    uint32_t grown = 0;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *const layer = &net->layers[i];
        if (layer->kind != LAYER_CONCAT || net->layers[layer->inputs[0]].kind != LAYER_CONCAT)
            continue;
        assert_true(value_memory_grows(&base->values, i));
        grown++;
    }
    assert_in_range(grown, 30, NET_LAYERS_MAX);
}

static void check_growing(const char *model, bool training)
{
    struct net *net;
    struct plan *plan;
    assert_int_equal(model_open(&net, model, &(const struct model_options){ .dropout = true }), 0);
    const struct backend_spec spec = cuda_fixture_spec(net, PRECISION_BF16);
    struct network fixture;
    network_open_device(&fixture, "cuda", net);
    assert_int_equal(network_open_backend(&fixture, &spec), 0);
    const struct plan_spec wanted = { .count = SAMPLES, .training = training };
    assert_int_equal(fixture.ops->plan(fixture.backend, &wanted, &plan), 0);
    assert_grows(net, (const struct plan_base *)(const void *)plan);
    fixture.ops->plan_close(plan);
    network_close(&fixture);
    net_close(net);
}

TEST(all_blocks_of_the_models_grow_in_place)
{
    uint32_t models = 0;
    for (const struct model *model = model_table; model->name != NULL; model++)
        if (strncmp(model->name, "densenet", strlen("densenet")) == 0) {
            check_growing(model->name, true);
            check_growing(model->name, false);
            models++;
        }
    assert_true(models >= 4);
}

TEST(evaluation_folds_normalisations_as_the_reference_computes_them)
{
    struct net *net = folded_net();
    for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++) {
        struct network cuda, reference;
        open_pair(&cuda, &reference, net, (enum precision)precision, false);
        compare_run(&cuda, &reference, (enum precision)precision, SAMPLES, false);
        compare_run(&cuda, &reference, (enum precision)precision, 3, false);
        close_pair(&cuda, &reference);
    }
    net_close(net);
}

/* How many inputs are only zeros, and how many convolutions run, until a network is planned and has had its first
 * run. */
static uint32_t count_zero_inputs(struct net *net, enum precision precision, bool time_plans, uint64_t *runs_out)
{
    struct network network;
    struct backend_spec spec = cuda_fixture_spec(net, precision);
    spec.time_plans = time_plans;
    spec.workspace_max = 1 << 20;
    const uint64_t runs_before = sim_calls("cudnnBackendExecute");
    const uint32_t zeros_before = sim_cudnn_zero_inputs();
    cuda_fixture_open_with(&network, "cuda", &spec, false);
    network_plan(&network, SAMPLES, true);
    cuda_fixture_close(&network);
    *runs_out = sim_calls("cudnnBackendExecute") - runs_before;
    return sim_cudnn_zero_inputs() - zeros_before;
}

TEST(convolutions_are_measured_with_numbers)
{
    struct net *net = small_net(0);
    for (int precision = 0; precision < PRECISION_COUNT; precision++) {
        uint64_t runs, measured_runs;
        const uint32_t zeros = count_zero_inputs(net, (enum precision)precision, false, &runs);
        assert_int_equal(count_zero_inputs(net, (enum precision)precision, true, &measured_runs), zeros);
        assert_true(measured_runs > runs);
    }
    net_close(net);
}

TEST(measured_convolutions_compute_the_same_in_no_more_memory)
{
    struct net *net = small_net(0);
    struct network measured, reference, other;
    struct backend_spec spec = cuda_fixture_spec(net, PRECISION_FP32);
    cuda_fixture_open_with(&other, "cuda", &spec, false);
    cuda_fixture_open_with(&reference, "reference", &spec, false);
    spec.time_plans = true;
    spec.workspace_max = 1 << 20;
    cuda_fixture_open_with(&measured, "cuda", &spec, false);
    compare_run(&measured, &reference, PRECISION_FP32, 5, true);
    compare_run(&measured, &reference, PRECISION_FP32, SAMPLES, true);
    compare_run(&measured, &reference, PRECISION_FP32, 5, true);
    compare_run(&measured, &reference, PRECISION_FP32, SAMPLES, false);
    network_plan(&other, SAMPLES, true);
    const struct backend_needs needs = cuda_fixture_needs(&measured), other_needs = cuda_fixture_needs(&other);
    assert_int_equal(needs.values, other_needs.values);
    assert_true(needs.workspace <= spec.workspace_max);
    cuda_fixture_close(&measured);
    cuda_fixture_close(&reference);
    cuda_fixture_close(&other);
    net_close(net);
}

/* In-place layers between layers that do not keep their input. */
TEST(matches_the_reference_where_layers_work_in_place)
{
    struct net *const net = network_net_begin("in place", (struct shape){ 8, 12, 12 }, 3);
    net_conv2d(net, "conv", NET_INPUT, 8, window_square(1, 1, PADDING_VALID), true);
    net_max_pool(net, "pool1", 0, window_square(2, 1, PADDING_SAME));
    net_relu(net, "relu", 1);
    net_dropout(net, "dropout", 2, 0.5f);
    net_max_pool(net, "pool2", 3, window_square(2, 1, PADDING_SAME));
    net_max_pool(net, "pool3", 4, window_square(2, 1, PADDING_SAME));
    network_net_end(net, 5);
    for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++)
        compare_net(net, (enum precision)precision);
    net_close(net);
}

/* ---- dropout ---- */

/* Without rounding, every bit of the loss depends on the dropped values. */
TEST(drops_the_values_the_reference_drops)
{
    struct net *net = small_net(0.5f);
    struct network cuda, reference;
    open_pair(&cuda, &reference, net, PRECISION_FP16, true);
    const double dropped = cuda_fixture_run(&reference, SAMPLES, true).loss_sum;
    assert_true(fabs(cuda_fixture_run(&cuda, SAMPLES, true).loss_sum - dropped) < 1e-5 * dropped);
    const double whole = cuda_fixture_run(&reference, SAMPLES, false).loss_sum;
    assert_true(fabs(cuda_fixture_run(&cuda, SAMPLES, false).loss_sum - whole) < 1e-5 * whole);
    assert_true(fabs(whole - dropped) > 1e-3 * dropped);
    close_pair(&cuda, &reference);
    net_close(net);
}

/* ---- parameters ---- */

TEST(parameters_are_stored_padded_with_zeros)
{
    struct network fixture;
    cuda_fixture_open_own(&fixture, small_net(0), PRECISION_BF16);
    for (uint32_t p = 0; p < fixture.net->parameter_count; p++) {
        const size_t count = fixture.net->parameters[p].count, stored_count = fixture.arenas.trained.ranges[p].count;
        float *plain = malloc(count * sizeof(*plain)), *stored = malloc(stored_count * sizeof(*stored));
        assert_true(plain && stored);
        for (size_t i = 0; i < count; i++)
            plain[i] = (float)(i + 1);
        network_write(&fixture, fixture.gradients, p, plain);
        float *back = cuda_fixture_read(&fixture, fixture.gradients, p);
        assert_memory_equal(back, plain, count * sizeof(*plain));
        device_memory_read(fixture.compute, stored, fixture.gradients + network_offset(&fixture, p),
                           stored_count * sizeof(*stored));
        size_t padding = 0;
        for (size_t i = 0; i < stored_count; i++)
            padding += stored[i] == 0;
        assert_int_equal(padding, stored_count - count);
        free(plain);
        free(stored);
    }
    cuda_fixture_close(&fixture);
}

/* ---- updates ---- */

static void train(struct network *fixture, enum optimizer_kind kind, uint32_t steps)
{
    float *states[OPTIMIZER_STATES_MAX];
    for (size_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        states[i] = device_memory_make(fixture->compute, NULL, fixture->arenas.trained.count * sizeof(float));
    for (uint32_t i = 0; i < steps; i++) {
        cuda_fixture_run(fixture, SAMPLES, true);
        cuda_fixture_update(fixture, kind, states);
    }
    device_memory_wait(fixture->compute);
    for (size_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        fixture->device->ops->free(fixture->device, states[i]);
}

static void compare_training(const struct net *net, enum optimizer_kind kind)
{
    struct network cuda, reference;
    open_pair(&cuda, &reference, net, PRECISION_FP32, false);
    train(&cuda, kind, 3);
    train(&reference, kind, 3);
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        float *const got = cuda_fixture_read(&cuda, network_arena(&cuda, p), p);
        float *const wanted = cuda_fixture_read(&reference, network_arena(&reference, p), p);
        compare(got, wanted, net->parameters[p].count, 1, PRECISION_FP32, net->parameters[p].name);
    }
    close_pair(&cuda, &reference);
}

TEST(trains_as_the_reference_does)
{
    struct net *const nets[] = { small_net(0.5f), residual_net(), dense_block_net() };
    for (size_t i = 0; i < sizeof(nets) / sizeof(nets[0]); i++) {
        for (uint32_t kind = 0; kind < OPTIMIZER_KIND_COUNT; kind++)
            if (test_is_long() || kind % (sizeof(nets) / sizeof(nets[0])) == i)
                compare_training(nets[i], (enum optimizer_kind)kind);
        net_close(nets[i]);
    }
}

static void copy_weights(struct network *to, struct network *from)
{
    for (uint32_t p = 0; p < from->net->parameter_count; p++) {
        float *plain = cuda_fixture_read(from, from->weights, p);
        network_write(to, to->weights, p, plain);
    }
}

/* A step uses the weights in the arena, however they got there. */
TEST(sixteen_bit_weights_follow_updates_and_written_weights)
{
    struct net *net = small_net(0);
    for (uint32_t precision = PRECISION_BF16; precision <= PRECISION_FP16; precision++) {
        struct network trained, written;
        cuda_fixture_open(&trained, "cuda", net, (enum precision)precision);
        cuda_fixture_open(&written, "cuda", net, (enum precision)precision);
        const double before = cuda_fixture_run(&written, SAMPLES, false).loss_sum;
        train(&trained, OPTIMIZER_SGD, 3);
        copy_weights(&written, &trained);
        const double after = cuda_fixture_run(&written, SAMPLES, false).loss_sum;
        assert_true(after < before);
        assert_true(cuda_fixture_run(&trained, SAMPLES, false).loss_sum == after);
        cuda_fixture_close(&trained);
        cuda_fixture_close(&written);
    }
    net_close(net);
}

int main(void)
{
    sim_setup(2, FIXTURE_DEVICE_BYTES);
    return tests_run(NULL, NULL);
}
