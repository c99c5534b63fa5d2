/* Writing a tf.train.Example the way protobuf does: every level is a field with its length
 * in front, so its size is computed from the level below first. Called by the converters. */
#include "formats/example.h"

#include <assert.h>
#include <stdbool.h>
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

/* A payload being written anew. */
struct replacing {
    const struct example_value *values;
    size_t count, next;         /* values, and the first that has not come in yet */
    size_t bytes;               /* of the entries so far */
    uint8_t *at;                /* where the next one goes; NULL: they are only counted */
};

static void add_value(struct replacing *replacing)
{
    const struct example_value *const value = &replacing->values[replacing->next++];

    if (value->kind == FEATURE_MISSING)
        return;
    replacing->bytes += field_size(entry_size(value));
    if (replacing->at != NULL)
        replacing->at = put_entry(replacing->at, value);
}

static int name_compare(const char *name, const char *other, size_t other_bytes)
{
    const size_t bytes = strlen(name);
    const int order = memcmp(name, other, bytes < other_bytes ? bytes : other_bytes);
    return order != 0 ? order : (bytes > other_bytes) - (bytes < other_bytes);
}

static bool is_replaced(const struct replacing *replacing, const char *name, size_t name_bytes)
{
    for (size_t i = 0; i < replacing->count; i++) {
        if (name_compare(replacing->values[i].name, name, name_bytes) == 0)
            return true;
    }
    return false;
}

static int visit_kept(void *arg, const char *name, size_t name_bytes, const struct feature *feature)
{
    struct replacing *const replacing = arg;

    while (replacing->next < replacing->count &&
           name_compare(replacing->values[replacing->next].name, name, name_bytes) < 0)
        add_value(replacing);
    if (is_replaced(replacing, name, name_bytes))
        return 0;
    replacing->bytes += field_size(feature->entry_bytes);
    if (replacing->at != NULL)
        replacing->at = put_bytes(replacing->at, 1, feature->entry, feature->entry_bytes);
    return 0;
}

/* All entries, kept and new. */
static size_t replace_entries(struct replacing *replacing, const uint8_t *payload, size_t bytes)
{
    size_t bad_offset;

    (void)example_visit(payload, bytes, visit_kept, replacing, &bad_offset);
    while (replacing->next < replacing->count)
        add_value(replacing);
    return replacing->bytes;
}

size_t example_replaced_size(const uint8_t *payload, size_t bytes, const struct example_value *values, size_t count)
{
    struct replacing replacing = { .values = values, .count = count };
    return field_size(replace_entries(&replacing, payload, bytes));
}

size_t example_replace(const uint8_t *payload, size_t bytes, const struct example_value *values, size_t count,
                       uint8_t *out)
{
    struct replacing counted = { .values = values, .count = count };
    struct replacing written = { .values = values, .count = count };

    written.at = put_field_start(out, 1, replace_entries(&counted, payload, bytes));
    (void)replace_entries(&written, payload, bytes);
    return (size_t)(written.at - out);
}
