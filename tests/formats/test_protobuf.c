/* Tests of the protobuf writer: what it writes is read back with formats/protobuf.h. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/protobuf.h"
#include "tests/helpers/test.h"

static struct field next_field(struct range *range, uint32_t number, enum wire_type type)
{
    struct field field = { .number = 0 };
    assert_true(take_field(range, &field));
    assert_int_equal(field.number, number);
    assert_int_equal(field.type, type);
    return field;
}

static struct range whole(const struct proto *proto)
{
    assert_int_equal(proto->failed, 0);
    assert_int_equal(proto->depth, 0);
    return (struct range){ proto->bytes, proto->bytes + proto->count };
}

static void assert_wrote(const struct proto *proto, const void *bytes, size_t count)
{
    assert_int_equal(proto->count, count);
    assert_memory_equal(proto->bytes, bytes, count);
}

TEST(numbers_of_any_size_read_back)
{
    struct proto proto;
    proto_init(&proto);
    for (unsigned bit = 0; bit < 64; bit++)
        for (int less = 0; less < 2; less++) {
            const uint64_t value = (UINT64_C(1) << bit) - (uint64_t)less;
            const uint32_t number = bit % 29 == 0 ? 1 : UINT32_C(1) << bit % 29;
            proto_reset(&proto);
            proto_varint(&proto, number, value);
            struct range range = whole(&proto);
            const struct field field = next_field(&range, number, WIRE_VARINT);
            assert_true(field.varint == value);
            assert_int_equal(range_bytes(&range), 0);
        }
    proto_release(&proto);
}

TEST(fields_have_the_bytes_of_the_wire_format)
{
    static const uint8_t expected[] = {
        0x09, 0, 0, 0, 0, 0, 0, 0xf8, 0xbf,             /* 1: -1.5 as a double */
        0x15, 0, 0, 0, 0x3f,                            /* 2: 0.5 as a float */
        0x1a, 0x02, 'a', 'b',                           /* 3: "ab" */
        0x2a, 0x00,                                     /* 5: an empty message */
        0x80, 0x01, 0x96, 0x01                          /* 16: 150 */
    };
    struct proto proto;
    proto_init(&proto);
    proto_double(&proto, 1, -1.5);
    proto_float(&proto, 2, 0.5f);
    proto_string(&proto, 3, "ab");
    proto_open_message(&proto, 5);
    proto_close_message(&proto);
    proto_varint(&proto, 16, 150);
    assert_wrote(&proto, expected, sizeof(expected));
    proto_release(&proto);
}

/* Lengths of one, two and three bytes, in messages in messages. */
TEST(messages_of_any_length_lie_in_each_other)
{
    static const size_t lengths[] = { 0, 1, 122, 123, 124, 125, 126, 127, 128, 129, 16378, 16379, 16380, 16384, 70000 };
    struct proto proto;
    proto_init(&proto);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        uint8_t *const body = malloc(lengths[i] + 1);
        assert_non_null(body);
        memset(body, (int)i + 1, lengths[i] + 1);
        proto_reset(&proto);
        for (uint32_t depth = 0; depth < PROTO_DEPTH_MAX; depth++)
            proto_open_message(&proto, depth + 1);
        proto_bytes(&proto, 100, body, lengths[i]);
        for (uint32_t depth = 0; depth < PROTO_DEPTH_MAX; depth++) {
            proto_close_message(&proto);
            proto_varint(&proto, 7, depth);
        }
        struct range range = whole(&proto);
        for (uint32_t depth = 0; depth < PROTO_DEPTH_MAX; depth++) {
            const struct field field = next_field(&range, depth + 1, WIRE_BYTES);
            assert_int_equal(next_field(&range, 7, WIRE_VARINT).varint, PROTO_DEPTH_MAX - 1 - depth);
            assert_int_equal(range_bytes(&range), 0);
            range = field.body;
        }
        const struct field inner = next_field(&range, 100, WIRE_BYTES);
        assert_int_equal(range_bytes(&inner.body), lengths[i]);
        assert_memory_equal(inner.body.at, body, lengths[i]);
        free(body);
    }
    proto_release(&proto);
}

TEST(what_is_reserved_stays_where_it_is)
{
    struct proto proto;
    proto_init(&proto);
    assert_int_equal(proto_reserve(&proto, 4096), 0);
    const uint8_t *const place = proto.bytes;
    for (int round = 0; round < 3; round++) {
        proto_reset(&proto);
        while (proto.count + 10 <= 4096)
            proto_double(&proto, 1, 1);
        assert_ptr_equal(proto.bytes, place);
    }
    proto_release(&proto);
    assert_null(proto.bytes);
}

TESTS_MAIN(NULL, NULL)
