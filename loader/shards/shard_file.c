/* Shards in plain files, read by pread from a descriptor of the pool. Never mmap, so that a file
 * cut while it is read gives an error and not a signal. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/shards/descriptor_pool.h"
#include "loader/shards/shard_source.h"

struct shard_file {
    struct shard_source source; /* first, so that a source is its file */
    struct pooled_file pooled;
    bool is_known;              /* what the file was when it was opened first */
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

/* Take down what the file is, or compare with what it was when it was opened first: another one under
 * its name has other records where its index says that some are. */
static int identify(int fd, struct shard_file *file)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? -EISDIR : -ESPIPE;
    const struct shard_stamp stamp = stamp_of(&status);
    if (file->is_known)
        return shard_stamp_equal(&stamp, &file->source.stamp) && status.st_dev == file->source.device ? 0 : -ESTALE;
    file->source.device = status.st_dev;
    file->source.stamp = stamp;
    return 0;
}

static int open_pooled(struct pooled_file *pooled)
{
    struct shard_file *const file = (struct shard_file *)((char *)pooled - offsetof(struct shard_file, pooled));
    const int fd = open_to_read(file->source.path);
    const int rc = fd < 0 ? fd : identify(fd, file);
    if (rc < 0 && fd >= 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

/* Open it once, to know what it is. */
static int open_first(struct shard_file *file)
{
    const int fd = pooled_file_take(&file->pooled);
    if (fd < 0)
        return fd;
    pooled_file_give_back(&file->pooled);
    file->is_known = true;
    return 0;
}

static int file_open(struct shard_source **source_out, const char *path)
{
    struct shard_file *const file = calloc(1, sizeof(*file));
    if (file == NULL)
        return -ENOMEM;
    file->source.ops = &shard_file_ops;
    file->source.path = path;
    int rc = pooled_file_init(&file->pooled, open_pooled);
    if (rc < 0) {
        free(file);
        return rc;
    }
    rc = open_first(file);
    if (rc < 0)
        shard_source_close(&file->source);
    else
        *source_out = &file->source;
    return rc;
}

static void file_close(struct shard_source *source)
{
    struct shard_file *const file = (struct shard_file *)source;
    pooled_file_release(&file->pooled);
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
    struct pooled_file *const pooled = &((struct shard_file *)source)->pooled;
    const int fd = pooled_file_take(pooled);
    if (fd < 0)
        return fd;
    const ssize_t got = read_at(fd, buffer, bytes, offset);
    pooled_file_give_back(pooled);
    return got;
}

static ssize_t file_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    int fd = open_to_read(source->path);
    while ((fd == -EMFILE || fd == -ENFILE) && descriptor_pool_make_room())
        fd = open_to_read(source->path);
    if (fd < 0)
        return fd;
    (void)posix_fadvise(fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
    const ssize_t got = read_at(fd, buffer, bytes, offset);
    close(fd);
    return got;
}

static int file_try_descriptor(struct shard_source *source)
{
    return pooled_file_try(&((struct shard_file *)source)->pooled);
}

static void file_give_back_descriptor(struct shard_source *source)
{
    pooled_file_give_back(&((struct shard_file *)source)->pooled);
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
    .try_descriptor = file_try_descriptor,
    .give_back_descriptor = file_give_back_descriptor,
    .stamp = file_stamp,
    .is_plain = true,
};
