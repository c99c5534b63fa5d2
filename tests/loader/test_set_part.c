/* A set that is shared out: each record is of one part, in every run and whatever other shards there are, and
 * messages number records as the shard does. */
#include <stdio.h>
#include <string.h>

#include "loader/record.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

#define RECORDS 1000u

static int make_set(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    fixture_write_set(folder, 4, RECORDS);
    return 0;
}

static struct dataset *open_part(const char *pattern, enum dataset_part part, double held_out)
{
    struct dataset_options options = fixture_options(pattern);
    options.part = part;
    options.held_out = held_out;
    return fixture_open(&options);
}

/* The offset of a record in its shard identifies it. */
static bool has_record(const struct dataset *dataset, uint32_t shard, uint64_t offset)
{
    const struct shard_index *const index = &dataset->indexes[shard];
    for (uint64_t i = 0; i < index->record_count; i++)
        if (shard_index_find(index, i).offset == offset)
            return true;
    return false;
}

TEST_WITH(every_record_is_of_one_part, make_set, fixture_folder_remove)
{
    static const double shares[] = { 0.01, 0.1, 0.5, 0.9 };
    struct dataset *const all = open_part(folder, DATASET_ALL, 0);
    for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++) {
        struct dataset *const rest = open_part(folder, DATASET_REST, shares[i]);
        struct dataset *const held_out = open_part(folder, DATASET_HELD_OUT, shares[i]);
        assert_int_equal(rest->record_count + held_out->record_count, RECORDS);
        assert_in_range(held_out->record_count, (uint64_t)(1000 * shares[i]) * 7 / 10 - 3, 1300 * shares[i] + 3);
        for (uint64_t id = 0; id < RECORDS; id++) {
            const struct dataset_place place = dataset_find(all, id);
            assert_true(has_record(rest, place.shard, place.offset) != has_record(held_out, place.shard, place.offset));
        }
        dataset_close(rest);
        dataset_close(held_out);
    }
    dataset_close(all);
}

TEST_WITH(records_are_numbered_as_in_their_shard, make_set, fixture_folder_remove)
{
    struct dataset *const all = open_part(folder, DATASET_ALL, 0);
    struct dataset *const held_out = open_part(folder, DATASET_HELD_OUT, 0.2);
    for (uint64_t id = 0; id < held_out->record_count; id++) {
        const struct dataset_place place = dataset_find(held_out, id);
        const uint64_t number = dataset_number(held_out, &place);
        const struct dataset_place same = dataset_find(all, all->first_ids[place.shard] + number);
        assert_int_equal(same.shard, place.shard);
        assert_int_equal(same.offset, place.offset);
        assert_int_equal(dataset_number(all, &same), number);
    }
    dataset_close(all);
    dataset_close(held_out);
}

/* Of all records, or of a part of them. */
static void check_spread(enum dataset_part part, uint64_t limit)
{
    struct dataset *const all = open_part(folder, part, 0.3);
    struct dataset_options options = fixture_options(folder);
    options.part = part;
    options.held_out = 0.3;
    options.limit = limit;
    struct dataset *const some = fixture_open(&options);
    const uint64_t wanted = limit < all->record_count ? limit : all->record_count;
    assert_int_equal(some->record_count, wanted);
    for (uint64_t id = 0; id < wanted; id++) {
        const struct dataset_place place = dataset_find(some, id);
        const struct dataset_place same = dataset_find(all, id * all->record_count / wanted);
        assert_int_equal(same.shard, place.shard);
        assert_int_equal(same.offset, place.offset);
        assert_int_equal(dataset_number(all, &same), dataset_number(some, &place));
    }
    dataset_close(all);
    dataset_close(some);
}

TEST_WITH(a_limit_selects_records_that_are_spread_evenly, make_set, fixture_folder_remove)
{
    static const uint64_t limits[] = { 1, 2, 3, 7, 250, 333, 500, 699, 999, 1000, 1001, UINT32_MAX };
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        check_spread(DATASET_ALL, limits[i]);
        check_spread(DATASET_REST, limits[i]);
    }
}

TEST_WITH(samples_are_those_of_their_records, make_set, fixture_folder_remove)
{
    struct dataset *const rest = open_part(folder, DATASET_REST, 0.3);
    struct decode_context *context;
    struct record_problem problem;
    uint8_t pixels[FIXTURE_SAMPLE_BYTES], wanted[FIXTURE_SAMPLE_BYTES];
    uint64_t first[5] = { 0 };
    for (uint32_t i = 0; i < 4; i++)
        first[i + 1] = first[i] + rest->indexes[i].record_count + rest->indexes[i].left_out;
    assert_int_equal(decode_context_open(&context, rest), 0);
    for (uint64_t id = 0; id < rest->record_count; id++) {
        int32_t label;
        const struct sample_target target = {
            .request = { .shape = rest->options.shape }, .pixels = pixels, .label = &label };
        const struct dataset_place place = dataset_find(rest, id);
        const uint64_t record = first[place.shard] + dataset_number(rest, &place);
        assert_int_equal(record_load(context, id, &target, &problem), 0);
        fixture_pixels(record, wanted);
        assert_memory_equal(pixels, wanted, sizeof(wanted));
        assert_int_equal(label, fixture_label(record));
    }
    decode_context_close(context);
    dataset_close(rest);
}

TEST_WITH(a_shard_gives_the_same_records_among_others, make_set, fixture_folder_remove)
{
    struct dataset *const together = open_part(folder, DATASET_HELD_OUT, 0.25);
    struct dataset *const alone =
        open_part(fixture_path(folder, "train-00002-of-00004"), DATASET_HELD_OUT, 0.25);
    const struct shard_index *const one = &alone->indexes[0], *const other = &together->indexes[2];
    assert_int_equal(one->record_count, other->record_count);
    for (uint64_t i = 0; i < one->record_count; i++)
        assert_int_equal(shard_index_find(one, i).offset, shard_index_find(other, i).offset);
    dataset_close(alone);
    dataset_close(together);
}

TEST_WITH(a_part_without_records_is_refused, make_set, fixture_folder_remove)
{
    struct dataset_options options = fixture_options(folder);
    struct dataset *dataset;
    char problem[1024];
    options.part = DATASET_HELD_OUT;
    options.held_out = 1e-12;
    assert_true(dataset_open(&dataset, &options, problem, sizeof(problem)) < 0);
    assert_non_null(strstr(problem, "has too few records to hold out a part"));
}

TESTS_MAIN(NULL, NULL)
