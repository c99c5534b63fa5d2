/* Where the frames of a shard go: into its file, compressed on the way where that is wanted. */
#ifndef PIPETRAIN_SHARD_SINK_H
#define PIPETRAIN_SHARD_SINK_H

#include <stdio.h>
#include <xxhash.h>

#include "tools/convert/shard_set.h"
#include "tools/convert/writing/block.h"

/* What one thread keeps for it. */
struct shard_sink {
    const struct shard_set *set;
    struct shard_file *file;
    FILE *stream;
    struct block unit, packed;  /* frames to be compressed, and what they come to */
    size_t unit_bytes;
    XXH3_state_t *hash;
};

/* 0, or -ENOMEM after stop_fail; shard_sink_release in both cases. */
int shard_sink_init(struct shard_sink *sink, const struct shard_set *set);
void shard_sink_release(struct shard_sink *sink);

/* Make the file under its temporary name. 0, or a negative errno after stop_fail. */
int shard_sink_open(struct shard_sink *sink, struct shard_file *file);
/* Add a frame. 0, or a negative errno after stop_fail. */
int shard_sink_put(struct shard_sink *sink, const uint8_t *frame, size_t bytes);
/* All frames are in: write what is left, sync and close. The file's numbers are right then. 0, or a negative errno
 * after stop_fail. */
int shard_sink_finish(struct shard_sink *sink);
/* Close what was not finished. */
void shard_sink_abandon(struct shard_sink *sink);

/* The hash over the records of a shard: of each, its length and its payload. */
void shard_hash_payload(XXH3_state_t *hash, const uint8_t *payload, uint64_t bytes);
/* Open a stream on fd, which it takes over, with a large buffer; NULL without memory, fd is closed then. */
FILE *shard_stream_open(int fd, const char *mode);

#endif
