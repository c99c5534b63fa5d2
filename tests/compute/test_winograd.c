/* Tests of convolutions by Winograd's algorithm: they match the reference, and the algorithm is used where it is
 * faster or asked for, and nowhere else. */
#include <string.h>

#include "compute/onednn/onednn_plan.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"

enum { NETS = 12, COUNT = 5 };

static const struct window three = { .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1,
                                     .padding = PADDING_SAME };

static struct net *net_begin(struct shape shape)
{
    return network_net_begin("three", shape, 3);
}

/* Convolutions as asked for, in so many bytes of scratch memory at most; 0: as a run has. */
static void open_convolving(struct network *network, const struct net *net, uint32_t local_max, uint32_t threads,
                            enum convolution convolution, size_t workspace)
{
    const struct backend_spec spec = { .local_max = local_max, .threads = threads, .convolution = convolution,
                                       .workspace_max = workspace };
    network_open_settings(network, "onednn", net, spec);
}

/* Three convolutions, the second with batch normalisation and a branch around it, on images that do not consist of
 * whole tiles. with_relu: gradients have steps where a value is near 0. */
static struct net *net_with_or_without_relu(struct shape shape, uint32_t channels, enum padding padding, bool with_relu)
{
    const struct batch_norm how = { .decay = 0.75, .epsilon = 0.05f, .with_gamma = true };
    struct window window = three;
    struct net *const net = net_begin(shape);
    window.padding = padding;
    uint32_t at = (uint32_t)net_conv2d(net, "conv1", NET_INPUT, channels, window, true);
    if (with_relu)
        at = (uint32_t)net_relu(net, "relu1", at);
    uint32_t branch = (uint32_t)net_conv2d(net, "conv2", at, channels, three, false);
    branch = (uint32_t)net_batch_norm(net, "norm2", branch, how);
    at = (uint32_t)net_add(net, "sum", branch, at);
    if (with_relu)
        at = (uint32_t)net_relu(net, "relu2", at);
    return network_net_end(net, net_conv2d(net, "conv3", at, channels + 8, three, true));
}

static struct net *net_of_threes(struct shape shape, uint32_t channels, enum padding padding)
{
    return net_with_or_without_relu(shape, channels, padding, true);
}

/* ---- choice ---- */

struct lines { const char *layer, *what; bool found; };

static void look_for(void *arg, const char *line)
{
    struct lines *const lines = arg;
    lines->found = lines->found || (strstr(line, lines->layer) != NULL && strstr(line, "wino") != NULL &&
                                    strstr(line, lines->what) != NULL);
}

/* Does the layer's description name the algorithm and `what`? */
static bool is_winograd(struct network *network, const char *layer, const char *what, uint32_t count)
{
    struct lines lines = { .layer = layer, .what = what };
    struct plan *plan;
    const struct plan_spec spec = { .count = count, .training = true };
    assert_int_equal(network->ops->plan(network->backend, &spec, &plan), 0);
    network->ops->plan_describe(plan, look_for, &lines);
    network->ops->plan_close(plan);
    return lines.found;
}

static bool is_taken(const struct net *net, uint32_t count, enum convolution convolution, const char *layer)
{
    struct network network;
    open_convolving(&network, net, count, 1, convolution, 0);
    const bool taken = is_winograd(&network, layer, "", count);
    network_close(&network);
    return taken;
}

/* oneDNN 2.6 has such kernels for AVX-512. */
static void need_winograd(void)
{
    struct net *const net = net_of_threes((struct shape){ 16, 8, 8 }, 16, PADDING_SAME);
    const bool found = is_taken(net, 2, CONVOLUTION_WINOGRAD, "conv2");
    net_close(net);
    if (found)
        return;
    print_message("no convolutions by Winograd's algorithm for this CPU\n");
    skip();
}

