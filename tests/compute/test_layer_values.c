/* Tests of what single layers make of known pixels, on every backend: seen through the dense layer
 * behind them, or in the statistics. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/network/network_check.h"
#include "tests/helpers/test.h"

enum { CLASSES = 3 };

static const int32_t labels[] = { 1, 0, 2, 1 };

/* Pixels go in as they are. */
static struct net *net_begin(uint32_t channels, uint32_t height, uint32_t width)
{
    struct net *const net = network_net_begin("values", (struct shape){ channels, height, width }, CLASSES);
    net_transform(net, 1, NULL, NULL);
    return net;
}

/* A dense layer and the loss behind the last layer, or behind the image. */
static void net_end(struct net *net)
{
    const uint32_t last = net->layer_count == 0 ? NET_INPUT : net->layer_count - 1;
    network_net_end(net, last);
}

/* The values of one sample in front of the dense layer; the net is closed. */
static float *values_of(const char *backend, struct net *net, const uint8_t *pixels)
{
    struct network network;
    net_end(net);
    const uint32_t weight = net->layers[net->layer_count - 2].parameters[PARAMETER_WEIGHT];
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 3);
    const struct backend_input input = { .pixels = pixels, .labels = labels };
    float *const values = network_values_before(&network, &input, weight);
    network_close(&network);
    net_close(net);
    return values;
}

static void assert_values(const float *values, const double *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabs(values[i] - expected[i]) <= 1e-4 * (1 + fabs(expected[i]))))
            fail_msg("value %zu is %g instead of %g", i, (double)values[i], expected[i]);
}

/* ---- the transform ---- */

TEST_ON_EACH_BACKEND(pixels_are_divided_and_then_shifted_and_scaled_by_channel)
{
    static const uint8_t pixels[] = { 0, 100, 255, 51, 102, 204 };
    static const float mean[] = { 1, 0.5f, 0 }, std[] = { 1, 2, 0.5f };
    static const double expected[] = { -1, 51 / 127.5 - 1,                                /* channel 0 */
                                      (100 / 127.5 - 0.5) / 2, (102 / 127.5 - 0.5) / 2,
                                      255 / 127.5 / 0.5, 204 / 127.5 / 0.5 };
    struct net *const net = net_begin(3, 1, 2);
    net_transform(net, 127.5f, mean, std);
    float *const values = values_of(backend, net, pixels);
    assert_values(values, expected, 6);
    free(values);
}

/* Padding is 0 behind the transform, not a pixel of 0. The first is a convolution, which some backends give the pixels
 * in a layout of its own. */
TEST_ON_EACH_BACKEND(a_convolution_of_shifted_pixels_is_padded_with_zeros)
{
    static const float mean[] = { 1, 1, 1 };
    for (uint32_t seed = 0; seed < 4; seed++) {
        struct net *const net = net_begin(3, 6, 7);
        net_transform(net, 127.5f, mean, NULL);
        net_conv2d(net, "conv", NET_INPUT, 5, window_square(3, 1 + seed % 2, PADDING_SAME), seed < 2);
        net_end(net);
        network_check_net(backend, net, (struct backend_spec){ .local_max = 4 }, seed);
    }
}

/* ---- average pools ---- */

TEST_ON_EACH_BACKEND(an_average_of_ones_is_one_up_to_the_border)
{
    enum { SIDE = 6 };
    uint8_t pixels[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++)
        pixels[i] = 1;
    struct net *const net = net_begin(1, SIDE, SIDE);
    net_average_pool(net, "pool", NET_INPUT, window_square(3, 1, PADDING_SAME));
    float *const values = values_of(backend, net, pixels);
    for (int i = 0; i < SIDE * SIDE; i++)
        assert_true(fabs(values[i] - 1) < 1e-5);
    free(values);
}

TEST_ON_EACH_BACKEND(padding_does_not_count_in_an_average)
{
    static const uint8_t pixels[] = { 1, 2, 3, 4, 5, 6 };     /* 2 rows of 3 */
    const struct window window = {
        .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2, .padding = PADDING_EXPLICIT, .top = 1, .right = 1,
    };
    struct net *const net = net_begin(1, 2, 3);
    net_average_pool(net, "pool", NET_INPUT, window);
    float *values = values_of(backend, net, pixels);
    assert_values(values, (double[]){ 1.5, 3 }, 2);
    free(values);
    struct net *const mean = net_begin(1, 2, 3);
    net_global_average(mean, "mean", NET_INPUT);
    values = values_of(backend, mean, pixels);
    assert_values(values, (double[]){ 3.5 }, 1);
    free(values);
}

/* ---- padded channels, sums ---- */

