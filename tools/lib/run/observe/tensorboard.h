/* Event files for TensorBoard: one folder for the run, with its texts and hyperparameters, and in it one for training
 * and one for validation. These have the same tags, so that TensorBoard draws both in one chart. An error is reported
 * once, and the run continues without. Used by main only. NULL, where nothing is written, is accepted everywhere. */
#ifndef PIPETRAIN_TENSORBOARD_H
#define PIPETRAIN_TENSORBOARD_H

#include <stdbool.h>

#include "tools/lib/run/observe/observers.h"

struct tensorboard;

/* After which steps the tower snapshots weights and gradients for histograms: as report.histograms says, or never. */
struct snapshot_rule tensorboard_rule(const struct settings *settings);
/* Host memory that tensorboard_open allocates for histograms. */
size_t tensorboard_bytes(const struct settings *settings, const struct net *net);

/* Allocates; nothing is written yet. NULL: report.tensorboard is not set, or memory is missing, which is reported. */
struct tensorboard *tensorboard_open(const struct observed_run *run);
/* Create the files, after the first batch of this process. They replace what files of an earlier process have for that
 * batch and later ones. */
void tensorboard_begin(struct tensorboard *board);
void tensorboard_put(struct tensorboard *board, enum phase phase, const struct metric_values *values);
/* Write histograms of a report's snapshot. */
void tensorboard_show(struct tensorboard *board, const struct step_report *report);
/* is_over: the run has done all its steps. */
void tensorboard_close(struct tensorboard *board, bool is_over);

#endif
