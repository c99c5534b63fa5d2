/* The manifest of a data set (doc/formats.md): the numbers of records of its shards, and the features to train with. It
 * is read from our dataset.json, or from the dataset_info.json and features.json of TensorFlow Datasets. */
#ifndef PIPETRAIN_MANIFEST_H
#define PIPETRAIN_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_FILE "dataset.json"
#define MANIFEST_COMMIT_FILE ".dataset.json.commit"     /* exists while a data set is being replaced by another one */
#define DATASET_INFO_FILE "dataset_info.json"
#define FEATURES_FILE "features.json"
#define MANIFEST_BYTES_MAX ((size_t)16 << 20)   /* longer files are not read */
#define MANIFEST_SIZE_UNSAID UINT64_MAX

struct manifest_shard {
    const char *listed_in;      /* MANIFEST_FILE or the name of another file, for messages */
    char *file;                 /* file name without a folder; owned */
    uint64_t records;
    uint64_t bytes;             /* size of the file, or MANIFEST_SIZE_UNSAID */
    uint64_t hash;              /* hash of its records, see doc/formats.md */
    bool has_hash;
    size_t split;               /* index of its split in split_names */
};

/* The number of classes of a label. */
struct manifest_label {
    char *key;                  /* owned */
    uint64_t classes;           /* 0 if not given */
};

/* The shards of all splits, sorted bytewise by name. */
struct manifest {
    struct manifest_shard *shards;
    size_t count;
    char **split_names;
    size_t split_count;
    char *image_key, *label_key;        /* the features to train with; both NULL if not given */
    char **class_names;         /* the name of each class, owned; NULL if not given */
    size_t class_count;         /* number of class_names */
    uint64_t classes;           /* the number of classes from dataset.json; 0 if not given */
    struct manifest_label *labels;      /* the class labels of features.json */
    size_t label_count;
};

/* Read a dataset.json. All members are ignored but splits, shards, files, records, bytes, xxh3, the keys, classes and
 * class_names. 0, -ENOMEM, or -EBADMSG with the reason in problem_out. */
int manifest_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                  size_t problem_size);
/* The shard with this file name, or NULL. */
const struct manifest_shard *manifest_find(const struct manifest *manifest, const char *file);
/* Read a dataset_info.json in its old or new form: the shards of every split with shard lengths, with names from the
 * split's template, and the features of the supervised keys. Results as of manifest_read. */
int dataset_info_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                      size_t problem_size);
/* Read a features.json in its old or new form: the numbers of classes of its class labels. Its first image and first
 * class label become the manifest's features if the manifest has none. Results as of manifest_read. */
int dataset_features_read(struct manifest *manifest, const char *text, size_t bytes, char *problem_out,
                          size_t problem_size);
/* Do classes and class_names of the manifest belong to the label of this key? NULL: the key is unknown. */
bool manifest_describes(const struct manifest *manifest, const char *label_key);
/* The number of classes of the label of this key (NULL: the manifest's own label), and the file with that number; 0 if
 * no file has it. */
uint64_t manifest_classes(const struct manifest *manifest, const char *label_key, const char **said_in_out);
/* Accepts a struct of zeros. */
void manifest_release(struct manifest *manifest);

#endif
