/* Sources of shards: what a plain file gives, and that index, store, readers and decoders ask
 * for nothing that only a file could give. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/tfrecord.h"
#include "loader/shards/shard_source.h"
#include "tests/helpers/loader_harness.h"
#include "tests/helpers/memory_source.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

enum { SHARDS = 2, SHARD_RECORDS = 21, KEEP_SOURCES = 2 };

static char set[300];

/* The shards' bytes, and shards made of them. */
static uint8_t shard_data[SHARDS][SHARD_RECORDS * FIXTURE_FRAME_MAX];
static size_t begins[SHARDS][SHARD_RECORDS + 1];
static struct memory_shard shards[SHARDS];

static int make_folder(void **state)
{
    assert_int_equal(fixture_folder_make(state), 0);
    fixture_subfolder(set, sizeof(set), "set");
    return 0;
}

/* Files that hold no records, and the same names in memory with the set's records. */
static void make_shards(void)
{
    static const char *const names[SHARDS] = { "train-00000-of-00002", "train-00001-of-00002" };
    for (uint32_t i = 0; i < SHARDS; i++) {
        for (uint32_t record = 0; record < SHARD_RECORDS; record++)
            begins[i][record + 1] =
                begins[i][record] + fixture_record(i * SHARD_RECORDS + record, shard_data[i] + begins[i][record]);
        fixture_write(fixture_path(set, names[i]), "not records", 11);
        shards[i] = (struct memory_shard){ .name = names[i], .data = shard_data[i], .bytes = begins[i][SHARD_RECORDS] };
    }
    memory_source_set(shards, SHARDS);
}

static struct dataset *open_set(const struct shard_source_ops *ops, bool skip_damage)
{
    struct dataset_options options = fixture_options(set);
    options.source_ops = ops;
    options.skip_damage = skip_damage;
    return fixture_open(&options);
}

static struct harness run_set(const struct dataset *dataset, bool keeps, bool skip_damage)
{
    struct harness harness = {
        .spec = {
            .datasets = { dataset },
            .shuffle = SHUFFLE_FULL,
            .seed = 5,
            .read_threads = 2,
            .decode_threads = 2,
            .keep_bytes = keeps ? 0 : LOADER_KEEP_NONE,
            .skip_corrupt = skip_damage,
            .corrupt_max = SHARD_RECORDS,
        },
        .schedule = { .batch = 8, .towers = 2, .epochs = 2 },
        .depth = 2,
    };
    harness_run(&harness);
    return harness;
}

TEST(a_file_gives_any_bytes_and_fewer_only_at_its_end)
{
    const char *const path = fixture_path(folder, "plain");
    uint8_t data[300], buffer[300];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7);
    fixture_write(path, data, sizeof(data));
    struct shard_source *source;
    uint64_t bytes = 0;
    assert_int_equal(shard_source_open(&source, NULL, path), 0);
    assert_int_equal(shard_source_size(source, &bytes), 0);
    assert_int_equal(bytes, sizeof(data));
    for (size_t offset = 0; offset <= sizeof(data) + 1; offset += 43) {
        for (size_t wanted = 1; wanted <= sizeof(data); wanted += 59) {
            const size_t left = offset < sizeof(data) ? sizeof(data) - offset : 0;
            const size_t given = wanted < left ? wanted : left;
            assert_int_equal(shard_source_read(source, buffer, wanted, offset), given);
            assert_memory_equal(buffer, data + (left > 0 ? offset : 0), given);
            assert_int_equal(shard_source_read_afresh(source, buffer, wanted, offset), given);
            assert_memory_equal(buffer, data + (left > 0 ? offset : 0), given);
        }
    }
    shard_source_close(source);
    shard_source_close(NULL);
}

#define FILES 60u
#define FILE_BYTES 64u
#define READERS 8u

struct file_reader {
    struct shard_source *const *sources;
    uint32_t number;
    bool is_right;
};

/* Read the files in an order of its own. */
static void *read_files(void *arg)
{
    struct file_reader *const reader = arg;
    uint8_t buffer[FILE_BYTES];
    reader->is_right = true;
    for (uint32_t i = 0; i < 2000 && reader->is_right; i++) {
        const uint32_t file = (i * (2 * reader->number + 1) + i / FILES) % FILES;
        const ssize_t got = shard_source_read(reader->sources[file], buffer, sizeof(buffer), 0);
        reader->is_right = got == (ssize_t)sizeof(buffer) && buffer[0] == file && buffer[FILE_BYTES - 1] == file;
    }
    return NULL;
}

