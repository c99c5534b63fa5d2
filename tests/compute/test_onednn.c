/* Tests of the oneDNN backend: it matches the reference on random nets, its stored
 * layouts lose nothing, its plans share storage and memory, and "ref" is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/init.h"
#include "compute/model.h"
#include "compute/onednn/onednn_plan.h"
#include "compute/team.h"
#include "stage/random.h"
#include "tests/helpers/capture.h"

#define SAMPLES_MAX 16

/* A backend with bound arenas and weights of the seed. */
struct rig {
    struct device *device;
    struct stream *compute;
    const struct backend_ops *ops;
    struct backend *backend;
    const struct net *net;
    struct arenas arenas;
    size_t *stored_counts;
    float *weights, *gradients;
};

struct rig_options { uint32_t threads, slice_max; enum layout layout; };

/* Glorot weights, and biases that are not zero. */
static void plain_draw(const struct net *net, uint32_t parameter, float *plain)
{
    init_parameter(net, parameter, 5, 1, plain);
    for (size_t i = 0; i < net->parameters[parameter].count && net->parameters[parameter].rank == 1; i++)
        plain[i] = 0.02f * (float)((int)(i % 7) - 3);
}

static float *plain_alloc(const struct net *net, uint32_t parameter)
{
    float *plain = malloc(net->parameters[parameter].count * sizeof(*plain));
    assert_non_null(plain);
    return plain;
}

static void rig_open(struct rig *rig, const struct backend_ops *ops, const struct net *net, struct rig_options options)
{
    const struct device_spec device = { 0, "cpu0" };
    void *memory;
    *rig = (struct rig){ .ops = ops, .net = net };
    assert_int_equal(device_host_ops.open(&rig->device, &device), 0);
    assert_int_equal(device_host_ops.stream_open(rig->device, STREAM_COMPUTE, "compute", &rig->compute), 0);
    const struct backend_spec spec = {
        .net = net, .device = rig->device, .compute = rig->compute, .threads = options.threads,
        .slice_max = options.slice_max, .layout = options.layout, .seed = 3,
    };
    assert_int_equal(ops->open(&rig->backend, &spec), 0);
    rig->stored_counts = calloc(net->parameter_count + 1, sizeof(*rig->stored_counts));
    assert_int_equal(ops->store(rig->backend, rig->stored_counts), 0);
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

static void rig_close(struct rig *rig)
{
    rig->ops->close(rig->backend);
    device_host_ops.free(rig->device, rig->weights);
    device_host_ops.free(rig->device, rig->gradients);
    arenas_release(&rig->arenas);
    free(rig->stored_counts);
    device_host_ops.stream_close(rig->compute);
    device_host_ops.close(rig->device);
}

/* Random pixels and labels, some samples without a label. */
struct samples {
    uint8_t *pixels;
    int32_t labels[SAMPLES_MAX];
};

static void samples_draw(struct samples *samples, const struct net *net, uint64_t seed)
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

/* What a step gives, gradients as plain parameters one behind the other. */
struct outcome {
    struct backend_result result;
    float *gradients;
    size_t count;
};

static void gradients_read(const struct rig *rig, struct outcome *outcome)
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

static void plan_run(const struct rig *rig, struct plan *plan, const struct samples *samples, uint32_t first)
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

/* One step over samples [first, first + count). */
static struct outcome step_run(const struct rig *rig, const struct samples *samples, uint32_t first, uint32_t count)
{
    struct outcome outcome;
    struct plan *plan;
    assert_int_equal(rig->ops->plan(rig->backend, count, true, &plan), 0);
    assert_int_equal(rig->ops->allocate(rig->backend), 0);
    plan_run(rig, plan, samples, first);
    assert_int_equal(rig->ops->result(plan, &outcome.result), 0);
    gradients_read(rig, &outcome);
    rig->ops->plan_close(plan);
    return outcome;
}

static struct outcome rig_step(const struct backend_ops *ops, const struct net *net, struct rig_options options,
                               const struct samples *samples, uint32_t count)
{
    struct rig rig;
    options.slice_max = count;
    rig_open(&rig, ops, net, options);
    if (ops == &backend_onednn_ops && count % 2 == 0)
        rig.backend->noted_bytes = 0;
    const struct outcome outcome = step_run(&rig, samples, 0, count);
    rig_close(&rig);
    return outcome;
}

static double largest_of(const struct outcome *outcome)
{
    double largest = 1e-3;
    for (size_t i = 0; i < outcome->count; i++)
        largest = fmax(largest, fabs((double)outcome->gradients[i]));
    return largest;
}

/* Within `tolerance` of the largest gradient. */
static void assert_close(const struct outcome *actual, const struct outcome *expected, double tolerance)
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

static struct net *model_net(const char *name, bool dropout)
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

static struct net *net_draw(uint64_t seed)
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

static void random_nets_match_the_reference_in_every_layout(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct net *net = net_draw(seed);
        struct samples samples;
        const uint32_t count = 1 + (uint32_t)seed % 6;
        samples_draw(&samples, net, seed);
        struct outcome expected = rig_step(&backend_reference_ops, net, (struct rig_options){ 1, 0, LAYOUT_AUTO },
                                           &samples, count);
        for (int layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++) {
            const struct rig_options options = { 1 + (uint32_t)seed % 3, 0, (enum layout)layout };
            struct outcome actual = rig_step(&backend_onednn_ops, net, options, &samples, count);
            assert_close(&actual, &expected, 1e-4);
            free(actual.gradients);
        }
        free(expected.gradients);
        free(samples.pixels);
        net_close(net);
    }
}

