/* Tests of the modes averaging and independent, and of batch statistics, with whole towers: a mean at every step is
 * mode replicated, a mean is weighted by samples, and towers of one model are equal at the end of every run. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tests/helpers/trainer_fixture.h"

static const struct optimizer sgd = { .kind = OPTIMIZER_SGD };
static const struct optimizer momentum = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };
static const struct optimizer nesterov = { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f, .weight_decay = 1e-3f };
static const struct optimizer adadelta = { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-6f };

static struct fixture_result one, many;

static void run(struct fixture_result *result, const struct schedule *schedule, enum sync_mode mode, uint64_t every,
                const struct optimizer *optimizer)
{
    fixture_result_of(result, &(struct fixture_spec){
                                  .schedule = *schedule, .mode = mode, .every = every, .optimizer = *optimizer });
}

TEST(a_mean_at_every_step_is_what_replicated_towers_do)
{
    static const struct optimizer *const rules[] = { &sgd, &momentum, &nesterov };
    for (uint32_t towers = 1; towers <= fixture_towers_max; towers++)
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
            if (!fixture_is_thorough() && (towers + i) % (sizeof(rules) / sizeof(rules[0])) != 0)
                continue;
            const struct schedule schedule = i == 0 && towers > 2 ? fixture_sparse(towers) : fixture_uneven(towers);
            run(&many, &schedule, SYNC_AVERAGING, 1, rules[i]);
            run(&one, &schedule, SYNC_REPLICATED, 1, rules[i]);
            assert_one_model(&many, towers);
            assert_near(many.weights[0], one.weights[0], one.count, 1e-6f);
        }
}

static void run_averaged(struct fixture_result *result, struct schedule schedule, enum sync_mode mode, uint64_t every,
                         bool normalizes)
{
    fixture_result_of(result, &(struct fixture_spec){ .schedule = schedule, .mode = mode, .every = every,
                                                      .optimizer = momentum, .normalizes = normalizes,
                                                      .average_decay = 0.8 });
}

/* The averages are what a run saves. */
TEST(averages_of_weights_are_those_of_one_tower)
{
    const struct schedule alone = fixture_uneven(1);
    run(&many, &alone, SYNC_REPLICATED, 1, &momentum);
    run_averaged(&one, alone, SYNC_REPLICATED, 1, false);
    assert_memory_not_equal(one.weights[0], many.weights[0], one.count * sizeof(float));
    for (uint32_t towers = 2; towers <= fixture_towers_max; towers += fixture_is_thorough() ? 1 : 3) {
        for (int i = 0; i < 2; i++) {
            run_averaged(&many, fixture_uneven(towers), i == 0 ? SYNC_REPLICATED : SYNC_AVERAGING, 1, false);
            assert_one_model(&many, towers);
            assert_near(many.weights[0], one.weights[0], one.count, 1e-6f);
        }
        run_averaged(&many, fixture_uneven(towers), SYNC_REPLICATED, 1, true);
        assert_one_model(&many, towers);
        run_averaged(&many, fixture_sparse(towers), SYNC_AVERAGING, 3, true);
        assert_one_model(&many, towers);
    }
}

TEST(towers_without_samples_get_the_mean_of_the_others)
{
    const struct schedule schedule = fixture_sparse(fixture_towers_max);
    run(&many, &schedule, SYNC_AVERAGING, 1, &sgd);
    run(&one, &schedule, SYNC_REPLICATED, 1, &sgd);
    assert_one_model(&many, fixture_towers_max);
    assert_near(many.weights[0], one.weights[0], one.count, 1e-6f);
}

/* The mean over the towers, weighted by the samples of each. */
static void find_mean(const struct fixture_result *result, const struct schedule *schedule, float *mean_out)
{
    static double sums[FIXTURE_FLOATS_MAX];
    uint64_t all = 0;
    memset(sums, 0, sizeof(sums));
    for (uint32_t d = 0; d < schedule->towers; d++) {
        struct local_batch local;
        uint64_t samples = 0;
        for (uint64_t number = 0; schedule_find(schedule, number, d, &local) == 0; number++)
            samples += local.count;
        for (size_t i = 0; i < result->count; i++)
            sums[i] += (double)result->weights[d][i] * (double)samples;
        all += samples;
    }
    for (size_t i = 0; i < result->count; i++)
        mean_out[i] = (float)(sums[i] / (double)all);
}

