/* Which files a set uses: splits by their names, and files that two sets share. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/manifest.h"
#include "loader/dataset.h"
#include "loader/dataset_shards.h"
#include "loader/shards/shard_list.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

TEST(the_last_word_for_a_split_in_a_name_decides)
{
    static const struct { const char *name; enum split split; } cases[] = {
        { "train-00000-of-00004", SPLIT_TRAIN },
        { "mnist-train.tfrecord", SPLIT_TRAIN },
        { "mnist_Training.tfrecords", SPLIT_TRAIN },
        { "train2017-1-of-9", SPLIT_TRAIN },
        { "trainval.tfrecord", SPLIT_TRAIN },
        { "latest-train.tfrecord", SPLIT_TRAIN },
        { "validation-00000-of-00001", SPLIT_VALIDATION },
        { "imagenet-validation-00000-of-00128", SPLIT_VALIDATION },
        { "VAL.tfrecord", SPLIT_VALIDATION },
        { "val-1-of-2", SPLIT_VALIDATION },
        { "train_val.tfrecord", SPLIT_TRAIN },
        { "dev.tfrecord", SPLIT_VALIDATION },
        { "mnist-test.tfrecord", SPLIT_TEST },
        { "cifar10-test.tfrecord-00000-of-00001", SPLIT_TEST },
        { "x_testset.tfrecord", SPLIT_TEST },
        { "Test Data-00000-of-00001", SPLIT_TEST },
        { "seg_train.tfrecord", SPLIT_TRAIN },
        { "testament.tfrecord", SPLIT_UNSAID },
        { "unlabelled.tfrecord", SPLIT_UNSAID },
        { "contest.tfrecord", SPLIT_UNSAID },
        { "constrained-1-of-2", SPLIT_UNSAID },
        { "values.tfrecord", SPLIT_UNSAID },
        { "a.tfrecord", SPLIT_UNSAID },
        { "", SPLIT_UNSAID },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (split_of_name(cases[i].name) != cases[i].split)
            fail_msg("%s", cases[i].name);
    }
}

static void write_names(const char *place, const char *const *names)
{
    for (uint32_t i = 0; names[i] != NULL; i++)
        fixture_write_shard(fixture_path(place, names[i]), 3 * i, 3);
}

/* The names of what a folder gives for `what`, or the problem. */
static void list_folder(const char *place, const char *what, char *out, size_t out_size)
{
    struct shard_list list = { 0 };
    struct text text;
    text_init(&text, out, out_size);
    if (shard_list_find(&list, place, what, &text) < 0)
        return;
    for (uint32_t i = 0; i < list.count; i++)
        text_add(&text, "%s%s", i > 0 ? " " : "", strrchr(list.paths[i], '/') + 1);
    shard_list_release(&list);
}

