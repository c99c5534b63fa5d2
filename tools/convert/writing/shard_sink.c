/* Files being written. Called by the writing threads, each of which has one at a time. */
#include "tools/convert/writing/shard_sink.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "formats/tfrecord.h"

#define FILE_BUFFER_BYTES ((size_t)1 << 20)

static int fail(const struct shard_sink *sink, enum exit_code code, const char *what, int error)
{
    const struct shard_set *const set = sink->set;

    stop_fail(set->stop, code, "%s/%s: cannot %s: %s", set->spec.directory, sink->file->temporary_name, what,
              exit_cause(-error));
    return -error;
}

static int out_of_memory(const struct shard_sink *sink)
{
    stop_fail(sink->set->stop, EXIT_CODE_MEMORY, "no memory to write shards");
    return -ENOMEM;
}

int shard_sink_init(struct shard_sink *sink, const struct shard_set *set)
{
    *sink = (struct shard_sink){ .set = set, .hash = XXH3_createState() };
    return sink->hash != NULL ? 0 : out_of_memory(sink);
}

void shard_sink_release(struct shard_sink *sink)
{
    block_release(&sink->unit);
    block_release(&sink->packed);
    XXH3_freeState(sink->hash);
}

void shard_hash_payload(XXH3_state_t *hash, const uint8_t *payload, uint64_t bytes)
{
    XXH3_64bits_update(hash, &bytes, sizeof(bytes));
    XXH3_64bits_update(hash, payload, bytes);
}

FILE *shard_stream_open(int fd, const char *mode)
{
    FILE *const stream = fdopen(fd, mode);

    if (stream == NULL)
        close(fd);
    else
        setvbuf(stream, NULL, _IOFBF, FILE_BUFFER_BYTES);
    return stream;
}

int shard_sink_open(struct shard_sink *sink, struct shard_file *file)
{
    sink->file = file;
    const int fd = shard_set_create(sink->set, file->temporary_name);
    if (fd < 0)
        return fail(sink, EXIT_CODE_OUTPUT, "make the file", -fd);
    sink->stream = shard_stream_open(fd, "wb");
    if (sink->stream == NULL)
        return out_of_memory(sink);
    sink->unit_bytes = 0;
    XXH3_64bits_reset(sink->hash);
    return 0;
}

static int put_bytes(struct shard_sink *sink, const uint8_t *bytes, size_t count)
{
    sink->file->bytes += count;
    return fwrite(bytes, 1, count, sink->stream) == count ? 0 : fail(sink, EXIT_CODE_OUTPUT, "write", errno);
}

/* Compress the frames gathered. */
static int put_unit(struct shard_sink *sink)
{
    const enum packing packing = sink->set->spec.packing;
    size_t bytes;

    if (sink->unit_bytes == 0)
        return 0;
    if (block_reserve(&sink->packed, packing_bound(packing, sink->unit_bytes)) < 0)
        return out_of_memory(sink);
    const int rc = packing_write(packing, sink->unit.bytes, sink->unit_bytes, sink->packed.bytes, &bytes);
    if (rc < 0)
        return fail(sink, exit_code_of(rc, EXIT_CODE_OUTPUT), "compress", -rc);
    sink->unit_bytes = 0;
    return put_bytes(sink, sink->packed.bytes, bytes);
}

int shard_sink_put(struct shard_sink *sink, const uint8_t *frame, size_t bytes)
{
    shard_hash_payload(sink->hash, frame + TFRECORD_HEADER_BYTES, bytes - TFRECORD_FRAME_BYTES);
    if (bytes > sink->file->frame_bytes_most)
        sink->file->frame_bytes_most = bytes;
    if (sink->set->spec.packing == PACKING_NONE)
        return put_bytes(sink, frame, bytes);
    if (block_reserve(&sink->unit, PACKING_UNIT_BYTES + bytes) < 0)
        return out_of_memory(sink);
    memcpy(sink->unit.bytes + sink->unit_bytes, frame, bytes);
    sink->unit_bytes += bytes;
    return sink->unit_bytes >= PACKING_UNIT_BYTES ? put_unit(sink) : 0;
}

int shard_sink_finish(struct shard_sink *sink)
{
    sink->file->content_hash = XXH3_64bits_digest(sink->hash);
    int rc = put_unit(sink);
    if (rc < 0)
        return rc;
    if (fflush(sink->stream) != 0 || fsync(fileno(sink->stream)) != 0)
        return fail(sink, EXIT_CODE_OUTPUT, "write", errno);
    rc = fclose(sink->stream) != 0 ? fail(sink, EXIT_CODE_OUTPUT, "write", errno) : 0;
    sink->stream = NULL;
    return rc;
}

void shard_sink_abandon(struct shard_sink *sink)
{
    if (sink->stream != NULL)
        fclose(sink->stream);
    sink->stream = NULL;
}
