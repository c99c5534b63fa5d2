/* Tests of networks of which a part is frozen: the rest learns as if nothing were, nothing else moves, and what
 * nobody needs is not computed. */
#include <stdlib.h>

#include "compute/plan/plan.h"
#include "stage/random.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/test.h"

/* The thread sanitizer, ten times slower, looks at threads and not at shapes. */
#ifdef __SANITIZE_THREAD__
enum { NETS = 8 };
#else
enum { NETS = 64 };
#endif
enum { COUNT = 5, FRONT_SIDE = 12 };

static bool is_any_left(const struct net *net)
{
    for (uint32_t p = 0; p < net->parameter_count; p++)
        if (parameter_is_updated(&net->parameters[p]))
            return true;
    return false;
}

/* Every second seed the front of the net up to somewhere, else parameters here and there. False: nothing is left. */
static bool freeze_some(struct net *net, uint32_t seed)
{
    const struct random_key key = random_key(seed, RANDOM_DRAW, 9);
    const uint32_t border = (uint32_t)(random_u64(key, UINT32_MAX) % (net->parameter_count + 1));
    for (uint32_t p = 0; p < net->parameter_count; p++)
        if (net->parameters[p].is_trained && (seed % 2 == 0 ? p < border : random_u64(key, p) % 2 == 0))
            net_freeze(net, p);
    return is_any_left(net);
}

static void compare_with_all_trained(const char *backend, uint32_t seed)
{
    struct net *const net = network_random_graph(5000 + seed, 0.4f), *const trained = network_random_graph(5000 + seed,
                                                                                                         0.4f);
    struct backend_input input = network_input(net, COUNT, seed);
    struct network network, reference;
    if (freeze_some(net, seed)) {
        network_open_settings(&network, backend, net, (struct backend_spec){ .local_max = COUNT, .poison = true });
        network_open(&reference, "reference", trained, COUNT, 1);
        network_draw_weights(&network, seed);
        network_draw_weights(&reference, seed);
        network_compare(&network, &reference, &input, COUNT);
        network_close(&reference);
        network_close(&network);
    }
    network_input_release(&input);
    net_close(trained);
    net_close(net);
}

TEST_ON_EACH_BACKEND(what_is_left_has_the_gradients_it_had_before)
{
    for (uint32_t seed = 0; seed < NETS; seed++)
        compare_with_all_trained(backend, seed);
}

/* ---- what is left out ---- */

static struct net *net_of_many_layers(void)
{
    static const struct batch_norm how = { .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true };
    static const char *const names[][3] = { { "conv0", "norm0", "relu0" }, { "conv1", "norm1", "relu1" },
                                            { "conv2", "norm2", "relu2" }, { "conv3", "norm3", "relu3" } };
    struct net *const net = network_net_begin("deep", (struct shape){ 3, FRONT_SIDE, FRONT_SIDE }, 4);
    int64_t last = NET_INPUT;
    for (uint32_t i = 0; i < 4; i++) {
        last = net_conv2d(net, names[i][0], (uint32_t)last, 16, window_square(3, 1, PADDING_SAME), false);
        last = net_batch_norm(net, names[i][1], (uint32_t)last, how);
        last = net_relu(net, names[i][2], (uint32_t)last);
    }
    return network_net_end(net, net_global_average(net, "mean", (uint32_t)last));
}

static void freeze_front(struct net *net)
{
    for (uint32_t p = 0; p < net->parameter_count; p++)
        if (net->parameters[p].is_trained && net->parameters[p].dims[0] != 4)
            net_freeze(net, p);
}

/* Bytes of a training plan's values, gradients and buffers. */
static size_t bytes_of_values(const struct network *network)
{
    size_t most = 0;
    for (uint32_t i = 0; i < network->plan_count; i++) {
        const struct plan_base *const base = (const struct plan_base *)(const void *)network->plans[i];
        most = base->training && base->values.bytes > most ? base->values.bytes : most;
    }
    return most;
}

/* Returns the bytes it needs. */
static size_t run_step(struct network *network, const char *backend, const struct net *net)
{
    struct backend_input input = network_input(net, COUNT, 1);
    network_open_settings(network, backend, net, (struct backend_spec){ .local_max = COUNT, .poison = true });
    network_draw_weights(network, 1);
    network_run(network, &input, 0, COUNT, true);
    network_input_release(&input);
    return bytes_of_values(network);
}

/* Only the dense layer goes back: it alone is reported, and of the values in front none is kept. */
TEST_ON_EACH_BACKEND(layers_in_front_of_all_that_learns_do_nothing_backward)
{
    struct net *const net = net_of_many_layers();
    struct network network;
    const size_t all = run_step(&network, backend, net);
    network_close(&network);
    freeze_front(net);
    assert_true(2 * run_step(&network, backend, net) < all);
    assert_int_equal(network.done_count, 1);
    assert_int_equal(net->layers[network.done[0]].kind, LAYER_DENSE);
    network_close(&network);
    net_close(net);
}

/* ---- the description ---- */

TEST(a_layer_is_frozen_when_all_of_it_is)
{
    struct net *const net = net_of_many_layers();
    const struct layer *const norm = &net->layers[1];
    const uint32_t gamma = norm->parameters[PARAMETER_GAMMA], beta = norm->parameters[PARAMETER_BETA];
    net_freeze(net, gamma);
    assert_true(layer_is_trained(norm));
    net_freeze(net, norm->parameters[PARAMETER_RUNNING_MEAN]);
    assert_false(net->parameters[norm->parameters[PARAMETER_RUNNING_MEAN]].is_frozen);
    net_freeze(net, beta);
    net_freeze(net, beta);
    assert_false(layer_is_trained(norm));
    assert_int_equal(net->frozen_count, 2 * 16);
    net_close(net);
}

TEST(what_is_frozen_is_stored_after_all_others)
{
    struct net *const net = net_of_many_layers();
    size_t *const counts = calloc(net->parameter_count, sizeof(*counts));
    struct arenas arenas;
    assert_non_null(counts);
    for (uint32_t p = 0; p < net->parameter_count; p++)
        counts[p] = net->parameters[p].count;
    freeze_front(net);
    assert_int_equal(arenas_init(&arenas, net, counts, 0), 0);
    assert_int_equal(arenas.trained.updated, 64 + 16);
    for (uint32_t p = 0; p < net->parameter_count; p++)
        if (net->parameters[p].is_trained)
            assert_int_equal(arenas.trained.ranges[p].offset >= arenas.trained.updated, net->parameters[p].is_frozen);
    assert_int_equal(arena_ready(&arenas.trained, net, net->layer_count - 2), arenas.trained.updated);
    arenas_release(&arenas);
    free(counts);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
