/* Tests of the table of modes: complete, and found by name. What the modes do is tested with
 * whole towers (test_trainer.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sync/modes.h"

static void every_mode_has_a_row_and_is_found_by_its_name(void **state)
{
    (void)state;
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++) {
        const struct sync_ops *const ops = sync_table[mode];
        assert_non_null(ops);
        assert_non_null(ops->apply);
        assert_ptr_equal(sync_find(ops->name), ops);
    }
    assert_ptr_equal(sync_find("replicated"), sync_table[SYNC_REPLICATED]);
    assert_ptr_equal(sync_find("independent"), sync_table[SYNC_INDEPENDENT]);
    assert_null(sync_find("replicate"));
    assert_null(sync_find(""));
}

static void towers_that_sum_nothing_are_models_of_their_own(void **state)
{
    (void)state;
    for (int mode = 0; mode < SYNC_MODE_COUNT; mode++)
        assert_int_equal(sync_table[mode]->is_one_model, sync_table[mode]->sum != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode_has_a_row_and_is_found_by_its_name),
        cmocka_unit_test(towers_that_sum_nothing_are_models_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
