/* Names of the labels of a data set, from its manifest or from a list next to its shards. */
#ifndef PIPETRAIN_LABEL_NAMES_H
#define PIPETRAIN_LABEL_NAMES_H

#include <stdint.h>

#include "formats/class_names.h"
#include "formats/manifest.h"

struct label_names {
    struct manifest manifest;   /* of zeros if there is none */
    struct class_names listed;  /* if the manifest has no names */
};

/* Read dataset.json, labels.txt (TF-Slim) or label.labels.txt (TensorFlow Datasets) next to a shard; unreadable files
 * are ignored. Release the names also after an error. 0 or -ENOMEM. */
int label_names_read(struct label_names *names_out, const char *shard_path);
/* The name of a label, or NULL. */
const char *label_names_find(const struct label_names *names, int64_t label);
/* Read only dataset.json next to a shard, as above, into a manifest of zeros. */
int manifest_read_beside(struct manifest *manifest, const char *shard_path);
/* Accepts a struct of zeros. */
void label_names_release(struct label_names *names);

#endif
