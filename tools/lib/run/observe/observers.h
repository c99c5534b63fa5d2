/* The observers of a run: event files for TensorBoard, metrics for Prometheus. They receive the values of each row of
 * metrics.jsonl. An error of an observer is reported, and the run continues. Used by main only. All functions accept
 * NULL, for a run without observers. */
#ifndef PIPETRAIN_OBSERVERS_H
#define PIPETRAIN_OBSERVERS_H

#include <stdbool.h>

#include "sync/trainer.h"
#include "tools/lib/results/checkpoint_writer.h"
#include "tools/lib/run/account.h"
#include "tools/lib/run/cost.h"
#include "tools/lib/run/metrics.h"
#include "tools/lib/run/run_plan.h"

/* All members are borrowed until observers_close. */
struct observed_run {
    const struct settings *settings;
    const struct run_plan *plan;
    const struct net *net;
    const struct dataset *const *datasets;      /* of every phase; NULL for a phase without a data set */
    const char *directory;      /* NULL: nothing is written */
    const struct account *account;
    const struct cost *cost;
    const struct run_progress *progress;        /* with what was spent so far */
    const struct checkpoint_counts *saves;      /* checkpoints saved so far */
};

struct observers;

/* The steps after which towers make snapshots of weights and gradients for observers, and, for the plan, the host
 * memory that this needs. */
struct snapshot_rule observers_rule(const struct settings *settings, const struct run_plan *plan);
size_t observers_bytes(const struct settings *settings, const struct net *net);

/* Allocate the observers that the settings ask for. NULL: there are none, as when the run has no directory. */
struct observers *observers_open(const struct observed_run *run);
/* Called after every batch; the first call creates the files. */
void observers_begin(struct observers *observers);
/* Called with every row of training and of validation. */
void observers_put(struct observers *observers, enum phase phase, const struct metric_values *values);
/* Called with the reports of the towers of this process, where tower 0's has a snapshot for observers (and with model.parts
 * those of all). */
void observers_show(struct observers *observers, struct step_report *const *reports);
/* is_over: the run has done all its steps. */
void observers_close(struct observers *observers, bool is_over);

#endif
