/* The observers of a run: event files for TensorBoard, metrics for Prometheus. They receive what a row of metrics.jsonl
 * is made of. An error of an observer is reported, and the run continues. Used by main only. NULL, where nothing
 * observes, is accepted everywhere. */
#ifndef PIPETRAIN_OBSERVERS_H
#define PIPETRAIN_OBSERVERS_H

#include <stdbool.h>

#include "sync/trainer.h"
#include "tools/lib/results/checkpoint_writer.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/metrics.h"
#include "tools/lib/run/run_plan.h"

/* All borrowed until observers_close. */
struct observed_run {
    const struct settings *settings;
    const struct run_plan *plan;
    const struct net *net;
    const struct dataset *const *datasets;      /* of every phase; NULLs where there are none */
    const char *directory;      /* NULL: nothing is written */
    const struct account *account;
    const struct checkpoint_counts *saves;      /* checkpoints saved so far */
};

struct observers;

/* After which steps the towers snapshot weights and gradients for the observers, and the host memory that this needs,
 * for the plan. */
struct snapshot_rule observers_rule(const struct settings *settings, const struct run_plan *plan);
size_t observers_bytes(const struct settings *settings, const struct net *net);

/* Allocate what the observers of the settings need. NULL: there are none, as where the run has no directory. */
struct observers *observers_open(const struct observed_run *run);
/* After every batch; the first call creates the files. */
void observers_begin(struct observers *observers);
/* With every row of training and of validation. */
void observers_put(struct observers *observers, enum phase phase, const struct metric_values *values);
/* With a report of tower 0 that has such a snapshot. */
void observers_show(struct observers *observers, const struct step_report *report);
/* is_over: the run has done all its steps. */
void observers_close(struct observers *observers, bool is_over);

#endif
