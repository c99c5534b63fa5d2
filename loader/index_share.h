/* Sharing the work of indexing shards between processes that are going to open the same data sets. */
#ifndef PIPETRAIN_INDEX_SHARE_H
#define PIPETRAIN_INDEX_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct index_share {
    uint32_t first, step;       /* this process's shards are first, first + step, ... */
    bool skip_damage;           /* as in struct shard_index_options */
    const atomic_bool *is_unwanted;
};

/* Build the indexes of this process's shards of a data set (dataset_shards_find) that have neither an index file nor a
 * catalog yet, and write the files. Other processes then find them beside the shards or, on the same host, in the cache directory, and build
 * the indexes that they do not find. `what`: "train" or "validation". Reports no problems: dataset_open does. */
void index_share_build(const char *patterns, const char *what, const struct index_share *share);

#endif
