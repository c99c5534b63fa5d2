/* The names of a set's classes, from the lists in all folders of its shards (doc/formats.md). Used by the main thread
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
    struct class_names names;   /* by the number that is stored; empty if no folder has a list */
    uint64_t classes;           /* how many dataset.json, features.json or KEY.labels.txt says; 0: none does */
    char *said_in;              /* the path of that file; NULL if none does; owned */
    char *path;                 /* of the file that has the names or else their number; NULL if none does; owned */
};

/* A set whose names are wanted. */
struct set_names_request {
    char *const *paths;         /* of its shards */
    uint32_t count;
    const char *label_key;      /* NULL: that of each folder's description */
    const char *what;           /* the set, for messages */
    const char *advice;         /* about classes that differ, after "convert both sets together"; "" */
    const struct set_names *configured; /* NULL, or a list that is used whatever the others say: other names in the first
                                         * folder that has some are reported on stderr and not refused */
    bool is_strict;             /* do not use a dataset.json that lists none of the shards */
    bool is_quiet;              /* print no warnings, which the same set had before */
};

/* Read the lists of all folders. In each, the first of these that has names is used: dataset.json if it lists one of
 * the shards, LABEL_KEY.labels.txt (TensorFlow Datasets), labels.txt (TF-Slim), dataset.json; a dataset.json of another
 * label_key is not used. Other names in the rest of them are reported on stderr, as are lists that cannot be read. The
 * number of classes is that of dataset.json, of features.json, or of LABEL_KEY.labels.txt. A link without a list beside
 * it has those beside its target. With a configured list only the number of classes is found. 0; -EINVAL with a line in
 * `problems` if two folders name classes differently, or if one has no names and another number of classes; or
 * -ENOMEM. */
int set_names_find(struct set_names *names_out, struct shard_counts *counts, const struct set_names_request *request,
                   struct text *problems);
/* The first names for a message, escaped: "cat, dog, owl, ...", with their numbers after a class without a name. */
void class_names_describe(const struct class_names *names, char *text_out, size_t text_size);
/* Do classes differ: do they have different names, or does one set have no names and another number of classes, or the
 * other one names that are numbers in another order than labels? */
bool set_names_differ(const struct set_names *a, const struct set_names *b);
/* What a set says about its classes, for a message: the first names, or "20 classes without names". */
void set_names_describe(const struct set_names *names, char *text_out, size_t text_size);
/* Accepts a struct of zeros. */
void set_names_release(struct set_names *names);

#endif
