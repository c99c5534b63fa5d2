/* Fixture of the CUDA backend's tests: open and close, random weights, passes, nets. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage/random.h"
#include "tests/cuda/backend_cuda_fixture.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

enum { SEED = 9 };

struct backend_spec cuda_fixture_spec(const struct net *net, enum precision precision)
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

int cuda_fixture_open_backend(struct fixture *fixture, const struct backend_spec *spec)
{
    static size_t counts[NET_PARAMETERS_MAX];
    struct backend_spec whole = *spec;
    whole.device = fixture->device;
    whole.compute = fixture->compute;
    int rc = fixture->ops->open(&fixture->backend, &whole);
    if (rc == 0)
        rc = fixture->ops->stored_sizes(fixture->backend, counts);
    if (rc == 0)
        rc = arenas_init(&fixture->arenas, fixture->net, counts);
    if (rc == 0)
        fixture->ops->lay_out(fixture->backend, &fixture->arenas);
    return rc;
}

size_t cuda_fixture_offset(const struct fixture *fixture, uint32_t parameter)
{
    return arenas_of(&fixture->arenas, fixture->net, parameter)->ranges[parameter].offset;
}

float *cuda_fixture_arena(const struct fixture *fixture, uint32_t parameter)
{
    return fixture->net->parameters[parameter].is_trained ? fixture->weights : fixture->statistics;
}

float *cuda_fixture_read(struct fixture *fixture, const float *arena, uint32_t parameter)
{
    const float *const stored = arena + cuda_fixture_offset(fixture, parameter);
    float *plain = malloc(fixture->net->parameters[parameter].count * sizeof(*plain));
    assert_non_null(plain);
    assert_true(fixture->read_count < FIXTURE_READS_MAX);
    fixture->reads[fixture->read_count++] = plain;
    assert_int_equal(fixture->ops->unpack(fixture->backend, parameter, stored, plain), 0);
    return plain;
}

void cuda_fixture_write(struct fixture *fixture, float *arena, uint32_t parameter, const float *plain)
{
    float *const stored = arena + cuda_fixture_offset(fixture, parameter);
    assert_int_equal(fixture->ops->pack(fixture->backend, parameter, plain, stored), 0);
}

static void make_coarse(struct backend_input *input, size_t count)
{
    uint8_t *pixels = (uint8_t *)(uintptr_t)input->pixels;
    for (size_t i = 0; i < count; i++)
        pixels[i] = pixels[i] % 2 ? 255 : 0;
}

static void open_memory(struct fixture *fixture)
{
    const size_t bytes = fixture->arenas.trained.count * sizeof(float);
    const size_t statistic_bytes = (fixture->arenas.statistics.count + 1) * sizeof(float);
    void *result;
    fixture->weights = device_memory_make(fixture->compute, NULL, bytes);
    fixture->gradients = device_memory_make(fixture->compute, NULL, bytes);
    fixture->statistics = device_memory_make(fixture->compute, NULL, statistic_bytes);
    fixture->input = network_input(fixture->net, SAMPLES, 4);
    if (fixture->is_coarse)
        make_coarse(&fixture->input, SAMPLES * shape_count(fixture->net->input));
    fixture->pixels = device_memory_make(fixture->compute, fixture->input.pixels,
                                         SAMPLES * shape_count(fixture->net->input));
    fixture->labels = device_memory_make(fixture->compute, fixture->input.labels, SAMPLES * sizeof(int32_t));
    assert_int_equal(fixture->device->ops->alloc_pinned(fixture->device, sizeof(*fixture->result), &result), 0);
    fixture->result = result;
}

/* Values that keep activations near 1. */
static float drawn(const struct parameter *parameter, struct random_key key, size_t i)
{
    const bool is_scale = parameter->kind == PARAMETER_GAMMA || parameter->kind == PARAMETER_RUNNING_VARIANCE;
    const float limit = parameter->fan_in > 0 ? 2.0f / sqrtf((float)parameter->fan_in) : is_scale ? 0.5f
                                                                                                  : 0.2f;
    return (is_scale ? 1.0f : 0.0f) + limit * (2 * test_uniform(key, i) - 1);
}

/* -1, 0 or 1, mostly 0, so that sums stay small: with pixels of 0 and 1 the forward pass is exact in every precision.
 * Then all precisions agree in every ReLU and window, and only the roundings of backward, which is linear, differ. */
static float drawn_coarse(const struct parameter *parameter, struct random_key key, size_t i)
{
    const uint64_t often = parameter->fan_in > 2 ? parameter->fan_in / 2 : 1;
    const uint64_t number = random_u64(key, i);
    return number / 2 % often > 0 ? 0 : number % 2 == 0 ? 1
                                                        : -1;
}

static void draw_weights(struct fixture *fixture)
{
    for (uint32_t p = 0; p < fixture->net->parameter_count; p++) {
        const struct parameter *parameter = &fixture->net->parameters[p];
        const struct random_key key = random_key(5, RANDOM_DRAW, 100 + p);
        float *plain = malloc(parameter->count * sizeof(*plain));
        assert_non_null(plain);
        for (size_t i = 0; i < parameter->count; i++)
            plain[i] = fixture->is_coarse ? drawn_coarse(parameter, key, i) : drawn(parameter, key, i);
        cuda_fixture_write(fixture, cuda_fixture_arena(fixture, p), p, plain);
        free(plain);
    }
}

int cuda_fixture_bind(struct fixture *fixture)
{
    const struct backend_memory memory = { fixture->weights, fixture->gradients, fixture->statistics };
    return fixture->ops->bind(fixture->backend, &memory);
}

