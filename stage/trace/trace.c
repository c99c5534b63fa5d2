/* Tracks of a trace: each is an array that one thread writes. */
#include "stage/trace/trace.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define CACHE_LINE_BYTES 64

/* Entry n is entries[n % spec.entries]; it is complete once count is above n. */
struct trace_track {
    _Alignas(CACHE_LINE_BYTES) const struct trace_spec *spec;
    struct trace_entry *entries;
    enum trace_kind kind;
    uint32_t index;
    atomic_uint_fast64_t count; /* entries written, including overwritten ones */
    atomic_uint_fast64_t refused;       /* entries dropped because the track was full */
};

struct trace {
    struct trace_spec spec;
    uint64_t origin_ns;
    struct trace_entry *entries;        /* the entries of all tracks */
    struct trace_track *tracks;
    atomic_uint added;
};

static size_t entries_bytes(const struct trace_spec *spec)
{
    return (size_t)spec->tracks * spec->entries * sizeof(struct trace_entry);
}

size_t trace_bytes(const struct trace_spec *spec)
{
    return entries_bytes(spec) + spec->tracks * sizeof(struct trace_track) + sizeof(struct trace);
}

int trace_open(struct trace **trace_out, const struct trace_spec *spec)
{
    struct trace *const trace = calloc(1, sizeof(*trace));
    if (trace == NULL)
        return -ENOMEM;
    trace->spec = *spec;
    trace->origin_ns = clock_now_ns();
    trace->entries = calloc(1, entries_bytes(spec));
    trace->tracks = aligned_alloc(_Alignof(struct trace_track), spec->tracks * sizeof(*trace->tracks));
    if (trace->entries == NULL || trace->tracks == NULL) {
        trace_close(trace);
        return -ENOMEM;
    }
    *trace_out = trace;
    return 0;
}

void trace_close(struct trace *trace)
{
    if (trace == NULL)
        return;
    free(trace->entries);
    free(trace->tracks);
    free(trace);
}

const struct trace_spec *trace_spec_of(const struct trace *trace)
{
    return &trace->spec;
}

uint64_t trace_origin_ns(const struct trace *trace)
{
    return trace->origin_ns;
}

struct trace_track *trace_track_add(struct trace *trace, enum trace_kind kind, uint32_t index)
{
    const uint32_t added = trace != NULL ? atomic_load(&trace->added) : 0;
    if (trace == NULL || added == trace->spec.tracks)
        return NULL;
    struct trace_track *const track = &trace->tracks[added];
    *track = (struct trace_track){ .spec = &trace->spec, .kind = kind, .index = index,
                                   .entries = trace->entries + (size_t)added * trace->spec.entries };
    /* Release: a reader that reads the new number of tracks finds this track complete. */
    atomic_store_explicit(&trace->added, added + 1, memory_order_release);
    return track;
}

void trace_put(struct trace_track *track, const struct trace_entry *entry)
{
    const struct trace_spec *const spec = track->spec;
    if (entry->batch < spec->first || entry->batch >= spec->end)
        return;
    const uint64_t count = atomic_load_explicit(&track->count, memory_order_relaxed);
    if (count >= spec->entries && !spec->keeps_last) {
        atomic_fetch_add_explicit(&track->refused, 1, memory_order_relaxed);
        return;
    }
    track->entries[count % spec->entries] = *entry;
    /* Release: a reader that reads the new count finds the entry complete. */
    atomic_store_explicit(&track->count, count + 1, memory_order_release);
}

bool trace_look(const struct trace *trace, uint32_t i, struct trace_look *look_out)
{
    if (i >= atomic_load_explicit(&trace->added, memory_order_acquire))
        return false;
    const struct trace_track *const track = &trace->tracks[i];
    const uint64_t count = atomic_load_explicit(&track->count, memory_order_acquire);
    const uint64_t kept = count < trace->spec.entries ? count : trace->spec.entries;
    *look_out = (struct trace_look){
        .kind = track->kind,
        .index = track->index,
        .count = kept,
        .lost = count - kept + atomic_load_explicit(&track->refused, memory_order_relaxed),
    };
    return true;
}

const struct trace_entry *trace_entry_at(const struct trace *trace, uint32_t track, const struct trace_look *look,
                                         uint64_t entry)
{
    const uint64_t oldest = trace->spec.keeps_last ? look->lost : 0;
    return &trace->tracks[track].entries[(oldest + entry) % trace->spec.entries];
}

const char *trace_kind_words(enum trace_kind kind)
{
    static const char *const words[TRACE_KIND_COUNT] = {
        [TRACE_MAIN] = "main",
        [TRACE_READER] = "reader",
        [TRACE_DECODER] = "decoder",
        [TRACE_FEEDER] = "feeder",
        [TRACE_COPIES] = "copies",
        [TRACE_TOWER] = "tower",
        [TRACE_REDUCTION] = "reduction",
        [TRACE_EXCHANGE] = "exchange",
    };
    return words[kind];
}

const char *trace_name_words(enum trace_name name)
{
    static const char *const words[TRACE_NAME_COUNT] = {
        [TRACE_WAIT_ROOM] = "wait for room",
        [TRACE_READ] = "read",
        [TRACE_READ_AHEAD] = "read ahead",
        [TRACE_WAIT_RECORDS] = "wait for records",
        [TRACE_DECODE] = "decode",
        [TRACE_WAIT_BATCH] = "wait for batch",
        [TRACE_WAIT_SLOT] = "wait for slot",
        [TRACE_FEED] = "feed",
        [TRACE_COPY] = "copy",
        [TRACE_STEP] = "step",
        [TRACE_EVALUATION] = "evaluation",
        [TRACE_INPUT_WAIT] = "input wait",
        [TRACE_EXPOSED_COPY] = "exposed copy",
        [TRACE_FORWARD] = "forward",
        [TRACE_BACKWARD] = "backward",
        [TRACE_EXPOSED_REDUCTION] = "exposed reduction",
        [TRACE_EXPOSED_EXCHANGE] = "exposed exchange",
        [TRACE_UPDATE] = "update",
        [TRACE_OTHER] = "other",
        [TRACE_REDUCE] = "reduce",
        [TRACE_REDUCE_SCATTER] = "reduce-scatter",
        [TRACE_ALL_GATHER] = "all-gather",
        [TRACE_WAIT_TOWERS] = "wait for towers",
        [TRACE_FOLLOW] = "follow",
        [TRACE_FULL_BATCHES] = "full batches",
        [TRACE_FILLED_SLOTS] = "filled slots",
        [TRACE_IMAGES_PER_SECOND] = "images/s",
    };
    return words[name];
}

bool trace_is_counter(enum trace_name name)
{
    return name == TRACE_FULL_BATCHES || name == TRACE_FILLED_SLOTS || name == TRACE_IMAGES_PER_SECOND;
}
