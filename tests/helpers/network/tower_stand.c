/* Towers for tests. See tower_stand.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/tower_stand.h"
#include "tests/helpers/test.h"

const struct optimizer_step stand_step = { .learning_rate = 0.5f, .gradient_scale = 1.0f / STAND_BATCH };

struct net *stand_net(float dropout)
{
    struct net *net;
    assert_int_equal(net_open(&net, "small", (struct shape){ 1, 9, 7 }, 4), 0);
    net_conv2d(net, "conv", NET_INPUT, 5, window_square(3, 1, PADDING_VALID), true);
    net_relu(net, "relu", 0);
    net_max_pool(net, "pool", 1, window_square(2, 2, PADDING_VALID));
    net_dropout(net, "dropout", 2, dropout);
    net_dense(net, "fc1", 3, 11, true);
    net_relu(net, "relu2", 4);
    net_dense(net, "fc2", 5, 4, true);
    net_softmax_loss(net, "loss", 6);
    assert_int_equal(net_finish(net), 0);
    return net;
}

struct tower_spec stand_spec(struct stand *stand, const char *backend, const struct net *net)
{
    return (struct tower_spec){
        .net = net, .device = stand->device, .compute = stand->compute, .backend = backend_find(backend),
        .backend_spec = { .threads = 1, .slice_max = STAND_BATCH, .seed = 3, .allow_ref = true },
        .optimizer = { .kind = OPTIMIZER_SGD }, .seed = 1,
        .train_counts = { STAND_BATCH, 0 }, .evaluate_counts = { STAND_BATCH, 0 },
    };
}

void stand_open_device(struct stand *stand, const char *backend)
{
    void *result;
    *stand = (struct stand){ .prefix = NULL };
    stand->device = device_memory_open(backend_find(backend), &stand->compute);
    const struct device_ops *ops = stand->device->ops;
    assert_int_equal(ops->event_open(stand->device, EVENT_ORDER, &stand->slot.ready), 0);
    assert_int_equal(ops->event_open(stand->device, EVENT_ORDER, &stand->slot.free), 0);
    assert_int_equal(ops->alloc_pinned(stand->device, sizeof(*stand->result), &result), 0);
    stand->result = result;
}

void stand_open_tower(struct stand *stand, const struct tower_spec *spec)
{
    assert_int_equal(tower_open(&stand->tower, spec), 0);
    assert_int_equal(tower_allocate(stand->tower), 0);
    stand->prefix = calloc(stand_floats(stand), sizeof(*stand->prefix));
    assert_non_null(stand->prefix);
}

void stand_open(struct stand *stand, const char *backend, const struct net *net)
{
    stand_open_device(stand, backend);
    const struct tower_spec spec = stand_spec(stand, backend, net);
    stand_open_tower(stand, &spec);
}

static void slot_release(struct stand *stand)
{
    stand->device->ops->free(stand->device, stand->slot.pixels);
    stand->device->ops->free(stand->device, stand->slot.labels);
    stand->device->ops->free(stand->device, stand->slot.mixes);
    stand->slot.pixels = NULL;
    stand->slot.labels = NULL;
    stand->slot.mixes = NULL;
}

void stand_close(struct stand *stand)
{
    const struct device_ops *ops = stand->device->ops;
    tower_close(stand->tower);
    slot_release(stand);
    ops->event_close(stand->slot.ready);
    ops->event_close(stand->slot.free);
    ops->free_pinned(stand->device, stand->result);
    device_memory_close(stand->device, stand->compute);
    free(stand->prefix);
}

void stand_fill(struct stand *stand, const struct net *net, const struct backend_input *input, uint32_t first,
                uint32_t count)
{
    const size_t image = shape_count(net->input);
    slot_release(stand);
    stand->slot.slice = (struct batch_slice){ .first_position = input->first_position + first, .epoch = input->epoch,
                                      .count = count, .global_count = STAND_BATCH };
    stand->slot.pixels = device_memory_make(stand->compute, input->pixels + first * image, count * image);
    stand->slot.labels = device_memory_make(stand->compute, input->labels + first, count * sizeof(int32_t));
    if (input->mixes != NULL)
        stand->slot.mixes = device_memory_make(stand->compute, input->mixes + first, count * sizeof(*input->mixes));
}

void stand_note_ready(void *arg, size_t floats)
{
    struct stand *stand = arg;
    const size_t before = stand->ready_count > 0 ? stand->ready[stand->ready_count - 1] : 0;
    assert_true(floats > before);
    assert_true(floats <= stand_floats(stand));
    assert_true(stand->ready_count < STAND_READY_MAX);
    device_memory_read(stand->compute, stand->prefix + before, tower_gradients(stand->tower) + before,
                       (floats - before) * sizeof(float));
    stand->ready[stand->ready_count++] = floats;
}

struct backend_result stand_result(struct stand *stand)
{
    assert_int_equal(tower_result(stand->tower, stand->result), 0);
    device_memory_wait(stand->compute);
    return *stand->result;
}

void stand_forward(struct stand *stand, bool training)
{
    assert_int_equal(stream_wait(stand->compute, stand->slot.ready), 0);
    assert_int_equal(tower_forward(stand->tower, &stand->slot, 0, training), 0);
}

struct backend_result stand_train(struct stand *stand)
{
    stand->ready_count = 0;
    stand_forward(stand, true);
    assert_int_equal(tower_backward(stand->tower, stand_note_ready, stand), 0);
    return stand_result(stand);
}

struct backend_result stand_evaluate(struct stand *stand)
{
    stand_forward(stand, false);
    return stand_result(stand);
}

void stand_update(struct stand *stand)
{
    assert_int_equal(tower_update(stand->tower, 0, stand_floats(stand), &stand_step), 0);
}

size_t stand_floats(const struct stand *stand)
{
    return tower_arena(stand->tower)->count;
}

float *stand_gradients(struct stand *stand)
{
    const size_t bytes = stand_floats(stand) * sizeof(float);
    float *gradients = malloc(bytes);
    assert_non_null(gradients);
    device_memory_read(stand->compute, gradients, tower_gradients(stand->tower), bytes);
    return gradients;
}

void stand_set_gradients(struct stand *stand, const float *gradients)
{
    device_memory_write(stand->compute, tower_gradients(stand->tower), gradients, stand_floats(stand) * sizeof(float));
}

void stand_assert_gradients_zero(struct stand *stand)
{
    float *gradients = stand_gradients(stand);
    for (size_t i = 0; i < stand_floats(stand); i++)
        assert_true(gradients[i] == 0);
    free(gradients);
}

void stand_assert_gradients_equal(struct stand *a, struct stand *b)
{
    float *left = stand_gradients(a), *right = stand_gradients(b);
    assert_int_equal(stand_floats(a), stand_floats(b));
    assert_memory_equal(left, right, stand_floats(a) * sizeof(float));
    free(left);
    free(right);
}

float *stand_weights(struct stand *stand, const struct net *net)
{
    float *all = malloc(net->trainable_count * sizeof(*all)), *next = all;
    assert_non_null(all);
    for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count)
        assert_int_equal(tower_read(stand->tower, p, next), 0);
    return all;
}

void stand_assert_weights_near(struct stand *a, struct stand *b, const struct net *net, double tolerance)
{
    float *left = stand_weights(a, net), *right = stand_weights(b, net);
    for (size_t i = 0; i < net->trainable_count; i++)
        assert_true(fabs((double)left[i] - right[i]) <= tolerance);
    free(left);
    free(right);
}
