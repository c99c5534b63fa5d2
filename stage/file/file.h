/* Reading and writing files. Any thread. */
#ifndef PIPETRAIN_FILE_H
#define PIPETRAIN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- reading: the file may change at the same time ---- */

/* Does a file, folder or other object of this name exist? */
bool file_exists(const char *path);
/* Do both paths exist and refer to the same file or folder, for example through a link? */
bool file_is_same(const char *path, const char *other);
/* Read a whole regular file into a malloc'ed block with a zero byte after the content; block_out points to a pointer to
 * char or uint8_t. 0, -EISDIR (a directory), -ESPIPE (another kind of file), -EFBIG (over bytes_max), -ESTALE (the file
 * changed while it was read), -ENOMEM, or the negative errno of open or read. Blocks on the file system. */
int file_load(const char *path, size_t bytes_max, void *block_out, size_t *bytes_out);
/* The text for a nonzero result of file_load. */
const char *file_load_problem(int rc);
/* Read `bytes` bytes from `offset`, or fewer at the end of the file. 0 or a negative errno. */
int file_read_some(int fd, uint64_t offset, void *out, size_t bytes, size_t *done_out);
/* Read exactly `bytes` bytes from `offset`, which is at most INT64_MAX. 0, -EBADMSG (the file is shorter), or a
 * negative errno. */
int file_read_at(int fd, uint64_t offset, void *out, size_t bytes);
/* Read a whole file that should have `bytes` bytes; `out` has room for one more. As file_read_at, and -EBADMSG if the
 * file is longer. */
int file_read_whole(int fd, void *out, size_t bytes);

/* ---- identity: the same for all names of a file ---- */

struct file_identity { dev_t device; ino_t inode; };
struct stat;
struct file_identity file_identity_of(const struct stat *status);
/* Compare two struct file_identity, for qsort and bsearch; 0 if they are the same file. */
int file_identity_compare(const void *a, const void *b);

/* ---- writing ---- */

/* Write all bytes, continuing after short writes and interruptions. 0, or the negative errno of the write that failed;
 * a part may have been written then. */
int file_write(int fd, const void *data, size_t bytes);
/* As file_write, but without the page cache (O_DIRECT), which saves a copy of the data, if all of these hold: `data`
 * and its offset in the file are multiples of FILE_DIRECT_ALIGNMENT, the data is large enough, and the file system
 * supports it. The last bytes, less than a block, go through the page cache. The file is open for appending. */
#define FILE_DIRECT_ALIGNMENT 4096u
int file_write_direct(int fd, const void *data, size_t bytes);
/* Wait until the written data is on the disk. 0 or a negative errno. */
int file_sync(int fd);
/* Lock the file against other processes, without waiting. 0, -EWOULDBLOCK (another process has the lock),
 * -EOPNOTSUPP (the file system has no locks), or another negative errno. */
int file_lock(int fd);
/* The kind of file with this mode, for messages: "a FIFO"; NULL for a regular file. */
const char *file_kind(mode_t mode);

#endif
