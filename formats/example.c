/* tf.train.Example: walking a serialized Example, visiting the values of a feature, and writing. Decoders (any thread)
 * walk every record, so the walk copies and allocates nothing: every message is a range of the payload, inside the
 * range of the message that contains it. Converters write.
 *
 *   Example { 1: Features }   Features { 1: entry, repeated }   entry { 1: name, 2: Feature }
 *   Feature { one of 1: bytes list, 2: float list, 3: int64 list }   list { 1: value, repeated } */
#include "formats/example.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "formats/protobuf.h"

/* ---- finding features ---- */

/* Fields with numbers up to known_max are messages: another wire type is an error. */
static inline bool take_message_field(struct range *range, uint32_t known_max, struct field *field_out)
{
    const uint8_t *tag = range->at;

    if (!take_field(range, field_out))
        return false;
    if (field_out->number > known_max || field_out->type == WIRE_BYTES)
        return true;
    range->at = tag;
    return false;
}

static void add_bytes(struct feature *feature, const struct range *value)
{
    if (feature->value_count++ > 0)
        return;
    feature->bytes = value->at;
    feature->byte_count = range_bytes(value);
}

static void add_int64(struct feature *feature, uint64_t value)
{
    if (feature->value_count++ == 0)
        feature->int64 = (int64_t)value;
}

static bool add_packed_int64s(struct feature *feature, struct range *run)
{
    while (run->at < run->end) {
        uint64_t value;
        if (!take_varint(run, &value))
            return false;
        add_int64(feature, value);
    }
    return true;
}

/* Add a field 1 of a list to the feature. False if its wire type does not suit the kind of the list; *bad_out is set if
 * the error is inside the value. */
static inline bool add_value(struct feature *feature, struct field *field, const uint8_t **bad_out)
{
    switch (feature->kind) {
    case FEATURE_BYTES:
        if (field->type != WIRE_BYTES)
            return false;
        add_bytes(feature, &field->body);
        return true;
    case FEATURE_FLOATS:
        if (field->type != WIRE_FIXED32 && field->type != WIRE_BYTES)
            return false;
        feature->value_count += range_bytes(&field->body) / 4;
        return range_bytes(&field->body) % 4 == 0;
    case FEATURE_INT64S:
        if (field->type == WIRE_VARINT) {
            add_int64(feature, field->varint);
            return true;
        }
        if (field->type != WIRE_BYTES)
            return false;
        if (add_packed_int64s(feature, &field->body))
            return true;
        *bad_out = field->body.at;
        return false;
    case FEATURE_MISSING:
        break;
    }
    return false;
}

static inline bool walk_list(struct range list, struct feature *feature, const uint8_t **bad_out)
{
    while (list.at < list.end) {
        const uint8_t *tag = list.at;
        struct field field = { .number = 0 };

        *bad_out = tag;
        if (!take_field(&list, &field))
            return false;
        if (field.number == 1 && !add_value(feature, &field, bad_out))
            return false;
    }
    return true;
}

/* A Feature is a oneof: a list of another kind replaces the earlier lists, a list of the same kind is appended. */
static inline bool walk_feature(struct range message, struct feature *feature, const uint8_t **bad_out)
{
    while (message.at < message.end) {
        struct field field = { .number = 0 };

        *bad_out = message.at;
        if (!take_message_field(&message, FEATURE_INT64S, &field))
            return false;
        if (field.number > FEATURE_INT64S)
            continue;
        if (feature->kind != (enum feature_kind)field.number)
            *feature = (struct feature){ .kind = (enum feature_kind)field.number, .list = field.body.at };
        if (!walk_list(field.body, feature, bad_out))
            return false;
    }
    return true;
}

struct entry {
    struct range message, name;
    struct feature feature;
};

/* Without a name field the name is empty; its pointer is still inside the payload. */
static bool walk_entry(struct range message, struct entry *entry, const uint8_t **bad_out)
{
    entry->name = (struct range){ message.at, message.at };
    entry->feature = (struct feature){ .kind = FEATURE_MISSING };
    while (message.at < message.end) {
        struct field field = { .number = 0 };

        *bad_out = message.at;
        if (!take_message_field(&message, 2, &field))
            return false;
        if (field.number == 1)
            entry->name = field.body;
        else if (field.number == 2 && !walk_feature(field.body, &entry->feature, bad_out))
            return false;
    }
    return true;
}

/* If the range is exactly one length-delimited field with this tag, return its body. */
static inline bool only_field(struct range range, uint8_t tag, struct range *body_out)
{
    uint64_t length;

    if (range.at == range.end || *range.at != tag)
        return false;
    range.at++;
    if (!take_varint(&range, &length) || length != range_bytes(&range))
        return false;
    *body_out = range;
    return true;
}

