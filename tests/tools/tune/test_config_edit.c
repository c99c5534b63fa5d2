/* Tests of changing values in a configuration: everything else stays as it is, to the byte. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tools/tune/config_edit.h"

static const struct config_change changes[] = {
    { "input", "prefetch_depth", "12" },
    { "input", "read_threads", "3" },
    { "devices", "threads_per_tower", "1" },
};

static void expect(const char *text, const char *changed)
{
    char *const is = config_edit_text(text, changes, 3);
    assert_non_null(is);
    assert_string_equal(is, changed);
    free(is);
}

TEST(lines_that_are_there_get_another_value)
{
    expect("# a run\n[input]\nprefetch_depth = 4   # batches\n  read_threads=\"1\"\n\n"
           "[devices]\nthreads_per_tower =\t2 ; all\n",
           "# a run\n[input]\nprefetch_depth = 12   # batches\n  read_threads=3\n\n"
           "[devices]\nthreads_per_tower =\t1 ; all\n");
}

TEST(a_value_may_be_a_word)
{
    static const struct config_change change = { "input", "source", "cached" };
    static const char *const texts[][2] = {
        { "[input]\nsource = real  # files\n", "[input]\nsource = cached  # files\n" },
        { "[input]\n", "[input]\nsource = cached\n" },
    };
    for (size_t i = 0; i < 2; i++) {
        char *const is = config_edit_text(texts[i][0], &change, 1);
        assert_non_null(is);
        assert_string_equal(is, texts[i][1]);
        free(is);
    }
}

TEST(lines_are_added_at_the_end_of_their_section)
{
    expect("[input]\nchunk = 8\n\n# the network\n[model]\nname = lenet5\n",
           "[input]\nchunk = 8\nprefetch_depth = 12\nread_threads = 3\n\n# the network\n[model]\nname = lenet5\n\n"
           "[devices]\nthreads_per_tower = 1\n");
}

TEST(sections_are_added_at_the_end)
{
    expect("", "[input]\nprefetch_depth = 12\nread_threads = 3\n\n[devices]\nthreads_per_tower = 1\n");
    expect("[train]\nbatch = 8", "[train]\nbatch = 8\n\n[input]\nprefetch_depth = 12\nread_threads = 3\n\n[devices]\n"
                                 "threads_per_tower = 1\n");
}

TEST(the_same_key_of_another_section_and_comments_stay)
{
    expect("[report]\nprefetch_depth = 4\n[input]\n# prefetch_depth = 5\n;read_threads = 6\n"
           "[devices]\nthreads_per_tower = 1\n",
           "[report]\nprefetch_depth = 4\n[input]\nprefetch_depth = 12\nread_threads = 3\n# prefetch_depth = 5\n"
           ";read_threads = 6\n[devices]\nthreads_per_tower = 1\n");
}

TEST(ends_of_lines_stay)
{
    expect("[input]\r\nprefetch_depth = 4\r\nread_threads = 3\r\n[devices]\r\nthreads_per_tower = 1\r\n",
           "[input]\r\nprefetch_depth = 12\r\nread_threads = 3\r\n[devices]\r\nthreads_per_tower = 1\r\n");
}

static char folder[64];

static char *content(const char *path)
{
    static char text[4096];
    FILE *const file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    return text;
}

TEST(a_file_is_replaced_and_what_it_was_stays_beside_it)
{
    char path[128], link[128], backup[CONFIG_BACKUP_SIZE];
    struct stat status;
    snprintf(path, sizeof(path), "%s/run.conf", folder);
    snprintf(link, sizeof(link), "%s/link.conf", folder);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs("[input]\nprefetch_depth = 4\n", file);
    fclose(file);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("run.conf", link), 0);
    assert_int_equal(config_edit_file(link, changes, 1, backup), 0);
    assert_string_equal(content(path), "[input]\nprefetch_depth = 12\n");
    assert_string_equal(content(backup), "[input]\nprefetch_depth = 4\n");
    assert_string_equal(strrchr(backup, '/'), "/run.conf.bak");
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0640);
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(config_edit_file(path, changes + 1, 1, backup), 0);
    assert_string_equal(strrchr(backup, '/'), "/run.conf.bak-2");
    assert_string_equal(content(backup), "[input]\nprefetch_depth = 12\n");
    assert_true(config_edit_file("/no/such/run.conf", changes, 1, backup) < 0);
}

TEST(a_read_only_file_is_not_changed)
{
    static const mode_t modes[] = { 0444, 0400, 0555 };
    static const char text[] = "[input]\nprefetch_depth = 4\n";
    char path[128], backup[CONFIG_BACKUP_SIZE] = "";
    snprintf(path, sizeof(path), "%s/run.conf", folder);
    unlink(path);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_false(config_edit_is_read_only(path));
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_true(config_edit_is_read_only(path));
        assert_int_equal(config_edit_file(path, changes, 1, backup), -EACCES);
        assert_string_equal(content(path), text);
        assert_string_equal(backup, "");
    }
}

static int set_up(void **state)
{
    (void)state;
    const char *const parent = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/pipetrain-edit-XXXXXX", parent != NULL ? parent : "/tmp");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = { "run.conf", "link.conf", "run.conf.bak", "run.conf.bak-2" };
    char path[128];
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

TESTS_MAIN(set_up, tear_down)
