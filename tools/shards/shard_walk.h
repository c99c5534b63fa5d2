/* Reads a shard, compressed or not, sequentially in large chunks of whole records. Continues after damage, as a run
 * with on_corrupt = skip does. Every byte is read once. An index is built only to find the next record after damage. */
#ifndef PIPETRAIN_SHARD_WALK_H
#define PIPETRAIN_SHARD_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/record.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_source.h"

/* Initialise source and is_unwanted, which are borrowed, and zero the rest. Used by one thread at a time. */
struct shard_walk {
    struct shard_source *source;
    const atomic_bool *is_unwanted;     /* true: stop reading */
    uint64_t offset, record;            /* position of the next chunk; at the end, the bytes and records of the shard */
    bool is_over, is_indexed;
    struct shard_index index;           /* built only for a damaged shard */
};

/* Consecutive whole records with valid headers, or else the damaged bytes at this position. Initialised with zeros;
 * the memory grows to little more than the longest record. */
struct chunk {
    uint8_t *bytes;
    size_t room, filled;
    uint64_t offset, record;            /* position of the first record in the shard */
    size_t whole_bytes;                 /* total bytes of all whole records */
    bool is_end;                        /* the end of the shard was reached */
    struct record_problem problem;      /* the problem, if the chunk is damaged */
};

/* A record of a chunk. */
struct chunk_record {
    uint64_t offset, record;            /* position in the shard */
    const uint8_t *payload;
    size_t payload_bytes;
};

/* Read the next chunk. 0; -ENODATA at the end of the shard; -EBADMSG for a damaged chunk, after which the next call
 * continues; -ENOMEM; -ECANCELED after is_unwanted was set. */
int shard_walk_next(struct shard_walk *walk, struct chunk *chunk);
void shard_walk_release(struct shard_walk *walk);

/* Find the next record of a chunk; the first one if record->payload is NULL. False after the last one. */
bool chunk_next(const struct chunk *chunk, struct chunk_record *record);
/* Verify the checksum of a payload. If it is wrong, the record is read again past every cache, and the problem
 * describes how the two reads compare. Any thread. */
bool chunk_record_verify(const struct chunk_record *record, struct shard_source *source,
                         struct record_problem *problem_out);
void chunk_release(struct chunk *chunk);

#endif
