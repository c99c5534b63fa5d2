/* Tests of the CUDA backend on the simulated CUDA: losses, gradients and updates as the
 * reference backend's, in every precision and slice size; recorded steps; what a step may
 * not do; memory that is short; and every library call failing once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cublasLt.h>
#include <cudnn.h>

#include "capture.h"
#include "compute/kernels.h"
#include "compute/model.h"
#include "device_memory.h"
#include "network.h"
#include "sim/sim.h"

enum { SAMPLES = 8, PLANS_MAX = 4, RANDOM_NETS = 30, SEED = 9 };

#define DEVICE_BYTES ((size_t)64 << 20)

static const char *const precision_names[PRECISION_COUNT] = {
    [PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32", [PRECISION_BF16] = "bf16", [PRECISION_FP16] = "fp16",
};

/* ---- a backend with arenas and an input ---- */

struct stand {
    const struct backend_ops *ops;
    struct device *device;
    struct stream *compute;
    const struct net *net;
    struct backend *backend;
    struct arena arena;
    float *weights, *gradients;
    struct plan *plans[PLANS_MAX];
    uint32_t plan_count;
    uint8_t *pixels;            /* SAMPLES of both, in device memory */
    int32_t *labels;
    struct backend_input input; /* the same on the host */
    bool is_coarse;             /* weights and pixels, see drawn_coarse */
    struct backend_result *result;
    uint32_t done[NET_LAYERS_MAX], done_count;
};

static struct backend_spec spec_of(const struct net *net, enum precision precision)
{
    return (struct backend_spec){
        .net = net, .threads = 1, .slice_max = SAMPLES, .seed = SEED, .precision = precision, .graph = GRAPH_OFF,
    };
}

static int stand_open_backend(struct stand *stand, const struct backend_spec *spec)
{
    static size_t counts[NET_PARAMETERS_MAX];
    struct backend_spec whole = *spec;
    whole.device = stand->device;
    whole.compute = stand->compute;
    int rc = stand->ops->open(&stand->backend, &whole);
    if (rc == 0)
        rc = stand->ops->store(stand->backend, counts);
    if (rc == 0)
        rc = arena_init(&stand->arena, stand->net, counts);
    return rc;
}

static void make_coarse(struct backend_input *input, size_t count)
{
    uint8_t *pixels = (uint8_t *)(uintptr_t)input->pixels;
    for (size_t i = 0; i < count; i++)
        pixels[i] = pixels[i] % 2 ? 255 : 0;
}

static void stand_open_memory(struct stand *stand)
{
    const size_t bytes = stand->arena.count * sizeof(float);
    void *result;
    stand->weights = device_memory_make(stand->compute, NULL, bytes);
    stand->gradients = device_memory_make(stand->compute, NULL, bytes);
    stand->input = network_input(stand->net, SAMPLES, 4);
    if (stand->is_coarse)
        make_coarse(&stand->input, SAMPLES * shape_count(stand->net->input));
    stand->pixels = device_memory_make(stand->compute, stand->input.pixels, SAMPLES * shape_count(stand->net->input));
    stand->labels = device_memory_make(stand->compute, stand->input.labels, SAMPLES * sizeof(int32_t));
    assert_int_equal(stand->device->ops->alloc_pinned(stand->device, sizeof *stand->result, &result), 0);
    stand->result = result;
}

static void stand_read(struct stand *stand, const float *arena, uint32_t parameter, float *plain_out)
{
    const float *stored = arena + stand->arena.ranges[parameter].offset;
    assert_int_equal(stand->ops->unpack(stand->backend, parameter, stored, plain_out), 0);
}

static void stand_write(struct stand *stand, float *arena, uint32_t parameter, const float *plain)
{
    float *stored = arena + stand->arena.ranges[parameter].offset;
    assert_int_equal(stand->ops->pack(stand->backend, parameter, plain, stored), 0);
}

/* Numbers that keep activations near 1. */
static float drawn(const struct parameter *parameter, struct random_key key, size_t i)
{
    const float limit = parameter->fan_in > 0 ? 2.0f / sqrtf((float)parameter->fan_in) : 0.2f;
    return limit * (2 * random_uniform(key, i) - 1);
}

/* -1, 0 or 1, so few of them that sums stay small: with pixels of 0 and 1 every precision
 * computes the forward pass without rounding. Then the same values pass every ReLU and win
 * every window, and what is left to differ is rounding in backward, which is linear. */
static float drawn_coarse(const struct parameter *parameter, struct random_key key, size_t i)
{
    const uint64_t often = parameter->fan_in > 2 ? parameter->fan_in / 2 : 1;
    const uint64_t number = random_u64(key, i);
    return number / 2 % often > 0 ? 0 : number % 2 == 0 ? 1 : -1;
}

/* Every parameter, biases too. */
static void draw_weights(struct stand *stand)
{
    for (uint32_t p = 0; p < stand->net->parameter_count; p++) {
        const struct parameter *parameter = &stand->net->parameters[p];
        const struct random_key key = random_key(5, RANDOM_DRAW, 100 + p);
        float *plain = malloc(parameter->count * sizeof *plain);
        assert_non_null(plain);
        for (size_t i = 0; i < parameter->count; i++)
            plain[i] = stand->is_coarse ? drawn_coarse(parameter, key, i) : drawn(parameter, key, i);
        stand_write(stand, stand->weights, p, plain);
        free(plain);
    }
}

static void stand_open_with(struct stand *stand, const char *backend, const struct backend_spec *spec, bool is_coarse)
{
    *stand = (struct stand){ .ops = backend_find(backend), .net = spec->net, .is_coarse = is_coarse };
    stand->device = device_memory_open(stand->ops, &stand->compute);
    assert_int_equal(stand_open_backend(stand, spec), 0);
    stand_open_memory(stand);
    assert_int_equal(stand->ops->bind(stand->backend, &stand->arena, stand->weights, stand->gradients), 0);
    draw_weights(stand);
}

static void stand_open(struct stand *stand, const char *backend, const struct net *net, enum precision precision)
{
    const struct backend_spec spec = spec_of(net, precision);
    stand_open_with(stand, backend, &spec, false);
}

