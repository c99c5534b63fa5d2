/* Catalogs: a set that is opened by one is the same set, its shards are opened when they are read, and nothing else than
 * the described files is taken for them. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "loader/shards/catalog.h"
#include "loader/shards/shard_list.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

#define SHARDS 100u
#define RECORDS 2000u
#define HEADER_BYTES 40u
#define ENTRY_BYTES 48u

static unsigned shard_opens;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    shard_opens += strncmp(shard_base_name(path), "train-", 6) == 0;
    return __real_open(path, flags, mode);
}

/* ---- catalogs of the shards in the folder ---- */

static uint8_t *make_image(size_t *bytes_out)
{
    struct shard_list list = { 0 };
    struct shard_index indexes[SHARDS];
    struct catalog_entry entries[SHARDS];
    uint8_t *image;
    assert_int_equal(shard_list_folder(&list, folder), 0);
    assert_int_equal(list.count, SHARDS);
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct shard_source *source;
        fixture_assert_index_opens(&indexes[i], list.paths[i], false, false);
        assert_int_equal(shard_source_open(&source, NULL, list.paths[i]), 0);
        assert_int_equal(shard_fingerprint(&indexes[i], source, &indexes[i].fingerprint), 0);
        shard_source_close(source);
        entries[i] = (struct catalog_entry){ .name = shard_base_name(list.paths[i]), .index = &indexes[i] };
    }
    assert_int_equal(catalog_pack(entries, SHARDS, &image, bytes_out), 0);
    for (uint32_t i = 0; i < SHARDS; i++)
        shard_index_release(&indexes[i]);
    shard_list_release(&list);
    return image;
}

static const char *catalog_path(void)
{
    return fixture_path(folder, CATALOG_FILE);
}

static int make_set(void **state)
{
    (void)state;
    size_t bytes;
    if (fixture_folder_make(state) != 0)
        return -1;
    fixture_write_set(folder, SHARDS, RECORDS);
    uint8_t *const image = make_image(&bytes);
    fixture_write(catalog_path(), image, bytes);
    free(image);
    return 0;
}

static struct dataset_options catalog_options(void)
{
    struct dataset_options options = fixture_options(folder);
    options.use_index_cache = true;
    return options;
}

static void seal(uint8_t *image, size_t bytes)
{
    memset(image + 16, 0, 8);
    const uint64_t checksum = XXH3_64bits(image, bytes);
    memcpy(image + 16, &checksum, sizeof(checksum));
}

/* ---- sets ---- */

TEST_WITH(a_set_is_the_same_and_its_shards_are_opened_when_read, make_set, fixture_folder_remove)
{
    struct dataset_options options = fixture_options(folder);
    struct dataset *const walked = fixture_open(&options);
    options.use_index_cache = true;
    shard_opens = 0;
    struct dataset *const listed = fixture_open(&options);
    assert_in_range(shard_opens, 1, 65);    /* for the format of samples, from 64 records */
    assert_int_equal(listed->record_count, RECORDS);
    assert_int_equal(listed->contents, walked->contents);
    assert_int_equal(listed->fingerprint, walked->fingerprint);
    for (uint64_t id = 0; id < RECORDS; id++) {
        const struct dataset_place a = dataset_find(walked, id), b = dataset_find(listed, id);
        assert_int_equal(a.shard, b.shard);
        assert_int_equal(a.offset, b.offset);
        assert_int_equal(a.payload_bytes, b.payload_bytes);
        uint8_t pixels[FIXTURE_SAMPLE_BYTES], expected[FIXTURE_SAMPLE_BYTES];
        int32_t label;
        fixture_load(listed, id, pixels, &label);
        fixture_pixels(id, expected);
        assert_memory_equal(pixels, expected, sizeof(pixels));
        assert_int_equal(label, fixture_label(id));
    }
    assert_int_equal(shard_opens, SHARDS);
    dataset_close(walked);
    dataset_close(listed);
}

TEST_WITH(a_part_of_the_set_is_as_without, make_set, fixture_folder_remove)
{
    struct dataset_options options = fixture_options(folder);
    options.part = DATASET_HELD_OUT;
    options.held_out = 0.3;
    struct dataset *const walked = fixture_open(&options);
    options.use_index_cache = true;
    struct dataset *const listed = fixture_open(&options);
    assert_int_equal(listed->record_count, walked->record_count);
    for (uint64_t id = 0; id < walked->record_count; id++) {
        uint8_t pixels[2][FIXTURE_SAMPLE_BYTES];
        int32_t labels[2];
        fixture_load(walked, id, pixels[0], &labels[0]);
        fixture_load(listed, id, pixels[1], &labels[1]);
        assert_memory_equal(pixels[0], pixels[1], sizeof(pixels[0]));
    }
    dataset_close(walked);
    dataset_close(listed);
}

