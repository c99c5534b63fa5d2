/* Tests of mode averaging with whole towers: a mean at every step is mode replicated, a mean is
 * weighted by samples, and towers are one model at every end of a run. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_rig.h"

/* The tests are run for each. */
static const char *reduction = "host";
static uint32_t towers_max;

static const struct optimizer sgd = { .kind = OPTIMIZER_SGD };
static const struct optimizer momentum = { .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };
static const struct optimizer nesterov = { .kind = OPTIMIZER_NESTEROV, .momentum = 0.9f, .weight_decay = 1e-3f };
static const struct optimizer adadelta = { .kind = OPTIMIZER_ADADELTA, .rho = 0.95f, .epsilon = 1e-6f };

static struct rig rig;

/* Epochs end with a partial batch; slices are uneven. */
static struct schedule uneven(uint32_t towers)
{
    return (struct schedule){ .records = { 53, 17 }, .batch = 12, .towers = towers, .epochs = 2 };
}

/* Batches of 4 and, last in an epoch, of 2: the fifth tower never has a sample, the third and fourth
 * sometimes. */
static struct schedule sparse(uint32_t towers)
{
    return (struct schedule){ .records = { 14, 3 }, .batch = 4, .towers = towers, .epochs = 3 };
}

static void open_run(const struct schedule *schedule, enum sync_mode mode, uint64_t every,
                     const struct optimizer *optimizer)
{
    const struct rig_spec spec = {
        .schedule = *schedule, .mode = mode, .reduction = reduction, .every = every, .optimizer = *optimizer };
    rig_open(&rig, &spec);
}

/* Every tower's weights at the end of a run. */
struct outcome { float weights[RIG_TOWERS_MAX][RIG_FLOATS_MAX]; size_t count; };

static void read_outcome(struct outcome *outcome)
{
    memset(outcome, 0, sizeof(*outcome));
    outcome->count = rig_floats(&rig);
    for (uint32_t d = 0; d < rig.schedule.towers; d++)
        rig_read_weights(&rig, d, outcome->weights[d]);
}

static void run(struct outcome *outcome, const struct schedule *schedule, enum sync_mode mode, uint64_t every,
                const struct optimizer *optimizer)
{
    open_run(schedule, mode, every, optimizer);
    rig_run(&rig);
    assert_int_equal(rig.batches, schedule_batch_count(schedule));
    read_outcome(outcome);
    rig_close(&rig);
}

static void assert_one_model(const struct outcome *outcome, uint32_t towers)
{
    for (uint32_t d = 1; d < towers; d++)
        assert_memory_equal(outcome->weights[d], outcome->weights[0], outcome->count * sizeof(float));
}

static void assert_near(const float *weights, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(weights[i] - expected[i]) <= 1e-6f * (1 + fabsf(expected[i]))))
            fail_msg("weight %zu is %.9g, not %.9g", i, (double)weights[i], (double)expected[i]);
}

TEST(a_mean_at_every_step_is_what_replicated_towers_do)
{
    static struct outcome averaged, replicated;
    static const struct optimizer *const rules[] = { &sgd, &momentum, &nesterov };
    for (uint32_t towers = 1; towers <= towers_max; towers++)
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
            if (!rig_is_thorough() && (towers + i) % (sizeof(rules) / sizeof(rules[0])) != 0)
                continue;
            const struct schedule schedule = i == 0 && towers > 2 ? sparse(towers) : uneven(towers);
            run(&averaged, &schedule, SYNC_AVERAGING, 1, rules[i]);
            run(&replicated, &schedule, SYNC_REPLICATED, 1, rules[i]);
            assert_one_model(&averaged, towers);
            assert_near(averaged.weights[0], replicated.weights[0], replicated.count);
        }
}

static void run_averaged(struct outcome *outcome, const struct schedule *schedule, enum sync_mode mode, uint64_t every,
                         bool normalizes)
{
    const struct rig_spec spec = { .schedule = *schedule, .mode = mode, .reduction = reduction, .every = every,
                                   .optimizer = momentum, .normalizes = normalizes, .average_decay = 0.8 };
    rig_open(&rig, &spec);
    rig_run(&rig);
    read_outcome(outcome);
    rig_close(&rig);
}

/* What a run leaves are the averages. */
TEST(averages_of_weights_are_those_of_one_tower)
{
    static struct outcome plain, one, many;
    const struct schedule alone = uneven(1);
    run(&plain, &alone, SYNC_REPLICATED, 1, &momentum);
    run_averaged(&one, &alone, SYNC_REPLICATED, 1, false);
    assert_memory_not_equal(one.weights[0], plain.weights[0], one.count * sizeof(float));
    for (uint32_t towers = 2; towers <= towers_max; towers += rig_is_thorough() ? 1 : 3) {
        const struct schedule schedule = uneven(towers), few = sparse(towers);
        run_averaged(&many, &schedule, SYNC_REPLICATED, 1, false);
        assert_one_model(&many, towers);
        assert_near(many.weights[0], one.weights[0], one.count);
        run_averaged(&many, &schedule, SYNC_AVERAGING, 1, false);
        assert_one_model(&many, towers);
        assert_near(many.weights[0], one.weights[0], one.count);
        run_averaged(&many, &schedule, SYNC_REPLICATED, 1, true);
        assert_one_model(&many, towers);
        run_averaged(&many, &few, SYNC_AVERAGING, 3, true);
        assert_one_model(&many, towers);
    }
}

TEST(towers_without_samples_get_the_mean_of_the_others)
{
    static struct outcome averaged, replicated;
    const struct schedule schedule = sparse(towers_max);
    run(&averaged, &schedule, SYNC_AVERAGING, 1, &sgd);
    run(&replicated, &schedule, SYNC_REPLICATED, 1, &sgd);
    assert_one_model(&averaged, towers_max);
    assert_near(averaged.weights[0], replicated.weights[0], replicated.count);
}

