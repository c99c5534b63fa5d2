/* Class names in records (image/class/text), compared with a list of names. Any thread may compare, with counts of its
 * own. */
#ifndef PIPETRAIN_CLASS_TEXT_H
#define PIPETRAIN_CLASS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/class_names.h"

#define CLASS_TEXT_BYTES 64u    /* size of a text in a message */

struct class_texts {
    const struct class_names *names;    /* borrowed */
    struct class_names folded;          /* first synonyms of the names, in lower case */
};

/* The results of comparing several records. */
struct class_text_counts {
    uint64_t right, wrong;
    uint64_t unknown;           /* records whose text is no known name */
    uint64_t record;            /* the lowest wrong record */
    uint32_t label;             /* label and text of that record */
    char text[CLASS_TEXT_BYTES];
};

/* 0 or -ENOMEM. */
int class_texts_open(struct class_texts *texts_out, const struct class_names *names);
void class_texts_close(struct class_texts *texts);
/* Compare a record of class `number` with the name of its class; `record` only orders records. The record is wrong if
 * one of its texts is the name of another class, and otherwise right if the text contains the name or is a part of it;
 * a text that is no known name, such as a synonym, counts as unknown. Case is ignored, and so is the text after a
 * comma; "_" and "-" are equal to blanks. */
void class_texts_compare(const struct class_texts *texts, uint64_t record, int64_t number, const uint8_t *payload,
                         size_t bytes, struct class_text_counts *counts);
/* Read the first synonym of a record's text, in lower case; "" if the record has no text or the synonym is longer. */
void class_text_read(const uint8_t *payload, size_t bytes, char text_out[static CLASS_TEXT_BYTES]);
void class_text_counts_join(struct class_text_counts *counts, const struct class_text_counts *other);
/* Is the list wrong, rather than single labels? */
static inline bool class_text_counts_contradicts(const struct class_text_counts *counts)
{
    return counts->wrong > counts->right;
}
/* Describe a contradiction: "label 0 is ant in names.txt, but zebra in WHERE (3 of 12 records name another class ...)".
 * The label is printed as it is stored. */
void class_text_counts_describe(const struct class_text_counts *counts, const struct class_texts *texts, int64_t stored,
                               const char *path, const char *where, char *text_out, size_t text_size);

#endif
