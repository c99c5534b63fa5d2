/* Reading and writing files. Any thread. */
#include "stage/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIRECT_LEAST (1u << 20)     /* smallest write for which O_DIRECT is faster */
#define DIRECT_MOST (16u << 20)     /* largest write in one call */

/* ---- identity ---- */

struct file_identity file_identity_of(const struct stat *status)
{
    return (struct file_identity){ status->st_dev, status->st_ino };
}

int file_identity_compare(const void *a, const void *b)
{
    const struct file_identity *const one = a, *const other = b;

    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    return (one->inode > other->inode) - (one->inode < other->inode);
}

bool file_is_same(const char *path, const char *other)
{
    struct stat one, two;

    return stat(path, &one) == 0 && stat(other, &two) == 0 && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

/* ---- reading ---- */

int file_read_some(int fd, uint64_t offset, void *out, size_t bytes, size_t *done_out)
{
    size_t done = 0;

    while (done < bytes) {
        const ssize_t now = pread(fd, (uint8_t *)out + done, bytes - done, (off_t)(offset + done));
        if (now < 0 && errno == EINTR)
            continue;
        if (now < 0)
            return -errno;
        if (now == 0)
            break;              /* end of the file */
        done += (size_t)now;
    }
    *done_out = done;
    return 0;
}

int file_read_at(int fd, uint64_t offset, void *out, size_t bytes)
{
    size_t done = 0;
    const int rc = file_read_some(fd, offset, out, bytes, &done);

    return rc < 0 ? rc : done == bytes ? 0 : -EBADMSG;
}

int file_read_whole(int fd, void *out, size_t bytes)
{
    size_t done = 0;
    const int rc = file_read_some(fd, 0, out, bytes + 1, &done);

    return rc < 0 ? rc : done == bytes ? 0 : -EBADMSG;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int load_open_file(int fd, size_t bytes_max, char **block_out, size_t *bytes_out)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? -EISDIR : -ESPIPE;
    const size_t bytes = (size_t)status.st_size;
    if (bytes > bytes_max)
        return -EFBIG;
    char *const block = malloc(bytes + 1);
    if (block == NULL)
        return -ENOMEM;
    const int rc = file_read_whole(fd, block, bytes);
    if (rc != 0) {
        free(block);
        return rc == -EBADMSG ? -ESTALE : rc;
    }
    block[bytes] = '\0';
    *block_out = block;
    *bytes_out = bytes;
    return 0;
}

int file_load(const char *path, size_t bytes_max, void *block_out, size_t *bytes_out)
{
    /* O_NONBLOCK: opening a FIFO without a writer must not block. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    char *block = NULL;
    const int rc = load_open_file(fd, bytes_max, &block, bytes_out);
    if (rc == 0)
        memcpy(block_out, &block, sizeof(block));
    close(fd);
    return rc;
}

const char *file_load_problem(int rc)
{
    return rc == -ESPIPE || rc == -EISDIR ? "is not a regular file" : strerror(-rc);
}

/* ---- writing ---- */

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

/* Write as many whole blocks as possible and return their bytes; the caller writes the rest through the page cache. */
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

/* ---- kinds ---- */

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
