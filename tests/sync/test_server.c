/* Tests of the copy of the parameters in host memory: updates by parts are those of a whole, and updates of single
 * towers have together the effect of one. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "compute/net.h"
#include "stage/random.h"
#include "sync/server.h"
#include "tests/helpers/test.h"

enum { TOWERS = 3, FLOATS_MAX = 2048, BATCH = 10 };

static struct net *net;
static struct arenas arenas;
static struct buckets buckets;
static struct server *server;
static float gradients[TOWERS][FLOATS_MAX], first[FLOATS_MAX];

static const struct schedule schedule = { .records = { 25, 0 }, .batch = BATCH, .towers = TOWERS, .epochs = 2 };
static const struct learning_rate rate = { .base = 0.1 };
static const struct optimizer sgd = { .kind = OPTIMIZER_SGD, .weight_decay = 0.01f };
static const struct optimizer adam = { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8f };
static const struct optimizer lars = { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.1, .weight_decay = 0.01f };
static const struct optimizer clipped = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .clip_norm = 0.1 };
static const struct optimizer *const rules[] = { &sgd, &adam, &lars, &clipped };
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

static float draw(uint64_t stream, size_t i)
{
    return (float)(random_u64(random_key(stream, RANDOM_DRAW, 0), i) % 2001) / 1000.0f - 1.0f;
}

static int make_net(void **state)
{
    (void)state;
    size_t counts[8];
    assert_int_equal(net_open(&net, "two", (struct shape){ 1, 4, 4 }, 5), 0);
    uint32_t last = (uint32_t)net_dense(net, "a", NET_INPUT, 37, true);
    last = (uint32_t)net_dense(net, "b", last, 5, true);
    net_softmax_loss(net, "loss", last);
    assert_int_equal(net_finish(net), 0);
    for (uint32_t i = 0; i < net->parameter_count; i++)
        counts[i] = net->parameters[i].count;
    assert_int_equal(arenas_init(&arenas, net, counts, 0), 0);
    assert_in_range(arenas.trained.updated, 1, FLOATS_MAX);
    buckets_add(&buckets, REGION_GRADIENTS, &arenas.trained, 100);
    assert_true(buckets.count > 2);
    return 0;
}

static int close_net(void **state)
{
    (void)state;
    arenas_release(&arenas);
    net_close(net);
    return 0;
}

/* The same weights and gradients each time. */
static void open_server(const struct optimizer *optimizer)
{
    const struct server_rules all = { net, &arenas.trained, optimizer, &schedule, &rate, false };
    assert_int_equal(server_open(&server, &all, &buckets), 0);
    float *const weights = server_floats(server, REGION_WEIGHTS);
    for (size_t i = 0; i < arenas.trained.updated; i++) {
        weights[i] = first[i] = draw(99, i);
        for (uint32_t d = 0; d < TOWERS; d++)
            gradients[d][i] = draw(d, i);
    }
}

static void sum_gradients(void)
{
    float *const sums = server_floats(server, REGION_GRADIENTS);
    for (size_t i = 0; i < arenas.trained.updated; i++)
        sums[i] = gradients[0][i] + gradients[1][i] + gradients[2][i];
}

/* By `parts` of the arena, the norms by all towers. */
static void update_all(uint64_t batch, uint32_t parts)
{
    const size_t count = arenas.trained.updated;
    for (uint32_t d = 0; d < TOWERS; d++)
        server_square(server, d);
    for (uint32_t part = 0; part < parts; part++)
        server_update(server, part % TOWERS, count * part / parts, count * (part + 1) / parts, batch);
}

TEST(parts_of_an_update_are_the_update_of_the_whole)
{
    static float whole[FLOATS_MAX];
    const size_t bytes = arenas.trained.updated * sizeof(float);
    for (int i = 0; i < RULES; i++)
        for (uint32_t parts = 1; parts < 8; parts++) {
            open_server(rules[i]);
            for (uint64_t batch = 0; batch < 3; batch++) {
                sum_gradients();
                update_all(batch, parts);
            }
            float *const weights = server_floats(server, REGION_WEIGHTS);
            if (parts == 1)
                memcpy(whole, weights, bytes);
            assert_memory_equal(weights, whole, bytes);
            assert_memory_not_equal(weights, first, bytes);
            server_close(server);
        }
}

static void push_all(uint64_t batch, uint32_t delay)
{
    for (uint32_t d = 0; d < TOWERS; d++)
        for (uint32_t b = 0; b < buckets.count; b++)
            server_push(server, d, gradients[d], b, batch, delay);
}

/* 10 samples are 4, 3 and 3; without decay the order of three updates makes no difference but rounding. */
TEST(updates_of_single_towers_have_the_effect_of_one)
{
    static const struct optimizer plain = { .kind = OPTIMIZER_SGD };
    static float together[FLOATS_MAX];
    const size_t count = arenas.trained.updated;
    open_server(&plain);
    sum_gradients();
    update_all(0, 1);
    memcpy(together, server_floats(server, REGION_WEIGHTS), count * sizeof(float));
    server_close(server);
    open_server(&plain);
    push_all(0, 1);
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(server_floats(server, REGION_WEIGHTS)[i] - together[i]) <= 1e-6f);
    server_close(server);
}

TEST(a_rate_that_is_divided_moves_weights_by_as_much_less)
{
    static const struct optimizer plain = { .kind = OPTIMIZER_SGD };
    static float once[FLOATS_MAX];
    const size_t count = arenas.trained.updated;
    open_server(&plain);
    push_all(0, 1);
    memcpy(once, server_floats(server, REGION_WEIGHTS), count * sizeof(float));
    server_close(server);
    open_server(&plain);
    push_all(0, 4);
    for (size_t i = 0; i < count; i++)
        assert_true(fabsf(4 * (server_floats(server, REGION_WEIGHTS)[i] - first[i]) - (once[i] - first[i])) <= 2e-6f);
    server_close(server);
}

/* Its own gradient of 4 samples is shortened to the norm, and moves the weights by its share of the rate. */
TEST(norms_of_one_tower_are_of_its_own_gradients)
{
    static const struct optimizer rule = { .kind = OPTIMIZER_SGD, .clip_norm = 0.1 };
    double squares = 0;
    open_server(&rule);
    server_push(server, 0, gradients[0], 0, 0, 1);
    for (size_t i = 0; i < arenas.trained.updated; i++) {
        const double moved = (double)server_floats(server, REGION_WEIGHTS)[i] - (double)first[i];
        squares += moved * moved;
    }
    assert_float_equal(sqrt(squares), 0.1 * 0.1 * 4 / 10, 1e-6);
    server_close(server);
}

TEST(what_is_fetched_is_all_weights)
{
    static float fetched[FLOATS_MAX];
    open_server(&adam);
    push_all(1, 1);
    server_fetch(server, fetched);
    assert_memory_equal(fetched, server_floats(server, REGION_WEIGHTS), arenas.trained.updated * sizeof(float));
    assert_memory_not_equal(fetched, first, arenas.trained.updated * sizeof(float));
    server_close(server);
}

TESTS_MAIN(make_net, close_net)
