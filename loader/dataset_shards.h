/* From what the configuration names to the shard files of a set. */
#ifndef PIPETRAIN_DATASET_SHARDS_H
#define PIPETRAIN_DATASET_SHARDS_H

#include "loader/shard_counts.h"
#include "loader/shards/shard_list.h"

/* The files of all patterns of `patterns` (pattern_cut), in the order in which they are named, those of each
 * as shard_list_find gives them and with the ones that its folder's manifest lists and that are absent. Text
 * that is a path as it stands is one pattern, whatever is in it. 0, or a negative errno with a line in
 * `problems`, beginning with `what`, for every pattern that cannot be used and for files named twice,
 * under whatever names. */
int dataset_shards_find(struct shard_list *list_out, const char *patterns, const char *what,
                        struct shard_counts *counts, struct text *problems);
/* How many classes the manifest says (dataset.json in the folder of the first file that `patterns` name), 0 where it
 * says nothing or cannot be read. Prints nothing: who opens the set tells what is wrong with it. */
uint64_t dataset_shards_classes(const char *patterns);

#endif
