/* Tests of gradients that travel as bf16: every mode does the same with them, the error is what is said of it, and
 * towers stay one model. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_fixture.h"

/* Towers from the second on never have a sample. */
static const struct schedule lonely = { .records = { 9, 3 }, .batch = 1, .towers = 1, .epochs = 2 };
static const struct schedule one_step = { .records = { 12, 0 }, .batch = 12, .towers = 1, .epochs = 1 };

static const struct optimizer rules[] = {
    { .kind = OPTIMIZER_SGD },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .clip_norm = 0.05 },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f },
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

static void run(struct fixture_result *result, struct fixture_spec spec, enum sync_mode mode, uint32_t towers)
{
    spec.mode = mode;
    spec.schedule.towers = towers;
    spec.saves = true;
    fixture_result_of(result, &spec);
}

static void assert_same(const struct fixture_result *result, uint32_t tower, const struct fixture_result *expected)
{
    assert_memory_equal(result->weights[tower], expected->weights[0], expected->count * sizeof(float));
    assert_memory_equal(result->saved[tower], expected->saved[0], expected->saved_count * sizeof(float));
}

TEST(every_mode_does_the_same_with_them)
{
    static struct fixture_result replicated, other;
    static const enum sync_mode modes[] = { SYNC_REPLICATED, SYNC_SERVER_DEVICE, SYNC_SERVER_HOST, SYNC_ASYNC };
    const bool is_cuda = !test_device_ops()->host_memory;
    const uint32_t *towers;
    for (size_t n = fixture_tower_counts(&towers); n-- > 1;)
        for (int i = 0; i < RULES; i++) {
            struct fixture_spec spec = { .schedule = fixture_uneven(1), .optimizer = rules[i], .has_bf16_grads = true };
            run(&replicated, spec, SYNC_REPLICATED, towers[n]);
            for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
                spec.reduction = is_cuda && modes[m] < SYNC_SERVER_HOST ? "peer" : "host";
                run(&other, spec, modes[m], towers[n]);
                for (uint32_t d = 0; d < towers[n]; d++)
                    assert_same(&other, d, &replicated);
            }
        }
}

/* The mean gradient of a tower's own batch, from the weights before and after its step of sgd without the others. */
static double gradient_of(const struct fixture_result *alone, const struct fixture_result *start, uint32_t tower,
                          size_t i)
{
    return ((double)start->weights[0][i] - (double)alone->weights[tower][i]) / 0.05;
}

/* A sum is off by half a last digit (2^-8) of every part, and of itself; here of means over as many samples. */
TEST(sums_are_off_by_what_rounding_takes)
{
    static struct fixture_result start, alone, wide, narrow;
    const uint32_t towers[] = { 2, 3 };
    for (size_t n = 0; n < 2; n++) {
        struct fixture_spec spec = { .schedule = one_step, .optimizer = rules[0], .is_frozen = true };
        run(&start, spec, SYNC_REPLICATED, 1);
        spec.is_frozen = false;
        run(&alone, spec, SYNC_INDEPENDENT, towers[n]);
        run(&wide, spec, SYNC_REPLICATED, towers[n]);
        spec.has_bf16_grads = true;
        run(&narrow, spec, SYNC_REPLICATED, towers[n]);
        bool differs = false;
        for (size_t i = 0; i < wide.count; i++) {
            double parts = 0;
            for (uint32_t d = 0; d < towers[n]; d++)
                parts += fabs(gradient_of(&alone, &start, d, i)) / towers[n];
            const double off = fabs((double)wide.weights[0][i] - (double)narrow.weights[0][i]) / 0.05;
            assert_true(off <= 2 * parts / 256 + 1e-5);
            differs = differs || off > 0;
        }
        assert_true(differs);
    }
}

/* Its gradients are rounded as if they travelled, and nobody else has any; whatever the rule needs of all of them. */
TEST(a_tower_that_alone_has_samples_learns_as_if_it_were_alone)
{
    static struct fixture_result alone, among;
    for (int narrows = 0; narrows < 2; narrows++)
        for (int i = 0; i < RULES; i++) {
            const struct fixture_spec spec = { .schedule = lonely, .optimizer = rules[i],
                                               .has_bf16_grads = narrows != 0, .max_staleness = 1 };
            run(&alone, spec, SYNC_REPLICATED, 1);
            run(&among, spec, SYNC_ASYNC, 3);
            for (size_t w = 0; w < alone.count; w++)
                assert_true(fabs((double)among.weights[2][w] - (double)alone.weights[0][w]) <= 1e-5);
        }
}

/* Towers that go ahead of each other: all learn, and have one model in the end. */
TEST(updates_of_their_own_travel_so_too)
{
    static struct fixture_result start, pushed;
    struct fixture_spec spec = { .schedule = fixture_uneven(1), .optimizer = rules[0], .has_bf16_grads = true,
                                 .max_staleness = 2 };
    run(&pushed, spec, SYNC_ASYNC, 3);
    spec.is_frozen = true;
    run(&start, spec, SYNC_REPLICATED, 1);
    for (uint32_t d = 0; d < 3; d++)
        assert_memory_equal(pushed.weights[d], pushed.weights[0], pushed.count * sizeof(float));
    bool has_moved = false;
    for (size_t i = 0; i < pushed.count; i++) {
        assert_true(isfinite(pushed.weights[0][i]));
        has_moved = has_moved || fabs((double)pushed.weights[0][i] - (double)start.weights[0][i]) > 1e-3;
    }
    assert_true(has_moved);
}

TEST(gradients_of_the_step_before_travel_so_too)
{
    static struct fixture_result wide, narrow;
    struct fixture_spec spec = { .schedule = fixture_uneven(1), .optimizer = rules[0] };
    run(&wide, spec, SYNC_RELAXED, 3);
    spec.has_bf16_grads = true;
    run(&narrow, spec, SYNC_RELAXED, 3);
    for (uint32_t d = 0; d < 3; d++)
        assert_same(&narrow, d, &narrow);
    assert_memory_not_equal(narrow.weights[0], wide.weights[0], wide.count * sizeof(float));
    for (size_t i = 0; i < wide.count; i++)
        assert_true(fabs((double)wide.weights[0][i] - (double)narrow.weights[0][i]) <= 1e-2);
}

int main(void)
{
    alarm(300);
    return tests_run(NULL, NULL);
}
