/* Decompressing shards and building their maps. Called by the thread that has taken the stream from the pool. */
#include "loader/shards/packed_stream.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"

/* ---- the map of a shard ---- */

/* Minimum distance, in bytes of the file, between points at the beginnings of units. */
#define POINT_SPACING ((uint64_t)16 << 10)
/* Minimum distance between points with a saved state; a state has 88 KB. */
#define STATE_SPACING ((uint64_t)3 << 20)
/* Memory for the saved states of all maps, enough for 4 GiB of files. Shards that get no states are read from the
 * beginning of a unit. */
#define STATES_BYTES_MAX ((size_t)128 << 20)
/* After this many breaks, the rest of the shard is skipped. */
#define BREAKS_MAX 4096u

static atomic_size_t states_reserved;

/* Reserve as many of the wanted states as are available. */
static size_t reserve_states(size_t wanted)
{
    const size_t most = STATES_BYTES_MAX / sizeof(struct inflater);
    size_t before = atomic_load(&states_reserved), given;
    do
        given = wanted < most - before ? wanted : most - before;
    while (!atomic_compare_exchange_weak(&states_reserved, &before, before + given));
    return given;
}

int packed_map_init(struct packed_map *map, uint64_t file_bytes, bool has_states)
{
    *map = (struct packed_map){
        .point_count = 1,
        .point_room = file_bytes / POINT_SPACING + 2,
        .state_room = has_states ? reserve_states(file_bytes / STATE_SPACING) : 0,
        .end = PACKED_NOWHERE,
    };
    pthread_mutex_init(&map->lock, NULL);
    map->points = calloc(map->point_room, sizeof(*map->points));
    map->states = map->state_room > 0 ? malloc(map->state_room * sizeof(*map->states)) : NULL;
    if (map->points != NULL && (map->states != NULL || map->state_room == 0))
        return 0;
    packed_map_release(map);
    return -ENOMEM;
}

void packed_map_release(struct packed_map *map)
{
    atomic_fetch_sub(&states_reserved, map->state_room);
    pthread_mutex_destroy(&map->lock);
    free(map->points);
    free(map->states);
    free(map->breaks);
}

size_t packed_map_bytes(const struct packed_map *map)
{
    return map->point_room * sizeof(*map->points) + map->state_room * sizeof(*map->states);
}

/* Should the point be added? Wanted are points at units and, inside long units, as many points as there is memory for
 * states. */
static bool is_wanted_locked(const struct packed_map *map, const struct packed_point *point)
{
    const uint64_t last = map->points[map->point_count - 1].in;
    const uint64_t spacing = point->saved != NULL ? STATE_SPACING : POINT_SPACING;
    return point->in >= last + spacing && map->point_count < map->point_room &&
           (point->saved == NULL || map->state_count < map->state_room);
}

static void packed_map_offer(struct packed_map *map, const struct packed_point *point)
{
    pthread_mutex_lock(&map->lock);
    if (is_wanted_locked(map, point)) {
        struct packed_point kept = *point;
        if (point->saved != NULL) {
            struct inflater *const state = &map->states[map->state_count++];
            *state = *point->saved;
            kept.saved = state;
        }
        map->points[map->point_count++] = kept;
    }
    pthread_mutex_unlock(&map->lock);
}

static struct packed_point packed_map_find(struct packed_map *map, uint64_t out)
{
    pthread_mutex_lock(&map->lock);
    size_t low = 0, high = map->point_count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (map->points[middle].out <= out)
            low = middle;
        else
            high = middle;
    }
    const struct packed_point point = map->points[low];
    pthread_mutex_unlock(&map->lock);
    return point;
}

static bool next_break_locked(const struct packed_map *map, uint64_t out, struct packed_break *break_out)
{
    size_t low = 0, high = map->break_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (map->breaks[middle].out < out)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == map->break_count)
        return false;
    *break_out = map->breaks[low];
    return true;
}

bool packed_map_next_break(struct packed_map *map, uint64_t out, struct packed_break *break_out)
{
    pthread_mutex_lock(&map->lock);
    const bool is_there = next_break_locked(map, out, break_out);
    pthread_mutex_unlock(&map->lock);
    return is_there;
}

