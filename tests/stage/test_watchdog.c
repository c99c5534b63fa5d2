/* Tests of the watchdog: a thread that hangs in a call or a wait fails the run, one that waits for anything else does
 * not, nor does a process that was paused; and a process that cannot end is ended. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/text/output.h"
#include "stage/thread.h"
#include "stage/watchdog.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"

enum { DEADLINE_MS = 200, LONG_US = 4 * DEADLINE_MS * 1000, BEAT_US = 10000, STEPS = LONG_US / BEAT_US };

static struct stop *stop;
static struct watchdog *watchdog;
static struct heartbeat *first, *second;
static char messages[4096];

static int open_run(void **state)
{
    (void)state;
    if (stop_open(&stop) != 0 || watchdog_open(&watchdog, stop, DEADLINE_MS, 2) != 0)
        return -1;
    first = watchdog_name(watchdog, 0, "tower %u (%s)", 0, "gpu0");
    second = watchdog_name(watchdog, 1, "tower %u (%s)", 1, "gpu1");
    return 0;
}

static int close_run(void **state)
{
    (void)state;
    heartbeat_adopt(NULL);
    watchdog_close(watchdog);
    stop_close(stop);
    return 0;
}

TEST_WITH(a_thread_outside_of_marks_may_take_as_long_as_it_likes, open_run, close_run)
{
    heartbeat_adopt(first);
    heartbeat_at("step", 1);
    heartbeat_begin("call");
    heartbeat_end();
    usleep(LONG_US);
    assert_false(stop_failed(stop));
}

static atomic_uint polls;

static void count_poll(void *arg)
{
    assert_ptr_equal(arg, &polls);
    atomic_fetch_add(&polls, 1);
}

TEST_WITH(the_thread_also_polls_for_its_caller, open_run, close_run)
{
    watchdog_set_poll(watchdog, count_poll, &polls);
    while (atomic_load(&polls) < 3)
        usleep(BEAT_US);
    assert_false(stop_failed(stop));
}

TEST_WITH(many_short_calls_are_progress, open_run, close_run)
{
    heartbeat_adopt(first);
    for (uint32_t i = 0; i < STEPS; i++) {
        heartbeat_begin("call");
        usleep(BEAT_US);
        heartbeat_end();
    }
    assert_false(stop_failed(stop));
}

TEST_WITH(a_wait_that_beats_is_progress, open_run, close_run)
{
    heartbeat_adopt(first);
    heartbeat_begin_wait("waiting");
    for (uint32_t i = 0; i < STEPS; i++) {
        usleep(BEAT_US);
        heartbeat_beat();
    }
    heartbeat_end_wait();
    assert_false(stop_failed(stop));
}

TEST_WITH(waits_of_threads_that_ignore_them_are_not_watched, open_run, close_run)
{
    first->ignores_waits = true;
    heartbeat_adopt(first);
    heartbeat_begin_wait("waiting");
    for (uint32_t i = 0; i < STEPS; i++) {
        heartbeat_begin("question");
        heartbeat_end();
        usleep(BEAT_US);
    }
    heartbeat_end_wait();
    assert_false(stop_failed(stop));
    assert_int_equal(first->depth, 0);
}

/* The child of a test whose watchdog is to fail the run: it does not return. */
static _Noreturn void leave(void)
{
    const enum exit_code code = stop_code(stop);
    heartbeat_adopt(NULL);
    watchdog_close(watchdog);
    stop_close(stop);
    exit(code);
}

