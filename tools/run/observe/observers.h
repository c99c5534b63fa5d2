/* All that looks at a run besides its own reports: files for TensorBoard, metrics for Prometheus. What goes wrong with
 * one of them is said, and the run goes on. Used by main only. NULL, where nothing observes, is accepted everywhere. */
#ifndef PIPETRAIN_OBSERVERS_H
#define PIPETRAIN_OBSERVERS_H

#include <stdbool.h>

#include "sync/trainer.h"
#include "tools/run/observe/observation.h"

struct observers;

/* What is to be shown of weights and gradients, and the host's memory that looking at it takes, for the plan. */
struct snapshot_rule observers_rule(const struct settings *settings, const struct run_plan *plan);
size_t observers_bytes(const struct settings *settings, const struct net *net);

/* Take the room for what the settings ask for. What `run` names is lent until observers_close. NULL: nothing
 * observes, as where the run has no directory. */
struct observers *observers_open(const struct observed_run *run);
/* After every batch; the first call begins what is written. */
void observers_begin(struct observers *observers);
/* With every row of training and of validation. */
void observers_put(struct observers *observers, const struct observation *observation);
/* With a report of tower 0 that shows what it is asked to. */
void observers_show(struct observers *observers, const struct step_report *report);
/* is_over: the run did all that it was to do. */
void observers_close(struct observers *observers, bool is_over);

#endif
