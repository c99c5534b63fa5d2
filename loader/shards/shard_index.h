/* The index of a shard: where each record is in the stream that the shard's source reads. It is built by walking along
 * the headers when the shard is first used, and kept in a file beside the shard, or in the user's cache directory if
 * that is not writable. It is built again if the shard's stamp or the index's own checksum differs; if only the stamp's
 * time of change differs, a sample of the stored checksums decides. */
#ifndef PIPETRAIN_SHARD_INDEX_H
#define PIPETRAIN_SHARD_INDEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/tfrecord.h"
#include "loader/shards/shard_source.h"

/* Appended to messages about damage. */
#define SHARD_SKIP_ADVICE "; data.on_corrupt = skip continues without damaged records"

struct shard_record {
    uint64_t offset;
    uint32_t payload_bytes;
    uint32_t left_out;          /* earlier records of the shard that are not in the index (dataset_open.c) */
};

/* A range of a shard without a valid frame, where at least one record is lost. Only with on_corrupt = skip. */
struct shard_damage {
    uint64_t offset, bytes;
    uint64_t before_record;
    uint64_t unit_offset;       /* of the damaged unit of a compressed stream: records from here to `offset` may be
                                 * wrong for the same cause and are counted with this damage; else `offset` */
    uint64_t bad_offset;        /* of the record before it, if that one is damaged; else `offset` */
};

#define SHARD_INDEX_SAMPLE 64u  /* records that show whether a shard was written in place */

/* Until records are left out, records and damages in the order of their offsets cover the stream without gaps. */
struct shard_index {
    struct shard_stamp stamp;   /* of the shard it was built from */
    uint64_t bytes;             /* of the stream */
    uint64_t contents;          /* a hash of the stored payload checksums of all records, also of those left out:
                                 * differs if a payload differs */
    uint64_t sample;            /* the same of up to SHARD_INDEX_SAMPLE records; 0 if there are damages */
    uint64_t record_count;
    struct shard_record *records;
    uint64_t left_out;          /* records of the shard that are not part of the set (dataset_open.c) */
    uint64_t damage_count;
    struct shard_damage *damages;
    atomic_bool is_unproved;    /* from an index file, whose lengths were not compared with the records yet */
};

struct shard_index_options {
    bool skip_damage;           /* resynchronise after a bad length instead of failing */
    bool use_cache;             /* read and write index files */
    bool rebuild;               /* do not read them */
    const char *what;           /* name of the set, for messages; NULL: print none */
    const atomic_bool *is_unwanted;     /* NULL, or set by another thread to end indexing */
};

/* Open the index of a shard; that of an empty shard has no records. 0, or a negative errno with a message in
 * problem_out that names shard, record and byte: -EBADMSG: damaged; -ENOTSUP: a file of another kind; or -ECANCELED,
 * without a message, soon after it has become unwanted. A long search for the next record after damage is reported on
 * stderr. */
int shard_index_open(struct shard_index *index_out, struct shard_source *source,
                     const struct shard_index_options *options, char *problem_out, size_t problem_size);
/* Call when a record is wrong at the offset of the index: compares the lengths of an index from a file with the headers
 * of the shard, once. 0; or -ESTALE if they differ, so that records may be wrong or missing that are not damaged; the
 * index file is removed if possible. Any thread, while others read the index. */
#define SHARD_INDEX_STALE_TEXT \
    "its index file says another length of a record than the record does: it is removed, and the same command " \
    "rebuilds it (data.index_cache = no uses none)"
int shard_index_prove(struct shard_index *index, struct shard_source *source);
/* The index of a shard that cannot be read at all: one damage of the shard's size. 0 or a negative errno. */
int shard_index_lose(struct shard_index *index_out, struct shard_source *source);
/* Whether this damage is counted: of several with the same cause only the last one is. */
bool shard_index_counts(const struct shard_index *index, uint64_t damage);
/* The number of lost records that are not in the index, as far as it is known: one for every damage that is counted,
 * unless what it destroyed is the record before it. */
uint64_t shard_index_lost(const struct shard_index *index);
void shard_index_release(struct shard_index *index);

/* Build an index record by record, in file order. 0 or -ENOMEM. */
int shard_index_add_record(struct shard_index *index, uint64_t offset, uint32_t payload_bytes);
int shard_index_add_damage(struct shard_index *index, uint64_t offset, uint64_t bytes);

/* "payload checksum differs (stored 0badcafe, computed 12345678)" and the like. */
void frame_problem_describe(enum tfrecord_check check, const struct tfrecord_problem *problem, char *text,
                            size_t text_size);

/* ---- index files (index_file.c) ---- */

/* The index of shard NAME is in .NAME.pipetrain-index; hidden, because patterns such as train-* are given to other
 * programs, too. */
#define INDEX_FILE_SUFFIX ".pipetrain-index"

/* Read the index of an open shard from the file beside it, else from the user's cache directory. All offsets and
 * lengths are inside the stream then, whoever wrote the file. The stamp has the ctime_ns of the file, and a file with
 * that of the shard is preferred. 0, or a negative errno if no file goes with the shard as it is; the index is
 * unchanged then. */
int index_file_read(struct shard_index *index, const struct shard_source *shard);
/* Write the index beside the shard, else to the user's cache directory, else nowhere. */
void index_file_write(const struct shard_index *index, const char *path);
/* Remove it from both places, if possible. */
void index_file_remove(const char *path);
/* Whether a file name is that of an index file, finished or not. */
bool index_file_is_name(const char *name);

#endif
