/* Going through a compressed shard. Called by the thread that has taken the stream from the pool. */
#include "loader/packed/packed_stream.h"

#include <errno.h>
#include <string.h>

#include "formats/tfrecord.h"

int packed_stream_init(struct packed_stream *stream)
{
    stream->file = NULL;
    stream->is_afresh = false;
    return unpacker_init(&stream->unpacker);
}

void packed_stream_release(struct packed_stream *stream)
{
    unpacker_release(&stream->unpacker);
}

static uint64_t in_position(const struct packed_stream *stream)
{
    return stream->in_offset + stream->in_at;
}

static uint64_t out_end(const struct packed_stream *stream)
{
    return stream->out_offset + stream->out_bytes;
}

/* The next byte taken of the file is that at `offset`. */
static void move_in(struct packed_stream *stream, uint64_t offset)
{
    const bool is_held = offset >= stream->in_offset && offset - stream->in_offset <= stream->in_bytes;
    stream->in_at = is_held ? (size_t)(offset - stream->in_offset) : 0;
    if (is_held)
        return;
    stream->in_offset = offset;
    stream->in_bytes = 0;
}

static ssize_t fetch(const struct packed_stream *stream, void *buffer, size_t bytes, uint64_t offset)
{
    struct shard_source *const kept = stream->file->kept;
    return stream->is_afresh ? shard_source_read_afresh(kept, buffer, bytes, offset)
                             : shard_source_read(kept, buffer, bytes, offset);
}

/* Have input, unless the file ends here. 0 or a negative errno. */
static int have_input(struct packed_stream *stream)
{
    if (stream->in_at < stream->in_bytes)
        return 0;
    const uint64_t offset = in_position(stream);
    const ssize_t got = fetch(stream, stream->in, PACKED_IN_BYTES, offset);
    stream->in_offset = offset;
    stream->in_at = 0;
    stream->in_bytes = got > 0 ? (size_t)got : 0;
    return got < 0 ? (int)got : 0;
}

static void begin_unit(struct packed_stream *stream)
{
    stream->unit = in_position(stream);
    stream->unit_out = out_end(stream);
    stream->is_in_unit = true;
    unpacker_begin(&stream->unpacker, stream->file->container);
}

/* Unpack from the input held to `out`, the bytes given. */
static enum unpack unpack(struct packed_stream *stream, uint8_t *out, size_t room, size_t *given_out)
{
    const size_t held = stream->in_bytes - stream->in_at;
    struct unpack_piece piece = { stream->in + stream->in_at, held, out, room };
    const enum unpack result = unpacker_step(&stream->unpacker, &piece);
    stream->in_at += held - piece.in_bytes;
    *given_out = room - piece.out_bytes;
    return result;
}

/* Units are looked for by their first bytes: where the next one may begin, or how much of the input shows that
 * none does. */
static size_t find_magic(const struct packed_stream *stream, size_t bytes)
{
    size_t at = 0;
    while (at + CONTAINER_MAGIC_BYTES <= bytes && !container_may_begin(stream->file->container, stream->in + at))
        at++;
    return at;
}

/* 1 when a unit begins at `offset` with a right header of a record, 0 when not, or a negative errno. */
static int unit_is_right(struct packed_stream *stream, uint64_t offset)
{
    uint8_t head[TFRECORD_HEADER_BYTES];
    size_t have = 0, given = 1, taken = 1;
    enum unpack result = UNPACK_WAITS;
    move_in(stream, offset);
    begin_unit(stream);
    while (have < sizeof(head) && result == UNPACK_WAITS && given + taken > 0) {
        const int rc = have_input(stream);
        if (rc < 0)
            return rc;
        const uint64_t before = in_position(stream);
        result = unpack(stream, head + have, sizeof(head) - have, &given);
        taken = (size_t)(in_position(stream) - before);
        have += given;
    }
    uint64_t payload_bytes;
    struct tfrecord_problem problem;
    return have == sizeof(head) && tfrecord_header(head, &payload_bytes, &problem) == TFRECORD_OK;
}

