/* Compressed streams told apart by their content and turned back in pieces of any size: nothing but a
 * unit that is whole and right ends as one. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "formats/compress.h"
#include "formats/tfrecord.h"
#include "formats/unpacker.h"
#include "tests/helpers/test.h"

enum { DATA_BYTES = 3000, PACKED_BYTES = 8000, KINDS = 5 };

static uint8_t data[DATA_BYTES];

/* A unit of each kind that holds the data. */
static struct unit {
    enum container container;
    uint8_t bytes[PACKED_BYTES];
    size_t count;
} units[KINDS];

static struct unpacker unpacker;

/* By zlib, at the level; with a header of all there can be in it where one is given. */
static size_t deflate_to(uint8_t *out, int window_bits, int level, gz_header *header, int flush)
{
    z_stream stream = { .next_in = data, .avail_in = DATA_BYTES / 2, .next_out = out, .avail_out = PACKED_BYTES };
    assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    if (header != NULL)
        assert_int_equal(deflateSetHeader(&stream, header), Z_OK);
    assert_int_equal(deflate(&stream, flush), Z_OK);
    stream.avail_in += DATA_BYTES - DATA_BYTES / 2;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return PACKED_BYTES - stream.avail_out;
}

static int make_units(void **state)
{
    (void)state;
    gz_header header = { .extra = (Bytef *)"extra", .extra_len = 5, .name = (Bytef *)"name",
                         .comment = (Bytef *)"comment", .hcrc = 1 };
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (uint8_t)(i * i / 300);
    for (int i = 0; i < KINDS; i++)
        units[i].container = i < 2 ? CONTAINER_GZIP : i < 4 ? CONTAINER_ZLIB : CONTAINER_LZ4;
    assert_int_equal(gzip_write(data, DATA_BYTES, units[0].bytes, &units[0].count), 0);
    units[1].count = deflate_to(units[1].bytes, 15 + 16, 6, &header, Z_NO_FLUSH);
    units[2].count = deflate_to(units[2].bytes, 15, 6, NULL, Z_FULL_FLUSH);
    units[3].count = deflate_to(units[3].bytes, 15, 0, NULL, Z_NO_FLUSH);
    assert_int_equal(lz4_frame_write(data, DATA_BYTES, units[4].bytes, &units[4].count), 0);
    return unpacker_init(&unpacker);
}

static int release(void **state)
{
    (void)state;
    unpacker_release(&unpacker);
    return 0;
}

/* Unpack by pieces of so many bytes until nothing more comes. The bytes that came to `out`, and how many were
 * not read. */
static enum unpack unpack(enum container container, const uint8_t *packed, size_t bytes, size_t in_piece,
                          size_t out_piece, uint8_t *out, size_t *given_out, size_t *left_out)
{
    struct unpack_piece piece = { .in = packed, .out = out };
    const uint8_t *const end = packed + bytes;
    enum unpack result = UNPACK_WAITS;
    bool moves = true;
    unpacker_begin(&unpacker, container);
    while (result == UNPACK_WAITS && moves) {
        const uint8_t *const in = piece.in, *const before = piece.out;
        const size_t room = (size_t)(out + DATA_BYTES + 1 - piece.out), held = (size_t)(end - piece.in);
        piece.in_bytes = held < in_piece ? held : in_piece;
        piece.out_bytes = room < out_piece ? room : out_piece;
        if (piece.out_bytes == 0)
            break;
        result = unpacker_step(&unpacker, &piece);
        moves = piece.in != in || piece.out != before;
    }
    *given_out = (size_t)(piece.out - out);
    *left_out = (size_t)(end - piece.in) + (result == UNPACK_ENDED ? unpacker_unread(&unpacker) : 0);
    return result;
}

TEST(pieces_of_any_size_give_the_same)
{
    static const size_t sizes[] = { 1, 2, 7, 64, 1000, PACKED_BYTES };
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    uint8_t out[DATA_BYTES + 1], followed[PACKED_BYTES + 20];
    size_t given, left;
    for (size_t i = 0; i < KINDS * SIZES * SIZES; i++) {
        const struct unit *const unit = &units[i / SIZES / SIZES];
        memcpy(followed, unit->bytes, unit->count);
        memset(followed + unit->count, 0xa5, 20);
        assert_int_equal(unpack(unit->container, followed, unit->count + 20, sizes[i / SIZES % SIZES], sizes[i % SIZES],
                                out, &given, &left), UNPACK_ENDED);
        assert_int_equal(given, DATA_BYTES);
        assert_int_equal(left, 20);
        assert_memory_equal(out, data, DATA_BYTES);
    }
}

TEST(a_unit_cut_anywhere_does_not_end)
{
    uint8_t out[DATA_BYTES + 1];
    size_t given, left;
    for (int kind = 0; kind < KINDS; kind++) {
        for (size_t cut = 0; cut < units[kind].count; cut++) {
            assert_int_equal(unpack(units[kind].container, units[kind].bytes, cut, PACKED_BYTES, PACKED_BYTES, out,
                                    &given, &left), UNPACK_WAITS);
            assert_memory_equal(out, data, given);
        }
    }
}

