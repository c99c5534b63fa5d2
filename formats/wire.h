/* Protobuf's wire format, as far as a tf.train.Example has it: a message is a row of fields, each with its
 * number, its type and its value (doc/formats.md). Inline, since every byte of every record's messages goes
 * through it. */
#ifndef PIPETRAIN_WIRE_H
#define PIPETRAIN_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

#define WIRE_FIELD_NUMBER_MAX 0x1fffffffu

/* What is still to be read of a message. A function that fails leaves `at` where the encoding
 * goes wrong. */
struct range {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    enum wire_type type;
    uint64_t varint;        /* WIRE_VARINT */
    struct range body;      /* the bytes of the other types */
};

static inline size_t range_bytes(const struct range *range)
{
    return (size_t)(range->end - range->at);
}

/* One of any length up to 10 bytes. Moves only on success. Bits above the 64th are dropped, as protobuf does. */
static inline bool take_long_varint(struct range *range, uint64_t *value_out)
{
    uint64_t value = 0;
    const size_t room = range_bytes(range);

    for (size_t i = 0; i < 10 && i < room; i++) {
        const uint8_t byte = range->at[i];
        value |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80) {
            range->at += i + 1;
            *value_out = value;
            return true;
        }
    }
    return false;
}

static inline bool take_varint(struct range *range, uint64_t *value_out)
{
    if (range->at < range->end && *range->at < 0x80) {
        *value_out = *range->at++;
        return true;
    }
    return take_long_varint(range, value_out);
}

static inline bool take_bytes(struct range *range, uint64_t bytes, struct range *body_out)
{
    if (bytes > range_bytes(range))
        return false;
    *body_out = (struct range){ range->at, range->at + bytes };
    range->at += bytes;
    return true;
}

static inline bool take_body(struct range *range, struct field *field)
{
    uint64_t length;

    switch (field->type) {
    case WIRE_VARINT:
        return take_varint(range, &field->varint);
    case WIRE_FIXED64:
        return take_bytes(range, 8, &field->body);
    case WIRE_BYTES:
        return take_varint(range, &length) && take_bytes(range, length, &field->body);
    case WIRE_FIXED32:
        return take_bytes(range, 4, &field->body);
    }
    return false;
}

/* The next field of a message. On failure range->at stays at the field's tag. */
static inline bool take_field(struct range *range, struct field *field_out)
{
    struct range rest = *range;
    uint64_t tag;

    if (!take_varint(&rest, &tag) || tag >> 3 == 0 || tag >> 3 > WIRE_FIELD_NUMBER_MAX)
        return false;
    field_out->number = (uint32_t)(tag >> 3);
    field_out->type = (enum wire_type)(tag & 7);
    if (!take_body(&rest, field_out))
        return false;
    *range = rest;
    return true;
}

#endif
