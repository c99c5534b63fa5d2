/* Sets made of several patterns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/dataset_shards.h"
#include "loader/shards/pattern.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"
#include "tests/helpers/tfrecord_fixture.h"

/* The files that patterns give, one blank between two, or the problems. */
static const char *find(const char *patterns)
{
    static char found[4096];
    struct shard_list list = { 0 };
    struct shard_counts counts = { 0 };
    struct text text;
    text_init(&text, found, sizeof(found));
    if (dataset_shards_find(&list, patterns, "train", &counts, &text) == 0)
        for (uint32_t i = 0; i < list.count; i++)
            text_add(&text, "%s%s", i > 0 ? " " : "", list.paths[i]);
    shard_list_release(&list);
    shard_counts_release(&counts);
    return found;
}

static void assert_problem(const char *patterns, const char *part)
{
    const char *const found = find(patterns);
    if (strstr(found, part) == NULL)
        fail_msg("%s: '%s' does not hold '%s'", patterns, found, part);
}

TEST(patterns_are_cut_at_commas)
{
    static const struct { const char *text, *patterns[5]; } cases[] = {
        { "a", { "a" } },
        { "a,b", { "a", "b" } },
        { "  a b/*.x ,\tc\t", { "a b/*.x", "c" } },
        { "a\\,b,c", { "a,b", "c" } },
        { "a\\*b\\\\,c\\", { "a\\*b\\\\", "c\\" } },
        { ",a,,", { "", "a", "", "" } },
        { "", { "" } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[64], *rest = text;
        snprintf(text, sizeof(text), "%s", cases[i].text);
        for (size_t j = 0; cases[i].patterns[j] != NULL; j++)
            assert_string_equal(pattern_cut(&rest), cases[i].patterns[j]);
        assert_null(pattern_cut(&rest));
    }
}

static void make_files(void)
{
    assert_int_equal(mkdir("b", 0700), 0);
    assert_int_equal(mkdir("c, d", 0700), 0);
    static const char *const names[] = { "b/2.tfrecord", "b/1.tfrecord", "a-1.tfrecord", "a-2.tfrecord",
                                         "c, d/3.tfrecord" };
    for (uint32_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        fixture_write_shard(names[i], 10 * i, 10);
}

TEST(files_come_in_the_order_in_which_they_are_named)
{
    make_files();
    assert_string_equal(find("b, a-*"), "b/1.tfrecord b/2.tfrecord a-1.tfrecord a-2.tfrecord");
    assert_string_equal(find("a-2.tfrecord,b/*,a-1.tfrecord"), "a-2.tfrecord b/1.tfrecord b/2.tfrecord a-1.tfrecord");
    assert_string_equal(find("a-*"), "a-1.tfrecord a-2.tfrecord");
}

TEST(a_comma_may_be_part_of_a_name)
{
    assert_string_equal(find("c, d"), "c, d/3.tfrecord");
    assert_string_equal(find("c\\, d/*, a-1.tfrecord"), "c, d/3.tfrecord a-1.tfrecord");
}

TEST(every_unusable_pattern_is_reported)
{
    assert_problem("x-*, a-*, y/z", "train: x-*: no file matches this pattern");
    assert_problem("x-*, a-*, y/z", "train: y/z: No such file");
    assert_problem("a-*,,b", "train: a-*,,b: the pattern before or after a comma is empty");
    assert_problem("a-*,", "is empty");
}

TEST(a_file_named_twice_is_refused)
{
    assert_problem("a-*, b, ./a-1.tfrecord", "train: ./a-1.tfrecord: is named twice: the same file as a-1.tfrecord");
    assert_int_equal(link("a-2.tfrecord", "hard.tfrecord"), 0);
    assert_int_equal(symlink("a-1.tfrecord", "soft.tfrecord"), 0);
    assert_problem("a-*, hard.tfrecord", "train: hard.tfrecord: is named twice: the same file as a-2.tfrecord");
    assert_problem("soft.tfrecord, a-*", "train: a-1.tfrecord: is named twice: the same file as soft.tfrecord");
}

/* What is reported while the patterns are expanded. */
static const char *reported(const char *patterns)
{
    static char text[1024];
    struct capture capture;
    capture_begin(&capture);
    (void)find(patterns);
    capture_end(&capture, text, sizeof(text));
    return text;
}

TEST(missing_shards_are_counted_over_all_patterns)
{
    assert_int_equal(mkdir("n", 0700), 0);
    fixture_write_set("n", 3, 9);
    assert_string_equal(reported("n/train-00002-of-00003,n/train-00000-of-00003, n/*-00001-*"), "");
    assert_string_equal(reported("n/train-00000-of-00003,n/train-00002-of-00003"),
                        "train: found only 2 of the 3 shards that the file names count\n");
    assert_string_equal(reported("n/train-00000-of-00003"),
                        "train: found only 1 of the 3 shards that the file names count\n");
}

TEST(records_are_numbered_in_that_order)
{
    const struct dataset_options options = fixture_options("b/1.tfrecord, a-*");
    struct dataset *const dataset = fixture_open(&options);
    assert_int_equal(dataset->record_count, 30);
    assert_int_equal(dataset_find(dataset, 9).shard, 0);
    assert_int_equal(dataset_find(dataset, 10).shard, 1);
    assert_string_equal(dataset->paths[1], "a-1.tfrecord");
    dataset_close(dataset);
}

TESTS_MAIN(fixture_folder_enter, fixture_folder_leave)
