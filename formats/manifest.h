/* dataset.json, the manifest of a data set (doc/formats.md): how many records its shards hold, and which features are
 * meant. */
#ifndef PIPETRAIN_MANIFEST_H
#define PIPETRAIN_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_FILE "dataset.json"
#define MANIFEST_COMMIT_FILE ".dataset.json.commit"     /* it lies there while a set is put in place of another */
#define MANIFEST_BYTES_MAX ((size_t)16 << 20)   /* longer ones are not read */
#define MANIFEST_SIZE_UNSAID UINT64_MAX

struct manifest_shard {
    const char *listed_in;      /* MANIFEST_FILE, or what says so, for messages */
    char *file;                 /* its name, without a folder; owned */
    uint64_t records;
    uint64_t bytes;             /* of the file, or MANIFEST_SIZE_UNSAID */
    uint64_t hash;              /* of its records, doc/formats.md */
    bool has_hash;
    size_t split;               /* the set it is listed in, of split_count */
};

/* The shards of all sets, in the bytewise order of their names. */
struct manifest {
    struct manifest_shard *shards;
    size_t count;
    char **split_names;
    size_t split_count;
    char *image_key, *label_key;        /* of the features to train with; both NULL where nothing is said */
    char **class_names;         /* of each class, owned; NULL where they are not said */
    size_t class_count;         /* names */
    uint64_t classes;           /* 0 where it is not said */
};

/* Read a manifest; what it has beside splits, shards, files, records, bytes, xxh3, the keys, classes and class_names
 * does not matter. 0, or -EBADMSG with a text that says what is wrong with it, or -ENOMEM. */
int manifest_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                  size_t problem_size);
/* What is said of the shard of this name, NULL when nothing is. */
const struct manifest_shard *manifest_find(const struct manifest *manifest, const char *file);
/* For who reads a manifest from another description: its text, with an owned reference; a split, in which the
 * shards belong that are added from then on; the order that manifest_find needs. As manifest_read. */
struct json_t;
int manifest_load(struct json_t **root_out, const char *text, size_t bytes, char *problem_out, size_t problem_size);
int manifest_begin_split(struct manifest *manifest, const char *name);
int manifest_add(struct manifest *manifest, const char *listed_in, const char *file, uint64_t records,
                 uint64_t bytes);
int manifest_set_keys(struct manifest *manifest, const char *image_key, const char *label_key);
void manifest_sort(struct manifest *manifest);
/* Accepts a struct of zeros. */
void manifest_release(struct manifest *manifest);

#endif
