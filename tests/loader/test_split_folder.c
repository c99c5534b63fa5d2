/* Folders of TensorFlow Datasets: which shards a pattern means, how they are compared with dataset_info.json, and
 * what of a description is used. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "loader/dataset.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

static const char info[] =
    "{\"name\": \"d\", \"splits\": ["
    "{\"name\": \"train\", \"shardLengths\": [\"5\", \"4\"]},"
    "{\"name\": \"test\", \"shardLengths\": [\"3\"]},"
    "{\"name\": \"odd ones\", \"shardLengths\": [2]}],"
    "\"supervisedKeys\": {\"input\": \"image_raw\", \"output\": \"label\"}}";

static void write_text(const char *name, const char *text)
{
    fixture_write_text(fixture_path(folder, name), text);
}

static int make_set(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    write_text("dataset_info.json", info);
    fixture_write_shard(fixture_path(folder, "d-train.tfrecord-00000-of-00002"), 0, 5);
    fixture_write_shard(fixture_path(folder, "d-train.tfrecord-00001-of-00002"), 5, 4);
    fixture_write_shard(fixture_path(folder, "d-test.tfrecord-00000-of-00001"), 20, 3);
    fixture_write_shard(fixture_path(folder, "d-odd ones.tfrecord-00000-of-00001"), 30, 2);
    return 0;
}

static struct dataset_options options_of(const char *what, const char *split)
{
    static char pattern[300];
    snprintf(pattern, sizeof(pattern), "%s%s%s", folder, split != NULL ? ":" : "", split != NULL ? split : "");
    struct dataset_options options = fixture_options(pattern);
    options.what = what;
    return options;
}

static void expect_records(const char *what, const char *split, uint64_t records)
{
    const struct dataset_options options = options_of(what, split);
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, records);
    dataset_close(dataset);
}

static void expect_refused(const char *what, const char *split, const char *first, const char *second)
{
    const struct dataset_options options = options_of(what, split);
    fixture_assert_refused(&options, first, second);
}

TEST_WITH(a_folder_gives_the_requested_split, make_set, fixture_folder_remove)
{
    expect_records("train", NULL, 9);
    expect_records("validation", NULL, 3);
}

TEST_WITH(a_split_can_be_named, make_set, fixture_folder_remove)
{
    expect_records("train", "test", 3);
    expect_records("train", "odd ones", 2);
    expect_records("validation", "train", 9);
    expect_refused("train", "nothing", "has no split 'nothing'", "train test odd ones");
}

TEST_WITH(a_set_of_ours_has_splits_too, make_set, fixture_folder_remove)
{
    write_text("dataset.json", "{\"splits\": {\"mine\": {\"shards\": [{\"file\": \"d-test.tfrecord-00000-of-00001\","
                               " \"records\": 3}]}}}");
    expect_records("train", "mine", 3);
    expect_refused("train", "test", "has no split 'test'", "mine");
}

TEST_WITH(a_missing_shard_is_named_or_lost, make_set, fixture_folder_remove)
{
    assert_int_equal(unlink(fixture_path(folder, "d-train.tfrecord-00001-of-00002")), 0);
    expect_refused("train", NULL, "d-train.tfrecord-00001-of-00002: is missing: dataset_info.json says 4 records", "");
    struct dataset_options options = options_of("train", NULL);
    options.skip_damage = true;
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, 5);
    assert_int_equal(dataset->lost_records, 4);
    dataset_close(dataset);
}

TEST_WITH(lengths_that_the_files_have_not_are_refused, make_set, fixture_folder_remove)
{
    fixture_write_shard(fixture_path(folder, "d-train.tfrecord-00001-of-00002"), 5, 3);
    expect_refused("train", NULL, "00001-of-00002: holds 3 records, dataset_info.json says 4",
                   "remove dataset_info.json");
    expect_records("train", "test", 3);
}

TEST_WITH(another_number_of_shards_is_refused, make_set, fixture_folder_remove)
{
    fixture_write_shard(fixture_path(folder, "d-train.tfrecord-00002-of-00003"), 9, 3);
    expect_refused("train", NULL, "d-train.tfrecord-00002-of-00003 is none of the shards that dataset_info.json lists",
                   "another version");
    expect_records("train", "test", 3);
}

TEST_WITH(an_unusable_description_is_ignored, make_set, fixture_folder_remove)
{
    write_text("dataset_info.json", "{\"name\": 3}");
    expect_records("train", NULL, 9);
    expect_refused("train", "test", "No such file", "");
}

TEST_WITH(the_features_are_those_of_the_description, make_set, fixture_folder_remove)
{
    write_text("dataset_info.json", "{\"name\": \"d\", \"splits\": [{\"name\": \"train\", \"shardLengths\": [5, 4]}],"
                                    " \"supervisedKeys\": {\"input\": \"image_raw\", \"output\": \"depth\"}}");
    expect_refused("train", NULL, "has no feature 'depth' for the label", "");
    struct dataset_options options = options_of("train", NULL);
    options.label_key = "label";
    struct dataset *const dataset = fixture_open(&options);
    assert_string_equal(dataset->format.keys[SAMPLE_LABEL], "label");
    dataset_close(dataset);
}

TESTS_MAIN(NULL, NULL)
