/* Tests of merging rows for the report page, against a plain computation over the same rows. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/report/row_groups.h"

#define ROWS_MOST 20000u

/* A loss without trend, with a rare large one. */
static double loss_of(size_t row)
{
    return row % 997 == 100 ? 50 : (double)(row * 7919 % 1000) / 1000;
}

static struct row_groups groups;

/* To be released. */
static json_t *merge(size_t rows)
{
    groups = (struct row_groups){ .count = 0 };
    for (size_t i = 0; i < rows; i++) {
        json_t *const row = json_pack("{s:s, s:I, s:f, s:{s:i}}", "kind", "train", "step", (json_int_t)(10 * i), "loss",
                                      loss_of(i), "queues", "depth", 4);
        assert_int_equal(row_groups_add(&groups, row, 2 * i + 1), 0);
    }
    json_t *const merged = row_groups_end(&groups);
    assert_non_null(merged);
    row_groups_release(&groups);
    return merged;
}

static double number(const json_t *group, const char *which, const char *key)
{
    return json_number_value(json_object_get(json_object_get(group, which), key));
}

/* The mean, the least and the most are those of its rows, which begin at `first`. Returns how many they are. */
static size_t check_group(const json_t *group, size_t first)
{
    const size_t rows = (size_t)json_integer_value(json_object_get(group, "rows"));
    const char *const least_name = rows == 1 ? "mean" : "least", *const most_name = rows == 1 ? "mean" : "most";
    double sum = 0, least = DBL_MAX, most = 0;
    for (size_t i = first; i < first + rows; i++) {
        sum += loss_of(i);
        least = fmin(least, loss_of(i));
        most = fmax(most, loss_of(i));
    }
    assert_true(fabs(number(group, "mean", "loss") - sum / (double)rows) < 1e-9);
    assert_true(number(group, least_name, "loss") == least && number(group, most_name, "loss") == most);
    assert_true(number(group, least_name, "step") == 10.0 * (double)first);
    assert_true(number(group, most_name, "step") == 10.0 * (double)(first + rows - 1));
    assert_int_equal(json_integer_value(json_object_get(group, "line")), 2 * (first + rows) - 1);
    assert_int_equal(json_is_null(json_object_get(group, "least")), rows == 1);
    assert_true(number(json_object_get(group, most_name), "queues", "depth") == 4);
    return rows;
}

/* Every row is in one group, however many there are, and the last row is there as it was. */
static void check_groups(size_t rows)
{
    json_t *const merged = merge(rows), *const list = json_object_get(merged, "groups");
    const json_t *group;
    size_t i, first = 0, fewest = SIZE_MAX, many = 0;
    json_array_foreach(list, i, group) {
        const size_t count = check_group(group, first);
        first += count;
        fewest = count < fewest ? count : fewest;
        many = count > many ? count : many;
    }
    assert_int_equal(first, rows);
    assert_true(json_array_size(list) <= ROW_GROUPS_MAX && (rows < 2 || many <= 3 * fewest));
    assert_true(rows <= ROW_GROUPS_MAX ? many <= 1 : json_array_size(list) >= ROW_GROUPS_MAX / 2 - 1);
    if (rows > 0)
        assert_true(number(merged, "last", "step") == 10.0 * (double)(rows - 1));
    assert_int_equal(json_is_null(json_object_get(merged, "last")), rows == 0);
    json_decref(merged);
}

TEST(every_row_is_in_one_group)
{
    for (size_t rows = 0; rows < 4 * ROW_GROUPS_MAX; rows += (rows + 5) % ROW_GROUPS_MAX < 10 ? 1 : 19)
        check_groups(rows);
    check_groups(ROWS_MOST);
}