static uint32_t count_descriptors(void)
{
    uint32_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void open_files(struct shard_source *sources[FILES], char paths[FILES][300])
{
    uint8_t data[FILE_BYTES];
    for (uint32_t i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "many-%u", i);
        snprintf(paths[i], 300, "%s", fixture_path(folder, name));
        memset(data, (int)i, sizeof(data));
        fixture_write(paths[i], data, sizeof(data));
        assert_int_equal(shard_source_open(&sources[i], NULL, paths[i]), 0);
    }
}

/* Few descriptors: 8 threads read from 60 files of which 4 may be open. */
TEST(any_number_of_threads_reads_more_files_than_may_be_open)
{
    static char paths[FILES][300];
    struct shard_source *sources[FILES];
    struct file_reader readers[READERS];
    pthread_t threads[READERS];
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){ 32, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    const uint32_t others = count_descriptors();
    open_files(sources, paths);
    for (uint32_t i = 0; i < READERS; i++) {
        readers[i] = (struct file_reader){ .sources = sources, .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, read_files, &readers[i]), 0);
    }
    for (uint32_t i = 0; i < READERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(readers[i].is_right);
    }
    assert_true(count_descriptors() - others <= 4);
    for (uint32_t i = 0; i < FILES; i++)
        shard_source_close(sources[i]);
    assert_int_equal(count_descriptors(), others);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* The first files have been closed when the last ones are open. */
