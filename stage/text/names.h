/* Names that users type: patterns of names, and the name that was probably meant. */
#ifndef PIPETRAIN_NAMES_H
#define PIPETRAIN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* Patterns are as in a shell; a text may have several, separated by blanks or commas: "fc.*, layer4.?.conv*". A star
 * also matches dots. */

#define PATTERN_BYTES 128u      /* size of a pattern, with its zero; longer ones are truncated and match no name */

/* Read the next pattern at *at and advance *at. False: there are no more. */
bool patterns_next(const char **at, char pattern_out[PATTERN_BYTES]);
bool pattern_matches(const char *pattern, const char *name);
/* Does one of the patterns match? */
bool patterns_match(const char *patterns, const char *name);

/* Are the names equal except for numbers in them, as "pixel7" and "pixel10"? */
bool names_differ_in_numbers(const char *a, size_t a_bytes, const char *b, size_t b_bytes);

/* ---- the nearest name ---- */

/* A search: set name and leave the rest 0, offer all candidates, then read best. */
struct nearest {
    const char *name;           /* the name that the user typed */
    const void *best;           /* `what` of the nearest candidate; NULL: no candidate is near */
    size_t distance;            /* edit distance of best */
    bool drops;                 /* best is longer than the name: dropping a character is the most frequent typing
                                 * error */
};

/* The edit distance of `a` and `b`: how many characters must be changed, added, dropped or swapped with a neighbour,
 * ignoring case. */
size_t nearest_distance(const char *a, const char *b);
/* Keep `what` if `candidate` is near the name and nearer than the best one so far. If the two are equally near, a
 * candidate longer than the name replaces a best one that is not longer. */
void nearest_offer(struct nearest *nearest, const char *candidate, const void *what);

#endif