static void stand_close(struct stand *stand)
{
    const struct device_ops *ops = stand->device->ops;
    for (uint32_t i = 0; i < stand->plan_count; i++)
        stand->ops->plan_close(stand->plans[i]);
    stand->ops->close(stand->backend);
    void *memory[] = { stand->weights, stand->gradients, stand->pixels, stand->labels };
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        ops->free(stand->device, memory[i]);
    ops->free_pinned(stand->device, stand->result);
    if (stand->input.pixels)
        network_input_release(&stand->input);
    arena_release(&stand->arena);
    device_memory_close(stand->device, stand->compute);
}

static struct plan *plan_of(struct stand *stand, uint32_t count, bool training)
{
    for (uint32_t i = 0; i < stand->plan_count; i++) {
        const struct plan_base *base = (const struct plan_base *)(const void *)stand->plans[i];
        if (base->count == count && base->training == training)
            return stand->plans[i];
    }
    assert_true(stand->plan_count < PLANS_MAX);
    struct plan **plan = &stand->plans[stand->plan_count++];
    assert_int_equal(stand->ops->plan(stand->backend, count, training, plan), 0);
    return *plan;
}

static void layer_done(void *arg, uint32_t layer)
{
    struct stand *stand = arg;
    stand->done[stand->done_count++] = layer;
}

static void queue_pass(struct stand *stand, struct plan *plan)
{
    const struct plan_base *base = (const struct plan_base *)(const void *)plan;
    const struct backend_input input = {
        .pixels = stand->pixels, .labels = stand->labels, .first_position = 1000, .epoch = 3,
    };
    assert_int_equal(stand->ops->input(plan, &input), 0);
    assert_int_equal(stand->ops->forward(plan), 0);
    stand->done_count = 0;
    if (base->training)
        assert_int_equal(stand->ops->backward(plan, layer_done, stand), 0);
    assert_int_equal(stand->ops->result(plan, stand->result), 0);
}

/* The first `count` samples: forward, with training also backward. */
static struct backend_result run(struct stand *stand, uint32_t count, bool training)
{
    queue_pass(stand, plan_of(stand, count, training));
    device_memory_wait(stand->compute);
    return *stand->result;
}

static float *read_plain(struct stand *stand, const float *arena, uint32_t parameter)
{
    float *plain = malloc(stand->net->parameters[parameter].count * sizeof *plain);
    assert_non_null(plain);
    stand_read(stand, arena, parameter, plain);
    return plain;
}

static struct net *mnist(bool dropout)
{
    struct net *net;
    assert_int_equal(model_open(&net, "mnist_cnn", &(struct model_options){ .dropout = dropout }), 0);
    return net;
}

/* A convolution with and one without a ReLU, pools, in-place layers, dense layers. */
static struct net *small(float dropout)
{
    struct net *net;
    assert_int_equal(net_open(&net, "small", (struct shape){ 3, 9, 7 }, 4), 0);
    net_conv2d(net, "conv1", NET_INPUT, 5, 3, 1, PADDING_SAME);
    net_relu(net, "relu1", 0);
    net_conv2d(net, "conv2", 1, 12, 2, 2, PADDING_VALID);
    net_max_pool(net, "pool", 2, 2, 1, PADDING_VALID);
    net_relu(net, "relu2", 3);
    net_dropout(net, "dropout", 4, dropout);
    net_dense(net, "fc1", 5, 11);
    net_relu(net, "relu3", 6);
    net_dense(net, "fc2", 7, 4);
    net_softmax_loss(net, "loss", 8);
    assert_int_equal(net_finish(net), 0);
    return net;
}

/* ---- updates ---- */

static void update_by(struct stand *stand, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX],
                      float learning_rate)
{
    const struct optimizer optimizer = { .kind = kind, .momentum = 0.9f, .rho = 0.95f, .epsilon = 1e-6f,
                                         .weight_decay = 1e-3f };
    const struct optimizer_range range = {
        .weights = stand->weights, .gradients = stand->gradients, .states = { states[0], states[1] },
        .count = stand->arena.count,
    };
    if (stand->ops->check)
        assert_int_equal(stand->ops->check(stand->backend, range.gradients, range.count), 0);
    assert_int_equal(stand->ops->update(stand->backend, &optimizer, learning_rate, 1.0f / SAMPLES, &range), 0);
}

static void update(struct stand *stand, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX])
{
    update_by(stand, kind, states, 0.05f);
}

/* fp16: the loss scale comes down until no gradient overflows; the weights stay as they are. */
static void settle_scale(struct stand *stand)
{
    float *const no_states[OPTIMIZER_STATES_MAX] = { NULL, NULL };
    uint32_t skipped;
    do {
        skipped = run(stand, SAMPLES, true).skipped_steps;
        update_by(stand, OPTIMIZER_SGD, no_states, 0);
    } while (run(stand, SAMPLES, true).skipped_steps != skipped);
}

/* ---- the reference's numbers ---- */

/* How far from the reference's numbers a backend's may be, in parts of the largest one. */
static const double tolerances[PRECISION_COUNT] = {
    [PRECISION_FP32] = 1e-4, [PRECISION_TF32] = 5e-3, [PRECISION_BF16] = 3e-2, [PRECISION_FP16] = 3e-2,
};

static void compare(const float *got, const float *wanted, size_t count, double factor, double tolerance,
                    const char *what)
{
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(isfinite(got[i]));
        largest = fmax(largest, fabs((double)wanted[i]));
        worst = fmax(worst, fabs((double)got[i] / factor - (double)wanted[i]));
    }
    if (worst > tolerance * largest)
        fail_msg("%s: %g from numbers up to %g", what, worst, largest);
}

/* fp16's gradients are of a scaled loss. */
static void compare_gradients(struct stand *cuda, struct stand *reference, enum precision precision)
{
    const double factor = (double)cuda->result->loss_scale;
    for (uint32_t p = 0; p < cuda->net->parameter_count; p++) {
        float *got = read_plain(cuda, cuda->gradients, p), *wanted = read_plain(reference, reference->gradients, p);
        compare(got, wanted, cuda->net->parameters[p].count, factor, tolerances[precision],
                cuda->net->parameters[p].name);
        free(got);
        free(wanted);
    }
}