static void the_models_match_the_reference_with_dropout(void **state)
{
    (void)state;
    struct net *net = model_net("mnist_cnn", true);
    struct samples samples;
    samples_draw(&samples, net, 11);
    struct outcome expected = rig_step(&backend_reference_ops, net, (struct rig_options){ 1, 0, LAYOUT_AUTO },
                                       &samples, 3);
    struct outcome actual = rig_step(&backend_onednn_ops, net, (struct rig_options){ 2, 0, LAYOUT_AUTO }, &samples, 3);
    assert_close(&actual, &expected, 1e-4);
    assert_int_equal(actual.result.correct, expected.result.correct);
    free(actual.gradients);
    free(expected.gradients);
    free(samples.pixels);
    net_close(net);
}

/* oneDNN 2.6 fails with the gradient of such a layer's inputs in its own layout of weights. */
static void few_values_that_many_units_read_match_the_reference_on_several_threads(void **state)
{
    (void)state;
    for (uint32_t inputs = 1; inputs <= 32; inputs *= 2) {
        struct net *net;
        struct samples samples;
        assert_int_equal(net_open(&net, "narrow", (struct shape){ 3, 4, 4 }, 5), 0);
        int64_t at = net_relu(net, "relu1", (uint32_t)net_dense(net, "fc1", NET_INPUT, inputs, true));
        at = net_relu(net, "relu2", (uint32_t)net_dense(net, "fc2", (uint32_t)at, 2048, true));
        net_softmax_loss(net, "loss", (uint32_t)net_dense(net, "fc3", (uint32_t)at, net->classes, true));
        assert_int_equal(net_finish(net), 0);
        samples_draw(&samples, net, 7);
        struct outcome expected = rig_step(&backend_reference_ops, net, (struct rig_options){ 1, 0, LAYOUT_AUTO },
                                           &samples, 4);
        struct outcome actual = rig_step(&backend_onednn_ops, net, (struct rig_options){ 2, 0, LAYOUT_AUTO },
                                         &samples, 4);
        assert_close(&actual, &expected, 1e-4);
        free(actual.gradients);
        free(expected.gradients);
        free(samples.pixels);
        net_close(net);
    }
}

static void assert_unpacks(const struct net *net, enum layout layout)
{
    struct rig rig;
    rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, 4, layout });
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        float *plain = plain_alloc(net, i), *again = plain_alloc(net, i);
        plain_draw(net, i, plain);
        assert_int_equal(rig.ops->unpack(rig.backend, i, rig.weights + rig.arenas.trained.ranges[i].offset, again), 0);
        assert_memory_equal(plain, again, net->parameters[i].count * sizeof(*plain));
        free(plain);
        free(again);
    }
    rig_close(&rig);
}

static void packing_and_unpacking_gives_the_same_parameters(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct net *net = net_draw(seed);
        assert_unpacks(net, (enum layout)(seed % 3));
        net_close(net);
    }
}

