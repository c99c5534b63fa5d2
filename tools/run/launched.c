/* Several processes would do the same work, or write the same files. Main thread only. */
#include "tools/run/launched.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stage/log.h"
#include "stage/stop.h"
#include "sync/ranks/launcher.h"
#include "tools/signals.h"

/* The launcher may end all processes as soon as one of them has ended: the one that prints ends first. */
static void let_the_first_end(void)
{
    const struct timespec a_while = { .tv_nsec = 500000000 };
    uint32_t dropped;
    free(log_take_held(&dropped));
    nanosleep(&a_while, NULL);
}

int launched_refuse_all(bool is_first, const char *reason)
{
    signals_block();
    signals_ignore();
    if (is_first)
        log_message(LOG_ERROR, "%s", reason);
    else
        let_the_first_end();
    return EXIT_CODE_USAGE;
}

int launched_refuse(const char *command)
{
    struct launcher launcher;
    char reason[LAUNCHER_REASON_BYTES], text[LAUNCHER_REASON_BYTES + 64];
    if (launcher_find(&launcher, reason) != 0)
        snprintf(text, sizeof(text), "%s: %s", command, reason);
    else if (launcher.size > 1)
        snprintf(text, sizeof(text), "%s is the work of one process, and %s started %u: start the same command without a "
                 "launcher, or with -n 1", command, launcher.name, launcher.size);
    else
        return 0;
    return launched_refuse_all(launcher_is_first(), text);
}
