/* What a run that learns a few samples by heart came to (--overfit=N). Used by main only. */
#ifndef PIPETRAIN_OVERFIT_END_H
#define PIPETRAIN_OVERFIT_END_H

#include <stdio.h>

#include "compute/net.h"
#include "tools/run/goal/goal.h"

/* Tell it in a sentence or two, and where they were not learnt what that may come from: EXIT_CODE_OK or
 * EXIT_CODE_UNLEARNT. */
int overfit_tell(const struct goal *goal, const struct settings *settings, const struct net *net, FILE *out);

#endif