/* Some bits of a gzip header mean nothing, and some deflate codes have two forms. */
TEST(a_unit_with_any_bit_flipped_is_damaged_or_gives_the_same)
{
    uint8_t out[DATA_BYTES + 1];
    size_t given, left, damaged = 0, bits = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        struct unit *const unit = &units[kind];
        for (size_t bit = 0; bit < unit->count * 8; bit++, bits++) {
            unit->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
            const enum unpack result = unpack(unit->container, unit->bytes, unit->count, PACKED_BYTES, PACKED_BYTES,
                                              out, &given, &left);
            assert_true(result != UNPACK_ENDED || (given == DATA_BYTES && memcmp(out, data, DATA_BYTES) == 0));
            assert_true(result != UNPACK_DAMAGED || unpacker.problem != NULL);
            damaged += result != UNPACK_ENDED;
            unit->bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    assert_true(damaged > bits * 9 / 10);
}

/* What was saved in the middle of a unit goes on there, whatever was unpacked meanwhile. */
TEST(goes_on_from_what_was_saved)
{
    static struct inflater saved;
    uint8_t out[DATA_BYTES + 1];
    for (int kind = 0; kind < 4; kind++) {
        const struct unit *const unit = &units[kind];
        struct unpack_piece piece = { unit->bytes, unit->count / 2, out, DATA_BYTES };
        unpacker_begin(&unpacker, unit->container);
        assert_int_equal(unpacker_step(&unpacker, &piece), UNPACK_WAITS);
        saved = *unpacker_save(&unpacker);
        unpacker_begin(&unpacker, CONTAINER_ZLIB);
        unpacker_restore(&unpacker, unit->container, &saved);
        piece.in_bytes = unit->count - unit->count / 2;
        assert_int_equal(unpacker_step(&unpacker, &piece), UNPACK_ENDED);
        assert_int_equal(piece.out_bytes, 0);
        assert_memory_equal(out, data, DATA_BYTES);
    }
    unpacker_begin(&unpacker, CONTAINER_LZ4);
    assert_null(unpacker_save(&unpacker));
}

/* A frame that does not say its size comes behind one that does and was left in the middle. */
TEST(an_lz4_frame_begins_anew_whatever_was_before)
{
    static uint8_t frame[PACKED_BYTES], out[DATA_BYTES + 1];
    size_t given, left;
    const size_t bytes = LZ4F_compressFrame(frame, sizeof(frame), data, DATA_BYTES, NULL);
    assert_false(LZ4F_isError(bytes));
    assert_int_equal(unpack(CONTAINER_LZ4, units[4].bytes, units[4].count / 2, 64, PACKED_BYTES, out, &given, &left),
                     UNPACK_WAITS);
    assert_int_equal(unpack(CONTAINER_LZ4, frame, bytes, 64, PACKED_BYTES, out, &given, &left), UNPACK_ENDED);
    assert_int_equal(given, DATA_BYTES);
}

TEST(containers_are_recognised_by_their_content)
{
    for (int kind = 0; kind < KINDS; kind++)
        assert_int_equal(container_find(units[kind].bytes, units[kind].count), units[kind].container);
    assert_int_equal(container_find((const uint8_t *)"\x5a\x2a\x4d\x18\0\0\0\0\0\0\0\0", 12), CONTAINER_LZ4);
    assert_int_equal(container_find((const uint8_t *)"\x78\x9d and more text", 12), CONTAINER_PLAIN);
    assert_int_equal(container_find((const uint8_t *)"\x1f\x8b\x08", 3), CONTAINER_PLAIN);
    assert_int_equal(container_find(NULL, 0), CONTAINER_PLAIN);
}

/* Of 0x9c78 and 0x8b1f bytes. */
TEST(the_header_of_a_record_comes_first)
{
    uint8_t head[TFRECORD_HEADER_BYTES];
    static const uint64_t lengths[] = { 0x9c78, 0x088b1f, 0x184d2204 };
    for (int i = 0; i < 3; i++) {
        tfrecord_write_header(lengths[i], head);
        assert_int_equal(container_find(head, sizeof(head)), CONTAINER_PLAIN);
        head[11] ^= 1;
        assert_int_not_equal(container_find(head, sizeof(head)), CONTAINER_PLAIN);
    }
}

TEST(the_largest_block_of_lz4_is_what_its_frame_says)
{
    uint8_t head[] = { 0x04, 0x22, 0x4d, 0x18, 0x60, 0x40 };
    for (int code = 0; code < 8; code++) {
        head[5] = (uint8_t)(code << 4);
        const size_t expected = code < 4 ? (size_t)4 << 20 : (size_t)1 << (8 + 2 * code);
        assert_int_equal(unpacker_lz4_block_bytes(head, sizeof(head)), expected);
        assert_true(unpacker_bytes(expected) > 2 * expected);
    }
    assert_int_equal(unpacker_lz4_block_bytes((const uint8_t *)"\x50\x2a\x4d\x18\0\0", 6), (size_t)4 << 20);
}

TESTS_MAIN(make_units, release)
