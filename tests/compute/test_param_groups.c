/* Tests of parameter groups: which parameters decay, which have a rate of their own. */
#include <stdlib.h>

#include "compute/param_groups.h"
#include "tests/helpers/test.h"

static struct net *net_make(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "small", (struct shape){ 3, 9, 7 }, 4), 0);
    net_conv2d(net, "conv", NET_INPUT, 5, window_square(3, 1, PADDING_VALID), true);
    net_batch_norm(net, "norm", 0, (struct batch_norm){ .decay = 0.9, .epsilon = 1e-3f, .with_gamma = true });
    net_dense(net, "fc1", 1, 11, true);
    net_dense(net, "fc2", 2, 4, false);
    net_softmax_loss(net, "loss", 3);
    assert_int_equal(net_finish(net), 0);
    return net;
}

/* The arena of a backend that stores parameters as they are. */
static struct arenas arenas_make(const struct net *net)
{
    struct arenas arenas;
    size_t *const counts = calloc(net->parameter_count, sizeof(*counts));
    assert_non_null(counts);
    for (uint32_t p = 0; p < net->parameter_count; p++)
        counts[p] = net->parameters[p].count;
    assert_int_equal(arenas_init(&arenas, net, counts, 0), 0);
    free(counts);
    return arenas;
}

/* The range the first float of a parameter is updated with. */
static const struct optimizer_range *range_of(const struct param_groups *groups, const float *weights,
                                              const struct arena *arena, uint32_t parameter)
{
    const float *const first = weights + arena->ranges[parameter].offset;
    for (uint32_t i = 0; i < groups->range_count; i++)
        if (first >= groups->ranges[i].weights && first < groups->ranges[i].weights + groups->ranges[i].count)
            return &groups->ranges[i];
    fail();
    return NULL;
}

static void check_cover(const struct param_groups *groups, const float *weights, size_t count)
{
    for (uint32_t i = 0; i < groups->range_count; i++) {
        assert_ptr_equal(groups->ranges[i].weights, weights);
        weights += groups->ranges[i].count;
        count -= groups->ranges[i].count;
    }
    assert_int_equal(count, 0);
}

static bool must_decay(enum decay_scope scope, enum parameter_kind kind)
{
    const bool is_norm = kind == PARAMETER_GAMMA || kind == PARAMETER_BETA;
    return scope == DECAY_ALL || (scope == DECAY_NO_NORMS ? !is_norm : kind == PARAMETER_WEIGHT);
}

static void check_scope(const struct net *net, const struct optimizer *optimizer)
{
    struct arenas arenas = arenas_make(net);
    const struct arena *const arena = &arenas.trained;
    float *const floats = calloc(3 * arena->count, sizeof(*floats));
    assert_non_null(floats);
    const struct optimizer_range whole = { .weights = floats, .gradients = floats + arena->count,
                                           .states = { floats + 2 * arena->count } };
    struct param_groups groups;
    assert_int_equal(param_groups_init(&groups, net, arena, optimizer), 0);
    double *const sums = calloc(1, param_groups_bytes(&groups) + 1);
    assert_non_null(sums);
    param_groups_bind(&groups, sums);
    param_groups_select(&groups, &whole, 0, arena->count);
    check_cover(&groups, floats, arena->count);
    for (uint32_t p = 0; p < net->parameter_count; p++) {
        if (!net->parameters[p].is_trained)
            continue;
        const struct optimizer_range *const range = range_of(&groups, floats, arena, p);
        const bool is_weight = net->parameters[p].kind == PARAMETER_WEIGHT;
        assert_true(optimizer->weight_decay == 0 ||
                    range->decays == must_decay(optimizer->decay_scope, net->parameters[p].kind));
        assert_int_equal(range->weight_squares != NULL, optimizer_adapts(optimizer->kind) && is_weight);
        assert_ptr_equal(range->gradients - range->weights, arena->count);
        assert_int_equal(range->all_squares != NULL, optimizer->clip_norm > 0);
    }
    free(sums);
    free(floats);
    param_groups_release(&groups);
    arenas_release(&arenas);
}

TEST(weights_decay_that_are_in_the_scope)
{
    struct net *const net = net_make();
    for (int scope = DECAY_NO_NORMS; scope <= DECAY_WEIGHTS; scope++) {
        const struct optimizer sgd = { .decay_scope = (enum decay_scope)scope, .weight_decay = 0.1f };
        const struct optimizer lars = { .kind = OPTIMIZER_LARS, .decay_scope = (enum decay_scope)scope,
                                        .weight_decay = 0.1f };
        check_scope(net, &sgd);
        check_scope(net, &lars);
        check_scope(net, &(struct optimizer){ .kind = OPTIMIZER_LARS, .clip_norm = 2 });
    }
    net_close(net);
}

TEST(without_decay_the_arena_is_one_range_but_for_what_adapts)
{
    struct net *const net = net_make();
    check_scope(net, &(struct optimizer){ .kind = OPTIMIZER_ADAM, .decay_scope = DECAY_ALL });
    check_scope(net, &(struct optimizer){ .kind = OPTIMIZER_LARS });
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
