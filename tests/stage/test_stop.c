/* Tests of how a run ends: the first error wins and every wait ends. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stage/queue.h"
#include "stage/stop.h"
#include "stage/thread.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"

static char captured[65536];

TEST(a_new_run_has_not_failed)
{
    struct stop *stop;
    assert_int_equal(stop_open(&stop), 0);
    assert_false(stop_failed(stop));
    assert_int_equal(stop_code(stop), EXIT_CODE_OK);
    assert_string_equal(stop_message(stop), "");
    stop_close(stop);
    stop_close(NULL);
}

TEST(what_the_system_has_no_more_of_has_a_code_of_its_own)
{
    assert_int_equal(exit_code_of(-ENOMEM, EXIT_CODE_DEVICE), EXIT_CODE_MEMORY);
    assert_int_equal(exit_code_of(-EAGAIN, EXIT_CODE_INTERNAL), EXIT_CODE_MEMORY);
    assert_int_equal(exit_code_of(-EMFILE, EXIT_CODE_DATA), EXIT_CODE_MEMORY);
    assert_int_equal(exit_code_of(-EIO, EXIT_CODE_DEVICE), EXIT_CODE_DEVICE);
    assert_non_null(strstr(exit_cause(-EAGAIN), "a thread could not be started: "));
    assert_non_null(strstr(exit_cause(-EAGAIN), "pids.max"));
    assert_string_equal(exit_cause(-EMFILE), "Too many open files (see ulimit -n)");
    assert_string_equal(exit_cause(-EIO), strerror(EIO));
}

TEST(the_first_error_wins_and_is_printed_once)
{
    struct stop *stop;
    struct capture capture;
    assert_int_equal(stop_open(&stop), 0);
    capture_begin(&capture);
    const int first = stop_fail(stop, EXIT_CODE_DATA, "shard %d: cut", 5);
    const int second = stop_fail(stop, EXIT_CODE_MEMORY, "consequence");
    capture_end(&capture, captured, sizeof(captured));
    assert_int_equal(first, -ECANCELED);
    assert_int_equal(second, -ECANCELED);
    assert_true(stop_failed(stop));
    assert_int_equal(stop_code(stop), EXIT_CODE_DATA);
    assert_string_equal(stop_message(stop), "shard 5: cut");
    assert_string_equal(captured, "pipetrain: shard 5: cut\n");
    stop_close(stop);
}

struct closer_log {
    char order[32];
    size_t count;
};
struct named_closer {
    struct closer_log *log;
    char name;
};

static void closer_note(void *arg)
{
    struct named_closer *closer = arg;
    closer->log->order[closer->log->count++] = closer->name;
}

TEST(runs_every_closer_once_in_the_order_of_registration)
{
    struct stop *stop;
    struct closer_log log = { { 0 }, 0 };
    struct named_closer closers[20];
    struct capture capture;
    assert_int_equal(stop_open(&stop), 0);
    for (size_t i = 0; i < 20; i++) {
        closers[i] = (struct named_closer){ &log, (char)('a' + i) };
        assert_int_equal(stop_on_failure(stop, closer_note, &closers[i]), 0);
    }
    assert_int_equal(log.count, 0);
    capture_begin(&capture);
    stop_fail(stop, EXIT_CODE_INTERNAL, "one");
    stop_fail(stop, EXIT_CODE_INTERNAL, "two");
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(log.order, "abcdefghijklmnopqrst");
    stop_close(stop);
}

TEST(what_is_registered_after_the_failure_is_closed_at_once)
{
    struct stop *stop;
    struct closer_log log = { { 0 }, 0 };
    struct named_closer late = { &log, 'x' };
    struct capture capture;
    assert_int_equal(stop_open(&stop), 0);
    capture_begin(&capture);
    stop_fail(stop, EXIT_CODE_INTERNAL, "early");
    capture_end(&capture, captured, sizeof(captured));
    assert_int_equal(stop_on_failure(stop, closer_note, &late), 0);
    assert_string_equal(log.order, "x");
    stop_close(stop);
}

TEST(closers_that_were_forgotten_are_not_called)
{
    struct stop *stop;
    struct closer_log log = { { 0 }, 0 };
    struct named_closer before = { &log, 'b' }, after = { &log, 'a' };
    struct capture capture;
    assert_int_equal(stop_open(&stop), 0);
    assert_int_equal(stop_on_failure(stop, closer_note, &before), 0);
    stop_forget(stop);
    assert_int_equal(stop_on_failure(stop, closer_note, &after), 0);
    capture_begin(&capture);
    stop_fail(stop, EXIT_CODE_OUTPUT, "disk full");
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(log.order, "a");
    assert_string_equal(captured, "pipetrain: disk full\n");
    stop_close(stop);
}

TEST(closers_of_what_is_withdrawn_are_not_called)
{
    struct stop *stop;
    struct closer_log log = { { 0 }, 0 };
    struct named_closer stays = { &log, 's' }, goes = { &log, 'g' };
    struct capture capture;
    assert_int_equal(stop_open(&stop), 0);
    assert_int_equal(stop_on_failure(stop, closer_note, &goes), 0);
    assert_int_equal(stop_on_failure(stop, closer_note, &stays), 0);
    assert_int_equal(stop_on_failure(stop, closer_note, &goes), 0);
    stop_withdraw(stop, &goes);
    capture_begin(&capture);
    stop_fail(stop, EXIT_CODE_OUTPUT, "disk full");
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(log.order, "s");
    stop_withdraw(stop, &stays);
    stop_close(stop);
}

struct slow_failure {
    struct stop *stop;
    atomic_bool has_begun, has_ended;
};

static void closer_slow(void *arg)
{
    struct slow_failure *failure = arg;
    failure->has_begun = true;
    usleep(20000);
    failure->has_ended = true;
}

static void fail_slowly(void *arg)
{
    struct slow_failure *failure = arg;
    stop_fail(failure->stop, EXIT_CODE_INTERNAL, "slow");
}

/* What is released next must not be in the hands of a closer. */
TEST(withdrawing_waits_for_closers_that_run)
{
    for (int round = 0; round < 2; round++) {
        struct slow_failure failure = { .stop = NULL };
        struct closer_log log = { { 0 }, 0 };
        struct named_closer last = { &log, 'l' };
        struct capture capture;
        struct thread *thread;
        assert_int_equal(stop_open(&failure.stop), 0);
        assert_int_equal(stop_on_failure(failure.stop, closer_slow, &failure), 0);
        assert_int_equal(stop_on_failure(failure.stop, closer_note, &last), 0);
        capture_begin(&capture);
        assert_int_equal(thread_start(&thread, "failer", fail_slowly, &failure), 0);
        while (!failure.has_begun)
            usleep(100);
        if (round == 0)
            stop_withdraw(failure.stop, &last);
        else
            stop_forget(failure.stop);
        const bool has_ended = failure.has_ended;
        thread_join(thread);
        capture_end(&capture, captured, sizeof(captured));
        assert_true(has_ended);
        assert_string_equal(log.order, "l");
        stop_close(failure.stop);
    }
}

