/* Shards from front to back. Called by the threads of a scan and by commands that look at the first records. */
#include "tools/shards/shard_walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/crc32c.h"
#include "formats/tfrecord.h"
#include "loader/shards/shard_kind.h"

/* Long enough that a read costs nothing beside its bytes, and still in a core's cache when they are summed. */
#define PIECE_BYTES ((size_t)512 << 10)
#define BREAK_TEXT_BYTES 256u

static int reserve(struct piece *piece, size_t bytes)
{
    if (bytes <= piece->room)
        return 0;
    uint8_t *const grown = realloc(piece->bytes, bytes);
    if (grown == NULL)
        return -ENOMEM;
    piece->bytes = grown;
    piece->room = bytes;
    return 0;
}

/* Have the first `bytes` of what follows in the piece, or all there is. */
static int fill(const struct shard_walk *walk, struct piece *piece, size_t bytes)
{
    if (piece->filled >= bytes || piece->is_end)
        return 0;
    if (reserve(piece, bytes) < 0)
        return -ENOMEM;
    const size_t wanted = bytes - piece->filled;
    const ssize_t got =
        shard_source_read(walk->source, piece->bytes + piece->filled, wanted, piece->offset + piece->filled);
    if (got < 0)
        return (int)got;
    piece->filled += (size_t)got;
    piece->is_end = (size_t)got < wanted;
    return 0;
}

/* Bytes of the piece behind `at`, up to where damage breaks the stream. */
static uint64_t available(const struct shard_walk *walk, const struct piece *piece, size_t at)
{
    char text[BREAK_TEXT_BYTES];
    const uint64_t offset = piece->offset + at;
    const uint64_t broken = shard_source_find_break(walk->source, offset, text, sizeof(text));
    return broken - offset < piece->filled - at ? broken - offset : piece->filled - at;
}

/* Have so many bytes of the frame behind the whole ones. A negative errno, TFRECORD_CUT or TFRECORD_OK. */
static int have(const struct shard_walk *walk, struct piece *piece, size_t bytes, struct tfrecord_problem *problem)
{
    const int rc = fill(walk, piece, piece->whole_bytes + bytes);
    *problem = (struct tfrecord_problem){ .needed_bytes = bytes,
                                         .available_bytes = available(walk, piece, piece->whole_bytes) };
    return rc < 0 ? rc : problem->available_bytes < bytes ? TFRECORD_CUT : TFRECORD_OK;
}

/* The frame behind the whole ones, all of it in the piece: its bytes. A negative errno or an enum tfrecord_check. */
static int take_frame(const struct shard_walk *walk, struct piece *piece, size_t *bytes_out,
                      struct tfrecord_problem *problem)
{
    const int rc = have(walk, piece, TFRECORD_HEADER_BYTES, problem);
    if (rc != TFRECORD_OK)
        return rc;
    uint64_t payload_bytes;
    const enum tfrecord_check check = tfrecord_header(piece->bytes + piece->whole_bytes, &payload_bytes, problem);
    if (check != TFRECORD_OK)
        return (int)check;
    *bytes_out = (size_t)payload_bytes + TFRECORD_FRAME_BYTES;
    return have(walk, piece, *bytes_out, problem);
}

static void problem_add(struct record_problem *problem, const char *text)
{
    const size_t length = strlen(problem->text);
    snprintf(problem->text + length, sizeof(problem->text) - length, "%s", text);
}

/* Where the stretch ends that cannot be framed. False when there is no record behind it, or none at all. */
static bool find_stretch(struct shard_walk *walk, uint64_t *bytes_out, int *rc_out)
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

/* Where a compressed shard is broken before `end`, that is why no record is found from the piece on: damaged data
 * give wrong bytes before it shows. */
static bool tell_break(const struct shard_walk *walk, struct piece *piece, uint64_t end)
{
    char text[BREAK_TEXT_BYTES];
    if (shard_source_find_break(walk->source, piece->offset, text, sizeof(text)) >= end)
        return false;
    piece->problem.has_crcs = false;
    snprintf(piece->problem.text, sizeof(piece->problem.text), "%s", text);
    return true;
}

