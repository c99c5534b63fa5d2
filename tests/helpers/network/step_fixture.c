/* See step_fixture.h. */
#include "tests/helpers/network/step_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/init.h"
#include "compute/model.h"
#include "compute/onednn/onednn_plan.h"
#include "stage/random.h"
#include "tests/helpers/test.h"

void plain_draw(const struct net *net, uint32_t parameter, float *plain)
{
    init_parameter(net, parameter, 5, 1, plain);
    for (size_t i = 0; i < net->parameters[parameter].count && net->parameters[parameter].rank == 1; i++)
        plain[i] = 0.02f * (float)((int)(i % 7) - 3);
}

float *plain_alloc(const struct net *net, uint32_t parameter)
{
    float *plain = malloc(net->parameters[parameter].count * sizeof(*plain));
    assert_non_null(plain);
    return plain;
}

void step_fixture_open(struct step_fixture *rig, const struct backend_ops *ops, const struct net *net,
                       struct rig_options options)
{
    const struct device_spec device = { 0, "cpu0" };
    void *memory;
    *rig = (struct step_fixture){ .ops = ops, .net = net };
    assert_int_equal(device_host_ops.open(&rig->device, &device), 0);
    assert_int_equal(device_host_ops.stream_open(rig->device, STREAM_COMPUTE, "compute", &rig->compute), 0);
    const struct backend_spec spec = {
        .net = net, .device = rig->device, .compute = rig->compute, .threads = options.threads,
        .slice_max = options.slice_max, .layout = options.layout, .seed = 3,
    };
    assert_int_equal(ops->open(&rig->backend, &spec), 0);
    rig->stored_counts = calloc(net->parameter_count + 1, sizeof(*rig->stored_counts));
    assert_int_equal(ops->stored_sizes(rig->backend, rig->stored_counts), 0);
    assert_int_equal(arenas_init(&rig->arenas, net, rig->stored_counts), 0);
    ops->lay_out(rig->backend, &rig->arenas);
    assert_int_equal(device_host_ops.alloc(rig->device, rig->arenas.trained.count * sizeof(float), &memory), 0);
    rig->weights = memory;
    assert_int_equal(device_host_ops.alloc(rig->device, rig->arenas.trained.count * sizeof(float), &memory), 0);
    rig->gradients = memory;
    const struct backend_memory floats = { rig->weights, rig->gradients, NULL };
    assert_int_equal(ops->bind(rig->backend, &floats), 0);
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        float *plain = plain_alloc(net, i);
        plain_draw(net, i, plain);
        assert_int_equal(ops->pack(rig->backend, i, plain, rig->weights + rig->arenas.trained.ranges[i].offset), 0);
        free(plain);
    }
}

void step_fixture_close(struct step_fixture *rig)
{
    rig->ops->close(rig->backend);
    device_host_ops.free(rig->device, rig->weights);
    device_host_ops.free(rig->device, rig->gradients);
    arenas_release(&rig->arenas);
    free(rig->stored_counts);
    device_host_ops.stream_close(rig->compute);
    device_host_ops.close(rig->device);
}

void samples_draw(struct samples *samples, const struct net *net, uint64_t seed)
{
    const struct random_key key = random_key(seed, RANDOM_DRAW, 0);
    const size_t bytes = SAMPLES_MAX * shape_count(net->input);
    samples->pixels = malloc(bytes);
    assert_non_null(samples->pixels);
    for (size_t i = 0; i < bytes; i++)
        samples->pixels[i] = (uint8_t)random_u64(key, i);
    for (size_t i = 0; i < SAMPLES_MAX; i++)
        samples->labels[i] = (int32_t)(random_u64(key, bytes + i) % (net->classes + 1)) - 1;
}

void outcome_read(const struct step_fixture *rig, struct outcome *outcome)
{
    outcome->count = rig->net->trainable_count;
    outcome->gradients = malloc(outcome->count * sizeof(float));
    assert_non_null(outcome->gradients);
    float *at = outcome->gradients;
    for (uint32_t i = 0; i < rig->net->parameter_count; i++) {
        const float *stored = rig->gradients + rig->arenas.trained.ranges[i].offset;
        assert_int_equal(rig->ops->unpack(rig->backend, i, stored, at), 0);
        at += rig->net->parameters[i].count;
    }
}

static void layer_note(void *arg, uint32_t layer)
{
    uint32_t *last = arg;
    assert_true(layer < *last);
    *last = layer;
}

void step_fixture_run_plan(const struct step_fixture *rig, struct plan *plan, const struct samples *samples,
                           uint32_t first)
{
    uint32_t last = UINT32_MAX;
    const struct backend_input input = {
        .pixels = samples->pixels + first * shape_count(rig->net->input), .labels = samples->labels + first,
        .first_position = 1000 + first, .epoch = 2,
    };
    assert_int_equal(rig->ops->input(plan, &input), 0);
    assert_int_equal(rig->ops->forward(plan), 0);
    assert_int_equal(rig->ops->backward(plan, layer_note, &last), 0);
}

