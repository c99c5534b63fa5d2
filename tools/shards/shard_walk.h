/* A shard read from front to back in large pieces of whole records, however it is kept, going on behind
 * damage as a run with on_corrupt = skip does. No index is needed, and every byte is read once; one is built
 * only to find the next record behind damage. */
#ifndef PIPETRAIN_SHARD_WALK_H
#define PIPETRAIN_SHARD_WALK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/record.h"
#include "loader/shards/shard_index.h"
#include "loader/shards/shard_source.h"

/* Filled with zeros but for the first two, which are lent. One thread at a time. */
struct shard_walk {
    struct shard_source *source;
    const atomic_bool *is_unwanted;     /* true once nobody wants the shard any more */
    uint64_t offset, record;            /* of the next piece; at the end, bytes and records of the shard */
    bool is_over, is_indexed;
    struct shard_index index;           /* of a damaged shard */
};

/* Whole records with right headers, one behind the other, or the damage met in their place. Filled with zeros
 * to begin with; its memory grows up to a little more than the longest record. */
struct piece {
    uint8_t *bytes;
    size_t room, filled;
    uint64_t offset, record;            /* of the first record in the shard */
    size_t whole_bytes;                 /* of all records */
    bool is_end;                        /* the shard has no more bytes than are here */
    struct record_problem problem;      /* of a damage */
};

/* A record of a piece. */
struct piece_record {
    uint64_t offset, record;            /* in the shard */
    const uint8_t *payload;
    size_t payload_bytes;
};

/* Read the next piece. 0; -ENODATA at the end of the shard; -EBADMSG: a damage, which the next call goes on
 * behind; -ENOMEM, or -ECANCELED once it is unwanted. */
int shard_walk_next(struct shard_walk *walk, struct piece *piece);
void shard_walk_release(struct shard_walk *walk);

/* The next record of a piece, the first one when record->payload is NULL. False behind the last. */
bool piece_next(const struct piece *piece, struct piece_record *record);
/* Compare a payload with its checksum. What differs is read again past every cache, and the problem says how the two
 * reads compare. Any thread. */
bool piece_record_verify(const struct piece_record *record, struct shard_source *source,
                         struct record_problem *problem_out);
void piece_release(struct piece *piece);

#endif
