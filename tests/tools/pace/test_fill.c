/* Tests of how full queues are said to have been. */
#include <stdlib.h>

#include "tests/helpers/test.h"
#include "tools/run/step_stats.h"

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

TEST(without_takes_there_is_nothing_to_tell)
{
    const struct fill fill = { 0 };
    const struct fill_use use = fill_use(&fill);
    assert_true(use.least == 0 && use.median == 0 && use.mean == 0 && use.empty == 0);
}

static int compare(const void *left, const void *right)
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
        qsort(found, count, sizeof(*found), compare);
        assert_int_equal(fill_use(&fill).median, found[(count - 1) / 2]);
        assert_int_equal(fill_use(&fill).least, found[0]);
    }
}

TESTS_MAIN(NULL, NULL)
