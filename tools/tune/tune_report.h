/* Prints the result of --tune as text, in 80 columns. */
#ifndef PIPETRAIN_TUNE_REPORT_H
#define PIPETRAIN_TUNE_REPORT_H

#include <stdio.h>

#include "tools/tune/tune_result.h"

/* Print the speeds of towers and input alone, the table of settings, the reason in words, and the lines to set. */
void tune_report(const struct tune_result *result, FILE *out);

#endif
