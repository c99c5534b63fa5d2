/* Surveys of samples of a data set: of its images and its labels for --check, and of the labels in the order of
 * training for the plan of a run. They read from the file system. Results: 0, -ENOMEM, or -ECANCELED soon after the set
 * has become unwanted. */
#ifndef PIPETRAIN_DATASET_SURVEY_H
#define PIPETRAIN_DATASET_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/class_census.h"
#include "loader/class_text.h"
#include "loader/dataset.h"
#include "loader/order.h"
#include "loader/record.h"

/* ---- images ---- */

struct image_survey {
    uint64_t count;             /* decoded images */
    uint64_t flawed;            /* of these, with a warning of the decoder */
    uint64_t unreadable;        /* records that could not be decoded */
    uint64_t bad_id;            /* the first unreadable record, or else the first flawed one */
    struct record_problem problem;      /* of that record */
    uint64_t flat, flat_id;     /* decoded images nearly of one colour, and the first of them */
    uint32_t lowest, highest;   /* pixel, 0 to 255 */
    double mean;
};

/* Decode, without augmentation, records spread evenly over the set: all of a small set, some hundred of others, fewer
 * if records are large. */
int image_survey_make(struct image_survey *survey_out, const struct dataset *dataset);

/* ---- labels ---- */

struct label_survey {
    int64_t *labels;            /* as stored, without label_offset; ascending */
    size_t count;
    uint64_t unreadable;        /* records whose payload or label cannot be read */
    uint64_t bad_id;            /* the first of these, and its problem */
    struct record_problem problem;
    uint64_t repeats;           /* records with more than one image or label feature */
};

/* Read the labels of records spread evenly over the set: some thousand, fewer if records are large. Stops after several
 * unreadable ones in succession. */
int label_survey_make(struct label_survey *survey_out, const struct dataset *dataset);
void label_survey_release(struct label_survey *survey);

/* Whether all labels are in [0, classes) with this offset. True if there are none. */
bool label_survey_fits(const struct label_survey *survey, int64_t offset, uint32_t classes);
/* The label_offset nearest to 0 for which they are. False if no allowed one is. */
#define LABEL_OFFSET_MAX (1 << 20)
bool label_survey_offset(const struct label_survey *survey, uint32_t classes, int64_t *offset_out);

/* ---- names of classes ---- */

/* Compare the texts of some records that are spread over the set (of compressed shards, at their beginnings) with a
 * list by class. Records without a text, or that cannot be read, do not count. */
int class_text_survey_make(struct class_text_counts *counts_out, const struct class_texts *texts,
                           const struct dataset *dataset);
/* Add the same records of a set without a list to an empty census, which is not ended. */
int class_census_make(struct class_census *census, const struct dataset *dataset);
/* The names of classes that most records say, from a census that is ended; "" for a class without. */
int class_census_names(struct class_names *names_out, const struct class_census *census, const struct dataset *dataset);

/* ---- the order of labels: if a set is stored class by class and not mixed enough, successive labels are equal ---- */

/* The labels of pairs of records that follow each other in the order of training, in a sample of such pairs. */
struct label_order {
    uint32_t pairs;             /* whose labels can be read */
    uint32_t equal;             /* of these, with equal labels */
    double expected;            /* number of equal pairs if the records were mixed */
    bool is_one_label;          /* all labels read are equal, */
    int64_t label;              /* to this one, as stored */
};

/* Read the labels of some pairs in the first epoch's order of this seed. */
int label_order_look(struct label_order *look_out, const struct dataset *dataset, const struct order_shape *shape,
                     uint64_t seed);
/* Whether there are far more equal pairs than chance explains; false for a set of less than 64 records. */
bool label_order_is_sorted(const struct label_order *look);

#endif
