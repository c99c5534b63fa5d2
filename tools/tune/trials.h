/* The runs that tuning is made of: the configuration with other values, for some seconds each. Main only. */
#ifndef PIPETRAIN_TUNE_TRIALS_H
#define PIPETRAIN_TUNE_TRIALS_H

#include <stdbool.h>

#include "tools/trial/trial.h"
#include "tools/tune/stage_times.h"
#include "tools/tune/tune.h"

#define TRIALS_OWN_MAX 8u       /* assignments that a trial adds to those of the request */

/* As trial_run, with the assignments `own` (`count` of them) behind those of the request, without evaluation. A trial
 * whose times_out is not NULL is traced and gets them, for stage_times_release; the trace takes some MiB of the
 * configuration's budget of memory. What goes wrong is said, but for a request to end and for -ERANGE: too few
 * steps were done in that time. 0, that, or a negative errno as of trial_run. */
int trials_run(const struct tune_request *request, const char *const *own, size_t count, double seconds,
               struct trial_result *result_out, struct stage_times *times_out);
/* As trial_check. Says nothing. */
int trials_check(const struct tune_request *request, const char *const *own, size_t count,
                 struct trial_result *result_out);
/* Share of their time that towers waited for input and its copies. */
double trials_wait(const struct trial_result *result);
/* Seconds of a step without that wait, on average. One of several towers may wait for another that waits for input:
 * that is in it. */
double trials_step_seconds(const struct trial_result *result);
/* Of a run with a loader, the share of a step in which the slot it began with may be filled (feed_model.h). */
double trials_slot_free(const struct trial_result *now);
/* Is there room for a trace in the budget, beside the configuration as it is? */
bool trials_have_room(const struct tune_request *request);

#endif
