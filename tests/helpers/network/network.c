/* Networks for tests. See network.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage/random.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/test_random.h"

/* ---- nets ---- */

struct draw { struct random_key key; uint64_t next; };

static uint32_t draw(struct draw *draw, uint32_t below)
{
    return (uint32_t)(random_u64(draw->key, draw->next++) % below);
}

static uint32_t pick(struct draw *from, const uint32_t *values, uint32_t count)
{
    return values[draw(from, count)];
}

static struct shape shape_at(const struct net *net, uint32_t from)
{
    return from == NET_INPUT ? net->input : net->layers[from].out;
}

static uint32_t window_draw(struct draw *d, struct shape shape)
{
    const uint32_t side = shape.height < shape.width ? shape.height : shape.width;
    const uint32_t window = 1 + draw(d, 4);
    return window < side ? window : side;
}

uint32_t network_groups(const struct net *net, uint32_t channels, uint32_t filters)
{
    if (net->layer_count % 3 == 1 && filters % channels == 0 && (filters == channels || channels % 8 == 0))
        return channels;
    return net->layer_count % 3 == 2 && channels % 8 == 0 && filters % 8 == 0 ? 2 : 1;
}

static int64_t conv2d_append(struct net *net, struct draw *d, const char *name, uint32_t from)
{
    static const uint32_t filters[] = { 1, 3, 8, 17, 32 };
    const uint32_t kernel = window_draw(d, shape_at(net, from));
    const enum padding padding = (enum padding)draw(d, 2);
    const uint32_t stride = 1 + draw(d, 2), picked = pick(d, filters, 5);
    const uint32_t groups = network_groups(net, shape_at(net, from).channels, picked);
    const struct conv2d how = { picked, groups, window_square(kernel, stride, padding), true };
    return net_grouped_conv2d(net, name, from, how);
}

static int64_t max_pool_append(struct net *net, struct draw *d, const char *name, uint32_t from)
{
    const uint32_t kernel = window_draw(d, shape_at(net, from));
    const enum padding padding = (enum padding)draw(d, 2);
    return net_max_pool(net, name, from, window_square(kernel, 1 + draw(d, 3), padding));
}

static uint32_t pixel_layer_append(struct net *net, struct draw *d, float dropout, uint32_t from)
{
    char name[16];
    snprintf(name, sizeof(name), "layer%u", net->layer_count);
    switch (draw(d, 11)) {
    case 0:
        return (uint32_t)net_dropout(net, name, from, dropout);
    case 1: case 2:
        return (uint32_t)max_pool_append(net, d, name, from);
    case 3: case 4:
        return (uint32_t)net_relu(net, name, from);
    case 5:
        return (uint32_t)net_layer_norm(net, name, from, 0.5f);
    case 6:
        return (uint32_t)net_scale(net, name, from);
    case 7:
        return (uint32_t)net_stochastic_depth(net, name, from, dropout);
    default:
        return (uint32_t)conv2d_append(net, d, name, from);
    }
}

static uint32_t hidden_append(struct net *net, struct draw *d, float dropout, uint32_t from)
{
    static const uint32_t units[] = { 1, 5, 16, 31 };
    from = (uint32_t)net_dense(net, "hidden", from, pick(d, units, 4), true);
    if (draw(d, 4) > 0)
        from = (uint32_t)net_relu(net, "hidden_relu", from);
    if (draw(d, 2) == 0)
        from = (uint32_t)net_dropout(net, "hidden_dropout", from, dropout);
    return from;
}

struct net *network_net_begin(const char *name, struct shape input, uint32_t classes)
{
    struct net *net;
    assert_int_equal(net_open(&net, name, input, classes), 0);
    return net;
}

struct net *network_net_end(struct net *net, int64_t from)
{
    const int64_t logits = net_dense(net, "classes", (uint32_t)from, net->classes, true);
    net_softmax_loss(net, "loss", (uint32_t)logits);
    net_finish(net);
    assert_string_equal(net_error(net), "");
    return net;
}

struct net *network_random_net(uint32_t seed, float dropout)
{
    static const uint32_t channels[] = { 1, 3, 8, 17 };
    struct draw d = { .key = random_key(seed, RANDOM_DRAW, 1) };
    const struct shape input = { pick(&d, channels, 4), 4 + draw(&d, 9), 4 + draw(&d, 9) };
    char name[24];
    snprintf(name, sizeof(name), "chain %u", seed);
    struct net *const net = network_net_begin(name, input, 2 + draw(&d, 10));
    uint32_t from = NET_INPUT;
    for (uint32_t layers = draw(&d, 7); layers > 0; layers--)
        from = pixel_layer_append(net, &d, dropout, from);
    if (draw(&d, 2) == 0)
        from = hidden_append(net, &d, dropout, from);
    return network_net_end(net, from);
}