static void compare_run(struct stand *cuda, struct stand *reference, enum precision precision, uint32_t count,
                        bool training)
{
    const struct backend_result got = run(cuda, count, training), wanted = run(reference, count, training);
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
    struct stand cuda, reference;
    const struct backend_spec spec = spec_of(net, precision), exact = spec_of(net, PRECISION_FP32);
    stand_open_with(&cuda, "cuda", &spec, precision != PRECISION_FP32);
    stand_open_with(&reference, "reference", &exact, precision != PRECISION_FP32);
    if (precision == PRECISION_FP16)
        settle_scale(&cuda);
    compare_run(&cuda, &reference, precision, SAMPLES, true);
    compare_run(&cuda, &reference, precision, 5, true);
    compare_run(&cuda, &reference, precision, 1, true);
    compare_run(&cuda, &reference, precision, SAMPLES, false);
    compare_run(&cuda, &reference, precision, 5, true);
    stand_close(&cuda);
    stand_close(&reference);
}

static void matches_the_reference_on_mnist(void **state)
{
    (void)state;
    for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++) {
        struct net *net = mnist(precision == PRECISION_FP32);   /* dropping a quarter is not exact */
        print_message("%s\n", precision_names[precision]);
        compare_net(net, (enum precision)precision);
        net_close(net);
    }
}

static void matches_the_reference_on_random_nets(void **state)
{
    (void)state;
    for (uint32_t seed = 0; seed < RANDOM_NETS; seed++) {
        struct net *net = network_random_net(seed, 0.5f);
        print_message("net %u\n", seed);
        for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++)
            compare_net(net, (enum precision)precision);
        net_close(net);
    }
}

static void measured_convolutions_compute_the_same_in_no_more_memory(void **state)
{
    (void)state;
    struct net *net = small(0);
    struct stand measured, reference, other;
    struct backend_spec spec = spec_of(net, PRECISION_FP32);
    stand_open_with(&other, "cuda", &spec, false);
    stand_open_with(&reference, "reference", &spec, false);
    spec.time_plans = true;
    spec.workspace_max = 1 << 20;
    stand_open_with(&measured, "cuda", &spec, false);
    compare_run(&measured, &reference, PRECISION_FP32, 5, true);
    compare_run(&measured, &reference, PRECISION_FP32, SAMPLES, true);
    compare_run(&measured, &reference, PRECISION_FP32, 5, true);
    compare_run(&measured, &reference, PRECISION_FP32, SAMPLES, false);
    assert_true(measured.ops->plan_bytes(plan_of(&measured, 5, true)) <=
                other.ops->plan_bytes(plan_of(&other, 5, true)) + spec.workspace_max);
    stand_close(&measured);
    stand_close(&reference);
    stand_close(&other);
    net_close(net);
}

/* Layers that work in place between layers that do not keep their input. */
static void matches_the_reference_where_layers_work_in_place(void **state)
{
    (void)state;
    struct net *net;
    assert_int_equal(net_open(&net, "in place", (struct shape){ 8, 12, 12 }, 3), 0);
    net_conv2d(net, "conv", NET_INPUT, 8, 1, 1, PADDING_VALID);
    net_max_pool(net, "pool1", 0, 2, 1, PADDING_SAME);
    net_relu(net, "relu", 1);
    net_dropout(net, "dropout", 2, 0.5f);
    net_max_pool(net, "pool2", 3, 2, 1, PADDING_SAME);
    net_max_pool(net, "pool3", 4, 2, 1, PADDING_SAME);
    net_dense(net, "fc", 5, 3);
    net_softmax_loss(net, "loss", 6);
    assert_int_equal(net_finish(net), 0);
    for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++)
        compare_net(net, (enum precision)precision);
    net_close(net);
}

/* ---- dropout ---- */

/* Without rounding, what is dropped shows in every bit of the loss. */
static void drops_the_values_the_reference_drops(void **state)
{
    (void)state;
    struct net *net = small(0.5f);
    struct stand cuda, reference;
    const struct backend_spec spec = spec_of(net, PRECISION_FP16), exact = spec_of(net, PRECISION_FP32);
    stand_open_with(&cuda, "cuda", &spec, true);
    stand_open_with(&reference, "reference", &exact, true);
    const double dropped = run(&reference, SAMPLES, true).loss_sum;
    assert_true(fabs(run(&cuda, SAMPLES, true).loss_sum - dropped) < 1e-5 * dropped);
    const double whole = run(&reference, SAMPLES, false).loss_sum;
    assert_true(fabs(run(&cuda, SAMPLES, false).loss_sum - whole) < 1e-5 * whole);
    assert_true(fabs(whole - dropped) > 1e-3 * dropped);
    stand_close(&cuda);
    stand_close(&reference);
    net_close(net);
}

/* ---- parameters ---- */

static void stores_parameters_padded_with_zeros_and_gives_them_back(void **state)
{
    (void)state;
    struct net *net = small(0);
    struct stand stand;
    stand_open(&stand, "cuda", net, PRECISION_BF16);
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        const size_t count = net->parameters[p].count, stored_count = stand.arena.ranges[p].count;
        float *plain = malloc(count * sizeof *plain), *stored = malloc(stored_count * sizeof *stored);
        assert_true(plain && stored);
        for (size_t i = 0; i < count; i++)
            plain[i] = (float)(i + 1);
        stand_write(&stand, stand.gradients, p, plain);
        float *back = read_plain(&stand, stand.gradients, p);
        assert_memory_equal(back, plain, count * sizeof *plain);
        device_memory_read(stand.compute, stored, stand.gradients + stand.arena.ranges[p].offset,
                           stored_count * sizeof *stored);
        size_t padding = 0;
        for (size_t i = 0; i < stored_count; i++)
            padding += stored[i] == 0;
        assert_int_equal(padding, stored_count - count);
        free(plain);
        free(stored);
        free(back);
    }
    stand_close(&stand);
    net_close(net);
}

