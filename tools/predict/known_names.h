/* The names of a network's classes, as far as anything says them. Used by main only. */
#ifndef PIPETRAIN_KNOWN_NAMES_H
#define PIPETRAIN_KNOWN_NAMES_H

#include "loader/dataset.h"
#include "tools/predict/trained.h"
#include "tools/shards/label_names.h"

/* Begins as zeros. */
struct known_names {
    const char **names;         /* of every class, "" for one that has none; NULL: none has */
    struct class_names listed;
    struct label_names beside;
};

/* The first that names any class: the file data.class_names; what lies beside the shards of the data set (NULL: there
 * are none); the weights. Without that file, a data set and weights that name the same class differently are
 * refused. The data set and the network are lent. 0, or an exit code after a message; known_names_release after
 * either. */
int known_names_find(struct known_names *names, const struct trained *trained, const struct dataset *dataset);
void known_names_release(struct known_names *names);

#endif
