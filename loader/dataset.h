/* A set of shards as one numbered list of records: shard files, their indexes, and the format of samples found from the
 * first record. Read-only once open, so any thread may use it. */
#ifndef PIPETRAIN_DATASET_H
#define PIPETRAIN_DATASET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/class_names.h"
#include "loader/sample.h"
#include "loader/shards/shard_index.h"

struct shard_counts;

#define DATASET_CLASSES_MAX 1000000u    /* larger numbers in a description are not suggested to the user */

/* All records, or one of two parts of a set: what is held out for validation, and the rest. */
enum dataset_part { DATASET_ALL, DATASET_REST, DATASET_HELD_OUT };

struct dataset_options {
    const char *what;           /* "train" or "validation", for messages */
    const char *pattern;        /* globs, files and directories, separated by commas (dataset_shards.h) */
    const char *image_key;      /* NULL or "": found from the first record (doc/formats.md) */
    const char *label_key;
    struct image_shape shape;   /* of the network */
    uint32_t classes;
    bool classes_are_fixed;     /* by the weights of the network, so no message advises to set another number */
    int64_t label_offset;       /* added to the stored label */
    bool may_lack_classes;      /* do not report that the set has fewer classes than the network */
    bool is_any_label_taken;    /* accept labels out of range, because a label survey checks them */
    enum pixel_layout layout;   /* of raw images */
    enum image_range_choice range;      /* of raw images */
    const char *class_names;    /* file with their names; NULL or "": those beside the shards, if there are any */
    enum dataset_part part;
    double held_out;            /* share of the records, in (0, 1), unless part is DATASET_ALL */
    uint64_t limit;             /* use at most this many records, spread evenly; 0: all */
    bool skip_damage;
    bool use_index_cache;
    const atomic_bool *is_unwanted;     /* NULL, or set by another thread to end opening and surveys */
    struct shard_counts *counts;        /* shared with other sets while they are opened; NULL: not shared */
    const struct shard_source_ops *source_ops;  /* how shards are read; NULL: as files, compressed or not */
};

struct dataset {
    struct dataset_options options;     /* strings copied */
    uint32_t shard_count;
    char **paths;
    uint32_t left_out_count;
    char **left_out;            /* shards in the directories that belong to another set by their names */
    struct shard_source **sources;      /* NULL for a missing shard whose records count as lost */
    struct shard_index *indexes;
    uint64_t *first_ids;        /* shard_count + 1 entries: id of each shard's first record; last = record_count */
    uint64_t *missing_records;  /* of each shard: lost in addition to shard_index_lost */
    uint64_t record_count;
    const char *listed_in;      /* name of the file that describes the first folder, for messages */
    uint64_t lost_records;      /* shard_index_lost and missing_records of all shards */
    uint32_t payload_bytes_max;
    struct class_names class_names;     /* of each class of the network; empty if no list was found */
    char *class_names_path;
    uint64_t stored_classes;    /* how many the description or the list says, without label_offset; 0: neither does */
    char *classes_said_in;      /* the path of that description; NULL: there is none */
    struct sample_format format;
    size_t sample_bytes;        /* of options.shape */
    uint64_t fingerprint;       /* xxh3 over names, sizes and record counts */
    uint64_t contents;          /* xxh3 over the contents of the shards (shard_index.h) */
};

/* Open all shards and find the format of the samples. On failure problem_out gets a line for every problem, the last
 * one without a newline: no such file, no match, empty, cut, damaged, foreign, counts that differ from dataset.json,
 * missing although listed there, key missing, image of another size, label out of range. 0, or a negative errno;
 * -ECANCELED, without a line, soon after it has become unwanted. More classes in the description than in the options
 * are refused, fewer are reported on stderr. */
int dataset_open(struct dataset **dataset_out, const struct dataset_options *options,
                 char *problem_out, size_t problem_size);
void dataset_close(struct dataset *dataset);

static inline bool dataset_is_unwanted(const struct dataset *dataset)
{
    return dataset->options.is_unwanted != NULL && atomic_load(dataset->options.is_unwanted);
}

/* Whether no shard is compressed, so that any record can be read by itself. */
bool dataset_is_plain(const struct dataset *dataset);

struct dataset_place { uint32_t shard; uint32_t payload_bytes; uint64_t record; uint64_t offset; };
/* The place of record `id` < record_count. O(log shards). */
struct dataset_place dataset_find(const struct dataset *dataset, uint64_t id);
/* The same in two steps, so that memory accesses for many records overlap: dataset_seek finds shard and record and
 * prefetches, dataset_complete fills in the rest. */
struct dataset_place dataset_seek(const struct dataset *dataset, uint64_t id);
void dataset_complete(const struct dataset *dataset, struct dataset_place *place);
/* The number of the record in its shard, for messages; place.record counts only records of the set. */
uint64_t dataset_number(const struct dataset *dataset, const struct dataset_place *place);

/* Files that two sets share. */
struct dataset_overlap {
    uint32_t count;             /* shards of the first set that are also in the other */
    uint32_t first;             /* index of the first of these; undefined if count is 0 */
};

/* The shards of `dataset` that are files of `other`, also through links and other spellings of a path. 0 or -ENOMEM. */
int dataset_overlap_find(struct dataset_overlap *overlap_out, const struct dataset *dataset,
                         const struct dataset *other);
/* The shards of `dataset` whose records are those of a shard of `other`, also in another file. 0 or -ENOMEM. */
int dataset_copies_find(struct dataset_overlap *overlap_out, const struct dataset *dataset,
                        const struct dataset *other);

#endif
