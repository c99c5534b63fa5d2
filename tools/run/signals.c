/* First a handler, while main is alone and may be stuck anywhere; then a thread that waits for
 * signals, so that no handler ever interrupts anything. The process has one state of signals, and so
 * has this file. */
#include "tools/run/signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/thread.h"

static const struct request_row { int number, exit_code; const char *what; } request_table[] = {
    { SIGINT, EXIT_CODE_INTERRUPTED, "interrupted" },
    { SIGTERM, EXIT_CODE_STOPPED, "asked to stop" },
    { SIGHUP, EXIT_CODE_STOPPED, "asked to stop by SIGHUP" },
    { SIGUSR1, EXIT_CODE_STOPPED, "asked to stop by SIGUSR1" },
};
#define REQUEST_COUNT (sizeof(request_table) / sizeof(request_table[0]))

static struct thread *thread;
static const struct request_row *_Atomic first;     /* that came */
static atomic_bool requested;                       /* first != NULL, for who may not know of signals */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* of what follows */
static void (*taker)(void *arg);
static void *taker_arg;

static const struct request_row *find_row(int number)
{
    size_t i = 0;
    while (request_table[i].number != number)
        i++;
    return &request_table[i];
}

/* The requests that are heeded: whoever started the program may have had them ignored. */
static sigset_t heeded_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < REQUEST_COUNT; i++) {
        struct sigaction action;
        if (sigaction(request_table[i].number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, request_table[i].number);
    }
    return set;
}

/* In a handler. */
static void end_at_once(int number)
{
    const struct request_row *const row = find_row(number);
    struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
    char line[64];
    const char *const end = stpcpy(stpcpy(line, row->what), ": nothing was begun\n");
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0 && write(STDERR_FILENO, line, (size_t)(end - line)) < 0)
        _exit(row->exit_code);  /* nobody can be told */
    _exit(row->exit_code);
}

void signals_catch(void)
{
    const sigset_t heeded = heeded_signals();
    const struct sigaction action = { .sa_handler = end_at_once, .sa_mask = heeded };
    for (size_t i = 0; i < REQUEST_COUNT; i++)
        if (sigismember(&heeded, request_table[i].number) == 1)
            sigaction(request_table[i].number, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    pthread_sigmask(SIG_UNBLOCK, &heeded, NULL);    /* of an exec, or of whoever started us */
}

void signals_hold(void)
{
    const sigset_t heeded = heeded_signals();
    pthread_sigmask(SIG_BLOCK, &heeded, NULL);
}

static void receive(int number)
{
    static unsigned wishes;
    wishes += number == SIGINT || number == SIGTERM;
    if (wishes > 1)
        _exit(EXIT_CODE_INTERRUPTED);
    if (atomic_load(&first) != NULL)
        return;
    const struct request_row *const row = find_row(number);
    log_message(LOG_RUN, "%s: ending%s", row->what, wishes > 0 ? ", once more ends at once" : "");
    pthread_mutex_lock(&lock);
    atomic_store(&first, row);
    atomic_store(&requested, true);
    if (taker != NULL)
        taker(taker_arg);
    pthread_mutex_unlock(&lock);
}

static void signals_loop(void *arg)
{
    const sigset_t heeded = heeded_signals();
    (void)arg;
    for (;;) {
        const int number = sigwaitinfo(&heeded, NULL);
        if (number > 0)
            receive(number);
    }
}

int signals_start(void)
{
    return thread_start(&thread, "signals", signals_loop, NULL);
}

void signals_give(void (*request)(void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    taker = request;
    taker_arg = arg;
    if (taker != NULL && atomic_load(&first) != NULL)
        taker(arg);
    pthread_mutex_unlock(&lock);
}

bool signals_are_heeded(int number)
{
    const sigset_t heeded = heeded_signals();
    return sigismember(&heeded, number) == 1;
}

const atomic_bool *signals_requested(void)
{
    return &requested;
}

int signals_exit_code(void)
{
    const struct request_row *const row = atomic_load(&first);
    return row == NULL ? 0 : row->exit_code;
}