TEST_WITH(without_index_files_no_catalog_is_read, make_set, fixture_folder_remove)
{
    fixture_write(catalog_path(), "x", 1);
    struct dataset_options options = fixture_options(folder);
    dataset_close(fixture_open(&options));
    options.use_index_cache = true;
    fixture_assert_refused(&options, CATALOG_FILE ": is not a catalog", "pipetrain-shards catalog --force");
}

TEST_WITH(a_shard_of_another_size_is_refused_with_both_numbers, make_set, fixture_folder_remove)
{
    const struct dataset_options options = catalog_options();
    char path[512], expected[128];
    size_t bytes;
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "train-00002-of-00100"));
    free(fixture_read(path, &bytes));
    assert_int_equal(truncate(path, (off_t)bytes - 1), 0);
    snprintf(expected, sizeof(expected), "is %zu bytes long, %s says %zu", bytes - 1, catalog_path(), bytes);
    fixture_assert_refused(&options, "train-00002-of-00100", expected);
}

TEST_WITH(a_shard_that_is_not_listed_is_refused_with_both_numbers, make_set, fixture_folder_remove)
{
    const struct dataset_options options = catalog_options();
    fixture_write_shard(fixture_path(folder, "train-00006.tfrecord"), 0, 5);
    fixture_assert_refused(&options, "train-00006.tfrecord",
                           "is one of 101 shards of this set, but none of the 100 that /");
}

TEST_WITH(a_listed_shard_that_is_missing_is_reported, make_set, fixture_folder_remove)
{
    const struct dataset_options options = catalog_options();
    struct capture capture;
    char text[4096];
    assert_int_equal(unlink(fixture_path(folder, "train-00005-of-00100")), 0);
    capture_begin(&capture);
    struct dataset *const dataset = fixture_open(&options);
    capture_end(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "catalog.pipetrain lists 100 shards, 1 of them is missing, such as "
                                 "train-00005-of-00100"));
    dataset_close(dataset);
}

/* Change the last byte of every payload, with its checksum: a file of the same size, with records of the same lengths. */
static void replace_shard(const char *name)
{
    struct shard_index index;
    char path[512];
    size_t bytes;
    snprintf(path, sizeof(path), "%s", fixture_path(folder, name));
    fixture_assert_index_opens(&index, path, false, false);
    uint8_t *const data = fixture_read(path, &bytes);
    for (uint64_t i = 0; i < index.record_count; i++) {
        const struct shard_record record = shard_index_find(&index, i);
        uint8_t payload[FIXTURE_FRAME_MAX];
        memcpy(payload, data + record.offset + TFRECORD_HEADER_BYTES, record.payload_bytes);
        payload[record.payload_bytes - 1] ^= 1;
        fixture_frame(payload, record.payload_bytes, data + record.offset);
    }
    fixture_write(path, data, bytes);
    free(data);
    shard_index_release(&index);
}

/* Train on the set for an epoch, from which some shard cannot be read. */
static void run_to_failure(struct harness *harness, const struct dataset *dataset)
{
    *harness = (struct harness){
        .spec = { .datasets = { dataset }, .shuffle = SHUFFLE_FULL, .seed = 3, .read_threads = 1, .decode_threads = 2,
                  .skip_corrupt = dataset->options.skip_damage, .corrupt_max = RECORDS },
        .schedule = { .batch = 8, .towers = 1, .epochs = 1 },
        .depth = 2,
    };
    harness_run(harness);
    assert_int_equal(harness->code, EXIT_CODE_DATA);
    assert_non_null(strstr(harness->message, "train-00003-of-00100"));
}

/* The catalog is an hour older, or newer, than files that are written now. */
static void date_catalog(bool is_older)
{
    const time_t then = time(NULL) + (is_older ? -3600 : 3600);
    const struct timespec times[2] = { { .tv_sec = then }, { .tv_sec = then } };
    assert_int_equal(utimensat(AT_FDCWD, catalog_path(), times, 0), 0);
}

