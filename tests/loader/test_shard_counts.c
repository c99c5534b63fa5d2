/* Shards compared with the manifest beside them: what is missing is named, or counted as lost. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/manifest.h"
#include "loader/damage.h"
#include "loader/dataset.h"
#include "loader/shard_counts.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

#define SHARDS 3u
#define SHARD_RECORDS 20u

static char set[300];
static uint64_t sizes[SHARDS];

static const char *shard_path(uint32_t shard)
{
    char name[32];
    snprintf(name, sizeof(name), "train-%05u-of-%05u", shard, SHARDS);
    return fixture_path(set, name);
}

/* Shards of 20 records and their manifest. */
static int make_set(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    fixture_subfolder(set, sizeof(set), "set");
    char text[1024] = "{\"splits\": {\"train\": {\"shards\": [";
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct stat status;
        fixture_write_shard(shard_path(i), i * SHARD_RECORDS, SHARD_RECORDS);
        assert_int_equal(stat(shard_path(i), &status), 0);
        sizes[i] = (uint64_t)status.st_size;
        snprintf(text + strlen(text), sizeof(text) - strlen(text),
                 "%s{\"file\": \"train-%05u-of-%05u\", \"records\": %u, \"bytes\": %llu}", i > 0 ? "," : "", i, SHARDS,
                 SHARD_RECORDS, (unsigned long long)sizes[i]);
    }
    strcat(text, "]}}}");
    fixture_write_text(fixture_path(set, MANIFEST_FILE), text);
    return 0;
}

static void assert_refused(const char *part, const char *other)
{
    const struct dataset_options options = fixture_options(set);
    fixture_assert_refused(&options, part, other);
}

/* The losses of the set where damage is skipped, of which there are `lost` and `records` are left. */
static struct damage_list *assert_lost(uint64_t records, uint64_t lost)
{
    struct dataset_options options = fixture_options(set);
    options.skip_damage = true;
    struct dataset *const dataset = fixture_open(&options);
    const struct dataset *const datasets[PHASE_COUNT] = { dataset };
    struct damage damage;
    assert_int_equal(dataset->record_count, records);
    assert_int_equal(dataset->lost_records, lost);
    assert_int_equal(damage_init(&damage, datasets, &(struct damage_sink){ NULL, NULL }), 0);
    assert_int_equal(damage_count(&damage), lost);
    struct damage_list *const list = damage_take_list(&damage);
    damage_release(&damage);
    uint64_t listed = 0;
    for (size_t i = 0; i < list->count; i++) {
        listed += list->records[i].count;
        list->records[i].path = NULL;   /* closed with the data set */
    }
    assert_int_equal(listed, lost);
    dataset_close(dataset);
    return list;
}

/* The last `count` records of shard 1. */
static uint64_t cut_records(uint32_t count)
{
    uint8_t frame[FIXTURE_FRAME_MAX];
    uint64_t bytes = sizes[1];
    for (uint32_t i = 0; i < count; i++)
        bytes -= fixture_record(2 * SHARD_RECORDS - 1 - i, frame);
    assert_int_equal(truncate(shard_path(1), (off_t)bytes), 0);
    return bytes;
}

TEST_WITH(an_unchanged_set_is_accepted, make_set, fixture_folder_remove)
{
    const struct dataset_options options = fixture_options(set);
    dataset_close(fixture_open(&options));
    free(assert_lost(SHARDS * SHARD_RECORDS, 0));
}

TEST_WITH(a_shard_cut_between_two_records_is_named_or_its_records_count, make_set, fixture_folder_remove)
{
    const uint64_t bytes = cut_records(3);
    assert_refused("train-00001-of-00003: holds 17 records, dataset.json says 20", "remove dataset.json");
    struct damage_list *const list = assert_lost(SHARDS * SHARD_RECORDS - 3, 3);
    assert_int_equal(list->count, 1);
    assert_int_equal(list->records[0].shard, 1);
    assert_int_equal(list->records[0].record, 17);
    assert_int_equal(list->records[0].offset, bytes);
    assert_string_equal(list->records[0].problem.text, "3 records are missing from here on: dataset.json says 20");
    free(list);
}

