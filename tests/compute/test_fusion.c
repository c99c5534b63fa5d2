/* Tests of the pass that finds which layers are computed as one. */
#include "compute/plan/fusion.h"
#include "tests/helpers/network/network.h"
#include "tests/helpers/test.h"

enum { GRAPHS = 200 };

static const struct fusion_rule rules[] = {
    { .head = LAYER_BATCH_NORM, .tail_count = 2, .tail = { LAYER_ADD, LAYER_RELU } },
    { .head = LAYER_BATCH_NORM, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_CONV2D, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_DENSE, .tail_count = 1, .tail = { LAYER_RELU } },
    { .head = LAYER_MAX_POOL, .tail_count = 1, .tail = { LAYER_DROPOUT }, .use = RULE_TRAINING },
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

/* A net that ends in a dense layer and a loss behind layer `last`, and its groups. */
struct folded_net { struct net *net; struct fusion fusion; };

static void folded_net_begin(struct folded_net *made)
{
    made->net = network_net_begin("case", (struct shape){ 4, 8, 8 }, 3);
}

static void folded_net_find(struct folded_net *made, bool training)
{
    network_net_end(made->net, made->net->layer_count - 1);
    assert_int_equal(fusion_open(&made->fusion, made->net, all_layers(made->net), rules, RULES, training), 0);
}

static void folded_net_end(struct folded_net *made)
{
    fusion_close(&made->fusion);
    net_close(made->net);
}

static const struct window square = {
    .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, .padding = PADDING_SAME,
};
static const struct batch_norm usual = { .decay = 0.9, .epsilon = 1e-5f, .with_gamma = true };

/* conv (0) - relu (1); from it two ways: a dense layer of its own (2) with an auxiliary loss (3), and the
 * rest of the net. */
TEST(evaluation_leaves_out_what_only_auxiliary_losses_read)
{
    for (int training = 0; training <= 1; training++) {
        struct folded_net made;
        folded_net_begin(&made);
        net_conv2d(made.net, "conv", NET_INPUT, 4, square, true);
        net_dense(made.net, "second", 0, 3, true);
        net_auxiliary_loss(made.net, "second_loss", 1, 0.5f);
        net_relu(made.net, "relu", 0);
        folded_net_find(&made, training != 0);
        for (uint32_t i = 1; i <= 2; i++) {
            assert_int_equal(fusion_is_head(&made.fusion, i), training);
            assert_int_equal(made.fusion.groups[i].head == FUSION_LEFT_OUT, !training);
        }
        assert_int_equal(made.fusion.readers[1], training ? 2 : 0);
        assert_int_equal(fusion_has(&made.fusion, 0, LAYER_RELU), !training);
        folded_net_end(&made);
    }
}

/* ---- what is folded ---- */

static void assert_folded(enum layer_kind kind, struct net *net, uint32_t tail, const struct fusion *fusion)
{
    const struct group *const group = &fusion->groups[0];
    assert_int_equal(net->layers[0].kind, kind);
    assert_int_equal(group->tail_count, 1);
    assert_int_equal(group->tail[0], tail);
    assert_int_equal(group->output, tail + 1);
    assert_false(fusion_is_head(fusion, tail));
    assert_int_equal(fusion->groups[tail].head, 0);
    assert_int_equal(fusion->readers[1], 0);
    assert_int_equal(fusion->readers[tail + 1], 1);
}

static int64_t conv_begin(struct net *net) { return net_conv2d(net, "head", NET_INPUT, 4, square, true); }
static int64_t dense_begin(struct net *net) { return net_dense(net, "head", NET_INPUT, 4, true); }
static int64_t norm_begin(struct net *net) { return net_batch_norm(net, "head", NET_INPUT, usual); }

TEST(a_relu_is_folded_into_the_layer_it_alone_reads)
{
    static const struct { enum layer_kind kind; int64_t (*begin)(struct net *net); } heads[] = {
        { LAYER_CONV2D, conv_begin },
        { LAYER_DENSE, dense_begin },
        { LAYER_BATCH_NORM, norm_begin },
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct folded_net made;
        folded_net_begin(&made);
        assert_int_equal(heads[i].begin(made.net), 0);
        net_relu(made.net, "relu", 0);
        folded_net_find(&made, false);
        assert_folded(heads[i].kind, made.net, 1, &made.fusion);
        assert_true(fusion_has(&made.fusion, 0, LAYER_RELU));
        assert_false(fusion_has(&made.fusion, 0, LAYER_ADD));
        assert_int_equal(made.fusion.groups[0].input_count, 1);
        assert_int_equal(made.fusion.groups[0].inputs[0], 0);
        folded_net_end(&made);
    }
}

TEST(a_rule_for_training_is_not_used_in_evaluation)
{
    for (int training = 0; training <= 1; training++) {
        struct folded_net made;
        folded_net_begin(&made);
        net_max_pool(made.net, "head", NET_INPUT, square);
        net_dropout(made.net, "dropout", 0, 0.5f);
        folded_net_find(&made, training != 0);
        assert_int_equal(fusion_has(&made.fusion, 0, LAYER_DROPOUT), training);
        assert_int_equal(fusion_is_head(&made.fusion, 1), !training);
        folded_net_end(&made);
    }
}

/* conv (0) - norm (3) - add (4) with pad (2) - relu (5); around: relu (1), pad (2). */
static void residual_begin(struct net *net, bool shortcut_first)
{
    net_conv2d(net, "conv", NET_INPUT, 8, square, false);
    net_relu(net, "other", NET_INPUT);
    if (shortcut_first)
        net_pad_channels(net, "shortcut", 1, 8, 1);
    net_batch_norm(net, "norm", 0, usual);
    if (!shortcut_first)
        net_pad_channels(net, "shortcut", 1, 8, 1);
    net_add(net, "add", shortcut_first ? 3 : 2, shortcut_first ? 2 : 3);
    net_relu(net, "relu", 4);
}

TEST(a_sum_and_its_relu_are_folded_into_the_normalisation)
{
    struct folded_net made;
    folded_net_begin(&made);
    residual_begin(made.net, true);
    folded_net_find(&made, true);
    const struct group *const group = &made.fusion.groups[3];
    assert_int_equal(group->tail_count, 2);
    assert_int_equal(group->tail[0], 4);
    assert_int_equal(group->tail[1], 5);
    assert_int_equal(group->output, 6);
    assert_int_equal(group->input_count, 2);
    assert_int_equal(group->inputs[0], 1);
    assert_int_equal(group->inputs[1], 3);
    assert_int_equal(made.fusion.readers[4] + made.fusion.readers[5], 0);
    folded_net_end(&made);
}

/* ---- what is not ---- */

TEST(what_is_made_after_the_head_keeps_a_sum_from_being_folded)
{
    struct folded_net made;
    folded_net_begin(&made);
    residual_begin(made.net, false);
    folded_net_find(&made, true);
    assert_int_equal(made.fusion.groups[2].tail_count, 0);
    for (uint32_t i = 0; i < made.net->layer_count; i++)
        assert_true(fusion_is_head(&made.fusion, i));
    folded_net_end(&made);
}

TEST(two_readers_keep_a_relu_from_being_folded)
{
    struct folded_net made;
    folded_net_begin(&made);
    net_conv2d(made.net, "conv", NET_INPUT, 4, square, true);
    net_relu(made.net, "relu", 0);
    net_add(made.net, "add", 1, 0);
    folded_net_find(&made, true);
    assert_int_equal(made.fusion.groups[0].tail_count, 0);
    assert_int_equal(made.fusion.readers[1], 2);
    assert_true(fusion_is_head(&made.fusion, 1));
    folded_net_end(&made);
}

TEST(a_sum_of_a_value_with_itself_is_not_folded)
{
    struct folded_net made;
    folded_net_begin(&made);
    net_batch_norm(made.net, "norm", NET_INPUT, usual);
    net_add(made.net, "add", 0, 0);
    net_relu(made.net, "relu", 1);
    folded_net_find(&made, true);
    assert_int_equal(made.fusion.groups[0].tail_count, 0);
    assert_int_equal(made.fusion.readers[1], 2);
    assert_int_equal(made.fusion.groups[1].input_count, 2);
    folded_net_end(&made);
}

TEST(no_rules_fold_nothing)
{
    struct net *const net = network_random_graph(1, 0.5f);
    struct fusion fusion;
    assert_int_equal(fusion_open(&fusion, net, all_layers(net), NULL, 0, true), 0);
    for (uint32_t i = 0; i < net->layer_count; i++) {
        assert_true(fusion_is_head(&fusion, i));
        assert_int_equal(fusion.groups[i].output, i + 1);
    }
    fusion_close(&fusion);
    net_close(net);
}

/* ---- graphs at random ---- */

/* How often groups name the value as an input. */
static uint32_t count_readers(const struct fusion *fusion, uint32_t value, uint32_t *reader_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fusion->net->layer_count; i++)
        for (uint32_t k = 0; fusion_is_head(fusion, i) && k < fusion->groups[i].input_count; k++)
            if (fusion->groups[i].inputs[k] == value) {
                *reader_out = i;
                count++;
            }
    return count;
}

