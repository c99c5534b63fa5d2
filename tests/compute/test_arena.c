/* Tests of the arena layout: reverse layer order, alignment, and what is ready when. */
#include <stdio.h>

#include "compute/arena.h"
#include "stage/random.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"

enum { LAYERS_MAX = 12, NETS = 100 };

static uint32_t draw(uint32_t seed, uint32_t index, uint32_t below)
{
    return (uint32_t)(random_u64(random_key(seed, RANDOM_DRAW, 0), index) % below);
}

static uint32_t layer_append(struct net *net, const char *name, uint32_t from, uint32_t kind, uint32_t units)
{
    switch (kind) {
    case 0:
        return (uint32_t)net_relu(net, name, from);
    case 1:
        return (uint32_t)net_batch_norm(net, name, from, (struct batch_norm){ 0.9, 1e-5f, units % 2 == 0 });
    default:
        return (uint32_t)net_dense(net, name, from, units, true);
    }
}

/* A chain of dense layers, normalisations and ReLUs, at random, that ends in a loss over 3 classes. */
static struct net *net_random(uint32_t seed)
{
    struct net *const net = network_net_begin("random", (struct shape){ 1, 3, 4 }, 3);
    char name[16];
    uint32_t from = NET_INPUT;
    const uint32_t layers = draw(seed, 0, LAYERS_MAX);
    for (uint32_t i = 0; i < layers; i++) {
        snprintf(name, sizeof(name), "layer%u", i);
        from = layer_append(net, name, from, draw(seed, 2 * i + 1, 4), 1 + draw(seed, 2 * i + 2, 40));
    }
    return network_net_end(net, from);
}

/* Stored counts as a backend might choose them: the plain count, some padded. */
static void counts_init(const struct net *net, uint32_t seed, size_t *counts)
{
    for (uint32_t i = 0; i < net->parameter_count; i++)
        counts[i] = net->parameters[i].count + draw(seed, 100 + i, 20);
}

/* In reverse layer order and, in a layer, as they come: those that are trained, or the others. */
static void check_layout(const struct arena *arena, const struct net *net, const size_t *counts, bool is_trained)
{
    size_t expected = 0;
    for (uint32_t layer = net->layer_count; layer-- > 0;)
        for (uint32_t i = 0; i < net->parameter_count; i++) {
            if (net->parameters[i].layer != layer || net->parameters[i].is_trained != is_trained)
                continue;
            assert_int_equal(arena->ranges[i].offset, expected);
            assert_int_equal(arena->ranges[i].count, counts[i]);
            expected = (expected + counts[i] + 15) / 16 * 16;
        }
    assert_int_equal(arena->count, expected);
}

/* The prefix is the end of the last trained parameter of a layer >= `layer`, and the next begins there. */
static void check_ready(const struct arena *arena, const struct net *net)
{
    size_t before = 0;
    for (uint32_t layer = net->layer_count; layer-- > 0;) {
        const size_t ready = arena_ready(arena, net, layer);
        assert_true(ready >= before);
        for (uint32_t i = 0; i < arena->parameter_count; i++) {
            const struct arena_range *range = &arena->ranges[i];
            if (!net->parameters[i].is_trained)
                continue;
            if (net->parameters[i].layer >= layer)
                assert_true(range->offset + range->count <= ready);
            else
                assert_true(range->offset >= ready);
        }
        before = ready;
    }
    assert_int_equal(before, arena->count);
}

enum { PARAMETERS_MAX = 4 * (LAYERS_MAX + 2) };

static void for_each_net(void (*check)(const struct arenas *arenas, const struct net *net, const size_t *counts))
{
    size_t counts[PARAMETERS_MAX];
    struct arenas arenas;
    for (uint32_t seed = 0; seed < NETS; seed++) {
        struct net *const net = net_random(seed);
        counts_init(net, seed, counts);
        assert_int_equal(arenas_init(&arenas, net, counts, 0), 0);
        check(&arenas, net, counts);
        arenas_release(&arenas);
        net_close(net);
    }
}

static void check_both_layouts(const struct arenas *arenas, const struct net *net, const size_t *counts)
{
    assert_int_equal(arenas->trained.parameter_count, net->parameter_count);
    check_layout(&arenas->trained, net, counts, true);
    check_layout(&arenas->statistics, net, counts, false);
}

TEST(parameters_lie_aligned_in_reverse_layer_order)
{
    for_each_net(check_both_layouts);
}

static void check_split(const struct arenas *arenas, const struct net *net, const size_t *counts)
{
    (void)counts;
    for (uint32_t i = 0; i < net->parameter_count; i++) {
        const bool is_trained = net->parameters[i].is_trained;
        const struct arena *const other = is_trained ? &arenas->statistics : &arenas->trained;
        assert_ptr_equal(arenas_of(arenas, net, i), is_trained ? &arenas->trained : &arenas->statistics);
        assert_true(other->ranges[i].offset == ARENA_ELSEWHERE);
        assert_int_equal(other->ranges[i].count, 0);
    }
}

TEST(what_is_trained_and_what_is_not_lie_apart)
{
    for_each_net(check_split);
}

static void check_prefixes(const struct arenas *arenas, const struct net *net, const size_t *counts)
{
    (void)counts;
    check_ready(&arenas->trained, net);
}

TEST(backward_makes_ever_longer_prefixes_ready)
{
    for_each_net(check_prefixes);
}

/* Of the prefixes that layers make ready every third, and nothing of the others. */
static void check_segments(const struct arenas *arenas, const struct net *net, const size_t *counts)
{
    const struct arena *const arena = &arenas->trained;
    size_t ends[LAYERS_MAX + 2];
    bool is_end[LAYERS_MAX + 2] = { false }, is_expected[LAYERS_MAX + 2] = { false };
    uint32_t trained = 0, count = 0;
    (void)counts;
    for (uint32_t layer = net->layer_count; layer-- > 0;) {
        if (!layer_is_trained(&net->layers[layer]))
            continue;
        is_expected[layer] = trained++ % 3 == 0;
        if (is_expected[layer])
            ends[count++] = arena_ready(arena, net, layer);
    }
    arena_segment_ends(arena, net, ends, count, is_end);
    for (uint32_t layer = 0; layer < net->layer_count; layer++)
        assert_int_equal(is_end[layer], is_expected[layer]);
}

TEST(a_segment_ends_with_the_layer_that_completes_its_prefix)
{
    for_each_net(check_segments);
}

TESTS_MAIN(NULL, NULL)
