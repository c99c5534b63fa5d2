/* Settings that together probably do not mean what they say (doc/training.md, "Settings that do not fit together"). Those
 * that cannot mean anything are refused where they are read or planned. Used by main only. */
#ifndef PIPETRAIN_PLAN_DOUBTS_H
#define PIPETRAIN_PLAN_DOUBTS_H

#include "compute/net.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"

/* Does batch normalisation see a single value of each channel in every step? 0, or -EINVAL with a problem. */
int plan_doubts_check(const struct run_plan *plan, const struct settings *settings, const struct net *net,
                      struct problems *problems);
/* Print a line for each, but none for what the user did not set: recipes are for runs of their own length. */
void plan_doubts_print(const struct run_plan *plan, const struct settings *settings, const struct net *net);

#endif
