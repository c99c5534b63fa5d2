/* Tests of the initial weights: Glorot's bounds and spread, and what they depend on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/init.h"
#include "stage/random.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"

/* Parameters conv.weight, conv.bias, classes.weight, classes.bias. */
static struct net *net_make(uint32_t filters)
{
    struct net *const net = network_net_begin("test", (struct shape){ 3, 12, 12 }, 10);
    return network_net_end(net, net_conv2d(net, "conv", NET_INPUT, filters, window_square(3, 1, PADDING_VALID), true));
}

static float *values_make(const struct net *net, uint32_t parameter, uint64_t seed)
{
    float *values = malloc(net->parameters[parameter].count * sizeof(*values));
    assert_non_null(values);
    init_parameter(net, parameter, seed, 1, values);
    return values;
}

static double limit_of(const struct net *net, uint32_t parameter)
{
    return sqrt(6.0 / (double)(net->parameters[parameter].fan_in + net->parameters[parameter].fan_out));
}

/* Of the numbers of a parameter, each divided by `scale`: means of their powers; parts of them; their ends. */
struct moments { double count, mean, square, cube, fourth, within_1, beyond_2, smallest, largest; };

static struct moments moments_of(const struct net *net, uint32_t parameter, uint64_t seed, double scale)
{
    const size_t count = net->parameters[parameter].count;
    float *const values = values_make(net, parameter, seed);
    struct moments found = { .count = (double)count };
    for (size_t i = 0; i < count; i++) {
        const double v = (double)values[i] / scale;
        found.mean += v / found.count;
        found.square += v * v / found.count;
        found.cube += v * v * v / found.count;
        found.fourth += v * v * v * v / found.count;
        found.within_1 += (fabs(v) < 1) / found.count;
        found.beyond_2 += (fabs(v) > 2) / found.count;
        found.smallest = fmin(found.smallest, v);
        found.largest = fmax(found.largest, v);
    }
    free(values);
    return found;
}

TEST(weights_are_uniform_within_the_glorot_limit)
{
    struct net *net = net_make(16);
    for (uint32_t p = 0; p < 4; p += 2) {
        const struct moments of = moments_of(net, p, 1, limit_of(net, p));
        assert_true(of.largest <= 1.000001 && of.smallest >= -1.000001);
        assert_true(fmax(of.largest, -of.smallest) >= 0.97);
        assert_true(fabs(of.mean) < 5 / sqrt(3 * of.count));
        assert_true(fabs(of.square * 3 - 1) < 5 / sqrt(of.count));
    }
    net_close(net);
}

TEST(the_glorot_fans_of_a_convolution_count_its_window)
{
    struct net *net = net_make(16);
    assert_true(fabs(limit_of(net, 0) - sqrt(6.0 / (9 * 3 + 9 * 16))) < 1e-12);
    assert_true(fabs(limit_of(net, 2) - sqrt(6.0 / (1600 + 10))) < 1e-12);
    net_close(net);
}

TEST(biases_are_zero)
{
    struct net *net = net_make(16);
    for (uint32_t p = 1; p < 4; p += 2) {
        float *values = values_make(net, p, 1);
        for (size_t i = 0; i < net->parameters[p].count; i++)
            assert_true(values[i] == 0);
        free(values);
    }
    net_close(net);
}

TEST(the_same_seed_gives_the_same_weights_and_another_seed_others)
{
    struct net *net = net_make(16);
    const size_t bytes = net->parameters[0].count * sizeof(float);
    float *first = values_make(net, 0, 7), *again = values_make(net, 0, 7), *other = values_make(net, 0, 8);
    assert_memory_equal(first, again, bytes);
    assert_memory_not_equal(first, other, bytes);
    free(first);
    free(again);
    free(other);
    net_close(net);
}

