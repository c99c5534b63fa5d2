/* Tests of every layer kind on every backend: gradients against finite differences,
 * each backend against the reference, and what must hold for parts of a batch. The
 * nets are chains drawn at random; a new backend is a new row of `backends`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/random.h"
#include "tests/helpers/device_memory.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"

/* The thread sanitizer, ten times slower, looks at threads and not at shapes. */
#ifdef __SANITIZE_THREAD__
enum { NETS = 8 };
#else
enum { NETS = 48 };
#endif
enum { COUNT = 5 };

/* Nets drawn from the seeds from `first` on, with the rates of even and of odd ones. */
struct nets { uint32_t first, count; float dropout[2]; };

/* Calls check for each net with weights and samples drawn from the number of the net, counted from 0. */
static void for_each_net(const char *backend, struct nets nets, uint32_t samples,
                         void (*check)(struct network *network, struct backend_input *input, uint32_t seed))
{
    for (uint32_t seed = 0; seed < nets.count; seed++) {
        struct net *net = network_random_net(nets.first + seed, nets.dropout[seed % 2]);
        struct backend_input input = network_input(net, samples, seed);
        struct network network;
        network_open(&network, backend, net, samples, 1);
        network_draw_weights(&network, seed);
        check(&network, &input, seed);
        network_close(&network);
        network_input_release(&input);
        net_close(net);
    }
}

static void check_slopes(struct network *network, struct backend_input *input, uint32_t seed)
{
    network_check_slopes(network, input, COUNT, seed);
}

/* The other backends are compared with the reference. */
TEST(gradients_of_the_reference_are_the_slopes_of_the_loss)
{
    for_each_net("reference", (struct nets){ 0, NETS, { 0, 0.4f } }, COUNT, check_slopes);
}

/* ---- against the reference ---- */

TEST_ON_EACH_BACKEND(every_backend_gives_what_the_reference_gives)
{
    for (uint32_t seed = 0; seed < 2 * NETS; seed++)
        network_check_net(backend, network_random_net(1000 + seed, seed % 2 ? 0.4f : 0.0f),
                          (struct backend_spec){ .local_max = COUNT, .threads = seed % 8 == 0 ? 2 : 1 }, seed);
}

/* ---- parts of a batch ---- */

static void check_parts(struct network *network, struct backend_input *input, uint32_t seed)
{
    (void)seed;
    network_check_parts(network, input, (const struct network_part[]){ { 0, 2 }, { 2, COUNT - 2 } }, 2, COUNT);
}

TEST_ON_EACH_BACKEND(the_parts_of_a_batch_sum_to_the_whole_with_dropout_on)
{
    for_each_net(backend, (struct nets){ 2000, NETS, { 0.4f, 0.4f } }, COUNT, check_parts);
}

static void check_unlabelled(struct network *network, struct backend_input *input, uint32_t seed)
{
    (void)seed;
    ((int32_t *)(uintptr_t)input->labels)[1] = -1;
    network_check_parts(network, input, (const struct network_part[]){ { 0, 1 }, { 2, 1 } }, 2, 3);
    assert_int_equal(network->result->counted, 2);
}

TEST_ON_EACH_BACKEND(a_sample_without_a_label_counts_for_nothing)
{
    for_each_net(backend, (struct nets){ 3000, 12, { 0, 0 } }, 3, check_unlabelled);
}

/* ---- order, layout ---- */

static void check_order(struct network *network, struct backend_input *input, uint32_t seed)
{
    (void)seed;
    network_run(network, input, 0, 1, true);
    uint32_t done = 0;
    for (uint32_t layer = network->net->layer_count; layer-- > 0;)
        if (layer_is_trained(&network->net->layers[layer]))
            assert_int_equal(network->done[done++], layer);
    assert_int_equal(network->done_count, done);
}

TEST_ON_EACH_BACKEND(backward_reports_every_layer_with_parameters_last_first)
{
    for_each_net(backend, (struct nets){ 0, NETS, { 0, 0 } }, 1, check_order);
}

