/* Streams that decompress shards in forward direction, and a map for each shard: points at which decompression can
 * begin, breaks, and the end. At damaged compressed data the stream has a break: the output before it is followed by
 * one placeholder byte and then by the next unit (gzip member, LZ4 frame) whose data begins with a valid record
 * header. */
#ifndef PIPETRAIN_PACKED_STREAM_H
#define PIPETRAIN_PACKED_STREAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/unpacker.h"
#include "loader/shards/shard_source.h"

#define PACKED_NOWHERE UINT64_MAX

/* A point at which decompression can begin. */
struct packed_point {
    uint64_t in, out;           /* offset of the next byte in the file, and in the stream */
    uint64_t unit, unit_out;    /* offset of the unit's beginning in the file, and in the stream */
    const struct inflater *saved;       /* state of the decompressor; NULL: a unit begins here. Constant */
};

struct packed_break {
    uint64_t out;               /* offset of the placeholder byte in the stream */
    uint64_t unit_out;          /* offset of the damaged unit's beginning in the stream */
    uint64_t in;                /* approximate offset of the damage in the file */
    uint64_t next;              /* offset of the next unit in the file; PACKED_NOWHERE: the stream ends */
    uint64_t foreign_bytes;     /* if not 0: number of bytes after the last unit, from foreign_from on, that are not
                                 * compressed data */
    uint64_t foreign_from;
    const char *problem;
};

/* The points in a compressed shard where decompression can begin, and its breaks. The first thread that reads a part of
 * the shard adds those in that part; all threads use them. */
struct packed_map {
    pthread_mutex_t lock;
    struct packed_point *points;        /* sorted by offset (in the file and in the stream) */
    size_t point_count, point_room;
    struct inflater *states;    /* states of points, in order */
    size_t state_count, state_room;
    struct packed_break *breaks;        /* sorted by `out` */
    size_t break_count;
    uint64_t end;               /* end of the stream; PACKED_NOWHERE until a thread reaches it */
};

/* Initialise the map of a file of this size, and allocate all its memory except that for breaks: about 3 % of the file
 * if decompression can begin only at saved states, with a limit for all maps together. 0 or -ENOMEM. */
int packed_map_init(struct packed_map *map, uint64_t file_bytes, bool has_states);
void packed_map_release(struct packed_map *map);
/* The host memory of the map. */
size_t packed_map_bytes(const struct packed_map *map);
/* Find the first known break at or after `out`; false if there is none. */
bool packed_map_next_break(struct packed_map *map, uint64_t out, struct packed_break *break_out);
uint64_t packed_map_end(struct packed_map *map);

#define PACKED_IN_BYTES ((size_t)64 << 10)
#define PACKED_OUT_BYTES ((size_t)128 << 10)

/* A compressed shard. */
struct packed_file {
    struct shard_source *kept;  /* source of the compressed file */
    enum container container;
    struct packed_map map;
};

/* Used by one thread at a time. */
struct packed_stream {
    struct packed_file *file;   /* NULL: the stream has no position */
    bool is_afresh;             /* bypass caches, and do not change the map */
    struct unpacker unpacker;
    uint64_t unit, unit_out;    /* offset of the current unit's beginning in the file, and in the stream */
    bool is_in_unit, has_ended;
    uint64_t in_offset;         /* offset of the input buffer in the file */
    size_t in_at, in_bytes;     /* number of used bytes, and of all bytes, in the input buffer */
    uint64_t detour_bytes;      /* bytes decompressed only to reach the wanted offset, since the stream was last
                                 * moved */
    uint64_t out_offset;        /* offset of the output buffer in the stream */
    size_t out_bytes;
    uint8_t in[PACKED_IN_BYTES], out[PACKED_OUT_BYTES];
};

/* 0 or -ENOMEM. */
int packed_stream_init(struct packed_stream *stream);
/* Accepts a struct of zeros. */
void packed_stream_release(struct packed_stream *stream);
/* Move to the nearest known point before `offset` in the file's stream, unless the current position is nearer. */
void packed_stream_seat(struct packed_stream *stream, struct packed_file *file, uint64_t offset);
/* As packed_stream_seat, but discard all buffers, and bypass caches until packed_stream_leave. */
void packed_stream_seat_afresh(struct packed_stream *stream, struct packed_file *file, uint64_t offset);
void packed_stream_leave(struct packed_stream *stream);
/* Read up to `bytes` at `offset`, which must not be before the output buffer. Returns the number of bytes, 0 at the end
 * of the stream, or a negative errno; after an error the stream has no position. */
ssize_t packed_stream_read(struct packed_stream *stream, uint8_t *buffer, size_t bytes, uint64_t offset);

#endif
