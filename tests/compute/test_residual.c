/* Tests of the layers of residual branches on every backend: layer normalisation, a factor per channel, stochastic
 * depth. Values against their formulas, gradients of the reference against finite differences, the other backends
 * against the reference. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/dropout.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/test.h"

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))

enum { CLASSES = 3, COUNT = 5, SEED = 9 };   /* network_open_settings sets this seed */

#define EPSILON 1e-6f

static struct net *net_begin(uint32_t channels, uint32_t height, uint32_t width)
{
    return network_net_begin("residual", (struct shape){ channels, height, width }, CLASSES);
}

/* A dense layer and the loss after the last layer. */
static void net_end(struct net *net)
{
    network_net_end(net, net->layer_count - 1);
}

static uint32_t dense_weight(const struct net *net)
{
    return net->layers[net->layer_count - 2].parameters[PARAMETER_WEIGHT];
}

static void assert_values(const float *values, const double *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs(values[i] - expected[i]) <= 1e-4 * (1 + fabs(expected[i]))))
            fail_msg("value %zu is %g instead of %g", i, (double)values[i], expected[i]);
}

/* ---- values ---- */

/* The formula for one pixel: values are stored in C,H,W order, pixels with all their channels together. */
static void normalise(const uint8_t *pixel, uint32_t channels, size_t area, const float *gamma, const float *beta,
                      double *out)
{
    double mean = 0, variance = 0;
    for (uint32_t c = 0; c < channels; c++)
        mean += pixel[c] / 255. / channels;
    for (uint32_t c = 0; c < channels; c++)
        variance += pow(pixel[c] / 255. - mean, 2) / channels;
    for (uint32_t c = 0; c < channels; c++)
        out[c * area] = gamma[c] * (pixel[c] / 255. - mean) / sqrt(variance + (double)EPSILON) + beta[c];
}

static void check_layer_norm(const char *backend, uint32_t channels, uint32_t height, uint32_t width)
{
    struct net *const net = net_begin(channels, height, width);
    const size_t area = (size_t)height * width, count = channels * area;
    struct network network;
    struct backend_input input;
    net_layer_norm(net, "norm", NET_INPUT, EPSILON);
    net_end(net);
    input = network_input(net, 1, channels + area);
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 3);
    float *const gamma = network_numbers(&network, net->layers[0].parameters[PARAMETER_GAMMA]);
    float *const beta = network_numbers(&network, net->layers[0].parameters[PARAMETER_BETA]);
    float *const values = network_values_before(&network, &input, dense_weight(net));
    double *const expected = calloc(count, sizeof(*expected));
    assert_non_null(expected);
    for (size_t i = 0; i < area; i++)
        normalise(input.pixels + i * channels, channels, area, gamma, beta, expected + i);
    assert_values(values, expected, count);
    free(gamma);
    free(beta);
    free(values);
    free(expected);
    network_input_release(&input);
    network_close(&network);
    net_close(net);
}

static const uint32_t odd_channels[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 33, 96, 130 };

TEST_ON_EACH_BACKEND(the_channels_of_every_pixel_have_mean_beta_and_deviation_gamma)
{
    for (size_t i = 0; i < COUNT_OF(odd_channels); i++) {
        check_layer_norm(backend, odd_channels[i], 1, 1);
        check_layer_norm(backend, odd_channels[i], 3, 5);
    }
    check_layer_norm(backend, 20, 9, 15);
}

TEST_ON_EACH_BACKEND(every_channel_has_a_factor)
{
    for (size_t i = 0; i < COUNT_OF(odd_channels); i++) {
        const uint32_t channels = odd_channels[i], area = 1 + i % 2 * 5;
        struct net *const net = net_begin(channels, area, 1);
        struct network network;
        double expected[130 * 6];
        net_scale(net, "layer_scale", NET_INPUT);
        net_end(net);
        struct backend_input input = network_input(net, 1, i);
        network_open(&network, backend, net, 1, 1);
        network_draw_weights(&network, i);
        float *const gamma = network_numbers(&network, net->layers[0].parameters[PARAMETER_GAMMA]);
        float *const values = network_values_before(&network, &input, dense_weight(net));
        for (uint32_t k = 0; k < channels * area; k++)
            expected[k] = (double)gamma[k / area] * input.pixels[k % area * channels + k / area] / 255;
        assert_values(values, expected, channels * area);
        free(gamma);
        free(values);
        network_input_release(&input);
        network_close(&network);
        net_close(net);
    }
}

