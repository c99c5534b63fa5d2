/* Some images of a data set, decoded as training does it, for who checks a set before a run. */
#ifndef PIPETRAIN_IMAGE_SURVEY_H
#define PIPETRAIN_IMAGE_SURVEY_H

#include <stdint.h>

#include "loader/dataset.h"
#include "loader/record.h"

struct image_survey {
    uint64_t count;             /* images decoded */
    uint64_t flawed;            /* of them, with a warning of the decoder */
    uint64_t unreadable;        /* records looked at that do not give a sample */
    uint64_t bad_id;            /* the first of those in the order of the set, or else of the flawed ones */
    struct record_problem problem;      /* of that record */
    uint32_t lowest, highest;   /* of the pixels of the samples, 0 to 255 */
    double mean;
};

/* Decode records spread evenly over the set, not augmented: all of a small set, some hundred of others, fewer of large
 * records. 0 or -ENOMEM, or -ECANCELED soon after the set has become unwanted. Blocks on the file system. */
int image_survey_make(struct image_survey *survey_out, const struct dataset *dataset);

#endif
