/* A folder with a description of its splits: which shards belong to the one that is meant. */
#ifndef PIPETRAIN_SPLIT_FOLDER_H
#define PIPETRAIN_SPLIT_FOLDER_H

#include "loader/shard_counts.h"
#include "loader/shards/shard_list.h"
#include "loader/shards/text.h"

/* The shards of FOLDER:SPLIT, where nothing is called so and the folder has a description; or of a TFDS folder, whose
 * split is the one that is meant by `what`, "train" or "validation". Those listed, whether they are there or not; a
 * file of the split that is not listed is a problem. 0; -ENOTSUP where the pattern is no such thing; another
 * negative errno, with a line in `problems` that begins with `what` unless it is -ENOMEM. */
int split_folder_find(struct shard_list *list_out, struct shard_counts *counts, const char *pattern, const char *what,
                      struct text *problems);

#endif