/* Adds so many rows that all texts, in turn, are merged into groups of two; returns the values of the first group. */
static json_t *merge_texts(const char *first, const char *second, const char *which)
{
    groups = (struct row_groups){ .count = 0 };
    for (size_t i = 0; i < ROW_GROUPS_MAX + 2; i++)
        assert_int_equal(row_groups_add(&groups, json_loads(i % 2 == 0 ? first : second, 0, NULL), i), 0);
    json_t *const merged = row_groups_end(&groups);
    json_t *const values = json_incref(json_object_get(json_array_get(json_object_get(merged, "groups"), 0), which));
    row_groups_release(&groups);
    json_decref(merged);
    return values;
}

TEST(what_is_no_number_in_one_row_does_not_count)
{
    static const struct { const char *first, *second, *mean, *least, *most; } rows[] = {
        { "{\"a\":1}", "{\"a\":4}", "{\"a\":2.5}", "{\"a\":1.0}", "{\"a\":4.0}" },
        { "{\"a\":-2.5}", "{\"a\":null}", "{\"a\":-2.5}", "{\"a\":-2.5}", "{\"a\":-2.5}" },
        { "{\"a\":null}", "{\"a\":3}", "{\"a\":3}", "{\"a\":3}", "{\"a\":3}" },
        { "{\"a\":null}", "{\"a\":null}", "{\"a\":null}", "{\"a\":null}", "{\"a\":null}" },
        { "{}", "{\"a\":{\"b\":3}}", "{\"a\":{\"b\":3}}", "{\"a\":{\"b\":3}}", "{\"a\":{\"b\":3}}" },
        { "{\"a\":{\"b\":3}}", "{\"a\":{\"b\":5,\"c\":1}}", "{\"a\":{\"b\":4.0,\"c\":1}}",
          "{\"a\":{\"b\":3.0,\"c\":1}}", "{\"a\":{\"b\":5.0,\"c\":1}}" },
        { "{\"a\":\"x\"}", "{\"a\":\"y\"}", "{\"a\":\"y\"}", "{\"a\":\"y\"}", "{\"a\":\"y\"}" },
        { "{\"a\":[1,2]}", "{\"a\":7}", "{\"a\":7}", "{\"a\":7}", "{\"a\":7}" },
        { "{\"a\":1e308}", "{\"a\":-1e308}", "{\"a\":0.0}", "{\"a\":-1e308}", "{\"a\":1e308}" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const names[] = { "mean", "least", "most" };
        const char *const expected[] = { rows[i].mean, rows[i].least, rows[i].most };
        for (size_t j = 0; j < 3; j++) {
            json_t *const wanted = json_loads(expected[j], 0, NULL);
            json_t *const values = merge_texts(rows[i].first, rows[i].second, names[j]);
            if (json_equal(wanted, values) != 1)
                fail_msg("row %zu: %s is %s", i, names[j], json_dumps(values, 0));
            json_decref(wanted);
            json_decref(values);
        }
    }
}

/* Groups of four: the least of a number that only the later rows have is not that of the mean or the most. */
TEST(a_number_of_later_rows_is_merged_as_well)
{
    static const char *const rows[] = { "{}", "{\"a\":{\"b\":1.5}}", "{\"a\":{\"b\":4.5}}", "{\"a\":{\"b\":3.0}}" };
    groups = (struct row_groups){ .count = 0 };
    for (size_t i = 0; i < 4 * ROW_GROUPS_MAX; i++)
        assert_int_equal(row_groups_add(&groups, json_loads(rows[i % 4], 0, NULL), i), 0);
    json_t *const merged = row_groups_end(&groups);
    const json_t *const group = json_array_get(json_object_get(merged, "groups"), 0);
    assert_int_equal(json_integer_value(json_object_get(group, "rows")), 4);
    assert_true(number(json_object_get(group, "least"), "a", "b") == 1.5);
    assert_true(number(json_object_get(group, "most"), "a", "b") == 4.5);
    row_groups_release(&groups);
    json_decref(merged);
}

TESTS_MAIN(NULL, NULL)
