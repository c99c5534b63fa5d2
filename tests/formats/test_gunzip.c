/* Tests of inflating whole files: members, cuts, flips, limits. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "formats/gunzip.h"
#include "tests/helpers/test.h"

enum { GZIP = 15 + 16, ZLIB = 15 };

struct block {
    uint8_t *data;
    size_t bytes;
};

static struct block text(size_t bytes)
{
    struct block block = { malloc(bytes ? bytes : 1), bytes };
    uint32_t word = 7;

    for (size_t i = 0; i < bytes; i++) {
        word = word * 1664525 + 1013904223;
        block.data[i] = (uint8_t)("abcdefgh"[word >> 29]);
    }
    return block;
}

static struct block deflated(struct block plain, int window_bits)
{
    z_stream stream = { 0 };
    struct block out = { malloc(plain.bytes + 1000), 0 };

    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = plain.data;
    stream.avail_in = (uInt)plain.bytes;
    stream.next_out = out.data;
    stream.avail_out = (uInt)plain.bytes + 1000;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.bytes = stream.total_out;
    deflateEnd(&stream);
    return out;
}

static void expect(struct block packed, struct block plain, size_t limit)
{
    uint8_t *out;
    size_t bytes;

    assert_int_equal(gunzip(packed.data, packed.bytes, limit, &out, &bytes), 0);
    assert_int_equal(bytes, plain.bytes);
    assert_memory_equal(out, plain.data, plain.bytes);
    free(out);
}

static void expect_error(const uint8_t *data, size_t bytes, size_t limit, int error)
{
    uint8_t *out = NULL;
    size_t out_bytes = 77;

    assert_int_equal(gunzip(data, bytes, limit, &out, &out_bytes), error);
    assert_null(out);
    assert_int_equal(out_bytes, 77);
}

TEST(inflates_gzip_and_zlib_of_any_length)
{
    static const size_t lengths[] = { 0, 1, 100, 65535, 65536, 65537, 131072, 1000000 };

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const struct block plain = text(lengths[i]);
        const struct block gzip = deflated(plain, GZIP), zlib = deflated(plain, ZLIB);
        assert_true(gunzip_is_gzip(gzip.data, gzip.bytes));
        assert_false(gunzip_is_gzip(zlib.data, zlib.bytes));
        expect(gzip, plain, 2000000);
        expect(zlib, plain, 2000000);
        expect(gzip, plain, lengths[i]);
        free(plain.data);
        free(gzip.data);
        free(zlib.data);
    }
}

TEST(joins_several_members)
{
    const struct block plain = text(3000);
    const struct block whole = deflated(plain, GZIP);
    const struct block first = deflated((struct block){ plain.data, 1234 }, GZIP);
    const struct block rest = deflated((struct block){ plain.data + 1234, 3000 - 1234 }, GZIP);
    struct block both = { malloc(first.bytes + rest.bytes), first.bytes + rest.bytes };

    memcpy(both.data, first.data, first.bytes);
    memcpy(both.data + first.bytes, rest.data, rest.bytes);
    expect(whole, plain, 3000);
    expect(both, plain, 3000);
    expect_error(both.data, both.bytes, 2999, -EFBIG);
    free(plain.data);
    free(whole.data);
    free(first.data);
    free(rest.data);
    free(both.data);
}

TEST(rejects_a_stream_cut_at_any_byte)
{
    const struct block plain = text(500), gzip = deflated(plain, GZIP), zlib = deflated(plain, ZLIB);

    for (size_t cut = 0; cut < gzip.bytes; cut++)
        expect_error(gzip.data, cut, 1000, -EBADMSG);
    for (size_t cut = 0; cut < zlib.bytes; cut++)
        expect_error(zlib.data, cut, 1000, -EBADMSG);
    free(plain.data);
    free(gzip.data);
    free(zlib.data);
}

TEST(rejects_other_bytes_before_and_behind)
{
    const struct block plain = text(50), gzip = deflated(plain, GZIP);
    uint8_t *longer = malloc(gzip.bytes + 4);

    memcpy(longer, gzip.data, gzip.bytes);
    memcpy(longer + gzip.bytes, "junk", 4);
    expect_error(longer, gzip.bytes + 4, 1000, -EBADMSG);
    expect_error(plain.data, plain.bytes, 1000, -EBADMSG);
    free(plain.data);
    free(gzip.data);
    free(longer);
}

/* The length and sum at the end see every change of what comes out. Some flips change nothing
 * there: the time in the header, or the unused bits that fill the last byte of the data. */
TEST(never_gives_other_bytes_for_a_flipped_bit)
{
    const struct block plain = text(200), gzip = deflated(plain, GZIP);

    for (size_t bit = 0; bit < 8 * gzip.bytes; bit++) {
        uint8_t *out = NULL;
        size_t bytes = 0;
        gzip.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const int rc = gunzip(gzip.data, gzip.bytes, 100000, &out, &bytes);
        assert_true(rc == -EBADMSG || (rc == 0 && bytes == plain.bytes && memcmp(out, plain.data, bytes) == 0));
        free(out);
        gzip.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(plain.data);
    free(gzip.data);
}

TEST(stops_at_the_limit)
{
    const struct block zeros = { calloc(1, 10000000), 10000000 }, gzip = deflated(zeros, GZIP);

    expect_error(gzip.data, gzip.bytes, 9999999, -EFBIG);
    expect_error(gzip.data, gzip.bytes, 1000, -EFBIG);
    expect_error(gzip.data, gzip.bytes, 0, -EFBIG);
    expect(gzip, zeros, SIZE_MAX);
    free(zeros.data);
    free(gzip.data);
}

TESTS_MAIN(NULL, NULL)