/* Run `body` in a child process, because a watchdog that has failed a run ends its process. Returns the exit code. */
static int run_apart(void (*body)(void))
{
    struct capture capture;
    int status;
    capture_begin(&capture);
    const pid_t child = fork();
    if (child == 0) {
        if (open_run(NULL) != 0)
            _exit(99);
        body();
        leave();
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    capture_end(&capture, messages, sizeof(messages));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_said(const char *text)
{
    if (strstr(messages, text) == NULL)
        fail_msg("no \"%s\" in: %s", text, messages);
}

static void await_failure(void)
{
    for (uint32_t i = 0; i < 1000 && !stop_failed(stop); i++)
        usleep(BEAT_US);
}

static void stay_in_a_call(void)
{
    heartbeat_adopt(second);
    heartbeat_at("step", 345);
    heartbeat_begin("cudaLaunch(kernel, arguments)");
    await_failure();
    heartbeat_end();
}

TEST(a_call_that_does_not_return_fails_the_run)
{
    assert_int_equal(run_apart(stay_in_a_call), EXIT_CODE_STALL);
    assert_said("pipetrain: tower 1 (gpu1): no progress for 0.2 s (sync.deadline) in step 345: cudaLaunch; "
                "the run ends\n");
}

static void ask_without_end(void)
{
    heartbeat_adopt(first);
    heartbeat_at("planning", HEARTBEAT_NO_NUMBER);
    heartbeat_begin_wait("waiting for an event");
    heartbeat_begin("cudaEventQuery(event)");
    while (!stop_failed(stop)) {
        heartbeat_end();
        heartbeat_begin("cudaEventQuery(event)");
        usleep(BEAT_US);
    }
    heartbeat_end();
    heartbeat_end_wait();
}

TEST(questions_within_a_wait_are_no_progress)
{
    assert_int_equal(run_apart(ask_without_end), EXIT_CODE_STALL);
    assert_said("tower 0 (gpu0): no progress for 0.2 s (sync.deadline) while planning: waiting for an event");
}

static void compute(uint64_t ms, uint64_t least_ms)
{
    heartbeat_begin_work("computing a layer", "conv1", least_ms);
    usleep((useconds_t)ms * 1000);
    heartbeat_end();
}

TEST_WITH(a_layer_may_take_many_times_as_long_as_the_longest_before, open_run, close_run)
{
    first->factor = 20;
    heartbeat_adopt(first);
    for (int i = 0; i < 5; i++)             /* a watchdog on a busy machine may miss one */
        compute(DEADLINE_MS * 3 / 4, 0);
    compute(DEADLINE_MS * 4, 0);
    assert_false(stop_failed(stop));
}

/* Looks on command, so that a mark lasts an exact number of them. */
static atomic_bool are_looks_ours;
static sem_t look_due, look_done;

int __real_pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
int __wrap_pthread_cond_timedwait(pthread_cond_t *changed, pthread_mutex_t *lock, const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *changed, pthread_mutex_t *lock, const struct timespec *until)
{
    if (!atomic_load(&are_looks_ours))
        return __real_pthread_cond_timedwait(changed, lock, until);
    pthread_mutex_unlock(lock);
    sem_post(&look_done);
    sem_wait(&look_due);
    pthread_mutex_lock(lock);
    return ETIMEDOUT;
}

static int open_run_of_our_looks(void **state)
{
    sem_init(&look_due, 0, 0);
    sem_init(&look_done, 0, 0);
    atomic_store(&are_looks_ours, true);
    if (open_run(state) != 0)
        return -1;
    sem_wait(&look_done);
    return 0;
}

static int close_run_of_our_looks(void **state)
{
    atomic_store(&are_looks_ours, false);
    sem_post(&look_due);
    return close_run(state);
}

static void look(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++) {
        sem_post(&look_due);
        sem_wait(&look_done);
    }
}

/* Work that the watchdog sees begin, sees unchanged in `looks` more looks, and then sees ended. */
static void last(uint32_t looks)
{
    heartbeat_begin_work("computing a layer", "conv1", 0);
    look(1 + looks);
    heartbeat_end();
    look(1);
}

/* Work that was seen in n looks may have taken almost one look longer. */
TEST_WITH(each_longer_mark_gives_the_next_one_more_time, open_run_of_our_looks, close_run_of_our_looks)
{
    enum { FACTOR = 4, LONGEST = 6 };
    first->factor = FACTOR;
    heartbeat_adopt(first);
    for (uint32_t looks = 1; looks <= LONGEST; looks++)
        last(looks);
    last(1);
    last(FACTOR * (LONGEST + 1) - 1);
    assert_false(stop_failed(stop));
}

TEST_WITH(a_layer_may_take_what_it_needs_at_first, open_run, close_run)
{
    first->factor = 20;
    heartbeat_adopt(first);
    compute(DEADLINE_MS * 4, DEADLINE_MS * 8);
    assert_false(stop_failed(stop));
}

TEST_WITH(many_layers_of_a_step_may_take_longer_than_the_deadline, open_run, close_run)
{
    first->factor = 20;
    heartbeat_adopt(first);
    for (uint32_t i = 0; i < 12; i++)
        compute(DEADLINE_MS / 4, 0);
    assert_false(stop_failed(stop));
}

static void compute_for_ever(void)
{
    first->factor = 20;
    heartbeat_adopt(first);
    heartbeat_at("step", 5);
    compute(1, 0);
    heartbeat_begin_work("computing a layer", "conv1", 0);
    await_failure();
    heartbeat_end();
}

TEST(a_layer_that_never_ends_fails_the_run)
{
    assert_int_equal(run_apart(compute_for_ever), EXIT_CODE_STALL);
    assert_said("tower 0 (gpu0): no progress for 0.2 s (sync.deadline) in step 5: computing a layer (conv1); the run "
                "ends\n");
}

static void hang(void)
{
    heartbeat_adopt(first);
    heartbeat_at("step", 3);
    heartbeat_begin("cudaMalloc");
    for (;;)
        pause();
}

TEST(a_process_that_cannot_end_is_ended)
{
    assert_int_equal(run_apart(hang), EXIT_CODE_STALL);
    assert_said("tower 0 (gpu0): no progress for 0.2 s (sync.deadline) in step 3: cudaMalloc; the run ends\n");
    assert_said("tower 0 (gpu0) still hangs in step 3: cudaMalloc; the process ends here\n");
}

static void fail_and_hang(void)
{
    stop_fail(stop, EXIT_CODE_DEVICE, "the device failed");
    hang();
}

TEST(a_run_that_failed_before_keeps_its_exit_code)
{
    assert_int_equal(run_apart(fail_and_hang), EXIT_CODE_DEVICE);
    assert_said("still hangs in step 3: cudaMalloc");
}

static _Noreturn void never_exit(void)
{
    heartbeat_adopt(NULL);
    watchdog_close(watchdog);
    stop_close(stop);
    output_end();
    for (;;)
        pause();
}

static void stall_and_never_exit(void)
{
    if (output_start() != 0)
        _exit(99);
    stay_in_a_call();
    never_exit();
}

TEST(a_process_that_hangs_in_its_clean_up_is_ended)
{
    assert_int_equal(run_apart(stall_and_never_exit), EXIT_CODE_STALL);
    assert_said("the process still hangs");
}

/* As when a stream does not end: its library may wait for it. */
static void leave_work_behind(void)
{
    if (output_start() != 0)
        _exit(99);
    atomic_store(&heartbeat_abandoned_work, true);
    stop_fail(stop, EXIT_CODE_DATA, "a record is damaged");
    never_exit();
}

TEST(so_is_one_of_a_run_that_failed_and_left_work_undone)
{
    assert_int_equal(run_apart(leave_work_behind), EXIT_CODE_DATA);
    assert_said("the process still hangs");
}

static void hang_both(void *arg)
{
    heartbeat_adopt(arg);
    heartbeat_at("step", 7);
    heartbeat_begin_wait("waiting for its results");
    await_failure();
    heartbeat_end_wait();
}

static void hang_twice(void)
{
    struct thread *threads[2];
    struct heartbeat *const heartbeats[] = { first, second };
    for (uint32_t i = 0; i < 2; i++)
        if (thread_start(&threads[i], "tower", hang_both, heartbeats[i]) != 0)
            _exit(99);
    for (uint32_t i = 0; i < 2; i++)
        thread_join(threads[i]);
}

TEST(all_that_hang_are_named_in_one_message)
{
    assert_int_equal(run_apart(hang_twice), EXIT_CODE_STALL);
    *strchr(messages, '\n') = '\0';
    assert_said("tower 0 (gpu0)");
    assert_said("tower 1 (gpu1)");
}

/* The clock has run on for longer than the deadline, and the thread is in one call all the time. */
TEST(a_paused_process_is_not_late)
{
    int status;
    const pid_t child = fork();
    if (child == 0) {
        if (open_run(NULL) != 0)
            _exit(99);
        heartbeat_adopt(first);
        heartbeat_begin("cudaMalloc");
        raise(SIGSTOP);
        usleep(DEADLINE_MS * 1000 / 4);
        _exit(stop_failed(stop) ? 1 : 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        if (!WIFSTOPPED(status))
            break;
        usleep(LONG_US);
        kill(child, SIGCONT);
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(threads_without_a_heartbeat_mark_nothing)
{
    assert_null(heartbeat_adopt(NULL));
    heartbeat_at("step", 1);
    heartbeat_begin("call");
    assert_int_equal(HEARTBEAT_CALL("call", -7), -7);
    heartbeat_beat();
    heartbeat_end();
}

int main(void)
{
    alarm(60);
    return tests_run(NULL, NULL);
}
