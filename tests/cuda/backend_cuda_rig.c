/* The rig of the tests of the CUDA backend: opening and closing, drawn numbers, passes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage/random.h"
#include "tests/cuda/backend_cuda_rig.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

enum { SEED = 9 };

struct backend_spec rig_spec(const struct net *net, enum precision precision)
{
    return (struct backend_spec){
        .net = net,
        .threads = 1,
        .slice_max = SAMPLES,
        .seed = SEED,
        .precision = precision,
        .graph = GRAPH_OFF,
    };
}

int rig_open_backend(struct rig *rig, const struct backend_spec *spec)
{
    static size_t counts[NET_PARAMETERS_MAX];
    struct backend_spec whole = *spec;
    whole.device = rig->device;
    whole.compute = rig->compute;
    int rc = rig->ops->open(&rig->backend, &whole);
    if (rc == 0)
        rc = rig->ops->stored_sizes(rig->backend, counts);
    if (rc == 0)
        rc = arenas_init(&rig->arenas, rig->net, counts);
    if (rc == 0)
        rig->ops->lay_out(rig->backend, &rig->arenas);
    return rc;
}

size_t rig_offset(const struct rig *rig, uint32_t parameter)
{
    return arenas_of(&rig->arenas, rig->net, parameter)->ranges[parameter].offset;
}

float *rig_arena(const struct rig *rig, uint32_t parameter)
{
    return rig->net->parameters[parameter].is_trained ? rig->weights : rig->statistics;
}

float *rig_read(struct rig *rig, const float *arena, uint32_t parameter)
{
    const float *const stored = arena + rig_offset(rig, parameter);
    float *plain = malloc(rig->net->parameters[parameter].count * sizeof(*plain));
    assert_non_null(plain);
    assert_int_equal(rig->ops->unpack(rig->backend, parameter, stored, plain), 0);
    return plain;
}

void rig_write(struct rig *rig, float *arena, uint32_t parameter, const float *plain)
{
    float *const stored = arena + rig_offset(rig, parameter);
    assert_int_equal(rig->ops->pack(rig->backend, parameter, plain, stored), 0);
}

static void make_coarse(struct backend_input *input, size_t count)
{
    uint8_t *pixels = (uint8_t *)(uintptr_t)input->pixels;
    for (size_t i = 0; i < count; i++)
        pixels[i] = pixels[i] % 2 ? 255 : 0;
}

static void open_memory(struct rig *rig)
{
    const size_t bytes = rig->arenas.trained.count * sizeof(float);
    const size_t statistic_bytes = (rig->arenas.statistics.count + 1) * sizeof(float);
    void *result;
    rig->weights = device_memory_make(rig->compute, NULL, bytes);
    rig->gradients = device_memory_make(rig->compute, NULL, bytes);
    rig->statistics = device_memory_make(rig->compute, NULL, statistic_bytes);
    rig->input = network_input(rig->net, SAMPLES, 4);
    if (rig->is_coarse)
        make_coarse(&rig->input, SAMPLES * shape_count(rig->net->input));
    rig->pixels = device_memory_make(rig->compute, rig->input.pixels, SAMPLES * shape_count(rig->net->input));
    rig->labels = device_memory_make(rig->compute, rig->input.labels, SAMPLES * sizeof(int32_t));
    assert_int_equal(rig->device->ops->alloc_pinned(rig->device, sizeof(*rig->result), &result), 0);
    rig->result = result;
}

/* Numbers that keep activations near 1. */
static float drawn(const struct parameter *parameter, struct random_key key, size_t i)
{
    const bool is_scale = parameter->kind == PARAMETER_GAMMA || parameter->kind == PARAMETER_RUNNING_VARIANCE;
    const float limit = parameter->fan_in > 0 ? 2.0f / sqrtf((float)parameter->fan_in) : is_scale ? 0.5f
                                                                                                  : 0.2f;
    return (is_scale ? 1.0f : 0.0f) + limit * (2 * test_uniform(key, i) - 1);
}

/* -1, 0 or 1, so few of them that sums stay small: with pixels of 0 and 1 every precision
 * computes the forward pass without rounding. Then the same values pass every ReLU and win
 * every window, and what is left to differ is rounding in backward, which is linear. */
static float drawn_coarse(const struct parameter *parameter, struct random_key key, size_t i)
{
    const uint64_t often = parameter->fan_in > 2 ? parameter->fan_in / 2 : 1;
    const uint64_t number = random_u64(key, i);
    return number / 2 % often > 0 ? 0 : number % 2 == 0 ? 1
                                                        : -1;
}

/* Every parameter, biases too. */
static void draw_weights(struct rig *rig)
{
    for (uint32_t p = 0; p < rig->net->parameter_count; p++) {
        const struct parameter *parameter = &rig->net->parameters[p];
        const struct random_key key = random_key(5, RANDOM_DRAW, 100 + p);
        float *plain = malloc(parameter->count * sizeof(*plain));
        assert_non_null(plain);
        for (size_t i = 0; i < parameter->count; i++)
            plain[i] = rig->is_coarse ? drawn_coarse(parameter, key, i) : drawn(parameter, key, i);
        rig_write(rig, rig_arena(rig, p), p, plain);
        free(plain);
    }
}

