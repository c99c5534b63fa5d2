/* dataset_info.json and features.json, by which TensorFlow Datasets describes a set (doc/formats.md), read as what
 * dataset.json says of ours. */
#ifndef PIPETRAIN_DATASET_INFO_H
#define PIPETRAIN_DATASET_INFO_H

#include <stddef.h>

#include "formats/manifest.h"

#define DATASET_INFO_FILE "dataset_info.json"
#define FEATURES_FILE "features.json"

/* Read a dataset_info.json in its old or new form: of every split whose shards' lengths it says, the shards by name;
 * and the features a network would be trained with. 0, or -EBADMSG with a text that says what is wrong with it, or
 * -ENOMEM. */
int dataset_info_read(struct manifest *manifest_out, const char *text, size_t bytes, char *problem_out,
                      size_t problem_size);
/* Read a features.json: the first image and the first class label are the manifest's features where it has none. 0,
 * or as above. */
int dataset_features_read(struct manifest *manifest, const char *text, size_t bytes, char *problem_out,
                          size_t problem_size);

#endif
