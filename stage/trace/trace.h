/* The recorder of a trace: the activity of every thread and stream over time, by batch. Each has one track, written by
 * one thread without a lock, in memory that is allocated before the first step. A NULL track records nothing, so
 * callers need not check for it. */
#ifndef PIPETRAIN_TRACE_H
#define PIPETRAIN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/clock.h"

/* The kind of thread or stream of a track. */
enum trace_kind {
    TRACE_MAIN,
    TRACE_READER,
    TRACE_DECODER,
    TRACE_FEEDER,
    TRACE_COPIES,               /* a tower's copy stream */
    TRACE_TOWER,                /* a tower's compute stream */
    TRACE_REDUCTION,            /* a tower's communication stream */
    TRACE_EXCHANGE,             /* the exchanges of a bucket with other processes, in a communication thread */
    TRACE_KIND_COUNT
};

/* The activity or counter of an entry. */
enum trace_name {
    TRACE_WAIT_ROOM,            /* a reader waits for an empty chunk buffer and a place in the ring */
    TRACE_READ,
    TRACE_READ_AHEAD,           /* a reader reads windows for later batches */
    TRACE_WAIT_RECORDS,         /* a decoder waits for records */
    TRACE_DECODE,
    TRACE_WAIT_BATCH,           /* a feeder waits for the loader */
    TRACE_WAIT_SLOT,            /* a feeder waits for the tower */
    TRACE_FEED,                 /* a feeder, from queueing a copy to the end of the copy */
    TRACE_COPY,
    TRACE_STEP,                 /* a tower; the entries from TRACE_INPUT_WAIT to TRACE_OTHER are parts of a step or
                                 * evaluation */
    TRACE_EVALUATION,
    TRACE_INPUT_WAIT,
    TRACE_EXPOSED_COPY,
    TRACE_FORWARD,
    TRACE_BACKWARD,
    TRACE_EXPOSED_REDUCTION,
    TRACE_EXPOSED_EXCHANGE,
    TRACE_UPDATE,
    TRACE_OTHER,
    TRACE_REDUCE,               /* argument: the bucket's number, also of the next two */
    TRACE_REDUCE_SCATTER,       /* the rounds of an exchange; they include waiting for the other processes */
    TRACE_ALL_GATHER,
    TRACE_WAIT_TOWERS,          /* main waits for the towers */
    TRACE_FOLLOW,               /* main adds up and reports the results of a batch */
    TRACE_FULL_BATCHES,         /* counter: full batches in the ring when the feeder requested one */
    TRACE_FILLED_SLOTS,         /* counter: filled slots when the tower requested one */
    TRACE_IMAGES_PER_SECOND,    /* counter */
    TRACE_NAME_COUNT
};

/* A time span, or the value of a counter at begin_ns. */
struct trace_entry {
    uint64_t begin_ns, end_ns;  /* times of clock_now_ns */
    uint64_t batch;             /* number of the batch in the run */
    uint32_t argument;          /* of a span: number of samples, or as described at its name; of a counter: the value */
    uint16_t tower;             /* the run's tower; 0 if the batch belongs to all towers */
    uint16_t name;              /* enum trace_name */
};

struct trace_spec {
    uint32_t tracks;            /* largest number of tracks */
    uint32_t entries;           /* entries per track, >= 1 */
    uint64_t first, end;        /* only batches [first, end) are recorded */
    bool keeps_last;            /* a full track overwrites its oldest entries; otherwise it drops new ones */
};

struct trace;
struct trace_track;

/* Host memory that trace_open allocates. */
size_t trace_bytes(const struct trace_spec *spec);
/* Open a trace and allocate all its memory. 0 or -ENOMEM. */
int trace_open(struct trace **trace_out, const struct trace_spec *spec);
/* Threads have stopped recording. Accepts NULL. */
void trace_close(struct trace *trace);
const struct trace_spec *trace_spec_of(const struct trace *trace);
/* When the trace was opened, by clock_now_ns. */
uint64_t trace_origin_ns(const struct trace *trace);

/* Add the track of the kind's thread or stream number `index`. Only one thread at a time may add tracks. NULL for a
 * NULL trace, and if all tracks are in use. */
struct trace_track *trace_track_add(struct trace *trace, enum trace_kind kind, uint32_t index);
/* Record an entry, if its batch is in [first, end) of the spec. Only one thread per track; never blocks. */
void trace_put(struct trace_track *track, const struct trace_entry *entry);

/* The current time; 0, without reading the clock, if there is no track. */
static inline uint64_t trace_now(const struct trace_track *track)
{
    return track != NULL ? clock_now_ns() : 0;
}

/* A tower's batch in the entries of a trace. */
struct trace_batch { uint64_t number; uint32_t tower; };

/* Record a span from begin_ns until now. */
static inline void trace_span(struct trace_track *track, enum trace_name name, struct trace_batch batch,
                              uint64_t begin_ns, uint32_t argument)
{
    if (track != NULL)
        trace_put(track, &(struct trace_entry){ begin_ns, clock_now_ns(), batch.number, argument,
                                                (uint16_t)batch.tower, (uint16_t)name });
}

static inline void trace_count(struct trace_track *track, enum trace_name name, struct trace_batch batch,
                               uint64_t at_ns, uint32_t value)
{
    if (track != NULL)
        trace_put(track, &(struct trace_entry){ at_ns, at_ns, batch.number, value, (uint16_t)batch.tower,
                                                (uint16_t)name });
}

/* Reading the recorded entries. Any thread; with keeps_last only when no thread is recording. */
struct trace_look {
    enum trace_kind kind;
    uint32_t index;
    uint64_t count;             /* entries that can be read */
    uint64_t lost;              /* entries that were dropped or overwritten */
};

/* Describe track `i`; false: there are no more tracks. */
bool trace_look(const struct trace *trace, uint32_t i, struct trace_look *look_out);
/* Entry `entry` of a track, from the oldest on. */
const struct trace_entry *trace_entry_at(const struct trace *trace, uint32_t track, const struct trace_look *look,
                                         uint64_t entry);

/* Names for display: "decoder", "wait for records". */
const char *trace_kind_words(enum trace_kind kind);
const char *trace_name_words(enum trace_name name);
bool trace_is_counter(enum trace_name name);

#endif