/* Sample 0 of the batch is at another position in each iteration. */
TEST_ON_EACH_BACKEND(a_sample_is_dropped_as_a_whole_or_divided_by_what_stays)
{
    enum { CHANNELS = 9, AREA = 6, NUMBERS = CHANNELS * AREA, POSITIONS = 60 };
    const float rate = 0.375f;
    struct net *const net = net_begin(CHANNELS, AREA, 1);
    struct network network;
    struct dropout dropout;
    uint32_t dropped = 0;
    net_stochastic_depth(net, "depth", NET_INPUT, rate);
    net_end(net);
    struct backend_input input = network_input(net, 1, 3);
    network_open_settings(&network, backend, net, (struct backend_spec){ .local_max = 1 });
    network_draw_weights(&network, 3);
    dropout_init(&dropout, SEED, 0, rate);
    for (uint32_t i = 0; i < POSITIONS; i++) {
        double expected[NUMBERS];
        input.first_position = 1000 * i;
        input.epoch = i % 3;
        const float factor = dropout_sample_factor(&dropout, input.epoch, input.first_position);
        float *const values = network_values_before(&network, &input, dense_weight(net));
        for (uint32_t k = 0; k < NUMBERS; k++)
            expected[k] = factor * input.pixels[k % AREA * CHANNELS + k / AREA] / 255.;
        assert_true(factor == 0 || fabs(factor - 1 / 0.625) < 1e-4);
        assert_values(values, expected, NUMBERS);
        dropped += factor == 0;
        free(values);
    }
    assert_in_range(dropped, POSITIONS * 0.2, POSITIONS * 0.55);
    network_input_release(&input);
    network_close(&network);
    net_close(net);
}

/* ---- against finite differences and the reference ---- */

/* A convolution of `channels` filters, and the layers of a residual branch in an order that depends on `variant`; the
 * branch ends in a sum where bit 3 is set. */
static struct net *branch_net(uint32_t channels, uint32_t height, uint32_t width, float rate, uint32_t variant)
{
    struct net *const net = network_net_begin("branch", (struct shape){ 3, height, width }, CLASSES);
    const uint32_t start = (uint32_t)net_conv2d(net, "start", NET_INPUT, channels, window_square(1, 1, PADDING_SAME), true);
    uint32_t at = start;
    if ((variant & 1) != 0)
        at = (uint32_t)net_layer_norm(net, "norm", at, 0.01f);
    if ((variant & 2) != 0)
        at = (uint32_t)net_scale(net, "layer_scale", at);
    if ((variant & 4) != 0)
        at = (uint32_t)net_stochastic_depth(net, "depth", at, rate);
    if ((variant & 8) != 0)
        at = (uint32_t)((variant & 1) != 0 ? net_add(net, "sum", at, start) : net_add(net, "sum", start, at));
    if ((variant & 16) != 0)
        net_layer_norm(net, "last", (uint32_t)net_global_average(net, "mean", at), 0.01f);
    net_end(net);
    return net;
}

enum { VARIANTS = 32 };

TEST(gradients_of_the_reference_are_the_slopes_of_the_loss)
{
    for (uint32_t variant = 1; variant < VARIANTS; variant++) {
        struct net *const net = branch_net(3 + variant % 4, 2, 3, 0.4f, variant);
        struct backend_input input = network_input(net, COUNT, variant);
        struct network network;
        network_open(&network, "reference", net, COUNT, 1);
        network_draw_weights(&network, variant);
        network_check_slopes(&network, &input, COUNT, variant);
        network_close(&network);
        network_input_release(&input);
        net_close(net);
    }
}

