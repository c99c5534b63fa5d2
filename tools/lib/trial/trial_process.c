/* Waits by a single poll: the child writes its phases to a pipe (tools/lib/phase.h), which closes when the child ends,
 * and blocked signals are read from a signalfd. Signals belong to the whole process, so first_signal is static. */
#include "tools/lib/trial/trial_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/stop.h"
#include "tools/lib/phase.h"

#define PHASES_VARIABLE "PIPETRAIN_PHASES="
#define SECOND_NS UINT64_C(1000000000)
#define END_NS (60 * SECOND_NS)         /* from SIGUSR1 to SIGKILL: time for a step, an evaluation batch, files */
#define CANCEL_NS (2 * SECOND_NS)       /* from the user's signal to SIGKILL; shorter, because the user is waiting */
#define CANNOT_START 126

static int first_signal;                /* its number; 0: none has arrived */

struct watch {
    pid_t pid;
    int phases, signals;                /* descriptors */
    /* ask_ns, kill_ns: times of the signals on clock_now_ns's clock; UINT64_MAX: never */
    uint64_t train_ns, ask_ns, kill_ns;
    char line[32];                      /* the part of a line of phases that was read */
    size_t line_bytes;
    struct trial_exit *result;
};

/* The signals that signals_block blocked. */
static sigset_t held_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    sigset_t held, mask;
    sigemptyset(&held);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (sigismember(&mask, numbers[i]) == 1)
            sigaddset(&held, numbers[i]);
    return held;
}

int trial_process_end_code(void)
{
    static const struct timespec now;
    const sigset_t held = held_signals();
    const int number = sigtimedwait(&held, NULL, &now);
    if (first_signal == 0 && number > 0)
        first_signal = number;
    return first_signal == 0 ? 0 : first_signal == SIGINT ? EXIT_CODE_INTERRUPTED : EXIT_CODE_STOPPED;
}

/* The environment with PIPETRAIN_PHASES=FD as its first string. The array and this string are owned, the rest is
 * lent. */
static char **make_environment(int phases)
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **const copy = calloc(count + 2, sizeof(*copy));
    if (copy == NULL || asprintf(&copy[0], PHASES_VARIABLE "%d", phases) < 0) {
        free(copy);
        return NULL;
    }
    size_t kept = 1;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], PHASES_VARIABLE, sizeof(PHASES_VARIABLE) - 1) != 0)
            copy[kept++] = environ[i];
    return copy;
}

static void free_environment(char **environment)
{
    if (environment != NULL)
        free(environment[0]);
    free(environment);
}

/* Called in the child, which ends if this fails. */
static void redirect(const char *path, int wanted)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, wanted) < 0)
        _exit(CANNOT_START);
}

/* Called in the child. It inherits standard input, which may be the configuration, and the blocked signals, which it
 * unblocks itself. */
static void exec_child(const struct trial_process *process, char **environment, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CANNOT_START);
    signal(SIGUSR1, SIG_DFL);           /* even if it is ignored here, because it ends the training */
    redirect(process->out_path, STDOUT_FILENO);
    redirect(process->err_path, STDERR_FILENO);
    environ = environment;
    execv("/proc/self/exe", process->argv);
    _exit(CANNOT_START);
}

static int start_child(struct watch *watch, const struct trial_process *process)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    const int kept = fcntl(ends[1], F_DUPFD, STDERR_FILENO + 1);        /* stays open in the child after exec */
    char **const environment = kept >= 0 ? make_environment(kept) : NULL;
    const pid_t parent = getpid();
    int rc = environment == NULL ? -ENOMEM : 0;
    signal(SIGCHLD, SIG_DFL);           /* if it were ignored, waitpid would return no status */
    if (rc == 0) {
        watch->pid = fork();
        if (watch->pid == 0)
            exec_child(process, environment, parent);
        rc = watch->pid < 0 ? -errno : 0;
    }
    free_environment(environment);
    if (kept >= 0)
        close(kept);
    close(ends[1]);
    if (rc != 0)
        close(ends[0]);
    watch->phases = ends[0];
    return rc;
}

static void kill_before(struct watch *watch, uint64_t when_ns)
{
    if (when_ns < watch->kill_ns)
        watch->kill_ns = when_ns;
}

