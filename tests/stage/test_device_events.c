/* Tests of a device's events: they order streams of one or two devices, and every wait ends. On the kind of device that
 * test_device_kind.h says; device memory is only touched by copies, as on any kind. What is true of inline compute
 * streams alone is skipped on the others. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/thread.h"
#include "tests/helpers/test.h"
#include "tests/helpers/test_device_kind.h"
#include "tests/stage/device_rig.h"

TEST(an_event_passes_when_the_stream_comes_to_it)
{
    struct device_rig rig;
    struct door door;
    device_rig_open(&rig, test_device_ops());
    door_close(&door, &rig, rig.copy);
    assert_int_equal(stream_record(rig.copy, rig.event), 0);
    sem_wait(&door.reached);
    assert_false(rig.ops->event_passed(rig.event));
    door_open(&door);
    assert_int_equal(rig.ops->event_wait(rig.event), 0);
    assert_true(rig.ops->event_passed(rig.event));
    device_rig_close(&rig);
}

TEST(timed_events_tell_the_device_time_between_them)
{
    struct device_rig rig;
    struct door door;
    uint64_t elapsed_ns = 1;
    device_rig_open(&rig, test_device_ops());
    const uint64_t begun_ns = clock_now_ns();
    assert_int_equal(stream_record(rig.copy, rig.event), 0);
    assert_int_equal(rig.ops->event_elapsed(rig.event, rig.other, &elapsed_ns), -EAGAIN);
    door_close(&door, &rig, rig.copy);
    assert_int_equal(stream_record(rig.copy, rig.other), 0);
    sem_wait(&door.reached);
    assert_int_equal(rig.ops->event_elapsed(rig.event, rig.other, &elapsed_ns), -EAGAIN);
    assert_int_equal(rig.ops->event_elapsed(rig.other, rig.event, &elapsed_ns), -EAGAIN);
    assert_int_equal(elapsed_ns, 1);
    usleep(5000);
    door_open(&door);
    assert_int_equal(rig.ops->event_wait(rig.other), 0);
    const uint64_t wall_ns = clock_now_ns() - begun_ns;
    assert_int_equal(rig.ops->event_elapsed(rig.event, rig.other, &elapsed_ns), 0);
    assert_in_range(elapsed_ns, 5000000, wall_ns + 10000);      /* other clocks are less fine */
    assert_int_equal(rig.ops->event_elapsed(rig.other, rig.event, &elapsed_ns), 0);
    assert_int_equal(elapsed_ns, 0);
    device_rig_close(&rig);
}

TEST(an_event_never_recorded_counts_as_passed)
{
    struct device_rig rig;
    uint64_t elapsed_ns;
    device_rig_open(&rig, test_device_ops());
    assert_true(rig.ops->event_passed(rig.event));
    assert_int_equal(rig.ops->event_wait(rig.event), 0);
    assert_int_equal(stream_wait(rig.compute, rig.event), 0);
    assert_int_equal(stream_wait(rig.copy, rig.event), 0);
    assert_int_equal(rig.ops->event_elapsed(rig.event, rig.other, &elapsed_ns), -EAGAIN);
    device_rig_close(&rig);
}

TEST(a_wait_means_the_latest_record_at_the_time_of_the_call)
{
    struct device_rig rig;
    struct door first, second;
    device_rig_open(&rig, test_device_ops());
    door_close(&first, &rig, rig.copy);
    assert_int_equal(stream_record(rig.copy, rig.event), 0);
    assert_int_equal(stream_wait(rig.communication, rig.event), 0);
    assert_int_equal(stream_record(rig.communication, rig.other), 0);
    door_close(&second, &rig, rig.copy);
    assert_int_equal(stream_record(rig.copy, rig.event), 0);
    assert_false(rig.ops->event_passed(rig.other));
    door_open(&first);
    assert_int_equal(rig.ops->event_wait(rig.other), 0);    /* the second record is still out */
    sem_wait(&second.reached);
    assert_false(rig.ops->event_passed(rig.event));
    door_open(&second);
    assert_int_equal(rig.ops->event_wait(rig.event), 0);
    device_rig_close(&rig);
}

