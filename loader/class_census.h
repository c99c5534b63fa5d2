/* Class names in the records of a data set (image/class/text), used if no list names the classes: records with the same
 * label must be of the same class. A census belongs to one thread, or to the holder of a lock. */
#ifndef PIPETRAIN_CLASS_CENSUS_H
#define PIPETRAIN_CLASS_CENSUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/class_text.h"

/* The records with one label and one text. */
struct class_said {
    int64_t label;              /* as stored */
    uint64_t count;
    uint64_t record;            /* the lowest of these records */
    char text[CLASS_TEXT_BYTES];        /* first synonym of the text, in lower case */
};

/* Starts as all zeros. */
struct class_census {
    struct class_said *said;
    uint32_t count;
    uint32_t *slots;            /* hash table: indexes in `said` plus 1; 0 is empty */
    uint32_t slot_count;
    bool is_full;               /* there are too many texts for class names; nothing more is added */
};

struct class_census_result {
    uint64_t right;             /* records that agree with the most frequent text of their label */
    uint64_t wrong;             /* records with another text that occurs with another label, too */
    uint64_t other;             /* records with another text that occurs with no other label */
    uint32_t labels;
    const struct class_said *usual, *strange;   /* two texts of one label; of the texts that differ from `usual`,
                                                 * `strange` is in the lowest record; NULL: none */
    bool is_contradiction;      /* data sets with different meanings of the labels were put together */
    bool is_doubtful;           /* records of one label have different names, which may be synonyms */
};

/* Count the image/class/text of a record with this label, if it has one. 0 or -ENOMEM. */
int class_census_add(struct class_census *census, uint64_t record, int64_t label, const uint8_t *payload,
                     size_t bytes);
/* Add the records of another census. 0 or -ENOMEM. */
int class_census_join(struct class_census *census, const struct class_census *other);
/* Evaluate the census. The result does not depend on the order of the records and is valid until the census is
 * released; nothing may be added afterwards. Afterwards the first entry of `said` for each label is the label's most
 * frequent text. */
struct class_census_result class_census_end(struct class_census *census);
/* Describe a contradiction: "label 0 is ant in HERE, but zebra in THERE (3 of 12 records ...)", where `here` and
 * `there` are the places of the usual and the strange record. */
void class_census_describe(const struct class_census_result *result, const char *here, const char *there,
                           char *text_out, size_t text_size);
/* Accepts a struct of zeros. */
void class_census_release(struct class_census *census);

#endif
