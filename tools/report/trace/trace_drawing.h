/* A few steps of a trace as one SVG: a row a track, a bar a slice. */
#ifndef PIPETRAIN_TRACE_DRAWING_H
#define PIPETRAIN_TRACE_DRAWING_H

#include <stdio.h>

#include "tools/report/trace/trace_events.h"

/* What every drawing begins with, and no other file: such a one may be replaced by another. */
#define TRACE_DRAWING_BEGINS "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- steps of a trace, by pipetrain-report"
#define TRACE_DRAWING_STEPS 4u          /* that are drawn, where the trace has more */

/* The part that is drawn, in microseconds. */
struct trace_window { double begin, end; };

/* Steps in the middle of the trace, where all runs in: from the beginning of a forward pass to that of the fourth
 * behind it, on the track that has most of them. A trace without forward passes, or with no more, is drawn whole; it
 * has at least one slice. */
struct trace_window trace_window_find(const struct trace *trace);
/* Draw that part. `name` is the title. */
void trace_draw(FILE *out, const struct trace *trace, const struct trace_window *window, const char *name);

#endif
