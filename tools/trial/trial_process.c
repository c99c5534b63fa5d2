/* The child tells its phases on a pipe (tools/phase.h), whose end is also the child's; requests to end are read from a
 * descriptor while they are blocked. So one poll waits for everything. The process has one state of signals, and so has
 * this file. */
#include "tools/trial/trial_process.h"

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
#include "tools/phase.h"

#define PHASES_VARIABLE "PIPETRAIN_PHASES="
#define SECOND_NS UINT64_C(1000000000)
#define END_NS (60 * SECOND_NS)         /* from being asked to being killed: a step, an evaluation batch, files */
#define CANCEL_NS (2 * SECOND_NS)       /* the same where somebody waits */
#define CANNOT_START 126

static int first_request;               /* its number; 0 = none came */

struct watch {
    pid_t pid;
    int phases, requests;               /* descriptors */
    uint64_t train_ns, ask_ns, kill_ns; /* ask_ns, kill_ns: when, on clock_now_ns's clock; UINT64_MAX = never */
    char line[32];                      /* the phase that is being read */
    size_t line_bytes;
    struct trial_outcome *outcome;
};

/* Those that are held back at present. */
static sigset_t held_requests(void)
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
    const sigset_t held = held_requests();
    const int number = sigtimedwait(&held, NULL, &now);
    if (first_request == 0 && number > 0)
        first_request = number;
    return first_request == 0 ? 0 : first_request == SIGINT ? EXIT_CODE_INTERRUPTED : EXIT_CODE_STOPPED;
}

/* The environment with the descriptor for phases. Lent strings but the first, in an array that is owned, as is that. */
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

/* In the child, where a failure is its end. */
static void lead_to(const char *path, int wanted)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, wanted) < 0)
        _exit(CANNOT_START);
}

/* In the child. Its standard input is this process', which may be the configuration; requests to end stay blocked until
 * it is ready for them. */
static void become(const struct trial_process *process, char **environment, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(CANNOT_START);
    signal(SIGUSR1, SIG_DFL);           /* whatever this process ignores: it asks for the end */
    lead_to(process->out_path, STDOUT_FILENO);
    lead_to(process->err_path, STDERR_FILENO);
    environ = environment;
    execv("/proc/self/exe", process->argv);
    _exit(CANNOT_START);
}

static int start(struct watch *watch, const struct trial_process *process)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -errno;
    const int kept = fcntl(ends[1], F_DUPFD, STDERR_FILENO + 1);        /* over exec */
    char **const environment = kept >= 0 ? make_environment(kept) : NULL;
    const pid_t parent = getpid();
    int rc = environment == NULL ? -ENOMEM : 0;
    signal(SIGCHLD, SIG_DFL);           /* ignored, a child's end would be lost */
    if (rc == 0) {
        watch->pid = fork();
        if (watch->pid == 0)
            become(process, environment, parent);
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

static void take_request(struct watch *watch)
{
    struct signalfd_siginfo info;
    if (read(watch->requests, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    const bool is_second = watch->outcome->is_canceled;
    if (first_request == 0)
        first_request = (int)info.ssi_signo;
    watch->outcome->is_canceled = true;
    if (is_second)
        kill(watch->pid, SIGKILL);
    else if (info.ssi_code != SI_KERNEL)        /* a terminal's goes to the child, too: twice would be a second wish */
        kill(watch->pid, (int)info.ssi_signo);
    kill_before(watch, clock_now_ns() + CANCEL_NS);
}

/* The first step is done: what follows it is training, or an evaluation. */
static void take_line(struct watch *watch)
{
    const bool trains = strcmp(watch->line, phase_name(RUN_PHASE_TRAINING)) == 0 ||
                        strcmp(watch->line, phase_name(RUN_PHASE_EVALUATING)) == 0;
    if (trains && watch->train_ns > 0 && watch->ask_ns == UINT64_MAX)
        watch->ask_ns = clock_now_ns() + watch->train_ns;
}

/* False: the child has closed its end, as it does when it ends. */
static bool take_phases(struct watch *watch)
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
            take_line(watch);
    }
    return bytes > 0;
}

/* What is due by now: to ask for the end, or to kill. */
static void take_time(struct watch *watch)
{
    const uint64_t now_ns = clock_now_ns();
    if (now_ns >= watch->kill_ns) {
        watch->outcome->is_over_limit = !watch->outcome->is_canceled;
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
                                 { .fd = watch->requests, .events = POLLIN } };
        if (poll(both, 2, milliseconds_left(watch)) > 0) {
            if (both[1].revents != 0)
                take_request(watch);
            if (both[0].revents != 0)
                lives = take_phases(watch);
        }
        take_time(watch);
    }
    while (waitpid(watch->pid, &watch->outcome->status, 0) < 0 && errno == EINTR)
        continue;
}

int trial_process_run(const struct trial_process *process, struct trial_outcome *outcome_out)
{
    const sigset_t held = held_requests();
    const uint64_t now_ns = clock_now_ns();
    *outcome_out = (struct trial_outcome){ 0 };
    struct watch watch = { .requests = signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK),
                           .train_ns = process->train_ns,
                           .ask_ns = UINT64_MAX,
                           .kill_ns = process->limit_ns > 0 ? now_ns + process->limit_ns : UINT64_MAX,
                           .outcome = outcome_out };
    if (watch.requests < 0)
        return -errno;
    const int rc = start(&watch, process);
    if (rc == 0) {
        watch_child(&watch);
        close(watch.phases);
    }
    close(watch.requests);
    return rc;
}
