/* Tests of values that grow: every concatenation of a densely connected block appends channels in one buffer.
 * Results match the reference, and values grow where possible and nowhere else. */
#include <stdio.h>
#include <string.h>

#include "compute/model.h"
#include "compute/onednn/onednn_plan.h"
#include "tests/helpers/network/network_check.h"
#include "tests/helpers/team_sleep.h"
#include "tests/helpers/test.h"

enum { COUNT = 5, SAMPLES = 7, LAYERS = 4 };

/* What a block has besides a normalisation and a convolution per layer. */
enum extra { EXTRA_NONE, EXTRA_SECOND_NORM, EXTRA_POOL, EXTRA_TWICE, EXTRA_SIDE, EXTRA_LATER, EXTRAS };

/* A net under construction. */
struct draft { struct net *net; char name[24]; };

static const struct batch_norm soft = { .decay = 0.75, .epsilon = 0.05f, .with_gamma = true };

static const char *name_next(struct draft *draft)
{
    snprintf(draft->name, sizeof(draft->name), "layer%u", draft->net->layer_count);
    return draft->name;
}

static uint32_t norm(struct draft *draft, uint32_t from)
{
    return (uint32_t)net_batch_norm(draft->net, name_next(draft), from, soft);
}

static uint32_t conv(struct draft *draft, uint32_t from, uint32_t filters)
{
    return (uint32_t)net_conv2d(draft->net, name_next(draft), from, filters, window_square(3, 1, PADDING_SAME), true);
}

static uint32_t norm_relu_conv(struct draft *draft, uint32_t from, uint32_t filters)
{
    const uint32_t at = norm(draft, from);
    return conv(draft, (uint32_t)net_relu(draft->net, name_next(draft), at), filters);
}

static uint32_t concat(struct draft *draft, const uint32_t *ways, uint32_t count)
{
    return (uint32_t)net_concat(draft->net, name_next(draft), ways, count);
}

/* Append one layer of the block. */
static uint32_t dense_layer(struct draft *draft, uint32_t from, uint32_t growth, enum extra extra)
{
    uint32_t made = norm_relu_conv(draft, from, growth);
    if (extra == EXTRA_SECOND_NORM)
        made = (uint32_t)net_add(draft->net, name_next(draft), made, norm_relu_conv(draft, from, growth));
    if (extra == EXTRA_SIDE)
        made = norm_relu_conv(draft, concat(draft, (const uint32_t[]){ from, made }, 2), growth);
    uint32_t ways[] = { from, made, from };
    if (extra == EXTRA_POOL)
        ways[2] = (uint32_t)net_average_pool(draft->net, name_next(draft), from, window_square(3, 1, PADDING_SAME));
    const uint32_t at = concat(draft, ways, extra == EXTRA_POOL || extra == EXTRA_TWICE ? 3 : 2);
    if (extra != EXTRA_LATER)
        return at;
    return concat(draft, (const uint32_t[]){ at, norm_relu_conv(draft, from, growth) }, 2);
}

/* Layer `where` has the extra. */
static struct net *net_of_a_block(uint32_t growth, enum extra extra, uint32_t where)
{
    struct draft draft = { .net = network_net_begin("block", (struct shape){ 3, 6, 5 }, 4) };
    uint32_t at = conv(&draft, NET_INPUT, 6);
    for (uint32_t i = 0; i < LAYERS; i++)
        at = dense_layer(&draft, at, growth + i % 2, i == where ? extra : EXTRA_NONE);
    at = (uint32_t)net_relu(draft.net, name_next(&draft), norm(&draft, at));
    return network_net_end(draft.net, net_global_average(draft.net, name_next(&draft), at));
}

/* ---- results ---- */

static void open_laid_out(struct network *network, const char *backend, const struct net *net, enum layout layout)
{
    network_open_settings(network, backend, net, (struct backend_spec){ .local_max = COUNT, .layout = layout });
}

