/* Tests of grouped and depthwise convolutions on oneDNN: the loop for weight gradients of depthwise convolutions alone,
 * in both types, which needs no CPU with bf16; and blocks of networks of today against the reference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/onednn/onednn_depthwise.h"
#include "stage/random.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/network/network_distance.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"
#include "tests/helpers/test_sanitizer.h"

/* ---- the loop alone ---- */

enum { SAMPLES_MAX = 70 };

struct depthwise_case { uint32_t channels, copies, height, width, kernel_h, kernel_w, stride, pad, samples; };

static const struct depthwise_case cases[] = {
    { 16, 1, 6, 7, 3, 3, 1, 1, 3 },     { 40, 1, 9, 5, 3, 3, 2, 1, 4 },     { 8, 1, 14, 14, 5, 5, 1, 2, 2 },
    { 17, 1, 7, 7, 5, 5, 2, 2, 3 },     { 24, 1, 9, 8, 7, 7, 1, 3, 5 },     { 3, 1, 5, 6, 3, 3, 1, 1, 70 },
    { 5, 3, 6, 5, 3, 3, 2, 0, 3 },      { 8, 2, 4, 4, 1, 1, 1, 0, 3 },      { 19, 1, 12, 13, 11, 9, 3, 4, 2 },
    { 16, 1, 1, 1, 3, 3, 1, 1, 4 },     { 9, 1, 8, 3, 4, 2, 3, 1, 2 },      { 33, 1, 30, 90, 5, 2, 1, 2, 2 },
};
enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static struct layer layer_of(const struct depthwise_case *of)
{
    struct layer layer = {
        .kind = LAYER_CONV2D, .groups = of->channels, .kernel_h = of->kernel_h, .kernel_w = of->kernel_w,
        .stride_h = of->stride, .stride_w = of->stride, .pad_top = of->pad, .pad_bottom = of->pad,
        .pad_left = of->pad, .pad_right = of->pad, .in = { of->channels, of->height, of->width },
        .out = { of->channels * of->copies, (of->height + 2 * of->pad - of->kernel_h) / of->stride + 1,
                 (of->width + 2 * of->pad - of->kernel_w) / of->stride + 1 },
    };
    for (int i = 0; i < PARAMETER_KIND_COUNT; i++)
        layer.parameters[i] = NET_NO_PARAMETER;
    layer.parameters[PARAMETER_BIAS] = 0;
    return layer;
}

/* Numbers of `count` samples in a layout; those of padding channels are 0, as everywhere. */
static void *draw_values(const struct tensor_layout *tensor, size_t count, uint64_t seed)
{
    const struct random_key key = random_key(seed, RANDOM_DRAW, 0);
    void *const values = calloc(count * tensor_count(tensor), value_size(tensor->type));
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < tensor->shape.channels; c++)
            for (size_t p = 0; p < tensor_pixels(tensor); p++)
                value_write(tensor->type, values, i * tensor_count(tensor) + tensor_at(tensor, c, p),
                            test_uniform(key, (i * tensor->shape.channels + c) * tensor_pixels(tensor) + p) - 0.5f);
    return values;
}

/* A convolution with its operands; the weights are stored plainly. */
struct loop {
    struct layer layer;
    struct tensor_layout in, out;
    struct depthwise *depthwise;
    struct depthwise_operands operands;
    void *values, *gradients;
    size_t weights;
};

static void loop_open(struct loop *loop, const struct depthwise_case *of, enum value_type type, uint32_t block)
{
    loop->layer = layer_of(of);
    const struct layer *const layer = &loop->layer;
    const bool is_nhwc = block == 0;
    loop->in = (struct tensor_layout){ type, layer->in, is_nhwc ? layer->in.channels : block, is_nhwc, 0 };
    loop->out = (struct tensor_layout){ type, layer->out, is_nhwc ? layer->out.channels : block, is_nhwc, 0 };
    const dnnl_dim_t dims[] = { of->channels, of->copies, 1, of->kernel_h, of->kernel_w };
    nn_md stored = nn_md_tag(5, dims, dnnl_abcde, dnnl_f32);
    assert_int_equal(depthwise_open(layer, &loop->in, &loop->out, of->samples, stored, &loop->depthwise), 0);
    loop->weights = nn_md_bytes(stored) / sizeof(float);
    nn_md_release(stored);
    loop->values = draw_values(&loop->in, of->samples, 1);
    loop->gradients = draw_values(&loop->out, of->samples, 2);
    loop->operands = (struct depthwise_operands){
        .values = loop->values, .gradients = loop->gradients, .count = of->samples,
        .weights = calloc(loop->weights, sizeof(float)), .bias = calloc(layer->out.channels, sizeof(float)),
    };
}

