/* Tests of the TFRecord frame: what it looks like, and that no damage goes unseen. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tfrecord.h"
#include "tests/helpers/test.h"

static size_t put_record(uint8_t *out, const void *payload, size_t bytes)
{
    tfrecord_write_header(bytes, out);
    if (bytes > 0)
        memcpy(out + TFRECORD_HEADER_BYTES, payload, bytes);
    tfrecord_write_footer(out + TFRECORD_HEADER_BYTES, bytes, out + TFRECORD_HEADER_BYTES + bytes);
    return bytes + TFRECORD_FRAME_BYTES;
}

TEST(writes_the_known_bytes)
{
    static const uint8_t empty[] = { 0, 0, 0, 0, 0, 0, 0, 0, 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2 };
    static const uint8_t digits[] = { 3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, 0x31, 0x32, 0x33, 0xce, 0x0b,
                                     0xe7, 0x01 };
    static const uint8_t foo[] = { 3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, 0x66, 0x6f, 0x6f, 0x61, 0x8a,
                                  0xbe, 0xfe };
    uint8_t out[64];

    assert_int_equal(put_record(out, "", 0), sizeof(empty));
    assert_memory_equal(out, empty, sizeof(empty));
    assert_int_equal(put_record(out, "123", 3), sizeof(digits));
    assert_memory_equal(out, digits, sizeof(digits));
    assert_int_equal(put_record(out, "foo", 3), sizeof(foo));
    assert_memory_equal(out, foo, sizeof(foo));
}

TEST(reads_back_payloads_of_any_length)
{
    static const size_t lengths[] = { 0, 1, 2, 7, 8, 9, 255, 256, 784, 4095, 65537, 1 << 20 };
    uint8_t *payload = malloc(1 << 20), *frame = malloc((1 << 20) + TFRECORD_FRAME_BYTES);

    for (size_t i = 0; i < 1 << 20; i++)
        payload[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct tfrecord_problem problem;
        uint64_t bytes = 0;
        const size_t frame_bytes = put_record(frame, payload, lengths[i]);
        assert_int_equal(tfrecord_verify(frame, frame_bytes, &bytes, &problem), TFRECORD_OK);
        assert_int_equal(bytes, lengths[i]);
        assert_memory_equal(frame + TFRECORD_HEADER_BYTES, payload, lengths[i]);
    }
    free(payload);
    free(frame);
}

TEST(a_frame_may_be_followed_by_more)
{
    uint8_t frame[64];
    struct tfrecord_problem problem;
    uint64_t bytes;

    memset(frame, 0xff, sizeof(frame));
    put_record(frame, "123", 3);
    assert_int_equal(tfrecord_verify(frame, sizeof(frame), &bytes, &problem), TFRECORD_OK);
    assert_int_equal(bytes, 3);
}

TEST(says_how_much_is_missing_of_a_record_cut_at_any_byte)
{
    uint8_t frame[19];
    const size_t frame_bytes = put_record(frame, "123", 3);

    for (size_t cut = 0; cut < frame_bytes; cut++) {
        /* A block of its own size, so that a sanitizer sees any byte read beyond it. */
        uint8_t *part = malloc(cut ? cut : 1);
        struct tfrecord_problem problem = { 0 };
        uint64_t bytes = 77;
        memcpy(part, frame, cut);
        assert_int_equal(tfrecord_verify(part, cut, &bytes, &problem), TFRECORD_CUT);
        assert_int_equal(problem.available_bytes, cut);
        assert_int_equal(problem.needed_bytes, cut < TFRECORD_HEADER_BYTES ? TFRECORD_HEADER_BYTES : frame_bytes);
        assert_int_equal(bytes, 77);
        free(part);
    }
}

TEST(sees_every_flipped_bit)
{
    uint8_t frame[40];
    const size_t frame_bytes = put_record(frame, "the payload", 11);

    for (size_t bit = 0; bit < 8 * frame_bytes; bit++) {
        struct tfrecord_problem problem = { 0 };
        uint64_t bytes;
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        const enum tfrecord_check check = tfrecord_verify(frame, frame_bytes, &bytes, &problem);
        assert_int_equal(check, bit / 8 < TFRECORD_HEADER_BYTES ? TFRECORD_LENGTH_CRC : TFRECORD_PAYLOAD_CRC);
        assert_int_not_equal(problem.stored_crc, problem.computed_crc);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

TEST(names_the_stored_and_the_computed_sum)
{
    uint8_t frame[19];
    struct tfrecord_problem problem;
    uint64_t bytes;

    put_record(frame, "123", 3);
    frame[15] = 0;
    assert_int_equal(tfrecord_verify(frame, sizeof(frame), &bytes, &problem), TFRECORD_PAYLOAD_CRC);
    assert_int_equal(problem.stored_crc, 0x01e70b00);
    assert_int_equal(problem.computed_crc, 0x01e70bce);
}

TEST(refuses_absurd_lengths_before_anything_is_read)
{
    static const uint64_t lengths[] = { TFRECORD_PAYLOAD_MAX + 1ull, 0x7fffffff, 1ull << 32, 1ull << 63, UINT64_MAX,
                                       UINT64_MAX - 3, UINT64_MAX - 15 };

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t header[TFRECORD_HEADER_BYTES];
        struct tfrecord_problem problem;
        uint64_t bytes;
        tfrecord_write_header(lengths[i], header);
        assert_int_equal(tfrecord_verify(header, sizeof(header), &bytes, &problem), TFRECORD_TOO_LONG);
        assert_int_equal(problem.needed_bytes, lengths[i]);
    }
}

TEST(zeros_are_no_records)
{
    const uint8_t zeros[64] = { 0 };
    struct tfrecord_problem problem;
    uint64_t bytes;

    assert_int_equal(tfrecord_verify(zeros, sizeof(zeros), &bytes, &problem), TFRECORD_LENGTH_CRC);
}

TEST(has_a_text_for_every_check)
{
    for (int check = TFRECORD_OK; check <= TFRECORD_CUT; check++)
        assert_true(strlen(tfrecord_check_text((enum tfrecord_check)check)) > 5);
}

TESTS_MAIN(NULL, NULL)
