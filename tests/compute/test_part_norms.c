/* Tests of norms over parts: of any number of towers, every tower finds the same sums of squares, which are those of the
 * whole parameters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compute/param_groups.h"
#include "compute/part_norms.h"
#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

enum { PARTS = 4, PARAMETERS_MAX = 16 };

static struct net *net_make(void)
{
    struct net *net;
    assert_int_equal(net_open(&net, "small", (struct shape){ 3, 9, 7 }, 12), 0);
    net_conv2d(net, "conv", NET_INPUT, 5, window_square(3, 1, PADDING_VALID), true);
    net_relu(net, "relu", 0);
    net_dense(net, "fc1", 1, 20, true);
    net_relu(net, "relu1", 2);
    net_dense(net, "fc2", 3, 16, false);
    net_dense(net, "fc3", 4, 12, true);
    net_softmax_loss(net, "loss", 5);
    assert_int_equal(net_finish(net), 0);
    return net;
}

/* Number `i` of a parameter of the whole net: of its weights, or of its gradient. */
static float number_of(uint32_t parameter, size_t i, bool is_gradient)
{
    return test_uniform(random_key(7, RANDOM_DRAW, 2 * parameter + is_gradient), i) - 0.4f;
}

static double squares_of(const struct net *net, uint32_t parameter, bool is_gradient)
{
    double sum = 0;
    for (size_t i = 0; i < net->parameters[parameter].count; i++)
        sum += (double)number_of(parameter, i, is_gradient) * (double)number_of(parameter, i, is_gradient);
    return sum;
}

/* What a tower of a run has for its updates. */
struct tower_norms {
    struct net *share;
    struct arenas arenas;
    struct param_groups groups;
    float *weights, *gradients;
    double *sums;
};

static void fill(struct tower_norms *tower)
{
    const struct net_share *const share = tower->share->share;
    for (uint32_t p = 0; p < tower->share->parameter_count; p++) {
        const struct arena_range *const range = &tower->arenas.trained.ranges[p];
        for (size_t i = 0; i < range->count; i++) {
            tower->weights[range->offset + i] = number_of(share->parameters[p], share->firsts[p] + i, false);
            tower->gradients[range->offset + i] = number_of(share->parameters[p], share->firsts[p] + i, true);
        }
    }
}

static void tower_norms_open(struct tower_norms *tower, const struct net *whole, const struct optimizer *optimizer,
                             struct part_range own, bool skips)
{
    struct head head;
    size_t counts[PARTS * PARAMETERS_MAX];
    assert_int_equal(head_find(&head, whole, PARTS, &(struct unsupported_reason){ 0 }), 0);
    assert_int_equal(share_open(&tower->share, whole, &head, own), 0);
    for (uint32_t p = 0; p < tower->share->parameter_count; p++)
        counts[p] = tower->share->parameters[p].count;
    assert_int_equal(arenas_init(&tower->arenas, tower->share, counts, 0), 0);
    const struct arena *const arena = &tower->arenas.trained;
    assert_int_equal(param_groups_init(&tower->groups, tower->share, arena, optimizer), 0);
    assert_int_equal(param_groups_divide(&tower->groups, tower->share, arena, PARTS, own, skips), 0);
    tower->weights = calloc(arena->count, sizeof(float));
    tower->gradients = calloc(arena->count, sizeof(float));
    tower->sums = malloc(param_groups_bytes(&tower->groups) + 1);
    assert_true(tower->weights != NULL && tower->gradients != NULL && tower->sums != NULL);
    memset(tower->sums, 0xff, param_groups_bytes(&tower->groups));
    param_groups_bind(&tower->groups, tower->sums);
    fill(tower);
}

static void tower_norms_close(struct tower_norms *tower)
{
    free(tower->weights);
    free(tower->gradients);
    free(tower->sums);
    param_groups_release(&tower->groups);
    arenas_release(&tower->arenas);
    net_close(tower->share);
}

