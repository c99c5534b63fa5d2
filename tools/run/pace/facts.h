/* The facts a verdict is made of, from what a run counted. */
#ifndef PIPETRAIN_FACTS_H
#define PIPETRAIN_FACTS_H

#include "tools/run/pace/verdict.h"
#include "tools/run/report.h"

/* When the pipeline is closed. Of this process until now. */
struct verdict_facts facts_of(const struct report *report, const struct report_end *end);

#endif
