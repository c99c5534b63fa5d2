/* Reading files at a position: pread that finishes what it began. Never mmap, so that a
 * file cut while it is read gives an error and not a signal. */
#ifndef PIPETRAIN_FILE_READ_H
#define PIPETRAIN_FILE_READ_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Read `bytes` at `offset`, going on after signals and short reads. The number of bytes
 * read, less than asked only at the end of the file, or a negative errno. */
ssize_t file_read(int fd, void *buffer, size_t bytes, uint64_t offset);

static inline int64_t file_mtime_ns(const struct stat *status)
{
    return (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
}

#endif
