/* Prints a comparison as a table, or as CSV or JSON for programs (doc/compare.md). Main thread only. */
#ifndef PIPETRAIN_COMPARE_REPORT_H
#define PIPETRAIN_COMPARE_REPORT_H

#include <stdio.h>

#include "tools/compare/comparison.h"

/* Lines have at most 80 columns, unless a value is longer. */
void compare_report_table(const struct comparison *comparison, FILE *out);
/* The first line has the names of the columns; one line for each variant follows. */
void compare_report_csv(const struct comparison *comparison, FILE *out);
/* Writes one JSON object. Returns 0 or -ENOMEM. */
int compare_report_json(const struct comparison *comparison, FILE *out);

#endif
