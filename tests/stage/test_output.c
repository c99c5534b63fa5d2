/* Tests of output that nobody may wait for. Each plays a whole program, from output_start to
 * output_end, in a process of its own whose stdout and stderr are pipes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/log.h"
#include "stage/text/output.h"
#include "stage/thread.h"
#include "tests/helpers/test.h"

#define LINE_COUNT 20000
#define THREAD_COUNT 4
#define NS_PER_MS 1000000u
#define END_MS 2000u            /* what output_end gives to others */
#define LIMIT_SECONDS 120u

/* What a program said, and what became of it. */
static char said[2][4u << 20];
static int status;

static void read_rest(int fd, char *text, size_t room)
{
    size_t bytes = 0;
    ssize_t more;
    while ((more = read(fd, text + bytes, room - 1 - bytes)) > 0)
        bytes += (size_t)more;
    text[bytes] = '\0';
    close(fd);
}

/* Run `program` to its end with its results and messages in pipes of their own, which are read only when
 * it has ended. It calls exit with what it finds, or waits for somebody and is killed. */
static void play(void (*program)(void))
{
    int pipes[2][2];
    assert_int_equal(pipe(pipes[0]), 0);
    assert_int_equal(pipe(pipes[1]), 0);
    fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipes[0][1], STDOUT_FILENO);
        dup2(pipes[1][1], STDERR_FILENO);
        alarm(LIMIT_SECONDS);
        program();
        _exit(98);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    for (int i = 0; i < 2; i++) {
        close(pipes[i][1]);
        read_rest(pipes[i][0], said[i], sizeof(said[i]));
    }
}

static void expect_exit(int code)
{
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void say_a_little(void)
{
    if (output_start() != 0)
        exit(99);
    printf("a table\n");
    log_message(LOG_ERROR, "a message");
    printf("its row %d", 1);
    printf(" goes on\n");
    output_write(OUTPUT_MESSAGES, "\rprogress", 9);
    exit(-output_end());
}

TEST(what_is_said_arrives_before_the_end)
{
    play(say_a_little);
    expect_exit(0);
    assert_string_equal(said[0], "a table\nits row 1 goes on\n");
    assert_string_equal(said[1], "pipetrain: a message\n\rprogress");
}

static FILE *kept;
static void *others[64];

static void flush_kept(void)
{
    if (fflush(kept) != 0 || fputs("late\n", kept) == EOF || fflush(kept) != 0)
        _exit(96);
}

/* A library keeps the stdout it has found and flushes it behind main's end, as cuBLASLt does. Meanwhile memory that was
 * given back is somebody else's. */
static void keep_stdout(void)
{
    if (output_start() != 0)
        exit(99);
    kept = stdout;
    atexit(flush_kept);
    printf("a table\n");
    const int rc = output_end();
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        others[i] = malloc((i + 1) * 16);
        if (others[i] != NULL)
            memset(others[i], 0xa5, (i + 1) * 16);
    }
    printf("plain\n");
    exit(-rc);
}

TEST(a_library_may_keep_stdout)
{
    play(keep_stdout);
    expect_exit(0);
    assert_string_equal(said[0], "a table\nlate\nplain\n");
    assert_string_equal(said[1], "");
}

static void say_nothing(void)
{
    if (output_start() != 0)
        exit(99);
    const uint64_t begun_ns = clock_now_ns();
    const int rc = output_end();
    const bool is_late = clock_now_ns() - begun_ns >= END_MS * (uint64_t)NS_PER_MS;
    exit(is_late && test_is_long() ? 97 : -rc);
}

TEST(a_program_that_says_nothing_ends_at_once)
{
    play(say_nothing);
    expect_exit(0);
}

static void say_in_turn(void)
{
    dup2(STDOUT_FILENO, STDERR_FILENO);
    if (output_start() != 0)
        exit(99);
    for (int i = 0; i < 500; i++) {
        printf("row %d\n", i);
        log_message(LOG_RUN, "message %d", i);
    }
    exit(-output_end());
}

TEST(one_file_for_both_keeps_their_order)
{
    play(say_in_turn);
    expect_exit(0);
    const char *at = said[0];
    for (int i = 0; i < 500; i++) {
        char expected[64];
        const int bytes = snprintf(expected, sizeof(expected), "row %d\nmessage %d\n", i, i);
        assert_memory_equal(at, expected, (size_t)bytes);
        at += bytes;
    }
    assert_int_equal(*at, '\0');
}

/* More than the pipe and the buffer hold. */
static void say_too_many_messages(void)
{
    if (output_start() != 0)
        exit(99);
    for (int i = 0; i < LINE_COUNT; i++)
        log_message(LOG_RUN, "message %d of many that nobody reads while they are made", i);
    exit(-output_end());
}

TEST(messages_that_nobody_reads_hold_nothing_up)
{
    play(say_too_many_messages);
    expect_exit(0);
    assert_memory_equal(said[1], "message 0 of many", 17);
}

