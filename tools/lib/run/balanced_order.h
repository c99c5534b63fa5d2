/* Sampling of training records by class (data.balance). Main thread only. */
#ifndef PIPETRAIN_BALANCED_ORDER_H
#define PIPETRAIN_BALANCED_ORDER_H

#include "loader/dataset.h"
#include "tools/lib/config/problems.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"

/* With data.balance set plan->classes, which the caller releases, from the labels of all records of `dataset` (NULL:
 * there is none), which are read once. Records without a label are told, and with data.on_corrupt = fail they are a
 * problem. Without it, or with synthetic input, do nothing. 0; or with a problem -EINVAL, or -EBADMSG for the data;
 * -ENOMEM, -EAGAIN or -ECANCELED. */
int balanced_order_find(struct run_plan *plan, const struct settings *settings, const struct dataset *dataset,
                        struct problems *problems);

#endif
