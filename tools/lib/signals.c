/* Handles requests to end. In a run first by a signal handler, while there is only the main thread, which may be
 * blocked anywhere; then by a thread that waits for signals, so that no handler interrupts the run. Signals belong to
 * the process, so this file has global variables. */
#include "tools/lib/signals.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
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

static const struct request_row *_Atomic first;     /* the first request */
static atomic_bool requested;                       /* first != NULL; for code that does not use this module */
static atomic_uint impatient;                       /* number of requests that mean that somebody is waiting */
static bool is_job_of_slurm;                        /* Slurm sends SIGTERM twice in a row, and SIGKILL after KillWait */
static struct thread *thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;    /* guards the variables below */
static void (*callback)(void *arg);
static void *callback_arg;
static bool callback_saves;
static atomic_bool is_ending;                       /* further requests are ignored */

static const struct request_row *find_row(int number)
{
    size_t i = 0;
    while (request_table[i].number != number)
        i++;
    return &request_table[i];
}

/* The signals that are handled: those that were not ignored when the program was started. */
static sigset_t handled_signals(void)
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

static void set_handler(void (*handler)(int number), int flags)
{
    const sigset_t handled = handled_signals();
    const struct sigaction action = { .sa_handler = handler, .sa_mask = handled, .sa_flags = flags };
    for (size_t i = 0; i < REQUEST_COUNT; i++)
        if (sigismember(&handled, request_table[i].number) == 1)
            sigaction(request_table[i].number, &action, NULL);
}

static bool is_somebody_waiting(int number)
{
    return number == SIGINT || (number == SIGTERM && !is_job_of_slurm);
}

/* End the process at the second request that means that somebody is waiting. */
static void count_impatient(int number)
{
    if (is_somebody_waiting(number) && atomic_fetch_add(&impatient, 1) > 0 && !atomic_load(&is_ending))
        _exit(EXIT_CODE_INTERRUPTED);
}

/* Record a request. True if it is the first one. */
static bool note(int number)
{
    const struct request_row *none = NULL;
    return atomic_compare_exchange_strong(&first, &none, find_row(number));
}

/* ---- programs whose work can be given up anywhere ---- */

static void note_in_handler(int number)
{
    count_impatient(number);
    note(number);
    atomic_store(&requested, true);
}

void signals_note(int flags)
{
    set_handler(note_in_handler, flags);
}

/* ---- runs ---- */

static void end_in_handler(int number)
{
    const struct request_row *const row = find_row(number);
    struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
    char line[64];
    const char *const end = stpcpy(stpcpy(line, row->what), ": nothing was begun\n");
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0 && write(STDERR_FILENO, line, (size_t)(end - line)) < 0)
        _exit(row->exit_code);  /* stderr is closed */
    _exit(row->exit_code);
}

void signals_catch(void)
{
    const sigset_t handled = handled_signals();
    is_job_of_slurm = getenv("SLURM_JOB_ID") != NULL;
    set_handler(end_in_handler, 0);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    /* They may be blocked from before an exec, or by the parent process. */
    pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
}

void signals_block(void)
{
    const sigset_t handled = handled_signals();
    pthread_sigmask(SIG_BLOCK, &handled, NULL);
}

/* Report the first request. Lock held. */
static void report_first(int number)
{
    const char *const doing = callback_saves ? "finishing this step and saving" : "ending";
    const char *const again = !is_somebody_waiting(number) ? ""
                              : number == SIGINT ? "; Ctrl-C again quits" : "; a second SIGTERM quits";
    const char *const how = *again == '\0' ? "" : callback_saves ? " without saving" : " at once";
    log_message(LOG_RUN, "%s: %s%s%s", find_row(number)->what, doing, again, how);
}

void signals_request(int number)
{
    pthread_mutex_lock(&lock);
    if (!atomic_load(&is_ending) && note(number)) {
        report_first(number);
        atomic_store(&requested, true);
        if (callback != NULL)
            callback(callback_arg);
    }
    pthread_mutex_unlock(&lock);
}

static void signals_loop(void *arg)
{
    const sigset_t handled = handled_signals();
    (void)arg;
    for (;;) {
        const int number = sigwaitinfo(&handled, NULL);
        if (number > 0) {
            count_impatient(number);
            signals_request(number);
        }
    }
}

int signals_start(void)
{
    return thread_start(&thread, "signals", signals_loop, NULL);
}

void signals_set_callback(void (*request)(void *arg), void *arg, bool saves)
{
    pthread_mutex_lock(&lock);
    callback = request;
    callback_arg = arg;
    callback_saves = saves;
    if (callback != NULL && atomic_load(&first) != NULL)
        callback(arg);
    pthread_mutex_unlock(&lock);
}

void signals_ignore(void)
{
    pthread_mutex_lock(&lock);
    atomic_store(&is_ending, true);
    pthread_mutex_unlock(&lock);
}

bool signals_are_handled(int number)
{
    const sigset_t handled = handled_signals();
    return sigismember(&handled, number) == 1;
}

/* ---- what has come ---- */

const atomic_bool *signals_requested(void)
{
    return &requested;
}

int signals_exit_code(void)
{
    const struct request_row *const row = atomic_load(&first);
    return row == NULL ? 0 : row->exit_code;
}

int signals_number(void)
{
    const struct request_row *const row = atomic_load(&first);
    return row == NULL ? 0 : row->number;
}

void signals_report(const char *outcome)
{
    const int number = atomic_load(&first)->number;
    if (number == SIGINT)
        log_message(LOG_RUN, "interrupted: %s", outcome);
    else
        log_message(LOG_RUN, "stopped by SIG%s: %s", sigabbrev_np(number), outcome);
}