/* The first unit from `offset` on, or PACKED_NOWHERE. */
static int find_unit(struct packed_stream *stream, uint64_t offset, uint64_t *unit_out)
{
    *unit_out = PACKED_NOWHERE;
    for (;;) {
        const ssize_t got = fetch(stream, stream->in, PACKED_IN_BYTES, offset);
        stream->in_offset = offset;
        stream->in_at = 0;
        stream->in_bytes = got > 0 ? (size_t)got : 0;
        if (got < (ssize_t)CONTAINER_MAGIC_BYTES)
            return got < 0 ? (int)got : 0;
        const size_t skipped = find_magic(stream, stream->in_bytes);
        offset += skipped;
        if (skipped + CONTAINER_MAGIC_BYTES > (size_t)got)
            continue;
        const int is_right = unit_is_right(stream, offset);
        if (is_right != 0) {
            *unit_out = offset;
            return is_right < 0 ? is_right : 0;
        }
        offset++;
    }
}

/* Whether what follows a unit that ended, to the end of the file, begins no other. One that is cut short begins as
 * the first one does. 1, 0 or a negative errno. */
static int is_foreign(const struct packed_stream *stream)
{
    uint8_t magic[CONTAINER_MAGIC_BYTES];
    ssize_t got = fetch(stream, magic, sizeof(magic), 0);
    if (got > 0)
        got = fetch(stream, magic, sizeof(magic), stream->unit);
    return got < 0 ? (int)got : !container_may_begin(stream->file->container, magic);
}

/* How many bytes are foreign behind damage behind which no unit is found. 0 or a negative errno. */
static int count_foreign(const struct packed_stream *stream, struct packed_break *found)
{
    uint64_t bytes;
    int rc = stream->unit > 0 && found->next == PACKED_NOWHERE ? is_foreign(stream) : 0;
    if (rc <= 0)
        return rc;
    rc = shard_source_size(stream->file->kept, &bytes);
    if (rc == 0 && bytes > stream->unit) {
        found->foreign_from = stream->unit;
        found->foreign_bytes = bytes - stream->unit;
    }
    return rc;
}

/* The unit is damaged behind what is held. Whatever it said about its length is not believed: the next one
 * is looked for from its beginning. 1 or a negative errno. */
static int break_stream(struct packed_stream *stream, const char *problem)
{
    struct packed_break found = {
        .out = out_end(stream), .unit_out = stream->unit_out, .in = in_position(stream), .problem = problem };
    if (stream->is_afresh)
        return -EBADMSG;
    int rc = find_unit(stream, stream->unit + 1, &found.next);
    if (rc == 0)
        rc = count_foreign(stream, &found);
    if (rc == 0)
        rc = packed_map_add_break(&stream->file->map, &found);
    return rc < 0 ? rc : 1;
}

/* The byte that means nothing, and on to the next unit. */
static int pass_break(struct packed_stream *stream, const struct packed_break *known)
{
    stream->out[0] = 0;
    stream->out_bytes = 1;
    stream->is_in_unit = false;
    stream->has_ended = known->next == PACKED_NOWHERE;
    if (!stream->has_ended)
        move_in(stream, known->next);
    return 1;
}

static int end_stream(struct packed_stream *stream)
{
    stream->has_ended = true;
    packed_map_set_end(&stream->file->map, stream->out_offset);
    return 0;
}

/* So that others can begin here, where they could. */
static void offer_point(const struct packed_stream *stream)
{
    const struct packed_point point = {
        .in = in_position(stream),
        .out = stream->out_offset,
        .unit = stream->is_in_unit ? stream->unit : in_position(stream),
        .unit_out = stream->is_in_unit ? stream->unit_out : stream->out_offset,
        .saved = stream->is_in_unit ? unpacker_save(&stream->unpacker) : NULL,
    };
    if (!stream->is_afresh && (!stream->is_in_unit || point.saved != NULL))
        packed_map_offer(&stream->file->map, &point);
}

