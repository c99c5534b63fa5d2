/* The index of one shard: where each record lies in the stream its source gives. Built by
 * walking the headers on first use, kept beside the shard (or in the user's cache directory
 * when that is not writable), rebuilt when the shard's stamp differs or the index's own checksum
 * does. */
#ifndef PIPETRAIN_SHARD_INDEX_H
#define PIPETRAIN_SHARD_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/shards/shard_source.h"

/* What to do about damage in a run, behind what it is. */
#define SHARD_SKIP_ADVICE "; data.on_corrupt = skip goes on without what is damaged"

struct shard_record {
    uint64_t offset;
    uint32_t payload_bytes;
    uint32_t left_out;          /* records of the shard in front of it that are not in the index (set_part.h) */
};

/* A stretch of a shard that could not be framed: at least one record is lost there.
 * Only with on_corrupt = skip. */
struct shard_damage {
    uint64_t offset, bytes;
    uint64_t before_record;
    uint64_t unit_offset;       /* records from here to `offset` may be wrong for the same cause, and count with it:
                                 * those of a damaged piece of a compressed stream; else `offset` */
    uint64_t bad_offset;        /* where the record in front begins when it is one that is, else `offset` */
};

/* Records and damages, taken in the order of their offsets, cover the stream without gaps until records are left
 * out. */
struct shard_index {
    struct shard_stamp stamp;   /* of the shard it was built from */
    uint64_t bytes;             /* of the stream */
    uint64_t contents;          /* a hash of the checksums that the shard stores of its payloads, in their order, of
                                 * those too that are left out later: another one where a payload is another */
    uint64_t record_count;
    struct shard_record *records;
    uint64_t left_out;          /* records of the shard that are of another part of the set, or of none (set_part.h) */
    uint64_t damage_count;
    struct shard_damage *damages;
    atomic_bool is_unproved;    /* it comes from a file: its lengths lead through the shard, and whether its records are
                                 * of these lengths has to be seen */
};

struct shard_index_options {
    bool skip_damage;           /* resynchronise after a bad length, instead of failing */
    bool use_cache;             /* read and write cached indexes */
    const char *what;           /* the set's name, for messages; NULL where none should be said */
    const atomic_bool *is_unwanted;     /* NULL, or true once nobody wants the index any more */
};

/* The index of an open shard; an empty one has no records. 0, or a negative errno with a
 * message that names shard, record and byte in problem_out (-EBADMSG: damaged; -ENOTSUP: a file
 * of another kind, which the message names); -ECANCELED, without a message, soon after it has
 * become unwanted. Looking for the next record behind damage is said on stderr where it takes
 * long. */
int shard_index_open(struct shard_index *index_out, struct shard_source *source,
                     const struct shard_index_options *options, char *problem_out, size_t problem_size);
/* A record is not right where the index says that it is: do all records that can be told have the lengths that an index
 * from a file says? Looks once. 0; -ESTALE: one has another, so that records may be wrong, or missing, that are not
 * damaged; the file is removed as far as that goes. Any thread; others may read the index meanwhile. */
#define SHARD_INDEX_STALE_TEXT \
    "its index says another length of a record than the record does: it is removed, and the same command builds it " \
    "again (data.index_cache = no uses none)"
int shard_index_prove(struct shard_index *index, struct shard_source *source);
/* The index of a shard in which nothing can be read: one damage as long as it is. 0 or a negative errno. */
int shard_index_lose(struct shard_index *index_out, struct shard_source *source);
/* Whether a damage counts: of several that have the same cause the last one does. */
bool shard_index_counts(const struct shard_index *index, uint64_t damage);
/* How many records are lost that are not in the index, as far as it knows: one for every damage that counts, unless
 * what it spoilt is the record in front. */
uint64_t shard_index_lost(const struct shard_index *index);
void shard_index_release(struct shard_index *index);

/* Building an index record by record, in file order. 0 or -ENOMEM. */
int shard_index_add_record(struct shard_index *index, uint64_t offset, uint32_t payload_bytes);
int shard_index_add_damage(struct shard_index *index, uint64_t offset, uint64_t bytes);

#endif
