/* Tests of a device's table: streams keep their order and run beside the thread that
 * queues, events order streams of one or two devices, every wait ends. On the kind of
 * device that test_device_kind.h says, and on the null device. Device memory is only
 * touched by copies, as on any kind; what is true of inline compute streams alone is
 * skipped on the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/device.h"
#include "stage/thread.h"
#include "tests/helpers/test_device_kind.h"

/* The kind to test, and the null device. */
static const struct device_ops *kind(size_t k)
{
    return k == 0 ? test_device_ops() : &device_null_ops;
}

/* One device with a stream of each role and events. */
struct bench {
    struct device *device;
    const struct device_ops *ops;
    struct stream *compute, *copy, *communication;
    struct event *event, *other;
    struct event *done;         /* of compute_wait */
};

static void bench_open_at(struct bench *bench, const struct device_ops *ops, uint32_t index)
{
    const struct device_spec spec = { .index = index, .name = "cpu0" };
    bench->ops = ops;
    assert_int_equal(ops->open(&bench->device, &spec), 0);
    assert_ptr_equal(bench->device->ops, ops);
    assert_int_equal(ops->stream_open(bench->device, STREAM_COMPUTE, "compute", &bench->compute), 0);
    assert_int_equal(ops->stream_open(bench->device, STREAM_COPY, "copy", &bench->copy), 0);
    assert_int_equal(ops->stream_open(bench->device, STREAM_COMMUNICATION, "comm", &bench->communication), 0);
    assert_int_equal(ops->event_open(bench->device, EVENT_TIMED, &bench->event), 0);
    assert_int_equal(ops->event_open(bench->device, EVENT_TIMED, &bench->other), 0);
    assert_int_equal(ops->event_open(bench->device, EVENT_ORDER, &bench->done), 0);
}

static void bench_open(struct bench *bench, const struct device_ops *ops)
{
    bench_open_at(bench, ops, 0);
}

/* Two devices, or one opened twice where there is only one. */
static void bench_open_two(struct bench *here, struct bench *there)
{
    char why[256];
    bench_open_at(here, test_device_ops(), 0);
    bench_open_at(there, test_device_ops(), test_device_ops()->count(why, sizeof(why)) > 1);
}

static void bench_close(struct bench *bench)
{
    bench->ops->stream_close(bench->communication);
    bench->ops->stream_close(bench->copy);
    bench->ops->stream_close(bench->compute);
    bench->ops->event_close(bench->done);
    bench->ops->event_close(bench->other);
    bench->ops->event_close(bench->event);
    bench->ops->close(bench->device);
}

/* Wait for all that is queued on the compute stream. */
static void compute_wait(struct bench *bench)
{
    assert_int_equal(stream_record(bench->compute, bench->done), 0);
    assert_int_equal(bench->ops->event_wait(bench->done), 0);
}

static void *memory_take(struct bench *bench, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(bench->ops->alloc(bench->device, bytes, &memory), 0);
    assert_non_null(memory);
    return memory;
}

static void *pinned_take(struct bench *bench, size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(bench->ops->alloc_pinned(bench->device, bytes, &memory), 0);
    assert_non_null(memory);
    return memory;
}

/* A stream that stands at a door, until the test opens it. */
struct door {
    sem_t reached, opened;
};

static void door_call(void *arg)
{
    struct door *door = arg;
    sem_post(&door->reached);
    sem_wait(&door->opened);
}

static void door_close(struct door *door, struct bench *bench, struct stream *stream)
{
    sem_init(&door->reached, 0, 0);
    sem_init(&door->opened, 0, 0);
    assert_int_equal(bench->ops->call(stream, door_call, door), 0);
}

static void door_open(struct door *door)
{
    sem_post(&door->opened);
}

static void the_table_is_found_by_its_names(void **state)
{
    (void)state;
    assert_ptr_equal(device_find("cpu"), &device_host_ops);
    assert_ptr_equal(device_find("null"), &device_null_ops);
    assert_null(device_find("gpu"));
    assert_null(device_find(""));
    assert_string_equal(device_host_ops.kind, "cpu");
    assert_string_equal(device_null_ops.kind, "null");
}

