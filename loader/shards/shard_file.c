/* Shards in plain files, read by pread from a descriptor that stays open. Never mmap, so that
 * a file cut while it is read gives an error and not a signal. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/shard_source.h"

struct shard_file {
    struct shard_source source; /* first, so that a source is its file */
    int fd;
};

static struct shard_stamp stamp_of(const struct stat *status)
{
    return (struct shard_stamp){
        .bytes = (uint64_t)status->st_size,
        .mtime_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec,
        .inode = status->st_ino,
    };
}

/* Without O_NONBLOCK the open of a pipe would wait for a writer. */
static int open_to_read(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static int identify(int fd, struct shard_source *source)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? -EISDIR : -ESPIPE;
    source->device = status.st_dev;
    source->stamp = stamp_of(&status);
    return 0;
}

static int file_open(struct shard_source **source_out, const char *path)
{
    const int fd = open_to_read(path);
    if (fd < 0)
        return fd;
    struct shard_file *const file = calloc(1, sizeof(*file));
    const int rc = file == NULL ? -ENOMEM : identify(fd, &file->source);
    if (rc < 0) {
        close(fd);
        free(file);
        return rc;
    }
    file->source.ops = &shard_file_ops;
    file->source.path = path;
    file->fd = fd;
    *source_out = &file->source;
    return 0;
}

static void file_close(struct shard_source *source)
{
    struct shard_file *const file = (struct shard_file *)source;
    close(file->fd);
    free(file);
}

static int file_size(struct shard_source *source, uint64_t *bytes_out)
{
    *bytes_out = source->stamp.bytes;
    return 0;
}

static ssize_t read_at(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    ssize_t got;
    do
        got = pread(fd, buffer, bytes, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

static ssize_t file_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    return read_at(((struct shard_file *)source)->fd, buffer, bytes, offset);
}

static ssize_t file_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    const int fd = open_to_read(source->path);
    if (fd < 0)
        return fd;
    (void)posix_fadvise(fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
    const ssize_t got = read_at(fd, buffer, bytes, offset);
    close(fd);
    return got;
}

static int file_stamp(const struct shard_source *source, struct shard_stamp *stamp_out)
{
    struct stat status;
    if (stat(source->path, &status) < 0)
        return -errno;
    *stamp_out = stamp_of(&status);
    return 0;
}

const struct shard_source_ops shard_file_ops = {
    .open = file_open,
    .close = file_close,
    .size = file_size,
    .read = file_read,
    .read_afresh = file_read_afresh,
    .stamp = file_stamp,
    .is_plain = true,
};