/* Add a break, unless another thread has already added it. */
static int add_break_locked(struct packed_map *map, const struct packed_break *found)
{
    if (map->break_count > 0 && map->breaks[map->break_count - 1].out >= found->out)
        return 0;
    struct packed_break *const grown = realloc(map->breaks, (map->break_count + 1) * sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    map->breaks = grown;
    map->breaks[map->break_count++] = *found;
    if (map->break_count == BREAKS_MAX)
        map->breaks[BREAKS_MAX - 1].next = PACKED_NOWHERE;
    return 0;
}

static int packed_map_add_break(struct packed_map *map, const struct packed_break *found)
{
    pthread_mutex_lock(&map->lock);
    const int rc = add_break_locked(map, found);
    pthread_mutex_unlock(&map->lock);
    return rc;
}

static void packed_map_set_end(struct packed_map *map, uint64_t end)
{
    pthread_mutex_lock(&map->lock);
    map->end = end;
    pthread_mutex_unlock(&map->lock);
}

uint64_t packed_map_end(struct packed_map *map)
{
    pthread_mutex_lock(&map->lock);
    const uint64_t end = map->end;
    pthread_mutex_unlock(&map->lock);
    return end;
}

/* ---- streams ---- */

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

/* Set the position of the input to `offset` in the file. */
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

/* Read input if none is left and the file has not ended. 0 or a negative errno. */
static int need_input(struct packed_stream *stream)
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

/* Decompress from the current input to `out`. */
static enum unpack decompress(struct packed_stream *stream, uint8_t *out, size_t room, size_t *given_out)
{
    const size_t held = stream->in_bytes - stream->in_at;
    struct unpack_piece piece = { stream->in + stream->in_at, held, out, room };
    const enum unpack result = unpacker_step(&stream->unpacker, &piece);
    stream->in_at += held - piece.in_bytes;
    *given_out = room - piece.out_bytes;
    return result;
}

/* The offset in the input at which a unit may begin, judged by its first bytes; or the number of bytes searched. */
static size_t search_magic(const struct packed_stream *stream, size_t bytes)
{
    size_t at = 0;
    while (at + CONTAINER_MAGIC_BYTES <= bytes && !container_may_begin(stream->file->container, stream->in + at))
        at++;
    return at;
}

/* Returns 1 if a unit begins at `offset` whose data begins with a valid record header, 0 if not, or a negative
 * errno. */
static int unit_is_right(struct packed_stream *stream, uint64_t offset)
{
    uint8_t head[TFRECORD_HEADER_BYTES];
    size_t have = 0, given = 1, taken = 1;
    enum unpack result = UNPACK_WAITS;
    move_in(stream, offset);
    begin_unit(stream);
    while (have < sizeof(head) && result == UNPACK_WAITS && given + taken > 0) {
        const int rc = need_input(stream);
        if (rc < 0)
            return rc;
        const uint64_t before = in_position(stream);
        result = decompress(stream, head + have, sizeof(head) - have, &given);
        taken = (size_t)(in_position(stream) - before);
        have += given;
    }
    uint64_t payload_bytes;
    struct tfrecord_problem problem;
    return have == sizeof(head) && tfrecord_header(head, &payload_bytes, &problem) == TFRECORD_OK;
}

/* Find the first unit from `offset` on; PACKED_NOWHERE if there is none. */
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
        const size_t skipped = search_magic(stream, stream->in_bytes);
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

/* Are the bytes after a complete unit something else than the beginning of another unit? A truncated unit begins as a
 * whole one does. 1, 0 or a negative errno. */
static int is_foreign(const struct packed_stream *stream)
{
    uint8_t magic[CONTAINER_MAGIC_BYTES];
    ssize_t got = fetch(stream, magic, sizeof(magic), 0);
    if (got > 0)
        got = fetch(stream, magic, sizeof(magic), stream->unit);
    return got < 0 ? (int)got : !container_may_begin(stream->file->container, magic);
}

/* If no unit follows, count the foreign bytes at the end of the file. 0 or a negative errno. */
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

/* Add a break: the unit is damaged after the current output. Its length is not trusted, so the next unit is searched
 * for from the unit's beginning. 1 or a negative errno. */
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

/* Output the placeholder byte and continue at the next unit. */
static int skip_break(struct packed_stream *stream, const struct packed_break *known)
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

/* Add the current position to the map as a point, if it is wanted. */
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

/* Decompress, at most up to a known break. */
static int decompress_next(struct packed_stream *stream, size_t room, const struct packed_break *known)
{
    const uint64_t before = in_position(stream);
    const enum unpack result = decompress(stream, stream->out, room, &stream->out_bytes);
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

/* Produce the next output. Returns 1, 0 at the end of the stream, or a negative errno. A known break is final, since
 * the position at which damage is detected may depend on where decompression began. */
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
        return skip_break(stream, &known);
    offer_point(stream);
    const int rc = need_input(stream);
    if (rc < 0)
        return rc;
    if (!stream->is_in_unit && stream->in_bytes == 0)
        return end_stream(stream);
    if (!stream->is_in_unit)
        begin_unit(stream);
    return decompress_next(stream, left < PACKED_OUT_BYTES ? (size_t)left : PACKED_OUT_BYTES, is_known ? &known : NULL);
}

static void start_at(struct packed_stream *stream, const struct packed_point *point)
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
        start_at(stream, &point);
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
