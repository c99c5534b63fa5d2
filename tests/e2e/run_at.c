/* Run a program and do something to it when it enters a phase:
 *
 *     run_at [-o WHERE] [-e WHERE] [-i SIGNAL]... [-t SECONDS] [-w MS] PHASE ACTION[,ACTION]... COMMAND...
 *
 * WHERE its stdout and stderr go: "unread", a full pipe that nobody reads; "broken", a pipe whose reader is
 * gone; "terminal", a terminal of its own, where it is the foreground job of a shell that behaves as bash
 * does. Else where ours go. -i: it starts with this signal ignored; all others are as by default.
 * ACTIONs come MS (20) after the phase began and as long after each other: INT, TERM, HUP, USR1, QUIT,
 * KILL; close, the terminal is closed; stop, somebody types ^S there; wait. PHASE "never": no actions.
 *
 * When the program has ended one line says "code CODE ms MS phases PHASE...": its exit code or 128 and its
 * signal, how long it lived after the last action, and what it told. Exit code 0; 1 when it did not end
 * within SECONDS (20) and was killed; 99 when the test itself failed. No root, no network. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PHASES_BYTES 4096
#define ACTIONS_MAX 8

static const struct { const char *name; int number; } signals[] = {
    { "INT", SIGINT }, { "TERM", SIGTERM }, { "HUP", SIGHUP }, { "USR1", SIGUSR1 }, { "QUIT", SIGQUIT },
    { "KILL", SIGKILL },
};
#define SIGNAL_COUNT (sizeof(signals) / sizeof(signals[0]))

struct test {
    const char *where[2];               /* stdout, stderr */
    bool ignored[SIGNAL_COUNT];
    long limit_ms, pause_ms;
    const char *phase, *actions[ACTIONS_MAX + 1];
    char **command;
    int terminal, slave;                /* -1: none */
    int phases;                         /* where we read them */
    pid_t job;
    char told[PHASES_BYTES];
    size_t told_bytes;
};

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "run_at: %s: %s\n", what, strerror(errno));
    exit(99);
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static size_t find_signal(const char *name)
{
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        if (strcmp(signals[i].name, name) == 0)
            return i;
    errno = EINVAL;
    die(name);
}

/* A pipe without a reader; or without room, whose reader the program is itself, and does not know. */
static int make_pipe(bool is_broken)
{
    static const char filling[4096];
    int ends[2];
    if (pipe(ends) != 0)
        die("pipe");
    if (is_broken) {
        close(ends[0]);
        return ends[1];
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], filling, sizeof(filling)) > 0)
        continue;
    fcntl(ends[1], F_SETFL, 0);
    return ends[1];
}

static void place(const struct test *test, int fd)
{
    const char *const where = test->where[fd - STDOUT_FILENO];
    int end = -1;
    if (where == NULL)
        return;
    if (strcmp(where, "terminal") == 0)
        end = test->slave;
    else if (strcmp(where, "unread") == 0 || strcmp(where, "broken") == 0)
        end = make_pipe(strcmp(where, "broken") == 0);
    if (end < 0 || dup2(end, fd) < 0)
        die(where);
}

/* In the child that becomes the program. */
static _Noreturn void become_program(const struct test *test, int phases)
{
    char number[16];
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        signal(signals[i].number, test->ignored[i] ? SIG_IGN : SIG_DFL);
    place(test, STDOUT_FILENO);
    place(test, STDERR_FILENO);
    snprintf(number, sizeof(number), "%d", phases);
    setenv("PIPETRAIN_PHASES", number, 1);
    execvp(test->command[0], test->command);
    die(test->command[0]);
}

static volatile sig_atomic_t shell_job;

static void pass_on_and_end(int number)
{
    kill(-shell_job, number);
    _exit(0);
}

/* The shell of the terminal: its job is in the foreground, gets the signal that says the terminal is
 * gone from it, and once more from the kernel when the shell ends. */
static _Noreturn void become_shell(const struct test *test, int phases, int tell)
{
    close(test->terminal);
    setsid();
    if (ioctl(test->slave, TIOCSCTTY, 0) != 0)
        die("terminal");
    signal(SIGTTOU, SIG_IGN);
    const pid_t job = fork();
    if (job < 0)
        die("fork");
    setpgid(job, job);
    if (tcsetpgrp(test->slave, job == 0 ? getpid() : job) != 0)
        die("foreground");
    if (job == 0)
        become_program(test, phases);
    shell_job = job;
    signal(SIGHUP, pass_on_and_end);
    close(phases);
    if (write(tell, &job, sizeof(job)) != (ssize_t)sizeof(job))
        die("tell");
    for (;;)
        pause();
}

