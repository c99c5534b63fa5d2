/* pipetrain-shards: what is in shards, and whether they are whole. This file is the program around the commands:
 * command line, signals, exit code. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "stage/text/output.h"
#include "tools/shards/shards_command.h"
#include "tools/version.h"

static atomic_bool is_unwanted;
static volatile sig_atomic_t signal_received, wishes;

/* The first request makes the command end; a second SIGINT or SIGTERM is of somebody who waits. */
static void on_signal(int number)
{
    wishes += number == SIGINT || number == SIGTERM;
    if (wishes > 1)
        _exit(EXIT_CODE_INTERRUPTED);
    if (signal_received == 0)
        signal_received = number;
    atomic_store(&is_unwanted, true);
}

/* What is ignored when the program starts stays ignored. Without SA_RESTART a write that nobody reads ends, too. */
static void catch_signals(void)
{
    static const int requests[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    struct sigaction action = { .sa_handler = on_signal };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        sigaddset(&action.sa_mask, requests[i]);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct sigaction before;
        if (sigaction(requests[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(requests[i], &action, NULL);
    }
    /* A closed pipe and a file that may not grow are errors of the write that meets them. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static int run(struct shards_request *request)
{
    request->is_unwanted = &is_unwanted;
    const int code = request->command->run(request);
    if (signal_received == 0)
        return output_end() != 0 && code == EXIT_CODE_OK ? EXIT_CODE_OUTPUT : code;
    (void)fflush(stdout);
    log_message(LOG_RUN, "%s: not all was looked at", signal_received == SIGINT ? "interrupted" : "asked to stop");
    return signal_received == SIGINT ? EXIT_CODE_INTERRUPTED : EXIT_CODE_STOPPED;
}

/* A command's results are waited for, however slow their reader; these texts are not. */
static int tell(const struct shards_request *request)
{
    (void)output_start();       /* without it writing is direct */
    if (request->wants_help)
        shards_command_help(request->command);
    else
        puts(SHARDS_PROGRAM " " PIPETRAIN_VERSION);
    return output_end() != 0 ? EXIT_CODE_OUTPUT : EXIT_CODE_OK;
}

int main(int argc, char **argv)
{
    struct shards_request request;
    log_name(SHARDS_PROGRAM);
    output_fill_closed();
    catch_signals();
    if (shards_command_parse(&request, argc, argv) < 0)
        return EXIT_CODE_USAGE;
    return request.wants_help || request.wants_version ? tell(&request) : run(&request);
}
