/* Processes under test. Called by the driver's processes, each with one child at a time. */
#include "tests/torture/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stage/clock.h"
#include "tests/torture/board.h"

#define CANNOT_START 126

/* ---- in the child, which exits on any failure ---- */

static void move_to(int fd, int wanted)
{
    if (fd < 0 || dup2(fd, wanted) < 0)
        _exit(CANNOT_START);
    close(fd);
}

static void lead_to(const struct child *child, enum outlet outlet, const char *file, int fd)
{
    switch (outlet) {
    case OUTLET_FILE: move_to(open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666), fd); break;
    case OUTLET_CLOSED: close(fd); break;
    case OUTLET_FULL: move_to(open("/dev/full", O_WRONLY), fd); break;
    case OUTLET_UNREAD: move_to(dup(child->unread[1]), fd); break;
    case OUTLET_TERMINAL:
    case OUTLET_COUNT: break;       /* forkpty has done it */
    }
}

static void set_limits(const struct child_spec *spec)
{
    const struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    if (spec->limit == NULL)
        return;
    const struct rlimit limit = { spec->limit->value, spec->limit->value };
    if (setrlimit(spec->limit->resource, &limit) != 0)
        _exit(CANNOT_START);
}

static void set_environment(const struct child_spec *spec, int phases)
{
    char text[16];
    setenv("XDG_CACHE_HOME", "cache", 1);
    if (phases >= 0) {
        snprintf(text, sizeof(text), "%d", phases);
        setenv("PIPETRAIN_PHASES", text, 1);
    }
    if (spec->faults == NULL)
        return;
    setenv("LD_PRELOAD", spec->faults, 1);
    setenv(BOARD_VARIABLE, spec->board, 1);
}

/* The driver may itself ignore or block signals, for example under nohup. */
static void reset_signals(int ignored)
{
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        (void)signal(number, number == ignored ? SIG_IGN : SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become(const struct child *child, const struct child_spec *spec, int phases)
{
    if (chdir(spec->folder) != 0)
        _exit(CANNOT_START);
    const int nothing = open("/dev/null", O_RDONLY);
    if (spec->out != OUTLET_TERMINAL)
        move_to(nothing, STDIN_FILENO);
    lead_to(child, spec->out, "out", STDOUT_FILENO);
    lead_to(child, spec->err, "err", STDERR_FILENO);
    reset_signals(spec->ignored_signal);
    if (spec->group != NULL && group_join(spec->group) != 0)
        _exit(CANNOT_START);
    set_environment(spec, phases);
    set_limits(spec);
    execv(spec->argv[0], spec->argv);
    _exit(CANNOT_START);
}

/* ---- in the driver ---- */

/* Make a full pipe. */
static int fill_pipe(int ends[2])
{
    static const char bytes[4096];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        continue;
    fcntl(ends[1], F_SETFL, 0);
    return 0;
}

int child_start(struct child *child, const struct child_spec *spec)
{
    int phases[2] = { -1, -1 };
    *child = (struct child){ .pidfd = -1, .phases = -1, .terminal = -1, .unread = { -1, -1 } };
    if ((spec->out == OUTLET_UNREAD || spec->err == OUTLET_UNREAD) && fill_pipe(child->unread) != 0)
        return -errno;
    if (spec->wants_phases && pipe(phases) != 0)
        return -errno;
    child->pid = spec->out == OUTLET_TERMINAL ? forkpty(&child->terminal, NULL, NULL, NULL) : fork();
    if (child->pid < 0)
        return -errno;
    if (child->pid == 0)
        become(child, spec, phases[1]);
    if (phases[1] >= 0)
        close(phases[1]);
    child->phases = phases[0];
    child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    return child->pidfd < 0 ? -errno : 0;
}

/* Wait until a descriptor is readable, until `until_ns` at most. Returns whether it is. */
static bool await(int fd, uint64_t until_ns)
{
    struct pollfd one = { .fd = fd, .events = POLLIN };
    const uint64_t now_ns = clock_now_ns(), left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    const struct timespec left = { (time_t)(left_ns / 1000000000), (long)(left_ns % 1000000000) };
    return ppoll(&one, 1, &left, NULL) > 0;
}

/* Read what the process writes to its terminal, so that it does not block. */
static void drain(int terminal)
{
    char shown[4096];
    while (terminal >= 0 && await(terminal, 0) && read(terminal, shown, sizeof(shown)) > 0)
        continue;
}

bool child_wait(const struct child *child, uint64_t wait_us)
{
    const uint64_t until_ns = clock_now_ns() + wait_us * 1000;
    bool has_ended;
    do {
        const uint64_t glance_ns = clock_now_ns() + 20000000;
        drain(child->terminal);
        has_ended = await(child->pidfd, child->terminal >= 0 && glance_ns < until_ns ? glance_ns : until_ns);
    } while (!has_ended && clock_now_ns() < until_ns);
    return has_ended;
}

bool child_await_phase(const struct child *child, const char *phase, uint64_t wait_us)
{
    const uint64_t until_ns = clock_now_ns() + wait_us * 1000;
    char line[64];
    size_t used = 0;
    while (await(child->phases, until_ns) && read(child->phases, line + used, 1) == 1) {
        if (line[used] != '\n') {
            used += used < sizeof(line) - 1;
            continue;
        }
        line[used] = '\0';
        used = 0;
        if (strcmp(line, phase) == 0)
            return true;
    }
    return false;
}

void child_signal(const struct child *child, int signal)
{
    (void)syscall(SYS_pidfd_send_signal, child->pidfd, signal, NULL, 0);
}

void child_hang_up(struct child *child)
{
    if (child->terminal >= 0)
        close(child->terminal);
    child->terminal = -1;
}

struct child_end child_end(struct child *child, uint64_t deadline_us)
{
    struct child_end end = { .is_late = !child_wait(child, deadline_us) };
    if (end.is_late)
        child_signal(child, SIGKILL);
    int status = 0;
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int fds[] = { child->pidfd, child->phases, child->terminal, child->unread[0], child->unread[1] };
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return end;
}
