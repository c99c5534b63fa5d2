/* What TensorBoard shows of a run, as files of events: a folder for the run with its texts and hyperparameters, and in
 * it one for training and one for validation, which have the same tags, so that both are drawn in one chart. An
 * observer: what goes wrong with it is said once, and the run goes on without. Used by main only. NULL, where nothing
 * is written, is accepted everywhere. */
#ifndef PIPETRAIN_TENSORBOARD_H
#define PIPETRAIN_TENSORBOARD_H

#include <stdbool.h>

#include "sync/trainer.h"
#include "tools/run/observe/observation.h"

struct tensorboard;

/* Behind which batches the tower shows its weights and gradients: none, or as report.histograms says where there are
 * events. */
struct snapshot_rule tensorboard_rule(const struct settings *settings);
/* Host memory that tensorboard_open takes for them. */
size_t tensorboard_bytes(const struct settings *settings, const struct net *net);

/* All room for it; nothing is written. NULL: none is asked for, or there is no room (which is said). */
struct tensorboard *tensorboard_open(const struct observed_run *run);
/* The first batch of this process is done: make the files. What files of an earlier process say of that batch and of
 * later ones does not count any more. */
void tensorboard_begin(struct tensorboard *board);
void tensorboard_put(struct tensorboard *board, const struct observation *observation);
/* Histograms of what a report shows. */
void tensorboard_show(struct tensorboard *board, const struct step_report *report);

/* is_over: the run did all that it was to do. */
void tensorboard_close(struct tensorboard *board, bool is_over);

#endif