static void loop_close(struct loop *loop)
{
    depthwise_close(loop->depthwise);
    free(loop->values);
    free(loop->gradients);
    free(loop->operands.weights);
    free(loop->operands.bias);
}

/* With memory full of NaNs. */
static void loop_run(struct loop *loop, uint32_t threads)
{
    const size_t scratch = depthwise_scratch_bytes(loop->depthwise, threads);
    const size_t sums = depthwise_sum_bytes(loop->depthwise);
    loop->operands.scratch = malloc(scratch);
    loop->operands.sums = malloc(sums);
    assert_true(loop->operands.scratch != NULL && loop->operands.sums != NULL);
    memset(loop->operands.scratch, 0xff, scratch);
    memset(loop->operands.sums, 0xff, sums);
    depthwise_compute(loop->depthwise, &loop->operands, threads);
    free(loop->operands.scratch);
    free(loop->operands.sums);
}

static double number_at(const struct tensor_layout *tensor, const void *values, size_t sample, size_t c, int64_t y,
                        int64_t x)
{
    if (y < 0 || x < 0 || y >= tensor->shape.height || x >= tensor->shape.width)
        return 0;
    const size_t pixel = (size_t)y * tensor->shape.width + (size_t)x;
    return value_read(tensor->type, values, sample * tensor_count(tensor) + tensor_at(tensor, c, pixel));
}

/* The gradient of weight (i, j) of output channel `c`; without a window (NULL), of its bias. */
static double expected_gradient(const struct loop *loop, size_t c, const uint32_t *window)
{
    const struct layer *const layer = &loop->layer;
    const size_t from = c / (layer->out.channels / layer->in.channels);
    double sum = 0;
    for (size_t i = 0; i < loop->operands.count; i++)
        for (uint32_t y = 0; y < layer->out.height; y++)
            for (uint32_t x = 0; x < layer->out.width; x++) {
                const double gradient = number_at(&loop->out, loop->gradients, i, c, y, x);
                if (window == NULL)
                    sum += gradient;
                else
                    sum += gradient * number_at(&loop->in, loop->values, i, from,
                                                (int64_t)y * layer->stride_h + window[0] - layer->pad_top,
                                                (int64_t)x * layer->stride_w + window[1] - layer->pad_left);
            }
    return sum;
}

static void assert_near(const struct loop *loop, double found, double expected)
{
    const double pixels = (double)loop->operands.count * (double)tensor_pixels(&loop->out);
    if (!(fabs(found - expected) <= 1e-6 * (1 + sqrt(pixels) * 16)))
        fail_msg("%ux%ux%u, window %ux%u: %g instead of %g", loop->in.shape.channels, loop->in.shape.height,
                 loop->in.shape.width, loop->layer.kernel_h, loop->layer.kernel_w, found, expected);
}

/* The gradients are `times` those of the operands. */
static void assert_gradients(const struct loop *loop, double times)
{
    const float *weight = loop->operands.weights;
    for (uint32_t c = 0; c < loop->layer.out.channels; c++) {
        for (uint32_t i = 0; i < loop->layer.kernel_h; i++)
            for (uint32_t j = 0; j < loop->layer.kernel_w; j++)
                assert_near(loop, *weight++, times * expected_gradient(loop, c, (const uint32_t[]){ i, j }));
        assert_near(loop, loop->operands.bias[c], times * expected_gradient(loop, c, NULL));
    }
}

