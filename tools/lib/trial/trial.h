/* A trial: a short run of a configuration in a separate process, of which only the numbers of its summary.json are
 * kept. --compare and --tune consist of trials. Called from the main thread only, one trial at a time. */
#ifndef PIPETRAIN_TRIAL_H
#define PIPETRAIN_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/lib/config/config.h"
#include "tools/lib/run/metrics.h"

#define TRIAL_STEPS_MAX UINT64_C(1000000)
#define TRIAL_PROBLEM_BYTES 4096u

struct trial_spec {
    /* Lent. The file must not be a pipe, because every trial reads it again. Later assignments win: first those of the
     * command line, then those of this trial, last the options that every trial sets (in_trials in option_table). */
    struct config_arguments config;
    const char *const *own;     /* assignments in the form of --set */
    size_t own_count;
    bool skips_evaluation;      /* data.validation is set to empty, unless `own` sets it */
    /* The configuration has train.on_nan = rollback, which is set to stop, because a trial saves no checkpoint to which
     * it could roll back. */
    bool has_rollback;
    double seconds;             /* duration of training after the first step; 0 = no limit */
    bool counts_warmup;         /* images_per_second counts all steps if the run ended during warm-up */
    uint64_t steps;             /* at most TRIAL_STEPS_MAX; 0 = no limit */
    double limit_seconds;       /* after which the process is killed; 0 = `seconds` + 600, or never without `seconds` */
};

/* The values of summary.json (doc/formats.md). A double is NAN if the file has no number for it. */
struct trial_result {
    int exit_code;              /* for a program that ends because of this trial; 0 after success */
    char problem[TRIAL_PROBLEM_BYTES];  /* the error messages, one or more lines; "" after success */
    char ended[32];             /* "finished", or "asked to stop" if its time was over */
    char device[16];
    char verdict[320];
    char limit[16];             /* limit.stage: what limited the run */
    double limit_gain;          /* limit.gain: largest possible speed-up by removing that limit, 0.5 = 50 % */
    bool is_synthetic;
    uint64_t towers, batch;     /* batch: samples of a step in all towers together */
    struct metric_values values;        /* a count is 0 if the file has none */
    uint64_t cores, threads_per_tower, read_threads, decode_threads;    /* of the plan, as are the depths */
    uint64_t prefetch_depth, staging_depth;
    uint64_t stored_height, stored_width;       /* pixels of the first image if images are stored as files, else 0 */
    uint64_t taken_height, taken_width;         /* pixels of that image after resizing or cropping for the network */
    uint64_t input_height, input_width;         /* of the network in evaluation; 0 in summaries of older versions */
};

/* Can the file be read by several trials? True for a regular file; a pipe or a terminal is empty when it is read
 * again. */
bool trial_can_read_again(const char *path);

/* Run this program (/proc/self/exe) as a child process, with a new run directory in $TMPDIR or /tmp that is removed
 * afterwards. The child starts from step 0, saves no checkpoints, and runs until its steps or its time are over. Its
 * output is not shown.
 *
 * Blocks until the child has ended. SIGINT, SIGTERM, SIGHUP and SIGUSR1, if signals_block blocked them before any
 * thread was started, are forwarded to the child; it is killed 2 s later, or at once by a second signal. The child is
 * also killed when this process is killed.
 *
 * Returns 0; or, with exit_code and problem set and all other values 0: -ECANCELED after such a signal, -ETIMEDOUT if
 * the child was killed after limit_seconds, -ECHILD if the child failed, -ENODATA if it ended before its first step had
 * ended, or another negative errno if the child could not be started. */
int trial_run(const struct trial_spec *spec, struct trial_result *result_out);

/* Run `pipetrain --check` in the same way; nothing is trained. Sets only exit_code and problem of the result. */
int trial_check(const struct trial_spec *spec, struct trial_result *result_out);

/* Print the problem as error messages, each line after "NAME: "; nothing after success. */
void trial_print_problem(const char *name, const struct trial_result *result);

#endif