/* Everything a group reads is there when its head's turn comes. */
static void check_order(const struct fusion *fusion, uint32_t head)
{
    const struct group *const group = &fusion->groups[head];
    for (uint32_t k = 0; k < group->input_count; k++) {
        const uint32_t value = group->inputs[k];
        assert_true(value <= head);
        if (value > 0) {
            const uint32_t maker = fusion->groups[value - 1].head;
            assert_true(maker < head);
            assert_int_equal(fusion->groups[maker].output, value);
        }
    }
}

static void check_graph(const struct fusion *fusion)
{
    for (uint32_t i = 0; i < fusion->net->layer_count; i++)
        if (fusion_is_head(fusion, i))
            check_order(fusion, i);
        else if (fusion->groups[i].head != FUSION_LEFT_OUT)
            assert_true(fusion_is_head(fusion, fusion->groups[i].head) && fusion->groups[i].head < i);
    for (uint32_t v = 0; v <= fusion->net->layer_count; v++) {
        uint32_t reader = NET_INPUT;
        const uint32_t count = count_readers(fusion, v, &reader);
        assert_int_equal(fusion->readers[v], count);
        assert_int_equal(fusion_only_reader(fusion, v), count == 1 ? reader : NET_INPUT);
    }
}

TEST(every_group_reads_what_groups_before_it_made)
{
    uint32_t folded = 0;
    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        struct net *const net = network_random_graph(seed, 0.5f);
        struct fusion fusion;
        assert_int_equal(fusion_open(&fusion, net, all_layers(net), rules, RULES, seed % 2 == 0), 0);
        check_graph(&fusion);
        for (uint32_t i = 0; i < net->layer_count; i++)
            folded += fusion.groups[i].head == i && fusion.groups[i].tail_count == 2;
        fusion_close(&fusion);
        net_close(net);
    }
    assert_true(folded > 10);
}

TESTS_MAIN(NULL, NULL)