/* Fast path for entries as writers usually encode them: the name, then a value with one list, which has one bytes
 * value, a packed run of floats or one int64 below 128. False, and the entry is unchanged, if it is encoded
 * otherwise. */
static inline bool read_plain_entry(struct range message, struct entry *entry)
{
    struct range value, list, body;

    if (range_bytes(&message) < 2 || message.at[0] != 0x0a || message.at[1] >= 0x80 ||
        range_bytes(&message) - 2 < message.at[1])
        return false;
    const struct range name = { message.at + 2, message.at + 2 + message.at[1] };
    if (!only_field((struct range){ name.end, message.end }, 0x12, &value) || value.at == value.end)
        return false;
    const uint8_t kind_tag = *value.at;
    if (!only_field(value, kind_tag, &list) || !only_field(list, 0x0a, &body))
        return false;

    const size_t bytes = range_bytes(&body);
    if (kind_tag == 0x0a)
        entry->feature = (struct feature){
            .kind = FEATURE_BYTES, .value_count = 1, .bytes = body.at, .byte_count = bytes, .list = list.at };
    else if (kind_tag == 0x12 && bytes % 4 == 0)
        entry->feature = (struct feature){ .kind = FEATURE_FLOATS, .value_count = bytes / 4, .list = list.at };
    else if (kind_tag == 0x1a && bytes == 1 && *body.at < 0x80)
        entry->feature = (struct feature){
            .kind = FEATURE_INT64S, .value_count = 1, .int64 = *body.at, .list = list.at };
    else
        return false;
    entry->name = name;
    return true;
}

/* Called with each entry. Returns 0 to continue. */
typedef int (*entry_fn)(void *arg, const struct entry *entry);

