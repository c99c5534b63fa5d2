/* Tests of batch statistics over several towers: each tower's own in training, one model's where
 * they are looked at. */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/helpers/trainer_rig.h"

/* The tests are run for each. */
static const char *reduction = "host";

static struct rig rig;

/* Every tower's weights and statistics at the end of a run. */
struct outcome {
    float numbers[RIG_TOWERS_MAX][RIG_FLOATS_MAX];
    size_t count;
};

static void run(struct outcome *outcome, const struct rig_spec *spec)
{
    struct rig_spec complete = *spec;
    complete.reduction = reduction;
    complete.normalizes = true;
    complete.optimizer = (struct optimizer){ .kind = OPTIMIZER_MOMENTUM, .momentum = 0.9f };
    rig_open(&rig, &complete);
    rig_run(&rig);
    memset(outcome, 0, sizeof(*outcome));
    outcome->count = rig_floats(&rig);
    for (uint32_t d = 0; d < spec->schedule.towers; d++)
        rig_read_weights(&rig, d, outcome->numbers[d]);
    rig_close(&rig);
}

static struct schedule uneven(uint32_t towers, uint64_t evaluated)
{
    return (struct schedule){ .records = { 53, evaluated }, .batch = 12, .towers = towers, .epochs = 2 };
}

TEST(towers_that_are_one_model_end_with_the_same_statistics)
{
    static struct outcome outcome;
    static const enum sync_mode modes[] = { SYNC_REPLICATED, SYNC_AVERAGING };
    for (uint32_t towers = 2; towers <= RIG_TOWERS_MAX; towers++)
        for (int i = 0; i < 4; i++) {
            if (!rig_is_thorough() && (towers == 4 || (uint32_t)i % 2 != towers % 2))
                continue;
            const struct schedule schedule = uneven(towers, i < 2 ? 17 : 0);
            run(&outcome, &(struct rig_spec){ .schedule = schedule, .mode = modes[i % 2], .every = 3 });
            for (uint32_t d = 1; d < towers; d++)
                assert_memory_equal(outcome.numbers[d], outcome.numbers[0], outcome.count * sizeof(float));
        }
}

TEST(towers_that_are_models_of_their_own_keep_their_statistics)
{
    static struct outcome outcome;
    run(&outcome, &(struct rig_spec){ .schedule = uneven(2, 17), .mode = SYNC_INDEPENDENT, .is_frozen = true });
    assert_memory_not_equal(outcome.numbers[1], outcome.numbers[0], outcome.count * sizeof(float));
}

/* With weights that stay, statistics are the same whether towers meet or not, but for the mean. */
static void check_mean(enum sync_mode mode, const struct schedule *schedule)
{
    static struct outcome met, alone;
    static double mean[RIG_FLOATS_MAX];
    run(&met, &(struct rig_spec){ .schedule = *schedule, .mode = mode, .every = 1000, .is_frozen = true });
    run(&alone, &(struct rig_spec){ .schedule = *schedule, .mode = SYNC_INDEPENDENT, .is_frozen = true });
    memset(mean, 0, sizeof(mean));
    uint64_t all = 0;
    for (uint32_t d = 0; d < schedule->towers; d++) {
        struct batch_slice slice;
        uint64_t samples = 0;
        for (uint64_t number = 0; schedule_find(schedule, number, d, &slice) == 0; number++)
            samples += slice.count;
        for (size_t i = 0; i < alone.count; i++)
            mean[i] += alone.numbers[d][i] * (double)samples;
        all += samples;
    }
    for (size_t i = 0; i < met.count; i++)
        assert_true(fabs(met.numbers[0][i] - mean[i] / (double)all) <= 1e-6 * (1 + fabs(mean[i] / (double)all)));
}

TEST(the_mean_of_statistics_is_weighted_by_samples)
{
    /* The last two of five towers have fewer samples than the others, or none. */
    const struct schedule schedules[] = {
        uneven(3, 0), uneven(5, 0), { .records = { 9 }, .batch = 3, .towers = 5, .epochs = 1 } };
    for (int i = 0; i < 3; i++) {
        check_mean(SYNC_REPLICATED, &schedules[i]);
        check_mean(SYNC_AVERAGING, &schedules[i]);
    }
}

TEST(one_tower_keeps_the_statistics_it_has)
{
    static struct outcome replicated, alone;
    run(&replicated, &(struct rig_spec){ .schedule = uneven(1, 17), .mode = SYNC_REPLICATED });
    run(&alone, &(struct rig_spec){ .schedule = uneven(1, 17), .mode = SYNC_INDEPENDENT });
    assert_memory_equal(replicated.numbers[0], alone.numbers[0], alone.count * sizeof(float));
}

int main(void)
{
    alarm(300);
    int failed = tests_run(NULL, NULL);
    if (!test_device_ops()->host_memory) {
        reduction = "peer";
        failed += tests_run(NULL, NULL);
    }
    return failed;
}