/* Packing what was unpacked gives the arena bit for bit: nothing lies in the padding. */
static void assert_padding_zero(struct network *network, const float *arena)
{
    const size_t bytes = network->arenas.trained.count * sizeof(*arena);
    float *copy = device_memory_make(network->compute, NULL, bytes);
    for (uint32_t p = 0; p < network->net->parameter_count; p++) {
        float *plain = malloc(network->net->parameters[p].count * sizeof(*plain));
        assert_non_null(plain);
        network_read(network, arena, p, plain);
        network_write(network, copy, p, plain);
        free(plain);
    }
    float *expected = malloc(bytes), *values = malloc(bytes);
    assert_true(expected && values);
    device_memory_read(network->compute, expected, arena, bytes);
    device_memory_read(network->compute, values, copy, bytes);
    for (size_t i = 0; i < network->arenas.trained.count; i++)
        assert_true(values[i] == expected[i]);
    free(expected);
    free(values);
    network->device->ops->free(network->device, copy);
}

static void check_padding(struct network *network, struct backend_input *input, uint32_t seed)
{
    (void)seed;
    network_run(network, input, 0, COUNT, true);
    assert_padding_zero(network, network->weights);
    assert_padding_zero(network, network->gradients);
}

TEST_ON_EACH_BACKEND(padding_of_the_arenas_stays_zero)
{
    for_each_net(backend, (struct nets){ 0, NETS, { 0, 0 } }, COUNT, check_padding);
}

/* ---- forward values, seen through a dense layer behind them ---- */

TEST_ON_EACH_BACKEND(same_padding_with_stride_2_pads_nothing_before)
{
    enum { SIDE = 32 };
    uint8_t pixels[SIDE * SIDE];
    const int32_t label = 1;
    const float first_tap[9] = { 1 };
    struct net *const net = network_net_begin("ramp", (struct shape){ 1, SIDE, SIDE }, 2);
    struct network network;
    for (int i = 0; i < SIDE * SIDE; i++)
        pixels[i] = (uint8_t)(i % SIDE);
    network_net_end(net, net_conv2d(net, "conv", NET_INPUT, 1, window_square(3, 2, PADDING_SAME), true));
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 1);
    network_write(&network, network.weights, 0, first_tap);
    network_write(&network, network.weights, 1, &(float){ 0 });
    float *values = network_values_before(&network, &(struct backend_input){ .pixels = pixels, .labels = &label }, 2);
    for (int i = 0; i < SIDE * SIDE / 4; i++)
        assert_true(fabs(values[i] * 255 - i % (SIDE / 2) * 2) < 1e-3);
    free(values);
    network_close(&network);
    net_close(net);
}

TEST_ON_EACH_BACKEND(a_dense_layer_reads_pixels_in_channel_height_width_order)
{
    enum { CHANNELS = 3, HEIGHT = 2, WIDTH = 5 };
    uint8_t pixels[HEIGHT][WIDTH][CHANNELS];
    const int32_t label = 0;
    const struct shape image = { CHANNELS, HEIGHT, WIDTH };
    struct net *const net = network_net_end(network_net_begin("flatten", image, 2), NET_INPUT);
    struct network network;
    for (int i = 0; i < HEIGHT * WIDTH * CHANNELS; i++)
        pixels[i / (WIDTH * CHANNELS)][i / CHANNELS % WIDTH][i % CHANNELS] = (uint8_t)(8 * i + 1);
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 1);
    const struct backend_input input = { .pixels = &pixels[0][0][0], .labels = &label };
    float *values = network_values_before(&network, &input, 0);
    for (int c = 0; c < CHANNELS; c++)
        for (int h = 0; h < HEIGHT; h++)
            for (int w = 0; w < WIDTH; w++)
                assert_true(fabs(values[(c * HEIGHT + h) * WIDTH + w] * 255 - pixels[h][w][c]) < 1e-3);
    free(values);
    network_close(&network);
    net_close(net);
}

/* A pool of 2 over pixels that are all equal: where the gradient goes shows in the
 * 1x1 convolution in front, whose input differs only by the place in the window. */