TEST_ON_EACH_BACKEND(channels_lie_between_zeros_and_every_second_pixel_is_left)
{
    enum { IN = 4, OUT = 9, SIDE = 3 };
    uint8_t pixels[SIDE * SIDE * IN];
    for (int i = 0; i < SIDE * SIDE * IN; i++)
        pixels[i] = (uint8_t)(i + 1);
    struct net *const net = net_begin(IN, SIDE, SIDE);
    net_pad_channels(net, "pad", NET_INPUT, OUT, 2);
    float *const values = values_of(backend, net, pixels);
    for (int i = 0; i < OUT * 4; i++) {
        const int channel = i / 4 - 2, row = i / 2 % 2 * 2, column = i % 2 * 2;
        const int expected = channel >= 0 && channel < IN ? pixels[(row * SIDE + column) * IN + channel] : 0;
        assert_true(fabs(values[i] - expected) < 1e-3);
    }
    free(values);
}

TEST_ON_EACH_BACKEND(a_value_can_be_added_to_itself)
{
    static const uint8_t pixels[] = { 7, 1, 30 };
    struct net *const net = net_begin(3, 1, 1);
    net_add(net, "twice", NET_INPUT, NET_INPUT);
    net_add(net, "thrice", 0, NET_INPUT);
    float *const values = values_of(backend, net, pixels);
    assert_values(values, (double[]){ 21, 3, 90 }, 3);
    free(values);
}

/* ---- concatenation, local response normalisation ---- */

TEST_ON_EACH_BACKEND(inputs_are_concatenated)
{
    static const uint8_t pixels[] = { 1, 2, 3, 4 };
    static const double expected[] = { 1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 1, 2, 3, 4 };
    struct net *const net = net_begin(1, 2, 2);
    net_pad_channels(net, "pad", NET_INPUT, 3, 1);
    net_concat(net, "concat", (const uint32_t[]){ NET_INPUT, 0, NET_INPUT }, 3);
    float *const values = values_of(backend, net, pixels);
    assert_values(values, expected, sizeof(expected) / sizeof(expected[0]));
    free(values);
}

/* A window over nine channels that all hold 1, of which the border sees fewer. */
TEST_ON_EACH_BACKEND(responses_are_divided_by_their_neighbours)
{
    static const uint8_t ones[11] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    double expected[11];
    struct net *const net = net_begin(11, 1, 1);
    net_local_response_norm(net, "lrn", NET_INPUT, (struct local_response_norm){ 9, 0.001f, 0.75f, 1 });
    for (int c = 0; c < 11; c++) {
        const int first = c < 4 ? 0 : c - 4, last = c > 6 ? 10 : c + 4;
        expected[c] = pow(1 + 0.001 / 9 * (last - first + 1), -0.75);
    }
    assert_true(fabs(expected[5] - 0.9992506) < 1e-7);
    float *const values = values_of(backend, net, ones);
    assert_values(values, expected, 11);
    free(values);
}

/* ---- batch normalisation ---- */

enum { NORM_CHANNELS = 2 };

static struct net *net_of_norm(uint32_t height, bool with_gamma, double decay)
{
    struct net *const net = net_begin(NORM_CHANNELS, height, 1);
    const struct batch_norm how = { .decay = decay, .epsilon = 0.5f, .with_gamma = with_gamma };
    net_batch_norm(net, "bn", NET_INPUT, how);
    net_end(net);
    return net;
}

static float number_of(struct network *network, enum parameter_kind kind, uint32_t channel)
{
    float *const numbers = network_numbers(network, network->net->layers[0].parameters[kind]);
    const float number = numbers[channel];
    free(numbers);
    return number;
}

/* Running statistics begin at (mean, variance), and a batch of one channel's `values` goes by. */
static void assert_moved(struct network *network, uint32_t channel, float mean, float variance, const double *values,
                         size_t count)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    for (size_t i = 0; i < count; i++)
        squares += (values[i] - sum / (double)count) * (values[i] - sum / (double)count);
    const double unbiased = count > 1 ? squares / (double)(count - 1) : 0;
    assert_true(fabs(number_of(network, PARAMETER_RUNNING_MEAN, channel) -
                     (0.75 * mean + 0.25 * sum / (double)count)) < 1e-4);
    assert_true(fabs(number_of(network, PARAMETER_RUNNING_VARIANCE, channel) - (0.75 * variance + 0.25 * unbiased)) <
                1e-3);
}

static const uint8_t norm_pixels[] = { 10, 3, 20, 9, 35, 3, 11, 0 };     /* 2 channels, by turns */
static const double norm_values[NORM_CHANNELS][4] = { { 10, 20, 35, 11 }, { 3, 9, 3, 0 } };

TEST_ON_EACH_BACKEND(running_statistics_move_to_the_mean_and_the_unbiased_variance_of_the_batch)
{
    for (uint32_t samples = 1; samples <= 4; samples++)
        for (int with_gamma = 0; with_gamma <= 1; with_gamma++) {
            struct net *const net = net_of_norm(1, with_gamma != 0, 0.75);
            struct network network;
            network_open(&network, backend, net, samples, 1);
            network_draw_weights(&network, 5);
            float mean[NORM_CHANNELS], variance[NORM_CHANNELS];
            for (uint32_t c = 0; c < NORM_CHANNELS; c++) {
                mean[c] = number_of(&network, PARAMETER_RUNNING_MEAN, c);
                variance[c] = number_of(&network, PARAMETER_RUNNING_VARIANCE, c);
            }
            const struct backend_input input = { .pixels = norm_pixels, .labels = labels };
            assert_true(isfinite(network_run(&network, &input, 0, samples, true).loss_sum));
            for (uint32_t c = 0; c < NORM_CHANNELS; c++)
                assert_moved(&network, c, mean[c], variance[c], norm_values[c], samples);
            network_close(&network);
            net_close(net);
        }
}

