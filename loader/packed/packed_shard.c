/* Compressed shards as sources. Opened by shard_source_open; read by readers and decoders. */
#include "loader/packed/packed_shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "formats/tfrecord.h"
#include "loader/packed/packed_pool.h"

struct packed_shard {
    struct shard_source source; /* first */
    struct packed_file file;
};

static struct packed_file *file_of(struct shard_source *source)
{
    return &((struct packed_shard *)source)->file;
}

static int packed_open(struct shard_source **source_out, const char *path)
{
    struct shard_source *kept;
    const int rc = shard_file_ops.open(&kept, path);
    return rc < 0 ? rc : packed_shard_wrap(source_out, kept);
}

static void packed_close(struct shard_source *source)
{
    struct packed_file *const file = file_of(source);
    packed_pool_leave(file);
    packed_map_release(&file->map);
    shard_source_close(file->kept);
    free(source);
}

static ssize_t read_on(struct packed_stream *stream, uint8_t *buffer, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    ssize_t got = 1;
    while (done < bytes && got > 0) {
        got = packed_stream_read(stream, buffer + done, bytes - done, offset + done);
        done += got > 0 ? (size_t)got : 0;
    }
    return done > 0 ? (ssize_t)done : got;
}

/* One stream for the whole read. */
static ssize_t packed_read(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    struct packed_stream *const stream = packed_pool_take(file_of(source), offset);
    const ssize_t got = read_on(stream, buffer, bytes, offset);
    packed_pool_give_back(stream);
    return got;
}

/* From the last point before, so that what is kept there is not read again. */
static ssize_t packed_read_afresh(struct shard_source *source, void *buffer, size_t bytes, uint64_t offset)
{
    struct packed_stream *const stream = packed_pool_take(file_of(source), offset);
    packed_stream_seat_afresh(stream, file_of(source), offset);
    const ssize_t got = read_on(stream, buffer, bytes, offset);
    packed_stream_leave(stream);
    packed_pool_give_back(stream);
    return got;
}

/* Whatever comes behind all that is known, to the end. */
static int packed_size(struct shard_source *source, uint64_t *bytes_out)
{
    struct packed_file *const file = file_of(source);
    uint8_t beyond;
    ssize_t got = 0;
    if (packed_map_end(&file->map) == PACKED_NOWHERE)
        got = packed_read(source, &beyond, 1, PACKED_NOWHERE - 1);
    *bytes_out = packed_map_end(&file->map);
    return (int)got;
}

static int packed_stamp(const struct shard_source *source, struct shard_stamp *stamp_out)
{
    const struct shard_source *const kept = ((const struct packed_shard *)source)->file.kept;
    return kept->ops->stamp(kept, stamp_out);
}

static uint64_t packed_find_break(struct shard_source *source, uint64_t offset, char *text, size_t text_size)
{
    struct packed_file *const file = file_of(source);
    struct packed_break found;
    if (!packed_map_next_break(&file->map, offset, &found))
        return UINT64_MAX;
    snprintf(text, text_size, "the %s data are damaged near compressed byte %" PRIu64 ", behind byte %" PRIu64 ": %s",
             container_name(file->container), found.in, found.out, found.problem);
    return found.out;
}

static int make_shard(struct shard_source **source_out, struct shard_source *kept, enum container container,
                      size_t lz4_block_bytes)
{
    struct packed_shard *const shard = calloc(1, sizeof(*shard));
    if (shard == NULL)
        return -ENOMEM;
    shard->source = *kept;
    shard->source.ops = &shard_packed_ops;
    shard->file.kept = kept;
    shard->file.container = container;
    int rc = packed_map_init(&shard->file.map, kept->stamp.bytes, container != CONTAINER_LZ4);
    if (rc == 0) {
        rc = packed_pool_join(lz4_block_bytes);
        if (rc < 0)
            packed_map_release(&shard->file.map);
    }
    if (rc < 0) {
        free(shard);
        return rc;
    }
    shard->source.held_bytes += packed_map_bytes(&shard->file.map);
    *source_out = &shard->source;
    return 0;
}

/* Two bytes are no proof of zlib: damaged shards may begin with them. */
static bool is_really_packed(struct shard_source *source)
{
    uint8_t head[TFRECORD_HEADER_BYTES];
    uint64_t payload_bytes;
    struct tfrecord_problem problem;
    return file_of(source)->container != CONTAINER_ZLIB ||
           (shard_source_read(source, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
            tfrecord_header(head, &payload_bytes, &problem) != TFRECORD_LENGTH_CRC);
}

int packed_shard_wrap(struct shard_source **source_out, struct shard_source *kept)
{
    uint8_t head[CONTAINER_HEAD_BYTES];
    const ssize_t got = shard_source_read(kept, head, sizeof(head), 0);
    const enum container container = got < 0 ? CONTAINER_PLAIN : container_find(head, (size_t)got);
    *source_out = kept;
    if (container == CONTAINER_PLAIN)
        return 0;
    const size_t lz4_block_bytes = container == CONTAINER_LZ4 ? unpacker_lz4_block_bytes(head, (size_t)got) : 0;
    const int rc = make_shard(source_out, kept, container, lz4_block_bytes);
    if (rc < 0) {
        shard_source_close(kept);
        return rc;
    }
    if (is_really_packed(*source_out))
        return 0;
    file_of(*source_out)->kept = NULL;
    shard_source_close(*source_out);
    *source_out = kept;
    return 0;
}

const struct shard_source_ops shard_packed_ops = {
    .open = packed_open,
    .close = packed_close,
    .size = packed_size,
    .read = packed_read,
    .read_afresh = packed_read_afresh,
    .stamp = packed_stamp,
    .find_break = packed_find_break,
};
