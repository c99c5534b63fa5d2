/* The timed events of the steps in flight. */
#include "sync/step_clock.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "stage/clock.h"

#define OTHER_LEAST_NS 1000u    /* intervals of other time that are shorter are left out of a trace */
/* Two consecutive events are 1.3 us apart on an H200 if there was no wait between them. */
#define WAIT_LEAST_NS 2000u

struct mark { struct event *event; enum spent spent; };

/* The marks of one step; reset by the first mark of the next step that uses them. */
struct dial { struct mark *marks; uint32_t count; uint64_t step; };

struct step_clock {
    struct stream *compute;
    uint32_t mark_max;
    uint32_t dial_count;        /* steps in flight, and one more: a step is measured from the end of the previous one */
    struct dial *dials;         /* step n has dials[n % dial_count] */
    uint64_t queued, read;      /* numbers of steps */
    struct event *origin;       /* the begin of the first step */
    uint64_t begun_ns, now_ns;  /* begin and end of the step that was read last */
};

static struct dial *dial_of(const struct step_clock *clock, uint64_t number)
{
    return &clock->dials[number % clock->dial_count];
}

static int open_event(const struct step_clock *clock, struct event **event_out)
{
    struct device *const device = clock->compute->device;
    return device->ops->event_open(device, EVENT_TIMED, event_out);
}

static int open_dial(const struct step_clock *clock, struct dial *dial)
{
    dial->marks = calloc(clock->mark_max, sizeof(*dial->marks));
    int rc = dial->marks != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < clock->mark_max && rc == 0; i++)
        rc = open_event(clock, &dial->marks[i].event);
    return rc;
}

static void close_dial(const struct step_clock *clock, const struct dial *dial)
{
    for (uint32_t i = 0; dial->marks != NULL && i < clock->mark_max; i++)
        event_close(dial->marks[i].event);
    free(dial->marks);
}

int step_clock_open(struct step_clock **clock_out, struct stream *compute, uint32_t marks, uint32_t depth)
{
    struct step_clock *const clock = calloc(1, sizeof(*clock));
    struct dial *const dials = calloc(depth + 1, sizeof(*dials));
    if (clock == NULL || dials == NULL) {
        free(clock);
        free(dials);
        return -ENOMEM;
    }
    *clock = (struct step_clock){ .compute = compute, .mark_max = marks, .dial_count = depth + 1, .dials = dials };
    int rc = open_event(clock, &clock->origin);
    for (uint32_t i = 0; i < clock->dial_count && rc == 0; i++)
        rc = open_dial(clock, &clock->dials[i]);
    if (rc != 0) {
        step_clock_close(clock);
        return rc;
    }
    *clock_out = clock;
    return 0;
}

void step_clock_close(struct step_clock *clock)
{
    if (clock == NULL)
        return;
    for (uint32_t i = 0; i < clock->dial_count; i++)
        close_dial(clock, &clock->dials[i]);
    event_close(clock->origin);
    free(clock->dials);
    free(clock);
}

int step_clock_start(struct step_clock *clock)
{
    int rc = stream_record(clock->compute, clock->origin);
    if (rc == 0)
        rc = clock->compute->device->ops->event_wait(clock->origin);
    clock->now_ns = clock_now_ns();
    return rc;
}

int step_clock_mark(struct step_clock *clock, enum spent spent)
{
    struct dial *const dial = dial_of(clock, clock->queued);
    if (dial->step != clock->queued)
        *dial = (struct dial){ .marks = dial->marks, .step = clock->queued };
    assert(dial->count < clock->mark_max);
    struct mark *const mark = &dial->marks[dial->count];
    mark->spent = spent;
    const int rc = stream_record(clock->compute, mark->event);
    dial->count += rc == 0;
    return rc;
}

int step_clock_end(struct step_clock *clock, enum spent spent)
{
    const int rc = step_clock_mark(clock, spent);
    clock->queued += rc == 0;
    assert(clock->queued - clock->read < clock->dial_count);
    return rc;
}

static struct event *end_of(const struct step_clock *clock, uint64_t number)
{
    const struct dial *const dial = dial_of(clock, number);
    return dial->marks[dial->count - 1].event;
}

struct event *step_clock_oldest(const struct step_clock *clock)
{
    assert(clock->read < clock->queued);
    return end_of(clock, clock->read);
}

