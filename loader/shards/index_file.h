/* Shard indexes kept in files, so that a shard is walked once. */
#ifndef PIPETRAIN_INDEX_FILE_H
#define PIPETRAIN_INDEX_FILE_H

#include <stdbool.h>

#include "loader/shards/shard_index.h"

/* File names end so; the one of shard NAME is `.NAME.pipetrain-index`, hidden, because
 * patterns such as `train-*` are given to other programs too. */
#define INDEX_FILE_SUFFIX ".pipetrain-index"

/* Fill in records and damages of an open shard from its index file: beside the shard, else
 * in the user's cache directory. Every offset and length lies inside the stream then, whoever
 * wrote the file. 0, or a negative errno when there is none that fits the shard as it is; the
 * index is unchanged then. */
int index_file_read(struct shard_index *index, const struct shard_source *shard);
/* Keep the index beside the shard, else in the user's cache directory, else nowhere. */
void index_file_write(const struct shard_index *index, const char *path);
/* Remove it from both places, as far as that goes. */
void index_file_remove(const char *path);
/* True for names of index files, finished or not. */
bool index_file_is_name(const char *name);

#endif