/* Rows that are read four at a time, and what is left of them. */
static void packing_and_unpacking_gives_the_same_many_channels(void **state)
{
    (void)state;
    struct net *net;
    assert_int_equal(net_open(&net, "wide", (struct shape){ 3, 10, 10 }, 3), 0);
    uint32_t at = (uint32_t)net_conv2d(net, "first", NET_INPUT, 32, window_square(7, 2, PADDING_SAME), true);
    at = (uint32_t)net_conv2d(net, "second", at, 50, window_square(3, 1, PADDING_SAME), true);
    at = (uint32_t)net_conv2d(net, "third", at, 112, window_square(1, 1, PADDING_SAME), true);
    at = (uint32_t)net_dense(net, "classes", at, 37, true);
    net_softmax_loss(net, "loss", at);
    for (enum layout layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++)
        assert_unpacks(net, layout);
    net_close(net);
}

static void packing_and_unpacking_gives_the_same_large_windows(void **state)
{
    (void)state;
    struct net *net;
    assert_int_equal(net_open(&net, "large", (struct shape){ 20, 14, 15 }, 3), 0);
    uint32_t at = (uint32_t)net_conv2d(net, "conv", NET_INPUT, 40, window_square(13, 1, PADDING_SAME), true);
    at = (uint32_t)net_dense(net, "classes", at, 3, true);
    net_softmax_loss(net, "loss", at);
    for (enum layout layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++)
        assert_unpacks(net, layout);
    net_close(net);
}

static size_t count_not_zero(const float *numbers, size_t count)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        found += !(numbers[i] == 0.0f);
    return found;
}

static void padding_is_zero_in_packed_weights_and_in_gradients(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct net *net = net_draw(seed);
        struct samples samples;
        struct rig rig;
        samples_draw(&samples, net, seed);
        rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, 4, LAYOUT_AUTO });
        struct outcome outcome = step_run(&rig, &samples, 0, 4);
        for (uint32_t i = 0; i < net->parameter_count; i++) {
            const size_t stored = rig.stored_counts[i], plain = net->parameters[i].count;
            float *weights = malloc(stored * sizeof(*weights)), *unpacked = plain_alloc(net, i);
            assert_true(stored >= plain);
            memset(weights, 0xff, stored * sizeof(*weights));
            plain_draw(net, i, unpacked);
            assert_int_equal(rig.ops->pack(rig.backend, i, unpacked, weights), 0);
            assert_int_equal(count_not_zero(weights, stored), count_not_zero(unpacked, plain));
            const float *gradients = rig.gradients + rig.arenas.trained.ranges[i].offset;
            assert_int_equal(rig.ops->unpack(rig.backend, i, gradients, unpacked), 0);
            assert_int_equal(count_not_zero(gradients, stored), count_not_zero(unpacked, plain));
            free(weights);
            free(unpacked);
        }
        free(outcome.gradients);
        rig_close(&rig);
        free(samples.pixels);
        net_close(net);
    }
}

static void outcome_add(struct outcome *sum, const struct outcome *part)
{
    for (size_t i = 0; i < sum->count; i++)
        sum->gradients[i] += part->gradients[i];
    sum->result.loss_sum += part->result.loss_sum;
    sum->result.counted += part->result.counted;
}

static void slices_of_any_size_share_storage_and_sum_to_the_whole(void **state)
{
    (void)state;
    struct net *net = model_net("mnist_cnn", true);
    struct samples samples;
    struct rig rig;
    samples_draw(&samples, net, 4);
    rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 2, 9, LAYOUT_AUTO });
    struct outcome whole = step_run(&rig, &samples, 0, 9);
    struct outcome sum = step_run(&rig, &samples, 0, 1);
    for (uint32_t first = 1, count = 2; first < 9; first += count, count = 6) {
        struct outcome part = step_run(&rig, &samples, first, count);
        outcome_add(&sum, &part);
        free(part.gradients);
    }
    assert_close(&sum, &whole, 1e-5);
    free(sum.gradients);
    free(whole.gradients);
    rig_close(&rig);
    free(samples.pixels);
    net_close(net);
}