TEST_WITH(a_shard_cut_inside_a_record_loses_all_that_follow, make_set, fixture_folder_remove)
{
    const uint64_t bytes = cut_records(3);
    assert_int_equal(truncate(shard_path(1), (off_t)bytes - 5), 0);
    struct damage_list *const list = assert_lost(SHARDS * SHARD_RECORDS - 4, 4);
    assert_int_equal(list->count, 2);
    assert_non_null(strstr(list->records[0].problem.text, "record is cut short"));
    assert_int_equal(list->records[1].count, 3);
    free(list);
}

TEST_WITH(a_shard_of_no_bytes_loses_all_records, make_set, fixture_folder_remove)
{
    fixture_write(shard_path(1), "", 0);
    assert_refused("train-00001-of-00003: holds 0 records", "says 20");
    struct damage_list *const list = assert_lost(2 * SHARD_RECORDS, SHARD_RECORDS);
    assert_string_equal(list->records[0].problem.text, "20 records are missing from here on: dataset.json says 20");
    free(list);
}

TEST_WITH(a_shard_that_is_listed_as_empty_is_accepted, make_set, fixture_folder_remove)
{
    static const char text[] = "{\"splits\": {\"train\": {\"shards\": ["
                               "{\"file\": \"train-00002-of-00003\", \"records\": 0, \"bytes\": 0}]}}}";
    fixture_write_text(fixture_path(set, MANIFEST_FILE), text);
    fixture_write(shard_path(2), "", 0);
    const struct dataset_options options = fixture_options(set);
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, 2 * SHARD_RECORDS);
    dataset_close(dataset);
    free(assert_lost(2 * SHARD_RECORDS, 0));
}

TEST_WITH(a_shard_of_garbage_loses_all_records, make_set, fixture_folder_remove)
{
    uint8_t garbage[4000];
    memset(garbage, 0xa5, sizeof(garbage));
    fixture_write(shard_path(1), garbage, sizeof(garbage));
    assert_refused("train-00001-of-00003: record 0 at byte 0: length checksum differs", "");
    struct damage_list *const list = assert_lost(2 * SHARD_RECORDS, SHARD_RECORDS);
    assert_non_null(strstr(list->records[0].problem.text, "length checksum differs"));
    assert_int_equal(list->records[1].count, SHARD_RECORDS - 1);
    free(list);
}

static void assert_refused_when_skipping(const char *part, const char *other)
{
    struct dataset_options options = fixture_options(set);
    options.skip_damage = true;
    fixture_assert_refused(&options, part, other);
}

TEST_WITH(a_listed_shard_that_is_another_kind_of_file_is_no_damage, make_set, fixture_folder_remove)
{
    static const uint8_t zstandard[40] = { 0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x0a, 0x51 };
    static const uint8_t zeros[4000];
    fixture_write(shard_path(1), zstandard, sizeof(zstandard));
    assert_refused_when_skipping("train-00001-of-00003: not a TFRecord shard: it is compressed with Zst", "zstd -d");
    fixture_write(shard_path(1), "<html>no such page, and no record either</html>", 47);
    assert_refused_when_skipping("train-00001-of-00003: not a TFRecord shard", "HTML");
    fixture_write(shard_path(1), zeros, sizeof(zeros));
    free(assert_lost(2 * SHARD_RECORDS, SHARD_RECORDS));
}

TEST_WITH(a_set_of_lost_shards_is_refused_shard_by_shard, make_set, fixture_folder_remove)
{
    uint8_t garbage[400];
    memset(garbage, 0xa5, sizeof(garbage));
    assert_int_equal(unlink(shard_path(0)), 0);
    fixture_write(shard_path(1), "", 0);
    fixture_write(shard_path(2), garbage, sizeof(garbage));
    assert_refused_when_skipping("set: holds no records", "train-00000-of-00003: is missing: dataset.json says 20");
    assert_refused_when_skipping("train-00001-of-00003: holds 0 records, dataset.json says 20",
                                 "train-00002-of-00003: holds 0 records, dataset.json says 20");
}

TEST_WITH(damaged_lengths_are_not_counted_twice, make_set, fixture_folder_remove)
{
    size_t bytes;
    uint8_t *const data = fixture_read(shard_path(2), &bytes);
    data[3] ^= 8;
    fixture_write(shard_path(2), data, bytes);
    free(data);
    free(assert_lost(SHARDS * SHARD_RECORDS - 1, 1));
}