/* The message names the catalog with its folder, and says if it is older than the shard. */
static void assert_another_file(const char *message, bool is_older)
{
    char expected[600];
    snprintf(expected, sizeof(expected), "is another file than the one that %s describes%s: restore it", catalog_path(),
             is_older ? ", which is older than the file" : "");
    assert_non_null(strstr(message, expected));
}

/* Also where damaged records are skipped: no record of another file is one of the set. */
TEST_WITH(another_file_of_the_same_size_ends_the_run_when_it_is_read, make_set, fixture_folder_remove)
{
    struct dataset_options options = catalog_options();
    replace_shard("train-00003-of-00100");
    for (int skips = 0; skips < 2; skips++) {
        options.skip_damage = skips;
        date_catalog(skips);
        struct dataset *const dataset = fixture_open(&options);
        struct harness harness;
        run_to_failure(&harness, dataset);
        assert_another_file(harness.message, skips);
        harness_release(&harness);
        dataset_close(dataset);
    }
}

TEST_WITH(another_first_file_is_refused, make_set, fixture_folder_remove)
{
    const struct dataset_options options = catalog_options();
    replace_shard("train-00000-of-00100");
    fixture_assert_refused(&options, "train-00000-of-00100",
                           CATALOG_FILE " describes");
}

/* ---- what one process has found, for others ---- */

static uint8_t *pack_start(const struct dataset_options *of, size_t *bytes_out)
{
    struct dataset_options options = *of;
    uint8_t *image;
    options.keeps_start = true;
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(dataset_start_pack(dataset, &image, bytes_out), 0);
    dataset_close(dataset);
    return image;
}

static struct dataset_start make_start(const struct dataset_options *options)
{
    struct dataset_start start;
    size_t bytes;
    uint8_t *const image = pack_start(options, &bytes);
    assert_int_equal(dataset_start_parse(&start, image, bytes), 0);
    free(image);
    return start;
}

static void assert_same_set(const struct dataset *a, const struct dataset *b)
{
    assert_int_equal(a->record_count, b->record_count);
    assert_int_equal(a->contents, b->contents);
    assert_int_equal(a->fingerprint, b->fingerprint);
    for (uint64_t id = 0; id < a->record_count; id++) {
        uint8_t pixels[2][FIXTURE_SAMPLE_BYTES];
        int32_t labels[2];
        fixture_load(a, id, pixels[0], &labels[0]);
        fixture_load(b, id, pixels[1], &labels[1]);
        assert_memory_equal(pixels[0], pixels[1], sizeof(pixels[0]));
        assert_int_equal(labels[0], labels[1]);
    }
}

/* With and without a catalog, whole and in parts: the other process opens no shard until it reads it. */
TEST_WITH(another_process_opens_no_shard_before_it_reads_it, make_set, fixture_folder_remove)
{
    static const enum dataset_part parts[] = { DATASET_ALL, DATASET_REST, DATASET_HELD_OUT };
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
        for (int has_catalog = 0; has_catalog < 2; has_catalog++) {
            struct dataset_options options = fixture_options(folder);
            options.use_index_cache = has_catalog;
            options.part = parts[i];
            options.held_out = 0.2;
            struct dataset *const whole = fixture_open(&options);
            struct dataset_start start = make_start(&options);
            options.given = &start;
            shard_opens = 0;
            struct dataset *const given = fixture_open(&options);
            assert_int_equal(shard_opens, 0);
            dataset_start_release(&start);
            assert_same_set(whole, given);
            assert_in_range(shard_opens, 1, 2 * SHARDS);        /* the other one may open them now, too */
            dataset_close(whole);
            dataset_close(given);
        }
}

TEST_WITH(a_file_that_is_removed_before_it_is_read_is_reported_as_such, make_set, fixture_folder_remove)
{
    struct dataset_options options = fixture_options(folder);
    struct dataset_start start = make_start(&options);
    struct harness harness;
    options.given = &start;
    struct dataset *const dataset = fixture_open(&options);
    dataset_start_release(&start);
    assert_int_equal(unlink(fixture_path(folder, "train-00003-of-00100")), 0);
    run_to_failure(&harness, dataset);
    assert_non_null(strstr(harness.message, "cannot be read: No such file or directory; the file was there at the start"));
    harness_release(&harness);
    dataset_close(dataset);
}

