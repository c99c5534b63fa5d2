/* Shards compressed with gzip, zlib or LZ4 frames, as sources of their records' stream (doc/formats.md). */
#ifndef PIPETRAIN_PACKED_SHARD_H
#define PIPETRAIN_PACKED_SHARD_H

#include "loader/shards/shard_source.h"

/* The source of a file's records: `kept` itself if its first bytes are not compressed, else a new source that owns it.
 * 0, or a negative errno, when `kept` is closed. */
int packed_shard_wrap(struct shard_source **source_out, struct shard_source *kept);
/* Host memory of the process's streams for compressed shards. */
size_t packed_pool_bytes(void);

#endif
