/* Tests of the learning rate as a function of the step: the schedules of others, and what they leave open. */
#include <math.h>

#include "compute/learning_rate.h"
#include "tests/helpers/test.h"
#include "tests/peers/learning_rates.h"

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) <= 1e-12 * fabs(expected) + 1e-16))
        fail_msg("%.17g is not %.17g", found, expected);
}

TEST(without_a_schedule_it_is_the_same_at_every_step)
{
    const struct learning_rate rate = { .base = 0.1 };
    assert_true(learning_rate_at(&rate, 0) == 0.1);
    assert_true(learning_rate_at(&rate, UINT64_MAX) == 0.1);
}

TEST(schedules_go_the_way_of_those_of_pytorch)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        for (uint32_t k = 0; k < POINTS; k++)
            assert_near(learning_rate_at(&ways[i].rate, points[k]), ways[i].rates[k]);
}

TEST(a_boundary_s_own_step_still_has_the_rate_before)
{
    const struct learning_rate rate = { .schedule = RATE_PIECEWISE, .base = 0.5, .boundary_count = 3,
                                        .boundaries = { 10, 20.5, 30 }, .factors = { 0.1, 2, 0 } };
    static const struct { uint64_t step; double factor; } expected[] = {
        { 0, 1 }, { 9, 1 }, { 10, 1 }, { 11, 0.1 }, { 20, 0.1 }, { 21, 2 }, { 30, 2 }, { 31, 0 }, { 1000000, 0 } };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_near(learning_rate_at(&rate, expected[i].step), 0.5 * expected[i].factor);
}

TEST(a_staircase_falls_with_whole_periods_only)
{
    struct learning_rate rate = { .schedule = RATE_EXPONENTIAL, .base = 0.1, .factor = 0.5, .period = 2.5,
                                  .staircase = true };
    static const double factors[] = { 1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125 };
    for (uint64_t step = 0; step < sizeof(factors) / sizeof(factors[0]); step++)
        assert_near(learning_rate_at(&rate, step), 0.1 * factors[step]);
    rate.staircase = false;
    for (uint64_t step = 0; step < 20; step++)
        assert_near(learning_rate_at(&rate, step), 0.1 * pow(0.5, (double)step / 2.5));
}

TEST(inverse_time_is_what_keras_calls_decay)
{
    const struct learning_rate rate = { .schedule = RATE_INVERSE_TIME, .base = 1e-4, .factor = 1e-6 };
    for (uint64_t step = 0; step < 1000000; step += 12345)
        assert_near(learning_rate_at(&rate, step), 1e-4 * (1 / (1 + 1e-6 * (double)step)));
}

/* Every schedule but the one that has a warm-up of its own. */
static struct learning_rate scheduled(enum rate_schedule schedule)
{
    return (struct learning_rate){ .schedule = schedule, .base = 0.8, .end = 0.05, .last = 100, .factor = 0.5,
                                   .period = 30, .power = 2, .boundary_count = 1, .boundaries = { 50 },
                                   .factors = { 0.1 } };
}

/* One division and one multiplication where the warm-up begins at 0, so that such rates never change by a rounding. */
TEST(a_warm_up_climbs_in_a_line_from_0_to_the_schedule)
{
    for (int schedule = RATE_CONSTANT; schedule < RATE_ONE_CYCLE; schedule++) {
        struct learning_rate warm = scheduled((enum rate_schedule)schedule);
        const struct learning_rate cold = warm;
        const bool is_behind = schedule == RATE_COSINE || schedule == RATE_POLYNOMIAL;
        warm.warmup = 20;
        assert_true(learning_rate_at(&warm, 0) == 0);
        for (uint64_t step = 0; step < 20; step++)
            assert_true(learning_rate_at(&warm, step) ==
                        (is_behind ? 0.8 : learning_rate_at(&cold, step)) * ((double)step / 20));
        assert_near(learning_rate_at(&warm, 20), is_behind ? 0.8 : learning_rate_at(&cold, 20));
        assert_near(learning_rate_at(&warm, 1000), learning_rate_at(&cold, 1000));
    }
}

TEST(a_warm_up_may_begin_at_a_share_of_the_rate)
{
    for (int schedule = RATE_CONSTANT; schedule < RATE_ONE_CYCLE; schedule++) {
        struct learning_rate warm = scheduled((enum rate_schedule)schedule), full = warm;
        warm.warmup = full.warmup = 20;
        warm.warmup_from = 0.1;
        full.warmup_from = 1;
        assert_near(learning_rate_at(&warm, 0), 0.08);
        for (uint64_t step = 0; step < 120; step++)
            assert_near(learning_rate_at(&warm, step),
                        learning_rate_at(&full, step) * (step < 20 ? 0.1 + 0.9 * (double)step / 20 : 1));
    }
}

TEST(schedules_that_end_stay_at_their_end)
{
    static const enum rate_schedule ending[] = { RATE_COSINE, RATE_POLYNOMIAL };
    for (size_t i = 0; i < 2; i++) {
        const struct learning_rate rate = scheduled(ending[i]);
        assert_true(learning_rate_at(&rate, 99) > 0.05);
        assert_near(learning_rate_at(&rate, 100), 0.05);
        assert_near(learning_rate_at(&rate, UINT64_MAX), 0.05);
    }
    const struct learning_rate cycle = { .schedule = RATE_ONE_CYCLE, .base = 0.5, .last = 40, .peak = 0.25 };
    assert_near(learning_rate_at(&cycle, 9), 0.5);
    assert_near(learning_rate_at(&cycle, 39), 0.5 / 25 / 1e4);
    assert_near(learning_rate_at(&cycle, 4000), 0.5 / 25 / 1e4);
}

TEST(a_cycle_too_short_to_rise_falls_from_its_top)
{
    for (double last = 2; last < 4; last++) {
        const struct learning_rate cycle = { .schedule = RATE_ONE_CYCLE, .base = 0.5, .last = last, .peak = 0.25 };
        assert_near(learning_rate_at(&cycle, 0), 0.5);
        assert_near(learning_rate_at(&cycle, (uint64_t)last - 1), 0.5 / 25 / 1e4);
    }
}

TEST(runs_of_few_steps_have_finite_rates)
{
    for (int schedule = 0; schedule < RATE_SCHEDULE_COUNT; schedule++)
        for (uint64_t last = 1; last < 6; last++)
            for (double peak = 0; peak <= 1; peak += 0.25)
                for (uint64_t step = 0; step < last + 2; step++) {
                    struct learning_rate rate = scheduled((enum rate_schedule)schedule);
                    rate.last = (double)last;
                    rate.peak = peak;
                    const double found = learning_rate_at(&rate, step);
                    assert_true(found >= 0 && found <= 0.8);
                }
}

TEST(every_schedule_can_be_halved)
{
    for (int schedule = 0; schedule < RATE_SCHEDULE_COUNT; schedule++) {
        const struct learning_rate whole = scheduled((enum rate_schedule)schedule);
        struct learning_rate part = whole;
        learning_rate_halve(&part, 0);
        assert_near(learning_rate_at(&part, 7), learning_rate_at(&whole, 7));
        learning_rate_halve(&part, 3);
        for (uint64_t step = 0; step < 60; step++)
            assert_near(8 * learning_rate_at(&part, step), learning_rate_at(&whole, step));
    }
}

TESTS_MAIN(NULL, NULL)