static void for_each_block(void (*check)(const char *backend, struct net *net, uint32_t seed), const char *backend)
{
    static const uint32_t growths[] = { 1, 3, 12, 17 };
    const uint32_t step = test_is_long() ? 1 : 3;       /* a step of three covers every extra, place and growth */
    for (uint32_t block = 0, seed = 0; block < EXTRAS * LAYERS; block += step, seed++)
        check(backend, net_of_a_block(growths[block % 4], (enum extra)(block / LAYERS), block % LAYERS), seed);
}

static void check_block(const char *backend, struct net *net, uint32_t seed)
{
    network_check_net(backend, net, (struct backend_spec){ .local_max = COUNT, .threads = 1 + seed % 3 }, seed);
}

static void check_block_together(const char *backend, struct net *net, uint32_t seed)
{
    network_check_net(backend, net, (struct backend_spec){ .local_max = COUNT, .layout = LAYOUT_NHWC }, seed);
}

TEST_ON_EACH_BACKEND(blocks_match_the_reference)
{
    for_each_block(check_block, backend);
    for_each_block(check_block_together, backend);
}

static uint32_t count_sub_batches(struct network *network, const struct net *net, bool training)
{
    struct plan *plan;
    uint32_t count = 0;
    const struct plan_spec spec = { .count = SAMPLES, .training = training };
    assert_int_equal(network->ops->plan(network->backend, &spec, &plan), 0);
    for (uint32_t v = 0; v <= net->layer_count; v++)
        count += value_sub_batch(plan, v) != 0;
    network->ops->plan_close(plan);
    return count;
}

/* One sample per thread and sub-batch; the last sub-batch is smaller. */
static void check_block_in_sub_batches(const char *backend, struct net *net, uint32_t seed)
{
    struct network network;
    network_open(&network, backend, net, SAMPLES, 1 + seed % 3);
    network.backend->sub_batch_bytes = 1;
    for (int training = 0; training <= 1; training++)
        assert_in_range(count_sub_batches(&network, net, training != 0), 1, NET_LAYERS_MAX);
    network_compare_with_reference(&network, SAMPLES, seed);
    network_close(&network);
    net_close(net);
}

TEST(sub_batches_match_the_reference)
{
    for_each_block(check_block_in_sub_batches, "onednn");
}

/* All parameters before one are frozen, also of a convolution whose normalisation then has no backward. */
static void check_front_frozen(const char *backend, struct net *net, uint32_t seed)
{
    struct network network;
    for (uint32_t p = 0; p < 1 + seed % (net->parameter_count - 2); p++)
        if (net->parameters[p].is_trained)
            net_freeze(net, p);
    network_open_settings(&network, backend, net, (struct backend_spec){ .local_max = SAMPLES, .poison = true });
    network.backend->sub_batch_bytes = 1;
    network_compare_with_reference(&network, SAMPLES, seed);
    network_close(&network);
    net_close(net);
}

TEST(sub_batches_are_recomputed_where_nothing_before_is_trained)
{
    for_each_block(check_front_frozen, "onednn");
}

static void compare_poisoned(const char *backend, struct net *net, uint32_t seed, bool in_sub_batches)
{
    struct backend_input input = network_input(net, COUNT, seed);
    struct network network, poisoned;
    network_open(&network, backend, net, COUNT, 1);
    network_open_settings(&poisoned, backend, net, (struct backend_spec){ .local_max = COUNT, .poison = true });
    if (in_sub_batches)
        network.backend->sub_batch_bytes = poisoned.backend->sub_batch_bytes = 1;
    network_draw_weights(&network, seed);
    network_draw_weights(&poisoned, seed);
    network_compare_bits(&poisoned, &network, &input, COUNT);
    network_close(&network);
    network_close(&poisoned);
    network_input_release(&input);
    net_close(net);
}

static void check_poisoned(const char *backend, struct net *net, uint32_t seed)
{
    compare_poisoned(backend, net, seed, false);
}

static void check_sub_batches_poisoned(const char *backend, struct net *net, uint32_t seed)
{
    compare_poisoned(backend, net, seed, true);
}

static void check_all_poisoned(const char *backend)
{
    for_each_block(check_poisoned, backend);
}

TEST(unused_memory_is_never_read)
{
    network_for_each_backend(check_all_poisoned);
    for_each_block(check_sub_batches_poisoned, "onednn");
}