/* ---- training ---- */

static void train(struct stand *stand, enum optimizer_kind kind, uint32_t steps)
{
    float *states[OPTIMIZER_STATES_MAX];
    for (size_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        states[i] = device_memory_make(stand->compute, NULL, stand->arena.count * sizeof(float));
    for (uint32_t i = 0; i < steps; i++) {
        run(stand, SAMPLES, true);
        update(stand, kind, states);
    }
    device_memory_wait(stand->compute);
    for (size_t i = 0; i < OPTIMIZER_STATES_MAX; i++)
        stand->device->ops->free(stand->device, states[i]);
}

static void trains_as_the_reference_does(void **state)
{
    (void)state;
    struct net *net = small(0.5f);
    for (uint32_t kind = 0; kind < OPTIMIZER_KIND_COUNT; kind++) {
        struct stand cuda, reference;
        stand_open(&cuda, "cuda", net, PRECISION_FP32);
        stand_open(&reference, "reference", net, PRECISION_FP32);
        train(&cuda, (enum optimizer_kind)kind, 3);
        train(&reference, (enum optimizer_kind)kind, 3);
        for (uint32_t p = 0; p < net->parameter_count; p++) {
            float *got = read_plain(&cuda, cuda.weights, p), *wanted = read_plain(&reference, reference.weights, p);
            compare(got, wanted, net->parameters[p].count, 1, 1e-4, net->parameters[p].name);
            free(got);
            free(wanted);
        }
        stand_close(&cuda);
        stand_close(&reference);
    }
    net_close(net);
}

static void copy_weights(struct stand *to, struct stand *from)
{
    for (uint32_t p = 0; p < from->net->parameter_count; p++) {
        float *plain = read_plain(from, from->weights, p);
        stand_write(to, to->weights, p, plain);
        free(plain);
    }
}

/* Whatever way weights take into the arena, a step computes with them. */
static void sixteen_bit_weights_follow_updates_and_written_weights(void **state)
{
    (void)state;
    struct net *net = small(0);
    for (uint32_t precision = PRECISION_BF16; precision <= PRECISION_FP16; precision++) {
        struct stand trained, written;
        stand_open(&trained, "cuda", net, (enum precision)precision);
        stand_open(&written, "cuda", net, (enum precision)precision);
        const double before = run(&written, SAMPLES, false).loss_sum;
        train(&trained, OPTIMIZER_SGD, 3);
        copy_weights(&written, &trained);
        const double after = run(&written, SAMPLES, false).loss_sum;
        assert_true(after < before);
        assert_true(run(&trained, SAMPLES, false).loss_sum == after);
        stand_close(&trained);
        stand_close(&written);
    }
    net_close(net);
}

static void an_fp16_step_whose_gradients_overflow_is_left_out(void **state)
{
    (void)state;
    float *const no_states[OPTIMIZER_STATES_MAX] = { NULL, NULL };
    struct net *net = small(0);
    struct stand stand;
    stand_open(&stand, "cuda", net, PRECISION_FP16);
    run(&stand, SAMPLES, true);
    float *before = read_plain(&stand, stand.weights, 2);
    const float overflow = INFINITY;
    device_memory_write(stand.compute, stand.gradients + stand.arena.ranges[1].offset, &overflow, sizeof overflow);
    update(&stand, OPTIMIZER_SGD, no_states);
    float *after = read_plain(&stand, stand.weights, 2);
    assert_memory_equal(after, before, net->parameters[2].count * sizeof *after);
    free(after);
    const struct backend_result next = run(&stand, SAMPLES, true);
    assert_float_equal(next.loss_scale, LOSS_SCALE_FIRST / 2, 0);
    assert_int_equal(next.skipped_steps, 1);
    update(&stand, OPTIMIZER_SGD, no_states);
    after = read_plain(&stand, stand.weights, 2);
    assert_memory_not_equal(after, before, net->parameters[2].count * sizeof *after);
    assert_int_equal(run(&stand, SAMPLES, true).skipped_steps, 1);
    free(before);
    free(after);
    stand_close(&stand);
    net_close(net);
}

/* ---- segments and recorded steps ---- */

static bool *ends_of(const struct net *net, uint32_t first, uint32_t second)
{
    bool *ends = calloc(net->layer_count, sizeof *ends);
    assert_non_null(ends);
    ends[first] = ends[second] = true;
    return ends;
}

/* Make the plans, then cut backward at these layers. 0 or what segment() returned. */
static int cut(struct stand *stand, uint32_t first, uint32_t second)
{
    plan_of(stand, SAMPLES, true);
    plan_of(stand, 5, true);
    plan_of(stand, SAMPLES, false);
    bool *ends = ends_of(stand->net, first, second);
    const int rc = stand->ops->segment(stand->backend, ends);
    free(ends);
    return rc;
}

static void assert_done(const struct stand *stand, const uint32_t *layers, uint32_t count)
{
    assert_int_equal(stand->done_count, count);
    assert_memory_equal(stand->done, layers, count * sizeof *layers);
}

static void tells_of_the_layers_that_are_asked_for(void **state)
{
    (void)state;
    static const enum graph_use uses[] = { GRAPH_OFF, GRAPH_ON };
    static const uint32_t all[] = { 8, 6, 2, 0 }, some[] = { 6, 0 };
    struct net *net = small(0);
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        struct stand stand;
        struct backend_spec spec = spec_of(net, PRECISION_FP32);
        spec.graph = uses[i];
        stand_open_with(&stand, "cuda", &spec, false);
        run(&stand, SAMPLES, true);
        assert_done(&stand, all, 4);
        assert_int_equal(cut(&stand, 6, 0), 0);
        sim_calls_clear();
        run(&stand, SAMPLES, true);
        assert_done(&stand, some, 2);
        assert_int_equal(sim_calls("cudaGraphLaunch"), uses[i] == GRAPH_ON ? 3 : 0);
        stand_close(&stand);
    }
    net_close(net);
}