static void a_step_gives_the_same_bits_again_whatever_ran_between(void **state)
{
    (void)state;
    struct net *net = model_net("mnist_cnn", true);
    struct samples samples;
    struct rig rig;
    struct plan *plan, *larger;
    samples_draw(&samples, net, 8);
    rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 2, 12, LAYOUT_AUTO });
    assert_int_equal(rig.ops->plan(rig.backend, 5, true, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    plan_run(&rig, plan, &samples, 3);
    float *once = malloc(rig.arenas.trained.count * sizeof(*once));
    memcpy(once, rig.gradients, rig.arenas.trained.count * sizeof(*once));
    assert_int_equal(rig.ops->plan(rig.backend, 12, true, &larger), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    plan_run(&rig, larger, &samples, 0);
    assert_memory_not_equal(once, rig.gradients, rig.arenas.trained.count * sizeof(*once));
    plan_run(&rig, plan, &samples, 3);
    assert_memory_equal(once, rig.gradients, rig.arenas.trained.count * sizeof(*once));
    free(once);
    rig.ops->plan_close(larger);
    rig.ops->plan_close(plan);
    rig_close(&rig);
    free(samples.pixels);
    net_close(net);
}

static void noted_relu_masks_give_the_same_bits(void **state)
{
    (void)state;
    struct net *net = model_net("mnist_cnn", true);
    struct samples samples;
    struct outcome outcomes[2];
    samples_draw(&samples, net, 9);
    for (int i = 0; i < 2; i++) {
        struct rig rig;
        struct plan *plan;
        rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 2, 11, LAYOUT_AUTO });
        rig.backend->noted_bytes = i ? 0 : SIZE_MAX;
        assert_int_equal(rig.ops->plan(rig.backend, 11, true, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
        plan_run(&rig, plan, &samples, 0);
        gradients_read(&rig, &outcomes[i]);
        rig.ops->plan_close(plan);
        rig_close(&rig);
    }
    assert_memory_equal(outcomes[0].gradients, outcomes[1].gradients, outcomes[0].count * sizeof(float));
    free(outcomes[0].gradients);
    free(outcomes[1].gradients);
    free(samples.pixels);
    net_close(net);
}

/* Two convolutions with a ReLU, whose results meet, and one that reads what comes of that. */
static struct net *net_of_branches(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "branches", (struct shape){ 3, 12, 12 }, 4), 0);
    for (uint32_t i = 0; i < 2; i++) {
        net_conv2d(net, i == 0 ? "a" : "b", NET_INPUT, 16, window_square(3, 1, PADDING_SAME), true);
        net_relu(net, i == 0 ? "a.relu" : "b.relu", 2 * i);
    }
    net_concat(net, "both", (const uint32_t[]){ 1, 3 }, 2);
    net_conv2d(net, "c", 4, 16, window_square(3, 1, PADDING_SAME), true);
    net_relu(net, "c.relu", 5);
    net_dense(net, "fc", 6, 4, true);
    net_softmax_loss(net, "loss", 7);
    assert_int_equal(net_finish(net), 0);
    return net;
}

/* Until which instant the result of a layer with its ReLU is held. */
static uint32_t held_until(const struct plan *plan, uint32_t layer)
{
    const uint32_t value = plan_output(&plan->base, layer);
    return plan->base.values.buffers[plan->base.values.values[value].buffer].last;
}

static void results_that_are_only_copied_are_not_kept_for_their_relu(void **state)
{
    (void)state;
    struct net *const net = net_of_branches();
    struct plan *plan;
    struct rig rig;
    rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, SAMPLES_MAX, LAYOUT_AUTO });
    assert_int_equal(rig.ops->plan(rig.backend, SAMPLES_MAX, true, &plan), 0);
    assert_int_equal(held_until(plan, 0), time_forward(4));
    assert_int_equal(held_until(plan, 2), time_forward(4));
    assert_int_equal(held_until(plan, 5), time_parameters(&plan->base.values, 5));
    rig.ops->plan_close(plan);
    rig_close(&rig);
    net_close(net);
}