TEST_WITH(a_shard_of_another_set_is_refused_or_reported, make_set, fixture_folder_remove)
{
    char text[2048];
    struct capture capture;
    fixture_write_shard(shard_path(0), 0, SHARD_RECORDS + 2);
    assert_refused("train-00000-of-00003: holds 22 records, dataset.json says 20", "");
    capture_begin(&capture);
    free(assert_lost(SHARDS * SHARD_RECORDS + 2, 0));
    capture_end(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "holds 22 records, dataset.json says 20"));
    fixture_write_shard(shard_path(0), 1, SHARD_RECORDS);
    assert_refused("train-00000-of-00003: is ", "bytes long, dataset.json says ");
}

/* What is said while the set is opened. */
static void open_and_tell(const char *pattern, uint64_t records, char *text, size_t text_size)
{
    struct capture capture;
    const struct dataset_options options = fixture_options(pattern);
    capture_begin(&capture);
    struct dataset *const dataset = fixture_open(&options);
    capture_end(&capture, text, text_size);
    assert_int_equal(dataset->record_count, records);
    dataset_close(dataset);
}

TEST_WITH(shards_that_no_manifest_lists_are_used_and_named, make_set, fixture_folder_remove)
{
    char text[2048], pattern[400];
    open_and_tell(set, SHARDS * SHARD_RECORDS, text, sizeof(text));
    assert_string_equal(text, "");
    fixture_write_shard(fixture_path(set, "train-extra.tfrecord"), 1000, 7);
    open_and_tell(set, SHARDS * SHARD_RECORDS + 7, text, sizeof(text));
    assert_non_null(strstr(text, "train-extra.tfrecord is not among the 3 shards that dataset.json lists"));
    fixture_write_shard(fixture_path(set, "train.tfrecord.bak"), 2000, 5);
    snprintf(pattern, sizeof(pattern), "%s/train*", set);
    open_and_tell(pattern, SHARDS * SHARD_RECORDS + 12, text, sizeof(text));
    assert_non_null(strstr(text, "train-extra.tfrecord and 1 more are not among the 3 shards"));
    assert_null(strstr(text, "the same records"));
}

TEST_WITH(listed_shards_that_no_glob_finds_are_named, make_set, fixture_folder_remove)
{
    char text[2048], pattern[400];
    snprintf(pattern, sizeof(pattern), "%s/train-0000[02]-*", set);
    open_and_tell(pattern, 2 * SHARD_RECORDS, text, sizeof(text));
    assert_null(strstr(text, "missing"));       /* it is there and was not asked for */
    assert_int_equal(unlink(shard_path(1)), 0);
    open_and_tell(pattern, 2 * SHARD_RECORDS, text, sizeof(text));
    assert_non_null(strstr(text, "dataset.json lists 1 shard that is missing, such as train-00001-of-00003"));
}

TEST_WITH(a_copy_of_a_shard_is_reported, make_set, fixture_folder_remove)
{
    char text[2048], pattern[600];
    size_t bytes;
    uint8_t *const data = fixture_read(shard_path(2), &bytes);
    fixture_write(fixture_path(folder, "copy.tfrecord"), data, bytes);
    free(data);
    snprintf(pattern, sizeof(pattern), "%s, %s", set, fixture_path(folder, "copy.tfrecord"));
    open_and_tell(pattern, (SHARDS + 1) * SHARD_RECORDS, text, sizeof(text));
    assert_non_null(strstr(text, "train: 1 shard holds the same records as another one, such as "));
    assert_non_null(strstr(text, "train-00002-of-00003 and "));
    assert_non_null(strstr(text, "copy.tfrecord: they are used twice"));
}

TEST_WITH(a_listed_shard_missing_from_a_directory_is_named_or_its_records_count, make_set, fixture_folder_remove)
{
    assert_int_equal(unlink(shard_path(1)), 0);
    assert_refused("train-00001-of-00003: is missing: dataset.json says 20 records", "glob");
    struct damage_list *const list = assert_lost(2 * SHARD_RECORDS, SHARD_RECORDS);
    assert_int_equal(list->count, 1);
    assert_int_equal(list->records[0].shard, 1);
    assert_string_equal(list->records[0].problem.text, "is missing: dataset.json says 20 records");
    free(list);
}