TEST(a_file_that_was_replaced_while_it_was_closed_is_not_read)
{
    static char paths[FILES][300];
    struct shard_source *sources[FILES];
    struct rlimit before, few;
    uint8_t buffer[FILE_BYTES];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){ 32, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    open_files(sources, paths);
    assert_int_equal(rename(paths[1], paths[0]), 0);
    assert_int_equal(shard_source_read(sources[0], buffer, sizeof(buffer), 0), -ESTALE);
    assert_true(shard_source_changed(sources[0]));
    assert_int_equal(shard_source_read(sources[1], buffer, sizeof(buffer), 0), -ENOENT);
    assert_int_equal(shard_source_read(sources[2], buffer, sizeof(buffer), 0), sizeof(buffer));
    assert_int_equal(buffer[0], 2);
    for (uint32_t i = 0; i < FILES; i++)
        shard_source_close(sources[i]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(what_is_no_file_cannot_be_opened)
{
    const char *const pipe_path = fixture_path(folder, "pipe");
    struct shard_source *source;
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(shard_source_open(&source, NULL, pipe_path), -ESPIPE);
    assert_int_equal(shard_source_open(&source, NULL, "/dev/null"), -ESPIPE);
    assert_int_equal(shard_source_open(&source, NULL, folder), -EISDIR);
    assert_int_equal(shard_source_open(&source, NULL, fixture_path(folder, "nothing")), -ENOENT);
}

/* The open file stays the same; its name may become that of another. */
TEST(a_file_that_changes_under_its_name_is_noticed_and_read_afresh)
{
    const char *const path = fixture_path(folder, "turning"), *const other = fixture_path(folder, "other");
    char buffer[4] = "";
    struct shard_source *source;
    fixture_write(path, "old", 3);
    assert_int_equal(shard_source_open(&source, NULL, path), 0);
    assert_false(shard_source_changed(source));
    fixture_write(other, "new", 3);
    assert_int_equal(rename(other, path), 0);
    assert_true(shard_source_changed(source));
    assert_int_equal(shard_source_read(source, buffer, 3, 0), 3);
    assert_string_equal(buffer, "old");
    assert_int_equal(shard_source_read_afresh(source, buffer, 3, 0), 3);
    assert_string_equal(buffer, "new");
    assert_int_equal(unlink(path), 0);
    assert_true(shard_source_changed(source));
    assert_int_equal(shard_source_read_afresh(source, buffer, 3, 0), -ENOENT);
    shard_source_close(source);
}

TEST(batches_are_the_same_from_any_source_however_little_a_read_gives)
{
    static const size_t pieces[] = { 0, 1, 7, 12, 100 };
    make_shards();
    for (size_t i = 0; i < KEEP_SOURCES * sizeof(pieces) / sizeof(pieces[0]); i++) {
        shards[0].piece = shards[1].piece = pieces[i / KEEP_SOURCES];
        struct dataset *const dataset = open_set(&memory_source_ops, false);
        struct harness harness = run_set(dataset, i % KEEP_SOURCES == 1, false);
        assert_int_equal(dataset->record_count, SHARDS * SHARD_RECORDS);
        harness_assert_complete(&harness);
        harness_release(&harness);
        dataset_close(dataset);
    }
}

/* Record 9 of shard 1 cannot be read. */
TEST(a_read_that_fails_is_named_or_costs_one_record)
{
    make_shards();
    for (int keeps = 0; keeps < KEEP_SOURCES; keeps++) {
        struct dataset *const dataset = open_set(&memory_source_ops, false);
        shards[1].bad_offset = begins[1][9] + TFRECORD_HEADER_BYTES + 2;
        shards[1].error = -EACCES;
        struct harness harness = run_set(dataset, keeps, false);
        char wanted[128];
        snprintf(wanted, sizeof(wanted), "00001-of-00002: record 9 at byte %zu: cannot be read: Permission denied",
                 begins[1][9]);
        assert_int_equal(harness.code, EXIT_CODE_DATA);
        assert_non_null(strstr(harness.message, wanted));
        harness_release(&harness);
        harness = run_set(dataset, keeps, true);
        assert_string_equal(harness.message, "");
        assert_int_equal(harness.counts.corrupt_records, 1);
        harness_release(&harness);
        dataset_close(dataset);
        shards[1].error = 0;
    }
}

/* The cached data are wrong, the file is right. */
TEST(bytes_damaged_on_the_way_are_read_afresh_if_possible)
{
    static uint8_t damaged[sizeof(shard_data[0])];
    make_shards();
    struct dataset *const dataset = open_set(&memory_source_ops, false);
    struct dataset *const once = open_set(&memory_source_once_ops, false);
    memcpy(damaged, shard_data[0], begins[0][SHARD_RECORDS]);
    damaged[begins[0][4] + TFRECORD_HEADER_BYTES + 3] ^= 0x10;
    shards[0].data = damaged;
    shards[0].afresh = shard_data[0];
    for (int keeps = 0; keeps < KEEP_SOURCES; keeps++) {
        struct harness harness = run_set(dataset, keeps, false);
        harness_assert_complete(&harness);
        harness_release(&harness);
        harness = run_set(once, keeps, false);
        assert_int_equal(harness.code, EXIT_CODE_DATA);
        assert_non_null(strstr(harness.message, "record 4 at byte "));
        assert_non_null(strstr(harness.message, "payload checksum differs"));
        assert_null(strstr(harness.message, "second read"));
        harness_release(&harness);
    }
    dataset_close(dataset);
    dataset_close(once);
}

TEST(a_failure_reports_that_the_shard_has_changed)
{
    static uint8_t zeros[sizeof(shard_data[0])];
    make_shards();
    struct dataset *const dataset = open_set(&memory_source_ops, false);
    shards[0].data = zeros;
    struct harness harness = run_set(dataset, false, false);
    assert_null(strstr(harness.message, "has changed"));
    harness_release(&harness);
    shards[0].is_changed = true;
    harness = run_set(dataset, false, false);
    assert_non_null(strstr(harness.message, "; the file has changed since it was opened"));
    harness_release(&harness);
    dataset_close(dataset);
}

/* Finding the length of a stream may require decompressing all of it. */
TEST(a_shard_with_a_kept_index_is_not_asked_for_its_length)
{
    make_shards();
    for (uint32_t round = 1; round <= 3; round++) {
        struct dataset_options options = fixture_options(set);
        options.source_ops = &memory_source_ops;
        options.use_index_cache = true;
        struct dataset *const dataset = fixture_open(&options);
        assert_int_equal(dataset->record_count, SHARDS * SHARD_RECORDS);
        assert_int_equal(dataset->indexes[1].bytes, begins[1][SHARD_RECORDS]);
        assert_at_most(shards[1].opened, round);
        assert_at_most(shards[1].sized, 1);
        dataset_close(dataset);
    }
}

TESTS_MAIN(make_folder, fixture_folder_remove)
