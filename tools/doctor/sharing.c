/* The children are connected by a pair of sockets, through which they exchange what the trial of the reduction tells
 * (sync/reduce.h); rank 0 writes the answer to a pipe. Both have its other end, so that it closes when both have
 * ended. */
#include "tools/doctor/sharing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stage/clock.h"
#include "stage/stop.h"
#include "sync/reduce.h"

enum { PROCESSES = 2, GPUS_MOST = 16 };

#define KILLED_NS 2000000000u   /* until killed processes have ended, unless the driver holds them */
#define CANNOT_START 126
#define NUMBER_BYTES 12

struct answer {
    int rc;                     /* of reduce_try */
    char why[SHARING_WHY];
};

/* ---- a child ---- */

struct peer { uint32_t rank; int socket; };

/* If both sent first, both could wait for room in the sockets. */
static int exchange(const struct peer *peer, const void *own, void *other, size_t bytes)
{
    for (uint32_t turn = 0; turn < PROCESSES; turn++) {
        const ssize_t done = turn == peer->rank ? send(peer->socket, own, bytes, MSG_NOSIGNAL)
                                                : recv(peer->socket, other, bytes, MSG_WAITALL);
        if (done != (ssize_t)bytes)
            return -ECANCELED;
    }
    return 0;
}

/* reduce_group.gather */
static int gather(void *processes, const void *own, size_t bytes, void *all_out)
{
    const struct peer *const peer = processes;
    char *const all = all_out;
    memcpy(all + peer->rank * bytes, own, bytes);
    return exchange(peer, own, all + (1 - peer->rank) * bytes, bytes);
}

static void try_gpus(struct peer *peer, struct answer *answer)
{
    uint32_t index[GPUS_MOST];
    struct unsupported_reason reason = { .why = "" };
    const struct device_ops *const ops = device_find("cuda");
    const uint32_t found = ops != NULL ? ops->count(answer->why, sizeof(answer->why)) : 0;
    const uint32_t count = found < GPUS_MOST ? found : GPUS_MOST;
    answer->rc = -ENODEV;
    if (count == 0)
        return;
    for (uint32_t i = 0; i < count; i++)
        index[i] = i;
    const struct reduce_towers towers = {
        .run = PROCESSES * count, .here = { peer->rank * count, count }, .devices = ops, .index = index,
        .device_count = count, .on_one_host = true };
    const struct reduce_group group = { .rank = peer->rank, .size = PROCESSES, .processes = peer, .gather = gather };
    answer->rc = reduce_try("ipc", &towers, &group, &reason);
    snprintf(answer->why, sizeof(answer->why), "%s", answer->rc == 0 ? "" : reason.why);
}

int sharing_command(int argc, char **argv, uint64_t process_start_ns)
{
    (void)process_start_ns;
    if (argc != 5)
        return EXIT_CODE_USAGE;
    struct answer answer = { .rc = 0 };
    struct peer peer = { .rank = strcmp(argv[2], "0") != 0, .socket = atoi(argv[3]) };
    try_gpus(&peer, &answer);
    if (peer.rank == 0 && write(atoi(argv[4]), &answer, sizeof(answer)) != (ssize_t)sizeof(answer))
        return EXIT_CODE_OUTPUT;
    return EXIT_CODE_OK;
}

/* ---- the doctor ---- */

struct trial {
    const char *program;
    int sockets[PROCESSES], answer[2];  /* answer: the pipe */
    pid_t pids[PROCESSES];              /* 0: not started */
    int signal;                         /* that ended one of them; 0: none did */
};

static void close_ends(int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
        ends[i] = -1;
    }
}

/* Called in the child. */
static void exec_child(const char *program, char *const *argv, int socket, int answer, pid_t parent)
{
    const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || nowhere < 0)
        _exit(CANNOT_START);
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (dup2(nowhere, fd) < 0)
            _exit(CANNOT_START);
    if (fcntl(socket, F_SETFD, 0) == 0 && fcntl(answer, F_SETFD, 0) == 0)
        execv(program, argv);
    _exit(CANNOT_START);
}

static int start_child(struct trial *trial, uint32_t rank)
{
    char number[3][NUMBER_BYTES];
    const int numbers[3] = { (int)rank, trial->sockets[rank], trial->answer[1] };
    for (int i = 0; i < 3; i++)
        snprintf(number[i], sizeof(number[i]), "%d", numbers[i]);
    char *const argv[] = { "pipetrain", SHARING_COMMAND, number[0], number[1], number[2], NULL };
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        exec_child(trial->program, argv, trial->sockets[rank], trial->answer[1], parent);
    if (pid < 0)
        return -errno;
    trial->pids[rank] = pid;
    return 0;
}