TEST_ON_EACH_BACKEND(the_first_of_equal_maxima_takes_the_gradient)
{
    static const uint8_t pixels[] = { 10, 20, 30, 40 };
    const int32_t label = 0;
    struct net *const net = network_net_begin("ties", (struct shape){ 1, 2, 2 }, 2);
    struct network network;
    net_conv2d(net, "conv", NET_INPUT, 1, window_square(1, 1, PADDING_VALID), true);
    network_net_end(net, net_max_pool(net, "pool", 0, window_square(2, 2, PADDING_VALID)));
    network_open(&network, backend, net, 1, 1);
    network_draw_weights(&network, 1);
    network_write(&network, network.weights, 0, &(float){ 0 });     /* all four outputs are the bias */
    network_run(&network, &(struct backend_input){ .pixels = pixels, .labels = &label }, 0, 1, true);
    float *weight = network_gradient(&network, 0), *bias = network_gradient(&network, 1);
    assert_true(fabs(weight[0] / bias[0] * 255 - 10) < 1e-3);
    free(weight);
    free(bias);
    network_close(&network);
    net_close(net);
}

/* ---- the loss ---- */

/* A net of one dense layer with the given logits as biases and weights 0. */
static struct backend_result loss_of(const char *backend, const float *logits, uint32_t classes, int32_t label,
                                     float *gradient_out)
{
    struct net *const net = network_net_end(network_net_begin("loss", (struct shape){ 1, 1, 1 }, classes), NET_INPUT);
    struct network network;
    const uint8_t pixel = 77;
    float zeros[16] = { 0 };
    network_open(&network, backend, net, 1, 1);
    network_write(&network, network.weights, 0, zeros);
    network_write(&network, network.weights, 1, logits);
    const struct backend_input input = { .pixels = &pixel, .labels = &label };
    const struct backend_result result = network_run(&network, &input, 0, 1, true);
    network_read(&network, network.gradients, 1, gradient_out);
    network_close(&network);
    net_close(net);
    return result;
}

TEST_ON_EACH_BACKEND(the_loss_is_softmax_cross_entropy_at_any_size_of_logits)
{
    const float plain[] = { 0.5f, -1, 2 }, far[] = { 1000, 0, -1000 }, level[] = { 3, 3, 3 };
    float gradient[3];
    const double total = exp(0.5) + exp(-1) + exp(2);
    struct backend_result result = loss_of(backend, plain, 3, 1, gradient);
    assert_true(fabs(result.loss_sum - (log(total) + 1)) < 1e-5);
    assert_int_equal(result.correct, 0);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(gradient[i] - (exp(plain[i]) / total - (i == 1))) < 1e-6);
    result = loss_of(backend, far, 3, 2, gradient);
    assert_true(fabs(result.loss_sum - 2000) < 1e-2);
    assert_true(gradient[0] == 1 && gradient[1] == 0 && gradient[2] == -1);
    assert_int_equal(loss_of(backend, level, 3, 0, gradient).correct, 1);
    assert_int_equal(loss_of(backend, level, 3, 1, gradient).correct, 0);
    const float broken[] = { 0, NAN, 0 };
    assert_true(isnan(loss_of(backend, broken, 3, 0, gradient).loss_sum));
}

/* The same logits to both losses: training counts the answers once and adds a weighted loss, evaluation
 * knows the last one only. */
TEST_ON_EACH_BACKEND(an_auxiliary_loss_is_added_in_training_only)
{
    static const uint8_t pixels[] = { 255, 0, 255, 255 };
    static const int32_t two_labels[] = { 1, 0 };
    static const float weights[] = { 0.5f, -1, 2, 0.25f, 1, 1 };
    struct net *net;
    struct network network;
    assert_int_equal(net_open(&net, "two losses", (struct shape){ 2, 1, 1 }, 3), 0);
    net_dense(net, "fc", NET_INPUT, 3, false);
    net_auxiliary_loss(net, "second", 0, 0.5f);
    net_softmax_loss(net, "loss", 0);
    assert_int_equal(net_finish(net), 0);
    network_open(&network, backend, net, 2, 1);
    network_write(&network, network.weights, 0, weights);
    const struct backend_input input = { .pixels = pixels, .labels = two_labels };
    const struct backend_result one = network_forward(&network, &input, 2, false);
    const struct backend_result both = network_run(&network, &input, 0, 2, true);
    assert_true(fabs(both.loss_sum - 1.5 * one.loss_sum) < 1e-5 * both.loss_sum);
    assert_int_equal(both.counted, 2);
    assert_int_equal(both.correct, one.correct);
    network_close(&network);
    net_close(net);
}

TESTS_MAIN_WITH_TEAMS
