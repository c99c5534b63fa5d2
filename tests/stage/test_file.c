/* Tests of whole files that are read or written, and of files written without the page cache. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "stage/file/whole_file.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"

#define MOST (18u << 20)
#define BLOCK FILE_DIRECT_ALIGNMENT

static char *given;

static int make(void **state)
{
    given = aligned_alloc(BLOCK, MOST);
    for (size_t i = 0; given != NULL && i < MOST; i++)
        given[i] = (char)(i * 2654435761u >> 13);
    return given != NULL ? fixture_folder_enter(state) : -1;
}

static int clear(void **state)
{
    free(given);
    return fixture_folder_leave(state);
}

/* `before` bytes, then `bytes` from `shift` on. */
static void check(size_t before, size_t shift, size_t bytes)
{
    size_t all;
    const int fd = open("file", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(file_write_direct(fd, given, before), 0);
    assert_int_equal(file_write_direct(fd, given + shift, bytes), 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_DIRECT, 0);
    close(fd);
    uint8_t *const read = fixture_read("file", &all);
    assert_int_equal(all, before + bytes);
    assert_memory_equal(read, given, before);
    assert_memory_equal(read + before, given + shift, bytes);
    free(read);
}

TEST(blocks_stand_where_they_belong)
{
    check(0, 0, 1u << 20);
    check(BLOCK, 0, 3u << 20);
    check(2 * BLOCK, BLOCK, MOST - BLOCK);
}

TEST(what_is_less_than_a_block_follows)
{
    check(BLOCK, 0, (1u << 20) + 1);
    check(0, 0, (17u << 20) - 1);
}

TEST(what_is_out_of_line_goes_through_the_cache)
{
    check(BLOCK + 8, 0, 2u << 20);
    check(0, 4, 2u << 20);
    check(0, 0, 100);
    check(3, 5, 0);
}

TEST(failures_are_reported)
{
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0);
    assert_int_equal(file_write_direct(full, given, 2u << 20), -ENOSPC);
    close(full);
    assert_int_equal(file_write_direct(-1, given, 2u << 20), -EBADF);
}

TEST(whole_files_are_loaded_with_a_zero_at_their_end)
{
    static const size_t sizes[] = { 0, 1, 4096, 100001 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        char *loaded;
        size_t bytes;
        fixture_write("file", (const uint8_t *)given, sizes[i]);
        assert_true(file_exists("file"));
        assert_int_equal(file_load("file", sizes[i], &loaded, &bytes), 0);
        assert_int_equal(bytes, sizes[i]);
        assert_memory_equal(loaded, given, bytes);
        assert_int_equal(loaded[bytes], 0);
        free(loaded);
    }
}

/* One that has changed since its size was asked for is not read in part. */
TEST(a_whole_file_has_the_size_that_is_expected)
{
    char read[12];
    fixture_write("file", (const uint8_t *)given, 10);
    const int fd = open("file", O_RDONLY);
    for (size_t bytes = 9; bytes <= 11; bytes++)
        assert_int_equal(file_read_whole(fd, read, bytes), bytes == 10 ? 0 : -EBADMSG);
    for (uint64_t offset = 0; offset <= 2; offset++)
        assert_int_equal(file_read_at(fd, offset, read, 9), offset <= 1 ? 0 : -EBADMSG);
    close(fd);
}

TEST(what_cannot_be_loaded_is_distinguished)
{
    char *loaded = NULL;
    size_t bytes;
    fixture_write("file", (const uint8_t *)given, 11);
    assert_int_equal(mkfifo("pipe", 0666), 0);
    static const struct { const char *path; int rc; const char *words; } rows[] = {
        { "file", -EFBIG, "File too large" }, { "none", -ENOENT, "No such file or directory" },
        { ".", -EISDIR, "is not a regular file" }, { "pipe", -ESPIPE, "is not a regular file" },
        { "/dev/null", -ESPIPE, "is not a regular file" }, { "file/x", -ENOTDIR, "Not a directory" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(file_load(rows[i].path, 10, &loaded, &bytes), rows[i].rc);
        assert_string_equal(file_load_problem(rows[i].rc), rows[i].words);
    }
    assert_null(loaded);
    assert_true(file_exists("pipe"));
    assert_false(file_exists("none"));
}

/* The errors of the next calls of fsync and close; 0: none. */
static int sync_errors[2], close_error;
static int take_error(int *error)
{
    errno = *error;
    *error = 0;
    return errno == 0 ? 0 : -1;
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
    assert_true(fcntl(fd, F_GETFD) >= 0);
    const int rc = take_error(&sync_errors[0]);
    sync_errors[0] = sync_errors[1];
    sync_errors[1] = 0;
    return rc;
}

int __wrap_close(int fd);
int __real_close(int fd);
int __wrap_close(int fd)
{
    const int rc = __real_close(fd);
    return rc == 0 ? take_error(&close_error) : rc;
}

/* The first fsync is of the content, the second one of the name. */
TEST(a_file_that_may_not_be_on_the_disk_is_an_error)
{
    static const struct { int sync_errors[2], close_error, rc; bool is_there; } rows[] = {
        { { 0, 0 }, 0, 0, true },
        { { EIO, 0 }, 0, -EIO, false }, { { EINVAL, 0 }, 0, -EINVAL, false }, { { EDQUOT, 0 }, EIO, -EDQUOT, false },
        { { EINTR, 0 }, 0, 0, true }, { { EINTR, EIO }, 0, -EIO, false },
        { { 0, 0 }, ENOSPC, -ENOSPC, false },
        { { 0, EIO }, 0, -EIO, true }, { { 0, EINVAL }, 0, 0, true },       /* folders that cannot be synced */
    };
    const struct file_part parts[] = { { given, 5 }, { given + 5, 6 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(mkdir("whole", 0777), 0);
        const int directory = open("whole", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        memcpy(sync_errors, rows[i].sync_errors, sizeof(sync_errors));
        close_error = rows[i].close_error;
        const int rc = whole_file_write(directory, "file", parts, 2);
        if (rc != rows[i].rc || file_exists("whole/file") != rows[i].is_there)
            fail_msg("row %zu: %d", i, rc);
        assert_int_equal(sync_errors[0] | close_error, 0);
        assert_int_equal(unlink("whole/file"), rows[i].is_there ? 0 : -1);
        assert_int_equal(rmdir("whole"), 0);            /* no temporary file is left */
        close(directory);
    }
}

TESTS_MAIN(make, clear)
