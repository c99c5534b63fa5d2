/* Tests of making folders with those above them, and of taking them back. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/folders.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"

static int leave(void **state)
{
    (void)state;
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;  /* every test leaves it empty */
}

TEST_WITH(makes_what_is_not_there_and_takes_back_no_more, fixture_folder_enter, leave)
{
    size_t topmost;
    assert_int_equal(folders_make("a", &topmost), 0);
    assert_int_equal(topmost, 1);
    assert_int_equal(folders_make("a", &topmost), 0);
    assert_int_equal(topmost, 0);
    assert_int_equal(folders_make("./a//bc/d/", &topmost), 0);
    assert_int_equal(topmost, strlen("./a//bc"));
    assert_int_equal(access("a/bc/d", F_OK), 0);
    folders_remove("./a//bc/d/", topmost);
    assert_int_equal(access("a", F_OK), 0);
    assert_int_equal(access("a/bc", F_OK), -1);
    folders_remove("a", 0);
    assert_int_equal(access("a", F_OK), 0);
    folders_remove("a", 1);
    assert_int_equal(access("a", F_OK), -1);
}

TEST_WITH(leaves_a_folder_that_is_in_use, fixture_folder_enter, leave)
{
    size_t topmost;
    assert_int_equal(folders_make("a/b/c", &topmost), 0);
    assert_int_equal(mkdir("a/other", 0777), 0);
    folders_remove("a/b/c", topmost);
    assert_int_equal(access("a/b", F_OK), -1);
    assert_int_equal(access("a/other", F_OK), 0);
    assert_int_equal(rmdir("a/other"), 0);
    assert_int_equal(rmdir("a"), 0);
}

TEST_WITH(leaves_nothing_where_it_fails, fixture_folder_enter, leave)
{
    size_t topmost;
    char path[400];
    snprintf(path, sizeof(path), "a/b/%0300d/c", 0);    /* longer than a name may be */
    assert_int_equal(folders_make(path, &topmost), -ENAMETOOLONG);
    assert_int_equal(access("a", F_OK), -1);
    const int fd = open("file", O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(folders_make("file/a", &topmost), -ENOTDIR);
    assert_int_equal(unlink("file"), 0);
}

TEST(a_file_is_in_a_folder)
{
    static const struct { const char *path, *folder, *name; } rows[] = {
        { "a", ".", "a" }, { "/a", "/", "a" }, { "a/b", "a", "b" }, { "/a/b/c", "/a/b", "c" }, { "../a", "..", "a" },
        { "a/", "a", "" }, { "/", "/", "" }, { "", ".", "" },
    };
    char found[8];
    const char *name;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(folder_of_file(rows[i].path, found, sizeof(found), &name), 0);
        assert_string_equal(found, rows[i].folder);
        assert_string_equal(name, rows[i].name);
    }
    assert_int_equal(folder_of_file("1234567/a", found, sizeof(found), &name), 0);
    assert_int_equal(folder_of_file("12345678/a", found, sizeof(found), &name), -ENAMETOOLONG);
}

/* A relative path would be another folder wherever the program is started. */
TEST(the_cache_is_in_a_folder_with_an_absolute_path)
{
    static const struct { const char *cache, *home, *path; } rows[] = {
        { "/c", "/h", "/c/pipetrain" }, { NULL, "/h", "/h/.cache/pipetrain" }, { "", "/h", "/h/.cache/pipetrain" },
        { "c", "/h", "/h/.cache/pipetrain" }, { "./c", "h", NULL }, { NULL, NULL, NULL }, { NULL, "", NULL },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        char path[64] = "";
        assert_int_equal(rows[i].cache != NULL ? setenv("XDG_CACHE_HOME", rows[i].cache, 1) : unsetenv("XDG_CACHE_HOME"), 0);
        assert_int_equal(rows[i].home != NULL ? setenv("HOME", rows[i].home, 1) : unsetenv("HOME"), 0);
        assert_int_equal(cache_folder_find(path, sizeof(path)), rows[i].path != NULL);
        if (rows[i].path == NULL)
            continue;
        assert_string_equal(path, rows[i].path);
        assert_true(cache_folder_find(path, strlen(rows[i].path) + 1));
        assert_false(cache_folder_find(path, strlen(rows[i].path)));
    }
}

TESTS_MAIN(NULL, NULL)
