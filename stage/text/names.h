/* Names that people write: patterns of names, and the name that was probably meant. */
#ifndef PIPETRAIN_NAMES_H
#define PIPETRAIN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Patterns are those of a shell, several in one text, separated by blanks or commas: "fc.*, layer4.?.conv*". A star
 * matches dots, too. */

#define PATTERN_BYTES 128u      /* of one, with its zero; longer ones are cut, and match no name */

/* The next pattern at *at, which moves past it. False: there are no more. */
bool patterns_next(const char **at, char pattern_out[PATTERN_BYTES]);
bool pattern_matches(const char *pattern, const char *name);
/* Whether one of the patterns matches. */
bool patterns_match(const char *patterns, const char *name);

/* Whether the names are equal but for the numbers in them, as "pixel7" and "pixel10" are. */
bool names_differ_in_numbers(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

/* ---- the nearest name ---- */

/* A search: start with name set and the rest 0, offer every candidate, then look at best. */
struct nearest {
    const char *name;           /* what was written */
    const void *best;           /* the nearest candidate's `what`, NULL when none is near */
    size_t distance;            /* of best */
    bool drops;                 /* the name lacks a character that best has, the commonest slip */
};

/* How many characters must be changed, added, dropped or swapped with a neighbour to turn `a` into `b`, regardless of
 * case. */
size_t nearest_distance(const char *a, const char *b);
/* Keep `what` when `candidate` is near the name and nearer than those offered before; or as near and longer than the
 * name, where the best one is not. */
void nearest_offer(struct nearest *nearest, const char *candidate, const void *what);

#endif
