/* A data set: its shards as one numbered list of records, with the shards' indexes and the format of samples, which is
 * found from the first record. Read-only once open, so any thread may use it. */
#ifndef PIPETRAIN_DATASET_H
#define PIPETRAIN_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/class_names.h"
#include "loader/dataset_start.h"
#include "loader/sample.h"
#include "loader/shards/shard_index.h"

struct shard_counts;

#define DATASET_CLASSES_MAX 1000000u    /* larger numbers in a description are not suggested to the user */

/* All records, or one of two parts of a data set: the part held out for validation, and the rest. */
enum dataset_part { DATASET_ALL, DATASET_REST, DATASET_HELD_OUT };

struct dataset_options {
    const char *what;           /* "train" or "validation", for messages */
    const char *pattern;        /* paths, directories and globs, separated by commas (dataset_shards.h) */
    const char *image_key;      /* NULL or "": to be found from the first record (doc/formats.md) */
    const char *label_key;
    struct image_shape shape;   /* input shape of the network */
    bool is_raw;                /* samples are struct raw_record: records may have any payload, and no names of classes
                                 * are looked for; `shape` has its size */
    uint32_t classes;
    bool classes_are_unknown;   /* `classes` only limits labels: it is not compared with descriptions and lists */
    bool classes_are_fixed;     /* the network's weights determine them, so messages do not suggest another number */
    int64_t label_offset;       /* added to the stored label */
    bool may_lack_classes;      /* do not report that the data set has fewer classes than the network */
    bool is_any_label_taken;    /* accept labels out of range, because a label survey checks them */
    enum pixel_layout layout;   /* layout of raw images */
    enum image_range_choice range;      /* range of raw images */
    const char *class_names;    /* file with the names of the classes; NULL or "": use the lists beside the shards, if
                                 * there are any */
    enum dataset_part part;
    double held_out;            /* fraction of the records, in (0, 1), unless part is DATASET_ALL */
    uint64_t limit;             /* use at most this many records, evenly spaced; 0: all */
    bool skip_damage;
    bool use_index_cache;
    const atomic_bool *is_unwanted;     /* NULL, or set by another thread to cancel opening and surveys */
    struct shard_counts *counts;        /* shared with other data sets while they are opened; NULL: not shared */
    bool keeps_start;           /* keep the records that are read while opening, for dataset_start_pack */
    const struct dataset_start *given;  /* NULL, or what another process has found in this data set; used while it is
                                         * opened */
    const struct shard_source_ops *source_ops;  /* how shards are read; NULL: from files, compressed or not */
};

/* A catalog that describes shards of a data set. */
struct dataset_catalog {
    size_t folder;              /* index in shard_counts.folders; only used while the data set is opened */
    char *path;                 /* escaped, for messages */
    uint32_t plain_count, packed_count;         /* shards: those opened when they are first read, and compressed ones,
                                                 * which are opened at once */
};

struct dataset {
    struct dataset_options options;     /* strings copied */
    uint32_t shard_count;
    char **paths;
    uint32_t left_out_count;
    char **left_out;            /* shards in the directories whose names show that they belong to another data set */
    struct shard_source **sources;      /* NULL for a missing shard whose records count as lost */
    struct shard_index *indexes;
    struct dataset_catalog **catalogs;  /* of the indexes that are from a catalog which this process has read */
    uint32_t catalog_count;
    uint64_t *first_ids;        /* shard_count + 1 entries: the id of each shard's first record; the last one is
                                 * record_count */
    uint64_t *missing_records;  /* for each shard: lost records in addition to shard_index_lost */
    uint64_t record_count;
    const char *listed_in;      /* name of the file that describes the data set in the first folder, for messages */
    uint64_t lost_records;      /* shard_index_lost and missing_records, summed over all shards */
    uint32_t payload_bytes_max;
    struct class_names class_names;     /* name of each class of the network; empty if there is no list */
    char *class_names_path;
    uint64_t stored_classes;    /* number of classes in the description or the list, without label_offset; 0: in
                                 * neither */
    char *classes_said_in;      /* path of the file with that number; NULL: none */
    struct sample_format format;
    size_t sample_bytes;        /* size of a sample of options.shape */
    struct start_records start; /* with options.keeps_start: the records that were read while opening */
    uint64_t fingerprint;       /* xxh3 of names, sizes and record counts */
    uint64_t contents;          /* xxh3 of the contents of the shards (shard_index.h) */
};

/* Open all shards and find the format of the samples. Uncompressed shards in a folder with a catalog (catalog.h), which
 * is read with use_index_cache, are opened when they are first read; so are those that another process has described (options.given). On failure problem_out has a line for every problem, the last one
 * without a newline. Problems are: a file that does not exist, a pattern without a match, an empty, truncated, damaged
 * or foreign shard, counts that differ from dataset.json, a shard that is listed there but missing, a missing key, an
 * image of another size, a label out of range. More classes in the description than in the options are an error; fewer
 * are reported on stderr. 0 or a negative errno; -ECANCELED, without a line, soon after *is_unwanted is set. */
int dataset_open(struct dataset **dataset_out, const struct dataset_options *options,
                 char *problem_out, size_t problem_size);
void dataset_close(struct dataset *dataset);

static inline bool dataset_is_unwanted(const struct dataset *dataset)
{
    return dataset->options.is_unwanted != NULL && atomic_load(dataset->options.is_unwanted);
}

/* Are all shards uncompressed, so that any record can be read by itself? */
bool dataset_is_plain(const struct dataset *dataset);

struct dataset_place { uint32_t shard; uint32_t payload_bytes; uint64_t record; uint64_t offset; };
/* Find the place of record `id` < record_count. O(log shards). */
struct dataset_place dataset_find(const struct dataset *dataset, uint64_t id);
/* dataset_find in two steps, so that the memory accesses for many records overlap: dataset_seek finds the shard and the
 * record's number and prefetches, dataset_complete sets the other fields. */
struct dataset_place dataset_seek(const struct dataset *dataset, uint64_t id);
void dataset_complete(const struct dataset *dataset, struct dataset_place *place);
/* The number of the record in its shard, for messages; place.record counts only records that are in the data set. */
uint64_t dataset_number(const struct dataset *dataset, const struct dataset_place *place);

/* The files that two data sets share. */
struct dataset_overlap {
    uint32_t count;             /* shards of the first data set that are also in the other */
    uint32_t first;             /* index of the first of these shards; undefined if count is 0 */
};

/* Find the shards of `dataset` that are also files of `other`, including links and other spellings of a path. 0 or
 * -ENOMEM. */
int dataset_overlap_find(struct dataset_overlap *overlap_out, const struct dataset *dataset,
                         const struct dataset *other);
/* Find the shards of `dataset` with the same records as a shard of `other`, even if the files differ. 0 or -ENOMEM. */
int dataset_copies_find(struct dataset_overlap *overlap_out, const struct dataset *dataset,
                        const struct dataset *other);

#endif