static uint64_t *time_of(struct step_times *times, enum spent spent)
{
    static const size_t offsets[SPENT_COUNT] = {
        [SPENT_OTHER] = offsetof(struct step_times, other),
        [SPENT_INPUT_WAIT] = offsetof(struct step_times, input_wait),
        [SPENT_EXPOSED_COPY] = offsetof(struct step_times, exposed_copy),
        [SPENT_FORWARD] = offsetof(struct step_times, forward),
        [SPENT_BACKWARD] = offsetof(struct step_times, backward),
        [SPENT_EXPOSED_REDUCTION] = offsetof(struct step_times, exposed_reduction),
        [SPENT_EXPOSED_EXCHANGE] = offsetof(struct step_times, exposed_exchange),
        [SPENT_UPDATE] = offsetof(struct step_times, update),
    };
    return (uint64_t *)(void *)((char *)times + offsets[spent]);
}

/* The kind of an interval; a wait shorter than WAIT_LEAST_NS counts as other time. */
static enum spent spent_on(const struct mark *mark, uint64_t elapsed_ns)
{
    const bool is_wait = mark->spent == SPENT_EXPOSED_COPY || mark->spent == SPENT_EXPOSED_REDUCTION ||
                         mark->spent == SPENT_EXPOSED_EXCHANGE;
    return is_wait && elapsed_ns < WAIT_LEAST_NS ? SPENT_OTHER : mark->spent;
}

/* Add up the times between the marks of the oldest step, from the end of the previous step. */
static int add_marks(const struct step_clock *clock, struct step_times *times)
{
    const struct dial *const dial = dial_of(clock, clock->read);
    struct event *at = clock->read > 0 ? end_of(clock, clock->read - 1) : clock->origin;
    int rc = 0;
    for (uint32_t i = 0; i < dial->count && rc == 0; i++) {
        const struct mark *const mark = &dial->marks[i];
        uint64_t elapsed_ns = 0;
        rc = at->device->ops->event_elapsed(at, mark->event, &elapsed_ns);
        *time_of(times, spent_on(mark, elapsed_ns)) += elapsed_ns;
        times->total += elapsed_ns;
        at = mark->event;
    }
    return rc;
}

int step_clock_read(struct step_clock *clock, struct step_times *times_out, uint64_t *ended_ns_out)
{
    struct step_times times = { 0 };
    const int rc = add_marks(clock, &times);
    if (rc != 0)
        return rc;
    clock->read++;
    clock->begun_ns = clock->now_ns;
    clock->now_ns += times.total;
    *times_out = times;
    *ended_ns_out = clock->now_ns;
    return 0;
}

/* Writes a trace entry for each interval between marks, and one for the whole step. */
void step_clock_record(const struct step_clock *clock, struct trace_track *track, const struct local_batch *local,
                       uint32_t tower)
{
    static const enum trace_name names[SPENT_COUNT] = {
        [SPENT_OTHER] = TRACE_OTHER,
        [SPENT_INPUT_WAIT] = TRACE_INPUT_WAIT,
        [SPENT_EXPOSED_COPY] = TRACE_EXPOSED_COPY,
        [SPENT_FORWARD] = TRACE_FORWARD,
        [SPENT_BACKWARD] = TRACE_BACKWARD,
        [SPENT_EXPOSED_REDUCTION] = TRACE_EXPOSED_REDUCTION,
        [SPENT_EXPOSED_EXCHANGE] = TRACE_EXPOSED_EXCHANGE,
        [SPENT_UPDATE] = TRACE_UPDATE,
    };
    if (track == NULL)
        return;
    const uint64_t number = clock->read - 1;
    const struct dial *const dial = dial_of(clock, number);
    struct event *at = number > 0 ? end_of(clock, number - 1) : clock->origin;
    struct trace_entry entry = { .end_ns = clock->begun_ns, .batch = local->number, .tower = (uint16_t)tower,
                                 .argument = local->count };
    for (uint32_t i = 0; i < dial->count; i++) {
        const struct mark *const mark = &dial->marks[i];
        uint64_t elapsed_ns = 0;
        /* Cannot fail, because it was read before. */
        (void)at->device->ops->event_elapsed(at, mark->event, &elapsed_ns);
        entry.begin_ns = entry.end_ns;
        entry.end_ns += elapsed_ns;
        const enum spent spent = spent_on(mark, elapsed_ns);
        entry.name = (uint16_t)names[spent];
        if (elapsed_ns >= (spent == SPENT_OTHER ? OTHER_LEAST_NS : 1))
            trace_put(track, &entry);
        at = mark->event;
    }
    entry.begin_ns = clock->begun_ns;
    entry.name = local->phase == PHASE_TRAIN ? TRACE_STEP : TRACE_EVALUATION;
    trace_put(track, &entry);
}
