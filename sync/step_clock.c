/* The timed events of the steps in flight. See step_clock.h. */
#include "sync/step_clock.h"

#include <errno.h>
#include <stdlib.h>

#include "stage/clock.h"

/* The events of one step. */
struct dial { struct event *marks[MARK_COUNT]; struct event **buckets; };

struct step_clock {
    struct stream *compute;
    uint32_t bucket_count;
    uint32_t dial_count;        /* one more than steps in flight: a step is measured from the end of the one before */
    struct dial *dials;         /* step n has dials[n % dial_count] */
    struct event *origin;       /* what the first step is measured from */
    uint64_t now_ns;            /* when the last step that was read ended */
};

static struct dial *dial_of(struct step_clock *clock, uint64_t number)
{
    return &clock->dials[number % clock->dial_count];
}

static struct event **bucket_event(const struct dial *dial, uint32_t bucket, enum bucket_mark mark)
{
    return &dial->buckets[bucket * BUCKET_MARK_COUNT + mark];
}

static int open_event(struct step_clock *clock, struct event **event_out)
{
    struct device *const device = clock->compute->device;
    return device->ops->event_open(device, EVENT_TIMED, event_out);
}

static void close_event(struct event *event)
{
    if (event != NULL)
        event->device->ops->event_close(event);
}

static int open_dial(struct step_clock *clock, struct dial *dial)
{
    const uint32_t count = clock->bucket_count * BUCKET_MARK_COUNT;
    dial->buckets = calloc(count + 1, sizeof(struct event *));
    int rc = dial->buckets != NULL ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < MARK_COUNT && rc == 0; i++)
        rc = open_event(clock, &dial->marks[i]);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = open_event(clock, &dial->buckets[i]);
    return rc;
}

static void close_dial(const struct step_clock *clock, const struct dial *dial)
{
    for (uint32_t i = 0; i < MARK_COUNT; i++)
        close_event(dial->marks[i]);
    for (uint32_t i = 0; dial->buckets != NULL && i < clock->bucket_count * BUCKET_MARK_COUNT; i++)
        close_event(dial->buckets[i]);
    free(dial->buckets);
}

int step_clock_open(struct step_clock **clock_out, struct stream *compute, uint32_t buckets, uint32_t depth)
{
    struct step_clock *const clock = calloc(1, sizeof(*clock));
    struct dial *const dials = calloc(depth + 1, sizeof(*dials));
    if (clock == NULL || dials == NULL) {
        free(clock);
        free(dials);
        return -ENOMEM;
    }
    *clock = (struct step_clock){.compute = compute, .bucket_count = buckets, .dial_count = depth + 1, .dials = dials};
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
    close_event(clock->origin);
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

int step_clock_mark(struct step_clock *clock, uint64_t number, enum mark mark)
{
    return stream_record(clock->compute, dial_of(clock, number)->marks[mark]);
}

int step_clock_mark_bucket(struct step_clock *clock, uint64_t number, uint32_t bucket, enum bucket_mark mark)
{
    return stream_record(clock->compute, *bucket_event(dial_of(clock, number), bucket, mark));
}

struct event *step_clock_end(struct step_clock *clock, uint64_t number)
{
    return dial_of(clock, number)->marks[MARK_END];
}

/* Reads one event after the other, adding the time between them to where it belongs. */
struct walk { struct event *at; int rc; };

static void walk_to(struct walk *walk, struct event *to, uint64_t *spent_ns)
{
    uint64_t elapsed_ns = 0;
    if (walk->rc == 0)
        walk->rc = to->device->ops->event_elapsed(walk->at, to, &elapsed_ns);
    *spent_ns += elapsed_ns;
    walk->at = to;
}

static void walk_buckets(const struct step_clock *clock, const struct dial *dial, struct walk *walk,
                         struct step_times *times)
{
    walk_to(walk, dial->marks[MARK_BACKWARD], &times->backward);
    for (uint32_t b = 0; b < clock->bucket_count; b++) {
        walk_to(walk, *bucket_event(dial, b, BUCKET_REDUCED), &times->exposed_reduction);
        walk_to(walk, *bucket_event(dial, b, BUCKET_UPDATED), &times->update);
    }
}

int step_clock_read(struct step_clock *clock, uint64_t number, struct step_facts facts, struct step_times *times_out,
                    uint64_t *ended_ns_out)
{
    const struct dial *const dial = dial_of(clock, number);
    struct step_times times = {0};
    struct walk walk = {.at = number > 0 ? step_clock_end(clock, number - 1) : clock->origin};
    walk_to(&walk, dial->marks[MARK_BEGIN], &times.other);
    walk_to(&walk, dial->marks[MARK_TAKEN], facts.waited ? &times.input_wait : &times.other);
    walk_to(&walk, dial->marks[MARK_INPUT], facts.copied ? &times.other : &times.exposed_copy);
    walk_to(&walk, dial->marks[MARK_FORWARD], &times.forward);
    if (facts.trained)
        walk_buckets(clock, dial, &walk, &times);
    walk_to(&walk, dial->marks[MARK_END], &times.other);
    if (walk.rc != 0)
        return walk.rc;
    times.total = times.input_wait + times.exposed_copy + times.forward + times.backward + times.exposed_reduction +
                  times.update + times.other;
    clock->now_ns += times.total;
    *times_out = times;
    *ended_ns_out = clock->now_ns;
    return 0;
}
