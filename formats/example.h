/* tf.train.Example: a zero-copy walk of the wire format, and a writer
 * (doc/formats.md). Readers accept all legal encodings: any order, duplicates (last
 * wins), packed, unpacked and mixed lists, unknown fields, merged Features. */
#ifndef PIPETRAIN_EXAMPLE_H
#define PIPETRAIN_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a feature's values, numbered as the lists of a Feature. */
enum feature_kind { FEATURE_MISSING, FEATURE_BYTES, FEATURE_FLOATS, FEATURE_INT64S };

/* One feature as found: its first value (of bytes or int64s) and the number of values; feature_visit visits all of
 * them. Pointers point into the payload. */
struct feature {
    enum feature_kind kind;
    uint32_t entry_count;       /* entries with this name in the payload; this is the last of them */
    uint64_t value_count;
    const uint8_t *bytes;       /* FEATURE_BYTES: first value */
    size_t byte_count;
    int64_t int64;              /* FEATURE_INT64S: first value */
    const uint8_t *entry;       /* the message it was found in */
    size_t entry_bytes;
    const uint8_t *list;        /* where its first list begins; lists before it were replaced */
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
 * is not terminated. visit returns 0 to continue. 0, the visitor's result, or -EBADMSG. */
int example_visit(const uint8_t *payload, size_t bytes,
                  int (*visit)(void *arg, const char *name, size_t name_bytes, const struct feature *feature),
                  void *arg, size_t *bad_offset_out);

/* Called with the values of a feature in their order. Functions for other kinds may be NULL. */
struct value_visitor {
    void (*bytes)(void *arg, const uint8_t *value, size_t byte_count);
    /* `count` values of 4 little-endian bytes, at any address. */
    void (*floats)(void *arg, const uint8_t *run, size_t count);
    void (*int64)(void *arg, int64_t value);
    void *arg;
};
/* Visit the values of a feature from example_find or example_visit, packed or not: value_count in all. */
void feature_visit(const struct feature *feature, const struct value_visitor *visitor);

/* Writing: features must be given in bytewise order of their names. */
struct example_value {
    const char *name;
    enum feature_kind kind;     /* FEATURE_BYTES or FEATURE_INT64S, one value */
    const void *bytes;
    size_t byte_count;
    int64_t int64;
};
/* The size of the Example; example_write writes exactly that many bytes. */
size_t example_size(const struct example_value *values, size_t count);
size_t example_write(const struct example_value *values, size_t count, uint8_t *out);

/* Rewrite a valid payload with new values of some features. Entries with other names are kept byte for byte and in
 * their order; entries with a name in `values` are removed, and each value is inserted before the first kept name
 * that sorts after it. A value of kind FEATURE_MISSING only removes. `values` are in bytewise order of their names.
 * The first function returns the size of the result; the second writes exactly that many bytes. */
size_t example_replaced_size(const uint8_t *payload, size_t bytes, const struct example_value *values, size_t count);
size_t example_replace(const uint8_t *payload, size_t bytes, const struct example_value *values, size_t count,
                       uint8_t *out);

#endif
