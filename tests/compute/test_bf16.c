/* Tests of bf16 on the CPU: results match the fp32 reference up to the rounding of values, training converges as in
 * fp32, and weights stay fp32. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "compute/part_loss.h"
#include "stage/random.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/network/network_distance.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

enum { NETS = 24, COUNT = 6 };

static void need_bf16(void)
{
    if (nn_has_bf16())
        return;
    print_message("the CPU has no bf16\n");
    skip();
}

static void open_in(struct network *network, const struct net *net, uint32_t local_max, enum precision precision)
{
    network_open_settings(network, "onednn", net,
                          (struct backend_spec){ .local_max = local_max, .poison = true, .precision = precision });
}

static void open_bf16(struct network *network, const struct net *net, uint64_t seed)
{
    open_in(network, net, COUNT, PRECISION_BF16);
    network_draw_weights(network, seed);
}

/* ---- rounding ---- */

static float float_of(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof(number));
    return number;
}

TEST(numbers_are_rounded_to_the_nearest_and_ties_to_even)
{
    static const struct { uint32_t bits; uint16_t half; } rows[] = {
        { 0x3f800000, 0x3f80 }, { 0x3f807fff, 0x3f80 }, { 0x3f808000, 0x3f80 }, { 0x3f808001, 0x3f81 },
        { 0x3f818000, 0x3f82 }, { 0xbf818000, 0xbf82 }, { 0x00000000, 0x0000 }, { 0x80000000, 0x8000 },
        { 0x7f800000, 0x7f80 }, { 0xff800000, 0xff80 }, { 0x7f7fffff, 0x7f80 }, { 0x00008001, 0x0001 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(bf16_from_float(float_of(rows[i].bits)), rows[i].half);
    static const uint32_t broken[] = { 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff, 0xffffffff };
    for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
        assert_true(isnan(bf16_to_float(bf16_from_float(float_of(broken[i])))));
}

TEST(many_numbers_are_rounded_like_one)
{
    const struct random_key key = random_key(1, RANDOM_DRAW, 0);
    for (uint32_t i = 0; i < 20000; i++) {
        float numbers[LANES], read[LANES];
        uint16_t halves[LANES];
        lanes all;
        for (uint32_t k = 0; k < LANES; k++)
            numbers[k] = float_of((uint32_t)random_u64(key, i * LANES + k) << (i % 3 == 0 ? 15 : 0));
        LANES_LOAD(all, numbers, LANES);
        lanes_write(VALUE_BF16, halves, 0, LANES, &all);
        lanes_read(VALUE_BF16, halves, 0, LANES, &all);
        LANES_STORE(read, all, LANES);
        for (uint32_t k = 0; k < LANES; k++) {
            assert_int_equal(halves[k], bf16_from_float(numbers[k]));
            assert_memory_equal(&read[k], &(float){ bf16_to_float(halves[k]) }, sizeof(read[k]));
        }
    }
}

/* ---- against the reference ---- */

/* With large values stored as masks, and with values that are their own masks; in sub-batches, and in one piece. Closes
 * the net. */
static void compare_with_reference(struct net *net, uint32_t seed, struct network_distances *distances)
{
    struct network network;
    open_in(&network, net, COUNT, PRECISION_BF16);
    network.backend->large_value_bytes = seed % 2 == 0 ? 0 : network.backend->large_value_bytes;
    network.backend->sub_batch_bytes = seed % 3 == 0 ? 1 : network.backend->sub_batch_bytes;
    network_add_distances(&network, COUNT, seed, PRECISION_BF16, distances);
    network_close(&network);
    net_close(net);
}

TEST(chains_match_the_reference)
{
    need_bf16();
    struct network_distances distances = { 0, 0 };
    for (uint32_t seed = 0; seed < NETS; seed++)
        compare_with_reference(network_random_net(2000 + seed, seed % 4 == 3 ? 0.5f : 0.0f), seed, &distances);
    network_assert_distances(&distances, PRECISION_BF16);
}

TEST(graphs_match_the_reference)
{
    need_bf16();
    struct network_distances distances = { 0, 0 };
    for (uint32_t seed = 0; seed < NETS; seed++)
        compare_with_reference(network_random_graph(3000 + seed, 0.0f), seed, &distances);
    network_assert_distances(&distances, PRECISION_BF16);
}

/* A pooled column, and a window with stride two. */
static struct net *narrow_net(void)
{
    struct net *const net = network_net_begin("narrow", (struct shape){ 3, 8, 2 }, 5);
    uint32_t from = (uint32_t)net_conv2d(net, "conv1", NET_INPUT, 16, window_square(3, 1, PADDING_SAME), true);
    from = (uint32_t)net_max_pool(net, "pool", from, window_square(2, 2, PADDING_VALID));
    return network_net_end(net, net_conv2d(net, "conv2", from, 32, window_square(3, 2, PADDING_SAME), true));
}

static struct net *wide_stride_net(uint32_t columns, struct window window)
{
    struct net *const net = network_net_begin("wide stride", (struct shape){ 16, 8, columns }, 5);
    return network_net_end(net, net_conv2d(net, "conv", NET_INPUT, 32, window, true));
}

/* test_onednn checks, on every machine, which of them use oneDNN. */
TEST(strides_wider_than_the_image_match_the_reference)
{
    need_bf16();
    struct network_distances distances = { 0, 0 };
    compare_with_reference(narrow_net(), 1, &distances);
    for (uint32_t columns = 1; columns <= 2; columns++)
        for (uint32_t kernel = 1; kernel <= 5; kernel += 2)
            for (uint32_t stride = columns + 1; stride <= 4; stride++)
                compare_with_reference(wide_stride_net(columns, window_square(kernel, stride, PADDING_SAME)), 1,
                                       &distances);
    const struct window padded = { .padding = PADDING_EXPLICIT, .kernel_h = 3, .kernel_w = 3, .stride_h = 2,
                                   .stride_w = 2, .top = 2, .bottom = 2, .left = 2, .right = 2 };
    compare_with_reference(wide_stride_net(1, padded), 1, &distances);
    network_assert_distances(&distances, PRECISION_BF16);
}

/* Its weight gradient is computed by oneDNN, that of smaller windows by our loop. */
static struct net *large_window_net(void)
{
    struct net *const net = network_net_begin("large window", (struct shape){ 3, 12, 12 }, 5);
    const int64_t conv = net_conv2d(net, "conv", NET_INPUT, 16, window_square(5, 1, PADDING_SAME), true);
    return network_net_end(net, net_relu(net, "relu", (uint32_t)conv));
}

TEST(a_large_window_on_the_image_matches_the_reference)
{
    need_bf16();
    struct network_distances distances = { 0, 0 };
    for (uint32_t seed = 0; seed < 2; seed++)
        compare_with_reference(large_window_net(), seed, &distances);
    network_assert_distances(&distances, PRECISION_BF16);
}

TEST(every_run_gives_the_same_bits)
{
    need_bf16();
    struct net *net = network_random_graph(7, 0.4f);
    struct backend_input input = network_input(net, COUNT, 7);
    struct network network, same;
    open_bf16(&network, net, 7);
    open_bf16(&same, net, 7);
    network_compare_bits(&network, &same, &input, COUNT);
    network_close(&network);
    network_close(&same);
    network_input_release(&input);
    net_close(net);
}

/* ---- weights ---- */

TEST(weights_stay_fp32)
{
    need_bf16();
    struct net *net = network_random_graph(11, 0.0f);
    struct network network, reference;
    open_bf16(&network, net, 11);
    network_open(&reference, "reference", net, COUNT, 1);
    network_draw_weights(&reference, 11);
    network_assert_same_numbers(&network, &reference);
    network_close(&network);
    network_close(&reference);
    net_close(net);
}

/* ---- learning ---- */

static struct net *small_net(void)
{
    static const struct batch_norm norm = { .decay = 0.9f, .epsilon = 1e-5f, .with_gamma = true };
    struct net *const net = network_net_begin("small", (struct shape){ 3, 12, 12 }, 5);
    uint32_t from = (uint32_t)net_conv2d(net, "conv1", NET_INPUT, 16, window_square(3, 1, PADDING_SAME), false);
    from = (uint32_t)net_batch_norm(net, "norm1", from, norm);
    const uint32_t skip = from = (uint32_t)net_relu(net, "relu1", from);
    from = (uint32_t)net_conv2d(net, "conv2", from, 16, window_square(3, 1, PADDING_SAME), false);
    from = (uint32_t)net_batch_norm(net, "norm2", from, norm);
    from = (uint32_t)net_relu(net, "relu2", (uint32_t)net_add(net, "add", skip, from));
    return network_net_end(net, net_max_pool(net, "pool", from, window_square(2, 2, PADDING_VALID)));
}

static double learn(struct network *network, const struct backend_input *input, uint32_t count, uint32_t steps)
{
    const struct optimizer optimizer = { .kind = OPTIMIZER_SGD };
    const struct optimizer_step step = { .learning_rate = 0.02f, .gradient_scale = 1.0f / (float)count };
    const size_t floats = network->arenas.trained.count;
    const struct optimizer_range range = { .weights = network->weights, .gradients = network->gradients,
                                           .count = floats };
    double loss = 0;
    for (uint32_t i = 0; i < steps; i++) {
        loss = network_run(network, input, 0, count, true).loss_sum;
        assert_int_equal(network->ops->update(network->backend, &optimizer, &step, &range, 1), 0);
    }
    return loss;
}

TEST(learns_as_fp32_does)
{
    enum { SAMPLES = 24, STEPS = 25 };
    need_bf16();
    struct net *net = small_net();
    struct backend_input input = network_input(net, SAMPLES, 3);
    struct network bf16, fp32;
    open_in(&bf16, net, SAMPLES, PRECISION_BF16);
    open_in(&fp32, net, SAMPLES, PRECISION_FP32);
    network_draw_weights(&bf16, 3);
    network_draw_weights(&fp32, 3);
    const double before = learn(&fp32, &input, SAMPLES, 1), wanted = learn(&fp32, &input, SAMPLES, STEPS);
    learn(&bf16, &input, SAMPLES, 1);
    const double got = learn(&bf16, &input, SAMPLES, STEPS);
    print_message("loss %.4f, then %.4f; bf16 %.4f\n", before, wanted, got);
    assert_true(wanted < 0.7 * before);
    assert_true(fabs(got - wanted) < 0.04 * before);
    network_close(&bf16);
    network_close(&fp32);
    network_input_release(&input);
    net_close(net);
}

static size_t value_bytes(const struct net *net, enum precision precision)
{
    struct network network;
    struct plan *plan;
    struct backend_needs needs;
    open_in(&network, net, COUNT, precision);
    const struct plan_spec spec = { .count = 256, .training = true };
    assert_int_equal(backend_onednn_ops.plan(network.backend, &spec, &plan), 0);
    backend_onednn_ops.needs(network.backend, &needs);
    backend_onednn_ops.plan_close(plan);
    network_close(&network);
    return needs.values;
}

TEST(values_take_half_the_memory)
{
    need_bf16();
    struct net *net = small_net();
    assert_true(value_bytes(net, PRECISION_BF16) < 0.6 * value_bytes(net, PRECISION_FP32));
    net_close(net);
}

/* ---- shares of a net ----
 *
 * Values are bf16, memory outside of the plan is fp32. These chains have no primitive of oneDNN, so that they run on any
 * CPU. */

enum { RECEIVED_PARTS = 2, NUMBERS = 26 };

/* A net without parameters: LAYER_RECEIVE (or the image), a ReLU, and `end`. */
static struct net *chain_net(bool from_image, enum layer_kind end)
{
    const struct shape image = { 17, 2, 3 }, row = { NUMBERS, 1, 1 }, shape = from_image ? image : row;
    const enum layer_kind kinds[] = { LAYER_RECEIVE, LAYER_RELU, end };
    struct net *const net = network_net_begin("chain", image, NUMBERS);
    for (uint32_t i = from_image; i < 3; i++) {
        struct layer *const layer = &net->layers[net->layer_count];
        *layer = (struct layer){ .kind = kinds[i], .input_count = i > 0, .in = shape, .out = shape };
        layer->inputs[0] = i > 0 ? net->layer_count - 1 : 0;
        snprintf(layer->name, sizeof(layer->name), "%s", layer_kind_name(kinds[i]));
        for (uint32_t k = 0; k < PARAMETER_KIND_COUNT; k++)
            layer->parameters[k] = NET_NO_PARAMETER;
        net->layer_count++;
    }
    return net;
}

/* A plan of the whole chain, whose values are bf16 also where the CPU does not multiply them. */
static struct plan *chain_plan(struct network *network, const struct net *net, bool blocked)
{
    open_in(network, net, COUNT, PRECISION_FP32);
    network->backend->type = VALUE_BF16;
    for (uint32_t v = 0; v <= net->layer_count && blocked; v++)
        network->backend->blocks[v] = 8;
    if (!blocked)
        network->backend->blocks[0] = net->input.channels;      /* which no layer reads */
    return network_plan(network, COUNT, true);
}

static float rounded(float number)
{
    return bf16_to_float(bf16_from_float(number));
}

static void numbers_draw(float *numbers, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = 8 * test_uniform(random_key(seed, RANDOM_DRAW, 0), i) - 4;
}

/* Where number i of a sample is outside. */
static size_t received_at(size_t sample, size_t i)
{
    const size_t of_part = NUMBERS / RECEIVED_PARTS;
    return (i / of_part * COUNT + sample) * of_part + i % of_part;
}

TEST(numbers_outside_of_a_plan_are_fp32)
{
    struct net *const net = chain_net(false, LAYER_SEND);
    float received[COUNT * NUMBERS], gradient[COUNT * NUMBERS], sent[COUNT * NUMBERS], wanted[COUNT * NUMBERS];
    struct network network;
    struct plan *const plan = chain_plan(&network, net, false);
    plan->base.outside = (struct outside){ .received = received, .received_gradient = gradient,
                                           .received_parts = RECEIVED_PARTS, .sent = sent };
    numbers_draw(received, COUNT * NUMBERS, 1);
    numbers_draw(wanted, COUNT * NUMBERS, 2);
    assert_int_equal(network.ops->input(plan, &(struct backend_input){ .pixels = NULL }), 0);
    assert_int_equal(network.ops->forward(plan), 0);
    for (size_t n = 0; n < COUNT; n++)
        for (size_t i = 0; i < NUMBERS; i++)
            assert_true(sent[n * NUMBERS + i] == fmaxf(rounded(received[received_at(n, i)]), 0));
    memcpy(sent, wanted, sizeof(sent));
    assert_int_equal(network.ops->backward(plan, NULL, NULL), 0);
    for (size_t n = 0; n < COUNT; n++)
        for (size_t i = 0; i < NUMBERS; i++) {
            const size_t at = received_at(n, i);
            assert_true(gradient[at] == (received[at] > 0 ? rounded(wanted[n * NUMBERS + i]) : 0));
        }
    network_close(&network);
    net_close(net);
}

/* Features in blocks of channels, the last of which is padded. */
TEST(features_are_sent_channel_by_channel)
{
    struct net *const net = chain_net(true, LAYER_SEND);
    const size_t numbers = shape_count(net->input), pixels = numbers / net->input.channels;
    struct backend_input input = network_input(net, COUNT, 3);
    float *const sent = malloc(COUNT * numbers * sizeof(*sent));
    struct mixed_label labels[COUNT];
    struct network network;
    struct plan *const plan = chain_plan(&network, net, true);
    assert_non_null(sent);
    plan->base.outside = (struct outside){ .sent = sent, .labels = labels };
    assert_int_equal(network.ops->input(plan, &input), 0);
    assert_int_equal(network.ops->forward(plan), 0);
    for (size_t n = 0; n < COUNT; n++) {
        for (size_t i = 0; i < numbers; i++) {
            const uint8_t pixel = input.pixels[n * numbers + i % pixels * net->input.channels + i / pixels];
            assert_true(sent[n * numbers + i] == rounded((float)pixel / 255));
        }
        assert_int_equal(labels[n].label, input.labels[n]);
    }
    network_close(&network);
    network_input_release(&input);
    free(sent);
    net_close(net);
}

/* Logits are the received numbers, rounded; the statistics are as exact as with fp32, the gradients rounded. */
TEST(the_loss_of_a_part_reads_and_writes_bf16)
{
    struct net *const net = chain_net(false, LAYER_PART_LOSS);
    float received[COUNT * NUMBERS], gradient[COUNT * NUMBERS];
    struct mixed_label labels[COUNT];
    struct part_stats stats[COUNT];
    const struct part_rule rule = { .classes = NUMBERS, .weight_total = NUMBERS };
    struct network network;
    struct plan *const plan = chain_plan(&network, net, false);
    plan->base.outside = (struct outside){ .received = received, .received_gradient = gradient, .received_parts = 1,
                                           .labels = labels, .stats = stats, .stat_parts = 1 };
    numbers_draw(received, COUNT * NUMBERS, 4);
    for (uint32_t n = 0; n < COUNT; n++)
        labels[n] = (struct mixed_label){ 3 * (int32_t)n, 3 * (int32_t)n, 1 };
    assert_int_equal(network.ops->input(plan, &(struct backend_input){ .pixels = NULL }), 0);
    assert_int_equal(network.ops->forward(plan), 0);
    assert_int_equal(network.ops->backward(plan, NULL, NULL), 0);
    for (uint32_t n = 0; n < COUNT; n++) {
        double sum = 0;
        float logits[NUMBERS];
        for (uint32_t c = 0; c < NUMBERS; c++) {
            logits[c] = fmaxf(rounded(received[n * NUMBERS + c]), 0);
            assert_true(logits[c] < stats[n].largest || (logits[c] == stats[n].largest && c >= stats[n].predicted));
            sum += exp((double)logits[c] - (double)stats[n].largest);
        }
        assert_true(logits[stats[n].predicted] == stats[n].largest);
        assert_true(fabs(stats[n].sum - sum) <= 1e-6 * sum);
        assert_true(stats[n].target == (double)logits[labels[n].label]);
        const struct part_softmax softmax = part_combine(&stats[n], COUNT, 1);
        for (uint32_t c = 0; c < NUMBERS; c++) {
            const float wanted = part_gradient(&rule, &labels[n], 1, &softmax, c, logits[c]);
            const bool is_active = received[n * NUMBERS + c] > 0;
            assert_true(fabsf(gradient[n * NUMBERS + c] - (is_active ? wanted : 0)) <= 0x1p-8f * fabsf(wanted));
        }
    }
    network_close(&network);
    net_close(net);
}

/* ---- refusals ---- */

TEST(other_precisions_are_refused)
{
    struct unsupported_reason reason;
    for (enum precision precision = PRECISION_TF32; precision < PRECISION_COUNT; precision++) {
        const struct backend_spec spec = { .precision = precision };
        const bool has = precision == PRECISION_BF16 && nn_has_bf16();
        assert_int_equal(backend_onednn_ops.supports(&spec, &reason), has ? 0 : -ENODEV);
    }
}

TESTS_MAIN(NULL, NULL)
