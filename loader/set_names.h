/* The class names of a data set, from the lists in all folders of its shards (doc/formats.md). Used by the main thread
 * while shards are opened. */
#ifndef PIPETRAIN_SET_NAMES_H
#define PIPETRAIN_SET_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/class_names.h"
#include "loader/shard_counts.h"
#include "loader/shards/text.h"

struct set_names {
    struct class_names names;   /* by the stored number; empty if no folder has a list */
    uint64_t classes;           /* number of classes in dataset.json, features.json or KEY.labels.txt; 0: in none of
                                 * them */
    char *said_in;              /* path of the file with that number; NULL: none; owned */
    char *path;                 /* path of the file with the names, or else with their number; NULL: none; owned */
};

/* A data set whose class names are to be found. */
struct set_names_request {
    char *const *paths;         /* paths of its shards */
    uint32_t count;
    const char *label_key;      /* NULL: the label of each folder's description */
    const char *what;           /* name of the data set, for messages */
    const char *advice;         /* advice if classes differ, appended to "convert both sets together"; or "" */
    const struct set_names *configured; /* NULL, or a list that has priority: other names in the first folder that has
                                         * any are reported on stderr and are no error */
    bool is_strict;             /* ignore a dataset.json that lists none of the shards */
    bool is_quiet;              /* print no warnings, because they were printed for the same files before */
};

/* Read the lists of all folders. In each folder, the first of these files that has names is used: dataset.json if it
 * lists one of the shards, LABEL_KEY.labels.txt (TensorFlow Datasets), labels.txt (TF-Slim), dataset.json; a
 * dataset.json of another label_key is ignored. Different names in the other files are reported on stderr, as are lists
 * that cannot be read. The number of classes is that of dataset.json, of features.json, or of LABEL_KEY.labels.txt. For
 * a link without a list beside it, the lists beside its target are used. With a configured list only the number of
 * classes is found. 0; -EINVAL with a line in `problems` if two folders have different class names, or if one has no
 * names and another number of classes; or -ENOMEM. */
int set_names_find(struct set_names *names_out, struct shard_counts *counts, const struct set_names_request *request,
                   struct text *problems);
/* Write the first names for a message, escaped: "cat, dog, owl, ...". Names after a class without a name are written
 * with their numbers. */
void class_names_describe(const struct class_names *names, char *text_out, size_t text_size);
/* Do the classes of two data sets differ? They do if names differ, or if one set has no names and either another number
 * of classes or the other set's names are numbers in another order than labels. */
bool set_names_differ(const struct set_names *a, const struct set_names *b);
/* Describe the classes of a data set for a message: the first names, or "20 classes without names". */
void set_names_describe(const struct set_names *names, char *text_out, size_t text_size);
/* Accepts a struct of zeros. */
void set_names_release(struct set_names *names);

#endif
