/* Reports combinations of settings that probably do not do what the user intends (doc/training.md, "Settings that do
 * not fit together"). Combinations that make no sense at all are refused where they are read or planned. Used by main
 * only. */
#ifndef PIPETRAIN_PLAN_DOUBTS_H
#define PIPETRAIN_PLAN_DOUBTS_H

#include "compute/net.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"

/* Fail if batch normalisation gets a single value of each channel in every step. 0, or -EINVAL with a problem. */
int plan_doubts_check(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                      struct problems *problems);
/* Print a line for each combination that contains a setting of the user: recipes are for runs of their own length. */
void plan_doubts_print(const struct run_plan *plan, const struct settings *settings, const struct net *net);

#endif
