/* The events of a trace in Chrome's JSON, as tracks of slices and the flows between them. */
#ifndef PIPETRAIN_TRACE_EVENTS_H
#define PIPETRAIN_TRACE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

/* A trace of more threads is read up to the first event of one more. */
#define TRACE_TRACKS_MAX 1024u

/* A thread or stream of a process. */
struct trace_track {
    int64_t pid, tid, order;    /* order: its sort index, else 0 */
    char *name;                 /* owned; NULL: it has none */
};

/* Times are microseconds on the trace's clock. */
struct trace_slice {
    size_t track;
    double start, duration;
    uint32_t depth;             /* slices of the same track that it lies in */
    size_t around;              /* the innermost of these, by its number; its own: none */
    char *name, *category;      /* owned; never NULL */
};

/* Where a flow passes. */
struct trace_step { size_t track; double time; char *flow; };   /* flow: its category and id; owned */

struct trace {
    struct trace_track *tracks;         /* in the order to be shown in */
    struct trace_slice *slices;         /* by track, then time */
    struct trace_step *steps;           /* by flow, then time */
    size_t track_count, track_room, slice_count, slice_room, step_count, step_room;
};

/* Read a text, behind whose last byte a 0 stands: an array of events, whose end may be missing, or an object that has
 * one as traceEvents. Events of other kinds are passed over. 0; -EBADMSG with a message in problem_out where something
 * is no event: what stands before it is read; -ENOMEM. trace_release after any. */
int trace_read(struct trace *trace_out, const char *text, size_t bytes, char *problem_out, size_t problem_size);
void trace_release(struct trace *trace);

#endif
