/* Read a shard sequentially in large chunks of whole records, whether compressed or not, continuing after damage as a
 * run with on_corrupt = skip does. Every byte is read once. An index is built only to find the next record after
 * damage. */
#ifndef PIPETRAIN_SHARD_WALK_H
#define PIPETRAIN_SHARD_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/record.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_source.h"

/* Set the first two, which are borrowed, and zero the rest. One thread at a time. */
struct shard_walk {
    struct shard_source *source;
    const atomic_bool *is_unwanted;     /* true: stop reading */
    uint64_t offset, record;            /* of the next chunk; at the end, bytes and records of the shard */
    bool is_over, is_indexed;
    struct shard_index index;           /* of a damaged shard */
};

/* Consecutive whole records with valid headers, or a damage instead. Zero it first; its memory grows to little more
 * than the longest record. */
struct chunk {
    uint8_t *bytes;
    size_t room, filled;
    uint64_t offset, record;            /* of the first record in the shard */
    size_t whole_bytes;                 /* of all records */
    bool is_end;                        /* the shard ends here */
    struct record_problem problem;      /* of the damage */
};

/* A record of a chunk. */
struct chunk_record {
    uint64_t offset, record;            /* in the shard */
    const uint8_t *payload;
    size_t payload_bytes;
};

/* Read the next chunk. 0; -ENODATA at the end of the shard; -EBADMSG: a damage, after which the next call continues;
 * -ENOMEM; -ECANCELED once is_unwanted. */
int shard_walk_next(struct shard_walk *walk, struct chunk *chunk);
void shard_walk_release(struct shard_walk *walk);

/* The next record of a chunk; the first one if record->payload is NULL. False after the last one. */
bool chunk_next(const struct chunk *chunk, struct chunk_record *record);
/* Verify the checksum of a payload. If it differs, the record is read again past every cache, and the problem says how
 * the two reads compare. Any thread. */
bool chunk_record_verify(const struct chunk_record *record, struct shard_source *source,
                         struct record_problem *problem_out);
void chunk_release(struct chunk *chunk);

#endif
