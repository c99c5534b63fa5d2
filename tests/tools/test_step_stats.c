/* Tests of the statistics of steps: how full queues were, and speeds against their definitions, computed directly. */
#include <math.h>
#include <stdlib.h>

#include "tests/helpers/test.h"
#include "tools/lib/run/step_stats.h"

/* ---- fill ---- */

static struct fill fill_of(const uint32_t *found, size_t count)
{
    struct fill fill = { 0 };
    for (size_t i = 0; i < count; i++)
        fill_add(&fill, found[i]);
    return fill;
}

TEST(the_use_is_that_of_the_sorted_takes)
{
    static const uint32_t odd[] = { 4, 0, 3, 4, 2 }, even[] = { 1, OPTIONS_DEPTH_MAX, 3, 2 };
    struct fill fill = fill_of(odd, 5);
    struct fill_use use = fill_use(&fill);
    assert_int_equal(use.least, 0);
    assert_int_equal(use.median, 3);
    assert_true(use.mean == 13.0 / 5);
    assert_true(use.empty == 0.2);
    fill = fill_of(even, 4);
    use = fill_use(&fill);
    assert_int_equal(use.least, 1);
    assert_int_equal(use.median, 2);
    assert_true(use.mean == (6.0 + OPTIONS_DEPTH_MAX) / 4);
    assert_true(use.empty == 0);
}

TEST(without_takes_there_is_nothing_to_report)
{
    const struct fill fill = { 0 };
    const struct fill_use use = fill_use(&fill);
    assert_true(use.least == 0 && use.median == 0 && use.mean == 0 && use.empty == 0);
}

static int compare_u32(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

TEST(every_number_of_takes_has_its_lower_median)
{
    uint32_t found[40];
    for (uint32_t count = 1; count <= 40; count++) {
        for (uint32_t i = 0; i < count; i++)
            found[i] = (i * 7919 + count) % 11;
        const struct fill fill = fill_of(found, count);
        qsort(found, count, sizeof(*found), compare_u32);
        assert_int_equal(fill_use(&fill).median, found[(count - 1) / 2]);
        assert_int_equal(fill_use(&fill).least, found[0]);
    }
}

/* ---- speed ---- */

#define COUNT_MAX 40
#define MEAN 1234.5

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median_of(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return (values[count / 2] + values[(count - 1) / 2]) / 2;
}

static struct speeds plain(double images, const double *ms, size_t count)
{
    double s[COUNT_MAX], mean = 0, variance = 0;
    for (size_t i = 0; i < count; i++) {
        s[i] = images / (ms[i] / 1e3);
        mean += ms[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++)
        variance += (ms[i] - mean) * (ms[i] - mean) / (double)count;
    const double median = median_of(s, count);
    for (size_t i = 0; i < count; i++)
        s[i] = fabs(s[i] - median);
    return (struct speeds){ MEAN, MEAN * sqrt(variance / (double)count) / mean, 1.4826 * median_of(s, count) };
}

static void assert_near(double a, double b)
{
    assert_true(fabs(a - b) <= 1e-9 * (1 + fabs(b)));
}

TEST(they_are_as_defined_for_any_number_of_steps)
{
    uint32_t seed = 7;
    double ms[COUNT_MAX];
    for (size_t count = 1; count <= COUNT_MAX; count++)
        for (int kind = 0; kind < 3; kind++) {
            for (size_t i = 0; i < count; i++) {
                seed = seed * 1664525 + 1013904223;
                ms[i] = kind == 0 ? 1 + (double)(seed >> 8) / 1e6 : kind == 1 ? 1 + (seed >> 30) : 5;
            }
            qsort(ms, count, sizeof(*ms), compare);
            const struct speeds ours = speeds_of(MEAN, 128, ms, count), theirs = plain(128, ms, count);
            assert_near(ours.mean, theirs.mean);
            if (count > 1)
                assert_near(ours.uncertainty, theirs.uncertainty);
            else
                assert_true(isnan(ours.uncertainty));
            assert_near(ours.jitter, theirs.jitter);
        }
}

TEST(without_steps_there_is_nothing_to_report)
{
    const double none = 0;
    assert_true(isnan(speeds_of(NAN, 128, &none, 0).mean) && isnan(speeds_of(NAN, 128, &none, 0).jitter));
    assert_true(isnan(speeds_of(MEAN, 128, &none, 1).uncertainty) && isnan(speeds_of(MEAN, 128, &none, 1).jitter));
}

TESTS_MAIN(NULL, NULL)
