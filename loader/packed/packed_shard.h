/* Shards in gzip, zlib and LZ4 frames, as sources of their records' stream (doc/formats.md). */
#ifndef PIPETRAIN_PACKED_SHARD_H
#define PIPETRAIN_PACKED_SHARD_H

#include "loader/shards/shard_source.h"

/* The source of what is kept in `kept` as its first bytes say: a new one that takes it over, or itself where it
 * is plain. 0, or a negative errno, after which it is closed. */
int packed_shard_wrap(struct shard_source **source_out, struct shard_source *kept);

#endif
