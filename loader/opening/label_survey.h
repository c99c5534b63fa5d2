/* The labels of a sample of a data set's records, for who configures a run: do they count from 0 or from 1, and are
 * all classes there? */
#ifndef PIPETRAIN_LABEL_SURVEY_H
#define PIPETRAIN_LABEL_SURVEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "loader/record.h"

struct label_survey {
    int64_t *labels;            /* as stored, without label_offset, ascending */
    size_t count;
    uint64_t unreadable;        /* records looked at whose payload or label cannot be read */
    uint64_t bad_id;            /* the first of them in the order of the set, and what is wrong with it */
    struct record_problem problem;
    uint64_t repeats;           /* records in which image or label is there more than once */
};

/* Verify records spread evenly over the set and read their labels: some thousand, fewer of large ones, and no more
 * when several in a row cannot be read. 0 or -ENOMEM, or -ECANCELED soon after the set has become unwanted. Blocks on
 * the file system. */
int label_survey_make(struct label_survey *survey_out, const struct dataset *dataset);
void label_survey_release(struct label_survey *survey);

/* Whether all labels are in [0, classes) with this offset. True where there are none. */
bool label_survey_fits(const struct label_survey *survey, int64_t offset, uint32_t classes);
/* The label_offset nearest to 0 with which they are. False when none is that may be set. */
#define LABEL_OFFSET_MAX (1 << 20)
bool label_survey_offset(const struct label_survey *survey, uint32_t classes, int64_t *offset_out);

#endif