static void for_each_loop(void (*check)(struct loop *loop))
{
    static const uint32_t blocks[] = { 0, 1, 8, 16 };
    for (size_t i = 0; i < CASES; i++)
        for (int type = VALUE_FP32; type <= VALUE_BF16; type++)
            for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
                struct loop loop;
                loop_open(&loop, &cases[i], (enum value_type)type, blocks[b]);
                check(&loop);
                loop_close(&loop);
            }
}

static void check_gradients(struct loop *loop)
{
    loop_run(loop, 1);
    assert_gradients(loop, 1);
}

TEST(gradients_are_those_of_the_formula_in_every_layout_and_type)
{
    for_each_loop(check_gradients);
}

static void check_sum(struct loop *loop)
{
    loop_run(loop, 1);
    loop->operands.adds = true;
    loop_run(loop, 1);
    assert_gradients(loop, 2);
}

TEST(gradients_are_added_to_those_of_earlier_samples)
{
    for_each_loop(check_sum);
}

static void check_threads(struct loop *loop)
{
    loop_run(loop, 1);
    float *const once = malloc(loop->weights * sizeof(*once));
    assert_non_null(once);
    memcpy(once, loop->operands.weights, loop->weights * sizeof(*once));
    for (uint32_t threads = 2; threads <= 5; threads++) {
        loop_run(loop, threads);
        assert_memory_equal(loop->operands.weights, once, loop->weights * sizeof(*once));
    }
    free(once);
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    for_each_loop(check_threads);
}

/* ---- blocks of networks ---- */

enum { COUNT = 5, CLASSES = 4, LAYOUTS = LAYOUT_NCHW + 1 };

/* An expanding convolution, one with groups, a projecting one, each with its normalisation, and the sum with the
 * input. The one with groups has `copies` filters for each channel. */
struct block { uint32_t channels, height, width, groups; struct window window; bool with_bias; uint32_t copies; };

#define SQUARE(kernel, stride, side) \
    { kernel, kernel, stride, stride, PADDING_EXPLICIT, side, side, side, side }

static const struct block blocks[] = {
    { 32, 8, 7, 32, SQUARE(3, 1, 1), false, 1 },   { 24, 7, 6, 24, SQUARE(5, 1, 2), true, 1 },
    { 17, 9, 9, 17, SQUARE(7, 1, 3), true, 1 },    { 48, 7, 7, 48, SQUARE(5, 2, 2), false, 1 },
    { 40, 9, 8, 5, SQUARE(3, 1, 1), false, 1 },    { 32, 6, 7, 8, SQUARE(3, 1, 1), true, 1 },
    { 48, 6, 6, 2, SQUARE(3, 2, 1), false, 1 },    { 64, 5, 6, 4, SQUARE(3, 1, 1), false, 1 },
    { 18, 6, 5, 3, SQUARE(3, 1, 1), true, 1 },     { 32, 6, 6, 4, SQUARE(1, 2, 0), false, 1 },
    { 16, 6, 5, 16, SQUARE(3, 1, 1), true, 2 },     { 12, 7, 6, 3, SQUARE(5, 2, 2), false, 3 },
};
enum { BLOCKS = sizeof(blocks) / sizeof(blocks[0]) };

static uint32_t append_norm(struct net *net, const char *name, int64_t from, bool with_relu)
{
    char norm[32], relu[32];
    snprintf(norm, sizeof(norm), "%s.bn", name);
    snprintf(relu, sizeof(relu), "%s.relu", name);
    from = net_batch_norm(net, norm, (uint32_t)from, (struct batch_norm){ 0.9, 1e-3f, true });
    return (uint32_t)(with_relu ? net_relu(net, relu, (uint32_t)from) : from);
}

