/* Tests of the update rules against their formulas in double precision, and of their
 * independence of how a range is split. */
#include <math.h>
#include <string.h>

#include "compute/optimizer.h"
#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

enum { COUNT = 203, STEPS = 20 };

struct arenas { float w[COUNT], g[COUNT], states[OPTIMIZER_STATES_MAX][COUNT]; };

struct scalars { double w, state[OPTIMIZER_STATES_MAX]; };

static const struct optimizer optimizers[] = {
    { .kind = OPTIMIZER_SGD },
    { .kind = OPTIMIZER_SGD, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.5f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f, .weight_decay = 0.001f },
    { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-8f },
    { .kind = OPTIMIZER_ADADELTA, .rho = 0.9f, .epsilon = 1e-6f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_RMSPROP, .rho = 0.9, .momentum = 0.9f, .epsilon = 1.0f },
    { .kind = OPTIMIZER_RMSPROP, .rho = 0.99, .momentum = 0.5f, .epsilon = 1e-3f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_RMSPROP_KERAS, .rho = 0.9, .epsilon = 1e-3f },
    { .kind = OPTIMIZER_RMSPROP_KERAS, .rho = 0.95, .epsilon = 1e-3f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-3f },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.5, .beta2 = 0.9, .epsilon = 1e-2f, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_ADAMW, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-3f, .weight_decay = 0.1f },
    { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.5 },
    { .kind = OPTIMIZER_LARS, .momentum = 0.9f, .trust = 0.001, .weight_decay = 0.01f },
    { .kind = OPTIMIZER_RMSPROP_PYTORCH, .rho = 0.9, .momentum = 0.9f, .epsilon = 1e-3f },
    { .kind = OPTIMIZER_RMSPROP_PYTORCH, .rho = 0.95, .momentum = 0.5f, .epsilon = 1e-3f, .weight_decay = 0.01f },
};
enum { OPTIMIZERS = sizeof(optimizers) / sizeof(optimizers[0]) };

static void adam_in_double(const struct optimizer *o, double rate, double g, double t, struct scalars *v)
{
    double *m = &v->state[0], *u = &v->state[1];
    *m = o->beta1 * *m + (1 - o->beta1) * g;
    *u = o->beta2 * *u + (1 - o->beta2) * g * g;
    v->w -= rate * (*m / (1 - pow(o->beta1, t))) / (sqrt(*u / (1 - pow(o->beta2, t))) + o->epsilon);
}

static void rule_in_double(const struct optimizer *o, uint32_t step, double rate, double scale, double gradient,
                           struct scalars *v)
{
    double *a = &v->state[0], *d = &v->state[1];
    const bool decays_beside = o->kind == OPTIMIZER_ADAMW;
    const double g = scale * gradient + (decays_beside ? 0 : o->weight_decay * v->w);
    switch (o->kind) {
    case OPTIMIZER_SGD:
        v->w -= rate * g;
        break;
    case OPTIMIZER_MOMENTUM:
        *a = o->momentum * *a + g;
        v->w -= rate * *a;
        break;
    case OPTIMIZER_NESTEROV:
        *a = o->momentum * *a + g;
        v->w -= rate * (g + o->momentum * *a);
        break;
    case OPTIMIZER_RMSPROP:
        *a = o->rho * *a + (1 - o->rho) * g * g;
        *d = o->momentum * *d + rate * g / sqrt(*a + o->epsilon);
        v->w -= *d;
        break;
    case OPTIMIZER_RMSPROP_KERAS:
        *a = o->rho * *a + (1 - o->rho) * g * g;
        v->w -= rate * g / (sqrt(*a) + o->epsilon);
        break;
    case OPTIMIZER_RMSPROP_PYTORCH:
        *a = o->rho * *a + (1 - o->rho) * g * g;
        *d = o->momentum * *d + g / (sqrt(*a) + o->epsilon);
        v->w -= rate * *d;
        break;
    case OPTIMIZER_ADAM:
        adam_in_double(o, rate, g, step + 1.0, v);
        break;
    case OPTIMIZER_LARS:        /* of a range that does not adapt */
        *a = o->momentum * *a + rate * g;
        v->w -= *a;
        break;
    case OPTIMIZER_ADAMW:
        v->w *= 1 - rate * o->weight_decay;
        adam_in_double(o, rate, g, step + 1.0, v);
        break;
    default: {
        const double rho = o->rho, epsilon = o->epsilon;
        *a = rho * *a + (1 - rho) * g * g;
        const double u = g * sqrt(*d + epsilon) / sqrt(*a + epsilon);
        v->w -= rate * u;
        *d = rho * *d + (1 - rho) * u * u;
    }
    }
}

static float gradient_at(uint32_t step, size_t i)
{
    return 40.0f * (test_uniform(random_key(5, RANDOM_DRAW, step), i) - 0.5f);
}

