/* Towers for tests. See tower_fixture.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"

const struct optimizer_step tower_fixture_step = { .learning_rate = 0.5f, .gradient_scale = 1.0f / FIXTURE_BATCH };

struct net *tower_fixture_net(float dropout)
{
    struct net *const net = network_net_begin("small", (struct shape){ 1, 9, 7 }, 4);
    net_conv2d(net, "conv", NET_INPUT, 5, window_square(3, 1, PADDING_VALID), true);
    net_relu(net, "relu", 0);
    net_max_pool(net, "pool", 1, window_square(2, 2, PADDING_VALID));
    net_dropout(net, "dropout", 2, dropout);
    net_dense(net, "fc1", 3, 11, true);
    return network_net_end(net, net_relu(net, "relu2", 4));
}

struct net *tower_fixture_norm_net(uint32_t filters, float dropout)
{
    const struct batch_norm norm = { .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true };
    struct net *const net = network_net_begin("normalised", (struct shape){ 1, 9, 7 }, 4);
    net_conv2d(net, "conv", NET_INPUT, filters, window_square(3, 1, PADDING_VALID), false);
    net_batch_norm(net, "norm", 0, norm);
    const int64_t relu = net_relu(net, "relu", 1);
    return network_net_end(net, dropout > 0 ? net_dropout(net, "dropout", (uint32_t)relu, dropout) : relu);
}

struct tower_spec tower_fixture_spec(struct tower_fixture *fixture, const char *backend, const struct net *net)
{
    return (struct tower_spec){
        .net = net, .device = fixture->device, .compute = fixture->compute, .backend = backend_find(backend),
        .backend_spec = { .threads = 1, .local_max = FIXTURE_BATCH, .seed = 3, .allow_ref = true },
        .optimizer = { .kind = OPTIMIZER_SGD }, .seed = 1,
        .train_counts = { FIXTURE_BATCH, 0 }, .evaluate_counts = { FIXTURE_BATCH, 0 },
    };
}

void tower_fixture_open_device(struct tower_fixture *fixture, const char *backend)
{
    void *result;
    *fixture = (struct tower_fixture){ .prefix = NULL };
    fixture->device = device_memory_open(backend_find(backend), &fixture->compute);
    const struct device_ops *ops = fixture->device->ops;
    assert_int_equal(ops->event_open(fixture->device, EVENT_ORDER, &fixture->slot.ready), 0);
    assert_int_equal(ops->event_open(fixture->device, EVENT_ORDER, &fixture->slot.free), 0);
    assert_int_equal(ops->alloc_pinned(fixture->device, sizeof(*fixture->result), &result), 0);
    fixture->result = result;
}

void tower_fixture_open_tower(struct tower_fixture *fixture, const struct tower_spec *spec)
{
    assert_int_equal(tower_open(&fixture->tower, spec), 0);
    assert_int_equal(tower_allocate(fixture->tower), 0);
    fixture->prefix = calloc(tower_fixture_floats(fixture), sizeof(*fixture->prefix));
    assert_non_null(fixture->prefix);
}

void tower_fixture_open(struct tower_fixture *fixture, const char *backend, const struct net *net)
{
    tower_fixture_open_device(fixture, backend);
    const struct tower_spec spec = tower_fixture_spec(fixture, backend, net);
    tower_fixture_open_tower(fixture, &spec);
}

static void slot_release(struct tower_fixture *fixture)
{
    fixture->device->ops->free(fixture->device, fixture->slot.pixels);
    fixture->device->ops->free(fixture->device, fixture->slot.labels);
    fixture->device->ops->free(fixture->device, fixture->slot.mixes);
    fixture->slot.pixels = NULL;
    fixture->slot.labels = NULL;
    fixture->slot.mixes = NULL;
}

void tower_fixture_close(struct tower_fixture *fixture)
{
    const struct device_ops *ops = fixture->device->ops;
    tower_close(fixture->tower);
    slot_release(fixture);
    ops->event_close(fixture->slot.ready);
    ops->event_close(fixture->slot.free);
    ops->free_pinned(fixture->device, fixture->result);
    device_memory_close(fixture->device, fixture->compute);
    free(fixture->prefix);
}

void tower_fixture_fill(struct tower_fixture *fixture, const struct net *net, const struct backend_input *input,
                        uint32_t first, uint32_t count)
{
    const size_t image = shape_count(net->input);
    slot_release(fixture);
    fixture->slot.local = (struct local_batch){ .first_position = input->first_position + first, .epoch = input->epoch,
                                      .count = count, .global_count = FIXTURE_BATCH };
    fixture->slot.pixels = device_memory_make(fixture->compute, input->pixels + first * image, count * image);
    fixture->slot.labels = device_memory_make(fixture->compute, input->labels + first, count * sizeof(int32_t));
    if (input->mixes != NULL)
        fixture->slot.mixes = device_memory_make(fixture->compute, input->mixes + first, count * sizeof(*input->mixes));
}

void tower_fixture_note_ready(void *arg, size_t floats)
{
    struct tower_fixture *fixture = arg;
    const size_t before = fixture->ready_count > 0 ? fixture->ready[fixture->ready_count - 1] : 0;
    assert_true(floats > before);
    assert_true(floats <= tower_fixture_floats(fixture));
    assert_true(fixture->ready_count < FIXTURE_READY_MAX);
    device_memory_read(fixture->compute, fixture->prefix + before, tower_gradients(fixture->tower) + before,
                       (floats - before) * sizeof(float));
    fixture->ready[fixture->ready_count++] = floats;
}

struct backend_result tower_fixture_result(struct tower_fixture *fixture)
{
    assert_int_equal(tower_result(fixture->tower, fixture->result), 0);
    device_memory_wait(fixture->compute);
    return *fixture->result;
}

void tower_fixture_forward(struct tower_fixture *fixture, bool training)
{
    assert_int_equal(stream_wait(fixture->compute, fixture->slot.ready), 0);
    assert_int_equal(tower_forward(fixture->tower, &fixture->slot, 0, training), 0);
}

struct backend_result tower_fixture_train(struct tower_fixture *fixture)
{
    fixture->ready_count = 0;
    tower_fixture_forward(fixture, true);
    assert_int_equal(tower_backward(fixture->tower, tower_fixture_note_ready, fixture), 0);
    return tower_fixture_result(fixture);
}

struct backend_result tower_fixture_evaluate(struct tower_fixture *fixture)
{
    tower_fixture_forward(fixture, false);
    return tower_fixture_result(fixture);
}

void tower_fixture_update(struct tower_fixture *fixture)
{
    assert_int_equal(tower_update(fixture->tower, 0, tower_fixture_floats(fixture), &tower_fixture_step), 0);
}

void tower_fixture_check_and_update(struct tower_fixture *fixture)
{
    if (tower_updates_at_once(fixture->tower))
        assert_int_equal(tower_check(fixture->tower, 0, tower_fixture_floats(fixture)), 0);
    tower_fixture_update(fixture);
}

size_t tower_fixture_floats(const struct tower_fixture *fixture)
{
    return tower_arena(fixture->tower)->count;
}

float *tower_fixture_gradients(struct tower_fixture *fixture)
{
    const size_t bytes = tower_fixture_floats(fixture) * sizeof(float);
    float *gradients = malloc(bytes);
    assert_non_null(gradients);
    device_memory_read(fixture->compute, gradients, tower_gradients(fixture->tower), bytes);
    return gradients;
}

void tower_fixture_set_gradients(struct tower_fixture *fixture, const float *gradients)
{
    device_memory_write(fixture->compute, tower_gradients(fixture->tower), gradients,
                        tower_fixture_floats(fixture) * sizeof(float));
}

void tower_fixture_assert_gradients_zero(struct tower_fixture *fixture)
{
    float *gradients = tower_fixture_gradients(fixture);
    for (size_t i = 0; i < tower_fixture_floats(fixture); i++)
        assert_true(gradients[i] == 0);
    free(gradients);
}

void tower_fixture_assert_gradients_equal(struct tower_fixture *a, struct tower_fixture *b)
{
    float *left = tower_fixture_gradients(a), *right = tower_fixture_gradients(b);
    assert_int_equal(tower_fixture_floats(a), tower_fixture_floats(b));
    assert_memory_equal(left, right, tower_fixture_floats(a) * sizeof(float));
    free(left);
    free(right);
}

float *tower_fixture_weights(struct tower_fixture *fixture, const struct net *net)
{
    float *all = malloc((net->trainable_count + net->statistic_count) * sizeof(*all)), *next = all;
    assert_non_null(all);
    for (uint32_t p = 0; p < net->parameter_count; next += net->parameters[p++].count)
        assert_int_equal(tower_read(fixture->tower, p, next), 0);
    return all;
}

void tower_fixture_set_weights(struct tower_fixture *fixture, const struct net *net, const float *weights)
{
    for (uint32_t p = 0; p < net->parameter_count; weights += net->parameters[p++].count)
        assert_int_equal(tower_write(fixture->tower, p, weights), 0);
}

struct snapshot *tower_fixture_snapshot(const struct tower_fixture *fixture, enum snapshot_kind kind)
{
    struct snapshot *snapshot;
    assert_int_equal(snapshot_open(&snapshot, fixture->tower, kind), 0);
    assert_int_equal(snapshot_queue(snapshot), 0);
    assert_int_equal(event_wait(snapshot_end(snapshot)), 0);
    return snapshot;
}

void tower_fixture_assert_weights_near(struct tower_fixture *a, struct tower_fixture *b, const struct net *net,
                                       double tolerance)
{
    float *left = tower_fixture_weights(a, net), *right = tower_fixture_weights(b, net);
    for (size_t i = 0; i < net->trainable_count; i++)
        assert_true(fabs((double)left[i] - right[i]) <= tolerance);
    free(left);
    free(right);
}
