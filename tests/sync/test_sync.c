/* Tests of the table of modes, and of when a mean is taken and of which samples. Whole towers are tested in
 * test_trainer.c. */
#include "sync/sync.h"
#include "tests/helpers/test.h"

TEST(every_mode_has_a_row)
{
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++) {
        const struct sync_ops *const ops = sync_table[mode];
        assert_non_null(ops);
        assert_non_null(ops->apply);
        assert_ptr_equal(sync_choose((enum sync_mode)mode, 2, 1, 1), ops);
    }
}

TEST(a_tower_alone_has_nobody_to_serve)
{
    assert_ptr_equal(sync_choose(SYNC_SERVER_DEVICE, 1, 1, 1), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_HOST, 1, 1, 1), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_ASYNC, 1, 1, 1), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_DEVICE_RELAXED, 1, 1, 1), sync_table[SYNC_RELAXED]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_HOST_RELAXED, 1, 1, 1), sync_table[SYNC_RELAXED]);
    assert_ptr_equal(sync_choose(SYNC_ASYNC, 1, 1, 0), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_ASYNC, 2, 1, 0), sync_table[SYNC_SERVER_HOST]);
    assert_ptr_equal(sync_choose(SYNC_REPLICATED, 1, 1, 1), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_AVERAGING, 1, 1, 1), sync_table[SYNC_AVERAGING]);
    assert_ptr_equal(sync_choose(SYNC_INDEPENDENT, 1, 1, 1), sync_table[SYNC_INDEPENDENT]);
}

TEST(a_server_of_several_processes_is_on_the_devices)
{
    assert_ptr_equal(sync_choose(SYNC_SERVER_HOST, 4, 2, 1), sync_table[SYNC_SERVER_DEVICE]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_HOST_RELAXED, 4, 2, 1), sync_table[SYNC_SERVER_DEVICE_RELAXED]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_DEVICE, 4, 2, 1), sync_table[SYNC_SERVER_DEVICE]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_DEVICE_RELAXED, 4, 2, 1), sync_table[SYNC_SERVER_DEVICE_RELAXED]);
    assert_ptr_equal(sync_choose(SYNC_ASYNC, 4, 2, 0), sync_table[SYNC_SERVER_DEVICE]);
    assert_ptr_equal(sync_choose(SYNC_ASYNC, 4, 2, 1), sync_table[SYNC_ASYNC]);
    assert_ptr_equal(sync_choose(SYNC_REPLICATED, 4, 2, 0), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_RELAXED, 4, 2, 0), sync_table[SYNC_RELAXED]);
}

TEST(towers_that_sum_nothing_are_models_of_their_own)
{
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++)
        assert_int_equal(sync_table[mode]->is_one_model, sync_table[mode]->sum != NULL);
}

/* Follow a tower through the run, counting what it learned from since the last mean. */
static void check_run(const struct schedule *schedule, uint32_t tower, uint64_t every)
{
    struct mean_share counted = { 0 };
    struct local_batch local;
    for (uint64_t number = 0; schedule_find(schedule, number, tower, &local) == 0; number++) {
        if (local.phase == PHASE_EVALUATE) {
            counted = (struct mean_share){ 0 };
            assert_true(mean_is_due_after(&local, every));
            continue;
        }
        counted.own += local.count;
        counted.all += local.global_count;
        const struct mean_share share = mean_share(schedule, tower, number, every);
        assert_int_equal(share.own, counted.own);
        assert_int_equal(share.all, counted.all);
        const bool is_due = every > 0 && (local.step + 1) % every == 0;
        assert_int_equal(mean_is_due_after(&local, every), is_due);
        if (is_due)
            counted = (struct mean_share){ 0 };
    }
}

TEST(a_share_is_what_was_learned_from_since_the_last_mean)
{
    static const uint64_t everies[] = { 0, 1, 2, 3, 5, 8, 1000 };
    static const uint64_t evaluations[] = { 0, 17 };
    for (uint32_t towers = 1; towers <= 15; towers += 7)
        for (size_t i = 0; i < sizeof(everies) / sizeof(everies[0]); i++)
            for (size_t e = 0; e < 2; e++) {
                const struct schedule schedule = {
                    .records = { 53, evaluations[e] }, .batch = 12, .towers = towers, .epochs = 3, .steps = 13 };
                for (uint32_t tower = 0; tower < towers; tower++)
                    check_run(&schedule, tower, everies[i]);
            }
}

TEST(the_shares_of_all_towers_are_the_whole)
{
    const struct schedule schedule = { .records = { 53, 17 }, .batch = 5, .towers = 7, .epochs = 2 };
    for (uint64_t last = 0; last < 11; last++) {
        uint64_t sum = 0;
        for (uint32_t tower = 0; tower < 7; tower++)
            sum += mean_share(&schedule, tower, last, 4).own;
        assert_int_equal(sum, mean_share(&schedule, 0, last, 4).all);
        assert_true(sum > 0);
    }
}

TESTS_MAIN(NULL, NULL)
