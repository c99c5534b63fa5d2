/* The names of a data set's classes, for the weights that are trained on it. Used by main only. */
#ifndef PIPETRAIN_CLASS_NAMES_GIVE_H
#define PIPETRAIN_CLASS_NAMES_GIVE_H

#include "loader/dataset.h"
#include "tools/results/weights.h"

/* What the list of the data set, or what lies beside its shards, calls the classes goes into the metadata of the
 * weights (either may be NULL: nothing is done). A name that is no line is as good as none. 0 or -ENOMEM. */
int class_names_give(struct weights *weights, const struct dataset *dataset);

#endif
