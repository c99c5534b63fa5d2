/* What a torture tried, how often, and what held. */
#ifndef PIPETRAIN_TEST_REPORT_H
#define PIPETRAIN_TEST_REPORT_H

#include <stdio.h>

#include "tests/torture/trial.h"

/* Markdown: a line for each kind of try, a column for each scenario. Returns how many were broken. */
uint32_t report_write(const struct trials *trials, const struct outcome *outcomes, FILE *out);

#endif
