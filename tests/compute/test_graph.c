/* Tests of networks that are not chains: branches, sums, values read several times, batch
 * normalisation, windows of every shape. The nets are drawn at random. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/network/network_check.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"

enum { COUNT = 5 };

/* How many random nets a test draws. The thread sanitizer, ten times slower, looks at threads and not at shapes. */
static uint32_t net_count(void)
{
#ifdef __SANITIZE_THREAD__
    return 8;
#else
    return test_is_long() ? 64 : 16;
#endif
}

/* ---- graphs at random ---- */

static float rate_of(uint32_t seed)
{
    return seed % 2 != 0 ? 0.4f : 0.0f;
}

TEST(gradients_of_branches_are_the_slopes_of_the_loss)
{
    for (uint32_t seed = 0; seed < net_count(); seed++) {
        struct net *const net = network_random_graph(seed, rate_of(seed));
        struct backend_input input = network_input(net, COUNT, seed);
        struct network network;
        network_open(&network, "reference", net, COUNT, 1);
        network_draw_weights(&network, seed);
        network_check_slopes(&network, &input, COUNT, seed);
        network_close(&network);
        network_input_release(&input);
        net_close(net);
    }
}

/* ---- one graph by hand ---- */

static const struct window square = {
    .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, .padding = PADDING_SAME,
};
static const struct batch_norm soft = { .decay = 0.9, .epsilon = 0.05f, .with_gamma = true };

/* The result of the first convolution is read three times: by a branch of three layers, by one of
 * one, and by the sum of both. */
static struct net *net_by_hand(void)
{
    struct net *const net = network_net_begin("by hand", (struct shape){ 3, 7, 6 }, 4);
    net_conv2d(net, "stem", NET_INPUT, 8, square, true);
    net_conv2d(net, "long1", 0, 8, square, false);
    net_batch_norm(net, "long2", 1, soft);
    net_relu(net, "long3", 2);
    net_average_pool(net, "short", 0, square);
    net_add(net, "diamond", 3, 4);
    net_add(net, "around", 5, 0);
    net_relu(net, "relu", 6);
    net_pad_channels(net, "shortcut", 7, 12, 2);
    net_conv2d(net, "half", 7, 12, window_square(3, 2, PADDING_SAME), false);
    net_batch_norm(net, "norm", 9, soft);
    net_add(net, "sum", 10, 8);
    net_relu(net, "last", 11);
    return network_net_end(net, net_global_average(net, "mean", 12));
}

/* A net twice, on memory as it comes and on poisoned memory. */
struct twins { struct net *net; struct backend_input input; struct network network, poisoned; };

/* Asserts that nothing depends on what memory held before. Takes over the net. */
static void twins_open(struct twins *twins, const char *backend, struct net *net, uint32_t seed)
{
    twins->net = net;
    twins->input = network_input(net, COUNT, seed);
    network_open(&twins->network, backend, net, COUNT, 1);
    network_open_settings(&twins->poisoned, backend, net, (struct backend_spec){ .local_max = COUNT, .poison = true });
    network_draw_weights(&twins->network, seed);
    network_draw_weights(&twins->poisoned, seed);
    network_compare_bits(&twins->poisoned, &twins->network, &twins->input, COUNT);
}

static void twins_close(struct twins *twins)
{
    network_close(&twins->network);
    network_close(&twins->poisoned);
    network_input_release(&twins->input);
    net_close(twins->net);
}

/* Gradients are slopes, and nothing depends on what memory held before. */
static void check_net(const char *backend, struct net *net, uint32_t seed)
{
    struct twins twins;
    twins_open(&twins, backend, net, seed);
    network_check_slopes(&twins.network, &twins.input, COUNT, seed);
    twins_close(&twins);
}

TEST_ON_EACH_BACKEND(gradients_of_every_backend_are_the_slopes_of_the_loss)
{
    for (uint32_t seed = 0; seed < 3; seed++)
        check_net(backend, net_by_hand(), seed);
}

