/* What tuning found, for people: 80 columns. */
#ifndef PIPETRAIN_TUNE_REPORT_H
#define PIPETRAIN_TUNE_REPORT_H

#include <stdio.h>

#include "tools/tune/outcome.h"

/* A line of a configuration. */
struct tune_line {
    const char *section, *key;
    uint32_t value;
    const char *word;           /* instead of the value; NULL: none */
};
#define TUNE_LINES_MAX 6u

/* What the best one changes, in the order of sections. Returns how many lines. */
uint32_t tune_lines(const struct tune_outcome *outcome, struct tune_line lines_out[TUNE_LINES_MAX]);
/* All of it: what was measured, settings, the picture, the reason, the lines. 0 or -ENOMEM with what was printed until
 * then. */
int tune_report(const struct tune_outcome *outcome, FILE *out);

#endif
