/* The plan's part of summary.json. Used by main only. */
#ifndef PIPETRAIN_SUMMARY_PLAN_H
#define PIPETRAIN_SUMMARY_PLAN_H

#include "formats/json.h"
#include "tools/run/run_plan.h"

/* "plan": {...} of doc/formats.md. */
void summary_plan_write(const struct run_plan *plan, const struct settings *settings, struct json *json);

#endif
