/* Tests of histograms and of what asks for them: every number is counted once, in the bucket whose limits it lies
 * between. */
#include <errno.h>
#include <math.h>

#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/intervals.h"
#include "tools/lib/run/observe/histogram.h"

enum { NUMBERS = 1000 };

/* Counted again, number by number, from the limits alone. */
static void assert_right(const struct histogram *histogram, const float *floats, size_t count, double factor)
{
    double counts[HISTOGRAM_BUCKETS] = { 0 }, least = INFINITY, most = -INFINITY, all = 0, sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) {
        const double number = (double)floats[i] * factor;
        uint32_t bucket = 0;
        while (bucket + 1 < histogram->buckets && number > histogram->limits[bucket])
            bucket++;
        counts[bucket]++;
        least = fmin(least, number);
        most = fmax(most, number);
        sum += number;
        squares += number * number;
    }
    for (uint32_t i = 0; i < histogram->buckets; i++) {
        assert_true(histogram->counts[i] == counts[i]);
        assert_true(i == 0 || histogram->limits[i] > histogram->limits[i - 1]);
        all += histogram->counts[i];
    }
    assert_true(all == (double)count);
    assert_int_equal(histogram->count, count);
    assert_true(histogram->least == least && histogram->most == most);
    assert_true(histogram->limits[histogram->buckets - 1] == most);
    assert_true(fabs(histogram->sum - sum) <= 1e-12 * (1 + fabs(sum)));
    assert_true(fabs(histogram->squares - squares) <= 1e-12 * (1 + squares));
}

TEST(every_number_is_counted_in_its_bucket)
{
    static const double factors[] = { 1, 1.0 / 64, 1e-30 };
    static float floats[NUMBERS];
    struct histogram histogram;
    for (uint32_t round = 0; round < 200; round++) {
        const float scale = ldexpf(1, (int)(round % 60) - 30), shift = round % 3 == 0 ? 1000 * scale : 0;
        const struct random_key key = random_key(round, RANDOM_WEIGHTS, 0);
        const size_t count = 1 + round * 5 % NUMBERS;
        for (size_t i = 0; i < count; i++)
            floats[i] = shift + scale * random_normal(key, i);
        histogram_count(&histogram, floats, count, factors[round % 3]);
        assert_right(&histogram, floats, count, factors[round % 3]);
    }
}

/* Where limits are numbers that occur, these belong to the bucket below. */
TEST(a_number_at_a_limit_belongs_below_it)
{
    float floats[HISTOGRAM_BUCKETS + 1];
    struct histogram histogram;
    for (uint32_t i = 0; i <= HISTOGRAM_BUCKETS; i++)
        floats[i] = (float)i;
    histogram_count(&histogram, floats, HISTOGRAM_BUCKETS + 1, 1);
    assert_int_equal(histogram.buckets, HISTOGRAM_BUCKETS);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        assert_true(histogram.limits[i] == i + 1.0 && histogram.counts[i] == (i == 0 ? 2 : 1));
}

TEST(numbers_that_are_the_same_have_one_bucket)
{
    const float same[] = { -3, -3, -3 };
    struct histogram histogram;
    histogram_count(&histogram, same, 3, 0.5);
    assert_int_equal(histogram.buckets, 1);
    assert_right(&histogram, same, 3, 0.5);
}

TEST(numbers_that_are_not_finite_are_left_out)
{
    const float broken[] = { NAN, 1, INFINITY, 2, -INFINITY }, nothing[] = { NAN, INFINITY };
    struct histogram histogram;
    histogram_count(&histogram, broken, 5, 1);
    assert_right(&histogram, (const float[]){ 1, 2 }, 2, 1);
    for (size_t count = 0; count <= 2; count += 2) {
        histogram_count(&histogram, nothing, count, 1);
        assert_true(histogram.count == 0 && histogram.least == 0 && histogram.most == 0 && histogram.sum == 0);
        assert_true(histogram.buckets == 1 && histogram.limits[0] == 0 && histogram.counts[0] == 0);
    }
}

TEST(steps_are_read_as_they_are_written)
{
    static const struct { const char *text; struct histogram_steps steps; } right[] = {
        { "", { .every = 0 } }, { "none", { .every = 0 } }, { "epoch", { .each_epoch = true } },
        { "1", { .every = 1 } }, { "500", { .every = 500 } }, { "500 steps", { .every = 500 } },
        { "999999999", { .every = 999999999 } },
    };
    static const char *const wrong[] = { "0", "yes", "-1", "1.5", "500 minutes", "500steps", "epochs", "none ", " 5",
                                         "1000000000", "99999999999999999999999" };
    struct histogram_steps steps;
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
        assert_int_equal(histogram_steps_read(right[i].text, &steps), 0);
        assert_int_equal(steps.every, right[i].steps.every);
        assert_int_equal(steps.each_epoch, right[i].steps.each_epoch);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(histogram_steps_read(wrong[i], &steps), -EINVAL);
}

TEST(a_range_of_steps_of_a_trace_begins_at_1)
{
    static const struct { const char *text; uint64_t first, last; } right[] = {
        { "", 0, 0 }, { "1..1", 1, 1 }, { "3..4", 3, 4 }, { "1..999999999999999999", 1, 999999999999999999 },
    };
    static const char *const wrong[] = { "0..4", "4..3", "3", "3..", "..4", "3.4", "3...4", "3..4 ", " 3..4", "-1..4",
                                         "1..1000000000000000000", "1..99999999999999999999", "a..b" };
    struct trace_steps steps;
    for (size_t i = 0; i < sizeof(right) / sizeof(*right); i++) {
        assert_int_equal(trace_steps_read(right[i].text, &steps), 0);
        assert_true(steps.first == right[i].first && steps.last == right[i].last);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        assert_int_equal(trace_steps_read(wrong[i], &steps), -EINVAL);
}

TESTS_MAIN(NULL, NULL)
