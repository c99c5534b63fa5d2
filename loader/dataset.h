/* A set of shards seen as one numbered list of records: shard files, their indexes,
 * and what the first record says of keys and image size. Read-only once open, so any
 * thread may use it. */
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

#define DATASET_CLASSES_MAX 1000000u    /* more that a description says are no number that anyone would want to set */

/* All records of the shards, or one of the two parts of a set that is shared out: what is held out for validation, and
 * the rest. */
enum dataset_part { DATASET_ALL, DATASET_REST, DATASET_HELD_OUT };

struct dataset_options {
    const char *what;           /* "train" or "validation", for messages */
    const char *pattern;        /* globs, files and directories (their files *.tfrecord*, NAME-NNNNN-of-NNNNN), commas
                                 * between them (dataset_shards.h) */
    const char *image_key;      /* NULL or "": found from the first record (doc/formats.md) */
    const char *label_key;
    struct image_shape shape;   /* of the network */
    uint32_t classes;
    int64_t label_offset;       /* added to the stored label */
    bool may_lack_classes;      /* fewer of them than the network's are not worth a word */
    bool is_any_label_taken;    /* labels out of range are no reason to refuse the set: label_survey looks at them */
    enum pixel_layout layout;   /* of raw images */
    enum image_range_choice range;      /* of images that are floats */
    const char *class_names;    /* file that lists them; NULL or "": one beside the shards, where there is one */
    enum dataset_part part;
    double held_out;            /* share of the records, in (0, 1); unless part is DATASET_ALL */
    uint64_t limit;             /* so many records of these at most, spread evenly over them; 0: all */
    bool skip_damage;
    bool use_index_cache;
    const atomic_bool *is_unwanted;     /* NULL, or true once nobody wants the data any more */
    struct shard_counts *counts;        /* shared with other sets while they are opened; NULL: the set's own */
    const struct shard_source_ops *source_ops;  /* how shards are read; NULL: as each asks for */
};

struct dataset {
    struct dataset_options options;     /* strings copied */
    uint32_t shard_count;
    char **paths;
    uint32_t left_out_count;
    char **left_out;            /* shards of the directories named whose names do not tell of the set */
    struct shard_source **sources;      /* NULL for a shard that is missing and counts as lost */
    struct shard_index *indexes;
    uint64_t *first_ids;        /* shard_count + 1 entries: id of each shard's first record; last = record_count */
    uint64_t *missing_records;  /* of each shard: lost besides shard_index_lost, as far as is known */
    uint64_t record_count;
    const char *listed_in;      /* the file that says how many records the first folder's shards hold; for messages */
    uint64_t lost_records;      /* found lost while indexing: shard_index_lost, and those missing */
    uint32_t payload_bytes_max;
    struct class_names class_names;     /* none: no list was found */
    char *class_names_path;
    struct class_names described_names; /* where there is no list: those of dataset.json, for labels that are text */
    struct sample_format format;
    size_t sample_bytes;        /* of options.shape */
    uint64_t fingerprint;       /* xxh3 over names, sizes and record counts */
    uint64_t contents;          /* xxh3 over the contents of the shards (shard_index.h) */
};

/* Open every shard. On failure all that is wrong is written to problem_out, a line each, the
 * last without a line end: no such file, no match, empty, cut, damaged, foreign, other counts
 * than dataset.json beside it says, missing from a directory whose dataset.json lists it, key
 * missing, image of another size, label out of range. 0, or a negative errno; -ECANCELED, without
 * a line, soon after it has become unwanted. More classes in dataset.json than the
 * options have are refused, fewer are said on stderr. */
int dataset_open(struct dataset **dataset_out, const struct dataset_options *options,
                 char *problem_out, size_t problem_size);
void dataset_close(struct dataset *dataset);

/* Whether no shard is compressed, so that reading any record costs that record alone. */
bool dataset_is_plain(const struct dataset *dataset);

struct dataset_place { uint32_t shard; uint32_t payload_bytes; uint64_t record; uint64_t offset; };
/* Where record `id` (< record_count) lies. O(log shards). */
struct dataset_place dataset_find(const struct dataset *dataset, uint64_t id);
/* The same in two steps, so that many places are looked for at once while memory answers: shard and
 * record, then the rest of the place. */
struct dataset_place dataset_seek(const struct dataset *dataset, uint64_t id);
void dataset_complete(const struct dataset *dataset, struct dataset_place *place);
/* The number of the record in its shard, for messages: place.record counts those of the set alone. */
uint64_t dataset_number(const struct dataset *dataset, const struct dataset_place *place);

#endif