TEST_WITH(a_glob_and_a_file_may_name_less_than_the_manifest_lists, make_set, fixture_folder_remove)
{
    char place[300];
    assert_int_equal(unlink(shard_path(1)), 0);
    snprintf(place, sizeof(place), "%s", set);
    strcat(set, "/train-*");
    struct dataset_options options = fixture_options(set);
    struct dataset *dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, 2 * SHARD_RECORDS);
    dataset_close(dataset);
    snprintf(set, sizeof(set), "%s", place);
    options.pattern = shard_path(2);
    dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, SHARD_RECORDS);
    dataset_close(dataset);
}

/* Shards whose names contain neither a set nor a count. */
TEST_WITH(a_shard_listed_for_another_set_is_not_missed, make_set, fixture_folder_remove)
{
    static const char text[] = "{\"splits\": {\"train\": {\"shards\": [{\"file\": \"a.tfrecord\", \"records\": 9},"
                               "{\"file\": \"b.tfrecord\", \"records\": 8}, {\"file\": \"b.tfrecord\", \"records\": 8},"
                               "{\"file\": \"b.tfrecord.md5\", \"records\": 1},"
                               "{\"file\": \"../b.tfrecord\", \"records\": 1},"
                               "{\"file\": \"none.tfrecord\", \"records\": 0}]},"
                               "\"validation\": {\"shards\": [{\"file\": \"c.tfrecord\", \"records\": 7}]}}}";
    fixture_folder_clear(set);
    assert_int_equal(mkdir(set, 0700), 0);
    fixture_write_text(fixture_path(set, MANIFEST_FILE), text);
    fixture_write_shard(fixture_path(set, "a.tfrecord"), 0, 9);
    assert_refused("b.tfrecord: is missing: dataset.json says 8 records", "");
    struct damage_list *const list = assert_lost(9, 8);
    assert_int_equal(list->count, 1);
    free(list);
    fixture_write_shard(fixture_path(set, "b.tfrecord"), 0, 8);
    const struct dataset_options options = fixture_options(set);
    dataset_close(fixture_open(&options));
}

TEST_WITH(shards_missing_from_two_sets_are_not_the_same_file, make_set, fixture_folder_remove)
{
    struct dataset_options options = fixture_options(set);
    struct dataset_overlap overlap;
    options.skip_damage = true;
    assert_int_equal(unlink(shard_path(0)), 0);
    struct dataset *const one = fixture_open(&options);
    struct dataset *const other = fixture_open(&options);
    assert_int_equal(dataset_overlap_find(&overlap, one, other), 0);
    assert_int_equal(overlap.count, SHARDS - 1);
    assert_int_equal(overlap.first, 1);
    dataset_close(one);
    dataset_close(other);
}

/* What opening a set with this manifest prints on stderr. */
static void tell_with(const char *manifest, size_t bytes, char *text, size_t text_size)
{
    struct capture capture;
    const struct dataset_options options = fixture_options(set);
    fixture_write(fixture_path(set, MANIFEST_FILE), manifest, bytes);
    capture_begin(&capture);
    struct dataset *const dataset = fixture_open(&options);
    capture_end(&capture, text, text_size);
    assert_int_equal(dataset->record_count, SHARDS * SHARD_RECORDS);
    dataset_close(dataset);
}

TEST_WITH(an_unusable_manifest_is_reported_once_and_is_no_error, make_set, fixture_folder_remove)
{
    char text[2048];
    tell_with("{\"splits\": {", 12, text, sizeof(text));
    assert_non_null(strstr(text, "set/dataset.json: line 1: "));
    assert_null(strstr(strstr(text, "dataset.json") + 1, "dataset.json"));
    tell_with("{\"a\": 1}", 8, text, sizeof(text));
    assert_non_null(strstr(text, "set/dataset.json: has no splits: shards are not compared with it"));
    assert_int_equal(truncate(fixture_path(set, MANIFEST_FILE), MANIFEST_BYTES_MAX + 1), 0);
    struct capture capture;
    const struct dataset_options options = fixture_options(set);
    capture_begin(&capture);
    struct dataset *const dataset = fixture_open(&options);
    capture_end(&capture, text, sizeof(text));
    dataset_close(dataset);
    assert_non_null(strstr(text, "dataset.json: File too large"));
}

