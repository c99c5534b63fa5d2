/* Finding the shard files of a data set by the patterns in a configuration. */
#ifndef PIPETRAIN_DATASET_SHARDS_H
#define PIPETRAIN_DATASET_SHARDS_H

#include "loader/set_names.h"
#include "loader/shard_counts.h"
#include "loader/shards/shard_list.h"

/* Find the files of all patterns in `patterns` (pattern_cut), in the order of the patterns: those that shard_list_find
 * finds, and shards that the folder's description lists but that are missing. A text that is an existing path is a
 * single pattern. 0, or a negative errno with lines in `problems` that begin with `what`: one for every pattern that
 * cannot be used and for every file that is matched twice, by any of its names. */
int dataset_shards_find(struct shard_list *list_out, const char *patterns, const char *what,
                        struct shard_counts *counts, struct text *problems);
/* The largest number of classes in the descriptions in the folders of all matching files (set_names.h), for the label
 * of this key (NULL or "": of each folder's own label); 0 if there is none. Prints nothing: dataset_open reports
 * problems. */
uint64_t dataset_shards_classes(const char *patterns, const char *label_key);
/* As dataset_shards_classes, with the names from the first folder that has any; set_names_release frees them. */
void dataset_shards_names(struct set_names *names_out, const char *patterns, const char *label_key);
/* Report on stderr, in one line, the shards that lists leave out and that no list uses, each file once even if it has
 * several names. 0 or -ENOMEM. */
int left_out_report(const struct shard_list *lists, uint32_t count);

#endif
