/* A reader that goes forward through one compressed shard and gives its records' stream. Where the shard is
 * damaged the stream breaks off, has one byte that means nothing, and goes on with the next unit whose
 * first bytes are a right header of a record. */
#ifndef PIPETRAIN_PACKED_STREAM_H
#define PIPETRAIN_PACKED_STREAM_H

#include "formats/unpacker.h"
#include "loader/packed/packed_map.h"
#include "loader/shards/shard_source.h"

#define PACKED_IN_BYTES ((size_t)64 << 10)
#define PACKED_OUT_BYTES ((size_t)128 << 10)

/* A compressed shard as it is kept, and what is known of it. */
struct packed_file {
    struct shard_source *kept;
    enum container container;
    struct packed_map map;
};

/* Used by one thread at a time. */
struct packed_stream {
    struct packed_file *file;   /* NULL: it stands nowhere */
    bool is_afresh;             /* reads past the caches, and tells nothing of what it finds */
    struct unpacker unpacker;
    uint64_t unit, unit_out;    /* where in the file the unit begins, and in the stream */
    bool is_in_unit, has_ended;
    uint64_t in_offset;         /* in the file, of the input held */
    size_t in_at, in_bytes;     /* taken of it, and held */
    uint64_t detour_bytes;      /* from the point where it was seated last to what was wanted; 0 where it stayed */
    uint64_t out_offset;        /* in the stream, of the output held */
    size_t out_bytes;
    uint8_t in[PACKED_IN_BYTES], out[PACKED_OUT_BYTES];
};

/* 0 or -ENOMEM. */
int packed_stream_init(struct packed_stream *stream);
/* Accepts a struct of zeros. */
void packed_stream_release(struct packed_stream *stream);
/* Stand in the file so that `offset` of the stream is ahead, as near as is known; where the stream stands is
 * kept where that is nearer. */
void packed_stream_seat(struct packed_stream *stream, struct packed_file *file, uint64_t offset);
/* The same without what is held, to read past the caches until it leaves. */
void packed_stream_seat_afresh(struct packed_stream *stream, struct packed_file *file, uint64_t offset);
/* Stand nowhere. */
void packed_stream_leave(struct packed_stream *stream);
/* Read from `offset`, which is held or ahead, up to `bytes`, going there. The bytes read, 0 at the stream's end,
 * or a negative errno, after which the stream stands nowhere. */
ssize_t packed_stream_read(struct packed_stream *stream, uint8_t *buffer, size_t bytes, uint64_t offset);

#endif
