/* Shell-like patterns of names, several in one text with blanks or commas between them: "fc.*, layer4.?.conv*". A
 * star stands for dots, too. */
#ifndef PIPETRAIN_PATTERNS_H
#define PIPETRAIN_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

#define PATTERN_BYTES 128u      /* of one, with its end; what is longer is cut, and matches no name */

/* The next pattern at *at, which moves behind it. False: there are no more. */
bool patterns_next(const char **at, char pattern_out[PATTERN_BYTES]);
bool pattern_matches(const char *pattern, const char *name);
/* Does one of them match? Of an empty text none does. */
bool patterns_match(const char *patterns, const char *name);

#endif