TEST_WITH(other_shards_than_those_of_rank_0_are_refused_with_both_numbers, make_set, fixture_folder_remove)
{
    struct dataset_options options = fixture_options(folder);
    char path[512], name[512], expected[128];
    size_t bytes;
    struct dataset_start start = make_start(&options);
    options.given = &start;
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "train-00042-of-00100"));
    free(fixture_read(path, &bytes));
    assert_int_equal(truncate(path, (off_t)bytes - 1), 0);
    snprintf(expected, sizeof(expected), "is %zu bytes long, rank 0 says %zu", bytes - 1, bytes);
    fixture_assert_refused(&options, "train-00042-of-00100", expected);
    snprintf(name, sizeof(name), "%s", fixture_path(folder, "train-00101-of-00100"));
    assert_int_equal(rename(path, name), 0);
    fixture_assert_refused(&options, "train-00043-of-00100", "is shard 42 here, and one of another name in rank 0");
    assert_int_equal(unlink(name), 0);
    fixture_assert_refused(&options, "has 99 shards here, and 100 in rank 0",
                           "whose first that is not here is train-00042-of-00100: all hosts need the same shards");
    dataset_start_release(&start);
    options.given = NULL;
    start = make_start(&options);
    options.given = &start;
    snprintf(name, sizeof(name), "%s", fixture_path(folder, "train-00041-of-00100"));
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "train-00042-of-00100"));
    assert_int_equal(link(name, path), 0);
    fixture_assert_refused(&options, "has 100 shards here, and 99 in rank 0, which has no train-00042-of-00100",
                           "all hosts need the same shards");
    dataset_start_release(&start);
}

/* Rank 0 has opened the set with these options, and train-00099-of-00100 is another file here. */
static void read_another_file(const struct dataset_options *of, const char *expected)
{
    struct dataset_options options = *of;
    struct dataset_start start = make_start(&options);
    options.given = &start;
    replace_shard("train-00099-of-00100");
    struct dataset *const dataset = fixture_open(&options);
    struct harness harness = {
        .spec = { .datasets = { dataset }, .shuffle = SHUFFLE_NONE, .read_threads = 1, .decode_threads = 1 },
        .schedule = { .batch = 8, .towers = 1, .epochs = 1 },
        .depth = 2,
    };
    harness_run(&harness);
    assert_int_equal(harness.code, EXIT_CODE_DATA);
    assert_non_null(strstr(harness.message, "train-00099-of-00100"));
    assert_non_null(strstr(harness.message, expected));
    harness_release(&harness);
    dataset_close(dataset);
    dataset_start_release(&start);
}

TEST_WITH(another_file_than_that_of_rank_0_ends_the_run_when_it_is_read, make_set, fixture_folder_remove)
{
    const struct dataset_options options = fixture_options(folder);
    read_another_file(&options, "is another file than the one that rank 0 describes: all hosts need the same shards");
}

/* Rank 0 has not read the shard, only its catalog: no host is to blame if the catalog is older. */
TEST_WITH(a_catalog_of_rank_0_that_is_older_than_the_file_is_named, make_set, fixture_folder_remove)
{
    const struct dataset_options options = catalog_options();
    date_catalog(true);
    read_another_file(&options, "rank 0 describes from a catalog, which is older than the file: make the catalog again");
}

TEST_WITH(a_catalog_of_rank_0_that_is_newer_than_the_file_is_not_named, make_set, fixture_folder_remove)
{
    const struct dataset_options options = catalog_options();
    date_catalog(false);
    read_another_file(&options, "is another file than the one that rank 0 describes: all hosts need the same shards");
}

/* A cut between two records leaves out those after it, which the other process then reads for itself. */
TEST_WITH(an_image_that_is_cut_is_refused_or_has_fewer_records, make_set, fixture_folder_remove)
{
    const struct dataset_options options = fixture_options(folder);
    struct dataset_start start;
    uint64_t catalog_bytes;
    size_t bytes, accepted = 0;
    uint8_t *const image = pack_start(&options, &bytes);
    memcpy(&catalog_bytes, image, sizeof(catalog_bytes));
    for (size_t cut = 0; cut < bytes; cut += cut < catalog_bytes - 8 ? 7 : 1) {
        uint8_t *const copy = malloc(cut + 1);
        memcpy(copy, image, cut);
        const int rc = dataset_start_parse(&start, copy, cut);
        free(copy);
        assert_true(rc == -EBADMSG || (rc == 0 && cut >= sizeof(catalog_bytes) + catalog_bytes + 8 * SHARDS));
        accepted += rc == 0;
        if (rc == 0)
            dataset_start_release(&start);
    }
    assert_int_equal(accepted, 64);         /* without the records, and after each but the last */
    free(image);
}