int rig_bind(struct rig *rig)
{
    const struct backend_memory memory = { rig->weights, rig->gradients, rig->statistics };
    return rig->ops->bind(rig->backend, &memory);
}

void rig_open_with(struct rig *rig, const char *backend, const struct backend_spec *spec, bool is_coarse)
{
    *rig = (struct rig){ .ops = backend_find(backend), .net = spec->net, .is_coarse = is_coarse };
    rig->device = device_memory_open(rig->ops, &rig->compute);
    assert_int_equal(rig_open_backend(rig, spec), 0);
    open_memory(rig);
    assert_int_equal(rig_bind(rig), 0);
    draw_weights(rig);
}

void cuda_rig_open(struct rig *rig, const char *backend, const struct net *net, enum precision precision)
{
    const struct backend_spec spec = rig_spec(net, precision);
    rig_open_with(rig, backend, &spec, false);
}

void cuda_rig_close(struct rig *rig)
{
    const struct device_ops *ops = rig->device->ops;
    for (uint32_t i = 0; i < rig->plan_count; i++)
        rig->ops->plan_close(rig->plans[i]);
    rig->ops->close(rig->backend);
    void *memory[] = { rig->weights, rig->gradients, rig->statistics, rig->pixels, rig->labels };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        ops->free(rig->device, memory[i]);
    ops->free_pinned(rig->device, rig->result);
    if (rig->input.pixels != NULL)
        network_input_release(&rig->input);
    arenas_release(&rig->arenas);
    device_memory_close(rig->device, rig->compute);
}

struct plan *rig_plan(struct rig *rig, uint32_t count, bool training)
{
    for (uint32_t i = 0; i < rig->plan_count; i++) {
        const struct plan_base *base = (const struct plan_base *)(const void *)rig->plans[i];
        if (base->count == count && base->training == training)
            return rig->plans[i];
    }
    assert_true(rig->plan_count < RIG_PLANS_MAX);
    struct plan **plan = &rig->plans[rig->plan_count++];
    assert_int_equal(rig->ops->plan(rig->backend, count, training, plan), 0);
    assert_int_equal(rig->ops->allocate(rig->backend), 0);
    return *plan;
}

struct backend_needs rig_needs(const struct rig *rig)
{
    struct backend_needs needs;
    rig->ops->needs(rig->backend, &needs);
    return needs;
}

static void layer_done(void *arg, uint32_t layer)
{
    struct rig *rig = arg;
    rig->done[rig->done_count++] = layer;
}

void rig_queue(struct rig *rig, struct plan *plan)
{
    const struct plan_base *base = (const struct plan_base *)(const void *)plan;
    const struct backend_input input = {
        .pixels = rig->pixels,
        .labels = rig->labels,
        .first_position = 1000,
        .epoch = 3,
    };
    assert_int_equal(rig->ops->input(plan, &input), 0);
    assert_int_equal(rig->ops->forward(plan), 0);
    rig->done_count = 0;
    if (base->training)
        assert_int_equal(rig->ops->backward(plan, layer_done, rig), 0);
    assert_int_equal(rig->ops->result(plan, rig->result), 0);
}

struct backend_result cuda_rig_run(struct rig *rig, uint32_t count, bool training)
{
    rig_queue(rig, rig_plan(rig, count, training));
    device_memory_wait(rig->compute);
    return *rig->result;
}

void rig_update_by(struct rig *rig, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX],
                   float learning_rate)
{
    /* Small gradients, which rounding moves most, stay small where epsilon is added to their size. */
    const struct optimizer optimizer = { .kind = kind, .momentum = 0.9f, .rho = 0.95f, .beta1 = 0.9, .beta2 = 0.999,
                                         .epsilon = kind == OPTIMIZER_ADADELTA ? 1e-6f : 1e-2f,
                                         .weight_decay = 1e-3f };
    const struct optimizer_range range = {
        .weights = rig->weights,
        .gradients = rig->gradients,
        .states = { states[0], states[1] },
        .count = rig->arenas.trained.count,
        .decays = true,
    };
    if (rig->ops->check != NULL)
        assert_int_equal(rig->ops->check(rig->backend, range.gradients, range.count), 0);
    const struct optimizer_step step = { .learning_rate = learning_rate, .gradient_scale = 1.0f / SAMPLES };
    assert_int_equal(rig->ops->update(rig->backend, &optimizer, &step, &range, 1), 0);
}

void rig_update(struct rig *rig, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX])
{
    rig_update_by(rig, kind, states, 0.05f);
}

bool *rig_ends(const struct net *net, uint32_t first, uint32_t second)
{
    bool *ends = calloc(net->layer_count, sizeof(*ends));
    assert_non_null(ends);
    ends[first] = ends[second] = true;
    return ends;
}

