/* Tests of the step clock: every stretch of a step is told as what it was spent on, and the
 * stretches of any number of queued steps add up to the time that passed. */
#include <stdbool.h>
#include <unistd.h>

#include "stage/clock.h"
#include "sync/step_clock.h"
#include "tests/helpers/test.h"

enum { MARKS = 5, DEPTH = 3, NAP_US = 2000 };

struct rig {
    struct device *device;
    struct stream *compute;
    struct step_clock *clock;
};

static void rig_open(struct rig *rig)
{
    const struct device_spec spec = { .name = "cpu0" };
    assert_int_equal(device_host_ops.open(&rig->device, &spec), 0);
    assert_int_equal(device_host_ops.stream_open(rig->device, STREAM_COMPUTE, "compute", &rig->compute), 0);
    assert_int_equal(step_clock_open(&rig->clock, rig->compute, MARKS, DEPTH), 0);
    assert_int_equal(step_clock_start(rig->clock), 0);
}

static void rig_close(struct rig *rig)
{
    step_clock_close(rig->clock);
    device_host_ops.stream_close(rig->compute);
    device_host_ops.close(rig->device);
}

static uint64_t *time_of(struct step_times *times, enum spent spent)
{
    uint64_t *const all[SPENT_COUNT] = {
        [SPENT_OTHER] = &times->other,
        [SPENT_INPUT_WAIT] = &times->input_wait,
        [SPENT_EXPOSED_COPY] = &times->exposed_copy,
        [SPENT_FORWARD] = &times->forward,
        [SPENT_BACKWARD] = &times->backward,
        [SPENT_EXPOSED_REDUCTION] = &times->exposed_reduction,
        [SPENT_EXPOSED_EXCHANGE] = &times->exposed_exchange,
        [SPENT_UPDATE] = &times->update,
    };
    return all[spent];
}

TEST(time_is_reported_as_what_it_was_spent_on)
{
    struct rig rig;
    rig_open(&rig);
    for (int spent = 0; spent < SPENT_COUNT; spent++) {
        struct step_times times;
        uint64_t ended_ns;
        usleep(NAP_US);
        assert_int_equal(step_clock_mark(rig.clock, spent), 0);
        assert_int_equal(step_clock_end(rig.clock, SPENT_OTHER), 0);
        assert_int_equal(step_clock_read(rig.clock, &times, &ended_ns), 0);
        assert_true(*time_of(&times, spent) >= NAP_US * 1000u);
        assert_int_equal(*time_of(&times, spent) + (spent != SPENT_OTHER ? times.other : 0), times.total);
    }
    rig_close(&rig);
}

/* Nothing lies between the marks: on a busy machine that takes long now and then, so some of many have to do. */
TEST(waits_that_were_none_are_other_time)
{
    enum { TRIES = 1000 };
    static const enum spent waits[] = { SPENT_EXPOSED_COPY, SPENT_EXPOSED_REDUCTION, SPENT_EXPOSED_EXCHANGE };
    struct rig rig;
    rig_open(&rig);
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        bool is_other = false;
        for (uint32_t n = 0; n < TRIES && !is_other; n++) {
            struct step_times times;
            uint64_t ended_ns;
            assert_int_equal(step_clock_mark(rig.clock, SPENT_FORWARD), 0);
            assert_int_equal(step_clock_end(rig.clock, waits[i]), 0);
            assert_int_equal(step_clock_read(rig.clock, &times, &ended_ns), 0);
            assert_int_equal(times.forward + *time_of(&times, waits[i]) + times.other, times.total);
            is_other = times.other > 0 && *time_of(&times, waits[i]) == 0;
        }
        assert_true(is_other);
    }
    rig_close(&rig);
}

TEST(stretches_of_one_kind_are_added)
{
    struct rig rig;
    struct step_times times;
    uint64_t ended_ns;
    rig_open(&rig);
    for (int i = 0; i < MARKS - 1; i++) {
        usleep(NAP_US);
        assert_int_equal(step_clock_mark(rig.clock, i % 2 ? SPENT_UPDATE : SPENT_EXPOSED_REDUCTION), 0);
    }
    assert_int_equal(step_clock_end(rig.clock, SPENT_OTHER), 0);
    assert_int_equal(step_clock_read(rig.clock, &times, &ended_ns), 0);
    assert_true(times.update >= 2 * NAP_US * 1000u);
    assert_true(times.exposed_reduction >= 2 * NAP_US * 1000u);
    rig_close(&rig);
}

/* Step n has n % MARKS marks and an end. */
static void queue_step(struct rig *rig, uint64_t number)
{
    usleep(100);
    for (uint64_t i = 0; i < number % MARKS; i++)
        assert_int_equal(step_clock_mark(rig->clock, SPENT_FORWARD), 0);
    assert_int_equal(step_clock_end(rig->clock, SPENT_BACKWARD), 0);
}