TEST(it_is_used_where_it_multiplies_much_less)
{
    need_winograd();
    struct net *const large = net_of_threes((struct shape){ 3, 28, 28 }, 64, PADDING_SAME);
    struct net *const small = net_of_threes((struct shape){ 3, 2, 2 }, 64, PADDING_SAME);
    assert_true(is_taken(large, 8, CONVOLUTION_AUTO, "conv2"));
    assert_false(is_taken(large, 8, CONVOLUTION_AUTO, "conv1"));
    assert_false(is_taken(large, 8, CONVOLUTION_DIRECT, "conv2"));
    assert_false(is_taken(small, 8, CONVOLUTION_AUTO, "conv2"));
    assert_true(is_taken(small, 8, CONVOLUTION_WINOGRAD, "conv2"));
    net_close(small);
    net_close(large);
}

static bool pays(enum value_type type, enum convolution convolution, const struct layer *layer, uint32_t count)
{
    const struct backend backend = { .type = type, .spec = { .convolution = convolution } };
    return winograd_workspace(&backend, layer, count, NULL) > 0;
}

TEST(it_is_used_for_windows_of_three_and_many_channels_in_fp32)
{
    struct net *const net = net_begin((struct shape){ 64, 28, 28 });
    const struct window strided = { .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2 };
    net_conv2d(net, "three", NET_INPUT, 64, three, false);
    net_conv2d(net, "strided", 0, 64, strided, false);
    net_conv2d(net, "one", 1, 64, window_square(1, 1, PADDING_SAME), false);
    net_conv2d(net, "five", 2, 64, window_square(5, 1, PADDING_SAME), false);
    net_conv2d(net, "few", 3, 4, three, false);
    net_conv2d(net, "many", 4, 160, three, false);
    net_conv2d(net, "vector", 5, 16, three, false);
    network_net_end(net, 6);
    assert_true(pays(VALUE_FP32, CONVOLUTION_AUTO, &net->layers[0], 8));
    assert_false(pays(VALUE_BF16, CONVOLUTION_AUTO, &net->layers[0], 8));
    assert_false(pays(VALUE_BF16, CONVOLUTION_WINOGRAD, &net->layers[0], 8));
    assert_false(pays(VALUE_FP32, CONVOLUTION_DIRECT, &net->layers[0], 8));
    for (uint32_t i = 1; i < 4; i++)
        assert_false(pays(VALUE_FP32, CONVOLUTION_WINOGRAD, &net->layers[i], 8));
    assert_false(pays(VALUE_FP32, CONVOLUTION_AUTO, &net->layers[4], 8));
    assert_true(pays(VALUE_FP32, CONVOLUTION_WINOGRAD, &net->layers[4], 8));
    assert_false(pays(VALUE_FP32, CONVOLUTION_AUTO, &net->layers[6], 8));
    assert_true(pays(VALUE_FP32, CONVOLUTION_WINOGRAD, &net->layers[6], 8));
    net_close(net);
}

/* ---- results ---- */

static void compare_in(const struct net *net, uint32_t threads, uint64_t seed, size_t room)
{
    struct network network;
    open_convolving(&network, net, COUNT, threads, CONVOLUTION_WINOGRAD, room);
    network_compare_with_reference(&network, COUNT, seed);
    network_close(&network);
}

static void compare(struct net *net, uint32_t threads, uint64_t seed)
{
    compare_in(net, threads, seed, 0);
    net_close(net);
}

TEST(all_shapes_match_the_reference)
{
    static const uint32_t channels[] = { 5, 16, 24, 40 };
    for (uint32_t seed = 0; seed < 28; seed++) {
        const struct shape shape = { 1 + seed % 5 * 8, 3 + seed % 7, 3 + seed / 7 % 6 };
        compare(net_of_threes(shape, channels[seed % 4], (enum padding)(seed % 2)), 1 + seed % 3, seed);
    }
}

TEST(random_graphs_match_the_reference)
{
    for (uint32_t seed = 0; seed < NETS; seed++)
        compare(network_random_graph(5000 + seed, 0), 1 + seed % 2, seed);
}

