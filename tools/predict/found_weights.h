/* The weights of the run that a configuration names. Used by main only. */
#ifndef PIPETRAIN_FOUND_WEIGHTS_H
#define PIPETRAIN_FOUND_WEIGHTS_H

#include <limits.h>

#include "tools/config/settings.h"

/* The file of weights in the directory that was named, or in the last of runs/NAME, runs/NAME-2, ... that has some:
 * weights.safetensors, or where a run left none because it was killed, its newest saved state that is whole, which is
 * told. Runs that computed nothing, or did not learn the data (synthetic input, --overfit), are skipped, which is told,
 * too. 0, or an exit code after a message. */
int found_weights(const struct settings *settings, char path_out[PATH_MAX]);

#endif
