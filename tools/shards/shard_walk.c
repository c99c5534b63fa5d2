/* Sequential reading of shards. Called by the threads of a scan and by pipetrain-shards head. */
#include "tools/shards/shard_walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/crc32c.h"
#include "formats/tfrecord.h"
#include "loader/shards/shard_kind.h"

/* A chunk of this size amortises the cost of a read call, and fits into the cache of a core. */
#define CHUNK_BYTES ((size_t)512 << 10)
#define BREAK_TEXT_BYTES 256u

static int reserve(struct chunk *chunk, size_t bytes)
{
    if (bytes <= chunk->room)
        return 0;
    uint8_t *const grown = realloc(chunk->bytes, bytes);
    if (grown == NULL)
        return -ENOMEM;
    chunk->bytes = grown;
    chunk->room = bytes;
    return 0;
}

/* Fill the chunk up to `bytes`, or to the end of the shard. */
static int fill(const struct shard_walk *walk, struct chunk *chunk, size_t bytes)
{
    if (chunk->filled >= bytes || chunk->is_end)
        return 0;
    if (reserve(chunk, bytes) < 0)
        return -ENOMEM;
    const size_t wanted = bytes - chunk->filled;
    const ssize_t got =
        shard_source_read(walk->source, chunk->bytes + chunk->filled, wanted, chunk->offset + chunk->filled);
    if (got < 0)
        return (int)got;
    chunk->filled += (size_t)got;
    chunk->is_end = (size_t)got < wanted;
    return 0;
}

/* The number of bytes of the chunk from `at` on, up to a break in the compressed stream. */
static uint64_t available(const struct shard_walk *walk, const struct chunk *chunk, size_t at)
{
    char text[BREAK_TEXT_BYTES];
    const uint64_t offset = chunk->offset + at;
    const uint64_t broken = shard_source_find_break(walk->source, offset, text, sizeof(text));
    return broken - offset < chunk->filled - at ? broken - offset : chunk->filled - at;
}

/* Read until the chunk has the first `bytes` of the frame that follows its whole records. A negative errno,
 * TFRECORD_CUT or TFRECORD_OK. */
static int fill_frame(const struct shard_walk *walk, struct chunk *chunk, size_t bytes,
                      struct tfrecord_problem *problem)
{
    const int rc = fill(walk, chunk, chunk->whole_bytes + bytes);
    *problem = (struct tfrecord_problem){ .needed_bytes = bytes,
                                         .available_bytes = available(walk, chunk, chunk->whole_bytes) };
    return rc < 0 ? rc : problem->available_bytes < bytes ? TFRECORD_CUT : TFRECORD_OK;
}

/* Read the frame that follows the chunk's whole records into the chunk; *bytes_out is its length. A negative errno
 * or an enum tfrecord_check. */
static int read_frame(const struct shard_walk *walk, struct chunk *chunk, size_t *bytes_out,
                      struct tfrecord_problem *problem)
{
    const int rc = fill_frame(walk, chunk, TFRECORD_HEADER_BYTES, problem);
    if (rc != TFRECORD_OK)
        return rc;
    uint64_t payload_bytes;
    const enum tfrecord_check check = tfrecord_header(chunk->bytes + chunk->whole_bytes, &payload_bytes, problem);
    if (check != TFRECORD_OK)
        return (int)check;
    *bytes_out = (size_t)payload_bytes + TFRECORD_FRAME_BYTES;
    return fill_frame(walk, chunk, *bytes_out, problem);
}

static void problem_add(struct record_problem *problem, const char *text)
{
    const size_t length = strlen(problem->text);
    snprintf(problem->text + length, sizeof(problem->text) - length, "%s", text);
}

/* Find the number of damaged bytes up to the next record. False if no record follows, or on an error. */
static bool find_damage_end(struct shard_walk *walk, uint64_t *bytes_out, int *rc_out)
{
    const struct shard_index_options options = { .skip_damage = true, .is_unwanted = walk->is_unwanted };
    char line[1024];
    *rc_out = 0;
    if (!walk->is_indexed)
        *rc_out = shard_index_open(&walk->index, walk->source, &options, line, sizeof(line));
    walk->is_indexed |= *rc_out == 0;
    for (uint64_t i = 0; i < walk->index.damage_count; i++) {
        *bytes_out = walk->index.damages[i].bytes;
        if (walk->index.damages[i].offset == walk->offset)
            return true;
    }
    return false;
}

/* If the compressed stream breaks before `end`, report that as the cause: damaged compressed data yield wrong bytes
 * before the break is detected. */
static bool report_break(const struct shard_walk *walk, struct chunk *chunk, uint64_t end)
{
    char text[BREAK_TEXT_BYTES];
    if (shard_source_find_break(walk->source, chunk->offset, text, sizeof(text)) >= end)
        return false;
    chunk->problem.has_crcs = false;
    snprintf(chunk->problem.text, sizeof(chunk->problem.text), "%s", text);
    return true;
}

/* Report the number of damaged bytes, unless there is only the single byte that represents a break of the stream. */
static void report_stretch(const struct shard_walk *walk, struct chunk *chunk, uint64_t bytes)
{
    char text[80];
    if (report_break(walk, chunk, walk->offset + bytes) && bytes == 1)
        return;
    snprintf(text, sizeof(text), ": no record was found in %" PRIu64 " bytes", bytes);
    problem_add(&chunk->problem, text);
}

