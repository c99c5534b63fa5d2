/* Tests of making folders with those above them, and of taking them back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/folders.h"
#include "tests/helpers/file_fixture.h"

static int leave(void **state)
{
    (void)state;
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;  /* every test leaves it empty */
}

static void makes_what_is_not_there_and_takes_back_no_more(void **state)
{
    (void)state;
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

static void leaves_a_folder_that_is_in_use(void **state)
{
    (void)state;
    size_t topmost;
    assert_int_equal(folders_make("a/b/c", &topmost), 0);
    assert_int_equal(mkdir("a/other", 0777), 0);
    folders_remove("a/b/c", topmost);
    assert_int_equal(access("a/b", F_OK), -1);
    assert_int_equal(access("a/other", F_OK), 0);
    assert_int_equal(rmdir("a/other"), 0);
    assert_int_equal(rmdir("a"), 0);
}

static void leaves_nothing_where_it_fails(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(makes_what_is_not_there_and_takes_back_no_more, fixture_folder_enter, leave),
        cmocka_unit_test_setup_teardown(leaves_a_folder_that_is_in_use, fixture_folder_enter, leave),
        cmocka_unit_test_setup_teardown(leaves_nothing_where_it_fails, fixture_folder_enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