static size_t write_classes(uint64_t classes, char *manifest, size_t manifest_size)
{
    return (size_t)snprintf(manifest, manifest_size, "{\"splits\": {}, \"classes\": %" PRIu64 "}", classes);
}

TEST_WITH(fewer_classes_than_the_networks_are_reported, make_set, fixture_folder_remove)
{
    char manifest[64], text[2048], wanted[128];
    size_t bytes = write_classes(FIXTURE_CLASSES - 1, manifest, sizeof(manifest));
    tell_with(manifest, bytes, text, sizeof(text));
    snprintf(wanted, sizeof(wanted), "train: dataset.json says %u classes, the network has %u: set data.classes = %u\n",
             FIXTURE_CLASSES - 1, FIXTURE_CLASSES, FIXTURE_CLASSES - 1);
    assert_non_null(strstr(text, wanted));
    bytes = write_classes(FIXTURE_CLASSES, manifest, sizeof(manifest));
    tell_with(manifest, bytes, text, sizeof(text));
    assert_null(strstr(text, "classes"));
}

TEST_WITH(more_classes_than_the_networks_are_refused, make_set, fixture_folder_remove)
{
    char manifest[64], wanted[160];
    struct dataset_options options = fixture_options(set);
    size_t bytes = write_classes(FIXTURE_CLASSES + 1, manifest, sizeof(manifest));
    fixture_write(fixture_path(set, MANIFEST_FILE), manifest, bytes);
    snprintf(wanted, sizeof(wanted), "dataset.json says %u classes, the network has %u", FIXTURE_CLASSES + 1,
             FIXTURE_CLASSES);
    fixture_assert_refused(&options, wanted, "set data.classes = ");
    options.is_any_label_taken = true;
    dataset_close(fixture_open(&options));
    options.is_any_label_taken = false;
    options.classes = FIXTURE_CLASSES + 2;
    options.label_offset = 1;
    dataset_close(fixture_open(&options));
    options.label_offset = 2;
    snprintf(wanted, sizeof(wanted), "dataset.json says %u classes (%u with data.label_offset), the network has %u: set "
             "data.classes = %u", FIXTURE_CLASSES + 1, FIXTURE_CLASSES + 3, FIXTURE_CLASSES + 2, FIXTURE_CLASSES + 3);
    fixture_assert_refused(&options, "dataset.json says", wanted);
    options.label_offset = 0;
    options.classes = FIXTURE_CLASSES;
    options.classes_are_fixed = true;
    snprintf(wanted, sizeof(wanted), "dataset.json says %u classes, the weights are of a network with %u",
             FIXTURE_CLASSES + 1, FIXTURE_CLASSES);
    fixture_assert_refused(&options, "dataset.json says", wanted);
    options.classes_are_fixed = false;
    bytes = write_classes(INT64_MAX, manifest, sizeof(manifest));
    fixture_write(fixture_path(set, MANIFEST_FILE), manifest, bytes);
    fixture_assert_refused(&options, "dataset.json says 9223372036854775807 classes", "the network has");
}

TEST_WITH(a_fifo_instead_of_a_manifest_is_reported_once_for_all_sets, make_set, fixture_folder_remove)
{
    char text[2048], place[400], wanted[512];
    struct capture capture;
    struct shard_counts counts = { 0 };
    struct dataset_options options = fixture_options(set);
    snprintf(place, sizeof(place), "%s", fixture_path(set, MANIFEST_FILE));
    snprintf(wanted, sizeof(wanted), "%s: is not a regular file: shards are not compared with it\n", place);
    assert_int_equal(unlink(place), 0);
    assert_int_equal(mkfifo(place, 0600), 0);
    fixture_write_shard(fixture_path(folder, "other.tfrecord"), 0, 3);
    options.counts = &counts;
    capture_begin(&capture);
    dataset_close(fixture_open(&options));
    options.pattern = fixture_path(folder, "other.tfrecord");
    dataset_close(fixture_open(&options));
    options.pattern = set;
    dataset_close(fixture_open(&options));
    shard_counts_release(&counts);
    capture_end(&capture, text, sizeof(text));
    assert_string_equal(text, wanted);
}

TESTS_MAIN(NULL, NULL)
