/* Reading and writing files. Any thread. */
#ifndef PIPETRAIN_FILE_H
#define PIPETRAIN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- reading; the file may change meanwhile ---- */

/* Whether something of this name exists, of whatever kind. */
bool file_exists(const char *path);
/* Whether both paths exist and lead to the same file or folder, as through a link. */
bool file_is_same(const char *path, const char *other);
/* Read all of a regular file into a malloc'ed block with a zero byte after the content; block_out points to a
 * pointer to char or uint8_t. 0, -EISDIR (a directory), -ESPIPE (another kind of file), -EFBIG (over bytes_max),
 * -ESTALE (the file changed meanwhile), -ENOMEM, or what open and read return. Blocks on the file system. */
int file_load(const char *path, size_t bytes_max, void *block_out, size_t *bytes_out);
/* A result of file_load other than 0 in words. */
const char *file_load_problem(int rc);
/* Read `bytes` bytes from `offset`, fewer only where the file ends. 0 or a negative errno. */
int file_read_some(int fd, uint64_t offset, void *out, size_t bytes, size_t *done_out);
/* Read exactly `bytes` bytes from `offset`, which is at most INT64_MAX. 0, -EBADMSG (the file ends before), or a
 * negative errno. */
int file_read_at(int fd, uint64_t offset, void *out, size_t bytes);
/* Read all of a file that should have `bytes` bytes; `out` has room for one more. As file_read_at, and -EBADMSG when
 * the file is longer. */
int file_read_whole(int fd, void *out, size_t bytes);

/* ---- which file it is, under whatever name ---- */

struct file_identity { dev_t device; ino_t inode; };
struct stat;
struct file_identity file_identity_of(const struct stat *status);
/* The order of two struct file_identity, for qsort and bsearch; 0: they are the same file. */
int file_identity_compare(const void *a, const void *b);

/* ---- writing ---- */

/* Write all of it, continuing after short writes and interruptions. 0, or the negative errno of the write that
 * failed: some of it may be written then. */
int file_write(int fd, const void *data, size_t bytes);
/* The same without the page cache (O_DIRECT) where that is possible and pays: `data` and its offset in the file are
 * multiples of FILE_DIRECT_ALIGNMENT, there is enough of it, and the file system supports it. That saves a copy of
 * all the data; the last bytes, less than a block, go through the cache. The file is open for appending. */
#define FILE_DIRECT_ALIGNMENT 4096u
int file_write_direct(int fd, const void *data, size_t bytes);
/* Wait until written data are on the disk. 0 or a negative errno. */
int file_sync(int fd);
/* Lock the file against other processes, without waiting. 0, -EWOULDBLOCK (another process has the lock),
 * -EOPNOTSUPP (the file system has no locks), or another negative errno. */
int file_lock(int fd);
/* The kind of file of this mode, for messages: "a FIFO"; NULL for a regular file. */
const char *file_kind(mode_t mode);

#endif
