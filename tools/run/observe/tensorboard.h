/* What TensorBoard shows of a run, as files of events: a folder for the run with its texts and hyperparameters, and in
 * it one for training and one for validation, which have the same tags, so that both are drawn in one chart. An
 * observer: what goes wrong with it is said once, and the run goes on without. Used by main only. NULL, where nothing
 * is written, is accepted everywhere. */
#ifndef PIPETRAIN_TENSORBOARD_H
#define PIPETRAIN_TENSORBOARD_H

#include <stdbool.h>

#include "tools/run/observe/observation.h"

struct tensorboard;

/* All room for it; nothing is written. NULL: none is asked for, or there is no room (which is said). */
struct tensorboard *tensorboard_open(const struct observed_run *run);
/* The first batch of this process is done: make the files. What files of an earlier process say of that batch and of
 * later ones does not count any more. */
void tensorboard_begin(struct tensorboard *board);
void tensorboard_put(struct tensorboard *board, const struct observation *observation);

/* is_over: the run did all that it was to do. */
void tensorboard_close(struct tensorboard *board, bool is_over);

#endif