TEST(a_folder_gives_the_requested_split)
{
    static const struct { const char *names[5], *train, *validation; } cases[] = {
        { { "mnist-train.tfrecord", "mnist-test.tfrecord" }, "mnist-train.tfrecord", "mnist-test.tfrecord" },
        { { "train-0-of-1", "test-0-of-1", "val-0-of-1" }, "train-0-of-1", "val-0-of-1" },
        { { "x-validation-0-of-1", "x-train-0-of-1" }, "x-train-0-of-1", "x-validation-0-of-1" },
        { { "other.tfrecord", "a-train.tfrecord" }, "a-train.tfrecord", "other.tfrecord" },
        { { "1.tfrecord", "2.tfrecord" }, "1.tfrecord 2.tfrecord", "1.tfrecord 2.tfrecord" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char name[32], place[320], found[2048];
        snprintf(name, sizeof(name), "split%zu", i);
        write_names(fixture_subfolder(place, sizeof(place), name), cases[i].names);
        list_folder(place, "train", found, sizeof(found));
        assert_string_equal(found, cases[i].train);
        list_folder(place, "validation", found, sizeof(found));
        assert_string_equal(found, cases[i].validation);
    }
}

TEST(a_folder_of_other_splits_only_is_refused_and_a_glob_is_not)
{
    char place[320], glob[400], problem[2048];
    fixture_subfolder(place, sizeof(place), "others");
    fixture_write_set(place, 3, 9);
    list_folder(place, "validation", problem, sizeof(problem));
    assert_non_null(strstr(problem, "others: no shard here is called validation"));
    assert_non_null(strstr(problem, "train-00000-of-00003 and 2 more"));
    assert_non_null(strstr(problem, "by a glob"));
    snprintf(glob, sizeof(glob), "%s/train-*", place);
    list_folder(glob, "validation", problem, sizeof(problem));
    assert_string_equal(problem, "train-00000-of-00003 train-00001-of-00003 train-00002-of-00003");
}

TEST(a_glob_for_all_files_takes_no_companions_of_shards)
{
    static const char *const names[] = { "a", "b.bin", "catalog.pipetrain", "dataset.json", "a.idx",
                                         ".a.pipetrain-index", NULL };
    char place[320], glob[400], found[256];
    write_names(fixture_subfolder(place, sizeof(place), "companions"), names);
    snprintf(glob, sizeof(glob), "%s/*", place);
    list_folder(glob, "train", found, sizeof(found));
    assert_string_equal(found, "a b.bin");
}

/* What is printed about shards that are left out when one folder is for both sets, or for training alone. */
static void tell_left_out(const char *place, uint32_t sets, char *out, size_t out_size)
{
    static const char *const what[] = { "train", "validation" };
    struct shard_list lists[2] = { 0 };
    struct capture capture;
    char problem[256];
    for (uint32_t i = 0; i < sets; i++) {
        struct text text;
        text_init(&text, problem, sizeof(problem));
        assert_int_equal(shard_list_find(&lists[i], place, what[i], &text), 0);
    }
    capture_begin(&capture);
    assert_int_equal(left_out_report(lists, sets), 0);
    capture_end(&capture, out, out_size);
    for (uint32_t i = 0; i < sets; i++)
        shard_list_release(&lists[i]);
}

TEST(shards_of_a_folder_that_no_set_uses_are_named_once)
{
    static const char *const names[] = { "cats_train.tfrecord", "dogs.tfrecord", "birds_test.tfrecord", NULL };
    char place[320], said[2048], glob[400];
    write_names(fixture_subfolder(place, sizeof(place), "left_out"), names);
    tell_left_out(place, 1, said, sizeof(said));
    assert_non_null(strstr(said, "left out 2 shards: "));
    assert_non_null(strstr(said, "birds_test.tfrecord, "));
    tell_left_out(place, 2, said, sizeof(said));
    assert_non_null(strstr(said, "left out 1 shard: "));
    assert_non_null(strstr(said, "dogs.tfrecord"));
    assert_null(strstr(said, "birds"));
    snprintf(glob, sizeof(glob), "%s/*.tfrecord", place);
    tell_left_out(glob, 1, said, sizeof(said));
    assert_string_equal(said, "");
}

TEST(a_test_set_is_not_trained_on_without_a_message)
{
    static const struct { const char *path, *word; } cases[] = {
        { "x_testset.tfrecord", "train: 1 of the 1 shards, such as x_testset.tfrecord, is called test" },
        { "set/val2017-1-of-9", "set/val2017-1-of-9, is called validation" },
        { "Test Data/00000.tfrecord", "is called test" },
        { "test/train-0-of-1", "" }, { "train.tfrecord", "" }, { "test strips/0.tfrecord", "" }, { "a", "" },
        { "/a", "" }, { "testament/a.tfrecord", "" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *path = (char *)(uintptr_t)cases[i].path, said[1024];
        struct capture capture;
        capture_begin(&capture);
        shard_list_report_other_split(&(struct shard_list){ .paths = &path, .count = 1 });
        capture_end(&capture, said, sizeof(said));
        assert_int_equal(said[0] == '\0', cases[i].word[0] == '\0');
        assert_non_null(strstr(said, cases[i].word));
    }
}

TEST(a_set_being_put_in_place_is_found_after_the_files_of_a_folder_in_it)
{
    char place[320], inner[400];
    fixture_subfolder(place, sizeof(place), "outer");
    snprintf(inner, sizeof(inner), "%s/a", place);
    assert_int_equal(mkdir(inner, 0700), 0);
    fixture_write_text(fixture_path(place, MANIFEST_COMMIT_FILE), "");
    char names[3][500], *paths[3];
    static const char *const files[] = { "a/x.tfrecord", "b.tfrecord", "c.tfrecord" };
    for (size_t i = 0; i < 3; i++) {
        snprintf(names[i], sizeof(names[i]), "%s/%s", place, files[i]);
        paths[i] = names[i];
    }
    assert_null(begun_set_find(&(struct shard_list){ .paths = paths, .count = 1 }));
    assert_ptr_equal(begun_set_find(&(struct shard_list){ .paths = paths, .count = 3 }), paths[1]);
}

/* By its name, a glob, a file and a split that its manifest describes. */
TEST(a_folder_in_which_a_set_is_being_put_in_place_is_refused)
{
    static const char *const words[] = { "", "/", "/train-*", "/train-00001-of-00003", ":train" };
    char place[320], pattern[400], problem[2048];
    fixture_subfolder(place, sizeof(place), "begun");
    fixture_write_set(place, 3, 9);
    fixture_write_text(fixture_path(place, MANIFEST_FILE),
                       "{\"splits\": {\"train\": {\"records\": 9, \"shards\": ["
                       "{\"file\": \"train-00000-of-00003\", \"records\": 3}, "
                       "{\"file\": \"train-00001-of-00003\", \"records\": 3}, "
                       "{\"file\": \"train-00002-of-00003\", \"records\": 3}]}}}");
    for (int is_begun = 0; is_begun < 2; is_begun++) {
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            struct shard_list list = { 0 };
            struct shard_counts counts = { 0 };
            struct text text;
            text_init(&text, problem, sizeof(problem));
            snprintf(pattern, sizeof(pattern), "%s%s", place, words[i]);
            const int rc = dataset_shards_find(&list, pattern, "train", &counts, &text);
            assert_int_equal(rc, is_begun ? -EBADMSG : 0);
            assert_int_equal(strstr(problem, "a data set was being put in place in this directory") != NULL, is_begun);
            shard_list_release(&list);
            shard_counts_release(&counts);
        }
        fixture_write_text(fixture_path(place, MANIFEST_COMMIT_FILE), "");
    }
}

static void lose_descriptors(void)
{
    const struct rlimit none = { 3, 3 };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

/* Root may look everywhere. */
static void lose_rights(void)
{
    assert_int_equal(chmod(folder, 0), 0);
    if (geteuid() == 0)
        assert_int_equal(setresuid(65534, 65534, 65534), 0);
}

/* In a process of its own: whether `pattern` is refused with this text once `lose` has been called. */
static void assert_names_the_cause(const char *pattern, void (*lose)(void), const char *part)
{
    const pid_t child = fork();
    if (child == 0) {
        char problem[2048];
        lose();
        list_folder(pattern, "train", problem, sizeof(problem));
        if (strstr(problem, part) == NULL)
            printf("'%s' does not hold '%s'\n", problem, part);
        fflush(stdout);
        _exit(strstr(problem, part) == NULL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(chmod(folder, 0700), 0);
}

TEST(a_failing_search_reports_the_cause)
{
    char place[320], glob[400];
    fixture_subfolder(place, sizeof(place), "hidden");
    fixture_write_set(place, 2, 4);
    snprintf(glob, sizeof(glob), "%s/train-*", place);
    assert_names_the_cause(glob, lose_descriptors, "hidden: cannot be searched: Too many open files");
    assert_names_the_cause(place, lose_descriptors, "hidden: Too many open files");
    assert_names_the_cause(glob, lose_rights, "hidden: cannot be searched: Permission denied");
    assert_names_the_cause(place, lose_rights, "hidden: Permission denied");
}

/* Files that are listed together: two in one folder, of one conversion or of two. */
TEST(shards_of_two_conversions_are_refused)
{
    static const struct { const char *one, *other; bool is_mixed; } cases[] = {
        { "a/train-00000-of-00004", "a/train-00000-of-00008", true },
        { "a/train-00003-of-00004", "a/train-00007-of-00008", true },
        { "a/train-00000-of-00004", "a/train-00000-of-00004.gz", true },
        { "a/train-0-of-4", "a/train-00000-of-00004", true },
        { "a/train_0_of_4.tfrecord", "a/train_1_of_5.tfrecord", true },
        { "a/train_0_of_4.tfrecord", "a/train-1-of-5", true },
        { "a/train.tfrecord-00000-of-00004", "a/train-00000-of-00008", true },
        { "a/x-train.tfrecord-00000-of-00004", "a/x-train.tfrecord-00000-of-00008", true },
        { "a/train-00000-of-00004.tfrecord", "a/train-00001-of-00008.tfrecord.gz", true },
        { "00000-of-00004", "00000-of-00008", true },
        { "a/one-of-many-0-of-4", "a/one-of-many-0-of-8", true },
        { "a/train-00000-of-00004", "a/train-00001-of-00004", false },
        { "a/train-00000-of-00004.gz", "a/train-00001-of-00004", false },
        { "a/train-00000-of-00004", "b/train-00000-of-00008", false },
        { "a/train-00000-of-00004", "a/validation-00000-of-00001", false },
        { "a/mnist-train-00000-of-00004", "a/kmnist-train-00000-of-00008", false },
        { "a/train-2017-00000-of-00004", "a/train-2019-00000-of-00008", false },
        { "a/one-of-4.tfrecord", "a/one-of-8.tfrecord", false },
        { "a/train.tfrecord", "a/train-00000-of-00008", false },
        { "a/out-of-8", "a/out-of-4", false },
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        char buffer[1024] = "";
        struct text problems;
        const bool is_turned = i % 2 == 1;
        char *paths[] = { (char *)(uintptr_t)(is_turned ? cases[i / 2].other : cases[i / 2].one),
                          (char *)(uintptr_t)(is_turned ? cases[i / 2].one : cases[i / 2].other) };
        const struct shard_list list = { .paths = paths, .count = 2 };
        text_init(&problems, buffer, sizeof(buffer));
        if (shard_list_check_numbers(&list, "train", false, &problems) != (cases[i / 2].is_mixed ? -EINVAL : 0))
            fail_msg("%s, %s: %s", paths[0], paths[1], buffer);
        assert_true((strstr(buffer, "is of another conversion than") != NULL) == cases[i / 2].is_mixed);
    }
}

TEST(missing_numbers_are_counted_for_each_name)
{
    char *paths[] = { "a/x-0-of-3", "a/x-2-of-3", "a/y-0-of-2", "a/y-1-of-2", "b/x-0-of-9" };
    const struct shard_list list = { .paths = paths, .count = 5 };
    char buffer[1024] = "", text[1024];
    struct text problems;
    struct capture capture;
    text_init(&problems, buffer, sizeof(buffer));
    capture_begin(&capture);
    const int rc = shard_list_check_numbers(&list, "train", true, &problems);
    capture_end(&capture, text, sizeof(text));
    assert_int_equal(rc, 0);
    assert_string_equal(text, "train: found only 2 of the 3 shards that the file names count: a/x-0-of-3\n"
                              "train: found only 1 of the 9 shards that the file names count: b/x-0-of-9\n");
}

/* Names in one folder, and what a directory with them and a glob for them give: nothing, a line or a refusal. */
TEST(sets_under_several_names_in_one_folder_are_reported)
{
    enum told { NOTHING, LINE, REFUSAL };
    static const struct { const char *names[6]; enum told folder, glob; } cases[] = {
        { { "cifar-train-00000-of-00002", "cifar-train-00001-of-00002", "mnist-train-00000-of-00001" }, REFUSAL, LINE },
        { { "cifar10-train.tfrecord-00000-of-00001", "cifar100-train.tfrecord-00000-of-00001" }, REFUSAL, LINE },
        { { "a_train_0_of_1.tfrecord", "b_train_0_of_1.tfrecord", "c_train_0_of_1.tfrecord", "d_train_0_of_1.tfrecord" },
          REFUSAL, LINE },
        { { "cifar_train.tfrecord", "mnist_train.tfrecord" }, LINE, NOTHING },
        { { "cifar-0.tfrecord", "cifar-1.tfrecord", "mnist-0.tfrecord", "mnist-1.tfrecord" }, LINE, NOTHING },
        { { "train-00000-of-00002", "train-00001-of-00002", "train.tfrecord" }, LINE, NOTHING },
        { { "train-00000-of-00002", "train-00001-of-00002" }, NOTHING, NOTHING },
        { { "train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord.gz" }, NOTHING, NOTHING },
        { { "train.tfrecord-00000", "train.tfrecord-00001", "train.tfrecord-00002.gz" }, NOTHING, NOTHING },
        { { "batch_1.tfrecords", "batch_2.tfrecords", "batch_03.tfrecords" }, NOTHING, NOTHING },
        { { "0.tfrecord", "1.tfrecord", "02.tfrecord" }, NOTHING, NOTHING },
        { { "ant.tfrecord", "cat.tfrecord", "dog.tfrecord", "owl.tfrecord" }, NOTHING, NOTHING },
        { { "part-0-1bf2.tfrecord", "part-1-77ac.tfrecord", "part-2-90ee.tfrecord", "part-3-ab1c.tfrecord" }, NOTHING,
          NOTHING },
        { { "x.tfrecord" }, NOTHING, NOTHING },
    };
    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
        char *paths[6], buffer[2048] = "", text[2048];
        struct shard_list list = { .paths = paths, .is_folder = i % 2 == 0 };
        const enum told wanted = list.is_folder ? cases[i / 2].folder : cases[i / 2].glob;
        struct text problems;
        struct capture capture;
        for (; list.count < 6 && cases[i / 2].names[list.count] != NULL; list.count++)
            assert_true(asprintf(&paths[list.count], "set/%s", cases[i / 2].names[list.count]) > 0);
        text_init(&problems, buffer, sizeof(buffer));
        capture_begin(&capture);
        const int rc = shard_list_check_names(&list, "train", &problems);
        capture_end(&capture, text, sizeof(text));
        if (rc != (wanted == REFUSAL ? -EINVAL : 0) || (buffer[0] != '\0') != (wanted == REFUSAL) ||
            (strstr(text, "train: set/ has shards of") != NULL) != (wanted == LINE))
            fail_msg("%s ...: %d: %s, %s", paths[0], list.is_folder, buffer, text);
        while (list.count > 0)
            free(paths[--list.count]);
    }
    char *apart[] = { "a/x-0-of-1", "b/y-0-of-1" };
    const struct shard_list list = { .paths = apart, .count = 2, .is_folder = true };
    assert_int_equal(shard_list_check_names(&list, "train", NULL), 0);
}

static struct dataset_overlap overlap_of(const char *pattern, const char *other_pattern)
{
    const struct dataset_options options = fixture_options(pattern), other_options = fixture_options(other_pattern);
    struct dataset *const dataset = fixture_open(&options), *const other = fixture_open(&other_options);
    struct dataset_overlap overlap;
    assert_int_equal(dataset_overlap_find(&overlap, dataset, other), 0);
    dataset_close(dataset);
    dataset_close(other);
    return overlap;
}

TEST(files_of_two_sets_are_found_under_any_name)
{
    char place[320], links[320], glob[400], detour[400];
    fixture_subfolder(place, sizeof(place), "whole");
    fixture_write_set(place, 5, 50);
    snprintf(glob, sizeof(glob), "%s/train-*[13]-of-*", place);
    assert_int_equal(overlap_of(place, glob).count, 2);
    struct dataset_overlap overlap = overlap_of(place, glob);
    assert_int_equal(overlap.first, 1);
    snprintf(detour, sizeof(detour), "%s/../whole/./train-00004-of-00005", place);
    overlap = overlap_of(place, detour);
    assert_int_equal(overlap.count, 1);
    assert_int_equal(overlap.first, 4);
    fixture_subfolder(links, sizeof(links), "links");
    assert_int_equal(symlink(fixture_path(place, "train-00002-of-00005"), fixture_path(links, "soft.tfrecord")), 0);
    assert_int_equal(link(fixture_path(place, "train-00003-of-00005"), fixture_path(links, "hard.tfrecord")), 0);
    fixture_write_shard(fixture_path(links, "own.tfrecord"), 0, 3);
    assert_int_equal(overlap_of(links, place).count, 2);
    assert_int_equal(overlap_of(fixture_path(links, "own.tfrecord"), place).count, 0);
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