static void every_row_of_the_table_is_there(void **state)
{
    (void)state;
    const size_t first = offsetof(struct device_ops, count);    /* rows from here on are functions */
    for (size_t k = 0; k < 2; k++) {
        const void *rows[(sizeof(struct device_ops) - offsetof(struct device_ops, count)) / sizeof(void *)];
        memcpy(rows, (const char *)kind(k) + first, sizeof(rows));
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
            assert_non_null(rows[i]);
        assert_true(kind(k)->host_memory == (kind(k)->steps_ahead == 0));
    }
}

static void there_is_a_device_and_no_reason_why_not(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        char why[8] = "unknown";
        assert_true(kind(k)->count(why, sizeof(why)) >= 1);
        assert_string_equal(why, "");
    }
}

static void a_device_reaches_its_own_memory(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++)
        assert_true(kind(k)->reaches(0, 0));
}

static void a_device_describes_itself(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct device_description description = { .name = "" };
        struct bench bench;
        size_t free_bytes, total_bytes;
        assert_int_equal(kind(k)->describe(0, &description), 0);
        assert_true(strlen(description.name) > 0 && strlen(description.more) > 0);
        bench_open(&bench, kind(k));
        assert_int_equal(bench.ops->memory(bench.device, &free_bytes, &total_bytes), 0);
        assert_true(description.memory_bytes >= total_bytes);
        bench_close(&bench);
    }
}

static void a_device_knows_how_much_memory_is_left(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct bench bench;
        size_t free_bytes = 0, total_bytes = 0;
        bench_open(&bench, kind(k));
        assert_int_equal(bench.ops->memory(bench.device, &free_bytes, &total_bytes), 0);
        assert_true(free_bytes > 0 && free_bytes <= total_bytes);
        bench_close(&bench);
    }
}

static void binding_takes_no_cpu_the_thread_did_not_have(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct bench bench;
        cpu_set_t before, after, both;
        bench_open(&bench, kind(k));
        assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
        bench.ops->bind(bench.device);
        assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
        CPU_AND(&both, &before, &after);
        assert_true(CPU_EQUAL(&both, &after));
        assert_true(CPU_COUNT(&after) > 0);
        assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
        bench_close(&bench);
    }
}

static void assert_zero(const uint8_t *bytes, size_t count)
{
    uint8_t any = 0;
    for (size_t b = 0; b < count; b++)
        any |= bytes[b];
    assert_int_equal(any, 0);
}

static void check_memory(struct bench *bench, size_t bytes)
{
    void *memory = memory_take(bench, bytes), *pinned = pinned_take(bench, bytes);
    assert_int_equal((uintptr_t)memory % 64, 0);
    assert_int_equal((uintptr_t)pinned % 64, 0);
    assert_zero(pinned, bytes);
    memset(pinned, 0xFF, bytes);
    assert_int_equal(bench->ops->copy(bench->compute, pinned, memory, bytes, COPY_FROM_DEVICE), 0);
    compute_wait(bench);
    assert_zero(pinned, bytes);
    memset(pinned, 0xFF, bytes);        /* the next ones are zeroed all the same */
    assert_int_equal(bench->ops->copy(bench->compute, memory, pinned, bytes, COPY_TO_DEVICE), 0);
    compute_wait(bench);
    bench->ops->free_pinned(bench->device, pinned);
    bench->ops->free(bench->device, memory);
}

static void memory_is_aligned_and_zeroed_for_any_size(void **state)
{
    (void)state;
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 4096, 100000, (2 << 20) - 1, 2 << 20, (5 << 20) + 3 };
    struct bench bench;
    bench_open(&bench, test_device_ops());
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int again = 0; again < 2; again++)
            check_memory(&bench, sizes[i]);
    bench.ops->free(bench.device, NULL);
    bench.ops->free_pinned(bench.device, NULL);
    bench_close(&bench);
}