static void arenas_init(struct arenas *arenas, const struct optimizer *optimizer)
{
    memset(arenas, 0, sizeof(*arenas));
    for (size_t i = 0; i < COUNT; i++)
        arenas->w[i] = test_uniform(random_key(1, RANDOM_DRAW, 99), i) - 0.5f;
    for (uint32_t state = 0; state < optimizer_state_count(optimizer->kind); state++)
        for (size_t i = 0; i < COUNT; i++)
            arenas->states[state][i] = optimizer_state_start(optimizer->kind, state);
}

static void gradients_init(struct arenas *arenas, uint32_t step)
{
    for (size_t i = 0; i < COUNT; i++)
        arenas->g[i] = gradient_at(step, i);
}

static void update(const struct optimizer *optimizer, uint32_t step, struct arenas *arenas, size_t from, size_t to)
{
    const struct optimizer_range range = { .weights = arenas->w + from, .gradients = arenas->g + from,
                                           .states = { arenas->states[0] + from, arenas->states[1] + from },
                                           .count = to - from, .decays = true };
    optimizer_update(optimizer, &(struct optimizer_step){ step, 0.1f, 1.0f / 64 }, &range);
}

TEST(every_rule_follows_its_formula_over_many_steps)
{
    static struct arenas arenas;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        struct scalars expected[COUNT] = { 0 };
        arenas_init(&arenas, &optimizers[o]);
        for (size_t i = 0; i < COUNT; i++)
            expected[i] = (struct scalars){ arenas.w[i], { arenas.states[0][i], arenas.states[1][i] } };
        for (uint32_t step = 0; step < STEPS; step++) {
            gradients_init(&arenas, step);
            update(&optimizers[o], step, &arenas, 0, COUNT);
            for (size_t i = 0; i < COUNT; i++)
                rule_in_double(&optimizers[o], step, 0.1f, 1.0 / 64, gradient_at(step, i), &expected[i]);
        }
        for (size_t i = 0; i < COUNT; i++)
            assert_true(fabs(arenas.w[i] - expected[i].w) <= 2e-6);
    }
}

TEST(any_split_of_a_range_gives_the_same_bits)
{
    static struct arenas whole, split;
    for (size_t o = 0; o < OPTIMIZERS; o++)
        for (size_t cut = 0; cut <= COUNT; cut++) {
            arenas_init(&whole, &optimizers[o]);
            arenas_init(&split, &optimizers[o]);
            for (uint32_t step = 0; step < 2; step++) {
                gradients_init(&whole, step);
                gradients_init(&split, step);
                update(&optimizers[o], step, &whole, 0, COUNT);
                update(&optimizers[o], step, &split, cut, COUNT);
                update(&optimizers[o], step, &split, 0, cut);
            }
            assert_memory_equal(&whole, &split, sizeof(whole));
        }
}

TEST(gradients_are_only_read)
{
    static struct arenas arenas;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        arenas_init(&arenas, &optimizers[o]);
        gradients_init(&arenas, 3);
        update(&optimizers[o], 0, &arenas, 0, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(arenas.g[i] == gradient_at(3, i));
    }
}

/* A range of one number. */
#define ONE(w, g, first, second, does_decay) \
    (&(struct optimizer_range){ .weights = (w), .gradients = (g), .states = { (first), (second) }, .count = 1, \
                                .decays = (does_decay) })

TEST(the_scale_divides_the_sum_of_gradients_once)
{
    float w = 1, g = 12;
    const struct optimizer sgd = { .kind = OPTIMIZER_SGD, .weight_decay = 0.5f };
    const struct optimizer_step quarter = { .learning_rate = 0.25f, .gradient_scale = 1.0f / 4 };
    optimizer_update(&sgd, &quarter, ONE(&w, &g, NULL, NULL, true));
    assert_true(w == 1 - 0.25f * (3 + 0.5f));
    w = 1;
    optimizer_update(&sgd, &quarter, ONE(&w, &g, NULL, NULL, false));
    assert_true(w == 1 - 0.25f * 3);
}

TEST(the_first_step_of_adadelta_is_4_4721e_4)
{
    float w = 0, g = 1, a = 0, d = 0;
    const struct optimizer adadelta = { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-8f };
    optimizer_update(&adadelta, &(struct optimizer_step){ 0, 1.0f, 1.0f },
                     ONE(&w, &g, &a, &d, true));
    assert_true(fabs(w + 4.4721e-4) < 1e-8);
    assert_true(fabs(a - 0.05) < 1e-7);
    assert_true(fabs(d - 0.05 * 4.4721e-4 * 4.4721e-4) < 1e-12);
}

TEST(a_zero_gradient_and_no_decay_leave_the_weights)
{
    static struct arenas arenas, before;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        if (optimizers[o].weight_decay > 0)
            continue;
        arenas_init(&arenas, &optimizers[o]);
        before = arenas;
        update(&optimizers[o], 0, &arenas, 0, COUNT);
        assert_memory_equal(arenas.w, before.w, sizeof(before.w));
    }
}

