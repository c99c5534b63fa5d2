/* The recorder: what is kept, in which order, and that a thread may look while others record. */
#include <stdbool.h>

#include "stage/thread.h"
#include "stage/trace/trace.h"
#include "tests/helpers/test.h"

#define ENTRIES 8u

static struct trace *trace_make(struct trace_spec spec)
{
    struct trace *trace;
    assert_int_equal(trace_open(&trace, &spec), 0);
    return trace;
}

static void put(struct trace_track *track, uint64_t batch)
{
    const struct trace_entry entry = { batch * 10, batch * 10 + 5, batch, (uint32_t)batch, 1, TRACE_DECODE };
    trace_put(track, &entry);
}

/* The batches that a track holds, from `first` on without a gap. */
static void expect_batches(const struct trace *trace, uint32_t track, uint64_t first, uint64_t count, uint64_t lost)
{
    struct trace_look look;
    assert_true(trace_look(trace, track, &look));
    assert_int_equal(look.count, count);
    assert_int_equal(look.lost, lost);
    for (uint64_t i = 0; i < count; i++) {
        const struct trace_entry *const entry = trace_entry_at(trace, track, &look, i);
        assert_int_equal(entry->batch, first + i);
        assert_int_equal(entry->begin_ns, (first + i) * 10);
        assert_int_equal(entry->end_ns, (first + i) * 10 + 5);
    }
}

TEST(keeps_the_newest_entries_in_their_order)
{
    struct trace *const trace = trace_make((struct trace_spec){ .tracks = 1, .entries = ENTRIES, .end = UINT64_MAX,
                                                                .keeps_last = true });
    struct trace_track *const track = trace_track_add(trace, TRACE_DECODER, 3);
    expect_batches(trace, 0, 0, 0, 0);
    for (uint64_t n = 0; n < 3 * ENTRIES; n++) {
        put(track, n);
        const uint64_t kept = n + 1 < ENTRIES ? n + 1 : ENTRIES;
        expect_batches(trace, 0, n + 1 - kept, kept, n + 1 - kept);
    }
    trace_close(trace);
}

TEST(a_full_window_takes_no_more)
{
    struct trace *const trace = trace_make((struct trace_spec){ .tracks = 1, .entries = ENTRIES, .end = UINT64_MAX });
    struct trace_track *const track = trace_track_add(trace, TRACE_DECODER, 0);
    for (uint64_t n = 0; n < ENTRIES + 5; n++)
        put(track, n);
    expect_batches(trace, 0, 0, ENTRIES, 5);
    trace_close(trace);
}

TEST(records_the_batches_of_the_window_only)
{
    struct trace *const trace = trace_make((struct trace_spec){ .tracks = 1, .entries = ENTRIES, .first = 4,
                                                                .end = 7 });
    struct trace_track *const track = trace_track_add(trace, TRACE_DECODER, 0);
    for (uint64_t n = 0; n < 20; n++)
        put(track, n);
    expect_batches(trace, 0, 4, 3, 0);
    trace_close(trace);
}

TEST(tracks_are_distinguished_and_limited)
{
    struct trace *const trace = trace_make((struct trace_spec){ .tracks = 2, .entries = ENTRIES, .end = UINT64_MAX });
    struct trace_track *const one = trace_track_add(trace, TRACE_READER, 0);
    struct trace_track *const other = trace_track_add(trace, TRACE_TOWER, 5);
    assert_non_null(one);
    assert_non_null(other);
    assert_null(trace_track_add(trace, TRACE_TOWER, 6));
    put(one, 1);
    put(other, 2);
    expect_batches(trace, 0, 1, 1, 0);
    expect_batches(trace, 1, 2, 1, 0);
    struct trace_look look;
    assert_true(trace_look(trace, 1, &look));
    assert_int_equal(look.kind, TRACE_TOWER);
    assert_int_equal(look.index, 5);
    assert_false(trace_look(trace, 2, &look));
    trace_close(trace);
}

TEST(nothing_happens_without_a_trace)
{
    struct trace_track *const track = trace_track_add(NULL, TRACE_READER, 0);
    assert_null(track);
    assert_int_equal(trace_now(track), 0);
    trace_span(track, TRACE_READ, (struct trace_batch){ 1, 0 }, 0, 0);
    trace_count(track, TRACE_FULL_BATCHES, (struct trace_batch){ 1, 0 }, 0, 0);
    trace_close(NULL);
}

TEST(spans_end_now_and_counters_last_no_time)
{
    struct trace *const trace = trace_make((struct trace_spec){ .tracks = 1, .entries = ENTRIES, .end = UINT64_MAX });
    struct trace_track *const track = trace_track_add(trace, TRACE_FEEDER, 0);
    const uint64_t begun_ns = trace_now(track);
    assert_true(begun_ns >= trace_origin_ns(trace));
    trace_span(track, TRACE_FEED, (struct trace_batch){ 7, 2 }, begun_ns, 64);
    trace_count(track, TRACE_FULL_BATCHES, (struct trace_batch){ 7, 2 }, begun_ns, 3);
    struct trace_look look;
    assert_true(trace_look(trace, 0, &look));
    const struct trace_entry *const span = trace_entry_at(trace, 0, &look, 0);
    const struct trace_entry *const counter = trace_entry_at(trace, 0, &look, 1);
    assert_true(span->end_ns >= begun_ns && span->end_ns <= clock_now_ns());
    assert_int_equal(span->batch, 7);
    assert_int_equal(span->tower, 2);
    assert_int_equal(span->argument, 64);
    assert_int_equal(counter->begin_ns, counter->end_ns);
    assert_int_equal(counter->argument, 3);
    trace_close(trace);
}

/* Two threads that record, each on its track, while the test looks. */
#define MANY 100000u

struct writer { struct trace_track *track; struct thread *thread; };

static void write_loop(void *arg)
{
    struct writer *const writer = arg;
    for (uint64_t n = 0; n < MANY; n++)
        put(writer->track, n);
}

TEST(entries_are_whole_while_others_are_recorded)
{
    struct trace *const trace = trace_make((struct trace_spec){ .tracks = 2, .entries = MANY, .end = UINT64_MAX });
    struct writer writers[2];
    struct trace_look look = { .count = 0 };
    for (uint32_t i = 0; i < 2; i++) {
        writers[i].track = trace_track_add(trace, TRACE_READER, i);
        assert_int_equal(thread_start(&writers[i].thread, "writer", write_loop, &writers[i]), 0);
    }
    while (look.count < MANY) {
        assert_true(trace_look(trace, 1, &look));
        if (look.count > 0)
            assert_int_equal(trace_entry_at(trace, 1, &look, look.count - 1)->batch, look.count - 1);
    }
    for (uint32_t i = 0; i < 2; i++)
        thread_join(writers[i].thread);
    for (uint32_t i = 0; i < 2; i++)
        expect_batches(trace, i, 0, MANY, 0);
    trace_close(trace);
}

TEST(everything_has_words)
{
    for (int kind = 0; kind < TRACE_KIND_COUNT; kind++)
        assert_non_null(trace_kind_words((enum trace_kind)kind));
    for (int name = 0; name < TRACE_NAME_COUNT; name++)
        assert_non_null(trace_name_words((enum trace_name)name));
}

TESTS_MAIN(NULL, NULL)
