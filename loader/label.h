/* The label of a record: how it is stored and which number it is. Also messages about a record's features. */
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

/* What a feature holds: "bytes" (one value), "2 byte strings", "1 float", "3 integers"; "nothing". */
struct values_text feature_values_text(const struct feature *feature);
/* Report that the payload is not an Example, from this byte on. Both functions return -EBADMSG. */
int feature_report_bad(const struct payload_problem *problem, size_t bad_offset);
/* Report that the record has no feature `key`, and list the features that it has. key NULL: it has none with any of the
 * usual names of `what` ("image"). */
int feature_report_missing(const struct payload_problem *problem, const char *what, const char *key);

struct label_format;

/* One way to store labels. */
struct label_ops {
    const char *name;           /* for the plan: "integers" */
    /* The stored number. False if the feature does not hold such a label. */
    bool (*read)(const struct label_format *format, const struct feature *feature, int64_t *stored_out);
};

struct label_format {
    uint32_t classes;
    bool classes_are_fixed;             /* by the weights of the network: messages advise no other number */
    int64_t offset;                     /* added to the stored number */
    const struct class_names *names;    /* of classes, that is after the offset; may be NULL; must stay valid */
    bool accepts_any;                   /* read numbers out of range as 0: the caller checks labels itself */
    const struct label_ops *ops;        /* set by label_find_format */
};

/* Advice about labels of -1, for all messages about them. */
#define LABEL_MINUS_ONE "-1 often marks a record without a label: leave such records out of the set"
#define LABEL_COUNTED_FROM_MINUS_ONE "only if the classes are numbered from -1, set data.label_offset = 1"

/* Find from the feature `key` of a first record, which has it, how labels are stored: as one integer; one-hot, as
 * `classes` integers or floats; as a class name; as decimal digits ("11"); as one byte. 0, or -EBADMSG with the
 * problem. */
int label_find_format(struct label_format *format, const char *key, const struct feature *feature,
                      const struct payload_problem *problem);
/* Whether this label is a single character, which is ambiguous: '7' may be the digit 7 or the number 55, 'a' a text or
 * the number 97. Other records decide. Call it after label_find_format. */
bool label_is_open(const struct label_format *format, const struct feature *feature);
/* Whether the label is a byte that is not a character, so that labels are numbers. */
bool label_is_number_byte(const struct feature *feature);
/* Are labels stored as names of classes, so that the order of the names decides their numbers? */
bool label_is_name(const struct label_format *format);
/* Decide what an ambiguous first label is: a number if `is_number` (one of the other labels is a number byte), else
 * text. 0, or -EBADMSG if it is a text that is no label. */
int label_settle(struct label_format *format, const char *key, const struct feature *feature, bool is_number,
                 const struct payload_problem *problem);
/* The stored number, without the offset, in range or not. 0, or -EBADMSG with the problem. */
int label_read_stored(const struct label_format *format, const char *key, const struct feature *feature,
                      int64_t *stored_out, const struct payload_problem *problem);
/* The label in [0, classes). 0, or -EBADMSG with the problem. */
int label_read(const struct label_format *format, const char *key, const struct feature *feature,
               int32_t *label_out, const struct payload_problem *problem);

#endif
