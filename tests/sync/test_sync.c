/* Tests of the table of modes: complete, and found by name. What the modes do is tested with
 * whole towers (test_trainer.c). */
#include "sync/sync.h"
#include "tests/helpers/test.h"

TEST(every_mode_has_a_row)
{
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++) {
        const struct sync_ops *const ops = sync_table[mode];
        assert_non_null(ops);
        assert_non_null(ops->apply);
        assert_ptr_equal(sync_choose((enum sync_mode)mode, 2, 1), ops);
    }
}

TEST(a_tower_alone_has_nobody_to_serve)
{
    assert_ptr_equal(sync_choose(SYNC_SERVER_DEVICE, 1, 1), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_HOST, 1, 1), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_ASYNC, 1, 1), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_DEVICE_RELAXED, 1, 1), sync_table[SYNC_RELAXED]);
    assert_ptr_equal(sync_choose(SYNC_SERVER_HOST_RELAXED, 1, 1), sync_table[SYNC_RELAXED]);
    assert_ptr_equal(sync_choose(SYNC_ASYNC, 1, 0), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_ASYNC, 2, 0), sync_table[SYNC_SERVER_HOST]);
    assert_ptr_equal(sync_choose(SYNC_REPLICATED, 1, 1), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_choose(SYNC_AVERAGING, 1, 1), sync_table[SYNC_AVERAGING]);
    assert_ptr_equal(sync_choose(SYNC_INDEPENDENT, 1, 1), sync_table[SYNC_INDEPENDENT]);
}

TEST(towers_that_sum_nothing_are_models_of_their_own)
{
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++)
        assert_int_equal(sync_table[mode]->is_one_model, sync_table[mode]->sum != NULL);
}

TESTS_MAIN(NULL, NULL)
