/* The trace of a run (report.trace): recorded by the pipeline's threads, written by main when the steps of
 * report.trace_steps are done, or at the end. An error is reported, and the run continues. Used by main. All functions
 * accept NULL, if nothing is traced. */
#ifndef PIPETRAIN_RUN_TRACE_H
#define PIPETRAIN_RUN_TRACE_H

#include "stage/trace/trace.h"
#include "sync/trainer.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"

struct run_trace;

/* Host memory that run_trace_open allocates; 0: nothing is traced. */
size_t run_trace_bytes(const struct settings *settings, const struct run_plan *plan);
/* Prepare ranges for profilers, even if nothing is traced, and allocate the trace. A file that cannot be created is
 * reported here already, so that --check reports it, too. NULL: nothing is traced, or out of memory, which is reported.
 * The settings are lent until run_trace_close. */
struct run_trace *run_trace_open(const struct settings *settings, const struct run_plan *plan);
/* The trace in which threads record; NULL without one. */
struct trace *run_trace_recorder(const struct run_trace *run);
struct trace_track *run_trace_track(const struct run_trace *run, enum trace_kind kind, uint32_t index);
/* Create the file, after all tracks were added. */
void run_trace_begin(struct run_trace *run);
/* Called when main has received the reports of a batch, for which it has waited since begun_ns. Writes the trace when
 * all threads have completed the last step to trace. */
void run_trace_follow(struct run_trace *run, struct step_report *const *reports, uint32_t towers, uint64_t begun_ns);
/* Called when all threads are joined: writes the rest. */
void run_trace_close(struct run_trace *run);

#endif
