/* Tests of sums of squares: they are right, and the same bits however they are cut. */
#include <math.h>
#include <stdlib.h>

#include "compute/floats.h"
#include "stage/random.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_random.h"

static const size_t counts[] = { 0, 1, 15, 16, 17, 63, 64, 65, 4095, 4096, 4097, 4160, 8191, 100003, 262144 };
enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

static float *draw(size_t count)
{
    float *const floats = malloc((count + 1) * sizeof(*floats));
    assert_non_null(floats);
    for (size_t i = 0; i < count; i++)
        floats[i] = test_uniform(random_key(3, RANDOM_DRAW, 1), i) - 0.3f;
    return floats;
}

static double sum_of(const float *floats, size_t count)
{
    double sum[SQUARES_ROOM];
    const struct squares squares = { floats, count, sum };
    squares_sum_parts(&squares, 0, SQUARES_PARTS);
    squares_sum(&squares);
    return sum[0];
}

TEST(a_sum_is_that_of_all_squares_once)
{
    for (size_t c = 0; c < COUNTS; c++) {
        float *const floats = draw(counts[c]);
        long double expected = 0;
        for (size_t i = 0; i < counts[c]; i++)
            expected += (long double)floats[i] * (long double)floats[i];
        assert_true(fabs(sum_of(floats, counts[c]) - (double)expected) <= 1e-13 * (double)expected);
        free(floats);
    }
}

TEST(parts_may_be_summed_in_any_order)
{
    for (size_t c = 0; c < COUNTS; c++) {
        float *const floats = draw(counts[c]);
        const double whole = sum_of(floats, counts[c]);
        for (size_t cut = 0; cut <= SQUARES_PARTS; cut += 7) {
            double sum[SQUARES_ROOM];
            const struct squares squares = { floats, counts[c], sum };
            squares_sum_parts(&squares, cut, SQUARES_PARTS);
            squares_sum_parts(&squares, 0, cut);
            squares_sum(&squares);
            assert_true(sum[0] == whole);
        }
        free(floats);
    }
}

TEST(parts_cover_every_count)
{
    for (size_t count = 0; count < 20000; count++) {
        assert_true(squares_part_floats(count) * SQUARES_PARTS >= count);
        assert_int_equal(squares_part_floats(count) % 64, 0);
    }
}

TEST(what_is_no_number_or_too_large_stays_so)
{
    float floats[70] = { 0 };
    floats[69] = INFINITY;
    assert_true(isinf(sum_of(floats, 70)));
    floats[3] = NAN;
    assert_true(isnan(sum_of(floats, 70)));
    floats[3] = floats[69] = 3e38f;
    assert_true(isfinite(sum_of(floats, 70)));
}

TESTS_MAIN(NULL, NULL)
