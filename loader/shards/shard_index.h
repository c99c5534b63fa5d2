/* The index of a shard: the position of each record in the stream that the shard's source reads. It is built by walking
 * along the headers when the shard is first used, and stored in a file beside the shard, or in the user's cache
 * directory if the shard's folder is not writable. It is rebuilt if the shard's stamp or the index's own checksum
 * differs. If only the stamp's change time differs, a sample of the stored checksums is compared instead. */
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

/* The position of a record. */
struct shard_record {
    uint64_t offset;
    uint64_t number;            /* of the record in its shard, counting those that are not in the index */
    uint32_t payload_bytes;
};

/* A range of a shard without a valid frame, where at least one record is lost. Only with on_corrupt = skip. */
struct shard_damage {
    uint64_t offset, bytes;
    uint64_t before_record;
    uint64_t unit_offset;       /* beginning of the damaged unit of a compressed stream: records from here to `offset`
                                 * may be wrong for the same cause and are counted with this damage; otherwise
                                 * `offset` */
    uint64_t bad_offset;        /* offset of the record before the damage, if that record is damaged too; otherwise
                                 * `offset` */
};

#define SHARD_INDEX_GROUP 64u   /* records with one stored offset: a record's own is a sum of fewer lengths than this */
#define SHARD_INDEX_SAMPLE 64u  /* records that are compared to detect that a shard was written in place */

/* The records and damages of the shard, ordered by offset, cover the stream without gaps, so lengths are enough: an index
 * takes less than 5 bytes a record, also if records are left out. Only shard_records.c uses the arrays. */
struct shard_index {
    struct shard_stamp stamp;   /* stamp of the shard when the index was built */
    uint64_t bytes;             /* size of the stream */
    uint64_t contents;          /* hash of the stored payload checksums of all records, including those left out:
                                 * differs if a payload differs */
    uint64_t sample;            /* the same hash of up to SHARD_INDEX_SAMPLE records; 0 if there are damages */
    uint64_t record_count;      /* records in the index: all of the shard but left_out */
    uint64_t left_out;          /* records of the shard that are not in the data set (dataset_open.c) */
    uint32_t *lengths;          /* payload bytes of every record of the shard */
    uint64_t *offsets;          /* offset of every SHARD_INDEX_GROUP-th record of the shard */
    uint64_t *kept;             /* NULL: no record is left out. Bit i % 64 of word i / 64: record i of the shard is in the
                                 * index */
    uint64_t *firsts;           /* with kept: number in the shard of every SHARD_INDEX_GROUP-th record of the index */
    uint64_t record_room;       /* records for which there is memory */
    uint64_t end;               /* offset after the last record or damage that was added */
    struct shard_damage *damages;
    uint64_t gap_count;         /* number of damages */
    uint64_t damage_count;      /* number of damages that are reported: all, or 0 if another index reports them */
    uint64_t fingerprint;       /* shard_fingerprint; 0 if the index is not for a catalog or from one */
    const char *listed_in;      /* what the index is from, for messages, if not from the shard or its index file */
    int64_t listed_ns;          /* with listed_in: when the catalog that the index is from was written, also if rank 0 has
                                 * read it; 0: it is from no catalog */
    atomic_bool is_unproved;    /* the index is from a file, and its lengths have not been compared with the records
                                 * yet */
    atomic_bool is_foreign;     /* with listed_in: the file is another one than the one described there */
};

struct shard_index_options {
    bool skip_damage;           /* resynchronise after a wrong length instead of failing */
    bool use_cache;             /* read and write index files */
    bool rebuild;               /* do not read index files */
    const char *what;           /* name of the data set, for messages; NULL: print none */
    const atomic_bool *is_unwanted;     /* NULL, or set by another thread to cancel indexing */
};

/* Open the index of a shard; an empty shard has an index without records. 0, or a negative errno with a message in
 * problem_out that names shard, record and byte: -EBADMSG: damaged; -ENOTSUP: another kind of file. -ECANCELED, without
 * a message, soon after *is_unwanted is set. A long search for the next record after damage is reported on stderr. */
int shard_index_open(struct shard_index *index_out, struct shard_source *source,
                     const struct shard_index_options *options, char *problem_out, size_t problem_size);
/* To be called when a record at an offset of the index is wrong: if the index is from a file, compare its lengths,
 * once, with the headers of the shard. 0; or -ESTALE if they differ, so that records that are not damaged may be wrong
 * or missing; the index file is then removed if possible. Also -ESTALE if the index is of another file (is_foreign).
 * Any thread, also while others read the index. */
int shard_index_prove(struct shard_index *index, struct shard_source *source);
/* listed_in for an index that rank 0 has sent. */
#define SHARD_LISTED_BY_RANK "rank 0"
/* Write why shard_index_prove has failed; follows "PATH: ". */
void shard_index_describe_stale(const struct shard_index *index, char *text_out, size_t text_size);