/* Until the first mean, towers are independent. */
TEST(a_mean_is_weighted_by_the_samples_since_the_one_before)
{
    static struct outcome averaged, alone;
    static float mean[RIG_FLOATS_MAX];
    static const struct optimizer *const rules[] = { &sgd, &momentum, &adadelta };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct schedule schedule = uneven(towers_max);
        schedule.records[PHASE_EVALUATE] = 0;
        schedule.steps = 5;
        run(&averaged, &schedule, SYNC_AVERAGING, 5, rules[i]);
        run(&alone, &schedule, SYNC_INDEPENDENT, 5, rules[i]);
        memset(mean, 0, sizeof(mean));
        for (uint32_t d = 0; d < towers_max; d++) {
            uint32_t samples = 0;
            struct batch_slice slice;
            for (uint64_t number = 0; schedule_find(&schedule, number, d, &slice) == 0; number++)
                samples += slice.count;
            for (size_t w = 0; w < alone.count; w++)
                mean[w] += alone.weights[d][w] * (float)samples / 53.0f;
        }
        assert_one_model(&averaged, towers_max);
        assert_near(averaged.weights[0], mean, averaged.count);
    }
}

/* Whether the last mean is due by the count of steps, in front of an evaluation or at the end. */
TEST(towers_are_one_model_at_the_end_of_every_run)
{
    static struct outcome outcome;
    static const uint64_t everies[] = { 1, 2, 3, 5, 1000 };
    for (size_t i = 0; i < sizeof(everies) / sizeof(everies[0]); i++)
        for (int evaluates = 0; evaluates < 2; evaluates++) {
            if (!rig_is_thorough() && (int)i % 2 != evaluates)
                continue;
            struct schedule schedule = uneven(towers_max);
            if (!evaluates)
                schedule.records[PHASE_EVALUATE] = 0;
            run(&outcome, &schedule, SYNC_AVERAGING, everies[i], &adadelta);
            assert_one_model(&outcome, towers_max);
        }
}

TEST(means_that_are_further_apart_give_other_weights)
{
    static struct outcome often, seldom;
    const struct schedule schedule = uneven(2);
    run(&often, &schedule, SYNC_AVERAGING, 1, &sgd);
    run(&seldom, &schedule, SYNC_AVERAGING, 3, &sgd);
    assert_memory_not_equal(often.weights[0], seldom.weights[0], often.count * sizeof(float));
}

TEST(a_request_between_two_means_leaves_one_model)
{
    static struct outcome outcome;
    for (uint64_t when = 0; when < 7; when += rig_is_thorough() ? 1 : 3) {
        struct schedule schedule = uneven(towers_max);
        schedule.epochs = 1000000;
        open_run(&schedule, SYNC_AVERAGING, 4, &momentum);
        rig_start_all(&rig);
        assert_int_equal(rig_ready_all(&rig), 0);
        if (when == 0)
            gate_request(rig.gate);
        rig_go_all(&rig);
        int rc;
        while ((rc = rig_next_batch(&rig)) == 0)
            if (rig.batches == when)
                gate_request(rig.gate);
        assert_int_equal(rc, -ENODATA);
        assert_false(stop_failed(rig.stop));
        read_outcome(&outcome);
        assert_one_model(&outcome, towers_max);
        rig_close(&rig);
    }
}

/* Momentum is linear: of slices of one size the mean of weights with buffers of their own is that of one tower. */
TEST(buffers_that_are_kept_stay_with_their_towers)
{
    static struct outcome averaged, replicated;
    static float saved[2][RIG_STATE_MAX];
    const struct schedule even = { .records = { 48, 17 }, .batch = 12, .towers = 2, .epochs = 2 };
    run(&replicated, &even, SYNC_REPLICATED, 1, &momentum);
    for (int keeps = 0; keeps < 2; keeps++) {
        const struct rig_spec spec = { .schedule = even, .mode = SYNC_AVERAGING, .reduction = reduction, .every = 1,
                                       .optimizer = momentum, .keeps_buffers = keeps, .saves = true };
        rig_open(&rig, &spec);
        rig_run(&rig);
        read_outcome(&averaged);
        const size_t count = rig_read_last(&rig, 0, saved[0]) * sizeof(float);
        assert_int_equal(rig_read_last(&rig, 1, saved[1]) * sizeof(float), count);
        assert_int_equal(memcmp(saved[0], saved[1], count) != 0, keeps);
        rig_close(&rig);
        assert_one_model(&averaged, 2);
        assert_near(averaged.weights[0], replicated.weights[0], averaged.count);
    }
}

TEST(one_tower_alone_is_not_averaged)
{
    static struct outcome averaged, replicated;
    const struct schedule schedule = uneven(1);
    run(&averaged, &schedule, SYNC_AVERAGING, 2, &adadelta);
    run(&replicated, &schedule, SYNC_REPLICATED, 2, &adadelta);
    assert_memory_equal(averaged.weights[0], replicated.weights[0], averaged.count * sizeof(float));
}

int main(void)
{
    alarm(300);
    const uint32_t *counts;
    const size_t last = rig_tower_counts(&counts) - 1;
    towers_max = counts[last];
    int failed = tests_run(NULL, NULL);
    if (!test_device_ops()->host_memory) {
        char why[256];
        const uint32_t devices = test_device_ops()->count(why, sizeof(why));
        reduction = "peer";
        failed += tests_run(NULL, NULL);
        reduction = "nccl";
        towers_max = devices < towers_max ? devices : towers_max;
        if (devices > 1)
            failed += tests_run(NULL, NULL);
    }
    return failed;
}
