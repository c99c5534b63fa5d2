/* One set of shards as two data sets: what is trained on, and what is held out for validation. */
#ifndef PIPETRAIN_SET_PART_H
#define PIPETRAIN_SET_PART_H

#include "loader/dataset.h"

/* Leave in the index of the shard at `path` the records of this part. Which part a record is of depends on the name of
 * its shard's file and its number there alone: both parts are the same in every run, whatever its seed, and each record
 * is of one of them. `held_out`, in (0, 1), is the chance of a record to be held out. */
void set_part_keep(struct shard_index *index, const char *path, enum dataset_part part, double held_out);

/* A few records of a set that are spread evenly over all of it: of `all` records those numbered
 * floor(i * all / wanted), for i < wanted. Begins as { all, wanted, 0 }, 1 <= wanted <= all < 2^63. */
struct set_spread { uint64_t all, wanted, passed; };
/* Leave those in the index of the next shard, in the set's order. */
void set_part_spread(struct set_spread *spread, struct shard_index *index);

#endif