/* Afterwards only the children have the ends that they use. */
static int start(struct trial *trial)
{
    int rc = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, trial->sockets) == 0 &&
             pipe2(trial->answer, O_CLOEXEC) == 0 ? 0 : -errno;
    for (uint32_t rank = 0; rank < PROCESSES && rc == 0; rank++)
        rc = start_child(trial, rank);
    close_ends(trial->sockets);
    if (trial->answer[1] >= 0)
        close(trial->answer[1]);
    trial->answer[1] = -1;
    return rc;
}

/* Read the answer until both have ended: true; or until the time is over. */
static bool await_end(const struct trial *trial, uint64_t limit_ns, struct answer *answer, size_t *bytes)
{
    const uint64_t begun_ns = clock_now_ns();
    for (uint64_t waited_ns = 0; waited_ns < limit_ns; waited_ns = clock_now_ns() - begun_ns) {
        char more[sizeof(*answer)];
        struct pollfd end = { .fd = trial->answer[0], .events = POLLIN };
        if (poll(&end, 1, (int)((limit_ns - waited_ns) / 1000000 + 1)) <= 0)
            continue;
        const ssize_t got = read(trial->answer[0], more, sizeof(more));
        if (got == 0)
            return true;
        for (ssize_t i = 0; i < got && *bytes < sizeof(*answer); i++)
            ((char *)answer)[(*bytes)++] = more[i];
    }
    return false;
}

static void kill_children(const struct trial *trial)
{
    for (uint32_t rank = 0; rank < PROCESSES; rank++)
        if (trial->pids[rank] > 0)
            kill(trial->pids[rank], SIGKILL);
}

/* The children have ended; one that even SIGKILL does not end, because the driver holds it, is left to the system. */
static void reap_children(struct trial *trial, bool have_ended)
{
    for (uint32_t rank = 0; rank < PROCESSES; rank++) {
        int status = 0;
        if (trial->pids[rank] > 0 && waitpid(trial->pids[rank], &status, have_ended ? 0 : WNOHANG) > 0 &&
            WIFSIGNALED(status))
            trial->signal = WTERMSIG(status);
    }
}

static void __attribute__((format(printf, 2, 3))) refuse(struct sharing *sharing, const char *format, ...)
{
    va_list arguments;
    sharing->works = false;
    va_start(arguments, format);
    vsnprintf(sharing->why, sizeof(sharing->why), format, arguments);
    va_end(arguments);
}

static void judge(const struct trial *trial, const struct answer *answer, size_t bytes, struct sharing *sharing_out)
{
    if (bytes == sizeof(*answer) && answer->rc == 0)
        *sharing_out = (struct sharing){ .works = true };
    else if (bytes == sizeof(*answer) && answer->why[0] != '\0')
        refuse(sharing_out, "%.*s", (int)sizeof(answer->why) - 1, answer->why);
    else if (trial->signal != 0)
        refuse(sharing_out, "a process that tried it was ended by signal %d", trial->signal);
    else
        refuse(sharing_out, "a process that tried it ended without an answer");
}

void sharing_try(const char *program, uint64_t limit_ns, struct sharing *sharing_out)
{
    struct answer answer = { .rc = 0 };
    size_t bytes = 0;
    struct trial trial = { .program = program, .sockets = { -1, -1 }, .answer = { -1, -1 } };
    const int rc = start(&trial);
    const bool is_in_time = rc == 0 && await_end(&trial, limit_ns, &answer, &bytes);
    bool have_ended = is_in_time;
    if (!is_in_time) {
        kill_children(&trial);
        have_ended = trial.answer[0] >= 0 && await_end(&trial, KILLED_NS, &answer, &bytes);
    }
    reap_children(&trial, have_ended);
    close_ends(trial.answer);
    if (rc != 0)
        refuse(sharing_out, "the processes that try it cannot be started: %s", strerror(-rc));
    else if (is_in_time)
        judge(&trial, &answer, bytes, sharing_out);
    else
        refuse(sharing_out, "the processes that tried it had not ended after %.3g s", (double)limit_ns / 1e9);
}
