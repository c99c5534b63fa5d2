/* Tests of how much steps suffer where cores are short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#include "tools/tune/crowding.h"

static const double one[] = { 1.0 }, half[] = { 0.5 };

#define TIMES(array) { array, sizeof(array) / sizeof(*(array)) }

/* A step of a second of two threads, a second of decoding a batch; samples a batch: 10. */
static struct feed_model on_cores(double cores)
{
    return (struct feed_model){ .decode = TIMES(half), .step = { TIMES(one) }, .step_threads = { 2 }, .step_kinds = 1,
                                .pieces = 2, .between = 4, .towers = 1, .batch = 10, .cores = cores,
                                .decode_cores = 1, .steps_on_cores = true, .crowding = 3 };
}

static double fitted(struct feed_model model, double speed)
{
    static const struct feed_setting now = { 1, 1, 2, 4, 2 };
    assert_int_equal(crowding_fit(&model, &now, speed), 0);
    return model.crowding;
}

static void the_model_then_says_what_was_measured(void **state)
{
    static const struct feed_setting now = { 1, 1, 2, 4, 2 };
    (void)state;
    struct feed_model model = on_cores(2);
    struct feed_prediction prediction;
    model.crowding = 1.7;
    assert_int_equal(feed_predict(&model, &now, 300, &prediction), 0);
    assert_float_equal(fitted(model, prediction.images_per_second), 1.7, 0.02);
}

static void what_is_as_fast_as_it_can_be_is_not_crowded(void **state)
{
    (void)state;
    assert_float_equal(fitted(on_cores(2), 1000), 1, 0.01);
}

static void a_setting_with_cores_enough_tells_nothing(void **state)
{
    (void)state;
    assert_float_equal(fitted(on_cores(3), 5), 1, 0);   /* slower than the model says, but not for want of cores */
    struct feed_model model = on_cores(2);
    model.steps_on_cores = false;
    assert_float_equal(fitted(model, 5), 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_then_says_what_was_measured),
        cmocka_unit_test(what_is_as_fast_as_it_can_be_is_not_crowded),
        cmocka_unit_test(a_setting_with_cores_enough_tells_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
