/* A record's label: the ways to store one, and what number it is. */
#ifndef PIPETRAIN_LABEL_H
#define PIPETRAIN_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/class_names.h"
#include "formats/example.h"
#include "loader/samples/feature_text.h"

struct label_format;

/* One way to store labels. */
struct label_ops {
    const char *name;           /* for the plan: "integers" */
    /* The number stored. False where the feature holds no label of this kind. */
    bool (*read)(const struct label_format *format, const struct feature *feature, int64_t *stored_out);
};

struct label_format {
    uint32_t classes;
    int64_t offset;                     /* added to the number stored */
    const struct class_names *names;    /* lent; NULL: not known */
    bool is_any_taken;                  /* a number out of range is taken for 0, since somebody else looks at it */
    const struct label_ops *ops;        /* found */
};

/* What to do about labels that are -1: for the messages of all that meet one. */
#define LABEL_MINUS_ONE "-1 often marks a record without a label: leave such records out of the set"
#define LABEL_COUNTED_FROM_MINUS_ONE "only if the classes are numbered from -1, set data.label_offset = 1"

/* Find from a first record's feature, which is there, how labels are stored: as one integer; one-hot, as `classes`
 * integers or floats, one of them 1 and all others 0; as the name of a class; as decimal digits, "11"; as one byte. 0,
 * or -EBADMSG with the problem. `key` is the feature's. */
int label_find_format(struct label_format *format, const char *key, const struct feature *feature,
                      const struct payload_problem *problem);
/* Whether the first record's label, whose format is found, is one byte that is a character, so that other records
 * have to say what it is: '7' is the digit 7 or the number 55, 'a' a text or the number 97. */
bool label_is_open(const struct label_format *format, const struct feature *feature);
/* Whether a label is one byte that is no character, which only a number can be. */
bool label_is_number_byte(const struct feature *feature);
/* Decide what the open label of the first record is, where labels of other records have been looked at: `is_number`
 * if one of them is a number's byte. Without any it is text. 0, or -EBADMSG where it is text that gives no label. */
int label_settle(struct label_format *format, const char *key, const struct feature *feature, bool is_number,
                 const struct payload_problem *problem);
/* The number stored, without the offset, whether it is in range or not. 0, or -EBADMSG with the problem. */
int label_read_stored(const struct label_format *format, const char *key, const struct feature *feature,
                      int64_t *stored_out, const struct payload_problem *problem);
/* The label in [0, classes). 0, or -EBADMSG with the problem. */
int label_read(const struct label_format *format, const char *key, const struct feature *feature,
               int32_t *label_out, const struct payload_problem *problem);

#endif
