/* The streams with which compressed shards are read: so many for the process, however many shards there are, so
 * that memory is bounded and reading allocates nothing. A thread takes one for a read, and no lock is held
 * while it unpacks: several threads read one shard at once, each going on from where a stream stands. */
#ifndef PIPETRAIN_PACKED_POOL_H
#define PIPETRAIN_PACKED_POOL_H

#include "loader/packed/packed_stream.h"

/* A shard is opened that wants LZ4 blocks of so many bytes, or 0: the first one makes the streams. 0 or
 * -ENOMEM. */
int packed_pool_join(size_t lz4_block_bytes);
/* It is closed, and no thread reads it; with the last one the streams go. */
void packed_pool_leave(const struct packed_file *file);
/* Host memory of the streams there are. */
size_t packed_pool_bytes(void);

/* A stream that stands in the file, near before `offset` of its stream. Waits until one is free. */
struct packed_stream *packed_pool_take(struct packed_file *file, uint64_t offset);
void packed_pool_give_back(struct packed_stream *stream);

#endif
