/* The file that lists the names of a data set's classes. */
#ifndef PIPETRAIN_CLASS_LIST_H
#define PIPETRAIN_CLASS_LIST_H

#include "loader/opening/opening.h"

/* Read the names of the classes: the file configured, whose problems are reported to the opening; else, beside the
 * first shard, LABEL_KEY.labels.txt (TFDS) or labels.txt (TF-Slim), where one is there and can be used. The data
 * set keeps them. */
void class_list_find(struct opening *opening);

#endif