/* What becomes ready with each layer of the last backward, copied at that time. */
struct prefixes {
    struct stand *stand;
    float *copies[NET_LAYERS_MAX];
    size_t ready[NET_LAYERS_MAX];
    uint32_t count;
};

static void copy_prefix(void *arg, uint32_t layer)
{
    struct prefixes *prefixes = arg;
    struct stand *stand = prefixes->stand;
    const size_t ready = arena_ready(&stand->arena, stand->net, layer);
    void *copy;
    assert_int_equal(stand->device->ops->alloc_pinned(stand->device, ready * sizeof(float), &copy), 0);
    assert_int_equal(stand->device->ops->copy(stand->compute, copy, stand->gradients, ready * sizeof(float),
                                              COPY_FROM_DEVICE), 0);
    prefixes->copies[prefixes->count] = copy;
    prefixes->ready[prefixes->count++] = ready;
}

static void gradients_are_final_when_their_layer_is_done(void **state)
{
    (void)state;
    struct net *net = small(0);
    struct stand stand;
    struct backend_spec spec = spec_of(net, PRECISION_BF16);
    spec.graph = GRAPH_ON;
    stand_open_with(&stand, "cuda", &spec, false);
    assert_int_equal(cut(&stand, 6, 0), 0);
    run(&stand, 5, true);
    const struct backend_input input = { .pixels = stand.pixels, .labels = stand.labels };
    struct plan *plan = plan_of(&stand, SAMPLES, true);
    struct prefixes prefixes = { .stand = &stand };
    assert_int_equal(stand.ops->input(plan, &input), 0);
    assert_int_equal(stand.ops->forward(plan), 0);
    assert_int_equal(stand.ops->backward(plan, copy_prefix, &prefixes), 0);
    device_memory_wait(stand.compute);
    assert_int_equal(prefixes.count, 2);
    assert_int_equal(prefixes.ready[1], stand.arena.count);
    assert_memory_equal(prefixes.copies[0], prefixes.copies[1], prefixes.ready[0] * sizeof(float));
    for (uint32_t i = 0; i < prefixes.count; i++)
        stand.device->ops->free_pinned(stand.device, prefixes.copies[i]);
    stand_close(&stand);
    net_close(net);
}

/* Three steps of different samples' numbers; the weights they leave. */
static float *weights_after_steps(const struct net *net, enum precision precision, enum graph_use use)
{
    float *const no_states[OPTIMIZER_STATES_MAX] = { NULL, NULL };
    struct stand stand;
    struct backend_spec spec = spec_of(net, precision);
    spec.graph = use;
    stand_open_with(&stand, "cuda", &spec, false);
    assert_int_equal(cut(&stand, 6, 0), 0);
    static const uint32_t counts[] = { SAMPLES, 5, SAMPLES };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        run(&stand, counts[i], true);
        update(&stand, OPTIMIZER_SGD, no_states);
    }
    run(&stand, SAMPLES, false);
    float *weights = malloc((stand.arena.count + 1) * sizeof *weights);
    assert_non_null(weights);
    device_memory_read(stand.compute, weights, stand.weights, stand.arena.count * sizeof *weights);
    weights[stand.arena.count] = (float)stand.result->loss_sum;
    stand_close(&stand);
    return weights;
}

static void recorded_steps_give_the_same_bits(void **state)
{
    (void)state;
    struct net *net = small(0.5f);
    struct stand stand;
    stand_open(&stand, "cuda", net, PRECISION_FP32);
    const size_t bytes = (stand.arena.count + 1) * sizeof(float);
    stand_close(&stand);
    for (uint32_t precision = 0; precision < PRECISION_COUNT; precision++) {
        float *recorded = weights_after_steps(net, (enum precision)precision, GRAPH_ON);
        float *queued = weights_after_steps(net, (enum precision)precision, GRAPH_OFF);
        assert_memory_equal(recorded, queued, bytes);
        free(recorded);
        free(queued);
    }
    net_close(net);
}

/* Launches of graphs in a step with this use. */
static uint64_t launches(const struct net *net, enum graph_use use)
{
    struct stand stand;
    struct backend_spec spec = spec_of(net, PRECISION_FP32);
    spec.graph = use;
    stand_open_with(&stand, "cuda", &spec, false);
    assert_int_equal(cut(&stand, 6, 0), 0);
    sim_calls_clear();
    run(&stand, SAMPLES, true);
    stand_close(&stand);
    return sim_calls("cudaGraphLaunch");
}

static void records_small_steps_unless_told_otherwise(void **state)
{
    (void)state;
    struct net *net = small(0);
    assert_int_equal(launches(net, GRAPH_AUTO), 3);
    net->macs = 1ull << 40;
    assert_int_equal(launches(net, GRAPH_AUTO), 0);
    assert_int_equal(launches(net, GRAPH_ON), 3);
    net_close(net);
}

static void steps_that_cannot_be_recorded_are_queued_unless_recording_is_demanded(void **state)
{
    (void)state;
    static const char *const functions[] = { "cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaGraphUpload" };
    struct net *net = small(0);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        for (uint32_t number = 2; number <= 3; number++) {
            struct stand stand;
            struct capture capture;
            char text[2048];
            struct backend_spec spec = spec_of(net, PRECISION_FP32);
            spec.graph = number == 2 ? GRAPH_AUTO : GRAPH_ON;
            stand_open_with(&stand, "cuda", &spec, false);
            sim_fail(functions[i], number, cudaErrorUnknown);
            capture_begin(&capture);
            const int rc = cut(&stand, 6, 0);
            capture_end(&capture, text, sizeof text);
            sim_fail_clear();
            assert_int_equal(rc, spec.graph == GRAPH_AUTO ? 0 : -EIO);
            assert_non_null(strstr(text, functions[i]));
            assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
            sim_calls_clear();
            run(&stand, SAMPLES, true);
            run(&stand, SAMPLES, false);
            assert_int_equal(sim_calls("cudaGraphLaunch"), 0);
            stand_close(&stand);
        }
    net_close(net);
}