TEST_WITH(a_set_with_damage_is_opened_by_each_process, make_set, fixture_folder_remove)
{
    struct dataset_options options = fixture_options(folder);
    char path[512];
    size_t bytes;
    uint8_t *image;
    snprintf(path, sizeof(path), "%s", fixture_path(folder, "train-00042-of-00100"));
    free(fixture_read(path, &bytes));
    assert_int_equal(truncate(path, (off_t)bytes - 1), 0);
    options.skip_damage = options.keeps_start = true;
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(dataset_start_pack(dataset, &image, &bytes), -ENOTSUP);
    dataset_close(dataset);
}

/* ---- images ---- */

static int parse(const uint8_t *image, size_t bytes, char *problem, size_t problem_size)
{
    struct catalog catalog;
    uint8_t *const copy = malloc(bytes + 1);
    memcpy(copy, image, bytes);
    const int rc = catalog_parse(&catalog, copy, bytes, problem, problem_size);
    if (rc == 0)
        catalog_release(&catalog);
    return rc;
}

TEST_WITH(every_cut_and_every_changed_byte_is_refused, make_set, fixture_folder_remove)
{
    char problem[256];
    size_t bytes;
    uint8_t *const image = make_image(&bytes);
    assert_int_equal(parse(image, bytes, problem, sizeof(problem)), 0);
    for (size_t cut = 0; cut < bytes; cut++)
        assert_int_equal(parse(image, cut, problem, sizeof(problem)), -EBADMSG);
    for (size_t at = 0; at < bytes; at++) {
        image[at] ^= 0x41;
        assert_int_equal(parse(image, bytes, problem, sizeof(problem)), -EBADMSG);
        image[at] ^= 0x41;
    }
    free(image);
}

/* Images that somebody has made with a right checksum. */
TEST_WITH(what_contradicts_itself_is_refused, make_set, fixture_folder_remove)
{
    const size_t lengths = HEADER_BYTES + SHARDS * ENTRY_BYTES, names = lengths + RECORDS * sizeof(uint32_t);
    const struct { const char *what; size_t at, bytes; uint64_t value; } rows[] = {
        { "version 2", 8, 4, 2 },
        { "no shards", 12, 4, 0 },
        { "as many shards as there can be", 12, 4, UINT32_MAX },
        { "records whose lengths overflow", 24, 8, UINT64_C(1) << 62 },
        { "as many records as there can be", 24, 8, UINT64_MAX },
        { "names whose size overflows", 32, 8, UINT64_MAX - 100 },
        { "no names", 32, 8, 0 },
        { "another stored size", HEADER_BYTES, 8, 1 },
        { "another size of the stream", HEADER_BYTES + 8, 8, UINT64_MAX },
        { "a shard with all records", HEADER_BYTES + 16, 8, RECORDS },
        { "a shard without records", HEADER_BYTES + 16, 8, 0 },
        { "more records than a number can say", HEADER_BYTES + 16, 8, UINT64_MAX },
        { "an unknown flag", HEADER_BYTES + 40, 4, 2 },
        { "a name of no bytes", HEADER_BYTES + 44, 4, 0 },
        { "a name of 4 GB", HEADER_BYTES + 44, 4, UINT32_MAX },
        { "a length of 0", lengths, 4, 0 },
        { "the largest length", lengths, 4, UINT32_MAX },
        { "a name in another folder", names, 1, '/' },
        { "a name that ends early", names + 3, 1, 0 },
        { "an order of names that is another", names, 1, 'u' },
        { "a name without an end", names + 20, 1, 'x' },
    };
    char problem[256];
    size_t bytes;
    uint8_t *const image = make_image(&bytes), *const forged = malloc(bytes);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        memcpy(forged, image, bytes);
        memcpy(forged + rows[i].at, &rows[i].value, rows[i].bytes);
        seal(forged, bytes);
        if (parse(forged, bytes, problem, sizeof(problem)) != -EBADMSG)
            fail_msg("%s is not refused", rows[i].what);
        assert_non_null(strstr(problem, CATALOG_ADVICE));
    }
    memcpy(forged, image, bytes);
    forged[8] = 2;
    assert_int_equal(parse(forged, bytes, problem, sizeof(problem)), -EBADMSG);
    assert_non_null(strstr(problem, "is of version 2, this program reads version 1"));
    free(forged);
    free(image);
}

TESTS_MAIN(NULL, NULL)
