/* The order of records: a bijection that depends on seed and epoch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "loader/order/order.h"

static void assert_bijection(uint64_t count, uint64_t seed, uint32_t epoch)
{
    struct order order;
    order_init(&order, SHUFFLE_FULL, count, seed, epoch);
    uint8_t *seen = calloc(count, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t record = order_record(&order, i);
        assert_true(record < count);
        assert_int_equal(seen[record]++, 0);
    }
    free(seen);
}

static void every_record_comes_once_for_any_count(void **state)
{
    (void)state;
    for (uint64_t count = 1; count <= 300; count++)
        assert_bijection(count, count * 31, (uint32_t)count % 5);
    const uint64_t large[] = { 1023, 1024, 1025, 60000, 65536, 65537, 131073, 1281167 };
    for (size_t i = 0; i < sizeof(large) / sizeof(*large); i++)
        assert_bijection(large[i], 7, 3);
}

static void records_of_huge_sets_stay_in_range(void **state)
{
    (void)state;
    const uint64_t counts[] = { UINT64_C(1) << 32, (UINT64_C(1) << 40) + 1, (UINT64_C(1) << 62) + 12345 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        struct order order;
        order_init(&order, SHUFFLE_FULL, counts[i], 1, 1);
        for (uint64_t j = 0; j < 1000; j++)
            assert_true(order_record(&order, counts[i] - 1 - j) < counts[i]);
    }
}

static void without_shuffle_the_order_is_the_file_order(void **state)
{
    (void)state;
    struct order order;
    order_init(&order, SHUFFLE_NONE, 100, 5, 9);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(order_record(&order, i), i);
}

/* Positions whose records are the same in two orders; a random permutation has one on
 * average. */
static uint64_t count_agreements(const struct order *a, const struct order *b)
{
    uint64_t agreements = 0;
    for (uint64_t i = 0; i < a->count; i++)
        agreements += order_record(a, i) == order_record(b, i);
    return agreements;
}

static void orders_of_other_epochs_and_seeds_are_unrelated(void **state)
{
    (void)state;
    struct order first, other, identity, again;
    order_init(&identity, SHUFFLE_NONE, 10000, 0, 0);
    order_init(&first, SHUFFLE_FULL, 10000, 1, 0);
    order_init(&again, SHUFFLE_FULL, 10000, 1, 0);
    assert_int_equal(count_agreements(&first, &again), 10000);
    for (uint32_t i = 1; i < 20; i++) {
        order_init(&other, SHUFFLE_FULL, 10000, 1, i);
        assert_true(count_agreements(&first, &other) < 12);
        assert_true(count_agreements(&identity, &other) < 12);
        order_init(&other, SHUFFLE_FULL, 10000, 1 + i, 0);
        assert_true(count_agreements(&first, &other) < 12);
    }
}

/* Chi-square of where one position's record falls over many epochs: 15 degrees of
 * freedom, 0.9999 quantile 44.3. */
static void assert_uniform(uint64_t count, uint64_t position)
{
    enum { BINS = 16, EPOCHS = 8000 };
    uint32_t bins[BINS] = { 0 };
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        struct order order;
        order_init(&order, SHUFFLE_FULL, count, 77, epoch);
        bins[order_record(&order, position) * BINS / count]++;
    }
    double chi_square = 0;
    const double expected = (double)EPOCHS / BINS;
    for (int i = 0; i < BINS; i++)
        chi_square += (bins[i] - expected) * (bins[i] - expected) / expected;
    assert_true(chi_square < 44.3);
}

static void a_position_may_hold_any_record(void **state)
{
    (void)state;
    const uint64_t counts[] = { 16, 48, 160, 60000, 65536 };
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        assert_uniform(counts[i], 0);
        assert_uniform(counts[i], 1);
        assert_uniform(counts[i], counts[i] - 1);
    }
}

/* Neighbouring positions must not hold neighbouring records more often than chance. */
static void neighbours_are_torn_apart(void **state)
{
    (void)state;
    struct order order;
    order_init(&order, SHUFFLE_FULL, 60000, 3, 0);
    uint32_t neighbours = 0, ascents = 0;
    for (uint64_t i = 0; i + 1 < order.count; i++) {
        const uint64_t a = order_record(&order, i), b = order_record(&order, i + 1);
        neighbours += a + 1 == b || b + 1 == a;
        ascents += a < b;
    }
    assert_true(neighbours < 15);
    assert_in_range(ascents, 29500, 30500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record_comes_once_for_any_count),
        cmocka_unit_test(records_of_huge_sets_stay_in_range),
        cmocka_unit_test(without_shuffle_the_order_is_the_file_order),
        cmocka_unit_test(orders_of_other_epochs_and_seeds_are_unrelated),
        cmocka_unit_test(a_position_may_hold_any_record),
        cmocka_unit_test(neighbours_are_torn_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
