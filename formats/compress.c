/* Compression with gzip and LZ4, called by the converters; any thread. gzip is written by zlib, because ISA-L's output
 * depends on the processor. */
#include "formats/compress.h"

#include <assert.h>
#include <errno.h>
#include <lz4frame.h>
#include <zlib.h>

#define BYTES_MAX ((size_t)1 << 31)
/* 15 bits of window; adding 16 selects gzip */
#define WINDOW_BITS_GZIP (15 + 16)
#define MEMORY_LEVEL 8
/* How much longer a gzip header and trailer may be than the zlib header and trailer that compressBound counts. */
#define WRAPPER_BYTES 32u

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

static LZ4F_preferences_t preferences_of(size_t bytes)
{
    return (LZ4F_preferences_t){
        .frameInfo = {
            .blockSizeID = LZ4F_max64KB,
            .blockMode = LZ4F_blockIndependent,
            .contentChecksumFlag = LZ4F_contentChecksumEnabled,
            .contentSize = bytes,
            .blockChecksumFlag = LZ4F_blockChecksumEnabled,
        },
    };
}

size_t lz4_frame_bound(size_t bytes)
{
    const LZ4F_preferences_t preferences = preferences_of(bytes);
    return bytes <= BYTES_MAX ? LZ4F_compressFrameBound(bytes, &preferences) : SIZE_MAX;
}

int lz4_frame_write(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes)
{
    const size_t bound = lz4_frame_bound(bytes);
    if (bound == SIZE_MAX)
        return -EFBIG;
    const LZ4F_preferences_t preferences = preferences_of(bytes);
    const size_t written = LZ4F_compressFrame(out, bound, data, bytes, &preferences);
    if (LZ4F_isError(written))
        return -ENOMEM;
    *out_bytes = written;
    return 0;
}