void cuda_fixture_open_with(struct fixture *fixture, const char *backend, const struct backend_spec *spec,
                            bool is_coarse)
{
    *fixture = (struct fixture){ .ops = backend_find(backend), .net = spec->net, .is_coarse = is_coarse };
    fixture->device = device_memory_open(fixture->ops, &fixture->compute);
    assert_int_equal(cuda_fixture_open_backend(fixture, spec), 0);
    open_memory(fixture);
    assert_int_equal(cuda_fixture_bind(fixture), 0);
    draw_weights(fixture);
}

void cuda_fixture_open(struct fixture *fixture, const char *backend, const struct net *net, enum precision precision)
{
    const struct backend_spec spec = cuda_fixture_spec(net, precision);
    cuda_fixture_open_with(fixture, backend, &spec, false);
}

void cuda_fixture_open_own(struct fixture *fixture, struct net *net, enum precision precision)
{
    cuda_fixture_open(fixture, "cuda", net, precision);
    fixture->own_net = net;
}

void cuda_fixture_close(struct fixture *fixture)
{
    const struct device_ops *ops = fixture->device->ops;
    for (uint32_t i = 0; i < fixture->plan_count; i++)
        fixture->ops->plan_close(fixture->plans[i]);
    fixture->ops->close(fixture->backend);
    void *memory[] = { fixture->weights, fixture->gradients, fixture->statistics, fixture->pixels, fixture->labels };
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        ops->free(fixture->device, memory[i]);
    ops->free_pinned(fixture->device, fixture->result);
    if (fixture->input.pixels != NULL)
        network_input_release(&fixture->input);
    arenas_release(&fixture->arenas);
    device_memory_close(fixture->device, fixture->compute);
    for (uint32_t i = 0; i < fixture->read_count; i++)
        free(fixture->reads[i]);
    if (fixture->own_net != NULL)
        net_close(fixture->own_net);
}

struct plan *cuda_fixture_plan(struct fixture *fixture, uint32_t count, bool training)
{
    for (uint32_t i = 0; i < fixture->plan_count; i++) {
        const struct plan_base *base = (const struct plan_base *)(const void *)fixture->plans[i];
        if (base->count == count && base->training == training)
            return fixture->plans[i];
    }
    assert_true(fixture->plan_count < FIXTURE_PLANS_MAX);
    struct plan **plan = &fixture->plans[fixture->plan_count++];
    assert_int_equal(fixture->ops->plan(fixture->backend, count, training, plan), 0);
    assert_int_equal(fixture->ops->allocate(fixture->backend), 0);
    return *plan;
}

struct backend_needs cuda_fixture_needs(const struct fixture *fixture)
{
    struct backend_needs needs;
    fixture->ops->needs(fixture->backend, &needs);
    return needs;
}

static void layer_done(void *arg, uint32_t layer)
{
    struct fixture *fixture = arg;
    fixture->done[fixture->done_count++] = layer;
}

void cuda_fixture_queue(struct fixture *fixture, struct plan *plan)
{
    const struct plan_base *base = (const struct plan_base *)(const void *)plan;
    const struct backend_input input = {
        .pixels = fixture->pixels,
        .labels = fixture->labels,
        .first_position = 1000,
        .epoch = 3,
    };
    assert_int_equal(fixture->ops->input(plan, &input), 0);
    assert_int_equal(fixture->ops->forward(plan), 0);
    fixture->done_count = 0;
    if (base->training)
        assert_int_equal(fixture->ops->backward(plan, layer_done, fixture), 0);
    assert_int_equal(fixture->ops->result(plan, fixture->result), 0);
}

struct backend_result cuda_fixture_run(struct fixture *fixture, uint32_t count, bool training)
{
    cuda_fixture_queue(fixture, cuda_fixture_plan(fixture, count, training));
    device_memory_wait(fixture->compute);
    return *fixture->result;
}

void cuda_fixture_update_by(struct fixture *fixture, enum optimizer_kind kind,
                            float *const states[OPTIMIZER_STATES_MAX], float learning_rate)
{
    /* Rounding changes small gradients most; a large epsilon keeps their updates small. */
    const struct optimizer optimizer = { .kind = kind, .momentum = 0.9f, .rho = 0.95f, .beta1 = 0.9, .beta2 = 0.999,
                                         .epsilon = kind == OPTIMIZER_ADADELTA ? 1e-6f : 1e-2f,
                                         .weight_decay = 1e-3f };
    const struct optimizer_range range = {
        .weights = fixture->weights,
        .gradients = fixture->gradients,
        .states = { states[0], states[1] },
        .count = fixture->arenas.trained.count,
        .decays = true,
    };
    if (fixture->ops->check != NULL)
        assert_int_equal(fixture->ops->check(fixture->backend, range.gradients, range.count), 0);
    const struct optimizer_step step = { .learning_rate = learning_rate, .gradient_scale = 1.0f / SAMPLES };
    assert_int_equal(fixture->ops->update(fixture->backend, &optimizer, &step, &range, 1), 0);
}

void cuda_fixture_update(struct fixture *fixture, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX])
{
    cuda_fixture_update_by(fixture, kind, states, 0.05f);
}

bool *cuda_fixture_ends(const struct net *net, uint32_t first, uint32_t second)
{
    bool *ends = calloc(net->layer_count, sizeof(*ends));
    assert_non_null(ends);
    ends[first] = ends[second] = true;
    return ends;
}

struct net *small_net(float dropout)
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

struct net *residual_net(void)
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

struct net *folded_net(void)
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

/* Channels 16, 28, 33, 41, 49: new ones begin at multiples of eight and elsewhere. */
struct net *dense_block_net(void)
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