static inline int walk_features(struct range message, entry_fn each, void *arg, const uint8_t **bad_out)
{
    while (message.at < message.end) {
        struct entry entry;
        struct field field = { .number = 0 };

        *bad_out = message.at;
        if (!take_message_field(&message, 1, &field))
            return -EBADMSG;
        if (field.number != 1)
            continue;
        entry.message = field.body;
        if (!read_plain_entry(field.body, &entry) && !walk_entry(field.body, &entry, bad_out))
            return -EBADMSG;
        const int rc = each(arg, &entry);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Several Features fields merge: their entries follow one another. */
static inline int walk_example(struct range message, entry_fn each, void *arg, const uint8_t **bad_out)
{
    while (message.at < message.end) {
        struct field field = { .number = 0 };

        *bad_out = message.at;
        if (!take_message_field(&message, 1, &field))
            return -EBADMSG;
        if (field.number != 1)
            continue;
        const int rc = walk_features(field.body, each, arg, bad_out);
        if (rc != 0)
            return rc;
    }
    return 0;
}

struct find {
    const struct example_query *query;
    struct feature *results;
};

/* Comparing the first byte avoids most calls of memcmp, as names of equal length mostly differ in it. */
static inline bool same_bytes(const char *name, const uint8_t *at, size_t bytes)
{
    return bytes == 0 || ((uint8_t)*name == *at && memcmp(name, at, bytes) == 0);
}

/* Of several entries with one name the last one is used. */
static inline void take_entry(struct feature *result, const struct entry *entry)
{
    const uint32_t before = result->entry_count;

    *result = entry->feature;
    result->entry = entry->message.at;
    result->entry_bytes = range_bytes(&entry->message);
    result->entry_count = before + 1;
}

static inline int find_entry(void *arg, const struct entry *entry)
{
    const struct find *find = arg;
    const struct example_query *query = find->query;
    const size_t bytes = range_bytes(&entry->name);

    for (size_t i = 0; i < query->count; i++) {
        if (query->name_bytes[i] == bytes && same_bytes(query->names[i], entry->name.at, bytes))
            take_entry(&find->results[i], entry);
    }
    return 0;
}

int example_find(const uint8_t *payload, size_t bytes, const struct example_query *query,
                 struct feature *results_out, size_t *bad_offset_out)
{
    struct find find = { query, results_out };
    const uint8_t *bad = payload;

    for (size_t i = 0; i < query->count; i++)
        results_out[i] = (struct feature){ .kind = FEATURE_MISSING };
    if (bytes == 0)
        return 0;
    const int rc = walk_example((struct range){ payload, payload + bytes }, find_entry, &find, &bad);
    if (rc != 0)
        *bad_offset_out = (size_t)(bad - payload);
    return rc;
}

struct visit {
    int (*fn)(void *arg, const char *name, size_t name_bytes, const struct feature *feature);
    void *arg;
    bool stopped;       /* the visitor ended the visit: a -EBADMSG is its result, not an encoding error */
};

static int visit_entry(void *arg, const struct entry *entry)
{
    struct visit *visit = arg;
    struct feature feature = { .entry_count = 0 };

    take_entry(&feature, entry);
    const int rc = visit->fn(visit->arg, (const char *)entry->name.at, range_bytes(&entry->name), &feature);

    visit->stopped = rc != 0;
    return rc;
}

int example_visit(const uint8_t *payload, size_t bytes,
                  int (*visit)(void *arg, const char *name, size_t name_bytes, const struct feature *feature),
                  void *arg, size_t *bad_offset_out)
{
    struct visit visitor = { .fn = visit, .arg = arg };
    const uint8_t *bad = payload;

    if (bytes == 0)
        return 0;
    const int rc = walk_example((struct range){ payload, payload + bytes }, visit_entry, &visitor, &bad);
    if (rc != 0 && !visitor.stopped)
        *bad_offset_out = (size_t)(bad - payload);
    return rc;
}

/* ---- the values of a feature ----
 *
 * These functions walk a feature again. The first walk has validated every byte, so errors are impossible. */

static void visit_int64s(struct range run, const struct value_visitor *visitor)
{
    uint64_t value;

    while (run.at < run.end && take_varint(&run, &value))
        visitor->int64(visitor->arg, (int64_t)value);
}

/* A field of a list is one value, or a packed run of values. */
static void visit_value(enum feature_kind kind, const struct field *value, const struct value_visitor *visitor)
{
    if (kind == FEATURE_BYTES)
        visitor->bytes(visitor->arg, value->body.at, range_bytes(&value->body));
    else if (kind == FEATURE_FLOATS)
        visitor->floats(visitor->arg, value->body.at, range_bytes(&value->body) / 4);
    else if (value->type == WIRE_VARINT)
        visitor->int64(visitor->arg, (int64_t)value->varint);
    else
        visit_int64s(value->body, visitor);
}

static void visit_list(struct range list, enum feature_kind kind, const struct value_visitor *visitor)
{
    struct field value = { .number = 0 };

    while (list.at < list.end && take_field(&list, &value)) {
        if (value.number == 1)
            visit_value(kind, &value, visitor);
    }
}

/* Lists of this kind before feature->list are skipped: a list of another kind replaced them. */
static void visit_lists(struct range message, const struct feature *feature, const struct value_visitor *visitor)
{
    struct field list = { .number = 0 };

    while (message.at < message.end && take_field(&message, &list)) {
        if (list.number == (uint32_t)feature->kind && list.body.at >= feature->list)
            visit_list(list.body, feature->kind, visitor);
    }
}

void feature_visit(const struct feature *feature, const struct value_visitor *visitor)
{
    struct range entry = { feature->entry, feature->entry + feature->entry_bytes };
    struct field field = { .number = 0 };

    assert(feature->kind != FEATURE_MISSING);
    while (entry.at < entry.end && take_field(&entry, &field)) {
        if (field.number == 2)
            visit_lists(field.body, feature, visitor);
    }
}

/* ---- writing ----
 *
 * In protobuf the length of a message precedes it, so sizes are computed first, from the innermost message outwards. */

/* The size of a length-delimited field with `body` bytes in it. */
static size_t field_size(size_t body)
{
    return 1 + varint_bytes(body) + body;
}

static uint8_t *put_field_start(uint8_t *out, uint32_t number, size_t body)
{
    *out++ = (uint8_t)(number << 3 | WIRE_BYTES);
    return varint_write(out, body);
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
    return value->kind == FEATURE_BYTES ? value->byte_count : varint_bytes((uint64_t)value->int64);
}

/* The list has one value. A packed run and a bytes value have the same layout. */
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
    return varint_write(out, (uint64_t)value->int64);
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

/* The state of rewriting a payload. */
struct replacing {
    const struct example_value *values;
    size_t count, next;         /* number of values; the next one to be written */
    size_t bytes;               /* size of the entries so far */
    uint8_t *at;                /* where the next entry is written; NULL: only count the bytes */
};

static void add_new_entry(struct replacing *replacing)
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
        add_new_entry(replacing);
    if (is_replaced(replacing, name, name_bytes))
        return 0;
    replacing->bytes += field_size(feature->entry_bytes);
    if (replacing->at != NULL)
        replacing->at = put_bytes(replacing->at, 1, feature->entry, feature->entry_bytes);
    return 0;
}

/* Count or write all entries, kept and new. Returns their size. */
static size_t replace_entries(struct replacing *replacing, const uint8_t *payload, size_t bytes)
{
    size_t bad_offset;

    (void)example_visit(payload, bytes, visit_kept, replacing, &bad_offset);
    while (replacing->next < replacing->count)
        add_new_entry(replacing);
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
