/* A comparison for people and for programs (doc/compare.md). Main thread only. */
#ifndef PIPETRAIN_COMPARE_REPORT_H
#define PIPETRAIN_COMPARE_REPORT_H

#include <stdio.h>

#include "tools/compare/comparison.h"

/* Tables at most 80 columns wide, unless a value is longer. */
void compare_report_table(const struct comparison *comparison, FILE *out);
/* A line of names and a line for each variant. */
void compare_report_csv(const struct comparison *comparison, FILE *out);
/* One object. Returns 0 or -ENOMEM. */
int compare_report_json(const struct comparison *comparison, FILE *out);

#endif
