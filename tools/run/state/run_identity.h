/* By what a run knows that a saved state is one of its own: the settings and data that decide what it computes. Not
 * where it computes, how it is fed, how long it trains or what it tells. Used by main only. */
#ifndef PIPETRAIN_RUN_IDENTITY_H
#define PIPETRAIN_RUN_IDENTITY_H

#include "tools/run/run_plan.h"

/* Lines "section.key = value", malloc'ed. 0 or -ENOMEM. */
int run_identity_open(char **identity_out, const struct settings *settings, const struct run_plan *plan,
                      const struct dataset *const *datasets);
/* Is `theirs` another run's? Then the first differences are written in words: "train.momentum is 0.8, there 0.9". */
bool run_identity_differs(const char *ours, const char *theirs, char *words, size_t words_size);

#endif
