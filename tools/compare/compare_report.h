/* A comparison for people and for programs (doc/compare.md). Main only. */
#ifndef PIPETRAIN_COMPARE_REPORT_H
#define PIPETRAIN_COMPARE_REPORT_H

#include <stdio.h>

#include "tools/compare/comparison.h"

/* Tables of 80 columns, but for values that are longer. */
void compare_report_table(const struct comparison *comparison, FILE *out);
/* A row of names and one for each variant. */
void compare_report_csv(const struct comparison *comparison, FILE *out);
/* One object. 0 or -ENOMEM. */
int compare_report_json(const struct comparison *comparison, FILE *out);

#endif
