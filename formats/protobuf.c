/* Writing protobuf messages. Called by the writer of event files. */
#include "formats/protobuf.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 256u

void proto_init(struct proto *proto)
{
    *proto = (struct proto){ .bytes = NULL };
}

void proto_release(struct proto *proto)
{
    free(proto->bytes);
    proto_init(proto);
}

void proto_reset(struct proto *proto)
{
    proto->count = 0;
    proto->depth = 0;
    proto->failed = 0;
}

int proto_reserve(struct proto *proto, size_t bytes)
{
    if (bytes <= proto->room)
        return 0;
    uint8_t *const moved = realloc(proto->bytes, bytes);
    if (moved == NULL)
        return -ENOMEM;
    proto->bytes = moved;
    proto->room = bytes;
    return 0;
}

/* Make room for `bytes` more. Returns where they begin, or NULL when out of memory. */
static uint8_t *grow(struct proto *proto, size_t bytes)
{
    if (proto->failed == 0 && bytes > proto->room - proto->count) {
        const size_t needed = proto->count + bytes, doubled = 2 * proto->room;
        const size_t room = needed > doubled ? needed : doubled;
        proto->failed = proto_reserve(proto, room < ROOM_LEAST ? ROOM_LEAST : room);
    }
    if (proto->failed != 0)
        return NULL;
    uint8_t *const at = proto->bytes + proto->count;
    proto->count += bytes;
    return at;
}

void proto_raw(struct proto *proto, const void *bytes, size_t count)
{
    uint8_t *const at = grow(proto, count);
    if (at != NULL && count > 0)
        memcpy(at, bytes, count);
}

static void put_varint(struct proto *proto, uint64_t value)
{
    uint8_t bytes[VARINT_BYTES_MAX];
    proto_raw(proto, bytes, (size_t)(varint_write(bytes, value) - bytes));
}

static void put_key(struct proto *proto, uint32_t field, enum wire_type type)
{
    assert(field > 0 && field <= WIRE_FIELD_NUMBER_MAX);
    put_varint(proto, (uint64_t)field << 3 | type);
}

static void put_fixed(struct proto *proto, uint64_t bits, size_t count)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
    proto_raw(proto, bytes, count);
}

void proto_open_message(struct proto *proto, uint32_t field)
{
    assert(proto->depth < PROTO_DEPTH_MAX);
    put_key(proto, field, WIRE_BYTES);
    proto->opened[proto->depth++] = proto->count;
}

/* The length precedes the body but is known only now, so the body is moved to make room for it. */
void proto_close_message(struct proto *proto)
{
    assert(proto->depth > 0);
    const size_t begin = proto->opened[--proto->depth], count = proto->count - begin;
    uint8_t length[VARINT_BYTES_MAX];
    const size_t length_bytes = (size_t)(varint_write(length, count) - length);
    if (grow(proto, length_bytes) == NULL)
        return;
    memmove(proto->bytes + begin + length_bytes, proto->bytes + begin, count);
    memcpy(proto->bytes + begin, length, length_bytes);
}

void proto_varint(struct proto *proto, uint32_t field, uint64_t value)
{
    put_key(proto, field, WIRE_VARINT);
    put_varint(proto, value);
}

void proto_double(struct proto *proto, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_key(proto, field, WIRE_FIXED64);
    put_fixed(proto, bits, sizeof(bits));
}

void proto_doubles(struct proto *proto, uint32_t field, const double *values, size_t count)
{
    put_key(proto, field, WIRE_BYTES);
    put_varint(proto, count * sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        put_fixed(proto, bits, sizeof(bits));
    }
}

void proto_float(struct proto *proto, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    put_key(proto, field, WIRE_FIXED32);
    put_fixed(proto, bits, sizeof(bits));
}

void proto_bytes(struct proto *proto, uint32_t field, const void *bytes, size_t count)
{
    put_key(proto, field, WIRE_BYTES);
    put_varint(proto, count);
    proto_raw(proto, bytes, count);
}

void proto_string(struct proto *proto, uint32_t field, const char *text)
{
    proto_bytes(proto, field, text, strlen(text));
}
