/* The trace of a run: what the settings ask for, recorded by the pipeline's threads and written by main, when the steps
 * that were asked for are done, or at the end. An observer: what goes wrong with it is said, and the run goes on. Used
 * by main. NULL, where nothing is traced, is accepted everywhere. */
#ifndef PIPETRAIN_RUN_TRACE_H
#define PIPETRAIN_RUN_TRACE_H

#include "stage/trace/trace.h"
#include "sync/trainer.h"
#include "tools/config/settings.h"
#include "tools/run/run_plan.h"

struct run_trace;

/* Host memory that run_trace_open takes; 0: nothing is to be traced. */
size_t run_trace_bytes(const struct settings *settings, const struct run_plan *plan);
/* A profiler's ranges are prepared, whatever is to be traced. All room for it; NULL: nothing is to be traced, or there
 * is no room (which is said). That the file cannot be made is said here, too, and so by a run that is only checked. The
 * settings are lent until run_trace_close. */
struct run_trace *run_trace_open(const struct settings *settings, const struct run_plan *plan);
/* For the threads; NULL without a trace. */
struct trace *run_trace_recorder(const struct run_trace *run);
struct trace_track *run_trace_track(const struct run_trace *run, enum trace_kind kind, uint32_t index);
/* All tracks are added: make the file. */
void run_trace_begin(struct run_trace *run);
/* Main comes back for the next batch, and has got the reports of `towers` of them now, waiting from begun_ns on. Once
 * the last step that was asked for is done everywhere the trace is written: here. */
void run_trace_follow(struct run_trace *run, struct step_report *const *reports, uint32_t towers, uint64_t begun_ns);
/* All threads are joined: write what is not yet written. */
void run_trace_close(struct run_trace *run);

#endif