struct outcome step_fixture_run(const struct step_fixture *rig, const struct samples *samples, uint32_t first,
                                uint32_t count)
{
    struct outcome outcome;
    struct plan *plan;
    assert_int_equal(rig->ops->plan(rig->backend, count, true, &plan), 0);
    assert_int_equal(rig->ops->allocate(rig->backend), 0);
    step_fixture_run_plan(rig, plan, samples, first);
    assert_int_equal(rig->ops->result(plan, &outcome.result), 0);
    outcome_read(rig, &outcome);
    rig->ops->plan_close(plan);
    return outcome;
}

struct outcome step_fixture_once(const struct backend_ops *ops, const struct net *net, struct rig_options options,
                                 const struct samples *samples, uint32_t count)
{
    struct step_fixture rig;
    options.slice_max = count;
    step_fixture_open(&rig, ops, net, options);
    if (ops == &backend_onednn_ops && count % 2 == 0)
        rig.backend->large_value_bytes = 0;
    const struct outcome outcome = step_fixture_run(&rig, samples, 0, count);
    step_fixture_close(&rig);
    return outcome;
}

static double largest_of(const struct outcome *outcome)
{
    double largest = 1e-3;
    for (size_t i = 0; i < outcome->count; i++)
        largest = fmax(largest, fabs((double)outcome->gradients[i]));
    return largest;
}

void outcome_assert_close(const struct outcome *actual, const struct outcome *expected, double tolerance)
{
    const double largest = largest_of(expected);
    assert_int_equal(actual->count, expected->count);
    assert_int_equal(actual->result.counted, expected->result.counted);
    assert_true(fabs(actual->result.loss_sum - expected->result.loss_sum) <=
                tolerance * (1 + fabs(expected->result.loss_sum)));
    for (size_t i = 0; i < expected->count; i++)
        if (!(fabs((double)actual->gradients[i] - (double)expected->gradients[i]) <= tolerance * largest))
            fail_msg("gradient %zu is %g, not %g", i, (double)actual->gradients[i], (double)expected->gradients[i]);
}

struct net *net_of_model(const char *name, bool dropout)
{
    const struct model_options options = { .classes = 0, .dropout = dropout };
    struct net *net;
    assert_int_equal(model_open(&net, name, &options), 0);
    return net;
}

/* Numbers for one random net. */
struct dice { struct random_key key; uint64_t thrown; };

static uint32_t roll(struct dice *dice, uint32_t sides)
{
    return (uint32_t)(random_u64(dice->key, dice->thrown++) % sides);
}

static int64_t layer_draw(struct net *net, struct dice *dice, const char *name, uint32_t from, struct shape in)
{
    static const uint32_t channels[] = { 1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33 };
    const uint32_t filters = channels[roll(dice, sizeof(channels) / sizeof(channels[0]))];
    const enum padding padding = roll(dice, 2) ? PADDING_SAME : PADDING_VALID;
    const uint32_t least = in.height < in.width ? in.height : in.width;
    const uint32_t wish = 1 + roll(dice, 5), stride = 1 + roll(dice, 3);
    const uint32_t kernel = padding == PADDING_VALID && wish > least ? least : wish;
    switch (roll(dice, 7)) {
    case 0:
        return net_max_pool(net, name, from, window_square(kernel, stride, padding));
    case 1:
        return net_relu(net, name, from);
    case 2:
        return net_dropout(net, name, from, 0.1f * (float)roll(dice, 8));
    case 3:
        return net_dense(net, name, from, filters, true);
    default:
        return net_conv2d(net, name, from, filters, window_square(kernel, stride, padding), true);
    }
}

struct net *net_of_seed(uint64_t seed)
{
    static const uint32_t channels[] = { 1, 1, 2, 3, 4, 5, 8, 16, 19 };
    struct dice dice = { random_key(seed, RANDOM_DRAW, 1), 0 };
    struct shape shape = { channels[roll(&dice, 9)], 1 + roll(&dice, 13), 1 + roll(&dice, 13) };
    const uint32_t layers = roll(&dice, 7);
    int64_t at = NET_INPUT;
    struct net *net;
    assert_int_equal(net_open(&net, "random", shape, 1 + roll(&dice, 12)), 0);
    for (uint32_t i = 0; i < layers; i++) {
        char name[16];
        snprintf(name, sizeof(name), "layer%u", i);
        at = layer_draw(net, &dice, name, (uint32_t)at, shape);
        assert_true(at >= 0);
        shape = net->layers[at].out;
    }
    at = net_dense(net, "classes", (uint32_t)at, net->classes, true);
    assert_true(net_softmax_loss(net, "loss", (uint32_t)at) >= 0);
    assert_int_equal(net_finish(net), 0);
    return net;
}