/* Every variant with one of the widths; the long test has all of them. */
TEST_ON_EACH_BACKEND(every_backend_gives_what_the_reference_gives)
{
    static const enum layout layouts[] = { LAYOUT_AUTO, LAYOUT_NHWC, LAYOUT_NCHW };
    for (uint32_t i = 0; i < VARIANTS * COUNT_OF(odd_channels); i++) {
        const uint32_t variant = 1 + i % (VARIANTS - 1), shape = i % (uint32_t)COUNT_OF(odd_channels);
        const struct backend_spec settings = { .local_max = COUNT, .threads = 1 + i % 2, .poison = i % 3 == 0,
                                               .layout = layouts[i / 2 % COUNT_OF(layouts)] };
        if (strcmp(backend, "cuda") == 0 && settings.layout == LAYOUT_NCHW)
            continue;
        if (i >= VARIANTS && !test_is_long())
            break;
        network_check_net(backend, branch_net(odd_channels[shape], 1 + variant % 5, 3 + shape, 0.4f, variant), settings,
                          variant);
    }
}

/* ---- threads ---- */

/* Layers of ours alone, because oneDNN's sums may depend on the number of threads. */
static struct net *own_net(uint32_t side)
{
    struct net *const net = network_net_begin("own", (struct shape){ CLASSES, side, side }, CLASSES);
    net_layer_norm(net, "norm", NET_INPUT, 0.1f);
    net_scale(net, "first_scale", 0);
    net_stochastic_depth(net, "depth", 1, 0.3f);
    net_add(net, "sum", 2, 0);
    net_scale(net, "last_scale", 3);
    net_global_average(net, "mean", 4);
    net_softmax_loss(net, "loss", 5);
    net_finish(net);
    assert_string_equal(net_error(net), "");
    return net;
}

TEST_ON_EACH_BACKEND(any_number_of_threads_gives_the_same_bits)
{
    static const struct { uint32_t side, count; } rows[] = { { 1, 300 }, { 9, 21 }, { 40, 3 } };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (uint32_t threads = 2; threads <= 5; threads++) {
            struct net *const net = own_net(rows[i].side);
            struct backend_input input = network_input(net, rows[i].count, i);
            struct network one, several;
            network_open(&one, backend, net, rows[i].count, 1);
            network_open(&several, backend, net, rows[i].count, threads);
            network_draw_weights(&one, i);
            network_draw_weights(&several, i);
            network_compare_bits(&several, &one, &input, rows[i].count);
            network_close(&one);
            network_close(&several);
            network_input_release(&input);
            net_close(net);
        }
}

/* ---- parts of a batch, evaluation ---- */

TEST_ON_EACH_BACKEND(the_parts_of_a_batch_drop_the_same_samples)
{
    for (uint32_t variant = 4; variant < VARIANTS; variant++) {
        struct net *const net = branch_net(9, 3, 4, 0.5f, variant);
        struct backend_input input = network_input(net, COUNT, variant);
        struct network network;
        network_open(&network, backend, net, COUNT, 1);
        network_draw_weights(&network, variant);
        network_check_parts(&network, &input, (const struct network_part[]){ { 0, 2 }, { 2, COUNT - 2 } }, 2, COUNT);
        network_close(&network);
        network_input_release(&input);
        net_close(net);
    }
}

TEST_ON_EACH_BACKEND(evaluation_drops_no_sample)
{
    double losses[2];
    for (uint32_t i = 0; i < 2; i++) {
        struct net *const net = branch_net(9, 3, 4, i == 0 ? 0.9f : 0.0f, 15);
        struct backend_input input = network_input(net, COUNT, 1);
        struct network network;
        network_open(&network, backend, net, COUNT, 1);
        network_draw_weights(&network, 1);
        losses[i] = network_forward(&network, &input, COUNT, false).loss_sum;
        network_close(&network);
        network_input_release(&input);
        net_close(net);
    }
    assert_true(losses[0] == losses[1]);
}

TESTS_MAIN(NULL, NULL)
