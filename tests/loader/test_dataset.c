/* A set of shards: which files it uses, how records are numbered, and what it reports about bad files. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loader/shards/shard_list.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/memory_source.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

static void assert_all_records(const struct dataset *dataset, uint64_t count)
{
    uint8_t pixels[FIXTURE_SAMPLE_BYTES], wanted[FIXTURE_SAMPLE_BYTES];
    assert_int_equal(dataset->record_count, count);
    for (uint64_t id = 0; id < count; id++) {
        int32_t label;
        fixture_load(dataset, id, pixels, &label);
        fixture_pixels(id, wanted);
        assert_memory_equal(pixels, wanted, sizeof(wanted));
        assert_int_equal(label, fixture_label(id));
    }
}

TEST(numbers_all_records_of_any_number_of_shards)
{
    for (uint32_t shards = 1; shards <= 9; shards++) {
        char name[32], pattern[320];
        snprintf(name, sizeof(name), "set%u", shards);
        fixture_subfolder(pattern, sizeof(pattern), name);
        fixture_write_set(pattern, shards, 101);
        struct dataset_options options = fixture_options(pattern);
        options.use_index_cache = true;
        for (int round = 0; round < 2; round++) {
            struct dataset *dataset = fixture_open(&options);
            assert_int_equal(dataset->shard_count, shards);
            assert_all_records(dataset, 101);
            dataset_close(dataset);
        }
        char glob[400];
        snprintf(glob, sizeof(glob), "%s/train-*", pattern);
        options.pattern = glob;
        struct dataset *dataset = fixture_open(&options);
        assert_all_records(dataset, 101);
        dataset_close(dataset);
    }
}

TEST(the_fingerprint_follows_names_sizes_and_counts)
{
    uint64_t seen[4];
    const char *names[] = { "print-a.tfrecord", "print-b.tfrecord", "print-a.tfrecord", "print-a.tfrecord" };
    const uint32_t counts[] = { 10, 10, 11, 10 };
    for (int i = 0; i < 4; i++) {
        fixture_write_shard(fixture_path(folder, names[i]), 0, counts[i]);
        const struct dataset_options options = fixture_options(fixture_path(folder, names[i]));
        struct dataset *dataset = fixture_open(&options);
        seen[i] = dataset->fingerprint;
        dataset_close(dataset);
    }
    assert_true(seen[0] != seen[1] && seen[0] != seen[2] && seen[1] != seen[2]);
    assert_true(seen[0] == seen[3]);
}

/* Other records of the same sizes, under the same name. */
TEST(the_content_follows_the_payloads)
{
    uint64_t seen[4][2];
    char place[256];
    fixture_subfolder(place, sizeof(place), "content");
    const char *const path = fixture_path(place, "shard.tfrecord");
    const uint32_t first_ids[] = { 0, 3, 0, 0 }, parts[] = { 0, 0, 0, 1 };
    for (int i = 0; i < 4; i++) {
        fixture_write_shard(path, first_ids[i], 10);
        struct dataset_options options = fixture_options(path);
        options.use_index_cache = true;
        if (parts[i]) {
            options.part = DATASET_REST;
            options.held_out = 0.5;
        }
        for (int round = 0; round < 2; round++) {
            struct dataset *const dataset = fixture_open(&options);
            assert_int_equal(dataset->indexes[0].bytes, dataset->indexes[0].stamp.bytes);
            seen[i][round] = dataset->contents;
            dataset_close(dataset);
        }
        assert_true(seen[i][0] == seen[i][1] && seen[i][0] != 0);
    }
    assert_true(seen[0][0] != seen[1][0]);
    assert_true(seen[0][0] == seen[2][0] && seen[0][0] == seen[3][0]);
}

