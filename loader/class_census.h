/* What the records of a set say about the name of their class (image/class/text), where no list names the classes: the
 * same label has to be the same class in all of them. A census belongs to one thread, or to the holder of a lock. */
#ifndef PIPETRAIN_CLASS_CENSUS_H
#define PIPETRAIN_CLASS_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/class_text.h"

/* Records with one label and one text. */
struct class_said {
    int64_t label;              /* as stored */
    uint64_t count;
    uint64_t record;            /* the lowest of them */
    char text[CLASS_TEXT_BYTES];        /* its first synonym in lower case */
};

/* Zeros at first. */
struct class_census {
    struct class_said *said;
    uint32_t count;
    uint32_t *slots;            /* places in `said` plus 1, by hash */
    uint32_t slot_count;
    bool is_full;               /* so many texts that they are no names; nothing more is added */
};

struct class_census_result {
    uint64_t right;             /* records that say what most of their label say */
    uint64_t wrong;             /* those that say something else which records of another label say, too */
    uint64_t other;             /* those that say something that no other label has */
    uint32_t labels;
    const struct class_said *usual, *strange;   /* of one label, with the lowest strange record; NULL: there is none */
    bool is_contradiction;      /* labels of several meanings were put together */
    bool is_doubtful;           /* records of one label say different names, which may be synonyms */
};

/* Count the image/class/text of a record with this label, if it has one. 0 or -ENOMEM. */
int class_census_add(struct class_census *census, uint64_t record, int64_t label, const uint8_t *payload,
                     size_t bytes);
/* Add the records of another one. 0 or -ENOMEM. */
int class_census_join(struct class_census *census, const struct class_census *other);
/* The result does not depend on the order of the records. It is valid until the census is released, and nothing can be
 * added any more. After it, the first of `said` with a label has the text of most of its records. */
struct class_census_result class_census_end(struct class_census *census);
/* "label 0 is ant in HERE, but zebra in THERE (3 of 12 records ...)": the places of the usual and the strange
 * record. */
void class_census_describe(const struct class_census_result *result, const char *here, const char *there,
                           char *text_out, size_t text_size);
/* Accepts a struct of zeros. */
void class_census_release(struct class_census *census);

#endif
