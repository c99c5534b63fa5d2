/* Whole compressed files in memory, by zlib. Called by the converters. */
#include "formats/gunzip.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

/* 15 bits of window; +32 lets zlib see by itself whether it is gzip or zlib. */
#define WINDOW_BITS_ANY (15 + 32)

/* The block grown so far, and the input still to come. */
struct inflation {
    z_stream stream;
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes, room, limit;
};

bool gunzip_is_gzip(const uint8_t *data, size_t bytes)
{
    return bytes >= 3 && data[0] == 0x1f && data[1] == 0x8b && data[2] == 0x08;
}

/* One byte beyond the limit is allowed for, so that going over it is seen. */
static int grow(struct inflation *i)
{
    const size_t most = i->limit + 1;
    size_t room = i->room < 65536 ? 65536 : i->room * 2;

    if (room > most)
        room = most;
    if (room == i->room)
        return -EFBIG;
    uint8_t *out = realloc(i->out, room);
    if (out == NULL)
        return -ENOMEM;
    i->out = out;
    i->room = room;
    return 0;
}

/* One call of inflate on as much as its 32-bit counts take. */
static int inflate_some(struct inflation *i)
{
    const size_t out_room = i->room - i->out_bytes;
    const uInt in_now = i->in_bytes > UINT_MAX ? UINT_MAX : (uInt)i->in_bytes;
    const uInt out_now = out_room > UINT_MAX ? UINT_MAX : (uInt)out_room;

    i->stream.next_in = (Bytef *)(uintptr_t)i->in;
    i->stream.avail_in = in_now;
    i->stream.next_out = i->out + i->out_bytes;
    i->stream.avail_out = out_now;
    const int status = inflate(&i->stream, Z_NO_FLUSH);
    i->in += in_now - i->stream.avail_in;
    i->in_bytes -= in_now - i->stream.avail_in;
    i->out_bytes += out_now - i->stream.avail_out;
    return status;
}

/* Inflate one member or zlib stream to its end mark. */
static int inflate_member(struct inflation *i)
{
    for (;;) {
        if (i->out_bytes == i->room) {
            const int rc = grow(i);
            if (rc < 0)
                return rc;
        }
        const size_t in_before = i->in_bytes, out_before = i->out_bytes;
        const int status = inflate_some(i);
        if (status == Z_STREAM_END)
            return 0;
        if (status == Z_MEM_ERROR)
            return -ENOMEM;
        if (status != Z_OK && status != Z_BUF_ERROR)
            return -EBADMSG;
        if (in_before == i->in_bytes && out_before == i->out_bytes)
            return -EBADMSG;    /* cut: there is room, but no more input */
    }
}

static int inflate_all(struct inflation *i)
{
    for (;;) {
        const int rc = inflate_member(i);
        if (rc < 0)
            return rc;
        if (i->out_bytes > i->limit)
            return -EFBIG;
        if (i->in_bytes == 0)
            return 0;
        if (inflateReset(&i->stream) != Z_OK)
            return -EBADMSG;
    }
}

int gunzip(const uint8_t *data, size_t bytes, size_t limit_bytes, uint8_t **out, size_t *bytes_out)
{
    struct inflation inflation = {
        .in = data, .in_bytes = bytes,
        .limit = limit_bytes < SIZE_MAX ? limit_bytes : SIZE_MAX - 1,
    };

    if (inflateInit2(&inflation.stream, WINDOW_BITS_ANY) != Z_OK)
        return -ENOMEM;
    const int rc = inflate_all(&inflation);
    inflateEnd(&inflation.stream);
    if (rc < 0) {
        free(inflation.out);
        return rc;
    }
    *out = inflation.out;
    *bytes_out = inflation.out_bytes;
    return 0;
}
