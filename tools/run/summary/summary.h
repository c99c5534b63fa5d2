/* summary.json (doc/formats.md). Used by main only. */
#ifndef PIPETRAIN_SUMMARY_H
#define PIPETRAIN_SUMMARY_H

#include "tools/run/pace/verdict.h"
#include "tools/run/report.h"

/* Write it to the report's directory, if there is one; verdict NULL: the run broke off. 0, or a negative errno, which
 * nothing was said of. */
int summary_write(struct report *report, const struct report_end *end, const struct verdict *verdict);

#endif
