/* The results of a run other than its reports: the directory and the weights. All memory is allocated at the start; the
 * results of an earlier run stay until the first step has ended. Used by main only. */
#ifndef PIPETRAIN_RESULTS_H
#define PIPETRAIN_RESULTS_H

#include <stdbool.h>

#include "stage/stop.h"
#include "tools/lib/results/output_locks.h"
#include "tools/lib/results/run_directory.h"
#include "tools/lib/results/weights.h"

struct results {
    struct run_directory *directory;    /* NULL: nothing is written */
    struct weights *weights;            /* NULL: no weights are saved */
    struct output_locks outputs;        /* outputs outside the directory */
    bool have_begun;                    /* the results of an earlier run have been replaced */
    struct stop *stop;
};

/* Open the directory, lock outputs elsewhere, and allocate the memory for saving. Fails if the file system has no space
 * for the weights and for `state_bytes` of checkpoints. `past`: the resumed run, or NULL. 0, or an exit code after a
 * message. */
int results_open(struct results *results, const struct settings *settings, struct weights_spec saved,
                 const struct run_past *past, uint64_t state_bytes, struct stop *stop);
/* Lock the outputs of a run without results. 0, or an exit code after a message. */
int results_lock(struct results *results, const struct settings *settings);
/* Would results_open succeed now? Creates nothing. 0, or an exit code after a message. */
int results_check(const struct settings *settings, struct weights_spec saved, const struct run_past *past,
                  uint64_t state_bytes);
/* Called after each step; the first call replaces the results of an earlier run. 0, or a negative errno with the cause
 * in the run's stop. */
int results_begin(struct results *results);
/* Report if the directory was moved or emptied; the run then continues. If it was removed, the run fails. */
void results_look(struct results *results);
/* Has the run weights to save? */
bool results_can_save(const struct results *results);
/* Save the weights after `steps`, if there are any, from the towers of this process (weights_save); `learning_rate` is for
 * a message. 0, or an exit code after a message. If weights are not finite or cannot be read from the device, the run
 * fails. */
int results_save(struct results *results, struct tower *const *towers, uint64_t steps, double learning_rate);
/* Accepts a struct of zeros. */
void results_close(struct results *results);

#endif