/* Until the first mean, towers are independent. */
TEST(a_mean_is_weighted_by_the_samples_since_the_one_before)
{
    static float mean[FIXTURE_FLOATS_MAX];
    static const struct optimizer *const rules[] = { &sgd, &momentum, &adadelta };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct schedule schedule = fixture_uneven(fixture_towers_max);
        schedule.records[PHASE_EVALUATE] = 0;
        schedule.steps = 5;
        run(&many, &schedule, SYNC_AVERAGING, 5, rules[i]);
        run(&one, &schedule, SYNC_INDEPENDENT, 5, rules[i]);
        find_mean(&one, &schedule, mean);
        assert_one_model(&many, fixture_towers_max);
        assert_near(many.weights[0], mean, many.count, 1e-6f);
    }
}

/* Whether the last mean is due after so many steps, before an evaluation, or at the end. */
TEST(towers_are_one_model_at_the_end_of_every_run)
{
    static const uint64_t everies[] = { 1, 2, 3, 5, 1000 };
    for (size_t i = 0; i < sizeof(everies) / sizeof(everies[0]); i++)
        for (int evaluates = 0; evaluates < 2; evaluates++) {
            if (!fixture_is_thorough() && (int)i % 2 != evaluates)
                continue;
            struct schedule schedule = fixture_uneven(fixture_towers_max);
            if (!evaluates)
                schedule.records[PHASE_EVALUATE] = 0;
            run(&many, &schedule, SYNC_AVERAGING, everies[i], &adadelta);
            assert_one_model(&many, fixture_towers_max);
        }
}

TEST(means_that_are_further_apart_give_other_weights)
{
    const struct schedule schedule = fixture_uneven(2);
    run(&one, &schedule, SYNC_AVERAGING, 1, &sgd);
    run(&many, &schedule, SYNC_AVERAGING, 3, &sgd);
    assert_memory_not_equal(one.weights[0], many.weights[0], one.count * sizeof(float));
}

TEST(a_request_between_two_means_leaves_one_model)
{
    static struct trainer_fixture fixture;
    for (uint64_t when = 0; when < 7; when += fixture_is_thorough() ? 1 : 3) {
        struct fixture_spec spec = { .schedule = fixture_uneven(fixture_towers_max), .mode = SYNC_AVERAGING, .every = 4,
                                     .optimizer = momentum };
        spec.schedule.epochs = 1000000;
        trainer_fixture_open(&fixture, &spec);
        fixture_start_all(&fixture);
        assert_int_equal(fixture_ready_all(&fixture), 0);
        if (when == 0)
            gate_request(fixture.gate);
        fixture_go_all(&fixture);
        int rc;
        while ((rc = fixture_next_batch(&fixture)) == 0)
            if (fixture.batches == when)
                gate_request(fixture.gate);
        assert_int_equal(rc, -ENODATA);
        assert_false(stop_failed(fixture.stop));
        trainer_fixture_read(&fixture, &many);
        assert_one_model(&many, fixture_towers_max);
        trainer_fixture_close(&fixture);
    }
}

/* Momentum is linear: with equal local batches the mean of weights with buffers of their own is that of one tower. */
TEST(buffers_that_are_kept_stay_with_their_towers)
{
    const struct schedule even = { .records = { 48, 17 }, .batch = 12, .towers = 2, .epochs = 2 };
    run(&one, &even, SYNC_REPLICATED, 1, &momentum);
    for (int keeps = 0; keeps < 2; keeps++) {
        fixture_result_of(&many, &(struct fixture_spec){ .schedule = even, .mode = SYNC_AVERAGING, .every = 1,
                                                         .optimizer = momentum, .keeps_buffers = keeps,
                                                         .saves = true });
        assert_int_equal(memcmp(many.saved[0], many.saved[1], many.saved_count * sizeof(float)) != 0, keeps);
        assert_memory_equal(many.weights[1], many.weights[0], many.count * sizeof(float));
        assert_near(many.weights[0], one.weights[0], many.count, 1e-6f);
    }
}

TEST(one_tower_alone_is_not_averaged)
{
    const struct schedule schedule = fixture_uneven(1);
    run(&many, &schedule, SYNC_AVERAGING, 2, &adadelta);
    run(&one, &schedule, SYNC_REPLICATED, 2, &adadelta);
    assert_memory_equal(many.weights[0], one.weights[0], many.count * sizeof(float));
}

/* ---- batch statistics ---- */

static void run_normalized(struct fixture_result *result, const struct schedule *schedule, enum sync_mode mode,
                           uint64_t every, bool is_frozen)
{
    fixture_result_of(result, &(struct fixture_spec){ .schedule = *schedule, .mode = mode, .every = every,
                                                      .optimizer = momentum, .normalizes = true,
                                                      .is_frozen = is_frozen });
}