static void a_smaller_plan_takes_no_more_memory(void **state)
{
    (void)state;
    struct net *net = model_net("mnist_cnn", true);
    struct rig rig;
    struct plan *large, *small, *evaluation;
    rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, 12, LAYOUT_AUTO });
    struct backend_needs needs, of_all;
    assert_int_equal(rig.ops->plan(rig.backend, 12, true, &large), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    rig.ops->needs(rig.backend, &needs);
    assert_int_equal(rig.ops->plan(rig.backend, 5, true, &small), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    assert_int_equal(rig.ops->plan(rig.backend, 12, false, &evaluation), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    rig.ops->needs(rig.backend, &of_all);
    /* At least the values and gradients of the second convolution. */
    assert_true(needs.values > 12 * 32 * (26 * 26 + 24 * 24) * sizeof(float));
    assert_int_equal(of_all.values, needs.values);
    rig.ops->plan_close(evaluation);
    rig.ops->plan_close(small);
    rig.ops->plan_close(large);
    rig_close(&rig);
    net_close(net);
}

static void evaluation_sees_every_value_and_training_drops_some(void **state)
{
    (void)state;
    struct net *with = model_net("mnist_cnn", true), *without = model_net("mnist_cnn", false);
    struct samples samples;
    double losses[2];
    struct net *nets[] = { with, without };
    samples_draw(&samples, with, 6);
    for (int i = 0; i < 2; i++) {
        const struct backend_input input = { .pixels = samples.pixels, .labels = samples.labels };
        struct backend_result result;
        struct rig rig;
        struct plan *plan;
        rig_open(&rig, &backend_onednn_ops, nets[i], (struct rig_options){ 1, 8, LAYOUT_AUTO });
        assert_int_equal(rig.ops->plan(rig.backend, 8, false, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
        assert_int_equal(rig.ops->input(plan, &input), 0);
        assert_int_equal(rig.ops->forward(plan), 0);
        assert_int_equal(rig.ops->result(plan, &result), 0);
        losses[i] = result.loss_sum;
        rig.ops->plan_close(plan);
        struct outcome trained = step_run(&rig, &samples, 0, 8);
        assert_int_equal(fabs(trained.result.loss_sum - losses[i]) < 1e-5, i == 1);
        free(trained.gradients);
        rig_close(&rig);
    }
    assert_true(fabs(losses[0] - losses[1]) < 1e-9);
    free(samples.pixels);
    net_close(with);
    net_close(without);
}

struct description { uint32_t lines; bool names_ref, names_relu; };

static void line_note(void *arg, const char *line)
{
    struct description *description = arg;
    description->lines++;
    description->names_ref |= strstr(line, "ref") != NULL;
    description->names_relu |= strstr(line, "with ReLU") != NULL;
}

static void the_description_names_every_layer_and_no_ref_implementation(void **state)
{
    (void)state;
    static const char *const models[] = { "mnist_cnn", "mnist_cnn2" };
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
        for (uint32_t count = 1; count <= 10; count += 9) {
            struct net *net = model_net(models[m], true);
            struct description description = { 0 };
            struct rig rig;
            struct plan *plan;
            rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, count, LAYOUT_AUTO });
            assert_int_equal(rig.ops->plan(rig.backend, count, true, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
            rig.ops->plan_describe(plan, line_note, &description);
            assert_int_equal(description.lines, net->layer_count);
            assert_false(description.names_ref);
            assert_true(description.names_relu);
            rig.ops->plan_close(plan);
            rig_close(&rig);
            net_close(net);
        }
}

/* A pooling in a layout that only oneDNN's plain loops take. */
static void ref_op_init(struct nn_op *op)
{
    const dnnl_dim_t src[] = { 2, 3, 6, 6 }, dst[] = { 2, 3, 3, 3 };
    *op = (struct nn_op){
        .kind = NN_MAX_POOL, .direction = NN_FORWARD, .training = true, .src = nn_md_tag(4, src, dnnl_cdba, dnnl_f32),
        .dst = nn_md_tag(4, dst, dnnl_cdba, dnnl_f32), .strides = { 2, 2 }, .kernel = { 2, 2 },
    };
}

static void ref_implementations_are_refused_by_name_unless_allowed(void **state)
{
    (void)state;
    struct net *net = model_net("mnist_cnn", true);
    char text[1024];
    struct capture capture;
    struct nn_call call;
    struct nn_op op;
    struct rig rig;
    struct plan *plan;
    rig_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, 2, LAYOUT_AUTO });
    assert_int_equal(rig.ops->plan(rig.backend, 2, true, &plan), 0);
    assert_int_equal(rig.ops->allocate(rig.backend), 0);
    ref_op_init(&op);
    capture_begin(&capture);
    const int refused = call_open(plan, &call, 0, &op, NULL, NULL, 0, 0);
    capture_end(&capture, text, sizeof(text));
    assert_int_equal(refused, -ENOTSUP);
    assert_non_null(strstr(text, "conv1"));
    assert_non_null(strstr(text, "forward"));
    assert_non_null(strstr(text, "28x28"));
    assert_non_null(strstr(text, "devices.allow_ref"));
    call_close(&call);
    rig.backend->spec.allow_ref = true;
    assert_int_equal(call_open(plan, &call, 0, &op, NULL, NULL, 0, 0), 0);
    assert_true(nn_pd_is_ref(call.pd));
    call_close(&call);
    nn_md_release(op.src);
    nn_md_release(op.dst);
    rig.ops->plan_close(plan);
    rig_close(&rig);
    net_close(net);
}

static void note_range(void *arg, uint32_t member, size_t first, size_t end)
{
    uint8_t *seen = arg;
    (void)member;
    for (size_t i = first; i < end; i++)
        seen[i]++;
}

static void a_team_does_everything_once_in_whole_grains(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads++)
        for (size_t count = 0; count < 100; count += 7)
            for (size_t grain = 1; grain <= 16; grain *= 4) {
                uint8_t seen[100] = { 0 };
                team_run(threads, count, grain, note_range, seen);
                for (size_t i = 0; i < sizeof(seen); i++)
                    assert_int_equal(seen[i], i < count);
            }
}

static void buffers_alive_together_never_overlap(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct dice dice = { random_key(seed, RANDOM_DRAW, 2), 0 };
        struct lifetime buffers[24];
        size_t sum = 0;
        for (size_t i = 0; i < 24; i++) {
            const uint32_t first = roll(&dice, 20);
            buffers[i] = (struct lifetime){ roll(&dice, 5000), first, first + roll(&dice, 6), 0 };
            sum += buffers[i].bytes + LIFETIME_ALIGN;
        }
        const size_t total = lifetime_plan(buffers, 24);
        assert_true(total <= sum);
        for (size_t i = 0; i < 24; i++) {
            assert_int_equal(buffers[i].offset % LIFETIME_ALIGN, 0);
            assert_true(buffers[i].bytes == 0 || buffers[i].offset + buffers[i].bytes <= total);
            for (size_t j = 0; j < i; j++)
                assert_true(buffers[i].last < buffers[j].first || buffers[j].last < buffers[i].first ||
                            buffers[i].bytes == 0 || buffers[j].bytes == 0 ||
                            buffers[i].offset + buffers[i].bytes <= buffers[j].offset ||
                            buffers[j].offset + buffers[j].bytes <= buffers[i].offset);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_team_does_everything_once_in_whole_grains),
        cmocka_unit_test(buffers_alive_together_never_overlap),
        cmocka_unit_test(packing_and_unpacking_gives_the_same_parameters),
        cmocka_unit_test(packing_and_unpacking_gives_the_same_many_channels),
        cmocka_unit_test(packing_and_unpacking_gives_the_same_large_windows),
        cmocka_unit_test(padding_is_zero_in_packed_weights_and_in_gradients),
        cmocka_unit_test(random_nets_match_the_reference_in_every_layout),
        cmocka_unit_test(the_models_match_the_reference_with_dropout),
        cmocka_unit_test(few_values_that_many_units_read_match_the_reference_on_several_threads),
        cmocka_unit_test(slices_of_any_size_share_storage_and_sum_to_the_whole),
        cmocka_unit_test(a_step_gives_the_same_bits_again_whatever_ran_between),
        cmocka_unit_test(noted_relu_masks_give_the_same_bits),
        cmocka_unit_test(results_that_are_only_copied_are_not_kept_for_their_relu),
        cmocka_unit_test(a_smaller_plan_takes_no_more_memory),
        cmocka_unit_test(evaluation_sees_every_value_and_training_drops_some),
        cmocka_unit_test(the_description_names_every_layer_and_no_ref_implementation),
        cmocka_unit_test(ref_implementations_are_refused_by_name_unless_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
