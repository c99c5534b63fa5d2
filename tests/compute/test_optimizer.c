/* Tests of the update rules against their formulas in double precision, and of their
 * independence of how a range is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "compute/optimizer.h"
#include "stage/random.h"

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
};
enum { OPTIMIZERS = sizeof(optimizers) / sizeof(optimizers[0]) };

static void rule_in_double(const struct optimizer *o, double rate, double scale, double gradient, struct scalars *v)
{
    double *a = &v->state[0], *d = &v->state[1];
    const double g = scale * gradient + o->weight_decay * v->w;
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
    return 40.0f * (random_uniform(random_key(5, RANDOM_DRAW, step), i) - 0.5f);
}

static void arenas_init(struct arenas *arenas)
{
    memset(arenas, 0, sizeof(*arenas));
    for (size_t i = 0; i < COUNT; i++)
        arenas->w[i] = random_uniform(random_key(1, RANDOM_DRAW, 99), i) - 0.5f;
}

static void gradients_init(struct arenas *arenas, uint32_t step)
{
    for (size_t i = 0; i < COUNT; i++)
        arenas->g[i] = gradient_at(step, i);
}

static void update(const struct optimizer *optimizer, uint32_t step, struct arenas *arenas, size_t from, size_t to)
{
    const struct optimizer_range range = { arenas->w + from, arenas->g + from,
                                           { arenas->states[0] + from, arenas->states[1] + from }, to - from, true };
    optimizer_update(optimizer, &(struct optimizer_step){ step, 0.1f, 1.0f / 64 }, &range);
}

static void every_rule_follows_its_formula_over_many_steps(void **state)
{
    static struct arenas arenas;
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        struct scalars expected[COUNT] = { 0 };
        arenas_init(&arenas);
        for (size_t i = 0; i < COUNT; i++)
            expected[i].w = arenas.w[i];
        for (uint32_t step = 0; step < STEPS; step++) {
            gradients_init(&arenas, step);
            update(&optimizers[o], step, &arenas, 0, COUNT);
            for (size_t i = 0; i < COUNT; i++)
                rule_in_double(&optimizers[o], 0.1f, 1.0 / 64, gradient_at(step, i), &expected[i]);
        }
        for (size_t i = 0; i < COUNT; i++)
            assert_true(fabs(arenas.w[i] - expected[i].w) <= 2e-6);
    }
}

static void any_split_of_a_range_gives_the_same_bits(void **state)
{
    static struct arenas whole, split;
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++)
        for (size_t cut = 0; cut <= COUNT; cut++) {
            arenas_init(&whole);
            arenas_init(&split);
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

static void gradients_are_only_read(void **state)
{
    static struct arenas arenas;
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        arenas_init(&arenas);
        gradients_init(&arenas, 3);
        update(&optimizers[o], 0, &arenas, 0, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(arenas.g[i] == gradient_at(3, i));
    }
}

static void the_scale_divides_the_sum_of_gradients_once(void **state)
{
    float w = 1, g = 12;
    (void)state;
    const struct optimizer sgd = { .kind = OPTIMIZER_SGD, .weight_decay = 0.5f };
    const struct optimizer_step quarter = { .learning_rate = 0.25f, .gradient_scale = 1.0f / 4 };
    optimizer_update(&sgd, &quarter, &(struct optimizer_range){ &w, &g, { NULL, NULL }, 1, true });
    assert_true(w == 1 - 0.25f * (3 + 0.5f));
    w = 1;
    optimizer_update(&sgd, &quarter, &(struct optimizer_range){ &w, &g, { NULL, NULL }, 1, false });
    assert_true(w == 1 - 0.25f * 3);
}

static void the_first_step_of_adadelta_is_4_4721e_4(void **state)
{
    float w = 0, g = 1, a = 0, d = 0;
    (void)state;
    const struct optimizer adadelta = { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-8f };
    optimizer_update(&adadelta, &(struct optimizer_step){ 0, 1.0f, 1.0f },
                     &(struct optimizer_range){ &w, &g, { &a, &d }, 1, true });
    assert_true(fabs(w + 4.4721e-4) < 1e-8);
    assert_true(fabs(a - 0.05) < 1e-7);
    assert_true(fabs(d - 0.05 * 4.4721e-4 * 4.4721e-4) < 1e-12);
}

static void a_zero_gradient_and_no_decay_leave_the_weights(void **state)
{
    static struct arenas arenas, before;
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        if (optimizers[o].weight_decay > 0)
            continue;
        arenas_init(&arenas);
        before = arenas;
        update(&optimizers[o], 0, &arenas, 0, COUNT);
        assert_memory_equal(&arenas, &before, sizeof(before));
    }
}

static void a_gradient_that_is_not_finite_shows_in_the_weights(void **state)
{
    static struct arenas arenas;
    (void)state;
    for (size_t o = 0; o < OPTIMIZERS; o++) {
        arenas_init(&arenas);
        gradients_init(&arenas, 0);
        arenas.g[17] = NAN;
        update(&optimizers[o], 0, &arenas, 0, COUNT);
        assert_true(isnan(arenas.w[17]));
        assert_false(isnan(arenas.w[16]));
    }
}

static void every_kind_has_its_number_of_states(void **state)
{
    (void)state;
    assert_int_equal(optimizer_state_count(OPTIMIZER_SGD), 0);
    assert_int_equal(optimizer_state_count(OPTIMIZER_MOMENTUM), 1);
    assert_int_equal(optimizer_state_count(OPTIMIZER_NESTEROV), 1);
    assert_int_equal(optimizer_state_count(OPTIMIZER_ADADELTA), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rule_follows_its_formula_over_many_steps),
        cmocka_unit_test(any_split_of_a_range_gives_the_same_bits),
        cmocka_unit_test(gradients_are_only_read),
        cmocka_unit_test(the_scale_divides_the_sum_of_gradients_once),
        cmocka_unit_test(the_first_step_of_adadelta_is_4_4721e_4),
        cmocka_unit_test(a_zero_gradient_and_no_decay_leave_the_weights),
        cmocka_unit_test(a_gradient_that_is_not_finite_shows_in_the_weights),
        cmocka_unit_test(every_kind_has_its_number_of_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
