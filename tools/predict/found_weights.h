/* Finds the weights that a command uses: those that are named, or the best or last ones of a run. Main thread only. */
#ifndef PIPETRAIN_FOUND_WEIGHTS_H
#define PIPETRAIN_FOUND_WEIGHTS_H

#include <limits.h>
#include <stdbool.h>

#include "tools/lib/config/settings.h"

#define FOUND_WHICH_BYTES 192u

struct found_weights {
    char path[PATH_MAX];
    /* Of weights of an evaluation: "epoch 9, the best of 12 by validation accuracy (98.40 %)"; "": of others. */
    char which[FOUND_WHICH_BYTES];
    bool is_best;               /* they were chosen as the best of a run directory */
};

/* Find the weights in a run directory: best.safetensors, the weights of the best evaluation, or else, or if `last`,
 * weights.safetensors, or else the newest valid checkpoint, because the run was killed. `reports`: log why they are not
 * the best or last ones. 0; -ENOENT: there are none; or another negative errno. */
int found_weights_in(const char *folder, bool last, bool reports, struct found_weights *found_out);
/* Find the weights of the run of a configuration: in the run directory of the settings, or in the last of runs/NAME,
 * runs/NAME-2, ... that has any. Runs without results, or with synthetic input or --overfit, are skipped and logged. 0,
 * or an exit code after a message. */
int found_weights_of_run(const struct settings *settings, bool last, struct found_weights *found_out);
/* Describe weights that were named. */
void found_weights_describe(const char *path, struct found_weights *found_out);
/* Log which weights were chosen, if they are the best of a run. */
void found_weights_report(const struct found_weights *found);

#endif
