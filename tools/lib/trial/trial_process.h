/* Runs this program as a child process: starts it, watches it, and ends it in time. Main thread only, one at a time. */
#ifndef PIPETRAIN_TRIAL_PROCESS_H
#define PIPETRAIN_TRIAL_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

struct trial_process {
    char *const *argv;          /* argv[0]: the program's name */
    const char *out_path, *err_path;    /* files that stdout and stderr are appended to */
    uint64_t train_ns;          /* time from its first step to SIGUSR1; 0 = never */
    uint64_t limit_ns;          /* time from its start to SIGKILL; 0 = never */
};

struct trial_exit {
    int status;                 /* status of waitpid */
    bool is_over_limit;         /* it was killed after limit_ns, or a minute after SIGUSR1 */
    bool is_canceled;           /* this process received a signal that ends the trial (trial_run) */
};

/* Start the process and wait until it has ended. Returns 0, or a negative errno if it could not be started. */
int trial_process_run(const struct trial_process *process, struct trial_exit *exit_out);

/* The exit code for the first blocked signal that has arrived; 0: none has. Fetches pending signals. */
int trial_process_end_code(void);

#endif