enum { CALLS = 1000 };

struct call_log {
    int order[CALLS];
    int count;
    pthread_t thread;
};
struct numbered_call {
    struct call_log *log;
    int number;
};

static void call_note(void *arg)
{
    const struct numbered_call *call = arg;
    call->log->order[call->log->count++] = call->number;
    call->log->thread = pthread_self();
}

static void a_stream_runs_more_commands_than_it_holds_in_their_order(void **state)
{
    (void)state;
    static struct numbered_call calls[CALLS];
    for (size_t k = 0; k < 2; k++) {
        struct bench bench;
        struct call_log log = { .count = 0 };
        bench_open(&bench, kind(k));
        for (int i = 0; i < CALLS; i++) {
            calls[i] = (struct numbered_call){ &log, i };
            assert_int_equal(bench.ops->call(bench.copy, call_note, &calls[i]), 0);
        }
        assert_int_equal(stream_record(bench.copy, bench.event), 0);
        assert_int_equal(bench.ops->event_wait(bench.event), 0);
        assert_int_equal(log.count, CALLS);
        for (int i = 0; i < CALLS; i++)
            assert_int_equal(log.order[i], i);
        assert_false(pthread_equal(log.thread, pthread_self()));
        bench_close(&bench);
    }
}

static void closing_a_stream_drains_it(void **state)
{
    (void)state;
    static struct numbered_call calls[100];
    struct bench bench;
    struct call_log log = { .count = 0 };
    bench_open(&bench, test_device_ops());
    for (int i = 0; i < 100; i++) {
        calls[i] = (struct numbered_call){ &log, i };
        assert_int_equal(bench.ops->call(bench.communication, call_note, &calls[i]), 0);
    }
    bench_close(&bench);
    assert_int_equal(log.count, 100);
}

static void an_inline_compute_stream_runs_in_the_thread_that_queues(void **state)
{
    (void)state;
    if (!test_device_is_inline())
        skip();
    struct bench bench;
    struct call_log log = { .count = 0 };
    struct numbered_call call = { &log, 1 };
    const int from = 7;
    int to = 0;
    bench_open(&bench, test_device_ops());
    assert_int_equal(bench.ops->call(bench.compute, call_note, &call), 0);
    assert_int_equal(log.count, 1);
    assert_true(pthread_equal(log.thread, pthread_self()));
    assert_int_equal(bench.ops->copy(bench.compute, &to, &from, sizeof(to), COPY_ON_DEVICE), 0);
    assert_int_equal(to, 7);
    assert_int_equal(stream_record(bench.compute, bench.event), 0);
    assert_true(bench.ops->event_passed(bench.event));
    bench_close(&bench);
}

static void the_compute_stream_keeps_its_order(void **state)
{
    (void)state;
    static struct numbered_call calls[CALLS];
    struct bench bench;
    struct call_log log = { .count = 0 };
    bench_open(&bench, test_device_ops());
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (struct numbered_call){ &log, i };
        assert_int_equal(bench.ops->call(bench.compute, call_note, &calls[i]), 0);
    }
    compute_wait(&bench);
    assert_int_equal(log.count, CALLS);
    for (int i = 0; i < CALLS; i++)
        assert_int_equal(log.order[i], i);
    bench_close(&bench);
}

