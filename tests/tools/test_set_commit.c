/* Tests of putting a set of shards in the place of another: each call of it that changes the folder or syncs fails in
 * turn, or is the last thing the process does, and what is left must be one of the two sets after one more run. */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "formats/manifest.h"
#include "loader/shards/shard_list.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/convert/shard_set.h"

/* Of two shards to train with, which have other sizes than those of the same names before. */
#define NEW_MANIFEST \
    "{\"splits\": {\"train\": {\"records\": 2, \"shards\": [" \
    "{\"file\": \"train-00000-of-00002\", \"records\": 1, \"bytes\": 7}, " \
    "{\"file\": \"train-00001-of-00002\", \"records\": 1, \"bytes\": 7}]}}}"
#define OLD_FILES 5u
#define NEW_FILES 3u
#define CALLS_MAX 40u

struct set_file { const char *name, *text; };
static const struct set_file old_set[OLD_FILES] = {
    { "dataset.json", "old" }, { "train-00000-of-00002", "old 0" }, { "train-00001-of-00002", "old 1" },
    { "train-00002-of-00003", "old 2" }, { "validation-00000-of-00001", "old 3" },
};
static const struct set_file new_set[NEW_FILES] = {
    { "dataset.json", NEW_MANIFEST }, { "train-00000-of-00002", "newer 0" }, { "train-00001-of-00002", "newer 1" },
};

/* How a process of its own ended. */
enum end { END_WELL, END_FAILED, END_FAILED_WITH_ADVICE, END_DEAD, END_BROKEN };

/* What happens to the call of this number, from 1 on; 0: nothing to any. */
enum fate { FATE_FAIL, FATE_FAIL_FROM_THEN_ON, FATE_DIE, FATE_COUNT };
static struct { unsigned number; enum fate fate; } order;
static unsigned calls;

static bool is_to_fail(void)
{
    calls++;
    const bool is_it = order.number != 0 &&
                       (order.fate == FATE_FAIL_FROM_THEN_ON ? calls >= order.number : calls == order.number);
    if (is_it && order.fate == FATE_DIE)
        _exit(END_DEAD);
    if (is_it)
        errno = EIO;
    return is_it;
}

/* The disk is not waited for: what counts here is in which order names are synced and changed. */
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    (void)fd;
    return is_to_fail() ? -1 : 0;
}

int __real_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to);
int __wrap_renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return is_to_fail() ? -1 : __real_renameat(from_fd, from, to_fd, to);
}

int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags)
{
    return is_to_fail() ? -1 : __real_unlinkat(fd, name, flags);
}

static void write_files(const char *place, const struct set_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fixture_write_text(fixture_path(place, files[i].name), files[i].text);
}

/* The folder with the old set, and beside it the new one as a converter has written it. */
static const char *make_place(void)
{
    static char place[300];
    fixture_subfolder(place, sizeof(place), "set");
    write_files(place, old_set, OLD_FILES);
    fixture_write_text(fixture_path(place, SET_COMMIT_MANIFEST), new_set[0].text);
    fixture_write_text(fixture_path(place, ".train-00000-of-00002.tmp"), new_set[1].text);
    fixture_write_text(fixture_path(place, ".train-00001-of-00002.tmp"), new_set[2].text);
    return place;
}

static bool holds(const char *place, const struct set_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t bytes;
        if (!fixture_exists(fixture_path(place, files[i].name)))
            return false;
        uint8_t *const found = fixture_read(fixture_path(place, files[i].name), &bytes);
        const bool is_same = bytes == strlen(files[i].text) && memcmp(found, files[i].text, bytes) == 0;
        free(found);
        if (!is_same)
            return false;
    }
    return true;
}

/* Entries; those under temporary names belong to no set. */
static size_t count_files(const char *place, bool counts_temporary)
{
    DIR *const entries = opendir(place);
    assert_non_null(entries);
    size_t count = 0;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
                 (counts_temporary || entry->d_name[0] != '.');
    closedir(entries);
    return count;
}

static enum end commit_or_resume(const char *place, bool resumes)
{
    struct stop *stop;
    struct set_folder set;
    bool has_begun;
    if (stop_open(&stop) != 0 || set_folder_open(&set, place, stop) != 0)
        return END_BROKEN;
    calls = 0;
    const int rc = resumes ? set_commit_resume(&set) : set_commit_run(&set, NEW_MANIFEST, &has_begun);
    const bool advises = strstr(stop_message(stop), "to finish it") != NULL;
    set_folder_close(&set);
    stop_close(stop);
    return rc == 0 ? END_WELL : advises ? END_FAILED_WITH_ADVICE : END_FAILED;
}

/* The commit, or taking it up, in a process in which that happens to the call of that number. */
static enum end run(const char *place, bool resumes, unsigned number, enum fate fate)
{
    const pid_t process = fork();
    if (process == 0) {
        order.number = number;
        order.fate = fate;
        _exit(freopen("/dev/null", "w", stderr) != NULL ? (int)commit_or_resume(place, resumes) : END_BROKEN);
    }
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < END_BROKEN);
    return (enum end)WEXITSTATUS(status);
}

