/* Tests of files of events: their names, and what happens where there is no room for a record. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/helpers/test.h"
#include "tools/lib/run/observe/event_file.h"

struct place { char folder[PATH_MAX]; };

/* The name that sorts last; how many there are in all. */
static unsigned count_files(const struct place *place, char last_out[256])
{
    unsigned count = 0;
    DIR *const folder = opendir(place->folder);
    assert_non_null(folder);
    last_out[0] = '\0';
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        if (strcmp(entry->d_name, last_out) > 0)
            snprintf(last_out, 256, "%.255s", entry->d_name);
    }
    closedir(folder);
    return count;
}

static void make_file(const struct place *place, const char *name)
{
    char path[PATH_MAX + 256];
    snprintf(path, sizeof(path), "%s/%s", place->folder, name);
    const int fd = open(path, O_WRONLY | O_CREAT, 0666);
    assert_true(fd >= 0);
    close(fd);
}

static int set_up(void **state)
{
    static struct place place;
    const char *const above = getenv("TMPDIR");
    snprintf(place.folder, sizeof(place.folder), "%s/pipetrain-events.XXXXXX", above != NULL ? above : "/tmp");
    *state = &place;
    return mkdtemp(place.folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    const struct place *const place = *state;
    DIR *const folder = opendir(place->folder);
    char path[PATH_MAX + 256];
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        snprintf(path, sizeof(path), "%s/%s", place->folder, entry->d_name);
        unlink(path);
    }
    closedir(folder);
    return rmdir(place->folder);
}

/* Many in one second, and where another machine's clock is ahead. */
TEST_WITH(every_file_sorts_after_those_that_are_there, set_up, tear_down)
{
    const struct place *const place = *state;
    char before[256] = "", last[256];
    for (unsigned i = 1; i <= 20; i++) {
        const int fd = event_file_make(place->folder, false, 1700000000);
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(count_files(place, last), i);
        assert_true(strcmp(last, before) > 0);
        strcpy(before, last);
    }
    make_file(place, "events.out.tfevents.1800000000.other.7.0");
    const int fd = event_file_make(place->folder, false, 1700000000);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(count_files(place, last), 22);
    assert_string_equal(last, "events.out.tfevents.1800000001.pipetrain");
}

TEST_WITH(files_of_others_are_not_removed, set_up, tear_down)
{
    const struct place *const place = *state;
    char last[256];
    make_file(place, "events.out.tfevents.1700000000.other.7.0");
    make_file(place, "events.out.tfevents.170000000.pipetrain");
    make_file(place, "events.out.tfevents.1700000000.pipetrain.2");
    make_file(place, "notes");
    for (int i = 0; i < 3; i++)
        close(event_file_make(place->folder, false, 1700000000));
    event_file_clear(place->folder);
    assert_int_equal(count_files(place, last), 4);
}

TEST_WITH(a_full_disk_is_an_error, set_up, tear_down)
{
    struct tfevent event;
    const int fd = open("/dev/full", O_WRONLY);
    if (fd < 0)
        skip();
    tfevent_init(&event);
    tfevent_begin(&event, 1700000000, 1);
    tfevent_scalar(&event, "loss", 1);
    assert_int_equal(event_file_put(fd, &event), -ENOSPC);
    tfevent_release(&event);
    close(fd);
}

TEST_WITH(a_folder_that_cannot_be_made_is_an_error, set_up, tear_down)
{
    const struct place *const place = *state;
    char path[PATH_MAX + 16];
    make_file(place, "notes");
    snprintf(path, sizeof(path), "%s/notes", place->folder);
    assert_int_equal(event_file_make(path, false, 1700000000), -ENOTDIR);
    snprintf(path, sizeof(path), "%s/notes/a/b", place->folder);
    assert_int_equal(event_file_make(path, false, 1700000000), -ENOTDIR);
}

/* Behind a link is a folder of somebody else: nothing is made or removed there, unless a user named it. */
TEST_WITH(a_link_is_not_followed_unless_it_may_be, set_up, tear_down)
{
    const struct place *const place = *state;
    char link[PATH_MAX + 16], last[256];
    struct place other;
    const char *const elsewhere = other.folder;
    snprintf(other.folder, sizeof(other.folder), "%.4000s/elsewhere", place->folder);
    snprintf(link, sizeof(link), "%s/link", place->folder);
    close(event_file_make(elsewhere, false, 1700000000));
    assert_int_equal(symlink(elsewhere, link), 0);
    assert_int_equal(event_file_make(link, false, 1700000000), -ENOTDIR);
    event_file_clear(link);
    assert_int_equal(count_files(&other, last), 1);
    close(event_file_make(link, true, 1700000000));
    assert_int_equal(count_files(&other, last), 2);
    event_file_clear(elsewhere);
    unlink(link);
    rmdir(elsewhere);
}

TESTS_MAIN(NULL, NULL)