static void start(struct test *test)
{
    int phases[2], tell[2];
    if (pipe(phases) != 0 || pipe(tell) != 0)
        die("pipe");
    fcntl(phases[0], F_SETFD, FD_CLOEXEC);
    fcntl(tell[0], F_SETFD, FD_CLOEXEC);
    fcntl(tell[1], F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    test->job = fork();
    if (test->job < 0)
        die("fork");
    if (test->job == 0 && test->terminal >= 0)
        become_shell(test, phases[1], tell[1]);
    if (test->job == 0)
        become_program(test, phases[1]);
    close(phases[1]);
    test->phases = phases[0];
    close(tell[1]);
    if (test->terminal >= 0 && read(tell[0], &test->job, sizeof(test->job)) != (ssize_t)sizeof(test->job))
        die("the terminal's shell");
    if (test->slave >= 0)
        close(test->slave);
}

/* Whether the line of the phase has come. */
static bool has_entered(const struct test *test)
{
    char line[64];
    snprintf(line, sizeof(line), "\n%s\n", test->phase);
    return strstr(test->told, line) != NULL;
}

/* Read what the program tells, and what it prints to its terminal, until it enters the phase or ends.
 * False at the end, or when the time is up. */
static bool follow(struct test *test, bool until_phase, long due_ms)
{
    char text[4096];
    while (!until_phase || !has_entered(test)) {
        struct pollfd ends[2] = { { .fd = test->phases, .events = POLLIN },
                                  { .fd = test->terminal, .events = POLLIN } };
        const long left_ms = due_ms - now_ms();
        if (left_ms <= 0 || poll(ends, 2, (int)left_ms) < 0)
            return false;
        if ((ends[1].revents & POLLIN) != 0 && read(test->terminal, text, sizeof(text)) < 0)
            return false;
        if (ends[0].revents == 0)
            continue;
        const size_t room = sizeof(test->told) - 1 - test->told_bytes;
        const ssize_t bytes = read(test->phases, test->told + test->told_bytes, room);
        if (bytes <= 0)
            return false;
        test->told_bytes += (size_t)bytes;
    }
    return true;
}

static void act(struct test *test, const char *action)
{
    usleep((useconds_t)test->pause_ms * 1000);
    if (strcmp(action, "close") == 0) {
        close(test->terminal);
        test->terminal = -1;
    } else if (strcmp(action, "stop") == 0) {
        if (write(test->terminal, "\x13", 1) != 1)
            die("terminal");
    } else if (strcmp(action, "wait") != 0) {
        if (kill(test->job, signals[find_signal(action)].number) != 0 && errno != ESRCH)
            die(action);
    }
}

static void read_actions(struct test *test, char *text)
{
    size_t count = 0;
    for (char *action = strtok(text, ","); action != NULL && count < ACTIONS_MAX; action = strtok(NULL, ","))
        test->actions[count++] = action;
}

static void read_arguments(struct test *test, int argc, char **argv)
{
    int letter;
    while ((letter = getopt(argc, argv, "+o:e:i:t:w:")) != -1) {
        switch (letter) {
        case 'o': test->where[0] = optarg; break;
        case 'e': test->where[1] = optarg; break;
        case 'i': test->ignored[find_signal(optarg)] = true; break;
        case 't': test->limit_ms = atol(optarg) * 1000; break;
        case 'w': test->pause_ms = atol(optarg); break;
        default: exit(99);
        }
    }
    if (argc - optind < 3)
        exit(99);
    test->phase = argv[optind];
    read_actions(test, argv[optind + 1]);
    test->command = argv + optind + 2;
}

static void open_terminal(struct test *test)
{
    test->terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (test->terminal < 0 || grantpt(test->terminal) != 0 || unlockpt(test->terminal) != 0)
        die("no terminal");
    test->slave = open(ptsname(test->terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (test->slave < 0)
        die("no terminal");
}

static bool wants_terminal(const struct test *test)
{
    return (test->where[0] != NULL && strcmp(test->where[0], "terminal") == 0) ||
           (test->where[1] != NULL && strcmp(test->where[1], "terminal") == 0);
}

/* The job is the shell's child until that ends, with its terminal. */
static int await_job(const struct test *test, bool has_ended)
{
    int status = 0;
    pid_t ended;
    if (!has_ended)
        kill(test->job, SIGKILL);
    if (test->terminal >= 0)
        close(test->terminal);
    do
        ended = waitpid(-1, &status, 0);
    while (ended > 0 && ended != test->job);
    if (ended < 0)
        die("wait");
    return status;
}

static void report(const struct test *test, long ms, bool has_ended)
{
    const int status = await_job(test, has_ended);
    printf("code %d ms %ld phases", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ms);
    for (const char *at = test->told + 1; *at != '\0'; at++)
        fputc(at[-1] == '\n' ? ' ' : at[-1], stdout);
    printf("\n");
}

int main(int argc, char **argv)
{
    struct test test = { .limit_ms = 20000, .pause_ms = 20, .terminal = -1, .slave = -1 };
    test.told[test.told_bytes++] = '\n';
    read_arguments(&test, argc, argv);
    if (wants_terminal(&test))
        open_terminal(&test);
    start(&test);
    const long due_ms = now_ms() + test.limit_ms;
    if (strcmp(test.phase, "never") != 0 && follow(&test, true, due_ms))
        for (size_t i = 0; test.actions[i] != NULL; i++)
            act(&test, test.actions[i]);
    const long begun_ms = now_ms();
    follow(&test, false, due_ms);
    const bool has_ended = now_ms() < due_ms;
    report(&test, now_ms() - begun_ms, has_ended);
    return has_ended ? 0 : 1;
}
