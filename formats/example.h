/* tf.train.Example: a zero-copy walk of the wire format, and a writer (doc/formats.md). Readers accept all legal
 * encodings: fields in any order, duplicates (the last one is used), packed, unpacked and mixed lists, unknown fields,
 * several Features messages. */
#ifndef PIPETRAIN_EXAMPLE_H
#define PIPETRAIN_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The kind of a feature's values: the field number of the list in a Feature. */
enum feature_kind { FEATURE_MISSING, FEATURE_BYTES, FEATURE_FLOATS, FEATURE_INT64S };

/* A feature as found: its first value (bytes or int64), and the number of values; feature_visit visits all values.
 * Pointers point into the payload. */
struct feature {
    enum feature_kind kind;
    uint32_t entry_count;       /* entries with this name in the payload; the last one counts */
    uint64_t value_count;
    const uint8_t *bytes;       /* FEATURE_BYTES: first value */
    size_t byte_count;
    int64_t int64;              /* FEATURE_INT64S: first value */
    const uint8_t *entry;       /* the entry message with the feature */
    size_t entry_bytes;
    const uint8_t *list;        /* the feature's first list; earlier lists were replaced by one of another kind */
};

/* The names of `count` features to find; results[i] belongs to names[i]. */
struct example_query {
    const char *const *names;
    const size_t *name_bytes;   /* strlen of each */
    size_t count;
};

/* Find the named features. 0, or -EBADMSG with *bad_offset_out: the byte in the payload where the encoding is wrong.
 * Features that are not found are FEATURE_MISSING. */
int example_find(const uint8_t *payload, size_t bytes, const struct example_query *query,
                 struct feature *results_out, size_t *bad_offset_out);

/* Visit every entry in wire order, each with an entry_count of 1, to list what a record has. The name is not
 * zero-terminated. visit returns 0 to continue. Returns 0, the nonzero result of visit, or -EBADMSG. */
int example_visit(const uint8_t *payload, size_t bytes,
                  int (*visit)(void *arg, const char *name, size_t name_bytes, const struct feature *feature),
                  void *arg, size_t *bad_offset_out);

/* Functions that feature_visit calls with the values, in order. Those of other kinds may be NULL. */
struct value_visitor {
    void (*bytes)(void *arg, const uint8_t *value, size_t byte_count);
    /* `count` values of 4 little-endian bytes, not aligned */
    void (*floats)(void *arg, const uint8_t *run, size_t count);
    void (*int64)(void *arg, int64_t value);
    void *arg;
};
/* Visit all value_count values of a feature that example_find or example_visit returned; they may be packed or not. */
void feature_visit(const struct feature *feature, const struct value_visitor *visitor);

/* A feature to be written. Features must be sorted bytewise by name. */
struct example_value {
    const char *name;
    enum feature_kind kind;     /* FEATURE_BYTES or FEATURE_INT64S, with one value */
    const void *bytes;
    size_t byte_count;
    int64_t int64;
};
/* The size of the Example; example_write writes exactly that many bytes. */
size_t example_size(const struct example_value *values, size_t count);
size_t example_write(const struct example_value *values, size_t count, uint8_t *out);

/* Rewrite a valid payload with new values of some features. Entries with other names are kept byte for byte and in
 * their order; entries with a name in `values` are removed, and each value is inserted before the first kept name that
 * sorts after its own name. A value of kind FEATURE_MISSING only removes entries. `values` are sorted bytewise by name.
 * example_replaced_size returns the size of the result; example_replace writes exactly that many bytes. */
size_t example_replaced_size(const uint8_t *payload, size_t bytes, const struct example_value *values, size_t count);
size_t example_replace(const uint8_t *payload, size_t bytes, const struct example_value *values, size_t count,
                       uint8_t *out);

#endif