/* The fingerprint of a shard: xxh3 of the stored payload checksums of up to SHARD_FINGERPRINT_RECORDS records: evenly
 * spaced ones, with the first and the last, of a plain shard; the first ones of a compressed shard, which can only be
 * read from its beginning. So few are quickly read when a shard is first used; another file in which just these records
 * are equal, and all lengths, is not detected. 0 or a negative errno of reading. */
#define SHARD_FINGERPRINT_RECORDS 8u
int shard_fingerprint(const struct shard_index *index, struct shard_source *source, uint64_t *fingerprint_out);
/* Compare the fingerprint of a plain shard that has just been opened with that of its index, a struct shard_index. 0;
 * -EBADMSG: it is another file, so is_foreign is set; or a negative errno of reading. Any thread. */
int shard_index_recognise(void *index, int fd);
/* Make the index of a shard that cannot be read at all: one damage of the shard's size. 0 or a negative errno. */
int shard_index_lose(struct shard_index *index_out, struct shard_source *source);
/* Is this damage counted? Of several with the same cause only the last one is. */
bool shard_index_counts(const struct shard_index *index, uint64_t damage);
/* The known number of lost records that are not in the index: one for every damage that is counted, unless the damage
 * destroyed the record before it, which is in the index. */
uint64_t shard_index_lost(const struct shard_index *index);
void shard_index_release(struct shard_index *index);

/* ---- records (shard_records.c) ---- */

/* Find record `record` < record_count. O(1): adds fewer than SHARD_INDEX_GROUP lengths. If records are left out, the
 * search may also have to pass the bits of up to SHARD_INDEX_GROUP times as many as are left out between two. */
struct shard_record shard_index_find(const struct shard_index *index, uint64_t record);
/* Go on to the next record of the index, of which there must be one. */
void shard_index_advance(const struct shard_index *index, struct shard_record *record);
/* Fetch what shard_index_find is going to read into the cache. */
void shard_index_prefetch(const struct shard_index *index, uint64_t record);
/* Find a record by its number in the shard, also if it is left out. */
struct shard_record shard_index_at(const struct shard_index *index, uint64_t number);
/* The number in its shard of record `record` < record_count. */
uint64_t shard_index_number(const struct shard_index *index, uint64_t record);
/* The payload bytes of the longest record of the index; 0 without records. */
uint32_t shard_index_longest(const struct shard_index *index);

/* Build an index in file order: append a record or a damage at `end`. 0 or -ENOMEM. */
int shard_index_add_record(struct shard_index *index, uint32_t payload_bytes);
int shard_index_add_damage(struct shard_index *index, uint64_t bytes);
/* Get memory for at least this number of records, so that no more is used. 0 or -ENOMEM. */
int shard_index_reserve(struct shard_index *index, uint64_t records);
/* Give back memory for further records. */
void shard_index_trim(struct shard_index *index);
/* Leave out of the index the records that are not wanted. `is_wanted` is called with the number in the shard of each
 * record of the index, in order. 0, or -ENOMEM and nothing is left out. */
int shard_index_keep(struct shard_index *index, bool (*is_wanted)(void *arg, uint64_t number), void *arg);

/* Describe a problem of a frame: "payload checksum differs (stored 0badcafe, computed 12345678)". */
void frame_problem_describe(enum tfrecord_check check, const struct tfrecord_problem *problem, char *text,
                            size_t text_size);

/* ---- index files (index_file.c) ---- */

/* The index of shard NAME is stored in .NAME.pipetrain-index. The file is hidden, so that other programs do not find it
 * by patterns such as train-*. */
#define INDEX_FILE_SUFFIX ".pipetrain-index"

/* Read the index of an open shard from the file beside it, or else from the user's cache directory. All offsets and
 * lengths are then inside the stream, even if the file is forged. A file with the shard's ctime_ns is preferred; the
 * stamp has the file's ctime_ns. 0, or a negative errno if no file matches the current shard; the index is unchanged
 * then. */
int index_file_read(struct shard_index *index, const struct shard_source *shard);
/* Write the index beside the shard or, if that fails, to the user's cache directory. Errors are ignored. */
void index_file_write(const struct shard_index *index, const char *path);
/* Remove the index files of a shard in both places, if possible. */
void index_file_remove(const char *path);
/* Write the path of a shard's index file in either place. False if it is too long, or there is no cache directory. */
bool index_file_beside(const char *path, char *out, size_t out_size);
bool index_file_in_cache(const char *path, char *out, size_t out_size);
/* Is this the name of an index file, finished or temporary? */
bool index_file_is_name(const char *name);

#endif