static struct net *block_net(const struct block *block)
{
    char name[80];
    snprintf(name, sizeof(name), "%ux%ux%u in %u groups, window %u", block->channels, block->height, block->width,
             block->groups, block->window.kernel_h);
    const struct window point = window_square(1, 1, PADDING_VALID);
    struct net *const net = network_net_begin(name, (struct shape){ 3, block->height, block->width }, CLASSES);
    const uint32_t stem = append_norm(net, "stem", net_conv2d(net, "stem", NET_INPUT, 16, point, false), true);
    uint32_t at = append_norm(net, "expand", net_conv2d(net, "expand", stem, block->channels, point, false), true);
    const struct conv2d how = { block->channels * block->copies, block->groups, block->window, block->with_bias };
    at = append_norm(net, "grouped", net_grouped_conv2d(net, "grouped", at, how), true);
    at = append_norm(net, "project", net_conv2d(net, "project", at, 16, point, false), false);
    if (block->window.stride_h == 1)
        at = (uint32_t)net_add(net, "sum", at, stem);
    return network_net_end(net, at);
}

/* Does this test take block i in this layout? Under a sanitizer it takes every block in one of them, and the next test
 * in another: what a layout computes is compared without. */
static bool takes_layout(uint32_t test, uint32_t i, int layout)
{
    return !test_is_sanitized() || test_is_long() || (test + i + (uint32_t)layout) % LAYOUTS == 0;
}

static void for_each_block(void (*check)(struct net *net, struct backend_spec settings, uint32_t seed))
{
    static uint32_t tests;
    tests++;
    for (uint32_t i = 0; i < BLOCKS; i++)
        for (int layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++) {
            const uint32_t seed = i * LAYOUTS + (uint32_t)layout;
            if (takes_layout(tests, i, layout))
                check(block_net(&blocks[i]), (struct backend_spec){ .local_max = COUNT, .layout = (enum layout)layout,
                                                                    .threads = 1 + seed % 3, .poison = seed % 2 == 0 },
                      seed);
        }
}

static void check_block(struct net *net, struct backend_spec settings, uint32_t seed)
{
    network_check_net("onednn", net, settings, seed);
}

TEST(blocks_match_the_reference_in_every_layout)
{
    for_each_block(check_block);
}

/* A convolution with groups, whose result is added to its input, which evaluation computes at once; after it a wide one
 * that decides the layout of all values. */
static struct net *wide_net(const struct block *block, bool with_norm)
{
    char name[80];
    snprintf(name, sizeof(name), "sum, %ux%ux%u in %u groups, window %u", block->channels, block->height, block->width,
             block->groups, block->window.kernel_h);
    struct net *const net = network_net_begin(name, (struct shape){ 3, block->height, block->width }, CLASSES);
    const uint32_t stem = (uint32_t)net_conv2d(net, "stem", NET_INPUT, block->channels,
                                               window_square(1, 1, PADDING_VALID), true);
    const struct conv2d how = { block->channels * block->copies, block->groups, block->window, block->with_bias };
    int64_t at = net_grouped_conv2d(net, "grouped", stem, how);
    if (with_norm)
        at = append_norm(net, "grouped", at, false);
    if (block->window.stride_h == 1 && block->copies == 1)
        at = net_add(net, "sum", (uint32_t)at, stem);
    at = net_conv2d(net, "wide", (uint32_t)at, 128, window_square(3, 1, PADDING_SAME), true);
    return network_net_end(net, net_relu(net, "relu", (uint32_t)at));
}

TEST(sums_after_groups_match_the_reference_in_every_layout)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        for (int layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++)
            for (int with_norm = 0; with_norm <= 1; with_norm++)
                if (takes_layout((uint32_t)with_norm, i, layout))
                    network_check_net("onednn", wide_net(&blocks[i], with_norm != 0),
                                      (struct backend_spec){ .local_max = COUNT, .layout = (enum layout)layout }, i);
}

/* Opens plans without oneDNN's reference implementations. */
static void check_kernels(struct net *net, enum layout layout)
{
    struct network network;
    network_open_device(&network, "onednn", net);
    const struct backend_spec spec = { .net = net, .threads = 1, .local_max = COUNT, .layout = layout };
    assert_int_equal(network_open_backend(&network, &spec), 0);
    for (int training = 0; training <= 1; training++) {
        struct plan *plan;
        const struct plan_spec wanted = { .count = COUNT, .training = training != 0 };
        assert_int_equal(network.ops->plan(network.backend, &wanted, &plan), 0);
        network.ops->plan_close(plan);
    }
    network_close(&network);
    net_close(net);
}