/* Host to device, on the device, and back. */
static void copies_move_bytes_except_on_the_null_device(void **state)
{
    (void)state;
    enum { BYTES = 5000 };
    for (size_t k = 0; k < 2; k++) {
        struct bench bench;
        bench_open(&bench, kind(k));
        char *from = pinned_take(&bench, BYTES), *to = pinned_take(&bench, BYTES);
        void *first = memory_take(&bench, BYTES), *second = memory_take(&bench, BYTES);
        memset(from, 'f', BYTES);
        memset(to, 't', BYTES);
        assert_int_equal(bench.ops->copy(bench.copy, first, from, BYTES, COPY_TO_DEVICE), 0);
        assert_int_equal(bench.ops->copy(bench.copy, NULL, NULL, 0, COPY_FROM_DEVICE), 0);
        assert_int_equal(bench.ops->copy(bench.copy, second, first, BYTES, COPY_ON_DEVICE), 0);
        assert_int_equal(bench.ops->copy(bench.copy, to, second, BYTES, COPY_FROM_DEVICE), 0);
        assert_int_equal(stream_record(bench.copy, bench.event), 0);
        assert_int_equal(bench.ops->event_wait(bench.event), 0);
        for (size_t i = 0; i < BYTES; i++)
            assert_int_equal(to[i], k == 0 ? 'f' : 't');
        bench.ops->free(bench.device, first);
        bench.ops->free(bench.device, second);
        bench.ops->free_pinned(bench.device, from);
        bench.ops->free_pinned(bench.device, to);
        bench_close(&bench);
    }
}

static void an_event_passes_when_the_stream_comes_to_it(void **state)
{
    (void)state;
    struct bench bench;
    struct door door;
    bench_open(&bench, test_device_ops());
    door_close(&door, &bench, bench.copy);
    assert_int_equal(stream_record(bench.copy, bench.event), 0);
    sem_wait(&door.reached);
    assert_false(bench.ops->event_passed(bench.event));
    door_open(&door);
    assert_int_equal(bench.ops->event_wait(bench.event), 0);
    assert_true(bench.ops->event_passed(bench.event));
    bench_close(&bench);
}

static void timed_events_tell_the_device_time_between_them(void **state)
{
    (void)state;
    struct bench bench;
    struct door door;
    uint64_t elapsed_ns = 1;
    bench_open(&bench, test_device_ops());
    const uint64_t begun_ns = clock_now_ns();
    assert_int_equal(stream_record(bench.copy, bench.event), 0);
    assert_int_equal(bench.ops->event_elapsed(bench.event, bench.other, &elapsed_ns), -EAGAIN);
    door_close(&door, &bench, bench.copy);
    assert_int_equal(stream_record(bench.copy, bench.other), 0);
    sem_wait(&door.reached);
    assert_int_equal(bench.ops->event_elapsed(bench.event, bench.other, &elapsed_ns), -EAGAIN);
    assert_int_equal(bench.ops->event_elapsed(bench.other, bench.event, &elapsed_ns), -EAGAIN);
    assert_int_equal(elapsed_ns, 1);
    usleep(5000);
    door_open(&door);
    assert_int_equal(bench.ops->event_wait(bench.other), 0);
    const uint64_t wall_ns = clock_now_ns() - begun_ns;
    assert_int_equal(bench.ops->event_elapsed(bench.event, bench.other, &elapsed_ns), 0);
    assert_in_range(elapsed_ns, 5000000, wall_ns + 10000);      /* other clocks are less fine */
    assert_int_equal(bench.ops->event_elapsed(bench.other, bench.event, &elapsed_ns), 0);
    assert_int_equal(elapsed_ns, 0);
    bench_close(&bench);
}

static void an_event_never_recorded_counts_as_passed(void **state)
{
    (void)state;
    struct bench bench;
    uint64_t elapsed_ns;
    bench_open(&bench, test_device_ops());
    assert_true(bench.ops->event_passed(bench.event));
    assert_int_equal(bench.ops->event_wait(bench.event), 0);
    assert_int_equal(stream_wait(bench.compute, bench.event), 0);
    assert_int_equal(stream_wait(bench.copy, bench.event), 0);
    assert_int_equal(bench.ops->event_elapsed(bench.event, bench.other, &elapsed_ns), -EAGAIN);
    bench_close(&bench);
}