TEST(uses_shards_and_skips_their_companions)
{
    const char *shards[] = { "a.tfrecord", "a.tfrecords", "train-00000-of-00004", "x-1-of-2", "v-00000-of-00001.gz",
                             "mnist.tfrecord-00001-of-00002" };
    const char *others[] = { ".a.tfrecord.pipetrain-index", ".train-00000-of-00004.pipetrain-index", "dataset.json",
                             "a.tfrecord.idx", "a.tfrecord.tmp", "train-00000-of-00004.tmp", "train-of-", "-1-of-2",
                             "a.tfrecord~", ".hidden.tfrecord", "labels.txt", "readme", "train-a-of-b",
                             ".train-00000-of-00004.pipetrain-index.17-abc.tmp" };
    for (size_t i = 0; i < sizeof(shards) / sizeof(*shards); i++)
        assert_true(shard_list_is_shard(shards[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        assert_false(shard_list_is_shard(others[i]));
    static const char within[] = "x-1-of-2";
    assert_false(shard_list_is_shard(within + 2));      /* "1-of-2", whatever is in front of it in memory */
}

TEST(shards_are_sorted_bytewise)
{
    const char *names[] = { "b.tfrecord", "B.tfrecord", "a-10-of-10", "a-9-of-10", "_.tfrecord" };
    const char *sorted[] = { "B.tfrecord", "_.tfrecord", "a-10-of-10", "a-9-of-10", "b.tfrecord" };
    char place[300];
    fixture_subfolder(place, sizeof(place), "sorted");
    for (size_t i = 0; i < 5; i++)
        fixture_write_shard(fixture_path(place, names[i]), i, 1);
    const struct dataset_options options = fixture_options(place);
    struct dataset *dataset = fixture_open(&options);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(strrchr(dataset->paths[i], '/') + 1, sorted[i]);
    dataset_close(dataset);
}

TEST(a_directory_of_two_splits_gives_the_requested_one)
{
    static const char *const names[] = { "train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001" };
    static const struct { const char *what; uint64_t records; } splits[] = { { "train", 5 }, { "validation", 4 } };
    char place[256];
    fixture_subfolder(place, sizeof(place), "splits");
    for (uint32_t i = 0; i < 3; i++)
        fixture_write_shard(fixture_path(place, names[i]), i, i + 2);
    for (size_t i = 0; i < 2; i++) {
        struct dataset_options options = fixture_options(place);
        options.what = splits[i].what;
        struct dataset *dataset = fixture_open(&options);
        assert_int_equal(dataset->record_count, splits[i].records);
        dataset_close(dataset);
    }
}

TEST(reports_missing_shards)
{
    char place[256], text[1024];
    fixture_subfolder(place, sizeof(place), "missing");
    fixture_write_set(place, 3, 9);
    assert_int_equal(unlink(fixture_path(place, "train-00001-of-00003")), 0);
    const struct dataset_options options = fixture_options(place);
    struct capture capture;
    capture_begin(&capture);
    struct dataset *dataset = fixture_open(&options);
    capture_end(&capture, text, sizeof(text));
    assert_non_null(strstr(text, "only 2 of the 3 shards"));
    dataset_close(dataset);
}

TEST(names_with_glob_characters_are_files_first)
{
    fixture_write_shard(fixture_path(folder, "odd[1]*.tfrecord"), 0, 3);
    const struct dataset_options options = fixture_options(fixture_path(folder, "odd[1]*.tfrecord"));
    struct dataset *dataset = fixture_open(&options);
    assert_int_equal(dataset->shard_count, 1);
    dataset_close(dataset);
}

TEST(reports_what_is_wrong_with_a_pattern)
{
    assert_int_equal(mkdir(fixture_path(folder, "nothing"), 0700), 0);
    struct dataset_options options = fixture_options(fixture_path(folder, "absent.tfrecord"));
    fixture_assert_refused(&options, "train: ", "absent.tfrecord: No such file");
    options.pattern = fixture_path(folder, "absent-*");
    fixture_assert_refused(&options, "absent-*", "no file matches");
    options.pattern = "~/absent-*";
    fixture_assert_refused(&options, "~/absent-*", "no file matches this pattern; ~ is not expanded");
    options.pattern = "gs://bucket/absent";
    fixture_assert_refused(&options, "gs://bucket/absent", "No such file or directory; addresses are not read");
    options.pattern = fixture_path(folder, "nothing");
    fixture_assert_refused(&options, "nothing", "no shards in this directory");
    fixture_write_text(fixture_path(folder, "nothing/train00-1024.tfrec"), "");
    fixture_assert_refused(&options, "nothing", "/nothing/*.tfrec'");
    assert_int_equal(unlink(fixture_path(folder, "nothing/train00-1024.tfrec")), 0);
    fixture_write_text(fixture_path(folder, "nothing/_SUCCESS"), "");
    fixture_write_text(fixture_path(folder, "nothing/notes"), "no shard at all");
    options.pattern = fixture_path(folder, "nothing");
    fixture_assert_refused(&options, "nothing", "NAME-NNNNN-of-NNNNN); pipetrain-convert");
    assert_int_equal(link(fixture_path(folder, "print-a.tfrecord"), fixture_path(folder, "nothing/part-r-00000")), 0);
    options.pattern = fixture_path(folder, "nothing");
    fixture_assert_refused(&options, "nothing", "/nothing/part-r-*'");
    options.pattern = "";
    fixture_assert_refused(&options, "train: ", "No such file");
    options.pattern = "/dev/null";
    fixture_assert_refused(&options, "/dev/null", "not a regular file");
    assert_int_equal(mkfifo(fixture_path(folder, "pipe.tfrecord"), 0600), 0);
    options.pattern = fixture_path(folder, "pipe.tfrecord");
    fixture_assert_refused(&options, "pipe.tfrecord", "not a regular file");
}

TEST(lists_every_problem_on_a_line_of_its_own)
{
    char place[300];
    fixture_subfolder(place, sizeof(place), "many");
    fixture_write_shard(fixture_path(place, "a.tfrecord"), 0, 3);
    fixture_write(fixture_path(place, "b.tfrecord"), "", 0);
    fixture_write(fixture_path(place, "c.tfrecord"), "<html></html>", 13);
    assert_int_equal(mkdir(fixture_path(place, "d.tfrecord"), 0700), 0);
    const struct dataset_options options = fixture_options(place);
    struct dataset *dataset;
    char problem[4096];
    assert_true(dataset_open(&dataset, &options, problem, sizeof(problem)) < 0);
    const char *b = strstr(problem, "b.tfrecord: is empty"), *c = strstr(problem, "c.tfrecord: not a TFRecord shard");
    const char *d = strstr(problem, "d.tfrecord: is a directory");
    assert_true(b && c && d && b < c && c < d);
    size_t lines = 1;
    for (const char *at = problem; *at; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 3);
}

TEST(no_shard_is_opened_once_the_set_is_unwanted)
{
    struct dataset *dataset;
    char problem[1024], path[320];
    atomic_bool is_unwanted = true;
    fixture_subfolder(path, sizeof(path), "unwanted");
    fixture_write_set(path, 3, 10);
    struct dataset_options options = fixture_options(path);
    options.use_index_cache = true;
    options.is_unwanted = &is_unwanted;
    assert_int_equal(dataset_open(&dataset, &options, problem, sizeof(problem)), -ECANCELED);
    assert_string_equal(problem, "");
    is_unwanted = false;
    assert_int_equal(dataset_open(&dataset, &options, problem, sizeof(problem)), 0);
    assert_all_records(dataset, 10);
    dataset_close(dataset);
}

TEST(a_search_for_the_next_record_ends_once_the_set_is_unwanted)
{
    const size_t bytes = (size_t)4 << 20;
    uint8_t *const data = calloc(1, bytes);
    char problem[1024];
    struct dataset *dataset;
    atomic_bool is_unwanted = false;
    struct memory_shard shard = {
        .name = "tail.tfrecord", .data = data, .bytes = bytes, .raised = &is_unwanted, .raised_at = 2 };
    fixture_record(0, data);
    memory_source_set(&shard, 1);
    fixture_write(fixture_path(folder, "tail.tfrecord"), "", 0);
    struct dataset_options options = fixture_options(fixture_path(folder, "tail.tfrecord"));
    options.source_ops = &memory_source_ops;
    options.skip_damage = true;
    options.is_unwanted = &is_unwanted;
    assert_int_equal(dataset_open(&dataset, &options, problem, sizeof(problem)), -ECANCELED);
    assert_string_equal(problem, "");
    assert_int_equal(shard.read, 2);
    free(data);
}

TEST(an_empty_shard_is_skipped_only_when_asked)
{
    char place[300];
    fixture_subfolder(place, sizeof(place), "hollow");
    fixture_write(fixture_path(place, "a.tfrecord"), "", 0);
    fixture_write_shard(fixture_path(place, "b.tfrecord"), 0, 5);
    fixture_write(fixture_path(place, "c.tfrecord"), "", 0);
    fixture_write(fixture_path(place, "d.tfrecord"), "", 0);
    fixture_write_shard(fixture_path(place, "e.tfrecord"), 5, 4);
    struct dataset_options options = fixture_options(place);
    fixture_assert_refused(&options, "c.tfrecord: is empty", "d.tfrecord: is empty");
    options.skip_damage = true;
    struct dataset *dataset = fixture_open(&options);
    assert_all_records(dataset, 9);
    assert_int_equal(dataset->lost_records, 3);
    dataset_close(dataset);
    options.pattern = fixture_path(place, "a.tfrecord");
    fixture_assert_refused(&options, "a.tfrecord", "holds no records");
}

TEST(a_damaged_first_record_is_reported_or_skipped)
{
    uint8_t data[3 * FIXTURE_FRAME_MAX];
    size_t bytes = 0;
    for (uint64_t id = 0; id < 3; id++)
        bytes += fixture_record(id, data + bytes);
    data[20] ^= 1;
    fixture_write(fixture_path(folder, "one.tfrecord"), data, bytes);
    struct dataset_options options = fixture_options(fixture_path(folder, "one.tfrecord"));
    fixture_assert_refused(&options, "record 0 at byte 0: payload checksum differs (stored ", "a second read agrees");
    options.skip_damage = true;
    struct dataset *dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, 3);
    dataset_close(dataset);
}

TEST(a_name_of_several_lines_is_one_line_of_a_message)
{
    uint8_t frame[FIXTURE_FRAME_MAX];
    const char *const path = fixture_path(folder, "two\nlines\x1b[31m\xc2\x9b.tfrecord");
    const size_t bytes = fixture_record(0, frame);
    frame[20] ^= 1;
    fixture_write(path, frame, bytes);
    const struct dataset_options options = fixture_options(path);
    struct dataset *dataset;
    char problem[4096];
    assert_true(dataset_open(&dataset, &options, problem, sizeof(problem)) < 0);
    assert_non_null(strstr(problem, "two\\x0alines\\x1b[31m\\xc2\\x9b.tfrecord: record 0 at byte 0: payload checksum"));
    assert_null(strpbrk(problem, "\n\x1b\xc2"));
}

TEST(a_foreign_shard_among_others_is_named)
{
    static const uint8_t blank[3136];
    char place[300];
    uint8_t frame[8192];
    fixture_subfolder(place, sizeof(place), "mixed");
    fixture_write_shard(fixture_path(place, "a.tfrecord"), 0, 3);
    const size_t bytes = fixture_example("image_raw", blank, sizeof(blank), "label", 1, frame);
    fixture_write(fixture_path(place, "b.tfrecord"), frame, bytes);
    const struct dataset_options options = fixture_options(place);
    fixture_assert_refused(&options, "b.tfrecord: record 0 at byte 0: has 3136 bytes", "wants 24");
}

/* Whether `limit` descriptors are enough to open a set and read every record of it, in a process of its own;
 * the problem goes to stdout. */
static bool can_read_with(const struct dataset_options *options, rlim_t limit, uint64_t records)
{
    const struct rlimit few = { limit, limit };
    const pid_t child = fork();
    if (child == 0) {
        struct dataset *dataset;
        char problem[8192];
        setrlimit(RLIMIT_NOFILE, &few);
        const int rc = dataset_open(&dataset, options, problem, sizeof(problem));
        if (rc == 0) {
            assert_all_records(dataset, records);
            dataset_close(dataset);
        }
        _exit(rc == 0 ? 0 : rc == -EMFILE && strstr(problem, "ulimit -n") != NULL ? 1 : 2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 0;
}

TEST(more_shards_than_descriptors_are_read)
{
    char place[300];
    fixture_subfolder(place, sizeof(place), "crowd");
    fixture_write_set(place, 300, 900);
    struct dataset_options options = fixture_options(place);
    for (int round = 0; round < 3; round++) {
        assert_true(can_read_with(&options, 64, 900));
        options.use_index_cache = true;
    }
    assert_true(can_read_with(&options, 5, 900));
    options.pattern = fixture_path(place, "train-00007-of-00300");
    assert_false(can_read_with(&options, 3, 3));
}

TEST(opening_a_set_leaves_the_limit_of_open_files_as_it_is)
{
    char place[300];
    fixture_subfolder(place, sizeof(place), "few");
    fixture_write_set(place, 3, 9);
    struct rlimit before, low, after;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    low.rlim_cur = before.rlim_max > 256 ? 256 : before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    struct dataset_options options = fixture_options(place);
    struct dataset *dataset;
    char problem[8192];
    const int rc = dataset_open(&dataset, &options, problem, sizeof(problem));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &after), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, 0);
    assert_int_equal(after.rlim_cur, low.rlim_cur);
    dataset_close(dataset);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