TEST(streams_wait_for_events_of_another_device)
{
    struct device_rig here, there;
    struct door door;
    device_rig_open_two(&here, &there);
    int *from = device_rig_pinned(&there, sizeof(*from)), *value = device_rig_pinned(&there, sizeof(*value));
    int *seen = device_rig_pinned(&here, sizeof(*seen));
    void *there_memory = device_rig_memory(&there, sizeof(*from));
    void *here_memory = device_rig_memory(&here, sizeof(*from));
    *from = 42;
    door_close(&door, &there, there.copy);
    there.ops->copy(there.copy, there_memory, from, sizeof(*from), COPY_TO_DEVICE);
    there.ops->copy(there.copy, value, there_memory, sizeof(*from), COPY_FROM_DEVICE);
    stream_record(there.copy, there.event);
    assert_int_equal(stream_wait(here.communication, there.event), 0);
    here.ops->copy(here.communication, here_memory, value, sizeof(*from), COPY_TO_DEVICE);
    here.ops->copy(here.communication, seen, here_memory, sizeof(*from), COPY_FROM_DEVICE);
    stream_record(here.communication, here.event);
    usleep(1000);
    assert_false(here.ops->event_passed(here.event));
    door_open(&door);
    assert_int_equal(stream_wait(here.compute, here.event), 0);     /* inline: blocks this thread */
    if (!test_device_is_inline())
        device_rig_wait(&here);
    assert_int_equal(*seen, 42);
    here.ops->free(here.device, here_memory);
    there.ops->free(there.device, there_memory);
    here.ops->free_pinned(here.device, seen);
    there.ops->free_pinned(there.device, from);
    there.ops->free_pinned(there.device, value);
    device_rig_close(&here);
    device_rig_close(&there);
}

/* Two towers that sum each other's numbers step by step, ordered by nothing but events,
 * as the reduction does it. */
enum { STEPS = 300 };

struct summing_tower {
    struct device_rig rig;
    struct event *produced, *summed;
    struct summing_tower *peer;
    long step, number, sum;
    bool wrong;
    pthread_barrier_t *recorded;
};

static void produce_call(void *arg)
{
    struct summing_tower *tower = arg;
    tower->number = tower->step;
}

static void sum_call(void *arg)
{
    struct summing_tower *tower = arg;
    tower->sum = tower->number + tower->peer->number;
}

/* The numbers are produced on the copy streams, so that only events order them. */
static void sum_step(struct summing_tower *tower, long step)
{
    const struct device_ops *const ops = tower->rig.ops;
    tower->step = step;
    ops->call(tower->rig.copy, produce_call, tower);
    stream_record(tower->rig.copy, tower->produced);
    pthread_barrier_wait(tower->recorded);
    stream_wait(tower->rig.communication, tower->produced);
    stream_wait(tower->rig.communication, tower->peer->produced);
    ops->call(tower->rig.communication, sum_call, tower);
    stream_record(tower->rig.communication, tower->summed);
    pthread_barrier_wait(tower->recorded);
    /* The peer must have read this number before it changes. */
    stream_wait(tower->rig.compute, tower->summed);
    stream_wait(tower->rig.compute, tower->peer->summed);
    if (!test_device_is_inline())
        device_rig_wait(&tower->rig);
    tower->wrong |= tower->sum != 2 * step;
}

static void sum_loop(void *arg)
{
    struct summing_tower *tower = arg;
    for (long step = 0; step < STEPS; step++)
        sum_step(tower, step);
}

