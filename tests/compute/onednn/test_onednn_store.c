/* Tests of the storage of parameters in oneDNN's layouts: nothing is lost, and padding is zero. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/network/step_fixture.h"
#include "tests/helpers/test.h"

static void assert_unpacks(const struct net *net, enum layout layout)
{
    struct step_fixture rig;
    step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, 4, layout });
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        float *plain = plain_alloc(net, i), *again = plain_alloc(net, i);
        plain_draw(net, i, plain);
        assert_int_equal(rig.ops->unpack(rig.backend, i, rig.weights + rig.arenas.trained.ranges[i].offset, again), 0);
        assert_memory_equal(plain, again, net->parameters[i].count * sizeof(*plain));
        free(plain);
        free(again);
    }
    step_fixture_close(&rig);
}

TEST(packing_and_unpacking_gives_the_same_parameters)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct net *net = net_of_seed(seed);
        assert_unpacks(net, (enum layout)(seed % 3));
        net_close(net);
    }
}

/* Rows read four at a time, and a rest. */
TEST(packing_and_unpacking_gives_the_same_many_channels)
{
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

TEST(packing_and_unpacking_gives_the_same_large_windows)
{
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

TEST(padding_is_zero_in_packed_weights_and_in_gradients)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct net *net = net_of_seed(seed);
        struct samples samples;
        struct step_fixture rig;
        samples_draw(&samples, net, seed);
        step_fixture_open(&rig, &backend_onednn_ops, net, (struct rig_options){ 1, 4, LAYOUT_AUTO });
        struct outcome outcome = step_fixture_run(&rig, &samples, 0, 4);
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
        step_fixture_close(&rig);
        free(samples.pixels);
        net_close(net);
    }
}

TESTS_MAIN(NULL, NULL)
