/* Tests of counting records, whatever is counted by whom. */
#include "tests/helpers/test.h"
#include "tools/shards/shards_statistics.h"

TEST(many_keys_are_counted_each)
{
    struct value_counts counts = { 0 };
    for (int64_t i = 0; i < 30000; i++)
        assert_int_equal(value_counts_add(&counts, i % 10000 - 5000, i % 2, 1), 0);
    assert_int_equal(counts.count, 10000);
    value_counts_sort(&counts, value_counts_by_key);
    for (int64_t i = 0; i < 10000; i++) {
        assert_int_equal(counts.entries[i].first, i - 5000);
        assert_int_equal(counts.entries[i].second, i % 2);
        assert_int_equal(counts.entries[i].count, 3);
    }
    value_counts_release(&counts);
}

TEST(what_is_frequent_comes_first)
{
    struct value_counts counts = { 0 };
    for (int64_t i = 1; i < 10; i++)
        value_counts_add(&counts, i, 0, (uint64_t)(i % 3 + 1));
    value_counts_sort(&counts, value_counts_by_count);
    static const int64_t expected[] = { 2, 5, 8, 1, 4, 7, 3, 6, 9 };
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(counts.entries[i].first, expected[i]);
    value_counts_release(&counts);
}

TEST(parts_together_are_the_whole)
{
    struct shards_statistics whole = { 0 }, parts[2] = { { 0 }, { 0 } }, merged = { 0 };
    for (size_t i = 0; i < 1000; i++) {
        const struct found_sample sample = { .image = FOUND_ROWS, .height = (uint32_t)i % 7 + 1, .width = 65535,
                                            .channels = 3, .has_label = i % 5 != 0, .label = (int64_t)i % 11 - 3, .is_turned = i % 4 == 0 };
        assert_int_equal(shards_statistics_add(&whole, &sample, i), 0);
        assert_int_equal(shards_statistics_add(&parts[i % 3 == 0], &sample, i), 0);
    }
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(shards_statistics_merge(&merged, &parts[i]), 0);
    assert_int_equal(merged.records, 1000);
    assert_int_equal(merged.unlabelled, 200);
    assert_int_equal(merged.turned, 250);
    assert_int_equal(merged.payload_bytes, whole.payload_bytes);
    assert_int_equal(merged.images.count, 7);
    value_counts_sort(&merged.payloads, value_counts_by_key);
    assert_int_equal(shards_statistics_median(&merged.payloads), 500);
    value_counts_sort(&merged.images, value_counts_by_count);
    const struct found_sample most = shards_statistics_image(&merged.images.entries[0]);
    assert_true(most.image == FOUND_ROWS && most.height == 1 && most.width == 65535 && most.channels == 3);
    assert_int_equal(merged.images.entries[0].count, 143);
    value_counts_sort(&merged.labels, value_counts_by_key);
    assert_int_equal(merged.labels.entries[0].first, -3);
    shards_statistics_release(&whole);
    shards_statistics_release(&merged);
    for (size_t i = 0; i < 2; i++)
        shards_statistics_release(&parts[i]);
}

TEST(the_offset_puts_labels_in_range)
{
    int64_t offset;
    assert_true(shards_statistics_offset(0, 9, 10, &offset) && offset == 0);
    assert_true(shards_statistics_offset(1, 1000, 1000, &offset) && offset == -1);
    assert_true(shards_statistics_offset(1, 1000, 1001, &offset) && offset == 0);
    assert_true(shards_statistics_offset(-1, 8, 10, &offset) && offset == 1);
    assert_true(shards_statistics_offset(3, 5, 10, &offset) && offset == 0);
    assert_false(shards_statistics_offset(0, 10, 10, &offset));
    assert_false(shards_statistics_offset(INT64_MIN, INT64_MAX, UINT64_MAX, &offset));
    assert_false(shards_statistics_offset(INT64_MIN, INT64_MIN + 3, 10, &offset));      /* no number brings it to 0 */
    assert_true(shards_statistics_offset(-INT64_MAX, -INT64_MAX, 1, &offset) && offset == INT64_MAX);
}

TESTS_MAIN(NULL, NULL)
