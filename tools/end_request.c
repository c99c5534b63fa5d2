/* Requests to end, noted by a handler. The process has one state of signals, and so has this file. */
#include "tools/end_request.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"

static atomic_bool requested;
static volatile sig_atomic_t first, wishes;

static void on_signal(int number)
{
    wishes += number == SIGINT || number == SIGTERM;
    if (wishes > 1)
        _exit(EXIT_CODE_INTERRUPTED);
    if (first == 0)
        first = number;
    atomic_store(&requested, true);
}

void end_request_catch(int flags)
{
    static const int requests[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        sigaddset(&action.sa_mask, requests[i]);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct sigaction before;
        if (sigaction(requests[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(requests[i], &action, NULL);
    }
}

const atomic_bool *end_requested(void)
{
    return &requested;
}

int end_request_code(void)
{
    return first == 0 ? 0 : first == SIGINT ? EXIT_CODE_INTERRUPTED : EXIT_CODE_STOPPED;
}

void end_request_tell(const char *outcome)
{
    if (first == SIGINT)
        log_message(LOG_RUN, "interrupted: %s", outcome);
    else
        log_message(LOG_RUN, "stopped by SIG%s: %s", sigabbrev_np(first), outcome);
}
