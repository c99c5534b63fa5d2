/* Protobuf's wire format (doc/formats.md): a message is a sequence of fields, each with a number, a type and a value.
 * Reading functions are inline, since all messages of every record are read with them. Messages of known size are
 * written with the varint functions, others with struct proto, whose buffer grows. */
#ifndef PIPETRAIN_PROTOBUF_H
#define PIPETRAIN_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

#define WIRE_FIELD_NUMBER_MAX 0x1fffffffu

/* The unread part of a message. A function that fails leaves `at` where the encoding is wrong. */
struct range {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    enum wire_type type;
    uint64_t varint;        /* value of a WIRE_VARINT */
    struct range body;      /* value of the other types */
};

static inline size_t range_bytes(const struct range *range)
{
    return (size_t)(range->end - range->at);
}

/* Read a varint of up to 10 bytes. range->at advances only on success. Bits above the 64th are dropped, as protobuf
 * does. */
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

/* Read the next field of a message. On failure range->at stays at the field's tag. */
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

/* ---- writing ---- */

#define VARINT_BYTES_MAX 10u

static inline size_t varint_bytes(uint64_t value)
{
    size_t bytes = 1;

    for (; value >= 0x80; value >>= 7)
        bytes++;
    return bytes;
}

/* Write a varint of varint_bytes(value) bytes. Returns the end of those bytes. */
static inline uint8_t *varint_write(uint8_t *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

#define PROTO_DEPTH_MAX 12u             /* nested messages that may be open at once */

/* A message being written: fields in the order of the calls, and nested messages. Fields with the default value (0) are
 * written too: callers skip them. Used by one thread at a time. */
struct proto {
    uint8_t *bytes;                     /* owned; NULL until the first write */
    size_t count, room;
    size_t opened[PROTO_DEPTH_MAX];     /* start of the body of each open message */
    uint32_t depth;
    int failed;                         /* 0 or -ENOMEM; after a failure nothing is written until proto_reset */
};

void proto_init(struct proto *proto);
void proto_release(struct proto *proto);
/* Discard the content and keep the memory. */
void proto_reset(struct proto *proto);
/* Reserve `bytes` for the whole content, so that writing up to this size allocates nothing. 0 or -ENOMEM. */
int proto_reserve(struct proto *proto, size_t bytes);

/* Begin a field that is a message: all fields until proto_close_message are inside it. */
void proto_open_message(struct proto *proto, uint32_t field);
void proto_close_message(struct proto *proto);
void proto_varint(struct proto *proto, uint32_t field, uint64_t value);
void proto_double(struct proto *proto, uint32_t field, double value);
void proto_float(struct proto *proto, uint32_t field, float value);
void proto_bytes(struct proto *proto, uint32_t field, const void *bytes, size_t count);
/* A packed field of doubles. */
void proto_doubles(struct proto *proto, uint32_t field, const double *values, size_t count);
/* A string field, written without the terminating zero. */
void proto_string(struct proto *proto, uint32_t field, const char *text);
/* Append bytes verbatim, without tag and length. */
void proto_raw(struct proto *proto, const void *bytes, size_t count);

#endif
