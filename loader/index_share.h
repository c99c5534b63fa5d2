/* The indexes of shards, built by several processes that are going to open the same sets. */
#ifndef PIPETRAIN_INDEX_SHARE_H
#define PIPETRAIN_INDEX_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct index_share {
    uint32_t first, step;       /* this process' shards: first, first + step, ... */
    bool skip_damage;           /* as in struct shard_index_options */
    const atomic_bool *is_unwanted;
};

/* Build the indexes of this process' shards of a set (dataset_shards_find), as far as they have no index file yet, and
 * write these. Other processes then find them, beside the shards or in the cache directory of a host; what they do not
 * find they build themselves. `what`: "train" or "validation". Reports no problem: whoever opens the set does. */
void index_share_build(const char *patterns, const char *what, const struct index_share *share);

#endif
