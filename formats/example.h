/* tf.train.Example: a zero-copy walk of the wire format, and a writer
 * (doc/formats.md). Readers accept all legal encodings: any order, duplicates (last
 * wins), packed, unpacked and mixed lists, unknown fields, merged Features. */
#ifndef PIPETRAIN_EXAMPLE_H
#define PIPETRAIN_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum feature_kind { FEATURE_MISSING, FEATURE_BYTES, FEATURE_FLOATS, FEATURE_INT64S };

/* One feature as found: first bytes value / number of values. Pointers into the payload. */
struct feature {
    enum feature_kind kind;
    uint64_t value_count;
    const uint8_t *bytes;       /* FEATURE_BYTES: first value */
    size_t byte_count;
    int64_t int64;              /* FEATURE_INT64S: first value */
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

/* Visit every entry in wire order (for listing what a record holds). The name is not
 * terminated. visit returns 0 to go on. 0, the visitor's result, or -EBADMSG. */
int example_visit(const uint8_t *payload, size_t bytes,
                  int (*visit)(void *arg, const char *name, size_t name_bytes, const struct feature *feature),
                  void *arg, size_t *bad_offset_out);

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

#endif