TEST(steps_in_flight_follow_each_other_without_a_gap)
{
    struct rig rig;
    const uint64_t before_ns = clock_now_ns();
    rig_open(&rig);
    const uint64_t began_ns = clock_now_ns();
    uint64_t total_ns = 0, ended_ns = 0;
    for (uint64_t number = 0; number < 40; number++) {
        struct step_times times;
        queue_step(&rig, number);
        if (number + 1 < DEPTH)
            continue;
        assert_true(device_host_ops.event_passed(step_clock_oldest(rig.clock)));
        assert_int_equal(step_clock_read(rig.clock, &times, &ended_ns), 0);
        assert_int_equal(times.forward + times.backward, times.total);
        total_ns += times.total;
    }
    assert_true(total_ns >= 38 * 100 * 1000u);
    assert_true(total_ns <= clock_now_ns() - before_ns);
    assert_in_range(ended_ns, before_ns + total_ns, began_ns + total_ns);     /* the first step begins in between */
    rig_close(&rig);
}

TEST(marks_of_a_step_that_never_came_are_not_reported)
{
    struct rig rig;
    struct step_times times;
    uint64_t ended_ns;
    rig_open(&rig);
    queue_step(&rig, 1);
    assert_int_equal(step_clock_mark(rig.clock, SPENT_INPUT_WAIT), 0);
    assert_int_equal(step_clock_read(rig.clock, &times, &ended_ns), 0);
    assert_int_equal(times.input_wait, 0);
    rig_close(&rig);
    step_clock_close(NULL);
}

static uint64_t apart_ns;

static int apart_as_said(struct event *from, struct event *to, uint64_t *elapsed_ns_out)
{
    (void)from;
    (void)to;
    *elapsed_ns_out = apart_ns;
    return 0;
}

/* Events are as far apart as apart_ns says. */
static void rig_open_apart(struct rig *rig, struct device_ops *ops)
{
    rig_open(rig);
    *ops = device_host_ops;
    ops->event_elapsed = apart_as_said;
    rig->device->ops = ops;
}

TEST(waits_of_two_microseconds_are_waits)
{
    struct rig rig;
    struct device_ops ops;
    rig_open_apart(&rig, &ops);
    for (apart_ns = 1998; apart_ns <= 2001; apart_ns++) {
        struct step_times times;
        uint64_t ended_ns;
        assert_int_equal(step_clock_end(rig.clock, SPENT_EXPOSED_COPY), 0);
        assert_int_equal(step_clock_read(rig.clock, &times, &ended_ns), 0);
        assert_int_equal(times.exposed_copy, apart_ns >= 2000 ? apart_ns : 0);
        assert_int_equal(times.exposed_copy + times.other, apart_ns);
    }
    rig_close(&rig);
}

TEST(entries_of_a_trace_follow_each_other)
{
    enum { STEPS = 3, EACH = 3 };
    static const enum trace_name names[EACH] = { TRACE_FORWARD, TRACE_BACKWARD, TRACE_STEP };
    const struct trace_spec spec = { .tracks = 1, .entries = STEPS * EACH, .end = STEPS };
    struct rig rig;
    struct device_ops ops;
    struct trace *trace;
    struct trace_look look;
    uint64_t ended_ns[STEPS];
    rig_open_apart(&rig, &ops);
    assert_int_equal(trace_open(&trace, &spec), 0);
    struct trace_track *const track = trace_track_add(trace, TRACE_TOWER, 0);
    apart_ns = 5000;
    for (uint64_t step = 0; step < STEPS; step++) {
        const struct local_batch local = { .number = step, .phase = PHASE_TRAIN, .count = 7 };
        struct step_times times;
        assert_int_equal(step_clock_mark(rig.clock, SPENT_FORWARD), 0);
        assert_int_equal(step_clock_end(rig.clock, SPENT_BACKWARD), 0);
        assert_int_equal(step_clock_read(rig.clock, &times, &ended_ns[step]), 0);
        step_clock_record(rig.clock, track, &local, 2);
    }
    assert_true(trace_look(trace, 0, &look));
    assert_int_equal(look.count, STEPS * EACH);
    for (uint64_t i = 0; i < STEPS * EACH; i++) {
        const struct trace_entry *const entry = trace_entry_at(trace, 0, &look, i);
        const uint64_t begun_ns = ended_ns[i / EACH] - 2 * apart_ns;
        assert_int_equal(entry->name, names[i % EACH]);
        assert_int_equal(entry->begin_ns, i % EACH == 1 ? begun_ns + apart_ns : begun_ns);
        assert_int_equal(entry->end_ns, i % EACH == 0 ? begun_ns + apart_ns : begun_ns + 2 * apart_ns);
        assert_int_equal(entry->batch, i / EACH);
        assert_true(entry->argument == 7 && entry->tower == 2);
    }
    trace_close(trace);
    rig_close(&rig);
}

TESTS_MAIN(NULL, NULL)
