/* Event files for TensorBoard: a folder for the run, with its texts and hyperparameters, which contains a folder for
 * training and one for validation. These two use the same tags, so that TensorBoard draws both in one chart. An error
 * is reported once, and the run continues without event files. Used by main only. All functions accept NULL, if nothing
 * is to be written. */
#ifndef PIPETRAIN_TENSORBOARD_H
#define PIPETRAIN_TENSORBOARD_H

#include <stdbool.h>

#include "tools/lib/run/observe/observers.h"

struct tensorboard;

/* The steps after which the tower makes snapshots of weights and gradients for histograms, by report.histograms; or
 * never. */
struct snapshot_rule tensorboard_rule(const struct settings *settings);
/* Host memory that tensorboard_open allocates for histograms. */
size_t tensorboard_bytes(const struct settings *settings, const struct net *net);

/* Allocate the memory; nothing is written yet. NULL: report.tensorboard is not set, or memory is missing, which is
 * reported. */
struct tensorboard *tensorboard_open(const struct observed_run *run);
/* Create the files, after the first batch of this process. They override data of an earlier process for that batch and
 * later ones. */
void tensorboard_begin(struct tensorboard *board);
void tensorboard_put(struct tensorboard *board, enum phase phase, const struct metric_values *values);
/* Write histograms of the snapshots in the reports of the towers of this process (observers_show). */
void tensorboard_show(struct tensorboard *board, struct step_report *const *reports);
/* is_over: the run has done all its steps. */
void tensorboard_close(struct tensorboard *board, bool is_over);

#endif
