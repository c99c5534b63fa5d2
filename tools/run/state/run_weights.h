/* The weights that a new run begins with (model.weights, model.skip). Used by main only. */
#ifndef PIPETRAIN_RUN_WEIGHTS_H
#define PIPETRAIN_RUN_WEIGHTS_H

#include "tools/results/initial_weights.h"
#include "tools/run/pipeline.h"
#include "tools/run/run_plan.h"

/* Open the file that the settings name, and see that it fits the network; both are lent. *weights_out stays as it
 * is where they name none. 0, or an exit code after all messages. */
int run_weights_open(struct initial_weights **weights_out, const struct settings *settings, const struct net *net);
/* Read all of them, as run_weights_write would. 0, or an exit code after a message. */
int run_weights_check(const struct initial_weights *weights);
/* All towers begin with them. 0, or an exit code after a message. */
int run_weights_write(const struct initial_weights *weights, struct pipeline *pipeline, const struct run_plan *plan);

#endif
