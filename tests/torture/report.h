/* The table of results. */
#ifndef PIPETRAIN_TEST_REPORT_H
#define PIPETRAIN_TEST_REPORT_H

#include <stdio.h>

#include "tests/torture/trial.h"

/* Markdown: a row for each kind of trial, a column for each scenario. Returns how many trials failed. */
uint32_t report_write(const struct trials *trials, const struct outcome *outcomes, FILE *out);

#endif
