/* Surveys of samples of a data set: of its images and labels for --check, and of labels in training order before a run
 * starts. They read files. Results: 0, -ENOMEM, or -ECANCELED soon after the data set's *is_unwanted is set. */
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
    uint64_t flawed;            /* decoded images with a warning of the decoder */
    uint64_t unreadable;        /* records that could not be decoded */
    uint64_t bad_id;            /* the first unreadable record, or else the first flawed one */
    struct record_problem problem;      /* problem of that record */
    uint64_t turned;            /* decoded images whose EXIF orientation is not upright */
    uint64_t flat, flat_id;     /* decoded images of nearly one colour, and the first one */
    uint32_t lowest, highest;   /* lowest and highest pixel, 0 to 255 */
    double mean;
};

/* Decode evenly spaced records without augmentation: all of a small data set, otherwise some hundred, or fewer if
 * records are large. */
int image_survey_make(struct image_survey *survey_out, const struct dataset *dataset);

/* ---- labels ---- */

struct label_survey {
    int64_t *labels;            /* as stored, without label_offset; ascending */
    size_t count;
    uint64_t unreadable;        /* records whose payload or label cannot be read */
    uint64_t bad_id;            /* the first of these records, and its problem */
    struct record_problem problem;
    uint64_t repeats;           /* records with more than one image or label feature */
};

/* Read the labels of evenly spaced records: some thousand, or fewer if records are large. Stops after several
 * unreadable labels in succession. */
int label_survey_make(struct label_survey *survey_out, const struct dataset *dataset);
void label_survey_release(struct label_survey *survey);

/* Are all labels in [0, classes) after adding this offset? True if there are no labels. */
bool label_survey_fits(const struct label_survey *survey, int64_t offset, uint32_t classes);
/* Find the label_offset nearest to 0 that moves all labels into [0, classes). False if no offset up to LABEL_OFFSET_MAX
 * does. */
#define LABEL_OFFSET_MAX (1 << 20)
bool label_survey_offset(const struct label_survey *survey, uint32_t classes, int64_t *offset_out);

/* ---- class names ---- */

/* Compare the texts of some records with a list by class. The records are evenly spaced (in compressed shards they are
 * at the beginnings). Records that have no text or cannot be read do not count. */
int class_text_survey_make(struct class_text_counts *counts_out, const struct class_texts *texts,
                           const struct dataset *dataset);
/* Add the texts of the same records to an empty census, for a data set without a list. The census is not ended. */
int class_census_make(struct class_census *census, const struct dataset *dataset);
/* The names of the classes: the text of most records of each, from a census that is ended; "" for a class without
 * texts. */
int class_census_names(struct class_names *names_out, const struct class_census *census, const struct dataset *dataset);

/* ---- order of labels: successive labels are equal if a data set is stored class by class and not shuffled enough
 * ---- */

/* A sample of pairs of records that are successive in training order, and their labels. */
struct label_order {
    uint32_t pairs;             /* pairs whose labels can be read */
    uint32_t equal;             /* pairs with equal labels */
    double expected;            /* expected number of equal pairs in random order */
    bool is_one_label;          /* all labels read are equal */
    int64_t label;              /* that label, as stored */
};

/* Read the labels of some pairs in the first epoch's order with this seed. */
int label_order_look(struct label_order *look_out, const struct dataset *dataset, const struct order_shape *shape,
                     uint64_t seed);
/* Are far more pairs equal than expected by chance? False for a data set of less than 64 records. */
bool label_order_is_sorted(const struct label_order *look);

#endif
