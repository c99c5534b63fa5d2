/* Rounds of trials: in a round every variant of a configuration trains once, one after the other, so that a temporary
 * slowdown of the machine affects all of them. --compare and --tune measure in rounds. Main thread only. */
#ifndef PIPETRAIN_TRIAL_ROUND_H
#define PIPETRAIN_TRIAL_ROUND_H

#include <stddef.h>
#include <stdint.h>

#include "tools/lib/trial/trial.h"

struct variant {
    const char *name;           /* for messages: "towers=2"; lent, as are the assignments */
    const char *const *own;     /* as in struct trial_spec */
    size_t own_count;
};

/* Run the variants, and log the speed of each: "LABEL, NAME: ..."; `label` may be "". Results are in the order of the
 * variants. The round ends with the first trial that fails. Returns the code of trial_run, which prints nothing, with
 * the index of the last trial in *last_out. */
int trial_round(const struct trial_spec *spec, const char *label, const struct variant *variants, uint32_t count,
                struct trial_result *results_out, uint32_t *last_out);

/* The share of the towers' time in which they wait for input and for its copies. */
double trial_input_wait(const struct trial_result *result);

#define TRIAL_ROUNDS_MAX 20u

/* Median and range of a value over the rounds. Values that are not finite are left out; all NAN if there is no
 * other. */
struct spread { double median, least, most; };
struct spread spread_of(const double *values, size_t count);

#endif
