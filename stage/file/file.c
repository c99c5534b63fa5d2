/* Writing files. Called by main for results, by the converters and by the index. */
#include "stage/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECT_LEAST (1u << 20)     /* bytes that are worth it */
#define DIRECT_MOST (16u << 20)     /* in one call */

int file_write(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t written = write(fd, at, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        at += written;
        bytes -= (size_t)written;
    }
    return 0;
}

static bool may_be_direct(int fd, const void *data, size_t bytes)
{
    const off_t end = lseek(fd, 0, SEEK_END);
    return bytes >= DIRECT_LEAST && (uintptr_t)data % FILE_DIRECT_ALIGNMENT == 0 && end >= 0 &&
           end % (off_t)FILE_DIRECT_ALIGNMENT == 0;
}

/* How many of the bytes were written, whole blocks; what is left is the cache's. */
static size_t write_blocks(int fd, const char *data, size_t bytes)
{
    size_t done = 0;
    while (bytes - done >= FILE_DIRECT_ALIGNMENT) {
        const size_t left = (bytes - done) / FILE_DIRECT_ALIGNMENT * FILE_DIRECT_ALIGNMENT;
        const ssize_t written = write(fd, data + done, left < DIRECT_MOST ? left : DIRECT_MOST);
        if (written > 0)
            done += (size_t)written;
        if (written <= 0 ? errno != EINTR : written % FILE_DIRECT_ALIGNMENT != 0)
            break;
    }
    return done;
}

int file_write_direct(int fd, const void *data, size_t bytes)
{
    const int flags = may_be_direct(fd, data, bytes) ? fcntl(fd, F_GETFL) : -1;
    size_t done = 0;
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0) {
        done = write_blocks(fd, data, bytes);
        if (fcntl(fd, F_SETFL, flags) != 0)
            return -errno;
    }
    return file_write(fd, (const char *)data + done, bytes - done);
}

int file_sync(int fd)
{
    int rc;
    do
        rc = fsync(fd) == 0 ? 0 : -errno;
    while (rc == -EINTR);
    return rc;
}

int file_lock(int fd)
{
    int rc;
    do
        rc = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
    while (rc == -EINTR);
    return rc == -ENOSYS || rc == -ENOLCK || rc == -ENOTSUP ? -EOPNOTSUPP : rc;
}

const char *file_kind(mode_t mode)
{
    static const struct { mode_t type; const char *text; } kinds[] = {
        { S_IFDIR, "a directory" }, { S_IFLNK, "a symbolic link" }, { S_IFIFO, "a FIFO" },
        { S_IFCHR, "a device" }, { S_IFBLK, "a device" }, { S_IFSOCK, "a socket" },
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if ((mode & S_IFMT) == kinds[i].type)
            return kinds[i].text;
    return S_ISREG(mode) ? NULL : "no file";
}