/* Two losses of the same logits, and one of logits from which the net goes on. */
static struct net *net_of_losses(void)
{
    struct net *const net = network_net_begin("losses", (struct shape){ 3, 5, 4 }, 4);
    net_conv2d(net, "stem", NET_INPUT, 6, square, true);
    net_relu(net, "relu", 0);
    net_dense(net, "early", 1, 4, true);
    net_auxiliary_loss(net, "first", 2, 0.3f);
    net_relu(net, "hidden", 2);
    net_dense(net, "classes", 4, 4, true);
    net_auxiliary_loss(net, "second", 5, 0.5f);
    net_softmax_loss(net, "loss", 5);
    net_finish(net);
    assert_string_equal(net_error(net), "");
    return net;
}

TEST_ON_EACH_BACKEND(logits_may_have_several_losses_and_be_read_by_layers)
{
    for (uint32_t seed = 0; seed < 3; seed++)
        check_net(backend, net_of_losses(), seed);
}

/* ---- against the reference ---- */

TEST_ON_EACH_BACKEND(every_backend_gives_what_the_reference_gives)
{
    for (uint32_t seed = 0; seed < 2 * net_count(); seed++)
        network_check_net(backend, network_random_graph(1000 + seed, rate_of(seed)),
                          (struct backend_spec){ .local_max = COUNT, .threads = seed % 8 == 0 ? 2 : 1 }, seed);
}

/* Layouts are the CPU's to choose: on CUDA and in the reference there is one. */
TEST_ON_EACH_BACKEND(every_layout_gives_what_the_reference_gives)
{
    static const enum layout layouts[] = { LAYOUT_NHWC, LAYOUT_NCHW };
    if (strcmp(backend, "onednn") != 0)
        return;
    for (uint32_t seed = 0; seed < net_count(); seed++)
        network_check_net(backend, network_random_graph(3000 + seed, rate_of(seed)),
                          (struct backend_spec){ .local_max = COUNT, .layout = layouts[seed / 2 % 2] }, seed);
}

/* Values of one pixel are both rows, as of a dense layer, and maps: what is added and what is normalised may lie in
 * different blocks of channels. */
static struct net *net_of_one_pixel(bool normalised_first)
{
    static const struct window one = { .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1 };
    struct net *const net = network_net_begin("one pixel", (struct shape){ 3, 6, 6 }, 4);
    net_conv2d(net, "stem", NET_INPUT, 16, square, true);
    net_global_average(net, "mean", 0);
    net_dense(net, "row", 1, 64, true);
    net_conv2d(net, "conv", 1, 64, one, false);
    net_batch_norm(net, "norm", 3, soft);
    net_add(net, "sum", normalised_first ? 4 : 2, normalised_first ? 2 : 4);
    return network_net_end(net, net_relu(net, "relu", 5));
}

TEST_ON_EACH_BACKEND(rows_and_maps_of_one_pixel_are_added)
{
    static const enum layout layouts[] = { LAYOUT_AUTO, LAYOUT_NHWC, LAYOUT_NCHW };
    const uint32_t cases = strcmp(backend, "onednn") == 0 ? 12 : 4;     /* elsewhere there is one layout */
    for (uint32_t seed = 0; seed < cases; seed++)
        network_check_net(backend, net_of_one_pixel(seed % 2 != 0),
                          (struct backend_spec){ .local_max = COUNT, .threads = 1 + seed / 2 % 2,
                                                 .layout = layouts[seed / 4] }, seed);
}

/* ---- poisoned memory ---- */

static void check_poisoned(const char *backend, struct net *net, uint32_t seed)
{
    struct twins twins;
    twins_open(&twins, backend, net, seed);
    twins_close(&twins);
}

TEST_ON_EACH_BACKEND(memory_that_holds_nothing_is_never_read)
{
    for (uint32_t seed = 0; seed < net_count(); seed++) {
        check_poisoned(backend, network_random_graph(2000 + seed, rate_of(seed)), seed);
        check_poisoned(backend, network_random_net(seed, rate_of(seed)), seed);
    }
}

TESTS_MAIN_WITH_TEAMS
