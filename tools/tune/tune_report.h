/* The result of --tune for people, in 80 columns. */
#ifndef PIPETRAIN_TUNE_REPORT_H
#define PIPETRAIN_TUNE_REPORT_H

#include <stdio.h>

#include "tools/tune/tune_result.h"

/* What was measured, the table of settings, the reason in words, the lines to set. */
void tune_report(const struct tune_result *result, FILE *out);

#endif