struct net *rig_net(float dropout)
{
    struct net *net;
    assert_int_equal(net_open(&net, "small", (struct shape){ 3, 9, 7 }, 4), 0);
    net_conv2d(net, "conv1", NET_INPUT, 5, window_square(3, 1, PADDING_SAME), true);
    net_relu(net, "relu1", 0);
    net_conv2d(net, "conv2", 1, 12, window_square(2, 2, PADDING_VALID), true);
    net_max_pool(net, "pool", 2, window_square(2, 1, PADDING_VALID));
    net_relu(net, "relu2", 3);
    net_dropout(net, "dropout", 4, dropout);
    net_dense(net, "fc1", 5, 11, true);
    net_relu(net, "relu3", 6);
    net_dense(net, "fc2", 7, 4, true);
    net_softmax_loss(net, "loss", 8);
    assert_int_equal(net_finish(net), 0);
    return net;
}

static uint32_t append_norm(struct net *net, const char *name, uint32_t from, bool with_gamma)
{
    return (uint32_t)net_batch_norm(net, name, from, (struct batch_norm){ 0.75f, 1e-2f, with_gamma });
}

static uint32_t append_conv(struct net *net, const char *name, uint32_t from, uint32_t filters, uint32_t stride)
{
    return (uint32_t)net_conv2d(net, name, from, filters, window_square(3, stride, PADDING_SAME), false);
}

struct net *rig_graph(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "residual", (struct shape){ 3, 9, 7 }, 4), 0);
    uint32_t at = append_conv(net, "conv1", NET_INPUT, 13, 1);
    const uint32_t first = (uint32_t)net_relu(net, "relu1", append_norm(net, "norm1", at, true));
    at = append_norm(net, "norm2", append_conv(net, "conv2", first, 16, 1), false);
    at = append_conv(net, "conv3", (uint32_t)net_relu(net, "relu2", at), 13, 1);
    at = (uint32_t)net_add(net, "sum1", append_norm(net, "norm3", at, true), first);
    const uint32_t second = (uint32_t)net_relu(net, "relu3", at);
    const uint32_t shortcut = (uint32_t)net_pad_channels(net, "shortcut", second, 21, 2);
    at = append_norm(net, "norm4", append_conv(net, "conv4", second, 21, 2), true);
    at = (uint32_t)net_relu(net, "relu4", (uint32_t)net_add(net, "sum2", at, shortcut));
    at = (uint32_t)net_dense(net, "fc", (uint32_t)net_global_average(net, "mean", at), 4, true);
    net_softmax_loss(net, "loss", at);
    assert_int_equal(net_finish(net), 0);
    return net;
}

struct net *rig_folded(void)
{
    static const struct batch_norm how = { 0.75, 1e-2f, true };
    const struct window window = window_square(3, 1, PADDING_SAME);
    struct net *net;
    assert_int_equal(net_open(&net, "folded", (struct shape){ 3, 9, 7 }, 4), 0);
    net_conv2d(net, "conv1", NET_INPUT, 8, window, false);
    net_relu(net, "relu1", (uint32_t)net_batch_norm(net, "norm1", 0, how));
    net_conv2d(net, "shortcut", 2, 12, window, false);
    net_batch_norm(net, "norm2", 3, how);
    net_conv2d(net, "conv2", 2, 12, window, true);
    net_batch_norm(net, "norm3", 5, how);
    net_relu(net, "relu2", (uint32_t)net_add(net, "sum1", 6, 4));
    net_conv2d(net, "conv3", 8, 12, window, false);
    net_batch_norm(net, "norm4", 9, how);
    net_add(net, "sum2", 8, 10);
    net_dense(net, "fc", 11, 4, true);
    net_softmax_loss(net, "loss", 12);
    assert_int_equal(net_finish(net), 0);
    return net;
}

/* Channels 16, 28, 33, 41, 49: where new ones begin is a multiple of eight or not. */
struct net *rig_dense(void)
{
    static const uint32_t growth[] = { 12, 5, 8, 8 };
    struct net *net;
    char name[16];
    assert_int_equal(net_open(&net, "dense", (struct shape){ 3, 9, 7 }, 4), 0);
    uint32_t at = append_conv(net, "conv0", NET_INPUT, 16, 1);
    for (uint32_t i = 0; i < sizeof(growth) / sizeof(growth[0]); i++) {
        snprintf(name, sizeof(name), "norm%u", i + 1);
        const uint32_t norm = append_norm(net, name, at, i % 2 == 0);
        snprintf(name, sizeof(name), "relu%u", i + 1);
        const uint32_t relu = (uint32_t)net_relu(net, name, norm);
        snprintf(name, sizeof(name), "conv%u", i + 1);
        const uint32_t ways[] = { at, append_conv(net, name, relu, growth[i], 1) };
        snprintf(name, sizeof(name), "concat%u", i + 1);
        at = (uint32_t)net_concat(net, name, ways, 2);
    }
    at = (uint32_t)net_relu(net, "relu", append_norm(net, "norm", at, true));
    at = (uint32_t)net_dense(net, "fc", (uint32_t)net_global_average(net, "mean", at), 4, true);
    net_softmax_loss(net, "loss", at);
    assert_int_equal(net_finish(net), 0);
    return net;
}
