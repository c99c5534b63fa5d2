/* Tests of how much steps suffer where cores are short. */
#include <math.h>

#include "tests/helpers/test.h"
#include "tools/tune/crowding.h"

static const double one[] = { 1.0 }, half[] = { 0.5 };

#define TIMES(array) { array, sizeof(array) / sizeof(*(array)) }

/* A step of a second of two threads, a second of decoding a batch; samples a batch: 10. */
static struct feed_model on_cores(double cores)
{
    return (struct feed_model){ .decode = TIMES(half), .step = { TIMES(one) }, .step_threads = { 2 }, .step_kinds = 1,
                                .pieces = 2, .between = 4, .towers = 1, .batch = 10, .cores = cores,
                                .decode_cores = 1, .loader_weight = 0.5, .steps_on_cores = true, .crowding = 3 };
}

static const struct feed_setting now = { 1, 1, 2, 4, 2 };

static double fitted(struct feed_model model, double seconds)
{
    assert_int_equal(crowding_fit(&model, &now, seconds), 0);
    return model.crowding;
}

/* Of the model, without what is waited. */
static double step_seconds(const struct feed_model *model)
{
    struct feed_prediction prediction;
    assert_int_equal(feed_predict(model, &now, 300, &prediction), 0);
    return (1 - prediction.input_wait) * 10 / prediction.images_per_second;
}

TEST(steps_then_take_as_long_as_was_measured)
{
    static const double long_decode[] = { 1.5 };
    for (int is_fed = 0; is_fed < 2; is_fed++) {
        struct feed_model model = on_cores(2);
        if (!is_fed)
            model.decode = (struct feed_times)TIMES(long_decode);   /* what is waited is no step */
        model.crowding = 1.7;
        const double seconds = step_seconds(&model);
        assert_true(seconds > 1.5);
        assert_float_equal(fitted(model, seconds), 1.7, 0.02);
    }
}

/* The loader does not disturb it at all. */
TEST(a_step_as_short_as_alone_has_its_cores)
{
    struct feed_model model = on_cores(2);
    model.crowding = fitted(model, 1);
    assert_float_equal(step_seconds(&model), 1, 0.01);
    assert_float_equal(fitted(model, 0.5), 0, 0.01);
}

TEST(a_setting_with_cores_enough_tells_nothing)
{
    static const double copy[] = { 0.02 };
    struct feed_model nearly = on_cores(3);     /* only a copy now and then is one too many */
    nearly.copy = (struct feed_times)TIMES(copy);
    nearly.copies_on_cores = true;
    assert_float_equal(fitted(nearly, 1.04), 1, 0);
    assert_float_equal(fitted(on_cores(2), NAN), 1, 0);
    assert_float_equal(fitted(on_cores(3), 2), 1, 0);   /* slower than the model says, but not for want of cores */
    struct feed_model model = on_cores(2);
    model.steps_on_cores = false;
    assert_float_equal(fitted(model, 2), 1, 0);
}

TESTS_MAIN(NULL, NULL)
