/* The names of classes, from wherever a data set or weights list them: finding, comparing and saving them. */
#ifndef PIPETRAIN_NAMED_CLASSES_H
#define PIPETRAIN_NAMED_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/dataset.h"
#include "tools/results/weights.h"
#include "tools/shards/label_names.h"

/* Both borrowed. The first one that has any names is used. */
struct named_classes {
    const struct class_names *listed;
    const struct label_names *beside;   /* from the files beside the shards; may be NULL */
};

/* The name of a class; "" where it has none. */
const char *named_classes_find(const struct named_classes *names, uint32_t class);
/* Does a class below `classes` have different names in a and b? Classes without a name in one of them do not count. */
bool named_classes_differ(const struct named_classes *a, const struct named_classes *b, uint32_t classes);
/* The first names for a message, escaped: "cat, dog, owl, ..." */
void named_classes_describe(const struct named_classes *names, uint32_t classes, char *text_out, size_t text_size);
/* Do two data sets name classes differently? Then the first names of both are written. 1, 0 or -ENOMEM. */
int datasets_name_differently(const struct dataset *a, const struct dataset *b, char *a_out, char *b_out,
                              size_t text_size);
/* Does a data set name classes differently from a network whose names are `text`, as in the metadata of weights and
 * checkpoints (NULL: it has none)? Then the first names of both are written. 1, 0, -EBADMSG when the text is not a list
 * of names, or -ENOMEM. */
int dataset_names_differ(const struct dataset *dataset, const char *text, char *data_out, char *network_out,
                         size_t text_size);
/* Put the data set's names of classes into the metadata of the weights; either may be NULL, then nothing is done. Names
 * with line ends are left out. 0 or -ENOMEM. */
int named_classes_save(struct weights *weights, const struct dataset *dataset);

#endif