TEST(every_padding_matches_the_reference)
{
    for (uint32_t sides = 0; sides < 16; sides++) {
        struct net *const net = net_begin((struct shape){ 16, 12, 13 });
        struct window window = window_square(3, 1, PADDING_EXPLICIT);
        window.top = sides & 1;
        window.bottom = sides >> 1 & 1;
        window.left = sides >> 2 & 1;
        window.right = sides >> 3;
        net_conv2d(net, "one", NET_INPUT, 16, window_square(1, 1, PADDING_SAME), true);
        net_conv2d(net, "padded", 0, 16, window, true);
        compare(network_net_end(net, 1), 1 + sides % 2, sides);
    }
}

/* ---- sub-batches ---- */

/* The smallest workspace with which samples are computed in sub-batches; 0: none. */
static size_t find_narrow_room(const struct net *net, uint32_t threads)
{
    for (size_t room = (size_t)1 << 20; room < (size_t)64 << 20; room += room / 4) {
        struct network network;
        open_convolving(&network, net, COUNT, threads, CONVOLUTION_WINOGRAD, room);
        const bool is_narrow = is_winograd(&network, "conv2", "samples at a time", COUNT);
        network_close(&network);
        if (is_narrow)
            return room;
    }
    return 0;
}

static void compare_forward_in(const struct net *net, uint32_t threads, uint64_t seed, size_t room)
{
    struct backend_input input = network_input(net, COUNT, seed);
    struct network network, reference;
    open_convolving(&network, net, COUNT, threads, CONVOLUTION_WINOGRAD, room);
    network_open(&reference, "reference", net, COUNT, 1);
    network_draw_weights(&network, seed);
    network_draw_weights(&reference, seed);
    for (int training = 0; training <= 1; training++)
        network_assert_same_result(network_forward(&network, &input, COUNT, training != 0),
                                   network_forward(&reference, &input, COUNT, training != 0));
    network_close(&reference);
    network_close(&network);
    network_input_release(&input);
}

static bool compare_in_narrow_room(struct shape shape, uint32_t threads, bool with_relu)
{
    struct net *const net = net_with_or_without_relu(shape, 64, PADDING_SAME, with_relu);
    const size_t room = find_narrow_room(net, threads);
    if (room != 0 && with_relu)
        compare_forward_in(net, threads, threads, room);
    else if (room != 0)
        compare_in(net, threads, threads, room);
    net_close(net);
    return room != 0;
}

TEST(samples_are_split_to_fit_the_workspace)
{
    enum { SHAPES = 3 };
    static const struct shape shapes[SHAPES] = { { 16, 24, 20 }, { 24, 24, 24 }, { 16, 22, 21 } };
    uint32_t found = 0;
    need_winograd();
    for (uint32_t i = 0; i < SHAPES; i++)
        for (uint32_t threads = 1; threads <= 2; threads++)
            for (int with_relu = 0; with_relu <= 1; with_relu++)
                found += compare_in_narrow_room(shapes[i], threads, with_relu != 0);
    assert_in_range(found, 1, 4 * SHAPES);
}

static uint32_t samples_of(size_t room, uint32_t count, bool training)
{
    struct net *const net = net_of_threes((struct shape){ 3, 28, 28 }, 64, PADDING_SAME);
    struct network network;
    open_convolving(&network, net, count, 1, CONVOLUTION_AUTO, room);
    const uint32_t samples = winograd_samples(network.backend, &net->layers[2], NULL, NULL, count, training);
    network_close(&network);
    net_close(net);
    return samples;
}

TEST(sub_batches_are_as_large_as_the_workspace_allows)
{
    need_winograd();
    for (int training = 0; training <= 1; training++) {
        uint32_t before = 0;
        for (size_t room = (size_t)1 << 10; room <= (size_t)64 << 20; room *= 2) {
            const uint32_t samples = samples_of(room, 32, training != 0);
            assert_in_range(samples, before, 32);
            before = samples;
        }
        assert_int_equal(before, 32);
        assert_int_equal(samples_of((size_t)1 << 10, 32, training != 0), 0);
    }
}

TESTS_MAIN_WITH_TEAMS
