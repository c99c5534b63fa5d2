/* tf.train.Example: a zero-copy walk of the wire format, and a writer
 * (doc/formats.md). Readers accept all legal encodings: any order, duplicates (last
 * wins), packed, unpacked and mixed lists, unknown fields, merged Features. */
#ifndef PIPETRAIN_EXAMPLE_H
#define PIPETRAIN_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a feature holds, numbered as its list is in a Feature. */
enum feature_kind { FEATURE_MISSING, FEATURE_BYTES, FEATURE_FLOATS, FEATURE_INT64S };

/* One feature as found: first value of bytes or int64s / number of values; feature_visit gives them all.
 * Pointers into the payload. */
struct feature {
    enum feature_kind kind;
    uint32_t entry_count;       /* with this name in the payload; this is the last of them */
    uint64_t value_count;
    const uint8_t *bytes;       /* FEATURE_BYTES: first value */
    size_t byte_count;
    int64_t int64;              /* FEATURE_INT64S: first value */
    const uint8_t *entry;       /* the message it was found in */
    size_t entry_bytes;
    const uint8_t *list;        /* where its first list begins; lists in front of it do not count */
};

/* What to look for: `names` of `count` features; results[i] belongs to names[i]. */
struct example_query {
    const char *const *names;
    const size_t *name_bytes;   /* strlen of each */
    size_t count;
};

/* Find the named features. 0, or -EBADMSG with *bad_offset_out = byte in the payload
 * where the encoding is wrong. Features not there are FEATURE_MISSING. */
int example_find(const uint8_t *payload, size_t bytes, const struct example_query *query,
                 struct feature *results_out, size_t *bad_offset_out);

/* Visit every entry in wire order (for listing what a record holds), each with an entry_count of 1. The name
 * is not terminated. visit returns 0 to go on. 0, the visitor's result, or -EBADMSG. */
int example_visit(const uint8_t *payload, size_t bytes,
                  int (*visit)(void *arg, const char *name, size_t name_bytes, const struct feature *feature),
                  void *arg, size_t *bad_offset_out);

/* Called with the values of a feature in their order. What its kind does not give may be NULL. */
struct value_visitor {
    void (*bytes)(void *arg, const uint8_t *value, size_t byte_count);
    /* So many of 4 little-endian bytes, at any address. */
    void (*floats)(void *arg, const uint8_t *run, size_t count);
    void (*int64)(void *arg, int64_t value);
    void *arg;
};
/* Visit the values of a feature that example_find or example_visit gave, packed or not: value_count in all. */
void feature_visit(const struct feature *feature, const struct value_visitor *visitor);

/* Writing: features must be given in bytewise order of their names. */
struct example_value {
    const char *name;
    enum feature_kind kind;     /* FEATURE_BYTES or FEATURE_INT64S, one value */
    const void *bytes;
    size_t byte_count;
    int64_t int64;
};
/* Bytes the Example takes; example_write fills exactly that many. */
size_t example_size(const struct example_value *values, size_t count);
size_t example_write(const struct example_value *values, size_t count, uint8_t *out);

/* Write a payload that example_find can read anew, with other values of some features: entries of other names stay
 * as they are, byte for byte and in their order; those of the names in `values` go, and the values come in, in
 * front of the first name that is behind theirs. A value of kind FEATURE_MISSING only says which feature goes.
 * `values` are in bytewise order of their names. The first gives the bytes it takes; the second fills exactly that
 * many. */
size_t example_replaced_size(const uint8_t *payload, size_t bytes, const struct example_value *values, size_t count);
size_t example_replace(const uint8_t *payload, size_t bytes, const struct example_value *values, size_t count,
                       uint8_t *out);

#endif
