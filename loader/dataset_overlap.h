/* Whether two data sets take the same files. */
#ifndef PIPETRAIN_DATASET_OVERLAP_H
#define PIPETRAIN_DATASET_OVERLAP_H

#include "loader/dataset.h"

struct dataset_overlap {
    uint32_t count;             /* shards of the one that are files of the other too */
    uint32_t first;             /* of them, by its number in the one; meaningless without any */
};

/* The shards of `dataset` that are files of `other`, also through links and other spellings of a path.
 * 0 or -ENOMEM. */
int dataset_overlap_find(struct dataset_overlap *overlap_out, const struct dataset *dataset,
                         const struct dataset *other);

#endif
