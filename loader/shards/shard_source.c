/* Reading shards through their operations. Called by readers for every run of records, by decoders if a record is
 * wrong, and while data sets are opened. */
#include "loader/shards/shard_source.h"

#include <errno.h>

int shard_source_open(struct shard_source **source_out, const struct shard_source_ops *ops, const char *path)
{
    return (ops != NULL ? ops : &shard_packed_ops)->open(source_out, path);
}

void shard_source_close(struct shard_source *source)
{
    if (source != NULL)
        source->ops->close(source);
}

int shard_source_size(struct shard_source *source, uint64_t *bytes_out)
{
    return source->ops->size(source, bytes_out);
}

static ssize_t read_all(struct shard_source *source,
                        ssize_t (*read)(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset),
                        void *buffer, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = read(source, (char *)buffer + done, bytes - done, offset + done);
        if (got < 0)
            return got;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

ssize_t shard_source_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    return read_all(source, source->ops->read, buffer, bytes, offset);
}

ssize_t shard_source_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    if (source->ops->read_afresh == NULL)
        return -ENOTSUP;
    return read_all(source, source->ops->read_afresh, buffer, bytes, offset);
}

uint64_t shard_source_find_break(struct shard_source *source, uint64_t offset, char *text, size_t text_size)
{
    return source->ops->find_break != NULL ? source->ops->find_break(source, offset, text, text_size) : UINT64_MAX;
}

uint64_t shard_source_break_begin(struct shard_source *source, uint64_t offset)
{
    return source->ops->break_begin != NULL ? source->ops->break_begin(source, offset) : UINT64_MAX;
}

bool shard_source_changed(const struct shard_source *source)
{
    struct shard_stamp now;
    return source->ops->stamp(source, &now) < 0 || !shard_stamp_equal(&now, &source->stamp);
}

bool shard_stamp_equal(const struct shard_stamp *a, const struct shard_stamp *b)
{
    return a->bytes == b->bytes && a->mtime_ns == b->mtime_ns && a->inode == b->inode;
}
