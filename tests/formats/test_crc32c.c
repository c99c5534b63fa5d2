/* Tests of CRC-32C and the TFRecord mask against published vectors and a bitwise loop. */
#include <stdbool.h>
#include <string.h>

#include "formats/crc32c.h"
#include "tests/helpers/test.h"

TEST(gives_the_published_sums)
{
    uint8_t bytes[32];

    assert_int_equal(crc32c("", 0), 0);
    assert_int_equal(crc32c(NULL, 0), 0);
    assert_int_equal(crc32c("a", 1), 0xc1d04330);
    assert_int_equal(crc32c("123", 3), 0x107b2fb2);
    assert_int_equal(crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(bytes, 8), 0x8c28b28a);
    assert_int_equal(crc32c(bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(bytes, 32), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(crc32c(bytes, 32), 0x46dd794e);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (uint8_t)(31 - i);
    assert_int_equal(crc32c(bytes, 32), 0x113fdb5c);
}

TEST(masks_as_tfrecord_does)
{
    const uint8_t zeros[32] = { 0 };
    uint8_t ones[32], up[32], down[32];

    assert_int_equal(crc32c_mask(0), 0xa282ead8);
    assert_int_equal(crc32c_masked("a", 1), 0x28e46e78);
    assert_int_equal(crc32c_masked("123", 3), 0x01e70bce);
    assert_int_equal(crc32c_masked("123456789", 9), 0xc78ab0e5);
    assert_int_equal(crc32c_masked(zeros, 8), 0x07980329);
    assert_int_equal(crc32c_masked(zeros, 32), 0x0fd7fffa);
    for (unsigned i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c_masked(ones, 32), 0xf909b029);
    assert_int_equal(crc32c_masked(up, 32), 0x951f7892);
    assert_int_equal(crc32c_masked(down, 32), 0x593b0d57);
}

static uint32_t bitwise_crc32c(const uint8_t *data, size_t bytes)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    }
    return ~crc;
}

TEST(equals_a_bitwise_loop_for_any_length_and_alignment)
{
    uint8_t data[600];
    uint32_t word = 1;

    for (size_t i = 0; i < sizeof(data); i++) {
        word = word * 1664525 + 1013904223;
        data[i] = (uint8_t)(word >> 24);
    }
    for (size_t bytes = 0; bytes < 580; bytes++) {
        for (size_t start = 0; start < 17; start += 3)
            assert_int_equal(crc32c(data + start, bytes), bitwise_crc32c(data + start, bytes));
    }
}

TEST(sums_of_parts_follow_from_those_of_the_whole)
{
    static uint8_t data[70000];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * i >> 3 ^ i);
    for (size_t bytes = 0; bytes <= sizeof(data); bytes = bytes * 2 + 1) {
        const uint32_t whole = crc32c(data, bytes);
        for (size_t front = 0; front <= bytes; front = front * 3 + 1) {
            const uint32_t front_crc = crc32c(data, front);
            assert_int_equal(crc32c_more(front_crc, data + front, bytes - front), whole);
            assert_int_equal(crc32c_behind(whole, front_crc, bytes - front), crc32c(data + front, bytes - front));
        }
    }
}

TESTS_MAIN(NULL, NULL)
