/* Losses, gradients and weights that are no finite numbers. Used by main only. */
#ifndef PIPETRAIN_NONFINITE_H
#define PIPETRAIN_NONFINITE_H

#include "stage/stop.h"
#include "sync/trainer.h"
#include "tools/config/settings.h"
#include "tools/run/account.h"
#include "tools/run/goal/course.h"
#include "tools/run/run_plan.h"

#define NONFINITE_ROW_MAX 30u           /* steps in a row that may be left out: fp16 may need that many at first */

/* Looks at the reports of a batch, one of each tower of the plan, before they are added up; a step that was left out
 * goes to the course, and the first one is told. Ends the run (EXIT_CODE_NONFINITE) where a number is not finite that
 * no update was left out for: in a loss, or in weights, which a ReLU may hide from it; or where too many steps in a row
 * were left out, or all of the run. Where steps may be left out, so may losses of evaluation: they change nothing. */
void nonfinite_check(struct stop *stop, struct step_report *const *reports, const struct run_plan *plan,
                     const struct train_settings *train, struct course *course);
/* A batch was added to the account: a whole evaluation without one finite loss ends the run as well. */
void nonfinite_check_evaluation(struct stop *stop, const struct account *account, const struct batch_slice *slice);

#endif