TEST(a_gradient_that_is_not_finite_shows_in_the_weights)
{
    static struct arenas arenas;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        arenas_init(&arenas, &optimizers[o]);
        gradients_init(&arenas, 0);
        arenas.g[17] = NAN;
        update(&optimizers[o], 0, &arenas, 0, COUNT);
        assert_true(isnan(arenas.w[17]));
        assert_false(isnan(arenas.w[16]));
    }
}

/* What a run that continues at a step computes must not depend on where it began. */
TEST(the_correction_of_adam_is_that_of_the_step_of_the_run)
{
    const struct optimizer adam = { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f };
    for (uint64_t number = 0; number < 2000; number += 7) {
        float w = 1, m = 0.02f, v = 0.0009f, g = 0;
        optimizer_update(&adam, &(struct optimizer_step){ number, 0.5f, 1.0f },
                         ONE(&w, &g, &m, &v, true));
        const double t = (double)number + 1, root = sqrt(0.0009 * 0.999 / (1 - pow(0.999, t)));
        assert_true(fabs(w - (1 - 0.5 * 0.02 * 0.9 / (1 - pow(0.9, t)) / (root + 1e-8))) < 2e-6);
    }
}

TEST(lars_scales_the_rate_by_the_norms_of_the_whole_parameter)
{
    const struct optimizer lars = { .kind = OPTIMIZER_LARS, .trust = 0.01, .weight_decay = 0.1f };
    const struct optimizer_step step = { .learning_rate = 2.0f, .gradient_scale = 1.0f / 4 };
    double w_squares = 25, g_squares = 16;
    float w = 3, g = 8, a = 0;
    struct optimizer_range range = *ONE(&w, &g, &a, NULL, true);
    range.weight_squares = &w_squares;
    range.gradient_squares = &g_squares;
    optimizer_update(&lars, &step, &range);
    const double rate = 2 * 0.01 * 5 / (1 + 0.1 * 5);
    assert_true(fabs(w - (3 - rate * (2 + 0.1 * 3))) < 1e-6);
    w_squares = 0;
    w = a = 0;
    optimizer_update(&lars, &step, &range);
    assert_true(w == -4);
    w_squares = 25;
    g_squares = 0;
    w = 3;
    g = a = 0;
    optimizer_update(&lars, &step, &range);
    assert_true(fabs(w - (3 - 2 * 0.1 * 3)) < 1e-6);
}

/* 1e-6 beside the norm is PyTorch's. */
TEST(gradients_that_are_too_long_are_shortened_before_they_decay)
{
    const struct optimizer sgd = { .kind = OPTIMIZER_SGD, .weight_decay = 0.5f, .clip_norm = 3 };
    const struct optimizer_step step = { .learning_rate = 1.0f, .gradient_scale = 1.0f / 4 };
    double squares = 1600;      /* a norm of 10 */
    float w = 2, g = 8;
    struct optimizer_range range = *ONE(&w, &g, NULL, NULL, true);
    range.all_squares = &squares;
    optimizer_update(&sgd, &step, &range);
    assert_true(fabs(w - (2 - (2 * 3 / (10 + 1e-6) + 0.5 * 2))) < 1e-6);
    squares = 16 * 8.99;
    w = 2;
    optimizer_update(&sgd, &step, &range);
    assert_true(w == 2 - (2 + 0.5f * 2));
}

TEST(only_the_mean_square_of_rmsprop_begins_at_1)
{
    for (int kind = 0; kind < OPTIMIZER_KIND_COUNT; kind++)
        for (uint32_t i = 0; i < optimizer_state_count((enum optimizer_kind)kind); i++)
            assert_true(optimizer_state_start((enum optimizer_kind)kind, i) ==
                        (kind == OPTIMIZER_RMSPROP && i == 0 ? 1.0f : 0.0f));
}

TEST(every_kind_has_its_number_of_states)
{
    assert_int_equal(optimizer_state_count(OPTIMIZER_SGD), 0);
    assert_int_equal(optimizer_state_count(OPTIMIZER_MOMENTUM), 1);
    assert_int_equal(optimizer_state_count(OPTIMIZER_NESTEROV), 1);
    assert_int_equal(optimizer_state_count(OPTIMIZER_ADADELTA), 2);
    assert_int_equal(optimizer_state_count(OPTIMIZER_RMSPROP), 2);
    assert_int_equal(optimizer_state_count(OPTIMIZER_RMSPROP_KERAS), 1);
    assert_int_equal(optimizer_state_count(OPTIMIZER_ADAM), 2);
    assert_int_equal(optimizer_state_count(OPTIMIZER_ADAMW), 2);
    assert_int_equal(optimizer_state_count(OPTIMIZER_LARS), 1);
    assert_int_equal(optimizer_state_count(OPTIMIZER_RMSPROP_PYTORCH), 2);
}

TESTS_MAIN(NULL, NULL)
