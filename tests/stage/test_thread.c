/* Tests of named threads, and of a stream that gets none. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "stage/device.h"
#include "stage/log.h"
#include "stage/stop.h"
#include "stage/thread.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"

struct seen { char name[16]; int niceness, before, error; bool takes_signals, takes_mistakes; };

static void look(void *arg)
{
    struct seen *const seen = arg;
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    seen->takes_signals = !sigismember(&blocked, SIGTERM);
    seen->takes_mistakes = !sigismember(&blocked, SIGSEGV);
    pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    seen->before = getpriority(PRIO_PROCESS, 0);
    thread_lower_priority();
    errno = 0;
    seen->niceness = getpriority(PRIO_PROCESS, 0);
    seen->error = errno;
}

static struct seen seen_by(const char *name)
{
    struct seen seen = { 0 };
    struct thread *thread;
    assert_int_equal(thread_start(&thread, name, look, &seen), 0);
    thread_join(thread);
    return seen;
}

TEST(it_has_its_name_and_only_signals_of_its_own_mistakes)
{
    assert_string_equal(seen_by("decoder12").name, "decoder12");
    assert_string_equal(seen_by("a name of more than 15").name, "a name of more ");
    assert_false(seen_by("decoder12").takes_signals);
    assert_true(seen_by("decoder12").takes_mistakes);
}

TEST(it_alone_gives_way)
{
    const int own = getpriority(PRIO_PROCESS, 0), wanted = own + THREAD_NICENESS;
    for (int i = 0; i < 2; i++) {
        const struct seen seen = seen_by("decoder0");
        assert_int_equal(seen.error, 0);
        assert_int_equal(seen.before, own);
        assert_int_equal(seen.niceness, wanted < 19 ? wanted : 19);
    }
    assert_int_equal(getpriority(PRIO_PROCESS, 0), own);
}

static void take_message(void *arg, enum log_level level, const char *text)
{
    assert_int_equal(level, LOG_ERROR);
    strcat(arg, text);
}

static void fail_in_a_thread(void *arg)
{
    struct stop *const stop = arg;
    (void)stop_fail(stop, EXIT_CODE_DATA, "shard 3: checksum differs");
}

static void start_another(void *arg)
{
    struct thread *thread;
    assert_int_equal(thread_start(&thread, "second", fail_in_a_thread, arg), 0);
    thread_join(thread);
}

TEST(it_has_the_sink_of_the_thread_that_starts_it)
{
    char text[256] = "", captured[256];
    const struct log_sink sink = { take_message, text };
    struct thread *thread;
    struct capture capture;
    struct stop *stop;
    assert_int_equal(stop_open(&stop), 0);
    capture_begin(&capture);
    (void)log_sink_set(&sink);
    assert_int_equal(thread_start(&thread, "first", start_another, stop), 0);
    (void)log_sink_set(NULL);
    thread_join(thread);
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(text, "shard 3: checksum differs");
    assert_string_equal(stop_message(stop), text);
    assert_string_equal(captured, "");
    stop_close(stop);
}

static bool lacks_threads;
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
    return lacks_threads ? EAGAIN : __real_pthread_create(thread, attributes, run, arg);
}

TEST(a_stream_without_a_thread_is_not_opened)
{
    struct device *device;
    struct stream *stream = NULL;
    assert_int_equal(device_host_ops.open(&device, &(struct device_spec){ .index = 0 }), 0);
    lacks_threads = true;
    assert_int_equal(device_host_ops.stream_open(device, STREAM_COPY, "copy", &stream), -EAGAIN);
    lacks_threads = false;
    assert_null(stream);
    device_host_ops.close(device);
}

TESTS_MAIN(NULL, NULL)
