/* summary.json (doc/formats.md). Used by main only. */
#ifndef PIPETRAIN_SUMMARY_H
#define PIPETRAIN_SUMMARY_H

#include "tools/lib/run/report.h"
#include "tools/lib/run/verdict.h"

/* Write summary.json to the report's directory, if there is one. verdict NULL: the run failed. 0, or a negative errno,
 * which is not reported yet. */
int summary_write(struct report *report, const struct report_end *end, const struct verdict *verdict);

#endif
