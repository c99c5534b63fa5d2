/* The recorder of a trace: what every thread and stream does at which time, by batch. Each has one track, which one
 * thread writes without a lock, into memory that is allocated before the first step. A NULL track records nothing,
 * so callers need not check. */
#ifndef PIPETRAIN_TRACE_H
#define PIPETRAIN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/clock.h"

/* What a track belongs to. */
enum trace_kind {
    TRACE_MAIN,
    TRACE_READER,
    TRACE_DECODER,
    TRACE_FEEDER,
    TRACE_COPIES,               /* of a tower's copy stream */
    TRACE_TOWER,                /* of a tower's compute stream */
    TRACE_REDUCTION,            /* of a tower's communication stream */
    TRACE_KIND_COUNT
};

/* What an entry records. */
enum trace_name {
    TRACE_WAIT_ROOM,            /* a reader waits for an empty chunk buffer and a place in the ring */
    TRACE_READ,
    TRACE_READ_AHEAD,           /* of windows, for later batches */
    TRACE_WAIT_RECORDS,         /* a decoder waits */
    TRACE_DECODE,
    TRACE_WAIT_BATCH,           /* a feeder waits for the loader */
    TRACE_WAIT_SLOT,            /* a feeder waits for the tower */
    TRACE_FEED,                 /* a feeder, from queueing a copy to its end */
    TRACE_COPY,
    TRACE_STEP,                 /* a tower: the following, up to TRACE_OTHER, are parts of one of these two */
    TRACE_EVALUATION,
    TRACE_INPUT_WAIT,
    TRACE_EXPOSED_COPY,
    TRACE_FORWARD,
    TRACE_BACKWARD,
    TRACE_EXPOSED_REDUCTION,
    TRACE_UPDATE,
    TRACE_OTHER,
    TRACE_REDUCE,               /* argument: the bucket */
    TRACE_WAIT_TOWERS,          /* main waits */
    TRACE_FOLLOW,               /* main adds up and reports a batch */
    TRACE_FULL_BATCHES,         /* counter: in the ring when the feeder asked for a batch */
    TRACE_FILLED_SLOTS,         /* counter: when the tower asked for a slot */
    TRACE_IMAGES_PER_SECOND,    /* counter */
    TRACE_NAME_COUNT
};

/* A span of time, or the value of a counter at begin_ns. */
struct trace_entry {
    uint64_t begin_ns, end_ns;  /* of clock_now_ns */
    uint64_t batch;             /* its number in the run */
    uint32_t argument;          /* of a span its samples, or as its name says; of a counter its value */
    uint16_t tower;             /* of the run; 0 where the batch belongs to all towers */
    uint16_t name;              /* enum trace_name */
};

struct trace_spec {
    uint32_t tracks;            /* at most */
    uint32_t entries;           /* of each track, >= 1 */
    uint64_t first, end;        /* only batches [first, end) are recorded */
    bool keeps_last;            /* a full track overwrites its oldest entries; else it drops new ones */
};

struct trace;
struct trace_track;

/* Host memory that trace_open allocates. */
size_t trace_bytes(const struct trace_spec *spec);
/* Allocates all memory at once. 0 or -ENOMEM. */
int trace_open(struct trace **trace_out, const struct trace_spec *spec);
/* No thread records any more. Accepts NULL. */
void trace_close(struct trace *trace);
const struct trace_spec *trace_spec_of(const struct trace *trace);
/* When it was opened, by clock_now_ns. */
uint64_t trace_origin_ns(const struct trace *trace);

/* Add the track of the kind's index-th thread or stream. One thread at a time may add tracks. NULL for a NULL trace,
 * and when all tracks are used. */
struct trace_track *trace_track_add(struct trace *trace, enum trace_kind kind, uint32_t index);
/* Record an entry, if its batch is recorded. One thread for each track; never blocks. */
void trace_put(struct trace_track *track, const struct trace_entry *entry);

/* The time now; 0 without a track, without reading the clock. */
static inline uint64_t trace_now(const struct trace_track *track)
{
    return track != NULL ? clock_now_ns() : 0;
}

/* A batch of a tower, as entries name it. */
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

/* Reading the recorded entries. Any thread; with keeps_last only when nobody records. */
struct trace_look {
    enum trace_kind kind;
    uint32_t index;
    uint64_t count;             /* entries that are kept */
    uint64_t lost;              /* entries that were dropped or overwritten */
};

/* Look at the i-th track; false: there are no more. */
bool trace_look(const struct trace *trace, uint32_t i, struct trace_look *look_out);
/* The entry-th entry of a track, the oldest first. */
const struct trace_entry *trace_entry_at(const struct trace *trace, uint32_t track, const struct trace_look *look,
                                         uint64_t entry);

/* Words for people: "decoder", "wait for records". */
const char *trace_kind_words(enum trace_kind kind);
const char *trace_name_words(enum trace_name name);
bool trace_is_counter(enum trace_name name);

#endif
