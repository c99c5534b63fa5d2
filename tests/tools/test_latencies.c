/* Tests of the histogram of latencies: quantiles are those of the sorted times, within a step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/predict/latencies.h"

enum { TIMES = 5000 };

static int by_time(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

TEST(quantiles_are_those_of_the_sorted_times)
{
    static struct latencies latencies;
    static uint64_t times[TIMES];
    uint64_t bits = 1;
    for (uint32_t spread = 1; spread < 64; spread += 7) {
        memset(&latencies, 0, sizeof(latencies));
        for (size_t i = 0; i < TIMES; i++) {
            bits = bits * 6364136223846793005u + 1442695040888963407u;
            times[i] = bits >> (63 - i % spread);
            latencies_add(&latencies, times[i]);
        }
        qsort(times, TIMES, sizeof(*times), by_time);
        static const double shares[] = { 0.0001, 0.01, 0.5, 0.9, 0.99, 1 };
        for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
            const double expected = (double)times[(size_t)ceil(shares[i] * TIMES) - 1];
            const double found = (double)latencies_quantile(&latencies, shares[i]);
            assert_true(fabs(found - expected) <= 0.02 * expected);
        }
    }
}

TEST(every_time_has_a_place_and_no_time_has_a_quantile_of_0)
{
    static struct latencies latencies;
    assert_true(latencies_quantile(&latencies, 0.5) == 0);
    for (uint32_t bit = 0; bit < 64; bit++) {
        latencies_add(&latencies, UINT64_C(1) << bit);
        latencies_add(&latencies, (UINT64_C(1) << bit) - 1);
    }
    latencies_add(&latencies, UINT64_MAX);
    assert_true(latencies.count == 129);
    assert_true(latencies_quantile(&latencies, 1) > UINT64_MAX / 100 * 98);
}

TESTS_MAIN(NULL, NULL)