/* ---- the steady state ---- */

static void a_step_allocates_nothing_and_waits_for_nothing(void **state)
{
    (void)state;
    static const char *const forbidden[] = {
        "cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaEventCreateWithFlags", "cudaStreamSynchronize",
        "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaStreamQuery", "cudaEventQuery", "cudaMemcpy",
        "pageable copy", "cudaStreamBeginCapture", "cudaGraphInstantiate", "cudaStreamCreateWithPriority",
        "cudnnCreate", "cudnnBackendCreateDescriptor", "cublasLtCreate", "cublasLtMatmulDescCreate",
        "cublasLtMatmulAlgoGetHeuristic", "cudaGetLastError",
    };
    float *const no_states[OPTIMIZER_STATES_MAX] = { NULL, NULL };
    struct net *net = small(0.5f);
    for (uint32_t use = GRAPH_ON; use <= GRAPH_OFF; use++) {
        struct stand stand;
        struct backend_spec spec = spec_of(net, PRECISION_FP16);
        spec.graph = (enum graph_use)use;
        stand_open_with(&stand, "cuda", &spec, false);
        assert_int_equal(cut(&stand, 6, 0), 0);
        struct plan *plan = plan_of(&stand, SAMPLES, true);
        run(&stand, SAMPLES, true);
        sim_calls_clear();
        for (uint32_t step = 0; step < 3; step++) {
            queue_pass(&stand, plan);
            update(&stand, OPTIMIZER_SGD, no_states);
        }
        for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++)
            if (sim_calls(forbidden[i]) > 0)
                fail_msg("%s was called %u times", forbidden[i], (unsigned)sim_calls(forbidden[i]));
        assert_int_equal(sim_calls("cudaMemcpyAsync"), 3);
        device_memory_wait(stand.compute);
        stand_close(&stand);
    }
    net_close(net);
}

/* So that libraries load what they load at first use before the first step. */
static void a_plan_is_run_once_when_it_is_made(void **state)
{
    (void)state;
    static const char *const functions[] = { "cudnnBackendExecute", "cublasLtMatmul", "cudaLaunchKernelEx" };
    uint64_t calls[sizeof functions / sizeof functions[0]];
    struct net *net = small(0.5f);
    struct stand stand;
    stand_open(&stand, "cuda", net, PRECISION_FP16);
    float *before = read_plain(&stand, stand.weights, 2);
    sim_calls_clear();
    plan_of(&stand, SAMPLES, true);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        calls[i] = sim_calls(functions[i]);
    sim_calls_clear();
    assert_float_equal(run(&stand, SAMPLES, true).loss_scale, LOSS_SCALE_FIRST, 0);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        assert_true(calls[i] > 0);
        assert_int_equal(calls[i], sim_calls(functions[i]));
    }
    float *after = read_plain(&stand, stand.weights, 2);
    assert_memory_equal(after, before, net->parameters[2].count * sizeof *after);
    free(before);
    free(after);
    stand_close(&stand);
    net_close(net);
}

/* ---- memory ---- */

static int try_plan(struct stand *stand, uint32_t count, char *text, size_t text_size)
{
    struct plan *plan;
    struct capture capture;
    capture_begin(&capture);
    const int rc = stand->ops->plan(stand->backend, count, true, &plan);
    capture_end(&capture, text, text_size);
    if (rc == 0)
        stand->ops->plan_close(plan);
    return rc;
}

static void says_how_many_samples_would_fit(void **state)
{
    (void)state;
    struct net *net = small(0);
    struct stand stand;
    char text[1024];
    stand_open(&stand, "cuda", net, PRECISION_FP32);
    assert_int_equal(try_plan(&stand, 20000, text, sizeof text), -ENOMEM);
    unsigned samples, fitting;
    assert_int_equal(sscanf(text, "pipetrain: cuda0: a tower of %u samples needs", &samples), 1);
    assert_int_equal(samples, 20000);
    const char *hint = strstr(text, "GiB are free: batch_per_tower ");
    assert_non_null(hint);
    assert_int_equal(sscanf(hint, "GiB are free: batch_per_tower %u would fit", &fitting), 1);
    assert_int_equal(try_plan(&stand, fitting * 6 / 5, text, sizeof text), -ENOMEM);
    assert_int_equal(try_plan(&stand, fitting, text, sizeof text), 0);
    stand_close(&stand);
    net_close(net);
}

static void plans_share_their_memory(void **state)
{
    (void)state;
    struct net *net = small(0);
    struct stand stand;
    stand_open(&stand, "cuda", net, PRECISION_FP32);
    struct plan *small_plan = plan_of(&stand, 1, true);
    struct plan *large_plan = plan_of(&stand, SAMPLES, true);
    struct plan *evaluation = plan_of(&stand, SAMPLES, false);
    assert_true(stand.ops->plan_bytes(small_plan) > 0);
    assert_true(stand.ops->plan_bytes(large_plan) > 0);
    assert_int_equal(stand.ops->plan_bytes(evaluation), 0);
    stand_close(&stand);
    net_close(net);
}

/* ---- refusals ---- */

static int try_open(const char *backend, const struct backend_spec *spec, const char *kind, char *text,
                    size_t text_size)
{
    struct stand stand = { .ops = backend_find(kind), .net = spec->net };
    struct capture capture;
    stand.device = device_memory_open(stand.ops, &stand.compute);
    stand.ops = backend_find(backend);
    capture_begin(&capture);
    const int rc = stand_open_backend(&stand, spec);
    capture_end(&capture, text, text_size);
    if (rc == 0)
        stand.ops->close(stand.backend);
    arena_release(&stand.arena);
    device_memory_close(stand.device, stand.compute);
    return rc;
}

