/* What a run leaves beside its reports: the directory and the weights. All that saving needs is taken at
 * the start; what an earlier run left in the directory stays until the first step is done. Used by main
 * only. */
#ifndef PIPETRAIN_RESULTS_H
#define PIPETRAIN_RESULTS_H

#include <stdbool.h>

#include "stage/stop.h"
#include "tools/results/run_directory.h"
#include "tools/results/weights.h"

struct results {
    struct run_directory *directory;    /* NULL: nothing is written */
    struct weights *weights;            /* NULL: none come out of it */
    bool have_begun;                    /* earlier results made room for those of this run */
    struct stop *stop;
};

/* Open the directory, that of `past` where the run goes on (NULL: it is new), and take the room for saving; `saved`
 * says how much, and `state_bytes` are for a saved state besides. Refused
 * where the file system has no space for that. 0, or an exit code after a message. */
int results_open(struct results *results, const struct settings *settings, struct weights_spec saved,
                 const struct run_past *past, uint64_t state_bytes, struct stop *stop);
/* Would results_open do, now? Nothing is made. 0, or an exit code after a message. */
int results_check(const struct settings *settings, struct weights_spec saved, const struct run_past *past,
                  uint64_t state_bytes);
/* A step is done: the first one makes earlier results give way. 0, or a negative errno with the cause in
 * the run's stop. */
int results_begin(struct results *results);
/* Is the directory still there? One that was moved or emptied is told, and the run goes on; one that was removed fails
 * it, as nothing can be saved any more. */
void results_look(struct results *results);
/* Save the weights, when there are any, after `steps` at a learning rate of `learning_rate`. 0, or an exit
 * code after a message: what is not finite, or cannot be read from the device, fails the run. */
int results_save(struct results *results, struct tower *tower, uint64_t steps, double learning_rate);
/* Accepts a struct of zeros. */
void results_close(struct results *results);

#endif
