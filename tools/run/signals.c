/* The signal thread: poll on a signalfd, ended through an eventfd. */
#include "tools/run/signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/thread.h"

struct signals {
    struct thread *thread;
    int signal_fd, end_fd;
    void (*request)(void *arg);
    void *arg;
    int received;               /* the signal thread's, read after join */
};

static sigset_t stop_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

void signals_block(void)
{
    const sigset_t set = stop_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    /* A closed pipe and the limit of a file's size are errors of the write that meets them. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static void receive(struct signals *signals)
{
    struct signalfd_siginfo info;
    if (read(signals->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    if (signals->received != 0)
        _exit(EXIT_CODE_INTERRUPTED);
    signals->received = (int)info.ssi_signo;
    log_message(LOG_RUN, "%s: ending after the current step, once more ends at once",
                signals->received == SIGINT ? "interrupted" : "asked to stop");
    signals->request(signals->arg);
}

static void signals_loop(void *arg)
{
    struct signals *const signals = arg;
    struct pollfd ends[2] = { { .fd = signals->signal_fd, .events = POLLIN },
                              { .fd = signals->end_fd, .events = POLLIN } };
    while ((ends[1].revents & POLLIN) == 0) {
        if (poll(ends, 2, -1) > 0 && (ends[0].revents & POLLIN) != 0)
            receive(signals);
    }
}

static void release(struct signals *signals)
{
    if (signals->signal_fd >= 0)
        close(signals->signal_fd);
    if (signals->end_fd >= 0)
        close(signals->end_fd);
    free(signals);
}

int signals_start(struct signals **signals_out, void (*request)(void *arg), void *arg)
{
    struct signals *const signals = calloc(1, sizeof(*signals));
    if (signals == NULL)
        return -ENOMEM;
    const sigset_t set = stop_signals();
    signals->request = request;
    signals->arg = arg;
    signals->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    signals->end_fd = eventfd(0, EFD_CLOEXEC);
    int rc = signals->signal_fd < 0 || signals->end_fd < 0 ? -errno : 0;
    if (rc == 0)
        rc = thread_start(&signals->thread, "signals", signals_loop, signals);
    if (rc != 0) {
        release(signals);
        return rc;
    }
    *signals_out = signals;
    return 0;
}

int signals_join(struct signals *signals)
{
    if (signals == NULL)
        return 0;
    const uint64_t one = 1;
    if (write(signals->end_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
        abort();
    thread_join(signals->thread);
    const int received = signals->received;
    release(signals);
    return received;
}
