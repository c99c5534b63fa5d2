/* What every writer of files needs. Any thread. */
#ifndef PIPETRAIN_FILE_H
#define PIPETRAIN_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* Write all of it, going on behind short writes and interruptions. 0, or the negative errno of the
 * write that failed: some of it may be written then. */
int file_write(int fd, const void *data, size_t bytes);
/* The same, past the system's cache of files where that can be: `data` and its place in the file begin
 * at multiples of FILE_DIRECT_ALIGNMENT, it is large enough to be worth it, and the file system knows
 * how. That saves the processor a copy of all of it; the last bytes, less than a block, go through the
 * cache. The file is open for appending. */
#define FILE_DIRECT_ALIGNMENT 4096u
int file_write_direct(int fd, const void *data, size_t bytes);
/* Wait until what was written is on the disk. 0 or a negative errno. */
int file_sync(int fd);
/* Lock the file against other processes, without waiting: 0, -EWOULDBLOCK when one holds it,
 * -EOPNOTSUPP where the file system has no locks, or another negative errno. */
int file_lock(int fd);
/* What a file of this mode is, for messages: "a FIFO"; NULL for a regular file. */
const char *file_kind(mode_t mode);

#endif