static void put(struct tower_norms *tower, bool is_nonfinite)
{
    struct param_groups *const groups = &tower->groups;
    const struct optimizer_range all = { .weights = tower->weights, .gradients = tower->gradients };
    param_groups_select(groups, &all, 0, tower->arenas.trained.updated);
    for (uint32_t i = 0; i < groups->squares_count; i++) {
        squares_sum_parts(&groups->squares[i], 0, SQUARES_PARTS);
        squares_sum(&groups->squares[i]);
    }
    for (uint32_t i = 0; i < groups->norms.count * part_norms_numbers(&groups->norms); i++)
        part_norms_put(&groups->norms, i, is_nonfinite);
}

static void add(const struct param_groups *groups)
{
    for (uint32_t sum = 0; sum < groups->norms.sums; sum++)
        part_norms_add(&groups->norms, sum);
    part_norms_add_gradients(&groups->norms);
}

struct run { struct tower_norms towers[PARTS]; uint32_t count; float *exchanged; };

/* All towers put their numbers to the same memory, as if they had been gathered; tower `broken` has a gradient
 * that is not finite. */
static void run_open(struct run *run, const struct net *whole, const struct optimizer *optimizer, uint32_t towers,
                     bool skips, uint32_t broken)
{
    run->count = towers;
    for (uint32_t t = 0; t < towers; t++)
        tower_norms_open(&run->towers[t], whole, optimizer, head_own_parts(PARTS, towers, t), skips);
    const size_t floats = PARTS * param_groups_part_floats(&run->towers[0].groups);
    assert_true(floats > 0);
    run->exchanged = malloc(floats * sizeof(float));
    assert_non_null(run->exchanged);
    memset(run->exchanged, 0xff, floats * sizeof(float));
    for (uint32_t t = 0; t < towers; t++) {
        param_groups_bind_exchange(&run->towers[t].groups, run->exchanged);
        put(&run->towers[t], t == broken);
    }
    for (uint32_t t = 0; t < towers; t++)
        add(&run->towers[t].groups);
}

static void run_close(struct run *run)
{
    for (uint32_t t = 0; t < run->count; t++)
        tower_norms_close(&run->towers[t]);
    free(run->exchanged);
}

static void assert_near(double found, double expected)
{
    assert_true(fabs(found - expected) <= 1e-12 * expected);
}

/* The range that updates a parameter of the share. */
static const struct optimizer_range *range_of(const struct tower_norms *tower, uint32_t parameter)
{
    const float *const first = tower->weights + tower->arenas.trained.ranges[parameter].offset;
    for (uint32_t i = 0; i < tower->groups.range_count; i++) {
        const struct optimizer_range *const range = &tower->groups.ranges[i];
        if (first >= range->weights && first < range->weights + range->count)
            return range;
    }
    fail();
    return NULL;
}

/* All norms of a tower, with those of parameters by their index in the whole net. */
struct norms { double all, weights[PARAMETERS_MAX], gradients[PARAMETERS_MAX]; };

static struct norms norms_of(const struct tower_norms *tower)
{
    const float *next = tower->weights;
    for (uint32_t i = 0; i < tower->groups.range_count; next += tower->groups.ranges[i++].count)
        assert_ptr_equal(tower->groups.ranges[i].weights, next);
    assert_ptr_equal(next, tower->weights + tower->arenas.trained.updated);
    struct norms norms = { .all = tower->groups.clips ? tower->groups.all_sums[0] : 0 };
    for (uint32_t p = 0; p < tower->share->parameter_count; p++) {
        const struct optimizer_range *const range = range_of(tower, p);
        const uint32_t whole = tower->share->share->parameters[p];
        assert_ptr_equal(range->all_squares, tower->groups.all_sums);
        if (range->weight_squares == NULL)
            continue;
        assert_true(norms.weights[whole] == 0 || norms.weights[whole] == *range->weight_squares);
        assert_true(norms.gradients[whole] == 0 || norms.gradients[whole] == *range->gradient_squares);
        norms.weights[whole] = *range->weight_squares;
        norms.gradients[whole] = *range->gradient_squares;
    }
    return norms;
}