/* ---- networks ---- */

void network_for_each_backend(void (*check)(const char *backend))
{
    static const char *const backends[] = { "reference", "onednn", "cuda" };
    const bool host_memory = test_device_ops()->host_memory;
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        const struct backend_ops *ops = backend_find(backends[i]);
        if (ops != NULL && ops->host_memory == host_memory)
            check(backends[i]);
        else
            print_message("backend %s is not in this build or not of this device\n", backends[i]);
    }
}

static void buffers_make(struct network *network, uint32_t local_max)
{
    struct device *const device = network->device;
    const size_t trained_bytes = network->arenas.trained.count * sizeof(float);
    const size_t statistic_bytes = (network->arenas.statistics.count + 1) * sizeof(float);
    void *result;
    network->weights = device_memory_make(network->compute, NULL, trained_bytes);
    network->gradients = device_memory_make(network->compute, NULL, trained_bytes);
    network->statistics = device_memory_make(network->compute, NULL, statistic_bytes);
    network->pixels = device_memory_make(network->compute, NULL, local_max * shape_count(network->net->input));
    network->labels = device_memory_make(network->compute, NULL, local_max * sizeof(int32_t));
    assert_int_equal(device->ops->alloc_pinned(device, sizeof(*network->result), &result), 0);
    network->result = result;
}

void network_open_device(struct network *network, const char *backend, const struct net *net)
{
    *network = (struct network){ .ops = backend_find(backend), .net = net };
    network->device = device_memory_open(network->ops, &network->compute);
}

int network_open_backend(struct network *network, const struct backend_spec *spec)
{
    static size_t counts[NET_PARAMETERS_MAX];
    struct backend_spec own = *spec;
    own.device = network->device;
    own.compute = network->compute;
    int rc = network->ops->open(&network->backend, &own);
    if (rc == 0)
        rc = network->ops->stored_sizes(network->backend, counts);
    if (rc == 0)
        rc = arenas_init(&network->arenas, network->net, counts, spec->class_weights != NULL ? ARENA_LEAD : 0);
    if (rc == 0)
        network->ops->lay_out(network->backend, &network->arenas);
    return rc;
}

int network_bind(struct network *network)
{
    const struct backend_memory memory = { network->weights, network->gradients, network->statistics };
    return network->ops->bind(network->backend, &memory);
}

void network_open_with(struct network *network, const char *backend, const struct backend_spec *spec)
{
    network_open_device(network, backend, spec->net);
    assert_int_equal(network_open_backend(network, spec), 0);
    buffers_make(network, spec->local_max);
    assert_int_equal(network_bind(network), 0);
}

void network_open_settings(struct network *network, const char *backend, const struct net *net,
                           struct backend_spec settings)
{
    settings.net = net;
    settings.threads = settings.threads != 0 ? settings.threads : 1;
    settings.seed = 9;
    settings.allow_ref = true;
    network_open_with(network, backend, &settings);
}

void network_open(struct network *network, const char *backend, const struct net *net, uint32_t local_max,
                  uint32_t threads)
{
    network_open_settings(network, backend, net, (struct backend_spec){ .threads = threads, .local_max = local_max });
}

void network_close(struct network *network)
{
    struct device *const device = network->device;
    for (uint32_t i = 0; i < network->plan_count; i++)
        network->ops->plan_close(network->plans[i]);
    if (network->backend != NULL)
        network->ops->close(network->backend);
    device->ops->free(device, network->weights);
    device->ops->free(device, network->gradients);
    device->ops->free(device, network->statistics);
    device->ops->free(device, network->pixels);
    device->ops->free(device, network->labels);
    device->ops->free_pinned(device, network->result);
    arenas_release(&network->arenas);
    device_memory_close(device, network->compute);
    if (network->own_net != NULL)
        net_close(network->own_net);
}

size_t network_offset(const struct network *network, uint32_t parameter)
{
    return arenas_of(&network->arenas, network->net, parameter)->ranges[parameter].offset;
}

void network_read(struct network *network, const float *arena, uint32_t parameter, float *plain_out)
{
    const float *const stored = arena + network_offset(network, parameter);
    assert_int_equal(network->ops->unpack(network->backend, parameter, stored, plain_out), 0);
}

void network_write(struct network *network, float *arena, uint32_t parameter, const float *plain)
{
    float *const stored = arena + network_offset(network, parameter);
    assert_int_equal(network->ops->pack(network->backend, parameter, plain, stored), 0);
}

float *network_arena(const struct network *network, uint32_t parameter)
{
    return network->net->parameters[parameter].is_trained ? network->weights : network->statistics;
}

