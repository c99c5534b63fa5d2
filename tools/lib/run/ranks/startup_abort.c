/* Ends all processes that a launcher started, because of an error in one of them. */
#include "tools/lib/run/ranks/startup_abort.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "sync/ranks/abort_notice.h"
#include "sync/ranks/launcher.h"
#include "tools/lib/signals.h"

#define FIRST_RANK_NS 300000000

static void ignore_signals(void)
{
    signals_block();
    signals_ignore();
}

static void drop_held(void)
{
    uint32_t dropped;
    free(log_take_held(&dropped));
}

/* The launcher may end all processes as soon as one has ended, so let rank 0 print first. */
static void let_rank_0_print(int64_t rank)
{
    const struct timespec a_while = { .tv_nsec = FIRST_RANK_NS };
    if (rank > 0)
        nanosleep(&a_while, NULL);
}

static void name_sender(int64_t rank)
{
    static char name[LOG_SENDER_MAX + 1];       /* static, because log_sender keeps the pointer */
    char host[64] = "unknown host";
    (void)gethostname(host, sizeof(host) - 1);
    if (rank <= 0)
        return;
    snprintf(name, sizeof(name), "rank %lld (%s)", (long long)rank, host);
    log_sender(name);
}

int startup_abort(const char *reason)
{
    const int64_t rank = launcher_rank();
    ignore_signals();
    drop_held();
    abort_notice_prepare();
    let_rank_0_print(rank);
    if (abort_notice_is_first(reason)) {
        name_sender(rank);
        log_message(LOG_ERROR, "%s", reason);
        (void)log_release();
    }
    return rank < 0 ? EXIT_CODE_USAGE : startup_abort_others(EXIT_CODE_USAGE);
}

int startup_abort_others(int code)
{
    ignore_signals();
    abort_notice_send(code, launcher_processes());
    return code;
}

int startup_refuse_command(const char *command)
{
    struct launcher launcher;
    char reason[LAUNCHER_REASON_BYTES], text[LAUNCHER_REASON_BYTES + 64];
    if (launcher_find(&launcher, reason) != 0)
        snprintf(text, sizeof(text), "%s: %s", command, reason);
    else if (launcher.size > 1)
        snprintf(text, sizeof(text), "%s is the work of one process, and %s started %u: start the same command without "
                 "a launcher, or with -n 1", command, launcher.name, launcher.size);
    else
        return 0;
    return startup_abort(text);
}
