/* Writing files. Called by main for results, by the converters and by the index. */
#include "stage/file/file.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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
