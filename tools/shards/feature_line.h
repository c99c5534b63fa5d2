/* A feature of an Example as people read it. */
#ifndef PIPETRAIN_FEATURE_LINE_H
#define PIPETRAIN_FEATURE_LINE_H

#include <stdio.h>

#include "formats/example.h"

/* A line: the name, which need not be terminated, escaped; the kind; the number of values; and the first ones:
 * numbers, a text in quotes, what an encoded image is, or the first of other bytes. */
void feature_line_print(FILE *out, const char *name, size_t name_bytes, const struct feature *feature);

#endif