/* Around which number, and how far from it. */
static struct spread { float middle, reach; } spread_of(const struct parameter *parameter)
{
    switch (parameter->kind) {
    case PARAMETER_WEIGHT:
        return (struct spread){ 0, 2.0f / sqrtf((float)parameter->fan_in) };
    case PARAMETER_GAMMA:
    case PARAMETER_RUNNING_VARIANCE:
        return (struct spread){ 1, 0.5f };
    default:
        return (struct spread){ 0, 0.2f };
    }
}

void network_draw_weights(struct network *network, uint64_t seed)
{
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        const struct parameter *const parameter = &network->net->parameters[p];
        const struct random_key key = random_key(seed, RANDOM_DRAW, 100 + p);
        const struct spread spread = spread_of(parameter);
        float *const plain = malloc(parameter->count * sizeof(*plain));
        assert_non_null(plain);
        for (size_t i = 0; i < parameter->count; i++)
            plain[i] = spread.middle + spread.reach * (2 * test_uniform(key, i) - 1);
        network_write(network, network_arena(network, p), p, plain);
        free(plain);
    }
}

struct plan *network_plan(struct network *network, uint32_t count, bool training)
{
    for (uint32_t i = 0; i < network->plan_count; i++) {
        const struct plan_base *base = (const struct plan_base *)(const void *)network->plans[i];
        if (base->count == count && base->training == training)
            return network->plans[i];
    }
    assert_true(network->plan_count < NETWORK_PLANS_MAX);
    struct plan **plan = &network->plans[network->plan_count++];
    const struct plan_spec spec = { .count = count, .training = training };
    assert_int_equal(network->ops->plan(network->backend, &spec, plan), 0);
    assert_int_equal(network->ops->allocate(network->backend), 0);
    return *plan;
}

enum { FIRST_POSITION = 1000, EPOCH = 3 };

static void queue_forward(struct network *network, struct plan *plan, uint64_t first_position, uint32_t epoch)
{
    const struct backend_input input = {
        .pixels = network->pixels, .labels = network->labels, .first_position = first_position, .epoch = epoch,
    };
    assert_int_equal(network->ops->input(plan, &input), 0);
    assert_int_equal(network->ops->forward(plan), 0);
}

static struct plan *forward(struct network *network, const struct backend_input *input, uint32_t first,
                            uint32_t count, bool training)
{
    struct plan *plan = network_plan(network, count, training);
    const size_t image = shape_count(network->net->input);
    device_memory_write(network->compute, network->pixels, input->pixels + first * image, count * image);
    device_memory_write(network->compute, network->labels, input->labels + first, count * sizeof(*input->labels));
    queue_forward(network, plan, input->first_position + first, input->epoch);
    return plan;
}

static void layer_done(void *arg, uint32_t layer)
{
    struct network *network = arg;
    network->done[network->done_count++] = layer;
}

static void queue_backward(struct network *network, struct plan *plan)
{
    network->done_count = 0;
    assert_int_equal(network->ops->backward(plan, layer_done, network), 0);
}

void network_queue(struct network *network, struct plan *plan)
{
    queue_forward(network, plan, FIRST_POSITION, EPOCH);
    if (((const struct plan_base *)(const void *)plan)->training)
        queue_backward(network, plan);
    assert_int_equal(network->ops->result(plan, network->result), 0);
}

static struct backend_result result_of(struct network *network, struct plan *plan)
{
    assert_int_equal(network->ops->result(plan, network->result), 0);
    device_memory_wait(network->compute);
    return *network->result;
}

struct backend_result network_run(struct network *network, const struct backend_input *input, uint32_t first,
                                  uint32_t count, bool training)
{
    struct plan *plan = forward(network, input, first, count, training);
    if (training)
        queue_backward(network, plan);
    return result_of(network, plan);
}

struct backend_result network_forward(struct network *network, const struct backend_input *input, uint32_t count,
                                      bool training)
{
    return result_of(network, forward(network, input, 0, count, training));
}

struct backend_input network_input(const struct net *net, uint32_t count, uint64_t seed)
{
    const size_t bytes = count * shape_count(net->input);
    uint8_t *pixels = malloc(bytes);
    int32_t *labels = malloc(count * sizeof(*labels));
    assert_true(pixels && labels);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)random_u64(random_key(seed, RANDOM_DRAW, 2), i);
    for (uint32_t i = 0; i < count; i++)
        labels[i] = (int32_t)(random_u64(random_key(seed, RANDOM_DRAW, 3), i) % net->classes);
    return (struct backend_input){ .pixels = pixels, .labels = labels, .first_position = FIRST_POSITION,
                                   .epoch = EPOCH };
}

void network_input_release(struct backend_input *input)
{
    free((void *)(uintptr_t)input->pixels);
    free((void *)(uintptr_t)input->labels);
}