static void read_signal(struct watch *watch)
{
    struct signalfd_siginfo info;
    if (read(watch->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    const bool is_second = watch->result->is_canceled;
    if (first_signal == 0)
        first_signal = (int)info.ssi_signo;
    watch->result->is_canceled = true;
    if (is_second)
        kill(watch->pid, SIGKILL);
    /* A terminal sends the signal to the child, too, and a second one would kill it. */
    else if (info.ssi_code != SI_KERNEL)
        kill(watch->pid, (int)info.ssi_signo);
    kill_before(watch, clock_now_ns() + CANCEL_NS);
}

/* Handle a phase. When training or evaluating begins, the first step has ended, and the time starts. */
static void handle_phase(struct watch *watch)
{
    const bool trains = strcmp(watch->line, phase_name(RUN_PHASE_TRAINING)) == 0 ||
                        strcmp(watch->line, phase_name(RUN_PHASE_EVALUATING)) == 0;
    if (trains && watch->train_ns > 0 && watch->ask_ns == UINT64_MAX)
        watch->ask_ns = clock_now_ns() + watch->train_ns;
}

/* Read phases. False if the pipe is closed, so the child has ended. */
static bool read_phases(struct watch *watch)
{
    char text[256];
    const ssize_t bytes = read(watch->phases, text, sizeof(text));
    if (bytes < 0)
        return errno == EINTR;
    for (ssize_t i = 0; i < bytes; i++) {
        const bool ends = text[i] == '\n' || watch->line_bytes + 1 == sizeof(watch->line);
        watch->line[watch->line_bytes] = ends ? '\0' : text[i];
        watch->line_bytes = ends ? 0 : watch->line_bytes + 1;
        if (ends)
            handle_phase(watch);
    }
    return bytes > 0;
}

/* Send the signal that is due, if any. */
static void check_time(struct watch *watch)
{
    const uint64_t now_ns = clock_now_ns();
    if (now_ns >= watch->kill_ns) {
        watch->result->is_over_limit = !watch->result->is_canceled;
        kill(watch->pid, SIGKILL);
        watch->kill_ns = UINT64_MAX;
    } else if (now_ns >= watch->ask_ns) {
        kill(watch->pid, SIGUSR1);
        watch->train_ns = 0;
        watch->ask_ns = UINT64_MAX;
        kill_before(watch, now_ns + END_NS);
    }
}

static int milliseconds_left(const struct watch *watch)
{
    const uint64_t next_ns = watch->ask_ns < watch->kill_ns ? watch->ask_ns : watch->kill_ns;
    const uint64_t now_ns = clock_now_ns(), left_ns = next_ns > now_ns ? next_ns - now_ns : 0;
    const uint64_t left_ms = left_ns / 1000000 + 1;
    return left_ms < 60000 ? (int)left_ms : 60000;
}

static void watch_child(struct watch *watch)
{
    bool lives = true;
    while (lives) {
        struct pollfd both[] = { { .fd = watch->phases, .events = POLLIN },
                                 { .fd = watch->signals, .events = POLLIN } };
        if (poll(both, 2, milliseconds_left(watch)) > 0) {
            if (both[1].revents != 0)
                read_signal(watch);
            if (both[0].revents != 0)
                lives = read_phases(watch);
        }
        check_time(watch);
    }
    while (waitpid(watch->pid, &watch->result->status, 0) < 0 && errno == EINTR)
        continue;
}

int trial_process_run(const struct trial_process *process, struct trial_exit *exit_out)
{
    const sigset_t held = held_signals();
    const uint64_t now_ns = clock_now_ns();
    *exit_out = (struct trial_exit){ 0 };
    struct watch watch = { .signals = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK),
                           .train_ns = process->train_ns,
                           .ask_ns = UINT64_MAX,
                           .kill_ns = process->limit_ns > 0 ? now_ns + process->limit_ns : UINT64_MAX,
                           .result = exit_out };
    if (watch.signals < 0)
        return -errno;
    const int rc = start_child(&watch, process);
    if (rc == 0) {
        watch_child(&watch);
        close(watch.phases);
    }
    close(watch.signals);
    return rc;
}