TEST(towers_that_are_one_model_end_with_the_same_statistics)
{
    static const enum sync_mode modes[] = { SYNC_REPLICATED, SYNC_AVERAGING };
    for (uint32_t towers = 2; towers <= fixture_towers_max; towers++)
        for (int i = 0; i < 4; i++) {
            if (!fixture_is_thorough() && (towers == 4 || (uint32_t)i % 2 != towers % 2))
                continue;
            struct schedule schedule = fixture_uneven(towers);
            schedule.records[PHASE_EVALUATE] = i < 2 ? 17 : 0;
            run_normalized(&many, &schedule, modes[i % 2], 3, false);
            assert_one_model(&many, towers);
        }
}

TEST(towers_that_are_models_of_their_own_keep_their_statistics)
{
    const struct schedule schedule = fixture_uneven(2);
    run_normalized(&many, &schedule, SYNC_INDEPENDENT, 0, true);
    assert_memory_not_equal(many.weights[1], many.weights[0], many.count * sizeof(float));
}

/* With constant weights, statistics of independent towers differ from others only by the mean. */
TEST(the_mean_of_statistics_is_weighted_by_samples)
{
    static float mean[FIXTURE_FLOATS_MAX];
    static const enum sync_mode modes[] = { SYNC_REPLICATED, SYNC_AVERAGING };
    /* The last two of five towers have fewer samples than the others, or none. */
    static const struct schedule schedules[] = {
        { .records = { 53 }, .batch = 12, .towers = 3, .epochs = 2 },
        { .records = { 53 }, .batch = 12, .towers = 5, .epochs = 2 },
        { .records = { 9 }, .batch = 3, .towers = 5, .epochs = 1 },
    };
    for (size_t i = 0; i < sizeof(schedules) / sizeof(schedules[0]); i++)
        for (size_t m = 0; m < 2; m++) {
            if (schedules[i].towers > fixture_towers_max)
                continue;
            run_normalized(&many, &schedules[i], modes[m], 1000, true);
            run_normalized(&one, &schedules[i], SYNC_INDEPENDENT, 0, true);
            find_mean(&one, &schedules[i], mean);
            assert_near(many.weights[0], mean, many.count, 1e-6f);
        }
}

TEST(one_tower_keeps_the_statistics_it_has)
{
    const struct schedule schedule = fixture_uneven(1);
    run_normalized(&many, &schedule, SYNC_REPLICATED, 0, false);
    run_normalized(&one, &schedule, SYNC_INDEPENDENT, 0, false);
    assert_memory_equal(many.weights[0], one.weights[0], one.count * sizeof(float));
}

/* ---- independent ---- */

enum { SLICE = 5, STEPS = 7 };

static void run_alike(struct fixture_result *result, uint32_t towers, enum sync_mode mode,
                      const struct optimizer *optimizer)
{
    fixture_result_of(result, &(struct fixture_spec){
                                  .schedule = { .records = { towers * SLICE * STEPS, towers * SLICE },
                                                .batch = towers * SLICE, .towers = towers, .epochs = 2 },
                                  .mode = mode, .reduction = "host", .optimizer = *optimizer, .has_same_samples = true,
                                  .normalizes = true, .saves = true });
}

static void assert_each_is(const struct fixture_result *result, uint32_t towers, const struct fixture_result *expected)
{
    assert_one_model(result, towers);
    assert_memory_equal(result->saved[0], expected->saved[0], expected->saved_count * sizeof(float));
}

/* Two replicated towers, too: the sum of two equal numbers is exact. */
TEST(towers_with_identical_samples_do_what_one_tower_does)
{
    static const struct optimizer rules[] = {
        { .kind = OPTIMIZER_SGD, .weight_decay = 1e-3f },
        { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f },
        { .kind = OPTIMIZER_ADAM, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8f },
    };
    const uint32_t *towers;
    if (strcmp(fixture_reduction, "host") != 0)
        return;                 /* they reduce nothing */
    for (size_t n = fixture_tower_counts(&towers); n-- > 0;)
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
            if (!fixture_is_thorough() && n % (sizeof(rules) / sizeof(rules[0])) != i)
                continue;
            run_alike(&one, 1, SYNC_INDEPENDENT, &rules[i]);
            run_alike(&many, towers[n], SYNC_INDEPENDENT, &rules[i]);
            assert_each_is(&many, towers[n], &one);
            if (towers[n] > 2)
                continue;
            run_alike(&many, towers[n], SYNC_REPLICATED, &rules[i]);
            assert_each_is(&many, towers[n], &one);
        }
}

static int run_all(void)
{
    return tests_run(NULL, NULL);
}

int main(void)
{
    return fixture_run_tests(run_all, 300, true);
}
