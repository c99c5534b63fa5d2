/* This program as a child: started, watched, ended in time. Main only, one at a time. */
#ifndef PIPETRAIN_TRIAL_PROCESS_H
#define PIPETRAIN_TRIAL_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct trial_process {
    char *const *argv;          /* argv[0]: its name */
    const char *out_path, *err_path;    /* files for what it says, made anew; may be the same */
    uint64_t train_ns;          /* asked to end so long behind its first step; 0 = not */
    uint64_t limit_ns;          /* killed so long after its start; 0 = not */
};

struct trial_outcome {
    int status;                 /* as waitpid gives it */
    bool is_over_limit;         /* killed: over limit_ns, or not ended a minute after it was asked to */
    bool is_canceled;           /* a request to this process ended it */
};

/* Start it and wait until it is gone (trial.h tells of requests). 0, or a negative errno when it could not be
 * started. */
int trial_process_run(const struct trial_process *process, struct trial_outcome *outcome_out);

/* The exit code of the first request to end that this process held back, 0 = none came. Looks for new ones. */
int trial_process_end_code(void);

#endif
