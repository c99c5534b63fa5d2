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

struct values_text { char text[40]; };

/* What a feature holds: "bytes" (one value), "2 byte strings", "1 float", "3 integers"; "nothing". */
struct values_text feature_values_text(const struct feature *feature);
/* That the payload is no Example, from this byte on. Both return -EBADMSG. */
int feature_tell_bad(const struct payload_problem *problem, size_t bad_offset);
/* That it has not this feature, or, where `key` is NULL, none known to hold the `what` ("image"), and which
 * features there are. */
int feature_tell_missing(const struct payload_problem *problem, const char *what, const char *key);

#endif
