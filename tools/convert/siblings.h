/* Folders beside each other, or archives: are they splits of a data set or classes? Their names decide together, as
 * {bus, car, train} are classes and {train, val} are not. */
#ifndef PIPETRAIN_SIBLINGS
#define PIPETRAIN_SIBLINGS

#include <stdbool.h>
#include <stddef.h>

#include "formats/split_name.h"

struct sibling {
    const char *name;
    size_t bytes;
    bool has_images;            /* at any depth; others do not count */
    bool has_folders;           /* with images in them */
};

enum siblings_meaning {
    SIBLINGS_CLASSES,
    SIBLINGS_SPLITS,            /* but `other` and more without the name of a split, if they contain no folders */
    SIBLINGS_NO_TRAIN,          /* splits, none of which is to train on */
    SIBLINGS_STRANGER,          /* `named` is a split, and `other` beside it is none */
    SIBLINGS_UNCLEAR,           /* `named` and `other` may be splits or classes */
};

struct siblings_reading {
    enum siblings_meaning meaning;
    size_t named, other;        /* indices of siblings, as above */
    unsigned splits;            /* that names say, a bit for each of enum split */
};

struct siblings_reading siblings_read(const struct sibling *siblings, size_t count);

/* A folder in one of the siblings. */
struct held {
    const char *name;
    size_t bytes;
};

/* Do `holders` siblings hold the same folders, as splits, patients and styles hold classes? Most of the names are then in
 * most of them. Sorts the list; *first_out and *second_out are two of the names. */
bool siblings_hold_the_same(struct held *list, size_t count, size_t holders, struct held *first_out,
                            struct held *second_out);

#endif