/* The byte that stands for a break is none that records are missing in. */
static void tell_stretch(const struct shard_walk *walk, struct piece *piece, uint64_t bytes)
{
    char text[80];
    if (tell_break(walk, piece, walk->offset + bytes) && bytes == 1)
        return;
    snprintf(text, sizeof(text), ": no record was found in %" PRIu64 " bytes", bytes);
    problem_add(&piece->problem, text);
}

/* Step over what cannot be framed. */
static int pass_damage(struct shard_walk *walk, struct piece *piece)
{
    uint64_t bytes;
    int rc;
    if (find_stretch(walk, &bytes, &rc)) {
        tell_stretch(walk, piece, bytes);
        walk->offset += bytes;
        return -EBADMSG;
    }
    (void)tell_break(walk, piece, UINT64_MAX);
    walk->is_over = true;
    return rc == -ENOMEM || rc == -ECANCELED ? rc : -EBADMSG;
}

/* The piece begins with a frame that is not right. */
static int meet_damage(struct shard_walk *walk, struct piece *piece, enum tfrecord_check check,
                       const struct tfrecord_problem *problem)
{
    record_problem_set(&piece->problem, check, problem);
    const char *const kind = piece->offset > 0 ? NULL : shard_kind_text(piece->bytes, piece->filled);
    const int rc = pass_damage(walk, piece);
    if (kind != NULL && walk->is_over) {
        problem_add(&piece->problem, ": not a TFRecord shard: ");
        problem_add(&piece->problem, kind);
    }
    return rc;
}

static int meet_unreadable(struct shard_walk *walk, struct piece *piece, int rc)
{
    if (rc == -ENOMEM || rc == -ECANCELED)
        return rc;
    piece->problem.has_crcs = false;
    snprintf(piece->problem.text, sizeof(piece->problem.text), "cannot be read: %s", strerror(-rc));
    walk->is_over = true;
    return -EBADMSG;
}

/* Fill the piece with whole records: 0, or why no more could be added, as take_frame says it. */
static int gather(struct shard_walk *walk, struct piece *piece, struct tfrecord_problem *problem)
{
    int rc = fill(walk, piece, PIECE_BYTES);
    while (rc == 0 && piece->whole_bytes < piece->filled) {
        size_t bytes;
        rc = take_frame(walk, piece, &bytes, problem);
        if (rc == 0) {
            piece->whole_bytes += bytes;
            walk->record++;
        }
    }
    return rc;
}

int shard_walk_next(struct shard_walk *walk, struct piece *piece)
{
    struct tfrecord_problem problem;
    if (walk->is_unwanted != NULL && atomic_load(walk->is_unwanted))
        return -ECANCELED;
    piece->offset = walk->offset;
    piece->record = walk->record;
    piece->filled = piece->whole_bytes = 0;
    piece->is_end = walk->is_over;
    const int rc = gather(walk, piece, &problem);
    walk->offset += piece->whole_bytes;
    if (piece->whole_bytes > 0)
        return 0;
    if (rc < 0)
        return meet_unreadable(walk, piece, rc);
    return piece->filled == 0 ? -ENODATA : meet_damage(walk, piece, (enum tfrecord_check)rc, &problem);
}

void shard_walk_release(struct shard_walk *walk)
{
    shard_index_release(&walk->index);
}

bool piece_next(const struct piece *piece, struct piece_record *record)
{
    const uint8_t *at = piece->bytes;
    if (record->payload == NULL)
        *record = (struct piece_record){ .record = piece->record };
    else {
        at = record->payload + record->payload_bytes + TFRECORD_FOOTER_BYTES;
        record->record++;
    }
    if (at == piece->bytes + piece->whole_bytes || piece->whole_bytes == 0)
        return false;
    record->offset = piece->offset + (uint64_t)(at - piece->bytes);
    record->payload = at + TFRECORD_HEADER_BYTES;
    record->payload_bytes = (size_t)tfrecord_payload_bytes(at);
    return true;
}

/* How the frame compares with what a second read gives, which goes to `spare`. */
static const char *second_text(const struct piece_record *record, struct shard_source *source, uint8_t *spare)
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

bool piece_record_verify(const struct piece_record *record, struct shard_source *source,
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

void piece_release(struct piece *piece)
{
    free(piece->bytes);
    *piece = (struct piece){ 0 };
}