TEST(two_devices_exchange_numbers_ordered_by_events)
{
    struct summing_tower towers[2] = { { .wrong = false }, { .wrong = false } };
    struct thread *threads[2];
    pthread_barrier_t recorded;
    pthread_barrier_init(&recorded, NULL, 2);
    device_rig_open_two(&towers[0].rig, &towers[1].rig);
    for (int i = 0; i < 2; i++) {
        towers[i].produced = towers[i].rig.event;
        towers[i].summed = towers[i].rig.other;
        towers[i].peer = &towers[1 - i];
        towers[i].recorded = &recorded;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(thread_start(&threads[i], "tower", sum_loop, &towers[i]), 0);
    for (int i = 0; i < 2; i++)
        thread_join(threads[i]);
    for (int i = 0; i < 2; i++) {
        assert_false(towers[i].wrong);
        device_rig_close(&towers[i].rig);
    }
    pthread_barrier_destroy(&recorded);
}

TEST(buffers_are_reused_in_the_order_of_their_events)
{
    enum { BUFFERS = 2, ROUNDS = 300, BYTES = 512 };
    struct event *ready[BUFFERS], *free[BUFFERS];
    void *buffers[BUFFERS];
    struct device_rig rig;
    device_rig_open(&rig, test_device_ops());
    uint8_t *sources = device_rig_pinned(&rig, ROUNDS * BYTES), *seen = device_rig_pinned(&rig, BYTES);
    for (int i = 0; i < BUFFERS; i++) {
        assert_int_equal(rig.ops->event_open(rig.device, EVENT_ORDER, &ready[i]), 0);
        assert_int_equal(rig.ops->event_open(rig.device, EVENT_ORDER, &free[i]), 0);
        buffers[i] = device_rig_memory(&rig, BYTES);
    }
    for (int round = 0; round < ROUNDS + 1; round++) {
        if (round < ROUNDS) {
            const int i = round % BUFFERS;
            memset(sources + round * BYTES, round % 251, BYTES);
            stream_wait(rig.copy, free[i]);
            rig.ops->copy(rig.copy, buffers[i], sources + round * BYTES, BYTES, COPY_TO_DEVICE);
            stream_record(rig.copy, ready[i]);
        }
        if (round > 0) {
            const int i = (round - 1) % BUFFERS;
            stream_wait(rig.compute, ready[i]);
            rig.ops->copy(rig.compute, seen, buffers[i], BYTES, COPY_FROM_DEVICE);
            stream_record(rig.compute, free[i]);
            device_rig_wait(&rig);
            for (int b = 0; b < BYTES; b++)
                assert_int_equal(seen[b], (round - 1) % 251);
        }
    }
    for (int i = 0; i < BUFFERS; i++) {
        rig.ops->event_close(ready[i]);
        rig.ops->event_close(free[i]);
        rig.ops->free(rig.device, buffers[i]);
    }
    rig.ops->free_pinned(rig.device, sources);
    rig.ops->free_pinned(rig.device, seen);
    device_rig_close(&rig);
}

/* Threads that wait where they can, and what ends them. */

struct waiting {
    struct device_rig *rig;
    struct event *event;        /* not passing */
    int result;
};

static void event_wait_loop(void *arg)
{
    struct waiting *waiting = arg;
    waiting->result = waiting->rig->ops->event_wait(waiting->event);
}

static void inline_wait_loop(void *arg)
{
    struct waiting *waiting = arg;
    waiting->result = stream_wait(waiting->rig->compute, waiting->event);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void full_stream_loop(void *arg)
{
    struct waiting *waiting = arg;
    while (waiting->result == 0)
        waiting->result = waiting->rig->ops->call(waiting->rig->communication, nothing, NULL);
}

/* A wait of `here`, for an event of its own or of `there`, ends when either is cancelled. */
static void check_cancel(void (*loop)(void *arg), bool cancel_here, bool foreign_event)
{
    struct device_rig here, there;
    struct door door;
    struct thread *thread;
    device_rig_open_two(&here, &there);
    struct device_rig *const owner = foreign_event ? &there : &here;
    door_close(&door, owner, owner->copy);
    stream_record(owner->copy, owner->event);
    stream_wait(here.communication, owner->event);      /* a thread waits as well */
    struct waiting waiting = { &here, owner->event, 0 };
    assert_int_equal(thread_start(&thread, "waiting", loop, &waiting), 0);
    usleep(2000);
    device_cancel(cancel_here ? here.device : there.device);
    thread_join(thread);
    assert_int_equal(waiting.result, -ECANCELED);
    door_open(&door);
    device_rig_close(&here);
    device_rig_close(&there);
}

TEST(cancelling_the_device_ends_every_wait)
{
    check_cancel(event_wait_loop, true, false);
    if (!test_device_is_inline())
        return;
    check_cancel(inline_wait_loop, true, false);
    check_cancel(full_stream_loop, true, false);
}

TEST(cancelling_ends_waits_for_events_of_another_device)
{
    if (!test_device_is_inline())
        skip();
    check_cancel(inline_wait_loop, true, true);
    check_cancel(full_stream_loop, true, true);
}

TEST(cancelling_ends_waits_of_other_devices_for_its_events)
{
    check_cancel(event_wait_loop, false, true);
    if (!test_device_is_inline())
        return;
    check_cancel(inline_wait_loop, false, true);
    check_cancel(full_stream_loop, false, true);
}

TEST(a_stream_whose_order_is_lost_ends_its_device)
{
    if (!test_device_is_inline())
        skip();         /* a GPU's streams wait for nothing that a cancel could end */
    struct device_rig here, there;
    struct door door;
    struct call_log log = { .count = 0 };
    struct numbered_call call = { &log, 1 };
    device_rig_open_two(&here, &there);
    door_close(&door, &there, there.copy);
    stream_record(there.copy, there.event);
    stream_wait(here.communication, there.event);
    here.ops->call(here.communication, call_log_note, &call);
    stream_record(here.communication, here.event);
    device_cancel(there.device);
    assert_int_equal(here.ops->event_wait(here.event), -ECANCELED);     /* ends, though `here` was not cancelled */
    door_open(&door);
    device_rig_close(&here);
    device_rig_close(&there);
    assert_int_equal(log.count, 0);
}

TEST(a_cancelled_device_takes_no_more_work)
{
    for (size_t k = 0; k < 2; k++) {
        struct device_rig rig;
        device_rig_open(&rig, device_rig_kind(k));
        device_cancel(rig.device);
        device_cancel(rig.device);
        struct stream *const streams[] = { rig.compute, rig.copy, rig.communication };
        for (int i = 0; i < 3; i++) {
            assert_int_equal(stream_record(streams[i], rig.event), -ECANCELED);
            assert_int_equal(stream_wait(streams[i], rig.event), -ECANCELED);
            assert_int_equal(rig.ops->call(streams[i], nothing, NULL), -ECANCELED);
            assert_int_equal(rig.ops->copy(streams[i], NULL, NULL, 0, COPY_ON_DEVICE), -ECANCELED);
        }
        assert_int_equal(rig.ops->event_wait(rig.event), -ECANCELED);
        device_rig_close(&rig);
    }
}

int main(void)
{
    alarm(60);
    test_device_ops();
    return tests_run(NULL, NULL);
}