/* Scaled to the limit, an element is a function of seed, parameter and index alone. */
TEST(an_element_does_not_depend_on_how_many_there_are)
{
    struct net *small = net_make(5), *large = net_make(16);
    float *a = values_make(small, 0, 3), *b = values_make(large, 0, 3);
    for (size_t i = 0; i < small->parameters[0].count; i++)
        assert_true(fabs(a[i] / limit_of(small, 0) - b[i] / limit_of(large, 0)) < 1e-6);
    free(a);
    free(b);
    net_close(small);
    net_close(large);
}

/* 20,000 numbers, in parts that do not all begin where a block of random words does. */
TEST(any_number_of_threads_gives_the_same_weights)
{
    static const enum initializer_kind kinds[] = {
        INITIALIZER_CONSTANT, INITIALIZER_GLOROT_UNIFORM, INITIALIZER_TRUNCATED_NORMAL, INITIALIZER_NORMAL,
        INITIALIZER_UNIFORM,
    };
    struct net *net;
    assert_int_equal(net_open(&net, "one layer", (struct shape){ 1, 1, 2003 }, 10), 0);
    net_dense(net, "fc", NET_INPUT, 10, true);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        net_initialize(net, 0, PARAMETER_WEIGHT, (struct initializer){ kinds[k], 0.5f });
        float *const one = values_make(net, 0, 3), *const three = malloc(20030 * sizeof(*three));
        assert_non_null(three);
        init_parameter(net, 0, 3, 3, three);
        assert_memory_equal(one, three, 20030 * sizeof(*one));
        free(one);
        free(three);
    }
    net_close(net);
}

TEST(elements_do_not_repeat)
{
    enum { LOOKED_AT = 300 };
    struct net *net = net_make(16);
    float *values = values_make(net, 2, 3);
    for (int i = 0; i < LOOKED_AT; i++)
        for (int j = 0; j < i; j++)
            assert_true(values[i] != values[j]);
    free(values);
    net_close(net);
}

TEST(parameters_do_not_share_their_numbers)
{
    struct net *net = net_make(16);
    float *a = values_make(net, 0, 3), *b = values_make(net, 2, 3);
    size_t equal = 0;
    for (size_t i = 0; i < net->parameters[0].count; i++)
        equal += fabs(a[i] / limit_of(net, 0) - b[i] / limit_of(net, 2)) < 1e-6;
    assert_int_equal(equal, 0);
    free(a);
    free(b);
    net_close(net);
}

/* ---- other initialisers ---- */

static struct net *net_initialized(uint32_t filters, struct initializer initializer)
{
    struct net *const net = net_make(filters);
    assert_int_equal(net_initialize(net, 0, PARAMETER_WEIGHT, initializer), 0);
    return net;
}

/* A normal without its tails beyond 2 deviations: variance 0.7737, fourth moment 1.4162, and of what is
 * left 0.7152 lies within 1. */
TEST(a_truncated_normal_has_no_tails_and_the_moments_of_its_definition)
{
    struct net *const net = net_initialized(2000, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, 0.5f });
    const struct moments of = moments_of(net, 0, 5, 0.5);
    const double bound = 5 / sqrt(of.count), farthest = fmax(of.largest, -of.smallest);
    assert_true(farthest <= 2 && farthest > 1.99);
    assert_true(fabs(of.mean) < bound);
    assert_true(fabs(of.square - 0.77374) < bound);
    assert_true(fabs(of.cube) < 2 * bound);
    assert_true(fabs(of.fourth - 1.41613) < 2 * bound);
    assert_true(fabs(of.within_1 - 0.71522) < bound);
    net_close(net);
}

TEST(variance_scaling_gives_a_variance_of_1_over_the_fan_in)
{
    struct net *const net = net_initialized(2000, initializer_variance_scaling(27));
    const struct moments of = moments_of(net, 0, 6, 1);
    assert_true(fabs(of.square * 27 - 1) < 5 / sqrt(of.count));
    net_close(net);
}

