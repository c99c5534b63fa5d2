/* The name somebody probably meant. */
#ifndef PIPETRAIN_NEAREST_H
#define PIPETRAIN_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/* A search: start with name set and the rest 0, offer every candidate, look at best. */
struct nearest {
    const char *name;           /* what was written */
    const void *best;           /* the nearest candidate's `what`, NULL when none is near */
    size_t distance;            /* of best */
    bool drops;                 /* the name lacks a character that best has, the commonest slip */
};

/* How many characters have to be changed, added, dropped or swapped with a neighbour
 * to make `b` of `a`; upper and lower case are alike. */
size_t nearest_distance(const char *a, const char *b);
/* Keep `what` when `candidate` is near the name and nearer than what was offered before; or as near, and longer than
 * the name, where the one before is not. */
void nearest_offer(struct nearest *nearest, const char *candidate, const void *what);

#endif
