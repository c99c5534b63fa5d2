/* Tests of the settings that the plan of a run gives to each tower. */
#include <stdio.h>

#include "sync/sync.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/run_plan.h"

static struct settings settings;

static int begin(void **state)
{
    (void)state;
    return settings_init(&settings);
}

static int end(void **state)
{
    (void)state;
    settings_release(&settings);
    return 0;
}

/* A run of so many steps, one tower, batches of 8. */
static struct run_plan plan_of(uint64_t steps, bool keeps_plans)
{
    return (struct run_plan){
        .schedule = { .records = { [PHASE_TRAIN] = 8 * steps }, .batch = 8, .towers = 1, .epochs = 1 },
        .devices = { .backend = backend_find("reference"), .mode = sync_table[SYNC_REPLICATED], .towers = { 0, 1 },
                     .count = 1, .keeps_plans = keeps_plans },
        .threads_per_tower = 1,
    };
}

static bool measures(enum plan_times times, uint64_t steps, bool keeps_plans)
{
    const struct run_plan plan = plan_of(steps, keeps_plans);
    settings.devices.time_plans = times;
    return run_plan_tower(&plan, &settings, 0).backend_spec.time_plans;
}

TEST_WITH(plans_are_measured_for_long_runs_that_keep_them, begin, end)
{
    assert_int_equal(settings.devices.time_plans, PLAN_TIMES_AUTO);
    assert_true(measures(PLAN_TIMES_AUTO, 5000, true));
    assert_false(measures(PLAN_TIMES_AUTO, 4999, true));
    assert_false(measures(PLAN_TIMES_AUTO, 5000, false));
    assert_true(measures(PLAN_TIMES_YES, 1, false));
    assert_false(measures(PLAN_TIMES_NO, 5000, true));
}

TEST_WITH(gradients_are_fused_in_long_runs_that_keep_plans, begin, end)
{
    static const struct { enum fuse_choice fuse; uint64_t steps; bool keeps, fuses; } rows[] = {
        { FUSE_AUTO, 5000, true, true },   { FUSE_AUTO, 4999, true, false }, { FUSE_AUTO, 5000, false, false },
        { FUSE_YES, 1, false, true },      { FUSE_NO, 5000, true, false },
    };
    assert_int_equal(settings.devices.fuse, FUSE_AUTO);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct run_plan plan = plan_of(rows[i].steps, rows[i].keeps);
        settings.devices.fuse = rows[i].fuse;
        assert_int_equal(run_plan_tower(&plan, &settings, 0).backend_spec.fuses, rows[i].fuses);
    }
}

/* What is left does not count: a run that continues computes by the plans it began with. */
TEST_WITH(a_run_that_goes_on_measures_as_it_did, begin, end)
{
    struct run_plan plan = plan_of(6000, true);
    settings.devices.time_plans = PLAN_TIMES_AUTO;
    plan.schedule.first = 5999;
    assert_true(run_plan_tower(&plan, &settings, 0).backend_spec.time_plans);
    plan.only_evaluated = 100;
    assert_false(run_plan_tower(&plan, &settings, 0).backend_spec.time_plans);
}

TEST_WITH(only_training_fuses_statistics, begin, end)
{
    struct run_plan plan = plan_of(3, false);
    settings.devices.batch_statistics = BATCH_STATISTICS_FUSED;
    assert_int_equal(run_plan_tower(&plan, &settings, 0).backend_spec.batch_statistics, BATCH_STATISTICS_FUSED);
    plan.only_evaluated = 100;
    assert_int_equal(run_plan_tower(&plan, &settings, 0).backend_spec.batch_statistics, BATCH_STATISTICS_EXACT);
}

TEST_WITH(local_batches_are_cut_into_microbatches, begin, end)
{
    struct run_plan plan = plan_of(3, false);
    plan.schedule.records[PHASE_TRAIN] = 8 + 5;
    struct tower_spec spec = run_plan_tower(&plan, &settings, 0);
    assert_int_equal(spec.train_counts[0], 8);
    assert_int_equal(spec.train_counts[2], 5);
    plan.microbatch_max = 3;
    spec = run_plan_tower(&plan, &settings, 0);
    assert_int_equal(spec.train_counts[0], 3);
    assert_int_equal(spec.train_counts[1], 8 % 3);
    assert_int_equal(spec.train_counts[2], 5 % 3);
}

TEST_WITH(towers_that_train_own_neighbouring_parts, begin, end)
{
    struct run_plan plan = plan_of(3, false);
    plan.schedule.towers = 4;
    plan.schedule.slices = 4;
    settings.model.parts = 8;
    for (uint32_t tower = 0; tower < 4; tower++) {
        const struct tower_parts parts = run_plan_tower(&plan, &settings, tower).parts;
        assert_int_equal(parts.all, 8);
        assert_int_equal(parts.first, 2 * tower);
        assert_int_equal(parts.count, 2);
        assert_int_equal(parts.batch, 8);
    }
    plan.only_evaluated = 100;
    assert_int_equal(run_plan_tower(&plan, &settings, 1).parts.all, 0);
    plan.only_evaluated = 0;
    plan.devices.backend = backend_find("null");
    assert_non_null(plan.devices.backend);
    assert_int_equal(run_plan_tower(&plan, &settings, 1).parts.all, 0);
}

TESTS_MAIN(NULL, NULL)