static void refuses_what_it_cannot_do(void **state)
{
    (void)state;
    char text[1024];
    struct net *net = small(0);
    struct backend_spec spec = spec_of(net, PRECISION_FP32);
    assert_int_equal(try_open("cuda", &spec, "reference", text, sizeof text), -ENOTSUP);
    assert_non_null(strstr(text, "host"));
    spec.layout = LAYOUT_NCHW;
    assert_int_equal(try_open("cuda", &spec, "cuda", text, sizeof text), -ENOTSUP);
    assert_non_null(strstr(text, "nchw"));
    spec = spec_of(net, PRECISION_BF16);
    assert_int_equal(try_open("reference", &spec, "reference", text, sizeof text), -ENOTSUP);
    assert_non_null(strstr(text, "fp32 only"));
    net_close(net);
}

static void refuses_windows_of_too_many_pixels(void **state)
{
    (void)state;
    char text[1024];
    struct net *net;
    assert_int_equal(net_open(&net, "wide", (struct shape){ 1, 16, 16 }, 2), 0);
    net_max_pool(net, "pool", NET_INPUT, 16, 16, PADDING_VALID);
    net_dense(net, "fc", 0, 2);
    net_softmax_loss(net, "loss", 1);
    assert_int_equal(net_finish(net), 0);
    struct stand stand;
    stand_open(&stand, "cuda", net, PRECISION_FP32);
    assert_int_equal(try_plan(&stand, 1, text, sizeof text), -ENOTSUP);
    assert_non_null(strstr(text, "pool"));
    stand_close(&stand);
    net_close(net);
}

/* ---- descriptions ---- */

struct lines { char text[32][768]; uint32_t count; };

static void keep_line(void *arg, const char *line)
{
    struct lines *lines = arg;
    snprintf(lines->text[lines->count++], sizeof lines->text[0], "%s", line);
}

static void describes_every_layer_and_how_steps_are_queued(void **state)
{
    (void)state;
    static struct lines lines;
    struct net *net = small(0);
    struct stand stand;
    struct backend_spec spec = spec_of(net, PRECISION_FP32);
    spec.graph = GRAPH_ON;
    stand_open_with(&stand, "cuda", &spec, false);
    assert_int_equal(cut(&stand, 6, 0), 0);
    stand.ops->plan_describe(plan_of(&stand, SAMPLES, true), keep_line, &lines);
    assert_int_equal(lines.count, net->layer_count + 1);
    for (uint32_t i = 0; i < net->layer_count; i++)
        assert_memory_equal(lines.text[i], net->layers[i].name, strlen(net->layers[i].name));
    assert_non_null(strstr(lines.text[0], "forward engine"));
    assert_non_null(strstr(lines.text[0], "weight gradient engine"));
    assert_null(strstr(lines.text[0], "data gradient"));
    assert_non_null(strstr(lines.text[2], "data gradient engine"));
    assert_non_null(strstr(lines.text[1], "in conv1"));
    assert_non_null(strstr(lines.text[net->layer_count], "backward as 2"));
    stand_close(&stand);
    net_close(net);
}

/* ---- failures ---- */

/* Everything up to the first step, in arenas that are there already. */
static int set_up(struct stand *stand, const struct backend_spec *spec)
{
    bool *ends = ends_of(spec->net, 6, 0);
    int rc = stand_open_backend(stand, spec);
    if (rc == 0)
        rc = stand->ops->bind(stand->backend, &stand->arena, stand->weights, stand->gradients);
    for (uint32_t p = 0; p < spec->net->parameter_count && rc == 0; p++) {
        float *plain = calloc(spec->net->parameters[p].count, sizeof *plain);
        assert_non_null(plain);
        rc = stand->ops->pack(stand->backend, p, plain, stand->weights + stand->arena.ranges[p].offset);
        if (rc == 0)
            rc = stand->ops->unpack(stand->backend, p, stand->weights + stand->arena.ranges[p].offset, plain);
        free(plain);
    }
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        rc = stand->ops->plan(stand->backend, i == 0 ? SAMPLES : 5, i == 0, &stand->plans[i]);
        stand->plan_count += rc == 0;
    }
    if (rc == 0)
        rc = stand->ops->segment(stand->backend, ends);
    free(ends);
    return rc;
}

static size_t free_memory(struct stand *stand)
{
    size_t free_bytes, total_bytes;
    assert_int_equal(stand->device->ops->memory(stand->device, &free_bytes, &total_bytes), 0);
    return free_bytes;
}

/* Set up with the number-th call of `function` failing; nothing may be left behind. How often
 * it was called goes to *calls_out. */
static int set_up_failing(const struct backend_spec *spec, const char *function, uint32_t number, int status,
                          uint32_t *calls_out)
{
    enum { FLOATS = 1 << 16 };
    struct stand stand = { .ops = backend_find("cuda"), .net = spec->net };
    struct capture capture;
    char text[8192];
    stand.device = device_memory_open(stand.ops, &stand.compute);
    const size_t before = free_memory(&stand);
    stand.weights = device_memory_make(stand.compute, NULL, FLOATS * sizeof(float));
    stand.gradients = device_memory_make(stand.compute, NULL, FLOATS * sizeof(float));
    sim_calls_clear();
    sim_fail(function, number, status);
    capture_begin(&capture);
    const int rc = set_up(&stand, spec);
    *calls_out = (uint32_t)sim_calls(function);
    sim_fail_clear();
    for (uint32_t i = 0; i < stand.plan_count; i++)
        stand.ops->plan_close(stand.plans[i]);
    if (stand.backend)
        stand.ops->close(stand.backend);
    capture_end(&capture, text, sizeof text);
    if (rc != 0 && text[0] == '\0')
        fail_msg("%s failing the %u. time is not told", function, number);
    stand.device->ops->free(stand.device, stand.weights);
    stand.device->ops->free(stand.device, stand.gradients);
    arena_release(&stand.arena);
    assert_int_equal(free_memory(&stand), before);
    device_memory_close(stand.device, stand.compute);
    return rc;
}

