/* The manifest of a data set (doc/formats.md): how many records its shards hold, and which features to train with.
 * It is read from our dataset.json, or from the dataset_info.json and features.json of TensorFlow Datasets. */
#ifndef PIPETRAIN_MANIFEST_H
#define PIPETRAIN_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANIFEST_FILE "dataset.json"
#define MANIFEST_COMMIT_FILE ".dataset.json.commit"     /* present while a set replaces another */
#define DATASET_INFO_FILE "dataset_info.json"
#define FEATURES_FILE "features.json"
#define MANIFEST_BYTES_MAX ((size_t)16 << 20)   /* longer files are not read */
#define MANIFEST_SIZE_UNSAID UINT64_MAX

struct manifest_shard {
    const char *listed_in;      /* MANIFEST_FILE or another file name, for messages */
    char *file;                 /* its name, without a folder; owned */
    uint64_t records;
    uint64_t bytes;             /* of the file, or MANIFEST_SIZE_UNSAID */
    uint64_t hash;              /* of its records, doc/formats.md */
    bool has_hash;
    size_t split;               /* index of its split in split_names */
};

/* How many classes a label has. */
struct manifest_label {
    char *key;                  /* owned */
    uint64_t classes;           /* 0 where not given */
};

/* The shards of all sets, in the bytewise order of their names. */
struct manifest {
    struct manifest_shard *shards;
    size_t count;
    char **split_names;
    size_t split_count;
    char *image_key, *label_key;        /* features to train with; both NULL where not given */
    char **class_names;         /* of each class, owned; NULL where not given */
    size_t class_count;         /* of class_names */
    uint64_t classes;           /* how many dataset.json says; 0 where not given */
    struct manifest_label *labels;      /* the class labels of features.json */
    size_t label_count;
};

/* Read a dataset.json; members other than splits, shards, files, records, bytes, xxh3, the keys, classes and
 * class_names are ignored. 0, -ENOMEM, or -EBADMSG with what is wrong in problem_out. */
int manifest_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                  size_t problem_size);
/* The shard of this name, or NULL. */
const struct manifest_shard *manifest_find(const struct manifest *manifest, const char *file);
/* Read a dataset_info.json in its old or new form: the shards of every split whose shard lengths it gives, named by its
 * template; and the features of its supervised keys. Results as above. */
int dataset_info_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                      size_t problem_size);
/* Read a features.json in its old or new form: the numbers of classes of its class labels; and its first image and
 * first class label, which become the manifest's features where it has none. Results as above. */
int dataset_features_read(struct manifest *manifest, const char *text, size_t bytes, char *problem_out,
                          size_t problem_size);
/* Are classes and class_names of the manifest those of the label of this key? NULL: a key that is not known. */
bool manifest_describes(const struct manifest *manifest, const char *label_key);
/* How many classes the label of this key has (NULL: the manifest's own), and in which file that is said; 0 where none
 * says it. */
uint64_t manifest_classes(const struct manifest *manifest, const char *label_key, const char **said_in_out);
/* Accepts a struct of zeros. */
void manifest_release(struct manifest *manifest);

#endif
