/* From the patterns of a configuration to the shard files of a set. */
#ifndef PIPETRAIN_DATASET_SHARDS_H
#define PIPETRAIN_DATASET_SHARDS_H

#include "loader/set_names.h"
#include "loader/shard_counts.h"
#include "loader/shards/shard_list.h"

/* Find the files of all patterns in `patterns` (pattern_cut), in their order; the files of each are those of
 * shard_list_find, and shards that its folder's description lists but that are missing. If the whole text is an
 * existing path, it is one pattern. 0, or a negative errno with lines in `problems` that begin with `what`: one for
 * every pattern that cannot be used, and for files that are named twice, under whatever names. */
int dataset_shards_find(struct shard_list *list_out, const char *patterns, const char *what,
                        struct shard_counts *counts, struct text *problems);
/* The largest number of classes that the folders of all matching files say (set_names.h) of the label of this key, NULL
 * or "": of each folder's own; 0 if none says it. Prints nothing: dataset_open reports problems. */
uint64_t dataset_shards_classes(const char *patterns, const char *label_key);
/* The same number with the names of the first folder that has some, for set_names_release. */
void dataset_shards_names(struct set_names *names_out, const char *patterns, const char *label_key);
/* Report on stderr, in one line, the shards that lists leave out and that no list uses, each file once, under whatever
 * names. 0 or -ENOMEM. */
int left_out_report(const struct shard_list *lists, uint32_t count);

#endif