/* ---- where values grow ---- */

static uint32_t count_fronts(struct net *net, enum layout layout, bool training)
{
    struct network network;
    struct plan *plan;
    uint32_t count = 0;
    open_laid_out(&network, "onednn", net, layout);
    const struct plan_spec spec = { .count = COUNT, .training = training };
    assert_int_equal(network.ops->plan(network.backend, &spec, &plan), 0);
    for (uint32_t v = 0; v <= net->layer_count; v++)
        count += value_is_front(&plan->base.values, v);
    network.ops->plan_close(plan);
    network_close(&network);
    net_close(net);
    return count;
}

TEST(only_contiguous_channels_grow)
{
    for (int training = 0; training <= 1; training++) {
        assert_int_equal(count_fronts(net_of_a_block(12, EXTRA_NONE, 0), LAYOUT_NHWC, training != 0), LAYERS - 1);
        assert_int_equal(count_fronts(net_of_a_block(12, EXTRA_NONE, 0), LAYOUT_NCHW, training != 0), 0);
    }
}

/* A concatenation of a side branch copies; so do values that others read from their middle or as a whole. */
TEST(values_read_in_another_way_do_not_grow)
{
    static const uint32_t fronts[EXTRAS] = {
        [EXTRA_NONE] = 3, [EXTRA_SECOND_NORM] = 3, [EXTRA_POOL] = 2, [EXTRA_TWICE] = 2, [EXTRA_SIDE] = 3,
        [EXTRA_LATER] = 3,
    };
    for (uint32_t extra = 0; extra < EXTRAS; extra++)
        assert_int_equal(count_fronts(net_of_a_block(5, (enum extra)extra, 2), LAYOUT_NHWC, true), fronts[extra]);
}

/* Every concatenation of a block except the first, which copies the block's input into the buffer. */
static void assert_grows(const struct net *net, const struct plan *plan)
{
    uint32_t grown = 0;
    for (uint32_t i = 0; i < net->layer_count; i++) {
        const struct layer *const layer = &net->layers[i];
        if (layer->kind != LAYER_CONCAT || net->layers[layer->inputs[0]].kind != LAYER_CONCAT)
            continue;
        assert_true(value_memory_grows(&plan->base.values, i));
        grown++;
    }
    assert_in_range(grown, 30, NET_LAYERS_MAX);
}

TEST(all_blocks_of_the_models_grow_in_place)
{
    uint32_t models = 0;
    for (const struct model *model = model_table; model->name != NULL; model++) {
        struct net *net;
        struct network network;
        if (strncmp(model->name, "densenet", strlen("densenet")) != 0)
            continue;
        assert_int_equal(model_open(&net, model->name, &(const struct model_options){ .dropout = true }), 0);
        open_laid_out(&network, "onednn", net, LAYOUT_NHWC);
        for (int training = 0; training <= 1; training++) {
            struct plan *plan;
            const struct plan_spec spec = { .count = COUNT, .training = training != 0 };
            assert_int_equal(network.ops->plan(network.backend, &spec, &plan), 0);
            assert_grows(net, plan);
            network.ops->plan_close(plan);
        }
        network_close(&network);
        net_close(net);
        models++;
    }
    assert_int_equal(models, 4);
}

/* ---- memory ---- */

static size_t bytes_of(struct net *net, enum layout layout)
{
    struct network network;
    struct plan *plan;
    open_laid_out(&network, "onednn", net, layout);
    const struct plan_spec spec = { .count = COUNT, .training = false };
    assert_int_equal(network.ops->plan(network.backend, &spec, &plan), 0);
    const size_t bytes = plan->base.values.bytes;
    network.ops->plan_close(plan);
    network_close(&network);
    net_close(net);
    return bytes;
}

TEST(a_block_takes_less_memory_where_it_grows)
{
    assert_true(bytes_of(net_of_a_block(16, EXTRA_NONE, 0), LAYOUT_NHWC) <
                bytes_of(net_of_a_block(16, EXTRA_POOL, 2), LAYOUT_NHWC));
}

TESTS_MAIN_WITH_TEAMS
