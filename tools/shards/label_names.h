/* The names that a data set has for its labels: those in its manifest, or in a list beside its shards. */
#ifndef PIPETRAIN_LABEL_NAMES_H
#define PIPETRAIN_LABEL_NAMES_H

#include <stdint.h>

#include "formats/class_names.h"
#include "formats/manifest.h"

struct label_names {
    struct manifest manifest;   /* of zeros where there is none */
    struct class_names listed;  /* where the manifest names nothing */
};

/* Read what lies beside a shard: dataset.json; labels.txt (TF-Slim) or label.labels.txt (TensorFlow Datasets). What
 * cannot be read is as good as none. To be released, whatever comes of it. 0, or -ENOMEM: there may be names. */
int label_names_read(struct label_names *names_out, const char *shard_path);
/* The name of a label, NULL where it has none. */
const char *label_names_find(const struct label_names *names, int64_t label);
/* Accepts a struct of zeros. */
void label_names_release(struct label_names *names);

#endif
