/* Decides whether sibling folders, or archives, are splits of a data set or classes. All names are considered
 * together: {bus, car, train} are classes, but {train, val} are splits. */
#ifndef PIPETRAIN_SIBLINGS
#define PIPETRAIN_SIBLINGS

#include <stdbool.h>
#include <stddef.h>

#include "formats/split_name.h"

struct sibling {
    const char *name;
    size_t bytes;
    bool has_images;            /* contains images, at any depth; siblings without images are ignored */
    bool has_folders;           /* contains folders with images */
};

enum siblings_meaning {
    SIBLINGS_CLASSES,
    /* splits; siblings without the name of a split (the first is `other`) contain no folders, and are left out */
    SIBLINGS_SPLITS,
    SIBLINGS_NO_TRAIN,          /* splits, but no training set */
    SIBLINGS_STRANGER,          /* `named` has the name of a split, and `other` has not */
    SIBLINGS_UNCLEAR,           /* `named` and `other` may be splits as well as classes */
};

struct siblings_reading {
    enum siblings_meaning meaning;
    size_t named, other;        /* indices of siblings, described at siblings_meaning */
    unsigned splits;            /* splits that occur in the names, as a bit for each value of enum split */
};

struct siblings_reading siblings_read(const struct sibling *siblings, size_t count);

/* A folder inside one of the siblings. */
struct held {
    const char *name;
    size_t bytes;
};

/* Do the siblings (`holders` of them) contain folders with the same names, as splits, patients or styles that
 * contain classes do? True if most of the names occur in most siblings. Sorts the list; *first_out and *second_out
 * are two of the names. */
bool siblings_hold_the_same(struct held *list, size_t count, size_t holders, struct held *first_out,
                            struct held *second_out);

#endif
