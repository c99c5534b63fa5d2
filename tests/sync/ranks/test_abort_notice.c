/* Tests of processes of one start that refuse: what one of them prints, and how long it waits for the others. */
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sync/ranks/abort_notice.h"
#include "sync/ranks/launcher.h"
#include "tests/helpers/test.h"

enum { CODE = 7, ABORTED = 1 };

/* Of the process that refuses: its second does not pass before the other end of this pipe is closed. */
static int second[2] = { -1, -1 };
static bool is_waiting;
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!is_waiting)
        return __real_clock_gettime(clock, now);
    char byte;
    *now = (struct timespec){ .tv_sec = read(second[0], &byte, 1) == 0 ? 9 : 1 };
    return 0;
}

/* In place of the launcher, which would end the other processes, the exit code says that it was asked to. */
void __wrap_launcher_abort(int code);
void __wrap_launcher_abort(int code)
{
    _exit(code == CODE ? ABORTED : 2);
}

static pid_t refuse(uint32_t processes)
{
    assert_int_equal(pipe2(second, O_NONBLOCK), 0);
    const pid_t process = fork();
    if (process != 0) {
        close(second[0]);
        return process;
    }
    close(second[1]);
    is_waiting = true;
    abort_notice_send(CODE, processes);
    _exit(0);
}

/* Ask until there is an answer. */
static void hear(void)
{
    int code = 0;
    while (code == 0)
        code = abort_notice_receive();
    assert_int_equal(code, CODE);
}

static void hear_elsewhere(void)
{
    const pid_t process = fork();
    if (process == 0) {
        hear();
        _exit(0);
    }
    assert_int_equal(waitpid(process, NULL, 0), process);
}

static int end_of(pid_t process)
{
    int status = 0;
    assert_int_equal(waitpid(process, &status, 0), process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_process_that_refuses_ends_when_each_other_one_has_heard_it)
{
    const pid_t process = refuse(3);
    hear();
    hear_elsewhere();
    assert_int_equal(end_of(process), 0);
    close(second[1]);
}

TEST(a_process_that_asks_again_is_not_taken_for_another_one)
{
    const pid_t process = refuse(3);
    hear();
    hear();
    close(second[1]);
    assert_int_equal(end_of(process), ABORTED);
}

TEST(a_second_process_that_refuses_counts_as_notified_and_ends_with_the_first)
{
    const pid_t first = refuse(3);
    hear();
    const pid_t other = refuse(3);
    assert_int_equal(end_of(first), 0);
    assert_int_equal(end_of(other), 0);
}

/* Where a launcher names its run, its processes may have any parent; else they have the same one. */
TEST(processes_of_one_run_hear_each_other)
{
    static const struct { const char *name; bool names_run; } rows[] = {
        { "PMIX_NAMESPACE", true }, { "SLURM_STEP_ID", true }, { "TORCHELASTIC_RUN_ID", true }, { "SLURM_JOB_ID", false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        clearenv();
        assert_int_equal(setenv(rows[i].name, "one", 1), 0);
        abort_notice_prepare();
        const pid_t process = refuse(0);
        hear();
        const pid_t child = fork();
        if (child == 0) {
            abort_notice_prepare();
            _exit(abort_notice_receive());
        }
        assert_int_equal(end_of(child), rows[i].names_run ? CODE : 0);
        assert_int_equal(setenv(rows[i].name, "another", 1), 0);
        abort_notice_prepare();
        assert_int_equal(abort_notice_receive(), 0);
        close(second[1]);
        assert_int_equal(end_of(process), 0);
    }
    abort_notice_prepare();
}

TEST(processes_of_an_unknown_number_are_notified_for_a_second_and_not_aborted)
{
    const pid_t process = refuse(0);
    hear();
    close(second[1]);
    assert_int_equal(end_of(process), 0);
}

TEST(nothing_is_heard_where_nobody_refuses)
{
    assert_int_equal(abort_notice_receive(), 0);
}

TEST(a_reason_is_first_once_while_its_process_lasts)
{
    assert_true(abort_notice_is_first("the first reason"));
    assert_false(abort_notice_is_first("the first reason"));
    assert_true(abort_notice_is_first("another reason"));
    assert_true(abort_notice_is_first("rank 3 of 16 is twice"));
    assert_false(abort_notice_is_first("rank 12 of 16 is twice"));
}

static int prepare(void **state)
{
    (void)state;
    abort_notice_prepare();
    return 0;
}

int main(void)
{
    alarm(60);
    return tests_run(prepare, NULL);
}