/* Variance 1, fourth moment 3; 0.6827 lies within 1, 0.0455 beyond 2. */
TEST(a_normal_has_its_deviation_and_its_tails)
{
    struct net *const net = net_initialized(2000, (struct initializer){ INITIALIZER_NORMAL, 0.01f });
    const struct moments of = moments_of(net, 0, 5, 0.01);
    const double bound = 5 / sqrt(of.count);
    assert_true(fabs(of.mean) < bound);
    assert_true(fabs(of.square - 1) < 2 * bound);
    assert_true(fabs(of.fourth - 3) < 10 * bound);
    assert_true(fabs(of.within_1 - 0.68269) < bound);
    assert_true(fabs(of.beyond_2 - 0.04550) < bound);
    net_close(net);
}

TEST(a_uniform_fills_its_interval_whatever_the_fans)
{
    struct net *const net = net_initialized(2000, (struct initializer){ INITIALIZER_UNIFORM, 0.25f });
    const struct moments of = moments_of(net, 0, 5, 0.25);
    assert_true(of.smallest >= -1 && of.smallest < -0.9996 && of.largest < 1 && of.largest > 0.9996);
    assert_true(fabs(of.mean) < 5 / sqrt(3 * of.count));
    assert_true(fabs(of.square * 3 - 1) < 5 / sqrt(of.count));
    net_close(net);
}

TEST(the_normal_of_he_has_a_variance_of_2_over_the_fan_out)
{
    const struct initializer initializer = initializer_he_normal(9 * 64);
    assert_int_equal(initializer.kind, INITIALIZER_NORMAL);
    assert_true(fabs(initializer.value - sqrt(2.0 / 576)) < 1e-8);
}

/* So that no two elements of a parameter of any size share a number. */
TEST(a_normal_in_the_tails_is_drawn_again_2_to_the_40th_further)
{
    struct net *const net = net_initialized(16, (struct initializer){ INITIALIZER_TRUNCATED_NORMAL, 1 });
    const struct random_key key = random_key(3, RANDOM_WEIGHTS, 0);
    float *const values = values_make(net, 0, 3);
    uint32_t again = 0;
    for (uint64_t i = 0; i < net->parameters[0].count; i++) {
        uint64_t at = i;
        for (; fabsf(random_normal(key, at)) > 2; at += UINT64_C(1) << 40)
            again++;
        assert_true(values[i] == random_normal(key, at));
    }
    assert_true(again > 0);
    free(values);
    net_close(net);
}

TEST(a_truncated_normal_depends_on_seed_and_element_alone)
{
    const struct initializer normal = { INITIALIZER_TRUNCATED_NORMAL, 1 };
    struct net *const small = net_initialized(5, normal), *const large = net_initialized(16, normal);
    const size_t bytes = small->parameters[0].count * sizeof(float);
    float *const a = values_make(small, 0, 3), *const b = values_make(large, 0, 3), *const c = values_make(small, 0, 4);
    assert_memory_equal(a, b, bytes);
    assert_memory_not_equal(a, c, bytes);
    free(a);
    free(b);
    free(c);
    net_close(small);
    net_close(large);
}

TEST(gamma_and_the_running_variance_begin_at_1_and_the_rest_of_a_normalisation_at_0)
{
    static const float begins[PARAMETER_KIND_COUNT] = {
        [PARAMETER_GAMMA] = 1, [PARAMETER_BETA] = 0, [PARAMETER_RUNNING_MEAN] = 0, [PARAMETER_RUNNING_VARIANCE] = 1,
    };
    struct net *net;
    assert_int_equal(net_open(&net, "test", (struct shape){ 6, 2, 2 }, 10), 0);
    net_batch_norm(net, "norm", NET_INPUT, (struct batch_norm){ 0.9, 1e-5f, true });
    assert_int_equal(net->parameter_count, 4);
    for (uint32_t p = 0; p < 4; p++) {
        float *const values = values_make(net, p, 1);
        for (size_t i = 0; i < 6; i++)
            assert_true(values[i] == begins[net->parameters[p].kind]);
        free(values);
    }
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