static void every_failing_call_is_a_clean_error(void **state)
{
    (void)state;
    static const struct { const char *function; int status; } calls[] = {
        { "cudaMalloc", cudaErrorMemoryAllocation }, { "cudaHostAlloc", cudaErrorMemoryAllocation },
        { "cudaEventCreateWithFlags", cudaErrorUnknown }, { "cudaEventRecord", cudaErrorUnknown },
        { "cudaMemGetInfo", cudaErrorUnknown }, { "cudaMemcpyAsync", cudaErrorUnknown },
        { "cudaMemsetAsync", cudaErrorUnknown }, { "cudaStreamBeginCapture", cudaErrorUnknown },
        { "cudaGraphInstantiate", cudaErrorUnknown }, { "cudaGraphUpload", cudaErrorUnknown },
        { "cudnnCreate", CUDNN_STATUS_NOT_INITIALIZED }, { "cudnnSetStream", CUDNN_STATUS_BAD_PARAM },
        { "cudnnGraphVersionCheck", CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH },
        { "cudnnOpsVersionCheck", CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH },
        { "cudnnCnnVersionCheck", CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH },
        { "cudnnBackendCreateDescriptor", CUDNN_STATUS_ALLOC_FAILED },
        { "cudnnBackendSetAttribute", CUDNN_STATUS_INTERNAL_ERROR },
        { "cudnnBackendFinalize", CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED },
        { "cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED },
        { "cudaLaunchKernelEx", cudaErrorLaunchOutOfResources },
        { "cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED }, { "cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED },
        { "cublasLtMatrixLayoutCreate", CUBLAS_STATUS_ALLOC_FAILED },
        { "cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_INTERNAL_ERROR },
        { "cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED },
    };
    struct net *net = small(0.5f);
    struct backend_spec spec = spec_of(net, PRECISION_FP16);
    spec.graph = GRAPH_ON;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        uint32_t count, ignored;
        assert_int_equal(set_up_failing(&spec, calls[i].function, UINT32_MAX, 0, &count), 0);
        print_message("%s: %u calls\n", calls[i].function, count);
        assert_true(count > 0);
        /* The first ones and then some: calls in a loop fail alike. */
        for (uint32_t number = 1; number <= count; number += 1 + number / 12)
            if (set_up_failing(&spec, calls[i].function, number, calls[i].status, &ignored) >= 0)
                fail_msg("%s failing the %u. time was not seen", calls[i].function, number);
    }
    net_close(net);
}

static void refuses_sizes_that_overflow(void **state)
{
    (void)state;
    char text[1024];
    struct net *net;
    assert_int_equal(net_open(&net, "huge", (struct shape){ 1, 20000, 20000 }, 2), 0);
    net_max_pool(net, "pool", NET_INPUT, 10, 10, PADDING_VALID);
    net_max_pool(net, "pool2", 0, 10, 10, PADDING_VALID);
    net_max_pool(net, "pool3", 1, 10, 10, PADDING_VALID);
    net_dense(net, "fc", 2, 2);
    net_softmax_loss(net, "loss", 3);
    assert_int_equal(net_finish(net), 0);
    struct stand stand = { .ops = backend_find("cuda"), .net = net };
    const struct backend_spec spec = spec_of(net, PRECISION_FP32);
    stand.device = device_memory_open(stand.ops, &stand.compute);
    assert_int_equal(stand_open_backend(&stand, &spec), 0);
    float *arena = device_memory_make(stand.compute, NULL, stand.arena.count * sizeof *arena);
    assert_int_equal(stand.ops->bind(stand.backend, &stand.arena, arena, arena), 0);
    assert_int_equal(try_plan(&stand, 1, text, sizeof text), -EOVERFLOW);
    assert_non_null(strstr(text, "20000x20000"));
    stand.ops->close(stand.backend);
    stand.device->ops->free(stand.device, arena);
    arena_release(&stand.arena);
    device_memory_close(stand.device, stand.compute);
    net_close(net);
}

static void a_cancelled_device_ends_copies(void **state)
{
    (void)state;
    struct net *net = small(0);
    struct stand stand;
    stand_open(&stand, "cuda", net, PRECISION_FP32);
    float *plain = read_plain(&stand, stand.weights, 0);
    device_cancel(stand.device);
    const float *stored = stand.weights + stand.arena.ranges[0].offset;
    assert_int_equal(stand.ops->unpack(stand.backend, 0, stored, plain), -ECANCELED);
    free(plain);
    stand_close(&stand);
    net_close(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_the_reference_on_mnist),
        cmocka_unit_test(matches_the_reference_on_random_nets),
        cmocka_unit_test(matches_the_reference_where_layers_work_in_place),
        cmocka_unit_test(measured_convolutions_compute_the_same_in_no_more_memory),
        cmocka_unit_test(drops_the_values_the_reference_drops),
        cmocka_unit_test(stores_parameters_padded_with_zeros_and_gives_them_back),
        cmocka_unit_test(trains_as_the_reference_does),
        cmocka_unit_test(sixteen_bit_weights_follow_updates_and_written_weights),
        cmocka_unit_test(an_fp16_step_whose_gradients_overflow_is_left_out),
        cmocka_unit_test(tells_of_the_layers_that_are_asked_for),
        cmocka_unit_test(gradients_are_final_when_their_layer_is_done),
        cmocka_unit_test(recorded_steps_give_the_same_bits),
        cmocka_unit_test(records_small_steps_unless_told_otherwise),
        cmocka_unit_test(steps_that_cannot_be_recorded_are_queued_unless_recording_is_demanded),
        cmocka_unit_test(a_step_allocates_nothing_and_waits_for_nothing),
        cmocka_unit_test(a_plan_is_run_once_when_it_is_made),
        cmocka_unit_test(says_how_many_samples_would_fit),
        cmocka_unit_test(plans_share_their_memory),
        cmocka_unit_test(refuses_what_it_cannot_do),
        cmocka_unit_test(refuses_windows_of_too_many_pixels),
        cmocka_unit_test(refuses_sizes_that_overflow),
        cmocka_unit_test(describes_every_layer_and_how_steps_are_queued),
        cmocka_unit_test(every_failing_call_is_a_clean_error),
        cmocka_unit_test(a_cancelled_device_ends_copies),
    };
    sim_setup(2, DEVICE_BYTES);
    return cmocka_run_group_tests_name("backend_cuda", tests, NULL, NULL);
}
