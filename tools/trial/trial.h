/* A trial: a run of a configuration in a process of its own, for a short time, of which only numbers stay. Used by main
 * only, one trial at a time. */
#ifndef PIPETRAIN_TRIAL_H
#define PIPETRAIN_TRIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/run/account.h"

#define TRIAL_STEPS_MAX UINT64_C(1000000)
#define TRIAL_PROBLEM_BYTES 4096u

struct trial_spec {
    const char *config_path;            /* can be read again and again (trial_can_read_again) */
    const char *const *assignments;     /* as --set takes them; later ones win, those of the trial over all */
    size_t assignment_count;
    double seconds;             /* of training, from the end of its first step; 0 = as long as the steps take */
    uint64_t steps;             /* TRIAL_STEPS_MAX at most; 0 = as many as there is time for */
    const char *trace;          /* a file that the trial's trace goes to (doc/trace.md); NULL: none */
    double limit_seconds;       /* the process is killed after that; 0 = 600 more than `seconds`, or never without */
};

/* How full a queue of batches was; all NAN where there is none. */
struct trial_queue { double depth, least, median, mean, empty; };

/* What summary.json (doc/formats.md) tells. A double is NAN where it tells nothing. */
struct trial_result {
    int exit_code;              /* for a program that gives up after this trial; 0 when it worked */
    char problem[TRIAL_PROBLEM_BYTES];  /* what went wrong, a line or several; "" when it worked */
    char ended[32];             /* "finished", "asked to stop": its time was over, ... */
    char device[16];
    char verdict[320];
    bool is_synthetic;          /* images and labels were made up */
    uint64_t towers, batch;     /* batch: samples of a step, all towers together */
    uint64_t steps, images;     /* of training */
    uint64_t warmup_steps;      /* of these, that no speed is made of */
    double seconds;             /* of training, evaluation apart */
    double start_seconds;       /* from the process' start to the end of its first step */
    double images_per_second;   /* over wall time after warm-up; NAN where it ended before */
    double mean_images_per_second;
    struct speeds speed;        /* of steps behind warm-up */
    struct step_percentiles step;
    struct fractions fractions;
    struct trial_queue ring, slots;
    double readers_busy, decoders_busy;         /* shares of their time */
    double copy_hidden;         /* share of the time of copies to the device */
    double others, stolen;      /* shares of the cores' time that other programs used, and the machine's host */
    double loss;                /* of the latest epoch of training, as far as it went */
    uint64_t validation_images;
    double validation_accuracy, validation_loss;        /* of the latest evaluation */
    uint64_t planned_bytes, peak_bytes;         /* of the host's memory; peak: resident */
    uint64_t cores, threads_per_tower, read_threads, decode_threads, prefetch_depth, staging_depth;     /* as planned */
    uint64_t ring_bytes, slots_bytes;           /* planned for all batches of them, and for all slots */
    double reading_computed, decoding_computed; /* shares of the readers' and decoders' work; the rest waited */
    uint64_t stored_height, stored_width;       /* pixels of the first image where images are files; else 0 */
    uint64_t taken_height, taken_width;         /* that the network takes of it */
    uint64_t corrupt_records;
};

/* Is the configuration, or another file a run reads at its start, something that every trial finds whole? A pipe is
 * empty after the first one. False also where nothing is there. */
bool trial_can_read_again(const char *path);

/* Is this one of the keys that every trial sets itself ("train.steps"), whatever it is told? */
bool trial_sets(const char *key);

/* Run this program once more as a child (/proc/self/exe) with a run directory of its own, in $TMPDIR or /tmp, which is
 * removed. The run begins anew, saves no state and does not end before its steps or its time: train.epochs,
 * train.steps, train.max_time, train.stop_at, train.patience, run.dir, run.resume, checkpoint.every, .keep_best,
 * .on_stop, report.progress, .trace, .tensorboard, .histograms and .prometheus are the trial's. What the child says is
 * not shown.
 *
 * Waits until the child is gone. SIGINT, SIGTERM, SIGHUP and SIGUSR1, as far as signals_hold holds them, which has to
 * come before any thread, end the trial: the child gets the same one and is killed where it does not end in 2 s, at
 * once at the second. A child does not outlive this process, however that ends.
 *
 * 0; or, with exit_code and problem set and all else 0: -ECANCELED after such a request, -ETIMEDOUT when the child was
 * killed over its limit, -ECHILD when it failed by itself, -ENODATA when it ended before its first step was done, or
 * another negative errno of what could not be made for it. */
int trial_run(const struct trial_spec *spec, struct trial_result *result_out);

/* The same, but only what `pipetrain --check` does; `seconds` and `steps` as they will be. Of the result only exit_code
 * and problem say something. */
int trial_check(const struct trial_spec *spec, struct trial_result *result_out);

/* What a request to end that has come asks to exit with, 0 = none has. Looks for new ones, too. */
int trial_end_code(void);

/* Say as error messages what went wrong, each line behind `name` and a colon; nothing when the trial worked. */
void trial_tell(const char *name, const struct trial_result *result);

#endif
