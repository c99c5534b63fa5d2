/* A run from settings to results: data, plan, pipeline, steps, reports. Used by main. */
#ifndef PIPETRAIN_RUN_H
#define PIPETRAIN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/lib/config/settings.h"

enum run_kind {
    RUN_CHECK,      /* check settings, data and plan; no step, no device but the host */
    RUN_DRY,        /* build everything, print the plan, run one step */
    RUN_TRAIN
};

struct ranks;

/* Returns the program's exit code. Prints messages on stderr, results on stdout. `ranks` is lent; NULL: there is no
 * other process. */
int run_execute(struct settings *settings, enum run_kind kind, uint64_t process_start_ns, struct ranks *ranks);

#endif
