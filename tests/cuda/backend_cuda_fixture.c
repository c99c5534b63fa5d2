/* Fixture of the CUDA backend's tests: networks with random weights, updates, nets. */
#include "tests/cuda/backend_cuda_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "stage/random.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/test.h"

enum { READS_MAX = 256 };

static float *reads[READS_MAX];     /* results of cuda_fixture_read */
static uint32_t read_count;

struct backend_spec cuda_fixture_spec(const struct net *net, enum precision precision)
{
    return (struct backend_spec){
        .net = net,
        .threads = 1,
        .local_max = SAMPLES,
        .seed = 9,
        .precision = precision,
        .graph = GRAPH_OFF,
    };
}

float *cuda_fixture_read(struct network *network, const float *arena, uint32_t parameter)
{
    float *const plain = malloc(network->net->parameters[parameter].count * sizeof(*plain));
    assert_non_null(plain);
    assert_true(read_count < READS_MAX);
    reads[read_count++] = plain;
    network_read(network, arena, parameter, plain);
    return plain;
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

static void draw_coarse_weights(struct network *network)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        const struct parameter *parameter = &network->net->parameters[p];
        const struct random_key key = random_key(5, RANDOM_DRAW, 100 + p);
        float *plain = malloc(parameter->count * sizeof(*plain));
        assert_non_null(plain);
        for (size_t i = 0; i < parameter->count; i++)
            plain[i] = drawn_coarse(parameter, key, i);
        network_write(network, network_arena(network, p), p, plain);
        free(plain);
    }
}

static void load_samples(struct network *network, bool is_coarse)
{
    struct backend_input input = network_input(network->net, SAMPLES, 4);
    const size_t count = SAMPLES * shape_count(network->net->input);
    uint8_t *const pixels = (uint8_t *)(uintptr_t)input.pixels;
    for (size_t i = 0; i < count && is_coarse; i++)
        pixels[i] = pixels[i] % 2 ? 255 : 0;
    device_memory_write(network->compute, network->pixels, pixels, count);
    device_memory_write(network->compute, network->labels, input.labels, SAMPLES * sizeof(*input.labels));
    network_input_release(&input);
}

void cuda_fixture_open_with(struct network *network, const char *backend, const struct backend_spec *spec,
                            bool is_coarse)
{
    network_open_with(network, backend, spec);
    load_samples(network, is_coarse);
    if (is_coarse)
        draw_coarse_weights(network);
    else
        network_draw_weights(network, 5);
}

void cuda_fixture_open(struct network *network, const char *backend, const struct net *net, enum precision precision)
{
    const struct backend_spec spec = cuda_fixture_spec(net, precision);
    cuda_fixture_open_with(network, backend, &spec, false);
}

void cuda_fixture_open_own(struct network *network, struct net *net, enum precision precision)
{
    cuda_fixture_open(network, "cuda", net, precision);
    network->own_net = net;
}

void cuda_fixture_close(struct network *network)
{
    network_close(network);
    while (read_count > 0)
        free(reads[--read_count]);
}

struct backend_needs cuda_fixture_needs(const struct network *network)
{
    struct backend_needs needs;
    network->ops->needs(network->backend, &needs);
    return needs;
}

struct backend_result cuda_fixture_run(struct network *network, uint32_t count, bool training)
{
    network_queue(network, network_plan(network, count, training));
    device_memory_wait(network->compute);
    return *network->result;
}

void cuda_fixture_update_by(struct network *network, enum optimizer_kind kind,
                            float *const states[OPTIMIZER_STATES_MAX], float learning_rate)
{
    /* Rounding changes small gradients most; a large epsilon keeps their updates small. */
    const struct optimizer optimizer = { .kind = kind, .momentum = 0.9f, .rho = 0.95f, .beta1 = 0.9, .beta2 = 0.999,
                                         .epsilon = kind == OPTIMIZER_ADADELTA ? 1e-6f : 1e-2f,
                                         .weight_decay = 1e-3f };
    const struct optimizer_range range = {
        .weights = network->weights,
        .gradients = network->gradients,
        .states = { states != NULL ? states[0] : NULL, states != NULL ? states[1] : NULL },
        .count = network->arenas.trained.count,
        .decays = true,
    };
    if (network->ops->check != NULL)
        assert_int_equal(network->ops->check(network->backend, range.gradients, range.count), 0);
    const struct optimizer_step step = { .learning_rate = learning_rate, .gradient_scale = 1.0f / SAMPLES };
    assert_int_equal(network->ops->update(network->backend, &optimizer, &step, &range, 1), 0);
}

void cuda_fixture_update(struct network *network, enum optimizer_kind kind, float *const states[OPTIMIZER_STATES_MAX])
{
    cuda_fixture_update_by(network, kind, states, 0.05f);
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
    struct net *const net = network_net_begin("small", (struct shape){ 3, 9, 7 }, 4);
    net_conv2d(net, "conv1", NET_INPUT, 5, window_square(3, 1, PADDING_SAME), true);
    net_relu(net, "relu1", 0);
    net_conv2d(net, "conv2", 1, 12, window_square(2, 2, PADDING_VALID), true);
    net_max_pool(net, "pool", 2, window_square(2, 1, PADDING_VALID));
    net_relu(net, "relu2", 3);
    net_dropout(net, "dropout", 4, dropout);
    net_dense(net, "fc1", 5, 11, true);
    net_relu(net, "relu3", 6);
    return network_net_end(net, 7);
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
    struct net *const net = network_net_begin("residual", (struct shape){ 3, 9, 7 }, 4);
    uint32_t at = append_conv(net, "conv1", NET_INPUT, 13, 1);
    const uint32_t first = (uint32_t)net_relu(net, "relu1", append_norm(net, "norm1", at, true));
    at = append_norm(net, "norm2", append_conv(net, "conv2", first, 16, 1), false);
    at = append_conv(net, "conv3", (uint32_t)net_relu(net, "relu2", at), 13, 1);
    at = (uint32_t)net_add(net, "sum1", append_norm(net, "norm3", at, true), first);
    const uint32_t second = (uint32_t)net_relu(net, "relu3", at);
    const uint32_t shortcut = (uint32_t)net_pad_channels(net, "shortcut", second, 21, 2);
    at = append_norm(net, "norm4", append_conv(net, "conv4", second, 21, 2), true);
    at = (uint32_t)net_relu(net, "relu4", (uint32_t)net_add(net, "sum2", at, shortcut));
    return network_net_end(net, net_global_average(net, "mean", at));
}

struct net *folded_net(void)
{
    static const struct batch_norm how = { 0.75, 1e-2f, true };
    const struct window window = window_square(3, 1, PADDING_SAME);
    struct net *const net = network_net_begin("folded", (struct shape){ 3, 9, 7 }, 4);
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
    return network_net_end(net, 11);
}

/* Channels 16, 28, 33, 41, 49: new ones begin at multiples of eight and elsewhere. */
struct net *dense_block_net(void)
{
    static const uint32_t growth[] = { 12, 5, 8, 8 };
    char name[16];
    struct net *const net = network_net_begin("dense", (struct shape){ 3, 9, 7 }, 4);
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
    return network_net_end(net, net_global_average(net, "mean", at));
}