static void say_too_many_results(void)
{
    if (output_start() != 0)
        exit(99);
    for (int i = 0; i < LINE_COUNT; i++)
        printf("row %d of many that nobody reads while they are made\n", i);
    exit(-output_end());
}

TEST(results_that_nobody_reads_are_an_error)
{
    play(say_too_many_results);
    expect_exit(ETIMEDOUT);
    assert_string_equal(said[1], "pipetrain: standard output: not all could be written: nobody reads it\n");
}

/* Whether the messages are all there in their order, or said to be missing where they are, and the last one
 * is behind them. */
static bool tells_what_is_missing(const char *text)
{
    int next = 0, missing = 0, number;
    for (; *text != '\0' && strcmp(text, "the last message\n") != 0; text = strchr(text, '\n') + 1) {
        if (sscanf(text, "message %d of many that nobody reads", &number) == 1 && number == next)
            next++;
        else if (sscanf(text, "... %d line", &number) == 1 && strstr(text, " dropped: nobody read them\n") != NULL)
            next += number, missing += number;
        else
            return false;
    }
    return *text != '\0' && next == LINE_COUNT && missing > LINE_COUNT / 2;
}

static struct { int fd; size_t bytes; char text[4u << 20]; } late;

static void read_to_the_last(void *arg)
{
    (void)arg;
    while (strstr(late.text + (late.bytes < 20 ? 0 : late.bytes - 20), "the last message\n") == NULL) {
        const ssize_t more = read(late.fd, late.text + late.bytes, sizeof(late.text) - 1 - late.bytes);
        if (more <= 0)
            return;
        late.bytes += (size_t)more;
    }
}

/* Fill all there is, then read what went into this program's own stderr. */
static _Noreturn void read_late(int flags)
{
    int ends[2];
    struct thread *reader;
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETFL, flags) != 0 || dup2(ends[1], STDERR_FILENO) < 0 ||
        output_start() != 0)
        exit(99);
    for (int i = 0; i < LINE_COUNT; i++)
        log_message(LOG_RUN, "message %d of many that nobody reads while they are made", i);
    late.fd = ends[0];
    if (thread_start(&reader, "reader", read_to_the_last, NULL) != 0)
        exit(99);
    output_flush(LIMIT_SECONDS * 1000);         /* else there may be no room for the last one, too */
    log_message(LOG_RUN, "the last message");
    thread_join(reader);
    exit(tells_what_is_missing(late.text) ? -output_end() : 1);
}

static void read_a_pipe_late(void)
{
    read_late(0);
}

static void read_a_pipe_late_that_others_do_not_wait_for(void)
{
    read_late(O_NONBLOCK);
}

TEST(what_was_dropped_is_counted_in_its_place)
{
    play(read_a_pipe_late);
    expect_exit(0);
    play(read_a_pipe_late_that_others_do_not_wait_for);
    expect_exit(0);
}

static void say_from_a_thread(void *arg)
{
    for (int i = 0; i < 500; i++)
        log_message(LOG_RUN, "thread %d line %d", *(const int *)arg, i);
}

static void say_from_threads(void)
{
    static const int numbers[THREAD_COUNT] = { 0, 1, 2, 3 };
    struct thread *threads[THREAD_COUNT];
    if (output_start() != 0)
        exit(99);
    for (int i = 0; i < THREAD_COUNT; i++)
        if (thread_start(&threads[i], "talker", say_from_a_thread, (void *)(uintptr_t)&numbers[i]) != 0)
            exit(99);
    for (int i = 0; i < THREAD_COUNT; i++)
        thread_join(threads[i]);
    exit(-output_end());
}

TEST(lines_of_threads_never_mix_and_keep_their_order)
{
    int next[THREAD_COUNT] = { 0 }, lines = 0;
    play(say_from_threads);
    expect_exit(0);
    for (const char *line = said[1]; *line != '\0'; line = strchr(line, '\n') + 1, lines++) {
        int number, at, bytes = 0;
        assert_int_equal(sscanf(line, "thread %d line %d%n", &number, &at, &bytes), 2);
        assert_int_equal(line[bytes], '\n');
        assert_int_equal(at, next[number]++);
    }
    assert_int_equal(lines, THREAD_COUNT * 500);
}

static void say_to_a_full_disk(void)
{
    const int full = open("/dev/full", O_WRONLY);
    if (full < 0 || dup2(full, STDOUT_FILENO) < 0 || output_start() != 0)
        exit(99);
    printf("a row\n");
    exit(-output_end());
}

TEST(a_full_disk_is_named)
{
    if (access("/dev/full", W_OK) != 0)
        skip();
    play(say_to_a_full_disk);
    expect_exit(ENOSPC);
    assert_string_equal(said[1], "pipetrain: standard output: not all could be written: No space left on device\n");
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return tests_run(NULL, NULL);
}