/* Whatever happened: the old set as it was, or the new one, at once or after one more run; a reader is told. */
static void assert_one_set(const char *place)
{
    if (begun_set_is_in(place)) {
        assert_int_equal(run(place, true, 0, FATE_FAIL), END_WELL);
        assert_true(holds(place, new_set, NEW_FILES));
        assert_int_equal(count_files(place, true), NEW_FILES);
    } else if (fixture_exists(fixture_path(place, "validation-00000-of-00001"))) {
        assert_true(holds(place, old_set, OLD_FILES));
        assert_int_equal(count_files(place, false), OLD_FILES);
    } else {
        assert_true(holds(place, new_set, NEW_FILES));
        assert_int_equal(count_files(place, true), NEW_FILES);
    }
}

TEST(replaces_one_set_by_the_other)
{
    const char *const place = make_place();
    assert_int_equal(run(place, false, 0, FATE_FAIL), END_WELL);
    assert_false(begun_set_is_in(place));
    assert_one_set(place);
    assert_true(holds(place, new_set, NEW_FILES));
    fixture_folder_clear(place);
}

TEST(keeps_a_set_whole_whatever_call_fails_or_is_the_last)
{
    unsigned begun = 0, failed = 0;
    for (enum fate fate = 0; fate < FATE_COUNT; fate++) {
        enum end end = END_BROKEN;
        for (unsigned number = 1; number < CALLS_MAX && end != END_WELL; number++) {
            const char *const place = make_place();
            end = run(place, false, number, fate);
            failed += end != END_WELL;
            begun += begun_set_is_in(place);
            if (end != END_DEAD)
                assert_int_equal(end == END_FAILED_WITH_ADVICE, begun_set_is_in(place));
            assert_one_set(place);
            fixture_folder_clear(place);
        }
        assert_int_equal(end, END_WELL);
    }
    assert_true(begun > 3 * 5 && failed > begun);
}

TEST(takes_up_what_was_cut_short_as_often_as_it_takes)
{
    for (unsigned first = 1; first < CALLS_MAX; first++) {
        enum end end = END_BROKEN;
        for (unsigned number = 1; number < CALLS_MAX && end != END_WELL; number++) {
            const char *const place = make_place();
            const bool was_done = run(place, false, first, FATE_DIE) == END_WELL;
            end = begun_set_is_in(place) ? run(place, true, number, FATE_DIE) : END_WELL;
            assert_one_set(place);
            fixture_folder_clear(place);
            if (was_done)
                return;
        }
    }
    fail_msg("the commit never ends");
}

TEST(changes_nothing_where_something_else_has_a_files_name)
{
    static const char *const names[] = { "dataset.json", "train-00001-of-00002", "train-00007-of-00009" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *const place = make_place();
        (void)remove(fixture_path(place, names[i]));
        const size_t count = count_files(place, true);
        assert_int_equal(mkdir(fixture_path(place, names[i]), 0777), 0);
        assert_int_equal(run(place, false, 0, FATE_FAIL), END_FAILED);
        assert_false(begun_set_is_in(place));
        assert_int_equal(count_files(place, true), count + 1);
        fixture_folder_clear(place);
    }
}

/* Nothing is taken up that would end in half a set. */
TEST(leaves_alone_what_cannot_be_finished)
{
    static const struct set_file changes[] = {
        { ".train-00001-of-00002.tmp", "short" }, { ".train-00001-of-00002.tmp", NULL },
        { MANIFEST_COMMIT_FILE, "{" }, { MANIFEST_COMMIT_FILE, "{\"splits\": {}}" "x" },
        { MANIFEST_COMMIT_FILE, "{\"splits\": {\"train\": {\"records\": 1, \"shards\": [{\"file\": \"other\", "
                                "\"records\": 1, \"bytes\": 5}]}}}" },
    };
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        const char *const place = make_place();
        fixture_write_text(fixture_path(place, "other"), "12345");
        const char *const marker = fixture_path(place, MANIFEST_COMMIT_FILE);
        assert_int_equal(rename(fixture_path(place, SET_COMMIT_MANIFEST), marker), 0);
        if (changes[i].text != NULL)
            fixture_write_text(fixture_path(place, changes[i].name), changes[i].text);
        else
            assert_int_equal(remove(fixture_path(place, changes[i].name)), 0);
        const size_t count = count_files(place, true);
        assert_int_equal(run(place, true, 0, FATE_FAIL), END_FAILED);
        assert_true(begun_set_is_in(place));
        assert_int_equal(count_files(place, true), count);
        assert_true(holds(place, old_set, OLD_FILES));
        fixture_folder_clear(place);
    }
}

TESTS_MAIN(fixture_folder_make, fixture_folder_remove)
