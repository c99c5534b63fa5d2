/* Compressed shards for tests. */
#include "tests/helpers/packed_fixture.h"

#include <lz4frame.h>
#include <string.h>
#include <zlib.h>

#include "formats/compress.h"
#include "tests/helpers/test.h"

static const uint8_t skippable[] = { 0x53, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 0x04, 0x22, 0x4d, 0x18 };

size_t packed_fixture_room(size_t bytes, size_t pieces)
{
    return gzip_write_bound(bytes) + lz4_frame_bound(bytes) + pieces * 1000 + 1000;
}

static size_t write_zlib(const uint8_t *data, const size_t *ends, size_t pieces, uint8_t *out)
{
    const uInt room = (uInt)packed_fixture_room(ends[pieces - 1], pieces);
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)data, .next_out = out, .avail_out = room };
    assert_int_equal(deflateInit(&stream, Z_DEFAULT_COMPRESSION), Z_OK);
    for (size_t i = 0; i < pieces; i++) {
        stream.avail_in = (uInt)(ends[i] - (i > 0 ? ends[i - 1] : 0));
        (void)deflate(&stream, i + 1 < pieces ? Z_FULL_FLUSH : Z_FINISH);
    }
    deflateEnd(&stream);
    return room - stream.avail_out;
}

static size_t write_lz4_linked(const uint8_t *data, size_t bytes, uint8_t *out)
{
    const LZ4F_preferences_t preferences = { .frameInfo = { .blockSizeID = LZ4F_max256KB } };
    const size_t bound = LZ4F_compressFrameBound(bytes, &preferences);
    const size_t written = LZ4F_compressFrame(out, bound, data, bytes, &preferences);
    assert_false(LZ4F_isError(written));
    return written;
}

static size_t write_piece(enum packed_way way, const uint8_t *data, size_t bytes, uint8_t *out)
{
    size_t before = 0, written = 0;
    if (way == PACKED_GZIP) {
        assert_int_equal(gzip_write(data, bytes, out, &written), 0);
        return written;
    }
    if (way == PACKED_LZ4_SKIPPABLE) {
        memcpy(out, skippable, sizeof(skippable));
        before = sizeof(skippable);
    }
    assert_int_equal(lz4_frame_write(data, bytes, out + before, &written), 0);
    return before + written;
}

size_t packed_fixture(enum packed_way way, const uint8_t *data, const size_t *ends, size_t pieces, uint8_t *out)
{
    size_t written = 0, begin = 0;
    if (way == PACKED_ZLIB)
        return write_zlib(data, ends, pieces, out);
    if (way == PACKED_LZ4_LINKED)
        return write_lz4_linked(data, ends[pieces - 1], out);
    for (size_t i = 0; i < pieces; begin = ends[i++])
        written += write_piece(way, data + begin, ends[i] - begin, out + written);
    return written;
}
