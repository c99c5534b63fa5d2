/* One set of shards as two data sets: what is trained on, and what is held out for validation. */
#ifndef PIPETRAIN_SET_PART_H
#define PIPETRAIN_SET_PART_H

#include "loader/dataset.h"

/* Leave in the index of the shard at `path` the records of this part. Which part a record is of depends on the name of
 * its shard's file and its number there alone: both parts are the same in every run, whatever its seed, and each record
 * is of one of them. `held_out`, in (0, 1), is the chance of a record to be held out. */
void set_part_keep(struct shard_index *index, const char *path, enum dataset_part part, double held_out);

#endif