/* Unpack into the room that is left before what is known to be a break, and see what came of it. */
static int unpack_held(struct packed_stream *stream, size_t room, const struct packed_break *known)
{
    const uint64_t before = in_position(stream);
    const enum unpack result = unpack(stream, stream->out, room, &stream->out_bytes);
    const char *problem = stream->unpacker.problem;
    if (result == UNPACK_ENDED) {
        stream->is_in_unit = false;
        move_in(stream, in_position(stream) - unpacker_unread(&stream->unpacker));
        return 1;
    }
    if (result == UNPACK_WAITS && (stream->out_bytes > 0 || in_position(stream) > before))
        return 1;
    if (result == UNPACK_WAITS)
        problem = "the compressed stream is truncated";
    if (known == NULL)
        return break_stream(stream, problem);
    memset(stream->out + stream->out_bytes, 0, room - stream->out_bytes);
    stream->out_bytes = room;
    return 1;
}

/* Hold what comes next in the stream. 1, 0 at its end, or a negative errno. A break that is known is kept to: what
 * damaged data give before it shows may depend on where reading began. */
static int advance(struct packed_stream *stream)
{
    struct packed_break known;
    stream->out_offset += stream->out_bytes;
    stream->out_bytes = 0;
    if (stream->has_ended)
        return end_stream(stream);
    const bool is_known = packed_map_next_break(&stream->file->map, stream->out_offset, &known);
    const uint64_t left = is_known ? known.out - stream->out_offset : PACKED_OUT_BYTES;
    if (left == 0)
        return pass_break(stream, &known);
    offer_point(stream);
    const int rc = have_input(stream);
    if (rc < 0)
        return rc;
    if (!stream->is_in_unit && stream->in_bytes == 0)
        return end_stream(stream);
    if (!stream->is_in_unit)
        begin_unit(stream);
    return unpack_held(stream, left < PACKED_OUT_BYTES ? (size_t)left : PACKED_OUT_BYTES, is_known ? &known : NULL);
}

static void stand_at(struct packed_stream *stream, const struct packed_point *point)
{
    stream->unit = point->unit;
    stream->unit_out = point->unit_out;
    stream->is_in_unit = point->saved != NULL;
    stream->has_ended = false;
    stream->in_offset = point->in;
    stream->in_at = stream->in_bytes = 0;
    stream->out_offset = point->out;
    stream->out_bytes = 0;
    if (point->saved != NULL)
        unpacker_restore(&stream->unpacker, stream->file->container, point->saved);
}

void packed_stream_seat(struct packed_stream *stream, struct packed_file *file, uint64_t offset)
{
    const struct packed_point point = packed_map_find(&file->map, offset);
    const bool stays = stream->file == file && stream->out_offset <= offset && out_end(stream) >= point.out;
    stream->file = file;
    stream->detour_bytes = stays ? 0 : offset - point.out;
    if (!stays)
        stand_at(stream, &point);
}

void packed_stream_seat_afresh(struct packed_stream *stream, struct packed_file *file, uint64_t offset)
{
    packed_stream_leave(stream);
    packed_stream_seat(stream, file, offset);
    stream->is_afresh = true;
}

void packed_stream_leave(struct packed_stream *stream)
{
    stream->file = NULL;
    stream->is_afresh = false;
}

ssize_t packed_stream_read(struct packed_stream *stream, uint8_t *buffer, size_t bytes, uint64_t offset)
{
    int rc = 1;
    while (rc > 0 && offset >= out_end(stream))
        rc = advance(stream);
    if (rc < 0)
        stream->file = NULL;
    if (rc <= 0)
        return rc;
    const size_t at = (size_t)(offset - stream->out_offset), held = stream->out_bytes - at;
    const size_t given = bytes < held ? bytes : held;
    memcpy(buffer, stream->out + at, given);
    return (ssize_t)given;
}