TEST(groups_need_no_reference_implementation)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        for (int layout = LAYOUT_AUTO; layout <= LAYOUT_NCHW; layout++) {
            if (!takes_layout(2, i, layout))
                continue;
            check_kernels(block_net(&blocks[i]), (enum layout)layout);
            check_kernels(wide_net(&blocks[i], true), (enum layout)layout);
            check_kernels(wide_net(&blocks[i], false), (enum layout)layout);
        }
}

static void check_in_sub_batches(struct net *net, struct backend_spec settings, uint32_t seed)
{
    struct network network;
    network_open_settings(&network, "onednn", net, settings);
    network.backend->sub_batch_bytes = 1;
    network_compare_with_reference(&network, COUNT, seed);
    network_close(&network);
    net_close(net);
}

TEST(blocks_match_the_reference_in_sub_batches)
{
    for_each_block(check_in_sub_batches);
}

static void check_poisoned(struct net *net, struct backend_spec settings, uint32_t seed)
{
    struct backend_input input = network_input(net, COUNT, seed);
    struct network network, same;
    network_open_settings(&network, "onednn", net, settings);
    settings.poison = !settings.poison;
    network_open_settings(&same, "onednn", net, settings);
    network_draw_weights(&network, seed);
    network_draw_weights(&same, seed);
    network_compare_bits(&network, &same, &input, COUNT);
    network_close(&network);
    network_close(&same);
    network_input_release(&input);
    net_close(net);
}

TEST(a_step_gives_the_same_bits_in_any_memory)
{
    for_each_block(check_poisoned);
}

/* Writing what was read gives the arena bit for bit, so its padding is 0. */
static void assert_padding_zero(struct network *network, const float *arena)
{
    const size_t count = network->arenas.trained.count;
    float *const copy = calloc(count, sizeof(*copy));
    assert_non_null(copy);
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        if (!network->net->parameters[p].is_trained)
            continue;
        float *const plain = malloc(network->net->parameters[p].count * sizeof(*plain));
        assert_non_null(plain);
        network_read(network, arena, p, plain);
        network_write(network, copy, p, plain);
        free(plain);
    }
    for (size_t i = 0; i < count; i++)
        assert_true(arena[i] == copy[i]);
    free(copy);
}

static void check_padding(struct net *net, struct backend_spec settings, uint32_t seed)
{
    struct backend_input input = network_input(net, COUNT, seed);
    struct network network;
    network_open_settings(&network, "onednn", net, settings);
    network_draw_weights(&network, seed);
    network_run(&network, &input, 0, COUNT, true);
    assert_padding_zero(&network, network.weights);
    assert_padding_zero(&network, network.gradients);
    network_close(&network);
    network_input_release(&input);
    net_close(net);
}

TEST(no_parameter_of_groups_is_lost_and_their_padding_stays_zero)
{
    for_each_block(check_padding);
}

static struct network_distances distances;

static void check_in_bf16(struct net *net, struct backend_spec settings, uint32_t seed)
{
    struct network network;
    settings.precision = PRECISION_BF16;
    network_open_settings(&network, "onednn", net, settings);
    network.backend->sub_batch_bytes = seed % 3 == 0 ? 1 : network.backend->sub_batch_bytes;
    network_add_distances(&network, COUNT, seed, PRECISION_BF16, &distances);
    network_close(&network);
    net_close(net);
}

TEST(blocks_match_the_reference_in_bf16)
{
    struct unsupported_reason reason;
    if (backend_find("onednn")->supports(&(struct backend_spec){ .precision = PRECISION_BF16 }, &reason) != 0) {
        print_message("%s\n", reason.why);
        skip();
    }
    for_each_block(check_in_bf16);
    network_assert_distances(&distances, PRECISION_BF16);
}

TESTS_MAIN_WITH_TEAMS