static void a_wait_means_the_latest_record_at_the_time_of_the_call(void **state)
{
    (void)state;
    struct bench bench;
    struct door first, second;
    bench_open(&bench, test_device_ops());
    door_close(&first, &bench, bench.copy);
    assert_int_equal(stream_record(bench.copy, bench.event), 0);
    assert_int_equal(stream_wait(bench.communication, bench.event), 0);
    assert_int_equal(stream_record(bench.communication, bench.other), 0);
    door_close(&second, &bench, bench.copy);
    assert_int_equal(stream_record(bench.copy, bench.event), 0);
    assert_false(bench.ops->event_passed(bench.other));
    door_open(&first);
    assert_int_equal(bench.ops->event_wait(bench.other), 0);    /* the second record is still out */
    sem_wait(&second.reached);
    assert_false(bench.ops->event_passed(bench.event));
    door_open(&second);
    assert_int_equal(bench.ops->event_wait(bench.event), 0);
    bench_close(&bench);
}

static void streams_wait_for_events_of_another_device(void **state)
{
    (void)state;
    struct bench here, there;
    struct door door;
    bench_open_two(&here, &there);
    int *from = pinned_take(&there, sizeof(*from)), *value = pinned_take(&there, sizeof(*value));
    int *seen = pinned_take(&here, sizeof(*seen));
    void *there_memory = memory_take(&there, sizeof(*from)), *here_memory = memory_take(&here, sizeof(*from));
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
        compute_wait(&here);
    assert_int_equal(*seen, 42);
    here.ops->free(here.device, here_memory);
    there.ops->free(there.device, there_memory);
    here.ops->free_pinned(here.device, seen);
    there.ops->free_pinned(there.device, from);
    there.ops->free_pinned(there.device, value);
    bench_close(&here);
    bench_close(&there);
}

/* Two towers that sum each other's numbers step by step, ordered by nothing but events,
 * as the reduction does it. */
enum { STEPS = 300 };

struct summing_tower {
    struct bench bench;
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
    const struct device_ops *const ops = tower->bench.ops;
    tower->step = step;
    ops->call(tower->bench.copy, produce_call, tower);
    stream_record(tower->bench.copy, tower->produced);
    pthread_barrier_wait(tower->recorded);
    stream_wait(tower->bench.communication, tower->produced);
    stream_wait(tower->bench.communication, tower->peer->produced);
    ops->call(tower->bench.communication, sum_call, tower);
    stream_record(tower->bench.communication, tower->summed);
    pthread_barrier_wait(tower->recorded);
    /* The peer must have read this number before it changes. */
    stream_wait(tower->bench.compute, tower->summed);
    stream_wait(tower->bench.compute, tower->peer->summed);
    if (!test_device_is_inline())
        compute_wait(&tower->bench);
    tower->wrong |= tower->sum != 2 * step;
}

static void sum_loop(void *arg)
{
    struct summing_tower *tower = arg;
    for (long step = 0; step < STEPS; step++)
        sum_step(tower, step);
}

