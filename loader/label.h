/* The label of a record: how it is stored, and its number. Also messages about a record's features. */
#ifndef PIPETRAIN_LABEL_H
#define PIPETRAIN_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/class_names.h"
#include "formats/example.h"

/* The payload of a record, and a buffer for a text that follows "record N at byte B: ". */
struct payload_problem {
    const uint8_t *payload;
    size_t bytes;
    char *text;
    size_t text_size;
};

struct values_text { char text[40]; };

/* Describe the values of a feature: "bytes" (one value), "2 byte strings", "1 float", "3 integers"; "nothing". */
struct values_text feature_values_text(const struct feature *feature);
/* Report that the payload is no valid Example from this byte on. Both functions return -EBADMSG. */
int feature_report_bad(const struct payload_problem *problem, size_t bad_offset);
/* Report that the record has no feature `key`, and list the features that it has. key NULL: it has none with any of the
 * usual names of `what` ("image"). */
int feature_report_missing(const struct payload_problem *problem, const char *what, const char *key);

struct label_format;

/* One way to store labels. */
struct label_ops {
    const char *name;           /* for messages: "integers" */
    /* Read the stored number. False if the feature is not a label of this kind. */
    bool (*read)(const struct label_format *format, const struct feature *feature, int64_t *stored_out);
};

struct label_format {
    uint32_t classes;
    bool classes_are_fixed;             /* the network's weights determine them, so messages do not suggest another
                                         * number */
    int64_t offset;                     /* added to the stored number */
    const struct class_names *names;    /* class names, by label with the offset added; may be NULL; must stay valid */
    bool accepts_any;                   /* read numbers out of range as 0, since the caller checks labels itself */
    const struct label_ops *ops;        /* set by label_find_format */
};

/* Advice in all messages about labels of -1. */
#define LABEL_MINUS_ONE "-1 often marks a record without a label: leave such records out of the set"
#define LABEL_COUNTED_FROM_MINUS_ONE "only if the classes are numbered from -1, set data.label_offset = 1"

/* Find how labels are stored, from the feature `key` of a first record: as one integer; one-hot, as `classes` integers
 * or floats; as a class name; as decimal digits ("11"); as one byte. 0, or -EBADMSG with the problem. */
int label_find_format(struct label_format *format, const char *key, const struct feature *feature,
                      const struct payload_problem *problem);
/* Is this label a single character, which is ambiguous? '7' may be the digit 7 or the number 55, 'a' a text or the
 * number 97; other records decide. To be called after label_find_format. */
bool label_is_open(const struct label_format *format, const struct feature *feature);
/* Is the label a byte that is not a printable character, so that labels are numbers? */
bool label_is_number_byte(const struct feature *feature);
/* Are labels stored as class names, so that their numbers depend on the order of the names? */
bool label_is_name(const struct label_format *format);
/* Decide how an ambiguous first label is read: as a number if `is_number` (another label is a number byte), else as
 * text. 0, or -EBADMSG if the text is not a label. */
int label_settle(struct label_format *format, const char *key, const struct feature *feature, bool is_number,
                 const struct payload_problem *problem);
/* Read the stored number, without the offset and without checking its range. 0, or -EBADMSG with the problem. */
int label_read_stored(const struct label_format *format, const char *key, const struct feature *feature,
                      int64_t *stored_out, const struct payload_problem *problem);
/* Read the label in [0, classes). 0, or -EBADMSG with the problem. */
int label_read(const struct label_format *format, const char *key, const struct feature *feature,
               int32_t *label_out, const struct payload_problem *problem);

#endif
