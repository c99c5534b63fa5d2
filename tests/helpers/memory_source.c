/* Shards in memory. */
#include "tests/helpers/memory_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct memory_shard *memory_shards;
static size_t memory_shard_count;

struct memory_source {
    struct shard_source source; /* first */
    struct memory_shard *shard;
};

void memory_source_set(struct memory_shard *shards, size_t count)
{
    memory_shards = shards;
    memory_shard_count = count;
}

static struct memory_shard *find_shard(const char *path)
{
    const char *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < memory_shard_count; i++)
        if (strcmp(memory_shards[i].name, name) == 0)
            return &memory_shards[i];
    return NULL;
}

static int memory_stamp(const struct shard_source *source, struct shard_stamp *stamp_out)
{
    const struct memory_shard *const shard = ((const struct memory_source *)source)->shard;
    *stamp_out = (struct shard_stamp){ .bytes = 7, .mtime_ns = shard->is_changed, .inode = 1 };
    return 0;
}

static int open_as(const struct shard_source_ops *ops, struct shard_source **source_out, const char *path)
{
    struct memory_shard *const shard = find_shard(path);
    if (shard == NULL)
        return -ENOENT;
    struct memory_source *const memory = calloc(1, sizeof(*memory));
    if (memory == NULL)
        return -ENOMEM;
    memory->shard = shard;
    memory->source.ops = ops;
    memory->source.path = path;
    memory_stamp(&memory->source, &memory->source.stamp);
    shard->opened++;
    *source_out = &memory->source;
    return 0;
}

static int memory_open(struct shard_source **source_out, const char *path)
{
    return open_as(&memory_source_ops, source_out, path);
}

static int memory_open_once(struct shard_source **source_out, const char *path)
{
    return open_as(&memory_source_once_ops, source_out, path);
}

static void memory_close(struct shard_source *source)
{
    free(source);
}

static int memory_size(struct shard_source *source, uint64_t *bytes_out)
{
    struct memory_shard *const shard = ((struct memory_source *)source)->shard;
    shard->sized++;
    *bytes_out = shard->bytes;
    return 0;
}

static ssize_t read_from(struct memory_shard *shard, const uint8_t *data, void *buffer, size_t bytes, uint64_t offset)
{
    const size_t left = offset < shard->bytes ? shard->bytes - offset : 0;
    size_t given = bytes < left ? bytes : left;
    if (shard->piece > 0 && given > shard->piece)
        given = shard->piece;
    if (++shard->read == shard->raised_at && shard->raised != NULL)
        *shard->raised = true;
    if (shard->error < 0 && shard->bad_offset >= offset && shard->bad_offset < offset + given)
        return shard->error;
    shard->given += given;
    memcpy(buffer, data + (left > 0 ? offset : 0), given);
    return (ssize_t)given;
}

static ssize_t memory_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    struct memory_shard *const shard = ((struct memory_source *)source)->shard;
    return read_from(shard, shard->data, buffer, bytes, offset);
}

static ssize_t memory_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    struct memory_shard *const shard = ((struct memory_source *)source)->shard;
    return read_from(shard, shard->afresh != NULL ? shard->afresh : shard->data, buffer, bytes, offset);
}

const struct shard_source_ops memory_source_ops = {
    .open = memory_open,
    .close = memory_close,
    .size = memory_size,
    .read = memory_read,
    .read_afresh = memory_read_afresh,
    .stamp = memory_stamp,
};

const struct shard_source_ops memory_source_once_ops = {
    .open = memory_open_once,
    .close = memory_close,
    .size = memory_size,
    .read = memory_read,
    .stamp = memory_stamp,
};
