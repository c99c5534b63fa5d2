/* Shards compressed with gzip, zlib or LZ4 frames, as sources of the decompressed stream of records
 * (doc/formats.md). */
#ifndef PIPETRAIN_PACKED_SHARD_H
#define PIPETRAIN_PACKED_SHARD_H

#include "loader/shards/shard_source.h"

/* Get the source of a file's records: `kept` itself if its first bytes are not compressed, else a new source that owns
 * `kept`. 0, or a negative errno after closing `kept`. */
int packed_shard_wrap(struct shard_source **source_out, struct shard_source *kept);
/* The host memory of the process's streams for compressed shards. */
size_t packed_pool_bytes(void);

#endif
