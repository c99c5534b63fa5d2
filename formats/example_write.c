/* Writing a tf.train.Example the way protobuf does: every level is a field with its length
 * in front, so its size is computed from the level below first. Called by the converters. */
#include "formats/example.h"

#include <assert.h>
#include <string.h>

#define WIRE_BYTES 2u       /* the wire type of length-delimited fields */

static size_t varint_size(uint64_t value)
{
    size_t bytes = 1;

    for (; value >= 0x80; value >>= 7)
        bytes++;
    return bytes;
}

static uint8_t *put_varint(uint8_t *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

/* The size of a length-delimited field with `body` bytes in it. */
static size_t field_size(size_t body)
{
    return 1 + varint_size(body) + body;
}

static uint8_t *put_field_start(uint8_t *out, uint32_t number, size_t body)
{
    *out++ = (uint8_t)(number << 3 | WIRE_BYTES);
    return put_varint(out, body);
}

static uint8_t *put_bytes(uint8_t *out, uint32_t number, const void *bytes, size_t byte_count)
{
    out = put_field_start(out, number, byte_count);
    if (byte_count > 0)
        memcpy(out, bytes, byte_count);
    return out + byte_count;
}

static size_t value_size(const struct example_value *value)
{
    return value->kind == FEATURE_BYTES ? value->byte_count : varint_size((uint64_t)value->int64);
}

/* The list is one value of either kind: a packed run has the layout of a bytes value. */
static size_t list_size(const struct example_value *value)
{
    return field_size(value_size(value));
}

static size_t entry_size(const struct example_value *value)
{
    return field_size(strlen(value->name)) + field_size(field_size(list_size(value)));
}

static size_t features_size(const struct example_value *values, size_t count)
{
    size_t bytes = 0;

    for (size_t i = 0; i < count; i++)
        bytes += field_size(entry_size(&values[i]));
    return bytes;
}

static uint8_t *put_entry(uint8_t *out, const struct example_value *value)
{
    const uint32_t list_number = value->kind == FEATURE_BYTES ? 1 : 3;

    out = put_field_start(out, 1, entry_size(value));
    out = put_bytes(out, 1, value->name, strlen(value->name));
    out = put_field_start(out, 2, field_size(list_size(value)));
    out = put_field_start(out, list_number, list_size(value));
    if (value->kind == FEATURE_BYTES)
        return put_bytes(out, 1, value->bytes, value->byte_count);
    out = put_field_start(out, 1, value_size(value));
    return put_varint(out, (uint64_t)value->int64);
}

size_t example_size(const struct example_value *values, size_t count)
{
    return field_size(features_size(values, count));
}

size_t example_write(const struct example_value *values, size_t count, uint8_t *out)
{
    uint8_t *at = put_field_start(out, 1, features_size(values, count));

    for (size_t i = 0; i < count; i++) {
        assert(values[i].kind == FEATURE_BYTES || values[i].kind == FEATURE_INT64S);
        assert(i == 0 || strcmp(values[i - 1].name, values[i].name) < 0);
        at = put_entry(at, &values[i]);
    }
    return (size_t)(at - out);
}