enum { FAILERS = 4 };

struct failer {
    struct stop *stop;
    int number;
    atomic_int *ready;
    int result;
};

static void fail_loop(void *arg)
{
    struct failer *failer = arg;
    atomic_fetch_add(failer->ready, 1);
    while (atomic_load(failer->ready) < FAILERS)
        ;
    failer->result = stop_fail(failer->stop, (enum exit_code)(failer->number + 1), "thread %d", failer->number);
}

TEST(of_errors_at_the_same_time_exactly_one_wins)
{
    for (int round = 0; round < 20; round++) {
        struct stop *stop;
        struct closer_log log = { { 0 }, 0 };
        struct named_closer closer = { &log, 'c' };
        struct failer failers[FAILERS];
        struct thread *threads[FAILERS];
        atomic_int ready = 0;
        struct capture capture;
        assert_int_equal(stop_open(&stop), 0);
        assert_int_equal(stop_on_failure(stop, closer_note, &closer), 0);
        capture_begin(&capture);
        for (int i = 0; i < FAILERS; i++) {
            failers[i] = (struct failer){ stop, i, &ready, 0 };
            assert_int_equal(thread_start(&threads[i], "failer", fail_loop, &failers[i]), 0);
        }
        for (int i = 0; i < FAILERS; i++)
            thread_join(threads[i]);
        capture_end(&capture, captured, sizeof(captured));

        char expected[64];
        snprintf(expected, sizeof(expected), "pipetrain: thread %d\n", (int)stop_code(stop) - 1);
        assert_string_equal(captured, expected);
        snprintf(expected, sizeof(expected), "thread %d", (int)stop_code(stop) - 1);
        assert_string_equal(stop_message(stop), expected);
        assert_string_equal(log.order, "c");
        for (int i = 0; i < FAILERS; i++)
            assert_int_equal(failers[i].result, -ECANCELED);
        stop_close(stop);
    }
}

struct getter {
    struct queue *queue;
    int result;
};

static void get_loop(void *arg)
{
    struct getter *getter = arg;
    void *item;
    getter->result = queue_get(getter->queue, &item);
}

TEST(a_failure_ends_a_thread_that_waits_in_a_queue)
{
    struct stop *stop;
    struct getter getter = { NULL, 0 };
    struct thread *thread;
    struct capture capture;
    assert_int_equal(stop_open(&stop), 0);
    assert_int_equal(queue_open(&getter.queue, 1), 0);
    assert_int_equal(stop_on_failure(stop, queue_cancel, getter.queue), 0);
    assert_int_equal(thread_start(&thread, "getter", get_loop, &getter), 0);
    usleep(2000);
    capture_begin(&capture);
    stop_fail(stop, EXIT_CODE_INTERNAL, "end");
    thread_join(thread);
    capture_end(&capture, captured, sizeof(captured));
    assert_int_equal(getter.result, -ECANCELED);
    queue_close(getter.queue);
    stop_close(stop);
}

TEST(a_message_longer_than_its_room_is_kept_cut)
{
    static char text[9000];
    memset(text, 'y', sizeof(text) - 1);
    struct stop *stop;
    struct capture capture;
    assert_int_equal(stop_open(&stop), 0);
    capture_begin(&capture);
    stop_fail(stop, EXIT_CODE_DATA, "%s", text);
    capture_end(&capture, captured, sizeof(captured));
    const size_t length = strlen(stop_message(stop));
    assert_true(length > 1000 && length < sizeof(text));
    assert_memory_equal(stop_message(stop), text, length);
    stop_close(stop);
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