static void check_norms(const struct net *whole, const struct optimizer *optimizer, const struct norms *norms)
{
    double all = 0;
    for (uint32_t p = 0; p < whole->parameter_count; p++) {
        const bool adapts = optimizer_adapts(optimizer->kind) && whole->parameters[p].kind == PARAMETER_WEIGHT;
        all += squares_of(whole, p, true);
        assert_near(norms->weights[p], adapts ? squares_of(whole, p, false) : 0);
        assert_near(norms->gradients[p], adapts ? squares_of(whole, p, true) : 0);
    }
    assert_near(norms->all, optimizer->clip_norm > 0 ? all : 0);
}

static const struct optimizer optimizers[] = {
    { .kind = OPTIMIZER_SGD, .clip_norm = 2 },
    { .kind = OPTIMIZER_MOMENTUM, .clip_norm = 2, .weight_decay = 0.1f, .decay_scope = DECAY_WEIGHTS },
    { .kind = OPTIMIZER_LARS },
    { .kind = OPTIMIZER_LARS, .weight_decay = 0.1f, .clip_norm = 2 },
};

TEST(every_tower_finds_the_norms_of_whole_parameters)
{
    struct net *const net = net_make();
    for (size_t o = 0; o < sizeof(optimizers) / sizeof(optimizers[0]); o++) {
        struct norms alone = { .all = 0 };
        for (uint32_t towers = 1; towers <= PARTS; towers *= 2) {
            struct run run;
            run_open(&run, net, &optimizers[o], towers, false, UINT32_MAX);
            for (uint32_t t = 0; t < towers; t++) {
                const struct norms norms = norms_of(&run.towers[t]);
                alone = towers == 1 ? norms : alone;
                check_norms(net, &optimizers[o], &norms);
                assert_memory_equal(&norms, &alone, sizeof(norms));
                assert_false(part_norms_nonfinite(&run.towers[t].groups.norms));
            }
            run_close(&run);
        }
    }
    net_close(net);
}

TEST(every_tower_knows_that_a_gradient_of_one_is_not_finite)
{
    static const struct optimizer plain = { .kind = OPTIMIZER_SGD };
    struct net *const net = net_make();
    for (uint32_t towers = 1; towers <= PARTS; towers *= 2)
        for (uint32_t broken = 0; broken < towers; broken++)
            for (int clips = 0; clips < 2; clips++) {
                struct run run;
                run_open(&run, net, clips ? &optimizers[0] : &plain, towers, true, broken);
                for (uint32_t t = 0; t < towers; t++)
                    assert_true(part_norms_nonfinite(&run.towers[t].groups.norms));
                run_close(&run);
            }
    net_close(net);
}

TEST(updates_that_need_no_norms_exchange_none)
{
    static const struct optimizer plain = { .kind = OPTIMIZER_ADAM, .weight_decay = 0.1f };
    struct net *const net = net_make();
    struct tower_norms tower;
    tower_norms_open(&tower, net, &plain, head_own_parts(PARTS, 2, 1), false);
    assert_int_equal(param_groups_part_floats(&tower.groups), 0);
    assert_int_equal(param_groups_bytes(&tower.groups), 0);
    tower_norms_close(&tower);
    net_close(net);
}

/* A dense layer without updates has no part in the norm; the rest has. */
TEST(frozen_layers_have_no_norms)
{
    struct net *const net = net_make();
    for (uint32_t p = 0; p < net->parameter_count; p++)
        net->parameters[p].is_frozen = net->parameters[p].layer <= 2;
    struct run run;
    run_open(&run, net, &optimizers[3], 2, false, UINT32_MAX);
    double all = 0;
    for (uint32_t p = 0; p < net->parameter_count; p++)
        all += net->parameters[p].is_frozen ? 0 : squares_of(net, p, true);
    assert_near(run.towers[0].groups.all_sums[0], all);
    assert_near(run.towers[1].groups.all_sums[0], all);
    run_close(&run);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