/* Skip the damaged bytes. */
static int skip_damage(struct shard_walk *walk, struct chunk *chunk)
{
    uint64_t bytes;
    int rc;
    if (find_damage_end(walk, &bytes, &rc)) {
        report_stretch(walk, chunk, bytes);
        walk->offset += bytes;
        return -EBADMSG;
    }
    (void)report_break(walk, chunk, UINT64_MAX);
    walk->is_over = true;
    return rc == -ENOMEM || rc == -ECANCELED ? rc : -EBADMSG;
}

/* Report the damaged frame at the start of the chunk and skip it. */
static int handle_damage(struct shard_walk *walk, struct chunk *chunk, enum tfrecord_check check,
                       const struct tfrecord_problem *problem)
{
    record_problem_set(&chunk->problem, check, problem);
    const char *const kind = chunk->offset > 0 ? NULL : shard_kind_text(chunk->bytes, chunk->filled);
    const int rc = skip_damage(walk, chunk);
    if (kind != NULL && walk->is_over) {
        problem_add(&chunk->problem, ": not a TFRecord shard: ");
        problem_add(&chunk->problem, kind);
    }
    return rc;
}

static int handle_unreadable(struct shard_walk *walk, struct chunk *chunk, int rc)
{
    if (rc == -ENOMEM || rc == -ECANCELED)
        return rc;
    chunk->problem.has_crcs = false;
    snprintf(chunk->problem.text, sizeof(chunk->problem.text), "cannot be read: %s", strerror(-rc));
    walk->is_over = true;
    return -EBADMSG;
}

/* Fill the chunk with whole records. 0, or the result of read_frame that ended it. */
static int gather(struct shard_walk *walk, struct chunk *chunk, struct tfrecord_problem *problem)
{
    int rc = fill(walk, chunk, CHUNK_BYTES);
    while (rc == 0 && chunk->whole_bytes < chunk->filled) {
        size_t bytes;
        rc = read_frame(walk, chunk, &bytes, problem);
        if (rc == 0) {
            chunk->whole_bytes += bytes;
            walk->record++;
        }
    }
    return rc;
}

int shard_walk_next(struct shard_walk *walk, struct chunk *chunk)
{
    struct tfrecord_problem problem;
    if (walk->is_unwanted != NULL && atomic_load(walk->is_unwanted))
        return -ECANCELED;
    chunk->offset = walk->offset;
    chunk->record = walk->record;
    chunk->filled = chunk->whole_bytes = 0;
    chunk->is_end = walk->is_over;
    const int rc = gather(walk, chunk, &problem);
    walk->offset += chunk->whole_bytes;
    if (chunk->whole_bytes > 0)
        return 0;
    if (rc < 0)
        return handle_unreadable(walk, chunk, rc);
    return chunk->filled == 0 ? -ENODATA : handle_damage(walk, chunk, (enum tfrecord_check)rc, &problem);
}

void shard_walk_release(struct shard_walk *walk)
{
    shard_index_release(&walk->index);
}

bool chunk_next(const struct chunk *chunk, struct chunk_record *record)
{
    const uint8_t *at = chunk->bytes;
    if (record->payload == NULL)
        *record = (struct chunk_record){ .record = chunk->record };
    else {
        at = record->payload + record->payload_bytes + TFRECORD_FOOTER_BYTES;
        record->record++;
    }
    if (at == chunk->bytes + chunk->whole_bytes || chunk->whole_bytes == 0)
        return false;
    record->offset = chunk->offset + (uint64_t)(at - chunk->bytes);
    record->payload = at + TFRECORD_HEADER_BYTES;
    record->payload_bytes = (size_t)tfrecord_payload_bytes(at);
    return true;
}

/* Read the record again into `spare`, and describe how the two reads compare. */
static const char *second_text(const struct chunk_record *record, struct shard_source *source, uint8_t *spare)
{
    const size_t bytes = record->payload_bytes + TFRECORD_FRAME_BYTES;
    uint64_t payload_bytes;
    struct tfrecord_problem problem;
    const ssize_t got = shard_source_read_afresh(source, spare, bytes, record->offset);
    if (got == -ENOTSUP)
        return "";
    if (got == (ssize_t)bytes && memcmp(spare, record->payload - TFRECORD_HEADER_BYTES, bytes) == 0)
        return "; a second read agrees: it is not memory";
    if (got == (ssize_t)bytes && tfrecord_verify(spare, bytes, &payload_bytes, &problem) == TFRECORD_OK)
        return "; a second read was right: not the file, memory or the way to the disk may be failing";
    return "; a second read differs and is wrong too";
}

bool chunk_record_verify(const struct chunk_record *record, struct shard_source *source,
                         struct record_problem *problem_out)
{
    struct tfrecord_problem problem;
    const uint32_t crc = crc32c(record->payload, record->payload_bytes);
    const enum tfrecord_check check = tfrecord_footer(record->payload + record->payload_bytes, crc, &problem);
    if (check == TFRECORD_OK)
        return true;
    record_problem_set(problem_out, check, &problem);
    uint8_t *const spare = malloc(record->payload_bytes + TFRECORD_FRAME_BYTES);
    if (spare != NULL)
        problem_add(problem_out, second_text(record, source, spare));
    free(spare);
    if (shard_source_changed(source))
        problem_add(problem_out, "; the file has changed since it was opened");
    return false;
}

void chunk_release(struct chunk *chunk)
{
    free(chunk->bytes);
    *chunk = (struct chunk){ 0 };
}
