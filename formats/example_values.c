/* The values of a feature, walked again: the first walk has looked at every byte, so that nothing can be
 * wrong any more. Called by decoders for labels and images that are lists of numbers. */
#include "formats/example.h"

#include <assert.h>

#include "formats/wire.h"

static void visit_int64s(struct range run, const struct value_visitor *visitor)
{
    uint64_t value;

    while (run.at < run.end && take_varint(&run, &value))
        visitor->int64(visitor->arg, (int64_t)value);
}

/* One field of a list: a value, or a packed run of them. */
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

/* Lists of this kind that another kind has replaced lie in front of feature->list. */
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
