/* Tests of class weights over towers and microbatches: an update divides by the sum of the class weights of the whole
 * batch, however it is split, and the modes that share no gradients divide by those of a tower's own samples. */
#include <stdbool.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tests/helpers/trainer_fixture.h"

static const struct optimizer rules[] = {
    { .kind = OPTIMIZER_SGD, .weight_decay = 1e-3f, .clip_value = 1e-3 },
    { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f, .clip_norm = 0.05 },
    { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f },
};
enum { RULES = sizeof(rules) / sizeof(rules[0]) };

/* Where towers take long, each mode has another rule. */
static bool is_tried(int rule, int mode)
{
    return fixture_is_thorough() || rule == mode % RULES;
}

static const float uneven[] = { 0.25f, 3, 0.5f, 1.75f }, ones[] = { 1, 1, 1, 1 }, fours[] = { 4, 4, 4, 4 },
                   zeros[] = { 0, 0, 0, 0 };

static struct fixture_result one, many;

static void expect_equal(struct fixture_spec spec, const float *weights, const float *others)
{
    spec.class_weights = weights;
    fixture_result_of(&one, &spec);
    spec.class_weights = others;
    fixture_result_of(&many, &spec);
    assert_memory_equal(many.weights[0], one.weights[0], one.count * sizeof(float));
}

TEST(equal_class_weights_change_nothing)
{
    static const enum sync_mode modes[] = { SYNC_REPLICATED, SYNC_RELAXED, SYNC_INDEPENDENT, SYNC_AVERAGING };
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++)
        for (int i = 0; i < RULES; i++) {
            if (!is_tried(i, (int)m))
                continue;
            const struct fixture_spec spec = { .schedule = fixture_uneven(2), .mode = modes[m], .optimizer = rules[i],
                                               .every = 3 };
            expect_equal(spec, NULL, ones);
            expect_equal(spec, ones, fours);
        }
}

TEST(uneven_class_weights_change_the_weights)
{
    struct fixture_spec spec = { .schedule = fixture_uneven(1), .optimizer = rules[2], .class_weights = uneven };
    fixture_result_of(&one, &spec);
    spec.class_weights = ones;
    fixture_result_of(&many, &spec);
    assert_memory_not_equal(many.weights[0], one.weights[0], one.count * sizeof(float));
}

/* The towers' batches have other shares of the classes: each tower's own mean would be another one. */
TEST(towers_and_microbatches_divide_by_the_sum_of_the_whole_batch)
{
    for (int mode = SYNC_REPLICATED; mode <= SYNC_RELAXED; mode++)
        for (int i = 0; i < RULES; i++) {
            if (!is_tried(i, mode))
                continue;
            struct fixture_spec spec = { .schedule = fixture_uneven(1), .mode = (enum sync_mode)mode,
                                         .optimizer = rules[i], .class_weights = uneven };
            fixture_result_of(&one, &spec);
            for (uint32_t towers = 1; towers <= fixture_towers_max; towers += 2) {
                spec.schedule.towers = towers;
                spec.microbatch_max = towers > 1 ? 3 : 5;
                fixture_result_of(&many, &spec);
                assert_one_model(&many, towers);
                assert_near(many.weights[0], one.weights[0], one.count, 1e-4f);
            }
        }
}

/* Batches of 4 and 2: the later towers have no samples. */
TEST(towers_without_samples_add_nothing)
{
    struct fixture_spec spec = { .schedule = fixture_sparse(1), .optimizer = rules[0], .class_weights = uneven };
    fixture_result_of(&one, &spec);
    spec.schedule.towers = fixture_towers_max;
    fixture_result_of(&many, &spec);
    assert_near(many.weights[0], one.weights[0], one.count, 1e-5f);
}

/* The sum of class weights is 0: the gradient is 0, and not a number divided by 0. */
TEST(batches_without_any_weight_change_nothing)
{
    static const struct optimizer sgd = { .kind = OPTIMIZER_SGD };
    struct fixture_spec spec = { .schedule = fixture_uneven(2), .optimizer = sgd, .class_weights = zeros };
    fixture_result_of(&many, &spec);
    spec.is_frozen = true;
    fixture_result_of(&one, &spec);
    assert_memory_equal(many.weights[0], one.weights[0], one.count * sizeof(float));
}

static int run_all(void)
{
    return tests_run(NULL, NULL);
}

int main(void)
{
    return fixture_run_tests(run_all, 300, true);
}
