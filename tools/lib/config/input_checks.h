/* Checks of settings of the input against each other. Problems are added where the option was set. */
#ifndef PIPETRAIN_INPUT_CHECKS_H
#define PIPETRAIN_INPUT_CHECKS_H

#include <stdint.h>

#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"

/* Check data.lanes: lanes are parts of an order of blocks, and each is read by one of settings->ranks ranks. */
void input_check_lanes(struct settings *settings, struct problems *problems);
/* Check mixup and CutMix, for which a step of `batch` samples needs at least two. */
void input_check_mixing(struct settings *settings, int64_t batch, struct problems *problems);
/* What is wrong with data.balance in this order, or NULL. */
const char *input_balance_problem(const struct settings *settings);

#endif
