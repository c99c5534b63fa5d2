/* The trace of a run (report.trace): recorded by the pipeline's threads, written by main when the steps of
 * report.trace_steps are done, or at the end. A failure is reported, and the run continues. Used by main. NULL, where
 * nothing is traced, is accepted everywhere. */
#ifndef PIPETRAIN_RUN_TRACE_H
#define PIPETRAIN_RUN_TRACE_H

#include "stage/trace/trace.h"
#include "sync/trainer.h"
#include "tools/lib/config/settings.h"
#include "tools/lib/run/run_plan.h"

struct run_trace;

/* Host memory that run_trace_open allocates; 0: nothing is to be traced. */
size_t run_trace_bytes(const struct settings *settings, const struct run_plan *plan);
/* Prepare ranges for profilers, in any case, and allocate the trace. NULL: nothing is to be traced, or out of memory,
 * which is reported. That the file cannot be created is reported here, so that --check does it, too. The settings are
 * lent until run_trace_close. */
struct run_trace *run_trace_open(const struct settings *settings, const struct run_plan *plan);
/* For the threads; NULL without a trace. */
struct trace *run_trace_recorder(const struct run_trace *run);
struct trace_track *run_trace_track(const struct run_trace *run, enum trace_kind kind, uint32_t index);
/* All tracks are added: create the file. */
void run_trace_begin(struct run_trace *run);
/* Main has the reports of the next batch, for which it has waited since begun_ns. Writes the trace once the last step
 * to trace is done by all threads. */
void run_trace_follow(struct run_trace *run, struct step_report *const *reports, uint32_t towers, uint64_t begun_ns);
/* All threads are joined: write what is not written yet. */
void run_trace_close(struct run_trace *run);

#endif