/* 1 - 0.999f is off by 1.3e-5 of itself. */
TEST_ON_EACH_BACKEND(a_slow_running_mean_takes_exactly_its_share)
{
    struct net *const net = net_of_norm(1, true, 0.999);
    struct network network;
    network_open(&network, backend, net, 4, 1);
    const struct backend_input input = { .pixels = norm_pixels, .labels = labels };
    network_run(&network, &input, 0, 4, true);
    assert_true(fabs(number_of(&network, PARAMETER_RUNNING_MEAN, 0) / (0.001 * 19) - 1) < 1e-6);
    network_close(&network);
    net_close(net);
}

/* In a running sum of single precision the last pixels of an image would lose digits, all in the same direction. */
TEST_ON_EACH_BACKEND(the_mean_of_a_large_image_is_as_exact_as_its_pixels)
{
    enum { SIDE = 192 };
    static uint8_t pixels[SIDE * SIDE];
    memset(pixels, 200, sizeof(pixels));
    struct net *const net = net_begin(1, SIDE, SIDE);
    net_transform(net, 127, NULL, NULL);
    net_batch_norm(net, "bn", NET_INPUT, (struct batch_norm){ .decay = 0.5, .epsilon = 0.5f, .with_gamma = true });
    net_end(net);
    struct network network;
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 5);
    const double before = (double)number_of(&network, PARAMETER_RUNNING_MEAN, 0);
    network_run(&network, &(struct backend_input){ .pixels = pixels, .labels = labels }, 0, 1, true);
    const double mean = 2 * (double)number_of(&network, PARAMETER_RUNNING_MEAN, 0) - before;
    assert_true(fabs(mean * 127 / 200 - 1) < 1e-5);
    network_close(&network);
    net_close(net);
}

/* Four pixels of one sample, so that they can be seen behind the normalisation. */
TEST_ON_EACH_BACKEND(training_normalises_with_the_biased_variance_of_the_batch)
{
    struct net *const net = net_of_norm(4, true, 0.75);
    struct network network;
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 6);
    const struct backend_input input = { .pixels = norm_pixels, .labels = labels };
    float *const values = network_values_before(&network, &input, 4);
    for (uint32_t c = 0; c < NORM_CHANNELS; c++) {
        double mean = 0, variance = 0;
        for (int i = 0; i < 4; i++)
            mean += norm_values[c][i] / 4;
        for (int i = 0; i < 4; i++)
            variance += (norm_values[c][i] - mean) * (norm_values[c][i] - mean) / 4;
        for (int i = 0; i < 4; i++)
            assert_true(fabs(values[c * 4 + (uint32_t)i] -
                             (number_of(&network, PARAMETER_GAMMA, c) * (norm_values[c][i] - mean) /
                                  sqrt(variance + 0.5) +
                              number_of(&network, PARAMETER_BETA, c))) < 1e-3);
    }
    free(values);
    network_close(&network);
    net_close(net);
}

/* In evaluation the normalisation is a line; the loss of one sample is that of the line's values. */
TEST_ON_EACH_BACKEND(evaluation_normalises_with_the_running_statistics_and_leaves_them)
{
    static const float dense[CLASSES * NORM_CHANNELS] = { 0.5f, 0, 0, 1, -1, 0.25f }, zeros[CLASSES] = { 0 };
    struct net *const net = net_of_norm(1, true, 0.75);
    struct network network;
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 7);
    network_write(&network, network.weights, 4, dense);
    network_write(&network, network.weights, 5, zeros);
    const float before = number_of(&network, PARAMETER_RUNNING_MEAN, 0);
    const struct backend_input input = { .pixels = norm_pixels, .labels = labels };
    const double loss = network_forward(&network, &input, 1, false).loss_sum;
    double y[NORM_CHANNELS], logits[CLASSES], sum = 0;
    for (uint32_t c = 0; c < NORM_CHANNELS; c++)
        y[c] = number_of(&network, PARAMETER_GAMMA, c) *
                   (norm_pixels[c] - number_of(&network, PARAMETER_RUNNING_MEAN, c)) /
                   sqrt(number_of(&network, PARAMETER_RUNNING_VARIANCE, c) + 0.5) +
               number_of(&network, PARAMETER_BETA, c);
    for (int k = 0; k < CLASSES; k++) {
        logits[k] = dense[2 * k] * y[0] + dense[2 * k + 1] * y[1];
        sum += exp(logits[k]);
    }
    assert_true(fabs(loss - (log(sum) - logits[labels[0]])) < 1e-4 * (1 + loss));
    assert_true(number_of(&network, PARAMETER_RUNNING_MEAN, 0) == before);
    network_close(&network);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