static void two_devices_exchange_numbers_ordered_by_events(void **state)
{
    (void)state;
    struct summing_tower towers[2] = { { .wrong = false }, { .wrong = false } };
    struct thread *threads[2];
    pthread_barrier_t recorded;
    pthread_barrier_init(&recorded, NULL, 2);
    bench_open_two(&towers[0].bench, &towers[1].bench);
    for (int i = 0; i < 2; i++) {
        towers[i].produced = towers[i].bench.event;
        towers[i].summed = towers[i].bench.other;
        towers[i].peer = &towers[1 - i];
        towers[i].recorded = &recorded;
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(thread_start(&threads[i], "tower", sum_loop, &towers[i]), 0);
    for (int i = 0; i < 2; i++)
        thread_join(threads[i]);
    for (int i = 0; i < 2; i++) {
        assert_false(towers[i].wrong);
        bench_close(&towers[i].bench);
    }
    pthread_barrier_destroy(&recorded);
}

static void buffers_are_reused_in_the_order_of_their_events(void **state)
{
    (void)state;
    enum { BUFFERS = 2, ROUNDS = 300, BYTES = 512 };
    struct event *ready[BUFFERS], *free[BUFFERS];
    void *buffers[BUFFERS];
    struct bench bench;
    bench_open(&bench, test_device_ops());
    uint8_t *sources = pinned_take(&bench, ROUNDS * BYTES), *seen = pinned_take(&bench, BYTES);
    for (int i = 0; i < BUFFERS; i++) {
        assert_int_equal(bench.ops->event_open(bench.device, EVENT_ORDER, &ready[i]), 0);
        assert_int_equal(bench.ops->event_open(bench.device, EVENT_ORDER, &free[i]), 0);
        buffers[i] = memory_take(&bench, BYTES);
    }
    for (int round = 0; round < ROUNDS + 1; round++) {
        if (round < ROUNDS) {
            const int i = round % BUFFERS;
            memset(sources + round * BYTES, round % 251, BYTES);
            stream_wait(bench.copy, free[i]);
            bench.ops->copy(bench.copy, buffers[i], sources + round * BYTES, BYTES, COPY_TO_DEVICE);
            stream_record(bench.copy, ready[i]);
        }
        if (round > 0) {
            const int i = (round - 1) % BUFFERS;
            stream_wait(bench.compute, ready[i]);
            bench.ops->copy(bench.compute, seen, buffers[i], BYTES, COPY_FROM_DEVICE);
            stream_record(bench.compute, free[i]);
            compute_wait(&bench);
            for (int b = 0; b < BYTES; b++)
                assert_int_equal(seen[b], (round - 1) % 251);
        }
    }
    for (int i = 0; i < BUFFERS; i++) {
        bench.ops->event_close(ready[i]);
        bench.ops->event_close(free[i]);
        bench.ops->free(bench.device, buffers[i]);
    }
    bench.ops->free_pinned(bench.device, sources);
    bench.ops->free_pinned(bench.device, seen);
    bench_close(&bench);
}

/* Threads that wait where they can, and what ends them. */

struct waiting {
    struct bench *bench;
    struct event *event;        /* not passing */
    int result;
};

static void event_wait_loop(void *arg)
{
    struct waiting *waiting = arg;
    waiting->result = waiting->bench->ops->event_wait(waiting->event);
}

static void inline_wait_loop(void *arg)
{
    struct waiting *waiting = arg;
    waiting->result = stream_wait(waiting->bench->compute, waiting->event);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void full_stream_loop(void *arg)
{
    struct waiting *waiting = arg;
    while (waiting->result == 0)
        waiting->result = waiting->bench->ops->call(waiting->bench->communication, nothing, NULL);
}

/* A wait of `here`, for an event of its own or of `there`, ends when either is cancelled. */
static void check_cancel(void (*loop)(void *arg), bool cancel_here, bool foreign_event)
{
    struct bench here, there;
    struct door door;
    struct thread *thread;
    bench_open_two(&here, &there);
    struct bench *const owner = foreign_event ? &there : &here;
    door_close(&door, owner, owner->copy);
    stream_record(owner->copy, owner->event);
    stream_wait(here.communication, owner->event);      /* a worker waits as well */
    struct waiting waiting = { &here, owner->event, 0 };
    assert_int_equal(thread_start(&thread, "waiting", loop, &waiting), 0);
    usleep(2000);
    device_cancel(cancel_here ? here.device : there.device);
    thread_join(thread);
    assert_int_equal(waiting.result, -ECANCELED);
    door_open(&door);
    bench_close(&here);
    bench_close(&there);
}

static void cancelling_the_device_ends_every_wait(void **state)
{
    (void)state;
    check_cancel(event_wait_loop, true, false);
    if (!test_device_is_inline())
        return;
    check_cancel(inline_wait_loop, true, false);
    check_cancel(full_stream_loop, true, false);
}

static void cancelling_ends_waits_for_events_of_another_device(void **state)
{
    (void)state;
    if (!test_device_is_inline())
        skip();
    check_cancel(inline_wait_loop, true, true);
    check_cancel(full_stream_loop, true, true);
}

static void cancelling_ends_waits_of_other_devices_for_its_events(void **state)
{
    (void)state;
    check_cancel(event_wait_loop, false, true);
    if (!test_device_is_inline())
        return;
    check_cancel(inline_wait_loop, false, true);
    check_cancel(full_stream_loop, false, true);
}

static void a_stream_whose_order_is_lost_ends_its_device(void **state)
{
    (void)state;
    if (!test_device_is_inline())
        skip();         /* a GPU's streams wait for nothing that a cancel could end */
    struct bench here, there;
    struct door door;
    struct call_log log = { .count = 0 };
    struct numbered_call call = { &log, 1 };
    bench_open_two(&here, &there);
    door_close(&door, &there, there.copy);
    stream_record(there.copy, there.event);
    stream_wait(here.communication, there.event);
    here.ops->call(here.communication, call_note, &call);
    stream_record(here.communication, here.event);
    device_cancel(there.device);
    assert_int_equal(here.ops->event_wait(here.event), -ECANCELED);     /* ends, though `here` was not cancelled */
    door_open(&door);
    bench_close(&here);
    bench_close(&there);
    assert_int_equal(log.count, 0);
}

static void a_cancelled_device_takes_no_more_work(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        struct bench bench;
        bench_open(&bench, kind(k));
        device_cancel(bench.device);
        device_cancel(bench.device);
        struct stream *const streams[] = { bench.compute, bench.copy, bench.communication };
        for (int i = 0; i < 3; i++) {
            assert_int_equal(stream_record(streams[i], bench.event), -ECANCELED);
            assert_int_equal(stream_wait(streams[i], bench.event), -ECANCELED);
            assert_int_equal(bench.ops->call(streams[i], nothing, NULL), -ECANCELED);
            assert_int_equal(bench.ops->copy(streams[i], NULL, NULL, 0, COPY_ON_DEVICE), -ECANCELED);
        }
        assert_int_equal(bench.ops->event_wait(bench.event), -ECANCELED);
        bench_close(&bench);
    }
}

int main(void)
{
    alarm(60);
    test_device_ops();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_found_by_its_names),
        cmocka_unit_test(every_row_of_the_table_is_there),
        cmocka_unit_test(there_is_a_device_and_no_reason_why_not),
        cmocka_unit_test(a_device_reaches_its_own_memory),
        cmocka_unit_test(a_device_describes_itself),
        cmocka_unit_test(a_device_knows_how_much_memory_is_left),
        cmocka_unit_test(binding_takes_no_cpu_the_thread_did_not_have),
        cmocka_unit_test(memory_is_aligned_and_zeroed_for_any_size),
        cmocka_unit_test(a_stream_runs_more_commands_than_it_holds_in_their_order),
        cmocka_unit_test(closing_a_stream_drains_it),
        cmocka_unit_test(an_inline_compute_stream_runs_in_the_thread_that_queues),
        cmocka_unit_test(the_compute_stream_keeps_its_order),
        cmocka_unit_test(copies_move_bytes_except_on_the_null_device),
        cmocka_unit_test(an_event_passes_when_the_stream_comes_to_it),
        cmocka_unit_test(timed_events_tell_the_device_time_between_them),
        cmocka_unit_test(an_event_never_recorded_counts_as_passed),
        cmocka_unit_test(a_wait_means_the_latest_record_at_the_time_of_the_call),
        cmocka_unit_test(streams_wait_for_events_of_another_device),
        cmocka_unit_test(two_devices_exchange_numbers_ordered_by_events),
        cmocka_unit_test(buffers_are_reused_in_the_order_of_their_events),
        cmocka_unit_test(cancelling_the_device_ends_every_wait),
        cmocka_unit_test(cancelling_ends_waits_for_events_of_another_device),
        cmocka_unit_test(cancelling_ends_waits_of_other_devices_for_its_events),
        cmocka_unit_test(a_stream_whose_order_is_lost_ends_its_device),
        cmocka_unit_test(a_cancelled_device_takes_no_more_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
