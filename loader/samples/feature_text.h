/* What messages say of a record's features. */
#ifndef PIPETRAIN_FEATURE_TEXT_H
#define PIPETRAIN_FEATURE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "formats/example.h"

/* A record's payload, and room for a text that follows "record N at byte B: ". */
struct payload_problem {
    const uint8_t *payload;
    size_t bytes;
    char *text;
    size_t text_size;
};

/* "bytes values", "floats", "integers". */
const char *feature_kind_text(enum feature_kind kind);
/* That the payload is no Example, from this byte on. Both return -EBADMSG. */
int feature_tell_bad(const struct payload_problem *problem, size_t bad_offset);
/* That it has not this feature, or, where `key` is NULL, none known to hold the `what` ("image"), and which
 * features there are. */
int feature_tell_missing(const struct payload_problem *problem, const char *what, const char *key);

#endif
