/* What is written compressed: other readers of the format give it back, equal data are equal bytes, and
 * nothing is longer than was said. */
#include <errno.h>
#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "formats/compress.h"
#include "tests/helpers/test.h"

enum { WRITERS = 2, DATA_BYTES = 300000 };

static uint8_t data[DATA_BYTES];

/* A frame read by liblz4 alone. */
static int lz4_read(const uint8_t *packed, size_t bytes, size_t limit_bytes, uint8_t **out, size_t *out_bytes)
{
    LZ4F_dctx *context;
    assert_false(LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)));
    *out = malloc(limit_bytes + 1);
    *out_bytes = 0;
    size_t hint = 1;
    while (hint > 0 && !LZ4F_isError(hint) && bytes > 0) {
        size_t given = limit_bytes + 1 - *out_bytes, taken = bytes;
        hint = LZ4F_decompress(context, *out + *out_bytes, &given, packed, &taken, NULL);
        *out_bytes += given;
        packed += taken;
        bytes -= taken;
    }
    LZ4F_freeDecompressionContext(context);
    return hint == 0 && bytes == 0 ? 0 : -EBADMSG;
}

/* Inflate by zlib itself; the same for gzip. */
static int gzip_read(const uint8_t *packed, size_t bytes, size_t limit_bytes, uint8_t **out, size_t *out_bytes)
{
    z_stream stream = { .next_in = (Bytef *)(uintptr_t)packed, .avail_in = (uInt)bytes };
    *out = malloc(limit_bytes + 1);
    assert_non_null(*out);
    assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
    stream.next_out = *out;
    stream.avail_out = (uInt)limit_bytes + 1;
    const int status = inflate(&stream, Z_FINISH);
    *out_bytes = stream.total_out;
    inflateEnd(&stream);
    return status == Z_STREAM_END && stream.avail_in == 0 ? 0 : -EBADMSG;
}

static const struct writer {
    size_t (*bound)(size_t bytes);
    int (*write)(const uint8_t *data, size_t bytes, uint8_t *out, size_t *out_bytes);
    int (*read)(const uint8_t *packed, size_t bytes, size_t limit_bytes, uint8_t **out, size_t *out_bytes);
} writers[WRITERS] = {
    { gzip_write_bound, gzip_write, gzip_read },
    { lz4_frame_bound, lz4_frame_write, lz4_read },
};

/* Random bytes do not shrink, others do. */
static void make_data(int is_random)
{
    uint32_t state = 1;
    for (size_t i = 0; i < DATA_BYTES; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = is_random ? (uint8_t)(state >> 24) : (uint8_t)(i / 100);
    }
}

static size_t write_to(const struct writer *writer, size_t bytes, uint8_t **packed_out)
{
    const size_t bound = writer->bound(bytes);
    size_t packed_bytes = 0;
    *packed_out = malloc(bound);
    assert_non_null(*packed_out);
    assert_int_equal(writer->write(data, bytes, *packed_out, &packed_bytes), 0);
    assert_true(packed_bytes > 0 && packed_bytes <= bound);
    return packed_bytes;
}

static void check(const struct writer *writer, size_t bytes)
{
    uint8_t *packed, *again, *back;
    size_t back_bytes;
    const size_t packed_bytes = write_to(writer, bytes, &packed);
    assert_int_equal(write_to(writer, bytes, &again), packed_bytes);
    assert_memory_equal(packed, again, packed_bytes);
    assert_int_equal(writer->read(packed, packed_bytes, bytes, &back, &back_bytes), 0);
    assert_int_equal(back_bytes, bytes);
    assert_memory_equal(back, data, bytes);
    free(packed);
    free(again);
    free(back);
}

TEST(gives_back_any_data_and_equal_bytes_for_equal_data)
{
    static const size_t sizes[] = { 1, 2, 100, 65535, 65536, 65537, DATA_BYTES };
    for (int is_random = 0; is_random < 2; is_random++) {
        make_data(is_random);
        for (size_t i = 0; i < WRITERS * sizeof(sizes) / sizeof(sizes[0]); i++)
            check(&writers[i % WRITERS], sizes[i / WRITERS]);
    }
}

TEST(a_gzip_header_has_neither_time_nor_name)
{
    uint8_t *packed;
    (void)write_to(&writers[0], 100, &packed);
    assert_memory_equal(packed, "\x1f\x8b\x08\0\0\0\0\0", 8);
    free(packed);
}

/* FLG: version 01, independent blocks, checksums of blocks, size, checksum of the content. */
TEST(an_lz4_frame_says_its_size_and_has_all_checksums)
{
    uint8_t *packed;
    (void)write_to(&writers[1], 1000, &packed);
    assert_memory_equal(packed, "\x04\x22\x4d\x18\x7c\x40\xe8\x03\0\0\0\0\0\0", 14);
    free(packed);
}

TEST(refuses_what_is_too_long)
{
    size_t bytes;
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(writers[i].write(NULL, SIZE_MAX, NULL, &bytes), -EFBIG);
}

TESTS_MAIN(NULL, NULL)
