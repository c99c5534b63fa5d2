/* Shards read back. Called by the writing threads, each for the file it has written. */
#include "tools/convert/writing/read_back.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "loader/shards/shard_source.h"
#include "tools/convert/writing/block.h"
#include "tools/convert/writing/shard_sink.h"

struct reading_back {
    const struct shard_set *set;
    const struct shard_file *file;
    const atomic_bool *interrupted;
    struct progress *progress;
    FILE *stream;
    struct shard_source *packed_shard;  /* in its place where the shard is compressed */
    uint64_t read_bytes;                /* of its records' stream */
    struct block frame;                 /* with room for the longest one */
    XXH3_state_t *hash;
};

static int fail(const struct reading_back *reading, enum exit_code code, const char *what, int error)
{
    stop_fail(reading->set->stop, code, "%s/%s: cannot %s: %s", reading->set->spec.directory,
              reading->file->temporary_name, what, exit_cause(-error));
    return -error;
}

static int out_of_memory(const struct reading_back *reading)
{
    stop_fail(reading->set->stop, EXIT_CODE_MEMORY, "no memory to read shards back");
    return -ENOMEM;
}

static int reads_differently(const struct reading_back *reading, uint64_t record, const char *how)
{
    stop_fail(reading->set->stop, EXIT_CODE_OUTPUT, "%s/%s record %" PRIu64 ": reads back wrong: %s",
              reading->set->spec.directory, reading->file->temporary_name, record, how);
    return -EIO;
}

/* Read what comes next of the shard's records: how many bytes, fewer at its end or where it cannot be read. */
static size_t get_bytes(struct reading_back *reading, uint8_t *out, size_t bytes)
{
    if (reading->packed_shard == NULL)
        return fread(out, 1, bytes, reading->stream);
    const ssize_t got = shard_source_read(reading->packed_shard, out, bytes, reading->read_bytes);
    reading->read_bytes += got > 0 ? (size_t)got : 0;
    return got > 0 ? (size_t)got : 0;
}

/* Read one frame: whole and with both checksums right. */
static int read_frame(struct reading_back *reading, uint64_t record, uint64_t *payload_bytes_out)
{
    struct tfrecord_problem problem;
    uint8_t *const frame = reading->frame.bytes;
    size_t bytes = get_bytes(reading, frame, TFRECORD_HEADER_BYTES);

    if (bytes < TFRECORD_HEADER_BYTES)
        return reads_differently(reading, record, tfrecord_check_text(TFRECORD_CUT));
    enum tfrecord_check check = tfrecord_header(frame, payload_bytes_out, &problem);
    if (check != TFRECORD_OK)
        return reads_differently(reading, record, tfrecord_check_text(check));
    const size_t rest = (size_t)*payload_bytes_out + TFRECORD_FOOTER_BYTES;
    if (bytes + rest > reading->file->frame_bytes_most)
        return reads_differently(reading, record, "longer than any record written");
    bytes += get_bytes(reading, frame + bytes, rest);
    check = tfrecord_verify(frame, bytes, payload_bytes_out, &problem);
    if (check != TFRECORD_OK)
        return reads_differently(reading, record, tfrecord_check_text(check));
    return 0;
}

static int read_samples(struct reading_back *reading)
{
    uint8_t more;

    XXH3_64bits_reset(reading->hash);
    for (uint64_t record = 0; record < reading->file->record_count; record++) {
        uint64_t payload_bytes;

        if (stop_failed(reading->set->stop) || atomic_load(reading->interrupted))
            return -ECANCELED;
        const int rc = read_frame(reading, record, &payload_bytes);
        if (rc < 0)
            return rc;
        shard_hash_payload(reading->hash, reading->frame.bytes + TFRECORD_HEADER_BYTES, payload_bytes);
        progress_add(reading->progress, 1);
    }
    if (get_bytes(reading, &more, 1) > 0)
        return reads_differently(reading, reading->file->record_count, "more bytes than written");
    if (XXH3_64bits_digest(reading->hash) != reading->file->content_hash)
        return reads_differently(reading, reading->file->record_count, "the hash over all records differs");
    return 0;
}

static int read_plain(struct reading_back *reading)
{
    const int fd = openat(reading->set->folder.fd, reading->file->temporary_name,
                          O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return fail(reading, EXIT_CODE_OUTPUT, "open it again", errno);
    reading->stream = shard_stream_open(fd, "rb");
    if (reading->stream == NULL)
        return out_of_memory(reading);
    const int rc = read_samples(reading);
    fclose(reading->stream);
    return rc;
}

/* By the reader that training has. */
static int read_packed(struct reading_back *reading)
{
    char *path;

    if (asprintf(&path, "%s/%s", reading->set->spec.directory, reading->file->temporary_name) < 0)
        return out_of_memory(reading);
    int rc = shard_source_open(&reading->packed_shard, NULL, path);
    if (rc == 0)
        rc = read_samples(reading);
    else
        rc = fail(reading, exit_code_of(rc, EXIT_CODE_OUTPUT), "open it again", -rc);
    shard_source_close(reading->packed_shard);
    free(path);
    return rc;
}

int read_back(const struct shard_set *set, const struct shard_file *file, const atomic_bool *interrupted,
              struct progress *progress)
{
    struct reading_back reading = { .set = set, .file = file, .interrupted = interrupted, .progress = progress,
                                    .hash = XXH3_createState() };
    int rc = reading.hash != NULL ? block_reserve(&reading.frame, file->frame_bytes_most + TFRECORD_FRAME_BYTES)
                                  : -ENOMEM;
    if (rc < 0)
        rc = out_of_memory(&reading);
    else
        rc = set->spec.packing == PACKING_NONE ? read_plain(&reading) : read_packed(&reading);
    block_release(&reading.frame);
    XXH3_freeState(reading.hash);
    return rc;
}
