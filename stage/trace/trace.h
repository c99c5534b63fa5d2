/* The recorder of a trace: what every thread and stream does when, by batch. One track for each, written by
 * one thread without a lock, into room that is taken before the first step. A track that is NULL records nothing, and
 * whoever has one writes the same lines either way. */
#ifndef PIPETRAIN_TRACE_H
#define PIPETRAIN_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stage/clock.h"

/* Whose a track is. */
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

/* What an entry says. */
enum trace_name {
    TRACE_WAIT_ROOM,            /* a reader for an empty piece of work and a place in the ring */
    TRACE_READ,
    TRACE_READ_AHEAD,           /* of windows, for batches to come */
    TRACE_WAIT_RECORDS,         /* a decoder */
    TRACE_DECODE,
    TRACE_WAIT_BATCH,           /* a feeder for the loader */
    TRACE_WAIT_SLOT,            /* a feeder for the tower */
    TRACE_FEED,                 /* a feeder, from the first command of a copy to its end */
    TRACE_COPY,
    TRACE_STEP,                 /* a tower: what follows, up to TRACE_OTHER, lies in one of these two */
    TRACE_EVALUATION,
    TRACE_INPUT_WAIT,
    TRACE_EXPOSED_COPY,
    TRACE_FORWARD,
    TRACE_BACKWARD,
    TRACE_EXPOSED_REDUCTION,
    TRACE_UPDATE,
    TRACE_OTHER,
    TRACE_REDUCE,               /* argument: the bucket */
    TRACE_WAIT_TOWERS,          /* main */
    TRACE_FOLLOW,               /* main: adds up and reports a batch */
    TRACE_FULL_BATCHES,         /* counter: in the ring when the feeder came */
    TRACE_FILLED_SLOTS,         /* counter: when the tower came */
    TRACE_IMAGES_PER_SECOND,    /* counter */
    TRACE_NAME_COUNT
};

/* A span, or the value of a counter at its begin. */
struct trace_entry {
    uint64_t begin_ns, end_ns;  /* clock_now_ns's */
    uint64_t batch;             /* its number in the run */
    uint32_t argument;          /* samples of the span, or as its name says; of a counter its value */
    uint16_t tower;             /* of the run; 0 where the batch is all towers' */
    uint16_t name;              /* enum trace_name */
};

struct trace_spec {
    uint32_t tracks;            /* at most */
    uint32_t entries;           /* of each track, >= 1 */
    uint64_t first, end;        /* recorded is what belongs to batches [first, end) */
    bool keeps_last;            /* a full track forgets its oldest entries; else it takes no more */
};

struct trace;
struct trace_track;

/* Host memory that trace_open takes. */
size_t trace_bytes(const struct trace_spec *spec);
/* All room is taken at once. 0 or -ENOMEM. */
int trace_open(struct trace **trace_out, const struct trace_spec *spec);
/* No thread records any more. Accepts NULL. */
void trace_close(struct trace *trace);
const struct trace_spec *trace_spec_of(const struct trace *trace);
/* When it was opened, on clock_now_ns's clock. */
uint64_t trace_origin_ns(const struct trace *trace);

/* The track of the kind's index-th thread or stream. One thread at a time may add tracks. NULL for a trace that is
 * NULL, and when all tracks are given. */
struct trace_track *trace_track_add(struct trace *trace, enum trace_kind kind, uint32_t index);
/* Keep an entry, when it is of a batch that is recorded. By one thread for each track; never blocks. */
void trace_put(struct trace_track *track, const struct trace_entry *entry);

/* When it is now; 0 without a track, so that nothing asks the clock. */
static inline uint64_t trace_now(const struct trace_track *track)
{
    return track != NULL ? clock_now_ns() : 0;
}

/* A batch of a tower, as entries name it. */
struct trace_batch { uint64_t number; uint32_t tower; };

/* From begin_ns until now. */
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

/* Looking at what is recorded. Any thread, of a trace that keeps the last entries only when nobody records. */
struct trace_look {
    enum trace_kind kind;
    uint32_t index;
    uint64_t count;             /* entries that are kept, the oldest first in trace_entry_at */
    uint64_t lost;              /* entries there was no room for */
};

/* The i-th track; false: there are no more. */
bool trace_look(const struct trace *trace, uint32_t i, struct trace_look *look_out);
/* The entry-th of a track's look. */
const struct trace_entry *trace_entry_at(const struct trace *trace, uint32_t track, const struct trace_look *look,
                                         uint64_t entry);

/* Words for people: "decoder", "wait for records". */
const char *trace_kind_words(enum trace_kind kind);
const char *trace_name_words(enum trace_name name);
bool trace_is_counter(enum trace_name name);

#endif
