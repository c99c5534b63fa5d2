/* gzip by zlib, whose output does not depend on what the processor can do as that of ISA-L does. Called by
 * the converters; any thread. */
#include "formats/gzip_write.h"

#include <assert.h>
#include <errno.h>
#include <zlib.h>

/* 15 bits of window; +16 is gzip. */
#define WINDOW_BITS_GZIP (15 + 16)
#define MEMORY_LEVEL 8
/* By which a gzip header and trailer may be longer than those of zlib, that compressBound knows. */
#define WRAPPER_BYTES 32u
#define BYTES_MAX ((size_t)1 << 31)

size_t gzip_write_bound(size_t bytes)
{
    return bytes <= BYTES_MAX ? compressBound(bytes) + WRAPPER_BYTES : SIZE_MAX;
}

int gzip_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes)
{
    const size_t bound = gzip_write_bound(bytes);
    if (bound == SIZE_MAX)
        return -EFBIG;
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)data,
        .avail_in = (uInt)bytes,
        .next_out = out,
        .avail_out = (uInt)bound,
    };
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_BITS_GZIP, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return -ENOMEM;
    const int status = deflate(&stream, Z_FINISH);
    *out_bytes = bound - stream.avail_out;
    deflateEnd(&stream);
    assert(status == Z_STREAM_END);
    (void)status;
    return 0;
}
