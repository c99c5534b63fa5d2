/* Finds the names of the classes of a network. Main thread only. */
#ifndef PIPETRAIN_KNOWN_NAMES_H
#define PIPETRAIN_KNOWN_NAMES_H

#include "formats/class_names.h"
#include "tools/predict/trained.h"

/* Zero it first. */
struct known_names {
    const char **names;         /* of every class, "" for one without a name; NULL: no class has a name */
    struct class_names listed;  /* the names, unless they are the data set's */
};

/* Use the names of the first of these that has any: the file data.class_names; the files next to the shards of the data
 * set, if there is one; the weights. Without data.class_names it is an error if data set and weights have different
 * names for a class, or, if the weights have no names, data set and data.train. Borrows the data set and the network.
 * 0, or an exit code after a message; call known_names_release in both cases. */
int known_names_find(struct known_names *names, const struct trained *trained);
void known_names_release(struct known_names *names);

#endif
