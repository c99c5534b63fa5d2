/* The walk over a serialized tf.train.Example. Called once per record by the
 * decoders (any thread), so it copies nothing and allocates nothing: every message is a range
 * of the payload, and a range never reaches past the one it lies in.
 *
 *   Example { 1: Features }   Features { 1: entry, repeated }   entry { 1: name, 2: Feature }
 *   Feature { one of 1: bytes list, 2: float list, 3: int64 list }   list { 1: value, repeated }
 */
#include "formats/example.h"

#include <errno.h>
#include <string.h>

#include "formats/wire.h"

/* A field of a known number must have the type the schema gives it. */
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

/* One occurrence of field 1 of a list. False when its type does not suit the list;
 * *bad_out is set when the fault lies inside the value. */
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

/* A Feature is a oneof: another kind replaces what was there, the same kind adds to it. */
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

/* An absent name is the empty one; its pointer is still inside the payload. */
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

/* If the range is exactly one length-delimited field with this tag, its body. */
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

/* An entry as writers lay it out: the name, then a value with one list of one packed run
 * or one bytes value, nothing else. False when it is anything but that, and then the entry
 * is unchanged: the walk has to look at it. */
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

/* Called with each entry. Returns 0 to go on. */
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

/* Names of one length mostly differ in their first byte, which saves the call. */
static inline bool same_bytes(const char *name, const uint8_t *at, size_t bytes)
{
    return bytes == 0 || ((uint8_t)*name == *at && memcmp(name, at, bytes) == 0);
}

/* The last of several entries of one name counts. */
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
    bool stopped;       /* tells the visitor's own -EBADMSG from a bad encoding */
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
